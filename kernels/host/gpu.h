/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The device "cuda", shared by the files of this folder. Host code in C; kernels are reached only
 * through launch.h and sampler_launch.h.
 *
 * Open does everything that may block or fail: it allocates and loads GPU memory (gpu_load.c);
 * registers host memory, which is the host tier, the map if it is not on the GPU, slots, and the
 * lists of requests, so that kernels write misses where the host reads them; creates streams and
 * events; and loads the kernels.
 *
 * Modules. A kernel's module is loaded by its first launch at the latest. A load by other code of
 * the process holds the lock of the context until the GPU's queues are empty, and calls of rung
 * wait for it. So no work of rung waits on a stream for an action of the host.
 *
 * The current GPU. Calls of CUDA that need a context are made between rung__gpu_enter() and
 * rung__gpu_leave(), which push and pop the primary context of the store's GPU. The thread's own
 * choice stays, and only the store's GPUs get a context.
 *
 * Exit. Exit handlers unload CUDA while the store's threads run. The first open registers a handler
 * that runs before those (rung__gpu_close_at_exit()). The store's threads then fail what is in
 * flight and sleep.
 *
 * CUDA graphs. CUDA makes a capture fail, whichever thread's it is, when any thread makes a call
 * that it considers unsafe, such as cudaEventQuery(). Between enter and leave the capture mode of
 * the thread is therefore relaxed. Gathers, samples, waits and copies refuse a stream that is being
 * captured (rung__gpu_check_capture()).
 *
 * Callers' addresses and streams are checked before they are used: ids, output and seeds. Memory of
 * another GPU is refused, and so is a gather on a stream of another GPU. rung_request_wait_stream()
 * accepts streams of any GPU.
 */
#ifndef RUNG_KERNELS_GPU_H
#define RUNG_KERNELS_GPU_H

#include <pthread.h>

#include "base/queue.h"
#include "device/device.h"
#include "cuda_status.h"
#include "launch.h"

/* Counters of the kernels of a request, in device memory. */
struct gpu_counts {
	struct rung__cuda_counts gather;
	unsigned long long scatter_blocks[RUNG__SCATTERS_MAX];
};

/* Output of the kernels for the host, in mapped host memory: lines that no other request uses. */
struct gpu_mail {
	_Alignas(128) struct rung__cuda_report report;
	uint32_t gathered, scattered[RUNG__SCATTERS_MAX]; /* words, see struct rung__cuda_end */
};

/* The end of one kind of launch of a request, the last one that was queued on a stream. */
struct gpu_end {
	cudaEvent_t event; /* streams wait for it; the host asks it only for errors */
	uint32_t *word;
	uint32_t turn;    /* of the launch; 0: none yet */
	const char *what; /* it does, for messages */
};

/* One request's own: nothing of it is shared with another. */
struct gpu_request {
	struct gpu_end gathered;
	struct gpu_end scattered[RUNG__SCATTERS_MAX];
	struct gpu_counts *counts; /* device memory */
	struct gpu_mail *mail;     /* mapped host memory */
	struct rung__request_buffers lists;
	int last_scatter; /* -1: none since the gather */
};

/* Host memory that CUDA knows through us. */
struct gpu_pin {
	struct rung__link link;
	unsigned char *memory;
	uint64_t bytes;
};

struct rung__device {
	int gpu; /* that gathers */
	int gpus[RUNG_GPUS_MAX];
	uint32_t gpu_count;
	cudaStream_t stream; /* RUNG_STREAM_OWN */
	cudaStream_t scatter_stream;
	unsigned gather_blocks, scatter_blocks;
	uint64_t row_bytes;
	struct rung__cuda_gather gather;      /* the constant part of all gathers */
	int local_view, peer_view, host_view; /* -1: no rows */

	void *local;
	void *peer[RUNG_GPUS_MAX];
	bool peer_is_ours;         /* else it was opened from another process */
	bool peer_is_left;         /* others have it open */
	void *map;                 /* on the GPU; NULL: in host memory */
	struct gpu_counts *counts; /* [request_count] */
	struct gpu_mail *mails;    /* [request_count] */
	uint64_t mails_bytes;
	struct gpu_request *requests;
	uint32_t request_count;
	pthread_mutex_t pins_lock; /* loaders pin memory, too */
	struct rung__queue pins;
};

/** A caller's stream as CUDA knows it. */
static inline cudaStream_t rung__gpu_stream(const struct rung__device *device,
                                            struct CUstream_st *stream)
{
	return stream == RUNG_STREAM_OWN ? device->stream : stream;
}

#define RUNG__GPU_SAME    (-1) /* nothing for rung__gpu_leave() to undo */
#define RUNG__GPU_EXITING (-2) /* CUDA must not be called any more */

/**
 * Make a GPU current on this thread, and allow its calls while streams are captured into CUDA
 * graphs, until rung__gpu_leave(*before_out), which is set in every case. Each call of CUDA that
 * needs a context belongs between the two: elsewhere it would create one on the GPU that is current
 * for the thread. Calls nest. RUNG_E_CANCELED once the process exits: release nothing then, and
 * *before_out is RUNG__GPU_EXITING. A thread that is between the two already continues.
 */
int rung__gpu_enter(int gpu, int *before_out);
void rung__gpu_leave(int before);

/**
 * From now on exit() waits for threads between the two, 5 s at most, and refuses others, before
 * CUDA is unloaded. Call it after CUDA has been used.
 */
void rung__gpu_close_at_exit(void);

/** Let a thread of the store choose the GPU for good: rung__gpu_enter() then pushes no context. */
int rung__gpu_adopt(struct rung__device *device);

/**
 * Before anything is put on a caller's stream: RUNG_E_NOSUP while it is captured into a CUDA graph.
 * Work of rung's would be refused halfway, and spoil the graph.
 * @param what  is refused, for the message
 */
int rung__gpu_check_capture(cudaStream_t stream, const char *what);

/**
 * Look up a function of the driver's, with which this library is not linked.
 * @param version       of CUDA that had it first
 * @param function_out  a pointer to a function
 */
int rung__gpu_find(const char *name, unsigned version, const char *cure, void *function_out);

/** The precondition of all of it: a registered page has the same address on both sides. */
int rung__gpu_check_addresses(int gpu);

/** RUNG_E_NOSUP where the environment makes each launch wait: nothing could be timed. */
int rung__gpu_check_launches(void);

/* ---- gpu_memory.c ---- */

/** Allocate GPU memory; the error contains the free memory. */
int rung__gpu_alloc(int gpu, const char *what, uint64_t bytes, void **memory_out);

/**
 * Allocate memory for `rows` rows that are interleaved over the GPUs, all readable by the one that
 * gathers. @param align of each part's bytes
 */
int rung__gpu_alloc_shares(struct rung__device *device, const char *what, uint64_t rows,
                           uint64_t stride, uint64_t align, void **memory_out);

/** Add the next rows to views. @return the view's number; -1: there are no rows */
int rung__gpu_add_view(struct rung__cuda_view *views, uint32_t *view_count, void *const *bases,
                       uint32_t base_count, uint64_t stride, uint64_t rows);

/** Copy and wait: cudaMemcpy() may return before all of it has arrived. */
int rung__gpu_copy_now(void *to, const void *from, uint64_t bytes, enum cudaMemcpyKind kind,
                       const char *what);

/** Free it; also when CUDA has broken down. NULL is allowed. */
void rung__gpu_release(int gpu, void *memory);

/**
 * One registration of rung__gpu_pin(); whole huge pages. A kernel reads across the border of two,
 * a copy of CUDA's across it is refused. Tests choose a smaller value.
 */
#ifndef RUNG__REGISTER_BYTES
#define RUNG__REGISTER_BYTES (1ull << 30)
#endif

int rung__gpu_pin(struct rung__device *device, const char *what, void *memory, uint64_t bytes,
                  bool sealed);
void rung__gpu_unpin(struct rung__device *device, void *memory);

/** The tiers in GPU memory, loaded or opened, and the views of all. */
int rung__gpu_open_tiers(struct rung__device *device, const struct rung__device_args *args);
void rung__gpu_close_tiers(struct rung__device *device);

/* ---- gpu_load.c ---- */

/**
 * Load rows of a file: row i of `ranks` goes to bases[i mod base_count], at slot i div base_count
 * of the file's stride. The file may end inside the last row.
 */
int rung__gpu_load(struct rung__device *device, const struct rung__features *file,
                   const struct rung__ranks *ranks, void *const *bases, uint32_t base_count);

/* ---- gpu_gather.c ---- */

int rung__gpu_check_ids(const struct rung__device *device, const void *ids);
int rung__gpu_gather(struct rung__device *device, uint32_t request_idx, const struct rung_ids *ids,
                     bool known, void *out, uint64_t out_stride, struct CUstream_st *stream);
int rung__gpu_gathered(struct rung__device *device, uint32_t request_idx, bool check,
                       struct rung__gather_result *result_out);
int rung__gpu_scatter(struct rung__device *device, uint32_t request_idx,
                      const struct rung__scatter *scatter);
int rung__gpu_scattered(struct rung__device *device, uint32_t request_idx, uint32_t scatter_idx,
                        bool check);
int rung__gpu_order(struct rung__device *device, uint32_t request_idx, struct CUstream_st *stream);

/* ---- gpu_events.c ---- */

/** An event without times. @param flags  additional ones */
int rung__gpu_make_event(cudaEvent_t *event_out, unsigned flags);

int rung__gpu_stream_open(struct rung__device *device, struct CUstream_st **stream_out);
void rung__gpu_stream_close(struct rung__device *device, struct CUstream_st *stream);
int rung__gpu_event_open(struct rung__device *device, struct CUevent_st **event_out);
void rung__gpu_event_close(struct rung__device *device, struct CUevent_st *event);
int rung__gpu_event_record(struct rung__device *device, struct CUevent_st *event,
                           struct CUstream_st *stream);
int rung__gpu_event_order(struct rung__device *device, struct CUevent_st *event,
                          struct CUstream_st *stream);
int rung__gpu_event_passed(struct rung__device *device, struct CUevent_st *event, bool block);
int rung__gpu_fetch(struct rung__device *device, void *to, const void *from, uint64_t bytes,
                    struct CUstream_st *stream);

/* ---- gpu_sampler.c ---- */

int rung__gpu_sampler_open(struct rung__device *device, const struct rung__sampler_args *args,
                           struct rung__device_sampler **sampler_out);
void rung__gpu_sampler_close(struct rung__device_sampler *sampler);
uint64_t rung__gpu_sampler_vertices_max(const struct rung__device_sampler *sampler);
int rung__gpu_batch_open(struct rung__device_sampler *sampler,
                         struct rung__device_batch **batch_out);
void rung__gpu_batch_close(struct rung__device_batch *batch);
int rung__gpu_sample(struct rung__device_batch *batch, const uint64_t *seeds, uint64_t seed_count,
                     uint64_t batch_key, struct CUstream_st *stream);
int rung__gpu_sampled(struct rung__device_batch *batch, bool block,
                      struct rung__sampled *sampled_out);

/**
 * Make the GPU current and check a caller's arguments: RUNG_E_NOSUP while the stream is being
 * captured. An address that the GPU cannot access would break its context permanently: RUNG_E_INVAL
 * for memory of another GPU, even one that this GPU can read, and for host memory that is not
 * registered. After a failure there is nothing to leave.
 * @param what       the call, for messages
 * @param stream     the caller's; in CUDA's form afterwards
 * @param memory_is  description for messages; NULL: no memory to check
 */
int rung__gpu_begin(const struct rung__device *device, const char *what,
                    struct CUstream_st **stream, const char *memory_is, const void *memory,
                    int *before_out);

/** After launches on a caller's stream: if `rc` is a failure, wait for the queued work. */
int rung__gpu_end(const struct rung__device *device, struct CUstream_st *stream, int rc,
                  int before);

/** After a failure between queueing work on a stream: the queued work must end before its memory is
 * reused. */
void rung__gpu_drain(cudaStream_t stream);

/** 1 when an event has passed, 0 when it has not, a failure. `block`: wait instead of 0. */
int rung__gpu_has_passed(const struct rung__device *device, cudaEvent_t event, bool block,
                         const char *what);

/* ---- gpu_info.c ---- */

int rung__gpu_current(void);
int rung__gpu_info(int gpu, struct rung_gpu_info *info_out);
int rung__gpu_can_read(int gpu, int peer);

/* ---- gpu_meter.c ---- */

extern const struct rung__meter_ops rung__cuda_meter;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The device "cuda", shared by the files of this folder. Host code in C; kernels are reached only
 * through launch.h and sampler_launch.h.
 *
 * Open does everything that may block or fail: it allocates and loads GPU memory (gpu_load.c);
 * registers host memory (the host tier, the map if it is not on the GPU, slots, and the lists of
 * requests, so that kernels write misses where the host reads them); creates streams and events;
 * and loads the kernels.
 *
 * Modules. A kernel's module is loaded by its first launch at the latest. A load by other code of
 * the process holds the lock of the context until the GPU's queues are empty, and calls of rung
 * wait for it. Therefore no work of rung waits on a stream for an action of the host.
 *
 * The current GPU. Calls of CUDA that need a context are made between rung__gpu_enter() and
 * rung__gpu_leave(), which push and pop the primary context of the store's GPU. The thread's own
 * choice of a GPU is unchanged, and only the store's GPUs get a context.
 *
 * Exit. Exit handlers unload CUDA while the store's threads run. The first open registers a handler
 * that runs before those (rung__gpu_close_at_exit()). The store's threads then fail the requests in
 * flight, and sleep.
 *
 * CUDA graphs. If any thread makes a call that CUDA considers unsafe, such as cudaEventQuery(), a
 * capture in any thread fails. Between enter and leave the capture mode of the thread is therefore
 * relaxed. Gathers, samples, waits and copies refuse a stream that is being
 * captured (rung__gpu_check_capture()).
 *
 * Callers' streams and addresses (ids, output and seeds) are checked before they are used. Memory
 * of another GPU is refused, and so is a gather on a stream of another GPU.
 * rung_request_wait_stream() accepts streams of any GPU.
 */
#ifndef RUNG_KERNELS_GPU_H
#define RUNG_KERNELS_GPU_H

#include <pthread.h>

#include "base/queue.h"
#include "device/device.h"
#include "cuda_status.h"
#include "launch.h"
#include "quant/quant.h"

/* Counters of the kernels of a request, in device memory. */
struct gpu_counts {
	struct rung__cuda_counts gather;
	unsigned long long scatter_blocks[RUNG__SCATTERS_MAX];
};

/* Output of the kernels for the host, in mapped host memory. Requests share no cache line. */
struct gpu_mail {
	_Alignas(128) struct rung__cuda_report report;
	uint32_t gathered, scattered[RUNG__SCATTERS_MAX]; /* words, see struct rung__cuda_end */
};

/* The end of one kind of launch of a request, the last one that was queued on a stream. */
struct gpu_end {
	cudaEvent_t event; /* streams wait for it; the host queries it only for errors */
	/* a word of the mail, which is set to the turn when the launch has ended */
	uint32_t *word;
	uint32_t turn;    /* number of the launch; 0: none yet */
	const char *what; /* names the launch in messages */
};

/* State of one request; not shared with other requests. */
struct gpu_request {
	struct gpu_end gathered;
	struct gpu_end scattered[RUNG__SCATTERS_MAX];
	struct gpu_counts *counts; /* device memory */
	struct gpu_mail *mail;     /* mapped host memory */
	struct rung__request_buffers lists;
	int last_scatter; /* -1: no scatter since the gather */
	/* a gather has failed, perhaps before the kernel that resets the counts */
	bool counts_are_stale;
};

/* Host memory that this device has registered with CUDA. */
struct gpu_pin {
	struct rung__link link;
	unsigned char *memory;
	uint64_t bytes;
};

struct rung__device {
	int gpu;                 /* the GPU that gathers */
	int gpus[RUNG_GPUS_MAX]; /* gpus[0] is gpu; all hold shares of the peer tier */
	uint32_t gpu_count;
	cudaStream_t stream;         /* RUNG_STREAM_OWN */
	cudaStream_t scatter_stream; /* all scatters: they never wait for a caller's stream */
	unsigned gather_blocks, scatter_blocks; /* bounds of the grids */
	uint64_t row_bytes;                     /* of a stored row */
	struct rung__cuda_gather gather;        /* the constant part of all gathers */
	int local_view, peer_view, host_view;   /* -1: no rows */

	void *local;               /* rows of the tier "gpu" */
	void *peer[RUNG_GPUS_MAX]; /* rows of the tier "peer", one share per GPU */
	bool peer_is_ours;         /* false: opened from another process */
	/* at close, other processes have the memory open, so it is not freed */
	bool peer_is_left;
	void *map;                 /* rank_of_vertex on the GPU; NULL: in host memory */
	void *column_scales;       /* on the GPU; NULL: rows are copied, or have their own scales */
	struct gpu_counts *counts; /* [request_count] */
	struct gpu_mail *mails;    /* [request_count] */
	uint64_t mails_bytes;
	struct gpu_request *requests;
	uint32_t request_count;
	pthread_mutex_t pins_lock; /* loaders pin memory from other threads */
	struct rung__queue pins;
};

/** A caller's stream as a CUDA handle: RUNG_STREAM_OWN is the device's own. */
static inline cudaStream_t rung__gpu_stream(const struct rung__device *device,
                                            struct CUstream_st *stream)
{
	return stream == RUNG_STREAM_OWN ? device->stream : stream;
}

#define RUNG__GPU_SAME    (-1) /* rung__gpu_leave() has nothing to undo */
#define RUNG__GPU_EXITING (-2) /* the process exits, so CUDA must not be called any more */

/**
 * Make a GPU current on this thread, and allow its calls while streams are captured into CUDA
 * graphs, until rung__gpu_leave(*before_out). *before_out is always set. Each call of CUDA that
 * needs a context belongs between enter and leave: elsewhere it would create a context on the
 * thread's current GPU. Calls nest. Once the process exits, the result is RUNG_E_CANCELED and
 * *before_out is RUNG__GPU_EXITING: release nothing then. A thread that is already between enter
 * and leave continues.
 */
int rung__gpu_enter(int gpu, int *before_out);
void rung__gpu_leave(int before);

/**
 * From now on exit() waits for threads between enter and leave, 5 s at most, and refuses others,
 * before CUDA is unloaded. Call it after CUDA has been used: exit handlers run in reverse order.
 */
void rung__gpu_close_at_exit(void);

/** Make the GPU current on a thread of the store permanently, so that rung__gpu_enter() pushes no
 * context. */
int rung__gpu_adopt(struct rung__device *device);

/**
 * Before work is queued on a caller's stream: RUNG_E_NOSUP while it is captured into a CUDA graph.
 * CUDA would refuse some of rung's calls, which invalidates the capture.
 * @param what  names the call in the message
 */
int rung__gpu_check_capture(cudaStream_t stream, const char *what);

/**
 * Look up a function of the driver, with which this library is not linked.
 * @param version       the first version of CUDA that has it
 * @param cure          advice for the message
 * @param function_out  pointer to a function pointer
 */
int rung__gpu_find(const char *name, unsigned version, const char *cure, void *function_out);

/** RUNG_E_NOSUP unless registered host memory has the same address on the GPU, which all code here
 * requires. */
int rung__gpu_check_addresses(int gpu);

/** RUNG_E_NOSUP if the environment makes launches blocking, so that nothing can be timed. */
int rung__gpu_check_launches(void);

/* ---- gpu_memory.c ---- */

/** Allocate GPU memory; the message of a failure has the free memory. */
int rung__gpu_alloc(int gpu, const char *what, uint64_t bytes, void **memory_out);

/**
 * Allocate memory for `rows` rows that are interleaved over the GPUs, readable by the GPU that
 * gathers.
 * @param align       rounds up the bytes of each share
 * @param memory_out  [gpu_count] the shares; after a failure, those that were allocated
 */
int rung__gpu_alloc_shares(struct rung__device *device, const char *what, uint64_t rows,
                           uint64_t stride, uint64_t align, void **memory_out);

/** The form of decoded rows without the scales of columns, which are not on a GPU yet. */
static inline struct rung__cuda_form rung__gpu_form(const struct rung__row_form *form)
{
	return (struct rung__cuda_form){ .format = (uint32_t)form->quant.format,
		                         .dtype = form->dtype,
		                         .columns = (uint32_t)form->quant.columns };
}

/** Append a view of the next `rows` rows. @return its number; -1 without rows */
int rung__gpu_add_view(struct rung__cuda_view *views, uint32_t *view_count, void *const *bases,
                       uint32_t base_count, uint64_t stride, uint64_t rows);

/** Copy and wait: cudaMemcpy() alone may return before all bytes have arrived. */
int rung__gpu_copy_now(void *to, const void *from, uint64_t bytes, enum cudaMemcpyKind kind,
                       const char *what);

/** Free GPU memory, even after CUDA has failed. NULL is allowed. */
void rung__gpu_release(int gpu, void *memory);

/**
 * Bytes of one registration of rung__gpu_pin(), whole huge pages. A kernel can read across the
 * border of two registrations, whereas CUDA refuses a copy across it. Tests use a smaller value.
 */
#ifndef RUNG__REGISTER_BYTES
#define RUNG__REGISTER_BYTES (1ull << 30)
#endif

/**
 * Register host memory until rung__gpu_unpin() or the device is closed.
 * @param what    names the memory in messages
 * @param sealed  the memory is read-only for this process
 */
int rung__gpu_pin(struct rung__device *device, const char *what, void *memory, uint64_t bytes,
                  bool sealed);
void rung__gpu_unpin(struct rung__device *device, void *memory);

/** Load or open the tiers in GPU memory, register host memory, and set the views of all tiers. */
int rung__gpu_open_tiers(struct rung__device *device, const struct rung__device_args *args);
void rung__gpu_close_tiers(struct rung__device *device);

/* ---- gpu_load.c ---- */

/**
 * Load rows of a file: row i of `ranks` goes to bases[i mod base_count], at slot i div base_count,
 * with the stride of the file. The file may end inside the last row.
 */
int rung__gpu_load(struct rung__device *device, const struct rung__features *file,
                   const struct rung__ranks *ranks, void *const *bases, uint32_t base_count);

/* ---- gpu_gather.c: functions of the table in device.h ---- */

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

/** Create an event without timing. @param flags  additional flags */
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

/* ---- gpu_sampler.c: functions of the table in device.h ---- */

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
 * @param what       names the call in messages
 * @param stream     in: the caller's stream; out: a CUDA handle
 * @param memory_is  names the memory in messages; NULL: no memory to check
 */
int rung__gpu_begin(const struct rung__device *device, const char *what,
                    struct CUstream_st **stream, const char *memory_is, const void *memory,
                    int *before_out);

/** The counterpart of rung__gpu_begin(), after launches on a caller's stream. If `rc` is a failure,
 * explain it and wait for the queued work. @return the failure */
int rung__gpu_end(const struct rung__device *device, struct CUstream_st *stream, int rc,
                  int before);

/** After a failure in the middle of queueing work: wait for the work that was queued, because its
 * memory is about to be reused. */
void rung__gpu_drain(cudaStream_t stream);

/** @param block  wait instead of returning 0
 * @return 1 if an event has passed, 0 if it has not, or a failure */
int rung__gpu_has_passed(const struct rung__device *device, cudaEvent_t event, bool block,
                         const char *what);

/* ---- gpu_info.c ---- */

int rung__gpu_current(void);
int rung__gpu_info(int gpu, struct rung_gpu_info *info_out);
int rung__gpu_can_read(int gpu, int peer);

/* ---- gpu_meter.c ---- */

extern const struct rung__meter_ops rung__cuda_meter;

#endif

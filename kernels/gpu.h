/* SPDX-License-Identifier: Apache-2.0 */
/** The device "cuda" inside, shared by gpu*.c. Host code in C: only launch.h leads to kernels. */
#ifndef RUNG_KERNELS_GPU_H
#define RUNG_KERNELS_GPU_H

#include "device.h"
#include "cuda_status.h"
#include "launch.h"

/** The wait of cuStreamWaitValue32: until the word is `value` or beyond, cyclically. */
typedef int (*gpu_wait_value)(cudaStream_t stream, unsigned long long address, uint32_t value, unsigned flags);

/* The word that a stream waits for, and how many rows there are then: mapped host memory, a line of its own. */
struct gpu_gate {
	_Alignas(64) uint64_t count;
	uint32_t word;
};

/* One request's own: nothing of it is shared with another. */
struct gpu_request {
	cudaEvent_t gathered;
	cudaEvent_t scattered[RUNG__SCATTERS_MAX];
	struct rung__cuda_counts *counts;    /* device memory */
	struct rung__cuda_report *report;    /* mapped host memory */
	struct rung__lists lists;
	cudaStream_t stream;                 /* of its gather */
	int last_scatter;                    /* -1: none since the gather */
	struct gpu_gate *gate;               /* with a stage */
	uint32_t turn;                       /* of the gate's word: that of the last gather */
};

/* Host memory that CUDA knows through us. */
struct gpu_pin {
	struct gpu_pin *next;
	unsigned char *memory;
	uint64_t bytes;
};

struct rung__device {
	int gpu;                              /* that gathers */
	int gpus[RUNG_GPUS_MAX];
	uint32_t gpu_count;
	cudaStream_t stream;                  /* of gathers whose caller has none */
	cudaStream_t scatter_stream;
	unsigned gather_blocks, scatter_blocks;
	uint64_t row_bytes;
	struct rung__cuda_gather gather;      /* what is the same in all gathers */
	int local_view, peer_view, host_view; /* -1: no rows */

	void *local;
	void *peer[RUNG_GPUS_MAX];
	bool peer_is_ours;                    /* else it was opened from another process */
	void *map;                            /* on the GPU; NULL: in host memory */
	struct rung__cuda_counts *counts;     /* [request_count] */
	struct rung__cuda_report *reports;    /* [request_count] */
	uint64_t reports_bytes;
	uint32_t stage_rows;                  /* 0: no request has a stage */
	gpu_wait_value wait_value;
	struct gpu_gate *gates;               /* [request_count] */
	uint64_t *stage_offsets;              /* [stage_rows] where rows are in any stage */
	uint64_t gates_bytes, stage_offsets_bytes;
	struct gpu_request *requests;
	uint32_t request_count;
	struct gpu_pin *pins;
};

/** Make a GPU current on this thread; *before_out is to be made so again by rung__gpu_leave(). */
int rung__gpu_enter(int gpu, int *before_out);
void rung__gpu_leave(int before);

/** What all of it rests on: a registered page has one address for both sides. */
int rung__gpu_check_addresses(int gpu);

/** Look for the driver's cuStreamWaitValue32. @param cure  what to do without it, for the sentence of the failure */
int rung__gpu_find_wait(gpu_wait_value *wait_out, const char *cure);

/* ---- gpu_memory.c ---- */

/** Take GPU memory, saying how much there is when there is not enough. */
int rung__gpu_take(int gpu, const char *what, uint64_t bytes, void **memory_out);

/** Let the GPU that gathers read the memory of another, or of itself. */
int rung__gpu_reach(const struct rung__device *device, int gpu);

/** Free it; also when CUDA has broken down. NULL is allowed. */
void rung__gpu_give_back(int gpu, void *memory);

int rung__gpu_pin(struct rung__device *device, const char *what, void *memory, uint64_t bytes, bool sealed);
void rung__gpu_unpin(struct rung__device *device, void *memory);

/** The tiers in GPU memory, loaded or opened, and the views of all. */
int rung__gpu_open_tiers(struct rung__device *device, const struct rung__device_args *args);
void rung__gpu_close_tiers(struct rung__device *device);

/* ---- gpu_load.c ---- */

/**
 * Load rows of a file: row i of `ranks` goes to bases[i mod base_count], at slot i div base_count of the file's stride. The file may end
 * inside the last row.
 */
int rung__gpu_load(struct rung__device *device, const struct rung__features *file, const struct rung__ranks *ranks, void *const *bases,
                   uint32_t base_count);

/* ---- gpu_gather.c ---- */

int rung__gpu_gather(struct rung__device *device, uint32_t request_idx, const struct rung_ids *ids, void *out, uint64_t out_stride,
                  struct CUstream_st *stream);
int rung__gpu_gathered(struct rung__device *device, uint32_t request_idx, bool block, struct rung__found *found_out);
int rung__gpu_scatter(struct rung__device *device, uint32_t request_idx, const struct rung__scatter *scatter);
int rung__gpu_scattered(struct rung__device *device, uint32_t request_idx, uint32_t scatter_idx);
void rung__gpu_release(struct rung__device *device, uint32_t request_idx, uint64_t count);
int rung__gpu_order(struct rung__device *device, uint32_t request_idx, struct CUstream_st *stream);

/* ---- gpu_sampler.c ---- */

int rung__gpu_sampler_open(struct rung__device *device, const struct rung__sampler_args *args, struct rung__device_sampler **sampler_out);
void rung__gpu_sampler_close(struct rung__device_sampler *sampler);
int rung__gpu_batch_open(struct rung__device_sampler *sampler, struct rung__device_batch **batch_out);
void rung__gpu_batch_close(struct rung__device_batch *batch);
int rung__gpu_sample(struct rung__device_batch *batch, const uint64_t *seeds, uint64_t seed_count, uint64_t batch_key,
                     struct CUstream_st *stream);
int rung__gpu_sampled(struct rung__device_batch *batch, bool block, struct rung__sampled *sampled_out);

/** A pointer that the GPU does not reach would break its context for good. */
int rung__gpu_check_memory(const char *what, const void *memory);

/** Behind a failure in the midst of putting work on a stream: what was put must end before its memory is used again. */
void rung__gpu_drain(cudaStream_t stream);

/** 1 when an event has passed, 0 when it has not, a failure. */
int rung__gpu_has_passed(cudaEvent_t event, const char *what);

/* ---- gpu_info.c ---- */

int rung__gpu_current(void);
int rung__gpu_info(int gpu, struct rung_gpu_info *info_out);
int rung__gpu_can_read(int gpu, int peer);

/* ---- gpu_meter.c ---- */

extern const struct rung__meter_ops rung__cuda_meter;

#endif

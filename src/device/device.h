/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Devices that gather on a stream: the table of functions that the store calls, just as it calls
 * the table of a reader.
 *
 * The CPU does not need it: the calling thread copies (gather.c), and refill copies from the slots.
 * A device copies with kernels: it owns memory, reaches host memory through registration, and
 * reports its results later:
 *
 *     gather() -> kernel on the caller's stream -> gathered(): hits, ids out of range, and the
 *                 misses in the lists of the request
 *     scatter() -> kernel on the device's own stream: rows from staging slots to output rows
 *                  -> scattered()
 *
 * The kernels signal completion by storing words in host memory; gathered() and scattered() load
 * those words.
 *
 * The submitting thread calls gather() and order(). The device thread calls gathered(), scatter()
 * and scattered(); if nothing is cold it does not exist, and the waiting thread calls them. Refill
 * never calls a device.
 */
#ifndef RUNG__DEVICE_H
#define RUNG__DEVICE_H

#include "rung/device.h"
#include "rung/sampler.h"
#include "device/meter.h"
#include "tier/reader.h"

#define RUNG__DEVICE_ABI       1
#define RUNG__SCATTERS_MAX     4u /* most scatters of one request that are in flight at a time */
#define RUNG__GPU_HANDLE_BYTES 64 /* size of struct rung__gpu_handle */

struct rung__device; /* private state of the implementation */
struct CUevent_st;   /* as CUDA names its events */

/** A range of ranks: rank_first .. rank_first + row_count. */
struct rung__ranks {
	uint64_t rank_first;
	uint64_t row_count;
};

/** Names an allocation on a GPU for another process (CUDA IPC). */
struct rung__gpu_handle {
	unsigned char bytes[RUNG__GPU_HANDLE_BYTES];
};

/** Host memory of one request that the device reads and writes: the lists of struct rung__misses.
 * The gather writes miss_ranks and miss_rows; the scatter reads offsets and out_rows. */
struct rung__request_buffers {
	uint64_t *miss_ranks, *offsets; /* [batch_rows_max] each; offsets: in the pool */
	uint32_t *miss_rows, *out_rows;
	void *block; /* the allocation that contains all of them */
	uint64_t block_bytes;
};

struct rung__row_form;

struct rung__device_args {
	/* [gpu_count] the first one gathers; a GPU that is listed several times counts as several
	 * GPUs */
	const int *gpus;
	uint32_t gpu_count; /* 1..RUNG_GPUS_MAX */
	const struct rung__features *features;
	/* how rows are gathered and scattered; used only while the device is opened */
	const struct rung__row_form *form;
	uint64_t vertex_count;
	struct rung__ranks local; /* ranks in the memory of the GPU that gathers */
	/* ranks of the peer tier: row i is on GPU i mod gpu_count, in slot i div gpu_count */
	struct rung__ranks peer;
	/* [gpu_count]: open these instead of allocating memory; NULL: allocate and load it */
	const struct rung__gpu_handle *peer_handles;
	struct rung__view host;
	uint64_t host_bytes;        /* size of the memory of `host`, whole pages */
	const void *rank_of_vertex; /* NULL: ids are ranks */
	unsigned map_bytes;         /* size of an entry of that map: 4 or 8 */
	bool map_on_gpu;            /* copy the map to the GPU that gathers */
	bool sealed; /* no process, not even this one, can write to host rows and map */
	const struct rung__request_buffers *lists; /* [request_count] */
	uint32_t request_count;
};

/** Results of a gather. */
struct rung__gather_result {
	uint64_t miss_count;
	uint64_t bad_count; /* ids out of range */
	/* smallest index of an id out of range; unset, as bad_id, if bad_count is 0 */
	uint64_t bad_index;
	uint64_t bad_id;                           /* the id at bad_index */
	uint64_t local_rows, peer_rows, host_rows; /* hits of each tier */
};

/** Rows to be copied from staging slots: entries first .. first + count of the request's offsets
 * and out_rows. */
struct rung__scatter {
	uint64_t first;
	uint64_t count;
	const unsigned char *slots; /* pinned */
	uint64_t offset_align;      /* a power of two that divides every offset */
	unsigned char *out;
	uint64_t out_stride;
	/* below RUNG__SCATTERS_MAX, and not in use by another scatter of the request */
	uint32_t idx;
};

/** An array of a staged graph. */
struct rung__graph_array {
	/* only data_offset and file_bytes of its layout are used */
	const struct rung__features *file;
	uint64_t item_count;
	uint32_t item_bytes;
	/* the first gpu_lines lines of 128 bytes go to the GPUs, interleaved; the others stay in
	 * host memory */
	uint64_t gpu_lines;
};

/** Where the arrays of a graph are: the first lines (of 128 bytes) of each array on the GPUs, the
 * others in host memory. Both parts are within the plan's budgets for the GPUs and for host
 * memory. */
struct rung__graph_location {
	uint64_t bytes;        /* size of all lines; 0 unless rung_plan_opts.sample_on_gpu */
	uint64_t gpu_bytes;    /* part of `bytes` on all GPUs together */
	uint64_t indptr_lines; /* on the GPUs */
	uint64_t indices_lines;
};

struct rung__sampler_args {
	struct rung__graph_array indptr, indices;
	const uint32_t *fanouts; /* [hop_count] */
	uint32_t hop_count;
	uint64_t seed;
	uint64_t seed_count_max;   /* of a batch */
	uint64_t vertex_count_max; /* of a batch; 0: the largest number that is possible */
	uint64_t edge_count_max;   /* of one hop; 0: default */
};

struct rung__device_sampler;
struct rung__device_batch;

/** A complete batch. All pointers are to memory of the device, and of the batch. */
struct rung__sampled {
	const uint64_t *vertices;
	uint64_t vertex_count;
	struct rung_block blocks[RUNG_HOPS_MAX];
};

struct rung__device_ops {
	uint32_t abi;  /* RUNG__DEVICE_ABI */
	uint32_t size; /* sizeof(struct rung__device_ops) */
	const char *name;

	/** The calling thread's current GPU. @return its number, RUNG_E_NODEV, RUNG_E_NOSUP */
	int (*current)(void);
	int (*gpu_info)(int gpu, struct rung_gpu_info *info_out);
	/** @return 1 if kernels on `gpu` can read the memory of `peer`, 0 if not, or a failure */
	int (*can_read)(int gpu, int peer);

	/** Allocate GPU memory, load rows, register host memory, load kernels: everything that
	 * gathers need, so that none of it happens during one. */
	int (*open)(const struct rung__device_args *args, struct rung__device **device_out);
	/**
	 * Release everything, with nothing in flight. Pinned memory still belongs to the caller.
	 * @param leave_peer  other processes have the memory of the peer tier open: do not free it
	 */
	void (*close)(struct rung__device *device, bool leave_peer);
	/** Names of the peer tier's memory for other processes. */
	int (*handles)(const struct rung__device *device, struct rung__gpu_handle *handles_out);

	/** Each thread of rung calls this once, before its other calls: from then on, its current
	 * GPU is the device's. Other threads keep their current GPU. */
	int (*adopt)(struct rung__device *device);

	/**
	 * Make host memory readable by the device until unpin() or close().
	 * @param what    names the memory in messages
	 * @param memory  whole pages
	 */
	int (*pin)(struct rung__device *device, const char *what, void *memory, uint64_t bytes);
	void (*unpin)(struct rung__device *device, void *memory);

	/** @return 0 if the device can read ids there, 1 for plain host memory, or a failure */
	int (*check_ids)(const struct rung__device *device, const void *ids);
	/**
	 * Queue a gather on a stream, as rung_gather_submit() does. Nothing waits. Ids must have
	 * been checked; the output must be memory the device can reach, which is checked here.
	 * `ids->space` selects whether the map is used. With `known`, misses are counted, but not
	 * listed: the caller has listed them already.
	 */
	int (*gather)(struct rung__device *device, uint32_t request_idx, const struct rung_ids *ids,
	              bool known, void *out, uint64_t out_stride, struct CUstream_st *stream);
	/**
	 * Poll a gather. Costs one load. With `check`, a gather that has not run makes the call
	 * query CUDA for a failure of the device.
	 * @return 1 if it has run, with its results; 0 if it has not; or a failure
	 */
	int (*gathered)(struct rung__device *device, uint32_t request_idx, bool check,
	                struct rung__gather_result *result_out);
	/** Queue a scatter on the device's own stream. Nothing waits. */
	int (*scatter)(struct rung__device *device, uint32_t request_idx,
	               const struct rung__scatter *scatter);
	/** @return 1 if it has run, 0 if it has not, or a failure; `check` as in gathered() */
	int (*scattered)(struct rung__device *device, uint32_t request_idx, uint32_t scatter_idx,
	                 bool check);
	/** Let later work on `stream` wait for the request's gather and its last scatter. Nothing
	 * waits here. */
	int (*order)(struct rung__device *device, uint32_t request_idx, struct CUstream_st *stream);

	/* Memory for callers that do not use CUDA themselves. */
	int (*alloc)(struct rung__device *device, uint64_t bytes, void **memory_out);
	void (*free)(struct rung__device *device, void *memory);
	/** Copy between any two memories, and wait for it. */
	int (*copy)(struct rung__device *device, void *to, const void *from, uint64_t bytes);

	/* Streams and events for memory that callers borrow and that is reused (the loader). A call
	 * waits only if its comment mentions it. */
	/** A stream that is not ordered with any other. */
	int (*stream_open)(struct rung__device *device, struct CUstream_st **stream_out);
	/** Waits for the work on it. NULL is allowed. */
	void (*stream_close)(struct rung__device *device, struct CUstream_st *stream);
	/** An event that has passed, until it is recorded. */
	int (*event_open)(struct rung__device *device, struct CUevent_st **event_out);
	/** NULL is allowed. */
	void (*event_close)(struct rung__device *device, struct CUevent_st *event);
	/** Record `event`: it passes when the work that is on `stream` now has run. */
	int (*event_record)(struct rung__device *device, struct CUevent_st *event,
	                    struct CUstream_st *stream);
	/** Let later work on `stream` wait for `event`. */
	int (*event_order)(struct rung__device *device, struct CUevent_st *event,
	                   struct CUstream_st *stream);
	/** @return 1 if it has passed, 0 if it has not, or a failure. `block`: wait instead of
	 * returning 0 */
	int (*event_passed)(struct rung__device *device, struct CUevent_st *event, bool block);
	/** Copy device memory to pinned host memory after the work on `stream`, and wait for it. */
	int (*fetch)(struct rung__device *device, void *to, const void *from, uint64_t bytes,
	             struct CUstream_st *stream);

	const struct rung__meter_ops *meter; /* for measurements; needs no open device */

	/* Sampling. Samplers are closed before the device, batches before their sampler, with
	 * nothing in flight. */
	int (*sampler_open)(struct rung__device *device, const struct rung__sampler_args *args,
	                    struct rung__device_sampler **sampler_out);
	void (*sampler_close)(struct rung__device_sampler *sampler);
	/** Largest number of vertices in a batch. */
	uint64_t (*sampler_vertices)(const struct rung__device_sampler *sampler);
	int (*batch_open)(struct rung__device_sampler *sampler,
	                  struct rung__device_batch **batch_out);
	void (*batch_close)(struct rung__device_batch *batch);
	/** Put a batch on a stream, as gather(). Nothing waits. */
	int (*sample)(struct rung__device_batch *batch, const uint64_t *seeds, uint64_t seed_count,
	              uint64_t batch_key, struct CUstream_st *stream);
	/** @return 1 if it is complete, 0 if it is not yet, or a failure of the batch or of the
	 * device. `block`: wait instead of returning 0 */
	int (*sampled)(struct rung__device_batch *batch, bool block,
	               struct rung__sampled *sampled_out);
};

/** The device of that kind; NULL if it is not built in, with the failure recorded. */
const struct rung__device_ops *rung__device_find(enum rung_device device);

#endif

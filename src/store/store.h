/* SPDX-License-Identifier: Apache-2.0 */
/** A store: opening, requests, and the threads of one with a device. Private to rung; see state.h
 * for what threads share. */
#ifndef RUNG_STORE_STORE_H
#define RUNG_STORE_STORE_H

#include "refill/refill.h"
#include "rung/gpu_sampler.h"
#include "state/state.h"

/** rung_store_open() with another reader: tests put one there that injects faults. */
int rung__store_open_over(const struct rung_dataset *ds, const struct rung_plan *plan,
                          const struct rung_store_opts *opts,
                          const struct rung__reader_ops *reader_ops, struct rung_store **store_out);

/** A store with its requests, and nothing in it yet. */
int rung__store_new(const struct rung_store_opts *user_opts, struct rung_store **store_out);

/* ---- store_device.c ---- */

/** Take the device that gathers on the first of `gpus`. */
int rung__store_choose_device(struct rung_store *store, const int *gpus, uint32_t gpu_count);

/** Open the device, after the host tier and the map, which it registers. */
int rung__store_open_device(struct rung_store *store, const struct rung__gpu_handle *peer_handles);

/* ---- store_placement.c ---- */

/** Before any memory of the tiers is touched: check that it fits, and whether it can be bound. */
int rung__store_apply_placement(struct rung_store *store);

/** Bind untouched memory if the kernel allows it. */
void rung__store_bind(struct rung_store *store, void *memory,
                      const struct rung__placement *placement);

/** Bind and touch the slots, and the frames that are there for the first time. */
void rung__store_bind_pool(struct rung_store *store);

/** Query the placement of all of it. */
int rung__store_inspect_memory(struct rung_store *store);

/* ---- store_open.c ---- */

/** Rows are stored by vertex; set their map. */
void rung__store_set_vertices(struct rung_store *store, void *vertex_of_rank);

/**
 * Open the tiers of a store whose shape and features are set. Rows are loaded unless host_memory
 * has them, and those of the tier "peer" unless there are handles for them. @param cache_fd memory
 * of an existing cache, or -1
 */
int rung__store_open_tiers(struct rung_store *store, const struct rung__reader_ops *reader_ops,
                           const struct rung__gpu_handle *peer_handles, int cache_fd);

/** rung_gather() on a stream. On the CPU NULL. */
int rung__gather_stream(struct rung_store *store, const struct rung_ids *ids, void *out,
                        size_t out_stride, struct CUstream_st *stream);

/**
 * Device without a device thread: reclaim requests that were put early and have run; with `must`,
 * if no request is free, wait for the oldest one and reclaim it too.
 */
void rung__request_harvest(struct rung_store *store, bool must);

/** Are these ids that the store can look up? Not yet whether each is in range. */
int rung__gather_check(const struct rung_store *store, const struct rung_ids *ids);

/* ---- pool.c ---- */

/**
 * Allocate memory for the store's shape and open the cache. An existing cache without a free seat
 * is not used: the shape then has no frames, and store->cache_why has the reason.
 * @param cache_fd  the creator's segment; -1: create one
 */
int rung__pool_open(struct rung_store *store, int cache_fd);

/** Does nothing for a zeroed struct. Keeps the memory of slots if abandoned reads may still write
 * to it. */
void rung__pool_close(struct rung_store *store);

/** Bytes of the segment that is shared: index and frames; 0 when the shape does not make sense. */
uint64_t rung__pool_shared_bytes(uint64_t rank_first, uint64_t row_count, uint64_t frame_count,
                                 uint64_t frame_bytes);

/* ---- request.c ---- */

/** A free request; NULL: all are in flight. `sync`: of those for rung_gather(), which is waited
 * for. */
struct rung_request *rung__request_acquire(struct rung_store *store, bool sync);

/* ---- misses.c ---- */

/** Bits of a rank that can differ. */
unsigned rung__rank_bits(const struct rung_store *store);

/**
 * Sort the misses of a request and give them to refill, on the calling thread; takes time in
 * proportion to their number, and may wait for the cache. The request is refill's afterwards.
 */
void rung__misses_queue(struct rung_request *request);

/** Start the thread that does so for the requests of a device. */
int rung__sorter_start(struct rung_store *store);

/** Give a request with misses to the thread. Never waits. */
void rung__sorter_accept(struct rung__sorter *sorter, struct rung_request *request);

/** Stop the thread. No request is with it, and none will come. */
void rung__sorter_stop(struct rung__sorter *sorter);

/* ---- device_thread.c, gather_result.c ---- */

/** Start the thread that the device's requests need when some rows are cold. */
int rung__device_thread_start(struct rung_store *store);

/** Stop it after the work in flight; the store's stop flag is set. @return 0 or RUNG_E_TIMEDOUT:
 * the device does not answer */
int rung__device_thread_stop(struct rung__device_thread *device_thread);

/** Put a request's gather on a stream. The request is BUSY from here on. */
int rung__device_thread_submit(struct rung_request *request, const struct rung_ids *ids, void *out,
                               size_t out_stride, struct CUstream_st *stream);

/** Put what a gather found into its request: misses, or why it fails. */
void rung__gather_result_accept(struct rung_request *request,
                                const struct rung__gather_result *result);

/** Without a device thread: complete a request if its gather has run. Any thread. */
void rung__device_thread_complete(struct rung_request *request);

#define RUNG__POLL_NS_MIN 20000 /* between two polls of words that a device writes */
#define RUNG__POLL_NS_MAX 100000
#define RUNG__CHECK_NS    10000000 /* between two questions to the device itself */

/**
 * Time until the next poll of a device that has completed nothing for `idle_ns`: one sixteenth of
 * that, so the delay stays small compared with the wait.
 */
static inline uint64_t rung__poll_ns(uint64_t idle_ns)
{
	return RUNG__MIN(RUNG__MAX(idle_ns / 16, RUNG__POLL_NS_MIN), RUNG__POLL_NS_MAX);
}

/**
 * Is it time to ask the device itself whether it has failed? Every RUNG__CHECK_NS while a request
 * is in flight, and never at first: all that goes well is seen without.
 */
static inline bool rung__check_is_due(struct rung_request *request, uint64_t now_ns)
{
	uint64_t checked_ns = atomic_load_explicit(&request->checked_ns, memory_order_relaxed);

	return now_ns - checked_ns >= RUNG__CHECK_NS &&
	       atomic_compare_exchange_strong_explicit(&request->checked_ns, &checked_ns, now_ns,
	                                               memory_order_relaxed, memory_order_relaxed);
}

/* ---- gpu_sampler.c ---- */

/** Check that it can sample batches of `seed_count` seeds for this store's gathers. @return 0,
 * RUNG_E_INVAL */
int rung__gpu_sampler_check(const struct rung_gpu_sampler *sampler, const struct rung_store *store,
                            uint64_t seed_count);
uint32_t rung__gpu_sampler_hops(const struct rung_gpu_sampler *sampler);
/** Largest number of vertices in a batch. */
uint64_t rung__gpu_sampler_vertices(const struct rung_gpu_sampler *sampler);

struct rung__gpu_batch;

/** GPU memory of one batch in flight, for the largest there can be. Destroyed before its sampler,
 * and not while in flight. */
int rung__gpu_batch_create(struct rung_gpu_sampler *sampler, struct rung__gpu_batch **batch_out);
/** Free a batch that is not in flight. NULL is allowed. */
void rung__gpu_batch_destroy(struct rung__gpu_batch *batch);

/**
 * Start sampling; nothing waits and nothing is allocated.
 *
 * @param batch      not in flight; its content is overwritten
 * @param seeds      ranks, no rank twice, in memory that the GPU can access; read until the batch
 *                   is complete
 * @param batch_key  as in rung_sampler_sample()
 * @param stream     the batch is sampled after the work on it; as in rung_gather_submit()
 * @return 0, RUNG_E_INVAL (no seeds, too many, or memory that the GPU cannot access), RUNG_E_NOSUP
 *         (the stream is being captured into a CUDA graph: device.h), RUNG_E_IO (a CUDA error)
 *
 * Threads: any number, each with its own batch.
 */
int rung__gpu_batch_sample(struct rung__gpu_batch *batch, const uint64_t *seeds,
                           uint64_t seed_count, uint64_t batch_key, struct CUstream_st *stream);

/**
 * Wait for a batch.
 *
 * @param timeout_ns  negative: no limit; 0: poll once
 * @return 0, RUNG_E_TIMEDOUT (still in flight), RUNG_E_RANGE (a seed out of range), RUNG_E_INVAL (a
 *         seed twice), RUNG_E_NOMEM (more vertices or edges than the batch can hold; the message
 *         has their number), RUNG_E_FORMAT, RUNG_E_RANGE (the graph is damaged; the message has the
 *         position), RUNG_E_IO (a CUDA error)
 */
int rung__gpu_batch_wait(struct rung__gpu_batch *batch, int64_t timeout_ns);

/** The vertices of a batch that was waited for, in GPU memory, seeds first; NULL if it failed. */
const uint64_t *rung__gpu_batch_vertices(const struct rung__gpu_batch *batch, uint64_t *count_out);

/** The block of a hop, with its arrays in GPU memory; NULL past the last hop, or if the batch
 * failed. */
const struct rung_block *rung__gpu_batch_block(const struct rung__gpu_batch *batch, uint32_t hop);

/* ---- known.c ---- */

/** Bytes of a rank in request->ranks. */
static inline unsigned rung__known_rank_bytes(const struct rung_store *store)
{
	return store->shape.vertex_count <= UINT32_MAX ? 4 : 8;
}

/**
 * List the ranks of ids in plain host memory, and the cold rows among them as the request's misses.
 * @param ranks_out  those ranks, as ids in memory that the device reaches
 * @return 0 or RUNG_E_RANGE
 */
int rung__known_list(struct rung_request *request, const struct rung_ids *ids,
                     struct rung_ids *ranks_out);

/* ---- prefetch.c ---- */

/** Buffers of rung_prefetch(). */
int rung__announcer_create(const struct rung_store *store, struct rung__announcer **announcer_out);
void rung__announcer_destroy(struct rung__announcer *announcer);

/**
 * rung_prefetch() for callers that may withdraw the announcement.
 * @param batches_out  [one per batch_rows_max ids of the list] names of its parts in the cache, for
 *                     parts with cold rows; NULL: not needed
 */
int rung__prefetch(struct rung_store *store, const struct rung_ids *ids, uint64_t *batches_out,
                   uint32_t *batch_count_out);

/** Take it back. Its gather has not been submitted, or has failed. */
void rung__prefetch_undo(struct rung_store *store, const uint64_t *batches, uint32_t batch_count);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A store: opening, attaching, requests, and the two threads of a store with a device. Private to
 * rung; state.h has the state that the threads share.
 *
 * Opening, in this order (store_tiers.c): requests, the choice of the device, maps,
 * placement, host tier, device, pool and cache, refill threads, sorter, device thread. Closing runs
 * in the opposite order; memory that a thread or a device may still use is not freed.
 *
 * A gather (submit.c) acquires a request (request.c). On the CPU the submitting thread copies the
 * rows in memory and queues the misses (misses.c). On a device the gather is a kernel
 * (device_thread.c), and the sorter queues the misses.
 */
#ifndef RUNG_STORE_STORE_H
#define RUNG_STORE_STORE_H

#include "refill/refill.h"
#include "rung/gpu_sampler.h"
#include "state/state.h"

/** rung_store_open() with another reader. Tests pass a reader that injects faults. */
int rung__store_open_over(const struct rung_dataset *ds, const struct rung_plan *plan,
                          const struct rung_store_opts *opts,
                          const struct rung__reader_ops *reader_ops, struct rung_store **store_out);

/** Create a store that has its requests, but no tiers and no threads yet. The caller releases it
 * with rung_store_close(), or rung__store_release() if it has lists.
 * @param of_lists  its rows are blocks of the graph's lists */
int rung__store_new(const struct rung_store_opts *user_opts, bool of_lists,
                    struct rung_store **store_out);

/** As rung_store_close(), for a store without structure. The threads of a shared store must have
 * been stopped with rung__share_stop(). */
int rung__store_release(struct rung_store *store);

/** The shape that a plan gives a store of rows of this type.
 * @param quant  NULL: rows are stored as they were given */
struct rung__shape rung__store_shape(const struct rung_array_info *array,
                                     const struct rung_quantization *quant,
                                     const struct rung_plan *plan);

/* ---- store_form.c ---- */

/** Choose the type of gathered rows from the options, once the shape and the scales are known.
 * @return 0 or RUNG_E_INVAL */
int rung__store_choose_form(struct rung_store *store);

/** Type and shape of all gathered rows. */
struct rung_array_info rung__store_array(const struct rung_store *store);

/* ---- store_device.c ---- */

/** Choose the device, which gathers on the first of `gpus`. Opens nothing. @return 0, RUNG_E_NOSUP
 * (CUDA is not built in), or the failure of querying that GPU */
int rung__store_choose_device(struct rung_store *store, const int *gpus, uint32_t gpu_count);

/**
 * Open the device, after the host tier and the map, which it registers.
 * @param peer_handles  the creator's memory of the tier "peer"; NULL: allocate and load that tier
 */
int rung__store_open_device(struct rung_store *store, const struct rung__gpu_handle *peer_handles);

/* ---- store_placement.c ---- */

/** Before any memory of the tiers is touched: check that it fits, and whether it can be bound.
 * @return 0 or RUNG_E_NOMEM; a kernel that refuses to bind is not an error */
int rung__store_apply_placement(struct rung_store *store);

/** Bind untouched memory if the kernel allows it; after the first refusal nothing is bound. */
void rung__store_bind(struct rung_store *store, void *memory,
                      const struct rung__placement *placement);

/** Bind and touch the slots, and the frames unless another process created them. */
void rung__store_bind_pool(struct rung_store *store);

/** Query where the kernel has put all of the placed memory, for rung_store_stats(). */
int rung__store_inspect_memory(struct rung_store *store);

/* ---- store_open.c ---- */

/** Rows are stored by vertex: set their map in both copies of the layout. NULL clears it. */
void rung__store_set_vertices(struct rung_store *store, void *vertex_of_rank);

/**
 * Open the tiers of a store whose shape and features are set. Rows are loaded unless host_memory
 * has them, and those of the tier "peer" unless there are handles for them. @param cache_fd memory
 * of an existing cache, or -1
 */
int rung__store_open_tiers(struct rung_store *store, const struct rung__reader_ops *reader_ops,
                           const struct rung__gpu_handle *peer_handles, int cache_fd);

/** rung_gather() on a stream. On the CPU the stream is NULL. */
int rung__gather_stream(struct rung_store *store, const struct rung_ids *ids, void *out,
                        size_t out_stride, struct CUstream_st *stream);

/**
 * Device without a device thread: reclaim requests that were put early and have run; with `must`,
 * if no request is free, wait for the oldest one and reclaim it too.
 */
void rung__request_harvest(struct rung_store *store, bool must);

/** Check that the store can look up ids of this type and space; their values are not checked. */
int rung__gather_check(const struct rung_store *store, const struct rung_ids *ids);

/* ---- pool.c ---- */

/**
 * Allocate memory for the store's shape and open the cache. An existing cache without a free seat
 * is not used: the shape then has no frames, and store->cache_why has the reason.
 * @param cache_fd  the creator's segment; -1: create one
 */
int rung__pool_open(struct rung_store *store, int cache_fd);

/** Release the pool. Does nothing for a zeroed struct. Keeps the memory of the slots if abandoned
 * reads may still write to it. */
void rung__pool_close(struct rung_store *store);

/** Bytes of the shared segment: index and frames; 0 if the shape is invalid. */
uint64_t rung__pool_shared_bytes(uint64_t rank_first, uint64_t row_count, uint64_t frame_count,
                                 uint64_t frame_bytes);

/* ---- request.c ---- */

/** Acquire a free request; NULL: all are in flight. `sync`: acquire one of those reserved for
 * rung_gather(), and wait until one is free. */
struct rung_request *rung__request_acquire(struct rung_store *store, bool sync);

/** Wait until a request is complete. The caller cannot cancel this wait. */
void rung__request_await(struct rung_request *request);

/* ---- misses.c ---- */

/** The number of low bits of a rank that can differ; the sort skips the others. */
unsigned rung__rank_bits(const struct rung_store *store);

/**
 * Sort the misses of a request and queue them for refill, on the calling thread. The time is
 * proportional to their number, and the call may wait for the cache. Afterwards the request belongs
 * to refill.
 */
void rung__misses_queue(struct rung_request *request);

/** Start the sorter, the thread that does this for the requests of a device. */
int rung__sorter_start(struct rung_store *store);

/** Queue a request with misses for the sorter. Never waits for the sorting. */
void rung__sorter_accept(struct rung__sorter *sorter, struct rung_request *request);

/** Stop the sorter. Its queue must be empty, and no request may be queued any more. */
void rung__sorter_stop(struct rung__sorter *sorter);

/* ---- device_thread.c, gather_result.c ---- */

/** Start the thread that the device's requests need when some rows are cold. */
int rung__device_thread_start(struct rung_store *store);

/** Stop it after the work in flight; the store's stop flag is set. @return 0 or RUNG_E_TIMEDOUT:
 * the device does not answer, and the thread still runs */
int rung__device_thread_stop(struct rung__device_thread *device_thread);

/** Put a request's gather on a stream. On success the request is BUSY from here on; a failure
 * leaves it to the caller. */
int rung__device_thread_submit(struct rung_request *request, const struct rung_ids *ids, void *out,
                               size_t out_stride, struct CUstream_st *stream);

/** Store the results of a gather in its request: the number of misses, or its failure. */
void rung__gather_result_accept(struct rung_request *request,
                                const struct rung__gather_result *result);

/** Without a device thread: complete a request if its gather has run. Any thread. */
void rung__device_thread_complete(struct rung_request *request);

#define RUNG__POLL_NS_MIN 20000 /* interval of polls of words that a device writes */
#define RUNG__POLL_NS_MAX 100000
/* interval of queries of the device itself: cudaEventQuery() acquires locks that launches of other
 * threads need */
#define RUNG__CHECK_NS 10000000

/**
 * Time until the next poll of a device that has completed nothing for `idle_ns`: one sixteenth of
 * that, so the delay stays small compared with the wait.
 */
static inline uint64_t rung__poll_ns(uint64_t idle_ns)
{
	return RUNG__MIN(RUNG__MAX(idle_ns / 16, RUNG__POLL_NS_MIN), RUNG__POLL_NS_MAX);
}

/**
 * Whether it is time to query the device itself for a failure: every RUNG__CHECK_NS while a request
 * is in flight, for the first time RUNG__CHECK_NS after its submission. A request that succeeds in
 * less time is completed by its word alone. If several threads poll one request, it is true for
 * one of them.
 */
static inline bool rung__check_is_due(struct rung_request *request, uint64_t now_ns)
{
	uint64_t checked_ns = atomic_load_explicit(&request->checked_ns, memory_order_relaxed);

	return now_ns - checked_ns >= RUNG__CHECK_NS &&
	       atomic_compare_exchange_strong_explicit(&request->checked_ns, &checked_ns, now_ns,
	                                               memory_order_relaxed, memory_order_relaxed);
}

/* ---- gpu_sampler.c ---- */

/** Check that the sampler can sample batches of seed_count seeds for this store's gathers. @return
 * 0, RUNG_E_INVAL */
int rung__gpu_sampler_check(const struct rung_gpu_sampler *sampler, const struct rung_store *store,
                            uint64_t seed_count);
/** Number of hops, and of blocks in each batch. */
uint32_t rung__gpu_sampler_hops(const struct rung_gpu_sampler *sampler);
/** Largest number of vertices in a batch. */
uint64_t rung__gpu_sampler_vertices(const struct rung_gpu_sampler *sampler);

struct rung__gpu_batch;

/** Allocate GPU memory for one batch in flight, of the largest size that the sampler allows. It is
 * destroyed before its sampler, and not while in flight. */
int rung__gpu_batch_create(struct rung_gpu_sampler *sampler, struct rung__gpu_batch **batch_out);
/** Free a batch that is not in flight. NULL is allowed. */
void rung__gpu_batch_destroy(struct rung__gpu_batch *batch);

/**
 * Start sampling; nothing waits and nothing is allocated.
 *
 * @param batch      not in flight; its content is overwritten
 * @param seeds      ranks, repeats allowed, in memory that the GPU can access; read until the
 *                   batch is complete
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
 * @return 0, RUNG_E_TIMEDOUT (still in flight), RUNG_E_RANGE (a seed out of range), RUNG_E_NOMEM
 *         (more vertices or edges than the batch can hold; the message has their number),
 *         RUNG_E_FORMAT, RUNG_E_RANGE (the graph is damaged; the message has the position),
 *         RUNG_E_IO (a CUDA error)
 */
int rung__gpu_batch_wait(struct rung__gpu_batch *batch, int64_t timeout_ns);

/** The vertices of a batch that was waited for, in GPU memory, seeds first; NULL if it failed. */
const uint64_t *rung__gpu_batch_vertices(const struct rung__gpu_batch *batch, uint64_t *count_out);

/** The block of a hop, with its arrays in GPU memory; NULL past the last hop, or if the batch
 * failed. */
const struct rung_block *rung__gpu_batch_block(const struct rung__gpu_batch *batch, uint32_t hop);

/* ---- known.c ---- */

/** Bytes of a rank in request->ranks: 4 where all ranks fit, so the gather reads half as much. */
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

/** Allocate the buffers of rung_prefetch(), once for a store with a cache. */
int rung__announcer_create(const struct rung_store *store, struct rung__announcer **announcer_out);
void rung__announcer_destroy(struct rung__announcer *announcer);

/**
 * rung_prefetch() for callers that may withdraw the announcement.
 * @param batches_out  [one per batch_rows_max ids of the list] names of its parts in the cache, for
 *                     parts with cold rows; NULL: not needed
 */
int rung__prefetch(struct rung_store *store, const struct rung_ids *ids, uint64_t *batches_out,
                   uint32_t *batch_count_out);

/** Withdraw an announcement whose gather has not been submitted, or has failed. Otherwise its rows
 * would hold frames and window until 64 later batches had overtaken it. */
void rung__prefetch_undo(struct rung_store *store, const uint64_t *batches, uint32_t batch_count);

#endif

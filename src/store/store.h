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

/** Open it, behind the host tier and the map, which it registers. */
int rung__store_open_device(struct rung_store *store, const struct rung__gpu_handle *peer_handles);

/* ---- store_place.c ---- */

/** Before any memory of the tiers is touched: see whether there is room for it, and whether it can
 * be bound. */
int rung__store_place(struct rung_store *store);

/** Bind memory that nobody has touched, if that can be done. */
void rung__store_bind(struct rung_store *store, void *memory, const struct rung__placement *place);

/** Bind and touch the slots, and the frames that are there for the first time. */
void rung__store_bind_pool(struct rung_store *store);

/** Look up where all of it came to lie. */
int rung__store_look(struct rung_store *store);

/* ---- store_open.c ---- */

/** Rows lie by vertex, by this map. */
void rung__store_set_vertices(struct rung_store *store, void *vertex_of_rank);

/**
 * Open the tiers of a store whose shape and features are set; rows are loaded unless host_memory
 * has them, and those of the tier "peer" unless there are handles of them. @param cache_fd the
 * memory of a cache that is there already, or -1
 */
int rung__store_open_tiers(struct rung_store *store, const struct rung__reader_ops *reader_ops,
                           const struct rung__gpu_handle *peer_handles, int cache_fd);

/** rung_gather() on a stream. On the CPU NULL. */
int rung__gather_stream(struct rung_store *store, const struct rung_ids *ids, void *out,
                        size_t out_stride, struct CUstream_st *stream);

/**
 * Device without a hand-off: take back what was put early, all that has run; with `must`, when no
 * request is free, also the oldest that has not, which is waited for.
 */
void rung__request_harvest(struct rung_store *store, bool must);

/** Are these ids that the store can look up? Not yet whether each is in range. */
int rung__gather_check(const struct rung_store *store, const struct rung_ids *ids);

/* ---- pool.c ---- */

/**
 * Take the memory that the store's shape tells, and open the cache. One that is there already, but
 * has no seat for us, is done without: the shape has no frames then, and store->cache_why says why.
 * @param cache_fd  of the creator's segment; -1: make one
 */
int rung__pool_open(struct rung_store *store, int cache_fd);

/** Nothing for one that is all zero. Leaves the memory of slots alone if reads given up may still
 * write to it. */
void rung__pool_close(struct rung_store *store);

/** Bytes of the segment that is shared: index and frames; 0 when the shape does not make sense. */
uint64_t rung__pool_shared_bytes(uint64_t rank_first, uint64_t row_count, uint64_t frame_count,
                                 uint64_t frame_bytes);

/* ---- request.c ---- */

/** A free request; NULL: all are in flight. `sync`: of those for rung_gather(), which is waited
 * for. */
struct rung_request *rung__request_take_free(struct rung_store *store, bool sync);

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
void rung__sorter_take(struct rung__sorter *sorter, struct rung_request *request);

/** Stop the thread. No request is with it, and none will come. */
void rung__sorter_stop(struct rung__sorter *sorter);

/* ---- handoff.c, found.c ---- */

/** Start the thread that the device's requests need when some rows are cold. */
int rung__handoff_start(struct rung_store *store);

/** Stop it after what is on its way; the store's stop flag is set. @return 0 or RUNG_E_TIMEDOUT:
 * the device does not answer */
int rung__handoff_stop(struct rung__handoff *handoff);

/** Put a request's gather on a stream. The request is BUSY from here on. */
int rung__handoff_submit(struct rung_request *request, const struct rung_ids *ids, void *out,
                         size_t out_stride, struct CUstream_st *stream);

/** Put what a gather found into its request: misses, or why it fails. */
void rung__found_take(struct rung_request *request, const struct rung__found *found);

/** Without a hand-off: complete a request whose gather has run. Any thread. */
void rung__handoff_settle(struct rung_request *request);

#define RUNG__LOOK_NS_MIN 20000 /* between two looks at words that a device writes */
#define RUNG__LOOK_NS_MAX 100000
#define RUNG__CHECK_NS    10000000 /* between two questions to the device itself */

/**
 * How long to wait before the next look at a device that has shown nothing new for `idle_ns`: a
 * sixteenth of that, so that what ends is seen not much later than it could be.
 */
static inline uint64_t rung__look_ns(uint64_t idle_ns)
{
	return RUNG__MIN(RUNG__MAX(idle_ns / 16, RUNG__LOOK_NS_MIN), RUNG__LOOK_NS_MAX);
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

/** Can it sample batches of so many seeds for this store's gathers? @return 0, RUNG_E_INVAL */
int rung__gpu_sampler_check(const struct rung_gpu_sampler *sampler, const struct rung_store *store,
                            uint64_t seed_count);
uint32_t rung__gpu_sampler_hops(const struct rung_gpu_sampler *sampler);
/** Of a batch at most. */
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
 * @param batch      not in flight; its content goes
 * @param seeds      ranks, each at most once, in memory that the GPU reaches; read until the batch
 * is there
 * @param batch_key  as in rung_sampler_sample()
 * @param stream     the batch is sampled after the work on it; as in rung_gather_submit()
 * @return 0, RUNG_E_INVAL (no seeds, too many, or memory out of reach), RUNG_E_NOSUP (the stream is
 *         captured into a CUDA graph: device.h), RUNG_E_IO (a CUDA error)
 *
 * Threads: any number, each with a batch of its own.
 */
int rung__gpu_batch_sample(struct rung__gpu_batch *batch, const uint64_t *seeds,
                           uint64_t seed_count, uint64_t batch_key, struct CUstream_st *stream);

/**
 * Wait for a batch.
 *
 * @param timeout_ns  negative: as long as it takes; 0: only look
 * @return 0, RUNG_E_TIMEDOUT (still in flight), RUNG_E_RANGE (a seed is no vertex), RUNG_E_INVAL (a
 *         seed twice), RUNG_E_NOMEM (more vertices or edges than there is room for: says how many),
 *         RUNG_E_FORMAT, RUNG_E_RANGE (the graph is damaged: says where), RUNG_E_IO (a CUDA error)
 */
int rung__gpu_batch_wait(struct rung__gpu_batch *batch, int64_t timeout_ns);

/** The vertices of a batch that was waited for, in GPU memory, seeds first; none of one that
 * failed. */
const uint64_t *rung__gpu_batch_vertices(const struct rung__gpu_batch *batch, uint64_t *count_out);

/** The block of a hop, whose arrays are in GPU memory; NULL past the last, and of a batch that
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

/** What rung_prefetch() works with. */
int rung__announcer_create(const struct rung_store *store, struct rung__announcer **announcer_out);
void rung__announcer_destroy(struct rung__announcer *announcer);

/**
 * rung_prefetch() for one who may take it back.
 * @param batches_out  [one for each batch_rows_max of the list], by which the cache knows its parts
 *                     that have cold rows; NULL: not wanted
 */
int rung__prefetch(struct rung_store *store, const struct rung_ids *ids, uint64_t *batches_out,
                   uint32_t *batch_count_out);

/** Take it back. Its gather has not been submitted, or has failed. */
void rung__prefetch_undo(struct rung_store *store, const uint64_t *batches, uint32_t batch_count);

#endif

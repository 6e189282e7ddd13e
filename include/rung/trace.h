/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Traces: the rows that batches request, in order, and the hits that tiers of any size would have.
 * Static tiers hold the first rows of an order. Two replacement policies, LRU and Belady's, serve
 * as references.
 *
 * A *request* is one row of one batch. A *hit* is a request for a row that is in the tier.
 *
 * LRU. One pass over the kept requests computes the LRU hits of all sizes: Mattson, Gecsei, Slutz,
 * Traiger, "Evaluation Techniques for Storage Hierarchies", 1970.
 */
#ifndef RUNG_TRACE_H
#define RUNG_TRACE_H

#include <stdint.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rung_trace;

/** Options of rung_trace_create(). */
struct rung_trace_opts {
	size_t size;           /**< sizeof(struct rung_trace_opts), set by the initialiser */
	uint64_t vertex_count; /**< row ids are below it; at least 1 */
	/** number of requests, from the first, whose order is kept; later ones are only counted.
	    0: 2^26 */
	uint64_t kept_max;
	uint32_t threads;          /**< 0: OpenMP's default; results do not depend on it */
	rung_progress_fn progress; /**< of the LRU and Belady functions; may be NULL */
	void *progress_ctx;
};

/** Initialiser: all defaults. In C++: rung_trace_opts_init(). */
#define RUNG_TRACE_OPTS_INIT RUNG_INIT(struct rung_trace_opts)
RUNG_INIT_FUNCTION(rung_trace_opts, {})

/**
 * Create an empty trace.
 *
 * @param opts       number of vertices and limits; copied
 * @param trace_out  free it with rung_trace_destroy()
 * @return 0, RUNG_E_INVAL (no vertices), RUNG_E_NOMEM
 *
 * Memory: 8 bytes per vertex, and 4 bytes per request whose order is kept, or 8 if vertices or
 * requests do not fit in 32 bits.
 *
 * Threads: any.
 */
RUNG_API int rung_trace_create(const struct rung_trace_opts *opts, struct rung_trace **trace_out);

/**
 * Free a trace and everything that it recorded.
 *
 * @param trace  the trace; NULL is allowed
 *
 * The array that rung_trace_counts() returned becomes invalid. Arrays that the caller passed to
 * other functions are not freed.
 *
 * Threads: any, but no other call with the same trace.
 */
RUNG_API void rung_trace_destroy(struct rung_trace *trace);

/**
 * Append the requests of a batch.
 *
 * @param rows       [row_count] row ids, such as rung_batch_vertices() returns; copied
 * @param row_count  number of requests; a row may occur several times
 * @return 0, RUNG_E_RANGE (an id is not a row), RUNG_E_NOMEM; after a failure nothing of the batch
 *         was appended
 *
 * Call it for the batches in the order in which training uses them: LRU and Belady depend on it.
 *
 * Threads: one call per trace at a time.
 */
RUNG_API int rung_trace_add(struct rung_trace *trace, const uint64_t *rows, uint64_t row_count);

/**
 * Number of requests of every row, including requests whose order is not kept.
 *
 * @param trace  a trace
 * @return [vertex_count] counts, which the trace owns; valid until rung_trace_add() or
 *         rung_trace_destroy()
 *
 * Sorting the rows by these counts gives the order that rung_trace_oracle_hits() uses.
 *
 * Threads: any, while no call appends to the trace.
 */
RUNG_API const uint64_t *rung_trace_counts(const struct rung_trace *trace);

/**
 * Total number of requests.
 *
 * @param trace  a trace
 * @return the number of requests that were appended, including those whose order is not kept
 *
 * Divide the hits of the static and oracle functions by it to get a hit rate. For LRU and Belady
 * use rung_trace_kept(), less the requests that only fill the tier.
 *
 * Threads: any, while no call appends to the trace.
 */
RUNG_API uint64_t rung_trace_requests(const struct rung_trace *trace);

/**
 * Number of requests whose order is kept.
 *
 * @param trace  a trace
 * @return the first requests of the trace, at most kept_max of the options
 *
 * rung_trace_lru_hits() and rung_trace_belady_hits() replay these requests only. If the result is
 * smaller than rung_trace_requests(), raise kept_max to replay more.
 *
 * Threads: any, while no call appends to the trace.
 */
RUNG_API uint64_t rung_trace_kept(const struct rung_trace *trace);

/**
 * Count the hits of static tiers, which hold the first rows of an order, over all requests.
 *
 * @param order        [vertex_count] rows, hottest first, each once, as rung_rank_order() returns
 *                     them; NULL: 0, 1, 2 and so on, the order of a staged dataset
 * @param index_bytes  of the entries of `order`, 4 or 8
 * @param sizes        [size_count] tier sizes in rows, ascending, at most vertex_count
 * @param hits_out     [size_count] number of hits
 * @return 0, RUNG_E_INVAL (sizes), RUNG_E_RANGE (order)
 *
 * Threads: any, while no call appends to the trace.
 */
RUNG_API int rung_trace_static_hits(const struct rung_trace *trace, const void *order,
                                    unsigned index_bytes, const uint64_t *sizes,
                                    uint32_t size_count, uint64_t *hits_out);

/**
 * Count the hits of the best possible static tiers: those ordered by the counts of this trace.
 *
 * No static order has more hits on these requests. An order that was computed beforehand cannot
 * reach the result, because the counts also contain chance.
 *
 * @param sizes     [size_count] tier sizes in rows, ascending, at most vertex_count
 * @param hits_out  [size_count] number of hits, over all requests
 * @return 0, RUNG_E_INVAL (sizes), RUNG_E_NOMEM
 *
 * Memory: 16 bytes per vertex during the call.
 *
 * Threads: any, while no call appends to the trace.
 */
RUNG_API int rung_trace_oracle_hits(const struct rung_trace *trace, const uint64_t *sizes,
                                    uint32_t size_count, uint64_t *hits_out);

/**
 * Count the hits of LRU tiers, which keep the most recently requested rows, in one pass for all
 * sizes (see LRU at the top of this file).
 *
 * @param counted_from  requests before this one fill the tiers, and their hits are not counted
 * @param sizes         [size_count] tier sizes in rows, ascending, at most vertex_count
 * @param hits_out      [size_count] number of hits
 * @return 0, RUNG_E_INVAL (sizes), RUNG_E_NOMEM, RUNG_E_CANCELED
 *
 * Time: O(log vertex_count) per request. Memory: 8.5 bytes per vertex during the call.
 *
 * Threads: any, while no call appends to the trace.
 */
RUNG_API int rung_trace_lru_hits(const struct rung_trace *trace, uint64_t counted_from,
                                 const uint64_t *sizes, uint32_t size_count, uint64_t *hits_out);

/**
 * Count the hits of tiers that know all future requests and may bypass a row: Belady, "A Study of
 * Replacement Algorithms for a Virtual-Storage Computer", 1966. With counted_from 0, no policy that
 * starts with an empty tier has more hits on the kept requests. Sizes are computed in parallel.
 *
 * Parameters and return value are those of rung_trace_lru_hits().
 *
 * Time: O(log kept) per request and size. Memory during the call: per kept request as much again as
 * the trace uses and 1/8 byte per thread; 4 or 8 bytes per vertex.
 *
 * Threads: any, while no call appends to the trace.
 */
RUNG_API int rung_trace_belady_hits(const struct rung_trace *trace, uint64_t counted_from,
                                    const uint64_t *sizes, uint32_t size_count, uint64_t *hits_out);

#ifdef __cplusplus
}
#endif
#endif

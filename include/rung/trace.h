/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Requests for rows, in the order in which batches make them, and how many of them tiers of any size would serve: static ones, which hold
 * the first rows of an order, and, for reference, tiers that change their rows.
 *
 * A *request* is one row of one batch; a *hit* is a request for a row that is in the tier.
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
	size_t size;                 /**< sizeof(struct rung_trace_opts), set by the initialiser */
	uint64_t vertex_count;       /**< rows are below it; at least 1 */
	uint64_t kept_max;           /**< requests whose order is kept, the first ones; 0: 2^26. What goes beyond is counted all the same */
	uint32_t threads;            /**< 0: as OpenMP has it; no result depends on it */
	rung_progress_fn progress;   /**< of rung_trace_lru_hits() and rung_trace_belady_hits(); may be NULL */
	void *progress_ctx;
};

/** Initialiser: all defaults. In C++: rung_trace_opts_init(). */
#define RUNG_TRACE_OPTS_INIT { .size = sizeof(struct rung_trace_opts) }
RUNG_INIT_FUNCTION(rung_trace_opts, {})

/**
 * An empty trace.
 *
 * @param trace_out  free with rung_trace_destroy()
 * @return 0, RUNG_E_INVAL (no vertices), RUNG_E_NOMEM
 *
 * Memory: 8 bytes a vertex; and for each request that is kept 4 bytes, or 8 when vertices or kept requests do not fit 32 bits.
 */
RUNG_API int rung_trace_create(const struct rung_trace_opts *opts, struct rung_trace **trace_out);
/** Free a trace. NULL is allowed. */
RUNG_API void rung_trace_destroy(struct rung_trace *trace);

/**
 * Append the requests of a batch.
 *
 * @param rows  rung_batch_vertices() of it
 * @return 0, RUNG_E_RANGE (not a row: nothing of the batch is appended), RUNG_E_NOMEM
 *
 * Threads: one at a time.
 */
RUNG_API int rung_trace_add(struct rung_trace *trace, const uint64_t *rows, uint64_t row_count);

/** How often each row was asked for, [vertex_count]; valid until rows are added. */
RUNG_API const uint64_t *rung_trace_counts(const struct rung_trace *trace);

/** Requests in all, and those whose order is kept. */
RUNG_API uint64_t rung_trace_requests(const struct rung_trace *trace);
/** Requests whose order is kept. */
RUNG_API uint64_t rung_trace_kept(const struct rung_trace *trace);

/**
 * Hits of tiers that hold the first rows of an order, of all requests.
 *
 * @param order        [vertex_count] rows, the hottest first, each once: what rung_rank_order() gives; NULL: 0, 1, 2 …, as they lie in a
 *                     staged dataset
 * @param index_bytes  of its entries, 4 or 8
 * @param sizes        [size_count] rows in the tier, ascending, none above vertex_count
 * @param hits_out     [size_count]
 * @return 0, RUNG_E_INVAL (sizes), RUNG_E_RANGE (order)
 */
RUNG_API int rung_trace_static_hits(const struct rung_trace *trace, const void *order, unsigned index_bytes, const uint64_t *sizes,
                                    uint32_t size_count, uint64_t *hits_out);

/**
 * The same for the order by the trace's own counts: what no static order exceeds on these very requests. An order made beforehand cannot
 * reach it, since the counts hold chance as well.
 * @return 0, RUNG_E_INVAL (sizes), RUNG_E_NOMEM: it takes 16 bytes a vertex while it runs
 */
RUNG_API int rung_trace_oracle_hits(const struct rung_trace *trace, const uint64_t *sizes, uint32_t size_count, uint64_t *hits_out);

/**
 * Hits of tiers that keep the rows asked for last (LRU), all sizes in one pass over the kept requests: Mattson, Gecsei, Slutz, Traiger,
 * "Evaluation Techniques for Storage Hierarchies", 1970.
 *
 * @param counted_from  requests before this one fill the tiers and are not counted
 * @return 0, RUNG_E_INVAL (sizes), RUNG_E_NOMEM, RUNG_E_CANCELED
 *
 * Time: O(log vertex_count) a request. Memory: 8.5 bytes a vertex while it runs.
 */
RUNG_API int rung_trace_lru_hits(const struct rung_trace *trace, uint64_t counted_from, const uint64_t *sizes, uint32_t size_count,
                                 uint64_t *hits_out);

/**
 * Hits of tiers that know all requests to come and may leave a row out that comes: Belady, "A Study of Replacement Algorithms for a
 * Virtual-Storage Computer", 1966, with the right to bypass. Nothing that starts empty has more hits of all kept requests
 * (counted_from 0). Sizes are done side by side.
 *
 * @return as rung_trace_lru_hits()
 *
 * Time: O(log kept) a request and size. Memory while it runs: for each kept request as much again as the trace has, and for each thread
 * an eighth of a byte; 4 or 8 bytes a vertex.
 */
RUNG_API int rung_trace_belady_hits(const struct rung_trace *trace, uint64_t counted_from, const uint64_t *sizes, uint32_t size_count,
                                    uint64_t *hits_out);

#ifdef __cplusplus
}
#endif
#endif

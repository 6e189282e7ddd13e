/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Scores, the ranking they give, and the graph relabelled by it.
 *
 * A score says how often a vertex's row will be asked for. Rank 0 is the hottest row. Two maps, not one: vertex_of_rank
 * (new -> old, the argsort) and rank_of_vertex (old -> new, its inverse). Mixing them up is the classic mistake.
 */
#ifndef RUNG_RANK_H
#define RUNG_RANK_H

#include "graph.h"

#ifdef __cplusplus
extern "C" {
#endif

enum rung_score_method {
	RUNG_SCORE_DEFAULT = 0,     /**< wrpagerank */
	/**
	 * out_degree(u): how many lists hold u. One edge pass.
	 */
	RUNG_SCORE_DEGREE,
	/**
	 * Reverse PageRank run to convergence: s[u] = 1/N at first, then
	 * s'[u] = (1-d)/N + d * sum over v with u in in(v) of s[v]/in_degree(v), until the L1 change is below the tolerance.
	 * Page, Brin, Motwani, Winograd, "The PageRank Citation Ranking", 1999, on the reversed graph.
	 * A vertex without in-neighbours passes nothing on. One edge pass per iteration; 41-68 to 1e-6 on real graphs.
	 */
	RUNG_SCORE_RPAGERANK,
	/**
	 * Weighted reverse PageRank: Algorithm 1 of the data-tiering paper (Min et al., "Graph Neural Network Training with
	 * Data Tiering", 2021) as it has to be read: the start is 1/N with the T distinct train vertices times N/T, and exactly
	 * `iterations` steps of the formula above follow. No train vertices: the start stays 1/N. The paper's pseudo-code pulls
	 * along the wrong direction, divides by an in_degree of zero and does not give d; here the score of v is spread over
	 * in(v), a vertex without in-neighbours passes nothing on, and d is 0.85 unless chosen.
	 */
	RUNG_SCORE_WRPAGERANK
};

struct rung_score_opts {
	size_t size;                     /**< sizeof(struct rung_score_opts), set by the initialiser */
	enum rung_score_method method;
	uint32_t iterations;             /**< wrpagerank: steps, 0: 5.  rpagerank: at most so many, 0: 200 */
	double damping;                  /**< 0: 0.85; else inside (0,1) */
	double tolerance;                /**< rpagerank: L1 change to stop at, 0: 1e-6; float32 state: below 1e-7 it may run to the cap */
	const uint64_t *train;           /**< [train_count] train vertices, repeats allowed; NULL: none */
	uint64_t train_count;
	uint32_t threads;                /**< 0: as OpenMP has it; the result is the same bits for any number */
	rung_progress_fn progress;       /**< may be NULL; counts edge passes */
	void *progress_ctx;
};

#ifdef __cplusplus
static inline struct rung_score_opts rung_score_opts_init(void)
{
	struct rung_score_opts opts = {};
	opts.size = sizeof(opts);
	return opts;
}
#else
#define RUNG_SCORE_OPTS_INIT { .size = sizeof(struct rung_score_opts) }
#endif

struct rung_score_report {
	uint64_t edge_passes;  /**< times every edge was read, the turning of the graph included */
	uint32_t iterations;   /**< steps done */
	double residual;       /**< L1 change of the last step; 0 for degree */
	double seconds;        /**< wall time */
};

/**
 * Compute a score for every vertex.
 *
 * @param csc         the graph, checked (rung_csc_check)
 * @param opts        NULL: defaults
 * @param score_out   [vertex_count] float32, by original id
 * @param report_out  may be NULL
 * @return 0, RUNG_E_INVAL (damping, method), RUNG_E_RANGE (a train id, with its place), RUNG_E_NOMEM, RUNG_E_CANCELED
 *
 * Memory: the graph turned to CSR (8 bytes a vertex + index_bytes an edge), 12 bytes a vertex, and buffers of at most 100 MiB;
 * for degree 8 bytes a vertex.
 */
RUNG_API int rung_score_compute(const struct rung_csc *csc, const struct rung_score_opts *opts, float *score_out,
                                struct rung_score_report *report_out);

/** "wrpagerank" …; NULL for a value that is no method. RUNG_SCORE_DEFAULT gives the name of the default. */
RUNG_API const char *rung_score_method_name(enum rung_score_method method);

/** 0 and the method of a name, RUNG_E_INVAL when there is none, RUNG_E_NOSUP for a method that is not yet available. */
RUNG_API int rung_score_method_parse(const char *name, enum rung_score_method *method_out);

/**
 * Rank vertices by descending score: a stable parallel radix sort. Equal scores (0.0 and -0.0 are equal) by ascending id; NaN last.
 *
 * @param score           [vertex_count]
 * @param index_bytes     4 or 8, of both maps; 4 only while every id fits
 * @param vertex_of_rank  [vertex_count] written
 * @param rank_of_vertex  [vertex_count] written; may be NULL
 * @param threads         0: as OpenMP has it; the result does not depend on it
 * @return 0, RUNG_E_INVAL, RUNG_E_NOMEM
 */
RUNG_API int rung_rank_order(const float *score, uint64_t vertex_count, unsigned index_bytes, uint32_t threads,
                             void *vertex_of_rank, void *rank_of_vertex);

/**
 * Relabel a graph (the data-tiering paper's Algorithm 2, with both maps kept apart): the list of rank r is the list of
 * vertex_of_rank[r], every entry mapped by rank_of_vertex, in the old order.
 *
 * @param csc             the graph, checked
 * @param vertex_of_rank  [vertex_count] of csc->index_bytes
 * @param rank_of_vertex  [vertex_count] of csc->index_bytes, its inverse
 * @param threads         0: as OpenMP has it; the result does not depend on it
 * @param indptr_out      [vertex_count + 1] written
 * @param indices_out     [edge_count] of csc->index_bytes written; must not overlap the input
 * @return 0, or RUNG_E_FORMAT when the two maps are not each other's inverse (names the entry)
 */
RUNG_API int rung_graph_relabel(const struct rung_csc *csc, const void *vertex_of_rank, const void *rank_of_vertex,
                                uint32_t threads, uint64_t *indptr_out, void *indices_out);

#ifdef __cplusplus
}
#endif
#endif

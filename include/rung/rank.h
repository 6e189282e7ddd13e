/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Scores, the ranking they give, and the graph relabelled by it.
 *
 * A score says how often a vertex's row will be asked for. Rank 0 is the hottest row. Two maps, not one: vertex_of_rank
 * (new -> old, the argsort) and rank_of_vertex (old -> new, its inverse). Mixing them up is the classic mistake.
 */
#ifndef RUNG_RANK_H
#define RUNG_RANK_H

#include "edges.h"
#include "sampler.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Notation: in(v) is the list of v, u in in(v) says that v draws u; N vertices; T train vertices, all vertices without any given; L hops.
 * Cost is told in passes over the edges, memory beside the graph in bytes a vertex, the 4 of the score included. All methods are
 * deterministic: the same bits for any number of threads, and whether the edges are in memory or in files.
 */
enum rung_score_method {
	RUNG_SCORE_DEFAULT = 0,     /**< blend */
	/**
	 * out_degree(u): how many lists hold u.
	 * One pass, 12 bytes. For a first look; where hubs are what batches ask for (social graphs), it is nearly as good as any.
	 */
	RUNG_SCORE_DEGREE,
	/**
	 * Reverse PageRank run to convergence: s[u] = 1/N at first, then
	 * s'[u] = (1-d)/N + d * sum over v with u in in(v) of s[v]/in_degree(v), until the L1 change is below the tolerance.
	 * Page, Brin, Motwani, Winograd, "The PageRank Citation Ranking", 1999, on the reversed graph.
	 * A vertex without in-neighbours passes nothing on. A pass a step, 41-68 to 1e-6 on real graphs; 12 bytes.
	 * For comparison with those who use it.
	 */
	RUNG_SCORE_RPAGERANK,
	/**
	 * Weighted reverse PageRank: Algorithm 1 of the data-tiering paper (Min et al., "Graph Neural Network Training with
	 * Data Tiering", 2021) as it has to be read: the start is 1/N with the T distinct train vertices times N/T, and exactly
	 * `iterations` steps of the formula above follow. The paper's pseudo-code pulls along the wrong direction (over in-neighbours,
	 * where the score of v has to reach those that v draws from), divides by an in_degree of zero and does not give d;
	 * here the score of v is spread over in(v), a vertex without in-neighbours passes nothing on, and d is 0.85 unless chosen.
	 * A pass a step, 12 bytes. For comparison; without knowledge of the sampling, PPR is better.
	 */
	RUNG_SCORE_WRPAGERANK,
	/**
	 * Reverse PageRank personalised to the train vertices: start and teleport 1/T for them, 0 for all others; `iterations` steps.
	 * Haveliwala, "Topic-Sensitive PageRank", 2002, on the reversed graph. One vector serves all train vertices.
	 * A pass a step, 12 bytes. Where train vertices are known and fanouts are not.
	 */
	RUNG_SCORE_PPR,
	/**
	 * How many sampled batches hold u: `epochs` epochs of the sampler that training will use are counted (PreSC of Yang et al.,
	 * "GNNLab: A Factored System for Sample-based GNN Training over GPUs", 2022).
	 * The work of that much sampling; 8 bytes and 4 for each thread. Good for rows that many batches ask for, blind to rare ones.
	 */
	RUNG_SCORE_PRESAMPLE,
	/**
	 * Expected access: -log(1 - P), P the probability that a batch asks for u, worked out hop by hop from fanouts, batch size and train
	 * vertices, without sampling. src/score/score_expected.c has the formula, docs/SCORES.md derives it.
	 * L passes and up to three to find out which edges go both ways, or join vertices that the same ones draw; 4 L + 20 bytes. Where
	 * nothing is to be sampled ahead.
	 */
	RUNG_SCORE_EXPECTED,
	/**
	 * `expected`, corrected by two sampled runs of `batches_max` batches each. The second begins with the seeds of an eighth of the first,
	 * which shows how much of the counts is noise; the less, the more they are believed. src/score/blend.c has the formula, docs/SCORES.md derives it. Also -log(1 - P).
	 * The cost of `expected` and of the sampling; 4 bytes more, and 4 for each thread. The default: on no graph measured is another better.
	 */
	RUNG_SCORE_BLEND
};

/** Options of rung_score_compute() and rung_score_edges(). */
struct rung_score_opts {
	size_t size;                     /**< sizeof(struct rung_score_opts), set by the initialiser */
	enum rung_score_method method;
	uint32_t iterations;             /**< wrpagerank, ppr: steps, 0: 5.  rpagerank: at most so many, 0: 200 */
	double damping;                  /**< 0: 0.85; else inside (0,1) */
	double tolerance;                /**< rpagerank: L1 change to stop at, 0: 1e-6; float32 state: below 1e-7 it may run to the cap */
	const uint64_t *train;           /**< [train_count] train vertices, each once; NULL: every vertex */
	uint64_t train_count;
	uint32_t threads;                /**< 0: as OpenMP has it; the result is the same bits for any number */
	rung_progress_fn progress;       /**< may be NULL; counts edge passes, then sampled batches */
	void *progress_ctx;
	/* presample, expected, blend: how training will sample */
	const uint32_t *fanouts;         /**< [hop_count], hop 0 (from the seeds) first, each at least 1; UINT32_MAX: all */
	uint32_t hop_count;
	uint32_t batch_size;             /**< 0: 1024 */
	enum rung_draws draws;
	/* presample, blend */
	uint64_t seed;                   /**< of the sampled batches, which are others than those of a trainer with the same seed */
	uint32_t epochs;                 /**< presample: 0: 1 */
	uint32_t batches_max;            /**< of a run. presample: 0: no limit.  blend: 0: 256 */
	uint64_t memory_bytes;           /**< rung_score_edges(): for everything but the graph's own buffers; 0: as little as works well */
};

/** Initialiser: all defaults. In C++: rung_score_opts_init(). */
#define RUNG_SCORE_OPTS_INIT { .size = sizeof(struct rung_score_opts) }
RUNG_INIT_FUNCTION(rung_score_opts, {})

/** What working out a score took. */
struct rung_score_report {
	uint64_t edge_passes;      /**< times every edge was read */
	uint32_t iterations;       /**< steps or hops done */
	double residual;           /**< PageRanks: L1 change of the last step */
	uint64_t batches_sampled;  /**< presample, blend */
	double seconds;            /**< wall time */
};

/**
 * Compute a score for every vertex.
 *
 * @param csc         the graph, checked (rung_csc_check)
 * @param opts        NULL: defaults; blend, which is the default, needs fanouts
 * @param score_out   [vertex_count] float32, by original id
 * @param report_out  may be NULL
 * @return 0, RUNG_E_INVAL (method, damping; fanouts missing or 0; a train id twice, with both places), RUNG_E_RANGE (a train id, with its
 *         place), RUNG_E_NOMEM, RUNG_E_CANCELED
 *
 * Memory: what the method says, 8 bytes an edge, and some MiB a thread. `expected` and `blend` take a bit an edge more.
 */
RUNG_API int rung_score_compute(const struct rung_csc *csc, const struct rung_score_opts *opts, float *score_out,
                                struct rung_score_report *report_out);

/**
 * The same for a graph whose edges stay in files, which are read once a pass, in order, while what came before is worked on. The score is
 * the one of rung_score_compute(), bit by bit.
 *
 * @param edges  no pass of it is running
 * @return as above; RUNG_E_INVAL when memory_bytes is too small (says the least that works); what reading returns
 */
RUNG_API int rung_score_edges(struct rung_edges *edges, const struct rung_score_opts *opts, float *score_out,
                              struct rung_score_report *report_out);

/** "blend" …; NULL for a value that is no method. RUNG_SCORE_DEFAULT gives the name of the default. */
RUNG_API const char *rung_score_method_name(enum rung_score_method method);

/** 0 and the method of a name, RUNG_E_INVAL when there is none. */
RUNG_API int rung_score_method_parse(const char *name, enum rung_score_method *method_out);

/**
 * Rank vertices by descending score, in parallel. Equal scores (0.0 and -0.0 are equal) by ascending id; NaN last.
 *
 * @param score           [vertex_count]
 * @param index_bytes     4 or 8, of both maps; 4 only while every id fits
 * @param vertex_of_rank  [vertex_count] written
 * @param rank_of_vertex  [vertex_count] written; may be NULL
 * @param threads         0: as OpenMP has it; the result does not depend on it
 * @return 0, RUNG_E_INVAL, RUNG_E_NOMEM
 *
 * Memory: 8 bytes a vertex, 16 past 2^32 vertices; and about 1 MiB a thread, or 4 bytes for every 1000 vertices if that is more.
 */
RUNG_API int rung_rank_order(const float *score, uint64_t vertex_count, unsigned index_bytes, uint32_t threads,
                             void *vertex_of_rank, void *rank_of_vertex);

#ifdef __cplusplus
}
#endif
#endif

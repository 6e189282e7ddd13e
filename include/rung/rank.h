/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Scores of vertices, and the ranking that follows from them.
 *
 * A score estimates how often batches request the row of a vertex. Rank 0 is the hottest row. There
 * are two maps, which are easily confused: vertex_of_rank (new -> old, the argsort) and
 * rank_of_vertex (old -> new, its inverse).
 *
 * Memory. rung_score_compute() needs the memory documented for the method, 8 bytes per edge, and
 * some MiB per thread; `expected` and `blend` need one more bit per edge.
 *
 * Edges in files. Each pass of rung_score_edges() reads the edges once, in order, while the
 * previous chunk is processed. The score is bitwise identical to that of rung_score_compute().
 */
#ifndef RUNG_RANK_H
#define RUNG_RANK_H

#include "edges.h"
#include "sampler.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Scoring methods.
 *
 * Notation: in(v) is the list of v, and u in in(v) means that v draws u; N is the number of
 * vertices; T is the number of train vertices, or N if none are given; L is the number of hops.
 * Costs are passes over the edges; memory is bytes per vertex in addition to the graph, with the 4
 * bytes of the score. All methods are deterministic: the result is bitwise identical for any number
 * of threads, and for edges in memory and in files.
 */
enum rung_score_method {
	RUNG_SCORE_DEFAULT = 0, /**< blend */
	/**
	 * out_degree(u): the number of lists that contain u. One pass, 12 bytes. A quick estimate;
	 * on graphs whose batches mostly request hubs (social graphs), nearly as good as any.
	 */
	RUNG_SCORE_DEGREE,
	/**
	 * Reverse PageRank until convergence: s[u] = 1/N initially, then
	 * s'[u] = (1-d)/N + d * sum over v with u in in(v) of s[v]/in_degree(v), until the L1
	 * change is below the tolerance. Page, Brin, Motwani, Winograd, "The PageRank Citation
	 * Ranking", 1999, on the reversed graph. A vertex without in-neighbours passes nothing on.
	 * One pass per step, 41 to 68 steps to 1e-6 on real graphs; 12 bytes. For comparison with
	 * systems that use it.
	 */
	RUNG_SCORE_RPAGERANK,
	/**
	 * Weighted reverse PageRank: Algorithm 1 of the data-tiering paper (Min et al., "Graph
	 * Neural Network Training with Data Tiering", 2021), with corrections. The initial value is
	 * 1/N, multiplied by N/T for the T distinct train vertices, and exactly `iterations` steps
	 * of the formula above follow. The pseudo-code of the paper pulls in the wrong direction
	 * (over in-neighbours, although the score of v must reach the vertices that v draws from),
	 * divides by an in_degree of zero and does not give d. Here, the score of v is distributed
	 * over in(v), a vertex without in-neighbours passes nothing on, and d defaults to 0.85. One
	 * pass per step, 12 bytes. For comparison; if sampling is unknown, PPR is better.
	 */
	RUNG_SCORE_WRPAGERANK,
	/**
	 * Reverse PageRank personalised to the train vertices: initial value and teleport 1/T for
	 * them, 0 for all others; `iterations` steps. Haveliwala, "Topic-Sensitive PageRank", 2002,
	 * on the reversed graph, with one vector for all train vertices. One pass per step, 12
	 * bytes. For known train vertices and unknown fanouts.
	 */
	RUNG_SCORE_PPR,
	/**
	 * The number of sampled batches that contain u, over `epochs` epochs of the sampler that
	 * training will use (PreSC of Yang et al., "GNNLab: A Factored System for Sample-based GNN
	 * Training over GPUs", 2022). Costs as much as that sampling; 8 bytes, and 4 per thread.
	 * Accurate for rows that many batches request; it has no information about rarely requested
	 * rows.
	 */
	RUNG_SCORE_PRESAMPLE,
	/**
	 * Expected access: -log(1 - P), where P is the probability that a batch requests u. It is
	 * computed hop by hop from fanouts, batch size and train vertices, without sampling. The
	 * formula is in src/score/score_expected.c and is derived in docs/SCORES.md. L passes, and
	 * up to three more to find edges that go both ways or that join vertices drawn by the same
	 * vertices; 4 L + 20 bytes. For jobs that must not sample in advance.
	 */
	RUNG_SCORE_EXPECTED,
	/**
	 * `expected`, corrected by two sampled runs of `batches_max` batches each. The second run
	 * repeats the seeds of an eighth of the first, which shows how noisy the counts are; the
	 * less noise, the larger their weight. The formula is in src/score/blend.c and is derived
	 * in docs/SCORES.md. Also -log(1 - P). Costs of `expected` and of the sampling; 4 bytes
	 * more, and 4 per thread. The default: no other method was better on any measured graph.
	 */
	RUNG_SCORE_BLEND
};

/** Options of rung_score_compute() and rung_score_edges(). */
struct rung_score_opts {
	size_t size; /**< sizeof the struct, set by the initialiser */
	enum rung_score_method method;
	/** wrpagerank, ppr: number of steps, 0: 5. rpagerank: maximum number of steps, 0: 200 */
	uint32_t iterations;
	double damping; /**< greater than 0 and less than 1; 0: 0.85 */
	/**
	 * rpagerank: stop at this L1 change, at most 1e6; 0: 1e-6. The state is float32: with less
	 * than 1e-7 it may not stop before the maximum number of steps
	 */
	double tolerance;
	const uint64_t *train; /**< [train_count] ids, each once; NULL: all vertices */
	uint64_t train_count;
	uint32_t threads;          /**< 0: OpenMP's default; never changes the result */
	rung_progress_fn progress; /**< may be NULL; counts edge passes, then batches */
	void *progress_ctx;
	/* presample, expected, blend: how training will sample */
	/** [hop_count], hop 0 (from the seeds) first, each at least 1; UINT32_MAX: all */
	const uint32_t *fanouts;
	uint32_t hop_count;
	uint32_t batch_size; /**< 0: 1024 */
	enum rung_draws draws;
	/* presample, blend */
	/** of the sampled batches, which differ from those of a trainer with the same seed */
	uint64_t seed;
	uint32_t epochs;      /**< presample: number of epochs; 0: 1 */
	uint32_t batches_max; /**< per run; 0: no limit for presample, 256 for blend */
	/** rung_score_edges(): for everything except the buffers of the graph; 0: automatic */
	uint64_t memory_bytes;
};

/** Initialiser: all defaults. In C++: rung_score_opts_init(). */
#define RUNG_SCORE_OPTS_INIT RUNG_INIT(struct rung_score_opts)
RUNG_INIT_FUNCTION(rung_score_opts, {})

/** Work done to compute a score. */
struct rung_score_report {
	uint64_t edge_passes;     /**< passes over all edges */
	uint32_t iterations;      /**< number of steps or hops */
	double residual;          /**< PageRanks: L1 change of the last step */
	uint64_t batches_sampled; /**< presample, blend */
	double seconds;           /**< wall time */
};

/**
 * Compute the score of every vertex of a graph in memory. See Memory at the top of this file.
 *
 * @param csc         the graph, checked (rung_csc_check())
 * @param opts        NULL: defaults; the default method, blend, needs fanouts
 * @param score_out   [vertex_count] float32, by original id
 * @param report_out  may be NULL
 * @return 0, RUNG_E_INVAL (method, damping; fanouts missing or 0; a train id that occurs twice,
 *         with both positions), RUNG_E_RANGE (a train id, with its position), RUNG_E_NOMEM,
 *         RUNG_E_CANCELED
 *
 * Threads: any; it uses OpenMP threads.
 */
RUNG_API int rung_score_compute(const struct rung_csc *csc, const struct rung_score_opts *opts,
                                float *score_out, struct rung_score_report *report_out);

/**
 * Compute the score of every vertex of a graph whose edges stay in files. See Edges in files at the
 * top of this file.
 *
 * @param edges       no pass over it may be running
 * @param opts        as for rung_score_compute(), and memory_bytes
 * @param score_out   [vertex_count] float32, by original id
 * @param report_out  may be NULL
 * @return as rung_score_compute(); RUNG_E_INVAL if memory_bytes is too small, with the smallest
 *         value that works; or the errors of reading
 *
 * Threads: one call per graph at a time; it uses OpenMP threads.
 */
RUNG_API int rung_score_edges(struct rung_edges *edges, const struct rung_score_opts *opts,
                              float *score_out, struct rung_score_report *report_out);

/**
 * Name of a scoring method, as the command line, the manifest and Python use it.
 *
 * @param method  a method; any other value is accepted, too
 * @return a constant string such as "blend", which must not be freed; for RUNG_SCORE_DEFAULT the
 *         name of the default method; NULL if `method` is not a valid method
 *
 * rung_score_method_parse() is the inverse function.
 *
 * Threads: any.
 */
RUNG_API const char *rung_score_method_name(enum rung_score_method method);

/**
 * Scoring method of a name, such as a user typed it.
 *
 * @param name        "blend", "expected", "presample", "ppr", "wrpagerank", "rpagerank" or "degree"
 * @param method_out  the method
 * @return 0, or RUNG_E_INVAL if no method has that name
 *
 * Names are case-sensitive and must be complete. "default" is not a name; use RUNG_SCORE_DEFAULT.
 *
 * Threads: any.
 */
RUNG_API int rung_score_method_parse(const char *name, enum rung_score_method *method_out);

/**
 * Rank vertices by descending score, in parallel. Equal scores are ranked by ascending id (0.0 and
 * -0.0 are equal), and NaN is last.
 *
 * @param score           [vertex_count]
 * @param index_bytes     of the entries of both maps: 8, or 4 if rung_index_bytes() returns 4
 * @param threads         0: OpenMP's default; the result does not depend on it
 * @param vertex_of_rank  [vertex_count] written
 * @param rank_of_vertex  [vertex_count] written; may be NULL
 * @return 0, RUNG_E_INVAL, RUNG_E_NOMEM
 *
 * Memory: 8 bytes per vertex, or 16 above 2^32 vertices, and per thread 1 MiB or 4 bytes per 1000
 * vertices, whichever is larger.
 *
 * Threads: any.
 */
RUNG_API int rung_rank_order(const float *score, uint64_t vertex_count, unsigned index_bytes,
                             uint32_t threads, void *vertex_of_rank, void *rank_of_vertex);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scores of vertices: out-degree and reverse PageRank, plain and weighted by the train vertices. The formulas stand in rank.h.
 *
 * One step computes, for all vertices,
 *     c[v]  = s[v] / in_degree(v)                              (0 for a vertex without in-neighbours: it passes nothing on)
 *     s'[u] = (1-d)/N + d * sum of c[v] over the out-list of u
 * The graph is turned once, so that every vertex pulls its own sum: no two threads write one place, and the order of the
 * additions is that of the list. Sums are doubles, the state is float32. The change of a step is summed up in blocks of a
 * fixed size and then over the blocks in order: the same bits for any number of threads.
 *
 * Corners: a train vertex named twice weighs once; a self loop passes a share back to its vertex; parallel edges count each.
 */
#include <math.h>
#include <string.h>

#include "bucket.h"
#include "graph_internal.h"
#include "rung/rank.h"

#define BLOCK_VERTICES UINT64_C(4096)
#define TURN_PASSES 2u               /* turning reads every edge to count and again to place */
#define ITERATIONS_WEIGHTED 5u
#define ITERATIONS_CONVERGED_MAX 200u
#define DAMPING 0.85
#define TOLERANCE 1e-6

struct pagerank {
	const struct rung_csc *csc;
	const struct rung_score_opts *opts;   /* with the defaults filled in */
	int threads;
	uint64_t *out_indptr;
	void *out_indices;
	float *score;            /* the caller's */
	float *passed_on;        /* c */
	double *block_change;    /* [block_count] */
	uint64_t block_count;
};

static const struct {
	const char *name;
	enum rung_score_method method;   /* RUNG_SCORE_DEFAULT: not yet available */
} methods[] = {
	{ "degree", RUNG_SCORE_DEGREE },       { "rpagerank", RUNG_SCORE_RPAGERANK },
	{ "wrpagerank", RUNG_SCORE_WRPAGERANK }, { "ppr", RUNG_SCORE_DEFAULT },
	{ "presample", RUNG_SCORE_DEFAULT },   { "expected", RUNG_SCORE_DEFAULT },
	{ "blend", RUNG_SCORE_DEFAULT },
};

const char *rung_score_method_name(enum rung_score_method method)
{
	if (method == RUNG_SCORE_DEFAULT)
		method = RUNG_SCORE_WRPAGERANK;
	for (size_t i = 0; i < RUNG__ARRAY_LEN(methods); i++) {
		if (methods[i].method == method)
			return methods[i].name;
	}
	return NULL;
}

int rung_score_method_parse(const char *name, enum rung_score_method *method_out)
{
	for (size_t i = 0; i < RUNG__ARRAY_LEN(methods); i++) {
		if (strcmp(methods[i].name, name))
			continue;
		if (methods[i].method == RUNG_SCORE_DEFAULT)
			return rung__fail(RUNG_E_NOSUP, "score method %s is not yet available: take degree, rpagerank or wrpagerank", name);
		*method_out = methods[i].method;
		return 0;
	}
	return rung__fail(RUNG_E_INVAL, "no score method is called \"%s\": take degree, rpagerank or wrpagerank", name);
}

static int take_opts(const struct rung_score_opts *caller_opts, struct rung_score_opts *opts)
{
	int rc = rung__opts_take(opts, sizeof(*opts), caller_opts, "rung_score_opts");

	if (rc < 0)
		return rc;
	if (opts->method == RUNG_SCORE_DEFAULT)
		opts->method = RUNG_SCORE_WRPAGERANK;
	if (!rung_score_method_name(opts->method))
		return rung__fail(RUNG_E_INVAL, "score: %d is no method", (int)opts->method);
	if (opts->damping == 0)
		opts->damping = DAMPING;
	if (!(opts->damping > 0 && opts->damping < 1))   /* NaN too */
		return rung__fail(RUNG_E_INVAL, "score: damping is %g: it lies between 0 and 1", opts->damping);
	if (opts->tolerance == 0)
		opts->tolerance = TOLERANCE;
	if (!(opts->tolerance > 0))
		return rung__fail(RUNG_E_INVAL, "score: tolerance is %g: it is above 0", opts->tolerance);
	if (opts->iterations == 0)
		opts->iterations = opts->method == RUNG_SCORE_WRPAGERANK ? ITERATIONS_WEIGHTED : ITERATIONS_CONVERGED_MAX;
	if (opts->train_count && !opts->train)
		return rung__fail(RUNG_E_INVAL, "score: %" PRIu64 " train vertices, but no array of them", opts->train_count);
	return 0;
}

static int check_train(const struct rung_csc *csc, const struct rung_score_opts *opts)
{
	for (uint64_t i = 0; i < opts->train_count; i++) {
		if (opts->train[i] >= csc->vertex_count)
			return rung__fail(RUNG_E_RANGE, "train vertex %" PRIu64 ": id %" PRIu64 " is not below the vertex count %" PRIu64
			                  ": correct the train ids", i, opts->train[i], csc->vertex_count);
	}
	return 0;
}

static int score_by_degree(const struct rung_csc *csc, const struct rung_score_opts *opts, float *score_out)
{
	const int threads = rung__threads(opts->threads);
	uint64_t *counts = rung__zalloc_array(csc->vertex_count, sizeof(*counts));

	if (!counts)
		return rung__fail(RUNG_E_NOMEM, "degrees of %" PRIu64 " vertices: no memory", csc->vertex_count);
	rung__count_keys(csc->indices, csc->index_bytes, csc->edge_count, threads, counts);
#pragma omp parallel for num_threads(threads) schedule(static)
	for (uint64_t v = 0; v < csc->vertex_count; v++)
		score_out[v] = (float)counts[v];
	rung__free(counts);
	return rung__progress(opts->progress, opts->progress_ctx, "score", 1, 1);
}

/* s = 1/N, and N/T times that for the T distinct train vertices. passed_on serves as their marks. */
static void start(const struct pagerank *pr)
{
	const double vertex_count = (double)pr->csc->vertex_count;
	uint64_t distinct = 0;
	float weighted;

	for (uint64_t v = 0; v < pr->csc->vertex_count; v++) {
		pr->score[v] = (float)(1 / vertex_count);
		pr->passed_on[v] = 0;
	}
	if (pr->opts->method != RUNG_SCORE_WRPAGERANK)
		return;
	for (uint64_t i = 0; i < pr->opts->train_count; i++) {
		float *mark = &pr->passed_on[pr->opts->train[i]];

		distinct += *mark == 0;
		*mark = 1;
	}
	weighted = (float)(1 / vertex_count * (vertex_count / (double)distinct));
	for (uint64_t i = 0; i < pr->opts->train_count; i++)
		pr->score[pr->opts->train[i]] = weighted;
}

static void pass_on(const struct pagerank *pr)
{
	const uint64_t *indptr = pr->csc->indptr;

#pragma omp parallel for num_threads(pr->threads) schedule(static)
	for (uint64_t v = 0; v < pr->csc->vertex_count; v++) {
		const uint64_t in_degree = indptr[v + 1] - indptr[v];

		pr->passed_on[v] = in_degree ? (float)((double)pr->score[v] / (double)in_degree) : 0;
	}
}

/* Four sums at once hide the latency of the addition; their order is fixed. */
static inline __attribute__((always_inline)) double
sum_list(const struct pagerank *pr, const void *list, unsigned index_bytes, uint64_t count)
{
	double sums[4] = { 0, 0, 0, 0 };
	uint64_t i = 0;

	for (; i + 4 <= count; i += 4) {
		for (unsigned k = 0; k < 4; k++)
			sums[k] += (double)pr->passed_on[rung__id_get(list, index_bytes, i + k)];
	}
	for (; i < count; i++)
		sums[0] += (double)pr->passed_on[rung__id_get(list, index_bytes, i)];
	return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

static inline __attribute__((always_inline)) double
pull_block(const struct pagerank *pr, uint64_t block, unsigned index_bytes)
{
	const uint64_t first = block * BLOCK_VERTICES, end = RUNG__MIN(first + BLOCK_VERTICES, pr->csc->vertex_count);
	const double base = (1 - pr->opts->damping) / (double)pr->csc->vertex_count;
	const char *indices = pr->out_indices;
	double change = 0;

	for (uint64_t u = first; u < end; u++) {
		const uint64_t begin = pr->out_indptr[u];
		const double sum = sum_list(pr, indices + begin * index_bytes, index_bytes, pr->out_indptr[u + 1] - begin);
		const float next = (float)(base + pr->opts->damping * sum);

		change += fabs((double)next - (double)pr->score[u]);
		pr->score[u] = next;
	}
	return change;
}

/* One step; returns its L1 change. */
static double step(const struct pagerank *pr)
{
	double change = 0;

	pass_on(pr);
#pragma omp parallel for num_threads(pr->threads) schedule(dynamic, 4)
	for (uint64_t block = 0; block < pr->block_count; block++)
		pr->block_change[block] = pr->csc->index_bytes == 4 ? pull_block(pr, block, 4) : pull_block(pr, block, 8);
	for (uint64_t block = 0; block < pr->block_count; block++)
		change += pr->block_change[block];
	return change;
}

static int run_steps(const struct pagerank *pr, struct rung_score_report *report)
{
	const struct rung_score_opts *opts = pr->opts;
	const bool until_converged = opts->method == RUNG_SCORE_RPAGERANK;

	report->edge_passes = TURN_PASSES;
	while (report->iterations < opts->iterations) {
		int rc;

		report->residual = step(pr);
		report->iterations++;
		report->edge_passes++;
		rc = rung__progress(opts->progress, opts->progress_ctx, "score", report->edge_passes,
		                    (uint64_t)TURN_PASSES + opts->iterations);
		if (rc < 0)
			return rc;
		if (until_converged && report->residual < opts->tolerance)
			break;
	}
	return 0;
}

static int score_by_pagerank(const struct rung_csc *csc, const struct rung_score_opts *opts, float *score_out,
                             struct rung_score_report *report)
{
	struct pagerank pr = {
		.csc = csc, .opts = opts, .threads = rung__threads(opts->threads), .score = score_out,
		.block_count = csc->vertex_count / BLOCK_VERTICES + (csc->vertex_count % BLOCK_VERTICES != 0),
	};
	int rc;

	pr.passed_on = rung__malloc_array(csc->vertex_count, sizeof(*pr.passed_on));
	pr.block_change = rung__malloc_array(pr.block_count, sizeof(*pr.block_change));
	if (!pr.passed_on || !pr.block_change) {
		rc = rung__fail(RUNG_E_NOMEM, "score of %" PRIu64 " vertices: no memory", csc->vertex_count);
		goto free_arrays;
	}
	rc = rung__csc_turn(csc, pr.threads, &pr.out_indptr, &pr.out_indices);
	if (rc < 0)
		goto free_arrays;
	start(&pr);
	rc = run_steps(&pr, report);
	rung__free(pr.out_indptr);
	rung__free(pr.out_indices);
free_arrays:
	rung__free(pr.passed_on);
	rung__free(pr.block_change);
	return rc;
}

int rung_score_compute(const struct rung_csc *csc, const struct rung_score_opts *caller_opts, float *score_out,
                       struct rung_score_report *report_out)
{
	struct rung_score_opts opts = RUNG_SCORE_OPTS_INIT;
	struct rung_score_report report = { .edge_passes = 1 };
	const uint64_t begin_ns = rung__now_ns();
	int rc;

	rc = take_opts(caller_opts, &opts);
	if (rc < 0)
		return rc;
	rc = check_train(csc, &opts);
	if (rc < 0)
		return rc;
	if (opts.method == RUNG_SCORE_DEGREE)
		rc = score_by_degree(csc, &opts, score_out);
	else
		rc = score_by_pagerank(csc, &opts, score_out, &report);
	if (rc < 0)
		return rc;
	report.seconds = (double)(rung__now_ns() - begin_ns) * 1e-9;
	if (report_out)
		*report_out = report;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Scores of vertices: check the options, mark the train vertices, and call the method. rank.h has
 * the formulas. */
#include <string.h>

#include "score/state.h"

/* default number of iterations; rpagerank ends earlier if it has converged */
#define ITERATIONS_WEIGHTED      5u
#define ITERATIONS_CONVERGED_MAX 200u
#define DAMPING                  0.85
#define TOLERANCE_MAX            1e6
#define TOLERANCE                1e-6 /* default tolerance: sum of the changes in one iteration */
#define BATCH_SIZE               1024u

enum needs { NEEDS_SAMPLING = 1, NEEDS_DAMPING = 2 };

static const struct {
	const char *name;
	enum rung_score_method method;
	unsigned needs;
	int (*compute)(const struct rung__scoring *scoring);
} methods[] = {
	{ "degree", RUNG_SCORE_DEGREE, 0, rung__score_degree },
	{ "rpagerank", RUNG_SCORE_RPAGERANK, NEEDS_DAMPING, rung__score_pagerank },
	{ "wrpagerank", RUNG_SCORE_WRPAGERANK, NEEDS_DAMPING, rung__score_pagerank },
	{ "ppr", RUNG_SCORE_PPR, NEEDS_DAMPING, rung__score_pagerank },
	{ "presample", RUNG_SCORE_PRESAMPLE, NEEDS_SAMPLING, rung__score_presample },
	{ "expected", RUNG_SCORE_EXPECTED, NEEDS_SAMPLING, rung__score_expected },
	{ "blend", RUNG_SCORE_BLEND, NEEDS_SAMPLING, rung__score_blend },
};

#define NAMES "degree, rpagerank, wrpagerank, ppr, presample, expected or blend"

/* Position in methods[]; past the end if the method is unknown. */
static size_t method_index(enum rung_score_method method)
{
	size_t i = 0;

	if (method == RUNG_SCORE_DEFAULT)
		method = RUNG_SCORE_BLEND;
	while (i < RUNG__ARRAY_LEN(methods) && methods[i].method != method)
		i++;
	return i;
}

const char *rung_score_method_name(enum rung_score_method method)
{
	const size_t i = method_index(method);

	return i < RUNG__ARRAY_LEN(methods) ? methods[i].name : NULL;
}

int rung_score_method_parse(const char *name, enum rung_score_method *method_out)
{
	for (size_t i = 0; i < RUNG__ARRAY_LEN(methods); i++) {
		if (strcmp(methods[i].name, name) == 0) {
			*method_out = methods[i].method;
			return 0;
		}
	}
	return rung__fail(RUNG_E_INVAL, "score: unknown method '%s'; use " NAMES, name);
}

static int check_fanouts(const struct rung_score_opts *opts, bool typed, const char *name)
{
	/* the relations of a typed graph have the fanouts, which may be 0 */
	if ((!opts->fanouts && !typed) || opts->hop_count == 0)
		return rung__fail(RUNG_E_INVAL,
		                  "score %s: no fanouts; give the training fanouts, such as 25,10",
		                  name);
	if (opts->hop_count > RUNG_HOPS_MAX)
		return rung__fail(RUNG_E_INVAL, "score %s: %" PRIu32 " hops; use at most %d", name,
		                  opts->hop_count, RUNG_HOPS_MAX);
	for (uint32_t hop = 0; !typed && hop < opts->hop_count; hop++) {
		if (opts->fanouts[hop] == 0)
			return rung__fail(RUNG_E_INVAL,
			                  "score %s: the fanout of hop %" PRIu32
			                  " is 0; use at least 1",
			                  name, hop);
	}
	if (opts->draws != RUNG_DRAWS_ALL && opts->draws != RUNG_DRAWS_NEW)
		return rung__fail(RUNG_E_INVAL,
		                  "score %s: %d is not a valid value for draws; use RUNG_DRAWS_ALL "
		                  "or RUNG_DRAWS_NEW",
		                  name, (int)opts->draws);
	return 0;
}

static int check_damping(struct rung_score_opts *opts)
{
	if (opts->damping == 0)
		opts->damping = DAMPING;
	if (!(opts->damping > 0 && opts->damping < 1)) /* NaN too */
		return rung__fail(RUNG_E_INVAL,
		                  "score: damping %g is out of range; use a value between 0 and 1",
		                  opts->damping);
	if (opts->tolerance == 0)
		opts->tolerance = TOLERANCE;
	if (!(opts->tolerance > 0 && opts->tolerance <= TOLERANCE_MAX))
		return rung__fail(
			RUNG_E_INVAL,
			"score: tolerance %g is out of range; use a value above 0 and at most %g",
			opts->tolerance, TOLERANCE_MAX);
	return 0;
}

/* Copy the caller's options, fill in the defaults and check them.
 * @param index_out  the method's position in methods[] */
static int copy_opts(const struct rung_score_opts *caller_opts, bool typed,
                     struct rung_score_opts *opts, size_t *index_out)
{
	int rc = rung__opts_copy_in(opts, sizeof(*opts), caller_opts, "rung_score_opts");

	if (rc < 0)
		return rc;
	*index_out = method_index(opts->method);
	if (*index_out == RUNG__ARRAY_LEN(methods))
		return rung__fail(
			RUNG_E_INVAL,
			"score: method %d is unknown; use a value of enum rung_score_method",
			(int)opts->method);
	opts->method = methods[*index_out].method;
	if (opts->iterations == 0)
		opts->iterations = opts->method == RUNG_SCORE_RPAGERANK ? ITERATIONS_CONVERGED_MAX
		                                                        : ITERATIONS_WEIGHTED;
	if (opts->batch_size == 0)
		opts->batch_size = BATCH_SIZE;
	if (opts->epochs == 0)
		opts->epochs = 1;
	if (opts->train_count && !opts->train)
		return rung__fail(RUNG_E_INVAL,
		                  "score: train_count is %" PRIu64
		                  ", but train is NULL; pass the array",
		                  opts->train_count);
	rc = check_damping(opts);
	if (rc == 0 && methods[*index_out].needs & NEEDS_SAMPLING)
		rc = check_fanouts(opts, typed, methods[*index_out].name);
	return rc;
}

/* Find the first occurrence of a repeated id, for the message. This search runs only after a
 * failure. */
static int fail_repeat(const struct rung_score_opts *opts, uint64_t second)
{
	uint64_t first = 0;

	while (opts->train[first] != opts->train[second])
		first++;
	return rung__fail(RUNG_E_INVAL,
	                  "train: entries %" PRIu64 " and %" PRIu64 " are both %" PRIu64
	                  "; give each id once",
	                  first, second, opts->train[second]);
}

/* Mark the train vertices in bits, which are also how repeated ids are found. compute() frees the
 * bits, also after a failure. */
static int mark_train(struct rung__scoring *scoring)
{
	const struct rung_score_opts *opts = scoring->opts;

	scoring->train_count = scoring->vertex_count;
	if (opts->train_count == 0)
		return 0;
	scoring->is_train =
		rung__zalloc_array(scoring->vertex_count / 64 + 1, sizeof(*scoring->is_train));
	if (!scoring->is_train)
		return rung__fail(RUNG_E_NOMEM,
		                  "score: no memory for a bit for each of %" PRIu64 " vertices",
		                  scoring->vertex_count);
	for (uint64_t i = 0; i < opts->train_count; i++) {
		const uint64_t id = opts->train[i];

		if (id >= scoring->vertex_count)
			return rung__fail(RUNG_E_RANGE,
			                  "train: entry %" PRIu64 " is %" PRIu64
			                  ", not below the vertex count %" PRIu64
			                  "; correct the train ids",
			                  i, id, scoring->vertex_count);
		if (rung__is_train(scoring, id))
			return fail_repeat(opts, i);
		scoring->is_train[id / 64] |= UINT64_C(1) << (id % 64);
	}
	scoring->train_count = opts->train_count;
	return 0;
}

int rung__scoring_compute(struct rung__scoring *scoring, const struct rung_score_opts *caller_opts,
                          struct rung_score_report *report_out)
{
	struct rung_score_opts opts = RUNG_SCORE_OPTS_INIT;
	struct rung_score_report report = { 0 };
	const uint64_t begin_ns = rung__now_ns();
	size_t place;
	int rc = copy_opts(caller_opts, scoring->graph != &scoring->one, &opts, &place);

	if (rc < 0)
		return rc;
	scoring->opts = &opts;
	scoring->relation.fanouts = opts.fanouts;
	scoring->report = &report;
	scoring->threads = rung__threads(opts.threads);
	rc = mark_train(scoring);
	if (rc == 0)
		rc = methods[place].compute(scoring);
	rung__free(scoring->is_train);
	if (rc < 0)
		return rc;
	report.seconds = (double)(rung__now_ns() - begin_ns) * 1e-9;
	if (report_out)
		*report_out = report;
	return 0;
}

/* A graph of one type. */
static int compute_untyped(const struct rung_csc *csc, struct rung_edges *edges,
                           uint64_t vertex_count, const struct rung_score_opts *opts,
                           float *score_out, struct rung_score_report *report_out)
{
	const struct rung__typed_scores scores = { .types = &score_out };
	struct rung__scoring scoring = {
		.graph = &scoring.one,
		.relation = { .csc = csc, .edges = edges },
		.one = { .type_counts = &vertex_count,
		         .type_count = 1,
		         .relations = &scoring.relation,
		         .relation_count = 1 },
		.scores = &scores,
		.vertex_count = vertex_count,
		.score = score_out,
	};

	return rung__scoring_compute(&scoring, opts, report_out);
}

int rung_score_compute(const struct rung_csc *csc, const struct rung_score_opts *opts,
                       float *score_out, struct rung_score_report *report_out)
{
	return compute_untyped(csc, NULL, csc->vertex_count, opts, score_out, report_out);
}

int rung_score_edges(struct rung_edges *edges, const struct rung_score_opts *opts, float *score_out,
                     struct rung_score_report *report_out)
{
	struct rung_edges_info info = { .size = sizeof(info) };
	const int rc = rung_edges_info(edges, &info);

	if (rc < 0)
		return rc;
	return compute_untyped(NULL, edges, info.vertex_count, opts, score_out, report_out);
}

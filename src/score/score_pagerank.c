/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Out-degree, and reverse PageRank: plain, weighted by the train vertices, and personalised to
 * them. rank.h has the formulas.
 *
 * One step is one pass over the edges: v sends c[v] = s[v] / in_degree(v) to each u of in(v), and u
 * becomes
 *     s'[u] = (1-d) * teleport[u] + d * sum of the received values
 * Sums are doubles, the state is float32.
 *
 * Special cases: a vertex without in-neighbours sends nothing; a self loop returns a share to its
 * vertex; each of several parallel edges counts.
 */
#include <math.h>

#include "score/state.h"

static void send_one(void *ctx, uint64_t first, uint64_t count, const uint64_t *indptr,
                     float *messages)
{
	(void)ctx;
	(void)first;
	(void)indptr;
	for (uint64_t i = 0; i < count; i++)
		messages[i] = 1;
}

/* receive() of the degree: each edge has sent 1, so the sum is the number of out-edges. */
static double accept_count(void *ctx, uint64_t first, uint64_t count, const double *sums)
{
	const struct rung__scoring *scoring = ctx;

	for (uint64_t i = 0; i < count; i++)
		scoring->score[first + i] = (float)sums[i];
	return 0;
}

int rung__score_degree(const struct rung__scoring *scoring)
{
	const struct rung__propagation_rule rule = { .ctx = (void *)(uintptr_t)scoring,
		                                     .send = send_one,
		                                     .receive = accept_count };
	struct rung__propagation_opts opts = { .pass_total = 1 };
	struct rung__propagation *prop;
	int rc = rung__scoring_propagation(scoring, scoring->graph->relations, &opts, &prop);

	if (rc < 0)
		return rc;
	rc = rung__propagation_pass(prop, &rule, NULL);
	scoring->report->edge_passes = rung__propagation_passes(prop);
	rung__propagation_close(prop);
	return rc;
}

struct pagerank {
	const struct rung__scoring *scoring;
	double damping;
	double base, base_train; /* (1-d) * teleport of an ordinary vertex, and of a train vertex */
};

static void send_share(void *ctx, uint64_t first, uint64_t count, const uint64_t *indptr,
                       float *messages)
{
	const struct pagerank *pr = ctx;
	const float *score = pr->scoring->score + first;

	for (uint64_t i = 0; i < count; i++) {
		const uint64_t in_degree = indptr[i + 1] - indptr[i];

		messages[i] = in_degree ? (float)((double)score[i] / (double)in_degree) : 0;
	}
}

/* receive() of a step. @return the sum of the changes, from which convergence is determined */
static double sum_shares(void *ctx, uint64_t first, uint64_t count, const double *sums)
{
	const struct pagerank *pr = ctx;
	/* rpagerank and wrpagerank treat all vertices alike, so train vertices need not be looked
	 * up */
	const bool alike = pr->base == pr->base_train;
	float *score = pr->scoring->score + first;
	double change = 0;

	for (uint64_t i = 0; i < count; i++) {
		const double base = alike || !rung__is_train(pr->scoring, first + i)
		                            ? pr->base
		                            : pr->base_train;
		const float next = (float)(base + pr->damping * sums[i]);

		change += fabs((double)next - (double)score[i]);
		score[i] = next;
	}
	return change;
}

/* Set the first state: s = 1/N; wrpagerank: N/T times that for the T train vertices; ppr: 1/T for
 * the train vertices and 0 for the others. */
static void start(const struct rung__scoring *scoring)
{
	const enum rung_score_method method = scoring->opts->method;
	const double all = 1 / (double)scoring->vertex_count,
		     train = 1 / (double)scoring->train_count;
	const float other = (float)(method == RUNG_SCORE_PPR ? 0 : all);

	for (uint64_t v = 0; v < scoring->vertex_count; v++) {
		const bool weighted = method != RUNG_SCORE_RPAGERANK && rung__is_train(scoring, v);

		scoring->score[v] = weighted ? (float)train : other;
	}
}

/* Run steps until the last one, or for rpagerank until the state has converged. */
static int run_steps(const struct rung__scoring *scoring, struct rung__propagation *prop,
                     const struct rung__propagation_rule *rule)
{
	const struct rung_score_opts *opts = scoring->opts;
	struct rung_score_report *report = scoring->report;

	while (report->iterations < opts->iterations) {
		const int rc = rung__propagation_pass(prop, rule, &report->residual);

		if (rc < 0)
			return rc;
		report->iterations++;
		if (opts->method == RUNG_SCORE_RPAGERANK && report->residual < opts->tolerance)
			break;
	}
	return 0;
}

int rung__score_pagerank(const struct rung__scoring *scoring)
{
	const double rest = 1 - scoring->opts->damping;
	struct pagerank pr = { .scoring = scoring, .damping = scoring->opts->damping };
	const struct rung__propagation_rule rule = { .ctx = &pr,
		                                     .send = send_share,
		                                     .receive = sum_shares };
	struct rung__propagation_opts opts = { .pass_total = scoring->opts->iterations };
	struct rung__propagation *prop;
	int rc;

	pr.base = rest / (double)scoring->vertex_count;
	pr.base_train = pr.base;
	if (scoring->opts->method == RUNG_SCORE_PPR) {
		pr.base = 0;
		pr.base_train = rest / (double)scoring->train_count;
	}
	rc = rung__scoring_propagation(scoring, scoring->graph->relations, &opts, &prop);
	if (rc < 0)
		return rc;
	start(scoring);
	rc = run_steps(scoring, prop, &rule);
	scoring->report->edge_passes = rung__propagation_passes(prop);
	rung__propagation_close(prop);
	return rc;
}

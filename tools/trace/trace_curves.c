/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evaluation of a trace: the hits of each tier of the plan next to their forecast, and the hits of
 * tiers of any size for every requested order of the rows. Nothing is sampled again, except for a
 * forecast without a suitable score.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trace/trace.h"

/* Denser at the small end, where the hit rate changes most. */
const double trace_shares[TRACE_SHARES] = {
	0,   0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075,
	0.1, 0.15,  0.2,   0.25,  0.3,  0.4,  0.5,  0.75, 1,
};

/* ---- tiers ---- */

/*
 * Nonzero if the staged score predicts the hits: it is then -log(1 - P), where P is the probability
 * that a batch of this kind requests the row. That holds for two methods, and only if the batches
 * are sampled with the settings that the score was computed for.
 */
static int score_is_forecast(const struct trace_args *args, const struct trace_input *input)
{
	const struct rung_dataset_info *info = rung_dataset_info(input->ds);

	return (strcmp(info->score_method, "expected") == 0 ||
	        strcmp(info->score_method, "blend") == 0) &&
	       args->draws == RUNG_DRAWS_ALL && info->batch_size == input->batch &&
	       info->fanout_count == input->fanouts.count &&
	       memcmp(info->fanouts, input->fanouts.hops,
	              info->fanout_count * sizeof(*info->fanouts)) == 0;
}

/* The share of a tier is the sum of P over its rows, relative to that of all rows. @return a
 * status */
static int predict_by_score(const struct trace_input *input, struct trace_result *result)
{
	double all = 0, in_tier[TRACE_TIERS_MAX] = { 0 };
	void *score;
	int rc = rung_dataset_load_array(input->ds, "score", NULL, &score);

	if (rc < 0)
		return rc;
	for (unsigned t = 0; t < result->tier_count; t++) {
		const struct rung_plan_tier *tier = rung_plan_tier(input->plan, t);

		for (uint64_t rank = tier->rank_first; rank < tier->rank_first + tier->row_count;
		     rank++) /* P = 1 - exp(-score); expm1() is exact for small scores, too */
			in_tier[t] -= expm1(-(double)((const float *)score)[rank]);
		all += in_tier[t];
	}
	for (unsigned t = 0; t < result->tier_count; t++)
		result->tiers[t].predicted_hit_share = in_tier[t] / all;
	rung_free(score);
	result->predicted_by = "score";
	return 0;
}

/* Predict the hits from sampled batches. Their seed differs from that of the trace: the hits of the
 * same batches would not be a prediction. @return a status */
static int predict_by_sampling(const struct trace_args *args, const struct trace_input *input,
                               struct trace_result *result)
{
	struct rung_sampler_opts opts = RUNG_SAMPLER_OPTS_INIT;
	int rc;

	opts.fanouts = input->fanouts.hops;
	opts.hop_count = input->fanouts.count;
	opts.seed = ~args->seed;
	opts.threads = args->common.threads;
	opts.draws = args->draws;
	rc = rung_plan_predict(input->plan, tool_lists_for(&input->lists, &opts), &opts,
	                       input->seeds, input->seed_count, input->batch, 0, NULL, NULL);
	if (rc < 0)
		return rc;
	for (unsigned t = 0; t < result->tier_count; t++)
		result->tiers[t].predicted_hit_share = rung_plan_tier(input->plan, t)->hit_share;
	result->predicted_by = "sampled batches";
	return 0;
}

int trace_count_tiers(const struct trace_args *args, const struct trace_input *input,
                      const struct rung_trace *trace, struct trace_result *result)
{
	const uint64_t *counts = rung_trace_counts(trace);
	const struct rung_plan_tier *tier;

	for (unsigned t = 0; (tier = rung_plan_tier(input->plan, t)) != NULL && t < TRACE_TIERS_MAX;
	     t++) {
		struct trace_tier *out = &result->tiers[result->tier_count++];

		*out = (struct trace_tier){ .name = tier->name, .rows = tier->row_count };
		for (uint64_t rank = tier->rank_first; rank < tier->rank_first + tier->row_count;
		     rank++) {
			out->hits += counts[rank];
			result->unique_rows += counts[rank] > 0;
		}
	}
	return score_is_forecast(args, input) ? predict_by_score(input, result)
	                                      : predict_by_sampling(args, input, result);
}

/* ---- curves ---- */

/* @param hits  [TRACE_SHARES], out of `of` requests */
static struct trace_curve *add_curve(struct trace_result *result, const char *name,
                                     enum trace_kind kind, const uint64_t *hits, uint64_t of)
{
	struct trace_curve *curve = &result->curves[result->curve_count++];

	curve->name = name;
	curve->kind = kind;
	for (unsigned i = 0; i < TRACE_SHARES; i++)
		curve->hit_share[i] = (double)hits[i] / (double)of;
	return curve;
}

/* Score the staged graph, whose vertices are ranks, for the settings of the trace. @return a
 * status */
static int score_graph(const struct trace_args *args, const struct trace_input *input,
                       enum rung_score_method method, float *score)
{
	struct rung_score_opts opts = RUNG_SCORE_OPTS_INIT;

	opts.method = method;
	opts.threads = args->common.threads;
	opts.progress = tool_progress_update;
	opts.progress_ctx = input->progress;
	opts.train = input->seeds;
	opts.train_count = input->seed_count;
	opts.fanouts = input->fanouts.hops;
	opts.hop_count = input->fanouts.count;
	opts.batch_size = input->batch;
	opts.draws = args->draws;
	/* with the same seed, a score samples batches that differ from those of the trace: see
	 * rank.h */
	opts.seed = args->seed;
	return input->edges
	               ? rung_score_edges(input->edges, &opts, score, NULL)
	               : rung_score_compute(rung_graph_csc(input->lists.graph), &opts, score, NULL);
}

/* Score, order, count: memory is freed before the next method, so only one score is held at a
 * time. @return a status */
static int add_method(const struct trace_args *args, const struct trace_input *input,
                      enum rung_score_method method, const struct rung_trace *trace,
                      struct trace_result *result)
{
	const uint64_t vertex_count = rung_dataset_info(input->ds)->vertex_count;
	const unsigned index_bytes = rung_index_bytes(vertex_count);
	float *score = malloc(vertex_count * sizeof(*score));
	void *order = malloc(vertex_count * index_bytes);
	uint64_t hits[TRACE_SHARES];
	int rc = score && order ? score_graph(args, input, method, score) : RUNG_E_NOMEM;

	if (rc == 0)
		rc = rung_rank_order(score, vertex_count, index_bytes, args->common.threads, order,
		                     NULL);
	if (rc == 0)
		rc = rung_trace_static_hits(trace, order, index_bytes, result->sizes, TRACE_SHARES,
		                            hits);
	if (rc == 0)
		add_curve(result, rung_score_method_name(method), TRACE_STATIC, hits,
		          result->requests);
	free(score);
	free(order);
	return rc;
}

/* LRU and Belady begin with empty tiers: the first third of the requests fills them and is not
 * counted. A static tier is filled before training begins. @return a status */
static int add_dynamic(const struct rung_trace *trace, struct trace_result *result)
{
	uint64_t hits[TRACE_SHARES];
	int rc;

	result->kept = rung_trace_kept(trace);
	result->counted_from = result->kept / 3;
	rc = rung_trace_lru_hits(trace, result->counted_from, result->sizes, TRACE_SHARES, hits);
	if (rc < 0)
		return rc;
	add_curve(result, "LRU", TRACE_DYNAMIC, hits, result->kept - result->counted_from);
	rc = rung_trace_belady_hits(trace, result->counted_from, result->sizes, TRACE_SHARES, hits);
	if (rc < 0)
		return rc;
	add_curve(result, "Belady", TRACE_DYNAMIC, hits, result->kept - result->counted_from);
	return 0;
}

int trace_add_curves(const struct trace_args *args, const struct trace_input *input,
                     const struct rung_trace *trace, struct trace_result *result)
{
	const uint64_t vertex_count = rung_dataset_info(input->ds)->vertex_count;
	uint64_t hits[TRACE_SHARES];
	int rc;

	for (unsigned i = 0; i < TRACE_SHARES; i++)
		result->sizes[i] = (uint64_t)(trace_shares[i] * (double)vertex_count + 0.5);
	/* all rows, exactly: the product in double is inexact for huge counts */
	result->sizes[TRACE_SHARES - 1] = vertex_count;
	/* without an order the rows are in the order of their ids, which are the staged ranks */
	rc = rung_trace_static_hits(trace, NULL, 0, result->sizes, TRACE_SHARES, hits);
	if (rc == 0)
		add_curve(result, "staged", TRACE_STATIC, hits, result->requests);
	for (uint32_t m = 0; m < args->method_count && rc == 0; m++)
		rc = add_method(args, input, args->methods[m], trace, result);
	if (rc == 0)
		rc = rung_trace_oracle_hits(trace, result->sizes, TRACE_SHARES, hits);
	if (rc < 0)
		return rc;
	add_curve(result, "oracle", TRACE_ORACLE, hits, result->requests);
	return add_dynamic(trace, result);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Scores that use sampled batches: presample counts them, and blend corrects `expected` with two
 * runs of them. */
#include <math.h>
#include <string.h>

#include "score/presample_files.h"
#include "score/state.h"

#define BLEND_BATCHES 256u /* batches per run; more of them hardly change the order */

/* for graphs in files: bytes per vertex for one float score and two counts (blend); then the
 * default and the least bytes for the content of the batches */
#define BYTES_A_VERTEX     12u
#define SAMPLING_BYTES     (UINT64_C(128) << 20)
#define SAMPLING_BYTES_MIN (UINT64_C(1) << 20)

static struct rung_sampler_opts sampler_opts(const struct rung_score_opts *opts)
{
	return (struct rung_sampler_opts){
		.size = sizeof(struct rung_sampler_opts),
		.fanouts = opts->fanouts,
		.hop_count = opts->hop_count,
		.seed = opts->seed,
		.draws = opts->draws,
	};
}

/* A run of batch_count batches, with the progress fields still unset. */
static struct rung__run sampled_run(const struct rung__scoring *scoring, uint64_t batch_count)
{
	const struct rung_score_opts *opts = scoring->opts;

	return (struct rung__run){
		.train = opts->train_count ? opts->train : NULL,
		.train_count = scoring->train_count,
		.batch_size = opts->batch_size,
		.batch_count = batch_count,
		.threads = scoring->threads,
		.progress = opts->progress,
		.progress_ctx = opts->progress_ctx,
	};
}

/* How batches are sampled depends on where the edges are stored; the batches are the same. */
struct sampling {
	rung__presample_fn fn;
	const void *graph;
	struct rung__presample_graph in_memory;
	struct rung__file_presample in_files;
};

/* Choose how batches are sampled, and check that the budget suffices for small groups of batches.
 * `sampling` has a pointer to its own members, so it must not be copied. */
static int plan_sampling(const struct rung__scoring *scoring, struct sampling *sampling)
{
	const uint64_t vertex_count =
		rung__total(scoring->graph->type_counts, scoring->graph->type_count);
	const uint64_t state = vertex_count * (BYTES_A_VERTEX + (scoring->scores->lists ? 4 : 0)),
		       budget = scoring->opts->memory_bytes;

	sampling->in_memory = (struct rung__presample_graph){ scoring->relation.csc,
		                                              sampler_opts(scoring->opts) };
	sampling->in_files = (struct rung__file_presample){
		.graph = scoring->graph,
		.hop_count = scoring->opts->hop_count,
		.draws = scoring->opts->draws,
		.seed = scoring->opts->seed,
		.memory_bytes = SAMPLING_BYTES,
		.grows = scoring->graph->relations->csc != NULL,
		.edge_passes = &scoring->report->edge_passes,
	};
	sampling->fn = scoring->relation.csc ? rung__presample : rung__presample_files;
	sampling->graph =
		scoring->relation.csc ? (const void *)&sampling->in_memory : &sampling->in_files;
	if (scoring->graph->relations->csc || !budget)
		return 0;
	if (budget < state + SAMPLING_BYTES_MIN)
		return rung__fail_min_bytes(
			state + SAMPLING_BYTES_MIN,
			"score: a memory budget of %" PRIu64
			" bytes is too small: sampling batches in a graph of %" PRIu64
			" vertices needs at least %" PRIu64,
			budget, vertex_count, state + SAMPLING_BYTES_MIN);
	sampling->in_files.memory_bytes = budget - state;
	return 0;
}

int rung__score_presample(const struct rung__scoring *scoring)
{
	const struct rung_score_opts *opts = scoring->opts;
	uint64_t batches =
		opts->epochs * rung__epoch_batches(scoring->train_count, opts->batch_size);
	uint32_t *counts = rung__zalloc_array(scoring->vertex_count, sizeof(*counts));
	struct sampling sampling;
	struct rung__run run;
	int rc;

	if (!counts)
		return rung__fail(RUNG_E_NOMEM,
		                  "sampled batches: no memory for the counts of %" PRIu64
		                  " vertices",
		                  scoring->vertex_count);
	if (opts->batches_max)
		batches = RUNG__MIN(batches, (uint64_t)opts->batches_max);
	run = sampled_run(scoring, batches);
	rc = plan_sampling(scoring, &sampling);
	if (rc == 0)
		rc = sampling.fn(sampling.graph, &run, counts);
	for (uint64_t v = 0; rc == 0 && v < scoring->vertex_count; v++)
		scoring->score[v] = (float)counts[v];
	scoring->report->batches_sampled = batches;
	rung__free(counts);
	return rc;
}

/* The corrected probability of a part of the accesses of a vertex, such as the reads of its list.
 * Seeds are certain, so only the rest of the prediction is scaled, as P was. */
static double scaled(double part, double seed, double predicted, double corrected)
{
	const double rest = fmax(0, predicted - seed);
	const double factor = rest > 0 ? fmax(0, corrected - seed) / rest : 1;

	return fmin(corrected, fmin(part, seed) + fmax(0, part - seed) * factor);
}

/* Scale the scores of the lists and edges of a relation as those of its vertices were.
 * @param predicted  [vertices of the target type] before their correction */
static void scale_lists(const struct rung__scoring *scoring, uint32_t r, const float *predicted)
{
	const uint32_t type = scoring->graph->relations[r].target_type;
	const bool seeds = type == scoring->graph->seed_type;
	const double p_seed =
		1 / (double)rung__epoch_batches(scoring->train_count, scoring->opts->batch_size);
	const float *corrected = scoring->scores->types[type];
	float *lists = scoring->scores->lists[r],
	      *edges = scoring->scores->edges ? scoring->scores->edges[r] : NULL;

#pragma omp parallel for num_threads(scoring->threads) schedule(static)
	for (uint64_t v = 0; v < scoring->graph->type_counts[type]; v++) {
		const double seed = seeds && rung__is_train(scoring, v) ? p_seed : 0;
		const double before = -expm1(-(double)lists[v]);
		const double after = scaled(before, seed, -expm1(-(double)predicted[v]),
		                            -expm1(-(double)corrected[v]));

		lists[v] = (float)-log1p(-after);
		if (edges && before > 0)
			edges[v] = (float)-log1p(
				fmax(-1, expm1(-(double)edges[v]) * (after / before)));
	}
}
/* Correct the prediction, and with it the scores of lists and edges.
 * @param predicted  [vertices of all types] scratch for the prediction; NULL: no lists */
static int correct(const struct rung__scoring *scoring, const struct sampling *sampling,
                   const struct rung__run *run, float *predicted)
{
	const struct rung__typed_graph *graph = scoring->graph;
	const struct rung__typed_scores *scores = scoring->scores;
	float *at = predicted;
	int rc;

	for (uint32_t i = 0; predicted && i < graph->type_count; i++) {
		memcpy(at, scores->types[i], graph->type_counts[i] * sizeof(*at));
		at += graph->type_counts[i];
	}
	rc = rung__blend(sampling->fn, sampling->graph, run, graph->type_counts, graph->type_count,
	                 scores->types);
	for (uint32_t r = 0; rc == 0 && predicted && r < graph->relation_count; r++) {
		if (scores->lists[r])
			scale_lists(scoring, r,
			            predicted + rung__total(graph->type_counts,
			                                    graph->relations[r].target_type));
	}
	return rc;
}

int rung__score_blend(const struct rung__scoring *scoring)
{
	const struct rung__run run = sampled_run(
		scoring, scoring->opts->batches_max ? scoring->opts->batches_max : BLEND_BATCHES);
	const uint64_t vertex_count =
		rung__total(scoring->graph->type_counts, scoring->graph->type_count);
	struct sampling sampling;
	float *predicted = NULL;
	/*
	 * The prediction comes first: it needs more memory than sampling, so its message has the
	 * least budget that works. Overlaps are left to the counts. Without estimates of overlaps,
	 * similar vertices, which share a bin, have similar errors. Estimates would add random
	 * errors, and then counts would have too much weight where they are high by chance.
	 */
	int rc = rung__score_expected(scoring);

	if (rc == 0)
		rc = plan_sampling(scoring, &sampling);
	if (rc < 0)
		return rc;
	scoring->report->batches_sampled = 2 * run.batch_count;
	if (scoring->scores->lists) {
		predicted = rung__malloc_array(vertex_count, sizeof(*predicted));
		if (!predicted)
			return rung__fail(RUNG_E_NOMEM,
			                  "score blend: no memory for the lists of %" PRIu64
			                  " vertices",
			                  vertex_count);
	}
	rc = correct(scoring, &sampling, &run, predicted);
	rung__free(predicted);
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rung_scores: the share of row requests that the first rows in the order of each score serve,
 * compared with the best possible order, in one setting.
 *
 * The traffic is sampled twice, with seeds that no score has used. One trace gives the order of the
 * ceiling. All orders, including the ceiling's, are judged by the other trace: an order computed
 * from the judging trace itself would fit its noise. Prints one JSON object. bench/scores.py runs
 * it over graphs and settings.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common.h"
#include "scores.h"

static const struct {
	const char *name;
	enum rung_score_method method;
	uint32_t iterations; /* UINT32_MAX: the number of hops */
	uint32_t epochs;
	bool forecasts; /* 1 - exp(-score) is a probability */
} scores[] = {
	{ "degree", RUNG_SCORE_DEGREE, 0, 0, false },
	{ "rpagerank", RUNG_SCORE_RPAGERANK, 0, 0, false },
	{ "wrpagerank", RUNG_SCORE_WRPAGERANK, 5, 0, false },
	{ "wrpagerank, hops", RUNG_SCORE_WRPAGERANK, UINT32_MAX, 0, false },
	{ "ppr", RUNG_SCORE_PPR, 5, 0, false },
	{ "presample, 1 epoch", RUNG_SCORE_PRESAMPLE, 0, 1, false },
	{ "presample, 2 epochs", RUNG_SCORE_PRESAMPLE, 0, 2, false },
	{ "expected", RUNG_SCORE_EXPECTED, 0, 0, true },
	{ "blend", RUNG_SCORE_BLEND, 0, 0, true },
};

static const double tops[] = { 0.01, 0.1, 0.25 };

#define SCORE_COUNT (sizeof(scores) / sizeof(scores[0]))
#define TOP_COUNT   (sizeof(tops) / sizeof(tops[0]))

struct judged {
	double hits[TOP_COUNT];     /* shares of all requests */
	double forecast[TOP_COUNT]; /* the same shares as predicted by the score */
};

/* The shares of requests that the first 1, 10 and 25 % of rows serve, in the order of `score`. */
static struct judged judge(const struct scores_case *setting, const float *score,
                           const uint32_t *counts, bool forecasts)
{
	const uint64_t vertex_count = setting->csc->vertex_count;
	const unsigned index_bytes = rung_index_bytes(vertex_count);
	void *order = malloc(vertex_count * index_bytes);
	double hits = 0, all = 0, sum = 0, promised = 0;
	struct judged judged;
	size_t top = 0;

	if (!order)
		bench_die("out of memory");
	bench_need(rung_rank_order(score, vertex_count, index_bytes, setting->threads, order, NULL),
	           "ranking");
	for (uint64_t v = 0; v < vertex_count; v++) {
		all += counts[v];
		promised += forecasts ? -expm1(-(double)score[v]) : 0;
	}
	for (uint64_t rank = 0; rank < vertex_count; rank++) {
		const uint64_t v =
			index_bytes == 4 ? ((uint32_t *)order)[rank] : ((uint64_t *)order)[rank];

		hits += counts[v];
		sum += forecasts ? -expm1(-(double)score[v]) : 0;
		while (top < TOP_COUNT &&
		       (double)(rank + 1) >= fmax(1, round(tops[top] * (double)vertex_count))) {
			judged.hits[top] = hits / all;
			judged.forecast[top++] = sum / promised;
		}
	}
	free(order);
	return judged;
}

static void print_list(const char *name, const double *values, const double *of, const char *end)
{
	printf("\"%s\": [", name);
	for (size_t i = 0; i < TOP_COUNT; i++)
		printf("%s%.6f", i ? ", " : "", of ? values[i] / of[i] : values[i]);
	printf("]%s", end);
}

static void print_score(const struct scores_case *setting, size_t idx, const uint32_t *counts,
                        const struct judged *ceiling, float *score)
{
	struct rung_score_opts opts = RUNG_SCORE_OPTS_INIT;
	struct rung_score_report report;
	struct judged judged;

	opts.method = scores[idx].method;
	opts.iterations =
		scores[idx].iterations == UINT32_MAX ? setting->hop_count : scores[idx].iterations;
	opts.epochs = scores[idx].epochs;
	opts.train = setting->train;
	opts.train_count = setting->train_count;
	opts.fanouts = setting->fanouts;
	opts.hop_count = setting->hop_count;
	opts.batch_size = setting->batch_size;
	opts.draws = setting->draws;
	opts.seed = setting->seed;
	opts.threads = setting->threads;
	bench_need(rung_score_compute(setting->csc, &opts, score, &report), scores[idx].name);
	judged = judge(setting, score, counts, scores[idx].forecasts);
	printf("%s\n  \"%s\": {", idx ? "," : "", scores[idx].name);
	print_list("hits", judged.hits, NULL, ", ");
	print_list("of_ceiling", judged.hits, ceiling->hits, ", ");
	if (scores[idx].forecasts)
		print_list("forecast", judged.forecast, NULL, ", ");
	printf("\"seconds\": %.3f, \"edge_passes\": %" PRIu64 ", \"batches_sampled\": %" PRIu64 "}",
	       report.seconds, report.edge_passes, report.batches_sampled);
}

static void measure(const struct scores_case *setting)
{
	const uint64_t vertex_count = setting->csc->vertex_count;
	uint32_t *counts = calloc(vertex_count, sizeof(*counts));
	float *score = malloc(vertex_count * sizeof(*score));
	struct judged ceiling;
	uint64_t batches;

	if (!counts || !score)
		bench_die("out of memory");
	batches = scores_count_requests(setting, setting->seed + 1, counts);
	for (uint64_t v = 0; v < vertex_count; v++)
		score[v] = (float)counts[v];
	memset(counts, 0, vertex_count * sizeof(*counts));
	scores_count_requests(setting, setting->seed + 2, counts);
	ceiling = judge(setting, score, counts, false);
	printf("{\"vertices\": %" PRIu64 ", \"edges\": %" PRIu64 ", \"train\": %" PRIu64
	       ", \"batches_counted\": %" PRIu64 ", ",
	       vertex_count, setting->csc->edge_count, setting->train_count, batches);
	print_list("ceiling", ceiling.hits, NULL, ", \"scores\": {");
	for (size_t i = 0; i < SCORE_COUNT; i++)
		print_score(setting, i, counts, &ceiling, score);
	printf("}}\n");
	free(counts);
	free(score);
}

int main(int argc, char **argv)
{
	struct rung_graph_opts graph_opts = RUNG_GRAPH_OPTS_INIT;
	struct scores_case setting = { 0 };
	uint32_t fanouts[RUNG_HOPS_MAX];
	struct rung_graph *graph;
	const char *spec;

	bench_name = "rung_scores";
	if (argc != 11) {
		fprintf(stderr, "usage: rung_scores EDGES VERTICES directed|undirected TRAIN "
		                "FANOUTS BATCH all|new REQUESTS SEED THREADS\n"
		                "EDGES: source of an edge index. TRAIN: source of int64 ids. "
		                "REQUESTS: least number of rows of a trace. THREADS: 0: all\n");
		return BENCH_USAGE;
	}
	spec = argv[1];
	graph_opts.specs = &spec;
	graph_opts.spec_count = 1;
	graph_opts.vertex_count = bench_number(argv[2]);
	graph_opts.undirected = !strcmp(argv[3], "undirected");
	graph_opts.dedup = graph_opts.undirected;
	bench_need(rung_graph_load(&graph_opts, &graph), "loading the graph");
	setting.csc = rung_graph_csc(graph);
	setting.train = scores_read_ids(argv[4], &setting.train_count);
	setting.fanouts = fanouts;
	setting.hop_count = bench_fanouts(argv[5], fanouts);
	setting.batch_size = (uint32_t)bench_number(argv[6]);
	setting.draws = strcmp(argv[7], "new") ? RUNG_DRAWS_ALL : RUNG_DRAWS_NEW;
	setting.requests = bench_number(argv[8]);
	setting.seed = bench_number(argv[9]);
	setting.threads = (uint32_t)bench_number(argv[10]);
	measure(&setting);
	free(setting.train);
	rung_graph_destroy(graph);
	return BENCH_DONE;
}

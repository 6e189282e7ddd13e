/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rung_sampler_rate GRAPH SEEDS FANOUT BATCH: the time of sampling all batches of an epoch.
 *
 * GRAPH is a source of a graph as for rung stage, SEEDS a file of u64 in the order of the epoch,
 * and FANOUT a list such as "25,10". The program reads commands on stdin and answers each with a
 * line on stdout, so that a driver can alternate it with other programs:
 *
 *     sample THREADS ORDER DRAWS   rung_sampler_run(), all batches -> seconds, edges, vertices.
 *                                  ORDER is "ordered" or "any", DRAWS is "all" or "new"
 *     single THREADS DRAWS         rung_sampler_sample() for one batch after another -> the same
 *     check                        searches each edge of some batches in the graph -> wrong edges
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common.h"

#define CHECKED_BATCHES 3u

static struct {
	const struct rung_csc *csc;
	uint32_t fanouts[RUNG_HOPS_MAX];
	uint32_t hop_count;
	uint64_t *seeds;
	uint64_t seed_count;
	uint64_t batch_size;
} run;

struct counts {
	uint64_t edges, vertices;
	char apart[112]; /* 128 bytes per thread, so that threads share no cache line */
};

static struct rung_sampler *make_sampler(uint32_t threads, const char *draws)
{
	struct rung_sampler_opts opts = RUNG_SAMPLER_OPTS_INIT;
	struct rung_sampler *sampler;

	opts.fanouts = run.fanouts;
	opts.hop_count = run.hop_count;
	opts.threads = threads;
	opts.seed = 1;
	opts.draws = strcmp(draws, "new") == 0 ? RUNG_DRAWS_NEW : RUNG_DRAWS_ALL;
	bench_need(rung_sampler_create(run.csc, &opts, &sampler), "creating a sampler");
	return sampler;
}

static int count(void *ctx, const struct rung_batch *batch, uint64_t idx, uint32_t thread)
{
	struct counts *counts = (struct counts *)ctx + thread;
	uint64_t vertices;

	(void)idx;
	rung_batch_vertices(batch, &vertices);
	counts->vertices += vertices;
	for (uint32_t hop = 0; hop < run.hop_count; hop++)
		counts->edges += rung_batch_block(batch, hop)->edge_count;
	return 0;
}

static void answer(double seconds, const struct counts *counts, uint32_t threads)
{
	uint64_t edges = 0, vertices = 0;

	for (uint32_t t = 0; t < threads; t++) {
		edges += counts[t].edges;
		vertices += counts[t].vertices;
	}
	printf("%.9f %" PRIu64 " %" PRIu64 "\n", seconds, edges, vertices);
}

static void sample(uint32_t threads, const char *order, const char *draws)
{
	struct rung_minibatches batches = RUNG_MINIBATCHES_INIT;
	struct rung_sampler *sampler = make_sampler(threads, draws);
	struct counts *counts = calloc(threads, sizeof(*counts));
	double begun;

	if (!counts)
		bench_die("out of memory");
	batches.seeds = run.seeds;
	batches.seed_count = run.seed_count;
	batches.batch_size = run.batch_size;
	batches.any_order = strcmp(order, "any") == 0;
	begun = bench_now();
	bench_need(rung_sampler_run(sampler, &batches, count, counts), "sampling");
	answer(bench_now() - begun, counts, threads);
	free(counts);
	rung_sampler_destroy(sampler);
}

/* One batch at a time, each sampled by all threads. */
static void single(uint32_t threads, const char *draws)
{
	struct rung_sampler *sampler = make_sampler(threads, draws);
	struct counts counts = { 0 };
	struct rung_batch *batch;
	double begun;

	bench_need(rung_batch_create(&batch), "creating a batch");
	begun = bench_now();
	for (uint64_t at = 0, idx = 0; at < run.seed_count; at += run.batch_size, idx++) {
		uint64_t left = run.seed_count - at;

		bench_need(rung_sampler_sample(sampler, run.seeds + at,
		                               left < run.batch_size ? left : run.batch_size, idx,
		                               batch),
		           "sampling");
		count(&counts, batch, idx, 0);
	}
	answer(bench_now() - begun, &counts, 1);
	rung_batch_destroy(batch);
	rung_sampler_destroy(sampler);
}

static uint64_t id_at(uint64_t edge)
{
	return run.csc->index_bytes == 4 ? ((const uint32_t *)run.csc->indices)[edge]
	                                 : ((const uint64_t *)run.csc->indices)[edge];
}

static bool is_neighbour(uint64_t vertex, uint64_t of)
{
	for (uint64_t e = run.csc->indptr[of]; e < run.csc->indptr[of + 1]; e++) {
		if (id_at(e) == vertex)
			return true;
	}
	return false;
}

/* Edges that are not in the graph, plus vertices that do not have min(fanout, degree) edges. */
static uint64_t wrong_edges(const struct rung_block *block, const uint64_t *vertices,
                            uint32_t fanout)
{
	uint64_t wrong = 0;

	for (uint64_t i = 0; i < block->dst_count; i++) {
		uint64_t degree = run.csc->indptr[vertices[i] + 1] - run.csc->indptr[vertices[i]];

		wrong += block->indptr[i + 1] - block->indptr[i] !=
		         (degree < fanout ? degree : fanout);
		for (uint64_t e = block->indptr[i]; e < block->indptr[i + 1]; e++)
			wrong += !is_neighbour(vertices[block->indices[e]], vertices[i]);
	}
	return wrong;
}

static void check(void)
{
	struct rung_sampler *sampler = make_sampler(2, "all");
	struct rung_batch *batch;
	uint64_t wrong = 0, vertex_count;

	bench_need(rung_batch_create(&batch), "creating a batch");
	for (uint64_t idx = 0; idx < CHECKED_BATCHES && idx * run.batch_size < run.seed_count;
	     idx++) {
		uint64_t left = run.seed_count - idx * run.batch_size;
		const uint64_t *vertices;

		bench_need(rung_sampler_sample(sampler, run.seeds + idx * run.batch_size,
		                               left < run.batch_size ? left : run.batch_size, idx,
		                               batch),
		           "sampling");
		vertices = rung_batch_vertices(batch, &vertex_count);
		for (uint32_t hop = 0; hop < run.hop_count; hop++)
			wrong += wrong_edges(rung_batch_block(batch, hop), vertices,
			                     run.fanouts[hop]);
	}
	printf("%" PRIu64 "\n", wrong);
	rung_batch_destroy(batch);
	rung_sampler_destroy(sampler);
}

static void read_seeds(const char *path)
{
	FILE *file = fopen(path, "rb");
	long bytes;

	if (!file || fseek(file, 0, SEEK_END) != 0 || (bytes = ftell(file)) < 0)
		bench_die("%s: cannot be read", path);
	rewind(file);
	run.seed_count = (uint64_t)bytes / sizeof(*run.seeds);
	run.seeds = malloc((size_t)bytes + 1);
	if (!run.seeds ||
	    fread(run.seeds, sizeof(*run.seeds), run.seed_count, file) != run.seed_count)
		bench_die("%s: cannot be read", path);
	fclose(file);
}

static void carry_out(const char *order)
{
	char words[3][32] = { "", "", "" };
	uint32_t threads;

	if (sscanf(order, "sample %" SCNu32 " %31s %31s", &threads, words[0], words[1]) == 3 &&
	    threads)
		sample(threads, words[0], words[1]);
	else if (sscanf(order, "single %" SCNu32 " %31s", &threads, words[0]) == 2 && threads)
		single(threads, words[0]);
	else if (sscanf(order, "%31s", words[2]) == 1 && strcmp(words[2], "check") == 0)
		check();
	else
		bench_die("unknown command: %s", order);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct rung_graph_opts opts = RUNG_GRAPH_OPTS_INIT;
	struct rung_graph *graph;
	const char *specs[1];
	char order[128];

	bench_name = "rung_sampler_rate";
	if (argc != 5) {
		fprintf(stderr, "usage: rung_sampler_rate GRAPH SEEDS FANOUT BATCH\n");
		return BENCH_USAGE;
	}
	specs[0] = argv[1];
	opts.specs = specs;
	opts.spec_count = 1;
	read_seeds(argv[2]);
	run.hop_count = bench_fanouts(argv[3], run.fanouts);
	run.batch_size = bench_number(argv[4]);
	if (run.batch_size == 0 || run.seed_count == 0)
		bench_die("no seeds, or batches of 0");
	bench_need(rung_graph_load(&opts, &graph), argv[1]);
	run.csc = rung_graph_csc(graph);
	printf("ready\n");
	fflush(stdout);
	while (fgets(order, sizeof(order), stdin))
		carry_out(order);
	rung_graph_destroy(graph);
	free(run.seeds);
	return BENCH_DONE;
}

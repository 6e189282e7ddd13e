/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rung_structure_rate DATASET FANOUT BATCH PASSES: the time of sampling from a staged graph.
 *
 * The seeds are those of the split "train", shuffled for each of PASSES passes. The program reads
 * commands on stdin and answers each with a line of JSON on stdout, so that a driver can alternate
 * it with other programs:
 *
 *     memory THREADS                      the graph in memory, as one array of offsets and one of
 *                                         lists
 *     structure THREADS BYTES MERGE       the structure of a plan with BYTES of lists and slots
 *                                         ("max": all lists); MERGE is "merge" or "apart"
 *
 * `hash` depends on every vertex and every edge of the batches, not on their order.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common.h"

#define HOST_BYTES (1ull << 33) /* budget of the plan: more than any structure here needs */

static struct {
	struct rung_dataset *ds;
	struct rung_graph *graph; /* NULL until the first command "memory" */
	uint32_t fanouts[RUNG_HOPS_MAX];
	uint32_t hop_count;
	uint64_t *seeds; /* [passes * seed_count] */
	uint64_t seed_count, passes, batch_size;
} run;

struct counts {
	uint64_t batches, edges, vertices, hash;
	char apart[96]; /* 128 bytes per thread, so that threads share no cache line */
};

static int count(void *ctx, const struct rung_batch *batch, uint64_t idx, uint32_t thread)
{
	struct counts *counts = (struct counts *)ctx + thread;
	uint64_t count, hash = idx;
	const uint64_t *vertices = rung_batch_vertices(batch, &count);

	for (uint64_t i = 0; i < count; i++)
		hash = (hash ^ vertices[i]) * UINT64_C(0x9e3779b97f4a7c15);
	for (uint32_t hop = 0; hop < run.hop_count; hop++) {
		const struct rung_block *block = rung_batch_block(batch, hop);

		for (uint64_t e = 0; e < block->edge_count; e++)
			hash = (hash ^ block->indices[e]) * UINT64_C(0x9e3779b97f4a7c15);
		counts->edges += block->edge_count;
	}
	counts->batches++;
	counts->vertices += count;
	counts->hash += hash;
	return 0;
}

static void print_reads(const struct rung_structure *structure)
{
	struct rung_store_stats stats = { .size = sizeof(stats) };

	bench_need(rung_structure_stats(structure, &stats), "statistics");
	printf(", \"blocks\": %" PRIu64 ", \"hot_blocks\": %" PRIu64 ", \"cold_blocks\": %" PRIu64
	       ", \"device_reads\": %" PRIu64 ", \"device_read_bytes\": %" PRIu64
	       ", \"sector_bytes\": %u, \"engine\": \"%s\"",
	       stats.tiers[0].rows + stats.tiers[1].rows, stats.tiers[0].rows, stats.tiers[1].hits,
	       stats.device_reads, stats.device_read_bytes, stats.sector_bytes, stats.engine);
}

/* Sample all passes, and print the result. */
static void sample(const struct rung_csc *csc, struct rung_structure *structure, uint32_t threads)
{
	struct rung_minibatches batches = RUNG_MINIBATCHES_INIT;
	struct rung_sampler_opts opts = RUNG_SAMPLER_OPTS_INIT;
	struct counts *counts = calloc(threads, sizeof(*counts)), all = { 0 };
	struct rung_sampler *sampler;
	double begun, cpu;

	if (!counts)
		bench_die("out of memory");
	opts.fanouts = run.fanouts;
	opts.hop_count = run.hop_count;
	opts.threads = threads;
	opts.seed = 1;
	opts.structure = structure;
	bench_need(rung_sampler_create(csc, &opts, &sampler), "creating a sampler");
	batches.seeds = run.seeds;
	batches.seed_count = run.seed_count * run.passes;
	batches.batch_size = run.batch_size;
	batches.any_order = 1;
	cpu = bench_cpu();
	begun = bench_now();
	bench_need(rung_sampler_run(sampler, &batches, count, counts), "sampling");
	printf("{\"seconds\": %.6f", bench_now() - begun);
	for (uint32_t t = 0; t < threads; t++) {
		all.batches += counts[t].batches;
		all.edges += counts[t].edges;
		all.vertices += counts[t].vertices;
		all.hash += counts[t].hash;
	}
	printf(", \"cpu_seconds\": %.6f, \"batches\": %" PRIu64 ", \"edges\": %" PRIu64
	       ", \"vertices\": %" PRIu64 ", \"hash\": \"%016" PRIx64 "\"",
	       bench_cpu() - cpu, all.batches, all.edges, all.vertices, all.hash);
	if (structure)
		print_reads(structure);
	printf("}\n");
	free(counts);
	rung_sampler_destroy(sampler);
}

static void from_memory(uint32_t threads)
{
	if (!run.graph)
		bench_need(rung_dataset_load_graph(run.ds, &run.graph), "loading the graph");
	sample(rung_graph_csc(run.graph), NULL, threads);
}

static void from_structure(uint32_t threads, const char *bytes, bool merge)
{
	struct rung_plan_opts opts = RUNG_PLAN_OPTS_INIT;
	struct rung_store_opts store_opts = RUNG_STORE_OPTS_INIT;
	struct rung_structure *structure;
	struct rung_plan *plan;

	opts.host_bytes = HOST_BYTES;
	opts.structure_bytes = strcmp(bytes, "max") == 0 ? RUNG_BYTES_MAX : bench_number(bytes);
	opts.device = RUNG_DEVICE_CPU;
	store_opts.no_merge = !merge;
	bench_need(rung_plan_create(run.ds, &opts, &plan), "planning");
	bench_need(rung_structure_open(run.ds, plan, &store_opts, &structure), "the structure");
	rung_plan_destroy(plan);
	sample(NULL, structure, threads);
	bench_need(rung_structure_close(structure), "closing the structure");
}

static void load_seeds(uint64_t passes)
{
	uint64_t *ids;

	run.passes = passes;
	bench_need(rung_dataset_load_ids(run.ds, "split_train", &run.seed_count, &ids),
	           "the seeds");
	/* whole batches, so that no batch of a pass has seeds of the next one, which may be equal */
	run.seed_count -= run.seed_count % run.batch_size;
	if (run.seed_count == 0 || passes == 0)
		bench_die("fewer train vertices than a batch, or no passes");
	run.seeds = malloc(passes * run.seed_count * sizeof(*run.seeds));
	if (!run.seeds)
		bench_die("out of memory");
	for (uint64_t pass = 0; pass < passes; pass++) {
		memcpy(run.seeds + pass * run.seed_count, ids, run.seed_count * sizeof(*ids));
		bench_shuffle(run.seeds + pass * run.seed_count, run.seed_count, pass + 1);
	}
	rung_free(ids);
}

int main(int argc, char **argv)
{
	char line[256], bytes[64], merge[16];
	uint32_t threads;

	bench_name = "rung_structure_rate";
	if (argc != 5) {
		fprintf(stderr, "usage: %s DATASET FANOUT BATCH PASSES\n", argv[0]);
		return BENCH_USAGE;
	}
	bench_need(rung_dataset_open(argv[1], &run.ds), "opening the dataset");
	run.hop_count = bench_fanouts(argv[2], run.fanouts);
	run.batch_size = bench_number(argv[3]);
	load_seeds(bench_number(argv[4]));
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "memory %u", &threads) == 1)
			from_memory(threads);
		else if (sscanf(line, "structure %u %63s %15s", &threads, bytes, merge) == 3)
			from_structure(threads, bytes, strcmp(merge, "merge") == 0);
		else
			bench_die("unknown command: %s", line);
		fflush(stdout);
	}
	free(run.seeds);
	rung_graph_destroy(run.graph);
	rung_dataset_close(run.ds);
	return BENCH_DONE;
}

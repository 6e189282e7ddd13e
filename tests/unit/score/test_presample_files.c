/* SPDX-License-Identifier: Apache-2.0 */
/* Presampling with edges in files: the counts equal those of presampling in memory, for any budget,
 * chunk size, number of threads and kind of draws. */
#include <stdio.h>
#include <unistd.h>

#include "graphs.h"
#include "score/presample_files.h"

#define VERTICES 600u

struct files {
	char dir[64], indptr[96], indices[96];
	struct rung_edges *edges;
};

static void write_all(const char *path, const void *bytes, size_t count)
{
	FILE *file = fopen(path, "wb");

	cr_assert(file && fwrite(bytes, 1, count, file) == count && fclose(file) == 0);
}

static struct files open_files(const struct rung_csc *csc, uint64_t chunk_bytes)
{
	struct files files = { .dir = "/tmp/rung-presample-XXXXXX" };
	struct rung_edges_opts opts = { .size = sizeof(opts),
		                        .graph = { .size = sizeof(opts.graph) },
		                        .chunk_bytes = chunk_bytes };
	char spec[300];
	const char *specs = spec;

	cr_assert(mkdtemp(files.dir) != NULL);
	snprintf(files.indptr, sizeof(files.indptr), "%s/indptr", files.dir);
	snprintf(files.indices, sizeof(files.indices), "%s/indices", files.dir);
	write_all(files.indptr, csc->indptr, (csc->vertex_count + 1) * 8);
	write_all(files.indices, csc->indices, csc->edge_count * csc->index_bytes);
	snprintf(spec, sizeof(spec), "csc:raw:%s,u64,%d,raw:%s,u%u,%d", files.indptr,
	         (int)csc->vertex_count + 1, files.indices, 8 * csc->index_bytes,
	         (int)csc->edge_count);
	opts.graph.specs = &specs;
	opts.graph.spec_count = 1;
	cr_assert_eq(rung_edges_open(&opts, &files.edges), 0, "%s", rung_last_error());
	return files;
}

static void close_files(struct files *files)
{
	rung_edges_close(files->edges);
	unlink(files->indptr);
	unlink(files->indices);
	cr_assert_eq(rmdir(files->dir), 0);
}

static struct rung_sampler_opts opts_of(const uint32_t *fanouts, uint32_t hop_count,
                                        enum rung_draws draws)
{
	return (struct rung_sampler_opts){
		.size = sizeof(struct rung_sampler_opts),
		.fanouts = fanouts,
		.hop_count = hop_count,
		.seed = 11,
		.draws = draws,
	};
}

static uint64_t passes;

/* The graph of the result is valid until the next call. */
static struct rung__file_presample from_files(const struct files *files,
                                              struct rung_sampler_opts opts, uint64_t memory_bytes)
{
	static const uint64_t vertex_count = VERTICES;
	static struct rung__typed_relation relation;
	static const struct rung__typed_graph graph = { .type_counts = &vertex_count,
		                                        .type_count = 1,
		                                        .relations = &relation,
		                                        .relation_count = 1 };

	relation = (struct rung__typed_relation){ .edges = files->edges, .fanouts = opts.fanouts };
	return (struct rung__file_presample){
		.graph = &graph,
		.hop_count = opts.hop_count,
		.draws = opts.draws,
		.seed = opts.seed,
		.memory_bytes = memory_bytes,
		.edge_passes = &passes,
	};
}

/* @return the number of passes over the edges */
static uint64_t assert_same_counts(const struct test_graph *graph,
                                   const struct rung__file_presample *from, struct rung__run run)
{
	const struct rung__presample_graph in_memory = {
		&graph->csc, opts_of(from->graph->relations->fanouts, from->hop_count, from->draws)
	};
	uint32_t wanted[VERTICES] = { 0 }, counts[VERTICES];

	passes = 0;
	run.threads = 1;
	cr_assert_eq(rung__presample(&in_memory, &run, wanted), 0, "%s", rung_last_error());
	for (run.threads = 1; run.threads <= 3; run.threads += 2) {
		memset(counts, 0, sizeof(counts));
		cr_assert_eq(rung__presample_files(from, &run, counts), 0, "%s", rung_last_error());
		cr_assert_eq(memcmp(counts, wanted, sizeof(counts)), 0, "%d threads, %d bytes",
		             run.threads, (int)from->memory_bytes);
	}
	return passes / 2;
}

Test(presample_files, counts_equal_those_in_memory)
{
	static const uint32_t fanouts[][3] = { { 5, 3, 2 }, { 40, 2, 1 }, { 2, UINT32_MAX, 3 } };
	const uint64_t memory[] = { 1 << 22, 3 << 14 };

	for (unsigned index_bytes = 4; index_bytes <= 8; index_bytes += 4) {
		struct test_graph graph = test_graph_random(VERTICES, 20000, 3, index_bytes);
		struct files files = open_files(&graph.csc, index_bytes == 4 ? 0 : 4096);
		const struct rung__run run = {
			.train_count = 500, .batch_size = 20, .batch_first = 2, .batch_count = 9
		};
		int divided = 0;

		for (int i = 0; i < 12; i++) {
			const struct rung_sampler_opts opts = opts_of(
				fanouts[i % 3], 3, i / 3 % 2 ? RUNG_DRAWS_NEW : RUNG_DRAWS_ALL);
			const struct rung__file_presample from =
				from_files(&files, opts, memory[i / 6]);
			const uint64_t found = assert_same_counts(&graph, &from, run);

			if (i / 6 == 0)
				cr_assert_eq(found, 3, "all batches must be sampled in one group");
			divided += found > 3;
		}
		cr_assert_geq(divided, 3, "some runs must need several groups");
		close_files(&files);
		test_graph_fini(&graph);
	}
}

/* Two lists of 6000 edges in chunks of 1024: draws from each are split. */
Test(presample_files, lists_may_be_longer_than_a_chunk)
{
	const uint32_t fanouts[][2] = { { 7, 3 }, { 1000, 2 }, { UINT32_MAX, 5 } };
	uint64_t *sources = malloc(12000 * sizeof(*sources)),
		 *destinations = malloc(12000 * sizeof(*destinations));
	struct test_graph graph;
	struct files files;

	for (uint64_t e = 0; e < 12000; e++) {
		sources[e] = (e * 7919 + e / 900) % VERTICES;
		destinations[e] = e < 6000 ? 4 : 590;
	}
	graph = test_graph_of_edges(VERTICES, 12000, sources, destinations, 4);
	files = open_files(&graph.csc, 4096);
	for (int i = 0; i < 3; i++) {
		const struct rung__file_presample from =
			from_files(&files, opts_of(fanouts[i], 2, RUNG_DRAWS_ALL), 1 << 22);

		assert_same_counts(&graph, &from,
		                   (struct rung__run){ .train_count = VERTICES,
		                                       .batch_size = 30,
		                                       .batch_count = 33 });
	}
	close_files(&files);
	test_graph_fini(&graph);
}

Test(presample_files, blend_gives_the_same_bits)
{
	const uint32_t fanouts[] = { 5, 3 };
	struct test_graph graph = test_graph_random(VERTICES, 9000, 8, 4);
	struct files files = open_files(&graph.csc, 0);
	const struct rung__presample_graph in_memory = { &graph.csc,
		                                         opts_of(fanouts, 2, RUNG_DRAWS_NEW) };
	const struct rung__file_presample from =
		from_files(&files, in_memory.sampler_opts, 1 << 22);
	const struct rung__run run = {
		.train_count = 300, .batch_size = 10, .batch_count = 20, .threads = 2
	};
	const uint64_t count = VERTICES;
	float score[VERTICES], wanted[VERTICES];

	for (uint64_t v = 0; v < VERTICES; v++)
		score[v] = wanted[v] = 0.001f * (float)(v % 77 + 1);
	cr_assert_eq(
		rung__blend(rung__presample, &in_memory, &run, &count, 1, (float *[]){ wanted }),
		0);
	cr_assert_eq(
		rung__blend(rung__presample_files, &from, &run, &count, 1, (float *[]){ score }),
		0);
	cr_assert_eq(memcmp(score, wanted, sizeof(score)), 0);
	close_files(&files);
	test_graph_fini(&graph);
}

static int cancel(void *ctx, const char *step, unsigned long long done, unsigned long long total)
{
	cr_assert(done == 40 && total == 40 && !strcmp(step, "presample"));
	return ctx == NULL;
}

Test(presample_files, a_budget_too_small_and_a_cancellation_are_reported)
{
	const uint32_t fanouts[] = { 5, 3 };
	struct test_graph graph = test_graph_random(VERTICES, 9000, 8, 4);
	struct files files = open_files(&graph.csc, 0);
	struct rung__file_presample from =
		from_files(&files, opts_of(fanouts, 2, RUNG_DRAWS_ALL), 400);
	const struct rung__run run = { .train_count = VERTICES,
		                       .batch_size = 50,
		                       .batch_count = 40,
		                       .threads = 2,
		                       .progress = cancel };
	uint32_t counts[VERTICES] = { 0 };

	cr_assert_eq(rung__presample_files(&from, &run, counts), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "smaller batch") != NULL, "%s", rung_last_error());
	from.memory_bytes = 1 << 22;
	cr_assert_eq(rung__presample_files(&from, &run, counts), RUNG_E_CANCELED);
	close_files(&files);
	test_graph_fini(&graph);
}

Test(presample_files, every_allocation_may_fail)
{
	const uint32_t fanouts[] = { 5, 40 };
	struct test_graph graph = test_graph_random(VERTICES, 9000, 8, 4);
	struct files files = open_files(&graph.csc, 0);
	const struct rung__file_presample from =
		from_files(&files, opts_of(fanouts, 2, RUNG_DRAWS_ALL), 1 << 22);
	const struct rung__run run = {
		.train_count = VERTICES, .batch_size = 50, .batch_count = 4, .threads = 2
	};
	uint32_t counts[VERTICES] = { 0 };
	int64_t limit = 0;

	for (;; limit++) {
		int rc;

		rung__alloc_limit(limit);
		rc = rung__presample_files(&from, &run, counts);
		rung__alloc_limit(-1);
		if (rc == 0)
			break;
		cr_assert_eq(rc, RUNG_E_NOMEM, "%s", rung_last_error());
		cr_assert_lt(limit, 100);
	}
	cr_assert_geq(limit, 2);
	close_files(&files);
	test_graph_fini(&graph);
}

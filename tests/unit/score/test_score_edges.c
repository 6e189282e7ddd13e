/* SPDX-License-Identifier: Apache-2.0 */
/* Scores of graphs in files: the same bits as for graphs in memory with any budget; budgets that
 * are too small, and files that fail. */
#include <stdio.h>
#include <unistd.h>

#include "graphs.h"
#include "base/base.h"
#include "rung/rank.h"
#include "propagation/propagation.h"

struct files {
	char dir[64], indptr[96], indices[96], spec[256];
};

static void write_all(const char *path, const void *bytes, size_t count)
{
	FILE *file = fopen(path, "wb");

	cr_assert(file && fwrite(bytes, 1, count, file) == count && fclose(file) == 0);
}

/* Writes indptr and indices as raw files, with entries of 8 and of index_bytes bytes. */
static struct files write_files(const struct rung_csc *csc)
{
	struct files files = { .dir = "/tmp/rung-score-XXXXXX" };

	cr_assert(mkdtemp(files.dir) != NULL);
	snprintf(files.indptr, sizeof(files.indptr), "%s/indptr", files.dir);
	snprintf(files.indices, sizeof(files.indices), "%s/indices", files.dir);
	write_all(files.indptr, csc->indptr, (csc->vertex_count + 1) * 8);
	write_all(files.indices, csc->indices, csc->edge_count * csc->index_bytes);
	snprintf(files.spec, sizeof(files.spec), "csc:raw:%s,u64,%d,raw:%s,u%u,%d", files.indptr,
	         (int)csc->vertex_count + 1, files.indices, 8 * csc->index_bytes,
	         (int)csc->edge_count);
	return files;
}

static void remove_files(const struct files *files)
{
	unlink(files->indptr);
	unlink(files->indices);
	cr_assert_eq(rmdir(files->dir), 0, "files were left in %s", files->dir);
}

static struct rung_edges *open_edges(const struct files *files, uint64_t chunk_bytes)
{
	const char *spec = files->spec;
	const struct rung_edges_opts opts = {
		.size = sizeof(opts),
		.graph = { .size = sizeof(opts.graph), .specs = &spec, .spec_count = 1 },
		.chunk_bytes = chunk_bytes,
		.temp_dir = files->dir,
	};
	struct rung_edges *edges;

	cr_assert_eq(rung_edges_open(&opts, &edges), 0, "%s", rung_last_error());
	return edges;
}

static struct rung_score_opts opts_of(enum rung_score_method method, const uint64_t *train,
                                      uint64_t train_count)
{
	static const uint32_t fanouts[] = { 4, 3, UINT32_MAX };

	return (struct rung_score_opts){
		.size = sizeof(struct rung_score_opts),
		.method = method,
		.train = train,
		.train_count = train_count,
		.fanouts = fanouts,
		.hop_count = 3,
		.batch_size = 16,
		.batches_max = 12,
		.iterations = 4,
	};
}

static void assert_same_scores(const struct test_graph *graph, const uint64_t *train,
                               uint64_t train_count)
{
	static const uint64_t memory[] = { 0, UINT64_C(4) << 20, UINT64_C(64) << 20 };
	const uint64_t bytes = graph->csc.vertex_count * sizeof(float);
	const struct files files = write_files(&graph->csc);
	float *score = malloc(bytes), *wanted = malloc(bytes);

	for (enum rung_score_method method = RUNG_SCORE_DEGREE; method <= RUNG_SCORE_BLEND;
	     method++) {
		struct rung_score_opts opts = opts_of(method, train, train_count);
		struct rung_score_report report;

		cr_assert_eq(rung_score_compute(&graph->csc, &opts, wanted, NULL), 0, "%s",
		             rung_last_error());
		for (size_t i = 0; i < RUNG__ARRAY_LEN(memory); i++) {
			struct rung_edges *edges = open_edges(&files, i == 1 ? 4096 : 0);

			opts.memory_bytes = memory[i];
			opts.threads = (uint32_t)i + 1;
			cr_assert_eq(rung_score_edges(edges, &opts, score, &report), 0, "%s",
			             rung_last_error());
			for (uint64_t v = 0; v < graph->csc.vertex_count; v++)
				cr_assert(memcmp(&score[v], &wanted[v], sizeof(float)) == 0,
				          "%s, memory %d: vertex %d: %.9g, in memory %.9g",
				          rung_score_method_name(method), (int)i, (int)v,
				          (double)score[v], (double)wanted[v]);
			cr_assert_gt(report.edge_passes, 0);
			rung_edges_close(edges);
		}
	}
	free(score);
	free(wanted);
	remove_files(&files);
}

Test(score_edges, scores_have_the_same_bits_as_in_memory)
{
	const uint64_t train[] = { 0,   5,   90,  300, 301, 302, 303, 304, 700, 701,
		                   702, 800, 801, 802, 803, 804, 805, 806, 811 };

	for (uint64_t seed = 1; seed <= 4; seed++) {
		struct test_graph graph =
			test_graph_random(1000 * seed, 9000 * seed, seed, seed % 2 ? 4 : 8);

		rung__propagation_set_block_edges(seed == 1 ? 37 : seed == 2 ? 500 : 1000);
		assert_same_scores(&graph, train, 19);
		test_graph_fini(&graph);
	}
}

/* One vertex draws from all others and they draw from it: lists of several chunks and blocks, some
 * edges mutual. */
Test(score_edges, scores_are_the_same_if_lists_are_longer_than_blocks_and_chunks)
{
	const uint64_t vertices = 9000, edges = 3 * vertices;
	uint64_t *sources = malloc(edges * sizeof(*sources)),
		 *destinations = malloc(edges * sizeof(*destinations));
	const uint64_t train[] = { 1, 2, 4444 };
	struct test_graph graph;

	for (uint64_t i = 0; i < vertices; i++) {
		sources[3 * i] = i;
		destinations[3 * i] = 4444;
		sources[3 * i + 1] = 4444;
		destinations[3 * i + 1] = i / 2;
		sources[3 * i + 2] = i * 7 % vertices;
		destinations[3 * i + 2] = i;
	}
	graph = test_graph_of_edges(vertices, edges, sources, destinations, 4);
	rung__propagation_set_block_edges(2000);
	assert_same_scores(&graph, train, 3);
	test_graph_fini(&graph);
}

/* Every edge in both directions, which is known without transposing the graph. */
Test(score_edges, scores_are_the_same_if_all_edges_are_mutual)
{
	uint64_t *sources = malloc(8000 * sizeof(*sources)),
		 *destinations = malloc(8000 * sizeof(*destinations)), state = 5;
	struct test_graph graph;

	for (uint64_t e = 0; e < 8000; e += 2) {
		sources[e] = destinations[e + 1] = test_random(&state) % 700;
		destinations[e] = sources[e + 1] = test_random(&state) % 700;
	}
	graph = test_graph_of_edges(700, 8000, sources, destinations, 4);
	rung__propagation_set_block_edges(300);
	assert_same_scores(&graph, (const uint64_t[]){ 1, 2, 3 }, 3);
	test_graph_fini(&graph);
}

Test(score_edges, a_budget_too_small_reports_the_least_that_works)
{
	struct test_graph graph = test_graph_random(5000, 20000, 3, 4);
	const struct files files = write_files(&graph.csc);
	struct rung_score_opts opts = opts_of(RUNG_SCORE_EXPECTED, NULL, 0);
	struct rung_edges *edges = open_edges(&files, 0);
	float *score = malloc(5000 * sizeof(*score));
	const char *at;

	opts.memory_bytes = 100000;
	cr_assert_eq(rung_score_edges(edges, &opts, score, NULL), RUNG_E_INVAL);
	at = strstr(rung_last_error(), "at least ");
	cr_assert(at != NULL, "%s", rung_last_error());
	opts.memory_bytes = strtoull(at + strlen("at least "), NULL, 10);
	cr_assert_eq(rung_score_edges(edges, &opts, score, NULL), 0, "%s", rung_last_error());
	opts.memory_bytes--;
	cr_assert_eq(rung_score_edges(edges, &opts, score, NULL), RUNG_E_INVAL);
	rung_edges_close(edges);
	free(score);
	remove_files(&files);
	test_graph_fini(&graph);
}

Test(score_edges, a_file_that_shrinks_is_reported)
{
	struct test_graph graph = test_graph_random(5000, 20000, 3, 4);
	const struct files files = write_files(&graph.csc);
	float *score = malloc(5000 * sizeof(*score));

	for (enum rung_score_method method = RUNG_SCORE_DEGREE; method <= RUNG_SCORE_BLEND;
	     method++) {
		const struct rung_score_opts opts = opts_of(method, NULL, 0);
		struct rung_edges *edges;

		write_all(files.indices, graph.csc.indices, 80000);
		edges = open_edges(&files, 0);
		cr_assert_eq(truncate(files.indices, 40000), 0);
		cr_assert_eq(rung_score_edges(edges, &opts, score, NULL), RUNG_E_IO);
		cr_assert(strstr(rung_last_error(), files.indices) != NULL, "%s",
		          rung_last_error());
		rung_edges_close(edges);
	}
	free(score);
	remove_files(&files);
	test_graph_fini(&graph);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Scores of typed graphs whose relations are in files: the same bits as in memory, with any budget;
 * budgets that are too small. */
#include <stdio.h>
#include <unistd.h>

#include "base/base.h"
#include "propagation/propagation.h"
#include "typed_graphs.h"

struct files {
	char dir[64];
	struct rung__typed_relation relations[RELATIONS_MAX];
	struct rung__typed_graph graph;
};

static void write_all(const char *path, const void *bytes, size_t count)
{
	FILE *file = fopen(path, "wb");

	cr_assert(file && fwrite(bytes, 1, count, file) == count && fclose(file) == 0);
}

/* Write the lists of a relation as raw files, open them, and remove their names. */
static struct rung_edges *open_lists(const char *dir, const struct rung_csc *csc,
                                     uint64_t chunk_bytes)
{
	struct rung_edges_opts opts = { .size = sizeof(opts),
		                        .graph = { .size = sizeof(opts.graph),
		                                   .vertex_count = csc->vertex_count,
		                                   .source_count = csc->source_count },
		                        .chunk_bytes = chunk_bytes,
		                        .temp_dir = dir };
	char indptr[96], indices[96], spec[300];
	const char *specs = spec;
	struct rung_edges *edges;

	snprintf(indptr, sizeof(indptr), "%s/indptr", dir);
	snprintf(indices, sizeof(indices), "%s/indices", dir);
	write_all(indptr, csc->indptr, (csc->vertex_count + 1) * 8);
	write_all(indices, csc->indices, csc->edge_count * csc->index_bytes);
	snprintf(spec, sizeof(spec), "csc:raw:%s,u64,%d,raw:%s,u%u,%d", indptr,
	         (int)csc->vertex_count + 1, indices, 8 * csc->index_bytes, (int)csc->edge_count);
	opts.graph.specs = &specs;
	opts.graph.spec_count = 1;
	cr_assert_eq(rung_edges_open(&opts, &edges), 0, "%s", rung_last_error());
	unlink(indptr);
	unlink(indices);
	return edges;
}

static void open_files(struct files *files, const struct typed *typed, uint64_t chunk_bytes)
{
	*files = (struct files){ .dir = "/tmp/rung-typed-XXXXXX", .graph = typed->graph };
	cr_assert(mkdtemp(files->dir) != NULL);
	files->graph.relations = files->relations;
	for (uint32_t r = 0; r < typed->graph.relation_count; r++) {
		files->relations[r] = typed->relations[r];
		files->relations[r].csc = NULL;
		files->relations[r].edges =
			open_lists(files->dir, typed->relations[r].csc, chunk_bytes);
	}
}

static void close_files(struct files *files)
{
	for (uint32_t r = 0; r < files->graph.relation_count; r++)
		rung_edges_close(files->relations[r].edges);
	cr_assert_eq(rmdir(files->dir), 0, "files were left in %s", files->dir);
}

/* Relations of one type, of two with all edges reversed, and of two with a few. */
static void init_graph(struct typed *typed, uint64_t seed)
{
	static const uint32_t cites[] = { 4, 3, 2 }, writes[] = { 3, UINT32_MAX, 1 },
			      written[] = { 0, 2, 3 }, about[] = { 2, 0, 4 };
	const uint64_t counts[] = { 500, 700, 300, 100 };

	typed_init(typed, 4, counts);
	typed_add_random(typed, 0, 0, 3000, seed, cites, 4);
	typed_add_random(typed, 1, 0, 2000, seed + 1, writes, 4);
	typed_add_reverse(typed, 1, written, 4);
	typed_add_random(typed, 2, 1, 9000, seed + 2, about, 4);
	typed_add_random(typed, 1, 2, 9000, seed + 3, cites, 4);
	typed_add_random(typed, 3, 2, 900, seed + 4, about, 4);
	typed_add_reverse(typed, 0, writes, 4);
}

/* With the default budget, a small and a larger one. */
static void assert_same_bits(const struct typed *typed, struct rung_score_opts opts, uint64_t bytes)
{
	const uint64_t memory[] = { 0, bytes, 3 * bytes };
	struct typed_scores scores, wanted;
	struct files files;

	typed_score(typed, &opts, &wanted);
	for (size_t i = 0; i < RUNG__ARRAY_LEN(memory); i++) {
		struct typed in_files = *typed;

		open_files(&files, typed, i == 1 ? 4096 : 0);
		in_files.graph = files.graph;
		opts.memory_bytes = memory[i];
		opts.threads = (uint32_t)i + 1;
		typed_score(&in_files, &opts, &scores);
		cr_assert(typed_scores_equal(typed, &scores, &wanted), "memory %d", (int)i);
		cr_assert_gt(scores.report.edge_passes, 0);
		typed_scores_fini(typed, &scores);
		close_files(&files);
	}
	typed_scores_fini(typed, &wanted);
}

Test(typed_files, scores_have_the_same_bits_as_in_memory)
{
	static const uint64_t train[] = { 0, 5, 90, 300, 301, 302, 303, 304, 400, 410, 417, 499 };

	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct rung_score_opts opts = expected_opts(3, RUNG_DRAWS_NEW);
		struct typed typed;

		const uint64_t bytes = UINT64_C(1) << (seed == 3 ? 26 : 24);

		rung__propagation_set_block_edges(seed == 3 ? 0 : 9 + 300 * (uint32_t)(seed - 1));
		init_graph(&typed, 10 * seed);
		opts.train = train;
		opts.train_count = RUNG__ARRAY_LEN(train);
		assert_same_bits(&typed, opts, bytes);
		opts.draws = RUNG_DRAWS_ALL;
		opts.method = RUNG_SCORE_BLEND;
		opts.batches_max = 12;
		assert_same_bits(&typed, opts, bytes);
		typed_fini(&typed);
	}
}

Test(typed_files, a_budget_that_is_too_small_names_the_least)
{
	struct rung_score_opts opts = expected_opts(3, RUNG_DRAWS_NEW);
	float *types[4] = { malloc(2000), malloc(2800), malloc(1200), malloc(400) };
	const struct rung__typed_scores out = { .types = types };
	struct typed typed;
	struct files files;
	struct rung_edges *edges;
	uint64_t least;

	init_graph(&typed, 5);
	open_files(&files, &typed, 0);
	opts.threads = 2;
	opts.memory_bytes = 1000;
	cr_assert_eq(rung__score_typed(&files.graph, &opts, &out, NULL), RUNG_E_INVAL);
	least = rung_last_error_min_bytes();
	cr_assert_gt(least, 1000, "%s", rung_last_error());
	opts.memory_bytes = least;
	cr_assert_eq(rung__score_typed(&files.graph, &opts, &out, NULL), 0, "%s",
	             rung_last_error());
	opts.memory_bytes = least - 1;
	cr_assert_eq(rung__score_typed(&files.graph, &opts, &out, NULL), RUNG_E_INVAL);
	/* relations in memory and in files at once */
	edges = files.relations[1].edges;
	files.relations[1].edges = NULL;
	files.relations[1].csc = typed.relations[1].csc;
	cr_assert_eq(rung__score_typed(&files.graph, &opts, &out, NULL), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "relation 1: give the lists"), "%s", rung_last_error());
	files.relations[1].edges = edges;
	close_files(&files);
	typed_fini(&typed);
	for (unsigned i = 0; i < 4; i++)
		free(types[i]);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Relabelling of graphs in files: the output has the same bytes as relabelling in memory, or does
 * not exist. */
#include <signal.h>
#include <sys/resource.h>

#include "relation_fixture.h"
#include "rung/rank.h"

TestSuite(edges_relabel, .init = make_folder, .fini = remove_folder);

static struct rung__relabel_opts relabel_opts(void)
{
	struct rung__relabel_opts opts = { 0 };

	opts.temp_dir = folder;
	opts.memory_bytes = 1 << 20;
	return opts;
}

/* The outputs are the files 4 and 5. */
static int relabel(struct rung_edges *edges, const void *vertex_of_rank, const void *rank_of_vertex,
                   const struct rung__relabel_opts *opts)
{
	char indptr[400], indices[400];

	snprintf(indptr, sizeof(indptr), "%s/4", folder);
	snprintf(indices, sizeof(indices), "%s/5", folder);
	return rung__edges_relabel(edges, vertex_of_rank, rank_of_vertex, opts, indptr, indices);
}

/* File `slot` must be a .npy whose array begins at byte 4096 and has these bytes. Removes it. */
static void assert_file(int slot, const void *bytes, size_t byte_count)
{
	char path[400], *there = malloc(4096 + byte_count + 1);
	FILE *file;

	snprintf(path, sizeof(path), "%s/%d", folder, slot);
	file = fopen(path, "rb");
	cr_assert(file != NULL);
	cr_assert_eq(fread(there, 1, 4096 + byte_count + 1, file), 4096 + byte_count);
	cr_assert_eq(fclose(file), 0);
	cr_assert_eq(memcmp(there, "\x93NUMPY\x01", 7), 0);
	cr_assert_eq(memcmp(there + 4096, bytes, byte_count), 0);
	free(there);
	cr_assert_eq(unlink(path), 0);
}

/* The maps of a permutation that is not its own inverse, from scores with ties. */
static void make_maps(uint64_t count, uint32_t **vertex_of_rank, uint32_t **rank_of_vertex)
{
	float *score = malloc(count * sizeof(*score));
	uint64_t state = 99;

	*vertex_of_rank = malloc(count * sizeof(**vertex_of_rank));
	*rank_of_vertex = malloc(count * sizeof(**rank_of_vertex));
	for (uint64_t v = 0; v < count; v++)
		score[v] = (float)(test_random(&state) % 1000);
	cr_assert_eq(rung_rank_order(score, count, 4, 1, *vertex_of_rank, *rank_of_vertex), 0);
	free(score);
}

static void assert_relabels_as_in_memory(struct test_graph graph, uint64_t chunk_bytes)
{
	const uint64_t vertex_count = graph.csc.vertex_count, edge_count = graph.csc.edge_count;
	const char *spec = columns_spec("csc", &graph, 0, "i64", "i32");
	uint64_t *indptr = malloc((vertex_count + 1) * sizeof(*indptr));
	uint32_t *indices = malloc(edge_count * sizeof(*indices)), *vertex_of_rank, *rank_of_vertex;
	struct rung_edges_opts opts = { .size = sizeof(opts),
		                        .graph.size = sizeof(opts.graph),
		                        .chunk_bytes = chunk_bytes };
	struct rung__relabel_opts with = relabel_opts();
	struct rung_edges *edges;

	make_maps(vertex_count, &vertex_of_rank, &rank_of_vertex);
	cr_assert_eq(
		rung__graph_relabel(&graph.csc, vertex_of_rank, rank_of_vertex, 1, indptr, indices),
		0);
	cr_assert_eq(open_edges(&spec, 1, opts, &edges), 0, "%s", rung_last_error());
	for (with.threads = 1; with.threads <= 3; with.threads += 2) {
		cr_assert_eq(relabel(edges, vertex_of_rank, rank_of_vertex, &with), 0, "%s",
		             rung_last_error());
		assert_file(4, indptr, (vertex_count + 1) * sizeof(*indptr));
		assert_file(5, indices, edge_count * sizeof(*indices));
	}
	rung_edges_close(edges);
	free(indptr);
	free(indices);
	free(vertex_of_rank);
	free(rank_of_vertex);
	test_graph_fini(&graph);
}

Test(edges_relabel, files_are_relabelled_like_graphs_in_memory)
{
	assert_relabels_as_in_memory(test_graph_random(20000, 90000, 3, 4), 32768);
	assert_relabels_as_in_memory(hub_graph(), 4096); /* one list is split */
	assert_relabels_as_in_memory(test_graph_random(1, 3, 3, 4), 0);
}

static void remove_output(int slot)
{
	char path[400];

	snprintf(path, sizeof(path), "%s/%d", folder, slot);
	cr_assert_eq(unlink(path), 0);
}

static void assert_nothing_was_made(void)
{
	static const char *const names[] = { "4", "4.partial", "5", "5.partial" };
	char path[400];

	for (size_t i = 0; i < RUNG__ARRAY_LEN(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		cr_assert(access(path, F_OK) < 0, "%s was not removed", path);
	}
}

/* The list of rank r is that of vertex_of_rank[r], and its entries are ranks of the sources. */
static struct test_graph relabelled(const struct test_graph *graph, const uint32_t *vertex_of_rank,
                                    const uint32_t *rank_of_source)
{
	const struct rung_csc *csc = &graph->csc;
	uint64_t *sources = malloc(csc->edge_count * sizeof(*sources) + 1),
		 *targets = malloc(csc->edge_count * sizeof(*targets) + 1), at = 0;

	for (uint64_t r = 0; r < csc->vertex_count; r++) {
		const uint64_t v = vertex_of_rank[r];

		for (uint64_t e = csc->indptr[v]; e < csc->indptr[v + 1]; e++) {
			sources[at] = rank_of_source[((const uint32_t *)csc->indices)[e]];
			targets[at++] = r;
		}
	}
	return of_edges(csc->source_count, csc->vertex_count, at, sources, targets);
}

/* Two files without names must be .npy whose arrays begin at byte 4096. Closes them. */
static void assert_temp_files(const int fds[2], const struct test_graph *naive)
{
	const struct rung_csc *csc = &naive->csc;
	const void *const arrays[] = { csc->indptr, csc->indices };
	const size_t bytes[] = { (csc->vertex_count + 1) * sizeof(*csc->indptr),
		                 csc->edge_count * csc->index_bytes };

	for (int i = 0; i < 2; i++) {
		char *there = malloc(bytes[i] + 1);

		cr_assert_eq(pread(fds[i], there, bytes[i] + 1, 4096), (ssize_t)bytes[i]);
		cr_assert_arr_eq(there, arrays[i], bytes[i]);
		cr_assert_eq(close(fds[i]), 0);
		free(there);
	}
}

/* Relabelling with the maps of both types, in memory, in files and in files without names. */
static void assert_relabels_two_types(struct test_graph graph, uint64_t chunk_bytes)
{
	const struct rung_csc *csc = &graph.csc;
	const char *spec = columns_spec("csc", &graph, 0, "i64", "i32");
	struct rung_edges_opts opts = opts_of(csc, false);
	struct rung__relabel_opts with = relabel_opts();
	uint64_t *indptr = malloc((csc->vertex_count + 1) * sizeof(*indptr));
	uint32_t *indices = malloc(csc->edge_count * sizeof(*indices) + 1), *vertex_of_rank,
		 *rank_of_source, *unused[2];
	struct rung_edges *edges;
	struct test_graph naive;
	int fds[2];

	make_maps(csc->vertex_count, &vertex_of_rank, &unused[0]);
	make_maps(csc->source_count, &unused[1], &rank_of_source);
	naive = relabelled(&graph, vertex_of_rank, rank_of_source);
	opts.chunk_bytes = chunk_bytes;
	cr_assert_eq(open_edges(&spec, 1, opts, &edges), 0, "%s", rung_last_error());
	for (with.threads = 1; with.threads <= 3; with.threads += 2) {
		cr_assert_eq(rung__graph_relabel(csc, vertex_of_rank, rank_of_source, with.threads,
		                                 indptr, indices),
		             0);
		cr_assert_arr_eq(indptr, naive.indptr, (csc->vertex_count + 1) * sizeof(*indptr));
		cr_assert_arr_eq(indices, naive.indices, csc->edge_count * sizeof(*indices));
		cr_assert_eq(relabel(edges, vertex_of_rank, rank_of_source, &with), 0, "%s",
		             rung_last_error());
		assert_file(4, naive.indptr, (csc->vertex_count + 1) * sizeof(*indptr));
		assert_file(5, naive.indices, csc->edge_count * sizeof(*indices));
		cr_assert_eq(
			rung__edges_relabel_temp(edges, vertex_of_rank, rank_of_source, &with, fds),
			0, "%s", rung_last_error());
		assert_temp_files(fds, &naive);
	}
	rung_edges_close(edges);
	free(indptr);
	free(indices);
	free(vertex_of_rank);
	free(rank_of_source);
	free(unused[0]);
	free(unused[1]);
	test_graph_fini(&naive);
	test_graph_fini(&graph);
}

Test(edges_relabel, two_types_are_relabelled_with_a_map_each)
{
	assert_relabels_two_types(relation_random(9000, 700, 40000), 4096); /* lists are split */
	assert_relabels_two_types(relation_random(60, 20000, 90000), 32768);
	assert_relabels_two_types(relation_random(1, 5000, 8000), 0);
	assert_relabels_two_types(relation_random(5000, 1, 8000), 0);
}

/* Fails with each allocation in turn, without leaving anything, until it has all that it needs. */
static void assert_relabels_after_failures(struct rung_edges *edges, const void *vertex_of_rank,
                                           const void *rank_of_source,
                                           const struct rung__relabel_opts *with)
{
	const int fds = support_open_descriptors();
	int64_t allowed = 0;
	int rc;

	do {
		rung__alloc_limit(allowed++);
		rc = relabel(edges, vertex_of_rank, rank_of_source, with);
		rung__alloc_limit(-1);
		cr_assert(rc == 0 || rc == RUNG_E_NOMEM, "%s", rung_last_error());
		cr_assert_eq(support_open_descriptors(), fds);
		if (rc < 0)
			assert_nothing_was_made();
	} while (rc < 0);
	cr_assert_gt(allowed, 15);
	remove_output(4);
	remove_output(5);
}

Test(edges_relabel, a_failed_relabelling_leaves_no_files)
{
	struct test_graph graph = test_graph_random(20000, 90000, 3, 4);
	const char *spec = columns_spec("csc", &graph, 0, "i64", "i32");
	const struct rlimit limit = { 300000, RLIM_INFINITY };
	struct rung__relabel_opts with = relabel_opts();
	uint32_t *vertex_of_rank, *rank_of_vertex;
	struct rung_edges *edges;
	int fds;

	make_maps(20000, &vertex_of_rank, &rank_of_vertex);
	cr_assert_eq(open_edges(&spec, 1, DEFAULTS, &edges), 0);
	fds = support_open_descriptors();
	assert_error(relabel(edges, rank_of_vertex, rank_of_vertex, &with), RUNG_E_FORMAT,
	             "not each other's inverse");
	with.memory_bytes = 1000;
	assert_error(relabel(edges, vertex_of_rank, rank_of_vertex, &with), RUNG_E_INVAL,
	             "at least 1048576");
	with = relabel_opts();
	with.temp_dir = "/nowhere";
	assert_error(relabel(edges, vertex_of_rank, rank_of_vertex, &with), RUNG_E_NOENT,
	             "/nowhere");
	with = relabel_opts();
	with.progress = cancel_when_sorting;
	with.progress_ctx = "sort";
	assert_error(relabel(edges, vertex_of_rank, rank_of_vertex, &with), RUNG_E_CANCELED,
	             "canceled");
	with = relabel_opts();
	raw_file(5, "x", 1, 0, "u8,1");
	assert_error(relabel(edges, vertex_of_rank, rank_of_vertex, &with), RUNG_E_EXIST,
	             "/5: exists");
	remove_output(5);
	assert_nothing_was_made();
	cr_assert_eq(support_open_descriptors(), fds);
	assert_relabels_after_failures(edges, vertex_of_rank, rank_of_vertex, &with);
	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_error(relabel(edges, vertex_of_rank, rank_of_vertex, &with), RUNG_E_NOSPC,
	             "5.partial: cannot reserve 364096 bytes");
	assert_nothing_was_made();
	rung_edges_close(edges);
	free(vertex_of_rank);
	free(rank_of_vertex);
	test_graph_fini(&graph);
}

static void assert_map_is_refused(struct rung_edges *edges, const struct rung_csc *csc,
                                  const uint32_t *vertex_of_rank, const uint32_t *rank_of_source,
                                  const char *words)
{
	const struct rung__relabel_opts with = relabel_opts();
	const int fds = support_open_descriptors();
	uint64_t *indptr = malloc((csc->vertex_count + 1) * sizeof(*indptr));
	uint32_t *indices = malloc(csc->edge_count * sizeof(*indices));
	int fds_out[2];

	assert_error(rung__graph_relabel(csc, vertex_of_rank, rank_of_source, 1, indptr, indices),
	             RUNG_E_FORMAT, words);
	assert_error(relabel(edges, vertex_of_rank, rank_of_source, &with), RUNG_E_FORMAT, words);
	assert_error(
		rung__edges_relabel_temp(edges, vertex_of_rank, rank_of_source, &with, fds_out),
		RUNG_E_FORMAT, words);
	assert_nothing_was_made();
	cr_assert_eq(support_open_descriptors(), fds);
	free(indptr);
	free(indices);
}

/* An id that the other type has but not this one, and an id twice: its list may be the longest. */
Test(edges_relabel, maps_of_two_types_that_are_no_permutations_are_refused)
{
	for (int more_targets = 0; more_targets < 2; more_targets++) {
		struct test_graph graph = more_targets ? relation_random(60, 900, 5000)
		                                       : relation_random(900, 60, 5000);
		const char *spec = columns_spec("csc", &graph, 0, "i64", "i32");
		uint32_t *vertex_of_rank, *rank_of_source, *unused[2], kept;
		struct rung_edges *edges;
		char words[100];

		make_maps(graph.csc.vertex_count, &vertex_of_rank, &unused[0]);
		make_maps(graph.csc.source_count, &unused[1], &rank_of_source);
		cr_assert_eq(open_edges(&spec, 1, opts_of(&graph.csc, false), &edges), 0);
		kept = vertex_of_rank[7];
		vertex_of_rank[7] = more_targets ? 900 : 60;
		assert_map_is_refused(edges, &graph.csc, vertex_of_rank, rank_of_source,
		                      more_targets ? "vertex_of_rank[7] is 900, not below 900"
		                                   : "vertex_of_rank[7] is 60, not below 60");
		vertex_of_rank[7] = kept;
		rank_of_source[3] = more_targets ? 60 : 900;
		assert_map_is_refused(edges, &graph.csc, vertex_of_rank, rank_of_source,
		                      more_targets ? "rank_of_vertex[3] is 60, not below 60"
		                                   : "rank_of_vertex[3] is 900, not below 900");
		rank_of_source[3] = rank_of_source[0];
		snprintf(words, sizeof(words), "rank_of_vertex[3] is %u, as an entry before it",
		         rank_of_source[0]);
		assert_map_is_refused(edges, &graph.csc, vertex_of_rank, rank_of_source, words);
		vertex_of_rank[7] = vertex_of_rank[2];
		snprintf(words, sizeof(words), "vertex_of_rank[7] is %u, as an entry before it",
		         vertex_of_rank[2]);
		assert_map_is_refused(edges, &graph.csc, vertex_of_rank, rank_of_source, words);
		rung_edges_close(edges);
		free(vertex_of_rank);
		free(rank_of_source);
		free(unused[0]);
		free(unused[1]);
		test_graph_fini(&graph);
	}
}

Test(edges_relabel, nothing_leaks_if_two_types_are_relabelled_without_memory)
{
	struct test_graph graph = relation_random(90, 60, 500);
	const char *spec = columns_spec("csc", &graph, 0, "i64", "i32");
	const struct rung__relabel_opts with = relabel_opts();
	uint32_t *vertex_of_rank, *rank_of_source, *unused[2];
	struct rung_edges *edges;

	make_maps(60, &vertex_of_rank, &unused[0]);
	make_maps(90, &unused[1], &rank_of_source);
	cr_assert_eq(open_edges(&spec, 1, opts_of(&graph.csc, false), &edges), 0);
	assert_relabels_after_failures(edges, vertex_of_rank, rank_of_source, &with);
	rung_edges_close(edges);
	free(vertex_of_rank);
	free(rank_of_source);
	free(unused[0]);
	free(unused[1]);
	test_graph_fini(&graph);
}

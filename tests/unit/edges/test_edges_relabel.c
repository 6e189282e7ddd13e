/* SPDX-License-Identifier: Apache-2.0 */
/* Relabelling of graphs in files: the output has the same bytes as relabelling in memory, or does
 * not exist. */
#include <signal.h>
#include <sys/resource.h>

#include "edges_fixture.h"
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

Test(edges_relabel, a_failed_relabelling_leaves_no_files)
{
	struct test_graph graph = test_graph_random(20000, 90000, 3, 4);
	const char *spec = columns_spec("csc", &graph, 0, "i64", "i32");
	const struct rlimit limit = { 300000, RLIM_INFINITY };
	struct rung__relabel_opts with = relabel_opts();
	uint32_t *vertex_of_rank, *rank_of_vertex;
	struct rung_edges *edges;
	int64_t allowed = 0;
	int rc, fds;

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
	do {
		rung__alloc_limit(allowed++);
		rc = relabel(edges, vertex_of_rank, rank_of_vertex, &with);
		rung__alloc_limit(-1);
		cr_assert(rc == 0 || rc == RUNG_E_NOMEM, "%s", rung_last_error());
		cr_assert_eq(support_open_descriptors(), fds);
		if (rc < 0)
			assert_nothing_was_made();
	} while (rc < 0);
	cr_assert_gt(allowed, 15);
	remove_output(4);
	remove_output(5);
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

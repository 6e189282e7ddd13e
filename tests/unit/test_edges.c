/* SPDX-License-Identifier: Apache-2.0 */
/* Edges in files: passes give the graph that rung_graph_load() gives, chunk by chunk, and say what is wrong with the files. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zip.h>

#include "edges_internal.h"
#include "graph_internal.h"
#include "graphs.h"
#include "rung/rank.h"
#include "sort_ids.h"

#define FILES 8

static char folder[] = "/tmp/rung-edges-XXXXXX";
static char spec_text[FILES][500];

static void make_folder(void)
{
	cr_assert(mkdtemp(folder) != NULL);
}

static void remove_folder(void)
{
	char path[400];

	for (int i = 0; i < FILES; i++) {
		snprintf(path, sizeof(path), "%s/%d", folder, i);
		unlink(path);
		strcat(path, ".npz");
		unlink(path);
	}
	cr_assert_eq(rmdir(folder), 0, "temporary files are left in %s", folder);
}

TestSuite(edges, .init = make_folder, .fini = remove_folder);

/* File `slot` with `skip` bytes in front, and a raw: spec of it in which `shape` gives dtype and dimensions. */
static const char *raw_file(int slot, const void *bytes, size_t byte_count, size_t skip, const char *shape)
{
	static const char front[5000];
	char path[400];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%d", folder, slot);
	file = fopen(path, "wb");
	cr_assert(file != NULL);
	cr_assert_eq(fwrite(front, 1, skip, file), skip);
	cr_assert_eq(fwrite(bytes, 1, byte_count, file), byte_count);
	cr_assert_eq(fclose(file), 0);
	snprintf(spec_text[slot], sizeof(spec_text[slot]), "raw:%s,%s,%zu", path, shape, skip);
	return spec_text[slot];
}

static unsigned dtype_bytes(const char *dtype)
{
	return dtype[1] == '3' ? 4 : 8;
}

/* Integers as a file of any of the four types. */
static const char *ids_file(int slot, const uint64_t *values, uint64_t count, size_t skip, const char *dtype)
{
	void *ids = test_ids(values, count, dtype_bytes(dtype));
	char shape[60];

	snprintf(shape, sizeof(shape), "%s,%d", dtype, (int)count);
	raw_file(slot, ids, count * dtype_bytes(dtype), skip, shape);
	free(ids);
	return spec_text[slot];
}

/* Lists as "csc:SRC,SRC" or "csr:SRC,SRC". */
static const char *columns_spec(const char *prefix, const struct test_graph *graph, size_t skip, const char *offset_dtype, const char *id_dtype)
{
	static char text[1200];
	uint64_t *indices = malloc(graph->csc.edge_count * sizeof(*indices) + 1);

	for (uint64_t e = 0; e < graph->csc.edge_count; e++)
		indices[e] = test_id(graph->indices, graph->csc.index_bytes, e);
	snprintf(text, sizeof(text), "%s:%s,%s", prefix, ids_file(0, graph->indptr, graph->csc.vertex_count + 1, skip, offset_dtype),
	         ids_file(1, indices, graph->csc.edge_count, skip, id_dtype));
	free(indices);
	return text;
}

/* What chunks bring, put together and compared with the graph in memory. */
struct seen {
	const struct rung_csc *csc;
	uint64_t vertices, edges;   /* so far */
	uint64_t chunks, split;
	uint64_t edges_max;
};

static int compare_chunk(void *ctx, const struct rung__edge_chunk *chunk)
{
	struct seen *seen = ctx;
	const struct rung_csc *csc = seen->csc;
	const bool goes_on = chunk->edge_first > chunk->indptr[0];
	const bool stays_open = chunk->edge_first + chunk->edge_count < chunk->indptr[chunk->vertex_count];
	uint64_t covered = 0;

	cr_assert_eq(chunk->index_bytes, csc->index_bytes);
	cr_assert_eq(chunk->vertex_first, seen->vertices);
	cr_assert_eq(chunk->edge_first, seen->edges);
	cr_assert_gt(chunk->vertex_count, 0);
	cr_assert_leq(chunk->vertex_first + chunk->vertex_count, csc->vertex_count);
	cr_assert_leq(chunk->edge_count, seen->edges_max);
	cr_assert_eq(memcmp(chunk->indptr, csc->indptr + chunk->vertex_first, (chunk->vertex_count + 1) * 8), 0);
	cr_assert_eq(memcmp(chunk->indices, (const char *)csc->indices + chunk->edge_first * csc->index_bytes,
	                    chunk->edge_count * csc->index_bytes), 0, "edges from %d on", (int)chunk->edge_first);
	for (uint64_t i = 0; i < chunk->vertex_count; i++) {
		uint64_t begin, end;

		rung__edge_chunk_list(chunk, i, &begin, &end);
		cr_assert_eq(begin, covered);
		covered = end;
		if (goes_on || stays_open)
			cr_assert(i > 0 || chunk->indptr[1] - chunk->indptr[0] > seen->edges_max, "a list is split that fits");
	}
	cr_assert_eq(covered, chunk->edge_count);
	if (stays_open)
		cr_assert_eq(chunk->vertex_count, 1);
	seen->chunks++;
	seen->split += stays_open;
	seen->vertices += chunk->vertex_count - stays_open;
	seen->edges += chunk->edge_count;
	return 0;
}

static int open_edges(const char *const *specs, size_t spec_count, struct rung_edges_opts opts, struct rung_edges **edges_out)
{
	opts.graph.specs = specs;
	opts.graph.spec_count = spec_count;
	opts.temp_dir = folder;
	return rung_edges_open(&opts, edges_out);
}

#define DEFAULTS (struct rung_edges_opts)RUNG_EDGES_OPTS_INIT

/* Passes over the files equal the graph that rung_graph_load() makes of them. Gives back what chunks there were. */
static struct seen assert_equals_load(const char *const *specs, size_t spec_count, struct rung_edges_opts opts)
{
	struct rung_edges_info info = { .size = sizeof(info) };
	struct rung_graph *graph;
	struct rung_edges *edges;
	struct seen seen;

	opts.graph.specs = specs;
	opts.graph.spec_count = spec_count;
	cr_assert_eq(rung_graph_load(&opts.graph, &graph), 0, "%s", rung_last_error());
	cr_assert_eq(open_edges(specs, spec_count, opts, &edges), 0, "%s", rung_last_error());
	cr_assert_eq(rung_edges_info(edges, &info), 0);
	cr_assert_eq(info.vertex_count, rung_graph_csc(graph)->vertex_count);
	cr_assert_eq(info.edge_count, rung_graph_csc(graph)->edge_count);
	cr_assert_leq(info.memory_bytes, opts.memory_bytes ? opts.memory_bytes : UINT64_C(256) << 20);
	for (int pass = 0; pass < 2; pass++) {
		seen = (struct seen){ .csc = rung_graph_csc(graph), .edges_max = info.chunk_bytes / info.index_bytes };
		cr_assert_eq(rung__edges_pass(edges, compare_chunk, &seen), 0, "%s", rung_last_error());
		cr_assert_eq(seen.vertices, info.vertex_count);
		cr_assert_eq(seen.edges, info.edge_count);
	}
	rung_edges_close(edges);
	rung_graph_destroy(graph);
	return seen;
}

Test(edges, columns_of_every_type_at_every_place_are_passed_as_they_are_loaded)
{
	const char *dtypes[][2] = { { "i64", "i64" }, { "u64", "u32" }, { "i32", "i32" }, { "u32", "u64" } };
	const size_t skips[] = { 0, 4096, 8, 12, 13 };
	struct test_graph graph = test_graph_random(3000, 60000, 3, 8);

	for (size_t d = 0; d < RUNG__ARRAY_LEN(dtypes); d++) {
		for (size_t s = 0; s < RUNG__ARRAY_LEN(skips); s++) {
			const char *spec = columns_spec("csc", &graph, skips[s], dtypes[d][0], dtypes[d][1]);
			struct rung_edges_opts opts = { .size = sizeof(opts), .graph.size = sizeof(opts.graph), .chunk_bytes = 20480 };

			cr_assert_gt(assert_equals_load(&spec, 1, opts).chunks, 10);
			opts.chunk_bytes = 0;
			cr_assert_eq(assert_equals_load(&spec, 1, opts).chunks, 1);
		}
	}
	test_graph_fini(&graph);
}

/* Vertex 3 has 5000 in-edges, others few or none. */
static struct test_graph hub_graph(void)
{
	uint64_t *sources = malloc(5200 * sizeof(*sources)), *destinations = malloc(5200 * sizeof(*destinations)), state = 5;

	for (uint64_t e = 0; e < 5200; e++) {
		sources[e] = test_random(&state) % 40000;
		destinations[e] = e % 26 ? 3 : test_random(&state) % 40000;
	}
	return test_graph_of_edges(40000, 5200, sources, destinations, 4);
}

Test(edges, a_list_longer_than_a_chunk_is_split_and_no_other)
{
	struct test_graph graph = hub_graph();
	const char *spec = columns_spec("csc", &graph, 0, "i64", "i64");
	struct rung_edges_opts opts = { .size = sizeof(opts), .graph.size = sizeof(opts.graph), .chunk_bytes = 4096 };
	struct seen seen = assert_equals_load(&spec, 1, opts);

	cr_assert_eq(seen.split, 4);   /* 5000 edges, 1024 a chunk */
	cr_assert_gt(seen.chunks, 40000 / 256);   /* vertices are bounded as well */
	test_graph_fini(&graph);
}

Test(edges, one_vertex_and_no_edges)
{
	const uint64_t none[] = { 0, 0 }, one[] = { 0, 2 }, loops[] = { 0, 0 };
	char spec[1100];
	const char *specs[] = { spec };

	snprintf(spec, sizeof(spec), "csc:%s,%s", ids_file(0, none, 2, 0, "i64"), ids_file(1, none, 0, 0, "i32"));
	cr_assert_eq(assert_equals_load(specs, 1, DEFAULTS).chunks, 1);
	snprintf(spec, sizeof(spec), "csc:%s,%s", ids_file(0, one, 2, 0, "i64"), ids_file(1, loops, 2, 0, "i32"));
	cr_assert_eq(assert_equals_load(specs, 1, DEFAULTS).chunks, 1);
}

static int count_chunks(void *ctx, const struct rung__edge_chunk *chunk)
{
	(void)chunk;
	++*(uint64_t *)ctx;
	return 0;
}

static void assert_says(int rc, int status, const char *words)
{
	cr_assert_eq(rc, status, "%s: %s", rung_status_name(rc), rung_last_error());
	cr_assert(strstr(rung_last_error(), words) != NULL, "\"%s\" lacks \"%s\"", rung_last_error(), words);
}

static void assert_pass_fails(const char *indptr, const char *indices, int status, const char *words)
{
	char spec[1100];
	const char *specs[] = { spec };
	struct rung_edges *edges;
	uint64_t chunks = 0;

	snprintf(spec, sizeof(spec), "csc:%s,%s", indptr, indices);
	cr_assert_eq(open_edges(specs, 1, DEFAULTS, &edges), 0, "%s", rung_last_error());
	assert_says(rung__edges_pass(edges, count_chunks, &chunks), status, words);
	cr_assert_eq(chunks, 0);
	rung_edges_close(edges);
}

Test(edges, a_pass_names_what_is_wrong_with_columns)
{
	const uint64_t good[] = { 1, 0, 3, 0, 2 }, offsets[] = { 0, 1, 4, 5, 5 };
	const char *five = ids_file(1, good, 5, 0, "i32");

	assert_pass_fails(ids_file(0, (uint64_t[]){ 0, 1, 4, 3, 5 }, 5, 0, "i64"), five, RUNG_E_FORMAT,
	                  "indptr[2] is 4 and indptr[3] is 3");
	assert_pass_fails(ids_file(0, (uint64_t[]){ 1, 1, 4, 5, 5 }, 5, 0, "u32"), five, RUNG_E_FORMAT, "indptr[0] is 1");
	assert_pass_fails(ids_file(0, (uint64_t[]){ 0, 1, 4, 4, 4 }, 5, 0, "i64"), five, RUNG_E_FORMAT, "(its last) is 4, but");
	assert_pass_fails(ids_file(0, (uint64_t[]){ 0, 1, UINT64_MAX - 3, 5, 5 }, 5, 0, "i32"), five, RUNG_E_FORMAT, "indptr[2] is -4");
	assert_pass_fails(ids_file(0, (uint64_t[]){ 0, 1, 6, 6, 5 }, 5, 0, "i32"), five, RUNG_E_FORMAT, "indptr[2] is 6");
	for (int wide = 0; wide < 2; wide++) {
		assert_pass_fails(ids_file(0, offsets, 5, 0, "i64"), ids_file(2, (uint64_t[]){ 1, 0, 4, 0, 2 }, 5, 0, wide ? "i64" : "i32"),
		                  RUNG_E_RANGE, "indices[2]: id 4 is out of range 0..3");
		cr_assert(strstr(rung_last_error(), spec_text[2]) == rung_last_error(), "the file is named");
		assert_pass_fails(ids_file(0, offsets, 5, 0, "i64"), ids_file(2, (uint64_t[]){ 1, 0, 3, 0, UINT64_MAX - 1 }, 5, 0, wide ? "i64" : "i32"),
		                  RUNG_E_RANGE, "indices[4]: id -2 is out of range 0..3");
	}
	assert_pass_fails(ids_file(0, offsets, 5, 0, "i64"), ids_file(2, (uint64_t[]){ 1, 0, UINT64_C(1) << 32, 0, 2 }, 5, 0, "u64"),
	                  RUNG_E_RANGE, "indices[2]: id 4294967296 is out of range 0..3");
}

Test(edges, the_first_wrong_id_is_told_whichever_thread_finds_one)
{
	struct test_graph graph = test_graph_random(3000, 60000, 3, 4);
	struct rung_edges_opts opts = { .size = sizeof(opts), .graph.size = sizeof(opts.graph), .chunk_bytes = 8192 };
	const char *spec;

	for (uint64_t e = 20011; e < 60000; e += 100)
		((uint32_t *)graph.indices)[e] = 3000;
	spec = columns_spec("csc", &graph, 0, "i64", "i32");
	for (int i = 0; i < 20; i++) {
		struct rung_edges *edges;
		uint64_t chunks = 0;

		cr_assert_eq(open_edges(&spec, 1, opts, &edges), 0);
		assert_says(rung__edges_pass(edges, count_chunks, &chunks), RUNG_E_RANGE, "indices[20011]: id 3000");
		cr_assert_leq(chunks, 20011);
		rung_edges_close(edges);
	}
	test_graph_fini(&graph);
}

static int cut_file(void *ctx, const struct rung__edge_chunk *chunk)
{
	char path[400];

	(void)chunk;
	snprintf(path, sizeof(path), "%s/1", folder);
	cr_assert_eq(truncate(path, *(int *)ctx), 0);
	return 0;
}

Test(edges, a_file_that_becomes_shorter_while_it_is_read_is_an_error)
{
	const int lengths[] = { 0, 100001, 131072 };
	struct test_graph graph = test_graph_random(3000, 60000, 3, 4);
	struct rung_edges_opts opts = { .size = sizeof(opts), .graph.size = sizeof(opts.graph), .chunk_bytes = 8192 };

	for (int i = 0; i < 6; i++) {
		const char *spec = columns_spec("csc", &graph, 16, "i64", i % 2 ? "i32" : "i64");
		struct rung_edges *edges;

		cr_assert_eq(open_edges(&spec, 1, opts, &edges), 0);
		assert_says(rung__edges_pass(edges, cut_file, (void *)&lengths[i / 2]), RUNG_E_IO, "the file was truncated");
		cr_assert(strstr(rung_last_error(), folder) != NULL, "%s", rung_last_error());
		rung_edges_close(edges);
	}
	test_graph_fini(&graph);
}

static int stop_at_third(void *ctx, const struct rung__edge_chunk *chunk)
{
	(void)chunk;
	return ++*(int *)ctx == 3 ? 77 : 0;
}

Test(edges, work_can_end_a_pass_and_the_next_begins_anew)
{
	struct test_graph graph = test_graph_random(3000, 60000, 3, 4);
	const char *spec = columns_spec("csc", &graph, 0, "i64", "i32");
	struct rung_edges_opts opts = { .size = sizeof(opts), .graph.size = sizeof(opts.graph), .chunk_bytes = 4096 };
	struct rung_edges *edges;
	uint64_t chunks = 0;

	cr_assert_eq(open_edges(&spec, 1, opts, &edges), 0);
	for (int i = 0; i < 10; i++) {
		int calls = 0;

		cr_assert_eq(rung__edges_pass(edges, stop_at_third, &calls), 77);
		cr_assert_eq(calls, 3);
	}
	cr_assert_eq(rung__edges_pass(edges, count_chunks, &chunks), 0);
	cr_assert_gt(chunks, 50);
	rung_edges_close(edges);
	test_graph_fini(&graph);
}

Test(edges, memory_that_is_too_small_is_told_with_what_works)
{
	struct test_graph graph = test_graph_random(30000, 60000, 3, 4);
	const char *spec = columns_spec("csc", &graph, 0, "i64", "i32"), *number;
	struct rung_edges_opts opts = { .size = sizeof(opts), .graph.size = sizeof(opts.graph), .memory_bytes = 1000 };
	struct rung_edges *edges;

	assert_says(open_edges(&spec, 1, opts, &edges), RUNG_E_INVAL, "memory_bytes is 1000");
	number = strstr(rung_last_error(), "at least ");
	cr_assert(number != NULL);
	opts.memory_bytes = strtoull(number + strlen("at least "), NULL, 10);
	cr_assert_lt(opts.memory_bytes, 200000);
	assert_equals_load(&spec, 1, opts);
	opts.memory_bytes--;
	assert_says(open_edges(&spec, 1, opts, &edges), RUNG_E_INVAL, "at least");
	opts.chunk_bytes = 4095;
	assert_says(open_edges(&spec, 1, opts, &edges), RUNG_E_INVAL, "chunk_bytes is 4095");
	test_graph_fini(&graph);
}

static void rename_as_npz(int slot)
{
	char from[400], to[420];

	snprintf(from, sizeof(from), "%s/%d", folder, slot);
	snprintf(to, sizeof(to), "%s.npz", from);
	cr_assert_eq(rename(from, to), 0);
}

static void add_member(zip_t *zip, const char *name, int slot, const char *dtype, uint64_t count, size_t bytes, zip_int32_t method)
{
	static unsigned char npy[2][250000];
	unsigned char *at = npy[slot];
	char path[400];
	zip_int64_t idx;
	FILE *file;
	int len;

	memset(at, ' ', 128);
	memcpy(at, "\x93NUMPY\x01\x00\x76\x00", 10);
	len = snprintf((char *)at + 10, 110, "{'descr': '%s', 'fortran_order': False, 'shape': (%d,), }", dtype, (int)count);
	at[10 + len] = ' ';
	at[127] = '\n';
	snprintf(path, sizeof(path), "%s/%d", folder, slot);
	file = fopen(path, "rb");
	cr_assert(file != NULL);
	cr_assert_eq(fread(at + 128, 1, bytes, file), bytes);
	cr_assert_eq(fclose(file), 0);
	idx = zip_file_add(zip, name, zip_source_buffer(zip, at, 128 + bytes, 0), 0);
	cr_assert_geq(idx, 0);
	cr_assert_eq(zip_set_file_compression(zip, (zip_uint64_t)idx, method, 0), 0);
}

Test(edges, a_deflated_member_counts_as_memory_and_a_stored_one_is_read_in_place)
{
	struct test_graph graph = test_graph_random(3000, 60000, 3, 4);
	struct rung_edges_opts opts = { .size = sizeof(opts), .graph.size = sizeof(opts.graph), .memory_bytes = 200000 };
	char spec[1100];
	const char *specs[] = { spec };
	struct rung_edges *edges;

	columns_spec("csc", &graph, 0, "i64", "i32");
	for (int deflated = 0; deflated < 2; deflated++) {
		zip_t *zip;

		snprintf(spec, sizeof(spec), "%s/%d", folder, 6 + deflated);
		zip = zip_open(spec, ZIP_CREATE, NULL);
		cr_assert(zip != NULL);
		add_member(zip, "p.npy", 0, "<i8", 3001, 3001 * 8, ZIP_CM_STORE);
		add_member(zip, "i.npy", 1, "<i4", 60000, 240000, deflated ? ZIP_CM_DEFLATE : ZIP_CM_STORE);
		cr_assert_eq(zip_close(zip), 0);
		snprintf(spec, sizeof(spec), "csc:%s/%d.npz:p,%s/%d.npz:i", folder, 6 + deflated, folder, 6 + deflated);
		rename_as_npz(6 + deflated);
		if (deflated)
			assert_says(open_edges(specs, 1, opts, &edges), RUNG_E_INVAL, "it is then read in place");
		else
			assert_equals_load(specs, 1, opts);
	}
	opts.memory_bytes = 450000;
	assert_equals_load(specs, 1, opts);
	test_graph_fini(&graph);
}

/* ---- sorted outside memory ---- */

static const char *edges_spec(int slot, const struct test_graph *graph, uint64_t first, uint64_t count, bool by_row, const char *dtype)
{
	uint64_t *both = malloc(2 * count * sizeof(*both) + 1);
	void *ids;
	char shape[60];

	for (uint64_t e = 0; e < count; e++) {
		both[by_row ? 2 * e : e] = graph->sources[first + e];
		both[by_row ? 2 * e + 1 : count + e] = graph->destinations[first + e];
	}
	ids = test_ids(both, 2 * count, dtype_bytes(dtype));
	snprintf(shape, sizeof(shape), by_row ? "%s,%dx2" : "%s,2x%d", dtype, (int)count);
	raw_file(slot, ids, 2 * count * dtype_bytes(dtype), 0, shape);
	free(ids);
	free(both);
	return spec_text[slot];
}

/* With each mix of options, the memory that a whole graph fits and the least there may be. */
static void assert_sorts_as_load(const char *const *specs, size_t spec_count, uint64_t vertex_count)
{
	for (int mix = 0; mix < 4; mix++) {
		struct rung_edges_opts opts = { .size = sizeof(opts), .graph.size = sizeof(opts.graph), .memory_bytes = 16 << 20 };

		opts.graph.vertex_count = vertex_count;
		opts.graph.undirected = mix & 1;
		opts.graph.dedup = mix >> 1;
		assert_equals_load(specs, spec_count, opts);
		opts.memory_bytes = 1 << 20;
		assert_equals_load(specs, spec_count, opts);
	}
}

Test(edges, joined_edge_lists_are_sorted_as_they_are_loaded)
{
	struct test_graph graph = test_graph_random(20000, 60000, 8, 4);
	const char *const specs[] = { edges_spec(0, &graph, 0, 30000, false, "i64"), edges_spec(1, &graph, 30000, 0, false, "i32"),
	                              edges_spec(2, &graph, 30000, 30000, true, "u32") };

	assert_sorts_as_load(specs, 3, 0);
	assert_sorts_as_load(specs, 3, 70000);
	test_graph_fini(&graph);
}

Test(edges, columns_and_rows_are_sorted_as_they_are_loaded)
{
	struct test_graph graph = test_graph_random(20000, 60000, 9, 4);
	const char *spec = columns_spec("csr", &graph, 0, "i64", "i32");

	assert_sorts_as_load(&spec, 1, 0);
	spec = columns_spec("csc", &graph, 0, "u32", "u64");
	assert_sorts_as_load(&spec, 1, 0);
	test_graph_fini(&graph);
}

/* Most edges end in vertex 4711: more than fit at a time, which takes dealing again, and of one list, and by value. */
Test(edges, a_list_larger_than_the_memory_is_sorted_as_it_is_loaded)
{
	uint64_t *sources = malloc(60000 * sizeof(*sources)), *destinations = malloc(60000 * sizeof(*destinations)), state = 12;
	struct test_graph graph;
	const char *spec;

	for (uint64_t e = 0; e < 60000; e++) {
		sources[e] = e % 3 ? test_random(&state) % 30000 : 29;   /* one value alone is too much, too */
		destinations[e] = e % 20 ? 4711 : test_random(&state) % 30000;
	}
	graph = test_graph_of_edges(30000, 60000, sources, destinations, 4);
	spec = edges_spec(0, &graph, 0, 60000, false, "i32");
	assert_sorts_as_load(&spec, 1, 30000);
	test_graph_fini(&graph);
}

Test(edges, few_edges_and_many_vertices_are_sorted_as_they_are_loaded)
{
	uint64_t *sources = malloc(10 * sizeof(*sources)), *destinations = malloc(10 * sizeof(*destinations));
	struct test_graph graph;
	const char *spec;

	for (uint64_t e = 0; e < 10; e++)
		sources[e] = destinations[e] = e * 9999;
	graph = test_graph_of_edges(100000, 10, sources, destinations, 4);
	spec = edges_spec(0, &graph, 0, 10, true, "i64");
	assert_sorts_as_load(&spec, 1, 100000);
	spec = edges_spec(0, &graph, 0, 1, false, "i64");
	assert_sorts_as_load(&spec, 1, 0);
	spec = edges_spec(0, &graph, 0, 0, false, "i64");
	assert_sorts_as_load(&spec, 1, 1);
	test_graph_fini(&graph);
}

Test(edges, lists_of_any_length_and_order_are_put_in_order)
{
	uint64_t *ids = malloc(3000 * sizeof(*ids)), state = 4;

	for (uint64_t count = 0; count < 3000; count += 1 + count / 3) {
		for (int kind = 0; kind < 3; kind++) {
			for (unsigned bytes = 4; bytes <= 8; bytes += 4) {
				uint64_t sum = 0, sum_after = 0;
				void *copy;

				for (uint64_t i = 0; i < count; i++)
					sum += ids[i] = kind == 0 ? test_random(&state) >> 32 : kind == 1 ? i / 3 : count - i;
				copy = test_ids(ids, count, bytes);
				rung__ids_sort(copy, bytes, count);
				for (uint64_t i = 0; i < count; i++) {
					sum_after += test_id(copy, bytes, i);
					cr_assert(i == 0 || test_id(copy, bytes, i - 1) <= test_id(copy, bytes, i));
				}
				cr_assert_eq(sum, sum_after);
				free(copy);
			}
		}
	}
	free(ids);
}

Test(edges, sorting_names_a_stray_id_and_a_changed_file)
{
	const uint64_t stray[] = { 0, 1, 4, 1, 1, 1 };
	struct rung_edges_opts opts = { .size = sizeof(opts), .graph.size = sizeof(opts.graph), .graph.vertex_count = 4 };
	const char *spec = raw_file(0, stray, sizeof(stray), 0, "i64,2x3");
	struct rung_edges *edges;
	char columns[1100];
	const char *specs[] = { columns };

	assert_says(open_edges(&spec, 1, opts, &edges), RUNG_E_RANGE, "edge 2: source id 4 is out of range 0..3");
	snprintf(columns, sizeof(columns), "csr:%s,%s", ids_file(0, (uint64_t[]){ 0, 1, 3 }, 3, 0, "i64"),
	         ids_file(1, (uint64_t[]){ 1, 0, 2 }, 3, 0, "i32"));
	opts.graph.vertex_count = 0;
	assert_says(open_edges(specs, 1, opts, &edges), RUNG_E_RANGE, "indices[2]: id 2 is out of range 0..1");
	opts.graph.vertex_count = 3;
	assert_says(open_edges(specs, 1, opts, &edges), RUNG_E_FORMAT, "2 vertices, but 3");
	opts.memory_bytes = 1000000;
	assert_says(open_edges(specs, 1, opts, &edges), RUNG_E_INVAL, "at least 1048576");
	opts.memory_bytes = 0;
	opts.graph.spec_count = 0;
	assert_says(open_edges(specs, 0, opts, &edges), RUNG_E_INVAL, "no source");
}

static int rewrite_edges(void *ctx, const char *stage, unsigned long long done, unsigned long long total)
{
	(void)stage, (void)done, (void)total;
	raw_file(0, ctx, 6 * sizeof(uint64_t), 0, "i64,2x3");
	return 0;
}

Test(edges, a_file_that_changes_between_the_passes_of_sorting_is_an_error)
{
	/* more in one bucket than were counted; a vertex that is none */
	uint64_t edges_before[] = { 0, 0, 0, 1, 2, 1 }, loops[] = { 0, 2, 2, 0, 2, 2 }, stray[] = { 0, 0, 0, 1, 2, 7 };
	struct rung_edges_opts opts = { .size = sizeof(opts), .graph.size = sizeof(opts.graph), .graph.vertex_count = 3 };
	struct rung_edges *edges;
	const char *spec;

	opts.graph.undirected = 1;
	opts.graph.progress = rewrite_edges;
	opts.graph.progress_ctx = loops;
	spec = raw_file(0, edges_before, sizeof(edges_before), 0, "i64,2x3");
	assert_says(open_edges(&spec, 1, opts, &edges), RUNG_E_IO, "changed while it was read");
	opts.graph.progress_ctx = stray;
	spec = raw_file(0, edges_before, sizeof(edges_before), 0, "i64,2x3");
	assert_says(open_edges(&spec, 1, opts, &edges), RUNG_E_RANGE, "destination id 7");
}

static int cancel_when_sorting(void *ctx, const char *stage, unsigned long long done, unsigned long long total)
{
	cr_assert_leq(done, total);
	return strcmp(stage, ctx) == 0;
}

Test(edges, progress_can_cancel_each_step)
{
	struct test_graph graph = test_graph_random(2000, 5000, 2, 4);
	struct rung_edges_opts opts = { .size = sizeof(opts), .graph.size = sizeof(opts.graph), .memory_bytes = 2 << 20 };
	const char *specs[] = { edges_spec(2, &graph, 0, 5000, true, "i32"), columns_spec("csr", &graph, 0, "i64", "i64") };
	struct rung_edges *edges;

	opts.graph.progress = cancel_when_sorting;
	for (int i = 0; i < 4; i++) {
		opts.graph.progress_ctx = i % 2 ? "sort" : "edges";
		assert_says(open_edges(&specs[i / 2], 1, opts, &edges), RUNG_E_CANCELED, "canceled");
	}
	test_graph_fini(&graph);
}

Test(edges, a_file_size_limit_is_told_as_lack_of_space_with_what_is_needed)
{
	struct test_graph graph = test_graph_random(20000, 100000, 2, 4);
	struct rung_edges_opts opts = { .size = sizeof(opts), .graph.size = sizeof(opts.graph), .memory_bytes = 2 << 20 };
	const char *spec = edges_spec(0, &graph, 0, 100000, false, "i32");
	const rlim_t limits[] = { 40000, 300000 };
	struct rung_edges *edges;

	signal(SIGXFSZ, SIG_IGN);
	for (int i = 0; i < 2; i++) {
		const struct rlimit limit = { limits[i], RLIM_INFINITY };

		cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
		assert_says(open_edges(&spec, 1, opts, &edges), RUNG_E_NOSPC, "bytes are needed there in all");
	}
	opts.temp_dir = "/nowhere";
	opts.graph.specs = &spec;
	opts.graph.spec_count = 1;
	assert_says(rung_edges_open(&opts, &edges), RUNG_E_NOENT, "/nowhere");
	test_graph_fini(&graph);
}

static int open_descriptors(void)
{
	DIR *fds = opendir("/proc/self/fd");
	int count = 0;

	while (readdir(fds))
		count++;
	closedir(fds);
	return count;
}

Test(edges, nothing_is_left_when_memory_ends_anywhere)
{
	struct test_graph graph = test_graph_random(50, 300, 2, 4);
	struct rung_edges_opts opts = { .size = sizeof(opts), .graph.size = sizeof(opts.graph), .memory_bytes = 1 << 20 };
	const char *specs[] = { columns_spec("csr", &graph, 0, "i64", "i64"), edges_spec(2, &graph, 0, 300, true, "i32"), NULL };
	char in_place[1200];

	snprintf(in_place, sizeof(in_place), "csc%s", specs[0] + 3);
	specs[2] = in_place;
	opts.graph.undirected = opts.graph.dedup = 1;
	for (int i = 0; i < 3; i++) {
		const int fds = open_descriptors();
		struct rung_edges *edges;
		int64_t limit = 0;
		int rc;

		do {
			rung__alloc_limit(limit++);
			rc = open_edges(&specs[i], 1, opts, &edges);
			rung__alloc_limit(-1);
			cr_assert(rc == 0 || rc == RUNG_E_NOMEM, "allocation %d: %s", (int)limit, rung_last_error());
			if (rc == 0)
				rung_edges_close(edges);
			cr_assert_eq(open_descriptors(), fds);
		} while (rc < 0);
		cr_assert_gt(limit, 9);
		opts.graph.undirected = opts.graph.dedup = i == 0;
	}
	test_graph_fini(&graph);
}

/* ---- relabelled in files ---- */

static struct rung_relabel_opts relabel_opts(void)
{
	struct rung_relabel_opts opts = RUNG_RELABEL_OPTS_INIT;

	opts.temp_dir = folder;
	opts.memory_bytes = 1 << 20;
	return opts;
}

/* Outputs are files 4 and 5. */
static int relabel(struct rung_edges *edges, const void *vertex_of_rank, const void *rank_of_vertex, const struct rung_relabel_opts *opts)
{
	char indptr[400], indices[400];

	snprintf(indptr, sizeof(indptr), "%s/4", folder);
	snprintf(indices, sizeof(indices), "%s/5", folder);
	return rung_edges_relabel(edges, vertex_of_rank, rank_of_vertex, opts, indptr, indices);
}

/* File `slot` is a .npy whose array begins at byte 4096 and has these bytes. */
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

/* A permutation that is not its own inverse, by scores that have ties. */
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
	struct rung_edges_opts opts = { .size = sizeof(opts), .graph.size = sizeof(opts.graph), .chunk_bytes = chunk_bytes };
	struct rung_relabel_opts with = relabel_opts();
	struct rung_edges *edges;

	make_maps(vertex_count, &vertex_of_rank, &rank_of_vertex);
	cr_assert_eq(rung_graph_relabel(&graph.csc, vertex_of_rank, rank_of_vertex, 1, indptr, indices), 0);
	cr_assert_eq(open_edges(&spec, 1, opts, &edges), 0, "%s", rung_last_error());
	for (with.threads = 1; with.threads <= 3; with.threads += 2) {
		cr_assert_eq(relabel(edges, vertex_of_rank, rank_of_vertex, &with), 0, "%s", rung_last_error());
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

Test(edges, files_are_relabelled_as_graphs_in_memory_are)
{
	assert_relabels_as_in_memory(test_graph_random(20000, 90000, 3, 4), 32768);
	assert_relabels_as_in_memory(hub_graph(), 4096);   /* with a list that is split */
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
		cr_assert(access(path, F_OK) < 0, "%s is left", path);
	}
}

Test(edges, relabelling_that_fails_leaves_nothing)
{
	struct test_graph graph = test_graph_random(20000, 90000, 3, 4);
	const char *spec = columns_spec("csc", &graph, 0, "i64", "i32");
	const struct rlimit limit = { 300000, RLIM_INFINITY };
	struct rung_relabel_opts with = relabel_opts();
	uint32_t *vertex_of_rank, *rank_of_vertex;
	struct rung_edges *edges;
	int64_t allowed = 0;
	int rc, fds;

	make_maps(20000, &vertex_of_rank, &rank_of_vertex);
	cr_assert_eq(open_edges(&spec, 1, DEFAULTS, &edges), 0);
	fds = open_descriptors();
	assert_says(relabel(edges, rank_of_vertex, rank_of_vertex, &with), RUNG_E_FORMAT, "not each other's inverse");
	with.memory_bytes = 1000;
	assert_says(relabel(edges, vertex_of_rank, rank_of_vertex, &with), RUNG_E_INVAL, "at least 1048576");
	with = relabel_opts();
	with.temp_dir = "/nowhere";
	assert_says(relabel(edges, vertex_of_rank, rank_of_vertex, &with), RUNG_E_NOENT, "/nowhere");
	with = relabel_opts();
	with.progress = cancel_when_sorting;
	with.progress_ctx = "sort";
	assert_says(relabel(edges, vertex_of_rank, rank_of_vertex, &with), RUNG_E_CANCELED, "canceled");
	with = relabel_opts();
	raw_file(5, "x", 1, 0, "u8,1");
	assert_says(relabel(edges, vertex_of_rank, rank_of_vertex, &with), RUNG_E_EXIST, "/5: exists");
	remove_output(5);
	assert_nothing_was_made();
	do {
		rung__alloc_limit(allowed++);
		rc = relabel(edges, vertex_of_rank, rank_of_vertex, &with);
		rung__alloc_limit(-1);
		cr_assert(rc == 0 || rc == RUNG_E_NOMEM, "%s", rung_last_error());
		cr_assert_eq(open_descriptors(), fds);
		if (rc < 0)
			assert_nothing_was_made();
	} while (rc < 0);
	cr_assert_gt(allowed, 15);
	remove_output(4);
	remove_output(5);
	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_says(relabel(edges, vertex_of_rank, rank_of_vertex, &with), RUNG_E_NOSPC, "5.partial: reserving 364096 bytes");
	assert_nothing_was_made();
	rung_edges_close(edges);
	free(vertex_of_rank);
	free(rank_of_vertex);
	test_graph_fini(&graph);
}

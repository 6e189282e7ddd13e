/* SPDX-License-Identifier: Apache-2.0 */
/* Edges in files: passes over their chunks yield the graph of rung_graph_load(), and report errors
 * in the files. */
#include <zip.h>

#include "edges_fixture.h"

TestSuite(edges, .init = make_folder, .fini = remove_folder);

Test(edges, passes_over_columns_of_any_type_and_offset_equal_a_load)
{
	const char *dtypes[][2] = {
		{ "i64", "i64" }, { "u64", "u32" }, { "i32", "i32" }, { "u32", "u64" }
	};
	const size_t skips[] = { 0, 4096, 8, 12, 13 };
	struct test_graph graph = test_graph_random(3000, 60000, 3, 8);

	for (size_t d = 0; d < RUNG__ARRAY_LEN(dtypes); d++) {
		for (size_t s = 0; s < RUNG__ARRAY_LEN(skips); s++) {
			const char *spec =
				columns_spec("csc", &graph, skips[s], dtypes[d][0], dtypes[d][1]);
			struct rung_edges_opts opts = { .size = sizeof(opts),
				                        .graph.size = sizeof(opts.graph),
				                        .chunk_bytes = 20480 };

			cr_assert_gt(assert_equals_load(&spec, 1, opts).chunks, 10);
			opts.chunk_bytes = 0;
			cr_assert_eq(assert_equals_load(&spec, 1, opts).chunks, 1);
		}
	}
	test_graph_fini(&graph);
}

Test(edges, only_a_list_longer_than_a_chunk_is_split)
{
	struct test_graph graph = hub_graph();
	const char *spec = columns_spec("csc", &graph, 0, "i64", "i64");
	struct rung_edges_opts opts = { .size = sizeof(opts),
		                        .graph.size = sizeof(opts.graph),
		                        .chunk_bytes = 4096 };
	struct seen seen = assert_equals_load(&spec, 1, opts);

	cr_assert_eq(seen.split, 4); /* 5000 edges, 1024 per chunk */
	/* the number of vertices per chunk is bounded as well */
	cr_assert_gt(seen.chunks, 40000 / 256);
	test_graph_fini(&graph);
}

Test(edges, one_vertex_and_no_edges)
{
	const uint64_t none[] = { 0, 0 }, one[] = { 0, 2 }, loops[] = { 0, 0 };
	char spec[1100];
	const char *specs[] = { spec };

	snprintf(spec, sizeof(spec), "csc:%s,%s", ids_file(0, none, 2, 0, "i64"),
	         ids_file(1, none, 0, 0, "i32"));
	cr_assert_eq(assert_equals_load(specs, 1, DEFAULTS).chunks, 1);
	snprintf(spec, sizeof(spec), "csc:%s,%s", ids_file(0, one, 2, 0, "i64"),
	         ids_file(1, loops, 2, 0, "i32"));
	cr_assert_eq(assert_equals_load(specs, 1, DEFAULTS).chunks, 1);
}

static int count_chunks(void *ctx, const struct rung__edge_chunk *chunk)
{
	(void)chunk;
	++*(uint64_t *)ctx;
	return 0;
}

static void assert_pass_fails(const char *indptr, const char *indices, int status,
                              const char *words)
{
	char spec[1100];
	const char *specs[] = { spec };
	struct rung_edges *edges;
	uint64_t chunks = 0;

	snprintf(spec, sizeof(spec), "csc:%s,%s", indptr, indices);
	cr_assert_eq(open_edges(specs, 1, DEFAULTS, &edges), 0, "%s", rung_last_error());
	assert_error(rung__edges_pass(edges, count_chunks, &chunks), status, words);
	cr_assert_eq(chunks, 0);
	rung_edges_close(edges);
}

Test(edges, a_pass_names_the_fault_in_columns)
{
	const uint64_t good[] = { 1, 0, 3, 0, 2 }, offsets[] = { 0, 1, 4, 5, 5 };
	const char *five = ids_file(1, good, 5, 0, "i32");

	assert_pass_fails(ids_file(0, (uint64_t[]){ 0, 1, 4, 3, 5 }, 5, 0, "i64"), five,
	                  RUNG_E_FORMAT, "indptr[2] is 4 and indptr[3] is 3");
	assert_pass_fails(ids_file(0, (uint64_t[]){ 1, 1, 4, 5, 5 }, 5, 0, "u32"), five,
	                  RUNG_E_FORMAT, "indptr[0] is 1");
	assert_pass_fails(ids_file(0, (uint64_t[]){ 0, 1, 4, 4, 4 }, 5, 0, "i64"), five,
	                  RUNG_E_FORMAT, "(the last) is 4, but");
	assert_pass_fails(ids_file(0, (uint64_t[]){ 0, 1, UINT64_MAX - 3, 5, 5 }, 5, 0, "i32"),
	                  five, RUNG_E_FORMAT, "indptr[2] is -4");
	assert_pass_fails(ids_file(0, (uint64_t[]){ 0, 1, 6, 6, 5 }, 5, 0, "i32"), five,
	                  RUNG_E_FORMAT, "indptr[2] is 6");
	for (int wide = 0; wide < 2; wide++) {
		assert_pass_fails(
			ids_file(0, offsets, 5, 0, "i64"),
			ids_file(2, (uint64_t[]){ 1, 0, 4, 0, 2 }, 5, 0, wide ? "i64" : "i32"),
			RUNG_E_RANGE, "indices[2]: id 4 is out of range 0..3");
		cr_assert(strstr(rung_last_error(), spec_text[2]) == rung_last_error(),
		          "the message must begin with the file");
		assert_pass_fails(ids_file(0, offsets, 5, 0, "i64"),
		                  ids_file(2, (uint64_t[]){ 1, 0, 3, 0, UINT64_MAX - 1 }, 5, 0,
		                           wide ? "i64" : "i32"),
		                  RUNG_E_RANGE, "indices[4]: id -2 is out of range 0..3");
	}
	assert_pass_fails(ids_file(0, offsets, 5, 0, "i64"),
	                  ids_file(2, (uint64_t[]){ 1, 0, UINT64_C(1) << 32, 0, 2 }, 5, 0, "u64"),
	                  RUNG_E_RANGE, "indices[2]: id 4294967296 is out of range 0..3");
}

Test(edges, the_first_wrong_id_is_reported_whichever_thread_finds_one)
{
	struct test_graph graph = test_graph_random(3000, 60000, 3, 4);
	struct rung_edges_opts opts = { .size = sizeof(opts),
		                        .graph.size = sizeof(opts.graph),
		                        .chunk_bytes = 8192 };
	const char *spec;

	for (uint64_t e = 20011; e < 60000; e += 100)
		((uint32_t *)graph.indices)[e] = 3000;
	spec = columns_spec("csc", &graph, 0, "i64", "i32");
	for (int i = 0; i < 20; i++) {
		struct rung_edges *edges;
		uint64_t chunks = 0;

		cr_assert_eq(open_edges(&spec, 1, opts, &edges), 0);
		assert_error(rung__edges_pass(edges, count_chunks, &chunks), RUNG_E_RANGE,
		             "indices[20011]: id 3000");
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

Test(edges, a_file_truncated_while_it_is_read_is_an_error)
{
	const int lengths[] = { 0, 100001, 131072 };
	struct test_graph graph = test_graph_random(3000, 60000, 3, 4);
	struct rung_edges_opts opts = { .size = sizeof(opts),
		                        .graph.size = sizeof(opts.graph),
		                        .chunk_bytes = 8192 };

	for (int i = 0; i < 6; i++) {
		const char *spec = columns_spec("csc", &graph, 16, "i64", i % 2 ? "i32" : "i64");
		struct rung_edges *edges;

		cr_assert_eq(open_edges(&spec, 1, opts, &edges), 0);
		assert_error(rung__edges_pass(edges, cut_file, (void *)&lengths[i / 2]), RUNG_E_IO,
		             "the file was truncated");
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

Test(edges, a_callback_can_end_a_pass_and_the_next_starts_over)
{
	struct test_graph graph = test_graph_random(3000, 60000, 3, 4);
	const char *spec = columns_spec("csc", &graph, 0, "i64", "i32");
	struct rung_edges_opts opts = { .size = sizeof(opts),
		                        .graph.size = sizeof(opts.graph),
		                        .chunk_bytes = 4096 };
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

Test(edges, too_little_memory_is_reported_with_the_least_that_works)
{
	struct test_graph graph = test_graph_random(30000, 60000, 3, 4);
	const char *spec = columns_spec("csc", &graph, 0, "i64", "i32"), *number;
	struct rung_edges_opts opts = { .size = sizeof(opts),
		                        .graph.size = sizeof(opts.graph),
		                        .memory_bytes = 1000 };
	struct rung_edges *edges;

	assert_error(open_edges(&spec, 1, opts, &edges), RUNG_E_INVAL, "memory_bytes is 1000");
	number = strstr(rung_last_error(), "at least ");
	cr_assert(number != NULL);
	opts.memory_bytes = strtoull(number + strlen("at least "), NULL, 10);
	cr_assert_lt(opts.memory_bytes, 200000);
	assert_equals_load(&spec, 1, opts);
	opts.memory_bytes--;
	assert_error(open_edges(&spec, 1, opts, &edges), RUNG_E_INVAL, "at least");
	opts.chunk_bytes = 4095;
	assert_error(open_edges(&spec, 1, opts, &edges), RUNG_E_INVAL, "chunk_bytes is 4095");
	test_graph_fini(&graph);
}

static void rename_as_npz(int slot)
{
	char from[400], to[420];

	snprintf(from, sizeof(from), "%s/%d", folder, slot);
	snprintf(to, sizeof(to), "%s.npz", from);
	cr_assert_eq(rename(from, to), 0);
}

static void add_member(zip_t *zip, const char *name, int slot, const char *dtype, uint64_t count,
                       size_t bytes, zip_int32_t method)
{
	static unsigned char npy[2][250000];
	unsigned char *at = npy[slot];
	char path[400];
	zip_int64_t idx;
	FILE *file;
	int len;

	memset(at, ' ', 128);
	memcpy(at, "\x93NUMPY\x01\x00\x76\x00", 10);
	len = snprintf((char *)at + 10, 110,
	               "{'descr': '%s', 'fortran_order': False, 'shape': (%d,), }", dtype,
	               (int)count);
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
	struct rung_edges_opts opts = { .size = sizeof(opts),
		                        .graph.size = sizeof(opts.graph),
		                        .memory_bytes = 200000 };
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
		add_member(zip, "i.npy", 1, "<i4", 60000, 240000,
		           deflated ? ZIP_CM_DEFLATE : ZIP_CM_STORE);
		cr_assert_eq(zip_close(zip), 0);
		snprintf(spec, sizeof(spec), "csc:%s/%d.npz:p,%s/%d.npz:i", folder, 6 + deflated,
		         folder, 6 + deflated);
		rename_as_npz(6 + deflated);
		if (deflated)
			assert_error(open_edges(specs, 1, opts, &edges), RUNG_E_INVAL,
			             "it is then read in place");
		else
			assert_equals_load(specs, 1, opts);
	}
	opts.memory_bytes = 450000;
	assert_equals_load(specs, 1, opts);
	test_graph_fini(&graph);
}

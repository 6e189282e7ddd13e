/* SPDX-License-Identifier: Apache-2.0 */
/* Lists between two types of vertices: what is refused, by a load and by edges in files, with the
 * end of the edge that is wrong. */
#include "relation_fixture.h"

TestSuite(edges_typed_errors, .init = make_folder, .fini = remove_folder);

static int count_chunks(void *ctx, const struct rung__edge_chunk *chunk)
{
	(void)chunk;
	++*(uint64_t *)ctx;
	return 0;
}

static void assert_refused(const char *spec, uint64_t source_count, uint64_t target_count,
                           int reversed, int status, const char *words)
{
	struct rung_edges_opts opts = DEFAULTS;
	struct rung_edges *edges = NULL;
	struct rung_graph *graph;
	uint64_t chunks = 0;
	int rc;

	opts.graph.specs = &spec;
	opts.graph.spec_count = 1;
	opts.graph.source_count = source_count;
	opts.graph.vertex_count = target_count;
	opts.graph.reversed = reversed;
	assert_error(rung_graph_load(&opts.graph, &graph), status, words);
	/* entries of lists that are read in place are checked by passes */
	rc = open_edges(&spec, 1, opts, &edges);
	if (rc == 0)
		rc = rung__edges_pass(edges, count_chunks, &chunks);
	assert_error(rc, status, words);
	cr_assert_eq(chunks, 0);
	rung_edges_close(edges);
}

Test(edges_typed_errors, options_that_two_types_do_not_have_are_refused)
{
	const char *spec = raw_file(0, (uint64_t[]){ 1, 0 }, 16, 0, "i64,2x1");
	struct rung_edges_opts opts = DEFAULTS;
	struct rung_edges *edges;

	assert_refused(spec, 5, 0, 0, RUNG_E_INVAL, "need the number of targets; give both counts");
	opts.graph.source_count = 5;
	opts.graph.vertex_count = 3;
	opts.graph.undirected = 1;
	assert_error(open_edges(&spec, 1, opts, &edges), RUNG_E_INVAL,
	             "cannot be undirected; give the reverse edges as another relation");
}

/* Each end has a range: ids of the larger type are refused at the end of the smaller. */
Test(edges_typed_errors, an_edge_out_of_range_is_named_with_the_end_that_is_wrong)
{
	const uint64_t edges[] = { 0, 8, 2, 1, 3, 8 }; /* 0->1 8->3 2->8 */
	const char *spec = raw_file(0, edges, sizeof(edges), 0, "i64,2x3");
	char text[600];

	assert_refused(spec, 9, 4, 0, RUNG_E_RANGE,
	               "edge 2: destination id 8 is out of range 0..3");
	assert_refused(spec, 4, 9, 0, RUNG_E_RANGE, "edge 1: source id 8 is out of range 0..3");
	assert_refused(spec, 8, 9, 0, RUNG_E_RANGE, "edge 1: source id 8 is out of range 0..7");
	assert_refused(spec, 4, 9, 1, RUNG_E_RANGE,
	               "edge 2, reversed: source id 8 is out of range 0..3; correct the edge or "
	               "give the right number of sources");
	assert_refused(spec, 9, 4, 1, RUNG_E_RANGE,
	               "edge 1, reversed: destination id 8 is out of range 0..3; correct the edge "
	               "or give the right number of targets");
	snprintf(text, sizeof(text), "%s+20:8,0:9", spec);
	assert_refused(text, 40, 9, 0, RUNG_E_RANGE, "edge 1: source id 8 is out of range 0..7");
	snprintf(text, sizeof(text), "%s+20:9,5:9", spec);
	assert_refused(text, 40, 13, 0, RUNG_E_RANGE,
	               "edge 2: destination id 8 is out of range 0..7");
	spec = raw_file(0, (int64_t[]){ 0, 0, 0, -1 }, 32, 0, "i64,2x2");
	assert_refused(spec, 9, 4, 0, RUNG_E_RANGE, "edge 1: destination id -1 is out of range");
}

/* The file has 4 lists, with entries up to 8. */
Test(edges_typed_errors, columns_that_do_not_match_the_counts_are_refused)
{
	const uint64_t offsets[] = { 0, 1, 2, 2, 3 }, ids[] = { 0, 8, 2 };
	char csc[1100], csr[1100];

	snprintf(csc, sizeof(csc), "csc:%s,%s", ids_file(0, offsets, 5, 0, "i64"),
	         ids_file(1, ids, 3, 0, "i32"));
	snprintf(csr, sizeof(csr), "csr%s", csc + 3);
	for (int reversed = 0; reversed < 2; reversed++) {
		const char *by_column = reversed ? csr : csc, *by_row = reversed ? csc : csr;

		assert_refused(by_column, 8, 4, reversed, RUNG_E_RANGE,
		               "indices[1]: id 8 is out of range 0..7; correct the index, or the "
		               "number of vertices of its type");
		assert_refused(by_row, 4, 8, reversed, RUNG_E_RANGE,
		               "indices[1]: id 8 is out of range 0..7");
		assert_refused(by_column, 9, 5, reversed, RUNG_E_FORMAT,
		               "4 vertices, but the given count is 5");
		assert_refused(by_row, 5, 9, reversed, RUNG_E_FORMAT,
		               "4 vertices, but the given count is 5");
		/* the counts of the two types are not interchangeable */
		assert_refused(by_column, 4, 9, reversed, RUNG_E_FORMAT,
		               "4 vertices, but the given count is 9");
	}
}

static int rewrite_edges(void *ctx, const char *step, unsigned long long done,
                         unsigned long long total)
{
	(void)step, (void)done, (void)total;
	raw_file(0, ctx, 6 * sizeof(uint64_t), 0, "i64,2x3");
	return 0;
}

Test(edges_typed_errors, ends_are_checked_again_in_each_pass_of_a_sort)
{
	const uint64_t before[] = { 0, 1, 2, 8, 8, 8 };
	uint64_t source[] = { 0, 5, 2, 8, 8, 8 }, target[] = { 0, 1, 2, 8, 9, 8 };
	struct rung_edges_opts opts = DEFAULTS;
	struct rung_edges *edges;
	const char *spec;

	opts.graph.source_count = 3;
	opts.graph.vertex_count = 9;
	opts.graph.progress = rewrite_edges;
	for (int i = 0; i < 2; i++) {
		spec = raw_file(0, before, sizeof(before), 0, "i64,2x3");
		opts.graph.progress_ctx = i ? target : source;
		assert_error(open_edges(&spec, 1, opts, &edges), RUNG_E_RANGE,
		             i ? "edge 1: destination id 9 is out of range 0..8"
		               : "edge 1: source id 5 is out of range 0..2");
	}
}

Test(edges_typed_errors, too_little_memory_is_reported_with_the_least_that_works)
{
	struct test_graph graph = relation_random(90000, 3000, 40000);
	const char *spec = columns_spec("csc", &graph, 0, "i64", "i32");
	struct rung_edges_opts opts = opts_of(&graph.csc, false);
	struct rung_edges *edges;

	opts.memory_bytes = 1000;
	assert_error(open_edges(&spec, 1, opts, &edges), RUNG_E_INVAL, "at least ");
	opts.memory_bytes =
		strtoull(strstr(rung_last_error(), "at least ") + strlen("at least "), NULL, 10);
	cr_assert_lt(opts.memory_bytes, 200000);
	assert_passes_equal(&graph.csc, &spec, 1, opts);
	opts.memory_bytes--;
	assert_error(open_edges(&spec, 1, opts, &edges), RUNG_E_INVAL, "at least ");
	test_graph_fini(&graph);
}

Test(edges_typed_errors, nothing_leaks_whichever_allocation_fails)
{
	struct test_graph graph = relation_random(60, 40, 300), turned = turned_edges(&graph);
	struct rung_edges_opts opts = opts_of(&graph.csc, false);
	char csr[1200], csc[1200];
	const char *const specs[] = { csr, edges_spec(2, &graph, 0, 300, true, "i32"), csc };

	snprintf(csr, sizeof(csr), "%s", columns_spec("csr", &turned, 0, "i64", "i64"));
	snprintf(csc, sizeof(csc), "csc%s", csr + 3);
	opts.memory_bytes = 1 << 20;
	for (int i = 0; i < 3; i++) {
		opts.graph.dedup = i == 1;
		opts.graph.reversed = i == 2;
		assert_opens_after_failures(specs[i], opts);
	}
	test_graph_fini(&turned);
	test_graph_fini(&graph);
}

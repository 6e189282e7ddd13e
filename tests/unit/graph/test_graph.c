/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: reading edge lists and columns, rejected inputs and their messages, transposing, joining,
 * removing repeats. */
#include "graph/graph.h"
#include "graphs.h"
#include "raw_files.h"
#include "expect_error.h"
#include "interrupted.h"

TestSuite(graph, .init = make_folder, .fini = remove_folder);

static int load(const char *spec, struct rung_graph_opts opts, struct rung_graph **graph_out)
{
	const char *const specs[] = { spec };

	opts.specs = specs;
	opts.spec_count = 1;
	return rung_graph_load(&opts, graph_out);
}

static void assert_graph(const struct rung_graph *graph, uint64_t vertex_count,
                         const uint64_t *indptr, const uint32_t *indices)
{
	const struct rung_csc *csc = rung_graph_csc(graph);

	cr_assert_eq(csc->vertex_count, vertex_count);
	cr_assert_eq(csc->index_bytes, 4);
	cr_assert_eq(csc->edge_count, indptr[vertex_count]);
	for (uint64_t v = 0; v <= vertex_count; v++)
		cr_assert_eq(csc->indptr[v], indptr[v], "indptr[%d]: %d, not %d", (int)v,
		             (int)csc->indptr[v], (int)indptr[v]);
	for (uint64_t e = 0; e < indptr[vertex_count]; e++)
		cr_assert_eq(((const uint32_t *)csc->indices)[e], indices[e], "indices[%d]",
		             (int)e);
}

static void assert_refused(const char *spec, struct rung_graph_opts opts, int status,
                           const char *words)
{
	struct rung_graph *graph;
	int rc = load(spec, opts, &graph);

	assert_error(rc, status, words);
}

#define DEFAULTS (struct rung_graph_opts) RUNG_GRAPH_OPTS_INIT
/* arguments of raw_file(): the bytes, their number, and no bytes before them */
#define I64(...) (const int64_t[]){ __VA_ARGS__ }, sizeof((const int64_t[]){ __VA_ARGS__ }), 0
#define I32(...) (const int32_t[]){ __VA_ARGS__ }, sizeof((const int32_t[]){ __VA_ARGS__ }), 0
#define U32(...) (const uint32_t[]){ __VA_ARGS__ }, sizeof((const uint32_t[]){ __VA_ARGS__ }), 0
#define U64(...) (const uint64_t[]){ __VA_ARGS__ }, sizeof((const uint64_t[]){ __VA_ARGS__ }), 0

/* 0->1 3->1 0->1 2->2 1->0 */
static const uint64_t five_indptr[] = { 0, 1, 4, 5, 5 };
static const uint32_t five_indices[] = { 1, 0, 3, 0, 2 };

Test(graph, both_shapes_and_every_integer_type_are_read_in_input_order)
{
	const char *specs[] = {
		raw_file(0, I64(0, 3, 0, 2, 1, 1, 1, 1, 2, 0), "i64,2x5"),
		raw_file(1, I32(0, 3, 0, 2, 1, 1, 1, 1, 2, 0), "i32,2x5"),
		raw_file(2, U32(0, 1, 3, 1, 0, 1, 2, 2, 1, 0), "u32,5x2"),
		raw_file(3, U64(0, 1, 3, 1, 0, 1, 2, 2, 1, 0), "u64,5x2"),
	};

	for (int i = 0; i < 4; i++) {
		struct rung_graph *graph;

		cr_assert_eq(load(specs[i], DEFAULTS, &graph), 0, "%s", rung_last_error());
		assert_graph(graph, 4, five_indptr, five_indices);
		rung_graph_destroy(graph);
	}
}

Test(graph, a_square_edge_index_is_read_as_two_rows)
{
	struct rung_graph *graph;

	cr_assert_eq(load(raw_file(0, I64(0, 1, 2, 2), "i64,2x2"), DEFAULTS, &graph), 0, "%s",
	             rung_last_error());
	assert_graph(graph, 3, (uint64_t[]){ 0, 0, 0, 2 }, (uint32_t[]){ 0, 1 });
	rung_graph_destroy(graph);
}

Test(graph, lists_are_joined_in_order_with_a_given_vertex_count)
{
	const char *const specs[] = { raw_file(0, I64(2, 1, 0, 0), "i64,2x2"),
		                      raw_file(1, I32(1, 0, 3, 0), "i32,2x2"),
		                      raw_file(2, "", 0, 0, "i32,2x0") };
	struct rung_graph_opts opts = {
		.size = sizeof(opts), .specs = specs, .spec_count = 3, .vertex_count = 6
	};
	struct rung_graph *graph;

	cr_assert_eq(rung_graph_load(&opts, &graph), 0, "%s", rung_last_error());
	assert_graph(graph, 6, (uint64_t[]){ 0, 3, 3, 3, 4, 4, 4 }, (uint32_t[]){ 2, 1, 0, 1 });
	rung_graph_destroy(graph);
}

Test(graph, undirected_adds_the_reverse_after_each_edge_except_self_loops)
{
	struct rung_graph_opts opts = { .size = sizeof(opts), .undirected = 1 };
	struct rung_graph *graph;

	cr_assert_eq(load(raw_file(0, I64(0, 3, 0, 2, 1, 1, 1, 1, 2, 0), "i64,2x5"), opts, &graph),
	             0, "%s", rung_last_error());
	assert_graph(graph, 4, (uint64_t[]){ 0, 3, 7, 8, 9 },
	             (uint32_t[]){ 1, 1, 1, 0, 3, 0, 0, 2, 1 });
	rung_graph_destroy(graph);
}

Test(graph, dedup_keeps_one_of_equal_edges_and_sorts_them)
{
	struct rung_graph_opts opts = { .size = sizeof(opts), .dedup = 1 };
	struct rung_graph *graph;

	cr_assert_eq(load(raw_file(0, I64(3, 3, 0, 2, 1, 1, 0, 1, 1, 1, 2, 0, 0, 1), "i64,2x7"),
	                  opts, &graph),
	             0, "%s", rung_last_error());
	assert_graph(graph, 4, (uint64_t[]){ 0, 1, 3, 4, 4 }, (uint32_t[]){ 1, 0, 3, 2 });
	rung_graph_destroy(graph);
}

Test(graph, undirected_and_dedup_of_columns_give_each_neighbour_once)
{
	struct rung_graph_opts opts = { .size = sizeof(opts), .undirected = 1, .dedup = 1 };
	struct rung_graph *graph;
	char spec[1100];

	snprintf(spec, sizeof(spec), "csc:%s,%s", raw_file(0, I64(0, 1, 4, 5, 5), "i64,5"),
	         raw_file(1, I32(1, 0, 3, 0, 2), "i32,5"));
	cr_assert_eq(load(spec, opts, &graph), 0, "%s", rung_last_error());
	assert_graph(graph, 4, (uint64_t[]){ 0, 1, 3, 4, 5 }, (uint32_t[]){ 1, 0, 3, 2, 1 });
	rung_graph_destroy(graph);
}

Test(graph, rows_become_columns_with_ascending_sources)
{
	/* 0 -> 1; 1 -> 0 3 0; 2 -> 2 */
	struct rung_graph_opts opts = DEFAULTS;
	struct rung_graph *graph;
	char spec[1100];

	snprintf(spec, sizeof(spec), "csr:%s,%s", raw_file(0, I64(0, 1, 4, 5, 5), "i64,5"),
	         raw_file(1, I32(1, 3, 0, 0, 2), "i32,5"));
	cr_assert_eq(load(spec, opts, &graph), 0, "%s", rung_last_error());
	assert_graph(graph, 4, (uint64_t[]){ 0, 2, 3, 4, 5 }, (uint32_t[]){ 1, 1, 0, 2, 1 });
	rung_graph_destroy(graph);
	opts.undirected = 1;
	cr_assert_eq(load(spec, opts, &graph), 0, "%s", rung_last_error());
	assert_graph(graph, 4, (uint64_t[]){ 0, 3, 7, 8, 9 },
	             (uint32_t[]){ 1, 1, 1, 0, 3, 0, 0, 2, 1 });
	rung_graph_destroy(graph);
	opts.dedup = 1;
	cr_assert_eq(load(spec, opts, &graph), 0, "%s", rung_last_error());
	assert_graph(graph, 4, (uint64_t[]){ 0, 1, 3, 4, 5 }, (uint32_t[]){ 1, 0, 3, 2, 1 });
	rung_graph_destroy(graph);
	assert_refused("csr:lonely.npy", DEFAULTS, RUNG_E_INVAL, "csr:INDPTR,INDICES");
}

Test(graph, the_comma_between_two_readable_sources_splits_columns)
{
	struct rung_graph *graph;
	char spec[1100];

	snprintf(spec, sizeof(spec), "csc:%s,%s",
	         raw_file(0, (const int64_t[]){ 0, 1, 4, 5, 5 }, 40, 8, "i64,5"),
	         raw_file(1, (const uint64_t[]){ 1, 0, 3, 0, 2 }, 40, 16, "u64,5"));
	cr_assert_eq(load(spec, DEFAULTS, &graph), 0, "%s", rung_last_error());
	assert_graph(graph, 4, five_indptr, five_indices);
	rung_graph_destroy(graph);
}

Test(graph, an_id_out_of_range_is_named_with_edge_side_value_and_range)
{
	struct rung_graph_opts four = { .size = sizeof(four), .vertex_count = 4 };

	assert_refused(raw_file(0, I64(0, 1, 4, 1, 1, 1), "i64,2x3"), four, RUNG_E_RANGE,
	               "edge 2: source id 4 is out of range 0..3");
	assert_refused(raw_file(0, I32(0, 1, 2, 1, -3, 1), "i32,3x2"), four, RUNG_E_RANGE,
	               "edge 2: source id -3 is out of range 0..3");
	assert_refused(raw_file(0, I64(0, 1, 2, 1, 3, 1, 2, -1), "i64,2x4"), DEFAULTS, RUNG_E_RANGE,
	               "edge 3: destination id -1 is out of range");
	assert_refused(raw_file(0, U64(0, 1, 2, UINT64_MAX), "u64,2x2"), DEFAULTS, RUNG_E_RANGE,
	               "edge 1: destination id 18446744073709551615");
	cr_assert(strstr(rung_last_error(), folder) != NULL, "the message must name the file");
}

Test(graph, a_huge_id_that_sets_the_vertex_count_is_named)
{
	assert_refused(raw_file(0, U64(0, 1, 2, UINT64_MAX - 1), "u64,2x2"), DEFAULTS, RUNG_E_NOMEM,
	               "edge 1");
	assert_refused(raw_file(0, U64(0, 1, 2, UINT64_C(1) << 60), "u64,2x2"), DEFAULTS,
	               RUNG_E_NOMEM, "with vertex 1152921504606846976");
}

Test(graph, invalid_edge_indices_are_rejected)
{
	assert_refused(raw_file(0, I64(0, 1, 2, 3, 4, 5, 6, 7, 8), "i64,3x3"), DEFAULTS,
	               RUNG_E_FORMAT, "[3,3]");
	assert_refused(raw_file(0, I64(0, 1, 2, 3), "i64,4"), DEFAULTS, RUNG_E_FORMAT,
	               "1 dimensions");
	assert_refused(raw_file(0, I64(0, 1, 2, 3), "f64,2x2"), DEFAULTS, RUNG_E_FORMAT,
	               "dtype f64");
	assert_refused(raw_file(0, "", 0, 0, "i64,2x0"), DEFAULTS, RUNG_E_FORMAT, "vertex count");
	assert_refused("/nowhere/edges.npy", DEFAULTS, RUNG_E_NOENT, "/nowhere/edges.npy");
}

static void assert_columns_refused(const char *indptr, const char *indices, int status,
                                   const char *words)
{
	char spec[1100];

	snprintf(spec, sizeof(spec), "csc:%s,%s", indptr, indices);
	assert_refused(spec, DEFAULTS, status, words);
}

Test(graph, the_fault_in_columns_is_named)
{
	const char *five = raw_file(1, I32(1, 0, 3, 0, 2), "i32,5");
	struct rung_graph_opts seven = { .size = sizeof(seven), .vertex_count = 7 };
	char spec[1100];

	assert_columns_refused(raw_file(0, I64(0, 1, 4, 3, 5), "i64,5"), five, RUNG_E_FORMAT,
	                       "indptr[2] is 4 and indptr[3] is 3");
	assert_columns_refused(raw_file(0, I64(1, 1, 4, 5, 5), "i64,5"), five, RUNG_E_FORMAT,
	                       "indptr[0] is 1");
	assert_columns_refused(raw_file(0, I64(0, 1, 4, 4, 4), "i64,5"), five, RUNG_E_FORMAT,
	                       "is 4, but");
	assert_columns_refused(raw_file(0, I32(0, 1, -4, 5, 5), "i32,5"), five, RUNG_E_FORMAT,
	                       "indptr[2] is -4");
	assert_columns_refused(raw_file(0, I32(0), "i32,1"), five, RUNG_E_FORMAT, "1 entries");
	assert_columns_refused(raw_file(0, I64(0, 1, 4, 5, 5), "i64,5"),
	                       raw_file(2, I32(1, 0, 4, 0, 2), "i32,5"), RUNG_E_RANGE,
	                       "indices[2]: id 4 is out of range 0..3");
	assert_columns_refused(raw_file(0, I64(0, 1, 4, 5, 5), "i64,5"),
	                       raw_file(2, I32(1, 0, 3, 0, -2), "i32,5"), RUNG_E_RANGE,
	                       "indices[4]: id -2 is out of range 0..3");
	assert_columns_refused(raw_file(0, I64(0, 1, 4, 5, 5), "i64,5"), "/nowhere/indices.npy",
	                       RUNG_E_NOENT, "/nowhere/indices.npy");
	assert_refused("csc:lonely.npy", DEFAULTS, RUNG_E_INVAL, "comma");
	snprintf(spec, sizeof(spec), "csc:%s,%s", raw_file(0, I64(0, 1, 4, 5, 5), "i64,5"), five);
	assert_refused(spec, seven, RUNG_E_FORMAT, "7");
}

Test(graph, columns_cannot_be_joined_and_an_input_is_required)
{
	const char *const specs[] = { raw_file(0, I64(0, 1, 2, 2), "i64,2x2"), "csc:a.npy,b.npy" };
	struct rung_graph_opts opts = { .size = sizeof(opts), .specs = specs, .spec_count = 2 };
	struct rung_graph *graph;

	cr_assert_eq(rung_graph_load(&opts, &graph), RUNG_E_INVAL);
	opts.spec_count = 0;
	cr_assert_eq(rung_graph_load(&opts, &graph), RUNG_E_INVAL);
}

Test(graph, without_edges_the_vertex_count_must_be_given)
{
	struct rung_graph_opts opts = { .size = sizeof(opts), .vertex_count = 3 };
	struct rung_graph *graph;

	cr_assert_eq(rung_graph_load(&opts, &graph), 0, "%s", rung_last_error());
	cr_assert_eq(rung_graph_csc(graph)->vertex_count, 3);
	cr_assert_eq(rung_graph_csc(graph)->edge_count, 0);
	cr_assert_eq(rung_graph_csc(graph)->indptr[3], 0);
	rung_graph_destroy(graph);
	opts.undirected = 1;
	cr_assert_eq(rung_graph_load(&opts, &graph), RUNG_E_INVAL);
	cr_assert_not_null(strstr(rung_last_error(), "undirected needs edges"));
}

/* More edges than two chunks, so that several chunks are combined. The naive computation is in
 * test_graph_of_edges(). */
Test(graph, a_graph_of_many_chunks_equals_the_naive_one)
{
	const uint64_t vertex_count = 30000, edge_count = 2200007;
	struct test_graph naive = test_graph_random(vertex_count, edge_count, 5, 4);
	uint64_t *both = malloc(2 * edge_count * sizeof(*both)),
		 *rows = malloc(2 * edge_count * sizeof(*rows));
	char shape[40];

	memcpy(both, naive.sources, edge_count * sizeof(*both));
	memcpy(both + edge_count, naive.destinations, edge_count * sizeof(*both));
	for (uint64_t e = 0; e < edge_count; e++) {
		rows[2 * e] = naive.sources[e];
		rows[2 * e + 1] = naive.destinations[e];
	}
	for (int by_row = 0; by_row < 2; by_row++) {
		struct rung_graph_opts opts = { .size = sizeof(opts),
			                        .vertex_count = vertex_count };
		struct rung_graph *graph;

		snprintf(shape, sizeof(shape), by_row ? "i64,%dx2" : "i64,2x%d", (int)edge_count);
		cr_assert_eq(load(raw_file(0, by_row ? rows : both, 2 * edge_count * sizeof(*both),
		                           0, shape),
		                  opts, &graph),
		             0, "%s", rung_last_error());
		cr_assert_eq(rung_graph_csc(graph)->edge_count, edge_count);
		cr_assert_eq(memcmp(rung_graph_csc(graph)->indptr, naive.indptr,
		                    (vertex_count + 1) * sizeof(uint64_t)),
		             0);
		cr_assert_eq(memcmp(rung_graph_csc(graph)->indices, naive.indices,
		                    edge_count * sizeof(uint32_t)),
		             0);
		rung_graph_destroy(graph);
	}
	free(both);
	free(rows);
	test_graph_fini(&naive);
}

Test(graph, transposing_lists_destinations_in_order_for_any_threads_and_width)
{
	for (unsigned index_bytes = 4; index_bytes <= 8; index_bytes += 4) {
		struct test_graph graph = test_graph_random(5000, 4300000, 9, index_bytes);
		uint64_t *sorted_sources = malloc(graph.csc.edge_count * sizeof(uint64_t));
		uint64_t *columns = malloc(graph.csc.edge_count * sizeof(uint64_t));
		struct test_graph turned;

		for (uint64_t v = 0; v < graph.csc.vertex_count; v++) {
			for (uint64_t e = graph.indptr[v]; e < graph.indptr[v + 1]; e++) {
				sorted_sources[e] = v;
				columns[e] = test_id(graph.indices, index_bytes, e);
			}
		}
		turned = test_graph_of_edges(graph.csc.vertex_count, graph.csc.edge_count,
		                             sorted_sources, columns, index_bytes);
		for (int threads = 1; threads <= 7; threads += 2) {
			uint64_t *indptr;
			void *indices;

			cr_assert_eq(rung__csc_turn(&graph.csc, threads, &indptr, &indices), 0);
			cr_assert_eq(memcmp(indptr, turned.indptr,
			                    (graph.csc.vertex_count + 1) * sizeof(uint64_t)),
			             0);
			cr_assert_eq(
				memcmp(indices, turned.indices, graph.csc.edge_count * index_bytes),
				0);
			rung_free(indptr);
			rung_free(indices);
		}
		test_graph_fini(&turned);
		test_graph_fini(&graph);
	}
}

Test(graph, check_reports_the_first_fault)
{
	uint64_t indptr[] = { 0, 2, 3 }, indices[] = { 1, 0, 1 };
	struct rung_csc csc = { 2, 3, indptr, indices, 8, 0 };

	cr_assert_eq(rung_csc_check(&csc), 0);
	indices[1] = indices[2] = 2;
	cr_assert_eq(rung_csc_check(&csc), RUNG_E_RANGE);
	cr_assert(strstr(rung_last_error(), "indices[1] is 2") != NULL);
	indptr[1] = 4;
	cr_assert_eq(rung_csc_check(&csc), RUNG_E_FORMAT);
	cr_assert(strstr(rung_last_error(), "indptr[1] is 4 and indptr[2] is 3") != NULL);
	indptr[1] = 2;
	csc.edge_count = 2;
	cr_assert_eq(rung_csc_check(&csc), RUNG_E_FORMAT);
	indptr[0] = 1;
	cr_assert_eq(rung_csc_check(&csc), RUNG_E_FORMAT);
	csc.index_bytes = 2;
	cr_assert_eq(rung_csc_check(&csc), RUNG_E_INVAL);
}

Test(graph, ids_are_four_bytes_wide_up_to_two_to_the_32_vertices)
{
	cr_assert_eq(rung_index_bytes(1), 4);
	cr_assert_eq(rung_index_bytes(UINT64_C(1) << 32), 4);
	cr_assert_eq(rung_index_bytes((UINT64_C(1) << 32) + 1), 8);
	cr_assert_eq(rung_index_bytes(UINT64_MAX), 8);
}

static int cancel_at_second(void *ctx, const char *step, unsigned long long done,
                            unsigned long long total)
{
	cr_assert_str_eq(step, "edges");
	cr_assert_leq(done, total);
	return ++*(int *)ctx == 2;
}

Test(graph, progress_can_cancel)
{
	int calls = 0;
	struct rung_graph_opts opts = { .size = sizeof(opts),
		                        .progress = cancel_at_second,
		                        .progress_ctx = &calls };
	struct rung_graph *graph;

	cr_assert_eq(load(raw_file(0, I64(0, 1, 2, 2), "i64,2x2"), opts, &graph), RUNG_E_CANCELED);
	cr_assert_eq(calls, 2);
}

static int rewrite_file(void *ctx, const char *step, unsigned long long done,
                        unsigned long long total)
{
	(void)ctx, (void)step, (void)done, (void)total;
	/* more edges than were counted for the last column: they would be written after its end */
	raw_file(0, I64(0, 0, 0, 2, 2, 2), "i64,2x3");
	return 0;
}

Test(graph, a_file_that_changes_between_the_passes_is_an_error)
{
	struct rung_graph_opts opts = { .size = sizeof(opts),
		                        .vertex_count = 3,
		                        .progress = rewrite_file };

	assert_refused(raw_file(0, I64(0, 0, 0, 1, 2, 1), "i64,2x3"), opts, RUNG_E_IO,
	               "changed while it was read");
}

static int load_with_allocations(const char *spec, struct rung_graph_opts opts, int64_t limit)
{
	struct rung_graph *graph;
	int rc;

	rung__alloc_limit(limit);
	rc = load(spec, opts, &graph);
	rung__alloc_limit(-1);
	if (rc == 0)
		rung_graph_destroy(graph);
	return rc;
}

Test(graph, every_allocation_may_fail)
{
	struct rung_graph_opts opts = { .size = sizeof(opts), .undirected = 1, .dedup = 1 };
	char lists[1100];

	snprintf(lists, sizeof(lists), "csc:%s,%s", raw_file(0, I64(0, 1, 4, 5, 5), "i64,5"),
	         raw_file(1, I32(1, 0, 3, 0, 2), "i32,5"));
	for (int form = 0; form < 3; form++) {
		const char *spec =
			form ? lists : raw_file(2, I64(0, 3, 0, 2, 1, 1, 1, 1, 2, 0), "i64,2x5");
		int64_t limit = 0;
		int rc;

		while ((rc = load_with_allocations(spec, opts, limit)) < 0) {
			cr_assert_eq(rc, RUNG_E_NOMEM, "allocation %d: %s", (int)limit,
			             rung_last_error());
			cr_assert_lt(++limit, 200);
		}
		cr_assert_gt(limit, 8);
		lists[2] = form == 1 ? 'r' : 'c';
	}
}

/* Entries of 0 in pages that need no memory, and a wrong one after 64 MiB. */
Test(graph, the_check_of_a_graph_can_be_canceled_every_64_mib)
{
	const uint64_t edges = 40u << 20;
	uint32_t *indices = calloc(edges, sizeof(*indices));
	const uint64_t indptr[] = { 0, edges };
	const struct rung_csc csc = { 1, edges, indptr, indices, 4, 0 };

	indices[20u << 20] = 1;
	interrupt_begin(0);
	assert_error(rung_csc_check(&csc), RUNG_E_RANGE, "indices[20971520]");
	cr_assert_eq(interrupt_calls, 1);
	interrupt_begin(1);
	assert_error(rung_csc_check(&csc), RUNG_E_CANCELED, "graph: canceled");
	rung_interrupt_set(NULL, NULL);
	free(indices);
}

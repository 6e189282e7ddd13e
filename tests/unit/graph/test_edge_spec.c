/* SPDX-License-Identifier: Apache-2.0 */
/* Edge lists between ranges of the vertices: "SRC+FIRST[:COUNT],FIRST[:COUNT]". */
#include "graph/edge_lists.h"
#include "edges_fixture.h"

TestSuite(edge_spec, .init = make_folder, .fini = remove_folder);

static void assert_parts(const char *spec, size_t length, uint64_t source, uint64_t sources,
                         uint64_t destination, uint64_t destinations)
{
	struct rung__edge_spec parts;

	cr_assert_eq(rung__edge_spec_parse(spec, &parts), 0, "%s: %s", spec, rung_last_error());
	cr_assert_eq(parts.src_length, length, "%s", spec);
	cr_assert_eq(parts.source.first, source, "%s", spec);
	cr_assert_eq(parts.source.count, sources, "%s", spec);
	cr_assert_eq(parts.destination.first, destination, "%s", spec);
	cr_assert_eq(parts.destination.count, destinations, "%s", spec);
}

Test(edge_spec, numbers_at_the_end_are_the_ranges)
{
	const uint64_t any = UINT64_MAX;

	assert_parts("a.npy+5,7", 5, 5, any, 7, any);
	assert_parts("a.npy+5:10,7:2", 5, 5, 10, 7, 2);
	assert_parts("a.npz:e+0,7:0", 7, 0, any, 7, 0);
	assert_parts("raw:a,i64,2x9,16+1:2,3", 16, 1, 2, 3, any);
	assert_parts("a+1,2+3,4", 5, 3, any, 4, any);
	assert_parts("+1,2", 0, 1, any, 2, any);
}

Test(edge_spec, any_other_text_is_a_source)
{
	static const char *const specs[] = { "a.npy",     "raw:a,i64,2x9,16",
		                             "a+b,5",     "a+5",
		                             "a+5,",      "a+,5",
		                             "a5,6",      "a+5:,6",
		                             "a+:5,6",    "a+5,6:",
		                             "a+5,-6",    "a+5,6 ",
		                             "a+5:6:7,8", "a+99999999999999999999,1",
		                             "" };

	for (size_t i = 0; i < RUNG__ARRAY_LEN(specs); i++)
		assert_parts(specs[i], strlen(specs[i]), 0, UINT64_MAX, 0, UINT64_MAX);
}

Test(edge_spec, an_existing_file_of_that_name_is_the_source)
{
	static const int64_t ids[] = { 1, 2 };
	char name[600];

	snprintf(name, sizeof(name), "%s/e+1,2", folder);
	assert_parts(name, strlen(name) - 4, 1, UINT64_MAX, 2, UINT64_MAX);
	cr_assert_eq(support_write_npy(name, "<i8", "(2, 1)", ids, sizeof(ids)), 0);
	assert_parts(name, strlen(name), 0, UINT64_MAX, 0, UINT64_MAX);
	snprintf(name, sizeof(name), "%s/e+1,2+3,4", folder);
	assert_parts(name, strlen(name) - 4, 3, UINT64_MAX, 4, UINT64_MAX);
	name[strlen(name) - 4] = '\0';
	cr_assert_eq(unlink(name), 0);
}

Test(edge_spec, ids_of_more_than_63_bits_are_rejected)
{
	struct rung__edge_spec parts;

	assert_error(rung__edge_spec_parse("a+9223372036854775808,0", &parts), RUNG_E_INVAL,
	             "63 bits");
	assert_error(rung__edge_spec_parse("a+0,9223372036854775807:1", &parts), RUNG_E_INVAL,
	             "63 bits");
	assert_error(rung__edge_spec_parse("a+0:9223372036854775808,0", &parts), RUNG_E_INVAL,
	             "63 bits");
}

/* The edges of `graph`, with their ends relative to `source` and `destination`. */
static const char *moved_spec(int slot, const struct test_graph *graph, uint64_t source,
                              uint64_t destination, bool by_row, const char *dtype,
                              const char *suffix)
{
	for (uint64_t e = 0; e < graph->csc.edge_count; e++) {
		graph->sources[e] -= source;
		graph->destinations[e] -= destination;
	}
	edges_spec(slot, graph, 0, graph->csc.edge_count, by_row, dtype);
	for (uint64_t e = 0; e < graph->csc.edge_count; e++) {
		graph->sources[e] += source;
		graph->destinations[e] += destination;
	}
	return strcat(spec_text[slot], suffix);
}

/* Sources are vertices from 600 on, destinations from 100 on. */
static struct test_graph graph_of_parts(void)
{
	uint64_t *sources = malloc(4000 * sizeof(*sources)),
		 *destinations = malloc(4000 * sizeof(*destinations)), state = 3;

	for (uint64_t e = 0; e < 4000; e++) {
		sources[e] = 600 + test_random(&state) % 400;
		destinations[e] = 100 + test_random(&state) % 500;
	}
	sources[17] = 999;
	return test_graph_of_edges(1000, 4000, sources, destinations, 4);
}

static void assert_same_graph(const char *a, const char *b, uint64_t vertex_count, int undirected)
{
	struct rung_graph_opts opts = RUNG_GRAPH_OPTS_INIT;
	struct rung_graph *graphs[2];
	const struct rung_csc *x, *y;

	opts.vertex_count = vertex_count;
	opts.undirected = undirected;
	opts.spec_count = 1;
	opts.specs = &a;
	cr_assert_eq(rung_graph_load(&opts, &graphs[0]), 0, "%s", rung_last_error());
	opts.specs = &b;
	cr_assert_eq(rung_graph_load(&opts, &graphs[1]), 0, "%s", rung_last_error());
	x = rung_graph_csc(graphs[0]);
	y = rung_graph_csc(graphs[1]);
	cr_assert_eq(x->vertex_count, y->vertex_count);
	cr_assert_eq(x->edge_count, y->edge_count);
	cr_assert_eq(memcmp(x->indptr, y->indptr, (x->vertex_count + 1) * sizeof(*x->indptr)), 0);
	cr_assert_eq(memcmp(x->indices, y->indices, x->edge_count * x->index_bytes), 0);
	rung_graph_destroy(graphs[0]);
	rung_graph_destroy(graphs[1]);
}

Test(edge_spec, a_graph_with_ranges_equals_one_with_absolute_ids)
{
	struct test_graph graph = graph_of_parts();

	for (int mix = 0; mix < 8; mix++) {
		const bool by_row = mix & 1;
		const char *whole = edges_spec(0, &graph, 0, 4000, by_row, "i64");
		const char *parts = moved_spec(1, &graph, 600, 100, by_row, mix & 2 ? "i32" : "u64",
		                               mix & 4 ? "+600:400,100:500" : "+600,100");
		struct rung_edges_opts opts = DEFAULTS;

		assert_same_graph(parts, whole, 0, mix >> 1 & 1);
		assert_same_graph(parts, whole, 1300, mix >> 1 & 1);
		opts.memory_bytes = 1 << 20;
		assert_equals_load(&parts, 1, opts);
	}
	test_graph_fini(&graph);
}

static void assert_stray(const char *spec, uint64_t vertex_count, const char *words)
{
	struct rung_graph_opts opts = {
		.size = sizeof(opts), .specs = &spec, .spec_count = 1, .vertex_count = vertex_count
	};
	struct rung_graph *graph;

	assert_error(rung_graph_load(&opts, &graph), RUNG_E_RANGE, words);
}

Test(edge_spec, an_id_outside_its_range_is_named)
{
	struct test_graph graph = graph_of_parts();

	assert_stray(moved_spec(1, &graph, 600, 100, false, "i64", "+600:399,100"), 0,
	             "edge 17: source id 399 is out of range 0..398");
	assert_stray(spec_text[1], 1000, "correct the edge or the count of ids");
	assert_stray(moved_spec(1, &graph, 600, 100, false, "i64", "+600:400,100"), 999,
	             "edge 17: source id 399 is out of range 0..398");
	cr_assert(strstr(rung_last_error(), "the right vertex count"));
	assert_stray(moved_spec(1, &graph, 600, 100, true, "i32", "+600,100:10"), 0,
	             "is out of range 0..9");
	assert_stray(moved_spec(1, &graph, 600, 100, true, "i32", "+2000,100"), 1500,
	             "is out of range 0..none");
	assert_stray(moved_spec(1, &graph, 601, 100, false, "i64", "+601,100"), 0, "source id -1");
	test_graph_fini(&graph);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Lists between two types of vertices: files and memory give the lists of naive loops for every
 * form of the input, turned around or not. */
#include "relation_fixture.h"

TestSuite(edges_typed, .init = make_folder, .fini = remove_folder);

static int compare_ids(const void *a, const void *b)
{
	const uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

/* Every list sorted, with one of equal entries. */
static struct test_graph without_repeats(const struct test_graph *graph)
{
	const struct rung_csc *csc = &graph->csc;
	uint64_t *sources = malloc(csc->edge_count * sizeof(*sources) + 1),
		 *targets = malloc(csc->edge_count * sizeof(*targets) + 1), at = 0;

	for (uint64_t v = 0; v < csc->vertex_count; v++) {
		const uint64_t first = at, end = csc->indptr[v + 1];
		uint64_t *list = malloc((end - csc->indptr[v]) * sizeof(*list) + 1), length = 0;

		for (uint64_t e = csc->indptr[v]; e < end; e++)
			list[length++] = test_id(csc->indices, csc->index_bytes, e);
		qsort(list, length, sizeof(*list), compare_ids);
		for (uint64_t i = 0; i < length; i++) {
			if (at > first && sources[at - 1] == list[i])
				continue;
			sources[at] = list[i];
			targets[at++] = v;
		}
		free(list);
	}
	return of_edges(csc->source_count, csc->vertex_count, at, sources, targets);
}

static void assert_loads(const struct test_graph *naive, const char *const *specs,
                         size_t spec_count, struct rung_edges_opts opts)
{
	const struct rung_csc *csc;
	struct rung_graph *graph;

	opts.graph.specs = specs;
	opts.graph.spec_count = spec_count;
	cr_assert_eq(rung_graph_load(&opts.graph, &graph), 0, "%s", rung_last_error());
	csc = rung_graph_csc(graph);
	cr_assert_eq(csc->vertex_count, naive->csc.vertex_count);
	cr_assert_eq(csc->source_count, naive->csc.source_count);
	cr_assert_eq(csc->edge_count, naive->csc.edge_count);
	cr_assert_eq(csc->index_bytes, naive->csc.index_bytes);
	cr_assert_arr_eq(csc->indptr, naive->indptr, (csc->vertex_count + 1) * sizeof(uint64_t));
	cr_assert_arr_eq(csc->indices, naive->indices, csc->edge_count * csc->index_bytes);
	rung_graph_destroy(graph);
}

/* Files with much and with the least memory, and a load, give these lists; with `dedup`, these
 * lists without repeats. */
static void assert_lists(const struct test_graph *lists, const char *const *specs,
                         size_t spec_count, int reversed)
{
	struct rung_edges_opts opts = opts_of(&lists->csc, reversed);
	struct test_graph unique = without_repeats(lists);

	for (opts.graph.dedup = 0; opts.graph.dedup < 2; opts.graph.dedup++) {
		const struct test_graph *naive = opts.graph.dedup ? &unique : lists;

		for (opts.memory_bytes = 1 << 20; opts.memory_bytes <= 16 << 20;
		     opts.memory_bytes <<= 4)
			assert_passes_equal(&naive->csc, specs, spec_count, opts);
		/* in memory, sorting a list needs an array of all sources */
		if (!opts.graph.dedup || lists->csc.source_count < WIDE_COUNT)
			assert_loads(naive, specs, spec_count, opts);
	}
	test_graph_fini(&unique);
}

/* All forms of a relation. The lists of columns in place are those of the file; the lists that are
 * the other way round in the file become ascending. */
static void assert_all_forms(struct test_graph graph)
{
	struct test_graph turned = turned_edges(&graph), ascending = turned_lists(&turned);
	const uint64_t half = graph.csc.edge_count / 2;

	for (int reversed = 0; reversed < 2; reversed++) {
		const struct test_graph *file = reversed ? &turned : &graph;
		const char *const lists[] = { edges_spec(0, file, 0, half, false, "i64"),
			                      edges_spec(1, file, half, 0, false, "i32"),
			                      edges_spec(2, file, half, graph.csc.edge_count - half,
			                                 true, "u32") };
		const char *spec;

		assert_lists(&graph, lists, 3, reversed);
		spec = columns_spec(reversed ? "csr" : "csc", &graph, 0, "i64", "i32");
		assert_lists(&graph, &spec, 1, reversed);
		spec = columns_spec(reversed ? "csc" : "csr", &turned, 0, "u32", "u64");
		assert_lists(&ascending, &spec, 1, reversed);
	}
	test_graph_fini(&ascending);
	test_graph_fini(&turned);
	test_graph_fini(&graph);
}

Test(edges_typed, every_form_gives_the_lists_of_the_targets)
{
	assert_all_forms(relation_random(9000, 700, 40000));
	assert_all_forms(relation_random(60, 20000, 30000));
	assert_all_forms(relation_random(3000, 3000, 6000));
	assert_all_forms(relation_random(5000, 1, 8000));
	assert_all_forms(relation_random(1, 5000, 8000));
	assert_all_forms(relation_random(4, 3, 0));
}

/* The list of one target does not fit in the memory of a sort, nor do all edges of one source. */
Test(edges_typed, a_list_larger_than_memory_equals_the_naive_one)
{
	uint64_t *sources = malloc(60000 * sizeof(*sources)),
		 *targets = malloc(60000 * sizeof(*targets)), state = 7;

	for (uint64_t e = 0; e < 60000; e++) {
		sources[e] = e % 3 ? test_random(&state) % 90000 : 80001;
		targets[e] = e % 20 ? 17 : test_random(&state) % 40;
	}
	assert_all_forms(of_edges(90000, 40, 60000, sources, targets));
}

/* Neither the memory of a pass nor that of a sort depends on the number of sources. */
Test(edges_typed, ids_of_more_sources_than_32_bits_are_eight_bytes_wide)
{
	struct test_graph graph = relation_random(WIDE_COUNT, 300, 40000);
	uint64_t *both = malloc(80000 * sizeof(*both));
	const char *spec = columns_spec("csc", &graph, 0, "i64", "u64");

	assert_lists(&graph, &spec, 1, false);
	for (int reversed = 0; reversed < 2; reversed++) {
		memcpy(both + reversed * 40000, graph.sources, 40000 * sizeof(*both));
		memcpy(both + !reversed * 40000, graph.destinations, 40000 * sizeof(*both));
		spec = raw_file(2, both, 80000 * sizeof(*both), 0, "i64,2x40000");
		assert_lists(&graph, &spec, 1, reversed);
	}
	free(both);
	test_graph_fini(&graph);
}

/* Turning columns around within one type is reading them as rows. */
Test(edges_typed, one_type_can_be_turned_around)
{
	struct test_graph graph = test_graph_random(4000, 30000, 6, 4), turned, ascending;
	struct rung_edges_opts opts = DEFAULTS;
	const char *spec;

	turned = test_graph_of_edges(4000, 30000, copy(graph.destinations, 30000),
	                             copy(graph.sources, 30000), 4);
	graph.csc.source_count = 4000;
	ascending = turned_lists(&graph);
	graph.csc.source_count = ascending.csc.source_count = 0;
	opts.graph.reversed = 1;
	spec = edges_spec(2, &graph, 0, 30000, false, "i64");
	assert_loads(&turned, &spec, 1, opts);
	assert_equals_load(&spec, 1, opts);
	spec = columns_spec("csr", &graph, 0, "i64", "i32");
	assert_loads(&graph, &spec, 1, opts);
	assert_equals_load(&spec, 1, opts);
	spec = columns_spec("csc", &graph, 0, "i64", "i32");
	assert_loads(&ascending, &spec, 1, opts);
	for (int mix = 0; mix < 4; mix++) {
		opts.graph.undirected = mix & 1;
		opts.graph.dedup = mix >> 1;
		assert_equals_load(&spec, 1, opts);
	}
	test_graph_fini(&graph);
	test_graph_fini(&turned);
	test_graph_fini(&ascending);
}

Test(edges_typed, columns_of_the_targets_are_read_in_place)
{
	struct test_graph graph = relation_random(9000, 700, 40000);
	struct rung_edges_info info = { .size = sizeof(info) };

	for (int reversed = 0; reversed < 2; reversed++) {
		const char *spec = columns_spec(reversed ? "csr" : "csc", &graph, 0, "i64", "i32");
		struct rung_edges *edges;

		cr_assert_eq(open_edges(&spec, 1, opts_of(&graph.csc, reversed), &edges), 0);
		cr_assert_eq(rung_edges_info(edges, &info), 0);
		cr_assert_eq(info.input_passes, 0);
		cr_assert_eq(info.temp_bytes, 0);
		rung_edges_close(edges);
	}
	test_graph_fini(&graph);
}

Test(edges_typed, parts_of_each_type_begin_at_their_first_id)
{
	struct test_graph graph = relation_random(100, 50, 3000);
	uint64_t *sources = copy(graph.sources, 3000), *targets = copy(graph.destinations, 3000);
	struct test_graph turned = turned_edges(&graph), shifted;

	for (uint64_t e = 0; e < 3000; e++) {
		sources[e] += 1000;
		targets[e] += 200;
	}
	shifted = of_edges(1100, 260, 3000, sources, targets);
	for (int reversed = 0; reversed < 2; reversed++) {
		char text[600];
		const char *spec = text;

		snprintf(text, sizeof(text), "%s+%s",
		         edges_spec(0, reversed ? &turned : &graph, 0, 3000, reversed, "i64"),
		         reversed ? "200:50,1000:100" : "1000:100,200:50");
		assert_lists(&shifted, &spec, 1, reversed);
	}
	test_graph_fini(&shifted);
	test_graph_fini(&turned);
	test_graph_fini(&graph);
}

static void assert_turns(struct test_graph graph)
{
	const char *spec = columns_spec("csc", &graph, 0, "i64", "i32");
	struct rung_edges_info info = { .size = sizeof(info) };
	struct test_graph naive = turned_lists(&graph);
	struct rung_edges *edges, *turned;
	struct seen seen;

	cr_assert_eq(open_edges(&spec, 1, opts_of(&graph.csc, false), &edges), 0, "%s",
	             rung_last_error());
	cr_assert_eq(rung__edges_turn(edges, 1 << 20, &turned), 0, "%s", rung_last_error());
	cr_assert_eq(rung_edges_info(turned, &info), 0);
	cr_assert_eq(info.vertex_count, graph.csc.source_count);
	cr_assert_eq(info.source_count, graph.csc.vertex_count);
	seen = (struct seen){ .csc = &naive.csc, .edges_max = info.chunk_bytes / info.index_bytes };
	cr_assert_eq(rung__edges_pass(turned, compare_chunk, &seen), 0, "%s", rung_last_error());
	cr_assert_eq(seen.vertices, graph.csc.source_count);
	cr_assert_eq(seen.edges, graph.csc.edge_count);
	rung_edges_close(turned);
	rung_edges_close(edges);
	test_graph_fini(&naive);
	test_graph_fini(&graph);
}

Test(edges_typed, turned_edges_have_the_lists_of_the_sources)
{
	assert_turns(relation_random(9000, 700, 40000));
	assert_turns(relation_random(60, 20000, 30000));
}

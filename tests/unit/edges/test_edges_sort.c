/* SPDX-License-Identifier: Apache-2.0 */
/* Edges sorted on disk: the lists equal those of rung_graph_load() for any budget, and a failure
 * leaves no files. */
#include <signal.h>
#include <sys/resource.h>

#include "edges_fixture.h"
#include "sort/sort_ids.h"

TestSuite(edges_sort, .init = make_folder, .fini = remove_folder);

/* Each mix of options, with memory for the whole graph and with the least that is accepted. */
static void assert_sorts_as_load(const char *const *specs, size_t spec_count, uint64_t vertex_count)
{
	for (int mix = 0; mix < 4; mix++) {
		struct rung_edges_opts opts = { .size = sizeof(opts),
			                        .graph.size = sizeof(opts.graph),
			                        .memory_bytes = 16 << 20 };

		opts.graph.vertex_count = vertex_count;
		opts.graph.undirected = mix & 1;
		opts.graph.dedup = mix >> 1;
		assert_equals_load(specs, spec_count, opts);
		opts.memory_bytes = 1 << 20;
		assert_equals_load(specs, spec_count, opts);
	}
}

Test(edges_sort, sorting_joined_edge_lists_equals_a_load)
{
	struct test_graph graph = test_graph_random(20000, 60000, 8, 4);
	const char *const specs[] = { edges_spec(0, &graph, 0, 30000, false, "i64"),
		                      edges_spec(1, &graph, 30000, 0, false, "i32"),
		                      edges_spec(2, &graph, 30000, 30000, true, "u32") };

	assert_sorts_as_load(specs, 3, 0);
	assert_sorts_as_load(specs, 3, 70000);
	test_graph_fini(&graph);
}

Test(edges_sort, sorting_columns_and_rows_equals_a_load)
{
	struct test_graph graph = test_graph_random(20000, 60000, 9, 4);
	const char *spec = columns_spec("csr", &graph, 0, "i64", "i32");

	assert_sorts_as_load(&spec, 1, 0);
	spec = columns_spec("csc", &graph, 0, "u32", "u64");
	assert_sorts_as_load(&spec, 1, 0);
	test_graph_fini(&graph);
}

/* Most edges end in vertex 4711. They do not fit in memory together, so they are dealt into
 * smaller buckets, as one list, and by value. */
Test(edges_sort, sorting_a_list_larger_than_memory_equals_a_load)
{
	uint64_t *sources = malloc(60000 * sizeof(*sources)),
		 *destinations = malloc(60000 * sizeof(*destinations)), state = 12;
	struct test_graph graph;
	const char *spec;

	for (uint64_t e = 0; e < 60000; e++) {
		/* source 29 alone exceeds the memory, too */
		sources[e] = e % 3 ? test_random(&state) % 30000 : 29;
		destinations[e] = e % 20 ? 4711 : test_random(&state) % 30000;
	}
	graph = test_graph_of_edges(30000, 60000, sources, destinations, 4);
	spec = edges_spec(0, &graph, 0, 60000, false, "i32");
	assert_sorts_as_load(&spec, 1, 30000);
	test_graph_fini(&graph);
}

Test(edges_sort, sorting_few_edges_of_many_vertices_equals_a_load)
{
	uint64_t *sources = malloc(10 * sizeof(*sources)),
		 *destinations = malloc(10 * sizeof(*destinations));
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

Test(edges_sort, ids_of_any_count_and_order_are_sorted)
{
	uint64_t *ids = malloc(3000 * sizeof(*ids)), state = 4;

	for (uint64_t count = 0; count < 3000; count += 1 + count / 3) {
		for (int kind = 0; kind < 3; kind++) {
			for (unsigned bytes = 4; bytes <= 8; bytes += 4) {
				uint64_t sum = 0, sum_after = 0;
				void *copy;

				for (uint64_t i = 0; i < count; i++)
					sum += ids[i] = kind == 0   ? test_random(&state) >> 32
					                : kind == 1 ? i / 3
					                            : count - i;
				copy = test_ids(ids, count, bytes);
				rung__ids_sort(copy, bytes, count);
				for (uint64_t i = 0; i < count; i++) {
					sum_after += test_id(copy, bytes, i);
					cr_assert(i == 0 || test_id(copy, bytes, i - 1) <=
					                            test_id(copy, bytes, i));
				}
				cr_assert_eq(sum, sum_after);
				free(copy);
			}
		}
	}
	free(ids);
}

Test(edges_sort, sorting_names_an_id_out_of_range_and_a_wrong_count)
{
	const uint64_t stray[] = { 0, 1, 4, 1, 1, 1 };
	struct rung_edges_opts opts = { .size = sizeof(opts),
		                        .graph.size = sizeof(opts.graph),
		                        .graph.vertex_count = 4 };
	const char *spec = raw_file(0, stray, sizeof(stray), 0, "i64,2x3");
	struct rung_edges *edges;
	char columns[1100];
	const char *specs[] = { columns };

	assert_error(open_edges(&spec, 1, opts, &edges), RUNG_E_RANGE,
	             "edge 2: source id 4 is out of range 0..3");
	snprintf(columns, sizeof(columns), "csr:%s,%s",
	         ids_file(0, (uint64_t[]){ 0, 1, 3 }, 3, 0, "i64"),
	         ids_file(1, (uint64_t[]){ 1, 0, 2 }, 3, 0, "i32"));
	opts.graph.vertex_count = 0;
	assert_error(open_edges(specs, 1, opts, &edges), RUNG_E_RANGE,
	             "indices[2]: id 2 is out of range 0..1");
	opts.graph.vertex_count = 3;
	assert_error(open_edges(specs, 1, opts, &edges), RUNG_E_FORMAT,
	             "2 vertices, but the given count is 3");
	opts.memory_bytes = 1000000;
	assert_error(open_edges(specs, 1, opts, &edges), RUNG_E_INVAL, "at least 1048576");
	opts.memory_bytes = 0;
	opts.graph.spec_count = 0;
	opts.graph.vertex_count = 0;
	assert_error(open_edges(specs, 0, opts, &edges), RUNG_E_INVAL, "no source");
}

static int rewrite_edges(void *ctx, const char *step, unsigned long long done,
                         unsigned long long total)
{
	(void)step, (void)done, (void)total;
	raw_file(0, ctx, 6 * sizeof(uint64_t), 0, "i64,2x3");
	return 0;
}

Test(edges_sort, a_file_that_changes_between_the_passes_of_sorting_is_an_error)
{
	/* loops: one bucket gets more edges than were counted; stray: an invalid vertex */
	uint64_t edges_before[] = { 0, 0, 0, 1, 2, 1 }, loops[] = { 0, 2, 2, 0, 2, 2 },
		 stray[] = { 0, 0, 0, 1, 2, 7 };
	struct rung_edges_opts opts = { .size = sizeof(opts),
		                        .graph.size = sizeof(opts.graph),
		                        .graph.vertex_count = 3 };
	struct rung_edges *edges;
	const char *spec;

	opts.graph.undirected = 1;
	opts.graph.progress = rewrite_edges;
	opts.graph.progress_ctx = loops;
	spec = raw_file(0, edges_before, sizeof(edges_before), 0, "i64,2x3");
	assert_error(open_edges(&spec, 1, opts, &edges), RUNG_E_IO, "changed while it was read");
	opts.graph.progress_ctx = stray;
	spec = raw_file(0, edges_before, sizeof(edges_before), 0, "i64,2x3");
	assert_error(open_edges(&spec, 1, opts, &edges), RUNG_E_RANGE, "destination id 7");
}

Test(edges_sort, progress_can_cancel_each_step)
{
	struct test_graph graph = test_graph_random(2000, 5000, 2, 4);
	struct rung_edges_opts opts = { .size = sizeof(opts),
		                        .graph.size = sizeof(opts.graph),
		                        .memory_bytes = 2 << 20 };
	const char *specs[] = { edges_spec(2, &graph, 0, 5000, true, "i32"),
		                columns_spec("csr", &graph, 0, "i64", "i64") };
	struct rung_edges *edges;

	opts.graph.progress = cancel_when_sorting;
	for (int i = 0; i < 4; i++) {
		opts.graph.progress_ctx = i % 2 ? "sort" : "edges";
		assert_error(open_edges(&specs[i / 2], 1, opts, &edges), RUNG_E_CANCELED,
		             "canceled");
	}
	test_graph_fini(&graph);
}

Test(edges_sort, a_file_size_limit_is_reported_with_the_space_needed)
{
	struct test_graph graph = test_graph_random(20000, 100000, 2, 4);
	struct rung_edges_opts opts = { .size = sizeof(opts),
		                        .graph.size = sizeof(opts.graph),
		                        .memory_bytes = 2 << 20 };
	const char *spec = edges_spec(0, &graph, 0, 100000, false, "i32");
	const rlim_t limits[] = { 40000, 300000 };
	struct rung_edges *edges;

	signal(SIGXFSZ, SIG_IGN);
	for (int i = 0; i < 2; i++) {
		const struct rlimit limit = { limits[i], RLIM_INFINITY };

		cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
		assert_error(open_edges(&spec, 1, opts, &edges), RUNG_E_NOSPC,
		             "bytes are needed in total");
	}
	opts.temp_dir = "/nowhere";
	opts.graph.specs = &spec;
	opts.graph.spec_count = 1;
	assert_error(rung_edges_open(&opts, &edges), RUNG_E_NOENT, "/nowhere");
	test_graph_fini(&graph);
}

Test(edges_sort, a_small_graph_needs_little_space_whatever_the_memory)
{
	struct test_graph graph = test_graph_random(20000, 100000, 2, 4);
	struct rung_edges_opts opts = { .size = sizeof(opts),
		                        .graph.size = sizeof(opts.graph),
		                        .memory_bytes = 64 << 20 };
	const char *spec = edges_spec(0, &graph, 0, 100000, false, "i32"), *said;
	const struct rlimit limit = { 40000, RLIM_INFINITY };
	struct rung_edges *edges;

	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_error(open_edges(&spec, 1, opts, &edges), RUNG_E_NOSPC, "bytes are needed in total");
	said = strstr(rung_last_error(), " (");
	cr_assert(said && strtoull(said + 2, NULL, 10) <= 2 * (100000 * 8 + 20000 * 8), "%s",
	          rung_last_error());
	test_graph_fini(&graph);
}

Test(edges_sort, nothing_leaks_whichever_allocation_fails)
{
	struct test_graph graph = test_graph_random(50, 300, 2, 4);
	struct rung_edges_opts opts = { .size = sizeof(opts),
		                        .graph.size = sizeof(opts.graph),
		                        .memory_bytes = 1 << 20 };
	const char *specs[] = { columns_spec("csr", &graph, 0, "i64", "i64"),
		                edges_spec(2, &graph, 0, 300, true, "i32"), NULL };
	char in_place[1200];

	snprintf(in_place, sizeof(in_place), "csc%s", specs[0] + 3);
	specs[2] = in_place;
	opts.graph.undirected = opts.graph.dedup = 1;
	for (int i = 0; i < 3; i++) {
		assert_opens_after_failures(specs[i], opts);
		opts.graph.undirected = opts.graph.dedup = i == 0;
	}
	test_graph_fini(&graph);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Relabelling: a graph worked out by hand, random graphs compared with the definition, and maps
 * that do not match each other. */
#include "graphs.h"
#include "graph/relabel.h"
#include "rung/rank.h"

Test(relabel, a_graph_worked_out_by_hand)
{
	/* in(0) = {1}, in(1) = {0, 3, 0}, in(2) = {2}, in(3) = {}; ranks 1 3 2 0 */
	const uint64_t indptr[] = { 0, 1, 4, 5, 5 }, new_indptr[] = { 0, 3, 3, 4, 5 };
	const uint32_t indices[] = { 1, 0, 3, 0, 2 }, new_indices[] = { 3, 1, 3, 2, 0 };
	const uint32_t vertex_of_rank[] = { 1, 3, 2, 0 }, rank_of_vertex[] = { 3, 0, 2, 1 };
	const struct rung_csc csc = { 4, 5, indptr, indices, 4, 0 };
	uint64_t indptr_out[5];
	uint32_t indices_out[5];

	cr_assert_eq(rung__graph_relabel(&csc, vertex_of_rank, rank_of_vertex, 0, indptr_out,
	                                 indices_out),
	             0, "%s", rung_last_error());
	cr_assert_arr_eq(indptr_out, new_indptr, sizeof(new_indptr));
	cr_assert_arr_eq(indices_out, new_indices, sizeof(new_indices));
}

Test(relabel, swapped_or_invalid_maps_are_rejected_with_the_entry)
{
	const uint64_t indptr[] = { 0, 1, 2, 3, 3 };
	const uint32_t indices[] = { 1, 2, 3 };
	const uint32_t vertices[] = { 1, 3, 2, 0 }, ranks[] = { 3, 0, 2, 1 },
		       twice[] = { 1, 3, 2, 1 }, outside[] = { 1, 4, 2, 0 };
	const struct rung_csc csc = { 4, 3, indptr, indices, 4, 0 };
	uint64_t indptr_out[5];
	uint32_t indices_out[3];

	cr_assert_eq(rung__graph_relabel(&csc, vertices, vertices, 0, indptr_out, indices_out),
	             RUNG_E_FORMAT);
	cr_assert(strstr(rung_last_error(), "vertex_of_rank[0] is 1, but rank_of_vertex[1] is 3") !=
	                  NULL,
	          "%s", rung_last_error());
	cr_assert_eq(rung__graph_relabel(&csc, twice, ranks, 0, indptr_out, indices_out),
	             RUNG_E_FORMAT);
	cr_assert(strstr(rung_last_error(), "vertex_of_rank[3] is 1") != NULL, "%s",
	          rung_last_error());
	cr_assert_eq(rung__graph_relabel(&csc, outside, ranks, 0, indptr_out, indices_out),
	             RUNG_E_FORMAT);
	cr_assert(strstr(rung_last_error(), "vertex_of_rank[1] is 4") != NULL, "%s",
	          rung_last_error());
}

Test(relabel, random_graphs_follow_the_definition_for_any_thread_count)
{
	for (unsigned index_bytes = 4; index_bytes <= 8; index_bytes += 4) {
		struct test_graph graph = test_graph_random(3000, 40000, 21, index_bytes);
		const uint64_t vertex_count = graph.csc.vertex_count;
		uint64_t *order = malloc(vertex_count * sizeof(*order)),
			 *rank = malloc(vertex_count * sizeof(*rank));
		uint64_t *indptr = malloc((vertex_count + 1) * sizeof(*indptr)), state = 3;
		void *indices = malloc(graph.csc.edge_count * index_bytes), *vertex_of_rank,
		     *rank_of_vertex;

		for (uint64_t v = 0; v < vertex_count; v++)
			order[v] = v;
		for (uint64_t v = vertex_count - 1; v > 0; v--) {
			const uint64_t other = test_random(&state) % (v + 1), here = order[v];

			order[v] = order[other];
			order[other] = here;
		}
		for (uint64_t r = 0; r < vertex_count; r++)
			rank[order[r]] = r;
		vertex_of_rank = test_ids(order, vertex_count, index_bytes);
		rank_of_vertex = test_ids(rank, vertex_count, index_bytes);
		for (uint32_t threads = 1; threads <= 5; threads += 2) {
			memset(indices, 0xff, graph.csc.edge_count * index_bytes);
			cr_assert_eq(rung__graph_relabel(&graph.csc, vertex_of_rank, rank_of_vertex,
			                                 threads, indptr, indices),
			             0);
			for (uint64_t v = 0; v < vertex_count; v++) {
				cr_assert_eq(indptr[rank[v] + 1] - indptr[rank[v]],
				             graph.indptr[v + 1] - graph.indptr[v]);
				for (uint64_t i = 0; i < graph.indptr[v + 1] - graph.indptr[v]; i++)
					cr_assert_eq(
						test_id(indices, index_bytes, indptr[rank[v]] + i),
						rank[test_id(graph.indices, index_bytes,
					                     graph.indptr[v] + i)]);
			}
		}
		free(order);
		free(rank);
		free(indptr);
		free(indices);
		free(vertex_of_rank);
		free(rank_of_vertex);
		test_graph_fini(&graph);
	}
}

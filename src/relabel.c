/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A graph under new names: list r of the new graph is the list of vertex_of_rank[r], its entries mapped by rank_of_vertex.
 * That the two maps belong together is checked first: swapping them gives a graph that looks right and is wrong.
 */
#include "internal.h"
#include "rung/rank.h"

/* First rank whose vertex does not lead back to it; vertex_count when all do, and then both maps are permutations. */
static uint64_t first_mismatch(const struct rung_csc *csc, const void *vertex_of_rank, const void *rank_of_vertex, int threads)
{
	const unsigned index_bytes = csc->index_bytes;
	uint64_t first = csc->vertex_count;

	(void)threads;   /* without OpenMP */
#pragma omp parallel for num_threads(threads) reduction(min : first) schedule(static)
	for (uint64_t r = 0; r < csc->vertex_count; r++) {
		const uint64_t v = rung__id_get(vertex_of_rank, index_bytes, r);

		if (v >= csc->vertex_count || rung__id_get(rank_of_vertex, index_bytes, v) != r)
			first = RUNG__MIN(first, r);
	}
	return first;
}

static int fail_mismatch(const struct rung_csc *csc, const void *vertex_of_rank, const void *rank_of_vertex, uint64_t rank)
{
	const uint64_t v = rung__id_get(vertex_of_rank, csc->index_bytes, rank);

	if (v >= csc->vertex_count)
		return rung__fail(RUNG_E_FORMAT, "relabel: vertex_of_rank[%" PRIu64 "] is %" PRIu64 ", not below the vertex count %" PRIu64
		                  ": make the maps with rung_rank_order()", rank, v, csc->vertex_count);
	return rung__fail(RUNG_E_FORMAT, "relabel: vertex_of_rank[%" PRIu64 "] is %" PRIu64 ", but rank_of_vertex[%" PRIu64 "] is "
	                  "%" PRIu64 ": the maps are not each other's inverse; make them with rung_rank_order()", rank, v, v,
	                  rung__id_get(rank_of_vertex, csc->index_bytes, v));
}

int rung_graph_relabel(const struct rung_csc *csc, const void *vertex_of_rank, const void *rank_of_vertex,
                       uint32_t threads, uint64_t *indptr_out, void *indices_out)
{
	const int thread_count = rung__threads(threads);
	const unsigned index_bytes = csc->index_bytes;
	const uint64_t bad = first_mismatch(csc, vertex_of_rank, rank_of_vertex, thread_count);

	if (bad < csc->vertex_count)
		return fail_mismatch(csc, vertex_of_rank, rank_of_vertex, bad);
	indptr_out[0] = 0;
	for (uint64_t r = 0; r < csc->vertex_count; r++) {
		const uint64_t v = rung__id_get(vertex_of_rank, index_bytes, r);

		indptr_out[r + 1] = indptr_out[r] + csc->indptr[v + 1] - csc->indptr[v];
	}
	/* hubs stand together at the front: small parts keep the threads equally busy */
#pragma omp parallel for num_threads(thread_count) schedule(dynamic, 256)
	for (uint64_t r = 0; r < csc->vertex_count; r++) {
		const uint64_t begin = csc->indptr[rung__id_get(vertex_of_rank, index_bytes, r)];
		const uint64_t count = indptr_out[r + 1] - indptr_out[r];

		for (uint64_t i = 0; i < count; i++) {
			const uint64_t old = rung__id_get(csc->indices, index_bytes, begin + i);

			rung__id_set(indices_out, index_bytes, indptr_out[r] + i, rung__id_get(rank_of_vertex, index_bytes, old));
		}
	}
	return 0;
}

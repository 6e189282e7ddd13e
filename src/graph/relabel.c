/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Relabelling a graph in memory: list r of the new graph is the list of vertex_of_rank[r], with its
 * entries mapped by rank_of_vertex. First the two maps are checked to be each other's inverse,
 * because swapped maps give a graph that looks right and is wrong.
 */
#include "graph/relabel.h"

#include "base/base.h"

/* Distance of the prefetch of a list's first entries, in lists. The list's offset is prefetched at
 * twice this distance, because it is needed to find the entries. */
#define AHEAD     8u
#define PART_MIN  4096u /* smallest number of ranks for a thread */
#define PARTS_MAX 256u  /* bounds the array of sums on the stack */

/* The two maps, each [vertex_count] of index_bytes. */
struct maps {
	const void *vertex_of_rank, *rank_of_vertex;
	uint64_t vertex_count;
	unsigned index_bytes;
};

/* The first rank whose vertex does not map back to it; vertex_count if all do, and both maps are
 * then permutations: no two ranks can have the same vertex. */
static uint64_t first_mismatch(const struct maps *maps, int threads)
{
	const unsigned index_bytes = maps->index_bytes;
	uint64_t first = maps->vertex_count;

	(void)threads; /* without OpenMP */
#pragma omp parallel for num_threads(threads) reduction(min : first) schedule(static)
	for (uint64_t r = 0; r < maps->vertex_count; r++) {
		const uint64_t v = rung__id_get(maps->vertex_of_rank, index_bytes, r);

		if (v >= maps->vertex_count ||
		    rung__id_get(maps->rank_of_vertex, index_bytes, v) != r)
			first = RUNG__MIN(first, r);
	}
	return first;
}

int rung__maps_check(const void *vertex_of_rank, const void *rank_of_vertex, uint64_t vertex_count,
                     unsigned index_bytes, int threads)
{
	const struct maps maps = { vertex_of_rank, rank_of_vertex, vertex_count, index_bytes };
	const uint64_t rank = first_mismatch(&maps, threads);
	uint64_t v;

	if (rank == vertex_count)
		return 0;
	v = rung__id_get(vertex_of_rank, index_bytes, rank);
	if (v >= vertex_count)
		return rung__fail(RUNG_E_FORMAT,
		                  "relabel: vertex_of_rank[%" PRIu64 "] is %" PRIu64
		                  ", not below the vertex count %" PRIu64
		                  "; create the maps with rung_rank_order()",
		                  rank, v, vertex_count);
	return rung__fail(
		RUNG_E_FORMAT,
		"relabel: vertex_of_rank[%" PRIu64 "] is %" PRIu64 ", but rank_of_vertex[%" PRIu64
		"] is "
		"%" PRIu64
		": the maps are not each other's inverse; create them with rung_rank_order()",
		rank, v, v, rung__id_get(rank_of_vertex, index_bytes, v));
}

int rung__permutation_check(const void *ids, uint64_t count, unsigned index_bytes, const char *name)
{
	uint64_t *seen = rung__zalloc_array(count / 64 + 1, sizeof(*seen));
	int rc = 0;

	if (!seen)
		return rung__fail(RUNG_E_NOMEM,
		                  "relabel: no memory to check the %" PRIu64 " entries of %s",
		                  count, name);
	for (uint64_t i = 0; i < count && rc == 0; i++) {
		const uint64_t id = rung__id_get(ids, index_bytes, i);

		if (id >= count)
			rc = rung__fail(RUNG_E_FORMAT,
			                "relabel: %s[%" PRIu64 "] is %" PRIu64
			                ", not below %" PRIu64
			                "; create the maps with rung_rank_order()",
			                name, i, id, count);
		else if (seen[id / 64] >> id % 64 & 1)
			rc = rung__fail(RUNG_E_FORMAT,
			                "relabel: %s[%" PRIu64 "] is %" PRIu64
			                ", as an entry before it; create the maps with "
			                "rung_rank_order()",
			                name, i, id);
		else
			seen[id / 64] |= UINT64_C(1) << id % 64;
	}
	rung__free(seen);
	return rc;
}

/* Add the lengths of the lists of ranks [begin, end) to `sum`, and store each intermediate sum in
 * indptr_out[begin + 1 ..]. @param indptr_out  NULL: only the sum. @return the sum */
static uint64_t sum_lengths(const struct rung_csc *csc, const void *vertex_of_rank, uint64_t begin,
                            uint64_t end, uint64_t sum, uint64_t *indptr_out)
{
	for (uint64_t r = begin; r < end; r++) {
		const uint64_t v = rung__id_get(vertex_of_rank, csc->index_bytes, r);

		sum += csc->indptr[v + 1] - csc->indptr[v];
		if (indptr_out)
			indptr_out[r + 1] = sum;
	}
	return sum;
}

/* Compute indptr in parallel, in two passes: the sum of each part, then, from the sum of the parts
 * before it, its entries. */
static void fill_indptr(const struct rung_csc *csc, const void *vertex_of_rank, int threads,
                        uint64_t *indptr_out)
{
	const uint64_t parts_max = RUNG__MIN((uint64_t)threads, PARTS_MAX);
	const uint64_t parts = RUNG__MIN(parts_max, csc->vertex_count / PART_MIN + 1),
		       share = csc->vertex_count / parts + 1;
	uint64_t sums[PARTS_MAX], sum = 0;

#pragma omp parallel for num_threads(threads) schedule(static, 1)
	for (uint64_t part = 0; part < parts; part++) {
		const uint64_t begin = RUNG__MIN(share * part, csc->vertex_count);

		sums[part] = sum_lengths(csc, vertex_of_rank, begin,
		                         RUNG__MIN(begin + share, csc->vertex_count), 0, NULL);
	}
	for (uint64_t part = 0; part < parts; part++) {
		const uint64_t here = sums[part];

		sums[part] = sum;
		sum += here;
	}
	indptr_out[0] = 0;
#pragma omp parallel for num_threads(threads) schedule(static, 1)
	for (uint64_t part = 0; part < parts; part++) {
		const uint64_t begin = RUNG__MIN(share * part, csc->vertex_count);

		sum_lengths(csc, vertex_of_rank, begin, RUNG__MIN(begin + share, csc->vertex_count),
		            sums[part], indptr_out);
	}
}

/* Prefetch for later lists. A list is found through two dependent random reads, its offset and its
 * first entries: both are prefetched. The reads that map the entries are independent, so the CPU
 * overlaps them without help. */
static inline void fetch_ahead(const struct rung_csc *csc, const void *vertex_of_rank, uint64_t r)
{
	if (r + 2 * AHEAD < csc->vertex_count)
		__builtin_prefetch(&csc->indptr[rung__id_get(vertex_of_rank, csc->index_bytes,
		                                             r + 2 * AHEAD)]);
	if (r + AHEAD < csc->vertex_count) {
		const uint64_t begin =
			csc->indptr[rung__id_get(vertex_of_rank, csc->index_bytes, r + AHEAD)];

		__builtin_prefetch((const char *)csc->indices + begin * csc->index_bytes);
	}
}

/* Map the list of rank r. Always inline, so that index_bytes is a constant in both versions. */
static inline __attribute__((always_inline)) void map_list(const struct rung_csc *csc,
                                                           const struct maps *maps, uint64_t r,
                                                           const uint64_t *indptr_out,
                                                           void *indices_out, unsigned index_bytes)
{
	const uint64_t begin = csc->indptr[rung__id_get(maps->vertex_of_rank, index_bytes, r)],
		       at = indptr_out[r];
	const uint64_t count = indptr_out[r + 1] - at;

	for (uint64_t i = 0; i < count; i++) {
		const uint64_t old = rung__id_get(csc->indices, index_bytes, begin + i);

		rung__id_set(indices_out, index_bytes, at + i,
		             rung__id_get(maps->rank_of_vertex, index_bytes, old));
	}
}

int rung__graph_relabel(const struct rung_csc *csc, const void *vertex_of_rank,
                        const void *rank_of_vertex, uint32_t threads, uint64_t *indptr_out,
                        void *indices_out)
{
	const struct maps maps = { vertex_of_rank, rank_of_vertex, csc->vertex_count,
		                   csc->index_bytes };
	const int thread_count = rung__threads(threads);
	int rc = csc->source_count
	                 ? rung__permutation_check(vertex_of_rank, csc->vertex_count,
	                                           csc->index_bytes, "vertex_of_rank")
	                 : rung__maps_check(vertex_of_rank, rank_of_vertex, csc->vertex_count,
	                                    csc->index_bytes, thread_count);

	if (rc == 0 && csc->source_count)
		rc = rung__permutation_check(rank_of_vertex, csc->source_count, csc->index_bytes,
		                             "rank_of_vertex");
	if (rc < 0)
		return rc;
	fill_indptr(csc, vertex_of_rank, thread_count, indptr_out);
	/* hubs, with their long lists, have adjacent ranks: small parts keep the threads equally
	 * busy */
#pragma omp parallel for num_threads(thread_count) schedule(dynamic, 256)
	for (uint64_t r = 0; r < csc->vertex_count; r++) {
		fetch_ahead(csc, vertex_of_rank, r);
		if (csc->index_bytes == 4)
			map_list(csc, &maps, r, indptr_out, indices_out, 4);
		else
			map_list(csc, &maps, r, indptr_out, indices_out, 8);
	}
	return 0;
}

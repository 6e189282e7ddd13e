/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which edges are mutual: u -> v is when v -> u is an edge too. The tiles of a bin hold all v that its u are given by, which are the
 * out-lists of these u once they are sorted by u: an edge of in(u) is mutual when its u is in out(u).
 */
#include <string.h>

#include "graph_internal.h"
#include "lookup.h"
#include "spread_internal.h"

/* The out-lists of a bin's vertices. */
struct out_lists {
	uint64_t *starts;   /* [bin vertices + 1] */
	void *ids;          /* [edges_max] of index_bytes */
};

static uint64_t bin_edges(const struct rung__spread *spread, uint32_t bin)
{
	uint64_t count = 0;

	for (uint64_t i = 0; i < spread->block_count; i++)
		count += spread->blocks[i].starts[RUNG__PLAIN][bin + 1] - spread->blocks[i].starts[RUNG__PLAIN][bin];
	return count;
}

static void gather_lists(const struct rung__spread *spread, uint32_t bin, const struct out_lists *lists)
{
	const uint64_t bin_vertices = UINT64_C(1) << spread->bin_bits;
	const unsigned index_bytes = spread->csc.index_bytes;
	uint64_t sum = 0;

	memset(lists->starts, 0, (bin_vertices + 1) * sizeof(*lists->starts));
	for (uint64_t i = 0; i < spread->block_count; i++) {
		const struct rung__block *block = &spread->blocks[i];

		for (uint32_t e = block->starts[RUNG__PLAIN][bin]; e < block->starts[RUNG__PLAIN][bin + 1]; e++)
			lists->starts[block->tiles[e] + 1]++;
	}
	for (uint64_t u = 1; u <= bin_vertices; u++) {   /* starts[u + 1]: where list u goes on; at the end, where it ends */
		const uint64_t here = lists->starts[u];

		lists->starts[u] = sum;
		sum += here;
	}
	for (uint64_t i = 0; i < spread->block_count; i++) {
		const struct rung__block *block = &spread->blocks[i];

		for (uint32_t e = block->starts[RUNG__PLAIN][bin]; e < block->starts[RUNG__PLAIN][bin + 1]; e++)
			rung__id_set(lists->ids, index_bytes, lists->starts[block->tiles[e] + 1]++,
			             block->vertex_first + block->tiles[block->edge_count + e]);
	}
}

static void mark_bin(const struct rung__spread *spread, uint32_t bin, const struct out_lists *lists, struct rung__lookup *set)
{
	const struct rung_csc *csc = &spread->csc;
	const uint64_t first = (uint64_t)bin << spread->bin_bits;
	const uint64_t count = RUNG__MIN(UINT64_C(1) << spread->bin_bits, csc->vertex_count - first);

	gather_lists(spread, bin, lists);
	for (uint64_t i = 0; i < count; i++) {
		const uint64_t begin = lists->starts[i], end = lists->starts[i + 1];

		if (begin == end || csc->indptr[first + i] == csc->indptr[first + i + 1])
			continue;
		rung__lookup_fill(set, first + i, lists->ids, begin, end);
		rung__lookup_mark(set, first + i, csc->indices, csc->indptr[first + i], csc->indptr[first + i + 1] - csc->indptr[first + i],
		                  spread->mutual, csc->indptr[first + i]);
	}
}

static int mark_bins(const struct rung__spread *spread)
{
	uint64_t edges_max = 0;
	bool complete = true;

	for (uint32_t bin = 0; bin < spread->bin_count; bin++)
		edges_max = RUNG__MAX(edges_max, bin_edges(spread, bin));
#pragma omp parallel num_threads(spread->opts.threads)
	{
		struct out_lists lists = {
			.starts = rung__malloc_array((UINT64_C(1) << spread->bin_bits) + 1, sizeof(*lists.starts)),
			.ids = rung__malloc_array(edges_max, spread->csc.index_bytes),
		};
		struct rung__lookup set = {
			.index_bytes = spread->csc.index_bytes,
			.slots = rung__malloc_array(rung__lookup_slots(edges_max), spread->csc.index_bytes),   /* touched as needed */
		};
		const bool usable = lists.starts && lists.ids && set.slots;

#pragma omp for schedule(dynamic, 1)
		for (uint32_t bin = 0; bin < spread->bin_count; bin++) {
			if (usable)
				mark_bin(spread, bin, &lists, &set);
		}
		rung__free(lists.starts);
		rung__free(lists.ids);
		rung__free(set.slots);
		if (!usable) {
#pragma omp atomic write
			complete = false;
		}
	}
	if (complete)
		return 0;
	return rung__fail(RUNG_E_NOMEM, "mutual edges: no memory for the %" PRIu64 " edges of a bin: take fewer threads", edges_max);
}

static uint64_t count_bits(const uint64_t *bits, uint64_t words)
{
	uint64_t count = 0;

#pragma omp parallel for reduction(+ : count) schedule(static)
	for (uint64_t i = 0; i < words; i++)
		count += (uint64_t)__builtin_popcountll(bits[i]);
	return count;
}

static uint64_t loop_count(const struct rung__spread *spread)
{
	uint64_t tiled = 0;

	for (uint64_t i = 0; i < spread->block_count; i++)
		tiled += rung__block_side_count(spread, &spread->blocks[i], RUNG__PLAIN);
	return spread->csc.edge_count - tiled;
}

/* From now on blocks have two sides. */
static int split_sides(struct rung__spread *spread)
{
	const uint64_t stride = spread->bin_count + UINT64_C(1);

	spread->mutual_starts = rung__malloc_array(spread->block_count * stride, sizeof(*spread->mutual_starts));
	if (!spread->mutual_starts)
		return rung__fail(RUNG_E_NOMEM, "mutual edges: no memory for the tiles of %" PRIu64 " blocks", spread->block_count);
	for (uint64_t i = 0; i < spread->block_count; i++) {
		struct rung__block *block = &spread->blocks[i];

		block->starts[RUNG__MUTUAL] = spread->mutual_starts + i * stride;
		block->mutual = spread->mutual + block->edge_first / 64;
		block->tiled = false;
	}
	spread->two_sided = true;
	return 0;
}

int rung__spread_mark_mutual(struct rung__spread *spread)
{
	const uint64_t words = spread->csc.edge_count / 64 + 1;
	uint64_t marked;
	int rc;

	spread->mutual = rung__zalloc_array(words, sizeof(*spread->mutual));
	if (!spread->mutual)
		return rung__fail(RUNG_E_NOMEM, "mutual edges: no memory for %" PRIu64 " bits", spread->csc.edge_count);
	rc = mark_bins(spread);
	if (rc < 0)
		return rc;
	spread->passes++;
	marked = count_bits(spread->mutual, words);
	spread->all_mutual = marked == spread->csc.edge_count - loop_count(spread);
	if (marked > 0 && !spread->all_mutual)
		return split_sides(spread);
	rung__free(spread->mutual);
	spread->mutual = NULL;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of edges, and their sorting into tiles: a stable counting sort by bin, of a block that the cache holds. */
#include <string.h>

#include "spread_internal.h"

void rung__block_cut(const struct rung__spread *spread, uint64_t vertex, uint64_t edge, struct rung__block *block)
{
	const uint64_t *indptr = spread->csc.indptr;
	const uint64_t vertices_max = RUNG__MIN(spread->csc.vertex_count - vertex, (uint64_t)RUNG__SPREAD_VERTICES_MAX);
	uint64_t count = 1;

	*block = (struct rung__block){ .vertex_first = vertex, .vertex_count = 1, .edge_first = edge, .indptr = indptr + vertex };
	if (indptr[vertex + 1] - edge > spread->block_edges) {   /* a part of one list */
		block->edge_count = spread->block_edges;
		return;
	}
	while (count < vertices_max && indptr[vertex + count + 1] - edge <= spread->block_edges)
		count++;
	block->vertex_count = (uint32_t)count;
	block->edge_count = (uint32_t)(indptr[vertex + count] - edge);
}

struct sorting {
	const struct rung__block *block;
	unsigned bin_bits;
	uint32_t bin_count;
	bool drop_loops;
	uint32_t *next;           /* [2 * bin_count] */
	uint32_t *pairs;          /* u in the low half, v in the high one: one store an edge, to one place of each bin */
};

static inline bool is_mutual(const struct sorting *s, uint64_t i)
{
	const uint64_t bit = s->block->edge_first % 64 + i;

	return s->block->mutual[bit / 64] >> (bit % 64) & 1;
}

/* Calls visit(s, v inside of the block, u, side) for every edge that counts; inlined, so that choices fall out of the loops. */
#define FOR_EACH_EDGE(s, index_bytes, two_sided, visit)                                                                        \
	do {                                                                                                                   \
		const struct rung__block *fe_block = (s)->block;                                                               \
		uint64_t fe_at = 0;                                                                                            \
		for (uint64_t fe_v = 0; fe_v < fe_block->vertex_count; fe_v++) {                                               \
			const uint64_t fe_end = RUNG__MIN(fe_block->indptr[fe_v + 1] - fe_block->edge_first,                   \
			                                  (uint64_t)fe_block->edge_count);                                     \
			for (; fe_at < fe_end; fe_at++) {                                                                      \
				const uint64_t fe_u = rung__id_get(fe_block->ids, index_bytes, fe_at);                              \
				if ((s)->drop_loops && fe_u == fe_block->vertex_first + fe_v)                                  \
					continue;                                                                              \
				visit(s, fe_v, fe_u, (two_sided) && is_mutual(s, fe_at));                                      \
			}                                                                                                      \
		}                                                                                                              \
	} while (0)

static inline __attribute__((always_inline)) void count_edge(const struct sorting *s, uint64_t v, uint64_t u, bool side)
{
	(void)v;
	s->next[(side ? s->bin_count : 0) + (u >> s->bin_bits)]++;
}

static inline __attribute__((always_inline)) void place_edge(const struct sorting *s, uint64_t v, uint64_t u, bool side)
{
	const uint32_t at = s->next[(side ? s->bin_count : 0) + (u >> s->bin_bits)]++;

	s->pairs[at] = (uint32_t)(u & ((UINT64_C(1) << s->bin_bits) - 1)) | (uint32_t)v << 16;
}

static void count_edges(const struct sorting *s, unsigned index_bytes)
{
	if (s->block->mutual && index_bytes == 4)
		FOR_EACH_EDGE(s, 4, true, count_edge);
	else if (s->block->mutual)
		FOR_EACH_EDGE(s, 8, true, count_edge);
	else if (index_bytes == 4)
		FOR_EACH_EDGE(s, 4, false, count_edge);
	else
		FOR_EACH_EDGE(s, 8, false, count_edge);
}

static void place_edges(const struct sorting *s, unsigned index_bytes)
{
	if (s->block->mutual && index_bytes == 4)
		FOR_EACH_EDGE(s, 4, true, place_edge);
	else if (s->block->mutual)
		FOR_EACH_EDGE(s, 8, true, place_edge);
	else if (index_bytes == 4)
		FOR_EACH_EDGE(s, 4, false, place_edge);
	else
		FOR_EACH_EDGE(s, 8, false, place_edge);
}

static void split_pairs(const struct rung__block *block, const uint32_t *pairs, uint32_t count)
{
	uint16_t *u = block->tiles, *v = block->tiles + block->edge_count;

	for (uint32_t i = 0; i < count; i++)
		u[i] = (uint16_t)pairs[i];
	for (uint32_t i = 0; i < count; i++)
		v[i] = (uint16_t)(pairs[i] >> 16);
}

void rung__block_tile(const struct rung__spread *spread, struct rung__block *block, const struct rung__spread_room *room)
{
	const unsigned index_bytes = spread->csc.index_bytes;
	const struct sorting s = {
		.block = block, .bin_bits = spread->bin_bits, .bin_count = spread->bin_count,
		.drop_loops = spread->opts.drop_loops, .next = room->next, .pairs = room->pairs,
	};
	uint32_t sum = 0;

	memset(s.next, 0, RUNG__SIDES * (size_t)s.bin_count * sizeof(*s.next));
	count_edges(&s, index_bytes);
	for (int side = 0; side < (block->mutual ? RUNG__SIDES : 1); side++) {
		for (uint32_t bin = 0; bin < s.bin_count; bin++) {
			uint32_t *next = &s.next[(uint64_t)side * s.bin_count + bin];
			const uint32_t here = *next;

			block->starts[side][bin] = sum;
			*next = sum;
			sum += here;
		}
		block->starts[side][s.bin_count] = sum;
	}
	place_edges(&s, index_bytes);
	split_pairs(block, s.pairs, sum);   /* the ids may lie where the tiles are to be: not before they are no longer needed */
	block->tiled = true;
}

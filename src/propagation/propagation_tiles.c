/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of edges, and their sorting into tiles: a stable counting sort by bin of one block, which
 * the cache holds. It is stable because the order of the graph within a tile determines the bits of
 * the sums.
 */
#include <string.h>

#include "propagation/minhash.h"
#include "propagation/state.h"

void rung__block_cut(const struct rung__propagation *prop, uint64_t vertex, uint64_t edge,
                     struct rung__block *block)
{
	const uint64_t *indptr = prop->csc.indptr;
	const uint64_t vertices_max = RUNG__MIN(prop->csc.vertex_count - vertex,
	                                        (uint64_t)RUNG__PROPAGATION_VERTICES_MAX);
	uint64_t count = 1;

	*block = (struct rung__block){ .vertex_first = vertex,
		                       .vertex_count = 1,
		                       .edge_first = edge,
		                       .indptr = indptr + vertex };
	/* the list is longer than a block, so the block is a part of it */
	if (indptr[vertex + 1] - edge > prop->block_edges) {
		block->edge_count = prop->block_edges;
		return;
	}
	while (count < vertices_max && indptr[vertex + count + 1] - edge <= prop->block_edges)
		count++;
	block->vertex_count = (uint32_t)count;
	block->edge_count = (uint32_t)(indptr[vertex + count] - edge);
}

/* The sort of one block. */
struct sorting {
	const struct rung__block *block;
	unsigned bin_bits;
	bool drop_loops;
	uint32_t *next; /* [bin_count] counts, then the next position of each bin */
	/* u in the lower half, v in the upper half, so that each edge takes a single store */
	uint32_t *pairs;
	uint32_t all_mark; /* mark of every u, unless the block has a bit for each edge */
};

/* The mark of a u by the bit of edge i. */
static inline uint32_t mark_of(const struct sorting *s, uint64_t i)
{
	const uint64_t bit = s->block->edge_first % 64 + i;

	return s->block->mutual[bit / 64] >> (bit % 64) & 1 ? RUNG__PROPAGATION_MUTUAL : 0;
}

/* Call visit(s, v relative to the block, u, mark) for every edge but self loops that are dropped. A
 * macro with constant arguments, so that the compiler removes the choices from the loops. */
#define FOR_EACH_EDGE(s, index_bytes, marked, visit)                                               \
	do {                                                                                       \
		const struct rung__block *fe_block = (s)->block;                                   \
		uint64_t fe_at = 0;                                                                \
		for (uint64_t fe_v = 0; fe_v < fe_block->vertex_count; fe_v++) {                   \
			const uint64_t fe_end =                                                    \
				RUNG__MIN(fe_block->indptr[fe_v + 1] - fe_block->edge_first,       \
			                  (uint64_t)fe_block->edge_count);                         \
			for (; fe_at < fe_end; fe_at++) {                                          \
				const uint64_t fe_u =                                              \
					rung__id_get(fe_block->ids, index_bytes, fe_at);           \
				if ((s)->drop_loops && fe_u == fe_block->vertex_first + fe_v)      \
					continue;                                                  \
				visit(s, fe_v, fe_u,                                               \
				      (marked) ? mark_of(s, fe_at) : (s)->all_mark);               \
			}                                                                          \
		}                                                                                  \
	} while (0)

static inline __attribute__((always_inline)) void count_edge(const struct sorting *s, uint64_t v,
                                                             uint64_t u, uint32_t mark)
{
	(void)v;
	(void)mark;
	s->next[u >> s->bin_bits]++;
}

static inline __attribute__((always_inline)) void place_edge(const struct sorting *s, uint64_t v,
                                                             uint64_t u, uint32_t mark)
{
	const uint32_t at = s->next[u >> s->bin_bits]++;

	s->pairs[at] =
		(uint32_t)(u & ((UINT64_C(1) << s->bin_bits) - 1)) | mark | (uint32_t)v << 16;
}

/* The number of edges in each bin. */
static void count_edges(const struct sorting *s, unsigned index_bytes)
{
	if (index_bytes == 4)
		FOR_EACH_EDGE(s, 4, false, count_edge);
	else
		FOR_EACH_EDGE(s, 8, false, count_edge);
}

/* Write each edge to the next position of its bin, with its mark. */
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

/* Divide the pairs into the arrays of u and v. Both are written in order, so this step is a
 * stream. */
static void write_tiles(const struct rung__block *block, const uint32_t *pairs, uint32_t count)
{
	uint16_t *u = block->tiles, *v = u + block->edge_count;

	for (uint32_t i = 0; i < count; i++)
		u[i] = (uint16_t)pairs[i];
	for (uint32_t i = 0; i < count; i++)
		v[i] = (uint16_t)(pairs[i] >> 16);
}

/* Mark the pairs of a bin whose ends have signatures with a common value. Bin by bin, because the
 * signatures of its u are then cached. */
static void mark_records(const struct rung__propagation *prop, const struct rung__block *block,
                         uint32_t bin, uint32_t *pairs, uint32_t begin, uint32_t end)
{
	const uint32_t *of_u = prop->signatures_u + ((uint64_t)bin << prop->bin_bits),
		       *of_v = prop->signatures_v + block->vertex_first;

	for (uint32_t i = begin; i < end; i++) {
		const uint32_t u = pairs[i] & RUNG__PROPAGATION_VERTEX, v = pairs[i] >> 16;

		pairs[i] |= rung__minhash_agree(of_u[u], of_v[v]) ? RUNG__PROPAGATION_RECORD : 0;
	}
}

/*
 * Separate the pairs of a bin: plain ones go to the tiles from `at` on, records to the front of the
 * array of pairs, to entries that have been read already. Each pair is written to both
 * destinations, and only the right position advances, because a branch would be unpredictable.
 * @return position after the last plain edge
 */
static uint32_t write_plain(const struct rung__block *block, uint32_t *pairs, uint32_t begin,
                            uint32_t end, uint32_t at, uint32_t *record_count)
{
	uint16_t *u = block->tiles, *v = u + block->edge_count;
	uint32_t records = *record_count;

	for (uint32_t i = begin; i < end; i++) {
		const uint32_t pair = pairs[i];
		const bool record =
			(pair & (RUNG__PROPAGATION_MUTUAL | RUNG__PROPAGATION_RECORD)) != 0;

		u[at] = (uint16_t)pair;
		v[at] = (uint16_t)(pair >> 16);
		pairs[records] = pair;
		at += !record;
		records += record;
	}
	*record_count = records;
	return at;
}

/* Write the records of a bin, first those that are not mutual. @return position after them */
static uint32_t write_records(const struct rung__block *block, const uint32_t *pairs,
                              uint32_t begin, uint32_t end, uint32_t at)
{
	uint16_t *u = block->tiles, *v = u + block->edge_count;

	for (uint32_t mutual = 0; mutual <= RUNG__PROPAGATION_MUTUAL;
	     mutual += RUNG__PROPAGATION_MUTUAL) {
		for (uint32_t i = begin; i < end; i++) {
			if ((pairs[i] & RUNG__PROPAGATION_MUTUAL) != mutual)
				continue;
			u[at] = (uint16_t)(pairs[i] & ~RUNG__PROPAGATION_RECORD);
			v[at++] = (uint16_t)(pairs[i] >> 16);
		}
	}
	return at;
}

/* Write tiles with two sides from the marked pairs in the scratch memory: all plain edges, then all
 * records. starts[RUNG__PLAIN] has the bins of a block with one side, and is replaced. */
static void write_sides(const struct rung__propagation *prop, const struct rung__block *block,
                        const struct rung__propagation_scratch *scratch)
{
	const uint32_t bin_count = prop->bin_count;
	uint32_t *plain = block->starts[RUNG__PLAIN], *records = block->starts[RUNG__RECORDS],
		 at = 0, record_count = 0, begin = 0;

	for (uint32_t bin = 0; bin < bin_count; bin++) {
		const uint32_t end = plain[bin + 1];

		plain[bin] = at;
		records[bin] = record_count;
		at = write_plain(block, scratch->pairs, begin, end, at, &record_count);
		begin = end;
	}
	plain[bin_count] = at;
	records[bin_count] = record_count;
	begin = 0;
	for (uint32_t bin = 0; bin < bin_count; bin++) {
		const uint32_t end = records[bin + 1];

		records[bin] = at;
		at = write_records(block, scratch->pairs, begin, end, at);
		begin = end;
	}
	records[bin_count] = at;
}

void rung__block_tile(const struct rung__propagation *prop, struct rung__block *block,
                      const struct rung__propagation_scratch *scratch)
{
	const unsigned index_bytes = prop->csc.index_bytes;
	const struct sorting s = {
		.block = block,
		.bin_bits = prop->bin_bits,
		.drop_loops = prop->opts.drop_loops,
		.next = scratch->next,
		.pairs = scratch->pairs,
		.all_mark = prop->all_mutual ? RUNG__PROPAGATION_MUTUAL : 0,
	};
	uint32_t *starts = block->starts[RUNG__PLAIN], sum = 0;

	memset(s.next, 0, prop->bin_count * sizeof(*s.next));
	count_edges(&s, index_bytes);
	for (uint32_t bin = 0; bin < prop->bin_count; bin++) {
		const uint32_t here = s.next[bin];

		starts[bin] = s.next[bin] = sum;
		sum += here;
	}
	starts[prop->bin_count] = sum;
	place_edges(&s, index_bytes);
	/* The ids can share their memory with the tiles, so tiles are written only after the last
	 * use of the ids. */
	for (uint32_t bin = 0; prop->two_sided && prop->signatures_u && bin < prop->bin_count;
	     bin++)
		mark_records(prop, block, bin, s.pairs, starts[bin], starts[bin + 1]);
	if (prop->two_sided)
		write_sides(prop, block, scratch);
	else
		write_tiles(block, s.pairs, sum);
	block->tiled = true;
}

void rung__block_split(const struct rung__propagation *prop, const struct rung__block *block,
                       const struct rung__propagation_scratch *scratch)
{
	const uint16_t *u = block->tiles, *v = u + block->edge_count;
	const uint32_t count = block->starts[RUNG__PLAIN][prop->bin_count];

	for (uint32_t i = 0; i < count; i++)
		scratch->pairs[i] = (uint32_t)u[i] | (uint32_t)v[i] << 16;
	write_sides(prop, block, scratch);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A panel of blocks: first the value of each edge is written, block by block; then the values are
 * added, bin by bin. Threads share the blocks, and then the bins, so no two threads write to the
 * same sums and no atomic operation is needed.
 */
#include <string.h>

#include "propagation/propagation_files.h"
#include "gather/copy.h"
#include "propagation/state.h"

/* cache lines of the next tile, prefetched while one is added; the hardware prefetcher continues in
 * longer tiles */
#define AHEAD_LINES_MAX 64u

/* Each side begins at a cache line, as non-temporal stores require. */
static uint64_t whole_lines(uint64_t floats)
{
	return rung__align_up(floats, RUNG__LINE_FLOATS);
}

uint64_t rung__block_values_max(const struct rung__propagation_rule *rule,
                                const struct rung__block *block)
{
	return whole_lines(block->edge_count) +
	       whole_lines((uint64_t)block->edge_count * rule->width);
}

/* Write a cache line with stores that bypass the caches: it is read only after all blocks of the
 * panel were written. */
static inline void stream_line(float *to, const float line[RUNG__LINE_FLOATS])
{
#if RUNG__HAVE_STREAM
	for (unsigned i = 0; i < RUNG__LINE_FLOATS; i += 4)
		_mm_stream_ps(to + i, _mm_load_ps(line + i));
#else
	memcpy(to, line, RUNG__LINE_FLOATS * sizeof(*line));
#endif
}

/* values[i] = messages[v[i]] */
static void write_values(const float *messages, const uint16_t *v, uint64_t count, float *values)
{
	uint64_t i = 0;

	for (; i + RUNG__LINE_FLOATS <= count; i += RUNG__LINE_FLOATS) {
		float line[RUNG__LINE_FLOATS] __attribute__((aligned(64)));

		for (unsigned k = 0; k < RUNG__LINE_FLOATS; k++)
			line[k] = messages[v[i + k]];
		stream_line(values + i, line);
	}
	for (; i < count; i++)
		values[i] = messages[v[i]];
}

/* Each value is a record: values[i * width ..] = records[v[i] * width ..] */
static void write_records(const float *records, uint32_t width, const uint16_t *v, uint64_t count,
                          float *values)
{
	for (uint64_t i = 0; i < count; i++)
		memcpy(values + i * width, records + (uint64_t)v[i] * width,
		       width * sizeof(*values));
}

/* Whether a side sends records under a rule, or single values. If all edges are mutual, there is
 * only one side, which sends records. */
static bool uses_records(const struct rung__propagation *prop,
                         const struct rung__propagation_rule *rule, int side)
{
	return rule->width > 0 && (side == RUNG__RECORDS || prop->all_mutual);
}

/* Write the values of a block's edges. The values of its vertices are calculated once per side into
 * the thread's buffer, and copied to each edge. */
static void run_block(struct rung__propagation *prop, const struct rung__propagation_rule *rule,
                      struct rung__block *block, const struct rung__propagation_scratch *scratch)
{
	float *values = prop->values + block->value_at;

	if (!block->tiled)
		rung__block_tile(prop, block, scratch);
	for (int side = 0; side < RUNG__SIDES; side++) {
		const uint32_t count = rung__block_side_count(prop, block, side);
		const uint16_t *v =
			block->tiles + block->edge_count + (count ? block->starts[side][0] : 0);

		if (count == 0)
			continue;
		if (uses_records(prop, rule, side)) {
			rule->send_records(rule->ctx, block->vertex_first, block->vertex_count,
			                   block->indptr, scratch->messages);
			write_records(scratch->messages, rule->width, v, count, values);
		} else {
			rule->send(rule->ctx, block->vertex_first, block->vertex_count,
			           block->indptr, scratch->messages);
			write_values(scratch->messages, v, count, values);
		}
		values += whole_lines(count);
	}
	/* the barrier, after which other threads read the values, does not order non-temporal
	 * stores */
	rung__copy_fence();
}

/* The tile of a block, a side and a bin; empty for a side that the block does not have. */
static struct rung__propagation_tile tile_of(const struct rung__propagation *prop,
                                             const struct rung__propagation_rule *rule,
                                             const struct rung__block *block, int side,
                                             uint32_t bin)
{
	const uint32_t *starts = block->starts[side];
	struct rung__propagation_tile tile = { .u_first = (uint64_t)bin << prop->bin_bits,
		                               .v_first = block->vertex_first };
	const float *values = prop->values + block->value_at;
	const uint32_t width = uses_records(prop, rule, side) ? rule->width : 1;

	if (side == RUNG__RECORDS && !prop->two_sided)
		return tile;
	if (side == RUNG__RECORDS)
		values += whole_lines(rung__block_side_count(prop, block, RUNG__PLAIN));
	tile.u = block->tiles + starts[bin];
	tile.v = tile.u + block->edge_count;
	tile.values = values + (uint64_t)(starts[bin] - starts[0]) * width;
	tile.count = starts[bin + 1] - starts[bin];
	return tile;
}

/* Prefetch the beginning of a tile's array. */
static void fetch(const void *from, uint64_t bytes)
{
	const char *at = from;
	const uint64_t lines = RUNG__MIN((bytes + 63) / 64, (uint64_t)AHEAD_LINES_MAX);

	for (uint64_t i = 0; i < lines; i++)
		__builtin_prefetch(at + 64 * i);
}

static void add_values(const struct rung__propagation_tile *tile, double *sums)
{
	const uint16_t *u = tile->u;
	const float *values = tile->values;

	for (uint64_t i = 0; i < tile->count; i++)
		sums[u[i]] += (double)values[i];
}

/* Add a tile to the sums of its bin, by the function that the rule has for it. */
static void add_tile(const struct rung__propagation_rule *rule,
                     const struct rung__propagation_tile *tile, bool records, double *sums)
{
	if (tile->count == 0)
		return;
	if (records)
		rule->combine(rule->ctx, tile, sums);
	else if (rule->add)
		rule->add(rule->ctx, tile, sums);
	else
		add_values(tile, sums);
}

/*
 * Add all tiles of a bin in the order of the blocks, and the records of each block last, because
 * the order determines the bits of the sums. The next tile is prefetched, because tiles are short
 * and each begins at another place in memory.
 */
static void run_bin(const struct rung__propagation *prop, const struct rung__propagation_rule *rule,
                    const struct rung__block *blocks, uint64_t block_count, uint32_t bin)
{
	const uint64_t first = (uint64_t)bin << prop->bin_bits;
	double *sums = prop->sums + first;
	struct rung__propagation_tile next = tile_of(prop, rule, &blocks[0], RUNG__PLAIN, bin);

	for (uint64_t i = 0; i < RUNG__SIDES * block_count; i++) {
		const struct rung__propagation_tile tile = next;
		const bool records = uses_records(prop, rule, i % RUNG__SIDES);

		if (i + 1 < RUNG__SIDES * block_count) {
			const int side = (i + 1) % RUNG__SIDES;

			next = tile_of(prop, rule, &blocks[(i + 1) / RUNG__SIDES], side, bin);
			fetch(next.u, next.count * sizeof(*next.u));
			fetch(next.values,
			      next.count * (uses_records(prop, rule, side) ? rule->width : 1) *
			              sizeof(*next.values));
		}
		add_tile(rule, &tile, records, sums);
	}
}

void rung__panel_run(struct rung__propagation *prop, const struct rung__propagation_rule *rule,
                     struct rung__block *blocks, uint64_t block_count, bool first, bool last)
{
	uint64_t value_at = 0;

	for (uint64_t i = 0; i < block_count; i++) {
		/* from the upper bounds, because blocks are tiled only later, and their sides are
		 * unknown until then */
		blocks[i].value_at = value_at;
		value_at += rung__block_values_max(rule, &blocks[i]);
	}
#pragma omp parallel num_threads(prop->opts.threads)
	{
		const struct rung__propagation_scratch *scratch =
			&prop->scratch_list[rung__thread_number()];

#pragma omp for schedule(dynamic, 1)
		for (uint64_t i = 0; i < block_count; i++)
			run_block(prop, rule, &blocks[i], scratch);
#pragma omp for schedule(dynamic, 1)
		for (uint32_t bin = 0; bin < prop->bin_count; bin++) {
			const uint64_t begin = (uint64_t)bin << prop->bin_bits;
			const uint64_t count = RUNG__MIN(UINT64_C(1) << prop->bin_bits,
			                                 prop->source_count - begin);

			if (first && !rule->keeps_sums)
				memset(prop->sums + begin, 0, count * sizeof(*prop->sums));
			if (block_count)
				run_bin(prop, rule, blocks, block_count, bin);
			if (last && rule->receive)
				prop->bin_results[bin] =
					rule->receive(rule->ctx, begin, count, prop->sums + begin);
		}
	}
}

void rung__propagation_send_panel(struct rung__propagation *prop)
{
	rung__unmap_pages(prop->tiles, prop->tile_bytes);
	rung__unmap_pages(prop->values, prop->values_max * sizeof(*prop->values));
	prop->tiles = NULL;
	prop->values = NULL;
}

int rung__propagation_receive_panel(struct rung__propagation *prop)
{
	const uint64_t tile_bytes = (uint64_t)prop->block_edges * prop->csc.index_bytes;

	prop->tile_bytes = prop->block_count * tile_bytes;
	prop->tiles = rung__map_pages(prop->tile_bytes);
	prop->values = rung__map_pages(prop->values_max * sizeof(*prop->values));
	if (!prop->tiles || !prop->values)
		return rung__fail(RUNG_E_NOMEM,
		                  "score: no memory for %" PRIu64
		                  " blocks of edges; give a smaller memory budget",
		                  prop->block_count);
	for (uint64_t i = 0; i < prop->block_count; i++) {
		struct rung__block *block = &prop->blocks[i];

		/* 4 or 8 bytes per edge: the ids, which a tile of two 16-bit numbers per edge
		 * replaces */
		block->tiles = prop->tiles + i * (tile_bytes / sizeof(*prop->tiles));
		block->ids = block->tiles;
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gather on the CPU.
 *
 * Its floor is the memory: rows lie in random places, so each begins with cache misses, and the copy is row_bytes read and written.
 * The loop asks for the lines of a later row while it copies this one. One loop is compiled for each width of id and map.
 */
#include <string.h>

#include "gather.h"

#define AHEAD 8u               /* rows; about what one core's line-fill buffers take at 2 lines a row */
#define PREFETCH_BYTES 512u    /* of a row: behind that the hardware prefetcher has caught on */

enum map_kind { MAP_NONE, MAP_32, MAP_64 };

static inline uint64_t id_at(const void *ids, enum rung_dtype dtype, uint64_t i)
{
	switch (dtype) {
	case RUNG_I32: return (uint64_t)(int64_t)((const int32_t *)ids)[i];   /* negative: far out of range */
	case RUNG_U32: return ((const uint32_t *)ids)[i];
	default: return ((const uint64_t *)ids)[i];
	}
}

static inline uint64_t rank_at(const struct rung__gather *g, enum map_kind map, uint64_t id)
{
	switch (map) {
	case MAP_32: return ((const uint32_t *)g->rank_of_vertex)[id];
	case MAP_64: return ((const uint64_t *)g->rank_of_vertex)[id];
	default: return id;
	}
}

static inline void prefetch_row(const struct rung__gather *g, uint64_t slot)
{
	const unsigned char *row = g->view->base + slot * g->view->stride;
	size_t bytes = RUNG__MIN(g->row_bytes, PREFETCH_BYTES);

	for (size_t at = 0; at < bytes; at += 64)
		__builtin_prefetch(row + at, 0, 0);
}

static int out_of_range(const struct rung__gather *g, const struct rung_ids *ids, uint64_t i, uint64_t id)
{
	i += g->index_first;
	if (ids->dtype == RUNG_I32 || ids->dtype == RUNG_I64)
		return rung__fail(RUNG_E_RANGE, "gather: id %" PRId64 " at index %" PRIu64 " is not in 0..%" PRIu64, (int64_t)id, i,
		                  g->vertex_count - 1);
	return rung__fail(RUNG_E_RANGE, "gather: id %" PRIu64 " at index %" PRIu64 " is not in 0..%" PRIu64, id, i, g->vertex_count - 1);
}

__attribute__((always_inline)) static inline int gather_loop(const struct rung__gather *g, const struct rung_ids *ids,
                                                             struct rung__misses *misses, enum rung_dtype dtype, enum map_kind map)
{
	uint64_t rank_first = g->view->rank_first;
	uint64_t held = g->view->row_count;
	uint64_t missed = 0;

	for (uint64_t i = 0; i < ids->count; i++) {
		uint64_t id = id_at(ids->data, dtype, i);
		uint64_t rank, slot;

		if (i + AHEAD < ids->count) {
			uint64_t later = id_at(ids->data, dtype, i + AHEAD);

			/* through a map the later rank is not known without its own cache miss */
			if (map == MAP_NONE && later - rank_first < held)
				prefetch_row(g, later - rank_first);
			else if (map != MAP_NONE && later < g->vertex_count)
				__builtin_prefetch((const char *)g->rank_of_vertex + later * (map == MAP_32 ? 4 : 8), 0, 0);
		}
		if (id >= g->vertex_count)
			return out_of_range(g, ids, i, id);
		rank = rank_at(g, map, id);
		slot = rank - rank_first;
		if (slot < held) {
			memcpy(g->out + i * g->out_stride, g->view->base + slot * g->view->stride, g->row_bytes);
		} else {
			misses->ranks[missed] = rank;
			misses->rows[missed++] = (uint32_t)i;
		}
	}
	misses->count = missed;
	return 0;
}

#define LOOPS(g, ids, misses, dtype)                                              \
	((g)->rank_of_vertex == NULL ? gather_loop(g, ids, misses, dtype, MAP_NONE) \
	 : (g)->map_bytes == 4       ? gather_loop(g, ids, misses, dtype, MAP_32)   \
	                             : gather_loop(g, ids, misses, dtype, MAP_64))

int rung__gather_run(const struct rung__gather *g, const struct rung_ids *ids, struct rung__misses *misses)
{
	switch (ids->dtype) {
	case RUNG_I32: return LOOPS(g, ids, misses, RUNG_I32);
	case RUNG_U32: return LOOPS(g, ids, misses, RUNG_U32);
	case RUNG_I64:
	case RUNG_U64: return LOOPS(g, ids, misses, RUNG_U64);
	default:
		return rung__fail(RUNG_E_INVAL, "gather: ids of dtype %s: give i32, u32, i64 or u64", rung_dtype_name(ids->dtype));
	}
}

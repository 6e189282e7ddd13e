/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gather on the CPU.
 *
 * Its floor is the memory: rows lie in random places, so each begins with cache misses, and the copy is row_bytes read and written.
 * The loop asks for the lines of a later row while it copies this one, and an output that is too large for the caches is written past
 * them. One loop is compiled for each width of id and map, and way to copy.
 */
#include <string.h>

#include "copy.h"
#include "gather.h"

/* Measured with bench/gather_hits.py: distances of 4 to 16 rows are alike for wide rows, of narrow ones 16 are best. */
#define AHEAD 16u              /* rows */
#define PREFETCH_BYTES 512u    /* of a row: behind that the hardware prefetcher has caught on */
#define LINE_BYTES 64u

enum map_kind { MAP_NONE, MAP_32, MAP_64 };

static inline uint64_t rank_at(const struct rung__gather *g, enum map_kind map, uint64_t id)
{
	switch (map) {
	case MAP_32: return ((const uint32_t *)g->rank_of_vertex)[id];
	case MAP_64: return ((const uint64_t *)g->rank_of_vertex)[id];
	default: return id;
	}
}

/*
 * Ask for what row i of the list will need, if there is such a row; its rank has been asked for before. Always inline: gcc takes a function
 * that only prefetches for one without an effect, and leaves its calls out.
 */
__attribute__((always_inline)) static inline void prefetch_row(const struct rung__gather *g, const struct rung__view *view,
                                                               const struct rung_ids *ids, uint64_t i, enum rung_dtype dtype,
                                                               enum map_kind map)
{
	uint64_t id = i < ids->count ? rung__gather_id(ids->data, dtype, i) : UINT64_MAX;
	uint64_t slot = id < g->vertex_count ? rank_at(g, map, id) - view->rank_first : UINT64_MAX;
	const unsigned char *row = view->base + slot * view->stride;

	if (slot >= view->row_count)
		return;
	if (g->row_bytes >= PREFETCH_BYTES) {   /* a number that the compiler knows: no loop is left */
		for (size_t at = 0; at < PREFETCH_BYTES; at += LINE_BYTES)
			__builtin_prefetch(row + at, 0, 0);
	} else {
		for (size_t at = 0; at < g->row_bytes; at += LINE_BYTES)
			__builtin_prefetch(row + at, 0, 0);
	}
}

__attribute__((always_inline)) static inline void prefetch_rank(const struct rung__gather *g, const struct rung_ids *ids, uint64_t i,
                                                                enum rung_dtype dtype, enum map_kind map)
{
	if (map != MAP_NONE && i < ids->count && rung__gather_id(ids->data, dtype, i) < g->vertex_count)
		__builtin_prefetch((const char *)g->rank_of_vertex + rung__gather_id(ids->data, dtype, i) * (map == MAP_32 ? 4 : 8), 0, 0);
}

static int out_of_range(const struct rung__gather *g, const struct rung_ids *ids, uint64_t i, uint64_t id)
{
	i += g->index_first;
	if (ids->dtype == RUNG_I32 || ids->dtype == RUNG_I64)
		return rung__fail(RUNG_E_RANGE, "gather: id %" PRId64 " at index %" PRIu64 " is not in 0..%" PRIu64, (int64_t)id, i,
		                  g->vertex_count - 1);
	return rung__fail(RUNG_E_RANGE, "gather: id %" PRIu64 " at index %" PRIu64 " is not in 0..%" PRIu64, id, i, g->vertex_count - 1);
}

typedef void (*copy_fn)(unsigned char *to, const unsigned char *from, size_t bytes);

static inline void copy_cached(unsigned char *to, const unsigned char *from, size_t bytes)
{
	memcpy(to, from, bytes);
}

__attribute__((always_inline)) static inline int gather_loop(const struct rung__gather *gather, const struct rung_ids *list, copy_fn copy,
                                                             struct rung__misses *misses, enum rung_dtype dtype, enum map_kind map)
{
	/* of our own, so that the rows written cannot be taken for changes of them */
	const struct rung__gather g = *gather;
	const struct rung__view view = *g.view;
	const struct rung_ids ids = *list;
	uint64_t missed = 0;

	for (uint64_t i = 0; i < ids.count; i++) {
		uint64_t id = rung__gather_id(ids.data, dtype, i);
		uint64_t rank, slot;

		prefetch_rank(&g, &ids, i + 2 * AHEAD, dtype, map);
		prefetch_row(&g, &view, &ids, i + AHEAD, dtype, map);
		if (id >= g.vertex_count)
			return out_of_range(gather, list, i, id);
		rank = rank_at(&g, map, id);
		slot = rank - view.rank_first;
		if (slot < view.row_count) {
			copy(g.out + i * g.out_stride, view.base + slot * view.stride, g.row_bytes);
		} else {
			misses->ranks[missed] = rank;
			misses->rows[missed++] = (uint32_t)i;
		}
	}
	misses->count = missed;
	return 0;
}

#define LOOPS(g, ids, copy, misses, dtype)                                              \
	((g)->rank_of_vertex == NULL ? gather_loop(g, ids, copy, misses, dtype, MAP_NONE) \
	 : (g)->map_bytes == 4       ? gather_loop(g, ids, copy, misses, dtype, MAP_32)   \
	                             : gather_loop(g, ids, copy, misses, dtype, MAP_64))

__attribute__((always_inline)) static inline int gather_ids(const struct rung__gather *g, const struct rung_ids *ids, copy_fn copy,
                                                            struct rung__misses *misses)
{
	switch (ids->dtype) {
	case RUNG_I32: return LOOPS(g, ids, copy, misses, RUNG_I32);
	case RUNG_U32: return LOOPS(g, ids, copy, misses, RUNG_U32);
	case RUNG_I64:
	case RUNG_U64: return LOOPS(g, ids, copy, misses, RUNG_U64);
	default:
		return rung__fail(RUNG_E_INVAL, "gather: ids of dtype %s: give i32, u32, i64 or u64", rung_dtype_name(ids->dtype));
	}
}

#if RUNG__HAVE_STREAM
__attribute__((target("avx"))) static int gather_streamed(const struct rung__gather *g, const struct rung_ids *ids, struct rung__misses *misses)
{
	int rc = gather_ids(g, ids, rung__copy_streamed, misses);

	rung__copy_fence();
	return rc;
}
#endif

int rung__gather_run(const struct rung__gather *g, const struct rung_ids *ids, struct rung__misses *misses)
{
#if RUNG__HAVE_STREAM
	if (rung__streams(g->out, g->out_stride, ids->count * g->row_bytes))
		return gather_streamed(g, ids, misses);
#endif
	return gather_ids(g, ids, copy_cached, misses);
}

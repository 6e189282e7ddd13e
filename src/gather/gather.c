/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gather on the CPU.
 *
 * It is bound by memory: rows are at random positions, so each begins with cache misses, and the
 * copy reads and writes row_bytes. The loop prefetches the lines of a later row while it copies the
 * present one, and uses streaming stores for outputs that are too large for the caches (copy.h).
 * One loop is compiled for each width of ids and map and each way of copying.
 */
#include <string.h>

#include "gather/copy.h"
#include "gather/gather.h"

/* Distance of the prefetch without blocks, in rows. Measured with bench/gather_hits.py: distances
 * of 4 to 16 rows perform alike for wide rows; 16 is best for narrow ones. */
#define AHEAD 16u
/*
 * When rows are copied in blocks, each block prefetches one block of a later row into the
 * second-level cache, where pending lines do not use up the few fill buffers of the first level.
 * Measured: 1.2 to 2 times as fast as 16 rows into the first level, with and without streaming
 * stores (gather_hits.py; rung bench --host max --ids uniform --batch 256 to 4096). The caches
 * decide the distance (copy.h).
 */
#define PREFETCH_BYTES 512u /* first bytes of a row; the hardware prefetcher continues after them */
#define LINE_BYTES     64u

/* Width of the entries of the map. It is a constant in each compiled loop, so that the loop has no
 * branch for it. */
enum map_kind { MAP_NONE, MAP_32, MAP_64 };

static inline uint64_t rank_at(const struct rung__gather *g, enum map_kind map, uint64_t id)
{
	switch (map) {
	case MAP_32:
		return ((const uint32_t *)g->rank_of_vertex)[id];
	case MAP_64:
		return ((const uint64_t *)g->rank_of_vertex)[id];
	default:
		return id;
	}
}

/* The memory of row i of the list; NULL beyond the end, for an id out of range, or if the view does
 * not contain it. The entry of the map has been prefetched by an earlier iteration. */
__attribute__((always_inline)) static inline const unsigned char *row_at(
	const struct rung__gather *g, const struct rung__view *view, const struct rung_ids *ids,
	uint64_t i, enum rung_dtype dtype, enum map_kind map)
{
	uint64_t id = i < ids->count ? rung__gather_id(ids->data, dtype, i) : UINT64_MAX;
	uint64_t slot = id < g->vertex_count ? rank_at(g, map, id) - view->rank_first : UINT64_MAX;

	return slot < view->row_count ? view->base + slot * view->stride : NULL;
}

/* Prefetch a row. Always inline: gcc considers a function that only prefetches to have no effect,
 * and removes the calls. */
__attribute__((always_inline)) static inline void prefetch_row(const struct rung__gather *g,
                                                               const unsigned char *row)
{
	if (!row)
		return;
	/* wide rows: the number of lines is a constant, so the loop is unrolled */
	if (g->row_bytes >= PREFETCH_BYTES) {
		for (size_t at = 0; at < PREFETCH_BYTES; at += LINE_BYTES)
			__builtin_prefetch(row + at, 0, 0);
	} else {
		for (size_t at = 0; at < g->row_bytes; at += LINE_BYTES)
			__builtin_prefetch(row + at, 0, 0);
	}
}

/* Prefetch the entry of the map for id i, which is needed before the row can be prefetched. */
__attribute__((always_inline)) static inline void prefetch_rank(const struct rung__gather *g,
                                                                const struct rung_ids *ids,
                                                                uint64_t i, enum rung_dtype dtype,
                                                                enum map_kind map)
{
	if (map != MAP_NONE && i < ids->count &&
	    rung__gather_id(ids->data, dtype, i) < g->vertex_count)
		__builtin_prefetch((const char *)g->rank_of_vertex +
		                           rung__gather_id(ids->data, dtype, i) *
		                                   (map == MAP_32 ? 4 : 8),
		                   0, 0);
}

int rung__gather_outside(enum rung_dtype dtype, uint64_t id, uint64_t index, uint64_t vertex_count)
{
	if (dtype == RUNG_I32 || dtype == RUNG_I64)
		return rung__fail(RUNG_E_RANGE,
		                  "gather: id %" PRId64 " at index %" PRIu64
		                  " is not in 0..%" PRIu64,
		                  (int64_t)id, index, vertex_count - 1);
	return rung__fail(RUNG_E_RANGE,
	                  "gather: id %" PRIu64 " at index %" PRIu64 " is not in 0..%" PRIu64, id,
	                  index, vertex_count - 1);
}

/* Ways in which a loop copies rows and prefetches later ones: memcpy(), blocks, or blocks with
 * streaming stores; or rows are decoded, with or without such stores. */
enum way { PLAIN, BLOCKS, STREAMED, DECODED, DECODED_STREAMED };

/* Copy a row. later: the row to prefetch while this one is copied. */
__attribute__((always_inline)) static inline void copy_row(enum way way, unsigned char *to,
                                                           const unsigned char *from, size_t bytes,
                                                           const unsigned char *later)
{
#if RUNG__HAVE_STREAM
	if (way != PLAIN) {
		rung__copy_ahead(way == STREAMED, to, from, bytes, later);
		return;
	}
#endif
	(void)way;
	(void)later;
	memcpy(to, from, bytes);
}

/* The gather. Callers pass constants for `way`, `dtype` and `map`, which gives one loop for each
 * combination. */
__attribute__((always_inline)) static inline int gather_loop(
	const struct rung__gather *gather, const struct rung_ids *list, enum way way,
	uint64_t ahead, struct rung__misses *misses, enum rung_dtype dtype, enum map_kind map)
{
	/* local copies, which the written rows cannot alias, so they are not loaded again */
	const struct rung__gather g = *gather;
	const struct rung__view view = *g.view;
	const struct rung_ids ids = *list;
	uint64_t missed = 0;

	for (uint64_t i = 0; i < ids.count; i++) {
		uint64_t id = rung__gather_id(ids.data, dtype, i);
		const unsigned char *later = row_at(&g, &view, &ids, i + ahead, dtype, map);
		uint64_t rank, slot;

		/* prefetched earlier than the row, which can be prefetched only when the map's
		 * entry is cached */
		prefetch_rank(&g, &ids, i + ahead + AHEAD, dtype, map);
		if (way == PLAIN)
			prefetch_row(&g, later);
		if (id >= g.vertex_count)
			return rung__gather_outside(list->dtype, id, i + gather->index_first,
			                            g.vertex_count);
		rank = rank_at(&g, map, id);
		/* ranks below rank_first wrap to large slots, so one comparison is enough */
		slot = rank - view.rank_first;
		if (slot < view.row_count) {
			const unsigned char *row = view.base + slot * view.stride;

			/* without a later row the present one is prefetched, so that the copy needs
			 * no branch */
			if (way >= DECODED)
				g.form->decode(g.form, g.out + i * g.out_stride, row,
				               way == DECODED_STREAMED, later ? later : row);
			else
				copy_row(way, g.out + i * g.out_stride, row, g.row_bytes,
				         later ? later : row);
		} else {
			misses->ranks[missed] = rank;
			misses->rows[missed++] = (uint32_t)i;
		}
	}
	misses->count = missed;
	return 0;
}

#define LOOPS(g, ids, way, ahead, misses, dtype)                                                   \
	((g)->rank_of_vertex == NULL ? gather_loop(g, ids, way, ahead, misses, dtype, MAP_NONE)    \
	 : (g)->map_bytes == 4       ? gather_loop(g, ids, way, ahead, misses, dtype, MAP_32)      \
	                             : gather_loop(g, ids, way, ahead, misses, dtype, MAP_64))

__attribute__((always_inline)) static inline int gather_ids(const struct rung__gather *g,
                                                            const struct rung_ids *ids,
                                                            enum way way, uint64_t ahead,
                                                            struct rung__misses *misses)
{
	switch (ids->dtype) {
	case RUNG_I32:
		return LOOPS(g, ids, way, ahead, misses, RUNG_I32);
	case RUNG_U32:
		return LOOPS(g, ids, way, ahead, misses, RUNG_U32);
	case RUNG_I64: /* a negative id is out of range as an unsigned one */
	case RUNG_U64:
		return LOOPS(g, ids, way, ahead, misses, RUNG_U64);
	default:
		return rung__fail(RUNG_E_INVAL,
		                  "gather: ids have dtype %s; use i32, u32, i64 or u64",
		                  rung_dtype_name(ids->dtype));
	}
}

#if RUNG__HAVE_STREAM
__attribute__((target("avx"))) static int gather_blocks(const struct rung__gather *g,
                                                        const struct rung_ids *ids, uint64_t ahead,
                                                        struct rung__misses *misses)
{
	return gather_ids(g, ids, BLOCKS, ahead, misses);
}

__attribute__((target("avx"))) static int gather_streamed(const struct rung__gather *g,
                                                          const struct rung_ids *ids,
                                                          uint64_t ahead,
                                                          struct rung__misses *misses)
{
	int rc = gather_ids(g, ids, STREAMED, ahead, misses);

	/* must come before the caller, or a thread that it wakes, reads the rows */
	rung__copy_fence();
	return rc;
}
#endif

static int gather_decoded(const struct rung__gather *g, const struct rung_ids *ids,
                          struct rung__misses *misses)
{
	const struct rung__copy_choice choice =
		rung__copy_choose(&rung__caches, ids->count * g->form->out_bytes,
	                          g->view->row_count * g->view->stride, g->row_bytes);
	int rc;

	if (!choice.streams || !rung__can_stream(g->out, g->out_stride))
		return gather_ids(g, ids, DECODED, choice.ahead_rows, misses);
	rc = gather_ids(g, ids, DECODED_STREAMED, choice.ahead_rows, misses);
	rung__copy_fence();
	return rc;
}

static int gather_part(const struct rung__gather *g, const struct rung_ids *ids,
                       struct rung__misses *misses)
{
	if (g->form)
		return gather_decoded(g, ids, misses);
#if RUNG__HAVE_STREAM
	if (g->row_bytes >= RUNG__COPY_BLOCK && __builtin_cpu_supports("avx")) {
		const struct rung__copy_choice choice =
			rung__copy_choose(&rung__caches, ids->count * g->row_bytes,
		                          g->view->row_count * g->view->stride, g->row_bytes);

		if (choice.streams && rung__can_stream(g->out, g->out_stride))
			return gather_streamed(g, ids, choice.ahead_rows, misses);
		return gather_blocks(g, ids, choice.ahead_rows, misses);
	}
#endif
	return gather_ids(g, ids, PLAIN, AHEAD, misses);
}

int rung__gather_run(const struct rung__gather *gather, const struct rung_ids *ids,
                     struct rung__misses *misses)
{
	const uint64_t piece =
		RUNG__MAX(RUNG__WORK_BYTES / RUNG__MAX(gather->row_bytes, RUNG__WORK_ROW), 1u);
	struct rung__misses found = *misses;
	struct rung__gather g = *gather;
	struct rung_ids part = *ids;
	int rc;

	if (ids->count <= piece || !rung__interruptible())
		return gather_part(gather, ids, misses);
	misses->count = 0;
	for (uint64_t first = 0; first < ids->count; first += piece) {
		found.ranks = misses->ranks + misses->count;
		found.rows = misses->rows + misses->count;
		g.out = gather->out + first * gather->out_stride;
		g.index_first = gather->index_first + first;
		part.data = (const char *)ids->data + first * rung_dtype_bytes(ids->dtype);
		part.count = RUNG__MIN(piece, ids->count - first);
		rc = gather_part(&g, &part, &found);
		for (uint64_t i = 0; i < found.count && rc == 0; i++)
			found.rows[i] += (uint32_t)first;
		if (rc == 0)
			rc = rung__worked("gather", RUNG__WORK_BYTES);
		if (rc < 0)
			return rc;
		misses->count += found.count;
	}
	return 0;
}

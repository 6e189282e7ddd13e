/* SPDX-License-Identifier: Apache-2.0 */
/** The gather: copy the rows a view holds, list the others. The CPU device's form of the gather
 * kernel. */
#ifndef RUNG_GATHER_H
#define RUNG_GATHER_H

#include "layout/layout.h"

/** Rows that are not in the view: the rank and the output row. The tmp arrays are for sorting, the
 * last two refill's. */
struct rung__misses {
	uint64_t *ranks;
	uint32_t *rows;
	uint64_t *ranks_tmp;
	uint32_t *rows_tmp;
	uint64_t *links;
	uint32_t *frames;
	uint64_t count;
};

struct rung__gather {
	const struct rung__view *view;
	const void *rank_of_vertex; /* NULL: ids are ranks */
	unsigned map_bytes;
	uint64_t vertex_count;
	size_t row_bytes;
	unsigned char *out;
	size_t out_stride;
	uint64_t index_first; /* of ids in the caller's list, for messages */
};

/**
 * Let the lists follow each other without gaps, `rows` of each, from `ranks` on and from `links`
 * on: few rows are few pages.
 */
static inline void rung__misses_lay_out(struct rung__misses *misses, uint64_t rows)
{
	misses->ranks_tmp = misses->ranks + rows;
	misses->rows = (uint32_t *)(misses->ranks_tmp + rows);
	misses->rows_tmp = misses->rows + rows;
	misses->frames = (uint32_t *)(misses->links + rows);
}

/** Id `i` of a list. */
static inline uint64_t rung__gather_id(const void *ids, enum rung_dtype dtype, uint64_t i)
{
	switch (dtype) {
	/* negative: far out of range */
	case RUNG_I32:
		return (uint64_t)(int64_t)((const int32_t *)ids)[i];
	case RUNG_U32:
		return ((const uint32_t *)ids)[i];
	default:
		return ((const uint64_t *)ids)[i];
	}
}

/** Fail for an id that is out of range. @param index  position of the id in the caller's list */
int rung__gather_outside(enum rung_dtype dtype, uint64_t id, uint64_t index, uint64_t vertex_count);

/**
 * Copy hits and list misses. Ids out of range are never used to read.
 * @return 0, or RUNG_E_RANGE / RUNG_E_INVAL (dtype)
 */
int rung__gather_run(const struct rung__gather *gather, const struct rung_ids *ids,
                     struct rung__misses *misses);

#endif

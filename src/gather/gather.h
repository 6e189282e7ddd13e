/* SPDX-License-Identifier: Apache-2.0 */
/** The gather on the CPU: copy the rows that a view contains, and list the others. On a GPU
 * kernels/gather.cu does the same. */
#ifndef RUNG_GATHER_H
#define RUNG_GATHER_H

#include "layout/layout.h"
#include "quant/quant.h"

/**
 * Rows that are not in the view: the rank and the output row of each. The gather fills in `ranks`,
 * `rows` and `count`. The tmp arrays are for sorting; links and frames belong to refill. All have
 * space for the largest batch; rung__misses_lay_out() sets the pointers.
 */
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
	unsigned map_bytes;         /* size of an entry of that map: 4 or 8 */
	uint64_t vertex_count;
	size_t row_bytes;
	const struct rung__row_form *form; /* decodes the rows; NULL: they are copied */
	unsigned char *out;                /* row i goes to out + i * out_stride */
	size_t out_stride;
	uint64_t index_first; /* index of the first id in the caller's list, for messages */
};

/**
 * Place the lists one after the other without gaps, for `rows` misses, in the two blocks that begin
 * at `ranks` and at `links`. A small batch then touches few pages of a block for a large one.
 */
static inline void rung__misses_lay_out(struct rung__misses *misses, uint64_t rows)
{
	misses->ranks_tmp = misses->ranks + rows;
	misses->rows = (uint32_t *)(misses->ranks_tmp + rows);
	misses->rows_tmp = misses->rows + rows;
	misses->frames = (uint32_t *)(misses->links + rows);
}

/** Id `i` of a list, with 64 bits. A negative id becomes a number far out of range. */
static inline uint64_t rung__gather_id(const void *ids, enum rung_dtype dtype, uint64_t i)
{
	switch (dtype) {
	case RUNG_I32: /* sign extended; 64-bit ids need no case */
		return (uint64_t)(int64_t)((const int32_t *)ids)[i];
	case RUNG_U32:
		return ((const uint32_t *)ids)[i];
	default:
		return ((const uint64_t *)ids)[i];
	}
}

/** Report an id that is out of range. @param index  position of the id in the caller's list.
 * @return RUNG_E_RANGE */
int rung__gather_outside(enum rung_dtype dtype, uint64_t id, uint64_t index, uint64_t vertex_count);

/**
 * Copy hits and list misses, in the order of the ids. An id that is out of range is never used as
 * an index; rows before it have been copied.
 * @return 0, or RUNG_E_RANGE / RUNG_E_INVAL (dtype)
 *
 * Threads: any. Streaming stores are complete when the call returns.
 */
int rung__gather_run(const struct rung__gather *gather, const struct rung_ids *ids,
                     struct rung__misses *misses);

#endif

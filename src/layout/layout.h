/* SPDX-License-Identifier: Apache-2.0 */
/** Where rows are in the features files. Private to rung. */
#ifndef RUNG_LAYOUT_LAYOUT_H
#define RUNG_LAYOUT_LAYOUT_H

#include "base/base.h"
#include "rung/store.h"

/** Rows in memory: rank r is at base + (r - rank_first) * stride. */
struct rung__view {
	const unsigned char *base;
	size_t stride;
	uint64_t rank_first;
	uint64_t row_count;
};

#define RUNG__FILES_MAX       RUNG_FEATURE_FILES_MAX
#define RUNG__FEATURES_PREFIX "features."
#define RUNG__FEATURES_NAME   RUNG__FEATURES_PREFIX "%03u.npy"

/**
 * Layout of the rows in the features files: blocks of block_rows ranks are dealt round robin over
 * the files; within a file row i begins at data_offset + i * row_stride. Rows staged in place (rung
 * stage --in-place) are in one file, in the order of the vertices: row i is then that of vertex i.
 */
struct rung__layout {
	uint64_t data_offset;
	uint64_t row_stride;
	uint64_t row_bytes;
	uint64_t file_count;
	uint64_t block_rows; /* does not matter with one file */
	/* rows left where they were: of an entry of vertex_of_rank, 4 or 8; else 0 */
	uint64_t vertex_bytes;
	/* for rows staged in place, [vertices], owned by the reader of rows; NULL if only sizes
	 * matter */
	const void *vertex_of_rank;
	uint64_t file_bytes[RUNG__FILES_MAX];
};

/** The file that a rank's row is in. */
static inline uint64_t rung__row_file(const struct rung__layout *layout, uint64_t rank)
{
	return layout->file_count == 1 ? 0 : rank / layout->block_rows % layout->file_count;
}

/** Where it begins there. */
static inline uint64_t rung__row_offset(const struct rung__layout *layout, uint64_t rank)
{
	if (layout->vertex_of_rank)
		rank = rung__id_get(layout->vertex_of_rank, (unsigned)layout->vertex_bytes, rank);
	else if (layout->file_count > 1)
		rank = rank / layout->block_rows / layout->file_count * layout->block_rows +
		       rank % layout->block_rows;
	return layout->data_offset + rank * layout->row_stride;
}

/** How many of `count` rows from a rank on are contiguous in its file. */
static inline uint64_t rung__row_run(const struct rung__layout *layout, uint64_t rank,
                                     uint64_t count)
{
	uint64_t left =
		layout->block_rows - (layout->file_count == 1 ? 0 : rank % layout->block_rows);

	return layout->file_count == 1 || count < left ? count : left;
}

/** Rows of the first row_count ranks that are in a file. */
static inline uint64_t rung__file_rows(const struct rung__layout *layout, uint64_t row_count,
                                       uint64_t file_idx)
{
	uint64_t round = layout->block_rows * layout->file_count,
		 begin = file_idx * layout->block_rows, rest;

	if (layout->file_count == 1)
		return row_count;
	rest = row_count % round;
	rest = rest > begin ? rest - begin : 0;
	return row_count / round * layout->block_rows +
	       (rest < layout->block_rows ? rest : layout->block_rows);
}

/** The rule that decides which rows share a read, for the store and for predictions. */
struct rung__read_rule {
	uint64_t row_bytes;
	uint64_t align;           /* reads begin and end at multiples of it: a power of two */
	uint64_t merge_gap_bytes; /* between two rows, that are worth reading over */
	uint64_t read_bytes_max;
	bool apart; /* each row has a separate read */
};

/**
 * Whether the row at `offset` joins the read of rows before it in the file.
 * @param first    where the first of them begins
 * @param row_end  where the last of them ends
 */
static inline bool rung__row_joins(const struct rung__read_rule *rule, uint64_t first,
                                   uint64_t row_end, uint64_t offset)
{
	const uint64_t align = rule->align;
	const uint64_t reach = rung__align_up(row_end, align) + rule->merge_gap_bytes;
	const uint64_t end = rung__align_up(offset + rule->row_bytes, align);

	return !rule->apart && rung__align_down(offset, align) <= reach &&
	       end - rung__align_down(first, align) <= rule->read_bytes_max;
}

/** Most bytes that the aligned read of one row takes: rows begin at multiples of gcd(stride, align)
 * into a block. */
uint64_t rung__row_span(uint64_t row_bytes, uint64_t row_stride, uint64_t data_offset,
                        uint32_t align);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** The positions of rows in the features files, and the rule for shared reads. Private to rung. */
#ifndef RUNG_LAYOUT_LAYOUT_H
#define RUNG_LAYOUT_LAYOUT_H

#include "base/base.h"
#include "layout/list_block.h"
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
 * A range of ranks, and the features files that have its rows. The range begins where the one
 * before it ends. Blocks of block_rows ranks are dealt round robin over its files. The files can
 * have more rows than the range needs: a copy of the hottest rows on a fast drive leaves the others
 * in the files of a mount, which have all rows.
 */
struct rung__range {
	uint64_t end;          /* the rank after its last one */
	uint64_t stored_first; /* the first rank whose row is in its files */
	uint64_t stored_end;   /* the rank after the last one */
	uint64_t file_first, file_count;
	uint64_t block_rows; /* not used with one file */
};

/**
 * Layout of the rows in the features files; within a file row i begins at data_offset + i *
 * row_stride. Rows staged in place (rung stage --in-place) are in one file, in the order of the
 * vertices: row i is then that of vertex i.
 */
struct rung__layout {
	uint64_t data_offset; /* of the first row in each file */
	uint64_t row_stride;
	uint64_t row_bytes;
	uint64_t file_count; /* of all ranges */
	/* rows staged in place: bytes of an entry of vertex_of_rank, 4 or 8; else 0 */
	uint64_t vertex_bytes;
	/* rows staged in place: [vertices], owned by the store or loader that reads the rows; NULL
	 * if only sizes matter */
	const void *vertex_of_rank;
	uint64_t file_bytes[RUNG__FILES_MAX];
	uint64_t is_lists;    /* 1: the rows are blocks of the graph's neighbour lists */
	uint64_t range_count; /* at least 1 */
	struct rung__range ranges[RUNG__FILES_MAX]; /* [range_count], in the order of their ranks */
};

/** The range of all rows of a dataset that has only one. */
static inline struct rung__range rung__range_of_all(uint64_t row_count, uint64_t file_count,
                                                    uint64_t block_rows)
{
	return (struct rung__range){ .end = row_count,
		                     .stored_end = row_count,
		                     .file_count = file_count,
		                     .block_rows = block_rows };
}

/** The number of rows. */
static inline uint64_t rung__layout_rows(const struct rung__layout *layout)
{
	return layout->ranges[layout->range_count - 1].end;
}

/** The range of a rank. Ranks after the last range belong to it. */
static inline const struct rung__range *rung__rank_range(const struct rung__layout *layout,
                                                         uint64_t rank)
{
	const struct rung__range *range = layout->ranges;

	for (uint64_t i = 1; i < layout->range_count && rank >= range->end; i++)
		range++;
	return range;
}

/** The range that a file belongs to. */
static inline const struct rung__range *rung__file_range(const struct rung__layout *layout,
                                                         uint64_t file_idx)
{
	const struct rung__range *range = layout->ranges;

	while (file_idx >= range->file_first + range->file_count)
		range++;
	return range;
}

/** What a row is, for messages that name one by its rank. */
static inline const char *rung__row_noun(const struct rung__layout *layout)
{
	return layout->is_lists ? "block of neighbour lists" : "row of rank";
}

/** The file that has a rank's row. */
static inline uint64_t rung__row_file(const struct rung__layout *layout, uint64_t rank)
{
	const struct rung__range *range;

	if (layout->file_count == 1)
		return 0;
	range = rung__rank_range(layout, rank);
	if (range->file_count == 1)
		return range->file_first;
	return range->file_first +
	       (rank - range->stored_first) / range->block_rows % range->file_count;
}

/** The offset of the row in its file. */
static inline uint64_t rung__row_offset(const struct rung__layout *layout, uint64_t rank)
{
	const struct rung__range *range;

	if (layout->vertex_of_rank) {
		rank = rung__id_get(layout->vertex_of_rank, (unsigned)layout->vertex_bytes, rank);
	} else if (layout->file_count > 1) {
		range = rung__rank_range(layout, rank);
		rank -= range->stored_first;
		if (range->file_count > 1)
			rank = rank / range->block_rows / range->file_count * range->block_rows +
			       rank % range->block_rows;
	}
	return layout->data_offset + rank * layout->row_stride;
}

/** The rank of row number `row` of a file; not for rows staged in place. */
static inline uint64_t rung__file_rank(const struct rung__layout *layout, uint64_t file_idx,
                                       uint64_t row)
{
	const struct rung__range *range = rung__file_range(layout, file_idx);

	if (range->file_count > 1)
		row = (row / range->block_rows * range->file_count + file_idx - range->file_first) *
		              range->block_rows +
		      row % range->block_rows;
	return range->stored_first + row;
}

/* Blocks of a file that are dealt to its refill threads: at most 1 MiB, which is 16 long reads,
 * since rows of two blocks share no read; at least the longest read, 128 KiB. */
#define RUNG__DEAL_SHIFT_MAX 20u
#define RUNG__DEAL_SHIFT_MIN 17u

/** Several refill threads per file: log2 of the bytes of a block of a file. */
static inline unsigned rung__deal_shift(uint64_t file_bytes, uint32_t threads)
{
	unsigned shift = RUNG__DEAL_SHIFT_MAX;

	/* a small file has several blocks for each thread, too */
	while (shift > RUNG__DEAL_SHIFT_MIN && file_bytes >> shift < 8ull * threads)
		shift--;
	return shift;
}

/**
 * The refill thread that reads a rank's row. Blocks of a file are dealt to its threads round robin:
 * rows that are near each other in the file, which can share a read, have the same thread.
 * @param threads  refill threads per file
 */
static inline uint64_t rung__row_refill(const struct rung__layout *layout, uint32_t threads,
                                        uint64_t rank)
{
	const uint64_t file = rung__row_file(layout, rank);
	const uint64_t block =
		threads == 1 ? 0
			     : rung__row_offset(layout, rank) >>
				       rung__deal_shift(layout->file_bytes[file], threads);

	return file * threads + block % threads;
}

/** The number of rows from a rank on, at most `count`, that are contiguous in the file: those up to
 * the end of the rank's block and of its range. */
static inline uint64_t rung__row_run(const struct rung__layout *layout, uint64_t rank,
                                     uint64_t count)
{
	const struct rung__range *range;
	uint64_t left;

	if (layout->file_count == 1)
		return count;
	range = rung__rank_range(layout, rank);
	if (rank < range->end)
		count = RUNG__MIN(count, range->end - rank);
	if (range->file_count == 1)
		return count;
	left = range->block_rows - (rank - range->stored_first) % range->block_rows;
	return RUNG__MIN(count, left);
}

/** How many of the first `row_count` rows of a range's files are in file number `file` of them. */
static inline uint64_t rung__dealt_rows(const struct rung__range *range, uint64_t row_count,
                                        uint64_t file)
{
	uint64_t round = range->block_rows * range->file_count, begin = file * range->block_rows,
		 rest;

	if (range->file_count == 1)
		return row_count;
	rest = row_count % round;
	rest = rest > begin ? rest - begin : 0;
	return row_count / round * range->block_rows +
	       (rest < range->block_rows ? rest : range->block_rows);
}

/** How many of the ranks below `row_count`, up to the end of the file's range, have their rows in
 * this file. */
static inline uint64_t rung__file_rows(const struct rung__layout *layout, uint64_t row_count,
                                       uint64_t file_idx)
{
	const struct rung__range *range = rung__file_range(layout, file_idx);
	const uint64_t end =
		layout->range_count == 1 ? row_count : RUNG__MIN(row_count, range->end);

	return end <= range->stored_first ? 0
	                                  : rung__dealt_rows(range, end - range->stored_first,
	                                                     file_idx - range->file_first);
}

/** The rule that decides which rows share a read, for the store and for predictions. */
struct rung__read_rule {
	uint64_t row_bytes;
	uint64_t align;           /* reads begin and end at multiples of it: a power of two */
	uint64_t merge_gap_bytes; /* largest gap between two rows that is over-read */
	uint64_t read_bytes_max;
	bool apart; /* true: rows never share a read */
};

/** The number of rows over which a read can extend to include another one. */
static inline uint64_t rung__rule_near_rows(const struct rung__read_rule *rule, uint64_t row_stride)
{
	return rule->apart ? 0 : rule->merge_gap_bytes / row_stride;
}

/**
 * Whether the row at `offset` joins the read of the rows before it in the file. It does if the
 * bytes between the two aligned reads are worth reading, and the joined read is not too long.
 * @param first    offset of the first of them
 * @param row_end  end of the last of them
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

/**
 * Whether ranges that were read from somewhere are usable: they have all ranks below `row_count`,
 * the files below layout->file_count, and every file has a row.
 */
bool rung__ranges_ok(const struct rung__layout *layout, uint64_t row_count);

/** Size in bytes of the longest aligned read of one row. A row's offset in an aligned block is a
 * multiple of the common divisor of stride, data offset and alignment. */
uint64_t rung__row_span(uint64_t row_bytes, uint64_t row_stride, uint64_t data_offset,
                        uint32_t align);

#endif

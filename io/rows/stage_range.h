/* SPDX-License-Identifier: Apache-2.0 */
/** The state of writing the rows of one array in rank order, one range of ranks at a time. All
 * orders (passes, partition, gather) share it. */
#ifndef RUNG_IO_STAGE_RANGE_H
#define RUNG_IO_STAGE_RANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "base/random.h"
#include "dataset/checksum.h"
#include "file/direct.h"
#include "run/run.h"
#include "tier/row_reads.h"

/** The part of a range that one file contains. */
struct rung__row_range_part {
	/* file offsets: of the first new row (0: the header), of the start of its checksum block,
	 * and of the end of the last row */
	uint64_t begin, base, end;
	unsigned char *at;    /* address of offset `base` in the range's area */
	uint64_t first_piece; /* number of the part's first piece, counted over all files */
};

/** Rows of ranks [first, end) of an array, as stored in its files. */
struct rung__row_range {
	uint64_t first, end;
	/* the value that rows->partition_sum had after the range was filled */
	uint64_t partition_sum;
	uint64_t piece_count; /* number of pieces in which the range is written */
	struct rung__row_range_part parts[RUNG__FILES_MAX];
};

/** One array while its rows are written. The thread that stages owns it; jobs of reading and
 * writing access areas and files, and partition_sum. */
struct rung__stage_rows {
	struct rung__stage *stage;
	const char *what; /* the step of the progress: "features", "labels", "arrays" */
	const struct rung_source *src;           /* borrowed */
	const struct rung__manifest_file *files; /* [layout.file_count] of the manifest */
	struct rung__layout layout;              /* layout of the output */
	struct rung__direct out[RUNG__FILES_MAX];
	char *paths[RUNG__FILES_MAX]; /* paths of the output files, for messages */
	struct rung__rows_schedule plan;
	/* the source's file; fd -1: the source is in memory, streamed, or read by `reads` */
	struct rung__direct source;
	uint64_t source_rows; /* of the source: the vertices */
	/* rows that are written: of the ranks from rank_first on. From here on, the rank of a row
	 * counts from rank_first */
	uint64_t row_count, rank_first;
	/* rows, in rank order, that an earlier run has written, synced and recorded */
	uint64_t done;
	/* [plan.area_count], each of plan.area_bytes: ranges as they are written, or batches of
	 * rows while they are partitioned */
	unsigned char *areas[2];
	unsigned char *read_buffers;    /* [plan.reader_count][plan.read_bytes] */
	struct rung__features gathered; /* the source's file and layout, for `reads` */
	struct rung__row_reads *reads;  /* reader of single rows; NULL except for "gather" */
	/* [plan.range_rows] vertices of the range, ascending; NULL for "passes" */
	void *vertices;
	/* [file_count][RUNG__BLOCK_BYTES] bytes of the previous range in the block in which the
	 * next range begins */
	unsigned char *tails;
	bool tails_known;                      /* false until a range was filled by this run */
	const struct rung__row_range *written; /* the range that jobs are writing now */
	/* sum of rung__row_sum() over all rows in buckets, modulo 2^64. Rows that are read back are
	 * subtracted, so the final sum is 0 if all of them are unchanged */
	_Atomic uint64_t partition_sum;
};

/** Hash of a vertex's row, for rung__stage_rows.partition_sum. Buckets need it because no checksum
 * of the dataset covers them, and a later run may read them. The hash includes the vertex, so that
 * rows that exchange their places are noticed. */
static inline uint64_t rung__row_sum(const struct rung__stage_rows *rows, uint64_t vertex,
                                     const unsigned char *row)
{
	return rung__mix64(rung__checksum(row, (size_t)rows->layout.row_bytes) ^
	                   rung__mix64(vertex));
}

/** The rank of a vertex's row, counted from rows->rank_first: it is not written unless this is less
 * than rows->row_count. */
static inline uint64_t rung__rows_rank(const struct rung__stage_rows *rows, uint64_t vertex)
{
	/* a rank before rank_first wraps to a large number */
	return rung__id_get(rows->stage->rank_of_vertex, rows->stage->manifest->index_bytes,
	                    vertex) -
	       rows->rank_first;
}

/** The vertex with number `place` in the list of the range's vertices. */
static inline uint64_t rung__rows_vertex(const struct rung__stage_rows *rows, uint64_t place)
{
	return rung__id_get(rows->vertices, rows->stage->manifest->index_bytes, place);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** Rows of a source that are brought into order, a range at a time: the common part of all
 * orders. */
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

struct rung__row_range_part {
	/* file offsets: start of the new rows, whole blocks before that, end of the last row */
	uint64_t begin, base, end;
	unsigned char *at;    /* where base is */
	uint64_t first_piece; /* of the pieces that the range is written in */
};

/** Rows [first, end) of an array, by rank, as stored in its files. */
struct rung__row_range {
	uint64_t first, end;
	uint64_t partition_sum; /* rows->partition_sum once it was filled */
	uint64_t piece_count;
	struct rung__row_range_part parts[RUNG__FILES_MAX];
};

struct rung__stage_rows {
	struct rung__stage *stage;
	const char *what; /* "features", "labels", "arrays" */
	const struct rung_source *src;
	const struct rung__manifest_file *files; /* [layout.file_count] of the manifest */
	struct rung__layout layout;
	struct rung__direct out[RUNG__FILES_MAX];
	char *paths[RUNG__FILES_MAX];
	struct rung__rows_schedule plan;
	/* fd -1: it is in memory, or inflated as it is read */
	struct rung__direct source;
	uint64_t row_count;
	/* rows that are written, synced and in the journal */
	uint64_t done;
	unsigned char *areas[2];        /* [plan.area_bytes] */
	unsigned char *read_buffers;    /* [plan.reader_count][plan.read_bytes] */
	struct rung__features gathered; /* the source's file, where its rows are */
	struct rung__row_reads *reads;  /* of them, one by one; NULL: other plans */
	/* [plan.range_rows] of the range, ascending; for plans that need it */
	void *vertices;
	/* [file_count][RUNG__BLOCK_BYTES] the part of the next block that the last range has
	 * written */
	unsigned char *tails;
	bool tails_known;
	const struct rung__row_range *written; /* the range being written */
	/* rung__row_sum() of all rows that are in a bucket, modulo 2^64: 0 when all came back as
	 * they were */
	_Atomic uint64_t partition_sum;
};

/** Hash of a vertex's row, for rung__stage_rows.partition_sum: buckets are not covered by a
 * checksum of the dataset, and a later run may read them. */
static inline uint64_t rung__row_sum(const struct rung__stage_rows *rows, uint64_t vertex,
                                     const unsigned char *row)
{
	return rung__mix64(rung__checksum(row, (size_t)rows->layout.row_bytes) ^
	                   rung__mix64(vertex));
}

/** Vertex number `place` of those of a range, which ascend. */
static inline uint64_t rung__rows_vertex(const struct rung__stage_rows *rows, uint64_t place)
{
	return rung__id_get(rows->vertices, rows->stage->manifest->index_bytes, place);
}

#endif

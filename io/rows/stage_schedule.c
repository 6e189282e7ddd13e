/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the order in which rows are moved if they do not all fit in memory. With F bytes of
 * features, read at r and written at w bytes per second:
 *
 *   passes  the output in B ranges that fit in memory; for each, all rows are
 *           read and those of the range are kept                                B F/r +  F/w
 *   partition
 *           all rows are read once and written to the bucket of their range,
 *           inside the output file; then each range is sorted                   2 F/r + 2 F/w
 *   gather  the rows of a range are read at their positions, one read each, or
 *           one for several neighbours                                        rows/rate +  F/w
 *
 * On one device reads and writes add up; on two devices the longer one counts. B grows with the
 * features and shrinks with the memory, so each order is the fastest for some sizes: passes for few
 * ranges, partition for many, gather for devices with fast random reads.
 */
#include <stdlib.h>

#include "base/base.h"
#include "dataset/checksum.h"
#include "rows/stage_partition.h"
#include "rows/stage_row_range.h"
#include "rows/stage_schedule.h"
#include "rows/stage_scan.h"
#include "source/source.h"

#define READ_BYTES (UINT64_C(4) << 20) /* size of one large read, if memory allows */
#define READERS    4u                  /* number of large reads in flight */
/* without measured rates: this many passes are assumed to cost no more than partitioning, which
 * also reads all rows twice */
#define PASSES_UNMEASURED 2u

uint64_t rung__stage_range_rows_max;

static const char *const names[] = { "auto", "passes", "partition", "gather" };

const char *rung_row_order_name(enum rung_row_order plan)
{
	return (unsigned)plan < RUNG__ARRAY_LEN(names) ? names[plan] : NULL;
}

/* The input of the choice. */
struct given {
	const struct rung__layout *layout; /* layout of the output */
	/* rows of the source, and those that are written */
	uint64_t source_rows, row_count;
	/* budget for areas, reads and tables; the map is already subtracted */
	uint64_t memory_bytes;
	unsigned index_bytes;
	bool in_memory; /* the source needs no read buffers */
	bool streamed;  /* the source produces rows in order: they cannot be read one by one */
	/* rows of a range if an earlier run has partitioned the rows, because its buckets have this
	 * size; 0: as many as fit */
	uint64_t range_rows;
};

/* The order in which an earlier run's rows are resumed, from the journal. Rows that were begun by
 * passes or by gather are continued by passes, which can start at any row. @return AUTO if no row
 * was written */
static enum rung_row_order begun_plan(const struct rung__stage *stage, const char *name,
                                      uint64_t *range_rows_out)
{
	const char *words = rung__journal_last_of(&stage->journal, "partitioned", name);

	*range_rows_out = 0;
	if (words) {
		*range_rows_out = RUNG__MIN(RUNG__MAX(strtoull(words, NULL, 10), 1u),
		                            stage->manifest->vertex_count);
		return RUNG_ROW_ORDER_PARTITION;
	}
	return rung__journal_last_of(&stage->journal, "rows", name) ? RUNG_ROW_ORDER_PASSES
	                                                            : RUNG_ROW_ORDER_AUTO;
}

/* Set the size and number of reads: large ones, but together at most 1/8 of the memory, unless a
 * row is longer than that. With less memory the reads first become smaller, down to a page, and
 * then fewer. */
static void size_reads(const struct given *given, struct rung__rows_schedule *plan)
{
	const uint64_t share = given->memory_bytes / 8;
	uint64_t bytes = plan->kind == RUNG_ROW_ORDER_GATHER ? RUNG__ROW_READ_BYTES : READ_BYTES;

	plan->reader_count = plan->kind == RUNG_ROW_ORDER_GATHER ? RUNG__ROW_READS : READERS;
	while (bytes > RUNG__PAGE_BYTES && plan->reader_count * bytes > share)
		bytes /= 2;
	/* one row must fit, with two more pages, because rows need not begin and end at page
	 * boundaries */
	bytes = RUNG__MAX(bytes, rung__align_up(given->layout->row_bytes, RUNG__PAGE_BYTES)) +
	        2 * RUNG__PAGE_BYTES;
	while (plan->reader_count > 1 && plan->reader_count * bytes > share)
		plan->reader_count /= 2;
	plan->read_bytes = bytes;
}

/* Whether the rows can be partitioned into the planned number of buckets: an area holds a piece of
 * every bucket, with a page at both ends, and a table has the position of every piece for each
 * chunk. */
static bool can_partition(const struct given *given, const struct rung__rows_schedule *plan)
{
	const uint64_t ends = plan->range_count * 2 * RUNG__PAGE_BYTES;
	const uint64_t chunks = plan->area_bytes / (plan->read_bytes - 2 * RUNG__PAGE_BYTES) + 2;
	uint64_t table;

	return ends + given->layout->row_bytes <= plan->area_bytes &&
	       rung__mul(chunks * sizeof(uint32_t), plan->range_count, &table) &&
	       table <= given->memory_bytes / 16;
}

/*
 * Divide the memory for one order: reads, tails, tables, and areas with as many rows as fit.
 * Passes have one area, because two would halve the ranges and double the passes.
 * @return 0, or the smallest number of bytes that works
 */
static uint64_t size_plan(const struct given *given, enum rung_row_order kind,
                          struct rung__rows_schedule *plan)
{
	const struct rung__layout *layout = given->layout;
	const uint64_t area_rest = rung__row_range_bytes(layout, 0);
	uint64_t left = given->memory_bytes, reads, each, rest;

	*plan = (struct rung__rows_schedule){ .kind = kind,
		                              .area_count = kind == RUNG_ROW_ORDER_PASSES ? 1 : 2 };
	size_reads(given, plan);
	reads = given->in_memory ? 0 : plan->reader_count * plan->read_bytes;
	each = plan->area_count * layout->row_stride +
	       (kind == RUNG_ROW_ORDER_PASSES ? 0 : given->index_bytes);
	if (kind == RUNG_ROW_ORDER_PARTITION)
		left -= left / 16; /* the table */
	/* memory that is needed even without rows; the last term is the tails */
	rest = reads + plan->area_count * area_rest + layout->file_count * RUNG__BLOCK_BYTES;
	/* with more memory the reads grow to 1/8 of it, and 1/16 is for the table: 13/16 remain */
	if (left < rest + each * RUNG__MAX(given->range_rows, 1u))
		return (rest + each * RUNG__MAX(given->range_rows, 1u)) / 13 * 16 +
		       RUNG__PAGE_BYTES;
	plan->range_rows = RUNG__MIN((left - rest) / each, RUNG__MIN(given->row_count, UINT32_MAX));
	if (rung__stage_range_rows_max)
		plan->range_rows = RUNG__MIN(plan->range_rows, rung__stage_range_rows_max);
	if (given->range_rows)
		plan->range_rows = given->range_rows;
	plan->range_count = (given->row_count + plan->range_rows - 1) / plan->range_rows;
	/* with a single range, writing cannot overlap with filling the next one */
	if (plan->range_count == 1 && kind == RUNG_ROW_ORDER_GATHER)
		plan->area_count = 1;
	plan->area_bytes = rung__row_range_bytes(layout, plan->range_rows);
	plan->memory_bytes =
		rest - plan->area_count * area_rest + plan->area_count * plan->area_bytes +
		(kind == RUNG_ROW_ORDER_PASSES ? 0 : given->index_bytes * plan->range_rows);
	if (kind == RUNG_ROW_ORDER_PARTITION)
		plan->memory_bytes += given->memory_bytes / 16;
	/* too many buckets: twice the memory gives half as many buckets with pieces twice as
	 * large */
	return kind == RUNG_ROW_ORDER_PARTITION && !can_partition(given, plan)
	               ? 2 * given->memory_bytes
	               : 0;
}

/* Set the bytes that an order reads and writes, and its temporary disk space. For "gather" they are
 * the bytes of the rows, without over-reads. */
static void count_bytes(const struct given *given, struct rung__rows_schedule *plan)
{
	const struct rung__layout *layout = given->layout;
	const uint64_t in = given->source_rows * layout->row_bytes,
		       kept = given->row_count * layout->row_bytes,
		       out = given->row_count * layout->row_stride;

	plan->bytes_read = plan->kind == RUNG_ROW_ORDER_GATHER ? kept : in;
	plan->bytes_written = out;
	if (plan->kind == RUNG_ROW_ORDER_PASSES)
		plan->bytes_read = plan->range_count * in;
	if (plan->kind != RUNG_ROW_ORDER_PARTITION)
		return;
	/* buckets: written and read once, without padding */
	plan->bytes_read += kept;
	plan->bytes_written += kept;
	for (uint32_t f = 0; f < layout->file_count; f++)
		plan->temp_bytes +=
			rung__partition_file_bytes(layout, plan, given->row_count, f) -
			layout->data_offset -
			rung__file_rows(layout, given->row_count, f) * layout->row_stride;
}

/* Predict the seconds of an order from the measured rates; without them plan->seconds stays 0. */
static void predict(const struct rung__figures *figures, uint64_t row_count,
                    struct rung__rows_schedule *plan)
{
	double reading, writing;

	if (figures->read_bytes_per_s <= 0 || figures->write_bytes_per_s <= 0 ||
	    (plan->kind == RUNG_ROW_ORDER_GATHER && figures->row_reads_per_s <= 0))
		return;
	reading = (double)plan->bytes_read / figures->read_bytes_per_s;
	writing = (double)plan->bytes_written / figures->write_bytes_per_s;
	if (plan->kind == RUNG_ROW_ORDER_GATHER)
		reading = (double)row_count / figures->row_reads_per_s;
	plan->seconds = figures->one_device ? reading + writing : RUNG__MAX(reading, writing);
}

/* Whether an order is better than the best one before it. Without predictions, "gather" is chosen
 * only if no other order fits in memory. */
static bool is_better(const struct rung__rows_schedule *plan,
                      const struct rung__rows_schedule *best)
{
	if (best->kind == RUNG_ROW_ORDER_AUTO)
		return true;
	if (plan->seconds > 0 && best->seconds > 0)
		return plan->seconds < best->seconds;
	return plan->kind == RUNG_ROW_ORDER_PARTITION && best->range_count > PASSES_UNMEASURED;
}

int rung__rows_schedule(struct rung__stage *stage, const struct rung_source *src, const char *name,
                        const struct rung__layout *layout, struct rung__rows_schedule *plan_out)
{
	const uint64_t others = rung__stage_fixed_bytes(stage) + rung__stage_map_bytes(stage, 1);
	/* the option and the report apply to the features; other arrays use the best order */
	const bool features = src == stage->features;
	struct given given = {
		.layout = layout,
		.source_rows = stage->manifest->vertex_count,
		.row_count = rung__layout_rows(layout),
		.index_bytes = stage->manifest->index_bytes,
		.memory_bytes = stage->memory_bytes > others ? stage->memory_bytes - others : 0,
		.in_memory = rung__source_location(src).data,
		.streamed = rung__source_location(src).streamed,
	};
	const enum rung_row_order begun = begun_plan(stage, name, &given.range_rows);
	const enum rung_row_order wanted = begun != RUNG_ROW_ORDER_AUTO ? begun
	                                   : features                   ? stage->opts.row_order
	                                                                : RUNG_ROW_ORDER_AUTO;
	uint64_t least = UINT64_MAX;

	*plan_out = (struct rung__rows_schedule){ .kind = RUNG_ROW_ORDER_AUTO };
	for (enum rung_row_order kind = RUNG_ROW_ORDER_PASSES; kind <= RUNG_ROW_ORDER_GATHER;
	     kind++) {
		struct rung__rows_schedule plan;
		uint64_t needs;

		if (kind == RUNG_ROW_ORDER_GATHER && (given.in_memory || given.streamed))
			continue;
		needs = size_plan(&given, kind, &plan);
		if (needs == 0) {
			count_bytes(&given, &plan);
			predict(&stage->figures, given.row_count, &plan);
			if (features)
				stage->report.row_order_seconds[kind] = plan.seconds;
		}
		if (wanted != RUNG_ROW_ORDER_AUTO && wanted != kind)
			continue;
		least = RUNG__MIN(least, needs);
		if (needs == 0 && is_better(&plan, plan_out))
			*plan_out = plan;
	}
	if (plan_out->kind != RUNG_ROW_ORDER_AUTO)
		return 0;
	if (least == UINT64_MAX)
		return rung__fail(
			RUNG_E_INVAL,
			"%s: its rows are compressed, text or computed, so they cannot be read one "
			"by one; choose another --row-order, or save it as .npy",
			rung__source_spec(src));
	return rung__fail_min_bytes(
		least, "staging: too little memory for the rows; give at least %" PRIu64 " bytes",
		least);
}

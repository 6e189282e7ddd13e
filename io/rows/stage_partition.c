/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partitioning, the first half of the order "partition": the source is read once, in batches that
 * fit an area. Within an area the rows of a bucket (a range of the output) are contiguous, in the
 * order of the source, and are appended to the bucket's file with one write. While a batch is
 * written from one area, the next one is read into the other. stage_rows.c then sorts the buckets,
 * one by one.
 *
 * Buckets are stored in the F output files. Each is after the place of its range, because it and
 * all later buckets must stay complete while the range is written: bucket k is in file k % F, from
 * base + k / F * pitch on. A pitch is the size of a range with its padding, in whole blocks. The
 * base leaves space for one pitch and, with several files, for a block of rows: the ranges up to k
 * use at most (k + 1) / F pitches and a block of rows of each file.
 *
 * No checksum of the dataset covers buckets. The journal has a sum of hashes of the rows in them,
 * which returns to zero when all rows have been read back unchanged.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/jobs.h"
#include "dataset/checksum.h"
#include "folder/stage_step.h"
#include "rows/stage_partition.h"
#include "rows/stage_row_range.h"
#include "rows/stage_scan.h"

#define WRITERS 4u /* number of threads that write buckets */

/* Bytes from the start of one bucket to the next in the same file. */
static uint64_t pitch_of(const struct rung__layout *layout, const struct rung__rows_schedule *plan)
{
	return rung__align_up(plan->range_rows * layout->row_stride, RUNG__BLOCK_BYTES);
}

/* Offset of the first bucket in each file. */
static uint64_t base_of(const struct rung__layout *layout, const struct rung__rows_schedule *plan)
{
	const struct rung__range *range = &layout->ranges[0];
	uint64_t slack = 0;

	for (; range < layout->ranges + layout->range_count; range++) {
		if (range->file_count > 1)
			slack = RUNG__MAX(slack, range->block_rows * layout->row_stride);
	}
	/* of several ranges, one can begin anywhere in its first bucket */
	return rung__align_up(layout->data_offset + slack, RUNG__BLOCK_BYTES) +
	       (layout->range_count > 1 ? 2 : 1) * pitch_of(layout, plan);
}

/* The first bucket of a range: a bucket belongs to the range of its first rank. */
static uint64_t first_bucket(const struct rung__layout *layout,
                             const struct rung__rows_schedule *plan,
                             const struct rung__range *range)
{
	const uint64_t begin = range == layout->ranges ? 0 : range[-1].end;

	return (begin + plan->range_rows - 1) / plan->range_rows;
}

uint32_t rung__bucket_file(const struct rung__stage_rows *rows, uint64_t bucket)
{
	const struct rung__range *range =
		rung__rank_range(&rows->layout, bucket * rows->plan.range_rows);

	bucket -= first_bucket(&rows->layout, &rows->plan, range);
	return (uint32_t)(range->file_first + bucket % range->file_count);
}

uint64_t rung__bucket_offset(const struct rung__stage_rows *rows, uint64_t bucket)
{
	const struct rung__range *range =
		rung__rank_range(&rows->layout, bucket * rows->plan.range_rows);

	bucket -= first_bucket(&rows->layout, &rows->plan, range);
	return base_of(&rows->layout, &rows->plan) +
	       bucket / range->file_count * pitch_of(&rows->layout, &rows->plan);
}

uint64_t rung__partition_file_bytes(const struct rung__layout *layout,
                                    const struct rung__rows_schedule *plan, uint64_t row_count,
                                    uint32_t file)
{
	const struct rung__range *range = rung__file_range(layout, file);
	const bool last = range + 1 == layout->ranges + layout->range_count;
	const uint64_t end = last ? plan->range_count : first_bucket(layout, plan, range + 1);
	const uint64_t buckets = (end - first_bucket(layout, plan, range) + range->file_count - 1 -
	                          (file - range->file_first)) /
	                         range->file_count;
	const uint64_t own =
		layout->data_offset + rung__file_rows(layout, row_count, file) * layout->row_stride;

	return RUNG__MAX(own, base_of(layout, plan) + buckets * pitch_of(layout, plan));
}

/* The state of partitioning. Only the thread that stages changes it, except for `next` and
 * rows->partition_sum: each chunk's row of `next` belongs to the thread that reads the chunk. */
struct partitioning {
	struct rung__stage_rows *rows;
	uint64_t bucket_count, chunk_rows, batch_rows;
	/* [bucket_count] size of each bucket in bytes, including the batch that is being written */
	uint64_t *filled;
	uint64_t *written; /* [bucket_count] the same, without the batch that is being written */
	/* [bucket_count + 1] for each area: the offset of each bucket's piece in it. A piece is the
	 * incomplete last page of the previous batch, followed by the rows of this batch */
	uint64_t *offsets[2];
	/* [chunks of a batch][bucket_count] how many of the batch's rows in the bucket come before
	 * the chunk; while the chunk is read, the index of its next row in the bucket. 32 bits
	 * halve the table */
	uint32_t *next;
	unsigned which;       /* number of the area that is being filled */
	uint64_t batch_first; /* first row of the batch that is being filled */
	uint64_t sum;         /* rows->partition_sum including the batch being written */
};

/* The bucket of a vertex: the range that contains its rank. bucket_count: its row is not
 * written. */
static uint64_t bucket_of(const struct partitioning *p, uint64_t vertex)
{
	const uint64_t rank = rung__rows_rank(p->rows, vertex);

	return rank < p->rows->row_count ? rank / p->rows->plan.range_rows : p->bucket_count;
}

/* Bytes in a bucket's last page, if it is incomplete; otherwise 0. Direct writes cover whole pages,
 * so the next batch writes these bytes again, with its own rows after them. */
static uint64_t tail_bytes(uint64_t filled)
{
	return filled % RUNG__PAGE_BYTES;
}

/*
 * Compute the place of each chunk's rows in each bucket's piece, and the size of the pieces.
 * Threads can then place the rows of their chunks without locks, and a bucket keeps the order of
 * the source, whichever chunk is read first.
 */
static void plan_batch(struct partitioning *p, uint64_t first, uint64_t count)
{
	const uint64_t buckets = p->bucket_count,
		       chunks = (count + p->chunk_rows - 1) / p->chunk_rows;
	uint64_t *offsets = p->offsets[p->which], at = 0;

	/* Count chunk c in row c + 1: after the sums, row c has the rows of all chunks before c,
	 * and the last row has the totals. */
	memset(p->next, 0, (size_t)((chunks + 1) * buckets * sizeof(*p->next)));
	for (uint64_t i = 0; i < count; i++) {
		const uint64_t b = bucket_of(p, first + i);

		if (b < buckets)
			p->next[(i / p->chunk_rows + 1) * buckets + b]++;
	}
	for (uint64_t c = 1; c <= chunks; c++) {
		for (uint64_t b = 0; b < buckets; b++)
			p->next[c * buckets + b] += p->next[(c - 1) * buckets + b];
	}
	for (uint64_t b = 0; b < buckets; b++) {
		const uint64_t rows = p->next[chunks * buckets + b];

		offsets[b] = at;
		at += rung__align_up(tail_bytes(p->filled[b]) + rows * p->rows->layout.row_bytes,
		                     RUNG__PAGE_BYTES);
	}
	offsets[buckets] = at;
	p->batch_first = first;
}

/* Copy the incomplete last page of a bucket to the start of its piece: from the area of the
 * previous batch, whose write can still be in flight but does not change it, or, when partitioning
 * is resumed, from the file. */
static int begin_bucket(const struct partitioning *p, uint64_t bucket, bool first_batch)
{
	const struct rung__stage_rows *rows = p->rows;
	const uint64_t filled = p->filled[bucket], page = filled - tail_bytes(filled);
	unsigned char *to = rows->areas[p->which] + p->offsets[p->which][bucket];
	const unsigned other = !p->which;

	if (page == filled)
		return 0;
	if (first_batch)
		return rung__direct_read(&rows->out[rung__bucket_file(rows, bucket)], to,
		                         filled - page, rung__bucket_offset(rows, bucket) + page);
	memcpy(to,
	       rows->areas[other] + p->offsets[other][bucket] +
	               (page - rung__align_down(p->written[bucket], RUNG__PAGE_BYTES)),
	       (size_t)(filled - page));
	return 0;
}

/* Copy the rows of a chunk to the pieces of their buckets. Called by several threads. */
static void partition_chunk(void *ctx, uint64_t chunk, uint64_t first, uint64_t count,
                            const unsigned char *data)
{
	struct partitioning *p = ctx;
	const uint64_t row_bytes = p->rows->layout.row_bytes;
	unsigned char *area = p->rows->areas[p->which];
	const uint64_t *offsets = p->offsets[p->which];
	uint32_t *next = p->next + chunk * p->bucket_count;
	uint64_t sum = 0;

	for (uint64_t i = 0; i < count; i++) {
		const uint64_t b = bucket_of(p, first + i);

		if (b == p->bucket_count)
			continue;
		sum += rung__row_sum(p->rows, first + i, data + i * row_bytes);
		memcpy(area + offsets[b] + tail_bytes(p->filled[b]) + next[b]++ * row_bytes,
		       data + i * row_bytes, (size_t)row_bytes);
	}
	atomic_fetch_add(&p->rows->partition_sum, sum);
}

/* Append a piece to its bucket. Runs in a job, for the batch that was filled last, so its area is
 * not `which` any more; `filled` and `written` stay as end_batch() left them until all jobs have
 * ended. */
static int write_bucket(void *ctx, uint64_t bucket, uint32_t worker)
{
	const struct partitioning *p = ctx;
	const struct rung__stage_rows *rows = p->rows;
	const uint64_t page = rung__align_down(p->written[bucket], RUNG__PAGE_BYTES),
		       bytes = p->filled[bucket] - page;
	const unsigned other = !p->which;

	(void)worker;
	if (p->filled[bucket] == p->written[bucket])
		return 0;
	rung__stage_step("write");
	return rung__direct_write(&rows->out[rung__bucket_file(rows, bucket)],
	                          rows->areas[other] + p->offsets[other][bucket],
	                          rung__align_up(bytes, RUNG__PAGE_BYTES),
	                          rung__bucket_offset(rows, bucket) + page);
}

/* Zero the rest of each piece's last page, and hand the batch over for writing. The writes of the
 * previous batch must have ended, because they use the same members. */
static void end_batch(struct partitioning *p, uint64_t count)
{
	const uint64_t buckets = p->bucket_count,
		       chunks = (count + p->chunk_rows - 1) / p->chunk_rows;
	const uint64_t *offsets = p->offsets[p->which];
	unsigned char *area = p->rows->areas[p->which];

	for (uint64_t b = 0; b < buckets; b++) {
		const uint64_t bytes = p->next[chunks * buckets + b] * p->rows->layout.row_bytes;
		const uint64_t end = offsets[b] + tail_bytes(p->filled[b]) + bytes;

		memset(area + end, 0, (size_t)(offsets[b + 1] - end));
		p->written[b] = p->filled[b];
		p->filled[b] += bytes;
	}
	p->which = !p->which;
	p->sum = p->rows->partition_sum;
}

/* Record that the rows before `row` are in their buckets. The files are synced first: a line of the
 * journal must never describe data that a power failure can still remove. */
static int sync_and_note(const struct partitioning *p, uint64_t row)
{
	const struct rung__stage_rows *rows = p->rows;
	struct rung__journal *journal = &rows->stage->journal;
	int rc = rung__rows_sync(rows);

	/* the sum up to the batch that was written, without the one that was read in the
	 * meantime */
	if (rc == 0)
		rc = rung__journal_add(journal,
		                       "partitioned %s %" PRIu64 " %" PRIu64 " %016" PRIx64,
		                       rows->files[0].name, rows->plan.range_rows, row, p->sum);
	return rc < 0 ? rc : rung__journal_commit(journal, -1);
}

/* Wait until the batch that ends before `row` is written, and record it. */
static int finish_batch(const struct partitioning *p, struct rung__jobs **jobs, uint64_t row)
{
	const struct rung__stage_rows *rows = p->rows;
	const double written = (double)(p->batch_rows * rows->layout.row_bytes) *
	                       ((double)rows->row_count / (double)rows->source_rows);
	int rc = rung__jobs_end(*jobs);

	*jobs = NULL;
	if (rc == 0)
		rc = sync_and_note(p, row);
	return rc < 0 ? rc : rung__stage_advance(rows->stage, rows->what, (uint64_t)written);
}

/* Read a batch into the area `which`, while the previous batch is written from the other area. */
static int partition_batch(struct partitioning *p, uint64_t first, uint64_t count, bool first_batch)
{
	const struct rung__scan_span span = rung__source_span(p->rows->src, &p->rows->source);
	int rc = 0;

	plan_batch(p, first, count);
	for (uint64_t b = 0; b < p->bucket_count && rc == 0; b++)
		rc = begin_bucket(p, b, first_batch);
	return rc < 0 ? rc : rung__scan(p->rows, &span, first, count, partition_chunk, p);
}

/* Partition the rows from `first` on. Every path waits for the writing jobs, because they refer to
 * `p`. */
static int partition_all(struct partitioning *p, uint64_t first)
{
	const uint64_t row_count = p->rows->source_rows, begin = first;
	struct rung__jobs *jobs = NULL;
	int rc = 0, failed;

	while (first < row_count && rc == 0) {
		const uint64_t count = RUNG__MIN(row_count - first, p->batch_rows);

		rc = partition_batch(p, first, count, first == begin);
		if (rc == 0 && jobs)
			rc = finish_batch(p, &jobs, first);
		if (rc == 0) {
			end_batch(p, count);
			first += count;
			rc = rung__jobs_start(WRITERS, p->bucket_count, write_bucket, p, &jobs);
		}
	}
	if (rc == 0 && jobs)
		return finish_batch(p, &jobs, row_count);
	failed = rung__jobs_end(jobs);
	return failed < 0 ? failed : rc;
}

/* The number of rows that an earlier run has partitioned. The journal does not have their bytes in
 * each bucket, which are counted again from the ranks of these rows. */
static uint64_t partitioned_before(struct partitioning *p)
{
	const struct rung__stage_rows *rows = p->rows;
	const char *words =
		rung__journal_last_of(&rows->stage->journal, "partitioned", rows->files[0].name);
	uint64_t partitioned = 0;
	char *at;

	if (words) {
		/* skip the rows of a range, which the schedule has read already */
		strtoull(words, &at, 10);
		partitioned = RUNG__MIN(strtoull(at, NULL, 10), rows->source_rows);
	}
	for (uint64_t v = 0; v < partitioned; v++) {
		const uint64_t b = bucket_of(p, v);

		if (b < p->bucket_count)
			p->filled[b] += rows->layout.row_bytes;
	}
	return partitioned;
}

/* Allocate the tables; stage_schedule.c has reserved memory for them. */
static int alloc_memory(struct partitioning *p)
{
	const struct rung__stage_rows *rows = p->rows;
	const uint64_t buckets = rows->plan.range_count;

	p->bucket_count = buckets;
	p->chunk_rows = rung__scan_chunk_rows(rows);
	/* each bucket's piece may begin and end with an incomplete page; `next` has 32 bits */
	p->batch_rows = RUNG__MIN((rows->plan.area_bytes - buckets * 2 * RUNG__PAGE_BYTES) /
	                                  rows->layout.row_bytes,
	                          UINT32_MAX);
	p->filled = rung__zalloc_array(buckets, sizeof(*p->filled));
	p->written = rung__zalloc_array(buckets, sizeof(*p->written));
	p->offsets[0] = rung__zalloc_array(buckets + 1, sizeof(**p->offsets));
	p->offsets[1] = rung__zalloc_array(buckets + 1, sizeof(**p->offsets));
	p->next =
		rung__malloc_array((p->batch_rows / p->chunk_rows + 2) * buckets, sizeof(*p->next));
	if (p->filled && p->written && p->offsets[0] && p->offsets[1] && p->next)
		return 0;
	return rung__fail(RUNG_E_NOMEM, "%s: no memory for a table of %" PRIu64 " buckets",
	                  rows->what, buckets);
}

int rung__stage_partition(struct rung__stage_rows *rows)
{
	struct partitioning p = { .rows = rows };
	int rc = alloc_memory(&p);

	if (rc == 0)
		rc = partition_all(&p, partitioned_before(&p));
	rung__free(p.filled);
	rung__free(p.written);
	rung__free(p.offsets[0]);
	rung__free(p.offsets[1]);
	rung__free(p.next);
	return rc;
}

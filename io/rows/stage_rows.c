/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes rows in rank order, one range of the output at a time. While a range is filled, the
 * previous one is written, synced and recorded in the journal, so a killed run loses at most two
 * ranges. The schedule (stage_schedule.c) has chosen how a range is filled:
 *
 *   passes     all rows of the source are read, and those of the range are kept
 *   partition  the bucket of the range is read, which stage_partition.c has written
 *   gather     each row of the range is read from its position in the source
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/jobs.h"
#include "dataset/checksum.h"
#include "file/file.h"
#include "folder/stage_step.h"
#include "folder/stage_stripe.h"
#include "rows/stage_partition.h"
#include "rows/stage_row_range.h"
#include "rows/stage_rows.h"
#include "rows/stage_scan.h"
#include "source/source.h"

/* Argument of the functions that place rows. These functions run in several threads without a lock,
 * because each rank has its own place in the area. */
struct range_fill {
	struct rung__stage_rows *rows;
	const struct rung__row_range *range;
};

/* ---- passes ---- */

/* Place the rows of a chunk whose ranks are in the range. */
static void keep_rows(void *ctx, uint64_t chunk, uint64_t first, uint64_t count,
                      const unsigned char *data)
{
	const struct range_fill *filling = ctx;

	(void)chunk;
	for (uint64_t i = 0; i < count; i++) {
		const uint64_t rank = rung__rows_rank(filling->rows, first + i);

		/* unsigned: a rank below the range wraps to a large number */
		if (rank - filling->range->first < filling->range->end - filling->range->first)
			rung__row_range_put(filling->range, &filling->rows->layout, rank,
			                    data + i * filling->rows->layout.row_bytes);
	}
}

/* ---- partition ---- */

/* List the vertices of a range, ascending: the order of its rows in the bucket, and the order in
 * which "gather" reads them. Buckets do not contain vertices; this list identifies their rows. */
static void list_vertices(const struct rung__stage_rows *rows, const struct rung__row_range *range)
{
	const unsigned index_bytes = rows->stage->manifest->index_bytes;
	const uint64_t count = range->end - range->first;
	uint64_t found = 0;

	for (uint64_t v = 0; v < rows->source_rows && found < count; v++) {
		if (rung__rows_rank(rows, v) - range->first < count)
			rung__id_set(rows->vertices, index_bytes, found++, v);
	}
}

/* Place rows of a bucket, and subtract their hashes from the sum that partitioning has added up. */
static void put_partitioned(void *ctx, uint64_t chunk, uint64_t first, uint64_t count,
                            const unsigned char *data)
{
	const struct range_fill *filling = ctx;
	uint64_t sum = 0;

	(void)chunk;
	for (uint64_t i = 0; i < count; i++) {
		const uint64_t vertex = rung__rows_vertex(filling->rows, first + i);
		const unsigned char *row = data + i * filling->rows->layout.row_bytes;

		sum += rung__row_sum(filling->rows, vertex, row);
		rung__row_range_put_vertex(filling->rows, filling->range, vertex, row);
	}
	atomic_fetch_sub(&filling->rows->partition_sum, sum);
}

/* ---- gather ---- */

/* Place the rows of one read; in its buffer they have the same distances as in the source. Called
 * by the thread that stages, so it may report progress. */
static int put_gathered(void *ctx, uint64_t first, uint64_t end, const unsigned char *row)
{
	const struct range_fill *filling = ctx;
	const struct rung__stage_rows *rows = filling->rows;
	const uint64_t row_bytes = rows->layout.row_bytes, start = rung__rows_vertex(rows, first);

	for (uint64_t i = first; i < end; i++) {
		const uint64_t vertex = rung__rows_vertex(rows, i);

		rung__row_range_put_vertex(rows, filling->range, vertex,
		                           row + (vertex - start) * row_bytes);
	}
	return rung__stage_advance(rows->stage, rows->what, (end - first) * row_bytes);
}

/* Read the rows of the range, with many reads in flight. */
static int gather(struct range_fill *filling)
{
	const struct rung__stage_rows *rows = filling->rows;
	const struct rung__row_list list = {
		.vertices = rows->vertices,
		.id_bytes = rows->stage->manifest->index_bytes,
		.count = filling->range->end - filling->range->first,
		.put = put_gathered,
		.ctx = filling,
	};

	return rung__row_reads_run(rows->reads, &list);
}

/* ---- a range ---- */

/* Fill a range's area with its rows, in the order that the schedule has chosen. */
static int fill(struct rung__stage_rows *rows, const struct rung__row_range *range)
{
	struct range_fill filling = { rows, range };
	const uint64_t count = range->end - range->first;
	struct rung__scan_span span = rung__source_span(rows->src, &rows->source);
	uint64_t bucket;

	if (rows->plan.kind == RUNG_ROW_ORDER_PASSES)
		return rung__scan(rows, &span, 0, rows->source_rows, keep_rows, &filling);
	list_vertices(rows, range);
	if (rows->plan.kind == RUNG_ROW_ORDER_GATHER)
		return gather(&filling);
	bucket = range->first / rows->plan.range_rows;
	span = (struct rung__scan_span){ .file = &rows->out[rung__bucket_file(rows, bucket)],
		                         .offset = rung__bucket_offset(rows, bucket) };
	return rung__scan(rows, &span, 0, count, put_partitioned, &filling);
}

/* Sync the rows, and then the journal's lines about them: never in the other order. */
static int commit(const struct rung__stage_rows *rows)
{
	int rc = rung__rows_sync(rows);

	return rc < 0 ? rc : rung__journal_commit(&rows->stage->journal, -1);
}

/* Wait until a range is written, and record it. */
static int finish_range(struct rung__stage_rows *rows, struct rung__jobs **jobs,
                        const struct rung__row_range *range)
{
	int rc = rung__jobs_end(*jobs);

	*jobs = NULL;
	if (rc == 0)
		rc = rung__row_range_note(rows, range);
	/* The last range needs no commit, because the files are synced next. Only "partition" must
	 * record it before the files are truncated, because its bucket is after their final end. */
	if (rc == 0 &&
	    (range->end < rows->row_count || rows->plan.kind == RUNG_ROW_ORDER_PARTITION))
		rc = commit(rows);
	return rc < 0 ? rc
	              : rung__stage_advance(rows->stage, rows->what,
	                                    (range->end - range->first) * rows->layout.row_stride);
}

/* Fill and write all remaining ranges. Every path waits for the jobs, because they refer to
 * `ranges` and the areas. */
static int write_ranges(struct rung__stage_rows *rows)
{
	struct rung__row_range ranges[2];
	struct rung__jobs *jobs = NULL; /* the writes of the previous range */
	int rc = 0, failed;

	for (uint64_t i = 0, first = rows->done; first < rows->row_count && rc == 0; i++) {
		struct rung__row_range *range = &ranges[i % 2], *before = &ranges[(i + 1) % 2];
		const uint64_t end = RUNG__MIN(first + rows->plan.range_rows, rows->row_count);

		/* with a single area the previous range must be written before this one is
		 * filled */
		if (jobs && rows->plan.area_count == 1)
			rc = finish_range(rows, &jobs, before);
		if (rc == 0)
			rc = rung__row_range_begin(rows, first, end,
			                           rows->areas[i % rows->plan.area_count], range);
		if (rc == 0)
			rc = fill(rows, range);
		range->partition_sum = rows->partition_sum;
		if (rc == 0 && jobs)
			rc = finish_range(rows, &jobs, before);
		if (rc == 0) {
			/* the tails are saved now, because the next range can use the same area */
			rung__row_range_keep_tails(rows, range);
			rc = rung__row_range_write(rows, range, &jobs);
		}
		if (rc == 0 && end == rows->row_count)
			rc = finish_range(rows, &jobs, range);
		first = end;
	}
	failed = rung__jobs_end(jobs);
	return failed < 0 ? failed : rc;
}

/* ---- files, memory and the journal ---- */

/* Open an output file of an earlier run. @return descriptor, or a failure */
static int open_begun(const struct rung__stage_rows *rows, uint32_t f)
{
	int fd = openat(rows->stage->dir.fd, rows->files[f].name, O_RDWR | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		return rung__fail(RUNG_E_CORRUPT, "%s: is missing; " RUNG__STAGE_CURE,
		                  rows->paths[f]);
	return fd < 0 ? rung__fail_errno(errno, "%s: cannot be opened", rows->paths[f]) : fd;
}

/* Check that a file still has the rows that are done. This comes before rung__reserve(), which
 * would extend a truncated file with zeros. @return 0 or RUNG_E_CORRUPT */
static int check_begun(const struct rung__stage_rows *rows, uint32_t f)
{
	const struct rung__layout *layout = &rows->layout;
	const uint64_t done = rung__file_rows(layout, rows->done, f),
		       least = done ? layout->data_offset + done * layout->row_stride : 0;
	struct stat st;

	if (fstat(rows->out[f].fd, &st) < 0)
		return rung__fail_errno(errno, "%s", rows->paths[f]);
	if ((uint64_t)st.st_size >= least)
		return 0;
	return rung__fail(RUNG_E_CORRUPT,
	                  "%s: has %jd bytes, but %" PRIu64 " were written; " RUNG__STAGE_CURE,
	                  rows->paths[f], (intmax_t)st.st_size, least);
}

/* Create an output file, in its stripe's folder if there are stripes. @return descriptor, or a
 * failure */
static int make_file(const struct rung__stage_rows *rows, uint32_t f)
{
	const struct rung__stage *stage = rows->stage;
	int fd;

	if (rows->src == stage->features && stage->opts.stripe_count)
		return rung__stripe_make(&stage->dir, stage->opts.stripe_dirs[f], f,
		                         rows->files[f].name);
	rung__stage_step("create");
	fd = openat(stage->dir.fd, rows->files[f].name, O_RDWR | O_CLOEXEC | O_CREAT | O_EXCL,
	            0666);
	return fd < 0 ? rung__fail_errno(errno, "%s: cannot be created", rows->paths[f]) : fd;
}

/* Open an output file for direct writes, and reserve its bytes, including those of buckets. */
static int open_file(struct rung__stage_rows *rows, uint32_t f, bool begun)
{
	const uint64_t bytes =
		rows->plan.kind == RUNG_ROW_ORDER_PARTITION
			? rung__partition_file_bytes(&rows->layout, &rows->plan, rows->row_count, f)
			: rows->files[f].bytes;
	const struct rung__stage *stage = rows->stage;
	int fd, rc;

	rows->paths[f] = rung__format("%s/%s", stage->dir.partial_path, rows->files[f].name);
	if (!rows->paths[f])
		return rung__fail(RUNG_E_NOMEM, "%s", rows->files[f].name);
	fd = begun ? open_begun(rows, f) : make_file(rows, f);
	if (fd < 0)
		return fd;
	rc = rung__direct_open_write(&rows->out[f], fd, rows->paths[f]);
	close(fd);
	rows->out[f].bytes_needed = bytes;
	rc = rc == 0 && begun ? check_begun(rows, f) : rc;
	rung__stage_step("reserve");
	if (rc == 0)
		rc = rung__reserve(rows->out[f].fd, rows->paths[f], bytes);
	return rc;
}

/* Open the reader of single rows, which allocates its own buffers. */
static int open_gathered(struct rung__stage_rows *rows)
{
	const struct rung__row_reads_args args = {
		.features = &rows->gathered,
		.depth = rows->plan.reader_count,
		.slot_bytes = rows->plan.read_bytes,
		.merge_gap_bytes = RUNG__ROW_READ_GAP,
	};

	rows->gathered = rung__source_features(rows->src);
	return rung__row_reads_open(&args, &rows->reads);
}

/* Allocate what the schedule has planned, and open the source. close_all() frees it, also after a
 * failure. */
static int alloc_memory(struct rung__stage_rows *rows)
{
	const struct rung__rows_schedule *plan = &rows->plan;
	const struct rung__source_location place = rung__source_location(rows->src);

	for (uint32_t i = 0; i < plan->area_count; i++) {
		rows->areas[i] = rung__map_pages(plan->area_bytes);
		if (!rows->areas[i])
			return rung__fail(RUNG_E_NOMEM,
			                  "%s: no memory for a range of %" PRIu64 " bytes",
			                  rows->what, plan->area_bytes);
	}
	rows->tails = rung__malloc_array(rows->layout.file_count, RUNG__BLOCK_BYTES);
	if (!rows->tails)
		return rung__fail(RUNG_E_NOMEM,
		                  "%s: no memory for the last blocks of %" PRIu64 " files",
		                  rows->what, rows->layout.file_count);
	if (plan->kind != RUNG_ROW_ORDER_PASSES)
		rows->vertices =
			rung__malloc_array(plan->range_rows, rows->stage->manifest->index_bytes);
	if (plan->kind != RUNG_ROW_ORDER_PASSES && !rows->vertices)
		return rung__fail(RUNG_E_NOMEM, "%s: no memory for the ids of %" PRIu64 " vertices",
		                  rows->what, plan->range_rows);
	/* "partition" needs buffers even if the source does not, to read its buckets */
	if (place.data && plan->kind == RUNG_ROW_ORDER_PASSES)
		return 0;
	if (plan->kind == RUNG_ROW_ORDER_GATHER)
		return open_gathered(rows);
	rows->read_buffers =
		rung__malloc_aligned(RUNG__PAGE_BYTES, plan->reader_count * plan->read_bytes);
	if (!rows->read_buffers)
		return rung__fail(RUNG_E_NOMEM,
		                  "%s: no memory for %" PRIu32 " reads of %" PRIu64 " bytes",
		                  rows->what, plan->reader_count, plan->read_bytes);
	if (place.data || place.streamed)
		return 0;
	return rung__direct_open(&rows->source, place.fd, place.path);
}

/* The word with number `word` of a journal line, as a hexadecimal number; 0 if the line is too
 * short. */
static uint64_t hex_word(const char *words, uint64_t word)
{
	while (word > 0 && *words != '\n') {
		words += strcspn(words, " \n");
		words += *words == ' ';
		word--;
	}
	return strtoull(words, NULL, 16);
}

/* Read from the journal how many rows an earlier run has finished, and the sum of its buckets.
 * After the first range the line "rows" is newer than "partitioned", so the sum in "rows" counts.
 * @param begun_out  whether the output files exist */
static int resume(struct rung__stage_rows *rows, bool *begun_out)
{
	struct rung__journal *journal = &rows->stage->journal;
	const char *words = rung__journal_last_of(journal, "rows", rows->files[0].name);
	const char *partitioned =
		rung__journal_last_of(journal, "partitioned", rows->files[0].name);

	rows->done = words ? strtoull(words, NULL, 10) : 0;
	rows->partition_sum = words         ? hex_word(words, 1 + rows->layout.file_count)
	                      : partitioned ? hex_word(partitioned, 2)
	                                    : 0;
	*begun_out = words || partitioned;
	/* a bucket is read as a whole, so a range of "partition" cannot begin inside one */
	if (rows->done < rows->row_count &&
	    rows->done % (rows->plan.kind == RUNG_ROW_ORDER_PARTITION ? rows->plan.range_rows
	                                                              : 1) ==
	            0)
		return 0;
	return rows->done == rows->row_count
	               ? 0
	               : rung__fail(
				 RUNG_E_FORMAT,
				 "%s: line '%.*s' does not match this job; start from scratch with "
				 "--force",
				 journal->path, (int)strcspn(words, "\n"), words);
}

/* Truncate the files to their final length, because buckets and whole pages have made them longer.
 * Then record them as finished. */
static int end_files(struct rung__stage_rows *rows)
{
	int rc = 0;

	for (uint32_t f = 0; f < rows->layout.file_count && rc == 0; f++) {
		rung__stage_step("cut");
		if (ftruncate(rows->out[f].fd, (off_t)rows->files[f].bytes) < 0 ||
		    fsync(rows->out[f].fd) < 0)
			rc = rung__fail_errno(
				errno, "%s: cannot be truncated to %" PRIu64 " bytes and synced",
				rows->paths[f], rows->files[f].bytes);
		else
			rc = rung__journal_add(&rows->stage->journal, "file %s",
			                       rows->files[f].name);
	}
	return rc < 0 ? rc : rung__journal_commit(&rows->stage->journal, -1);
}

/* The report counts only the rows of the features. */
static void note_resumed(const struct rung__stage_rows *rows, uint64_t row_count)
{
	if (rows->src == rows->stage->features)
		rows->stage->report.rows_resumed = row_count;
}

/* Open the files, write all rows to them, and finish them. */
static int write_all(struct rung__stage_rows *rows)
{
	bool begun;
	int rc = resume(rows, &begun);

	note_resumed(rows, rows->done);
	/* progress counts each finished row with its share of the bytes read and written */
	rows->stage->step_done = (uint64_t)((double)rows->stage->step_total * (double)rows->done /
	                                    (double)rows->row_count);
	for (uint32_t f = 0; f < rows->layout.file_count && rc == 0; f++)
		rc = open_file(rows, f, begun);
	/* the names of new files must be on the device before the journal refers to them */
	if (rc == 0 && !begun)
		rc = rung__sync_folder(rows->stage->dir.fd, rows->stage->dir.partial_path);
	if (rc == 0)
		rc = alloc_memory(rows);
	if (rc == 0 && rows->plan.kind == RUNG_ROW_ORDER_PARTITION)
		rc = rung__stage_partition(rows);
	if (rc == 0)
		rc = write_ranges(rows);
	if (rc == 0 && rows->partition_sum != 0)
		rc = rung__fail(RUNG_E_CORRUPT,
		                "%s: rows in its buckets were changed before they were sorted; "
		                "start from scratch with --force",
		                rows->paths[0]);
	return rc < 0 ? rc : end_files(rows);
}

static void close_all(struct rung__stage_rows *rows)
{
	for (uint32_t f = 0; f < rows->layout.file_count; f++) {
		rung__direct_close(&rows->out[f]);
		rung__free(rows->paths[f]);
	}
	for (int i = 0; i < 2; i++)
		rung__unmap_pages(rows->areas[i], rows->plan.area_bytes);
	rung__row_reads_close(rows->reads);
	rung__direct_close(&rows->source);
	rung__free(rows->read_buffers);
	rung__free(rows->vertices);
	rung__free(rows->tails);
}

int rung__stage_write_rows(struct rung__stage *stage, const struct rung_source *src,
                           const char *what, const char *name, const struct rung__layout *layout,
                           const struct rung__rows_schedule *plan)
{
	struct rung__stage_rows rows = {
		.stage = stage,
		.what = what,
		.src = src,
		.files = rung__manifest_file(stage->manifest, name),
		.layout = *layout,
		.plan = *plan,
		.source.fd = -1,
		.source_rows = stage->manifest->vertex_count,
		.row_count = rung__layout_rows(layout),
		.rank_first = src == stage->features ? rung__stage_rank_first(stage) : 0,
	};
	int rc;

	for (uint32_t f = 0; f < layout->file_count; f++)
		rows.out[f].fd = -1;
	/* one commit of the journal records all files, so if the last file is finished, all are */
	if (rung__stage_file_done(stage, rows.files[layout->file_count - 1].name)) {
		note_resumed(&rows, rows.row_count);
		return 0;
	}
	stage->step_done = 0;
	stage->step_total = plan->bytes_read + plan->bytes_written;
	rc = write_all(&rows);
	close_all(&rows);
	return rc;
}

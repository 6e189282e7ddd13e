/* SPDX-License-Identifier: Apache-2.0 */
/* Reads rows in the order of their positions, in large pieces without the page cache. Several
 * threads read, so that several reads are in flight, and each thread passes its rows to the
 * caller's function. */
#include "base/base.h"
#include "base/jobs.h"
#include "rows/stage_scan.h"
#include "source/source.h"

struct row_scan {
	const struct rung__stage_rows *rows;
	struct rung__chunks chunks;
	rung__scan_fn fn;
	void *ctx;
};

uint64_t rung__scan_chunk_rows(const struct rung__stage_rows *rows)
{
	/* two pages: a read begins and ends at page boundaries, rows do not */
	return RUNG__MAX((rows->plan.read_bytes - 2 * RUNG__PAGE_BYTES) / rows->layout.row_bytes,
	                 1u);
}

struct rung__features rung__source_features(const struct rung_source *src)
{
	const struct rung__source_location place = rung__source_location(src);
	const struct rung_array_info *info = rung_source_info(src);
	struct rung__features features = {
		.layout = {
			.data_offset = place.offset,
			.row_stride = info->row_bytes,
			.row_bytes = info->row_bytes,
			.file_count = 1,
			.file_bytes = { place.offset + info->row_count * info->row_bytes },
		},
	};

	features.files[0].path = (char *)(uintptr_t)place.path; /* not modified */
	features.files[0].fd = place.fd;
	return features;
}

/* Read one chunk into the thread's buffer, and process it. Runs in a job. */
static int scan_chunk(void *ctx, uint64_t number, uint32_t worker)
{
	struct row_scan *scan = ctx;
	const struct rung__stage_rows *rows = scan->rows;
	unsigned char *buffer = NULL;
	struct rung__chunk chunk;
	int rc;

	if (rows->read_buffers)
		buffer = rows->read_buffers + worker * rows->plan.read_bytes;
	rc = rung__chunk_read(&scan->chunks, number, buffer, &chunk);
	if (rc == 0)
		scan->fn(scan->ctx, chunk.number, chunk.first, chunk.count, chunk.rows);
	return rc;
}

/* Run the chunks as jobs. This thread reports the progress, because user callbacks are called only
 * from the thread that stages. `bytes` is the total. */
static int run_jobs(struct rung__stage_rows *rows, uint64_t count, struct row_scan *scan,
                    uint64_t bytes)
{
	struct rung__jobs *jobs;
	int rc = rung__jobs_start(rows->plan.reader_count, count, scan_chunk, scan, &jobs), failed;

	if (rc < 0)
		return rc;
	for (uint64_t i = 0; i < count && rc == 0 && rung__jobs_wait(jobs, i + 1); i++)
		/* equal shares whose sum is exactly `bytes` */
		rc = rung__stage_advance(rows->stage, rows->what,
		                         bytes / count + (i < bytes % count));
	if (rc < 0) /* after a cancellation no further chunk is started */
		rung__jobs_stop(jobs);
	failed = rung__jobs_end(jobs);
	return failed < 0 ? failed : rc;
}

int rung__scan(struct rung__stage_rows *rows, const struct rung__scan_span *span, uint64_t first,
               uint64_t count, rung__scan_fn fn, void *ctx)
{
	struct row_scan scan = {
		.rows = rows,
		.chunks = {
			.span = *span,
			.row_bytes = rows->layout.row_bytes,
			.first = first,
			.count = count,
			.chunk_rows = rung__scan_chunk_rows(rows),
			.turn = PTHREAD_MUTEX_INITIALIZER,
		},
		.fn = fn,
		.ctx = ctx,
	};
	int rc = run_jobs(rows, rung__chunk_count(&scan.chunks), &scan,
	                  count * rows->layout.row_bytes);

	pthread_mutex_destroy(&scan.chunks.turn);
	return rc;
}

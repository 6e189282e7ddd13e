/* SPDX-License-Identifier: Apache-2.0 */
/* Rows read in the order they lie, in large pieces past the page cache, by threads that hand on what they have read. */
#include "internal.h"
#include "jobs.h"
#include "source_place.h"
#include "stage_private.h"

struct scan {
	const struct rung__stage_rows *rows;
	const struct rung__row_span *span;
	uint64_t first, count, chunk_rows;
	rung__scan_fn fn;
	void *ctx;
};

uint64_t rung__scan_chunk_rows(const struct rung__stage_rows *rows)
{
	return RUNG__MAX((rows->plan.read_bytes - 2 * RUNG__PAGE_BYTES) / rows->layout.row_bytes, 1u);
}

struct rung__row_span rung__source_span(const struct rung__stage_rows *rows)
{
	const struct rung__source_place place = rung__source_place(rows->src);

	return (struct rung__row_span){ .data = place.data, .file = &rows->source, .offset = place.offset };
}

int rung__row_span_read(const struct rung__stage_rows *rows, const struct rung__row_span *span, uint64_t first, uint64_t count,
		    unsigned char *buffer, const unsigned char **rows_out)
{
	const uint64_t row_bytes = rows->layout.row_bytes, begin = span->offset + first * row_bytes;
	const uint64_t page = rung__align_down(begin, RUNG__PAGE_BYTES);

	if (span->data) {
		*rows_out = span->data + first * row_bytes;
		return 0;
	}
	*rows_out = buffer + (begin - page);
	return rung__direct_read(span->file, buffer, begin + count * row_bytes - page, page);
}

static int scan_chunk(void *ctx, uint64_t chunk, uint32_t worker)
{
	const struct scan *scan = ctx;
	const struct rung__stage_rows *rows = scan->rows;
	const uint64_t at = chunk * scan->chunk_rows, count = RUNG__MIN(scan->count - at, scan->chunk_rows);
	unsigned char *buffer = rows->read_buffers ? rows->read_buffers + worker * rows->plan.read_bytes : NULL;
	const unsigned char *data;
	int rc = rung__row_span_read(rows, scan->span, scan->first + at, count, buffer, &data);

	if (rc == 0)
		scan->fn(scan->ctx, chunk, scan->first + at, count, data);
	return rc;
}

int rung__scan(struct rung__stage_rows *rows, const struct rung__row_span *span, uint64_t first, uint64_t count, rung__scan_fn fn,
	       void *ctx)
{
	struct scan scan = { rows, span, first, count, rung__scan_chunk_rows(rows), fn, ctx };
	const uint64_t chunks = (count + scan.chunk_rows - 1) / scan.chunk_rows;

	return rung__rows_jobs(rows, rows->plan.reader_count, chunks, scan_chunk, &scan, count * rows->layout.row_bytes);
}

int rung__rows_jobs(struct rung__stage_rows *rows, uint32_t threads, uint64_t count, int (*fn)(void *ctx, uint64_t job, uint32_t worker),
		    void *ctx, uint64_t bytes)
{
	struct rung__jobs *jobs;
	int rc = rung__jobs_start(threads, count, fn, ctx, &jobs), failed;

	if (rc < 0)
		return rc;
	for (uint64_t i = 0; i < count && rc == 0 && rung__jobs_wait(jobs, i + 1); i++)
		rc = rung__stage_advance(rows->stage, rows->what, bytes / count + (i < bytes % count));
	if (rc < 0)
		rung__jobs_stop(jobs);
	failed = rung__jobs_end(jobs);
	return failed < 0 ? failed : rc;
}

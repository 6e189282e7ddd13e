/* SPDX-License-Identifier: Apache-2.0 */
/* Rows read in the order they lie, in large pieces past the page cache, by threads that hand on what they have read. */
#include <pthread.h>

#include "base/base.h"
#include "base/jobs.h"
#include "rows/stage_scan.h"
#include "source/source.h"

struct row_scan {
	const struct rung__stage_rows *rows;
	const struct rung__scan_span *span;
	uint64_t first, count, chunk_rows;
	rung__scan_fn fn;
	void *ctx;
	pthread_mutex_t turn;      /* of what is inflated: chunks are read one after the other */
	uint64_t next;
};

uint64_t rung__scan_chunk_rows(const struct rung__stage_rows *rows)
{
	return RUNG__MAX((rows->plan.read_bytes - 2 * RUNG__PAGE_BYTES) / rows->layout.row_bytes, 1u);
}

struct rung__scan_span rung__source_span(const struct rung__stage_rows *rows)
{
	const struct rung__source_place place = rung__source_place(rows->src);

	return (struct rung__scan_span){ .data = place.data,
					.src = rows->src,
					.streamed = place.streamed,
					.file = &rows->source,
					.offset = place.offset };
}

struct rung__features rung__source_features(const struct rung_source *src)
{
	const struct rung__source_place place = rung__source_place(src);
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

	features.files[0].path = (char *)(uintptr_t)place.path;   /* only looked at */
	features.files[0].fd = place.fd;
	return features;
}

/* @param buffer  [plan.read_bytes] on a page @param rows_out  where they lie, in `buffer` or in memory */
static int read_span(const struct rung__stage_rows *rows, const struct rung__scan_span *span,
		     uint64_t first, uint64_t count,
		     unsigned char *buffer, const unsigned char **rows_out)
{
	const uint64_t row_bytes = rows->layout.row_bytes, begin = span->offset + first * row_bytes;
	const uint64_t page = rung__align_down(begin, RUNG__PAGE_BYTES);
	int rc;

	if (span->data) {
		*rows_out = span->data + first * row_bytes;
		return 0;
	}
	if (span->streamed) {
		*rows_out = buffer;
		return rung_source_read(span->src, first, count, buffer);
	}
	*rows_out = buffer + (begin - page);
	rc = rung__direct_read(span->file, buffer, begin + count * row_bytes - page, page);
	return rc == 0 && span->src ? rung__source_was_read(span->src, first * row_bytes,
							    count * row_bytes, *rows_out)
				    : rc;
}

static int take_chunk(const struct row_scan *scan, uint64_t chunk, unsigned char *buffer,
		      const unsigned char **rows_out)
{
	const uint64_t at = chunk * scan->chunk_rows, count = RUNG__MIN(scan->count - at, scan->chunk_rows);

	return read_span(scan->rows, scan->span, scan->first + at, count, buffer, rows_out);
}

/* Whoever comes first takes the next chunk: any other order would have bytes inflated twice. */
static int take_turn(struct row_scan *scan, unsigned char *buffer, uint64_t *chunk_out,
		     const unsigned char **rows_out)
{
	int rc;

	pthread_mutex_lock(&scan->turn);
	*chunk_out = scan->next++;
	rc = take_chunk(scan, *chunk_out, buffer, rows_out);
	pthread_mutex_unlock(&scan->turn);
	return rc;
}

static int scan_chunk(void *ctx, uint64_t chunk, uint32_t worker)
{
	struct row_scan *scan = ctx;
	const struct rung__stage_rows *rows = scan->rows;
	unsigned char *buffer = rows->read_buffers ? rows->read_buffers + worker * rows->plan.read_bytes : NULL;
	const unsigned char *data;
	int rc = scan->span->streamed ? take_turn(scan, buffer, &chunk, &data)
				      : take_chunk(scan, chunk, buffer, &data);
	const uint64_t at = chunk * scan->chunk_rows;

	if (rc == 0)
		scan->fn(scan->ctx, chunk, scan->first + at, RUNG__MIN(scan->count - at, scan->chunk_rows), data);
	return rc;
}

/* Chunks by threads, with progress: `bytes` in all. */
static int run_jobs(struct rung__stage_rows *rows, uint64_t count, struct row_scan *scan,
		    uint64_t bytes)
{
	struct rung__jobs *jobs;
	int rc = rung__jobs_start(rows->plan.reader_count, count, scan_chunk, scan, &jobs), failed;

	if (rc < 0)
		return rc;
	for (uint64_t i = 0; i < count && rc == 0 && rung__jobs_wait(jobs, i + 1); i++)
		rc = rung__stage_advance(rows->stage, rows->what, bytes / count + (i < bytes % count));
	if (rc < 0)
		rung__jobs_stop(jobs);
	failed = rung__jobs_end(jobs);
	return failed < 0 ? failed : rc;
}

int rung__scan(struct rung__stage_rows *rows, const struct rung__scan_span *span, uint64_t first,
	       uint64_t count, rung__scan_fn fn,
	       void *ctx)
{
	struct row_scan scan = { rows, span, first, count, rung__scan_chunk_rows(rows), fn, ctx,
				 PTHREAD_MUTEX_INITIALIZER, 0 };
	const uint64_t chunks = (count + scan.chunk_rows - 1) / scan.chunk_rows;
	int rc = run_jobs(rows, chunks, &scan, count * rows->layout.row_bytes);

	pthread_mutex_destroy(&scan.turn);
	return rc;
}

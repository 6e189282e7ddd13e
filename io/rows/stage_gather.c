/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a range read where they lie, in the order of the source, many reads in flight; near ones share a read. */
#include "base/base.h"
#include "rows/stage_gather.h"
#include "rows/stage_image.h"
#include "source/source.h"

#define GAP_BYTES 4096u   /* between two rows that is read along rather than starting another read */

struct gathering {
	struct rung__stage_rows *rows;
	const struct rung__image *image;
	uint64_t offset;      /* of the source's rows in its file */
	uint64_t next, end;   /* vertices of the range, by their place in rows->vertices, that are not asked for yet */
	uint64_t *firsts;     /* [plan.reader_count] place of the first that a slot's read is for, */
	uint64_t *counts;     /* and how many */
};

/* How many vertices from `at` on one read can serve: neighbours in the source, or nearly. */
static uint64_t run_length(const struct gathering *g, uint64_t at)
{
	const struct rung__stage_rows *rows = g->rows;
	const uint64_t row_bytes = rows->layout.row_bytes, first = rung__rows_vertex(rows, at);
	const uint64_t rows_max = (rows->plan.read_bytes - 2 * RUNG__PAGE_BYTES) / row_bytes, step_max = GAP_BYTES / row_bytes + 1;
	uint64_t last = first, i = at + 1;

	for (; i < g->end; i++) {
		const uint64_t vertex = rung__rows_vertex(rows, i);

		if (vertex - last > step_max || vertex - first >= rows_max)
			break;
		last = vertex;
	}
	return i - at;
}

static uint64_t row_at(const struct gathering *g, uint64_t place)
{
	return g->offset + rung__rows_vertex(g->rows, place) * g->rows->layout.row_bytes;
}

static bool next_read(void *ctx, uint32_t slot, uint64_t *offset_out, uint64_t *bytes_out)
{
	struct gathering *g = ctx;
	uint64_t run;

	if (g->next == g->end)
		return false;
	run = run_length(g, g->next);
	*offset_out = rung__align_down(row_at(g, g->next), RUNG__PAGE_BYTES);
	*bytes_out = row_at(g, g->next + run - 1) + g->rows->layout.row_bytes - *offset_out;
	g->firsts[slot] = g->next;
	g->counts[slot] = run;
	g->next += run;
	return true;
}

static int take_read(void *ctx, uint32_t slot, const unsigned char *at)
{
	const struct gathering *g = ctx;
	const uint64_t first = g->firsts[slot], count = g->counts[slot];
	const uint64_t begin = rung__align_down(row_at(g, first), RUNG__PAGE_BYTES);

	for (uint64_t i = first; i < first + count; i++)
		rung__image_put_vertex(g->rows, g->image, rung__rows_vertex(g->rows, i), at + (row_at(g, i) - begin));
	return rung__stage_advance(g->rows->stage, g->rows->what, count * g->rows->layout.row_bytes);
}

int rung__stage_gather(struct rung__stage_rows *rows, const struct rung__image *image)
{
	struct gathering g = { .rows = rows, .image = image, .offset = rung__source_place(rows->src).offset, .end = image->end - image->first };
	const struct rung__row_reads_job job = { .next = next_read, .done = take_read, .ctx = &g };
	int rc;

	g.firsts = rung__malloc_array(rows->plan.reader_count, sizeof(*g.firsts));
	g.counts = rung__malloc_array(rows->plan.reader_count, sizeof(*g.counts));
	rc = g.firsts && g.counts ? rung__row_reads_run(&rows->reads, &job)
				  : rung__fail(RUNG_E_NOMEM, "%s: %" PRIu32 " reads", rows->what, rows->plan.reader_count);
	rung__free(g.firsts);
	rung__free(g.counts);
	return rc;
}

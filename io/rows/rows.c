/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gathers rows of a source at given positions. The requested rows are sorted by their position in
 * the source, each thread gets a contiguous share of them, and rows that are close to each other
 * are read together and copied to their places in the output.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "layout/layout.h"
#include "rows/rows.h"
#include "source/source.h"

/* largest gap between two rows of one read: one more page costs less than another read */
#define GAP_BYTES 4096u

struct rung__row_location {
	uint64_t row; /* its number in the source */
	uint64_t at;  /* its number in the output */
};

int rung__rows_init(struct rung__rows *rows, const struct rung_source *src, uint64_t count_max,
                    int threads)
{
	/* a streamed source is fast only if read in order, which several threads would not do */
	if (rung__source_location(src).streamed && !rung__source_location(src).any_order)
		threads = 1;
	*rows = (struct rung__rows){ .src = src, .count_max = count_max, .threads = threads };
	rows->order = rung__malloc_array(count_max, sizeof(*rows->order));
	rows->bounce = rung__malloc_array((uint64_t)threads, RUNG__ROWS_BOUNCE_BYTES);
	if (!rows->order || !rows->bounce) {
		rung__rows_fini(rows);
		return rung__fail(RUNG_E_NOMEM, "%s: no memory for the order of %" PRIu64 " rows",
		                  rung__source_spec(src), count_max);
	}
	return 0;
}

void rung__rows_fini(struct rung__rows *rows)
{
	rung__free(rows->order);
	rung__free(rows->bounce);
	rows->order = NULL;
	rows->bounce = NULL;
}

static int compare_locations(const void *a, const void *b)
{
	const struct rung__row_location *x = a, *y = b;

	return (x->row > y->row) - (x->row < y->row);
}

/* The number of rows, starting with order[first], that one read into the bounce buffer covers. */
static uint64_t run_length(const struct rung__rows *rows, uint64_t first, uint64_t end)
{
	const struct rung__row_location *order = rows->order;
	const uint64_t row_bytes = rung_source_info(rows->src)->row_bytes;
	const struct rung__read_rule rule = {
		.row_bytes = row_bytes,
		.align = 1,
		.merge_gap_bytes = GAP_BYTES,
		.read_bytes_max = RUNG__ROWS_BOUNCE_BYTES,
	};
	uint64_t i = first + 1;

	while (i < end &&
	       rung__row_joins(&rule, order[first].row * row_bytes,
	                       (order[i - 1].row + 1) * row_bytes, order[i].row * row_bytes))
		i++;
	return i - first;
}

/* Read the rows order[first .. end). A single row is read directly to its place, because it can be
 * longer than the bounce buffer. */
static int gather_part(const struct rung__rows *rows, uint64_t first, uint64_t end,
                       unsigned char *bounce, unsigned char *out)
{
	const struct rung__row_location *order = rows->order;
	const uint64_t row_bytes = rung_source_info(rows->src)->row_bytes;
	uint64_t run;
	int rc;

	for (uint64_t i = first; i < end; i += run) {
		uint64_t row = order[i].row;

		run = run_length(rows, i, end);
		if (run == 1) {
			rc = rung_source_read(rows->src, row, 1, out + order[i].at * row_bytes);
			if (rc < 0)
				return rc;
			continue;
		}
		rc = rung_source_read(rows->src, row, order[i + run - 1].row - row + 1, bounce);
		if (rc < 0)
			return rc;
		for (uint64_t j = i; j < i + run; j++)
			memcpy(out + order[j].at * row_bytes,
			       bounce + (order[j].row - row) * row_bytes, (size_t)row_bytes);
	}
	return 0;
}

int rung__rows_gather(struct rung__rows *rows, const void *ids, unsigned id_bytes, uint64_t first,
                      uint64_t count, unsigned char *out)
{
	struct rung__failure failure = { .rc = 0 };

	for (uint64_t i = 0; i < count; i++)
		rows->order[i] =
			(struct rung__row_location){ .row = rung__id_get(ids, id_bytes, first + i),
			                             .at = i };
	qsort(rows->order, (size_t)count, sizeof(*rows->order), compare_locations);
	/* a loop over parts, not over threads: all parts are read even if OpenMP grants fewer
	 * threads */
#pragma omp parallel for num_threads(rows->threads) schedule(static, 1)
	for (int part = 0; part < rows->threads; part++) {
		uint64_t share = count / (uint64_t)rows->threads + 1,
			 from = RUNG__MIN(share * (uint64_t)part, count);
		unsigned char *bounce = rows->bounce + (size_t)part * RUNG__ROWS_BOUNCE_BYTES;

		rung__failure_keep(&failure, gather_part(rows, from, RUNG__MIN(from + share, count),
		                                         bounce, out));
	}
	return rung__failure_report(&failure);
}

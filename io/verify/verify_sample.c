/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares a sample of the rows, byte by byte. Vertices are drawn in ascending order, so reads of
 * the source ascend. The staged rows of a batch are sorted by rank, so they are read in the order
 * of their positions as well. One seed always draws the same sample.
 */
#include <stdlib.h>
#include <string.h>

#include "file/file.h"
#include "rows/rows.h"
#include "verify/state.h"

/* size of a batch's rows in bytes: large enough that some rows are close to each other in the
 * source */
#define BATCH_BYTES (16u << 20)

/* A row of a batch. */
struct drawn_row {
	uint64_t rank, at; /* at: the row's number in the batch */
};

/* Memory of a batch. */
struct sampled {
	uint64_t *ids;                    /* [count_max] vertices, ascending */
	struct drawn_row *rows_drawn;     /* [count_max] by rank */
	unsigned char *staged, *original; /* [count_max] rows, in the order of ids */
	uint64_t count_max;
	struct rung__rows gather; /* reads the source */
};

bool rung__row_sample_init(struct rung__row_sample *sample, const struct rung__verify *v)
{
	const uint64_t vertices = v->ds->manifest->vertex_count;
	const uint64_t share = (uint64_t)(v->opts.sample_share * (double)vertices + 0.5);
	const uint64_t rows = v->opts.sample_share > 0 ? RUNG__MAX(share, 1u) : v->opts.sample_rows;

	*sample = (struct rung__row_sample){ .seed = v->opts.seed,
		                             .vertex_count = vertices,
		                             .left = RUNG__MIN(rows, vertices) };
	return rows > 0 && rows < vertices;
}

/* Selection sampling: each vertex is chosen with the probability left / rest, so every sample is
 * equally likely, and is complete at the last vertex at the latest. It needs no memory, and the
 * vertices ascend. */
uint64_t rung__row_sample_next(struct rung__row_sample *sample)
{
	uint64_t vertex;

	do {
		/* a random number of 53 bits, which a double represents exactly */
		const uint64_t draw = rung__mix64(rung__mix64(sample->seed) ^ sample->vertex) >> 11;
		const double rest = (double)(sample->vertex_count - sample->vertex);

		vertex = sample->vertex++;
		/* all remaining vertices are needed, which must not depend on rounding */
		if (sample->left == sample->vertex_count - vertex ||
		    (double)draw * 0x1p-53 * rest < (double)sample->left) {
			sample->left--;
			return vertex;
		}
	} while (true);
}

static int compare_locations(const void *a, const void *b)
{
	const struct drawn_row *x = a, *y = b;

	return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Read the staged rows of a batch, in the order of ranks. */
static int read_staged(const struct rung__verify_rows *rows, const struct sampled *s,
                       uint64_t count, int threads)
{
	const struct rung__layout *layout = &rows->layout;
	struct rung__failure failure = { .rc = 0 };

	(void)threads; /* unused in builds without OpenMP */
	/* each thread reads 16 rows in rank order, so its reads stay close to each other on the
	 * device */
#pragma omp parallel for num_threads(threads) schedule(static, 16)
	for (uint64_t i = 0; i < count; i++) {
		const uint64_t rank = s->rows_drawn[i].rank, f = rung__row_file(layout, rank);
		unsigned char *to = s->staged + s->rows_drawn[i].at * layout->row_bytes;

		rung__failure_keep(&failure, rung__pread_all(rows->staged.files[f].fd,
		                                             rows->staged.files[f].path, to,
		                                             layout->row_bytes,
		                                             rung__row_offset(layout, rank)));
	}
	return rung__failure_report(&failure);
}

/* Read the rows of s->ids from both sides, and compare them. */
static int compare_batch(const struct rung__verify *v, struct rung__verify_rows *rows,
                         struct sampled *s, uint64_t count)
{
	const uint64_t row_bytes = rows->layout.row_bytes;
	int rc;

	for (uint64_t i = 0; i < count; i++)
		s->rows_drawn[i] = (struct drawn_row){
			rung__id_get(v->rank_of_vertex, v->ds->manifest->index_bytes, s->ids[i]), i
		};
	qsort(s->rows_drawn, (size_t)count, sizeof(*s->rows_drawn), compare_locations);
	rc = rung__rows_gather(&s->gather, s->ids, sizeof(*s->ids), 0, count, s->original);
	if (rc == 0)
		rc = read_staged(rows, s, count, v->threads);
	for (uint64_t i = 0; i < count && rc == 0; i++) {
		const uint64_t at = s->rows_drawn[i].at * row_bytes;

		rows->compared++;
		if (memcmp(s->staged + at, s->original + at, (size_t)row_bytes) == 0)
			continue;
		rows->different++;
		rows->first_rank = RUNG__MIN(rows->first_rank, s->rows_drawn[i].rank);
	}
	return rc;
}

/* Draw and compare batches until the sample is complete. */
static int compare_sampled(const struct rung__verify *v, struct rung__verify_rows *rows,
                           struct sampled *s, struct rung__row_sample *sample)
{
	const uint64_t wanted = sample->left;
	int rc = 0;

	while (sample->left > 0 && rc == 0) {
		uint64_t count = RUNG__MIN(sample->left, s->count_max);

		for (uint64_t i = 0; i < count; i++)
			s->ids[i] = rung__row_sample_next(sample);
		rc = compare_batch(v, rows, s, count);
		if (rc == 0 && v->opts.progress &&
		    v->opts.progress(v->opts.progress_ctx, rows->step, wanted - sample->left,
		                     wanted))
			rc = rung__fail(RUNG_E_CANCELED, "%s: canceled", rows->step);
	}
	return rc;
}

int rung__verify_rows_sample(const struct rung__verify *v, struct rung__verify_rows *rows)
{
	const uint64_t row_bytes = rows->layout.row_bytes;
	struct sampled s = { .count_max = 0 };
	struct rung__row_sample sample;
	int rc;

	rung__row_sample_init(&sample, v);
	s.count_max = RUNG__MIN(RUNG__MAX(BATCH_BYTES / RUNG__MAX(row_bytes, 1u), 1u), sample.left);
	s.ids = rung__malloc_array(s.count_max, sizeof(*s.ids));
	s.rows_drawn = rung__malloc_array(s.count_max, sizeof(*s.rows_drawn));
	s.staged = rung__malloc_array(s.count_max, (size_t)row_bytes);
	s.original = rung__malloc_array(s.count_max, (size_t)row_bytes);
	if (s.ids && s.rows_drawn && s.staged && s.original)
		rc = rung__rows_init(&s.gather, rows->src, s.count_max, v->threads);
	else
		rc = rung__fail(RUNG_E_NOMEM, "verify: no memory for batches of %" PRIu64 " rows",
		                s.count_max);
	if (rc == 0)
		rc = compare_sampled(v, rows, &s, &sample);
	rung__rows_fini(&s.gather);
	rung__free(s.ids);
	rung__free(s.rows_drawn);
	rung__free(s.staged);
	rung__free(s.original);
	return rc;
}

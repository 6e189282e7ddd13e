/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares all rows of a source, in the order of vertices, with those of the dataset, in the order
 * of ranks. Both can be larger than memory.
 *
 * Each side is in random order for the other: fetching rows one by one would cost a read each, and
 * partitioning them into buckets would need as much disk space as the features. So each side is
 * read once from end to end, and only a fingerprint of each source row is kept: the row itself if
 * it is short, otherwise a 128-bit hash, 16 bytes per vertex. If the fingerprints exceed the
 * budget, there are several passes, each over the whole source and a range of ranks. The
 * probability that two different rows have the same hash is 2^-128.
 */
#include <stdatomic.h>
#include <string.h>

#include "rows/chunks.h"
#include "source/source.h"
#include "verify/state.h"

#define PASSES_MAX  64u /* a budget that needs more passes is refused: it would take days */
#define ROOMS_SHARE 4u  /* 1/4 of the memory is for read buffers */

struct comparison {
	const struct rung__verify *v;
	struct rung__verify_rows *rows;
	uint64_t rank_first, rank_end; /* ranks that this pass compares */
	/* [rank_end - rank_first][RUNG__FINGERPRINT_BYTES] of the source's rows, by rank */
	unsigned char *prints;
	/* number of rows of an item, which is one read */
	uint64_t rows_per_item;
	struct rung__chunks chunks;                          /* chunks of the source */
	struct rung__direct source, staged[RUNG__FILES_MAX]; /* fd -1: not open */
	uint64_t items[RUNG__FILES_MAX + 1];                 /* first item of each staged file */
	/* the rows of each staged file that this pass compares, as numbers within the file */
	uint64_t local_first[RUNG__FILES_MAX];
	uint64_t local_end[RUNG__FILES_MAX];
	_Atomic uint64_t different, first_rank; /* results, from all threads */
};

/* Check that the source has as many rows as the staged array, of the same length. */
static int check_shape(const struct rung__verify *v, const struct rung__verify_rows *rows,
                       const struct rung_array_info *staged)
{
	const struct rung_array_info *info = rung_source_info(rows->src);

	if (info->row_count != staged->row_count || info->row_bytes != staged->row_bytes)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: has %" PRIu64 " rows of %" PRIu64
		                  " bytes, but %s has %" PRIu64 " rows of %" PRIu64
		                  " bytes; give the %s that were staged",
		                  rows->spec, info->row_count, info->row_bytes, v->ds->dir,
		                  staged->row_count, staged->row_bytes,
		                  strcmp(rows->step, "rows") == 0 ? "features" : rows->step);
	return 0;
}

/* Compare quantized rows with their source quantized in the same way. */
static int quantize(const struct rung__verify *v, struct rung__verify_rows *rows)
{
	const struct rung__manifest *m = v->ds->manifest;
	struct rung_source *quantized;
	const enum rung_dtype dtype = rung_source_info(rows->src)->dtype;
	int rc = check_shape(v, rows, &m->given);

	if (rc == 0 && dtype != m->given.dtype)
		rc = rung__fail(RUNG_E_FORMAT,
		                "%s: has dtype %s, but the rows of %s were quantized from %s; give "
		                "the features that were staged",
		                rows->spec, rung_dtype_name(dtype), v->ds->dir,
		                rung_dtype_name(m->given.dtype));
	if (rc == 0)
		rc = rung__source_quantize(rows->src, &m->quant, m->column_scales, &quantized);
	if (rc == 0)
		rows->src = quantized;
	return rc;
}

int rung__verify_rows_open(const struct rung__verify *v, const char *spec, const char *name,
                           struct rung__verify_rows *rows)
{
	const struct rung__manifest *m = v->ds->manifest;
	const struct rung__manifest_file *file = name ? rung__manifest_file(m, name) : NULL;
	int rc;

	*rows = (struct rung__verify_rows){ .spec = spec, .name = name, .first_rank = UINT64_MAX };
	rows->step = !name                             ? "rows"
	             : strcmp(name, RUNG__LABELS) == 0 ? "labels"
	             : strcmp(name, RUNG__SCORE) == 0  ? "score"
	                                               : "arrays";
	if (name && !file)
		return rung__fail(RUNG_E_NOENT, "%s: has no %s to compare with %s", v->ds->dir,
		                  name, spec);
	rows->layout = name ? rung__manifest_array_layout(&file->array)
	                    : rung__manifest_features_layout(m);
	/* if staged in place, the dataset's rows are in the order of vertices as well */
	if (!name && rung__manifest_in_place(m))
		rows->layout.vertex_of_rank = v->vertex_of_rank;
	rc = rung_source_open(spec, &rows->src);
	if (rc == 0 && !name && m->quant.format != RUNG_QUANT_NONE)
		return quantize(v, rows);
	return rc == 0 ? check_shape(v, rows, name ? &file->array : &m->features) : rc;
}

int rung__verify_rows_open_staged(const struct rung__verify *v, struct rung__verify_rows *rows)
{
	return rows->name ? rung__array_open(v->ds, rows->name, &rows->staged)
	                  : rung__features_open(v->ds, &rows->staged);
}

void rung__verify_rows_close(struct rung__verify_rows *rows)
{
	rung__features_close(&rows->staged);
	rung_source_close(rows->src);
}

/* First half of a pass: read a chunk of the source, and keep the fingerprints of its rows that are
 * in the range. Runs in several threads, without a lock: each rank has its own fingerprint. */
static int open_source(void *ctx, uint64_t item, unsigned char *buffer)
{
	struct comparison *c = ctx;
	const struct rung__manifest *m = c->v->ds->manifest;
	const uint64_t row_bytes = c->rows->layout.row_bytes;
	struct rung__chunk chunk;
	int rc = rung__chunk_read(&c->chunks, item, buffer, &chunk);
	const unsigned char *row = chunk.rows;

	for (uint64_t i = 0; i < chunk.count && rc == 0; i++, row += row_bytes) {
		uint64_t rank = rung__id_get(c->v->rank_of_vertex, m->index_bytes, chunk.first + i);

		if (rank >= c->rank_first && rank < c->rank_end)
			rung__fingerprint(row, (size_t)row_bytes,
			                  c->prints +
			                          (rank - c->rank_first) * RUNG__FINGERPRINT_BYTES);
	}
	return rc;
}

/* The rank of row number `local` of a staged file. */
static uint64_t rank_of_local(const struct comparison *c, uint64_t file, uint64_t local)
{
	const struct rung__layout *layout = &c->rows->layout;

	if (layout->vertex_of_rank)
		return rung__id_get(c->v->rank_of_vertex, c->v->ds->manifest->index_bytes, local);
	return rung__file_rank(layout, file, local);
}

/* Count a row that differs. The lowest rank is reported, whichever thread is first. */
static void note_different(struct comparison *c, uint64_t rank)
{
	uint64_t first = c->first_rank;

	c->different++;
	while (rank < first && !atomic_compare_exchange_weak(&c->first_rank, &first, rank))
		;
}

/* Second half of a pass: read staged rows, and compare their fingerprints with those of the
 * source. Runs in several threads. */
static int check_staged(void *ctx, uint64_t item, unsigned char *buffer)
{
	struct comparison *c = ctx;
	const struct rung__layout *layout = &c->rows->layout;
	unsigned char print[RUNG__FINGERPRINT_BYTES];
	const unsigned char *row;
	uint64_t f = 0, first, count;
	int rc;

	while (item >= c->items[f + 1])
		f++;
	first = c->local_first[f] + (item - c->items[f]) * c->rows_per_item;
	count = RUNG__MIN(c->local_end[f] - first, c->rows_per_item);
	rc = rung__direct_read_span(&c->staged[f], layout->data_offset + first * layout->row_stride,
	                            (count - 1) * layout->row_stride + layout->row_bytes, buffer,
	                            &row);
	for (uint64_t i = 0; i < count && rc == 0; i++, row += layout->row_stride) {
		uint64_t rank = rank_of_local(c, f, first + i);

		if (rank < c->rank_first || rank >= c->rank_end)
			continue;
		rung__fingerprint(row, (size_t)layout->row_bytes, print);
		if (memcmp(print, c->prints + (rank - c->rank_first) * RUNG__FINGERPRINT_BYTES,
		           sizeof(print)) != 0)
			note_different(c, rank);
	}
	return rc;
}

/*
 * Divide the staged rows of the pass into items. In features files the ranks of a pass are
 * contiguous. The ranks of rows staged in place are scattered, so each pass reads the whole file.
 * @return number of items in all files
 */
static uint64_t hand_out_items(struct comparison *c)
{
	const struct rung__layout *layout = &c->rows->layout;
	const bool anywhere = layout->vertex_of_rank != NULL;

	for (uint64_t f = 0; f < layout->file_count; f++) {
		c->local_first[f] = anywhere ? 0 : rung__file_rows(layout, c->rank_first, f);
		c->local_end[f] = rung__file_rows(
			layout, anywhere ? c->v->ds->manifest->vertex_count : c->rank_end, f);
		c->items[f + 1] =
			c->items[f] + (c->local_end[f] - c->local_first[f] + c->rows_per_item - 1) /
					      c->rows_per_item;
	}
	return c->items[layout->file_count];
}

/* Compare the ranks of one pass. All fingerprints of the source are computed before the staged rows
 * are read. */
static int run_pass(struct comparison *c)
{
	const struct rung__verify *v = c->v;
	const struct rung__layout *layout = &c->rows->layout;
	struct rung__pump pump = { .step = c->rows->step,
		                   .threads = v->threads,
		                   .buffer_bytes = rung__span_buffer_bytes(c->rows_per_item *
		                                                           layout->row_stride),
		                   .memory_bytes = v->opts.memory_bytes / ROOMS_SHARE,
		                   .progress = v->opts.progress,
		                   .progress_ctx = v->opts.progress_ctx,
		                   .ctx = c,
		                   .work = open_source };
	int rc;

	c->chunks.next = 0;
	pump.item_count = rung__chunk_count(&c->chunks);
	rc = rung__pump_run(&pump);
	if (rc < 0)
		return rc;
	pump.item_count = hand_out_items(c);
	pump.work = check_staged;
	rc = rung__pump_run(&pump);
	if (rc == 0)
		c->rows->compared += c->rank_end - c->rank_first;
	return rc;
}

/* Set the number of ranks per pass, from the memory that maps and read buffers leave. @return 0, or
 * RUNG_E_INVAL; the message has the smallest budget that works */
static int pass_ranks(const struct rung__verify *v, uint64_t *ranks_out)
{
	const uint64_t vertices = v->ds->manifest->vertex_count,
		       maps = 2 * vertices * v->ds->manifest->index_bytes;
	const uint64_t memory = v->opts.memory_bytes, rest = memory - memory / ROOMS_SHARE;
	const uint64_t least = maps + (vertices / PASSES_MAX + 1) * RUNG__FINGERPRINT_BYTES;

	if (rest < least)
		return rung__fail_min_bytes(least + least / (ROOMS_SHARE - 1) + ROOMS_SHARE,
		                            "verify: comparing the rows of %" PRIu64
		                            " vertices needs more than %" PRIu64
		                            " bytes of memory; give at least %" PRIu64,
		                            vertices, memory,
		                            least + least / (ROOMS_SHARE - 1) + ROOMS_SHARE);
	*ranks_out = RUNG__MIN((rest - maps) / RUNG__FINGERPRINT_BYTES, vertices);
	return 0;
}

/* Open both sides for direct reads. All members are valid for closing afterwards, also after a
 * failure. */
static int open_files(struct comparison *c)
{
	const struct rung__source_location place = rung__source_location(c->rows->src);
	const struct rung__features *staged = &c->rows->staged;
	int rc = 0;

	c->source.fd = -1;
	c->chunks = (struct rung__chunks){ .span = rung__source_span(c->rows->src, &c->source),
		                           .row_bytes = c->rows->layout.row_bytes,
		                           .count = c->v->ds->manifest->vertex_count,
		                           .chunk_rows = c->rows_per_item,
		                           .turn = PTHREAD_MUTEX_INITIALIZER };
	for (uint64_t f = 0; f < RUNG__FILES_MAX; f++)
		c->staged[f].fd = -1;
	if (!place.data && !place.streamed)
		rc = rung__direct_open(&c->source, place.fd, place.path);
	for (uint64_t f = 0; f < c->rows->layout.file_count && rc == 0; f++)
		rc = rung__direct_open(&c->staged[f], staged->files[f].fd, staged->files[f].path);
	return rc;
}

static int run_passes(struct comparison *c, uint64_t ranks)
{
	const uint64_t vertices = c->v->ds->manifest->vertex_count;
	int rc = 0;

	for (; c->rank_first < vertices && rc == 0; c->rank_first = c->rank_end) {
		c->rank_end = RUNG__MIN(vertices, c->rank_first + ranks);
		rc = run_pass(c);
	}
	return rc;
}

int rung__verify_rows_all(const struct rung__verify *v, struct rung__verify_rows *rows)
{
	struct comparison c = { .v = v, .rows = rows, .first_rank = UINT64_MAX };
	uint64_t ranks = 0;
	int rc = pass_ranks(v, &ranks);

	if (rc < 0)
		return rc;
	c.rows_per_item =
		RUNG__MAX(RUNG__PUMP_READ_BYTES / RUNG__MAX(rows->layout.row_stride, 1u), 1u);
	c.prints = rung__malloc_array(ranks, RUNG__FINGERPRINT_BYTES);
	rc = c.prints ? open_files(&c)
	              : rung__fail(RUNG_E_NOMEM, "verify: no memory for %" PRIu64 " hashes of rows",
	                           ranks);
	if (rc == 0)
		rc = run_passes(&c, ranks);
	rows->different = c.different;
	rows->first_rank = c.first_rank;
	if (c.prints) { /* otherwise open_files() was not called, and there is nothing to close */
		pthread_mutex_destroy(&c.chunks.turn);
		rung__direct_close(&c.source);
		for (uint64_t f = 0; f < RUNG__FILES_MAX; f++)
			rung__direct_close(&c.staged[f]);
	}
	rung__free(c.prints);
	return rc;
}

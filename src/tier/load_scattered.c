/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading the rows of some ranks from a file that stores rows by vertex.
 *
 * The file is read once, from beginning to end. A pass over the ranks counts the rows in each of a
 * few thousand pieces of the file; then as many pieces as fit in the list are sorted and read at a
 * time. Rows near each other share a read as in refill, so hot rows that are close together cost no
 * more than a scan, and a few rows among many cost one read each, with many in flight.
 */
#include <string.h>

#include "sort/radix.h"
#include "tier/load.h"
#include "tier/row_reads.h"

#define DEPTH 64u /* reads in flight */
/* memory of these reads: there are fewer of them if rows are large */
#define POOL_BYTES_MAX (16u << 20)
#define DEPTH_MIN      4u
#define SLOT_BYTES     131072u /* longest read of several rows */
/* pieces of the file; the number of vertices in each is a power of two */
#define PIECES_MAX (1u << 14)

uint64_t rung__scattered_list_rows = 1u << 20;

struct rung__scattered {
	const struct rung__features *features;
	struct rung__row_reads *reads;

	/* the list: [count] vertices whose rows are to be read, ascending, and for each the row in
	 * `to` that receives it; the tmp arrays are for the sort; each array has space for
	 * `capacity` rows */
	uint64_t *vertices, *vertices_tmp;
	uint32_t *rows, *rows_tmp;
	uint64_t count, capacity;
	uint64_t *counts;  /* [PIECES_MAX + 1] rows in each piece */
	unsigned char *to; /* destination of the part that is being read */
};

/* Each slot has space for a row with its sectors. */
static int open_reads(struct rung__scattered *s)
{
	const struct rung__layout *layout = &s->features->layout;
	const uint64_t span = rung__row_span(layout->row_bytes, layout->row_stride,
	                                     layout->data_offset, RUNG__PAGE_BYTES);
	struct rung__row_reads_args args = { .features = s->features };

	args.slot_bytes = RUNG__MAX(span, SLOT_BYTES);
	args.depth = (uint32_t)RUNG__MAX(POOL_BYTES_MAX / args.slot_bytes, DEPTH_MIN);
	args.depth = RUNG__MIN(args.depth, DEPTH);
	return rung__row_reads_open(&args, &s->reads);
}

int rung__scattered_open(const struct rung__features *features,
                         struct rung__scattered **scattered_out)
{
	struct rung__scattered *s = rung__zalloc(sizeof(*s));
	int rc = 0;

	if (s)
		s->counts = rung__malloc_array(PIECES_MAX + 1, sizeof(*s->counts));
	if (!s || !s->counts)
		rc = rung__fail(RUNG_E_NOMEM, "%s: no memory for the read buffers",
		                features->files[0].path);
	if (rc == 0) {
		s->features = features;
		rc = open_reads(s);
	}
	if (rc < 0) {
		rung__scattered_close(s);
		return rc;
	}
	*scattered_out = s;
	return 0;
}

void rung__scattered_close(struct rung__scattered *s)
{
	if (!s)
		return;
	rung__row_reads_close(s->reads);
	rung__free(s->counts);
	rung__free(s->vertices);
	rung__free(s->vertices_tmp);
	rung__free(s->rows);
	rung__free(s->rows_tmp);
	rung__free(s);
}

/* Rows of one read have arrived: copy each to its position by rank. */
static int put_rows(void *ctx, uint64_t first, uint64_t end, const unsigned char *row)
{
	const struct rung__scattered *s = ctx;
	const struct rung__layout *layout = &s->features->layout;

	for (uint64_t i = first; i < end; i++)
		memcpy(s->to + s->rows[i] * layout->row_stride,
		       row + (s->vertices[i] - s->vertices[first]) * layout->row_stride,
		       (size_t)layout->row_bytes);
	return 0;
}

/* Read the rows of the list. */
static int read_list(struct rung__scattered *s, unsigned char *to)
{
	const struct rung__row_list list = {
		.vertices = s->vertices,
		.id_bytes = sizeof(*s->vertices),
		.count = s->count,
		.put = put_rows,
		.ctx = s,
	};

	s->to = to;
	return rung__row_reads_run(s->reads, &list);
}

/* ---- lists ---- */

static uint64_t vertex_of(const struct rung__layout *layout, uint64_t rank)
{
	return rung__id_get(layout->vertex_of_rank, (unsigned)layout->vertex_bytes, rank);
}

/* Enlarge the list. Its contents are lost. */
static int reserve(struct rung__scattered *s, uint64_t rows)
{
	if (rows <= s->capacity)
		return 0;
	rung__free(s->vertices);
	rung__free(s->vertices_tmp);
	rung__free(s->rows);
	rung__free(s->rows_tmp);
	s->capacity = rows;
	s->vertices = rung__malloc_array(rows, sizeof(*s->vertices));
	s->vertices_tmp = rung__malloc_array(rows, sizeof(*s->vertices_tmp));
	s->rows = rung__malloc_array(rows, sizeof(*s->rows));
	s->rows_tmp = rung__malloc_array(rows, sizeof(*s->rows_tmp));
	if (s->vertices && s->vertices_tmp && s->rows && s->rows_tmp)
		return 0;
	return rung__fail(RUNG_E_NOMEM, "%s: no memory for a list of %" PRIu64 " rows",
	                  s->features->files[0].path, rows);
}

/* List the ranks of first .. first + rows whose vertices are in pieces [begin, end), sorted by
 * vertex. */
static void list_rows(struct rung__scattered *s, uint64_t first, uint64_t rows, unsigned shift,
                      uint64_t begin, uint64_t end)
{
	const struct rung__layout *layout = &s->features->layout;

	s->count = 0;
	for (uint64_t i = 0; i < rows; i++) {
		const uint64_t vertex = vertex_of(layout, first + i);

		if (vertex >> shift < begin || vertex >> shift >= end)
			continue;
		s->vertices[s->count] = vertex;
		s->rows[s->count++] = (uint32_t)i;
	}
	/* no vertex is after the last piece, so higher bits need not be sorted */
	rung__radix_sort_pairs(s->vertices, s->rows, s->vertices_tmp, s->rows_tmp, s->count,
	                       64u - (unsigned)__builtin_clzll((end << shift) | 1));
}

/* Load rows in one scan of the file: each pass over the ranks lists as many pieces as the list has
 * space for. More memory for the list means fewer passes. */
static int read_part(struct rung__scattered *s, uint64_t first, uint64_t rows, unsigned char *to)
{
	const struct rung__layout *layout = &s->features->layout;
	/* an upper bound, because the file can have padding at its end */
	const uint64_t vertices =
		(layout->file_bytes[0] - layout->data_offset) / layout->row_stride + 1;
	unsigned shift = 0;
	uint64_t most = 0;
	int rc;

	while (vertices >> shift >= PIECES_MAX)
		shift++;
	memset(s->counts, 0, (PIECES_MAX + 1) * sizeof(*s->counts));
	for (uint64_t i = 0; i < rows; i++)
		s->counts[vertex_of(layout, first + i) >> shift]++;
	for (uint64_t piece = 0; piece < PIECES_MAX; piece++)
		most = RUNG__MAX(most, s->counts[piece]);
	/* a piece is listed as a whole, so the largest one must fit */
	rc = reserve(s, RUNG__MAX(most, RUNG__MIN(rows, rung__scattered_list_rows)));
	for (uint64_t begin = 0, end; begin < PIECES_MAX && rc == 0; begin = end) {
		uint64_t count = s->counts[begin];

		for (end = begin + 1; end < PIECES_MAX && count + s->counts[end] <= s->capacity;
		     end++)
			count += s->counts[end];
		if (count == 0)
			continue;
		list_rows(s, first, rows, shift, begin, end);
		rc = read_list(s, to);
	}
	return rc;
}

int rung__scattered_rows(struct rung__scattered *s, uint64_t first, uint64_t rows,
                         unsigned char *to)
{
	int rc = 0;

	while (rows > 0 && rc == 0) {
		/* row numbers in a list have 32 bits */
		const uint64_t part = RUNG__MIN(rows, UINT32_MAX);

		rc = read_part(s, first, part, to);
		first += part;
		rows -= part;
		to += part * s->features->layout.row_stride;
	}
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading the rows of some ranks from a file in which they lie by vertex.
 *
 * The file is gone through once, from its beginning to its end: a pass over the ranks counts how many of them have their row in each of some
 * thousand pieces of the file, and as many pieces as fit the list are sorted and read at a time. Rows near each other share a
 * read as in refill, so hot rows that lie close together cost no more than a scan, and few of many one read each, many in flight.
 */
#include <string.h>

#include "tier/load.h"
#include "tier/reader.h"
#include "registry/registry.h"
#include "sort/radix.h"

#define DEPTH 64u                    /* reads in flight */
#define POOL_BYTES_MAX (16u << 20)   /* of large rows fewer */
#define DEPTH_MIN 4u
#define SLOT_BYTES 131072u           /* rows near each other share a read */
#define PIECES_MAX (1u << 14)
#define TRIES_MAX 3u
#define REAP_NS 1000000000ull

uint64_t rung__scattered_list_rows = 1u << 20;

/* By its token. */
struct read {
	uint64_t first, end;   /* of the list */
	uint64_t offset;       /* in the file */
	uint32_t bytes;        /* whole sectors */
	uint32_t needed;       /* up to the last row's end */
	uint32_t done;         /* by earlier short reads */
	uint32_t tries;
};

struct rung__scattered {
	const struct rung__features *features;
	struct rung__reader *reader;
	bool started;
	struct rung__geometry geometry;
	struct rung__read_rule rule;
	unsigned char *pool;
	uint32_t slot_bytes, depth;
	struct read *reads;             /* [depth] */
	struct rung__fetched *fetched;  /* [depth] */
	uint32_t *free_tokens;          /* [depth] */
	uint32_t free_count;

	/* vertices whose rows are to be read, ascending, and the row of `to` that each goes to */
	uint64_t *vertices, *vertices_tmp;
	uint32_t *rows, *rows_tmp;
	uint64_t count, room;
	uint64_t *counts;               /* [PIECES_MAX + 1] */
};

/* ---- opening ---- */

static int take_memory(struct rung__scattered *s)
{
	const struct rung__layout *layout = &s->features->layout;
	uint64_t span = rung__row_span(layout->row_bytes, layout->row_stride, layout->data_offset, RUNG__PAGE_BYTES);
	uint64_t slot = RUNG__MAX(span, SLOT_BYTES);

	if (slot > UINT32_MAX)
		return rung__fail(RUNG_E_INVAL, "%s: rows of %" PRIu64 " bytes are too large for one read (4 GiB): split the features",
		                  s->features->files[0].path, layout->row_bytes);
	s->slot_bytes = (uint32_t)slot;
	s->depth = (uint32_t)RUNG__MIN(RUNG__MAX(POOL_BYTES_MAX / slot, DEPTH_MIN), DEPTH);
	s->pool = rung__map_pages((uint64_t)s->depth * slot);
	s->reads = rung__malloc_array(s->depth, sizeof(*s->reads));
	s->fetched = rung__malloc_array(s->depth, sizeof(*s->fetched));
	s->free_tokens = rung__malloc_array(s->depth, sizeof(*s->free_tokens));
	s->counts = rung__malloc_array(PIECES_MAX + 1, sizeof(*s->counts));
	if (!s->pool || !s->reads || !s->fetched || !s->free_tokens || !s->counts)
		return rung__fail(RUNG_E_NOMEM, "%s: no memory to read it through", s->features->files[0].path);
	for (uint32_t token = 0; token < s->depth; token++)
		s->free_tokens[s->free_count++] = token;
	return 0;
}

static int start(struct rung__scattered *s)
{
	struct rung__reader_args args = { .features = s->features };
	int rc;

	if (!rung__registry_reader())
		return rung__fail(RUNG_E_NOSUP, "%s: reading it where it is needs io/, which this "
		                  "build leaves out; build without RUNG_CORE_ONLY",
		                  s->features->files[0].path);
	rc = take_memory(s);
	if (rc < 0)
		return rc;
	args.pool = s->pool;
	args.pool_bytes = args.probe_bytes = (uint64_t)s->depth * s->slot_bytes;
	args.token_count = args.queue_depth = s->depth;
	rc = rung__registry_reader()->open(&args, &s->reader);
	if (rc == 0)
		rc = rung__registry_reader()->start(s->reader);
	if (rc < 0)
		return rc;
	s->started = true;
	rung__registry_reader()->geometry(s->reader, &s->geometry);
	s->rule = (struct rung__read_rule){
		.row_bytes = s->features->layout.row_bytes,
		.align = s->geometry.align,
		.gap_bytes = s->geometry.gap_bytes,
		.read_bytes_max = RUNG__MIN(s->slot_bytes, RUNG__MAX(s->geometry.read_bytes_max,
								     s->geometry.align)),
	};
	return 0;
}

int rung__scattered_open(const struct rung__features *features, struct rung__scattered **scattered_out)
{
	struct rung__scattered *s = rung__zalloc(sizeof(*s));
	int rc;

	if (!s)
		return rung__fail(RUNG_E_NOMEM, "%s: no memory to read it through", features->files[0].path);
	s->features = features;
	rc = start(s);
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
	if (s->started)
		rung__registry_reader()->stop(s->reader);
	if (s->reader)
		rung__registry_reader()->close(s->reader);
	rung__unmap_pages(s->pool, (uint64_t)s->depth * s->slot_bytes);
	rung__free(s->reads);
	rung__free(s->fetched);
	rung__free(s->free_tokens);
	rung__free(s->counts);
	rung__free(s->vertices);
	rung__free(s->vertices_tmp);
	rung__free(s->rows);
	rung__free(s->rows_tmp);
	rung__free(s);
}

/* ---- reading a list ---- */

static uint64_t offset_of(const struct rung__scattered *s, uint64_t vertex)
{
	return s->features->layout.data_offset + vertex * s->features->layout.row_stride;
}

static int send(const struct rung__scattered *s, uint32_t token)
{
	const struct read *read = &s->reads[token];
	const struct rung__fetch fetch = {
		.offset = read->offset + read->done,
		.to = (uint64_t)token * s->slot_bytes + read->done,
		.bytes = read->bytes - read->done,
		.token = token,
	};
	int rc = rung__registry_reader()->submit(s->reader, &fetch);

	return rc == 0 ? 0 : rung__fail_errno(-rc, "%s: reading at offset %" PRIu64, s->geometry.path, fetch.offset);
}

/* The next rows that one read brings. @return behind the last */
static uint64_t plan_read(const struct rung__scattered *s, uint64_t first, struct read *read)
{
	const uint64_t align = s->geometry.align, row_bytes = s->features->layout.row_bytes;
	uint64_t row_end = offset_of(s, s->vertices[first]) + row_bytes, end = first + 1;

	*read = (struct read){ .first = first, .offset = rung__align_down(row_end - row_bytes, align) };
	while (end < s->count) {
		const uint64_t offset = offset_of(s, s->vertices[end]);

		if (!rung__row_joins(&s->rule, read->offset, row_end, offset))
			break;
		row_end = offset + row_bytes;
		end++;
	}
	read->end = end;
	read->bytes = (uint32_t)(rung__align_up(row_end, align) - read->offset);
	read->needed = (uint32_t)(row_end - read->offset);
	return end;
}

static void copy_rows(const struct rung__scattered *s, uint32_t token, unsigned char *to)
{
	const struct rung__layout *layout = &s->features->layout;
	const struct read *read = &s->reads[token];
	const unsigned char *slot = s->pool + (uint64_t)token * s->slot_bytes;

	for (uint64_t i = read->first; i < read->end; i++)
		memcpy(to + s->rows[i] * layout->row_stride, slot + (offset_of(s, s->vertices[i]) - read->offset), (size_t)layout->row_bytes);
}

/* What a read came back with. @return 1: sent again, 0: its rows are there */
static int take(struct rung__scattered *s, const struct rung__fetched *fetched, unsigned char *to)
{
	struct read *read = &s->reads[fetched->token];
	const uint32_t got = fetched->result > 0 ? (uint32_t)fetched->result : 0;
	int rc;

	if (fetched->result >= 0 && read->done + got >= read->needed) {
		copy_rows(s, fetched->token, to);
		return 0;
	}
	if (fetched->result < 0 && ++read->tries == TRIES_MAX)
		return rung__fail_errno(-fetched->result, "%s: reading %u bytes at offset %" PRIu64, s->geometry.path, read->bytes - read->done,
		                        read->offset + read->done);
	if (fetched->result >= 0 && got < s->geometry.align)
		return rung__fail(RUNG_E_IO, "%s: ends at offset %" PRIu64 ", %u bytes short: the file was truncated", s->geometry.path,
		                  read->offset + read->done + got, read->needed - read->done - got);
	read->done += (uint32_t)rung__align_down(got, s->geometry.align);
	rc = send(s, fetched->token);
	return rc < 0 ? rc : 1;
}

/* Wait for some. @return how many are over, or a failure, the first of them; in_flight counts down in both cases */
static int reap(struct rung__scattered *s, uint32_t *in_flight, bool failed, unsigned char *to)
{
	int count = rung__registry_reader()->reap(s->reader, 1, REAP_NS, s->fetched, s->depth),
	    failure = 0;

	if (count < 0) {
		*in_flight = 0;   /* the tier says nothing more of them */
		return rung__fail_errno(-count, "%s: waiting for reads", s->geometry.path);
	}
	for (int i = 0; i < count; i++) {
		int rc = failed || failure < 0 ? 0 : take(s, &s->fetched[i], to);

		if (rc == 1)
			continue;
		failure = rc < 0 ? rc : failure;
		s->free_tokens[s->free_count++] = s->fetched[i].token;
		(*in_flight)--;
	}
	return failure;
}

/* After a failure what is in flight is waited for: it is written to the pool. */
static int read_list(struct rung__scattered *s, unsigned char *to)
{
	uint64_t next = 0;
	uint32_t in_flight = 0;
	int failure = 0;

	while ((next < s->count && failure == 0) || in_flight > 0) {
		int rc = 0;

		while (next < s->count && s->free_count > 0 && failure == 0) {
			const uint32_t token = s->free_tokens[s->free_count - 1];

			next = plan_read(s, next, &s->reads[token]);
			failure = send(s, token);
			if (failure == 0) {
				s->free_count--;
				in_flight++;
			}
		}
		if (in_flight > 0)
			rc = reap(s, &in_flight, failure < 0, to);
		failure = failure < 0 ? failure : rc;
	}
	return failure;
}

/* ---- lists ---- */

static uint64_t vertex_of(const struct rung__layout *layout, uint64_t rank)
{
	return rung__id_get(layout->vertex_of_rank, (unsigned)layout->vertex_bytes, rank);
}

static int make_room(struct rung__scattered *s, uint64_t rows)
{
	if (rows <= s->room)
		return 0;
	rung__free(s->vertices);
	rung__free(s->vertices_tmp);
	rung__free(s->rows);
	rung__free(s->rows_tmp);
	s->room = rows;
	s->vertices = rung__malloc_array(rows, sizeof(*s->vertices));
	s->vertices_tmp = rung__malloc_array(rows, sizeof(*s->vertices_tmp));
	s->rows = rung__malloc_array(rows, sizeof(*s->rows));
	s->rows_tmp = rung__malloc_array(rows, sizeof(*s->rows_tmp));
	if (s->vertices && s->vertices_tmp && s->rows && s->rows_tmp)
		return 0;
	return rung__fail(RUNG_E_NOMEM, "%s: no memory for a list of %" PRIu64 " rows", s->features->files[0].path, rows);
}

/* Ranks first .. first + rows whose vertices are in pieces [begin, end), sorted by vertex. */
static void list_rows(struct rung__scattered *s, uint64_t first, uint64_t rows, unsigned shift, uint64_t begin, uint64_t end)
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
	rung__radix_sort_pairs(s->vertices, s->rows, s->vertices_tmp, s->rows_tmp, s->count,
	                       64u - (unsigned)__builtin_clzll((end << shift) | 1));
}

static int read_part(struct rung__scattered *s, uint64_t first, uint64_t rows, unsigned char *to)
{
	const struct rung__layout *layout = &s->features->layout;
	const uint64_t vertices = (layout->file_bytes[0] - layout->data_offset) / layout->row_stride + 1;   /* at least as many as there are */
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
	rc = make_room(s, RUNG__MAX(most, RUNG__MIN(rows, rung__scattered_list_rows)));
	for (uint64_t begin = 0, end; begin < PIECES_MAX && rc == 0; begin = end) {
		uint64_t count = s->counts[begin];

		for (end = begin + 1; end < PIECES_MAX && count + s->counts[end] <= s->room; end++)
			count += s->counts[end];
		if (count == 0)
			continue;
		list_rows(s, first, rows, shift, begin, end);
		rc = read_list(s, to);
	}
	return rc;
}

int rung__scattered_rows(struct rung__scattered *s, uint64_t first, uint64_t rows, unsigned char *to)
{
	int rc = 0;

	while (rows > 0 && rc == 0) {
		const uint64_t part = RUNG__MIN(rows, UINT32_MAX);   /* a list's rows have 32 bits */

		rc = read_part(s, first, part, to);
		first += part;
		rows -= part;
		to += part * s->features->layout.row_stride;
	}
	return rc;
}

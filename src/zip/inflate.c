/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deflated bytes can be inflated from the start only, or on from a state of the inflater: 40 KiB, most of it the window that later bytes
 * copy from. A few such states (cursors) move on with those who read; others (points) are kept where they were when the bytes were
 * first inflated, a span apart. A read goes on with the nearest before it. A cursor that would have to skip much leaves a copy of
 * itself behind: two that read different parts in turn have one each.
 */
#include "zip/inflate.h"

#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <zlib.h>

#include "file/file.h"
#include "base/base.h"

#define CURSORS      3u
#define POINTS_MAX   16u
#define SPAN_MIN     (UINT64_C(4) << 20)
#define BUFFER_BYTES (32u << 10)   /* of a cursor: deflated bytes */
#define SKIP_BYTES   (32u << 10)   /* inflated at a time where they are not wanted */
#define STATE_BYTES  (44u << 10)   /* of zlib's, at most */
#define RAW          (-15)         /* for zlib: no header of its own */

struct inflate_state {
	z_stream z;
	bool open;
	uint64_t at;         /* bytes inflated */
	uint64_t taken;      /* deflated bytes read from the file, those that z has not consumed included */
};

struct inflate_cursor {
	struct inflate_state state;
	unsigned char *buffer;
	uint64_t used;       /* when: larger is later */
};

struct rung__inflate {
	pthread_mutex_t lock;
	int fd;
	const char *name;
	struct rung__deflated member;
	uint64_t span;
	struct inflate_cursor cursors[CURSORS];
	struct inflate_state points[POINTS_MAX];   /* number i at (i + 1) * span */
	uint32_t point_count;
	uint64_t uses;
	uint64_t checked;                  /* bytes that are in `crc` */
	uint32_t crc;
	bool damaged;
	unsigned char *skipped;            /* [SKIP_BYTES] */
};

static voidpf take_memory(voidpf opaque, uInt items, uInt bytes)
{
	(void)opaque;
	return rung__malloc_array(items, bytes);
}

static void give_memory(voidpf opaque, voidpf memory)
{
	(void)opaque;
	rung__free(memory);
}

static int fail_memory(const struct rung__inflate *inflater)
{
	return rung__fail(RUNG_E_NOMEM, "%s: no memory to inflate it", inflater->name);
}

static int fail_bytes(struct rung__inflate *inflater, const char *what)
{
	inflater->damaged = true;
	return rung__fail(RUNG_E_FORMAT, "%s: cannot be inflated: %s; write it again with numpy.savez(), or copy it again", inflater->name, what);
}

/* ---- states ---- */

static void end_state(struct inflate_state *state)
{
	if (state->open)
		inflateEnd(&state->z);
	state->open = false;
}

/* From the first byte on. */
static int begin_state(const struct rung__inflate *inflater, struct inflate_state *state)
{
	*state = (struct inflate_state){ .z = { .zalloc = take_memory, .zfree = give_memory } };
	if (inflateInit2(&state->z, RAW) != Z_OK)
		return fail_memory(inflater);
	state->open = true;
	return 0;
}

/* Its deflated bytes are read again. */
static int copy_state(const struct rung__inflate *inflater, struct inflate_state *to, struct inflate_state *from)
{
	*to = (struct inflate_state){ .at = from->at, .taken = from->taken - from->z.avail_in };
	if (inflateCopy(&to->z, &from->z) != Z_OK)
		return fail_memory(inflater);
	to->z.avail_in = 0;
	to->open = true;
	return 0;
}

/* ---- inflating ---- */

static int fill(const struct rung__inflate *inflater, struct inflate_cursor *cursor)
{
	struct inflate_state *state = &cursor->state;
	const uint64_t bytes = RUNG__MIN(inflater->member.deflated_bytes - state->taken, BUFFER_BYTES);
	int rc = rung__pread_all(inflater->fd, inflater->name, cursor->buffer, bytes, inflater->member.offset + state->taken);

	state->z.next_in = cursor->buffer;
	state->z.avail_in = rc < 0 ? 0 : (uInt)bytes;
	state->taken += state->z.avail_in;
	return rc;
}

/* @return 0 with `count` bytes at `to`, or Z_STREAM_END with fewer, or a failure */
static int inflate_some(struct rung__inflate *inflater, struct inflate_cursor *cursor, unsigned char *to, uint32_t count)
{
	struct inflate_state *state = &cursor->state;
	int code = Z_OK, rc;

	state->z.next_out = to;
	state->z.avail_out = count;
	while (state->z.avail_out > 0 && code != Z_STREAM_END) {
		if (state->z.avail_in == 0 && state->taken < inflater->member.deflated_bytes && (rc = fill(inflater, cursor)) < 0)
			return rc;
		code = inflate(&state->z, Z_NO_FLUSH);
		if (code == Z_MEM_ERROR)
			return fail_memory(inflater);
		if (code == Z_BUF_ERROR)
			return fail_bytes(inflater, "its bytes end too early");
		if (code != Z_OK && code != Z_STREAM_END)
			return fail_bytes(inflater, "its bytes are damaged");
	}
	state->at += count - state->z.avail_out;
	return state->z.avail_out > 0 ? Z_STREAM_END : 0;
}

/* The last byte was inflated for the first time. */
static int check_end(struct rung__inflate *inflater, struct inflate_cursor *cursor)
{
	unsigned char behind;
	int rc = inflate_some(inflater, cursor, &behind, 1);

	if (rc < 0)
		return rc;
	if (rc != Z_STREAM_END)
		return fail_bytes(inflater, "it inflates to more than its zip entry claims");
	if (inflater->crc != inflater->member.crc)
		return fail_bytes(inflater, "its CRC is not that of its zip entry");
	return 0;
}

/* What no cursor has passed before, into the CRC. */
static void sum(struct rung__inflate *inflater, uint64_t end, const unsigned char *bytes, uint32_t count)
{
	const uint64_t begin = end - count;

	if (end <= inflater->checked)
		return;
	inflater->crc = (uint32_t)crc32(inflater->crc, bytes + (inflater->checked - begin), (uInt)(end - inflater->checked));
	inflater->checked = end;
}

static int keep_point(struct rung__inflate *inflater, struct inflate_cursor *cursor)
{
	int rc;

	if (inflater->point_count == POINTS_MAX || cursor->state.at != (inflater->point_count + 1) * inflater->span)
		return 0;
	rc = copy_state(inflater, &inflater->points[inflater->point_count], &cursor->state);
	inflater->point_count += rc == 0;
	return rc;
}

/* Inflate up to byte `end`. @param to  NULL: not wanted */
static int advance(struct rung__inflate *inflater, struct inflate_cursor *cursor, uint64_t end, unsigned char *to)
{
	struct inflate_state *state = &cursor->state;
	int rc = 0;

	while (state->at < end && rc == 0) {
		const uint64_t point = (inflater->point_count + 1) * inflater->span;
		uint64_t count = RUNG__MIN(end - state->at, to ? (uint64_t)INT_MAX : SKIP_BYTES);
		unsigned char *room = to ? to : inflater->skipped;

		if (state->at < point)
			count = RUNG__MIN(count, point - state->at);
		rc = inflate_some(inflater, cursor, room, (uint32_t)count);
		if (rc == Z_STREAM_END)
			rc = fail_bytes(inflater, "it inflates to less than its zip entry claims");
		if (rc < 0)
			break;
		sum(inflater, state->at, room, (uint32_t)count);
		rc = keep_point(inflater, cursor);
		if (to)
			to += count;
	}
	return rc;
}

/* ---- where to go on ---- */

static bool is_nearer(const struct inflate_state *state, uint64_t first, const struct inflate_state *best)
{
	return state->open && state->at <= first && (!best || state->at > best->at);
}

/* The state that is nearest before `first`; NULL: the start. */
static struct inflate_state *nearest(struct rung__inflate *inflater, uint64_t first)
{
	struct inflate_state *best = NULL;

	for (uint32_t i = 0; i < inflater->point_count; i++) {
		if (is_nearer(&inflater->points[i], first, best))
			best = &inflater->points[i];
	}
	for (uint32_t i = 0; i < CURSORS; i++) {   /* of two at one place the cursor, which need not be copied */
		struct inflate_state *state = &inflater->cursors[i].state;

		if (is_nearer(state, first, best) || (state->open && best && state->at == best->at))
			best = state;
	}
	return best;
}

static struct inflate_cursor *cursor_of(struct rung__inflate *inflater, const struct inflate_state *state)
{
	for (uint32_t i = 0; i < CURSORS; i++) {
		if (state == &inflater->cursors[i].state)
			return &inflater->cursors[i];
	}
	return NULL;
}

static struct inflate_cursor *oldest_but(struct rung__inflate *inflater, const struct inflate_cursor *not_this)
{
	struct inflate_cursor *oldest = NULL;

	for (uint32_t i = 0; i < CURSORS; i++) {
		struct inflate_cursor *cursor = &inflater->cursors[i];

		if (cursor != not_this && (!oldest || cursor->used < oldest->used))
			oldest = cursor;
	}
	return oldest;
}

/* A cursor at or before `first`, to be moved there. */
static int find_cursor(struct rung__inflate *inflater, uint64_t first, struct inflate_cursor **cursor_out)
{
	struct inflate_state *from = nearest(inflater, first);
	struct inflate_cursor *there = cursor_of(inflater, from), *cursor;

	if (there && first - from->at <= SKIP_BYTES) {
		*cursor_out = there;
		return 0;
	}
	cursor = oldest_but(inflater, there);
	if (!cursor->buffer)
		cursor->buffer = rung__malloc(BUFFER_BYTES);
	if (!cursor->buffer)
		return fail_memory(inflater);
	end_state(&cursor->state);
	*cursor_out = cursor;
	return from ? copy_state(inflater, &cursor->state, from) : begin_state(inflater, &cursor->state);
}

static int read_locked(struct rung__inflate *inflater, uint64_t first, uint64_t count, unsigned char *to)
{
	const uint64_t bytes = inflater->member.bytes;
	struct inflate_cursor *cursor = NULL;
	int rc;

	if (inflater->damaged)
		return fail_bytes(inflater, "it is damaged, as was found before");
	rc = find_cursor(inflater, first, &cursor);
	if (rc < 0)
		return rc;
	cursor->used = ++inflater->uses;
	rc = advance(inflater, cursor, first, NULL);
	if (rc == 0) {
		const bool to_check = inflater->checked < bytes;

		rc = advance(inflater, cursor, first + count, to);
		if (rc == 0 && to_check && inflater->checked == bytes)
			rc = check_end(inflater, cursor);
	}
	if (rc < 0 || cursor->state.at == bytes)   /* of no use any more */
		end_state(&cursor->state);
	return rc;
}

int rung__inflate_read(struct rung__inflate *inflater, uint64_t first, uint64_t count, void *to)
{
	int rc;

	if (count == 0)
		return 0;
	pthread_mutex_lock(&inflater->lock);
	rc = read_locked(inflater, first, count, to);
	pthread_mutex_unlock(&inflater->lock);
	return rc;
}

/* ---- the whole ---- */

uint64_t rung__inflate_memory(const struct rung__inflate *inflater)
{
	const uint64_t points = RUNG__MIN(inflater->member.bytes / inflater->span, POINTS_MAX);

	return sizeof(*inflater) + SKIP_BYTES + CURSORS * (uint64_t)(BUFFER_BYTES + STATE_BYTES) + points * STATE_BYTES;
}

int rung__inflate_open(int fd, const char *name, const struct rung__deflated *member, struct rung__inflate **inflate_out)
{
	struct rung__inflate *inflater = rung__zalloc(sizeof(*inflater));

	if (!inflater)
		return rung__fail(RUNG_E_NOMEM, "%s: no memory to inflate it", name);
	inflater->fd = fd;
	inflater->name = name;
	inflater->member = *member;
	inflater->span = RUNG__MAX(rung__align_up(member->bytes / POINTS_MAX, RUNG__PAGE_BYTES), SPAN_MIN);
	inflater->skipped = rung__malloc(SKIP_BYTES);
	pthread_mutex_init(&inflater->lock, NULL);
	if (!inflater->skipped) {
		rung__inflate_close(inflater);
		return rung__fail(RUNG_E_NOMEM, "%s: no memory to inflate it", name);
	}
	*inflate_out = inflater;
	return 0;
}

void rung__inflate_close(struct rung__inflate *inflater)
{
	if (!inflater)
		return;
	for (uint32_t i = 0; i < CURSORS; i++) {
		end_state(&inflater->cursors[i].state);
		rung__free(inflater->cursors[i].buffer);
	}
	for (uint32_t i = 0; i < inflater->point_count; i++)
		end_state(&inflater->points[i]);
	pthread_mutex_destroy(&inflater->lock);
	rung__free(inflater->skipped);
	rung__free(inflater);
}

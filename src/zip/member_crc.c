/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pieces of the array that were read, ascending and disjoint. A reader claims the gaps that its
 * bytes cover, computes their CRC without the lock, and joins each with its neighbours: the CRC of
 * two adjacent pieces follows from the CRCs of both and the length of the second. A sequential
 * reader needs one piece, so a few dozen are plenty; only random reads use them up.
 */
#include "zip/member_crc.h"

#include <pthread.h>
#include <string.h>
#include <zlib.h>

#include "file/file.h"
#include "base/base.h"

#define PIECES_MAX 64u
/* buffer on the stack, for the parts of the member around the array */
#define BUFFER_BYTES (16u << 10)

struct piece {
	uint64_t begin, end; /* bytes of the array */
	uint32_t crc;        /* CRC of the piece; valid if `summed` is true */
	bool summed;         /* false: its reader is computing the CRC, without the lock */
};

/* ABANDONED: too many pieces. AGREES, DIFFERS: all bytes were seen, and the CRC was compared. These
 * three states are final. */
enum state { SUMMING, ABANDONED, AGREES, DIFFERS };

struct rung__member_crc {
	pthread_mutex_t lock; /* guards state and pieces */
	int fd;               /* owned by the caller, like `name` */
	const char *name;
	struct rung__stored member;
	uint32_t head_crc; /* CRC of the bytes before the array */
	enum state state;
	uint32_t piece_count;
	struct piece pieces[PIECES_MAX]; /* [piece_count] ascending */
};

/* Continue `crc` over a part of the member that is not its array. */
static int sum_rest(const struct rung__member_crc *crc, uint64_t first, uint64_t end, uint32_t *sum)
{
	unsigned char buffer[BUFFER_BYTES];
	int rc = 0;

	while (first < end && rc == 0) {
		const uint64_t count = RUNG__MIN(end - first, BUFFER_BYTES);

		rc = rung__pread_all(crc->fd, crc->name, buffer, count, crc->member.offset + first);
		*sum = (uint32_t)crc32_z(*sum, buffer, (size_t)count);
		first += count;
	}
	return rc;
}

static int fail_crc(const struct rung__member_crc *crc)
{
	return rung__fail(
		RUNG_E_FORMAT,
		"%s: damaged: its CRC differs from the one in its zip entry; copy it again",
		crc->name);
}

/* All of the array is summed: add the parts around it, and compare. With the lock held; it reads
 * only the bytes after the array, usually none. */
static int compare(struct rung__member_crc *crc, uint32_t array_crc)
{
	const struct rung__stored *member = &crc->member;
	uint32_t sum =
		(uint32_t)crc32_combine(crc->head_crc, array_crc, (z_off_t)member->array_bytes);
	int rc = sum_rest(crc, member->array_offset + member->array_bytes, member->bytes, &sum);

	if (rc < 0)
		return rc;
	crc->state = sum == member->crc ? AGREES : DIFFERS;
	return crc->state == AGREES ? 0 : fail_crc(crc);
}

/* Claim the first gap in [*at, *end) as a new piece, and set both to its bounds. With the lock
 * held. @return false: all bytes are covered, or nothing more is summed */
static bool claim(struct rung__member_crc *crc, uint64_t *at, uint64_t *end)
{
	uint32_t i = 0;

	/* skip bytes that other pieces cover, including pieces that are being summed */
	for (; i < crc->piece_count && crc->pieces[i].begin <= *at; i++)
		*at = RUNG__MAX(*at, crc->pieces[i].end);
	if (*at >= *end || crc->state != SUMMING)
		return false;
	if (crc->piece_count == PIECES_MAX) {
		/* claimed pieces stay in the list, because their readers look for them */
		crc->state = ABANDONED;
		return false;
	}
	if (i < crc->piece_count)
		*end = RUNG__MIN(*end, crc->pieces[i].begin);
	memmove(crc->pieces + i + 1, crc->pieces + i,
	        (crc->piece_count - i) * sizeof(*crc->pieces));
	crc->pieces[i] = (struct piece){ .begin = *at, .end = *end };
	crc->piece_count++;
	return true;
}

/* Join piece i with the next one, if they touch and both are summed. With the lock held. */
static void join(struct rung__member_crc *crc, uint32_t i)
{
	struct piece *left = crc->pieces + i, *right = left + 1;

	if (i + 1 >= crc->piece_count || left->end != right->begin || !left->summed ||
	    !right->summed)
		return;
	left->crc = (uint32_t)crc32_combine(left->crc, right->crc,
	                                    (z_off_t)(right->end - right->begin));
	left->end = right->end;
	memmove(right, right + 1, (crc->piece_count - i - 2) * sizeof(*crc->pieces));
	crc->piece_count--;
}

/* Record the CRC of the piece that was claimed at `begin`. With the lock held. The piece may have
 * moved in the list, but until this call it is neither joined nor removed. */
static void finish_piece(struct rung__member_crc *crc, uint64_t begin, uint32_t sum)
{
	uint32_t i = 0;

	while (crc->pieces[i].begin != begin)
		i++;
	crc->pieces[i].crc = sum;
	crc->pieces[i].summed = true;
	join(crc, i);
	if (i > 0)
		join(crc, i - 1);
}

/* Whether the only piece is the whole array, not yet compared. With the lock held. */
static bool is_complete(const struct rung__member_crc *crc)
{
	const struct piece *piece = crc->pieces;

	return crc->state == SUMMING && crc->piece_count > 0 && piece->summed &&
	       piece->begin == 0 && piece->end == crc->member.array_bytes;
}

int rung__member_crc_add(struct rung__member_crc *crc, uint64_t first, uint64_t count,
                         const void *bytes)
{
	uint64_t at = first, end = first + count;
	int rc = 0;

	pthread_mutex_lock(&crc->lock);
	/* other readers can have read parts of these bytes, so there can be several gaps */
	while (claim(crc, &at, &end)) {
		uint32_t sum;

		pthread_mutex_unlock(&crc->lock);
		sum = (uint32_t)crc32_z(0, (const unsigned char *)bytes + (at - first),
		                        (size_t)(end - at));
		pthread_mutex_lock(&crc->lock);
		finish_piece(crc, at, sum);
		at = end;
		end = first + count;
	}
	/* later readers fail as well if the CRC differs; if reading the bytes after the array
	 * failed, the next reader compares again */
	if (is_complete(crc))
		rc = compare(crc, crc->pieces[0].crc);
	else if (crc->state == DIFFERS)
		rc = fail_crc(crc);
	pthread_mutex_unlock(&crc->lock);
	return rc;
}

int rung__member_crc_open(int fd, const char *name, const struct rung__stored *member,
                          struct rung__member_crc **crc_out)
{
	struct rung__member_crc *crc = rung__zalloc(sizeof(*crc));
	int rc;

	if (!crc)
		return rung__fail(RUNG_E_NOMEM, "%s: no memory to compare its CRC", name);
	crc->fd = fd;
	crc->name = name;
	crc->member = *member;
	pthread_mutex_init(&crc->lock, NULL);
	rc = sum_rest(crc, 0, member->array_offset, &crc->head_crc);
	/* no read will follow */
	if (rc == 0 && member->array_bytes == 0)
		rc = compare(crc, 0);
	if (rc < 0)
		rung__member_crc_close(crc);
	else
		*crc_out = crc;
	return rc;
}

void rung__member_crc_close(struct rung__member_crc *crc)
{
	if (!crc)
		return;
	pthread_mutex_destroy(&crc->lock);
	rung__free(crc);
}

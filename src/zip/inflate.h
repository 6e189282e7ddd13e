/* SPDX-License-Identifier: Apache-2.0 */
/** A deflated member of a zip file, read from any byte on without room for all of it. Private to io/. */
#ifndef RUNG_IO_INFLATE_H
#define RUNG_IO_INFLATE_H

#include <stdint.h>

struct rung__inflate;

/** What a zip file says of a member. */
struct rung__deflated {
	uint64_t offset;         /* of its bytes in the file */
	uint64_t deflated_bytes;
	uint64_t bytes;
	uint32_t crc;
};

/**
 * @param fd    of the file; stays the caller's, open as long
 * @param name  for messages; the caller's
 */
int rung__inflate_open(int fd, const char *name, const struct rung__deflated *member, struct rung__inflate **inflate_out);

/**
 * Read bytes [first, first + count), which are inside the member. What follows the end of an earlier read is inflated on from there; what lies
 * elsewhere, from the nearest state that is remembered before it: at most bytes / 16 are inflated in vain once it was all
 * read, and everything before it when it was not.
 *
 * Threads: any number, one after the other.
 * @return 0; RUNG_E_FORMAT (no deflated bytes, or another length or CRC than the zip file says: looked at when the last byte is first
 *         inflated, and every read fails from then on), RUNG_E_IO, RUNG_E_NOMEM
 */
int rung__inflate_read(struct rung__inflate *inflate, uint64_t first, uint64_t count, void *to);

/** Most bytes that it holds. */
uint64_t rung__inflate_memory(const struct rung__inflate *inflate);

/** NULL is allowed. */
void rung__inflate_close(struct rung__inflate *inflate);

#endif

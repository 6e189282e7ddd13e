/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The CRC of a stored member of a zip file that several threads read in place, in pieces and in any
 * order. Readers pass on the bytes they have read; when all bytes were seen, the CRCs of the pieces
 * are combined and compared. Private to io/.
 */
#ifndef RUNG_IO_MEMBER_CRC_H
#define RUNG_IO_MEMBER_CRC_H

#include <stdint.h>

struct rung__member_crc;

/** Where the member's bytes are in the file, and where in them an array is. */
struct rung__stored {
	uint64_t offset, bytes;             /* of the member in the file */
	uint64_t array_offset, array_bytes; /* of the array in the member */
	uint32_t crc;                       /* as the zip file states it */
};

/**
 * Read what of the member is before the array.
 * @param fd    of the file; stays the caller's, open as long
 * @param name  for messages; the caller's
 * @return 0, RUNG_E_IO, RUNG_E_NOMEM, for an empty array also RUNG_E_FORMAT
 */
int rung__member_crc_open(int fd, const char *name, const struct rung__stored *member,
                          struct rung__member_crc **crc_out);

/**
 * Bytes [first, first + count) of the array, as read. Bytes seen before are not summed again.
 * Random rows are not tracked forever: the CRC is then not compared.
 *
 * Threads: any number.
 * @return 0; RUNG_E_FORMAT once all bytes were seen and do not match the CRC; RUNG_E_IO
 */
int rung__member_crc_add(struct rung__member_crc *crc, uint64_t first, uint64_t count,
                         const void *bytes);

/** NULL is allowed. */
void rung__member_crc_close(struct rung__member_crc *crc);

#endif

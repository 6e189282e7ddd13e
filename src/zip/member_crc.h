/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The CRC of a stored member of a zip file that several threads read in place, in pieces and in any
 * order. Readers pass on the bytes that they have read. When all bytes were seen, the CRCs of the
 * pieces are combined and compared, so damage is found without reading the member twice. Private to
 * rung.
 */
#ifndef RUNG_IO_MEMBER_CRC_H
#define RUNG_IO_MEMBER_CRC_H

#include <stdint.h>

struct rung__member_crc;

/** Position of a member in the file, and of an array in the member. Offsets and sizes in bytes. */
struct rung__stored {
	uint64_t offset, bytes;             /* position and size of the member in the file */
	uint64_t array_offset, array_bytes; /* position and size of the array in the member */
	uint32_t crc;                       /* CRC of the member, from its zip entry */
};

/**
 * Begin, and read the part of the member before the array.
 * @param fd    of the file; the caller's, and open until rung__member_crc_close()
 * @param name  for messages; the caller's, valid as long
 * @return 0, RUNG_E_IO, RUNG_E_NOMEM; for an empty array also RUNG_E_FORMAT, as it is compared now
 */
int rung__member_crc_open(int fd, const char *name, const struct rung__stored *member,
                          struct rung__member_crc **crc_out);

/**
 * Add bytes [first, first + count) of the array, as they were read. Bytes that were seen before are
 * not summed again. Reads in random order are tracked only up to a bound; after that the CRC is not
 * compared.
 *
 * Threads: any number.
 * @return 0; RUNG_E_FORMAT once all bytes were seen and do not match the CRC; RUNG_E_IO
 */
int rung__member_crc_add(struct rung__member_crc *crc, uint64_t first, uint64_t count,
                         const void *bytes);

/** NULL is allowed. */
void rung__member_crc_close(struct rung__member_crc *crc);

#endif

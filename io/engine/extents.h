/* SPDX-License-Identifier: Apache-2.0 */
/** Where the bytes of a file lie on the disk under its file system. */
#ifndef RUNG_IO_EXTENTS_H
#define RUNG_IO_EXTENTS_H

#include "engine/engine.h"
#include "file/block_device.h"

struct rung__extent {
	uint64_t offset; /* in the file */
	uint64_t at;     /* on the whole disk, its partition counted in */
	uint64_t bytes;
};

/** A file from its first byte on without a gap, in order; pieces that meet on the disk are one. */
struct rung__extents {
	struct rung__extent *list;
	uint64_t count;
	uint64_t file_bytes; /* a read ends there, though the last block may be longer */
	struct rung__block_device device;
};

/**
 * Ask the file system (ext4, XFS) for a file's extents, after it has written what it still held in
 * memory. The file must not be changed as long as they are used: moved blocks are not seen.
 *
 * @param report  on failure: why they cannot be had or used
 * @return 0, -ENOTSUP (not on a plain disk, or stored in a way that the disk's bytes do not show),
 *         another -errno
 */
int rung__extents_load(int fd, struct rung__extents *extents_out,
                       struct rung__engine_report *report);

void rung__extents_free(struct rung__extents *extents);

/** The extent with byte `offset` of the file, which must be inside it. */
static inline const struct rung__extent *rung__extent_at(const struct rung__extents *extents,
                                                         uint64_t offset)
{
	uint64_t first = 0, count = extents->count;

	while (count > 1) {
		uint64_t half = count / 2;

		if (extents->list[first + half].offset <= offset) {
			first += half;
			count -= half;
		} else {
			count = half;
		}
	}
	return &extents->list[first];
}

/** Put extents, sorted, behind each other: those below file_bytes. @return NULL, or what stands
 * against using them */
const char *rung__extents_join(struct rung__extents *extents);

#endif

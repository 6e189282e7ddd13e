/* SPDX-License-Identifier: Apache-2.0 */
/** Finds the positions of a file's bytes on the disk. */
#ifndef RUNG_IO_EXTENTS_H
#define RUNG_IO_EXTENTS_H

#include "engine/engine.h"
#include "file/block_device.h"

struct rung__extent {
	uint64_t offset; /* from the start of the file */
	/* from the start of the whole disk, including the offset of the partition */
	uint64_t at;
	uint64_t bytes;
};

/** The extents of a file, in order and without gaps from its first byte on. Extents that are
 * adjacent on the disk are joined. */
struct rung__extents {
	struct rung__extent *list;
	uint64_t count;
	uint64_t file_bytes; /* reads end here, even if the last block is longer */
	struct rung__block_device device;
};

/**
 * Write back the dirty pages of a file, and query the file system (ext4, XFS) for its extents. The
 * file must not change while they are in use: moved blocks are not detected.
 *
 * @param report  on failure: why they cannot be queried or used
 * @return 0, -ENOTSUP (not on a plain disk, or the disk's bytes differ from the file's), another
 * -errno
 */
int rung__extents_load(int fd, struct rung__extents *extents_out,
                       struct rung__engine_report *report);

void rung__extents_free(struct rung__extents *extents);

/** The extent that contains byte `offset` of the file, which must be below the file's size. */
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

/** Join adjacent extents below file_bytes; the extents are sorted. @return NULL, or the reason why
 * they cannot be used */
const char *rung__extents_join(struct rung__extents *extents);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Segments: memory that several processes map, one memfd each.
 *
 * Most are sealed. The creator fills such a segment and seals it: afterwards no process, not even
 * the creator, can write to it or resize it, so an attaching process can check it once and trust
 * it. The memory exists as long as a process maps it.
 */
#ifndef RUNG_SEGMENT_H
#define RUNG_SEGMENT_H

#include "base/base.h"

struct rung__segment {
	void *base;     /* 2 MiB aligned; NULL: no segment */
	uint64_t bytes; /* whole pages */
	/* descriptor of the memfd; -1 in an attacher, for which the mapping is enough */
	int fd;
};

/** Create writable memory, to be filled. @param name for messages and /proc/PID/maps. @return 0 or
 * RUNG_E_NOMEM and others of memfd_create() */
int rung__segment_create(const char *name, uint64_t bytes, struct rung__segment *segment_out);

/** Forbid resizing, permanently. Every process that maps the segment can still write to it. */
int rung__segment_fix(const char *name, struct rung__segment *segment);

/** Called after the last write: forbid writing and resizing, permanently, also to this process.
 * `base` is unchanged. May wait up to a second for pages of direct reads. */
int rung__segment_seal(const char *name, struct rung__segment *segment);

/**
 * Map a segment of another process; the descriptor still belongs to the caller. The segment is
 * untrusted: it is refused unless it is memory of exactly `bytes` bytes that is sealed or, if it
 * will be writable, has a fixed size.
 */
int rung__segment_attach(const char *name, int fd, uint64_t bytes, bool writable,
                         struct rung__segment *segment_out);

/** Unmap and close. Does nothing for a zeroed struct. */
void rung__segment_fini(struct rung__segment *segment);

#endif

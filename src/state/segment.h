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
	void *base;     /* 2 MiB aligned; NULL: none */
	uint64_t bytes; /* whole pages */
	int fd;         /* -1 on the attacher's side: the mapping is enough */
};

/** Memory to be filled. @param name for messages and /proc/PID/maps, "host tier" */
int rung__segment_create(const char *name, uint64_t bytes, struct rung__segment *segment_out);

/** Forbid resizing for good; every process that maps it can still write to it. */
int rung__segment_fix(const char *name, struct rung__segment *segment);

/** After the last write: no write, no resize, for ever; `base` stays where it is. */
int rung__segment_seal(const char *name, struct rung__segment *segment);

/**
 * Map a segment of another process; the descriptor still belongs to the caller. The segment is
 * untrusted: it is refused unless it is memory of exactly `bytes` bytes that is sealed or, if it
 * will be writable, has a fixed size.
 */
int rung__segment_attach(const char *name, int fd, uint64_t bytes, bool writable,
                         struct rung__segment *segment_out);

/** Unmap and close; nothing to do for a zeroed struct. */
void rung__segment_fini(struct rung__segment *segment);

#endif

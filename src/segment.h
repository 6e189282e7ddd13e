/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Segments: memory that several processes map, a sealed memfd each.
 *
 * The creator fills a segment and seals it: from then on nobody, the creator included, can write to it, shrink or grow it, so
 * that who attaches can check it once and trust it afterwards. The memory lives as long as one process maps it.
 */
#ifndef RUNG_SEGMENT_H
#define RUNG_SEGMENT_H

#include "internal.h"

struct rung__segment {
	void *base;       /* 2 MiB aligned; NULL: none */
	uint64_t bytes;   /* whole pages */
	int fd;           /* -1 on the attacher's side: the mapping is enough */
};

/** Memory to be filled. @param name for messages and /proc/PID/maps, "host tier" */
int rung__segment_create(const char *name, uint64_t bytes, struct rung__segment *segment_out);

/** After the last write: no write, no resize, for ever; `base` stays where it is. */
int rung__segment_seal(const char *name, struct rung__segment *segment);

/**
 * Map a segment that another process made, for reading; the descriptor stays the caller's. It is untrusted: anything but sealed
 * memory of the size of `bytes` is refused.
 */
int rung__segment_attach(const char *name, int fd, uint64_t bytes, struct rung__segment *segment_out);

/** Unmap and close; nothing for one that is all zero. */
void rung__segment_fini(struct rung__segment *segment);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Segments: memory that several processes map, a memfd each.
 *
 * Most are sealed. The creator fills such a segment and seals it: from then on nobody, the creator
 * included, can write to it, shrink or grow it, so that who attaches can check it once and trust it
 * afterwards. The memory lives as long as one process maps it.
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

/** No resize any more, for ever; it stays writable, by everybody who maps it. */
int rung__segment_fix(const char *name, struct rung__segment *segment);

/** After the last write: no write, no resize, for ever; `base` stays where it is. */
int rung__segment_seal(const char *name, struct rung__segment *segment);

/**
 * Map a segment that another process made; the descriptor stays the caller's. It is untrusted:
 * anything but memory of the size of `bytes` that is sealed, or for one that is to be writable
 * fixed, is refused.
 */
int rung__segment_attach(const char *name, int fd, uint64_t bytes, bool writable,
                         struct rung__segment *segment_out);

/** Unmap and close; nothing for one that is all zero. */
void rung__segment_fini(struct rung__segment *segment);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The pool: host memory that cold rows are read into.
 *
 *     [slots of the first refill thread | of the second | … | frames of the cache]
 *
 * One range of addresses, so that a read names its place by one number. Slots are this process's own; frames, and the cache's index
 * with them, are one segment that all processes of a shared store map.
 */
#ifndef RUNG_POOL_H
#define RUNG_POOL_H

#include "share/segment.h"

struct rung_store;

struct rung__pool {
	unsigned char *base;
	uint64_t bytes;
	uint64_t frames_at;              /* offset of the first frame; bytes when there are none */
	uint64_t frame_bytes;
	struct rung__segment shared;     /* [index, whole pages | frames]; base NULL when nobody else has it */
	void *index;
	uint64_t index_bytes;
};

/**
 * Take the memory that the store's shape tells, and open the cache. One that is there already, but
 * has no seat for us, is done without: the shape has no frames then, and store->cache_why says why.
 * @param cache_fd  of the creator's segment; -1: make one
 */
int rung__pool_open(struct rung_store *store, int cache_fd);

/** Nothing for one that is all zero. Leaves the memory of slots alone if reads given up may still write to it. */
void rung__pool_close(struct rung_store *store);

/** Bytes of the segment that is shared: index and frames; 0 when the shape does not make sense. */
uint64_t rung__pool_shared_bytes(uint64_t rank_first, uint64_t row_count, uint64_t frame_count, uint64_t frame_bytes);

#endif

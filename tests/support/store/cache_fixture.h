/* SPDX-License-Identifier: Apache-2.0 */
/** A cold-row cache without files: what would be a row's bytes is its rank. And a walk over all of
 * its lists. Plain C. */
#ifndef SUPPORT_CACHE_FIXTURE_H
#define SUPPORT_CACHE_FIXTURE_H

#include "cache/state.h"

struct cache_fixture {
	struct rung__cache_shape shape;
	struct rung__cache *cache;
	uint64_t wrong;     /* rows that were not in the frame where they should have been */
	int fd;             /* of the index */
	void *index;        /* children that are forked have it too */
	uint64_t *contents; /* [frame_count] of the frames, as well */
};

/** Memory that an index of this shape fits in; zero. */
int cache_fixture_fd(const struct rung__cache_shape *shape);

/** An index, and a client of it. A step that fails ends the program. */
void cache_fixture_open(struct cache_fixture *f, const struct rung__cache_shape *shape,
                        uint64_t rows_max, uint32_t batches_max);
void cache_fixture_close(struct cache_fixture *f);

/** Another client of the same index, as in another process: with a window of its own. Closed before
 * the first is. */
void cache_fixture_attach(struct cache_fixture *f, const struct cache_fixture *first,
                          uint64_t rows_max, uint32_t batches_max);
void cache_fixture_detach(struct cache_fixture *f);

/** Take a row as refill does, reading it at once when it is to be kept; it is not pinned
 * afterwards. Locks by itself. */
enum rung__cache_lookup cache_fixture_take(struct cache_fixture *f, uint64_t batch, uint64_t rank);

/**
 * Walk all lists of the index. Locked.
 * @param alone  this process has the only window
 * @return NULL, or what is wrong
 */
const char *cache_fixture_fault(const struct rung__cache *cache, bool alone);

/** And of the window. Locked, and no batch is being made known. */
const char *cache_window_fault(const struct rung__cache *cache);

/** Both, and rows that were in a wrong frame; the only client. Locks by itself. */
const char *cache_fixture_check(const struct cache_fixture *f);

#endif

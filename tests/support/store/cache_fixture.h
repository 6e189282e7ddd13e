/* SPDX-License-Identifier: Apache-2.0 */
/** A cold-row cache without files, in which a row's content is its rank, and a walk over all of its
 * lists. Plain C. */
#ifndef SUPPORT_CACHE_FIXTURE_H
#define SUPPORT_CACHE_FIXTURE_H

#include "cache/state.h"

struct cache_fixture {
	struct rung__cache_shape shape;
	struct rung__cache *cache;
	uint64_t wrong;     /* rows that were not in the frame where they should have been */
	int fd;             /* of the index */
	void *index;        /* shared with forked children */
	uint64_t *contents; /* [frame_count] of the frames; shared, too */
};

/** Create zeroed memory for an index of this shape. @return its descriptor */
int cache_fixture_fd(const struct rung__cache_shape *shape);

/** Create an index and a client of it. A step that fails ends the program. */
void cache_fixture_open(struct cache_fixture *f, const struct rung__cache_shape *shape,
                        uint64_t rows_max, uint32_t batches_max);
void cache_fixture_close(struct cache_fixture *f);

/** Attach another client of the same index, as in another process, with its own window. Close it
 * before the first. */
void cache_fixture_attach(struct cache_fixture *f, const struct cache_fixture *first,
                          uint64_t rows_max, uint32_t batches_max);
void cache_fixture_detach(struct cache_fixture *f);

/** Look a row up as refill does, and fill its frame at once if it is to be cached; the row is not
 * pinned afterwards. Takes the lock itself. */
enum rung__cache_lookup cache_fixture_take(struct cache_fixture *f, uint64_t batch, uint64_t rank);

/**
 * The row that a look-up returned KEEP for has been read: put it into the frame that is chosen.
 * Locked. @return the frame, or RUNG__CACHE_NONE
 */
uint32_t cache_fixture_fill(struct cache_fixture *f, uint32_t frame, uint64_t rank, uint32_t pins);

/**
 * Walk all lists of the index. The caller holds the lock.
 * @param alone  this process has the only window
 * @return NULL, or the part that is inconsistent
 */
const char *cache_fixture_fault(const struct rung__cache *cache, bool alone);

/** The same for the window. The caller holds the lock, and no batch is being announced. */
const char *cache_window_fault(const struct rung__cache *cache);

/** Both, and rows in a wrong frame. Only with a single client. Takes the lock itself. */
const char *cache_fixture_check(const struct cache_fixture *f);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The cold-row cache: rows of the tier "nvme" that are kept in *frames*, and the batches to come.
 *
 * What is kept. Each batch is made known before it is gathered: by rung_prefetch() long before
 * (*announced*), else by its own submission, which is early enough when several are in flight. Of a
 * row's coming uses the nearest counts. While batches are announced a row is kept when it is wanted
 * sooner than what it would replace: L. A. Belady, "A study of replacement algorithms for a
 * virtual-storage computer", IBM Systems Journal 5(2), 1966, with the right to keep nothing; rows
 * that no known batch wants are ordered by their score, that is by rank, the coldest replaced
 * first. Without announcements a row that is hotter than the coldest there takes its place; a
 * colder one when it misses twice in a short time, that of a row chosen as in SIEVE (Zhang et al.,
 * "SIEVE is Simpler than LRU", NSDI 2024).
 *
 * Memory. The *index* (struct layout private to cache.c) and the frames may be shared by several
 * processes; the window of coming batches is each process's own. With several processes a frame
 * knows one next use, the nearest that is known when it is written down.
 *
 * Threads and processes. All functions below that say "locked" need rung__cache_lock(). It is held
 * for no more than some microseconds, and never while rows are copied or read. A *client* is a
 * process that has opened the cache.
 *
 * A client that dies, even with the lock held, leaves the others working: its pins and its reads
 * are taken back by whoever notices. Frames it was reading into are used again after a minute. A
 * client that is stopped delays each of the others once: by 100 ms when it holds the lock, and by
 * as long as they wait for a row that it reads until they call rung__cache_late(). Without the lock
 * of the index all functions still work: rows pass by, and what the index has to be told of a frame
 * is kept until the lock is had again.
 *
 * Everything in an index that other processes can write to is untrusted: no value in it, the lock's
 * included, makes us touch memory outside, loop or wait for ever. The rows in the frames are
 * trusted.
 */
#ifndef RUNG_CACHE_H
#define RUNG_CACHE_H

#include "base/base.h"

#define RUNG__CACHE_CLIENTS_MAX     32u /* the bits of a frame's pins */
#define RUNG__CACHE_NONE            UINT32_MAX
#define RUNG__CACHE_BATCHES_MAX     4096u /* of a window */
#define RUNG__CACHE_WINDOW_ROWS_MAX (UINT32_MAX - 1)

struct rung__cache_shape {
	/* of the rows that may be kept: a rank is its own name, and a smaller one is a hotter
	 * row */
	uint64_t rank_first, row_count;
	uint64_t frame_count; /* at least 1, below UINT32_MAX */
};

struct rung__cache; /* a process's side: the index it maps, and its window */

/** Bytes of the index, whole pages. Per frame about 60, and an eighth for each of row_count. 0 when
 * the shape is not one. */
uint64_t rung__cache_index_bytes(const struct rung__cache_shape *shape);

/** Bytes that the window of a process takes: announced rows and batches not yet gathered. */
uint64_t rung__cache_window_bytes(uint64_t rows_max, uint32_t batches_max);

/**
 * Open the index, and become a client of it.
 *
 * @param index       rung__cache_index_bytes(), page aligned, outlives the cache; `create`: all
 *                    zero, to be initialised
 * @param fd          of the memory that the index is in, for the seats of its clients; stays the
 *                    caller's. -1: of this process alone
 * @param rows_max    rows of batches not yet gathered, duplicates between batches counted; at most
 *                    RUNG__CACHE_WINDOW_ROWS_MAX
 * @param batches_max such batches, at most RUNG__CACHE_BATCHES_MAX
 * @return 0, RUNG_E_NOMEM, RUNG_E_FORMAT (not `create`, and the index is not one of this shape and
 *         version), RUNG_E_BUSY (RUNG__CACHE_CLIENTS_MAX clients have it open), RUNG_E_NOSUP (the
 *         kernel has no locks for seats)
 */
int rung__cache_open(const struct rung__cache_shape *shape, void *index, int fd, bool create,
                     uint64_t rows_max, uint32_t batches_max, struct rung__cache **cache_out);

/**
 * The client's pins are gone. Frames it is still reading, which it is not unless its reads were
 * given up, are not used for a minute: the device may still write to them. NULL is allowed.
 */
void rung__cache_close(struct rung__cache *cache);

/**
 * Waits for other threads of this process, and for other processes at most 100 ms, once for each
 * time that one of them is late.
 */
void rung__cache_lock(struct rung__cache *cache);
void rung__cache_unlock(struct rung__cache *cache);

/* ---- the window; not locked, they lock by themselves, for some rows at a time ---- */

/**
 * Make a batch known that will be submitted later: its cold rows, ascending and distinct.
 *
 * @param batch_out  names it from now on; never 0
 * @return 0, or RUNG_E_AGAIN: rows_max or batches_max reached, and nothing was taken
 */
int rung__cache_announce(struct rung__cache *cache, const uint64_t *ranks, uint64_t count,
                         uint64_t *batch_out);

/**
 * A batch is submitted: which of those announced is it? Compared are the number of rows and a hash
 * over all of them; of several the oldest. One that was announced and is overtaken by more than 64
 * batches announced later is given up: it does not come. If it is none, it is made known now; if
 * there is no room for that, *batch_out is 0, and the batch is served with what is known of its
 * rows from others.
 */
void rung__cache_begin(struct rung__cache *cache, const uint64_t *ranks, uint64_t count,
                       uint64_t *batch_out);

/** A batch is over, whether all its rows were taken or not. 0 is allowed. */
void rung__cache_end(struct rung__cache *cache, uint64_t batch);

/* ---- rows; locked ---- */

enum rung__cache_found {
	RUNG__CACHE_HIT,     /* it is in `frame`, pinned for the client until rung__cache_unpin() */
	RUNG__CACHE_READING, /* the client itself is reading it into `frame`, with `reader` */
	/* client `reader` is reading it: ask again; the use stays known until then */
	RUNG__CACHE_ELSEWHERE,
	/* another client is reading it, which is late: read it here, it is not kept */
	RUNG__CACHE_LATE,
	/* not there: read it into `frame`, which is the client's until rung__cache_filled() or
	 * _failed() */
	RUNG__CACHE_KEEP,
	RUNG__CACHE_PASS /* not there, and not worth a frame, or no frame can be had */
};

struct rung__cache_place {
	uint32_t frame;
	uint32_t reader;
};

/**
 * One row of a batch, once per batch (again after ELSEWHERE). Its use by that batch is taken out of
 * the window.
 * @param batch   as rung__cache_begin() named it, or 0
 * @param reader  what READING will tell of it if the answer is KEEP
 */
enum rung__cache_found rung__cache_take(struct rung__cache *cache, uint64_t batch, uint64_t rank,
                                        uint32_t reader, struct rung__cache_place *place_out);

/** The row has been read into the frame that KEEP gave; the client pins it `pins` times. */
void rung__cache_filled(struct rung__cache *cache, uint32_t frame, uint32_t pins);

/** It has not: the frame is empty again. */
void rung__cache_failed(struct rung__cache *cache, uint32_t frame);

/** Once more, for a frame the client has pinned already. */
void rung__cache_pin(struct rung__cache *cache, uint32_t frame);
void rung__cache_unpin(struct rung__cache *cache, uint32_t frame);

/**
 * A client has not ended a read for too long. Until it ends one, rows that it reads are LATE; if it
 * has died, they are free.
 */
void rung__cache_late(struct rung__cache *cache, uint32_t client);

/** Take back what clients that died have left. Now and then. */
void rung__cache_bury(struct rung__cache *cache);

/** Frames with a row in them; without the index, those of the last time. */
uint64_t rung__cache_filled_count(struct rung__cache *cache);

/**
 * Not locked: add up waits for other clients that were given up, and the time for which the lock
 * was waited for.
 */
void rung__cache_waits(const struct rung__cache *cache, uint64_t *timeouts_out,
                       uint64_t *wait_ns_out);

#endif

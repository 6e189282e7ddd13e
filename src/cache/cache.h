/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The cold-row cache: rows of the tier "nvme" that are kept in *frames*, and the window of coming
 * batches.
 *
 * Replacement. Each batch is known before it is gathered. A batch that rung_prefetch() has
 * *announced* is known long before; any other is known from its submission on, which is early
 * enough with several requests in flight. Only the next use of a row counts. With announced batches
 * a row is cached if it is needed sooner than the row it would evict (L. A. Belady, "A study of
 * replacement algorithms for a virtual-storage computer", IBM Systems Journal 5(2), 1966, with
 * bypassing); rows that no known batch needs are ordered by score, that is by rank, and the coldest
 * is evicted first. Without announcements a row that is hotter than the coldest cached row evicts
 * it; a colder row is admitted when it misses twice in a short time, and evicts the row that SIEVE
 * selects (Zhang et al., "SIEVE is Simpler than LRU", NSDI 2024).
 *
 * Memory. Several processes may share the *index* (its layout is private to cache.c) and the
 * frames; each process has a private window of coming batches. With several processes a frame
 * stores one next use, the nearest one known when it is written.
 *
 * Threads and processes. Functions documented as "locked" need rung__cache_lock(). The lock is held
 * for a few microseconds at a time, and never while rows are copied or read. A *client* is a
 * process that has opened the cache.
 *
 * A client that dies, even with the lock held, does not stop the others: the first client that
 * detects it releases its pins and reads. A stopped client delays each of the others once: if it
 * holds the lock, by 100 ms; if it is reading a row that they need, until they call
 * rung__cache_late(). Without the lock all functions still work: rows bypass the cache, and updates
 * of the index are kept until the lock is available again.
 *
 * Everything in an index that other processes can write to is untrusted: no value in it, including
 * the lock, can cause an access out of bounds, an endless loop or an endless wait. The rows in the
 * frames are trusted.
 */
#ifndef RUNG_CACHE_H
#define RUNG_CACHE_H

#include "base/base.h"

#define RUNG__CACHE_CLIENTS_MAX     32u /* one bit per client in a frame's pins */
#define RUNG__CACHE_NONE            UINT32_MAX
#define RUNG__CACHE_BATCHES_MAX     4096u /* of a window */
#define RUNG__CACHE_WINDOW_ROWS_MAX (UINT32_MAX - 1)

struct rung__cache_shape {
	/* the rows that may be cached; a smaller rank is a hotter row */
	uint64_t rank_first, row_count;
	uint64_t frame_count; /* at least 1, below UINT32_MAX */
};

struct rung__cache; /* the cache as one process has it: the index it maps, and its private window */

/** Bytes of the index, whole pages: about 75 per frame, and one bit for each of row_count. 0 if the
 * shape is invalid. */
uint64_t rung__cache_index_bytes(const struct rung__cache_shape *shape);

/** Most bytes that the window of a process uses, for rows and batches not yet gathered. */
uint64_t rung__cache_window_bytes(uint64_t rows_max, uint32_t batches_max);

/**
 * Open the index, and become a client of it.
 *
 * @param index       rung__cache_index_bytes(), page aligned, outlives the cache; `create`: all
 *                    zero, to be initialised
 * @param fd of the memory that the index is in, for the seats of its clients (cache_lock.c); still
 *           owned by the caller afterwards. -1: only this process uses the index
 * @param rows_max    rows of batches not yet gathered, duplicates between batches counted; at most
 *                    RUNG__CACHE_WINDOW_ROWS_MAX
 * @param batches_max batches not yet gathered, at most RUNG__CACHE_BATCHES_MAX
 * @return 0, RUNG_E_NOMEM, RUNG_E_FORMAT (not `create`, and the index is not one of this shape and
 *         version), RUNG_E_BUSY (RUNG__CACHE_CLIENTS_MAX clients have it open), RUNG_E_NOSUP (the
 *         kernel has no locks for seats)
 */
int rung__cache_open(const struct rung__cache_shape *shape, void *index, int fd, bool create,
                     uint64_t rows_max, uint32_t batches_max, struct rung__cache **cache_out);

/**
 * Let look-ups of this process choose the frames of rows that announced batches need after the rows
 * have been read, in rung__cache_arrived().
 */
void rung__cache_choose_late(struct rung__cache *cache);

/** Leave the index: the client's pins and reads are released. NULL is allowed. */
void rung__cache_close(struct rung__cache *cache);

/**
 * Lock the cache. Waits for other threads of this process without a limit, and for another process
 * at most 100 ms, once for each acquisition of that process. Then the cache is locked without its
 * index.
 */
void rung__cache_lock(struct rung__cache *cache);
void rung__cache_unlock(struct rung__cache *cache);

/* ---- the window: called without the lock, which is acquired for some rows at a time ---- */

/**
 * Announce a batch that will be submitted later: its cold rows, ascending and distinct.
 *
 * @param batch_out  names it from now on; never 0
 * @return 0, or RUNG_E_AGAIN: rows_max or batches_max is reached, and nothing was added
 */
int rung__cache_announce(struct rung__cache *cache, const uint64_t *ranks, uint64_t count,
                         uint64_t *batch_out);

/**
 * A batch is submitted: find its announcement. The number of rows and a hash over all of them are
 * compared; if several match, the oldest is used. An announced batch is dropped when more than 64
 * batches that were announced later have overtaken it. An unannounced batch is added to the window
 * now; if the window is full, *batch_out is 0: the batch works, but its own uses of rows stay
 * unknown to the cache.
 */
void rung__cache_begin(struct rung__cache *cache, const uint64_t *ranks, uint64_t count,
                       uint64_t *batch_out);

/** A batch has ended, whether all its rows were looked up or not. 0 is allowed. */
void rung__cache_end(struct rung__cache *cache, uint64_t batch);

/* ---- rows; locked ---- */

enum rung__cache_lookup {
	/* the row is in `frame`, pinned for the client until rung__cache_unpin() */
	RUNG__CACHE_HIT,
	/* this client is reading it; `frame` and `reader` as with KEEP */
	RUNG__CACHE_READING,
	/* the client numbered `reader` is reading it: look it up again later; its use stays in the
	 * window */
	RUNG__CACHE_REMOTE,
	/* another client is reading it, and is late: this client must read it itself, without a
	 * frame */
	RUNG__CACHE_LATE,
	/* not cached: read it, then call rung__cache_arrived() and _filled(), or _failed(), with
	 * `frame`, which belongs to the client until then */
	RUNG__CACHE_KEEP,
	RUNG__CACHE_PASS /* not cached; either not worth a frame, or no frame is available */
};

struct rung__cache_slot {
	/* number of the frame; KEEP, READING: or of the row that is being read, before a frame has
	 * been chosen; or RUNG__CACHE_NONE */
	uint32_t frame;
	uint32_t reader; /* READING: the value passed with KEEP; REMOTE: the client that reads */
};

/**
 * Look up one row of a batch, once per batch, and again after REMOTE. The use of the row by this
 * batch is removed from the window.
 * @param batch   from rung__cache_begin(), or 0
 * @param reader  stored if the result is KEEP; later look-ups of the row return it with READING
 */
enum rung__cache_lookup rung__cache_look_up(struct rung__cache *cache, uint64_t batch,
                                            uint64_t rank, uint32_t reader,
                                            struct rung__cache_slot *place_out);

/* ---- reading ahead: see cache_ahead.c ---- */

/** The order of the rows in the file, if it is not that of the ranks: a map and its inverse, owned
 * by the caller. */
struct rung__ahead_order {
	const void *position_of_rank, *rank_of_position; /* [count] */
	unsigned entry_bytes;                            /* 4 or 8 */
	uint64_t count;
};

#define RUNG__AHEAD_PARTS 256u

/** The sweep over the rows of one reader, such as a refill thread. Zero is a new one. */
struct rung__ahead {
	uint32_t batches_max; /* of its window; 0: as many as the frames suffice for */
	uint64_t near_rows;   /* rows at most so far from each other share a read */
	uint32_t batches;     /* in the window now; 0: nothing is read ahead */
	uint64_t position;    /* of the sweep, in rows: see rung__ahead_open() */
	uint64_t step;        /* rows that it passed for the last batch that began */
	uint64_t owed;        /* rows that it may still pass until the next batch begins */
	uint64_t begun;       /* announced batches that had begun when it was last advanced */
	/* of equal parts of the file: the rows that were read ahead since the sweep was last at the
	 * first row, and the expected share of a whole sweep; weight_sum 0: equal shares */
	uint32_t found[RUNG__AHEAD_PARTS], weights[RUNG__AHEAD_PARTS];
	uint64_t weight_sum;
};

/**
 * The longest window of batches with `batch_rows` rows each, at most `batches` of them; 0: none.
 * @param sparse  few of the rows of the batches are near each other in the file
 */
uint32_t rung__ahead_batches(uint64_t frames, uint64_t batch_rows, uint32_t batches, bool sparse);

/**
 * Let the rows of announced batches be read ahead. rung__cache_close() frees the memory, one bit
 * for each position.
 * @param order  NULL: position p has rank rank_first + p
 * @return 0 or RUNG_E_NOMEM
 */
int rung__ahead_open(struct rung__cache *cache, const struct rung__ahead_order *order);

/** Locked: let the sweep pass one step more for each announced batch that has begun since the last
 * call, except the last `waiting` ones. */
void rung__ahead_advance(const struct rung__cache *cache, struct rung__ahead *ahead,
                         uint64_t waiting);

/** Locked: the next row that a known batch needs, at which the sweep stays. @return false: there is
 * none until the next batch begins */
bool rung__ahead_peek(struct rung__cache *cache, struct rung__ahead *ahead, uint64_t *rank_out);

/** Continue behind a rank, at or behind the one of rung__ahead_peek(). */
void rung__ahead_pass(const struct rung__cache *cache, struct rung__ahead *ahead, uint64_t rank);

/**
 * Locked: look up a row that may be read ahead.
 * @return KEEP, as from rung__cache_look_up(); or PASS: it is cached or being read, or no batch of
 *         the window needs it, or no frame is available. Its uses stay in the window
 */
enum rung__cache_lookup rung__ahead_look_up(struct rung__cache *cache, struct rung__ahead *ahead,
                                            uint64_t rank, uint32_t reader,
                                            struct rung__cache_slot *slot_out);

/**
 * A row has been read that was looked up with KEEP, and `frame` is the result.
 * @return the frame to copy it to, before rung__cache_filled() or _failed(); RUNG__CACHE_NONE: the
 *         row is not cached, and nothing is to be reported. The same as `frame` without
 *         rung__cache_choose_late()
 */
uint32_t rung__cache_arrived(struct rung__cache *cache, uint32_t frame);

/** The row has been copied to the frame; the client pins it `pins` times. */
void rung__cache_filled(struct rung__cache *cache, uint32_t frame, uint32_t pins);

/** The read of a row has failed: its frame is empty again. */
void rung__cache_failed(struct rung__cache *cache, uint32_t frame);

/** Add a pin to a frame that the client has pinned already. */
void rung__cache_pin(struct rung__cache *cache, uint32_t frame);
/** Remove one pin; after the last one the frame may be evicted. */
void rung__cache_unpin(struct rung__cache *cache, uint32_t frame);

/**
 * Report that a client has not completed a read for too long. If it has died, its reads are
 * released. Otherwise the rows that it reads are LATE until it completes a read.
 */
void rung__cache_late(struct rung__cache *cache, uint32_t client);

/** Release the pins and reads of clients that have died. To be called from time to time. */
void rung__cache_reap_dead(struct rung__cache *cache);

/** Number of filled frames; without the index, the last known number. */
uint64_t rung__cache_filled_count(struct rung__cache *cache);

/**
 * Called without the lock: the number of waits for other clients that were abandoned, and the total
 * time of waits for the lock of the index.
 */
void rung__cache_waits(const struct rung__cache *cache, uint64_t *timeouts_out,
                       uint64_t *wait_ns_out);

#endif

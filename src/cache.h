/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The cold-row cache: rows of the fetchable tier that are kept in *frames*, and the batches to come.
 *
 * What is kept. Each batch is made known before it is gathered: by rung_prefetch() long before (*announced*), else by its own submission,
 * which is early enough when several are in flight. Of a row's coming uses the nearest counts. While batches are announced a row is kept
 * when it is wanted sooner than what it would replace: L. A. Belady, "A study of replacement algorithms for a virtual-storage
 * computer", IBM Systems Journal 5(2), 1966, with the right to keep nothing; rows that no known batch wants are ordered by their score,
 * that is by rank, the coldest replaced first. Without announcements a row that is hotter than the coldest there takes its place; a colder one
 * when it misses twice in a short time, that of a row chosen as in SIEVE (Zhang et al., "SIEVE is Simpler than LRU", NSDI 2024).
 *
 * Memory. The *index* (struct layout private to cache.c) and the frames may be shared by several processes; the window of coming
 * batches is each process's own. With several processes a frame knows one next use, the nearest that is known when it is written down.
 *
 * Threads and processes. All functions below that say "locked" want rung__cache_lock(), a process-shared robust mutex; it is held for
 * no more than some microseconds, and never while rows are copied or read. A *client* is a thread that reads (a refill thread). A client
 * that dies, even with the lock held, leaves the others working: its pins and its reads are taken back by whoever notices. Frames it
 * was reading into are used again after a minute.
 * The index of another process is untrusted in so far as nothing in it, but for the locks, makes us touch memory outside or loop for ever.
 */
#ifndef RUNG_CACHE_H
#define RUNG_CACHE_H

#include "internal.h"

#define RUNG__CACHE_CLIENTS_MAX 32u
#define RUNG__CACHE_NONE UINT32_MAX
#define RUNG__CACHE_BATCHES_MAX 4096u                    /* of a window */
#define RUNG__CACHE_WINDOW_ROWS_MAX (UINT32_MAX - 1)

struct rung__cache_shape {
	uint64_t rank_first, row_count;   /* of the rows that may be kept: a rank is its own name, and a smaller one is a hotter row */
	uint64_t frame_count;             /* at least 1, below UINT32_MAX */
};

struct rung__cache;   /* a process's side: the index it maps, and its window */

/** Bytes of the index, whole pages. Per frame about 60, and an eighth for each of row_count. 0 when the shape is not one. */
uint64_t rung__cache_index_bytes(const struct rung__cache_shape *shape);

/** Bytes that the window of a process takes: announced rows and batches not yet gathered. */
uint64_t rung__cache_window_bytes(uint64_t rows_max, uint32_t batches_max);

/**
 * @param index       rung__cache_index_bytes(), page aligned, outlives the cache; `create`: all zero, to be initialised
 * @param rows_max    rows of batches not yet gathered, duplicates between batches counted; at most RUNG__CACHE_WINDOW_ROWS_MAX
 * @param batches_max such batches, at most RUNG__CACHE_BATCHES_MAX
 * @return 0, RUNG_E_NOMEM, RUNG_E_FORMAT (not `create`, and the index is not one of this shape and version)
 */
int rung__cache_open(const struct rung__cache_shape *shape, void *index, bool create, uint64_t rows_max, uint32_t batches_max,
                     struct rung__cache **cache_out);

/** Every client of it has left. NULL is allowed. */
void rung__cache_close(struct rung__cache *cache);

/** Become a client: the calling thread, for its life or until it leaves. @return 0, or RUNG_E_BUSY: RUNG__CACHE_CLIENTS_MAX are there */
int rung__cache_join(struct rung__cache *cache, uint32_t *client_out);

/** The client's pins are gone. Frames it is still reading, which it is not unless its reads were given up, are not used for a minute:
 *  the device may still write to them. By the thread that joined. */
void rung__cache_leave(struct rung__cache *cache, uint32_t client);

void rung__cache_lock(struct rung__cache *cache);
void rung__cache_unlock(struct rung__cache *cache);

/* ---- the window; not locked, they lock by themselves, for some rows at a time ---- */

/**
 * Make a batch known that will be submitted later: its cold rows, ascending and distinct.
 *
 * @param batch_out  names it from now on; never 0
 * @return 0, or RUNG_E_AGAIN: rows_max or batches_max reached, and nothing was taken
 */
int rung__cache_announce(struct rung__cache *cache, const uint64_t *ranks, uint64_t count, uint64_t *batch_out);

/**
 * A batch is submitted: which of those announced is it? Compared are the number of rows and a hash over all of them; of several the
 * oldest. One that was announced and is overtaken by more than 64 batches announced later is given up: it does not come.
 * If it is none, it is made known now; if there is no room for that, *batch_out is 0, and
 * the batch is served with what is known of its rows from others.
 */
void rung__cache_begin(struct rung__cache *cache, const uint64_t *ranks, uint64_t count, uint64_t *batch_out);

/** A batch is over, whether all its rows were taken or not. 0 is allowed. */
void rung__cache_end(struct rung__cache *cache, uint64_t batch);

/* ---- rows; locked ---- */

enum rung__cache_found {
	RUNG__CACHE_HIT,        /* it is in `frame`, pinned for the client until rung__cache_unpin() */
	RUNG__CACHE_READING,    /* the client itself is reading it into `frame`, with `reader` */
	RUNG__CACHE_ELSEWHERE,  /* another client is reading it: ask again; the use stays known until then */
	RUNG__CACHE_KEEP,       /* not there: read it into `frame`, which is the client's until rung__cache_filled() or _failed() */
	RUNG__CACHE_PASS        /* not there, and not worth a frame, or no frame can be had */
};

struct rung__cache_place {
	uint32_t frame;
	uint32_t reader;
};

/**
 * One row of a batch, once per batch (again after ELSEWHERE). Its use by that batch is taken out of the window.
 * @param batch   as rung__cache_begin() named it, or 0
 * @param reader  what READING will tell of it if the answer is KEEP
 */
enum rung__cache_found rung__cache_take(struct rung__cache *cache, uint32_t client, uint64_t batch, uint64_t rank, uint32_t reader,
                                        struct rung__cache_place *place_out);

/** The row has been read into the frame that KEEP gave; the client pins it `pins` times. */
void rung__cache_filled(struct rung__cache *cache, uint32_t client, uint32_t frame, uint32_t pins);

/** It has not: the frame is empty again. */
void rung__cache_failed(struct rung__cache *cache, uint32_t client, uint32_t frame);

/** Once more, for a frame the client has pinned already. */
void rung__cache_pin(struct rung__cache *cache, uint32_t client, uint32_t frame);
void rung__cache_unpin(struct rung__cache *cache, uint32_t client, uint32_t frame);

/** Take back what clients that died have left. Now and then while something is ELSEWHERE, and when no frame can be had. */
void rung__cache_bury(struct rung__cache *cache);

/** Frames with a row in them. */
uint64_t rung__cache_filled_count(struct rung__cache *cache);

#endif

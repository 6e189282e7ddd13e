/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Memory of the cold-row cache: the index shared by processes, and the private state of a process.
 * Private to src/cache*.c and their tests.
 *
 * The index has no pointers, because each process maps it at a different address. A *link* is the
 * number of a frame, or of a use, plus one; 0 is the end of a list, so zeroed memory is a set of
 * empty lists. A link from the index is read once, by rung__cache_load(), and used only if a frame
 * with that number exists. The number of a row is checked in the same way. Each process records its
 * pins and its pending reads in private memory.
 *
 * A thread uses the index only while it holds `own` and, if the index is shared, also the lock in
 * the index; `locked` is set while it does. Functions marked "locked" need `own`; those of
 * cache_frames.c and cache_choose.c also need the lock in the index.
 */
#ifndef RUNG_CACHE_STATE_H
#define RUNG_CACHE_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/queue.h"
#include "cache/cache.h"

#define RUNG__CACHE_MAGIC      UINT64_C(0x656863616367726e)
#define RUNG__CACHE_VERSION    3u
#define RUNG__CACHE_LEVELS_MAX 11u /* enough for 64^11 rows, which exceeds 2^64 */
/* rows of a batch that are added before the lock is released to others */
#define RUNG__CACHE_LOCKED_ROWS 256u
/* an announced batch is dropped when more batches than this, announced later, have begun */
#define RUNG__CACHE_OVERTAKEN_MAX 64u
/* after more batches than this in a row that were not announced, the policy without announcements
 * is used */
#define RUNG__CACHE_LOOKAHEAD_MAX 256u

/*
 * Times are numbers of batches. They are compared by their difference, so they may wrap around. A
 * valid time is at most AHEAD_MAX ahead of the clock. A time more than BEHIND_MAX before the clock
 * was stored by a process that died. A bucket contains the frames of one time. The buckets between
 * these two limits, BUCKETS - AHEAD_MAX - BEHIND_MAX of them, contain only frames of dead
 * processes, which are evicted first.
 */
#define RUNG__CACHE_BUCKETS    8192u
#define RUNG__CACHE_BEHIND_MAX 2048u
#define RUNG__CACHE_AHEAD_MAX  (RUNG__CACHE_BATCHES_MAX + 1024u)

/* Most rows that are read at a time without a frame. */
#define RUNG__CACHE_ENTRIES_MAX 16384u

/*
 * A row that is being read has a frame already, or only an *entry*, which is a frame in all
 * respects but that it has no memory for a row: then the frame is chosen when the row has been read
 * (cache_choose.c). Entries have the numbers behind those of the frames.
 */
enum rung__cache_state {
	RUNG__CACHE_FRAME_EMPTY,
	RUNG__CACHE_FRAME_READING,
	RUNG__CACHE_FRAME_FILLED
};

/* A frame that is filled and not pinned is *offered*: it is in the bucket of its next use or,
 * without a next use, in the map. */
struct rung__cache_frame {
	uint64_t row;       /* its rank, counted from rank_first */
	uint32_t hash_next; /* in the chain of its row */
	/* filled: in the order of filling; empty: `older` is the next one */
	uint32_t newer, older;
	uint32_t use_prev, use_next; /* in its bucket */
	uint32_t next_use;           /* a time; 0: no known batch needs the row */
	uint32_t pins;               /* one bit for each client that has pinned it */
	/* state in the low byte, the reading client above it: one store changes both, so a death
	 * cannot separate them */
	uint16_t state;
	uint16_t visited; /* for SIEVE: hit since the hand last passed it */
	uint32_t reserved;
};

struct rung__cache_index {
	uint64_t magic;
	struct rung__cache_shape shape;
	uint32_t version;
	_Atomic uint32_t lock; /* 0: free; else its holder, see cache_lock.c */

	/* under `lock` */
	uint32_t joined; /* one bit for each client */
	/* number of reads by each seat that have ended since the index was created */
	uint32_t ended[RUNG__CACHE_CLIENTS_MAX];
	uint32_t clock; /* time of the latest batch that began */
	/* clock when a batch was last announced, or an announced batch last began; 0: long ago */
	uint32_t announced;
	/* frames and entries: those from this number on have never been used, and the empty ones */
	uint32_t fresh_count, fresh_entries;
	uint32_t free, free_entries;
	uint32_t newest, oldest, hand;     /* filled frames, and the position of SIEVE's hand */
	uint64_t filled_count, idle_count; /* idle: offered, and needed by no known batch */
	/* one bit per word of bucket_bits: set if that word is not 0 */
	uint64_t bucket_groups[RUNG__CACHE_BUCKETS / 64 / 64];
	/* one bit per bucket: set if it is not empty */
	uint64_t bucket_bits[RUNG__CACHE_BUCKETS / 64];
	uint32_t buckets[RUNG__CACHE_BUCKETS];
	/* heads, ghosts, frames and levels follow in memory */
};

/* A use is one row of one batch. The first use of each row is in the hash table; the later ones are
 * chained to it in the order of time. */
struct rung__cache_use {
	uint64_t row;
	uint32_t hash_next;  /* in a row's first use: the next row in the chain of the head */
	uint32_t last;       /* in a row's first use: the row's last use */
	uint32_t later;      /* the row's next use */
	uint32_t batch_next; /* the next use of its batch; free: the next free one */
	uint32_t time;       /* of its batch */
	uint16_t batch;      /* number of the batch in the window */
	uint16_t over;       /* the row was looked up: this is no longer among its uses */
};

struct rung__cache_batch {
	uint64_t name;            /* 0: no longer valid for callers */
	uint64_t hash, row_count; /* of its rows; a submitted batch is recognised by these two */
	uint32_t time;
	uint32_t first, last; /* its uses */
	uint64_t use_count;   /* uses that are not over */
	/* links in the list of batches that are announced and have not begun; of a free batch,
	 * `older` is the next free one */
	uint32_t older, newer;
	uint32_t overtaken; /* number of later announced batches that have overtaken it */
	bool listed;        /* in that list */
	bool entering;      /* its rows are being added, with pauses */
	bool over;          /* it has ended, perhaps before all its rows were added */
};

/* A set of rows, one bit each. A bit of a higher level represents a word that is not 0. */
struct rung__cache_map {
	uint64_t row_count;
	unsigned level_count;
	uint64_t level_words[RUNG__CACHE_LEVELS_MAX];
	uint64_t *levels[RUNG__CACHE_LEVELS_MAX];
};

/*
 * Only as much memory is touched as the rows that are known at the same time need: uses, heads and
 * batches are used from the front, and the table of heads grows with the uses.
 */
struct rung__cache_window {
	struct rung__cache_use *uses; /* [rows_max]; the first fresh_count have been used */
	uint32_t *heads;              /* [heads_max]; the first heads_count are used */
	uint64_t heads_max, heads_count;
	uint64_t heads_mask; /* a power of two, at least heads_count, less one */
	uint64_t rows_left;  /* rows that can still be added */
	uint32_t rows_max, fresh_count, free;
	struct rung__cache_batch *batches; /* [batches_max] */
	/* oldest, newest: of the list of announced batches that have not begun */
	uint32_t batches_max, batches_fresh, batch_free, oldest, newest;
	uint64_t name_last;
	uint32_t time_last, time_begun; /* latest time of a known batch, and of one that began */
	uint32_t unannounced_run;       /* batches begun since the last announced one */
	/* positions of the rows with uses; without levels: rows are not read ahead */
	struct rung__cache_map wanted;
	uint64_t wanted_count;
	struct rung__ahead_order order; /* count 0: positions are in the order of the ranks */
	uint64_t begun_count;           /* announced batches that began */
	/* batches that are announced and have not begun, and the sum of their rows */
	uint64_t listed_count, listed_rows;
};

struct rung__cache {
	struct rung__cache_shape shape;
	uint32_t frame_count;
	uint32_t entries_end; /* number behind the last entry */
	bool chooses_late;    /* rows are read without a frame */
	struct rung__cache_index *index;
	uint32_t *heads; /* [heads_mask + 1] first frame of each chain of the table of rows */
	uint64_t heads_mask;
	/* [heads_mask + 1] rows that were refused recently: half of their hash selects the entry,
	 * the other half is stored; 0: empty */
	uint32_t *ghosts;
	struct rung__cache_frame *frames; /* [entries_end] */
	struct rung__cache_map idle;      /* the rows in idle frames */

	/* acquired before index->lock: the window stays consistent whatever other processes do to
	 * the index */
	pthread_mutex_t own;
	/* number of threads that wait for `own`: a thread that would hold it for long lets them in
	 * (rung__cache_pause()) */
	_Atomic uint32_t waiting;
	struct rung__cache_window window;

	/* under `own` */
	bool locked;    /* the thread that holds `own` also has the lock of the index */
	uint32_t clock; /* of the index, when it was last locked */
	/* of the index, when it was last locked; for callers that do not have the lock now */
	uint64_t filled_count;
	/* [entries_end] for each frame: the number of this process's pins, and HELD_FILLED or
	 * HELD_FAILED if an update is deferred; or HELD_READING with the reader */
	uint32_t *held;
	/* [entries_end] links of frames whose updates wait for the lock of the index */
	uint32_t *later, later_first;

	/* for an index that is shared */
	bool shared, joined;
	int seat_fd;   /* -1 in a child that was forked */
	uint32_t seat; /* number of this client */
	struct rung__link seated_link;
	uint32_t acquisitions; /* attempts to acquire the lock: makes each word unique */
	/* value of the lock's word: this process does not wait for that acquisition again */
	uint32_t late_word;
	uint64_t life_ns; /* when that holder was last checked to be alive */
	/* one bit for each client that was found late, when it had completed late_ended reads */
	uint32_t late_readers;
	uint32_t late_ended[RUNG__CACHE_CLIENTS_MAX];
	_Atomic uint64_t timeouts, wait_ns;
};

#define RUNG__CACHE_HELD_READING (UINT32_C(1) << 31)
#define RUNG__CACHE_HELD_FILLED  (UINT32_C(1) << 30) /* deferred: the row has been read */
#define RUNG__CACHE_HELD_FAILED  (UINT32_C(1) << 29) /* deferred: its read has failed */
#define RUNG__CACHE_HELD_COUNT   (RUNG__CACHE_HELD_FAILED - 1)

/* Read a value that another process may overwrite at any time: once, so that the value that is
 * checked is the value that is used. */
static inline uint32_t rung__cache_load(const uint32_t *shared)
{
	return __atomic_load_n(shared, __ATOMIC_RELAXED);
}

/* The frame of a link; NULL if the link is 0 or beyond the last frame. */
static inline struct rung__cache_frame *rung__cache_frame_at(const struct rung__cache *cache,
                                                             uint32_t link)
{
	return link - 1u < cache->frame_count ? &cache->frames[link - 1u] : NULL;
}

/* The same for links that may be those of entries. */
static inline struct rung__cache_frame *rung__cache_entry_at(const struct rung__cache *cache,
                                                             uint32_t link)
{
	return link - 1u < cache->entries_end ? &cache->frames[link - 1u] : NULL;
}

static inline enum rung__cache_state rung__cache_frame_state(const struct rung__cache_frame *frame)
{
	return (enum rung__cache_state)(frame->state & 0xff);
}

static inline void rung__cache_frame_set(struct rung__cache_frame *frame,
                                         enum rung__cache_state state, uint32_t client)
{
	__atomic_store_n(&frame->state, (uint16_t)(state | client << 8), __ATOMIC_RELAXED);
}

static inline bool rung__cache_frame_offered(const struct rung__cache_frame *frame)
{
	return rung__cache_frame_state(frame) == RUNG__CACHE_FRAME_FILLED && frame->pins == 0;
}

/* Rows near each other have heads near each other, because batches are sorted: fewer cache
 * misses. */
static inline uint64_t rung__cache_hash(uint64_t row)
{
	return rung__mix64(row >> 4) << 4 | (row & 15);
}

/*
 * The head of a row's chain in a table that grows by one head at a time (W. Litwin, "Linear
 * hashing", VLDB 1980). The rows of a head that does not exist yet are in the head with the highest
 * bit of its number cleared.
 */
static inline uint32_t *rung__cache_window_head(const struct rung__cache_window *window,
                                                uint64_t hash)
{
	const uint64_t at = hash & window->heads_mask;

	return &window->heads[at < window->heads_count ? at : at & window->heads_mask >> 1];
}

/* A power of two, at least count. */
static inline uint64_t rung__cache_heads_count(uint64_t count)
{
	return count <= 1 ? 1 : UINT64_C(1) << (64 - __builtin_clzll(count - 1));
}

/* Whether time a is later than b; correct while they are less than 2^31 apart. */
static inline bool rung__cache_later(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) > 0;
}

/* ---- cache_lock.c: seats, and the lock of a shared index ---- */

/** Become a client of the index in the memory of `fd`. @return 0, RUNG_E_BUSY, RUNG_E_NOSUP */
int rung__cache_seat_acquire(struct rung__cache *cache, int fd);
void rung__cache_seat_release(struct rung__cache *cache);

/**
 * False: the client with that seat has died or left, and it will not write to the index any more.
 * Only for seats of other processes.
 */
bool rung__cache_seat_lives(const struct rung__cache *cache, uint32_t seat);

/**
 * Acquire the lock of the index.
 * @return false: another process holds it for too long. *from_dead_out: its last holder died with
 * it, so the lists may be half changed
 */
bool rung__cache_index_lock(struct rung__cache *cache, bool *from_dead_out);

/** Release it. @return true: another process was waiting for it */
bool rung__cache_index_unlock(struct rung__cache *cache);
bool rung__cache_index_is_free(const struct rung__cache *cache);

/* ---- cache_clients.c ---- */

/** Release both locks for a moment, if others wait for them, and acquire them again. */
void rung__cache_pause(struct rung__cache *cache);

/** Without the lock of the index: apply the state in `held` to this frame later. */
void rung__cache_defer(struct rung__cache *cache, uint32_t frame_idx);

/**
 * Whether a client was found late and has not completed a read since then. Locked, with the index.
 */
bool rung__cache_is_late(const struct rung__cache *cache, uint32_t client);

/** For a shared index: release everything that this client holds, and its seat. */
void rung__cache_leave(struct rung__cache *cache);

/* ---- cache_held.c ---- */

/**
 * A read into a frame has completed, and `held` has its pins, or the read has failed. Locked, with
 * the index.
 */
void rung__cache_frame_filled(struct rung__cache *cache, uint32_t frame_idx);
void rung__cache_frame_failed(struct rung__cache *cache, uint32_t frame_idx);

/* ---- cache_frames.c: the lists of frames. All locked, with the index ---- */

/** The frame that contains a row, or into which it is being read, or its entry; 0: not found. */
uint32_t rung__cache_frames_find(const struct rung__cache *cache, uint64_t row);

/** Remove an empty frame from the list of empty ones; 0: the list is empty. */
uint32_t rung__cache_frames_pop(struct rung__cache *cache);
uint32_t rung__cache_entries_pop(struct rung__cache *cache);

/** The links of the frames and entries that were ever used, in turn: the first is that after 0.
 * @return 0: `link` was the last */
uint32_t rung__cache_frames_after(const struct rung__cache *cache, uint32_t link);

/** Assign an empty frame or entry to a row that `client` will read. */
void rung__cache_frames_claim(struct rung__cache *cache, uint32_t link, uint64_t row,
                              uint32_t client);

/** The row has been read. The frame is filled, and not offered yet. */
void rung__cache_frames_fill(struct rung__cache *cache, uint32_t link, uint32_t next_use);

/** Drop the content of a frame or entry, which is not added to the empty ones yet; a filled frame
 * must not be offered. */
void rung__cache_frames_clear(struct rung__cache *cache, uint32_t link);
void rung__cache_frames_push(struct rung__cache *cache, uint32_t link);

/** Offer a filled frame that is not pinned. Withdraw it before the first pin, and before its next
 * use changes. */
void rung__cache_frames_offer(struct rung__cache *cache, uint32_t link);
void rung__cache_frames_withdraw(struct rung__cache *cache, uint32_t link);

/** Change the next use of a filled frame, offered or not. */
void rung__cache_frames_want(struct rung__cache *cache, uint32_t link, uint32_t next_use);

/** Remove a client's last pin of a frame. */
void rung__cache_frames_unpin(struct rung__cache *cache, uint32_t link, uint32_t client);

/** The offered frame with the latest known next use, or 0. *stale_out: its next use is that of a
 * process that died. */
uint32_t rung__cache_frames_farthest(const struct rung__cache *cache, bool *stale_out);

/** The idle frame with the coldest row, or 0. */
uint32_t rung__cache_frames_coldest(struct rung__cache *cache);

/** Rebuild the lists from frames that a living client reads or has pinned; other frames are empty.
 * The old lists may be damaged. */
void rung__cache_frames_rebuild(struct rung__cache *cache, uint32_t living);

/* ---- cache_ahead.c ---- */

/** Free the memory of rung__ahead_open(). */
void rung__ahead_close(struct rung__cache *cache);

/** A row has its first use in the window, or has no use left. */
void rung__ahead_want(struct rung__cache *cache, uint64_t row);
void rung__ahead_drop(struct rung__cache *cache, uint64_t row);

/* ---- cache_map.c ---- */

/** Set the sizes of the levels for row_count rows, at least one. @return bytes of all levels */
uint64_t rung__cache_map_lay_out(struct rung__cache_map *map, uint64_t row_count);
/** Set the pointers to the levels, which begin at `base`. */
void rung__cache_map_place(struct rung__cache_map *map, void *base);
/** Add or remove a row. @return whether that changed the map; rows beyond row_count do not */
bool rung__cache_map_set(const struct rung__cache_map *map, uint64_t row);
bool rung__cache_map_clear(const struct rung__cache_map *map, uint64_t row);
/** The last row, and the first one from `row` on. @return false: there is none, or the map is
 * damaged */
bool rung__cache_map_last(const struct rung__cache_map *map, uint64_t *row_out);
bool rung__cache_map_next(const struct rung__cache_map *map, uint64_t row, uint64_t *row_out);

/* ---- cache_choose.c ---- */

/** An empty frame for a row whose next use is `next_use` (0: unknown), after an eviction if
 * necessary; 0: the row is not worth a frame, or no frame is available. */
uint32_t rung__cache_choose(struct rung__cache *cache, uint64_t row, uint32_t next_use);

/** A row that is not cached: choose a frame for it, if it is worth one. @return KEEP or PASS.
 * rung__cache_defer_choice() returns KEEP and an entry, if one is free and batches are announced.
 * Locked, with the index. */
enum rung__cache_lookup rung__cache_admit(struct rung__cache *cache, uint64_t row,
                                          uint32_t next_use, uint32_t reader,
                                          struct rung__cache_slot *slot_out);
enum rung__cache_lookup rung__cache_defer_choice(struct rung__cache *cache, uint64_t row,
                                                 uint32_t next_use, uint32_t reader,
                                                 struct rung__cache_slot *slot_out);

/* ---- cache_uses.c: the uses of a row. Locked ---- */

static inline struct rung__cache_use *rung__cache_use_at(const struct rung__cache_window *window,
                                                         uint32_t link)
{
	return &window->uses[link - 1];
}

/** Add a head to the table, if memory allows. */
void rung__cache_uses_grow(struct rung__cache_window *window);

/** The position of the link to a row's first use, or where it would be inserted. Valid until the
 * table grows. */
uint32_t *rung__cache_uses_find(const struct rung__cache_window *window, uint64_t row);

/** The time of a row's first use, from the position that _find() returned; 0: no use is known. */
uint32_t rung__cache_uses_time(const struct rung__cache_window *window, const uint32_t *from,
                               uint64_t row);

/** Add a use to those of its row. @return true: it is the row's first use now */
bool rung__cache_uses_insert(struct rung__cache_window *window, uint32_t link);

/** Remove the batch's use of a row from its uses; *from is not 0. @return that use, or NULL: the
 * batch has no use of the row */
struct rung__cache_use *rung__cache_uses_remove(struct rung__cache_window *window, uint32_t *from,
                                                uint16_t batch_idx);

/* ---- cache_window.c ---- */

/** Allocate the window. rung__cache_window_fini() frees it, also after a failure. */
int rung__cache_window_init(struct rung__cache *cache, uint64_t rows_max, uint32_t batches_max);
/** Locked: drop all batches of the window. */
void rung__cache_window_drop(struct rung__cache *cache);
void rung__cache_window_fini(struct rung__cache *cache);

/** The next time that a batch of this process uses a row; 0: unknown. Locked. */
uint32_t rung__cache_window_next(const struct rung__cache *cache, uint64_t row);

/** The same, after removing the use by this batch, which is over. */
uint32_t rung__cache_window_remove(struct rung__cache *cache, uint64_t batch, uint64_t row);

/* Prefetch the heads of a row, in the index and in the window. */
static inline void rung__cache_prefetch(const struct rung__cache *cache, uint64_t row)
{
	uint64_t hash = rung__cache_hash(row);

	__builtin_prefetch(&cache->heads[hash & cache->heads_mask]);
	__builtin_prefetch(rung__cache_window_head(&cache->window, hash));
}

#endif

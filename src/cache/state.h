/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Memory of the cold-row cache: the index shared by processes, and the private state of a process.
 * Private to src/cache*.c and their tests.
 *
 * The index has no pointers, because each process maps it at a different address. A *link* is the
 * number of a frame, or of a use, plus one; 0 is the end of a list, so zeroed memory is a set of
 * empty lists. A link from the index is read once, by rung__cache_load(), and used only if that
 * frame exists, and a row only if that row exists. Each process records in private memory what it
 * holds and which reads it waits for.
 *
 * A thread uses the index while it holds `own` and, if the index is shared, the lock in it, as
 * `locked` indicates. Functions marked "locked" need the first; those of cache_frames.c and
 * cache_choose.c also need the second.
 */
#ifndef RUNG_CACHE_STATE_H
#define RUNG_CACHE_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/queue.h"
#include "cache/cache.h"

#define RUNG__CACHE_MAGIC      UINT64_C(0x656863616367726e)
#define RUNG__CACHE_VERSION    2u
#define RUNG__CACHE_LEVELS_MAX 11u /* 64^11 rows are more than there can be */
/* of a batch that is made known, for which the lock is held at a time */
#define RUNG__CACHE_LOCKED_ROWS 256u
/* batches announced later that may begin before one is given up */
#define RUNG__CACHE_OVERTAKEN_MAX 64u
/* batches begun since the last that was announced, until it is as if none were announced */
#define RUNG__CACHE_LOOKAHEAD_MAX 256u
/* a device that has not written by then does not: the kernel gives a read up sooner */
#define RUNG__CACHE_LOST_NS 60000000000u

/*
 * Times number batches. They are compared by their difference, so they may wrap around. A known
 * time is at most AHEAD_MAX ahead of the clock; a time more than BEHIND_MAX before it belonged to a
 * process that died. A bucket holds the frames of one time. Buckets in the gap between the two,
 * which is the rest of BUCKETS wide, hold only frames of dead processes, and these are evicted
 * soon.
 */
#define RUNG__CACHE_BUCKETS    8192u
#define RUNG__CACHE_BEHIND_MAX 2048u
#define RUNG__CACHE_AHEAD_MAX  (RUNG__CACHE_BATCHES_MAX + 1024u)

enum rung__cache_state {
	RUNG__CACHE_FRAME_EMPTY,
	RUNG__CACHE_FRAME_READING,
	RUNG__CACHE_FRAME_FILLED,
	RUNG__CACHE_FRAME_LOST /* its reader died: the device may still write to it */
};

/* A frame that is filled and not pinned is *offered*: it is in the bucket of its next use or,
 * without a next use, in the map. */
struct rung__cache_frame {
	/* its rank, counted from rank_first; lost: when, on the clock that all processes have */
	uint64_t row;
	uint32_t hash_next;
	/* filled: in the order of filling; empty: `older` is the next one; lost: `newer` is */
	uint32_t newer, older;
	uint32_t use_prev, use_next; /* in its bucket */
	uint32_t next_use;           /* 0: none is known */
	uint32_t pins;               /* clients, as bits */
	/* state in the low byte, the reading client above it: one store changes both, so a death
	 * cannot separate them */
	uint16_t state;
	uint16_t visited;
	uint32_t reserved;
};

struct rung__cache_index {
	uint64_t magic;
	struct rung__cache_shape shape;
	uint32_t version;
	_Atomic uint32_t lock; /* 0: free; else who has it, see cache_lock.c */

	/* under `lock` */
	uint32_t joined; /* clients, as bits */
	/* reads that each has ended since the index was made */
	uint32_t ended[RUNG__CACHE_CLIENTS_MAX];
	uint32_t clock; /* time of the latest batch begun */
	/* clock of the last announcement, or of the last begin of an announced batch; 0: long
	 * ago */
	uint32_t announced;
	uint32_t fresh_count;              /* frames from here on have never been used */
	uint32_t free;                     /* empty frames */
	uint32_t lost_first, lost_last;    /* in that order */
	uint32_t newest, oldest, hand;     /* filled frames, and the position of SIEVE's hand */
	uint64_t filled_count, idle_count; /* idle: offered, and wanted by no known batch */
	/* bits of the words of bucket_bits that are not 0 */
	uint64_t bucket_groups[RUNG__CACHE_BUCKETS / 64 / 64];
	uint64_t bucket_bits[RUNG__CACHE_BUCKETS / 64]; /* bits of the buckets that are not empty */
	uint32_t buckets[RUNG__CACHE_BUCKETS];
	/* then heads, ghosts, frames, levels */
};

/* One row of one batch. The first use of each row is in the hash table; the others hang on it in
 * order of time. */
struct rung__cache_use {
	uint64_t row;
	uint32_t hash_next; /* of the first: the next row */
	uint32_t last;      /* of the first: the row's last use */
	uint32_t later;     /* the row's next use */
	uint32_t batch_next;
	uint32_t time;
	uint16_t batch;
	uint16_t over; /* taken, no longer among the row's uses */
};

struct rung__cache_batch {
	uint64_t name; /* 0: no longer valid for callers */
	uint64_t hash, row_count;
	uint32_t time;
	uint32_t first, last; /* its uses */
	uint64_t use_count;   /* those not over */
	/* announced and not begun: in that order. Links; free: `older` is the next one */
	uint32_t older, newer;
	uint32_t overtaken; /* number of later announced batches that have overtaken it */
	bool listed;        /* announced and not begun */
	bool entering;      /* not all its rows are known yet */
	bool over;          /* it ended before they were */
};

/*
 * Memory follows the rows known at the same time: uses, heads and batches are used from the front,
 * and heads grow with the uses.
 */
struct rung__cache_window {
	struct rung__cache_use *uses; /* [rows_max], fresh_count of them have been used */
	uint32_t *heads;              /* [heads_max]; the first heads_count are used */
	uint64_t heads_max, heads_count;
	uint64_t heads_mask; /* a power of two, at least heads_count, less one */
	uint64_t rows_left;  /* of rows_max */
	uint32_t rows_max, fresh_count, free;
	struct rung__cache_batch *batches; /* [batches_max] */
	uint32_t batches_max, batches_fresh, batch_free, oldest, newest;
	uint64_t name_last;
	uint32_t time_last, time_begun; /* of the batches made known, and begun, the latest */
	uint32_t unannounced_run;       /* batches begun since the last that was announced */
};

struct rung__cache {
	struct rung__cache_shape shape;
	uint32_t frame_count;
	struct rung__cache_index *index;
	uint32_t *heads; /* of chains of frames by row */
	uint64_t heads_mask;
	/* [heads_mask + 1] rows refused lately, by their hash: its other half, 0 for none */
	uint32_t *ghosts;
	struct rung__cache_frame *frames;
	unsigned level_count;
	uint64_t level_words[RUNG__CACHE_LEVELS_MAX];
	/* the map of idle rows; a bit of a higher level stands for a word that is not 0 */
	uint64_t *levels[RUNG__CACHE_LEVELS_MAX];

	/* taken before index->lock: the window stays consistent whatever other processes do to the
	 * index */
	pthread_mutex_t own;
	/* threads of this process, for `own`: who could hold both long lets others in between */
	_Atomic uint32_t waiting;
	struct rung__cache_window window;

	/* under `own` */
	bool locked;           /* the index is this thread's */
	uint32_t clock;        /* the index's, when it was last had */
	uint64_t filled_count; /* for callers without the index */
	/* [frame_count] number of pins, or HELD_READING and the reader, or a deferred update */
	uint32_t *held;
	/* [frame_count] links of frames whose updates wait for the lock of the index */
	uint32_t *later, later_first;

	/* for an index that is shared */
	bool shared, joined;
	int seat_fd;   /* -1 in a child that was forked */
	uint32_t seat; /* which client this is */
	struct rung__link seated_link;
	uint32_t acquisitions; /* of the lock, tried */
	/* of the lock, when its holder was waited for in vain */
	uint32_t late_word;
	uint64_t life_ns; /* when that one was last checked to be alive */
	/* clients, as bits, that had ended late_ended reads when they were found late */
	uint32_t late_readers;
	uint32_t late_ended[RUNG__CACHE_CLIENTS_MAX];
	_Atomic uint64_t timeouts, wait_ns;
};

#define RUNG__CACHE_HELD_READING (UINT32_C(1) << 31)
#define RUNG__CACHE_HELD_FILLED  (UINT32_C(1) << 30) /* later: the row has come */
#define RUNG__CACHE_HELD_FAILED  (UINT32_C(1) << 29) /* later: it will not */
#define RUNG__CACHE_HELD_COUNT   (RUNG__CACHE_HELD_FAILED - 1)

static inline uint32_t rung__cache_load(const uint32_t *shared)
{
	return __atomic_load_n(shared, __ATOMIC_RELAXED);
}

/* NULL: no such frame, also for link 0. */
static inline struct rung__cache_frame *rung__cache_frame_at(const struct rung__cache *cache,
                                                             uint32_t link)
{
	return link - 1u < cache->frame_count ? &cache->frames[link - 1u] : NULL;
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

/* Rows near each other have heads near each other: batches come sorted. */
static inline uint64_t rung__cache_hash(uint64_t row)
{
	return rung__mix64(row >> 4) << 4 | (row & 15);
}

/*
 * The head of a row's chain in a table that grows by one head at a time (W. Litwin, "Linear
 * hashing", VLDB 1980). A head that the table does not have yet is part of the one at half its
 * place.
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

static inline bool rung__cache_later(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) > 0;
}

/* ---- cache_lock.c: seats, and the lock of a shared index ---- */

/** Become a client of the memory that `fd` is of. @return 0, RUNG_E_BUSY, RUNG_E_NOSUP */
int rung__cache_seat_acquire(struct rung__cache *cache, int fd);
void rung__cache_seat_release(struct rung__cache *cache);

/**
 * False: who had the seat has died or left, and nothing that it did is still to come. For seats
 * other than this process's.
 */
bool rung__cache_seat_lives(const struct rung__cache *cache, uint32_t seat);

/**
 * @return false: another process keeps it. *from_dead_out: its last holder died with it, the lists
 * may be half changed
 */
bool rung__cache_index_lock(struct rung__cache *cache, bool *from_dead_out);

/** @return true: another process was waiting for it */
bool rung__cache_index_unlock(struct rung__cache *cache);
bool rung__cache_index_is_free(const struct rung__cache *cache);

/* ---- cache_clients.c ---- */

/** Give the lock away for a moment. */
void rung__cache_pause(struct rung__cache *cache);

/** Without the lock of the index: apply the state in `held` to this frame later. */
void rung__cache_defer(struct rung__cache *cache, uint32_t frame_idx);

/**
 * A reader that is late, and has not ended a read since it was found to be. Locked, with the index.
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

/** The frame that a row is in, or read into; 0: none. */
uint32_t rung__cache_frames_find(const struct rung__cache *cache, uint64_t row);

/** A frame that is empty, no longer among those; 0: none. */
uint32_t rung__cache_frames_pop(struct rung__cache *cache);

/** An empty frame gets a row that `client` will read. */
void rung__cache_frames_claim(struct rung__cache *cache, uint32_t link, uint64_t row,
                              uint32_t client);

/** That row is there. It is not offered yet. */
void rung__cache_frames_fill(struct rung__cache *cache, uint32_t link, uint32_t next_use);

/** Drop the content of a frame, which is not added to the empty ones yet; a filled frame must not
 * be offered. */
void rung__cache_frames_clear(struct rung__cache *cache, uint32_t link);
void rung__cache_frames_push(struct rung__cache *cache, uint32_t link);

/** A read into a frame will never be reported as complete: do not use the frame for a while. */
void rung__cache_frames_lose(struct rung__cache *cache, uint32_t link);

/** Offer a filled frame that is not pinned. Withdraw it before the first pin, and before its next
 * use changes. */
void rung__cache_frames_offer(struct rung__cache *cache, uint32_t link);
void rung__cache_frames_withdraw(struct rung__cache *cache, uint32_t link);

/** Another next use of a filled frame, offered or not. */
void rung__cache_frames_want(struct rung__cache *cache, uint32_t link, uint32_t next_use);

/** A client's last pin of a frame is gone. */
void rung__cache_frames_unpin(struct rung__cache *cache, uint32_t link, uint32_t client);

/** The offered frame with the latest known next use; 0 if there is none. *stale_out: it belonged to
 * a process that died. */
uint32_t rung__cache_frames_farthest(const struct rung__cache *cache, bool *stale_out);

/** The idle frame with the coldest row; 0 if there is none. */
uint32_t rung__cache_frames_coldest(struct rung__cache *cache);

/** Rebuild the lists from frames that a living client reads or has pinned; other frames are empty
 * or lost. The old lists may be damaged. */
void rung__cache_frames_rebuild(struct rung__cache *cache, uint32_t living);

/* ---- cache_choose.c ---- */

/** An empty frame for a row that is next wanted at `next_use` (0: not known), made empty if need
 * be; 0: it is not worth one, or none can be had. */
uint32_t rung__cache_choose(struct rung__cache *cache, uint64_t row, uint32_t next_use);

/* ---- cache_uses.c: the uses of a row. Locked ---- */

static inline struct rung__cache_use *rung__cache_use_at(const struct rung__cache_window *window,
                                                         uint32_t link)
{
	return &window->uses[link - 1];
}

/** Add a head to the table, if memory allows. */
void rung__cache_uses_grow(struct rung__cache_window *window);

/** Where the link to a row's first use is, or would be. Until the table grows. */
uint32_t *rung__cache_uses_find(const struct rung__cache_window *window, uint64_t row);

/** The first use's time by what _find() returned for the row; 0: none is known. */
uint32_t rung__cache_uses_time(const struct rung__cache_window *window, const uint32_t *from,
                               uint64_t row);

/** @return true: the new use is the row's first */
bool rung__cache_uses_insert(struct rung__cache_window *window, uint32_t link);

/** Remove the batch's use of a row from its uses; *from is not 0. @return that use, or NULL if
 * there is none */
struct rung__cache_use *rung__cache_uses_remove(struct rung__cache_window *window, uint32_t *from,
                                                uint16_t batch_idx);

/* ---- cache_window.c ---- */

int rung__cache_window_init(struct rung__cache *cache, uint64_t rows_max, uint32_t batches_max);
/** Locked: drop all batches of the window. */
void rung__cache_window_drop(struct rung__cache *cache);
void rung__cache_window_fini(struct rung__cache *cache);

/** When a row is next used by a batch of this process; 0: not known. Locked. */
uint32_t rung__cache_window_next(const struct rung__cache *cache, uint64_t row);

/** The same without the batch's own use, which is over. */
uint32_t rung__cache_window_remove(struct rung__cache *cache, uint64_t batch, uint64_t row);

static inline void rung__cache_prefetch(const struct rung__cache *cache, uint64_t row)
{
	uint64_t hash = rung__cache_hash(row);

	__builtin_prefetch(&cache->heads[hash & cache->heads_mask]);
	__builtin_prefetch(rung__cache_window_head(&cache->window, hash));
}

#endif

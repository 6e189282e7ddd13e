/* SPDX-License-Identifier: Apache-2.0 */
/**
 * State of a refill thread. Only that thread accesses it, except the members guarded by its lock,
 * and counters, which other threads read.
 *
 * Files: refill.c starts and stops; refill_loop.c is the loop; refill_next.c derives the next read
 * of a part from its misses; refill_ahead.c reads ahead of the batches; refill_read.c is the life
 * of a read; refill_rows.c copies rows to their destinations and completes parts; refill_stats.c
 * adds up counters.
 *
 * Terms. A *miss* is an output row whose source row is not in memory; a *part* is the misses of one
 * request for this thread. Rows are read into *slots* of the pool: a slot holds one read until its
 * rows are copied. A *frame* is the place of one row in the cold-row cache. A *token* allows one
 * read. A *slot batch* is a chain of slots whose rows the device copies together.
 *
 * Miss references. Equal ranks are next to each other in a request's misses, and a reference to the
 * first miss of such a run stands for the whole run. A reference is one word: the request's number
 * and the position in the list. References that wait for the same read are chained through
 * misses.links, even across requests.
 *
 * Rows that another process reads (RUNG__CACHE_REMOTE) are checked again every 100 us, for 80 ms at
 * most. After that the process is *late*: until it completes a read, the rows that it is reading
 * are read here at once.
 *
 * A read that does not complete within read_timeout_ms fails the requests that wait for it. Its
 * slot stays in use until it completes, because the kernel may still write there. For the same
 * reason reads never go directly to the caller's memory, or to frames, which processes share.
 */
#ifndef RUNG_REFILL_STATE_H
#define RUNG_REFILL_STATE_H

#include <assert.h>

#include "refill/refill.h"
#include "base/thread.h"
#include "file/mount.h"

/* misses.frames of a reference is the cache's frame for its row, or RUNG__CACHE_NONE. With this
 * flag the reference is the keeper of that frame: its own read fills the frame. Without the flag it
 * waits for the keeper's read. */
#define RUNG__KEEPER (1u << 31)

/* References, linked through misses.links, in the order in which they were added. */
struct rung__chain {
	uint64_t head, tail; /* RUNG__MISS_REF_NONE: empty */
};

/* A read. Its token is its index in `reads`, and also the number of its slot. */
struct rung__read {
	/* the part that submitted it; NULL: abandoned, no request waits for it */
	struct rung__part *part;
	struct rung__chain refs; /* references that wait for this read */
	/* after a split: references to the rows that will be read alone, after the row that is
	 * being read */
	struct rung__chain rest;
	uint64_t offset; /* offset of the read in the file */
	/* file offset of the slot's first byte: rows read alone go to where the merged read would
	 * have put them */
	uint64_t base;
	uint64_t sent_ns, seen_ns; /* submitted; its completion was reaped */
	/* start of its timeout: sent_ns plus the time that does not count as delay */
	uint64_t since_ns;
	uint32_t bytes; /* whole sectors */
	/* bytes up to the end of the last row; a read that returns fewer is short */
	uint32_t needed;
	uint32_t done; /* bytes that earlier, short attempts returned */
	uint32_t rows; /* distinct */
	uint32_t tries;
	bool busy;   /* the token is in use */
	bool sent;   /* the reader has it */
	bool slow;   /* the read takes so long that the loop no longer waits for it */
	bool apart;  /* split: its rows are read one by one */
	bool listed; /* device: rows are to be copied from the slot */
	bool held;   /* device: the slot stays in use until they have been copied */
	bool early;  /* device: sent before the gather had run */
};

struct rung__refill {
	struct rung_store *store;
	struct rung__cache *cache; /* NULL: none */
	uint32_t refill_idx;       /* of the thread, its parts and its counters */
	uint32_t file_idx;         /* of its file */
	int cpu_node;              /* node on whose CPUs the thread runs; -1: any */
	const struct rung__reader_ops *ops;
	struct rung__reader *reader;
	struct rung__geometry geometry;
	struct rung__engine_state engine;
	struct rung__layout layout;
	uint64_t slots_at;                      /* offset of this thread's slots in the pool */
	uint32_t slot_bytes, slot_count, depth; /* depth: most reads in flight */
	struct rung__read_rule rule;            /* which rows share a read */
	uint64_t timeout_ns;                    /* timeout of a read */
	/* longest wait before the stop flag and late reads are checked */
	uint64_t tick_ns;
	bool device;  /* rows stay in the pool until a device has copied them */
	bool stop;    /* the store is being closed: waiting requests are canceled */
	bool lost;    /* reads were abandoned, and the reader will never report their end */
	bool starved; /* rows of `remote` found no token: one is reserved for them */

	struct rung__read *reads; /* [slot_count] by token */
	uint32_t *free_tokens;    /* [slot_count] stack */
	uint32_t free_count;
	uint32_t early_count; /* number of tokens with early reads */
	uint32_t in_flight;
	uint32_t slow_count;           /* slow reads among those in flight */
	struct rung__fetched *fetched; /* [depth] completions of one reap */
	struct rung__queue issuing;    /* parts with misses not yet begun, oldest first */
	struct rung__queue remote;     /* parts with rows that another client reads */
	struct rung__queue touched;    /* parts that may be finished */
	struct rung__queue holding;    /* device: parts with slots that were not handed over yet */
	uint64_t remote_polled_ns, ticked_ns; /* times of the last checks */
	uint64_t now_ns;                      /* time at which the clock was last read */
	uint32_t *slot_next; /* [slot_count] device: the next slot in a chain of slots with rows */
	/* [slot_count] device: the slot batch of a chain is at the index of its first slot, which
	 * is in no other chain */
	struct rung__slot_batch *slot_batches;
	uint32_t *reclaimed; /* [slot_count] device: scratch for the chains that were returned */
	/* reading ahead of the batches (refill_ahead.c) */
	struct rung__ahead ahead;
	struct rung__part *ahead_part;               /* NULL: this thread does not read ahead */
	uint32_t ahead_rows, ahead_used, ahead_free; /* positions in the list of its misses */
	int broken; /* errno with which the reader failed; 0: it works */
	struct rung__refill_counters *counters; /* in the store's statistics page */

	pthread_t thread;
	struct rung__end end;
	/* for rung__refill_stop(): when the thread was last at the top of its loop, and the number
	 * of reads in flight then */
	_Atomic uint64_t seen_ns;
	_Atomic uint32_t seen_reads;
	struct rung__refill_box box;
	/* guarded by box.lock: the result of the thread's start, for the thread that opens the
	 * store */
	bool started;
	int start_status;
	char start_error[RUNG__ERROR_BYTES];
};

/** Add to a counter that only this thread writes: a load and a store are enough. */
static inline void rung__add_own(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
	                      memory_order_relaxed);
}

/** Let other threads see the reads in flight. */
static inline void rung__show_in_flight(const struct rung__refill *refill)
{
	atomic_store_explicit(&refill->counters->reads_in_flight, refill->in_flight,
	                      memory_order_relaxed);
}

/* ---- miss references ---- */

/* A reference is request number << 32 | position of the miss in the request's list. */

static inline struct rung_request *rung__miss_ref_request(const struct rung__refill *refill,
                                                          uint64_t ref)
{
	return &refill->store->requests[ref >> 32];
}

static inline struct rung__part *rung__miss_ref_part(const struct rung__refill *refill,
                                                     uint64_t ref)
{
	return &rung__miss_ref_request(refill, ref)->parts[refill->refill_idx];
}

static inline uint64_t rung__miss_ref(const struct rung__part *part, uint64_t miss)
{
	return (uint64_t)rung__request_index(part->request) << 32 | miss;
}

/** The next reference in the chain that this one is in. */
static inline uint64_t *rung__miss_ref_link(const struct rung__refill *refill, uint64_t ref)
{
	return &rung__miss_ref_request(refill, ref)->misses.links[(uint32_t)ref];
}

/** The reference's frame, perhaps with the flag RUNG__KEEPER. */
static inline uint32_t *rung__miss_ref_frame(const struct rung__refill *refill, uint64_t ref)
{
	return &rung__miss_ref_request(refill, ref)->misses.frames[(uint32_t)ref];
}

static inline uint64_t rung__miss_ref_rank(const struct rung__refill *refill, uint64_t ref)
{
	return rung__miss_ref_request(refill, ref)->misses.ranks[(uint32_t)ref];
}

/** End of the run of misses with the rank of miss `first`: a reference stands for all of them. */
static inline uint64_t rung__run_end(const struct rung__part *part, uint64_t first)
{
	const uint64_t *ranks = part->request->misses.ranks;
	uint64_t i = first + 1;

	while (i < part->end && ranks[i] == ranks[first])
		i++;
	return i;
}

/** True if the gather of the part's request has not run. Rows that are read for it keep their slots
 * until then. */
static inline bool rung__part_is_early(const struct rung__part *part)
{
	const struct rung_request *request = part->request;

	return request->known && request->status >= 0 &&
	       !atomic_load_explicit(&request->may_copy, memory_order_relaxed);
}

/** Free a token, whose read has ended and whose slot has no row for a device. */
static inline void rung__token_free(struct rung__refill *refill, uint32_t token)
{
	assert(refill->free_count < refill->slot_count && token < refill->slot_count);
	assert(!refill->reads[token].busy && !refill->reads[token].held);
	refill->early_count -= refill->reads[token].early;
	refill->reads[token].early = false;
	refill->free_tokens[refill->free_count++] = token;
}

static inline uint32_t rung__token_acquire(struct rung__refill *refill)
{
	assert(refill->free_count > 0);
	return refill->free_tokens[--refill->free_count];
}

/** Also used to initialise a chain, because an empty chain is not all zero. */
static inline void rung__chain_clear(struct rung__chain *chain)
{
	chain->head = chain->tail = RUNG__MISS_REF_NONE;
}

void rung__chain_add(const struct rung__refill *refill, struct rung__chain *chain, uint64_t ref);
uint64_t rung__chain_pop(const struct rung__refill *refill, struct rung__chain *chain);

/** Reads in flight that are expected to complete soon: all but the slow ones. */
static inline uint32_t rung__reads_expected(const struct rung__refill *refill)
{
	return refill->in_flight - refill->slow_count;
}

/** Bytes of a read up to the end of its last row. The last block of neighbour lists can extend past
 * the end of the file. */
static inline uint32_t rung__bytes_needed(const struct rung__refill *refill,
                                          const struct rung__read *read, uint64_t row_end)
{
	return (uint32_t)(RUNG__MIN(row_end, refill->layout.file_bytes[refill->file_idx]) -
	                  read->offset);
}

/** Offset of a token's slot in the pool. */
static inline uint64_t rung__slot_at(const struct rung__refill *refill, uint32_t token)
{
	return refill->slots_at + (uint64_t)token * refill->slot_bytes;
}

/** Offset of a frame in the pool. */
static inline uint64_t rung__frame_at(const struct rung__refill *refill, uint32_t frame)
{
	return refill->store->pool.frames_at + (uint64_t)frame * refill->store->pool.frame_bytes;
}

/* ticks; a longer absence from the loop means that the thread was stopped or had no CPU. Reads can
 * have completed in that time, so the absence does not count as their delay */
#define TICKS_MISSED_MAX 4u

/* ---- refill_loop.c ---- */

/** Read everything that is queued, until the store stops. The engine has been started. */
void rung__refill_run(struct rung__refill *refill);

/* ---- refill_next.c ---- */

/**
 * Begin the next misses of a part: rows in the cache are copied, rows being read wait for that
 * read, and one read is prepared for the next rows that are neither.
 * @return true if there is a read to be sent; false: the token was not used
 */
bool rung__next_read(struct rung__refill *refill, uint32_t token, struct rung__part *part);

/** Prepare the read of a token for a part. */
void rung__read_begin(struct rung__read *read, struct rung__part *part);

/** Add a row to a read that is being prepared. @param frame  RUNG__CACHE_NONE, or the frame to fill
 * with RUNG__KEEPER @return the row's end in the file */
uint64_t rung__read_add(struct rung__refill *refill, struct rung__read *read, uint64_t ref,
                        uint32_t frame);

/** Set the length of a read, whose last row ends at `row_end`. */
void rung__read_set_end(const struct rung__refill *refill, struct rung__read *read,
                        uint64_t row_end);

/** Look up again the rows that other clients were reading, every 100 us; those that this thread has
 * to read after all are read. */
void rung__remote_poll(struct rung__refill *refill);

/* ---- refill_ahead.c ---- */

#define RUNG__AHEAD_NONE UINT32_MAX /* no position in the list */

/** Allocate the list of rows that are read ahead, if the store reads ahead. @return 0 or
 * RUNG_E_NOMEM */
int rung__refill_ahead_init(struct rung__refill *refill);
void rung__refill_ahead_fini(struct rung__refill *refill);

/** A batch has begun: its step of the sweep may be read, too. */
void rung__refill_ahead_advance(struct rung__refill *refill);

/** Prepare the next read ahead, as rung__next_read() does for a part. @return false: the token was
 * not used, because no row is owed any more */
bool rung__refill_ahead_next(struct rung__refill *refill, uint32_t token);

/** Whether another row can be in flight. */
static inline bool rung__refill_ahead_has_room(const struct rung__refill *refill)
{
	return refill->ahead_free != RUNG__AHEAD_NONE || refill->ahead_used < refill->ahead_rows;
}

/** A row that was read ahead has been read or has failed, and no chain leads to its reference: the
 * position in the list is free. A free one has the number of the next free one as its frame. */
static inline void rung__refill_ahead_end(struct rung__refill *refill, uint64_t ref)
{
	*rung__miss_ref_frame(refill, ref) = refill->ahead_free;
	refill->ahead_free = (uint32_t)ref;
}

/* ---- refill_read.c ---- */

extern const char rung__closed_text[]; /* the error message of canceled requests */

/** Send a read. A reader that refuses it is broken: the waiting requests fail, and it gets no more
 * reads. */
void rung__read_send(struct rung__refill *refill, uint32_t token);

/** A completed read is copied soon: prefetch its first bytes, which the device wrote past this
 * core's caches. */
void rung__read_prefetch(const struct rung__refill *refill, uint32_t token);

/** True when a read has all its bytes and nothing follows it in its slot: rung__read_end() will
 * only copy. */
bool rung__read_is_whole(const struct rung__refill *refill, const struct rung__fetched *fetched);

/** A read completed with bytes or -errno: place its rows, read the rest, retry, split, or fail. */
void rung__read_end(struct rung__refill *refill, const struct rung__fetched *fetched);

/**
 * Fail the requests that wait for a read past its timeout, and mark slow reads. `forgiven_ns` since
 * the last check do not count.
 * @return true if every read in flight is past its timeout
 */
bool rung__reads_check_late(struct rung__refill *refill, uint64_t forgiven_ns);

/** The reader cannot continue: fail the requests of all reads in flight. Their tokens are not used
 * again, because the kernel may still write to their slots. */
void rung__reads_abandon(struct rung__refill *refill);

/** Where the file is, for messages about reads, after its path: "" on a drive of this machine. */
const char *rung__refill_where(const struct rung__refill *refill,
                               char text[RUNG__MOUNT_TEXT_BYTES]);

/** What to do about failed or late reads, at the end of their messages: "" on a drive of this
 * machine. */
const char *rung__refill_cure(const struct rung__refill *refill);

/** Fail a request because the reader accepts no more reads (refill->broken). */
void rung__read_fail_gone(const struct rung__refill *refill, struct rung_request *request);

/* ---- refill_rows.c ---- */

/** Place the rows of misses first .. end of a part, which are at `from` in the pool: they are
 * copied to every output row that requested them, or for a device listed as (position, output
 * row). */
void rung__rows_place(const struct rung__refill *refill, struct rung__part *part, uint64_t first,
                      uint64_t end, uint64_t from);

/** Place the rows of a completed read, and cache those that the cache keeps. `slot_at`: position of
 * its slot in the pool, where byte read->base of the file is. */
void rung__rows_arrived(struct rung__refill *refill, struct rung__read *read, uint64_t slot_at);

/** Fail all references of a chain, which is empty afterwards; frames that they would have filled
 * become empty. */
void rung__rows_failed(struct rung__refill *refill, struct rung__chain *refs, int status,
                       const char *text);

/** Record that some misses of a part were copied or have failed: the part may be complete. */
static inline void rung__part_touch(struct rung__refill *refill, struct rung__part *part,
                                    uint64_t misses)
{
	part->pending -= misses;
	if (!rung__is_linked(&part->touched_link))
		rung__queue_push_first(&refill->touched, &part->touched_link);
}

/** Complete the touched parts that are finished. Called at the end of each step, not within it,
 * because a completed request can be reused at once, and by then no chain may lead to it. */
void rung__parts_complete(struct rung__refill *refill);

/** Device: keep a slot in use, in the chain of its part, until the device has copied its rows. */
void rung__slot_hold(struct rung__refill *refill, struct rung__part *part, uint32_t token);

/** Hand the rows of a part that are in the pool over to the device; `last`: no more will come.
 * Device only. */
void rung__slot_batch_send(struct rung__refill *refill, struct rung__part *part, bool last);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Internals of the loader. Private to loader*.c.
 *
 * Batches of a pass go through three counters, in order: `claimed` by a worker, `submitted` to the
 * store, `handed` over. A batch between them is in slot idx mod slot_count:
 *
 *     handed <= submitted <= claimed <= end,   slot_count = ahead + gathers
 *     submitted - handed <= gathers,           claimed - submitted <= ahead
 *
 * An EMPTY slot belongs to the worker that has claimed its number, a SAMPLED one to the feeder, a
 * READY one to rung_loader_next(). A batch leaves its slot when it is handed over, so batches that
 * the caller keeps do not block the pass.
 *
 * One lock guards everything that the state of a slot does not assign to one thread; it is not held
 * while a batch is sampled, announced or gathered, while memory is allocated or while a thread
 * waits.
 */
#ifndef RUNG_LOADER_STATE_H
#define RUNG_LOADER_STATE_H

#include <pthread.h>
#include <stddef.h>

#include "base/queue.h"
#include "rung/loader.h"
#include "store/store.h"

/* batches of a caller that puts one only after it has received the next: this many more are kept
 * for reuse */
#define RUNG__FEED_HELD 2u

/* Memory that is used again. */
struct rung__feed_item {
	struct rung__link link;  /* in its list */
	struct CUevent_st *used; /* with a device: recorded after the caller's work */
	bool pending;            /* recorded, and not known to have passed */
	bool lost;               /* could not be recorded: never used again */
};

struct rung__feed_list {
	struct rung__queue items;
	uint64_t count;
};

/* Memory of the store for gathered rows. It does not grow: a larger batch gets other memory. */
struct rung__feed_rows {
	struct rung__feed_item item; /* first */
	uint64_t row_count;          /* capacity */
	void *memory;
};

struct rung__feed_batch {
	struct rung__feed_item item;     /* first */
	struct rung_loader_batch handed; /* the caller's view of it */
	struct rung__link held_link;
	struct rung_batch *sample;
	struct rung__gpu_batch *gpu_sample; /* with opts.gpu_sampler, in place of it */
	const uint64_t *host_ranks;         /* handed.ranks on the host; NULL: not there */
	/* with opts.gpu_sampler: [batch_size], then memory for host_ranks */
	uint64_t *pinned_seeds;
	uint64_t pinned_bytes;
	const struct rung_block *blocks[RUNG_HOPS_MAX];
	uint64_t edge_count;
	uint64_t *seeds; /* of a batch without edges */
	uint64_t seeds_capacity;
	struct rung__feed_rows *rows; /* NULL until its gather is submitted */
	/* [name_count] while it is announced and not submitted: see rung__prefetch() */
	uint64_t *names;
	uint64_t names_capacity;
	uint32_t name_count;
};

enum rung__feed_state { RUNG__FEED_EMPTY, RUNG__FEED_SAMPLED, RUNG__FEED_READY };

struct rung__feed_slot {
	enum rung__feed_state state;
	struct rung__feed_batch *batch; /* NULL: no memory for one */
	struct rung__failure failure;   /* why sampling or gathering failed */
};

struct rung__feed_worker {
	pthread_t thread;
	struct rung_loader *loader;
	struct rung_sampler *sampler; /* NULL without edges, and on a GPU */
	struct CUstream_st *stream;   /* with opts.gpu_sampler: of its batches */
};

struct rung__feed_counters {
	uint64_t batches, rows, edges;
	uint64_t begin_ns, end_ns; /* end 0: still running */
	uint64_t wait_sample_ns, wait_rows_ns, sample_ns, gather_ns, announce_ns;
	uint64_t announced, announce_refused;
};

struct rung_loader {
	struct rung_store *store;
	struct rung_loader_opts opts; /* defaults filled in; fanouts are not kept */
	uint64_t row_bytes;
	bool announces; /* some rows are cold and may be kept */
	uint32_t hop_count;
	struct CUstream_st *stream; /* with a device: of its gathers, in order with no other */

	pthread_mutex_t lock;
	pthread_cond_t room;  /* workers: a number can be claimed, or stop */
	pthread_cond_t work;  /* feeder: a batch was sampled or handed over, or stop */
	pthread_cond_t moved; /* next and end: a slot has changed, a thread is idle */
	bool stop;

	/* the pass */
	bool active;
	uint64_t *seeds; /* [seed_count] in its order */
	uint64_t seed_count, key_first;
	uint64_t end; /* numbers of batches end here */
	uint64_t claimed, submitted, handed;
	/* batches below it were announced, or are past it; not below submitted */
	uint64_t announced;
	bool refused;      /* the store's window was full when batch `announced` was announced */
	uint32_t sampling; /* workers at it */
	bool feeding;      /* the feeder is */
	struct rung__feed_slot *slots; /* [slot_count] */
	uint64_t slot_count;
	struct rung__feed_counters counters;

	/* memory for reuse, and batches that were not put yet */
	struct rung__queue held;
	struct rung__feed_list free_batches, free_rows;
	struct rung__feed_list dropped_batches, dropped_rows; /* with a device: to be freed */
	uint64_t rows_made;                                   /* and not dropped */
	uint64_t rank_count_max;                              /* of the batches so far */

	struct rung__feed_worker *workers; /* [opts.threads] */
	uint32_t worker_count;             /* that run */
	pthread_t feeder;
	bool feeder_runs;
};

static inline struct rung__feed_slot *rung__feed_slot(const struct rung_loader *loader,
                                                      uint64_t idx)
{
	return &loader->slots[idx % loader->slot_count];
}

/* ---- loader_pass.c ---- */

/** Wait until the rows of a batch are no longer written to. NULL is allowed. */
void rung__feed_drain(struct rung__feed_batch *batch);

/* ---- loader_threads.c ---- */

/** Workers, and the feeder; all that were started run until `stop`. */
int rung__feed_start(struct rung_loader *loader);
void rung__feed_stop(struct rung_loader *loader);

/* ---- loader_memory.c: lock not held ---- */

/** Allocate an empty batch. @return 0, RUNG_E_NOMEM or an error of the device */
int rung__feed_acquire_batch(struct rung_loader *loader, struct rung__feed_batch **batch_out);

/** A new one. */
int rung__feed_make_batch(struct rung_loader *loader, struct rung__feed_batch **batch_out);

/** Return an unused batch to the free ones, and its rows to theirs; if there are enough, drop it.
 * NULL is allowed. */
void rung__feed_release_batch(struct rung_loader *loader, struct rung__feed_batch *batch);

/** With a device: the next user of the memory of this batch, which has rows, waits for the work
 * that is on `stream` now. */
void rung__feed_lent_until(struct rung_loader *loader, struct rung__feed_batch *batch,
                           struct CUstream_st *stream);

/** Make `stream` wait for the caller's work on an item. @return 0 or an error of the device */
int rung__feed_order(const struct rung_loader *loader, struct rung__feed_item *item,
                     struct CUstream_st *stream);

/**
 * Give a batch rows for all its ids; with a device, the loader's stream waits for the previous user
 * of the memory. @return 0, RUNG_E_NOMEM or an error of the device
 */
int rung__feed_acquire_rows(struct rung_loader *loader, struct rung__feed_batch *batch);

/** Free dropped memory. Not during a pass: the device waits for all its work. */
void rung__feed_free_dropped(struct rung_loader *loader);

void rung__feed_free_batch(struct rung_loader *loader, struct rung__feed_batch *batch);
void rung__feed_free_all(struct rung_loader *loader);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The inside of the loader. Private to loader*.c.
 *
 * Batches of a pass pass three marks, in order: `claimed` by a worker, `submitted` to the store, `handed` over. A batch between them lies in
 * slot idx mod slot_count:
 *
 *     handed ≤ submitted ≤ claimed ≤ end,   submitted - handed ≤ gathers,   claimed - submitted ≤ ahead,   slot_count = ahead + gathers
 *
 * A slot that is EMPTY belongs to the worker that has claimed its number, one that is SAMPLED to the feeder, one that is READY to
 * rung_loader_next(). What a slot holds leaves it when it is handed over, so batches that the caller keeps hold nothing up.
 *
 * One lock guards everything but what is a thread's by the state of a slot; it is not held while a batch is sampled, announced or gathered,
 * while memory is taken or while anybody waits.
 */
#ifndef RUNG_LOADER_INTERNAL_H
#define RUNG_LOADER_INTERNAL_H

#include <pthread.h>

#include "rung/loader.h"
#include "store_internal.h"

#define RUNG__FEED_HELD 2u   /* batches of a caller that puts one only after it has got the next: so many more are kept for use again */

/* Memory of the store that rows are gathered to. */
struct rung__feed_rows {
	struct rung__feed_rows *next;   /* of those that are free */
	void *memory;
	uint64_t bytes;
	uint64_t *ids;                  /* with a device: what is gathered, in memory that it reaches */
	uint64_t ids_bytes;
};

struct rung__feed_batch {
	struct rung_loader_batch handed;       /* first: what the caller knows of it */
	struct rung__feed_batch *prev, *next;  /* of those that the caller holds; next also of those that are free */
	struct rung_batch *sample;
	const struct rung_block *blocks[RUNG_HOPS_MAX];
	uint64_t edge_count;
	uint64_t *seeds;                       /* of a batch without edges */
	uint64_t seeds_capacity;
	struct rung__feed_rows *rows;          /* NULL until its gather is submitted */
	uint64_t *names;                       /* [name_count] while it is announced and not submitted: see rung__prefetch() */
	uint64_t names_capacity;
	uint32_t name_count;
};

enum rung__feed_state { RUNG__FEED_EMPTY, RUNG__FEED_SAMPLED, RUNG__FEED_READY };

struct rung__feed_slot {
	enum rung__feed_state state;
	struct rung__feed_batch *batch;   /* NULL: no memory for one */
	int rc;                           /* why there is no such batch */
	char text[RUNG__ERROR_BYTES];
};

struct rung__feed_worker {
	pthread_t thread;
	struct rung_loader *loader;
	struct rung_sampler *sampler;   /* NULL without edges */
};

struct rung__feed_counters {
	uint64_t batches, rows, edges;
	uint64_t begin_ns, end_ns;   /* end 0: on its way */
	uint64_t wait_sample_ns, wait_rows_ns, sample_ns, gather_ns, announce_ns;
	uint64_t announced, announce_refused;
};

struct rung_loader {
	struct rung_store *store;
	struct rung_loader_opts opts;   /* defaults filled in; fanouts are not kept */
	uint64_t row_bytes;
	bool announces;                 /* some rows are cold and may be kept */

	pthread_mutex_t lock;
	pthread_cond_t room;            /* workers: a number can be claimed, or stop */
	pthread_cond_t work;            /* feeder: a batch was sampled or handed over, or stop */
	pthread_cond_t moved;           /* next and end: a slot has changed, a thread is idle */
	bool stop;

	/* the pass */
	bool active;
	uint64_t *seeds;                /* [seed_count] in its order */
	uint64_t seed_count, key_first;
	uint64_t end;                   /* numbers of batches end here */
	uint64_t claimed, submitted, handed;
	uint64_t announced;             /* those below were, or are not any more; not below submitted */
	bool refused;                   /* the store's window was full when batch `announced` was announced */
	uint32_t sampling;              /* workers at it */
	bool feeding;                   /* the feeder is */
	struct rung__feed_slot *slots;  /* [slot_count] */
	uint64_t slot_count;
	struct rung__feed_counters counters;

	/* memory to be used again, and what is not put yet */
	struct rung__feed_batch *free_batches, *held;
	struct rung__feed_rows *free_rows;
	uint64_t free_batch_count, free_row_count;

	struct rung__feed_worker *workers;   /* [opts.threads] */
	uint32_t worker_count;               /* that run */
	pthread_t feeder;
	bool feeder_runs;
};

static inline struct rung__feed_slot *rung__feed_slot(const struct rung_loader *loader, uint64_t idx)
{
	return &loader->slots[idx % loader->slot_count];
}

/* ---- loader_threads.c ---- */

/** Workers, and the feeder; all that were started run until `stop`. */
int rung__feed_start(struct rung_loader *loader);
void rung__feed_stop(struct rung_loader *loader);

/* ---- loader_memory.c: lock not held ---- */

/** An empty batch. NULL: no memory, and the failure is recorded. */
struct rung__feed_batch *rung__feed_take_batch(struct rung_loader *loader);

/** Give a batch that nobody works on to those that are free, its rows to theirs; when there are enough, free it. NULL is allowed. */
void rung__feed_give_batch(struct rung_loader *loader, struct rung__feed_batch *batch);

/** Give a batch its rows, with room for all its ids; with a device, the ids are there. @return 0, RUNG_E_NOMEM and what the device says */
int rung__feed_take_rows(struct rung_loader *loader, struct rung__feed_batch *batch);

void rung__feed_free_batch(struct rung_loader *loader, struct rung__feed_batch *batch);
void rung__feed_free_all(struct rung_loader *loader);

#endif

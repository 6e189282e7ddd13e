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
 * One lock guards everything except the slots, each of which belongs to one thread as listed above;
 * it is not held while a batch is sampled, announced or gathered, while memory is allocated or
 * while a thread waits.
 */
#ifndef RUNG_LOADER_STATE_H
#define RUNG_LOADER_STATE_H

#include <pthread.h>
#include <stddef.h>

#include "base/queue.h"
#include "rung/loader.h"
#include "store/store.h"

/* A caller that puts a batch only after it has received the next holds two. The memory of this many
 * more batches is kept for reuse. */
#define RUNG__FEED_HELD 2u
/* Alignment of the rows of each table, in bytes. */
#define RUNG__FEED_ALIGN 256u

/* An item of memory that is reused: the first member of the structs below. The thread that has it
 * owns it; while it is in a list, the loader's lock guards it. */
struct rung__feed_item {
	struct rung__link link;  /* in a list of free or dropped items */
	struct CUevent_st *used; /* with a device: recorded after the caller's work */
	bool pending;            /* the event was recorded, and may not have passed yet */
	/* the event could not be recorded: the item is never reused, since nothing shows when the
	 * work ends */
	bool lost;
};

/* Items for reuse, and their number. */
struct rung__feed_list {
	struct rung__queue items;
	uint64_t count;
};

/* Memory of the store for gathered rows, of all tables one after the other. It does not grow: a
 * larger batch gets other memory. It is separate from the batch because few batches have rows: only
 * those from the gather to the put. */
struct rung__feed_rows {
	struct rung__feed_item item; /* first */
	uint64_t unit_count;         /* capacity, units of loader->unit_bytes */
	void *memory;
};

/* A table that batches are gathered from. An untyped graph has one; a typed graph has those of the
 * types with rows, and then those of the relations with edge rows. */
struct rung__feed_table {
	struct rung_store *store; /* borrowed */
	uint64_t row_bytes;       /* bytes of a gathered row; rows are contiguous */
	/* batches are announced: some rows are cold, and the cache may keep them */
	bool announces;
	const char *what; /* "type" or "relation", for messages; NULL: untyped */
	uint32_t number;  /* of the type or relation */
};

/* The rows of one table in a batch. */
struct rung__feed_part {
	const uint64_t *ids;      /* [count] ranks, or positions of edges; of the sample */
	const uint64_t *host_ids; /* the same in host memory; NULL: only on the GPU */
	uint64_t count;
	/* edge rows: memory for `ids`, because the sample has a list for each hop */
	uint64_t *positions;
	uint64_t positions_capacity;
	struct rung_request *request; /* of the gather; NULL: complete, or not submitted */
	/* [name_count] names of its announcements, until its gather: see rung__prefetch() */
	uint64_t *names;
	uint64_t names_capacity;
	uint32_t name_count; /* 0: not announced, or its gather was submitted */
	bool announced;
};

/* A batch: the memory of its sample, and the view that the caller gets. */
struct rung__feed_batch {
	struct rung__feed_item item;        /* first */
	struct rung_loader_batch handed;    /* the caller's view of it */
	struct rung__link held_link;        /* in loader->held from next to put */
	struct rung_batch *sample;          /* of the CPU's sampler; NULL without edges */
	struct rung__gpu_batch *gpu_sample; /* with opts.gpu_sampler, instead of `sample` */
	struct rung__feed_part *parts;      /* [table_count] */
	uint64_t unit_count;                /* memory of all rows, in units of loader->unit_bytes */
	uint64_t row_count;                 /* of all tables */
	/* typed: [type_count + relation_count] rows of each, NULL without a table, and
	 * [table_count] requests, for handed */
	void **row_pointers;
	struct rung_request **requests;
	/* with opts.gpu_sampler: [batch_size], then memory for the ranks */
	uint64_t *pinned_seeds;
	uint64_t pinned_bytes;                          /* whole pages */
	const struct rung_block *blocks[RUNG_HOPS_MAX]; /* [hop_count], of the sample */
	uint64_t edge_count;                            /* of all blocks, for the counters */
	uint64_t *seeds;                                /* copied seeds of a batch without edges */
	uint64_t seeds_capacity;                        /* ids */
	struct rung__feed_rows *rows;                   /* NULL until its gather is submitted */
};

/* READY: submitted, or failed; the rows may still be incomplete. */
enum rung__feed_state { RUNG__FEED_EMPTY, RUNG__FEED_SAMPLED, RUNG__FEED_READY };

struct rung__feed_slot {
	enum rung__feed_state state;
	struct rung__feed_batch *batch; /* NULL: there was no memory for a batch */
	struct rung__failure failure;   /* why sampling or gathering failed */
};

/* A sampling thread. */
struct rung__feed_worker {
	pthread_t thread;
	struct rung_loader *loader;
	struct rung_sampler *sampler; /* NULL without edges, and on a GPU */
	struct CUstream_st *stream;   /* with opts.gpu_sampler: of its batches */
};

/* Counters of a pass; see rung_loader_stats. Times are added when a step ends, with the lock. */
struct rung__feed_counters {
	uint64_t batches, rows, edges; /* handed over */
	uint64_t begin_ns, end_ns;     /* end_ns 0: still running */
	/* waits of the caller in rung_loader_next(), work of all workers, work of the feeder */
	uint64_t wait_sample_ns, wait_rows_ns, sample_ns, gather_ns, announce_ns;
	uint64_t announced, announce_refused; /* calls of rung__prefetch() */
};

struct rung_loader {
	/* set by rung_loader_create(), then read without the lock */
	/* of the first table: memory, device and statistics page are those of this store. Borrowed
	 */
	struct rung_store *store;
	struct rung_loader_opts opts;    /* defaults filled in; what it points to is not kept */
	struct rung__feed_table *tables; /* [table_count] */
	uint32_t table_count;
	bool typed;
	uint64_t unit_bytes; /* a row, or typed: RUNG__FEED_ALIGN */
	bool announces;      /* any table does */
	uint32_t hop_count;  /* of the sampler in use; 0: batches without edges */
	/* with a device: the stream of the loader's gathers, not ordered with any other stream */
	struct CUstream_st *stream;

	pthread_mutex_t lock;
	pthread_cond_t room; /* workers wait for a number to claim, or for stop */
	pthread_cond_t work; /* the feeder waits for a sampled or handed-over batch, or for stop */
	/* rung_loader_next() and _end() wait for a changed slot or an idle thread */
	pthread_cond_t moved;
	bool stop;

	/* the pass */
	bool active;
	uint64_t *seeds;                     /* [seed_count] in the order of the pass */
	uint64_t seed_count, key_first;      /* as in struct rung_loader_pass */
	uint64_t end;                        /* number of the last batch + 1 */
	uint64_t claimed, submitted, handed; /* see the comment at the top */
	/* batches below this number have been announced or can no longer be announced; never below
	 * `submitted` */
	uint64_t announced;
	bool refused;      /* the store's window was full when batch `announced` was announced */
	uint32_t sampling; /* workers that are sampling a batch */
	bool feeding;      /* the feeder is announcing or gathering a batch */
	struct rung__feed_slot *slots; /* [slot_count] */
	uint64_t slot_count;           /* look_ahead + gathers */
	struct rung__feed_counters counters;

	/* memory for reuse, and batches that were not put yet */
	struct rung__queue held; /* handed over and not put */
	struct rung__feed_list free_batches, free_rows;
	/* with a device: to be freed at the end of the pass */
	struct rung__feed_list dropped_batches, dropped_rows;
	/* number of struct rung__feed_rows that were allocated and not dropped */
	uint64_t rows_allocated;
	/* largest unit_count so far, in any pass; determines the size of new rows */
	uint64_t unit_count_max;

	struct rung__feed_worker *workers; /* [opts.threads] */
	uint32_t worker_count;             /* workers that run */
	pthread_t feeder;
	bool feeder_runs; /* `feeder` was started and must be joined */
};

static inline struct rung__feed_slot *rung__feed_slot(const struct rung_loader *loader,
                                                      uint64_t idx)
{
	return &loader->slots[idx % loader->slot_count];
}

/* ---- loader_tables.c ---- */

/** Choose the tables of a typed graph, after the options were copied. @return 0 or RUNG_E_INVAL */
int rung__feed_check_tables(const struct rung_loader_opts *opts);
/** Set loader->tables. @return 0 or RUNG_E_NOMEM */
int rung__feed_open_tables(struct rung_loader *loader);

/** Ensure space for `count` ids; the content is lost when it grows. @return 0 or RUNG_E_NOMEM */
int rung__feed_reserve(uint64_t **items, uint64_t *capacity, uint64_t count);
/** Set the parts of a batch that was sampled, and the caller's view of a typed one. */
int rung__feed_list_parts(const struct rung_loader *loader, struct rung__feed_batch *batch);
/** Announce the rows of a batch to the caches, from the first part on that was not announced.
 * @return 0, RUNG_E_AGAIN (the window of a store is full), or another failure */
int rung__feed_announce(const struct rung_loader *loader, struct rung__feed_batch *batch);
/** Withdraw the announcements of parts whose gather was not submitted. */
void rung__feed_withdraw(const struct rung_loader *loader, struct rung__feed_batch *batch);
/** Start the gathers of a batch into its rows, and set the caller's view of them. */
int rung__feed_gather(struct rung_loader *loader, struct rung__feed_batch *batch);
/** On the CPU: wait for all rows of a batch. @return the failure of the first part that has one */
int rung__feed_wait(const struct rung_loader *loader, struct rung__feed_batch *batch);
/** Let a stream wait for all rows of a batch; if it cannot, the calling thread waits. */
void rung__feed_wait_stream(const struct rung_loader *loader, struct rung__feed_batch *batch,
                            struct CUstream_st *stream);
/** Wait until nothing writes to the rows of a batch, and release its requests. NULL is allowed. */
void rung__feed_drain(const struct rung_loader *loader, struct rung__feed_batch *batch);

/* ---- loader_threads.c ---- */

/** Start the feeder and the workers. After an error some may run: rung__feed_stop() ends them. */
int rung__feed_start(struct rung_loader *loader);
/** Stop and join the threads that were started. No pass is running. */
void rung__feed_stop(struct rung_loader *loader);

/* ---- loader_memory.c: lock not held ---- */

/** Reuse a free batch or allocate one. @return 0, RUNG_E_NOMEM or an error of the device */
int rung__feed_acquire_batch(struct rung_loader *loader, struct rung__feed_batch **batch_out);

/** Allocate an empty batch. @return as rung__feed_acquire_batch() */
int rung__feed_make_batch(struct rung_loader *loader, struct rung__feed_batch **batch_out);

/** Return an unused batch and its rows to the lists of free memory; drop either of them if its list
 * has enough. NULL is allowed. */
void rung__feed_release_batch(struct rung_loader *loader, struct rung__feed_batch *batch);

/** With a device: the next user of the batch's memory will wait for the work that is on stream now.
 * The batch must have rows. */
void rung__feed_lent_until(struct rung_loader *loader, struct rung__feed_batch *batch,
                           struct CUstream_st *stream);

/** Make `stream` wait for the caller's work on an item. @return 0 or an error of the device */
int rung__feed_order(const struct rung_loader *loader, struct rung__feed_item *item,
                     struct CUstream_st *stream);

/**
 * Assign a batch memory for the rows of all its ids. With a device, the loader's stream waits for
 * the previous user of the memory. @return 0, RUNG_E_NOMEM or an error of the device
 */
int rung__feed_acquire_rows(struct rung_loader *loader, struct rung__feed_batch *batch);

/** Free dropped memory. Not during a pass: the device waits for all its work. */
void rung__feed_free_dropped(struct rung_loader *loader);

/** Free a batch that is in no list, with its rows. NULL is allowed. */
void rung__feed_free_batch(struct rung_loader *loader, struct rung__feed_batch *batch);
/** Free all unused and dropped memory. The threads have ended. */
void rung__feed_free_all(struct rung_loader *loader);

#endif

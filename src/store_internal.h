/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The store inside: requests, the refill thread, counters.
 *
 * Threads. Submitting threads copy what is in memory, sort their misses and hand the request over; the refill thread reads, copies
 * from the slots and completes requests. A request belongs to one side at a time: to its submitter until it is queued, to refill
 * until its state is DONE (release store, acquire load), then to its submitter again.
 *
 * Locks. store->lock guards the free list, the queue and the stop flag; request->lock the wait for one request. Neither is ever
 * taken while the other is held.
 */
#ifndef RUNG_STORE_INTERNAL_H
#define RUNG_STORE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "gather.h"
#include "segment.h"
#include "tier_list.h"

enum rung__request_state { RUNG__REQUEST_FREE, RUNG__REQUEST_BUSY, RUNG__REQUEST_DONE };

struct rung_request {
	struct rung_store *store;
	struct rung_request *next;        /* in the free list or the queue */
	_Atomic int state;
	int status;
	uint64_t submit_ns;

	struct rung__misses misses;       /* ranks, sorted once queued, and the output row of each */
	unsigned char *out;
	size_t out_stride;

	/* refill's */
	uint64_t cursor;                  /* misses before it have been read or are being read */
	uint32_t reads_pending;

	pthread_mutex_t lock;
	pthread_cond_t done;
	char error[RUNG__ERROR_BYTES];
};

struct rung__counters {
	_Atomic uint64_t tier_hits[RUNG__TIER_COUNT];
	_Atomic uint64_t requests, request_errors;
	_Atomic uint64_t device_reads, device_read_bytes, merged_rows, duplicate_rows, retries;
	_Atomic uint64_t latency[RUNG_LATENCY_BUCKETS];
};

/** What a store holds and where, in plain numbers. */
struct rung__shape {
	uint64_t vertex_count;
	struct rung_array_info array;     /* the features' type */
	struct rung__layout layout;
	struct {
		uint64_t rank_first;
		uint64_t row_count;
	} tiers[RUNG__TIER_COUNT];
	uint64_t slot_count;
	uint64_t slot_bytes;
	uint64_t map_bytes;               /* of an entry of rank_of_vertex; 0: not in memory */
};

struct rung__refill;
struct rung__share;

struct rung_store {
	struct rung_store_opts opts;
	struct rung__shape shape;
	struct rung__features features;   /* open while tiers are opened, and as long as the store is shared */
	char *dataset_dir;
	bool attached;
	struct rung__share *share;        /* NULL unless opts.share_path */
	struct rung__segment host_memory; /* of the host tier and of rank_of_vertex when other processes have them too */
	struct rung__segment map_memory;
	struct rung__view host_view;
	struct rung__tier *host;
	void *rank_of_vertex;             /* NULL unless opts.vertex_ids */

	struct rung__refill *refill;      /* NULL when nothing is cold */

	pthread_mutex_t lock;
	pthread_cond_t queued;            /* refill waits: work or stop */
	pthread_cond_t freed;             /* rung_gather waits: one of its own requests is free again */
	struct rung_request *requests;    /* [request_count], the last SYNC_REQUESTS of them for rung_gather */
	uint32_t request_count;
	struct rung_request *free_list;
	struct rung_request *sync_free_list;
	struct rung_request *queue_head, *queue_tail;
	bool stop;

	struct rung__counters counters;
};

/** The same as rung_store_open(), with another table for the fetchable tier: tests put one there that injects faults. */
int rung__store_open_over(const struct rung_dataset *ds, const struct rung_plan *plan, const struct rung_store_opts *opts,
                          const struct rung__tier_ops *fetchable, struct rung_store **store_out);

/** A store with its requests, and nothing in it yet. */
int rung__store_new(const struct rung_store_opts *user_opts, struct rung_store **store_out);

/** Open the tiers of a store whose shape and features are set; rows are loaded unless host_memory has them. */
int rung__store_open_tiers(struct rung_store *store, const struct rung__tier_ops *fetchable);

/** Complete a request; `status` and request->error are final. Refill, or the submitter of a request without misses. */
void rung__request_finish(struct rung_request *request, int status);

static inline void rung__count(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* ---- refill.c ---- */

/**
 * Open the fetchable tier, allocate its slots and start the thread; returns when the engine has been probed.
 */
int rung__refill_start(struct rung_store *store, const struct rung__tier_ops *ops, const struct rung__tier_args *args);

/** Stop the thread after its reads in flight. @return 0 or RUNG_E_TIMEDOUT, in which case memory in use is left alone */
int rung__refill_stop(struct rung__refill *refill);

/** For statistics. */
void rung__refill_engine(const struct rung__refill *refill, struct rung__engine_state *state_out, uint32_t *depth_out, uint32_t *align_out);

#endif

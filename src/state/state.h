/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The state of an open store that its threads share: requests, the mailboxes of the threads,
 * counters. The threads depend on this room, not on each other.
 *
 * Threads. Submitting threads copy rows that are in memory, sort their misses and pass the request
 * on; the refill thread reads, copies from the slots and completes requests. A request belongs to
 * one side at a time: to its submitter until it is queued, to refill until its state is DONE
 * (release store, acquire load), then to its submitter again.
 *
 * With a device there is a third side, the device thread (device_thread.c): it owns a request
 * from its submission on, passes its misses to the sorter (misses.c) and thereby to refill,
 * receives *slot batches* of rows in slots, has the device copy them, returns the slots, and
 * completes the request. Sorter and refill own the members under "refill's" until the last
 * slot batch has been handed over.
 *
 * Locks. store->lock guards the free lists, the queues between the threads and the stop flag;
 * request->lock guards the wait for one request. Neither is acquired while the other is held, nor
 * held while a device is called.
 */
#ifndef RUNG_STATE_STATE_H
#define RUNG_STATE_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/queue.h"
#include "cache/cache.h"
#include "device/device.h"
#include "gather/gather.h"
#include "placement/placement.h"
#include "state/segment.h"
#include "tier/tier.h"

enum rung__request_state {
	RUNG__REQUEST_FREE,
	RUNG__REQUEST_BUSY,
	RUNG__REQUEST_LAUNCHED, /* device: its last work is on a stream */
	RUNG__REQUEST_DONE
};

#define RUNG__SLOT_NONE     UINT32_MAX
#define RUNG__MISS_REF_NONE UINT64_MAX

struct rung__part;

/* Device: rows of one request in slots, in flight from refill to the device thread. */
struct rung__slot_batch {
	struct rung__link link;
	struct rung__part *part;
	uint64_t first, count; /* entries of the request's lists */
	uint32_t slot_head;    /* the slots, linked by refill; RUNG__SLOT_NONE: none */
	bool last;             /* of the part */
};

/* The misses of a request in one file: the share of one refill thread, which owns it from the queue
 * until it is complete. */
struct rung__part {
	struct rung__link link; /* in refill's queue */
	struct rung_request *request;
	uint64_t first, end; /* misses first .. end */
	uint64_t cursor;     /* those before it have been begun */
	uint64_t pending;    /* rows that were begun and are neither in place nor failed */
	/* begun, being read by another client of the cache: a chain, see state.h */
	uint64_t remote;
	uint64_t remote_ns; /* since when */
	struct rung__link remote_link, touched_link;

	/* device */
	/* entries in the lists of rows that are in the pool: the tmp arrays of the misses */
	uint64_t placed;
	uint64_t slot_batch_first;      /* first row that has not been handed over */
	uint32_t held_head, held_count; /* slots that contain them */
	struct rung__link held_link;    /* in the list of parts that have some */
	struct rung__slot_batch last_slot_batch;
};

struct rung_request {
	struct rung_store *store;
	struct rung__link link; /* free, retired, or in the device thread's inbox */
	_Atomic int state;
	_Atomic int status;
	uint64_t submit_ns;

	struct rung__misses misses; /* ranks, sorted once queued, and the output row of each */
	unsigned char *out;
	size_t out_stride;

	/*
	 * Device, ids in plain host memory: their ranks, pinned. The misses are known from the
	 * submission on, and refill may have them before the gather has run.
	 */
	void *ranks;
	bool known;
	_Atomic bool may_copy;       /* the gather has run: rows that were read may go */
	struct rung__link sort_link; /* in the sorter's queue */

	/* refill's */
	struct rung__part parts[RUNG__FILES_MAX];
	_Atomic uint32_t parts_left; /* that are not over */
	uint64_t batch;              /* the cache's name for it */

	/* the device thread's */
	bool reading;      /* the gather has run, and misses are refill's */
	bool read_through; /* the last slot batches of its parts have come */
	uint32_t lasts_left;
	int device_status;
	struct rung__queue waiting; /* slot batches that are not being copied yet, oldest first */
	struct rung__slot_batch *scatters[RUNG__SCATTERS_MAX];
	uint32_t scatter_first, scatter_count;

	/* device */
	_Atomic uint64_t checked_ns; /* when the device was last asked whether it has failed */
	enum rung_dtype id_dtype;    /* for messages, and index_first of a list that is split */
	uint64_t index_first;
	bool retired; /* put before it was done: who completes it gives it back; under lock */

	pthread_mutex_t lock;
	pthread_cond_t done;
	char error[RUNG__ERROR_BYTES];
};

struct rung__counters {
	_Atomic uint64_t tier_hits[RUNG__TIER_COUNT];
	_Atomic uint64_t requests, request_errors;
	_Atomic uint64_t latency[RUNG_LATENCY_BUCKETS];
	_Atomic uint64_t host_waits, scatters;
};

struct rung_gpu_sampler;

/**
 * The pool: host memory that cold rows are read into.
 *
 *     [slots of the first refill thread | of the second | … | frames of the cache]
 *
 * One range of addresses, so that a read names its place by one number. Slots are this process's
 * own; frames, and the cache's index with them, are one segment that all processes of a shared
 * store map.
 */
struct rung__pool {
	unsigned char *base;
	uint64_t bytes;
	uint64_t frames_at; /* offset of the first frame; total size if there are no frames */
	uint64_t frame_bytes;
	/* [index, whole pages | frames]; base NULL if it is not shared */
	struct rung__segment shared;
	void *index;
	uint64_t index_bytes;
};

/** Properties of a store in plain numbers. */
struct rung__shape {
	uint64_t vertex_count;
	struct rung_array_info array; /* the features' type */
	struct rung__layout layout;
	struct {
		uint64_t rank_first;
		uint64_t row_count;
	} tiers[RUNG__TIER_COUNT];
	uint64_t slot_count; /* of each file */
	uint64_t slot_bytes;
	uint64_t frame_count; /* of the cache; 0: none */
	uint64_t frame_bytes;
	uint64_t map_bytes;  /* of an entry of rank_of_vertex; 0: not in memory */
	uint64_t map_on_gpu; /* nonzero: and it is in GPU memory */
	uint64_t gpu_count;  /* over which the tier "peer" is interleaved; 0: the CPU gathers */
	struct rung__placement_set placements;
};

/** Mailbox of a refill thread, and the means to wake it. */
struct rung__refill_box {
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t wake;
	struct rung__queue queue; /* of parts */
	/* [returned_max] the slots of the thread; device: heads of slots that have been copied
	 * from */
	uint32_t *returned;
	uint32_t returned_count, returned_max;
	bool closing; /* set by rung__refill_cancel() */
	bool over;    /* nothing more will be queued or returned */
};

/** The same for the device thread, under store->lock. */
struct rung__device_thread_box {
	struct rung__queue inbox; /* requests whose gathers were submitted */
	struct rung__queue slot_batches;
	pthread_cond_t work;
};

struct rung__device_thread;
struct rung__refill;
struct rung__share;
struct rung__sorter;

struct rung_store {
	struct rung_store_opts opts;
	struct rung__shape shape;
	/* open while tiers are opened, and as long as the store is shared */
	struct rung__features features;
	char *dataset_dir;
	bool attached;
	struct rung__share *share; /* NULL unless opts.share_path */
	/* of the host tier; and of the maps when other processes have them too */
	struct rung__segment host_memory;
	struct rung__segment map_memory;
	struct rung__segment vertices_memory;
	struct rung__view host_view;
	void *rank_of_vertex; /* NULL unless opts.vertex_ids */
	/* NULL unless rows are stored by vertex and cold rows are read: see struct rung__layout */
	void *vertex_of_rank;

	const struct rung__device_ops *device_ops; /* NULL: the CPU */
	struct rung__device *device;
	int gpus[RUNG_GPUS_MAX];           /* the first gathers */
	struct rung__graph_location graph; /* where the plan puts it; attached: all zero */
	int alive_fd;                      /* attached, with a tier "peer": see share.h; else -1 */
	void *known_ranks;                 /* of all requests; NULL without a device */
	uint64_t known_bytes;
	struct rung__pool pool;    /* slots and frames */
	struct rung__cache *cache; /* NULL without frames */
	/* why there are no frames although the creator's store has some; "" otherwise */
	char cache_why[RUNG__ERROR_BYTES];
	struct rung__refill *refills[RUNG__FILES_MAX]; /* one a file; none when nothing is cold */
	struct rung__refill_box *refill_boxes[RUNG__FILES_MAX]; /* theirs */
	uint32_t refill_count;
	uint32_t sector_bytes;             /* the least that divides where their reads begin */
	struct rung__announcer *announcer; /* NULL without a cache */
	/* NULL without a device, and when nothing is cold */
	struct rung__device_thread *device_thread;
	struct rung__device_thread_box device_thread_box;
	struct rung__sorter *sorter; /* with it: sorts misses */

	pthread_mutex_t lock;
	pthread_cond_t freed; /* rung_gather() waits here until one of its own requests is free */
	/* [request_count], the last SYNC_REQUESTS of them for rung_gather */
	struct rung_request *requests;
	uint32_t request_count;
	struct rung__queue free, sync_free;
	/* device without device thread: requests that were put and may still run, oldest first */
	struct rung__queue retired;
	bool stop;
	bool reads_lost; /* given up while the kernel may still write to the pool */

	struct rung_topology *topology; /* while tiers are opened, where memory has a place */
	bool binds;                     /* memory is bound to its place */
	char bind_why[RUNG__PLACEMENT_WHY_BYTES]; /* why not; "" while it is */
	struct rung_placement *placement_list;
	struct rung_store_placement *placements; /* [placement_count] */
	uint32_t placement_count;

	struct rung__counters counters;
};

/**
 * One block a request: [ranks | ranks_tmp | rows | rows_tmp], see rung__misses_lay_out(). A device
 * reads and writes it too, hence whole pages.
 */
static inline uint64_t rung__request_bytes(const struct rung_store *store)
{
	return (uint64_t)store->opts.batch_rows_max * (2 * sizeof(uint64_t) + 2 * sizeof(uint32_t));
}

/** And one of refill's own: [links | frames]. */
static inline uint64_t rung__request_own_bytes(const struct rung_store *store)
{
	return (uint64_t)store->opts.batch_rows_max * (sizeof(uint64_t) + sizeof(uint32_t));
}

/* ---- request_state.c ---- */

/** Complete a request; `status` and request->error are final. Refill, the device thread, or the
 * submitter of a request without misses. */
void rung__request_finish(struct rung_request *request, int status);

/** Back to the list of free requests. */
void rung__request_free(struct rung_request *request);

/** Record the failure of a request; only the first one is reported. */
void rung__request_fail(struct rung_request *request, int status, const char *text);

/** Which half octave a number is in: [2^(b/2), 2^((b+1)/2)). */
unsigned rung__latency_bucket(uint64_t value);

/** Its number, by which devices know it. */
static inline uint32_t rung__request_index(const struct rung_request *request)
{
	return (uint32_t)(request - request->store->requests);
}

static inline void rung__counter_add(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* ---- boxes.c ---- */

void rung__refill_box_init(struct rung__refill_box *box);
void rung__refill_box_fini(struct rung__refill_box *box);

/** Give misses of a request to the thread. */
void rung__refill_queue(struct rung__refill_box *box, struct rung__part *part);

/** Device: a request's may_copy is set. Any thread. */
void rung__refill_may_copy(struct rung__refill_box *box);

/** Device: a chain of slots that has been copied from. Any thread. */
void rung__refill_return(struct rung__refill_box *box, uint32_t slot_head);

/** The store is being closed: what waits is canceled. More may be queued and returned until
 * rung__refill_stop(). */
void rung__refill_cancel(struct rung__refill_box *box);

/** Device: rows in slots, for the device thread. */
void rung__device_thread_add(struct rung_store *store, struct rung__slot_batch *slot_batch);

/** Device: a gather that was started, for the device thread. */
void rung__device_thread_begin(struct rung_store *store, struct rung_request *request);

#endif

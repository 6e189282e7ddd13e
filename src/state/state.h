/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The state of an open store that its threads share: requests, the mailboxes of the threads,
 * counters. The threads depend on src/state, not on each other.
 *
 * Threads. A submitting thread copies rows that are in memory, sorts its misses and queues them;
 * the refill threads read, copy from the slots and complete requests. A request belongs to one side
 * at a time: to its submitter until it is queued, to refill until its state is DONE (release store,
 * acquire load), then to its submitter again.
 *
 * With a device there is a third side, the device thread (store/device_thread.c): it owns a request
 * from its submission on, passes its misses to the sorter (store/misses.c) and thereby to refill,
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
#include "watch/watch.h"

/* In this order: a thread waits until a state or a later one is reached. */
enum rung__request_state {
	RUNG__REQUEST_FREE,
	RUNG__REQUEST_BUSY,     /* started */
	RUNG__REQUEST_LAUNCHED, /* device: its last work is on a stream */
	RUNG__REQUEST_DONE      /* status and error are final; the caller's until it puts it */
};

/* refill threads of a store: as many as the statistics page has counters for */
#define RUNG__REFILLS_MAX   RUNG__FILES_MAX
#define RUNG__SLOT_NONE     UINT32_MAX
#define RUNG__MISS_REF_NONE UINT64_MAX

struct rung__part;

/* Device: rows of one request in slots, in flight from refill to the device thread. */
struct rung__slot_batch {
	struct rung__link link;
	struct rung__part *part;
	uint64_t first, count; /* range of entries in the request's lists */
	uint32_t slot_head;    /* the slots, linked by refill; RUNG__SLOT_NONE: no slots */
	bool last;             /* true for the last slot batch of the part */
};

/* The misses of a request that one refill thread reads: those in its file, or in its blocks of the
 * file. It owns them from the queue until they are complete. */
struct rung__part {
	struct rung__link link; /* in refill's queue */
	struct rung_request *request;
	uint64_t first, end; /* misses first .. end */
	uint64_t cursor;     /* misses before it have been begun */
	uint64_t pending;    /* misses that were begun and are neither copied nor failed */
	/* misses being read by another client of the cache: a chain of references, see
	 * refill/state.h */
	uint64_t remote;
	uint64_t remote_ns; /* when the first of these misses was added */
	/* rows that are read ahead of their batches: it has no range of misses, and never ends */
	bool is_ahead;
	struct rung__link remote_link, touched_link;

	/* device */
	/* end of the entries of this part in the lists of rows to be copied from the pool, which
	 * are the tmp arrays of the misses */
	uint64_t placed;
	uint64_t slot_batch_first;      /* first entry that has not been handed over */
	uint32_t held_head, held_count; /* the slots of these entries, linked by refill */
	struct rung__link held_link;    /* in the list of parts with such slots */
	/* separate, because it is sent even if the part has no slot left */
	struct rung__slot_batch last_slot_batch;
};

/* One gather. Requests are allocated when the store is opened, and reused. */
struct rung_request {
	struct rung_store *store;
	/* link in a list of free or retired requests, or in the device thread's inbox */
	struct rung__link link;
	_Atomic int state;  /* enum rung__request_state */
	_Atomic int status; /* 0 or the first failure, whose text is `error` */
	uint64_t submit_ns;
	uint64_t done_ns; /* of the completion; written before DONE */

	struct rung__misses misses; /* ranks, sorted once queued, and the output row of each */
	unsigned char *out;         /* the caller's */
	size_t out_stride;          /* bytes */

	/*
	 * Device, ids in plain host memory: their ranks, pinned. The misses are known from the
	 * submission on, and refill can receive them before the gather has run.
	 */
	void *ranks;
	bool known;            /* this gather has ids in plain host memory */
	_Atomic bool may_copy; /* the gather has run: rows that were read may be copied */
	/* link in the sorter's queue, separate because `link` can be in the inbox at the same
	 * time */
	struct rung__link sort_link;

	/* refill's */
	struct rung__part parts[RUNG__REFILLS_MAX]; /* by refill thread */
	_Atomic uint32_t parts_left;                /* parts that are not complete */
	/* the batch's name in the cache; 0: unknown to the cache */
	uint64_t batch;

	/* the device thread's */
	bool reading;               /* the gather has run, and misses are refill's */
	bool read_through;          /* the last slot batch of each part has arrived */
	uint32_t lasts_left;        /* number of parts whose last slot batch has not arrived */
	int device_status;          /* failure of a scatter; 0: none */
	struct rung__queue waiting; /* slot batches that are not being copied yet, oldest first */
	/* a ring of slot batches that are being copied, by the number of their scatter */
	struct rung__slot_batch *scatters[RUNG__SCATTERS_MAX];
	uint32_t scatter_first, scatter_count;

	/* device */
	_Atomic uint64_t checked_ns; /* when the device was last queried for a failure */
	enum rung_dtype id_dtype;    /* for messages */
	/* position of the first id in the caller's list, for messages */
	uint64_t index_first;
	/* guarded by `lock`: the request was put before it was done, so the thread that completes
	 * it also frees it */
	bool retired;

	pthread_mutex_t lock; /* guards the wait for a state, and `retired` */
	pthread_cond_t done;  /* signals that a later state was reached */
	char error[RUNG__ERROR_BYTES];
};

struct rung_gpu_sampler;

/**
 * The pool: host memory that cold rows are read into.
 *
 *     [slots of the first file | of the second | … | frames of the cache]
 *
 * The refill threads of a file have equal parts of its slots.
 *
 * One range of addresses, so that one number is the destination of a read. Slots are private to
 * this process; frames, and the cache's index with them, are one segment that all processes of a
 * shared store map.
 */
struct rung__pool {
	unsigned char *base;
	uint64_t bytes;
	/* offset of the first frame in the pool; without frames the size of the pool */
	uint64_t frames_at;
	uint64_t frame_bytes; /* bytes of one frame */
	/* [index, whole pages | frames]; base NULL if it is not shared */
	struct rung__segment shared;
	void *index; /* index of the cache: in `shared`, or in private pages */
	uint64_t index_bytes;
};

/** Properties of a store in plain numbers. An offer to other processes contains it as it is, so it
 * has no pointer that an attacher uses; a change of its layout needs a new RUNG__SHARE_VERSION. */
struct rung__shape {
	uint64_t vertex_count;
	struct rung_array_info array; /* the features, as they were given at staging */
	struct rung__quant quant;     /* how they are stored; format NONE: as they were given */
	struct rung__layout layout;
	struct {
		uint64_t rank_first;
		uint64_t row_count;
	} tiers[RUNG__TIER_COUNT];
	uint64_t slot_count; /* refill slots for each file */
	uint64_t slot_bytes;
	uint64_t frame_count; /* frames of the cache; 0: no cache */
	uint64_t frame_bytes;
	uint64_t map_bytes;  /* bytes of an entry of rank_of_vertex; 0: the map is not in memory */
	uint64_t map_on_gpu; /* nonzero: the map is also in GPU memory */
	/* number of GPUs over which the tier "peer" is interleaved; 0: the CPU gathers */
	uint64_t gpu_count;
	struct rung__placement_set placements;
};

/** Mailbox of a refill thread. Each has its own lock, so that threads do not wait for
 * each other. */
struct rung__refill_box {
	pthread_mutex_t lock; /* guards all other members */
	pthread_cond_t wake;
	struct rung__queue queue; /* queued parts, oldest first */
	/* [returned_max] device: heads of chains of slots that have been copied; as many as the
	 * thread has slots, because chains are disjoint */
	uint32_t *returned;
	uint32_t returned_count, returned_max;
	bool closing; /* waiting requests are canceled; set by rung__refill_cancel() */
	bool over;    /* nothing more will be queued or returned: the thread ends */
};

/** Mailbox of the device thread, under store->lock. */
struct rung__device_thread_box {
	struct rung__queue inbox; /* requests whose gathers were submitted */
	struct rung__queue slot_batches;
	pthread_cond_t work;
};

struct rung__device_thread;
struct rung__refill;
struct rung__share;
struct rung__sorter;
struct rung__structure;

/* While the store is open, only the lists, the counters and the requests change. */
struct rung_store {
	struct rung_store_opts opts; /* defaults filled in */
	struct rung__shape shape;
	/* open while tiers are opened, and as long as the store is shared */
	struct rung__features features;
	char *dataset_dir;
	bool attached;             /* another process created it */
	struct rung__share *share; /* NULL unless opts.share_path */
	bool is_shared;            /* rows and maps are in memory that other processes can map */
	struct rung__structure *structure; /* the graph; NULL: the plan has none */
	/* memory of the host tier, and of the maps if it is whole pages (shared, or pinned by a
	 * device) */
	struct rung__segment host_memory;
	struct rung__segment map_memory;
	struct rung__segment vertices_memory;
	struct rung__segment scales_memory; /* quantized rows: scales per column */
	struct rung__row_form form;         /* how stored rows become gathered rows */
	struct rung__view host_view;
	void *rank_of_vertex; /* NULL unless opts.vertex_ids */
	/* NULL unless rows are stored by vertex and cold rows are read: see struct rung__layout */
	void *vertex_of_rank;

	const struct rung__device_ops *device_ops; /* NULL: the CPU */
	struct rung__device *device;
	int gpus[RUNG_GPUS_MAX];           /* the first one gathers */
	struct rung__graph_location graph; /* where the plan puts the graph; attached: all zero */
	int alive_fd;                      /* attached, with a tier "peer": see share.h; else -1 */
	void *known_ranks;                 /* `ranks` of all requests; NULL without a device */
	uint64_t known_bytes;
	struct rung__pool pool;    /* slots and frames */
	struct rung__cache *cache; /* NULL without frames */
	/* why this store does not use the cache that its creator shares; "" otherwise */
	char cache_why[RUNG__ERROR_BYTES];
	/* the threads of the first file, then of the second; empty if no row is cold */
	struct rung__refill *refills[RUNG__REFILLS_MAX];
	/* mailboxes of the refill threads */
	struct rung__refill_box *refill_boxes[RUNG__REFILLS_MAX];
	uint32_t refill_count;
	uint32_t threads_per_file;         /* refill threads of each file, at least 1 */
	uint32_t sector_bytes;             /* smallest alignment of the refill threads' reads */
	struct rung__announcer *announcer; /* NULL without a cache */
	/* NULL unless there is a device and some rows are cold */
	struct rung__device_thread *device_thread;
	struct rung__device_thread_box device_thread_box;
	struct rung__sorter *sorter; /* exists if the device thread does */

	pthread_mutex_t lock;
	pthread_cond_t freed; /* rung_gather() waits here until a request in sync_free is free */
	/* [request_count]; the last SYNC_REQUESTS of them are for rung_gather(). They are followed
	 * by one for each refill thread, for the rows that it reads ahead */
	struct rung_request *requests;
	uint32_t request_count;
	struct rung__queue free, sync_free;
	/* device without device thread: requests that were put and may still run, oldest first */
	struct rung__queue retired;
	bool stop;       /* the store is being closed */
	bool reads_lost; /* reads were abandoned, and the kernel may still write to the pool */

	/* set only while tiers are opened, if the plan places memory on nodes */
	struct rung_topology *topology;
	bool binds;                               /* the kernel binds memory to nodes */
	char bind_why[RUNG__PLACEMENT_WHY_BYTES]; /* reason why it does not bind; "" if it does */
	struct rung_placement *placement_list;    /* [placement_count] as decided */
	struct rung_store_placement *placements;  /* [placement_count] */
	uint32_t placement_count;

	/* the page with the counters; they are in private memory if it has no file */
	struct rung__watch *watch;
	uint32_t owner_pid; /* attached: the process that created the store; 0: unknown */
};

/** Whether rows of announced batches are read before the batches begin. Rows staged in place are
 * read in the order of the vertices, which needs the maps in both directions. */
static inline bool rung__store_reads_ahead(const struct rung_store *store)
{
	const struct rung__layout *layout = &store->shape.layout;

	return store->opts.window != RUNG_WINDOW_NONE &&
	       (!layout->vertex_of_rank ||
	        (store->rank_of_vertex && store->shape.map_bytes == layout->vertex_bytes));
}

/**
 * Bytes of the block of a request: [ranks | ranks_tmp | rows | rows_tmp], see
 * rung__misses_lay_out(). A device reads and writes it too, so it is allocated as whole pages.
 */
static inline uint64_t rung__request_bytes(const struct rung_store *store)
{
	return (uint64_t)store->opts.batch_rows_max * (2 * sizeof(uint64_t) + 2 * sizeof(uint32_t));
}

/** Bytes of the block that only refill uses: [links | frames]. */
static inline uint64_t rung__request_own_bytes(const struct rung_store *store)
{
	return (uint64_t)store->opts.batch_rows_max * (sizeof(uint64_t) + sizeof(uint32_t));
}

/* ---- request_state.c ---- */

/** Complete a request; `status` and request->error are final. Called by refill, the device thread,
 * or the submitter of a request without misses; without a device thread by any thread that polls. A
 * second call for the same request has no effect. */
void rung__request_finish(struct rung_request *request, int status);

/** Return a request to the list of free requests. */
void rung__request_free(struct rung_request *request);

/** Record the failure of a request; only the first one is reported. */
void rung__request_fail(struct rung_request *request, int status, const char *text);

/** The bucket of a number in a histogram of RUNG_LATENCY_BUCKETS buckets. */
unsigned rung__latency_bucket(uint64_t value);

/** The number of a request, which names it in a device and in refill's references. */
static inline uint32_t rung__request_index(const struct rung_request *request)
{
	return (uint32_t)(request - request->store->requests);
}

/** The counters that any thread adds to. */
static inline struct rung__counters *rung__counters(struct rung_store *store)
{
	return &store->watch->page->counters;
}

static inline void rung__counter_add(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* ---- boxes.c ---- */

void rung__refill_box_init(struct rung__refill_box *box);
void rung__refill_box_fini(struct rung__refill_box *box);

/** Queue a part for the thread. Any thread. */
void rung__refill_queue(struct rung__refill_box *box, struct rung__part *part);

/** Device: wake the thread, because may_copy of a request was set. Any thread. */
void rung__refill_may_copy(struct rung__refill_box *box);

/** Device: return a chain of slots whose rows have been copied. Any thread. */
void rung__refill_return(struct rung__refill_box *box, uint32_t slot_head);

/** The store is being closed: cancel waiting requests. Parts can still be queued, and slots
 * returned, until rung__refill_stop(). */
void rung__refill_cancel(struct rung__refill_box *box);

/** Device: hand a slot batch to the device thread. Called by refill threads. */
void rung__device_thread_add(struct rung_store *store, struct rung__slot_batch *slot_batch);

/** Device: hand a request whose gather was submitted to the device thread. Any thread. */
void rung__device_thread_begin(struct rung_store *store, struct rung_request *request);

#endif

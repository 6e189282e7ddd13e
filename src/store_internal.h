/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The store inside: requests, the refill thread, counters.
 *
 * Threads. Submitting threads copy what is in memory, sort their misses and hand the request over; the refill thread reads, copies
 * from the slots and completes requests. A request belongs to one side at a time: to its submitter until it is queued, to refill
 * until its state is DONE (release store, acquire load), then to its submitter again.
 *
 * With a device there is a third side, the hand-off thread (handoff.c): it owns a request from its submission on, hands its misses to
 * refill, gets *parcels* of rows in slots back, has the device copy them, returns the slots, and completes the request. Refill
 * owns what stands under "refill's" from the queue until it has handed over the last parcel.
 *
 * Locks. store->lock guards the free lists, the queues between the threads and the stop flag; request->lock the wait for one request.
 * Neither is ever taken while the other is held, nor while a device is called.
 */
#ifndef RUNG_STORE_INTERNAL_H
#define RUNG_STORE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "cache.h"
#include "device.h"
#include "gather.h"
#include "place.h"
#include "pool.h"
#include "segment.h"
#include "tier_list.h"

enum rung__request_state {
	RUNG__REQUEST_FREE,
	RUNG__REQUEST_BUSY,
	RUNG__REQUEST_LAUNCHED,   /* device: its last work is on a stream */
	RUNG__REQUEST_DONE
};

#define RUNG__SLOT_NONE UINT32_MAX
#define RUNG__NODE_NONE UINT64_MAX

struct rung__part;

/* Device: rows of one request that lie in slots, on their way from refill to the hand-off. */
struct rung__parcel {
	struct rung__parcel *next;
	struct rung__part *part;
	uint64_t first, count;    /* entries of the request's lists */
	uint32_t slot_head;       /* the slots, linked by refill; RUNG__SLOT_NONE: none */
	bool last;                /* of the part */
};

struct rung__parcels {
	struct rung__parcel *head, *tail;
};

/* The misses of a request that lie in one file: the share of one refill thread, which owns it from the queue until it is over. */
struct rung__part {
	struct rung__part *next;          /* in refill's queue */
	struct rung_request *request;
	uint64_t first, end;              /* misses first .. end */
	uint64_t cursor;                  /* those before it have been begun */
	uint64_t pending;                 /* those begun whose rows are neither in place nor failed */
	uint64_t elsewhere;               /* begun, being read by another client of the cache: a chain, see refill_internal.h */
	uint64_t elsewhere_ns;            /* since when */
	struct rung__part *elsewhere_next, *touched_next;
	bool touched;

	/* device */
	uint64_t placed;                  /* entries written to the lists of what lies in the pool: misses' tmp arrays */
	uint64_t parcel_first;            /* those behind it have not been handed over */
	uint32_t held_head, held_count;   /* the slots they lie in */
	struct rung__part *held_next;     /* in the list of parts that have some */
	struct rung__parcel last_parcel;
};

struct rung_request {
	struct rung_store *store;
	struct rung_request *next;        /* in the free list */
	_Atomic int state;
	_Atomic int status;
	uint64_t submit_ns;

	struct rung__misses misses;       /* ranks, sorted once queued, and the output row of each */
	unsigned char *out;
	size_t out_stride;

	/* refill's */
	struct rung__part parts[RUNG__FILES_MAX];
	_Atomic uint32_t parts_left;      /* that are not over */
	uint64_t batch;                   /* the cache's name for it */
	unsigned char *stage;             /* device with stream_rows_max: where rows go, in the order of the misses; pinned */

	/* the hand-off's */
	bool reading;                     /* its misses are refill's; before, the gather runs */
	bool read_through;                /* the last parcels of its parts have come */
	uint32_t lasts_left;
	int device_status;
	struct rung__parcels waiting;     /* parcels that came, and those that are being copied, oldest first */
	struct rung__parcel *scatters[RUNG__SCATTERS_MAX];
	uint32_t scatter_first, scatter_count;

	/* device */
	enum rung_dtype id_dtype;         /* for messages, and index_first of a list that is split */
	uint64_t index_first;
	bool retired;                     /* put before it was done: who completes it gives it back; under lock */

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

/** What a store holds and where, in plain numbers. */
struct rung__shape {
	uint64_t vertex_count;
	struct rung_array_info array;     /* the features' type */
	struct rung__layout layout;
	struct {
		uint64_t rank_first;
		uint64_t row_count;
	} tiers[RUNG__TIER_COUNT];
	uint64_t slot_count;              /* of each file */
	uint64_t slot_bytes;
	uint64_t frame_count;             /* of the cache; 0: none */
	uint64_t frame_bytes;
	uint64_t map_bytes;               /* of an entry of rank_of_vertex; 0: not in memory */
	uint64_t map_on_gpu;              /* nonzero: and it is in GPU memory */
	uint64_t gpu_count;               /* over which the tier "peer" is interleaved; 0: the CPU gathers */
	struct rung__places places;
};

struct rung__handoff;
struct rung__refill;
struct rung__share;

struct rung_store {
	struct rung_store_opts opts;
	struct rung__shape shape;
	struct rung__features features;   /* open while tiers are opened, and as long as the store is shared */
	char *dataset_dir;
	bool attached;
	struct rung__share *share;        /* NULL unless opts.share_path */
	struct rung__segment host_memory; /* of the host tier; and of the maps when other processes have them too */
	struct rung__segment map_memory;
	struct rung__segment vertices_memory;
	struct rung__view host_view;
	struct rung__tier *host;
	void *rank_of_vertex;             /* NULL unless opts.vertex_ids */
	void *vertex_of_rank;             /* NULL unless rows lie by vertex, and are read: see struct rung__layout */

	const struct rung__device_ops *device_ops;   /* NULL: the CPU */
	struct rung__device *device;
	int gpus[RUNG_GPUS_MAX];          /* the first gathers */
	int alive_fd;                     /* attached with rows in another process's GPU memory: hangs up when it goes; else -1 */
	struct rung__pool pool;           /* slots and frames */
	struct rung__cache *cache;        /* NULL when there are no frames */
	struct rung__refill *refills[RUNG__FILES_MAX];   /* one a file; none when nothing is cold */
	uint32_t refill_count;
	uint32_t sector_bytes;            /* the least that divides where their reads begin */
	struct rung__announcer *announcer;   /* NULL without a cache */
	struct rung__handoff *handoff;    /* NULL without a device, and when nothing is cold */

	pthread_mutex_t lock;
	pthread_cond_t freed;             /* rung_gather waits: one of its own requests is free again */
	struct rung_request *requests;    /* [request_count], the last SYNC_REQUESTS of them for rung_gather */
	uint32_t request_count;
	struct rung_request *free_list;
	struct rung_request *sync_free_list;
	struct rung_request *retired_head, *retired_tail;   /* device without hand-off: put, not known to be done, oldest first */
	bool stop;
	bool reads_lost;                  /* given up while the kernel may still write to the pool */

	struct rung_topology *topology;   /* while tiers are opened, where memory has a place */
	bool binds;                       /* memory is bound to its place */
	char bind_why[RUNG__PLACE_WHY_BYTES];   /* why not; "" while it is */
	struct rung_place *place_list;
	struct rung_store_place *places;  /* [place_count] */
	uint32_t place_count;

	struct rung__counters counters;
};

/** The same as rung_store_open(), with another table for the fetchable tier: tests put one there that injects faults. */
int rung__store_open_over(const struct rung_dataset *ds, const struct rung_plan *plan, const struct rung_store_opts *opts,
                          const struct rung__tier_ops *fetchable, struct rung_store **store_out);

/** A store with its requests, and nothing in it yet. */
int rung__store_new(const struct rung_store_opts *user_opts, struct rung_store **store_out);

/** One block a request: [ranks | ranks_tmp | rows | rows_tmp]. A device reads and writes it too, hence whole pages. */
static inline uint64_t rung__request_bytes(const struct rung_store *store)
{
	return (uint64_t)store->opts.batch_rows_max * (2 * sizeof(uint64_t) + 2 * sizeof(uint32_t));
}

/** And one of refill's own: [links | frames]. */
static inline uint64_t rung__request_own_bytes(const struct rung_store *store)
{
	return (uint64_t)store->opts.batch_rows_max * (sizeof(uint64_t) + sizeof(uint32_t));
}

static inline uint64_t rung__stage_bytes(const struct rung_store *store)
{
	return rung__align_up(store->opts.stream_rows_max * store->shape.layout.row_bytes, RUNG__PAGE_BYTES);
}

/* ---- store_device.c ---- */

/** Take the device that gathers on the first of `gpus`. */
int rung__store_choose_device(struct rung_store *store, const int *gpus, uint32_t gpu_count);

/** Open it, behind the host tier and the map, which it registers. */
int rung__store_open_device(struct rung_store *store, const struct rung__gpu_handle *peer_handles);

/* ---- store_place.c ---- */

/** Before any memory of the tiers is touched: see whether there is room for it, and whether it can be bound. */
int rung__store_place(struct rung_store *store);

/** Bind memory that nobody has touched, if that can be done. */
void rung__store_bind(struct rung_store *store, void *memory, const struct rung__placement *place);

/** Bind and touch the slots, and the frames that are there for the first time. */
void rung__store_bind_pool(struct rung_store *store);

/** Look up where all of it came to lie. */
int rung__store_look(struct rung_store *store);

/* ---- store.c ---- */

/** Rows lie by vertex, by this map. */
void rung__store_set_vertices(struct rung_store *store, void *vertex_of_rank);

/**
 * Open the tiers of a store whose shape and features are set; rows are loaded unless host_memory has them, and those of the tier
 * "peer" unless there are handles of them. @param cache_fd  the memory of a cache that is there already, or -1
 */
int rung__store_open_tiers(struct rung_store *store, const struct rung__tier_ops *fetchable,
                           const struct rung__gpu_handle *peer_handles, int cache_fd);

/** Complete a request; `status` and request->error are final. Refill, the hand-off, or the submitter of a request without misses. */
void rung__request_finish(struct rung_request *request, int status);

/**
 * Device without a hand-off: take back what was put early, all that has run; with `must`, when no request is free, also the oldest that
 * has not, which is waited for.
 */
void rung__request_harvest(struct rung_store *store, bool must);

/** Are these ids that the store can look up? Not yet whether each is in range. */
int rung__gather_check(const struct rung_store *store, const struct rung_ids *ids);

/** Bits of a rank that can differ. */
unsigned rung__rank_bits(const struct rung_store *store);

/** Give misses, which need not be sorted, to refill. */
void rung__request_enqueue(struct rung_request *request);

/** Its number, by which devices know it. */
static inline uint32_t rung__request_index(const struct rung_request *request)
{
	return (uint32_t)(request - request->store->requests);
}

/** Remember how a request fails; the first failure is the one told. */
void rung__request_fail(struct rung_request *request, int status, const char *text);

/** Which half octave a number is in: [2^(b/2), 2^((b+1)/2)). */
unsigned rung__bucket(uint64_t value);

static inline void rung__count(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* ---- handoff.c, found.c ---- */

/** Start the thread that the device's requests need when some rows are cold. */
int rung__handoff_start(struct rung_store *store);

/** Stop it after what is on its way; the store's stop flag is set. @return 0 or RUNG_E_TIMEDOUT: the device does not answer */
int rung__handoff_stop(struct rung__handoff *handoff);

/** Put a request's gather on a stream. The request is BUSY from here on. */
int rung__handoff_submit(struct rung_request *request, const struct rung_ids *ids, void *out, size_t out_stride,
                         struct CUstream_st *stream);

/** Put what a gather found into its request: misses, or why it fails. */
void rung__found_take(struct rung_request *request, const struct rung__found *found);

/** Without a hand-off: complete a request whose gather has run. Any thread; `block` waits for the gather. */
void rung__handoff_settle(struct rung_request *request, bool block);

/** From refill: rows in slots. */
void rung__handoff_take(struct rung__handoff *handoff, struct rung__parcel *parcel);

/* ---- prefetch.c ---- */

/** What rung_prefetch() works with. */
int rung__announcer_create(const struct rung_store *store, struct rung__announcer **announcer_out);
void rung__announcer_destroy(struct rung__announcer *announcer);

/**
 * rung_prefetch() for one who may take it back.
 * @param batches_out  [one for each batch_rows_max of the list], by which the cache knows its parts that have cold rows; NULL: not wanted
 */
int rung__prefetch(struct rung_store *store, const struct rung_ids *ids, uint64_t *batches_out, uint32_t *batch_count_out);

/** Take it back. Its gather has not been submitted, or has failed. */
void rung__prefetch_undo(struct rung_store *store, const uint64_t *batches, uint32_t batch_count);

/* ---- refill.c ---- */

/** Open the fetchable tier over one file of the features and start the thread; returns when the engine has been probed. */
int rung__refill_start(struct rung_store *store, uint32_t file_idx, const struct rung__tier_ops *ops, const struct rung__tier_args *args);

/** Give misses of a request to the thread. */
void rung__refill_queue(struct rung__refill *refill, struct rung__part *part);

/** Device: a chain of slots that has been copied from. Any thread. */
void rung__refill_return(struct rung__refill *refill, uint32_t slot_head);

/** The store is being closed: what waits is canceled. More may be queued and returned until rung__refill_stop(). */
void rung__refill_cancel(struct rung__refill *refill);

/** Stop the thread after its reads in flight. @return 0 or RUNG_E_TIMEDOUT, in which case memory in use is left alone */
int rung__refill_stop(struct rung__refill *refill);

/** By which the cache knows it. */
uint32_t rung__refill_client(const struct rung__refill *refill);

/** The node on whose CPUs it runs; -1: anywhere. */
int rung__refill_node(const struct rung__refill *refill);

/** What its reads are aligned to. */
uint32_t rung__refill_align(const struct rung__refill *refill);

/** Add what it has counted to statistics. */
void rung__refill_stats(const struct rung__refill *refill, struct rung_store_stats *stats);

#endif

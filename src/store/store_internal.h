/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The store inside: requests, the refill thread, counters.
 *
 * Threads. Submitting threads copy what is in memory, sort their misses and hand the request over; the refill thread reads, copies
 * from the slots and completes requests. A request belongs to one side at a time: to its submitter until it is queued, to refill
 * until its state is DONE (release store, acquire load), then to its submitter again.
 *
 * With a device there is a third side, the hand-off thread (handoff.c): it owns a request from its
 * submission on, hands its misses to the sorter (misses.c) and so to refill, gets *parcels* of rows
 * in slots back, has the device copy them, returns the slots, and completes the request. Sorter and
 * refill own what stands under "refill's" until the last parcel has been handed over.
 *
 * Locks. store->lock guards the free lists, the queues between the threads and the stop flag; request->lock the wait for one request.
 * Neither is ever taken while the other is held, nor while a device is called.
 */
#ifndef RUNG_STORE_INTERNAL_H
#define RUNG_STORE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "cache/cache.h"
#include "device/device.h"
#include "gather/gather.h"
#include "place/place.h"
#include "store/pool.h"
#include "share/segment.h"
#include "tier/tier_list.h"

enum rung__request_state {
	RUNG__REQUEST_FREE,
	RUNG__REQUEST_BUSY,
	RUNG__REQUEST_LAUNCHED,   /* device: its last work is on a stream */
	RUNG__REQUEST_DONE
};

#define RUNG__LOOK_NS_MIN 20000    /* between two looks at words that a device writes */
#define RUNG__LOOK_NS_MAX 100000
#define RUNG__CHECK_NS 10000000    /* between two questions to the device itself */

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

	/*
	 * Device, ids in plain host memory: their ranks, pinned. The misses are known from the
	 * submission on, and refill may have them before the gather has run.
	 */
	void *ranks;
	bool known;
	_Atomic bool may_copy;            /* the gather has run: rows that were read may go */
	struct rung_request *sort_next;   /* in the sorter's queue */

	/* refill's */
	struct rung__part parts[RUNG__FILES_MAX];
	_Atomic uint32_t parts_left;      /* that are not over */
	uint64_t batch;                   /* the cache's name for it */

	/* the hand-off's */
	bool reading;                     /* the gather has run, and misses are refill's */
	bool read_through;                /* the last parcels of its parts have come */
	uint32_t lasts_left;
	int device_status;
	struct rung__parcels waiting;     /* parcels that came, and those that are being copied, oldest first */
	struct rung__parcel *scatters[RUNG__SCATTERS_MAX];
	uint32_t scatter_first, scatter_count;

	/* device */
	_Atomic uint64_t checked_ns;      /* when the device was last asked whether it has failed */
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

struct rung_gpu_sampler;

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
struct rung__sorter;

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
	struct rung_plan_graph graph;     /* where the plan puts it; attached: all zero */
	int alive_fd;                     /* attached, with a tier "peer": see share.h; else -1 */
	void *known_ranks;                /* of all requests; NULL without a device */
	uint64_t known_bytes;
	struct rung__pool pool;           /* slots and frames */
	struct rung__cache *cache;        /* NULL when there are no frames */
	/* why there are none although the store that is attached to has some; "" otherwise */
	char cache_why[RUNG__ERROR_BYTES];
	struct rung__refill *refills[RUNG__FILES_MAX];   /* one a file; none when nothing is cold */
	uint32_t refill_count;
	uint32_t sector_bytes;            /* the least that divides where their reads begin */
	struct rung__announcer *announcer;   /* NULL without a cache */
	struct rung__handoff *handoff;    /* NULL without a device, and when nothing is cold */
	struct rung__sorter *sorter;      /* with it: sorts misses */

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

/** rung_gather() on a stream. On the CPU NULL. */
int rung__gather(struct rung_store *store, const struct rung_ids *ids, void *out, size_t out_stride,
                 struct CUstream_st *stream);

/** Complete a request; `status` and request->error are final. Refill, the hand-off, or the submitter of a request without misses. */
void rung__request_finish(struct rung_request *request, int status);

/**
 * Device without a hand-off: take back what was put early, all that has run; with `must`, when no request is free, also the oldest that
 * has not, which is waited for.
 */
void rung__request_harvest(struct rung_store *store, bool must);

/** Are these ids that the store can look up? Not yet whether each is in range. */
int rung__gather_check(const struct rung_store *store, const struct rung_ids *ids);

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

/* ---- misses.c ---- */

/** Bits of a rank that can differ. */
unsigned rung__rank_bits(const struct rung_store *store);

/**
 * Sort the misses of a request and give them to refill, on the calling thread; takes time in
 * proportion to their number, and may wait for the cache. The request is refill's afterwards.
 */
void rung__misses_queue(struct rung_request *request);

/** Start the thread that does so for the requests of a device. */
int rung__sorter_start(struct rung_store *store);

/** Give a request with misses to the thread. Never waits. */
void rung__sorter_take(struct rung__sorter *sorter, struct rung_request *request);

/** Stop the thread. No request is with it, and none will come. */
void rung__sorter_stop(struct rung__sorter *sorter);

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

/** Without a hand-off: complete a request whose gather has run. Any thread. */
void rung__handoff_settle(struct rung_request *request);

/**
 * How long to wait before the next look at a device that has shown nothing new for `idle_ns`: a
 * sixteenth of that, so that what ends is seen not much later than it could be.
 */
static inline uint64_t rung__look_ns(uint64_t idle_ns)
{
	return RUNG__MIN(RUNG__MAX(idle_ns / 16, RUNG__LOOK_NS_MIN), RUNG__LOOK_NS_MAX);
}

/**
 * Is it time to ask the device itself whether it has failed? Every RUNG__CHECK_NS while a request
 * is in flight, and never at first: all that goes well is seen without.
 */
static inline bool rung__check_is_due(struct rung_request *request, uint64_t now_ns)
{
	uint64_t checked_ns = atomic_load_explicit(&request->checked_ns, memory_order_relaxed);

	return now_ns - checked_ns >= RUNG__CHECK_NS &&
	       atomic_compare_exchange_strong_explicit(&request->checked_ns, &checked_ns, now_ns,
	                                               memory_order_relaxed, memory_order_relaxed);
}

/** From refill: rows in slots. */
void rung__handoff_take(struct rung__handoff *handoff, struct rung__parcel *parcel);

/* ---- gpu_sampler.c ---- */

/** Can it sample batches of so many seeds for this store's gathers? @return 0, RUNG_E_INVAL */
int rung__gpu_sampler_check(const struct rung_gpu_sampler *sampler, const struct rung_store *store,
                            uint64_t seed_count);
uint32_t rung__gpu_sampler_hops(const struct rung_gpu_sampler *sampler);
/** Of a batch at most. */
uint64_t rung__gpu_sampler_vertices(const struct rung_gpu_sampler *sampler);

/* ---- known.c ---- */

/** Bytes of a rank in request->ranks. */
static inline unsigned rung__known_rank_bytes(const struct rung_store *store)
{
	return store->shape.vertex_count <= UINT32_MAX ? 4 : 8;
}

/**
 * List the ranks of ids in plain host memory, and the cold rows among them as the request's misses.
 * @param ranks_out  those ranks, as ids in memory that the device reaches
 * @return 0 or RUNG_E_RANGE
 */
int rung__known_list(struct rung_request *request, const struct rung_ids *ids,
                     struct rung_ids *ranks_out);

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

/** Device: a request's may_copy is set. Any thread. */
void rung__refill_may_copy(struct rung__refill *refill);

/** Device: a chain of slots that has been copied from. Any thread. */
void rung__refill_return(struct rung__refill *refill, uint32_t slot_head);

/** The store is being closed: what waits is canceled. More may be queued and returned until rung__refill_stop(). */
void rung__refill_cancel(struct rung__refill *refill);

/** Stop the thread after its reads in flight. @return 0 or RUNG_E_TIMEDOUT, in which case memory in use is left alone */
int rung__refill_stop(struct rung__refill *refill);

/** The node on whose CPUs it runs; -1: anywhere. */
int rung__refill_node(const struct rung__refill *refill);

/** What its reads are aligned to. */
uint32_t rung__refill_align(const struct rung__refill *refill);

/** Add what it has counted to statistics. */
void rung__refill_stats(const struct rung__refill *refill, struct rung_store_stats *stats);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that every store has, of features and of neighbour lists: its requests, tiers and
 * threads. After a failure at any point rung__store_release() releases what exists so far: members
 * that were not reached are zero.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gather/copy.h"
#include "plan/plan.h"
#include "share/share.h"
#include "store/store.h"
#include "tier/load.h"
#include "base/thread.h"

#define REQUESTS_DEFAULT    8u
#define REQUESTS_MAX        4096u
#define BATCH_ROWS_DEFAULT  (1u << 20)
#define QUEUE_DEPTH_DEFAULT 64u
#define THREAD_SLOTS_MIN    4u /* fewest slots of one of several refill threads of a file */
#define CLOSE_WAIT_NS       60000000000ull /* longest wait for the gathers in flight on a device */
/* requests reserved for rung_gather(), which can block until one is free: its requests always
 * complete, while those of rung_gather_submit() stay in use until the caller puts them */
#define SYNC_REQUESTS 2u
/* the same for lists of the graph, which are only read that way, by all sampling threads */
#define SYNC_REQUESTS_LISTS 32u

static int copy_opts(const struct rung_store_opts *user_opts, struct rung_store_opts *opts)
{
	int rc = rung__opts_copy_in(opts, sizeof(*opts), user_opts, "rung_store_opts");

	if (rc < 0)
		return rc;
	opts->requests_max = opts->requests_max ? opts->requests_max : REQUESTS_DEFAULT;
	opts->batch_rows_max = opts->batch_rows_max ? opts->batch_rows_max : BATCH_ROWS_DEFAULT;
	opts->queue_depth = opts->queue_depth ? opts->queue_depth : QUEUE_DEPTH_DEFAULT;
	if (opts->requests_max > REQUESTS_MAX)
		return rung__fail(RUNG_E_INVAL, "requests_max %u is too large; give at most %u",
		                  opts->requests_max, REQUESTS_MAX);
	if ((unsigned)opts->engine > RUNG_ENGINE_NULL_INSTANT)
		return rung__fail(RUNG_E_INVAL,
		                  "engine %d is not a valid value; use RUNG_ENGINE_AUTO, "
		                  "_IO_URING, _PREAD, _IO_URING_POLL, _NVME, _NULL or "
		                  "_NULL_INSTANT",
		                  (int)opts->engine);
	if (opts->window > RUNG_WINDOW_MAX && opts->window != RUNG_WINDOW_NONE)
		return rung__fail(RUNG_E_INVAL,
		                  "a window of %u batches is too long; give at most %u",
		                  opts->window, RUNG_WINDOW_MAX);
	return 0;
}

static void fini_requests(struct rung_store *store)
{
	for (uint32_t i = 0; i < store->request_count; i++) {
		struct rung_request *request = &store->requests[i];

		rung__unmap_pages(request->misses.ranks, rung__request_bytes(store));
		rung__unmap_pages(request->misses.links, rung__request_own_bytes(store));
		pthread_cond_destroy(&request->done);
		pthread_mutex_destroy(&request->lock);
	}
	rung__free(store->requests);
}

/* Reserve the lists of a request. The kernel allocates pages when they are first used, so memory
 * follows the largest batch so far, not batch_rows_max. */
static bool init_request(struct rung_store *store, struct rung_request *request)
{
	uint64_t *block = rung__map_growing(rung__request_bytes(store));
	uint64_t *own = rung__map_growing(rung__request_own_bytes(store));

	if (!block || !own) {
		rung__unmap_pages(block, rung__request_bytes(store));
		rung__unmap_pages(own, rung__request_own_bytes(store));
		return false;
	}
	request->store = store;
	request->parts[0].request = request;
	request->misses = (struct rung__misses){ .ranks = block, .links = own };
	rung__misses_lay_out(&request->misses, store->opts.batch_rows_max);
	pthread_mutex_init(&request->lock, NULL);
	rung__cond_init(&request->done);
	return true;
}

static int init_requests(struct rung_store *store, uint32_t sync_requests)
{
	uint32_t wanted = store->opts.requests_max + sync_requests;

	store->requests = rung__zalloc_array(wanted + RUNG__FILES_MAX, sizeof(*store->requests));
	for (uint32_t i = 0; store->requests && i < wanted; i++) {
		struct rung_request *request = &store->requests[i];
		struct rung__queue *list =
			i < store->opts.requests_max ? &store->free : &store->sync_free;

		if (!init_request(store, request))
			break;
		rung__queue_push_first(list, &request->link);
		store->request_count++;
	}
	if (store->request_count < wanted)
		return rung__fail(RUNG_E_NOMEM, "store: no memory for %u requests of %u rows",
		                  wanted, store->opts.batch_rows_max);
	return 0;
}

void rung__store_set_vertices(struct rung_store *store, void *vertex_of_rank)
{
	store->vertex_of_rank = vertex_of_rank;
	store->shape.layout.vertex_of_rank = store->features.layout.vertex_of_rank = vertex_of_rank;
}

/* With all rows in memory nothing is read from the file; an attaching process, however, may have to
 * load some rows. */
static void drop_vertices(struct rung_store *store)
{
	if (store->refill_count > 0 || store->is_shared)
		return;
	if (!store->vertices_memory.base)
		rung__free(store->vertex_of_rank);
	rung__segment_fini(&store->vertices_memory);
	rung__store_set_vertices(store, NULL);
}

/* Allocate the host tier: anonymous memory, which gets huge pages everywhere, or a memfd if other
 * processes may attach, which gets them only where shmem_enabled allows it. */
static int alloc_host(struct rung_store *store, uint64_t rows)
{
	/* cannot overflow: it is at most the file's size, which was checked */
	uint64_t bytes = rung__align_up(rows * store->shape.layout.row_stride, RUNG__PAGE_BYTES);

	if (store->is_shared)
		return rung__segment_create("rung-host", bytes, &store->host_memory);
	store->host_memory =
		(struct rung__segment){ .base = rung__map_pages(bytes), .bytes = bytes, .fd = -1 };
	if (!store->host_memory.base)
		return rung__fail(RUNG_E_NOMEM,
		                  "host tier: no memory for %" PRIu64 " rows (%" PRIu64
		                  " bytes); give a smaller host budget",
		                  rows, bytes);
	return 0;
}

static int load_host(struct rung_store *store, uint64_t first, uint64_t rows)
{
	int rc = alloc_host(store, rows);

	if (rc < 0)
		return rc;
	/* bound before the load, which touches the pages */
	rung__store_bind(store, store->host_memory.base, &store->shape.placements.host);
	return rung__load_rows(&store->features, first, rows, store->host_memory.base);
}

/* Open the host tier: the hottest rows in memory, one after the other as in the file. */
static int open_host(struct rung_store *store)
{
	const uint64_t first = store->shape.tiers[RUNG__TIER_HOST].rank_first,
		       rows = store->shape.tiers[RUNG__TIER_HOST].row_count;
	int rc = 0;

	if (rows == 0)
		return 0;
	if (!store->attached)
		rc = load_host(store, first, rows);
	if (rc < 0)
		return rc;
	store->host_view =
		(struct rung__view){ store->host_memory.base,
		                     (size_t)store->shape.layout.row_stride, first, rows };
	return store->is_shared ? rung__segment_seal("rung-host", &store->host_memory) : 0;
}

/* Engines that read nothing must not fill a cache that other processes use, nor lists, from which
 * vertices are drawn. */
static int check_engine(const struct rung_store *store)
{
	const bool reads_nothing = store->opts.engine == RUNG_ENGINE_NULL ||
	                           store->opts.engine == RUNG_ENGINE_NULL_INSTANT;

	if (!reads_nothing ||
	    !(store->is_shared || store->attached || store->shape.layout.is_lists))
		return 0;
	return rung__fail(RUNG_E_INVAL,
	                  "%s: the engines null and null_instant read nothing, and %s; use engine "
	                  "auto",
	                  store->dataset_dir,
	                  store->shape.layout.is_lists ? "neighbour lists are in the file"
	                                               : "other processes use this store");
}

/* The number requested, if there are counters for that many threads, and slots: a read that
 * does not complete must not stop its thread. Each has at least one read in flight. */
static uint32_t threads_per_file(const struct rung_store *store)
{
	const uint64_t files = store->shape.layout.file_count;
	const uint64_t most =
		RUNG__MIN(RUNG__REFILLS_MAX / files, store->shape.slot_count / THREAD_SLOTS_MIN);

	return (uint32_t)RUNG__MAX(
		RUNG__MIN(RUNG__MIN(store->opts.refill_threads, store->opts.queue_depth), most),
		1u);
}

static int check_timeouts(const struct rung_store *store)
{
	if (!store->opts.range_timeouts_ms ||
	    store->opts.range_timeout_count == store->shape.layout.range_count)
		return 0;
	return rung__fail(RUNG_E_INVAL,
	                  "%s: %u read timeouts for %" PRIu64
	                  " ranges of ranks; give one, or one per range",
	                  store->dataset_dir, store->opts.range_timeout_count,
	                  store->shape.layout.range_count);
}

/* Open the pool and the cache, and start the refill threads of each file. */
static int open_cold(struct rung_store *store, const struct rung__reader_ops *ops, int cache_fd)
{
	struct rung__reader_args args = {
		.features = &store->features,
		.queue_depth =
			(uint32_t)RUNG__MIN(store->opts.queue_depth, store->shape.slot_count),
		.engine = store->opts.engine,
		.buffered = store->opts.buffered,
		.merge_gap_bytes = store->opts.merge_gap_bytes,
	};
	uint32_t refills;
	int rc;

	rc = check_timeouts(store);
	if (rc < 0 || store->shape.tiers[RUNG__TIER_NVME].row_count == 0)
		return rc;
	rc = check_engine(store);
	if (rc == 0)
		rc = rung__pool_open(store, cache_fd);
	store->threads_per_file = threads_per_file(store);
	refills = (uint32_t)store->shape.layout.file_count * store->threads_per_file;
	for (uint32_t r = 0; rc == 0 && r < refills; r++) {
		rc = rung__refill_start(store, r, ops, &args);
		store->refill_count += rc == 0;
	}
	for (uint32_t r = 0; r < store->refill_count; r++) {
		uint32_t align = rung__refill_align(store->refills[r]);

		store->sector_bytes = r == 0 ? align : RUNG__MIN(store->sector_bytes, align);
	}
	store->opts.range_timeouts_ms = NULL; /* the caller's memory */
	return rc;
}

/* Fill in the statistics page, and let other processes see it. */
static void publish(struct rung_store *store)
{
	static const char *const names[] = {
#define TIER_NAME(id, name) [id] = name,
		RUNG__TIER_LIST(TIER_NAME)
#undef TIER_NAME
	};
	struct rung__watch_page *page = store->watch->page;
	struct rung_store_stats stats = { .engine = "none" };
	char *full_path;

	for (uint32_t f = store->refill_count; f-- > 0;)
		rung__refill_stats(store->refills[f], &stats);
	for (unsigned t = rung__first_tier(store->device != NULL); t < RUNG__TIER_COUNT; t++) {
		page->tiers[t].rows = store->shape.tiers[t].row_count;
		rung__watch_text(page->tiers[t].name, sizeof(page->tiers[t].name), names[t]);
	}
	page->is_lists = store->shape.layout.is_lists != 0;
	page->is_attached = store->attached;
	page->owner_pid = store->owner_pid;
	page->file_count = store->refill_count;
	page->row_bytes = store->shape.layout.row_bytes;
	page->cache_rows = store->cache ? store->shape.frame_count : 0;
	page->queue_depth = stats.queue_depth * store->shape.layout.file_count;
	rung__watch_text(page->engine, sizeof(page->engine), stats.engine);
	/* a reader has another working directory */
	full_path = realpath(store->dataset_dir, NULL);
	rung__watch_text(page->dataset, sizeof(page->dataset),
	                 full_path ? full_path : store->dataset_dir);
	free(full_path);
	rung__watch_publish(store->watch);
}

static void init_locks(struct rung_store *store)
{
	pthread_mutex_init(&store->lock, NULL);
	pthread_cond_init(&store->freed, NULL);
}

int rung__store_open_tiers(struct rung_store *store, const struct rung__reader_ops *reader_ops,
                           const struct rung__gpu_handle *peer_handles, int cache_fd)
{
	int rc = rung__store_choose_form(store);

	if (rc == 0)
		rc = rung__store_apply_placement(store);
	if (rc == 0)
		rc = open_host(store);
	if (rc == 0 && store->device_ops)
		rc = rung__store_open_device(store, peer_handles);
	if (rc == 0)
		rc = open_cold(store, reader_ops, cache_fd);
	/* the device thread passes misses to the sorter, and the sorter passes them to refill */
	if (rc == 0 && store->device && store->refill_count > 0)
		rc = rung__sorter_start(store);
	if (rc == 0 && store->sorter)
		rc = rung__device_thread_start(store);
	if (rc == 0)
		rc = rung__store_inspect_memory(store);
	rung_topology_destroy(store->topology);
	store->topology = NULL;
	drop_vertices(store);
	if (rc == 0)
		publish(store);
	return rc;
}

/* Called after the threads have ended. `leave_peer`: other processes have the tier "peer" open, so
 * it stays allocated. */
static void free_store(struct rung_store *store, bool leave_peer)
{
	rung__pool_close(store); /* released before the device, which unpins it */
	if (store->device)
		store->device_ops->close(store->device, leave_peer);
	if (store->known_ranks)
		rung__unmap_pages(store->known_ranks, store->known_bytes);
	if (store->alive_fd >= 0)
		close(store->alive_fd);
	rung__features_close(&store->features);
	if (!store->map_memory.base)
		rung__free(store->rank_of_vertex);
	if (!store->vertices_memory.base)
		rung__free(store->vertex_of_rank);
	rung__segment_fini(&store->map_memory);
	rung__segment_fini(&store->vertices_memory);
	rung__segment_fini(&store->scales_memory);
	rung__segment_fini(&store->host_memory);
	rung__free(store->placements);
	rung__free(store->placement_list);
	rung__free(store->dataset_dir);
	rung__watch_close(store->watch);
	fini_requests(store);
	pthread_cond_destroy(&store->freed);
	pthread_mutex_destroy(&store->lock);
	rung__free(store);
}

int rung__store_new(const struct rung_store_opts *user_opts, bool of_lists,
                    struct rung_store **store_out)
{
	struct rung_store_opts opts = RUNG_STORE_OPTS_INIT;
	struct rung_store *store;
	int rc = copy_opts(user_opts, &opts);

	if (rc < 0)
		return rc;
	store = rung__zalloc(sizeof(*store));
	if (!store)
		return rung__fail(RUNG_E_NOMEM, "store: out of memory");
	rung__caches_find(); /* before the first gather, which calls nothing of the system */
	store->opts = opts;
	store->alive_fd = -1;
	init_locks(store);
	rc = rung__watch_open(&store->watch);
	if (rc == 0)
		rc = init_requests(store, of_lists ? SYNC_REQUESTS_LISTS : SYNC_REQUESTS);
	if (rc < 0) {
		free_store(store, false);
		return rc;
	}
	*store_out = store;
	return 0;
}

struct rung__shape rung__store_shape(const struct rung_array_info *array,
                                     const struct rung_quantization *quant,
                                     const struct rung_plan *plan)
{
	struct rung__shape shape = {
		.vertex_count = plan->vertex_count,
		.array = *array,
		.slot_count = plan->slots.slot_count / plan->file_count,
		.slot_bytes = plan->slots.slot_bytes,
		.frame_count = plan->cache.row_count,
		.frame_bytes = plan->cache.frame_bytes,
		.map_on_gpu = plan->device.map_on_gpu != 0,
		.placements = plan->placements,
	};

	if (quant)
		shape.quant = (struct rung__quant){ quant->format, quant->scales, quant->columns };
	for (unsigned t = 0; t < RUNG__TIER_COUNT; t++) {
		shape.tiers[t].rank_first = plan->tiers[t].rank_first;
		shape.tiers[t].row_count = plan->tiers[t].row_count;
	}
	return shape;
}

/* Wait for gathers that were put before they had run, or never put: kernels still use the memory.
 * The time limit is for all of them together. */
static int await_gathers(struct rung_store *store)
{
	uint64_t until_ns = rung__now_ns() + CLOSE_WAIT_NS;

	for (uint32_t i = 0; i < store->request_count; i++) {
		struct rung_request *request = &store->requests[i];
		uint64_t now = rung__now_ns();

		if (atomic_load(&request->state) != RUNG__REQUEST_FREE &&
		    rung_request_wait(request, (int64_t)(until_ns > now ? until_ns - now : 0)) ==
		            RUNG_E_TIMEDOUT)
			return rung__fail(RUNG_E_TIMEDOUT,
			                  "device %s: a gather has not ended for %llu s: the GPU "
			                  "is stuck; the store's memory is not freed",
			                  store->device_ops->name, CLOSE_WAIT_NS / 1000000000u);
	}
	return 0;
}

int rung__store_release(struct rung_store *store)
{
	int rc = 0;

	if (!store)
		return 0;
	pthread_mutex_lock(&store->lock);
	store->stop = true;
	pthread_mutex_unlock(&store->lock);
	for (uint32_t f = 0; f < store->refill_count; f++)
		rung__refill_cancel(store->refill_boxes[f]);
	/* in this order, because the device thread needs sorter and refill to end its requests */
	if (store->device_thread)
		rc = rung__device_thread_stop(store->device_thread);
	else if (store->device)
		rc = await_gathers(store);
	if (store->sorter && rc == 0)
		rung__sorter_stop(store->sorter);
	for (uint32_t f = 0; f < store->refill_count && rc == 0; f++)
		rc = rung__refill_stop(store->refills[f]);
	/* nothing is freed, because the device may still write to slots, and refill to requests */
	if (rc < 0)
		return rc;
	rc = rung__share_end(store->share);
	free_store(store, rc < 0);
	return rc;
}

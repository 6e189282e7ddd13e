/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool's memory: mapped, shared with other processes, pinned for a device.
 *
 * Slots come first, then the frames of the cache (struct rung__pool). Slots are always private. The
 * frames of a shared store are in a memfd, after the index of the cache: it is mapped once as a
 * whole, for the index, and its frames a second time, over their place in the pool, so that reads
 * and copies find slots and frames in one range of addresses.
 */
#include <stdio.h>

#include "store/store.h"

/* allows huge pages on both sides of the border between slots and frames */
#define FRAMES_ALIGN (2ull << 20)
/* announced rows per frame; more of them add hardly any hits */
#define WINDOW_ROWS_PER_FRAME 4u

/* The shape of the cache. Every cold row can be cached. */
static struct rung__cache_shape cache_shape(const struct rung__shape *shape)
{
	return (struct rung__cache_shape){
		.rank_first = shape->tiers[RUNG__TIER_NVME].rank_first,
		.row_count = shape->tiers[RUNG__TIER_NVME].row_count,
		.frame_count = shape->frame_count,
	};
}

uint64_t rung__pool_shared_bytes(uint64_t rank_first, uint64_t row_count, uint64_t frame_count,
                                 uint64_t frame_bytes)
{
	struct rung__cache_shape shape = { rank_first, row_count, frame_count };
	uint64_t index = rung__cache_index_bytes(&shape), frames, bytes;

	/* an attacher passes numbers that it received, so every product and sum is checked for
	 * overflow */
	if (index == 0 || frame_count == 0 || !rung__mul(frame_count, frame_bytes, &frames) ||
	    !rung__add(index, frames, &bytes))
		return 0;
	return bytes <= UINT64_MAX - FRAMES_ALIGN ? rung__align_up(bytes, RUNG__PAGE_BYTES) : 0;
}

static int no_memory(uint64_t bytes)
{
	return rung__fail(RUNG_E_NOMEM,
	                  "store: no memory for %" PRIu64
	                  " bytes of staging slots and cold-row cache; give a smaller "
	                  "cache",
	                  bytes);
}

/*
 * Create or attach the segment of index and frames, and map the frames at their position in the
 * pool.
 * @param cache_fd  the creator's segment; -1: create one
 */
static int map_shared_frames(struct rung_store *store, int cache_fd)
{
	struct rung__pool *pool = &store->pool;
	uint64_t frames = pool->bytes - pool->frames_at;
	int rc;

	if (cache_fd < 0)
		rc = rung__segment_create("rung-cache", pool->index_bytes + frames, &pool->shared);
	else
		rc = rung__segment_attach("cold-row cache", cache_fd, pool->index_bytes + frames,
		                          true, &pool->shared);
	/* all processes write to the cache, so it is not sealed as rows and maps are; its size is
	 * fixed, so that no process can shrink it while others access it */
	if (rc == 0 && cache_fd < 0)
		rc = rung__segment_fix("rung-cache", &pool->shared);
	if (rc < 0)
		return rc;
	pool->index = pool->shared.base;
	if (!rung__map_shared_at(pool->base + pool->frames_at,
	                         cache_fd < 0 ? pool->shared.fd : cache_fd, pool->index_bytes,
	                         frames))
		return no_memory(frames);
	return 0;
}

/* Number of rows for which the window has space. The batches in flight are part of it, and a batch
 * is accepted only as a whole, so the default has space for one batch more than there are
 * requests. */
static uint64_t window_rows(const struct rung_store *store)
{
	uint64_t rows = store->opts.window_rows_max;

	if (rows == 0)
		rows = store->shape.frame_count * WINDOW_ROWS_PER_FRAME +
		       (store->request_count + 1ull) *
		               RUNG__MIN(store->opts.batch_rows_max,
		                         store->shape.tiers[RUNG__TIER_NVME].row_count);
	return RUNG__MIN(rows, RUNG__CACHE_WINDOW_ROWS_MAX);
}

/* Rows staged in place are in the order of the vertices. */
static int open_window(struct rung_store *store)
{
	const struct rung__layout *layout = &store->shape.layout;
	const struct rung__ahead_order order = {
		.position_of_rank = layout->vertex_of_rank,
		.rank_of_position = store->rank_of_vertex,
		.entry_bytes = (unsigned)layout->vertex_bytes,
		.count = store->shape.vertex_count,
	};

	return rung__ahead_open(store->cache, layout->vertex_of_rank ? &order : NULL);
}

/* Open the cache over an existing, a new shared, or a private index. */
static int open_cache(struct rung_store *store, int cache_fd)
{
	struct rung__pool *pool = &store->pool;
	struct rung__cache_shape shape = cache_shape(&store->shape);
	int rc = 0, seat_fd = cache_fd; /* seats are locked bytes of the memfd (cache.h) */

	if ((store->share && !store->opts.private_cache) || cache_fd >= 0) {
		rc = map_shared_frames(store, cache_fd);
		seat_fd = cache_fd < 0 ? pool->shared.fd : cache_fd;
	} else {
		pool->index = rung__map_pages(pool->index_bytes);
		if (!pool->index)
			rc = no_memory(pool->index_bytes);
	}
	if (rc == 0)
		rc = rung__cache_open(&shape, pool->index, pool->shared.base ? seat_fd : -1,
		                      cache_fd < 0, window_rows(store), RUNG__CACHE_BATCHES_MAX,
		                      &store->cache);
	/* a device copies rows that waited for the read of another batch from frames */
	if (rc == 0 && !store->device)
		rung__cache_choose_late(store->cache);
	if (rc == 0 && rung__store_reads_ahead(store))
		rc = open_window(store);
	return rc == 0 ? rung__announcer_create(store, &store->announcer) : rc;
}

/* Pin a range of the pool, if it is not empty. @param what  names it in messages */
static int pin(struct rung_store *store, const char *what, uint64_t from, uint64_t bytes)
{
	return bytes ? store->device_ops->pin(store->device, what, store->pool.base + from,
	                                      rung__align_up(bytes, RUNG__PAGE_BYTES))
	             : 0;
}

/* Slots and frames are pinned separately, because they are two mappings if the cache is shared. */
static int pin_pool(struct rung_store *store)
{
	const struct rung__pool *pool = &store->pool;
	int rc = pin(store, "staging slots", 0, pool->frames_at);

	return rc == 0 ? pin(store, "the cold-row cache", pool->frames_at,
	                     pool->bytes - pool->frames_at)
	               : rc;
}

static int open_pool(struct rung_store *store, int cache_fd)
{
	const struct rung__shape *shape = &store->shape;
	struct rung__pool *pool = &store->pool;
	struct rung__cache_shape cache = cache_shape(shape);
	uint64_t slots = shape->slot_count * shape->slot_bytes * shape->layout.file_count;
	int rc = 0;

	pool->frame_bytes = shape->frame_bytes;
	/* the sizes were checked: by the plan, or by an attacher when it received them */
	pool->frames_at = shape->frame_count ? rung__align_up(slots, FRAMES_ALIGN) : slots;
	pool->bytes = pool->frames_at +
	              rung__align_up(shape->frame_count * shape->frame_bytes, RUNG__PAGE_BYTES);
	pool->index_bytes = shape->frame_count ? rung__cache_index_bytes(&cache) : 0;
	pool->base = rung__map_pages(pool->bytes);
	if (!pool->base)
		return no_memory(pool->bytes);
	if (shape->frame_count)
		rc = open_cache(store, cache_fd);
	if (rc == 0)
		rung__store_bind_pool(store);
	return rc == 0 && store->device ? pin_pool(store) : rc;
}

int rung__pool_open(struct rung_store *store, int cache_fd)
{
	int rc = open_pool(store, cache_fd);

	/* an attacher works without the cache if all seats are taken, or if the kernel has no locks
	 * for seats; the statistics report the reason */
	if (cache_fd < 0 || (rc != RUNG_E_BUSY && rc != RUNG_E_NOSUP))
		return rc;
	snprintf(store->cache_why, sizeof(store->cache_why), "%s", rung_last_error());
	rung__pool_close(store);
	store->pool = (struct rung__pool){ .base = NULL };
	store->shape.frame_count = 0;
	return open_pool(store, -1);
}

void rung__pool_close(struct rung_store *store)
{
	struct rung__pool *pool = &store->pool;

	if (store->device && pool->base) {
		store->device_ops->unpin(store->device, pool->base);
		store->device_ops->unpin(store->device, pool->base + pool->frames_at);
	}
	rung__announcer_destroy(store->announcer);
	rung__cache_close(store->cache);
	if (!pool->shared.base)
		rung__unmap_pages(pool->index, pool->index_bytes);
	/* reads write to the second mapping of the frames, which is part of the pool */
	rung__segment_fini(&pool->shared);
	if (!store->reads_lost)
		rung__unmap_pages(pool->base, pool->bytes);
}

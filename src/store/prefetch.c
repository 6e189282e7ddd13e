/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Announcing batches (rung_prefetch()): the cache needs their cold rows, ascending and without
 * repeats.
 *
 * A list of any length is split as rung_gather() splits it, because the cache recognises a batch by
 * its rows. It is announced as a whole or not at all. The calling thread does the work; calls wait
 * for each other, because they share the announcer's arrays.
 */
#include <string.h>

#include "sort/radix.h"
#include "store/store.h"

struct rung__announcer {
	pthread_mutex_t lock; /* guards the arrays; acquired before the cache's lock */
	uint64_t *ranks;      /* [batch_rows_max], followed by scratch memory for the sort */
	uint64_t bytes;       /* size of that memory */
	/* names in the cache of the announced parts of the current list, to withdraw them if a
	 * later part fails */
	uint64_t batches[RUNG__CACHE_BATCHES_MAX];
	uint32_t batch_count;
};

int rung__announcer_create(const struct rung_store *store, struct rung__announcer **announcer_out)
{
	struct rung__announcer *announcer = rung__zalloc(sizeof(*announcer));
	uint64_t rows = store->opts.batch_rows_max;

	if (!announcer)
		return rung__fail(RUNG_E_NOMEM, "store: out of memory");
	/* as much as for the misses of a request: ranks, payload, and a copy of both */
	announcer->bytes = rung__request_bytes(store);
	announcer->ranks = rung__map_growing(announcer->bytes);
	if (!announcer->ranks) {
		rung__free(announcer);
		return rung__fail(RUNG_E_NOMEM,
		                  "store: no memory to announce batches of %" PRIu64 " rows", rows);
	}
	pthread_mutex_init(&announcer->lock, NULL);
	*announcer_out = announcer;
	return 0;
}

void rung__announcer_destroy(struct rung__announcer *announcer)
{
	if (!announcer)
		return;
	pthread_mutex_destroy(&announcer->lock);
	rung__unmap_pages(announcer->ranks, announcer->bytes);
	rung__free(announcer);
}

/* Fail because an id is out of range. `idx`: its position in the caller's list. */
static int outside(const struct rung_store *store, uint64_t id, uint64_t idx)
{
	return rung__fail(RUNG_E_RANGE,
	                  "prefetch: id %" PRId64 " at index %" PRIu64 " is not in 0..%" PRIu64,
	                  (int64_t)id, idx, store->shape.vertex_count - 1);
}

/* Without a cache nothing is announced, but invalid lists fail in the same way. */
static int check_ids(const struct rung_store *store, const struct rung_ids *ids)
{
	for (uint64_t i = 0; i < ids->count; i++) {
		const uint64_t id = rung__gather_id(ids->data, ids->dtype, i);

		if (id >= store->shape.vertex_count)
			return outside(store, id, i);
	}
	return 0;
}

/* List the cold rows of ids first .. first + count in the announcer's ranks, unsorted. */
static int find_cold(const struct rung_store *store, const struct rung_ids *ids, uint64_t first,
                     uint64_t count, uint64_t *cold_out)
{
	uint64_t rank_first = store->shape.tiers[RUNG__TIER_NVME].rank_first, cold = 0;
	const void *map = ids->space == RUNG_VERTICES ? store->rank_of_vertex : NULL;
	unsigned map_bytes = (unsigned)store->shape.map_bytes;

	for (uint64_t i = first; i < first + count; i++) {
		uint64_t id = rung__gather_id(ids->data, ids->dtype, i);

		if (id >= store->shape.vertex_count)
			return outside(store, id, i);
		id = map ? rung__id_get(map, map_bytes, id) : id;
		if (id >= rank_first)
			store->announcer->ranks[cold++] = id;
	}
	*cold_out = cold;
	return 0;
}

/* Sort the announcer's ranks and remove repeats. @return the number of distinct ranks */
static uint64_t sort_distinct(const struct rung_store *store, uint64_t count)
{
	struct rung__announcer *a = store->announcer;
	uint64_t *tmp = a->ranks + count, distinct = 0;
	/* without gaps between the arrays, so that a short list touches few pages; the sort needs a
	 * payload, which is not used here */
	uint32_t *payload = (uint32_t *)(tmp + count);

	rung__radix_sort_pairs(a->ranks, payload, tmp, payload + count, count,
	                       rung__rank_bits(store));
	for (uint64_t i = 0; i < count; i++) {
		if (distinct == 0 || a->ranks[i] != a->ranks[distinct - 1])
			a->ranks[distinct++] = a->ranks[i];
	}
	return distinct;
}

/* Announce ids first .. first + count as one batch. A part without cold rows needs no batch. */
static int announce(struct rung_store *store, const struct rung_ids *ids, uint64_t first,
                    uint64_t count)
{
	struct rung__announcer *a = store->announcer;
	uint64_t cold = 0, batch;
	int rc = find_cold(store, ids, first, count, &cold);

	if (rc < 0 || cold == 0)
		return rc;
	cold = sort_distinct(store, cold);
	rc = rung__cache_announce(store->cache, a->ranks, cold, &batch);
	/* a list of more parts than this can be announced only after some batches have been
	 * gathered */
	if (rc == 0 && a->batch_count < RUNG__CACHE_BATCHES_MAX)
		a->batches[a->batch_count++] = batch;
	if (rc == RUNG_E_AGAIN)
		return rung__fail(rc, "prefetch: the window of announced rows is full; gather some "
		                      "batches first, or open the store with a larger "
		                      "window_rows_max");
	return rc;
}

/* Withdraw the announced parts of a list that failed: the caller may announce all of it again. */
static void reclaim(struct rung_store *store)
{
	struct rung__announcer *a = store->announcer;

	for (uint32_t i = 0; i < a->batch_count; i++)
		rung__cache_end(store->cache, a->batches[i]);
}

int rung__prefetch(struct rung_store *store, const struct rung_ids *ids, uint64_t *batches_out,
                   uint32_t *batch_count_out)
{
	int rc = rung__gather_check(store, ids);

	*batch_count_out = 0;
	if (rc < 0)
		return rc;
	if (!store->cache)
		return check_ids(store, ids);
	pthread_mutex_lock(&store->announcer->lock);
	store->announcer->batch_count = 0;
	for (uint64_t first = 0; first < ids->count && rc == 0; first += store->opts.batch_rows_max)
		rc = announce(store, ids, first,
		              RUNG__MIN(ids->count - first, store->opts.batch_rows_max));
	if (rc < 0) {
		reclaim(store);
	} else if (batches_out) {
		/* copied under the lock, because the next call reuses the array */
		*batch_count_out = store->announcer->batch_count;
		memcpy(batches_out, store->announcer->batches,
		       sizeof(*batches_out) * *batch_count_out);
	}
	pthread_mutex_unlock(&store->announcer->lock);
	return rc;
}

void rung__prefetch_undo(struct rung_store *store, const uint64_t *batches, uint32_t batch_count)
{
	for (uint32_t i = 0; i < batch_count; i++)
		rung__cache_end(store->cache, batches[i]);
}

int rung_prefetch(struct rung_store *store, const struct rung_ids *ids)
{
	uint32_t none;

	return rung__prefetch(store, ids, NULL, &none);
}

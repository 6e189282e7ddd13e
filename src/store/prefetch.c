/* SPDX-License-Identifier: Apache-2.0 */
/* Announcing batches: the cache needs their cold rows, ascending and without repeats. */
#include <string.h>

#include "sort/radix.h"
#include "store/store.h"

struct rung__announcer {
	pthread_mutex_t lock; /* of the arrays */
	uint64_t *ranks;      /* [batch_rows_max], and what sorting them takes */
	uint64_t bytes;
	uint64_t batches[RUNG__CACHE_BATCHES_MAX]; /* of one list */
	uint32_t batch_count;
};

int rung__announcer_create(const struct rung_store *store, struct rung__announcer **announcer_out)
{
	struct rung__announcer *announcer = rung__zalloc(sizeof(*announcer));
	uint64_t rows = store->opts.batch_rows_max;

	if (!announcer)
		return rung__fail(RUNG_E_NOMEM, "store: out of memory");
	announcer->bytes = rung__request_bytes(store);
	announcer->ranks = rung__map_growing(announcer->bytes);
	if (!announcer->ranks) {
		rung__free(announcer);
		return rung__fail(RUNG_E_NOMEM,
		                  "store: no memory for announcements of %" PRIu64 " rows", rows);
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

static int outside(const struct rung_store *store, uint64_t id, uint64_t idx)
{
	return rung__fail(RUNG_E_RANGE,
	                  "prefetch: id %" PRId64 " at index %" PRIu64 " is not in 0..%" PRIu64,
	                  (int64_t)id, idx, store->shape.vertex_count - 1);
}

/* Without a cache, invalid lists must fail in the same way. */
static int check_ids(const struct rung_store *store, const struct rung_ids *ids)
{
	for (uint64_t i = 0; i < ids->count; i++) {
		const uint64_t id = rung__gather_id(ids->data, ids->dtype, i);

		if (id >= store->shape.vertex_count)
			return outside(store, id, i);
	}
	return 0;
}

/* Cold rows of ids first .. first + count. */
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

static uint64_t sort_distinct(const struct rung_store *store, uint64_t count)
{
	struct rung__announcer *a = store->announcer;
	uint64_t *tmp = a->ranks + count, distinct = 0;
	uint32_t *payload = (uint32_t *)(tmp + count); /* without gaps: few rows are few pages */

	rung__radix_sort_pairs(a->ranks, payload, tmp, payload + count, count,
	                       rung__rank_bits(store));
	for (uint64_t i = 0; i < count; i++) {
		if (distinct == 0 || a->ranks[i] != a->ranks[distinct - 1])
			a->ranks[distinct++] = a->ranks[i];
	}
	return distinct;
}

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
	/* more only after some have been gathered */
	if (rc == 0 && a->batch_count < RUNG__CACHE_BATCHES_MAX)
		a->batches[a->batch_count++] = batch;
	if (rc == RUNG_E_AGAIN)
		return rung__fail(rc, "prefetch: the window of announced rows is full: gather some "
		                      "batches first, or open the store with a larger "
		                      "window_rows_max");
	return rc;
}

/* Withdraw a list that was announced in part: it will be announced again. */
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

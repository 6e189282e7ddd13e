/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Properties and statistics of a store, and memory that its gathers can write to. Any thread may
 * call these functions while gathers run.
 */
#include <string.h>

#include "store/store.h"

int rung_store_alloc(struct rung_store *store, uint64_t bytes, void **memory_out)
{
	if (store->device)
		return store->device_ops->alloc(store->device, bytes, memory_out);
	*memory_out = rung__malloc_huge(bytes);
	return *memory_out ? 0
	                   : rung__fail(RUNG_E_NOMEM, "store: no host memory for %" PRIu64 " bytes",
	                                bytes);
}

void rung_store_free(struct rung_store *store, void *memory)
{
	if (store->device)
		store->device_ops->free(store->device, memory);
	else
		rung__free(memory);
}

int rung_store_copy(struct rung_store *store, void *to, const void *from, uint64_t bytes)
{
	if (store->device)
		return store->device_ops->copy(store->device, to, from, bytes);
	memcpy(to, from, bytes);
	return 0;
}

/* All counters but those of the cache. Tiers that a store on the CPU cannot have are left out.
 * Counters are independent of each other, and a snapshot of a running store need not add up. */
static void fill_stats(const struct rung_store *store, struct rung_store_stats *stats)
{
	static const char *const names[] = {
#define TIER_NAME(id, name) [id] = name,
		RUNG__TIER_LIST(TIER_NAME)
#undef TIER_NAME
	};
	const struct rung__counters *counters = &store->watch->page->counters;

	for (unsigned t = rung__first_tier(store->device != NULL); t < RUNG__TIER_COUNT; t++) {
		unsigned i = stats->tier_count++;

		stats->tiers[i].name = names[t];
		stats->tiers[i].rows = store->shape.tiers[t].row_count;
		stats->tiers[i].hits =
			atomic_load_explicit(&counters->tier_hits[t], memory_order_relaxed);
		stats->tiers[i].bytes = stats->tiers[i].hits * store->shape.layout.row_bytes;
	}
	rung__watch_sum(store->watch->page, store->refill_count, rung__now_ns(), stats);
	stats->stats_page_why = store->watch->why;
}

int rung_store_stats(const struct rung_store *store, struct rung_store_stats *stats_out)
{
	/* the engine's fields keep these values in a store without a refill thread */
	struct rung_store_stats stats = { .engine = "none",
		                          .engine_why = "every row is in memory" };

	/* without a device thread, requests that were put early are counted when they are
	 * reclaimed */
	if (store->device && !store->device_thread)
		rung__request_harvest((struct rung_store *)store, false);
	fill_stats(store, &stats);
	/* from the last file to the first: each call overwrites the texts about the engine, and
	 * those of the first file are reported */
	for (uint32_t f = store->refill_count; f-- > 0;)
		rung__refill_stats(store->refills[f], &stats);
	if (store->cache) {
		stats.cache_rows = store->shape.frame_count;
		rung__cache_lock(store->cache);
		stats.cache_rows_filled = rung__cache_filled_count(store->cache);
		rung__cache_unlock(store->cache);
		rung__cache_waits(store->cache, &stats.cache_timeouts, &stats.cache_wait_ns);
	}
	/* pointers into the store: valid until it is closed */
	stats.cache_why = store->cache_why;
	stats.placements = store->placements;
	stats.placement_count = store->placement_count;
	return rung__opts_copy_out(stats_out, &stats, sizeof(stats), "rung_store_stats");
}

int rung_store_info(const struct rung_store *store, struct rung_store_info *info_out)
{
	struct rung_store_info info = {
		.vertex_count = store->shape.vertex_count,
		.features = rung__store_array(store),
		.dataset_dir = store->dataset_dir,
		.attached = store->attached,
		.device = store->device ? RUNG_DEVICE_CUDA : RUNG_DEVICE_CPU,
		.gpu = store->device ? store->gpus[0] : -1,
		.gpu_count = (uint32_t)store->shape.gpu_count,
		.map_on_gpu = store->device && store->shape.map_on_gpu && store->rank_of_vertex,
		.quantization = {
			.format = (enum rung_quant_format)store->shape.quant.format,
			.scales = (enum rung_quant_scales)store->shape.quant.scales,
			.columns = store->shape.quant.columns,
			.column_scales = store->scales_memory.base,
		},
	};

	if (info.quantization.format != RUNG_QUANT_NONE)
		info.quantization.row_bytes = store->shape.layout.row_bytes;

	return rung__opts_copy_out(info_out, &info, sizeof(info), "rung_store_info");
}

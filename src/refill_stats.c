/* SPDX-License-Identifier: Apache-2.0 */
/* What the refill threads have counted, for statistics. Any thread, while they run. */
#include "refill_internal.h"

static uint64_t counter(const _Atomic uint64_t *value)
{
	return atomic_load_explicit(value, memory_order_relaxed);
}

static void add_counters(const struct rung__refill_counters *c, struct rung_store_stats *stats)
{
	stats->device_reads += counter(&c->device_reads);
	stats->device_read_bytes += counter(&c->device_read_bytes);
	stats->merged_rows += counter(&c->merged_rows);
	stats->retries += counter(&c->retries);
	stats->cache_hits += counter(&c->cache_hits);
	stats->joined_rows += counter(&c->joined_rows);
	stats->read_rows += counter(&c->read_rows);
	stats->duplicate_rows += counter(&c->duplicate_rows);
	stats->failed_rows += counter(&c->failed_rows);
	for (unsigned s = 0; s < RUNG_STAGE_COUNT; s++) {
		for (unsigned b = 0; b < RUNG_LATENCY_BUCKETS; b++)
			stats->stages[s][b] += counter(&c->stages[s][b]);
	}
}

uint32_t rung__refill_client(const struct rung__refill *refill)
{
	return refill->client;
}

uint32_t rung__refill_align(const struct rung__refill *refill)
{
	return refill->geometry.align;
}

void rung__refill_stats(const struct rung__refill *refill, struct rung_store_stats *stats)
{
	add_counters(&refill->counters, stats);
	stats->queue_depth = refill->depth;
	stats->sector_bytes = refill->geometry.align;
	stats->gap_bytes = (uint32_t)refill->gap_bytes;
	stats->read_bytes_max = refill->read_bytes_max;
	stats->engine = refill->engine.name;
	stats->engine_why = refill->engine.why;
	stats->direct = refill->engine.direct;
}

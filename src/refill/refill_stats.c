/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of the refill threads, for statistics. Any thread may read them while they run; engine
 * and geometry do not change after the start. */
#include "refill/state.h"

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
	stats->late_rows += counter(&c->late_rows);
	for (unsigned s = 0; s < RUNG_READ_PHASE_COUNT; s++) {
		for (unsigned b = 0; b < RUNG_LATENCY_BUCKETS; b++)
			stats->phases[s][b] += counter(&c->phases[s][b]);
	}
}

uint32_t rung__refill_align(const struct rung__refill *refill)
{
	return refill->geometry.align;
}

/* The texts belong to the reader, which is closed with the store. */
static void report_engine(const struct rung__engine_state *engine, struct rung_store_stats *stats)
{
	stats->engine = engine->name;
	stats->engine_why = engine->why;
	stats->direct = engine->direct;
	stats->engine_step_count = engine->step_count;
	stats->engine_part_count = engine->part_count;
	for (uint32_t i = 0; i < engine->step_count; i++)
		stats->engine_steps[i] = engine->steps[i];
	for (uint32_t i = 0; i < engine->part_count; i++)
		stats->engine_parts[i] = engine->parts[i];
}

void rung__refill_stats(const struct rung__refill *refill, struct rung_store_stats *stats)
{
	add_counters(&refill->counters, stats);
	stats->queue_depth = refill->depth;
	stats->sector_bytes = refill->geometry.align;
	stats->merge_gap_bytes = (uint32_t)refill->rule.merge_gap_bytes;
	stats->read_bytes_max = (uint32_t)refill->rule.read_bytes_max;
	report_engine(&refill->engine, stats);
}

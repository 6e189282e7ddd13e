/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of the refill threads, for statistics. Any thread may read them while they run: engine
 * and geometry do not change after the start. */
#include "refill/state.h"

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
	stats->queue_depth = (uint32_t)RUNG__MIN(refill->store->opts.queue_depth,
	                                         refill->store->shape.slot_count);
	stats->refill_threads = refill->store->threads_per_file;
	stats->sector_bytes = refill->geometry.align;
	stats->merge_gap_bytes = (uint32_t)refill->rule.merge_gap_bytes;
	stats->read_bytes_max = (uint32_t)refill->rule.read_bytes_max;
	report_engine(&refill->engine, stats);
	stats->file_engines[refill->file_idx] = refill->engine.name;
	stats->file_count = (uint32_t)refill->layout.file_count;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Rows with rung: several requests in flight, with or without the cache and announced batches. */
#include <inttypes.h>
#include <stdlib.h>

#include "cold.h"

struct cold_store {
	struct rung_store *store;
	struct rung_request *requests[COLD_BUFFERS];
	uint64_t announced; /* batches before this one are announced */
};

/* A plan for exactly the given rows, or for all of the given memory. */
static struct rung_plan *plan_rows(const struct rung_dataset *ds, struct cold_run *run)
{
	struct rung_plan_opts opts = RUNG_PLAN_OPTS_INIT;
	const struct rung_plan_slots *slots;
	struct rung_plan *plan;

	if (!run->memory_bytes)
		return bench_plan(ds, run->resident, run->cache_rows, run->depth);
	opts.device = RUNG_DEVICE_CPU;
	opts.queue_depth = run->depth;
	opts.host_bytes = run->memory_bytes;
	opts.cache_bytes =
		run->cache_rows ? run->cache_rows * run->features.row_stride : RUNG_BYTES_NONE;
	bench_need(rung_plan_create(ds, &opts, &plan), "planning");
	slots = rung_plan_slots(plan);
	run->resident = rung_plan_tier(plan, 0)->row_count;
	run->cache_rows = rung_plan_cache(plan)->row_count;
	run->buffer_bytes = slots->slot_count * slots->slot_bytes + rung_plan_cache(plan)->bytes;
	return plan;
}

static void open_rung(struct cold_run *run)
{
	struct rung_store_opts opts = RUNG_STORE_OPTS_INIT;
	struct cold_store *state = calloc(1, sizeof(*state));
	struct rung_dataset *ds;
	struct rung_plan *plan;

	if (!state)
		bench_die("out of memory");
	bench_need(rung_dataset_open(run->dir, &ds), "opening the dataset");
	plan = plan_rows(ds, run);
	opts.requests_max = COLD_BUFFERS;
	opts.batch_rows_max = (uint32_t)run->rows_max;
	opts.queue_depth = run->depth;
	opts.no_merge = run->no_merge;
	if (run->gap)
		opts.merge_gap_bytes = run->gap > 1 ? run->gap - 1 : RUNG_MERGE_GAP_NONE;
	opts.window = run->no_window ? RUNG_WINDOW_NONE : 0;
	/* not the default of four times the cache, above which more look-ahead is expected to gain
	 * nothing: this benchmark verifies that */
	opts.window_rows_max = (run->ahead + COLD_BUFFERS) * run->rows_max;
	bench_need(rung_store_open(ds, plan, &opts, &state->store), "opening the store");
	run->slot_bytes = (uint32_t)rung_plan_slots(plan)->slot_bytes;
	rung_plan_destroy(plan);
	rung_dataset_close(ds);
	run->state = state;
}

static struct rung_ids ids_of(const struct cold_run *run, uint64_t batch)
{
	return (struct rung_ids){ .data = run->batches[batch].ranks,
		                  .count = run->batches[batch].count,
		                  .dtype = RUNG_U64,
		                  .space = RUNG_RANKS };
}

/* Keeps `ahead` batches after the current one announced. */
static void announce(const struct cold_run *run, struct cold_store *state, uint64_t batch)
{
	if (run->ahead == 0)
		return;
	for (; state->announced <= batch + run->ahead && state->announced < run->batch_count;
	     state->announced++) {
		struct rung_ids ids = ids_of(run, state->announced);

		bench_need(rung_prefetch(state->store, &ids), "announcing a batch");
	}
}

static void begin_rung(struct cold_run *run, uint64_t batch, unsigned char *out)
{
	struct cold_store *state = run->state;
	struct rung_ids ids = ids_of(run, batch);

	announce(run, state, batch);
	bench_need(rung_gather_submit(state->store, &ids, out, 0, RUNG_STREAM_OWN,
	                              &state->requests[batch % COLD_BUFFERS]),
	           "gathering");
}

static void end_rung(struct cold_run *run, uint64_t batch)
{
	struct cold_store *state = run->state;

	bench_need(rung_request_wait(state->requests[batch % COLD_BUFFERS], -1), "gathering");
	rung_request_put(state->requests[batch % COLD_BUFFERS]);
}

static void counted_rung(struct cold_run *run)
{
	struct rung_store_stats stats = { .size = sizeof(stats) };

	bench_need(rung_store_stats(((struct cold_store *)run->state)->store, &stats),
	           "reading the counters");
	run->reads = stats.device_reads;
	run->read_bytes = stats.device_read_bytes;
	run->saved_rows = stats.cache_hits + stats.joined_rows;
	run->duplicate_rows = stats.duplicate_rows;
	run->merge_gap_bytes = stats.merge_gap_bytes;
	if (!run->memory_bytes && stats.tiers[0].hits != 0)
		bench_die("%" PRIu64 " rows came from memory, but all requested rows are cold",
		          stats.tiers[0].hits);
}

static void close_rung(struct cold_run *run)
{
	struct cold_store *state = run->state;

	bench_need(rung_store_close(state->store), "closing the store");
	free(state);
}

const struct cold_strategy cold_rung = { "rung",   open_rung,    NULL,       begin_rung,
	                                 end_rung, counted_rung, close_rung, NULL };

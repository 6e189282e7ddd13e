/* SPDX-License-Identifier: Apache-2.0 */
/* Stores with a given placement of rows, and a gather from them on the stream. */
#include <string.h>

#include "bench.h"

#define POSES_AS 3 /* GPUs that one GPU represents */

/* Budgets for rows on one GPU that is listed three times: the replicated rows, and each GPU's share
 * of the interleaved rows. */
static void place_on_gpus(const struct bench *b, const struct bench_data *data,
                          const struct bench_place *placement, int gpus[POSES_AS],
                          struct rung_plan_opts *opts)
{
	/* the plan subtracts the map first; 4 bytes each below 2^32 vertices */
	uint64_t map_bytes = placement->vertex_ids ? data->row_count * 4 : 0;

	for (int i = 0; i < POSES_AS; i++)
		gpus[i] = b->gpu;
	opts->gpus = gpus;
	opts->gpu_count = placement->peer_rows ? POSES_AS : 1;
	opts->replicate_bytes = placement->gpu_rows * data->row_stride;
	opts->gpu_bytes = opts->replicate_bytes +
	                  (placement->peer_rows + POSES_AS - 1) / POSES_AS * data->row_stride;
	if (map_bytes && map_bytes <= opts->gpu_bytes)
		opts->gpu_bytes += map_bytes;
	if (opts->gpu_bytes == 0)
		opts->gpu_bytes = RUNG_BYTES_NONE;
}

void bench_store_open(const struct bench *b, const struct bench_data *data,
                      const struct bench_place *placement, struct bench_store *out)
{
	struct rung_plan_opts plan_opts = RUNG_PLAN_OPTS_INIT;
	struct rung_store_opts opts = RUNG_STORE_OPTS_INIT;
	int gpus[POSES_AS];

	plan_opts.host_bytes = placement->host_bytes;
	plan_opts.device = placement->device;
	plan_opts.vertex_ids = placement->vertex_ids;
	if (placement->device == RUNG_DEVICE_CUDA)
		place_on_gpus(b, data, placement, gpus, &plan_opts);
	opts.batch_rows_max = placement->batch_rows_max;
	opts.requests_max = placement->requests_max;
	opts.vertex_ids = placement->vertex_ids;
	opts.share_path = placement->share_path;
	bench_need(rung_plan_create(data->ds, &plan_opts, &out->plan), "planning");
	bench_need(rung_store_open(data->ds, out->plan, &opts, &out->store), "opening the store");
}

void bench_store_close(struct bench_store *store)
{
	bench_need(rung_store_close(store->store), "closing the store");
	rung_plan_destroy(store->plan);
}

const struct rung_plan_tier *bench_tier(const struct bench_store *store, const char *name)
{
	const struct rung_plan_tier *tier;

	for (unsigned i = 0; (tier = rung_plan_tier(store->plan, i)) != NULL; i++)
		if (strcmp(tier->name, name) == 0)
			return tier;
	bench_die("the plan has no tier '%s'", name);
}

struct rung_store_stats bench_stats(const struct bench_store *store)
{
	struct rung_store_stats stats = { .size = sizeof(stats) };

	bench_need(rung_store_stats(store->store, &stats), "reading the counters");
	return stats;
}

uint64_t bench_hits(const struct bench_store *store, const char *name)
{
	struct rung_store_stats stats = bench_stats(store);

	for (uint32_t i = 0; i < stats.tier_count; i++)
		if (strcmp(stats.tiers[i].name, name) == 0)
			return stats.tiers[i].hits;
	return 0; /* the device has no such tier */
}

void bench_gather(const struct bench *b, struct rung_store *store, const uint64_t *device_ranks,
                  uint64_t count, void *out, uint64_t stride)
{
	struct rung_ids ids = { device_ranks, count, RUNG_U64, RUNG_RANKS };
	struct rung_request *request;

	bench_need(rung_gather_submit(store, &ids, out, stride, b->stream, &request), "gathering");
	bench_need(rung_request_wait_stream(request, b->stream), "waiting for rows");
	rung_request_put(request);
}

uint64_t bench_verify(const struct bench *b, const struct bench_data *data,
                      struct rung_store *store, const struct bench_lists *lists, void *out,
                      uint64_t stride)
{
	struct rung_ids ids = { lists->device[0], lists->count, RUNG_U64, RUNG_RANKS };
	struct rung_request *request;

	bench_poison(out, (lists->count - 1) * stride + data->row_bytes);
	bench_need(rung_gather_submit(store, &ids, out, stride, b->stream, &request), "gathering");
	/* after this wait the counters include this batch and all before it */
	bench_need(rung_request_wait(request, -1), "gathering");
	rung_request_put(request);
	bench_verify_output(data, lists->ranks[0], lists->count, out, stride);
	return lists->count;
}

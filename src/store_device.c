/* SPDX-License-Identifier: Apache-2.0 */
/* The device of a store: which GPU, and what of the store's memory it is given. */
#include <stdlib.h>
#include <string.h>

#include "store_internal.h"

int rung__store_choose_device(struct rung_store *store, const int *gpus, uint32_t gpu_count)
{
	struct rung_gpu_info info;
	int rc;

	store->device_ops = rung__device_find(RUNG_DEVICE_CUDA);
	if (!store->device_ops)
		return RUNG_E_NOSUP;
	rc = store->device_ops->gpu_info(gpus[0], &info);
	if (rc < 0)
		return rc;
	memcpy(store->gpus, gpus, sizeof(*gpus) * gpu_count);
	store->shape.gpu_count = gpu_count;
	return 0;
}

/* Then the launch of a copy that waits for rows would itself wait, in the thread that has yet to ask for them. */
static bool launches_block(void)
{
	const char *value = getenv("CUDA_LAUNCH_BLOCKING");

	return value && *value && strcmp(value, "0") != 0;
}

/* Room for cold rows, where they are to be copied on the caller's stream. */
static int take_stages(struct rung_store *store)
{
	if (store->opts.stream_rows_max == 0 || store->shape.tiers[RUNG__TIER_NVME].row_count == 0 || launches_block())
		return 0;
	for (uint32_t i = 0; i < store->request_count; i++) {
		store->requests[i].stage = rung__map_pages(rung__stage_bytes(store));
		if (!store->requests[i].stage)
			return rung__fail(RUNG_E_NOMEM, "store: no memory for %u cold rows of each of %u requests: give a smaller stream_rows_max",
			                  store->opts.stream_rows_max, store->request_count);
	}
	return 0;
}

static struct rung__ranks ranks_of(const struct rung_store *store, enum rung__tier_id tier)
{
	return (struct rung__ranks){ store->shape.tiers[tier].rank_first, store->shape.tiers[tier].row_count };
}

/* Behind the host tier and the map, which it registers. */
int rung__store_open_device(struct rung_store *store, const struct rung__gpu_handle *peer_handles)
{
	uint64_t host_rows = store->shape.tiers[RUNG__TIER_HOST].row_count;
	struct rung__lists *lists = rung__malloc_array(store->request_count, sizeof(*lists));
	struct rung__device_args args = {
		.gpus = store->gpus,
		.gpu_count = (uint32_t)store->shape.gpu_count,
		.features = &store->features,
		.vertex_count = store->shape.vertex_count,
		.local = ranks_of(store, RUNG__TIER_GPU),
		.peer = ranks_of(store, RUNG__TIER_PEER),
		.peer_handles = peer_handles,
		.host = store->host_view,
		.host_bytes = rung__align_up(host_rows * store->shape.layout.row_stride, RUNG__PAGE_BYTES),
		.rank_of_vertex = store->rank_of_vertex,
		.map_bytes = (unsigned)store->shape.map_bytes,
		.map_on_gpu = store->shape.map_on_gpu,
		.sealed = store->share || store->attached,
		.lists = lists,
		.request_count = store->request_count,
	};
	int rc;

	if (!lists)
		return rung__fail(RUNG_E_NOMEM, "store: out of memory");
	rc = take_stages(store);
	if (rc < 0)
		goto free_lists;
	for (uint32_t i = 0; i < store->request_count; i++) {
		const struct rung__misses *misses = &store->requests[i].misses;

		lists[i] = (struct rung__lists){ misses->ranks, misses->ranks_tmp, misses->rows, misses->rows_tmp, misses->ranks,
		                                 rung__align_up(rung__request_bytes(store), RUNG__PAGE_BYTES), store->requests[i].stage, rung__stage_bytes(store) };
	}
	args.stage_rows = store->requests[0].stage ? store->opts.stream_rows_max : 0;
	rc = store->device_ops->open(&args, &store->device);
free_lists:
	rung__free(lists);
	return rc;
}

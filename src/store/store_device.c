/* SPDX-License-Identifier: Apache-2.0 */
/* The device of a store: which GPU, and what of the store's memory it is given. */
#include <string.h>

#include "store/store.h"

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

static struct rung__ranks ranks_of(const struct rung_store *store, enum rung__tier_id tier)
{
	return (struct rung__ranks){ store->shape.tiers[tier].rank_first,
		                     store->shape.tiers[tier].row_count };
}

/* Room for the ranks of ids that callers have in plain host memory. */
static int open_known(struct rung_store *store)
{
	const uint64_t bytes =
		rung__align_up((uint64_t)store->opts.batch_rows_max * rung__known_rank_bytes(store),
	                       RUNG__PAGE_BYTES);

	store->known_bytes = bytes * store->request_count;
	store->known_ranks = rung__map_pages(store->known_bytes);
	if (!store->known_ranks)
		return rung__fail(RUNG_E_NOMEM, "store: no memory for the ids of %u requests",
		                  store->request_count);
	for (uint32_t i = 0; i < store->request_count; i++)
		store->requests[i].ranks = (char *)store->known_ranks + i * bytes;
	return store->device_ops->pin(store->device, "the ids of requests", store->known_ranks,
	                              store->known_bytes);
}

/* After the host tier and the map, which it registers. */
int rung__store_open_device(struct rung_store *store, const struct rung__gpu_handle *peer_handles)
{
	uint64_t host_rows = store->shape.tiers[RUNG__TIER_HOST].row_count;
	struct rung__request_buffers *lists =
		rung__malloc_array(store->request_count, sizeof(*lists));
	struct rung__device_args args = {
		.gpus = store->gpus,
		.gpu_count = (uint32_t)store->shape.gpu_count,
		.features = &store->features,
		.vertex_count = store->shape.vertex_count,
		.local = ranks_of(store, RUNG__TIER_GPU),
		.peer = ranks_of(store, RUNG__TIER_PEER),
		.peer_handles = peer_handles,
		.host = store->host_view,
		.host_bytes = rung__align_up(host_rows * store->shape.layout.row_stride,
		                             RUNG__PAGE_BYTES),
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
	for (uint32_t i = 0; i < store->request_count; i++) {
		const struct rung__misses *misses = &store->requests[i].misses;

		lists[i] = (struct rung__request_buffers){
			.miss_ranks = misses->ranks,
			.offsets = misses->ranks_tmp,
			.miss_rows = misses->rows,
			.out_rows = misses->rows_tmp,
			.block = misses->ranks,
			.block_bytes = rung__align_up(rung__request_bytes(store), RUNG__PAGE_BYTES),
		};
	}
	rc = store->device_ops->open(&args, &store->device);
	rung__free(lists);
	return rc < 0 ? rc : open_known(store);
}

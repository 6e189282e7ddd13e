/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device of a store: which GPU gathers, and which memory of the store it can access.
 *
 * All of it is registered (pinned) when the store is opened, so no gather has to do it: the host
 * tier, the map unless it is on the GPU, the lists of each request, where the kernel writes misses,
 * the ranks of ids from plain host memory (below), and the pool (pool.c).
 */
#include <string.h>

#include "store/store.h"

int rung__store_choose_device(struct rung_store *store, const int *gpus, uint32_t gpu_count)
{
	struct rung_gpu_info info;
	int rc;

	store->device_ops = rung__device_find(RUNG_DEVICE_CUDA);
	if (!store->device_ops) /* rung__device_find() has recorded the reason for the failure */
		return RUNG_E_NOSUP;
	rc = store->device_ops->gpu_info(gpus[0], &info);
	if (rc < 0)
		return rc;
	memcpy(store->gpus, gpus, sizeof(*gpus) * gpu_count);
	store->shape.gpu_count = gpu_count;
	return 0;
}

/* The ranks of a tier, as the device needs them. */
static struct rung__ranks ranks_of(const struct rung_store *store, enum rung__tier_id tier)
{
	return (struct rung__ranks){ store->shape.tiers[tier].rank_first,
		                     store->shape.tiers[tier].row_count };
}

/* Allocate and pin space in each request for the ranks of ids from plain host memory (known.c):
 * whole pages each, in one block. */
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

int rung__store_open_device(struct rung_store *store, const struct rung__gpu_handle *peer_handles)
{
	uint64_t host_rows = store->shape.tiers[RUNG__TIER_HOST].row_count;
	struct rung__request_buffers *lists =
		rung__malloc_array(store->request_count, sizeof(*lists));
	struct rung__device_args args = {
		.gpus = store->gpus,
		.gpu_count = (uint32_t)store->shape.gpu_count,
		.features = &store->features,
		.form = &store->form,
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
		.sealed = store->share || store->attached, /* registered as read-only then */
		.lists = lists,
		.request_count = store->request_count,
	};
	int rc;

	if (!lists)
		return rung__fail(RUNG_E_NOMEM, "store: out of memory");
	for (uint32_t i = 0; i < store->request_count; i++) {
		const struct rung__misses *misses = &store->requests[i].misses;

		/* once the misses are sorted, refill uses the tmp arrays for the rows that the
		 * scatter copies: their positions in the pool and their output rows */
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
	rung__free(lists); /* freed here, because the device has copied the pointers */
	return rc < 0 ? rc : open_known(store);
}

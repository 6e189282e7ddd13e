/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the device: rows in GPU memory, and host memory that the GPU reads over the link.
 *
 * Host memory is registered in chunks, so that a failure says how far it came.
 */
#include <string.h>

#include "host/gpu.h"

#define BLOCK_BYTES (2ull << 20)      /* smaller allocations are parts of one block */

int rung__gpu_take(int gpu, const char *what, uint64_t bytes, void **memory_out)
{
	size_t free_bytes = 0, total_bytes = 0;
	int before, rc = rung__gpu_enter(gpu, &before);
	cudaError_t err;

	if (rc < 0)
		return rc;
	err = cudaMalloc(memory_out, (size_t)bytes);
	if (err == cudaErrorMemoryAllocation) {
		(void)cudaGetLastError();
		(void)cudaMemGetInfo(&free_bytes, &total_bytes);
		rc = rung__fail(RUNG_E_NOMEM, "cuda: GPU %d: no room for %s of %" PRIu64 " bytes: %zu of %zu bytes are free: give a smaller GPU "
		                "budget, or end what uses the GPU", gpu, what, bytes, free_bytes, total_bytes);
	} else {
		rc = cuda_status(err, what);
	}
	rung__gpu_leave(before);
	return rc;
}

/* Also when CUDA has broken down and no GPU can be made current. */
void rung__gpu_give_back(int gpu, void *memory)
{
	int before = gpu;

	if (!memory)
		return;
	(void)rung__gpu_enter(gpu, &before);
	if (before == RUNG__GPU_EXITING)
		return;
	(void)cudaFree(memory);
	rung__gpu_leave(before);
}

/* ---- host memory ---- */

/* ---- tiers ---- */

int rung__gpu_reach(const struct rung__device *device, int gpu)
{
	cudaError_t err;
	int before, rc;

	if (gpu == device->gpu)
		return 0;
	rc = rung__gpu_enter(device->gpu, &before);
	if (rc < 0)
		return rc;
	err = cudaDeviceEnablePeerAccess(gpu, 0);
	rung__gpu_leave(before);
	if (err == cudaErrorPeerAccessAlreadyEnabled) {
		(void)cudaGetLastError();
		return 0;
	}
	if (err == cudaErrorPeerAccessUnsupported) {
		(void)cudaGetLastError();
		return rung__fail(RUNG_E_NOSUP, "cuda: GPU %d cannot read the memory of GPU %d: make the plan on this machine, or name one GPU",
		                  device->gpu, gpu);
	}
	return cuda_status(err, "letting a GPU read another's memory");
}

static int open_peer(struct rung__device *device, const struct rung__device_args *args)
{
	uint64_t stride = args->features->layout.row_stride;
	int rc = 0;

	device->peer_is_ours = !args->peer_handles;
	for (uint32_t g = 0; g < args->gpu_count && args->peer.row_count > 0 && rc == 0; g++) {
		uint64_t rows = (args->peer.row_count + args->gpu_count - 1 - g) / args->gpu_count;
		uint64_t bytes = rows * stride;

		if (args->peer_handles) {
			cudaIpcMemHandle_t handle;

			memcpy(&handle, args->peer_handles[g].bytes, sizeof(handle));
			rc = rows == 0 ? 0 : cuda_status(cudaIpcOpenMemHandle(&device->peer[g], handle, cudaIpcMemLazyEnablePeerAccess),
			                                 "opening GPU memory of the process that shares the store");
			continue;
		}
		rc = rung__gpu_reach(device, args->gpus[g]);
		if (args->sealed)   /* a handle opens the whole block, with all that is in it */
			bytes = rung__align_up(bytes, BLOCK_BYTES);
		if (rc == 0 && rows > 0)
			rc = rung__gpu_take(args->gpus[g], "rows of the tier \"peer\"", bytes,
			                    &device->peer[g]);
	}
	return rc;
}

static int open_map(struct rung__device *device, const struct rung__device_args *args)
{
	uint64_t bytes = args->vertex_count * args->map_bytes;
	int rc;

	if (!args->rank_of_vertex)
		return 0;
	if (!args->map_on_gpu)
		return rung__gpu_pin(device, "rank_of_vertex", (void *)args->rank_of_vertex, rung__align_up(bytes, RUNG__PAGE_BYTES), args->sealed);
	rc = rung__gpu_take(device->gpu, "rank_of_vertex", bytes, &device->map);
	if (rc == 0)
		rc = cuda_status(cudaMemcpy(device->map, args->rank_of_vertex, (size_t)bytes, cudaMemcpyHostToDevice), "copying rank_of_vertex");
	if (rc == 0)   /* cudaMemcpy may return before all of it has arrived */
		rc = cuda_status(cudaStreamSynchronize(NULL), "copying rank_of_vertex");
	return rc;
}

static int add_view(struct rung__device *device, const struct rung__cuda_view *view)
{
	device->gather.views[device->gather.view_count] = *view;
	return (int)device->gather.view_count++;
}

static void set_views(struct rung__device *device, const struct rung__device_args *args)
{
	uint64_t stride = args->features->layout.row_stride;
	struct rung__cuda_view view = { .base_count = 1, .stride = stride };

	device->local_view = device->peer_view = device->host_view = -1;
	view.base[0] = device->local;
	view.rank_end = args->local.row_count;
	if (args->local.row_count > 0)
		device->local_view = add_view(device, &view);
	view.rank_end += args->peer.row_count;
	view.base_count = args->gpu_count;
	for (uint32_t g = 0; g < args->gpu_count; g++)
		view.base[g] = device->peer[g];
	if (args->peer.row_count > 0)
		device->peer_view = add_view(device, &view);
	view = (struct rung__cuda_view){ .base = { args->host.base }, .base_count = 1, .over_link = 1, .stride = args->host.stride,
	                                 .rank_end = view.rank_end + args->host.row_count };
	if (args->host.row_count > 0)
		device->host_view = add_view(device, &view);
	device->gather.row_count = args->vertex_count;
	device->gather.row_bytes = (uint32_t)device->row_bytes;
	device->gather.map_bytes = args->map_bytes;
	device->gather.rank_of_vertex = device->map ? device->map : args->rank_of_vertex;
}

int rung__gpu_open_tiers(struct rung__device *device, const struct rung__device_args *args)
{
	uint64_t stride = args->features->layout.row_stride;
	int rc = 0;

	if (args->local.row_count > 0)
		rc = rung__gpu_take(device->gpu, "rows of the tier \"gpu\"", args->local.row_count * stride, &device->local);
	if (rc == 0)
		rc = open_peer(device, args);
	if (rc == 0)
		rc = open_map(device, args);
	if (rc == 0)
		rc = rung__gpu_load(device, args->features, &args->local, &device->local, 1);
	if (rc == 0 && device->peer_is_ours)
		rc = rung__gpu_load(device, args->features, &args->peer, device->peer, args->gpu_count);
	if (rc == 0 && args->host.row_count > 0)
		rc = rung__gpu_pin(device, "the host tier", (void *)args->host.base, args->host_bytes, args->sealed);
	if (rc == 0)
		set_views(device, args);
	return rc;
}

void rung__gpu_close_tiers(struct rung__device *device)
{
	rung__gpu_give_back(device->gpu, device->local);
	rung__gpu_give_back(device->gpu, device->map);
	for (uint32_t g = 0; g < device->gpu_count; g++) {
		if (device->peer_is_ours && !device->peer_is_left)
			rung__gpu_give_back(device->gpus[g], device->peer[g]);
		else if (device->peer[g] && !device->peer_is_ours)
			(void)cudaIpcCloseMemHandle(device->peer[g]);
	}
}

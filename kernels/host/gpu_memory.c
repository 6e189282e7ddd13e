/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the device: rows in GPU memory, and host memory that the GPU reads over the link.
 *
 * The tiers are opened in the order of their ranks: "gpu" (replicated rows), "peer" (interleaved
 * over the GPUs, or opened from the process that shares the store), "host". Each becomes a view of
 * the gather kernel. rung__gpu_close_tiers() releases them, also after a failed open.
 */
#include <string.h>

#include "host/gpu.h"

/* CUDA allocates blocks of this size, each of which can contain several small allocations */
#define BLOCK_BYTES (2ull << 20)

int rung__gpu_alloc(int gpu, const char *what, uint64_t bytes, void **memory_out)
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
		rc = rung__fail(
			RUNG_E_NOMEM,
			"cuda: GPU %d: not enough memory for %s of %" PRIu64
			" bytes: only %zu of %zu bytes are free; set a smaller GPU budget, or "
			"end other programs on the GPU",
			gpu, what, bytes, free_bytes, total_bytes);
	} else {
		rc = cuda_status(err, what);
	}
	rung__gpu_leave(before);
	return rc;
}

/* Also if CUDA has failed, so that no GPU can be made current; not while the process exits. */
void rung__gpu_release(int gpu, void *memory)
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

/* ---- tiers ---- */

/* Lets the GPU that gathers read the memory of `gpu`, until the process ends. A GPU may be listed
 * several times, and needs nothing for its own memory. */
static int reach(const struct rung__device *device, int gpu)
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
		return rung__fail(RUNG_E_NOSUP,
		                  "cuda: GPU %d cannot read the memory of GPU %d; use a plan "
		                  "created on this machine, or one GPU",
		                  device->gpu, gpu);
	}
	return cuda_status(err, "letting a GPU read another's memory");
}

int rung__gpu_alloc_shares(struct rung__device *device, const char *what, uint64_t rows,
                           uint64_t stride, uint64_t align, void **memory_out)
{
	int rc = 0;

	for (uint32_t g = 0; g < device->gpu_count && rc == 0; g++) {
		/* row i is on GPU i mod gpu_count */
		const uint64_t share = (rows + device->gpu_count - 1 - g) / device->gpu_count;

		rc = reach(device, device->gpus[g]);
		if (rc == 0 && share > 0)
			rc = rung__gpu_alloc(device->gpus[g], what,
			                     rung__align_up(share * stride, align), &memory_out[g]);
	}
	return rc;
}

static int open_peer(struct rung__device *device, const struct rung__device_args *args)
{
	/* a handle makes a whole block accessible to the other process, so shared rows must not
	 * have other allocations in theirs */
	const uint64_t align = args->sealed ? BLOCK_BYTES : 1;
	cudaIpcMemHandle_t handle;
	int rc = 0;

	device->peer_is_ours = !args->peer_handles;
	if (args->peer.row_count > 0 && device->peer_is_ours)
		return rung__gpu_alloc_shares(
			device, "rows of the tier \"peer\"", args->peer.row_count,
			args->features->layout.row_stride, align, device->peer);
	/* GPUs without rows have no memory, and no handle */
	for (uint32_t g = 0; g < args->gpu_count && g < args->peer.row_count && rc == 0; g++) {
		memcpy(&handle, args->peer_handles[g].bytes, sizeof(handle));
		rc = cuda_status(cudaIpcOpenMemHandle(&device->peer[g], handle,
		                                      cudaIpcMemLazyEnablePeerAccess),
		                 "opening GPU memory of the process that shares the store");
	}
	return rc;
}

int rung__gpu_copy_now(void *to, const void *from, uint64_t bytes, enum cudaMemcpyKind kind,
                       const char *what)
{
	int rc = cuda_status(cudaMemcpy(to, from, (size_t)bytes, kind), what);

	return rc < 0 ? rc : cuda_status(cudaStreamSynchronize(NULL), what);
}

/* The map: copied to the GPU if the plan has room for it there, else read over the link. */
static int open_map(struct rung__device *device, const struct rung__device_args *args)
{
	uint64_t bytes = args->vertex_count * args->map_bytes;
	int rc;

	if (!args->rank_of_vertex)
		return 0;
	if (!args->map_on_gpu)
		return rung__gpu_pin(device, "rank_of_vertex", (void *)args->rank_of_vertex,
		                     rung__align_up(bytes, RUNG__PAGE_BYTES), args->sealed);
	rc = rung__gpu_alloc(device->gpu, "rank_of_vertex", bytes, &device->map);
	if (rc == 0)
		rc = rung__gpu_copy_now(device->map, args->rank_of_vertex, bytes,
		                        cudaMemcpyHostToDevice, "copying rank_of_vertex");
	return rc;
}

/* Rows that are copied have a form of zeros. */
static int open_form(struct rung__device *device, const struct rung__row_form *form)
{
	const uint64_t bytes = form->quant.columns * sizeof(*form->column_scales);
	int rc;

	if (!form->decode)
		return 0;
	device->gather.form = rung__gpu_form(form);
	if (!form->column_scales)
		return 0;
	rc = rung__gpu_alloc(device->gpu, "the scales of columns", bytes, &device->column_scales);
	if (rc == 0)
		rc = rung__gpu_copy_now(device->column_scales, form->column_scales, bytes,
		                        cudaMemcpyHostToDevice, "copying the scales of columns");
	device->gather.form.column_scales = device->column_scales;
	return rc;
}

int rung__gpu_add_view(struct rung__cuda_view *views, uint32_t *view_count, void *const *bases,
                       uint32_t base_count, uint64_t stride, uint64_t rows)
{
	struct rung__cuda_view *view = &views[*view_count];
	const uint64_t rank_first = *view_count > 0 ? views[*view_count - 1].rank_end : 0;

	if (rows == 0)
		return -1;
	*view = (struct rung__cuda_view){ .base_count = base_count,
		                          .stride = stride,
		                          .rank_end = rank_first + rows };
	for (uint32_t b = 0; b < base_count; b++)
		view->base[b] = bases[b];
	return (int)(*view_count)++;
}

/* The constant part of all gathers. The order of the views is that of the ranks. */
static void set_views(struct rung__device *device, const struct rung__device_args *args)
{
	struct rung__cuda_view *views = device->gather.views;
	uint32_t *count = &device->gather.view_count;
	uint64_t stride = args->features->layout.row_stride;
	void *host = (void *)args->host.base;

	device->local_view =
		rung__gpu_add_view(views, count, &device->local, 1, stride, args->local.row_count);
	device->peer_view = rung__gpu_add_view(views, count, device->peer, args->gpu_count, stride,
	                                       args->peer.row_count);
	device->host_view =
		rung__gpu_add_view(views, count, &host, 1, args->host.stride, args->host.row_count);
	if (device->host_view >= 0)
		views[device->host_view].over_link = 1;
	device->gather.row_count = args->vertex_count;
	device->gather.row_bytes = (uint32_t)device->row_bytes;
	device->gather.map_bytes = args->map_bytes;
	device->gather.rank_of_vertex = device->map ? device->map : args->rank_of_vertex;
}

/* All allocations come before the loads, which take long: a lack of memory shows at once. */
int rung__gpu_open_tiers(struct rung__device *device, const struct rung__device_args *args)
{
	uint64_t stride = args->features->layout.row_stride;
	int rc = 0;

	if (args->local.row_count > 0)
		rc = rung__gpu_alloc(device->gpu, "rows of the tier \"gpu\"",
		                     args->local.row_count * stride, &device->local);
	if (rc == 0)
		rc = open_peer(device, args);
	if (rc == 0)
		rc = open_map(device, args);
	if (rc == 0)
		rc = open_form(device, args->form);
	if (rc == 0)
		rc = rung__gpu_load(device, args->features, &args->local, &device->local, 1);
	if (rc == 0 && device->peer_is_ours)
		rc = rung__gpu_load(device, args->features, &args->peer, device->peer,
		                    args->gpu_count);
	if (rc == 0 && args->host.row_count > 0)
		rc = rung__gpu_pin(device, "the host tier", (void *)args->host.base,
		                   args->host_bytes, args->sealed);
	if (rc == 0)
		set_views(device, args);
	return rc;
}

/* Pinned memory is unpinned by the caller, with all other pins. */
void rung__gpu_close_tiers(struct rung__device *device)
{
	rung__gpu_release(device->gpu, device->local);
	rung__gpu_release(device->gpu, device->map);
	rung__gpu_release(device->gpu, device->column_scales);
	for (uint32_t g = 0; g < device->gpu_count; g++) {
		if (device->peer_is_ours && !device->peer_is_left)
			rung__gpu_release(device->gpus[g], device->peer[g]);
		else if (device->peer[g] && !device->peer_is_ours)
			(void)cudaIpcCloseMemHandle(device->peer[g]);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The device "cuda": opening and closing it, and its table of functions. */
#include <string.h>

#include "gpu.h"

static void close_requests(struct rung__device *device)
{
	for (uint32_t i = 0; device->requests && i < device->request_count; i++) {
		struct gpu_request *request = &device->requests[i];

		if (request->gathered)
			(void)cudaEventDestroy(request->gathered);
		for (unsigned s = 0; s < RUNG__SCATTERS_MAX; s++) {
			if (request->scattered[s])
				(void)cudaEventDestroy(request->scattered[s]);
		}
	}
	if (device->counts)
		(void)cudaFree(device->counts);
	rung__free(device->requests);
}

static void cuda_close(struct rung__device *device)
{
	int before = device->gpu;

	(void)rung__gpu_enter(device->gpu, &before);
	close_requests(device);
	while (device->pins)
		rung__gpu_unpin(device, device->pins->memory);
	rung__unmap_pages(device->reports, device->reports_bytes);
	rung__unmap_pages(device->gates, device->gates_bytes);
	rung__unmap_pages(device->stage_offsets, device->stage_offsets_bytes);
	rung__gpu_close_tiers(device);
	if (device->scatter_stream)
		(void)cudaStreamDestroy(device->scatter_stream);
	if (device->stream)
		(void)cudaStreamDestroy(device->stream);
	rung__gpu_leave(before);
	(void)cudaGetLastError();
	rung__free(device);
}

static int check_args(const struct rung__device_args *args)
{
	if (args->gpu_count < 1 || args->gpu_count > RUNG_GPUS_MAX)
		return rung__fail(RUNG_E_INVAL, "cuda: %u GPUs, not 1..%d", args->gpu_count, RUNG_GPUS_MAX);
	if (args->features->layout.row_bytes > RUNG__CUDA_ROW_BYTES_MAX)
		return rung__fail(RUNG_E_INVAL, "cuda: rows of %" PRIu64 " bytes: a GPU gathers rows of at most %u: split the features",
		                  args->features->layout.row_bytes, (unsigned)RUNG__CUDA_ROW_BYTES_MAX);
	return 0;
}

int rung__gpu_check_addresses(int gpu)
{
	int same = 0;
	int rc = cuda_status(cudaDeviceGetAttribute(&same, cudaDevAttrCanUseHostPointerForRegisteredMem, gpu), "asking what a GPU can do");

	if (rc == 0 && !same)
		rc = rung__fail(RUNG_E_NOSUP, "cuda: GPU %d does not read host memory at the host's addresses: use the CPU device", gpu);
	return rc;
}

static int open_streams(struct rung__device *device)
{
	int rc = cuda_status(cudaStreamCreateWithFlags(&device->stream, cudaStreamNonBlocking), "making a stream");

	if (rc == 0)
		rc = cuda_status(cudaStreamCreateWithFlags(&device->scatter_stream, cudaStreamNonBlocking), "making a stream");
	if (rc == 0)
		rc = rung__cuda_gather_blocks(&device->gather_blocks);
	if (rc == 0)
		rc = rung__cuda_scatter_blocks(&device->scatter_blocks);
	return rc;
}

/* A driver's function: this library is not linked with the driver. */
int rung__gpu_find_wait(gpu_wait_value *wait_out, const char *cure)
{
	enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
	void *function = NULL;
	int rc = cuda_status(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", &function, 12000, cudaEnableDefault, &found),
	                     "looking for cuStreamWaitValue32");

	if (rc == 0 && (found != cudaDriverEntryPointSuccess || !function))
		rc = rung__fail(RUNG_E_NOSUP, "cuda: this driver's streams do not wait for values (cuStreamWaitValue32): %s", cure);
	memcpy(wait_out, &function, sizeof(function));
	return rc;
}

static int open_gates(struct rung__device *device, const struct rung__device_args *args)
{
	int rc;

	if (args->stage_rows == 0)
		return 0;
	rc = rung__gpu_find_wait(&device->wait_value, "open the store with stream_rows_max 0");
	if (rc < 0)
		return rc;
	device->gates_bytes = rung__align_up(args->request_count * sizeof(*device->gates), RUNG__PAGE_BYTES);
	device->stage_offsets_bytes = rung__align_up(args->stage_rows * sizeof(*device->stage_offsets), RUNG__PAGE_BYTES);
	device->gates = rung__map_pages(device->gates_bytes);
	device->stage_offsets = rung__map_pages(device->stage_offsets_bytes);
	if (!device->gates || !device->stage_offsets)
		return rung__fail(RUNG_E_NOMEM, "cuda: no memory for %u cold rows a request", args->stage_rows);
	for (uint64_t i = 0; i < args->stage_rows; i++)
		device->stage_offsets[i] = i * device->row_bytes;
	rc = rung__gpu_pin(device, "the gates of requests", device->gates, device->gates_bytes, false);
	if (rc == 0)
		rc = rung__gpu_pin(device, "places of cold rows", device->stage_offsets, device->stage_offsets_bytes, false);
	device->stage_rows = args->stage_rows;
	return rc;
}

static int open_request(struct rung__device *device, uint32_t idx, const struct rung__lists *lists)
{
	struct gpu_request *request = &device->requests[idx];
	int rc = cuda_status(cudaEventCreateWithFlags(&request->gathered, cudaEventDisableTiming | cudaEventBlockingSync), "making an event");

	for (unsigned s = 0; s < RUNG__SCATTERS_MAX && rc == 0; s++)
		rc = cuda_status(cudaEventCreateWithFlags(&request->scattered[s], cudaEventDisableTiming), "making an event");
	if (rc == 0)
		rc = rung__gpu_pin(device, "the lists of a request", lists->block, lists->block_bytes, false);
	if (rc == 0 && device->stage_rows > 0)
		rc = rung__gpu_pin(device, "room for the cold rows of a request", lists->stage, lists->stage_bytes, false);
	request->gate = device->gates ? device->gates + idx : NULL;
	request->lists = *lists;
	request->counts = device->counts + idx;
	request->report = device->reports + idx;
	request->last_scatter = -1;
	return rc;
}

static int open_requests(struct rung__device *device, const struct rung__device_args *args)
{
	uint64_t counts_bytes = args->request_count * sizeof(*device->counts);
	void *counts = NULL;
	int rc;

	device->reports_bytes = rung__align_up(args->request_count * sizeof(*device->reports), RUNG__PAGE_BYTES);
	device->reports = rung__map_pages(device->reports_bytes);
	device->requests = rung__zalloc_array(args->request_count, sizeof(*device->requests));
	if (!device->reports || !device->requests)
		return rung__fail(RUNG_E_NOMEM, "cuda: no memory for %u requests", args->request_count);
	device->request_count = args->request_count;
	rc = rung__gpu_pin(device, "the reports of requests", device->reports, device->reports_bytes, false);
	if (rc == 0)
		rc = rung__gpu_take(device->gpu, "the counts of requests", counts_bytes, &counts);
	device->counts = counts;
	if (rc == 0)
		rc = cuda_status(cudaMemsetAsync(counts, 0, (size_t)counts_bytes, device->stream), "clearing the counts of requests");
	for (uint32_t i = 0; i < args->request_count && rc == 0; i++)
		rc = open_request(device, i, &args->lists[i]);
	if (rc == 0)
		rc = cuda_status(cudaStreamSynchronize(device->stream), "clearing the counts of requests");
	return rc;
}

static int cuda_open(const struct rung__device_args *args, struct rung__device **device_out)
{
	struct rung__device *device;
	int before, rc = check_args(args);

	if (rc < 0)
		return rc;
	device = rung__zalloc(sizeof(*device));
	if (!device)
		return rung__fail(RUNG_E_NOMEM, "cuda: out of memory");
	device->gpu = args->gpus[0];
	device->gpu_count = args->gpu_count;
	device->row_bytes = args->features->layout.row_bytes;
	memcpy(device->gpus, args->gpus, sizeof(*args->gpus) * args->gpu_count);
	rc = rung__gpu_enter(device->gpu, &before);
	if (rc < 0) {
		rung__free(device);
		return rc;
	}
	rc = rung__gpu_check_addresses(device->gpu);
	if (rc == 0)
		rc = open_streams(device);
	if (rc == 0)
		rc = rung__gpu_open_tiers(device, args);
	if (rc == 0)
		rc = open_gates(device, args);
	if (rc == 0)
		rc = open_requests(device, args);
	if (rc < 0)
		cuda_close(device);
	else
		*device_out = device;
	rung__gpu_leave(before);
	return rc;
}

static int cuda_handles(const struct rung__device *device, struct rung__gpu_handle *handles_out)
{
	_Static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(handles_out->bytes), "a handle is passed as it is");

	for (uint32_t g = 0; g < device->gpu_count; g++) {
		cudaIpcMemHandle_t handle;
		int rc;

		if (!device->peer[g])
			continue;
		rc = cuda_status(cudaIpcGetMemHandle(&handle, device->peer[g]), "naming GPU memory for other processes");
		if (rc < 0)
			return rc;
		memcpy(handles_out[g].bytes, &handle, sizeof(handle));
	}
	return 0;
}

/* Else the thread's first call would end by making GPU 0 current again, which starts a context there that nobody wants. */
static int cuda_adopt(struct rung__device *device)
{
	return cuda_status(cudaSetDevice(device->gpu), "making a GPU current");
}

static int cuda_pin(struct rung__device *device, const char *what, void *memory, uint64_t bytes)
{
	return rung__gpu_pin(device, what, memory, bytes, false);
}

static int cuda_alloc(struct rung__device *device, uint64_t bytes, void **memory_out)
{
	return rung__gpu_take(device->gpu, "an allocation", bytes ? bytes : 1, memory_out);
}

static void cuda_free(struct rung__device *device, void *memory)
{
	rung__gpu_give_back(device->gpu, memory);
}

static int cuda_copy(struct rung__device *device, void *to, const void *from, uint64_t bytes)
{
	int before, rc = rung__gpu_enter(device->gpu, &before);

	if (rc < 0)
		return rc;
	rc = cuda_status(cudaMemcpy(to, from, (size_t)bytes, cudaMemcpyDefault), "copying memory");
	if (rc == 0)   /* from the host's plain memory cudaMemcpy may return before all of it has arrived */
		rc = cuda_status(cudaStreamSynchronize(NULL), "copying memory");
	rung__gpu_leave(before);
	return rc;
}

const struct rung__device_ops rung__cuda_device = {
	.abi = RUNG__DEVICE_ABI,
	.size = sizeof(struct rung__device_ops),
	.name = "cuda",
	.current = rung__gpu_current,
	.gpu_info = rung__gpu_info,
	.can_read = rung__gpu_can_read,
	.open = cuda_open,
	.close = cuda_close,
	.handles = cuda_handles,
	.adopt = cuda_adopt,
	.pin = cuda_pin,
	.unpin = rung__gpu_unpin,
	.gather = rung__gpu_gather,
	.gathered = rung__gpu_gathered,
	.scatter = rung__gpu_scatter,
	.scattered = rung__gpu_scattered,
	.release = rung__gpu_release,
	.order = rung__gpu_order,
	.alloc = cuda_alloc,
	.free = cuda_free,
	.copy = cuda_copy,
	.meter = &rung__cuda_meter,
	.sampler_open = rung__gpu_sampler_open,
	.sampler_close = rung__gpu_sampler_close,
	.batch_open = rung__gpu_batch_open,
	.batch_close = rung__gpu_batch_close,
	.sample = rung__gpu_sample,
	.sampled = rung__gpu_sampled,
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device "cuda": opening and closing it, and its table of functions.
 *
 * Open is all or nothing: after a failure everything that was opened is closed, by the same code as
 * later. The members that a failed open has not reached are NULL, which each step of close accepts.
 */
#include <string.h>

#include "host/gpu.h"

static void close_end(struct gpu_end *end)
{
	if (end->event)
		(void)cudaEventDestroy(end->event);
}

static void close_requests(struct rung__device *device)
{
	for (uint32_t i = 0; device->requests && i < device->request_count; i++) {
		struct gpu_request *request = &device->requests[i];

		close_end(&request->gathered);
		for (unsigned s = 0; s < RUNG__SCATTERS_MAX; s++)
			close_end(&request->scattered[s]);
	}
	if (device->counts)
		(void)cudaFree(device->counts);
}

/* Release everything that CUDA owns. Nothing is in flight, so no stream is waited for. */
static void close_on_gpu(struct rung__device *device)
{
	close_requests(device);
	rung__gpu_close_tiers(device);
	if (device->scatter_stream)
		(void)cudaStreamDestroy(device->scatter_stream);
	if (device->stream)
		(void)cudaStreamDestroy(device->stream);
}

static void cuda_close(struct rung__device *device, bool leave_peer)
{
	int before = device->gpu;

	device->peer_is_left = leave_peer;
	(void)rung__gpu_enter(device->gpu, &before);
	/* CUDA's memory ends with the process, so only host memory is freed here */
	if (before != RUNG__GPU_EXITING)
		close_on_gpu(device);
	while (!rung__queue_is_empty(&device->pins)) {
		struct rung__link *first = rung__queue_first(&device->pins);

		rung__gpu_unpin(device, RUNG__ENTRY(first, struct gpu_pin, link)->memory);
	}
	rung__unmap_pages(device->mails, device->mails_bytes); /* freed after it was unpinned */
	rung__gpu_leave(before);
	if (before != RUNG__GPU_EXITING)
		/* clears errors of the calls above, which must not reach the application */
		(void)cudaGetLastError();
	pthread_mutex_destroy(&device->pins_lock);
	rung__free(device->requests);
	rung__free(device);
}

static int check_args(const struct rung__device_args *args)
{
	if (args->gpu_count < 1 || args->gpu_count > RUNG_GPUS_MAX)
		return rung__fail(RUNG_E_INVAL, "cuda: %u GPUs are out of range; use 1 to %d",
		                  args->gpu_count, RUNG_GPUS_MAX);
	if (args->features->layout.row_bytes > RUNG__CUDA_ROW_BYTES_MAX)
		return rung__fail(
			RUNG_E_INVAL,
			"cuda: rows of %" PRIu64 " bytes are too long; a GPU gathers at most %u "
			"bytes per row; split the features",
			args->features->layout.row_bytes, (unsigned)RUNG__CUDA_ROW_BYTES_MAX);
	return 0;
}

/* The streams, and the kernels: their module is loaded now, so that no gather has to load it. */
static int open_streams(struct rung__device *device)
{
	int rc = rung__gpu_stream_open(device, &device->stream);

	if (rc == 0)
		rc = rung__gpu_stream_open(device, &device->scatter_stream);
	if (rc == 0)
		rc = rung__cuda_gather_blocks(&device->gather_blocks);
	if (rc == 0)
		rc = rung__cuda_scatter_blocks(&device->scatter_blocks);
	return rc;
}

/* Create the end of one kind of launch. `word` is in the request's mail. */
static int open_end(struct gpu_end *end, uint32_t *word, const char *what)
{
	end->word = word;
	end->what = what;
	return rung__gpu_make_event(&end->event, 0);
}

/* The lists belong to the store, which frees them after the device is closed. */
static int open_request(struct rung__device *device, uint32_t idx,
                        const struct rung__request_buffers *lists)
{
	struct gpu_request *request = &device->requests[idx];
	struct gpu_mail *mail = &device->mails[idx];
	int rc = open_end(&request->gathered, &mail->gathered, "gathering rows");

	for (unsigned s = 0; s < RUNG__SCATTERS_MAX && rc == 0; s++)
		rc = open_end(&request->scattered[s], &mail->scattered[s],
		              "copying rows from staging slots");
	if (rc == 0)
		rc = rung__gpu_pin(device, "the lists of a request", lists->block,
		                   lists->block_bytes, false);
	request->lists = *lists;
	request->counts = &device->counts[idx];
	request->mail = mail;
	request->last_scatter = -1;
	return rc;
}

/* The mails of all requests share one registration, and their counts one allocation on the GPU. */
static int open_requests(struct rung__device *device, const struct rung__device_args *args)
{
	uint64_t counts_bytes = args->request_count * sizeof(*device->counts);
	void *counts = NULL;
	int rc;

	device->mails_bytes =
		rung__align_up(args->request_count * sizeof(*device->mails), RUNG__PAGE_BYTES);
	device->mails = rung__map_pages(device->mails_bytes);
	device->requests = rung__zalloc_array(args->request_count, sizeof(*device->requests));
	if (!device->mails || !device->requests)
		return rung__fail(RUNG_E_NOMEM, "cuda: out of host memory for %u requests",
		                  args->request_count);
	device->request_count = args->request_count;
	rc = rung__gpu_pin(device, "the reports of requests", device->mails, device->mails_bytes,
	                   false);
	if (rc == 0)
		rc = rung__gpu_alloc(device->gpu, "the counts of requests", counts_bytes, &counts);
	device->counts = counts;
	if (rc == 0)
		rc = cuda_status(cudaMemsetAsync(counts, 0, (size_t)counts_bytes, device->stream),
		                 "clearing the counts of requests");
	for (uint32_t i = 0; i < args->request_count && rc == 0; i++)
		rc = open_request(device, i, &args->lists[i]);
	if (rc == 0)
		rc = cuda_status(cudaStreamSynchronize(device->stream),
		                 "clearing the counts of requests");
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
		return rung__fail(RUNG_E_NOMEM, "cuda: out of host memory");
	pthread_mutex_init(&device->pins_lock, NULL);
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
		rc = open_requests(device, args);
	if (rc < 0)
		cuda_close(device, false);
	else
		*device_out = device;
	if (rc == 0) /* CUDA's own exit handlers are registered by now, so ours runs before them */
		rung__gpu_close_at_exit();
	rung__gpu_leave(before);
	return rc;
}

/* Handles of the peer tier's memory, by which another process opens it. */
static int cuda_handles(const struct rung__device *device, struct rung__gpu_handle *handles_out)
{
	_Static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(handles_out->bytes),
	               "a handle is passed unchanged");

	for (uint32_t g = 0; g < device->gpu_count; g++) {
		cudaIpcMemHandle_t handle;
		int rc;

		if (!device->peer[g]) /* there are fewer rows than GPUs */
			continue;
		rc = cuda_status(cudaIpcGetMemHandle(&handle, device->peer[g]),
		                 "exporting GPU memory to other processes");
		if (rc < 0)
			return rc;
		memcpy(handles_out[g].bytes, &handle, sizeof(handle));
	}
	return 0;
}

static int cuda_pin(struct rung__device *device, const char *what, void *memory, uint64_t bytes)
{
	return rung__gpu_pin(device, what, memory, bytes, false);
}

static int cuda_alloc(struct rung__device *device, uint64_t bytes, void **memory_out)
{
	return rung__gpu_alloc(device->gpu, "an allocation", bytes ? bytes : 1, memory_out);
}

static void cuda_free(struct rung__device *device, void *memory)
{
	rung__gpu_release(device->gpu, memory);
}

/* For callers without CUDA (rung_store_copy()). It uses the default stream, which must not be
 * captured. */
static int cuda_copy(struct rung__device *device, void *to, const void *from, uint64_t bytes)
{
	int before, rc = rung__gpu_enter(device->gpu, &before);

	if (rc == 0)
		rc = rung__gpu_check_capture(NULL, "copying memory");
	if (rc == 0)
		rc = rung__gpu_copy_now(to, from, bytes, cudaMemcpyDefault, "copying memory");
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
	.adopt = rung__gpu_adopt,
	.pin = cuda_pin,
	.unpin = rung__gpu_unpin,
	.check_ids = rung__gpu_check_ids,
	.gather = rung__gpu_gather,
	.gathered = rung__gpu_gathered,
	.scatter = rung__gpu_scatter,
	.scattered = rung__gpu_scattered,
	.order = rung__gpu_order,
	.alloc = cuda_alloc,
	.free = cuda_free,
	.copy = cuda_copy,
	.stream_open = rung__gpu_stream_open,
	.stream_close = rung__gpu_stream_close,
	.event_open = rung__gpu_event_open,
	.event_close = rung__gpu_event_close,
	.event_record = rung__gpu_event_record,
	.event_order = rung__gpu_event_order,
	.event_passed = rung__gpu_event_passed,
	.fetch = rung__gpu_fetch,
	.meter = &rung__cuda_meter,
	.sampler_open = rung__gpu_sampler_open,
	.sampler_close = rung__gpu_sampler_close,
	.sampler_vertices = rung__gpu_sampler_vertices_max,
	.batch_open = rung__gpu_batch_open,
	.batch_close = rung__gpu_batch_close,
	.sample = rung__gpu_sample,
	.sampled = rung__gpu_sampled,
};

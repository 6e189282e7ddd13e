/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gathers and scatters on streams. A gather is one launch and one event: the kernel itself writes
 * its report and the lists of misses to host memory, so that no copy and no reset is needed before
 * or after it.
 *
 * The host detects the end of a launch by a word that the kernel stores last (finish.h). It does
 * not query CUDA: a query takes locks that the launches of other threads need, and it may fail, or
 * invalidate the capture, while another thread captures a graph. The event after a launch is for
 * streams that wait, and for an occasional check whether the device has failed.
 */
#include <string.h>

#include "host/gpu.h"

/* Whether kernels cannot use this address. Host memory may have another address on the GPU. */
static bool has_other_address(const struct cudaPointerAttributes *attributes, const void *memory)
{
	return attributes->type == cudaMemoryTypeUnregistered ||
	       (attributes->type == cudaMemoryTypeHost && attributes->devicePointer != memory);
}

/* A kernel that accesses a wrong address breaks the context of the whole process, so pointers of
 * callers are checked first. @return as rung__gpu_check_ids() */
static int check(const struct rung__device *device, const char *what, const void *memory,
                 bool plain_allowed)
{
	struct cudaPointerAttributes attributes;
	int rc = cuda_status(cudaPointerGetAttributes(&attributes, memory),
	                     "querying the owner of a pointer");

	if (rc == 0 && plain_allowed && memory && attributes.type == cudaMemoryTypeUnregistered)
		return 1;
	if (rc == 0 && has_other_address(&attributes, memory))
		rc = rung__fail(RUNG_E_INVAL,
		                "the GPU cannot reach the %s at %p; use memory of "
		                "the GPU (rung_store_alloc, cudaMalloc) or registered host memory",
		                what, memory);
	if (rc == 0 && attributes.type == cudaMemoryTypeDevice && attributes.device != device->gpu)
		rc = rung__fail(RUNG_E_INVAL,
		                "%s at %p: is in memory of GPU %d, but the store gathers on GPU "
		                "%d; copy it to GPU %d, or open the store on GPU %d",
		                what, memory, attributes.device, device->gpu, device->gpu,
		                attributes.device);
	return rc;
}

int rung__gpu_check_ids(const struct rung__device *device, const void *ids)
{
	int before, rc = rung__gpu_enter(device->gpu, &before);

	if (rc == 0)
		rc = check(device, "ids", ids, true);
	rung__gpu_leave(before);
	return rc;
}

/* The failure to report after a failed launch. @return `failure`, or RUNG_E_INVAL if the stream
 * belongs to another GPU, which older drivers do not report. */
static int blame_stream(const struct rung__device *device, cudaStream_t stream, int failure)
{
	enum cudaDriverEntryPointQueryResult result;
	int (*device_of)(cudaStream_t stream, int *gpu_out);
	void *function = NULL;
	int gpu;

	(void)cudaGetDriverEntryPointByVersion("cuStreamGetDevice", &function, 12080,
	                                       cudaEnableDefault, &result);
	(void)cudaGetLastError();
	if (!function) /* an older driver */
		return failure;
	memcpy(&device_of, &function, sizeof(device_of));
	if (device_of(stream, &gpu) != 0 || gpu == device->gpu)
		return failure;
	return rung__fail(
		RUNG_E_INVAL,
		"stream %p: is on GPU %d, but the store gathers on GPU %d; give a stream of GPU %d",
		(void *)stream, gpu, device->gpu, device->gpu);
}

void rung__gpu_drain(cudaStream_t stream)
{
	(void)cudaStreamSynchronize(stream); /* returns immediately if the GPU has failed */
	(void)cudaGetLastError();
}

/* A new turn for each launch, so that a word of an earlier launch is never mistaken for its end. */
static struct rung__cuda_end next_turn(struct gpu_end *end)
{
	return (struct rung__cuda_end){ end->word, ++end->turn };
}

/* The acquire load is the partner of the kernel's release store (finish.h): after it, the results
 * of the launch may be read. */
static bool has_come(const struct gpu_end *end)
{
	return __atomic_load_n(end->word, __ATOMIC_ACQUIRE) == end->turn;
}

/* The word alone reports the end; the event is queried only for errors. If the event has passed,
 * the word is checked again, because the launch may have ended between the two. */
static int poll_end(const struct rung__device *device, const struct gpu_end *end, bool check)
{
	int rc;

	if (has_come(end))
		return 1;
	if (!check)
		return 0;
	rc = rung__gpu_has_passed(device, end->event, false, end->what);
	if (rc != 1 || has_come(end))
		return rc;
	/* the stream has passed a kernel that did not run: waiting for it would never end */
	return rung__fail(RUNG_E_IO, "cuda: %s: the kernel has not run, and no error was reported",
	                  end->what);
}

/* The arguments of a launch: the device's constant part, and those of the request. */
static void record_gather(struct rung__device *device, struct gpu_request *request,
                          const struct rung_ids *ids, void *out, uint64_t out_stride,
                          struct rung__cuda_gather *gather)
{
	*gather = device->gather;
	gather->ids = ids->data;
	gather->id_count = ids->count;
	gather->id_dtype = ids->dtype;
	if (ids->space == RUNG_RANKS)
		gather->rank_of_vertex = NULL;
	gather->out = out;
	gather->out_stride = out_stride;
	gather->miss_ranks = request->lists.miss_ranks;
	gather->miss_rows = request->lists.miss_rows;
	gather->counts = &request->counts->gather;
	gather->report = &request->mail->report;
	gather->end = next_turn(&request->gathered);
}

/* Replaces the end of a kernel that was not launched because the list is empty. */
static void report_nothing(struct gpu_request *request)
{
	request->mail->report = (struct rung__cuda_report){ 0 };
	__atomic_store_n(request->gathered.word, request->gathered.turn, __ATOMIC_RELEASE);
}

int rung__gpu_begin(const struct rung__device *device, const char *what,
                    struct CUstream_st **stream, const char *memory_is, const void *memory,
                    int *before_out)
{
	int rc = rung__gpu_enter(device->gpu, before_out);

	*stream = rung__gpu_stream(device, *stream);
	if (rc == 0)
		rc = rung__gpu_check_capture(*stream, what);
	if (rc == 0 && memory_is)
		rc = check(device, memory_is, memory, false);
	if (rc < 0)
		rung__gpu_leave(*before_out);
	return rc;
}

int rung__gpu_end(const struct rung__device *device, struct CUstream_st *stream, int rc, int before)
{
	if (rc < 0) {
		rc = blame_stream(device, stream, rc);
		rung__gpu_drain(stream);
	}
	rung__gpu_leave(before);
	return rc;
}

int rung__gpu_gather(struct rung__device *device, uint32_t request_idx, const struct rung_ids *ids,
                     bool known, void *out, uint64_t out_stride, struct CUstream_st *stream)
{
	struct gpu_request *request = &device->requests[request_idx];
	const char *out_is = ids->count > 0 ? "output" : NULL;
	struct rung__cuda_gather gather;
	int before, rc = rung__gpu_begin(device, "gather", &stream, out_is, out, &before);

	if (rc < 0)
		return rc;
	request->last_scatter = -1; /* scatters from the request's previous use do not count */
	record_gather(device, request, ids, out, out_stride, &gather);
	if (known) /* the host has listed the misses already (known.c) */
		gather.miss_ranks = NULL;
	if (request->counts_are_stale)
		rc = cuda_status(cudaMemsetAsync(gather.counts, 0, sizeof(*gather.counts), stream),
		                 "clearing the counts of a request");
	if (rc == 0)
		rc = rung__cuda_gather_launch(&gather, device->gather_blocks, stream);
	if (rc == 0)
		rc = cuda_status(cudaEventRecord(request->gathered.event, stream),
		                 "recording the end of a gather");
	if (rc == 0 && ids->count == 0) /* nothing was launched that could write the word */
		report_nothing(request);
	request->counts_are_stale = rc < 0;
	return rung__gpu_end(device, stream, rc, before);
}

/* A tier without rows has no view. */
static uint64_t rows_of_view(const struct rung__cuda_report *report, int view)
{
	return view < 0 ? 0 : report->view_rows[view];
}

int rung__gpu_has_passed(const struct rung__device *device, cudaEvent_t event, bool block,
                         const char *what)
{
	cudaError_t err;
	int before, rc = rung__gpu_enter(device->gpu, &before);

	if (rc < 0)
		return rc;
	err = block ? cudaEventSynchronize(event) : cudaEventQuery(event);
	if (err == cudaErrorNotReady) /* not a failure, but CUDA records it as one */
		(void)cudaGetLastError();
	else
		rc = err == cudaSuccess ? 1 : cuda_status(err, what);
	rung__gpu_leave(before);
	return rc;
}

/* Called often by the device thread: without `check` it makes no call of CUDA. */
int rung__gpu_gathered(struct rung__device *device, uint32_t request_idx, bool check,
                       struct rung__gather_result *result_out)
{
	struct gpu_request *request = &device->requests[request_idx];
	const struct rung__cuda_report *report = &request->mail->report;
	int rc = poll_end(device, &request->gathered, check);

	if (rc < 0)
		request->counts_are_stale = true;
	if (rc != 1)
		return rc;
	*result_out = (struct rung__gather_result){
		.miss_count = report->miss_count,
		.bad_count = report->bad_count,
		.bad_index = report->bad_index,
		.bad_id = report->bad_id,
		.local_rows = rows_of_view(report, device->local_view),
		.peer_rows = rows_of_view(report, device->peer_view),
		.host_rows = rows_of_view(report, device->host_view),
	};
	return 1;
}

int rung__gpu_scatter(struct rung__device *device, uint32_t request_idx,
                      const struct rung__scatter *scatter)
{
	struct gpu_request *request = &device->requests[request_idx];
	struct gpu_end *end = &request->scattered[scatter->idx];
	struct rung__cuda_scatter launch = {
		.slots = scatter->slots,
		.offsets = request->lists.offsets + scatter->first,
		.out_rows = request->lists.out_rows + scatter->first,
		.count = scatter->count,
		.offset_align = scatter->offset_align,
		.row_bytes = (uint32_t)device->row_bytes,
		.form = device->gather.form,
		.over_link = 1, /* slots are in host memory */
		.out = scatter->out,
		.out_stride = scatter->out_stride,
		.blocks_done = &request->counts->scatter_blocks[scatter->idx],
		.end = next_turn(end),
	};
	int before, rc = rung__gpu_enter(device->gpu, &before);

	if (rc < 0)
		return rc;
	rc = rung__cuda_scatter_launch(&launch, device->scatter_blocks, device->scatter_stream);
	if (rc == 0) {
		rc = cuda_status(cudaEventRecord(end->event, device->scatter_stream),
		                 "recording the end of a scatter");
		if (rc < 0) /* the caller releases the slots when this fails */
			rung__gpu_drain(device->scatter_stream);
	}
	if (rc == 0)
		request->last_scatter = (int)scatter->idx;
	rung__gpu_leave(before);
	return rc;
}

int rung__gpu_scattered(struct rung__device *device, uint32_t request_idx, uint32_t scatter_idx,
                        bool check)
{
	return poll_end(device, &device->requests[request_idx].scattered[scatter_idx], check);
}

/*
 * All scatters are on one stream, so waiting for the last one is enough. The wait for the gather is
 * necessary even if `stream` has the handle of the gather's stream: cudaStreamPerThread is one
 * handle for a stream per thread, and a handle may be reused after its stream was destroyed.
 */
int rung__gpu_order(struct rung__device *device, uint32_t request_idx, struct CUstream_st *stream)
{
	const struct gpu_request *request = &device->requests[request_idx];
	static const char what[] = "letting a stream wait for rows";
	int before, rc = rung__gpu_begin(device, what, &stream, NULL, NULL, &before);

	if (rc < 0)
		return rc;
	rc = cuda_status(cudaStreamWaitEvent(stream, request->gathered.event, 0), what);
	if (rc == 0 && request->last_scatter >= 0) {
		cudaEvent_t scattered = request->scattered[request->last_scatter].event;

		rc = cuda_status(cudaStreamWaitEvent(stream, scattered, 0), what);
	}
	rung__gpu_leave(before);
	return rc;
}

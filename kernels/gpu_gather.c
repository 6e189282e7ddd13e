/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gathers and scatters on streams. A gather is one launch and one event: what it found comes in a report that the kernel itself
 * writes to host memory, and the misses in lists there, so that nothing has to be copied or cleared around it.
 */
#include "gpu.h"

int rung__gpu_check_memory(const char *what, const void *memory)
{
	struct cudaPointerAttributes attributes;
	int rc = cuda_status(cudaPointerGetAttributes(&attributes, memory), "asking whose a pointer is");

	if (rc == 0 && attributes.type == cudaMemoryTypeUnregistered)
		rc = rung__fail(RUNG_E_INVAL, "the GPU cannot reach the %s at %p: give memory of the GPU (rung_store_alloc, cudaMalloc) or "
		                "registered host memory", what, memory);
	return rc;
}

void rung__gpu_drain(cudaStream_t stream)
{
	(void)cudaStreamSynchronize(stream);   /* of a GPU that has broken down it says so at once */
	(void)cudaGetLastError();
}

static void record_gather(struct rung__device *device, const struct gpu_request *request, const struct rung_ids *ids, void *out,
                          uint64_t out_stride, struct rung__cuda_gather *gather)
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
	gather->counts = request->counts;
	gather->report = request->report;
}

/* Host memory is published by the store-release of the word; the wait is the acquire. */
static void open_gate(struct gpu_request *request, uint64_t count)
{
	__atomic_store_n(&request->gate->count, count, __ATOMIC_RELAXED);
	__atomic_store_n(&request->gate->word, request->turn, __ATOMIC_RELEASE);
}

void rung__gpu_release(struct rung__device *device, uint32_t request_idx, uint64_t count)
{
	open_gate(&device->requests[request_idx], count);
}

/* Behind the gather: wait until the rows are in the stage, copy them. The copy finds out how many there are when it runs. */
static int put_gate(struct rung__device *device, struct gpu_request *request, uint64_t id_count, void *out, uint64_t out_stride)
{
	struct rung__cuda_scatter scatter = {
		.slots = request->lists.stage,
		.offsets = device->stage_offsets,
		.out_rows = request->lists.miss_rows,
		.count = RUNG__MIN(id_count, device->stage_rows),
		.count_at = &request->gate->count,
		.offset_align = device->row_bytes & (0 - device->row_bytes),
		.row_bytes = (uint32_t)device->row_bytes,
		.over_link = 1,
		.out = out,
		.out_stride = out_stride,
	};
	int rc = 0;

	request->turn++;
	if (device->wait_value(request->stream, (unsigned long long)(uintptr_t)&request->gate->word, request->turn, 0) != 0)
		return rung__fail(RUNG_E_IO, "cuda: putting a wait on a stream (cuStreamWaitValue32)");
	rc = rung__cuda_scatter_launch(&scatter, device->scatter_blocks, request->stream);
	if (rc == 0)
		rc = cuda_status(cudaEventRecord(request->scattered[0], request->stream), "recording the end of a scatter");
	if (rc == 0)
		request->last_scatter = 0;
	else
		open_gate(request, 0);   /* nobody else will */
	return rc;
}

int rung__gpu_gather(struct rung__device *device, uint32_t request_idx, const struct rung_ids *ids, void *out, uint64_t out_stride,
                  struct CUstream_st *stream)
{
	struct gpu_request *request = &device->requests[request_idx];
	struct rung__cuda_gather gather;
	int before, rc = 0;

	if (ids->count > 0) {
		rc = rung__gpu_check_memory("ids", ids->data);
		if (rc == 0)
			rc = rung__gpu_check_memory("output", out);
	}
	if (rc == 0)
		rc = rung__gpu_enter(device->gpu, &before);
	if (rc < 0)
		return rc;
	request->stream = stream ? stream : device->stream;
	request->last_scatter = -1;
	if (ids->count == 0)
		*request->report = (struct rung__cuda_report){ 0 };   /* no kernel will */
	record_gather(device, request, ids, out, out_stride, &gather);
	rc = rung__cuda_gather_launch(&gather, device->gather_blocks, request->stream);
	if (rc == 0)
		rc = cuda_status(cudaEventRecord(request->gathered, request->stream), "recording the end of a gather");
	if (rc == 0 && device->stage_rows > 0)
		rc = put_gate(device, request, ids->count, out, out_stride);
	if (rc < 0)
		rung__gpu_drain(request->stream);
	rung__gpu_leave(before);
	return rc;
}

static uint64_t rows_of_view(const struct rung__cuda_report *report, int view)
{
	return view < 0 ? 0 : report->view_rows[view];
}

int rung__gpu_has_passed(cudaEvent_t event, const char *what)
{
	cudaError_t err = cudaEventQuery(event);

	if (err == cudaErrorNotReady) {
		(void)cudaGetLastError();
		return 0;
	}
	return err == cudaSuccess ? 1 : cuda_status(err, what);
}

int rung__gpu_gathered(struct rung__device *device, uint32_t request_idx, bool block, struct rung__found *found_out)
{
	const struct gpu_request *request = &device->requests[request_idx];
	const struct rung__cuda_report *report = request->report;
	int rc;

	if (block)
		rc = cuda_status(cudaEventSynchronize(request->gathered), "gathering rows");
	else
		rc = rung__gpu_has_passed(request->gathered, "gathering rows");
	if (rc < 0 || (rc == 0 && !block))
		return rc;
	*found_out = (struct rung__found){
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

int rung__gpu_scatter(struct rung__device *device, uint32_t request_idx, const struct rung__scatter *scatter)
{
	struct gpu_request *request = &device->requests[request_idx];
	struct rung__cuda_scatter launch = {
		.slots = scatter->slots,
		.offsets = request->lists.offsets + scatter->first,
		.out_rows = request->lists.out_rows + scatter->first,
		.count = scatter->count,
		.offset_align = scatter->offset_align,
		.row_bytes = (uint32_t)device->row_bytes,
		.over_link = 1,
		.out = scatter->out,
		.out_stride = scatter->out_stride,
	};
	int before, rc = rung__gpu_enter(device->gpu, &before);

	if (rc < 0)
		return rc;
	rc = rung__cuda_scatter_launch(&launch, device->scatter_blocks, device->scatter_stream);
	if (rc == 0)
		rc = cuda_status(cudaEventRecord(request->scattered[scatter->idx], device->scatter_stream), "recording the end of a scatter");
	if (rc == 0)
		request->last_scatter = (int)scatter->idx;
	rung__gpu_leave(before);
	return rc;
}

int rung__gpu_scattered(struct rung__device *device, uint32_t request_idx, uint32_t scatter_idx)
{
	return rung__gpu_has_passed(device->requests[request_idx].scattered[scatter_idx], "copying rows from staging slots");
}

/* Scatters are on one stream: the last one stands for all. */
int rung__gpu_order(struct rung__device *device, uint32_t request_idx, struct CUstream_st *stream)
{
	const struct gpu_request *request = &device->requests[request_idx];
	cudaError_t err = cudaSuccess;
	int before, rc = rung__gpu_enter(device->gpu, &before);

	if (rc < 0)
		return rc;
	stream = stream ? stream : device->stream;
	if (stream != request->stream)
		err = cudaStreamWaitEvent(stream, request->gathered, 0);
	if (err == cudaSuccess && request->last_scatter >= 0)
		err = cudaStreamWaitEvent(stream, request->scattered[request->last_scatter], 0);
	rung__gpu_leave(before);
	return cuda_status(err, "letting a stream wait for rows");
}

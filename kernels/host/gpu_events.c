/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams and events for memory that callers borrow and that is reused (the loader). All belong to
 * the GPU that gathers. While the process exits, the functions that release do nothing, because
 * CUDA may be unloaded.
 */
#include "host/gpu.h"

/* The priority is the lowest one: blocks of the training run first if both need an SM. */
int rung__gpu_stream_open(struct rung__device *device, struct CUstream_st **stream_out)
{
	static const char what[] = "creating a stream";
	int lowest, before, rc = rung__gpu_enter(device->gpu, &before);

	if (rc == 0)
		rc = cuda_status(cudaDeviceGetStreamPriorityRange(&lowest, NULL), what);
	if (rc == 0)
		rc = cuda_status(
			cudaStreamCreateWithPriority(stream_out, cudaStreamNonBlocking, lowest),
			what);
	rung__gpu_leave(before);
	return rc;
}

void rung__gpu_stream_close(struct rung__device *device, struct CUstream_st *stream)
{
	int before;

	if (!stream)
		return;
	(void)rung__gpu_enter(device->gpu, &before);
	if (before == RUNG__GPU_EXITING)
		return;
	rung__gpu_drain(stream); /* destroying a stream does not wait for its work */
	(void)cudaStreamDestroy(stream);
	rung__gpu_leave(before);
	(void)cudaGetLastError();
}

int rung__gpu_make_event(cudaEvent_t *event_out, unsigned flags)
{
	return cuda_status(cudaEventCreateWithFlags(event_out, cudaEventDisableTiming | flags),
	                   "creating an event");
}

int rung__gpu_event_open(struct rung__device *device, struct CUevent_st **event_out)
{
	int before, rc = rung__gpu_enter(device->gpu, &before);

	if (rc == 0)
		/* a thread that waits for the event sleeps */
		rc = rung__gpu_make_event(event_out, cudaEventBlockingSync);
	rung__gpu_leave(before);
	return rc;
}

void rung__gpu_event_close(struct rung__device *device, struct CUevent_st *event)
{
	int before;

	if (!event)
		return;
	(void)rung__gpu_enter(device->gpu, &before);
	if (before == RUNG__GPU_EXITING)
		return;
	(void)cudaEventDestroy(event);
	rung__gpu_leave(before);
	(void)cudaGetLastError();
}

int rung__gpu_event_record(struct rung__device *device, struct CUevent_st *event,
                           struct CUstream_st *stream)
{
	int before, rc = rung__gpu_enter(device->gpu, &before);

	if (rc == 0)
		rc = cuda_status(cudaEventRecord(event, rung__gpu_stream(device, stream)),
		                 "recording an event");
	rung__gpu_leave(before);
	return rc;
}

int rung__gpu_event_order(struct rung__device *device, struct CUevent_st *event,
                          struct CUstream_st *stream)
{
	int before, rc = rung__gpu_enter(device->gpu, &before);

	if (rc == 0)
		rc = cuda_status(cudaStreamWaitEvent(rung__gpu_stream(device, stream), event, 0),
		                 "letting a stream wait for an event");
	rung__gpu_leave(before);
	return rc;
}

int rung__gpu_event_passed(struct rung__device *device, struct CUevent_st *event, bool block)
{
	return rung__gpu_has_passed(device, event, block, "waiting for an event");
}

/* The copy is asynchronous on `stream`, so that only this stream is waited for. */
int rung__gpu_fetch(struct rung__device *device, void *to, const void *from, uint64_t bytes,
                    struct CUstream_st *stream)
{
	static const char what[] = "copying ids to the host";
	int before, rc = rung__gpu_enter(device->gpu, &before);

	if (rc < 0)
		return rc;
	rc = cuda_status(cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDeviceToHost, stream),
	                 what);
	if (rc == 0)
		rc = cuda_status(cudaStreamSynchronize(stream), what);
	else
		rung__gpu_drain(stream);
	rung__gpu_leave(before);
	return rc;
}

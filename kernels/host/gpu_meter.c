/* SPDX-License-Identifier: Apache-2.0 */
/* The meter of the device "cuda": its memory, its streams and events, and the copies and gathers
 * that gpu_timing.c times. */
#include <stdio.h>

#include "host/gpu_meter.h"

#define PIN_FLAGS (cudaHostRegisterPortable | cudaHostRegisterMapped)

/* An error as the meter reports it. A lack of GPU memory is a property of the machine, whereas
 * RUNG_E_NOMEM means a lack of host memory. */
static int fact(int rc)
{
	return rc == RUNG_E_NOMEM ? RUNG_E_NODEV : rc;
}

/* ---- memory ---- */

static int meter_count(void)
{
	int count, rc = cuda_status(cudaGetDeviceCount(&count), "looking for GPUs");

	return rc < 0 ? fact(rc) : count;
}

static int meter_alloc(int gpu, uint64_t bytes, void **memory_out)
{
	char what[96];
	int before, rc = rung__gpu_enter(gpu, &before);

	snprintf(what, sizeof(what), "GPU %d: allocating %" PRIu64 " bytes to measure with", gpu,
	         bytes);
	if (rc == 0)
		rc = cuda_status(cudaMalloc(memory_out, (size_t)bytes), what);
	rung__gpu_leave(before);
	return fact(rc);
}

static int meter_pin(int gpu, void *memory, uint64_t bytes)
{
	char what[96];
	int before, rc = rung__gpu_enter(gpu, &before);

	snprintf(what, sizeof(what), "registering %" PRIu64 " bytes of host memory", bytes);
	if (rc == 0)
		rc = cuda_status(cudaHostRegister(memory, (size_t)bytes, PIN_FLAGS), what);
	rung__gpu_leave(before);
	return fact(rc);
}

static void meter_unpin(int gpu, void *memory)
{
	int before = gpu;

	(void)rung__gpu_enter(gpu, &before);
	(void)cudaHostUnregister(memory);
	rung__gpu_leave(before);
	(void)cudaGetLastError();
}

static int meter_reach(int gpu, int peer)
{
	char what[96];
	cudaError_t err;
	int before, rc = rung__gpu_enter(gpu, &before);

	if (rc < 0)
		return fact(rc);
	snprintf(what, sizeof(what), "letting GPU %d read the memory of GPU %d", gpu, peer);
	err = cudaDeviceEnablePeerAccess(peer, 0);
	/* enabled by an earlier call or by other code */
	if (err == cudaErrorPeerAccessAlreadyEnabled)
		(void)cudaGetLastError();
	else
		rc = cuda_status(err, what);
	rung__gpu_leave(before);
	return fact(rc);
}

/* The source need not be pinned. */
static int meter_put(int gpu, void *to, const void *from, uint64_t bytes)
{
	int before, rc = rung__gpu_enter(gpu, &before);

	if (rc == 0)
		rc = rung__gpu_copy_now(to, from, bytes, cudaMemcpyHostToDevice,
		                        "copying ids to a GPU");
	rung__gpu_leave(before);
	return fact(rc);
}

/* ---- copies and gathers ---- */

static int copy_pass(struct rung__meter *meter, const void *work, unsigned stream)
{
	const struct rung__meter_copy *copy = (const struct rung__meter_copy *)work + stream;

	return cuda_status(cudaMemcpyAsync(copy->to, copy->from, (size_t)copy->bytes,
	                                   cudaMemcpyDefault, meter->streams[stream]),
	                   "copying memory");
}

static int meter_copy(struct rung__meter *meter, const struct rung__meter_copy *copies,
                      unsigned count, uint64_t passes, double *seconds_out)
{
	return fact(rung__gpu_meter_time(meter, copy_pass, copies, count, passes, "copying memory",
	                                 seconds_out));
}

/* The kernel of the store, on one view. Each gather uses the next list, so no rows are cached. */
static int gather_pass(struct rung__meter *meter, const void *work, unsigned stream)
{
	const struct rung__meter_gather *g = work;
	struct rung__cuda_gather gather = {
		.ids = g->ids + meter->list++ % g->list_count * g->row_count,
		.id_count = g->row_count,
		.id_dtype = RUNG_U64,
		.row_count = g->table_rows,
		.row_bytes = (uint32_t)g->row_bytes,
		.view_count = 1,
		.views = { { .base = { g->table },
		             .base_count = 1,
		             .over_link = g->over_link != 0,
		             .stride = g->row_bytes,
		             .rank_end = g->table_rows } },
		.out = g->out,
		.out_stride = g->row_bytes,
		/* never written: the view has the rows of all valid ids, so nothing misses */
		.miss_ranks = g->out,
		.miss_rows = g->out,
		.counts = meter->counts,
		.report = &meter->page->report,
	};

	if (g->form) {
		gather.form = rung__gpu_form(g->form);
		gather.out_stride = g->form->out_bytes;
	}
	return rung__cuda_gather_launch(&gather, meter->gather_blocks, meter->streams[stream]);
}

static int meter_gather(struct rung__meter *meter, const struct rung__meter_gather *gather,
                        uint64_t passes, double *seconds_out)
{
	const struct rung__cuda_report *report = &meter->page->report;
	int rc = fact(rung__gpu_meter_time(meter, gather_pass, gather, 1, passes, "gathering rows",
	                                   seconds_out));

	/* the report is of the last gather; a wrong list would make the time meaningless */
	if (rc == 0 && report->view_rows[0] != gather->row_count)
		rc = rung__fail(RUNG_E_IO,
		                "cuda: measuring: a gather found %" PRIu64 " of %" PRIu64 " rows",
		                report->view_rows[0], gather->row_count);
	return rc;
}

/* ---- opening ---- */

/* The part of a meter that is not CUDA's. */
static void free_meter(struct rung__meter *meter)
{
	rung__gpu_watchdog_stop(meter);
	rung__unmap_pages(meter->page, RUNG__PAGE_BYTES);
	rung__free(meter);
}

/* Also after a failed open: members that it has not reached are NULL. */
static void meter_close(struct rung__meter *meter)
{
	const cudaEvent_t events[] = { meter->begun, meter->ended, meter->joined };
	int before = meter->gpu;

	(void)rung__gpu_enter(meter->gpu, &before);
	for (unsigned i = 0; i < RUNG__ARRAY_LEN(events); i++) {
		if (events[i])
			(void)cudaEventDestroy(events[i]);
	}
	for (unsigned s = 0; s < METER_STREAMS; s++) {
		if (meter->streams[s])
			(void)cudaStreamDestroy(meter->streams[s]);
	}
	if (meter->counts)
		(void)cudaFree(meter->counts);
	if (meter->page_is_pinned)
		(void)cudaHostUnregister(meter->page);
	rung__gpu_leave(before);
	(void)cudaGetLastError();
	free_meter(meter);
}

static int open_events(struct rung__meter *meter)
{
	cudaError_t err = cudaEventCreateWithFlags(&meter->begun, cudaEventBlockingSync);

	if (err == cudaSuccess)
		err = cudaEventCreateWithFlags(&meter->ended, cudaEventBlockingSync);
	if (err == cudaSuccess)
		err = cudaEventCreateWithFlags(&meter->joined, cudaEventDisableTiming);
	for (unsigned s = 0; s < METER_STREAMS && err == cudaSuccess; s++)
		err = cudaStreamCreateWithFlags(&meter->streams[s], cudaStreamNonBlocking);
	return cuda_status(err, "creating streams and events to measure with");
}

/* The memory that gathers write in addition to their output: counters and the report. */
static int open_counts(struct rung__meter *meter)
{
	void *counts = NULL;
	int rc = cuda_status(cudaHostRegister(meter->page, RUNG__PAGE_BYTES, PIN_FLAGS),
	                     "registering a page to measure with");

	meter->page_is_pinned = rc == 0;
	if (rc == 0)
		rc = cuda_status(cudaMalloc(&counts, sizeof(*meter->counts)),
		                 "allocating GPU memory for the counts of gathers");
	meter->counts = counts;
	if (rc == 0)
		rc = cuda_status(
			cudaMemsetAsync(counts, 0, sizeof(*meter->counts), meter->streams[0]),
			"clearing the counts of gathers");
	if (rc == 0)
		rc = cuda_status(cudaStreamSynchronize(meter->streams[0]),
		                 "clearing the counts of gathers");
	return rc;
}

static int meter_open(int gpu, struct rung__meter **meter_out)
{
	struct rung__meter *meter = rung__zalloc(sizeof(*meter));
	int before, rc;

	_Static_assert(sizeof(*meter->page) <= RUNG__PAGE_BYTES, "the page is one page");
	if (!meter)
		return rung__fail(RUNG_E_NOMEM, "cuda: out of host memory");
	meter->gpu = gpu;
	rc = rung__gpu_watchdog_start(meter);
	meter->page = rung__map_pages(RUNG__PAGE_BYTES);
	if (rc == 0 && !meter->page)
		rc = rung__fail(RUNG_E_NOMEM, "cuda: out of host memory");
	if (rc < 0) { /* out of host memory, which fact() must not change */
		free_meter(meter);
		return rc;
	}
	rc = rung__gpu_check_launches();
	if (rc == 0)
		rc = rung__gpu_enter(gpu, &before);
	if (rc < 0) {
		free_meter(meter);
		return fact(rc);
	}
	rc = rung__gpu_check_addresses(gpu);
	if (rc == 0)
		rc = rung__gpu_find("cuStreamWaitValue32", 12000, "use a newer driver",
		                    &meter->wait_value);
	if (rc == 0)
		rc = open_events(meter);
	if (rc == 0)
		rc = open_counts(meter);
	if (rc == 0)
		rc = rung__cuda_gather_blocks(&meter->gather_blocks);
	if (rc < 0)
		meter_close(meter);
	else
		*meter_out = meter;
	rung__gpu_leave(before);
	return fact(rc);
}

const struct rung__meter_ops rung__cuda_meter = {
	.count = meter_count,
	.open = meter_open,
	.close = meter_close,
	.alloc = meter_alloc,
	.release = rung__gpu_release,
	.pin = meter_pin,
	.unpin = meter_unpin,
	.reach = meter_reach,
	.put = meter_put,
	.copy = meter_copy,
	.gather = meter_gather,
};

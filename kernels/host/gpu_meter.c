/* SPDX-License-Identifier: Apache-2.0 */
/* The meter of the device "cuda": copies and gathers between two events, on streams that are
 * blocked until all of it is queued. */
#include <stdio.h>
#include <string.h>

#include "host/gpu.h"
#include "base/thread.h"

/* queued on a blocked stream: queueing waits from a few hundred operations on */
#define ROUND_PASSES 64u
#define STREAMS      2u
#define PIN_FLAGS    (cudaHostRegisterPortable | cudaHostRegisterMapped)
#define HOLD_NS      5000000000ull /* a stream is released after this time */

/* Host memory that the GPU reads and writes: a page, pinned. */
struct page {
	_Alignas(64) uint32_t word; /* streams wait until it reaches the turn */
	_Alignas(64) struct rung__cuda_report report;
};

/* The wait of cuStreamWaitValue32: until the word is `value` or beyond, cyclically. */
typedef int (*wait_value_fn)(cudaStream_t stream, unsigned long long address, uint32_t value,
                             unsigned flags);

struct rung__meter {
	int gpu;
	cudaStream_t streams[STREAMS];
	cudaEvent_t begun, ended, joined; /* joined: the other stream has completed */
	wait_value_fn wait_value;
	unsigned gather_blocks;
	struct rung__cuda_counts *counts; /* device memory */
	struct page *page;
	bool page_is_pinned;
	uint32_t turn;
	uint64_t list; /* of ids: the next */
	struct watchdog {
		pthread_t thread;
		bool started;
		pthread_mutex_t lock;
		pthread_cond_t changed;
		bool holding, late, stop;
		uint64_t until_ns;
	} watchdog;
};

/* A lack of GPU memory is not a lack of host memory. */
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

	snprintf(what, sizeof(what), "GPU %d: taking %" PRIu64 " bytes to measure with", gpu,
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
	if (err == cudaErrorPeerAccessAlreadyEnabled)
		(void)cudaGetLastError();
	else
		rc = cuda_status(err, what);
	rung__gpu_leave(before);
	return fact(rc);
}

static int meter_put(int gpu, void *to, const void *from, uint64_t bytes)
{
	int before, rc = rung__gpu_enter(gpu, &before);

	if (rc == 0)
		rc = rung__gpu_copy_now(to, from, bytes, cudaMemcpyHostToDevice,
		                        "copying ids to a GPU");
	rung__gpu_leave(before);
	return fact(rc);
}

/* ---- holding ---- */

static void let_go(struct rung__meter *meter)
{
	__atomic_store_n(&meter->page->word, meter->turn, __ATOMIC_RELEASE);
}

/*
 * A call of CUDA's may wait for the GPU's queues to drain: a driver that loads something lazily
 * does that. Under the hold it would wait for the thread that it keeps from letting go.
 */
static void *watch(void *ctx)
{
	struct rung__meter *meter = ctx;
	struct watchdog *dog = &meter->watchdog;

	pthread_mutex_lock(&dog->lock);
	while (!dog->stop) {
		uint64_t now = rung__now_ns();

		if (!dog->holding) {
			pthread_cond_wait(&dog->changed, &dog->lock);
		} else if (now < dog->until_ns) {
			struct timespec until = rung__deadline(dog->until_ns - now);

			pthread_cond_timedwait(&dog->changed, &dog->lock, &until);
		} else {
			let_go(meter);
			dog->late = true;
			dog->holding = false;
		}
	}
	pthread_mutex_unlock(&dog->lock);
	return NULL;
}

static int start_watchdog(struct rung__meter *meter)
{
	struct watchdog *dog = &meter->watchdog;
	int err;

	pthread_mutex_init(&dog->lock, NULL);
	rung__cond_init(&dog->changed);
	err = rung__thread_start(&dog->thread, watch, meter);
	dog->started = err == 0;
	if (err)
		return rung__fail(RUNG_E_NOMEM, "cuda: starting a thread to measure with: %s",
		                  strerror(err));
	return 0;
}

static void stop_watchdog(struct rung__meter *meter)
{
	struct watchdog *dog = &meter->watchdog;

	if (dog->started) {
		pthread_mutex_lock(&dog->lock);
		dog->stop = true;
		pthread_cond_signal(&dog->changed);
		pthread_mutex_unlock(&dog->lock);
		pthread_join(dog->thread, NULL);
	}
	pthread_cond_destroy(&dog->changed);
	pthread_mutex_destroy(&dog->lock);
}

/* Later work on the first stream waits for the word. */
static int put_wait(struct rung__meter *meter)
{
	unsigned long long at = (unsigned long long)(uintptr_t)&meter->page->word;

	if (meter->wait_value(meter->streams[0], at, meter->turn, 0) != 0)
		return rung__fail(RUNG_E_IO, "cuda: putting a wait on a stream "
		                             "(cuStreamWaitValue32)");
	return 0;
}

static int hold(struct rung__meter *meter)
{
	struct watchdog *dog = &meter->watchdog;

	pthread_mutex_lock(&dog->lock);
	meter->turn++;
	dog->holding = true;
	dog->late = false;
	dog->until_ns = rung__now_ns() + HOLD_NS;
	pthread_cond_signal(&dog->changed);
	pthread_mutex_unlock(&dog->lock);
	return put_wait(meter);
}

/* Whatever has happened since hold(). */
static int end_hold(struct rung__meter *meter, int rc)
{
	struct watchdog *dog = &meter->watchdog;
	bool late;

	pthread_mutex_lock(&dog->lock);
	let_go(meter);
	dog->holding = false;
	late = dog->late;
	pthread_mutex_unlock(&dog->lock);
	if (rc == 0 && late)
		rc = rung__fail(RUNG_E_TIMEDOUT,
		                "cuda: work was not put on a held stream within "
		                "%llu s; the driver waits for its queues; set "
		                "CUDA_MODULE_LOADING=EAGER",
		                HOLD_NS / 1000000000u);
	return rc;
}

/* ---- timing ---- */

/* Queues work on the streams: one pass on one of them. */
typedef int (*pass_fn)(struct rung__meter *meter, const void *work, unsigned stream);

/* After the wait for the word; the second stream waits until the first has passed it. */
static int put_passes(struct rung__meter *meter, pass_fn pass, const void *work,
                      unsigned stream_count, uint64_t passes)
{
	cudaError_t err = cudaEventRecord(meter->begun, meter->streams[0]);
	int rc = 0;

	if (err == cudaSuccess && stream_count > 1)
		err = cudaStreamWaitEvent(meter->streams[1], meter->begun, 0);
	if (err != cudaSuccess)
		return cuda_status(err, "recording the start of the timed region");
	for (uint64_t p = 0; p < passes && rc == 0; p++) {
		for (unsigned s = 0; s < stream_count && rc == 0; s++)
			rc = pass(meter, work, s);
	}
	if (rc < 0)
		return rc;
	if (stream_count > 1)
		err = cudaEventRecord(meter->joined, meter->streams[1]);
	if (err == cudaSuccess && stream_count > 1)
		err = cudaStreamWaitEvent(meter->streams[0], meter->joined, 0);
	if (err == cudaSuccess)
		err = cudaEventRecord(meter->ended, meter->streams[0]);
	return cuda_status(err, "recording the end of the timed region");
}

static int wait_for_end(struct rung__meter *meter, const char *what, double *seconds_out)
{
	float ms = 0;
	int rc = cuda_status(cudaEventSynchronize(meter->ended), what);

	if (rc == 0)
		rc = cuda_status(cudaEventElapsedTime(&ms, meter->begun, meter->ended),
		                 "reading the time between two events");
	if (rc == 0 && !(ms > 0))
		rc = rung__fail(RUNG_E_IO, "cuda: %s: by the GPU's clock it took %g ms", what,
		                (double)ms);
	*seconds_out = (double)ms / 1e3;
	return rc;
}

/* Triggers the driver's lazy initialisation for the first pass of a kind, while no stream is
 * blocked. */
static int first_pass(struct rung__meter *meter, pass_fn pass, const void *work,
                      unsigned stream_count, const char *what)
{
	const uint64_t next = meter->list;
	int rc = put_wait(meter); /* for the last turn's word, which is there */

	meter->list = next - 1; /* the list that will be the last to be used */
	if (rc == 0)
		rc = put_passes(meter, pass, work, stream_count, 1);
	if (rc == 0)
		rc = cuda_status(cudaEventSynchronize(meter->ended), what);
	meter->list = next;
	return rc;
}

static int time_round(struct rung__meter *meter, pass_fn pass, const void *work,
                      unsigned stream_count, uint64_t passes, const char *what, double *seconds_out)
{
	int rc = hold(meter);

	if (rc == 0)
		rc = put_passes(meter, pass, work, stream_count, passes);
	rc = end_hold(meter, rc);
	return rc == 0 ? wait_for_end(meter, what, seconds_out) : rc;
}

static int time_passes(struct rung__meter *meter, pass_fn pass, const void *work,
                       unsigned stream_count, uint64_t passes, const char *what,
                       double *seconds_out)
{
	int before, rc = rung__gpu_enter(meter->gpu, &before);
	double seconds = 0, sum = 0;

	if (rc < 0)
		return fact(rc);
	rc = first_pass(meter, pass, work, stream_count, what);
	for (uint64_t left = passes; left > 0 && rc == 0;) {
		const uint64_t now = RUNG__MIN(left, ROUND_PASSES);

		rc = time_round(meter, pass, work, stream_count, now, what, &seconds);
		if (rc == 0)
			sum += seconds;
		left -= now;
	}
	for (unsigned s = 0; s < STREAMS && rc < 0; s++)
		rung__gpu_drain(meter->streams[s]);
	rung__gpu_leave(before);
	*seconds_out = sum;
	return fact(rc);
}

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
	return time_passes(meter, copy_pass, copies, count, passes, "copying memory", seconds_out);
}

static int gather_pass(struct rung__meter *meter, const void *work, unsigned stream)
{
	const struct rung__meter_gather *g = work;
	const struct rung__cuda_gather gather = {
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
		/* there are no misses: the view has all rows with valid ids */
		.miss_ranks = g->out,
		.miss_rows = g->out,
		.counts = meter->counts,
		.report = &meter->page->report,
	};

	return rung__cuda_gather_launch(&gather, meter->gather_blocks, meter->streams[stream]);
}

static int meter_gather(struct rung__meter *meter, const struct rung__meter_gather *gather,
                        uint64_t passes, double *seconds_out)
{
	const struct rung__cuda_report *report = &meter->page->report;
	int rc = time_passes(meter, gather_pass, gather, 1, passes, "gathering rows", seconds_out);

	if (rc == 0 && report->view_rows[0] != gather->row_count)
		rc = rung__fail(RUNG_E_IO, "cuda: a gather found %" PRIu64 " of %" PRIu64 " rows",
		                report->view_rows[0], gather->row_count);
	return rc;
}

/* ---- opening ---- */

static void free_meter(struct rung__meter *meter)
{
	stop_watchdog(meter);
	rung__unmap_pages(meter->page, RUNG__PAGE_BYTES);
	rung__free(meter);
}

static void meter_close(struct rung__meter *meter)
{
	const cudaEvent_t events[] = { meter->begun, meter->ended, meter->joined };
	int before = meter->gpu;

	(void)rung__gpu_enter(meter->gpu, &before);
	for (unsigned i = 0; i < RUNG__ARRAY_LEN(events); i++) {
		if (events[i])
			(void)cudaEventDestroy(events[i]);
	}
	for (unsigned s = 0; s < STREAMS; s++) {
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
	for (unsigned s = 0; s < STREAMS && err == cudaSuccess; s++)
		err = cudaStreamCreateWithFlags(&meter->streams[s], cudaStreamNonBlocking);
	return cuda_status(err, "making streams and events to measure with");
}

static int open_counts(struct rung__meter *meter)
{
	void *counts = NULL;
	int rc = cuda_status(cudaHostRegister(meter->page, RUNG__PAGE_BYTES, PIN_FLAGS),
	                     "registering a page to measure with");

	meter->page_is_pinned = rc == 0;
	if (rc == 0)
		rc = cuda_status(cudaMalloc(&counts, sizeof(*meter->counts)),
		                 "taking GPU memory for the counts of gathers");
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

	_Static_assert(sizeof(*meter->page) <= RUNG__PAGE_BYTES, "it is one page");
	if (!meter)
		return rung__fail(RUNG_E_NOMEM, "cuda: out of memory");
	meter->gpu = gpu;
	rc = start_watchdog(meter);
	meter->page = rung__map_pages(RUNG__PAGE_BYTES);
	if (rc == 0 && !meter->page)
		rc = rung__fail(RUNG_E_NOMEM, "cuda: out of memory");
	if (rc < 0) { /* of the host's memory */
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

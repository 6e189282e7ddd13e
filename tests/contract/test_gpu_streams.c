/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores on simulated GPUs and the streams of their callers: what is in order with what, by each
 * kind of handle; streams that are captured; modules that are loaded while gathers run.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "dataset.h"
#include "rung/gpu_sampler.h"
#include "sim.h"
#include "store_fixture.h"

#define ROWS 2000
#define WIDTH 400
#define ASKED 600
#define TURNS 12   /* of what goes wrong in every other order that the simulation draws */

static struct store_fixture f;
static uint64_t ids[ASKED];
static struct rung_ids list;   /* they, in memory of the store */

/* @param hits  every row is where a kernel reaches it, so no call waits */
static void open_store(bool hits)
{
	struct rung_store_opts opts = {
		.size = sizeof(opts), .requests_max = 4, .batch_rows_max = 1000
	};

	fixture_open(&f, ROWS, WIDTH, hits ? RUNG_BYTES_MAX : ROWS * WIDTH / 4, &opts, NULL);
	fixture_random_ids(&f, ids, ASKED, 5);
	list = fixture_ids(&f, ids, ASKED, RUNG_U64, RUNG_RANKS);
}

static void tear_down(void)
{
	fixture_close(&f);
	if (sim_live() > 0) {
		sim_leaks(stderr);
		abort();
	}
}

TestSuite(gpu_streams, .fini = tear_down);

static struct rung_request *submit(void *out, struct CUstream_st *stream)
{
	struct rung_request *request = NULL;

	cr_assert_eq(rung_gather_submit(f.store, &list, out, 0, stream, &request), 0, "%s",
	             rung_last_error());
	return request;
}

static void put_rows(struct rung_request *request, unsigned char *out)
{
	cr_assert_eq(rung_request_wait(request, -1), 0, "%s", rung_last_error());
	rung_request_put(request);
	fixture_check(&f, ids, ASKED, out, WIDTH);
}

static void *pinned(size_t bytes)
{
	void *memory = NULL;

	cr_assert_eq(cudaHostAlloc(&memory, bytes, 0), cudaSuccess);
	memset(memory, 0, bytes);
	return memory;
}

static cudaStream_t new_stream(unsigned flags)
{
	cudaStream_t stream;

	cr_assert_eq(cudaStreamCreateWithFlags(&stream, flags), cudaSuccess);
	return stream;
}

/* ---- handles ---- */

/* Ids that work on the stream writes; until that has run, memory holds others. */
static void gather_follows(struct CUstream_st *stream, cudaStream_t work_on)
{
	unsigned char *out = fixture_memory(&f, ASKED * WIDTH);
	uint64_t *late = pinned(sizeof(ids)), *there = fixture_memory(&f, sizeof(ids));
	struct rung_request *request;

	memcpy(late, ids, sizeof(ids));
	list.data = there;
	for (unsigned turn = 0; turn < TURNS; turn++) {
		cr_assert_eq(cudaMemset(there, 0, sizeof(ids)), cudaSuccess);
		cr_assert_eq(cudaDeviceSynchronize(), cudaSuccess);
		sim_hold(true);
		cr_assert_eq(cudaMemcpyAsync(there, late, sizeof(ids), cudaMemcpyDefault, work_on),
		             cudaSuccess);
		request = submit(out, stream);
		sim_hold(false);
		put_rows(request, out);
	}
	cr_assert_eq(cudaFreeHost(late), cudaSuccess);
}

Test(gpu_streams, null_is_the_default_stream)
{
	open_store(true);
	gather_follows(NULL, NULL);
	gather_follows(NULL, cudaStreamLegacy);
	gather_follows(cudaStreamLegacy, NULL);
}

Test(gpu_streams, the_default_stream_follows_streams_that_block)
{
	cudaStream_t blocking;

	open_store(true);
	blocking = new_stream(cudaStreamDefault);
	gather_follows(NULL, blocking);
	gather_follows(blocking, NULL);
	cr_assert_eq(cudaStreamDestroy(blocking), cudaSuccess);
}

Test(gpu_streams, a_stream_of_the_thread_is_the_calling_threads)
{
	open_store(true);
	gather_follows(cudaStreamPerThread, cudaStreamPerThread);
}

/* Work on the caller's stream that reads the rows. */
static void rows_come_before(struct CUstream_st *gathered_on, struct CUstream_st *waits,
                             cudaStream_t work_on)
{
	unsigned char *out = fixture_memory(&f, ASKED * WIDTH), *seen = pinned(ASKED * WIDTH);
	unsigned char *copy = fixture_memory(&f, ASKED * WIDTH);
	struct rung_request *request;

	for (unsigned turn = 0; turn < TURNS; turn++) {
		cr_assert_eq(cudaMemset(out, 0, ASKED * WIDTH), cudaSuccess);
		cr_assert_eq(cudaDeviceSynchronize(), cudaSuccess);
		sim_hold(true);
		request = submit(out, gathered_on);
		cr_assert_eq(rung_request_wait_stream(request, waits), 0, "%s", rung_last_error());
		cr_assert_eq(cudaMemcpyAsync(seen, out, ASKED * WIDTH, cudaMemcpyDefault, work_on),
		             cudaSuccess);
		sim_hold(false);
		cr_assert_eq(cudaStreamSynchronize(work_on), cudaSuccess);
		cr_assert_eq(rung_store_copy(f.store, copy, seen, ASKED * WIDTH), 0);
		fixture_check(&f, ids, ASKED, copy, WIDTH);
		rung_request_put(request);
	}
	cr_assert_eq(cudaFreeHost(seen), cudaSuccess);
}

Test(gpu_streams, the_default_stream_waits_for_rows)
{
	open_store(true);
	rows_come_before(RUNG_STREAM_OWN, NULL, NULL);
	rows_come_before(RUNG_STREAM_OWN, cudaStreamLegacy, NULL);
}

/* The same handle, another stream. */
struct other_thread {
	struct rung_request *request;
	unsigned char *out;
};

static void *submit_on_its_stream(void *ctx)
{
	struct other_thread *other = ctx;

	other->request = submit(other->out, cudaStreamPerThread);
	return NULL;
}

Test(gpu_streams, the_stream_of_one_thread_waits_for_that_of_another)
{
	struct other_thread other;
	unsigned char *seen, *copy;
	pthread_t thread;

	open_store(true);
	other.out = fixture_memory(&f, ASKED * WIDTH);
	copy = fixture_memory(&f, ASKED * WIDTH);
	seen = pinned(ASKED * WIDTH);
	for (unsigned turn = 0; turn < TURNS; turn++) {
		cr_assert_eq(cudaMemset(other.out, 0, ASKED * WIDTH), cudaSuccess);
		cr_assert_eq(cudaDeviceSynchronize(), cudaSuccess);
		sim_hold(true);
		cr_assert_eq(pthread_create(&thread, NULL, submit_on_its_stream, &other), 0);
		cr_assert_eq(pthread_join(thread, NULL), 0);
		cr_assert_eq(rung_request_wait_stream(other.request, cudaStreamPerThread), 0);
		cr_assert_eq(cudaMemcpyAsync(seen, other.out, ASKED * WIDTH, cudaMemcpyDefault,
		                             cudaStreamPerThread), cudaSuccess);
		sim_hold(false);
		cr_assert_eq(cudaStreamSynchronize(cudaStreamPerThread), cudaSuccess);
		cr_assert_eq(rung_store_copy(f.store, copy, seen, ASKED * WIDTH), 0);
		fixture_check(&f, ids, ASKED, copy, WIDTH);
		rung_request_put(other.request);
	}
	cr_assert_eq(cudaFreeHost(seen), cudaSuccess);
}

/* Until the host writes 1 there. */
static void hold_stream(cudaStream_t stream, const uint32_t *word)
{
	int (*wait_value)(cudaStream_t, unsigned long long, uint32_t, unsigned);

	cr_assert_eq(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", (void **)&wait_value,
	                                              12000, cudaEnableDefault, NULL), cudaSuccess);
	cr_assert_eq(wait_value(stream, (uintptr_t)word, 1, 0), 0);
}

/* What holds the default stream does not hold it. */
Test(gpu_streams, the_stores_own_stream_is_in_order_with_no_other)
{
	unsigned char *out, *late_out;
	struct rung_request *late, *own;
	uint32_t *word;

	open_store(true);
	out = fixture_memory(&f, ASKED * WIDTH);
	late_out = fixture_memory(&f, ASKED * WIDTH);
	word = pinned(sizeof(*word));
	hold_stream(NULL, word);
	late = submit(late_out, NULL);
	own = submit(out, RUNG_STREAM_OWN);
	cr_assert_eq(rung_request_wait(own, -1), 0, "%s", rung_last_error());
	cr_assert_eq(rung_gather(f.store, &list, out, 0), 0, "%s", rung_last_error());
	cr_assert_eq(rung_request_poll(late), 0);
	__atomic_store_n(word, 1, __ATOMIC_RELEASE);
	put_rows(own, out);
	put_rows(late, late_out);
	cr_assert_eq(cudaFreeHost(word), cudaSuccess);
}

/* Cold rows as well, whose copies are put on another stream. */
Test(gpu_streams, cold_rows_are_in_order_with_the_default_stream)
{
	unsigned char *out, *seen, *copy;

	open_store(false);
	out = fixture_memory(&f, ASKED * WIDTH);
	copy = fixture_memory(&f, ASKED * WIDTH);
	seen = pinned(ASKED * WIDTH);
	for (unsigned turn = 0; turn < TURNS; turn++) {
		struct rung_request *request;

		cr_assert_eq(cudaMemset(out, 0, ASKED * WIDTH), cudaSuccess);
		request = submit(out, NULL);
		cr_assert_eq(rung_request_wait_stream(request, NULL), 0, "%s", rung_last_error());
		cr_assert_eq(cudaMemcpyAsync(seen, out, ASKED * WIDTH, cudaMemcpyDefault, NULL),
		             cudaSuccess);
		rung_request_put(request);
		cr_assert_eq(cudaStreamSynchronize(NULL), cudaSuccess);
		cr_assert_eq(rung_store_copy(f.store, copy, seen, ASKED * WIDTH), 0);
		fixture_check(&f, ids, ASKED, copy, WIDTH);
	}
	cr_assert_eq(cudaFreeHost(seen), cudaSuccess);
}

/* ---- CUDA graphs: streams that are captured ---- */

static void begin_capture(cudaStream_t stream)
{
	cr_assert_eq(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
}

/* Nothing has spoiled it. */
static void end_capture(cudaStream_t stream)
{
	cudaGraph_t graph;

	cr_assert_eq(cudaStreamEndCapture(stream, &graph), cudaSuccess, "the capture was spoiled");
	cr_assert_eq(cudaGraphDestroy(graph), cudaSuccess);
}

static void is_refused(int rc, const char *says)
{
	cr_assert_eq(rc, RUNG_E_NOSUP, "%s: %d, %s", says, rc, rung_last_error());
	cr_assert(strstr(rung_last_error(), says), "%s", rung_last_error());
	cr_assert(strstr(rung_last_error(), "CUDA graph"), "%s", rung_last_error());
}

Test(gpu_streams, a_stream_that_is_captured_is_refused)
{
	struct rung_request *request, *before;
	cudaStream_t stream;
	unsigned char *out;

	open_store(true);
	stream = new_stream(cudaStreamNonBlocking);
	out = fixture_memory(&f, ASKED * WIDTH);
	before = submit(out, RUNG_STREAM_OWN);
	begin_capture(stream);
	for (unsigned i = 0; i < 10; i++)   /* no request is lost */
		is_refused(rung_gather_submit(f.store, &list, out, 0, stream, &request), "gather");
	is_refused(rung_request_wait_stream(before, stream), "letting a stream wait for rows");
	end_capture(stream);
	put_rows(before, out);
	put_rows(submit(out, stream), out);
	cr_assert_eq(cudaStreamDestroy(stream), cudaSuccess);
}

Test(gpu_streams, the_default_stream_is_refused_while_a_stream_in_order_with_it_is_captured)
{
	struct rung_request *request;
	cudaStream_t stream;
	unsigned char *out;
	char byte;

	open_store(true);
	stream = new_stream(cudaStreamDefault);
	out = fixture_memory(&f, ASKED * WIDTH);
	begin_capture(stream);
	is_refused(rung_gather_submit(f.store, &list, out, 0, NULL, &request),
	           "gather: the default stream");
	is_refused(rung_gather_submit(f.store, &list, out, 0, cudaStreamLegacy, &request),
	           "gather: the default stream");
	is_refused(rung_store_copy(f.store, &byte, out, 1), "copying memory: the default stream");
	request = submit(out, RUNG_STREAM_OWN);
	is_refused(rung_request_wait_stream(request, NULL), "letting a stream wait");
	cr_assert_eq(rung_request_wait(request, -1), 0, "%s", rung_last_error());
	end_capture(stream);
	put_rows(request, out);
	cr_assert_eq(cudaStreamDestroy(stream), cudaSuccess);
}

Test(gpu_streams, batches_are_not_sampled_on_a_stream_that_is_captured)
{
	const uint32_t fanouts[] = { 3 };
	struct rung_gpu_sampler_opts opts = {
		.size = sizeof(opts), .fanouts = fanouts, .hop_count = 1, .seed_count_max = 4
	};
	struct rung_gpu_sampler *sampler;
	struct rung_gpu_batch *batch;
	struct rung_ids seeds;
	cudaStream_t stream;

	open_store(true);
	seeds = fixture_ids(&f, (uint64_t[]){ 1, 2, 3, 4 }, 4, RUNG_U64, RUNG_RANKS);
	cr_assert_eq(rung_gpu_sampler_create(f.store, f.ds, f.plan, &opts, &sampler), 0, "%s",
	             rung_last_error());
	cr_assert_eq(rung_gpu_batch_create(sampler, &batch), 0, "%s", rung_last_error());
	stream = new_stream(cudaStreamNonBlocking);
	begin_capture(stream);
	is_refused(rung_gpu_sample(batch, seeds.data, 4, 1, stream), "sampling");
	cr_assert_eq(rung_gpu_sample(batch, seeds.data, 4, 1, RUNG_STREAM_OWN), 0, "%s",
	             rung_last_error());
	cr_assert_eq(rung_gpu_batch_wait(batch, -1), 0, "%s", rung_last_error());
	end_capture(stream);
	cr_assert_eq(rung_gpu_sample(batch, seeds.data, 4, 1, stream), 0, "%s", rung_last_error());
	cr_assert_eq(rung_gpu_batch_wait(batch, -1), 0, "%s", rung_last_error());
	cr_assert_eq(cudaStreamDestroy(stream), cudaSuccess);
	rung_gpu_batch_destroy(batch);
	rung_gpu_sampler_destroy(sampler);
}

/* Allocation and release, gathers and waits for them. */
static void use_store(void)
{
	unsigned char *out;
	void *memory;

	cr_assert_eq(rung_store_alloc(f.store, ASKED * WIDTH, &memory), 0, "%s", rung_last_error());
	out = memory;
	for (unsigned i = 0; i < 10; i++) {
		struct rung_request *request = submit(out, RUNG_STREAM_OWN);

		while (i % 2 && !rung_request_poll(request))
			;
		cr_assert_eq(rung_request_wait(request, i % 3 ? -1 : INT64_MAX / 2), 0, "%s",
		             rung_last_error());
		rung_request_put(request);
		rung_request_put(submit(out, RUNG_STREAM_OWN));
	}
	cr_assert_eq(rung_gather(f.store, &list, out, 0), 0, "%s", rung_last_error());
	rung_store_free(f.store, memory);
}

static void *use_store_here(void *unused)
{
	(void)unused;
	use_store();
	return NULL;
}

static void use_store_during_a_capture(bool hits)
{
	cudaStream_t stream;
	pthread_t thread;

	open_store(hits);
	stream = new_stream(cudaStreamNonBlocking);
	begin_capture(stream);
	use_store();
	end_capture(stream);
	begin_capture(stream);
	cr_assert_eq(pthread_create(&thread, NULL, use_store_here, NULL), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	end_capture(stream);
	cr_assert_eq(cudaStreamDestroy(stream), cudaSuccess);
}

Test(gpu_streams, gathers_beside_a_capture_leave_it_alone)
{
	use_store_during_a_capture(true);
}

/* Here the hand-off thread works as well. */
Test(gpu_streams, gathers_of_cold_rows_beside_a_capture_leave_it_alone)
{
	use_store_during_a_capture(false);
}

/* The mode is the caller's again: its own mistakes are still told. */
Test(gpu_streams, calls_leave_the_capture_mode_of_their_thread)
{
	enum cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal;
	unsigned char *out;

	open_store(true);
	cr_assert_eq(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
	out = fixture_memory(&f, ASKED * WIDTH);
	put_rows(submit(out, NULL), out);
	sim_fail("cudaLaunchKernel", 1, cudaErrorLaunchFailure);
	cr_assert_eq(rung_gather(f.store, &list, out, 0), RUNG_E_IO);
	mode = cudaStreamCaptureModeGlobal;
	cr_assert_eq(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
	cr_assert_eq(mode, cudaStreamCaptureModeThreadLocal);
}

/* ---- modules that are loaded late ---- */

static void *load(void *unused)
{
	(void)unused;
	cr_assert_eq(sim_load(), cudaSuccess);
	return NULL;
}

/*
 * Somebody's first launch of a kernel holds the lock that calls need until the GPU has nothing to
 * do. So what is on the GPU may depend on no call of rung's.
 */
Test(gpu_streams, rows_arrive_while_a_module_is_loaded)
{
	unsigned char *out, *theirs;
	cudaStream_t stream;

	open_store(false);
	out = fixture_memory(&f, ASKED * WIDTH);
	theirs = fixture_memory(&f, ASKED * WIDTH);
	stream = new_stream(cudaStreamNonBlocking);
	for (unsigned turn = 0; turn < TURNS; turn++) {
		const unsigned long loads = sim_calls("cuModuleLoadData");
		struct rung_request *request;
		pthread_t thread;

		sim_hold(true);
		request = submit(out, stream);
		cr_assert_eq(pthread_create(&thread, NULL, load, NULL), 0);
		while (sim_calls("cuModuleLoadData") == loads)
			;
		sim_hold(false);
		cr_assert_eq(rung_request_wait_stream(request, stream), 0, "%s", rung_last_error());
		cr_assert_eq(cudaMemcpyAsync(theirs, out, ASKED * WIDTH, cudaMemcpyDefault, stream),
		             cudaSuccess);
		load(NULL);   /* behind work that waits for the rows */
		cr_assert_eq(cudaStreamQuery(stream), cudaSuccess);
		cr_assert_eq(pthread_join(thread, NULL), 0);
		put_rows(request, theirs);
	}
	cr_assert_eq(cudaStreamDestroy(stream), cudaSuccess);
}

static void set_flag(void *flag)
{
	__atomic_store_n((int *)flag, 1, __ATOMIC_RELEASE);
}

/*
 * The load cannot end, because a stream of the caller's waits for the host, which waits for rows.
 * They are there once their gather has run: to see that takes no call of CUDA's.
 */
Test(gpu_streams, a_gather_that_has_run_is_seen_while_a_module_is_loaded)
{
	struct rung_request *request;
	cudaStream_t held, stream;
	unsigned char *out;
	uint32_t *words;
	pthread_t thread;
	int has_run = 0;

	open_store(true);
	out = fixture_memory(&f, ASKED * WIDTH);
	words = pinned(2 * sizeof(*words));
	held = new_stream(cudaStreamNonBlocking);
	stream = new_stream(cudaStreamNonBlocking);
	hold_stream(held, &words[0]);
	hold_stream(stream, &words[1]);
	request = submit(out, stream);
	cr_assert_eq(cudaLaunchHostFunc(stream, set_flag, &has_run), cudaSuccess);
	cr_assert_eq(pthread_create(&thread, NULL, load, NULL), 0);
	while (sim_calls("cuModuleLoadData") == 0)
		;
	__atomic_store_n(&words[1], 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&has_run, __ATOMIC_ACQUIRE))
		;
	cr_assert_eq(rung_request_poll(request), 1);
	cr_assert_eq(rung_request_wait(request, -1), 0, "%s", rung_last_error());
	__atomic_store_n(&words[0], 1, __ATOMIC_RELEASE);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	put_rows(request, out);
	cr_assert_eq(cudaStreamDestroy(held), cudaSuccess);
	cr_assert_eq(cudaStreamDestroy(stream), cudaSuccess);
	cr_assert_eq(cudaFreeHost(words), cudaSuccess);
}

/* Those of gathers and scatters are loaded at open: they would hold up the caller's work else. */
Test(gpu_streams, no_kernel_is_loaded_after_open)
{
	unsigned long loads;
	unsigned char *out;

	setenv("CUDA_MODULE_LOADING", "LAZY", 1);
	open_store(false);
	loads = sim_calls("cuModuleLoadData");
	cr_assert_gt(loads, 0);
	out = fixture_memory(&f, ASKED * WIDTH);
	put_rows(submit(out, NULL), out);
	cr_assert_eq(sim_calls("cuModuleLoadData"), loads);
}

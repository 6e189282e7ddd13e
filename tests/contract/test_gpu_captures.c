/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores on simulated GPUs and streams that are being captured into CUDA graphs: calls on them are
 * refused, and a store's work on other streams does not invalidate the capture.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include "rung/gpu_sampler.h"
#include "sim_store_fixture.h"

TestSuite(gpu_captures, .fini = tear_down);

static void begin_capture(cudaStream_t stream)
{
	cr_assert_eq(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
}

/* The capture must still be valid. */
static void end_capture(cudaStream_t stream)
{
	cudaGraph_t graph;

	cr_assert_eq(cudaStreamEndCapture(stream, &graph), cudaSuccess,
	             "the capture was invalidated");
	cr_assert_eq(cudaGraphDestroy(graph), cudaSuccess);
}

static void is_refused(int rc, const char *says)
{
	cr_assert_eq(rc, RUNG_E_NOSUP, "%s: %d, %s", says, rc, rung_last_error());
	cr_assert(strstr(rung_last_error(), says), "%s", rung_last_error());
	cr_assert(strstr(rung_last_error(), "CUDA graph"), "%s", rung_last_error());
}

Test(gpu_captures, a_captured_stream_is_refused)
{
	struct rung_request *request, *before;
	cudaStream_t stream;
	unsigned char *out;

	open_store(true);
	stream = new_stream(cudaStreamNonBlocking);
	out = fixture_memory(&f, ASKED * WIDTH);
	before = submit(out, RUNG_STREAM_OWN);
	begin_capture(stream);
	for (unsigned i = 0; i < 10; i++) /* more than there are requests: none is lost */
		is_refused(rung_gather_submit(f.store, &list, out, 0, stream, &request), "gather");
	is_refused(rung_request_wait_stream(before, stream), "letting a stream wait for rows");
	end_capture(stream);
	put_rows(before, out);
	put_rows(submit(out, stream), out);
	cr_assert_eq(cudaStreamDestroy(stream), cudaSuccess);
}

Test(gpu_captures, the_default_stream_is_refused_while_a_blocking_stream_is_captured)
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

Test(gpu_captures, batches_are_not_sampled_on_a_captured_stream)
{
	const uint32_t fanouts[] = { 3 };
	struct rung_gpu_sampler_opts opts = {
		.size = sizeof(opts), .fanouts = fanouts, .hop_count = 1, .seed_count_max = 4
	};
	struct rung_gpu_sampler *sampler;
	struct rung__gpu_batch *batch;
	struct rung_ids seeds;
	cudaStream_t stream;

	open_store(true);
	seeds = fixture_ids(&f, (uint64_t[]){ 1, 2, 3, 4 }, 4, RUNG_U64, RUNG_RANKS);
	cr_assert_eq(rung_gpu_sampler_create(f.store, f.ds, f.plan, &opts, &sampler), 0, "%s",
	             rung_last_error());
	cr_assert_eq(rung__gpu_batch_create(sampler, &batch), 0, "%s", rung_last_error());
	stream = new_stream(cudaStreamNonBlocking);
	begin_capture(stream);
	is_refused(rung__gpu_batch_sample(batch, seeds.data, 4, 1, stream), "sampling");
	cr_assert_eq(rung__gpu_batch_sample(batch, seeds.data, 4, 1, RUNG_STREAM_OWN), 0, "%s",
	             rung_last_error());
	cr_assert_eq(rung__gpu_batch_wait(batch, -1), 0, "%s", rung_last_error());
	end_capture(stream);
	cr_assert_eq(rung__gpu_batch_sample(batch, seeds.data, 4, 1, stream), 0, "%s",
	             rung_last_error());
	cr_assert_eq(rung__gpu_batch_wait(batch, -1), 0, "%s", rung_last_error());
	cr_assert_eq(cudaStreamDestroy(stream), cudaSuccess);
	rung__gpu_batch_destroy(batch);
	rung_gpu_sampler_destroy(sampler);
}

/* Output of requests that are put early: the fixture waits for them before it frees their
 * memory. */
static unsigned char *left_behind;

/* Allocate, gather, wait and release. */
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
		rung_request_put(submit(left_behind, RUNG_STREAM_OWN));
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
	left_behind = fixture_memory(&f, ASKED * WIDTH);
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

Test(gpu_captures, gathers_do_not_invalidate_a_concurrent_capture)
{
	use_store_during_a_capture(true);
}

/* Cold rows: the device thread makes CUDA calls as well. */
Test(gpu_captures, gathers_of_cold_rows_do_not_invalidate_a_concurrent_capture)
{
	use_store_during_a_capture(false);
}

/* The caller's mode is restored, so that the caller's own mistakes are still reported. */
Test(gpu_captures, calls_restore_the_capture_mode_of_their_thread)
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

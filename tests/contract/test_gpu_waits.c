/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How callers of stores on simulated GPUs wait. Work on another stream waits for rows, the host
 * waits for nothing if every row is a hit, and a wait with a time limit ends.
 */
#include <criterion/criterion.h>

#include "sim_store_fixture.h"

TestSuite(gpu_waits, .init = set_up, .fini = tear_down);

/* The caller's own work on another stream is ordered after the rows; the host does not wait. */
Test(gpu_waits, work_on_another_stream_sees_the_rows)
{
	cudaStream_t mine, theirs;
	unsigned char *host;

	cr_assert_eq(cudaStreamCreateWithFlags(&mine, cudaStreamNonBlocking), cudaSuccess);
	cr_assert_eq(cudaStreamCreateWithFlags(&theirs, cudaStreamNonBlocking), cudaSuccess);
	cr_assert_eq(cudaHostAlloc((void **)&host, ASKED * WIDTH, 0), cudaSuccess);
	for (unsigned round = 0; round < 20; round++) {
		unsigned char *out = fixture_memory(&f, ASKED * WIDTH);
		struct rung_request *request = submit(out, round % 2 ? mine : RUNG_STREAM_OWN);

		cr_assert_eq(rung_request_wait_stream(request, theirs), 0, "%s", rung_last_error());
		cr_assert_eq(
			cudaMemcpyAsync(host, out, ASKED * WIDTH, cudaMemcpyDeviceToHost, theirs),
			cudaSuccess);
		rung_request_put(request);
		cr_assert_eq(cudaStreamSynchronize(theirs), cudaSuccess);
		cr_assert_eq(rung_store_copy(f.store, out, host, ASKED * WIDTH), 0);
		fixture_check(&f, ids, ASKED, out, WIDTH);
	}
	cr_assert_eq(cudaFreeHost(host), cudaSuccess);
	cr_assert_eq(cudaStreamDestroy(mine), cudaSuccess);
	cr_assert_eq(cudaStreamDestroy(theirs), cudaSuccess);
}

static const char *const waits[] = {
	"cudaEventSynchronize",
	"cudaStreamSynchronize",
	"cudaDeviceSynchronize",
	"cudaMemcpy",
	"cudaMalloc",
	"cudaFree",
	"cudaHostRegister",
	"cudaStreamCreateWithPriority",
	"cudaEventCreateWithFlags",
};

static unsigned long calls_of_waits(void)
{
	unsigned long calls = 0;

	for (unsigned i = 0; i < RUNG__ARRAY_LEN(waits); i++)
		calls += sim_calls(waits[i]);
	return calls;
}

static uint64_t host_waits(void)
{
	struct rung_store_stats stats = { .size = sizeof(stats) };

	rung_store_stats(f.store, &stats);
	return stats.host_waits;
}

static uint64_t hits(void)
{
	struct rung_store_stats stats = { .size = sizeof(stats) };
	uint64_t all = 0;

	rung_store_stats(f.store, &stats);
	for (unsigned t = 0; t < stats.tier_count; t++)
		all += stats.tiers[t].hits;
	return all;
}

/*
 * Submit, order, put: if a kernel can reach every row, the host waits for nothing, whatever the GPU
 * does at the same time.
 */
Test(gpu_waits, a_batch_of_hits_makes_the_host_wait_for_nothing)
{
	struct rung_store_opts opts = { .size = sizeof(opts),
		                        .requests_max = 4,
		                        .batch_rows_max = 1000 };
	int gpus[3];
	struct rung_plan_opts plan_opts = fixture_plan_opts(ROWS * WIDTH, RUNG_BYTES_MAX, gpus);
	cudaStream_t theirs;
	unsigned long before;
	unsigned char *out;

	fixture_free_memories(&f);
	cr_assert_eq(rung_store_close(f.store), 0);
	rung_plan_destroy(f.plan);
	cr_assert_eq(rung_plan_create(f.ds, &plan_opts, &f.plan), 0);
	cr_assert_eq(rung_store_open(f.ds, f.plan, &opts, &f.store), 0, "%s", rung_last_error());
	out = fixture_memory(&f, ASKED * WIDTH);
	list = fixture_ids(&f, ids, ASKED, RUNG_U64, RUNG_RANKS);
	cr_assert_eq(cudaStreamCreateWithFlags(&theirs, cudaStreamNonBlocking), cudaSuccess);
	before = calls_of_waits();
	hold(); /* no work ends until it is released: a wait here would hang */
	for (unsigned i = 0; i < 4; i++) {
		struct rung_request *request = submit(out, NULL);

		cr_assert_eq(rung_request_wait_stream(request, theirs), 0);
		cr_assert_eq(rung_request_poll(request), 0);
		rung_request_put(request);
	}
	cr_assert_eq(calls_of_waits(), before);
	cr_assert_eq(host_waits(), 0);
	sim_hold(false);
	/* more than there are requests: those that were put early are reused */
	for (unsigned i = 0; i < 50; i++)
		rung_request_put(submit(out, NULL));
	cr_assert_eq(cudaDeviceSynchronize(), cudaSuccess);
	cr_assert_eq(hits(), 54 * ASKED); /* including requests that were never polled */
	gather_is_right();
	cr_assert_eq(cudaStreamDestroy(theirs), cudaSuccess);
}

Test(gpu_waits, nothing_is_allocated_after_open)
{
	unsigned char *out = fixture_memory(&f, ASKED * WIDTH);
	unsigned long before = calls_of_waits();

	rung__alloc_limit(0);
	for (unsigned i = 0; i < 10; i++)
		cr_assert_eq(rung_gather(f.store, &list, out, 0), 0, "%s", rung_last_error());
	rung__alloc_limit(-1);
	cr_assert_eq(calls_of_waits(), before);
}

/* A wait with a time limit ends, and the request continues. */
Test(gpu_waits, a_wait_with_a_limit_ends_while_the_gpu_is_silent)
{
	unsigned char *out = fixture_memory(&f, ASKED * WIDTH);
	struct rung_request *request;

	for (unsigned round = 0; round < 3; round++) { /* the same request each time */
		hold();
		request = submit(out, NULL);
		cr_assert_eq(rung_request_wait(request, 1000000), RUNG_E_TIMEDOUT);
		cr_assert_eq(rung_request_poll(request), 0);
		sim_hold(false);
		cr_assert_eq(rung_request_wait(request, -1), 0, "%s", rung_last_error());
		fixture_check(&f, ids, ASKED, out, WIDTH);
		rung_request_put(request);
	}
}

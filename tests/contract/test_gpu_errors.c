/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores on simulated GPUs when CUDA calls fail: which requests fail, with which message, and that
 * nothing leaks.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault_reader.h"
#include "rung/gpu_sampler.h"
#include "sim_store_fixture.h"

TestSuite(gpu_errors, .init = set_up, .fini = tear_down);

/* ---- opening ---- */

static const char *const functions[] = {
	"cudaGetDeviceCount",
	"cudaGetDevice",
	"cudaSetDevice",
	"cudaGetDeviceProperties",
	"cudaDeviceGetPCIBusId",
	"cudaMemGetInfo",
	"cudaDeviceGetAttribute",
	"cudaMalloc",
	"cudaHostRegister",
	"cudaMemcpyAsync",
	"cudaMemcpy2DAsync",
	"cudaMemcpy",
	"cudaMemsetAsync",
	"cudaDeviceGetStreamPriorityRange",
	"cudaStreamCreateWithPriority",
	"cudaEventCreateWithFlags",
	"cudaEventRecord",
	"cudaEventSynchronize",
	"cudaStreamSynchronize",
	"cudaOccupancyMaxActiveBlocksPerMultiprocessor",
	"cudaGetDriverEntryPointByVersion",
	"cudaDeviceEnablePeerAccess",
	"cuCtxPushCurrent",
};

static int open_store_once(void)
{
	struct rung_store_opts opts = {
		.size = sizeof(opts), .batch_rows_max = 1000, .vertex_ids = 1, .requests_max = 1
	};
	struct rung_store *store;
	int rc = rung_store_open(f.ds, f.plan, &opts, &store);

	if (rc == 0)
		cr_assert_eq(rung_store_close(store), 0);
	return rc;
}

static int open_sampler_once(void)
{
	static const uint32_t fanouts[] = { 3, 2 };
	struct rung_gpu_sampler_opts opts = {
		.size = sizeof(opts), .fanouts = fanouts, .hop_count = 2, .seed_count_max = 10
	};
	struct rung_gpu_sampler *sampler;
	struct rung__gpu_batch *batch;
	int rc = rung_gpu_sampler_create(f.store, f.ds, f.plan, &opts, &sampler);

	if (rc < 0)
		return rc;
	rc = rung__gpu_batch_create(sampler, &batch);
	if (rc == 0)
		rung__gpu_batch_destroy(batch);
	rung_gpu_sampler_destroy(sampler);
	return rc;
}

/* Fail each call of one function once. @param calls number of calls when none fails */
static void open_with_failures(int (*open_once)(void), const char *function, unsigned long calls)
{
	size_t live = sim_live();

	for (unsigned nth = 1; nth <= calls; nth++) {
		int rc;

		sim_fail(function, nth, cudaErrorUnknown);
		rc = open_once();
		sim_fail(function, 0, cudaSuccess);
		if (rc == 0) { /* the call was made while closing */
			cr_assert(strcmp(function, "cuCtxPushCurrent") == 0 ||
			                  strcmp(function, "cudaSetDevice") == 0 ||
			                  strcmp(function, "cudaGetDevice") == 0,
			          "%s, call %u of %lu", function, nth, calls);
		} else {
			cr_assert_eq(rc, RUNG_E_IO, "%s: %s", function, rung_last_error());
			cr_assert(strstr(rung_last_error(), "cuda: "), "%s: %s", function,
			          rung_last_error());
		}
		cr_assert_eq(sim_live(), live, "%s, call %u of %lu leaks", function, nth, calls);
	}
}

static void fail_each_call(int (*open_once)(void))
{
	unsigned long before[RUNG__ARRAY_LEN(functions)], calls[RUNG__ARRAY_LEN(functions)],
		all = 0;

	for (unsigned i = 0; i < RUNG__ARRAY_LEN(functions); i++)
		before[i] = sim_calls(functions[i]);
	cr_assert_eq(open_once(), 0, "%s", rung_last_error());
	for (unsigned i = 0; i < RUNG__ARRAY_LEN(functions); i++)
		calls[i] = sim_calls(functions[i]) - before[i];
	for (unsigned i = 0; i < RUNG__ARRAY_LEN(functions); i++) {
		open_with_failures(open_once, functions[i], calls[i]);
		all += calls[i];
	}
	cr_assert_gt(all, 20);
	gather_is_right();
}

Test(gpu_errors, any_call_may_fail_while_a_store_opens_and_nothing_leaks)
{
	fail_each_call(open_store_once);
}

Test(gpu_errors, the_streams_of_a_store_have_the_lowest_priority)
{
	cr_assert_eq(sim_streams(SIM_PRIORITY_LEAST), 2);
	cr_assert_eq(sim_streams(0), 0);
}

Test(gpu_errors, any_call_may_fail_while_a_sampler_opens_and_nothing_leaks)
{
	fail_each_call(open_sampler_once);
}

Test(gpu_errors, out_of_gpu_memory_reports_the_free_bytes)
{
	struct rung_store_opts opts = { .size = sizeof(opts) };
	struct rung_store *store;
	size_t live = sim_live();

	sim_fail("cudaMalloc", 1, cudaErrorMemoryAllocation);
	cr_assert_eq(rung_store_open(f.ds, f.plan, &opts, &store), RUNG_E_NOMEM);
	cr_assert(strstr(rung_last_error(), "bytes are free; set a smaller GPU budget"), "%s",
	          rung_last_error());
	cr_assert_eq(sim_live(), live);
}

Test(gpu_errors, a_failed_registration_names_the_limit_of_locked_memory)
{
	struct rung_store_opts opts = { .size = sizeof(opts) };
	struct rung_store *store;

	sim_fail("cudaHostRegister", 1, cudaErrorMemoryAllocation);
	cr_assert_eq(rung_store_open(f.ds, f.plan, &opts, &store), RUNG_E_NOMEM);
	cr_assert(strstr(rung_last_error(), "cuda: registering "), "%s", rung_last_error());
	cr_assert(strstr(rung_last_error(), "limit of locked memory"), "%s", rung_last_error());
}

/* Each of two buffers holds one row, and the second row is in two registrations. */
Test(gpu_errors, rows_that_cross_a_registration_boundary_are_loaded)
{
	const uint64_t wide = RUNG__REGISTER_BYTES / 2 + 7 * RUNG__PAGE_BYTES + 40, rows = 3;
	struct rung_store_opts opts = {
		.size = sizeof(opts),
		.requests_max = 1,
		.batch_rows_max = 1,
		.vertex_ids = 1,
	};
	struct rung_plan_opts plan_opts;
	int gpus[3];

	fixture_close(&f);
	fixture_open(&f, rows, wide, RUNG_BYTES_MAX, &opts, NULL);
	cr_assert_eq(rung_store_close(f.store), 0);
	rung_plan_destroy(f.plan);
	plan_opts = fixture_plan_opts(rows * wide, RUNG_BYTES_MAX, gpus);
	plan_opts.gpu_bytes = 2 * wide + wide / 2;
	plan_opts.replicate_bytes = RUNG_BYTES_NONE;
	cr_assert_eq(rung_plan_create(f.ds, &plan_opts, &f.plan), 0, "%s", rung_last_error());
	cr_assert_eq(rung_store_open(f.ds, f.plan, &opts, &f.store), 0, "%s", rung_last_error());
	cr_assert_geq(rung_plan_tier(f.plan, fixture_tier(&f, "host"))->rank_first, 2);
	for (uint64_t rank = 0; rank < rows; rank++)
		fixture_gather_and_check(&f, &rank, 1);
}

Test(gpu_errors, gpus_without_peer_access_at_open_are_named)
{
	struct rung_store_opts opts = { .size = sizeof(opts) };
	struct rung_store *store;
	size_t live = sim_live();

	if (rung_plan_device(f.plan)->gpus[rung_plan_device(f.plan)->gpu_count - 1] == 0 &&
	    rung_plan_device(f.plan)->gpus[1] == 0)
		SKIP("one GPU: it needs no peer access");
	/* as if the plan were for another machine */
	sim_fail("cudaDeviceEnablePeerAccess", 1, cudaErrorPeerAccessUnsupported);
	cr_assert_eq(rung_store_open(f.ds, f.plan, &opts, &store), RUNG_E_NOSUP);
	cr_assert(strstr(rung_last_error(), "GPU 0 cannot read the memory of GPU 1"), "%s",
	          rung_last_error());
	cr_assert_eq(sim_live(), live);
}

Test(gpu_errors, a_failed_ipc_handle_fails_sharing_or_attaching)
{
	struct rung_store_opts opts = { .size = sizeof(opts) };
	struct rung_store *creator, *store;
	char path[400];
	size_t live;

	if (rung_plan_tier(f.plan, fixture_tier(&f, "peer"))->row_count == 0)
		SKIP("no rows in the tier peer: no memory to export");
	snprintf(path, sizeof(path), "%s/share/socket", f.parent);
	opts.share_path = path;
	live = sim_live();
	sim_fail("cudaIpcGetMemHandle", 2, cudaErrorUnknown);
	cr_assert_eq(rung_store_open(f.ds, f.plan, &opts, &creator), RUNG_E_IO);
	cr_assert(strstr(rung_last_error(), "exporting GPU memory"), "%s", rung_last_error());
	cr_assert_eq(sim_live(), live);
	cr_assert_eq(rung_store_open(f.ds, f.plan, &opts, &creator), 0, "%s", rung_last_error());
	live = sim_live();
	/* CUDA IPC opens no memory of the same process */
	cr_assert_eq(rung_store_attach(path, NULL, &store), RUNG_E_IO);
	cr_assert(strstr(rung_last_error(),
	                 "opening GPU memory of the process that shares the store"),
	          "%s", rung_last_error());
	cr_assert_eq(sim_live(), live);
	cr_assert_eq(rung_store_close(creator), 0);
}

Test(gpu_errors, a_missing_gpu_is_named)
{
	int gpu = 77;
	struct rung_plan_opts opts = {
		.size = sizeof(opts), .device = RUNG_DEVICE_CUDA, .gpus = &gpu, .gpu_count = 1
	};
	struct rung_plan *plan;

	cr_assert_eq(rung_plan_create(f.ds, &opts, &plan), RUNG_E_NODEV);
	cr_assert(strstr(rung_last_error(), "GPU 77 does not exist"), "%s", rung_last_error());
}

/* ---- gathering ---- */

Test(gpu_errors, a_failed_launch_fails_only_its_request)
{
	unsigned char *out = fixture_memory(&f, ASKED * WIDTH);
	struct rung_request *request;

	for (unsigned nth = 1; nth <= 2; nth++) { /* the gather, its report */
		sim_fail("cudaLaunchKernel", nth, cudaErrorLaunchFailure);
		cr_assert_eq(rung_gather_submit(f.store, &list, out, 0, NULL, &request), RUNG_E_IO);
		cr_assert(strstr(rung_last_error(), "cuda: starting the gather kernel"), "%s",
		          rung_last_error());
		for (unsigned i = 0; i < 10; i++) /* with each request */
			gather_is_right();
	}
	sim_fail("cudaEventRecord", 1, cudaErrorUnknown);
	cr_assert_eq(rung_gather_submit(f.store, &list, out, 0, NULL, &request), RUNG_E_IO);
	sim_fail("cudaLaunchKernel", 3, cudaErrorLaunchFailure); /* the first scatter */
	cr_assert_eq(rung_gather(f.store, &list, out, 0), RUNG_E_IO);
	cr_assert(strstr(rung_last_error(), "cuda: starting the scatter kernel"), "%s",
	          rung_last_error());
	for (unsigned i = 0; i < 10; i++) /* no slot or request was lost */
		gather_is_right();
}

/* Kernels report their own end. CUDA is also queried now and then, in case a kernel never can. */
Test(gpu_errors, a_failed_device_is_noticed_although_it_reports_nothing)
{
	unsigned char *out = fixture_memory(&f, ASKED * WIDTH);
	struct rung_request *request;

	hold();
	request = submit(out, NULL);
	sim_fail("cudaEventQuery", 1, cudaErrorUnknown);
	cr_assert_eq(rung_request_wait(request, -1), RUNG_E_IO);
	cr_assert(strstr(rung_request_error(request), "cuda: gathering rows"), "%s",
	          rung_request_error(request));
	sim_hold(false);
	cr_assert_eq(cudaDeviceSynchronize(), cudaSuccess);
	rung_request_put(request);
	gather_is_right();
}

Test(gpu_errors, kernels_that_never_run_are_noticed)
{
	unsigned char *out = fixture_memory(&f, ASKED * WIDTH);

	for (unsigned nth = 2; nth <= 3; nth++) { /* the report, the first scatter */
		/* reports success and runs nothing */
		sim_fail("cudaLaunchKernel", nth, cudaSuccess);
		cr_assert_eq(rung_gather(f.store, &list, out, 0), RUNG_E_IO);
		cr_assert(strstr(rung_last_error(), "the kernel has not run"), "%s",
		          rung_last_error());
		gather_is_right();
	}
}

Test(gpu_errors, an_empty_gather_waits_for_no_kernel)
{
	const struct rung_ids none = { NULL, 0, RUNG_U64, RUNG_RANKS };
	struct rung_request *request;

	gather_is_right(); /* leaves a report with misses */
	hold();
	cr_assert_eq(rung_gather_submit(f.store, &none, NULL, 0, NULL, &request), 0, "%s",
	             rung_last_error());
	cr_assert_eq(rung_request_wait(request, -1), 0, "%s", rung_last_error());
	rung_request_put(request);
	sim_hold(false);
}

/* The kernel was launched: it has to end before the request can be used again, on any stream. */
Test(gpu_errors, launched_work_ends_before_a_failed_submit_returns)
{
	unsigned char *out = fixture_memory(&f, ASKED * WIDTH);
	struct rung_request *request;
	cudaStream_t mine;

	cr_assert_eq(cudaStreamCreateWithFlags(&mine, cudaStreamNonBlocking), cudaSuccess);
	for (unsigned i = 0; i < 10; i++) {
		sim_fail("cudaEventRecord", 1, cudaErrorUnknown);
		cr_assert_eq(rung_gather_submit(f.store, &list, out, 0, mine, &request), RUNG_E_IO);
		cr_assert_eq(cudaStreamQuery(mine), cudaSuccess);
		gather_is_right();
	}
	cr_assert_eq(cudaStreamDestroy(mine), cudaSuccess);
}

Test(gpu_errors, after_a_sticky_error_every_request_fails_and_the_store_closes)
{
	struct rung_request *requests[3];
	unsigned char *out[3];

	for (unsigned i = 0; i < 3; i++)
		out[i] = fixture_memory(&f, ASKED * WIDTH);
	hold();
	for (unsigned i = 0; i < 3; i++)
		requests[i] = submit(out[i], NULL);
	sim_break(cudaErrorIllegalAddress);
	sim_hold(false);
	for (unsigned i = 0; i < 3; i++) {
		cr_assert_eq(rung_request_wait(requests[i], -1), RUNG_E_IO);
		cr_assert(strstr(rung_request_error(requests[i]), "cuda: "), "%s",
		          rung_request_error(requests[i]));
		rung_request_put(requests[i]);
	}
}

Test(gpu_errors, memory_the_gpu_cannot_reach_is_refused)
{
	unsigned char *plain = malloc(ASKED * WIDTH);
	struct rung_request *request;

	cr_assert_eq(rung_gather_submit(f.store, &list, plain, 0, NULL, &request), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "cannot reach the output"), "%s", rung_last_error());
	free(plain);
	gather_is_right();
}

Test(gpu_errors, failed_reads_fail_their_request_and_lose_no_slot)
{
	struct rung_store_opts opts = { .size = sizeof(opts),
		                        .requests_max = 3,
		                        .batch_rows_max = 1000 };
	unsigned char *out;

	tear_down();
	support_fault_reset();
	fixture_open(&f, ROWS, WIDTH, 5 * 8192, &opts, &support_fault_reader);
	out = fixture_memory(&f, ASKED * WIDTH);
	list = fixture_ids(&f, ids, ASKED, RUNG_U64, RUNG_RANKS);
	for (unsigned first = 1; first < 40; first += 6) {
		atomic_store(&support_fault.seen, 0);
		support_fault.kind = SUPPORT_FAULT_ERRNO;
		support_fault.err = EIO;
		support_fault.first = first;
		support_fault.count = UINT64_MAX;
		cr_assert_eq(rung_gather(f.store, &list, out, 0), RUNG_E_IO);
		cr_assert(strstr(rung_last_error(), "row of rank"), "%s", rung_last_error());
		support_fault.kind = SUPPORT_FAULT_NONE;
		gather_is_right();
	}
}

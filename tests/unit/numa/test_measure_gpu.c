/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measuring simulated GPUs at two mocked nodes: the calls that place memory are wrapped
 * (tests/CMakeLists.txt). The measured rates mean nothing. The tests check which values exist,
 * which reasons exist for missing ones, and that all resources are released.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "measure.h"
#include "measure_gpu_fixture.h"

#define TABLE_BYTES (1u << 20)
#define BATCH_BYTES (16u << 10)
#define GPU_KINDS   4u /* in addition to gathers */
#define PEER_KINDS  1u

TestSuite(measure_gpu, .init = set_up, .fini = tear_down, .timeout = 300);

/* ---- results ---- */

static const struct rung_numa_result *find(const struct rung_numa_report *report,
                                           enum rung_numa_matrix matrix, const char *kind, int gpu,
                                           int to_gpu, int node, uint64_t row_bytes)
{
	const struct rung_numa_result *result;

	for (size_t i = 0; (result = rung_numa_report_result(report, i)) != NULL; i++) {
		if (result->matrix == matrix && result->kind && strcmp(result->kind, kind) == 0 &&
		    result->gpu == gpu && result->to_gpu == to_gpu && result->memory_node == node &&
		    result->row_bytes == row_bytes)
			return result;
	}
	cr_assert_fail("no result %s of GPU %d (peer %d), node %d, rows of %lu bytes", kind, gpu,
	               to_gpu, node, (unsigned long)row_bytes);
	return NULL;
}

static void is_there(const struct rung_numa_result *result, bool rows)
{
	cr_assert_null(result->absent, "%s", result->absent);
	cr_assert_eq(result->bytes_per_s.count, 2);
	cr_assert(result->bytes_per_s.min > 0 && isfinite(result->bytes_per_s.max));
	cr_assert_eq(result->per_s.count, rows ? 2 : 0);
	cr_assert_gt(result->buffer_bytes, 0);
	cr_assert(result->all_cores == -1 && result->cpu_node == -1);
	if (rows)
		cr_assert_float_eq(result->bytes_per_s.median / result->per_s.median,
		                   (double)result->row_bytes, 1e-6);
}

static struct rung__measuring m;

static void end(void)
{
	rung__free(m.nodes);
	rung_numa_report_destroy(m.report);
	m = (struct rung__measuring){ 0 };
}

/* Prepares a call in the same way as measure.c, with little memory. */
static void begin(void)
{
	struct rung_topology_info info = { .size = sizeof(info) };

	rung_topology_info(topology, &info);
	bound_count = 0;
	m = (struct rung__measuring){ .root = "",
		                      .matrix_name = "gpu",
		                      .topology = topology,
		                      .opts = RUNG_NUMA_MEASURE_OPTS_INIT,
		                      .node_count = info.node_count,
		                      .rows = { 64, 4096 },
		                      .row_count = 2,
		                      .gpu_sizes = { TABLE_BYTES, BATCH_BYTES, 100 } };
	m.opts.samples = 2;
	m.opts.sample_seconds = 1e-9;
	m.policy.can_bind = m.policy.can_query = 1;
	m.report = rung__zalloc(sizeof(*m.report));
	m.nodes = rung__zalloc_array(m.node_count, sizeof(*m.nodes));
	cr_assert(m.report && m.nodes);
	cr_assert_eq(rung__measure_machine(&m), 0, "%s", rung_last_error());
}

Test(measure_gpu, each_gpu_copies_and_gathers_from_each_node_and_gpu)
{
	static const uint32_t rows[] = { 64, 100, 1024, 4096 };
	const size_t row_count = RUNG__ARRAY_LEN(rows), count = (size_t)gpu_count;
	const struct rung_numa_report *report;

	begin();
	memcpy(m.rows, rows, sizeof(rows));
	m.row_count = row_count;
	cr_assert_eq(rung__measure_gpu(&m), 0, "%s", rung_last_error());
	cr_assert_eq(rung__measure_peer(&m), 0, "%s", rung_last_error());
	report = m.report;
	cr_assert_eq(report->info.result_count, count * 2 * (GPU_KINDS + row_count) +
	                                                count * count * (PEER_KINDS + row_count));
	for (int gpu = 0; gpu < gpu_count; gpu++) {
		for (int node = 0; node < 2; node++) {
			const struct rung_numa_result *to =
				find(report, RUNG_NUMA_GPU, "to_gpu", gpu, -1, node, 0);

			is_there(to, false);
			cr_assert_eq(to->placement_share, 1);
			cr_assert(strncmp(to->gpu_bus_id, "0000:1", 6) == 0 &&
			                  to->gpu_bus_id[6] == '0' + gpu,
			          "%s", to->gpu_bus_id);
			is_there(find(report, RUNG_NUMA_GPU, "from_gpu", gpu, -1, node, 0), false);
			is_there(find(report, RUNG_NUMA_GPU, "both", gpu, -1, node, 0), false);
			is_there(find(report, RUNG_NUMA_GPU, "read", gpu, -1, node, 0), false);
			for (size_t r = 0; r < row_count; r++)
				is_there(find(report, RUNG_NUMA_GPU, "gather", gpu, -1, node,
				              rows[r]),
				         true);
		}
		for (int to = 0; to < gpu_count; to++) {
			is_there(find(report, RUNG_NUMA_PEER, "copy", gpu, to, -1, 0), false);
			for (size_t r = 0; r < row_count; r++)
				is_there(find(report, RUNG_NUMA_PEER, "gather", gpu, to, -1,
				              rows[r]),
				         true);
		}
	}
	end();
}

static size_t count_absent(const char *says)
{
	const struct rung_numa_result *result;
	size_t count = 0;

	for (size_t i = 0; (result = rung_numa_report_result(m.report, i)) != NULL; i++)
		count += result->absent && strstr(result->absent, says);
	return count;
}

static size_t count_there(void)
{
	const struct rung_numa_result *result;
	size_t count = 0;

	for (size_t i = 0; (result = rung_numa_report_result(m.report, i)) != NULL; i++)
		count += !result->absent;
	return count;
}

static const size_t of_a_node = GPU_KINDS + 2; /* results per pair of a node and a GPU */
static const size_t of_a_pair = PEER_KINDS + 2;

static void measure_with_failure(int (*measure)(struct rung__measuring *m), const char *function,
                                 unsigned nth, cudaError_t err)
{
	begin();
	sim_fail(function, nth, err);
	cr_assert_eq(measure(&m), 0, "%s", rung_last_error());
	sim_fail(function, 0, cudaSuccess);
	cr_assert_eq(sim_live(), 0, "%s, call %u leaks", function, nth);
}

Test(measure_gpu, a_failed_registration_affects_only_its_node)
{
	/* each meter registers one page first */
	measure_with_failure(rung__measure_gpu, "cudaHostRegister", (unsigned)gpu_count + 1,
	                     cudaErrorMemoryAllocation);
	cr_assert_eq(count_absent("registering 1048576 bytes of host memory: out of memory "
	                          "(cudaErrorMemoryAllocation)"),
	             (size_t)gpu_count * of_a_node);
	cr_assert_eq(count_there(), (size_t)gpu_count * of_a_node);
	for (size_t i = 0; i < m.report->info.result_count; i++)
		cr_assert_eq(rung_numa_report_result(m.report, i)->memory_node == 0,
		             rung_numa_report_result(m.report, i)->absent != NULL);
	end();
}

Test(measure_gpu, an_unusable_gpu_affects_only_itself)
{
	measure_with_failure(rung__measure_gpu, "cudaHostRegister", 1, cudaErrorNotSupported);
	cr_assert_eq(count_absent("GPU 0 (0000:10:00.0): cuda: registering a page to measure with: "
	                          "operation not supported"),
	             1);
	cr_assert_eq(count_there(), (size_t)(gpu_count - 1) * 2 * of_a_node);
	end();
	measure_with_failure(rung__measure_peer, "cudaStreamCreateWithFlags", 1,
	                     cudaErrorDevicesUnavailable);
	cr_assert_eq(count_absent("(cudaErrorDevicesUnavailable)"), 1);
	cr_assert_eq(count_there(), (size_t)((gpu_count - 1) * (gpu_count - 1)) * of_a_pair);
	end();
}

Test(measure_gpu, a_lack_of_gpu_memory_is_reported)
{
	/* the first buffer */
	measure_with_failure(rung__measure_gpu, "cudaMalloc", (unsigned)gpu_count + 1,
	                     cudaErrorMemoryAllocation);
	cr_assert_eq(count_absent("GPU 0: allocating 1048576 bytes to measure with: out of memory "
	                          "(cudaErrorMemoryAllocation)"),
	             of_a_node);
	cr_assert_eq(count_there(), (size_t)(2 * gpu_count - 1) * of_a_node);
	end();
	/* the first ids */
	measure_with_failure(rung__measure_gpu, "cudaMalloc", (unsigned)gpu_count + 2,
	                     cudaErrorMemoryAllocation);
	cr_assert_eq(count_absent("out of memory (cudaErrorMemoryAllocation)"), 1);
	end();
	/* after the first table */
	measure_with_failure(rung__measure_peer, "cudaMalloc", (unsigned)gpu_count + 2,
	                     cudaErrorMemoryAllocation);
	cr_assert_eq(count_absent("GPU 0: allocating 1048576 bytes to measure with"), of_a_pair);
	cr_assert_eq(count_there(), (size_t)(gpu_count * gpu_count - 1) * of_a_pair);
	end();
}

Test(measure_gpu, gpus_without_peer_access_still_read_their_own_memory)
{
	if (gpu_count < 2)
		cr_skip_test("RUNG_SIM_GPUS: one GPU");
	measure_with_failure(rung__measure_peer, "cudaDeviceEnablePeerAccess", 1,
	                     cudaErrorPeerAccessUnsupported);
	cr_assert_eq(count_absent("letting GPU 1 read the memory of GPU 0: peer access is not "
	                          "supported between these two devices"),
	             of_a_pair);
	cr_assert_eq(count_there(), 3 * of_a_pair);
	end();
	/* access is already enabled: not a failure */
	measure_with_failure(rung__measure_peer, "cudaDeviceEnablePeerAccess", 0, cudaSuccess);
	cr_assert_eq(count_there(), 4 * of_a_pair);
	end();
}

Test(measure_gpu, a_failed_copy_affects_only_its_value)
{
	/* The 9th copy belongs to "from_gpu": each kind has a first pass and two samples. The ids
	 * of gathers are copied with cudaMemcpy. */
	measure_with_failure(rung__measure_gpu, "cudaMemcpyAsync", 9, cudaErrorUnknown);
	cr_assert_eq(count_absent("cuda: copying memory: unknown error (cudaErrorUnknown)"), 1);
	cr_assert_str_eq(rung_numa_report_result(m.report, 1)->kind, "from_gpu");
	cr_assert(rung_numa_report_result(m.report, 1)->absent);
	end();
	measure_with_failure(rung__measure_peer, "cudaMemcpy", 1, cudaErrorUnknown);
	cr_assert_eq(count_absent("cuda: copying ids to a GPU"), 1);
	end();
	measure_with_failure(rung__measure_peer, "cudaLaunchKernel", 1,
	                     cudaErrorLaunchOutOfResources);
	cr_assert_eq(count_absent("(cudaErrorLaunchOutOfResources)"), 1);
	cr_assert_eq(count_there(), (size_t)(gpu_count * gpu_count) * of_a_pair - 1);
	end();
}

static const char *const functions[] = {
	"cudaGetDeviceCount",
	"cudaGetDevice",
	"cudaGetDeviceProperties",
	"cudaDeviceGetPCIBusId",
	"cudaMemGetInfo",
	"cudaDeviceGetAttribute",
	"cudaMalloc",
	"cudaHostRegister",
	"cudaMemcpyAsync",
	"cudaMemcpy",
	"cudaMemsetAsync",
	"cudaStreamCreateWithFlags",
	"cudaStreamWaitEvent",
	"cudaStreamSynchronize",
	"cudaEventCreateWithFlags",
	"cudaEventRecord",
	"cudaEventSynchronize",
	"cudaEventElapsedTime",
	"cudaOccupancyMaxActiveBlocksPerMultiprocessor",
	"cudaGetDriverEntryPointByVersion",
	"cudaDeviceEnablePeerAccess",
	"cudaLaunchKernel",
	"cuStreamWaitValue32",
	"cuCtxPushCurrent",
};

/* Makes some calls of one function fail, among them the first and the last. */
static void fail_some(int (*measure)(struct rung__measuring *m), const char *function)
{
	const unsigned long before = sim_calls(function);
	unsigned long calls, step;

	begin();
	cr_assert_eq(measure(&m), 0, "%s", rung_last_error());
	cr_assert_eq(count_absent(""), 0);
	calls = sim_calls(function) - before;
	end();
	step = RUNG__MAX(calls / 6, 1);
	for (unsigned long nth = 1; nth <= calls;
	     nth += nth + step > calls && nth < calls ? calls - nth : step) {
		measure_with_failure(measure, function, (unsigned)nth, cudaErrorUnknown);
		/* these are also called while resources are released */
		if (strcmp(function, "cuCtxPushCurrent") != 0 &&
		    strcmp(function, "cudaGetDevice") != 0)
			cr_assert_gt(count_absent("cuda: "), 0, "%s, call %lu of %lu", function,
			             nth, calls);
		end();
	}
}

Test(measure_gpu, nothing_leaks_whichever_call_fails)
{
	for (size_t i = 0; i < RUNG__ARRAY_LEN(functions); i++) {
		fail_some(rung__measure_gpu, functions[i]);
		fail_some(rung__measure_peer, functions[i]);
	}
}

static int break_down(void *ctx, const char *step, unsigned long long done,
                      unsigned long long total)
{
	(void)ctx;
	(void)step;
	(void)done;
	(void)total;
	if (m.done == 2)
		sim_break(cudaErrorIllegalAddress);
	return 0;
}

Test(measure_gpu, a_broken_gpu_is_the_reason_for_all_later_results)
{
	begin();
	m.opts.progress = break_down;
	cr_assert_eq(rung__measure_gpu(&m), 0, "%s", rung_last_error());
	cr_assert_eq(count_there(), 2);
	cr_assert_eq(count_absent("(cudaErrorIllegalAddress)"),
	             (size_t)gpu_count * 2 * of_a_node - 2);
	cr_assert_eq(sim_live(), 0);
	end();
}

static int cancel(void *ctx, const char *step, unsigned long long done, unsigned long long total)
{
	(void)ctx;
	(void)step;
	(void)done;
	(void)total;
	return m.done == 3;
}

Test(measure_gpu, a_canceled_call_releases_everything)
{
	begin();
	m.opts.progress = cancel;
	cr_assert_eq(rung__measure_gpu(&m), RUNG_E_CANCELED);
	cr_assert_eq(sim_live(), 0);
	cr_assert_eq(rung__measure_peer(&m), RUNG_E_CANCELED);
	end();
}

Test(measure_gpu, memory_on_another_node_is_not_measured)
{
	begin();
	all_on_node_0 = true;
	cr_assert_eq(rung__measure_gpu(&m), 0, "%s", rung_last_error());
	cr_assert_eq(count_absent("0 % of 1 MiB are on node 1, the rest elsewhere"),
	             (size_t)gpu_count * of_a_node);
	cr_assert_eq(count_there(), (size_t)gpu_count * of_a_node);
	end();
}

Test(measure_gpu, gpus_hidden_from_cuda_are_reported)
{
	put_gpu("0000:05:00.0", 1);
	reload();
	begin();
	cr_assert_eq(rung__measure_gpu(&m), 0, "%s", rung_last_error());
	cr_assert_eq(count_absent("CUDA does not show 0000:05:00.0 to this process (driver none)"),
	             1);
	cr_assert_eq(count_there(), (size_t)gpu_count * 2 * of_a_node);
	for (size_t i = 0; i < m.report->info.result_count; i++) {
		const struct rung_numa_result *result = rung_numa_report_result(m.report, i);

		cr_assert_eq(result->gpu == 0, result->absent != NULL,
		             "GPUs must be numbered in the order of their bus ids");
	}
	end();
}

Test(measure_gpu, launches_that_block_cannot_be_timed)
{
	setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
	begin();
	cr_assert_eq(rung__measure_gpu(&m), 0, "%s", rung_last_error());
	cr_assert_eq(rung__measure_peer(&m), 0, "%s", rung_last_error());
	cr_assert_eq(count_absent("nothing can be timed while CUDA_LAUNCH_BLOCKING is 1; unset it"),
	             2 * (size_t)gpu_count);
	cr_assert_eq(count_there(), 0);
	end();
}

Test(measure_gpu, nothing_leaks_whichever_host_allocation_fails)
{
	int rc = RUNG_E_NOMEM;

	for (int64_t allowed = 0; rc < 0; allowed++) {
		begin();
		rung__alloc_limit(allowed);
		rc = rung__measure_gpu(&m);
		if (rc == 0)
			rc = rung__measure_peer(&m);
		rung__alloc_limit(-1);
		cr_assert(rc == 0 || rc == RUNG_E_NOMEM, "%d after %ld allocations: %s", rc,
		          (long)allowed, rung_last_error());
		cr_assert_eq(sim_live(), 0);
		cr_assert_lt(allowed, 1000);
		end();
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Simulated GPUs: the controls for tests, and that this program runs the simulated kernels. */
#include "launch.h"
#include "sim_case.h"

static void calls_fail_when_told()
{
	void *ptr;

	sim_fail("cudaMalloc", 2, cudaErrorUnknown);
	sim_fail("cudaLaunchKernel", 1, cudaErrorLaunchOutOfResources);
	unsigned *a = device_words(64);
	CHECK(cudaMalloc(&ptr, 16) == cudaErrorUnknown &&
	      cudaPeekAtLastError() == cudaErrorUnknown);
	OK(cudaMalloc(&ptr, 16));
	CHECK(start_store(nullptr, a, 1) == cudaErrorLaunchOutOfResources);
	sim_fail("cudaLaunchKernel", 1, cudaSuccess);
	OK(cudaMemset(a, 0xff, 256));
	OK(start_store(nullptr, a, 1));
	CHECK(word_at(a + 1) == 0xffffffff); /* no kernel ran */
	OK(start_store(nullptr, a, 1));
	CHECK(word_at(a + 1) == 1);
	sim_fail("cudaFree", 1, cudaErrorUnknown);
	sim_fail("cudaFree", 0, cudaSuccess);
	OK(cudaFree(ptr));
	CHECK(sim_calls("cudaMalloc") == 3);
	CHECK(strcmp(cudaGetErrorName(cudaErrorNotReady), "cudaErrorNotReady") == 0);
}

static void a_broken_gpu_stays_broken()
{
	const cudaStream_t stream = new_stream();
	unsigned *word = pinned_words(1), *a = device_words(64);
	cudaError_t end = cudaSuccess;

	wait_for_word(stream, word, 1);
	std::thread waiting([&] { end = cudaStreamSynchronize(stream); });
	while (sim_calls("cudaStreamSynchronize") == 0)
		usleep(100);
	sim_break(cudaErrorIllegalAddress);
	waiting.join();
	CHECK(end == cudaErrorIllegalAddress && cudaGetLastError() == end &&
	      cudaGetLastError() == end);
	CHECK(start_store(stream, a, 1) == end && cudaStreamQuery(stream) == end);
	CHECK(sim_live() == 3);
	CHECK(cudaFree(a) == end && cudaFreeHost(word) == end && cudaStreamDestroy(stream) == end &&
	      sim_live() == 0);
}

static void leaks_are_listed()
{
	char text[1024] = "";
	FILE *out = fmemopen(text, sizeof(text), "w");

	(void)device_words(25);
	(void)new_stream();
	(void)new_event();
	(void)pinned_words(7);
	CHECK(sim_live() == 4);
	sim_leaks(out);
	fclose(out);
	CHECK(strstr(text, "device memory, 100 bytes") && strstr(text, "pinned memory, 28"));
	CHECK(strstr(text, "stream") && strstr(text, "event"));
}

static void no_gpu_and_no_driver()
{
	int count = 7, version = 7;
	const bool driver = strcmp(getenv("RUNG_SIM_GPUS"), "none") != 0;

	CHECK(cudaGetDeviceCount(&count) ==
	              (driver ? cudaErrorNoDevice : cudaErrorInsufficientDriver) &&
	      count == 0);
	OK(cudaDriverGetVersion(&version));
	CHECK(version == (driver ? CUDART_VERSION : 0));
	unsigned blocks = 0;
	CHECK(rung__cuda_gather_blocks(&blocks) == RUNG_E_NODEV &&
	      strstr(rung_last_error(), "cuda"));
}

/* This program uses the simulated launch functions of kernels/, whether or not the library has
 * CUDA. */
static void the_gather_runs_here()
{
	const cudaStream_t stream = new_stream();
	unsigned char *rows = (unsigned char *)device_words(250),
		      *out = (unsigned char *)device_words(30);
	unsigned *ids = pinned_words(10);
	struct rung__cuda_gather g = {};
	unsigned char got[60], blocks_known;
	unsigned blocks = 0;

	for (unsigned i = 0; i < 100; i++) {
		unsigned char row[10];
		memset(row, (int)i, sizeof(row));
		OK(cudaMemcpy(rows + 10 * i, row, sizeof(row), cudaMemcpyHostToDevice));
	}
	blocks_known = rung__cuda_gather_blocks(&blocks) == 0 && blocks > 0;
	CHECK(blocks_known);
	g.ids = ids;
	g.id_count = 6;
	g.id_dtype = RUNG_U32;
	g.row_count = 120;
	g.row_bytes = 10;
	g.view_count = 1;
	g.views[0].base[0] = rows;
	g.views[0].base_count = 1;
	g.views[0].stride = 10;
	g.views[0].rank_end = 100;
	g.out = out;
	g.out_stride = 10;
	g.miss_ranks = (uint64_t *)device_words(20);
	g.miss_rows = device_words(10);
	g.report = (struct rung__cuda_report *)device_words(sizeof(*g.report) / 4);
	g.counts = (struct rung__cuda_counts *)device_words(sizeof(*g.counts) / 4);
	OK(cudaMemsetAsync(g.counts, 0, sizeof(*g.counts), stream));
	const unsigned wanted[6] = { 3, 99, 110, 0, 50, 120 };
	memcpy(ids, wanted, sizeof(wanted));
	CHECK(rung__cuda_gather_launch(&g, blocks, stream) == 0);
	OK(cudaStreamSynchronize(stream));
	struct rung__cuda_report report;
	OK(cudaMemcpy(&report, g.report, sizeof(report), cudaMemcpyDeviceToHost));
	OK(cudaMemcpy(got, out, sizeof(got), cudaMemcpyDeviceToHost));
	CHECK(report.miss_count == 1 && report.bad_count == 1 && report.bad_index == 5 &&
	      report.bad_id == 120 && report.view_rows[0] == 4);
	CHECK(got[0] == 3 && got[9] == 3 && got[10] == 99 && got[30] == 0 && got[49] == 50);
	CHECK(sim_calls("cudaLaunchKernel") == 1);
}

int main()
{
	passes("calls fail on request", {}, calls_fail_when_told);
	passes("a broken GPU", {}, a_broken_gpu_stays_broken);
	passes("leaks", {}, leaks_are_listed);
	passes("no GPU", { { "RUNG_SIM_GPUS", "0" } }, no_gpu_and_no_driver);
	passes("no driver", { { "RUNG_SIM_GPUS", "none" } }, no_gpu_and_no_driver);
	passes("the gather", {}, the_gather_runs_here);
	printf("control: %lu cases\n", cases);
	return 0;
}

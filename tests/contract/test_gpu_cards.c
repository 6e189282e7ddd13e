/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store on GPU 1 of three simulated GPUs, in a thread that has not chosen a GPU: which memory and
 * streams it accepts, and which GPUs get a context of this process.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "rung/gpu_sampler.h"
#include "sim.h"
#include "store_fixture.h"

#define ROWS  2000
#define WIDTH 400
#define ASKED 600
#define SEEDS 10

static struct store_fixture f;
static uint64_t ids[ASKED];
static struct rung_ids list; /* the ids, in memory of the store */
static unsigned char *out;

static void says(const char *words)
{
	cr_assert(strstr(rung_last_error(), words), "%s", rung_last_error());
}

static void works(int rc)
{
	cr_assert_eq(rc, 0, "%s", rung_last_error());
}

static struct rung_request *submit(void)
{
	struct rung_request *request;

	works(rung_gather_submit(f.store, &list, out, 0, NULL, &request));
	return request;
}

static void open_on_gpu_1(uint64_t host_bytes)
{
	static const int gpu = 1;
	struct rung_plan_opts plan_opts = {
		.size = sizeof(plan_opts),
		.device = RUNG_DEVICE_CUDA,
		.gpus = &gpu,
		.gpu_count = 1,
		.gpu_bytes = ROWS * WIDTH / 4,
		.host_bytes = host_bytes,
		.vertex_ids = 1,
		.sample_on_gpu = 1,
	};
	struct rung_store_opts opts = {
		.size = sizeof(opts),
		.batch_rows_max = 1000,
		.vertex_ids = 1,
	};

	fixture_free_memories(&f);
	cr_assert_eq(rung_store_close(f.store), 0);
	rung_plan_destroy(f.plan);
	works(rung_plan_create(f.ds, &plan_opts, &f.plan));
	works(rung_store_open(f.ds, f.plan, &opts, &f.store));
	list = fixture_ids(&f, ids, ASKED, RUNG_U64, RUNG_RANKS);
	out = fixture_memory(&f, ASKED * WIDTH);
}

static void set_up(void)
{
	/* a store on the CPU: CUDA has not been called yet */
	fixture_open(&f, ROWS, WIDTH, RUNG_BYTES_MAX, NULL, NULL);
	fixture_random_ids(&f, ids, ASKED, 5);
	open_on_gpu_1(ROWS * WIDTH / 2);
}

static void tear_down(void)
{
	fixture_close(&f);
	if (sim_live() > 0) {
		sim_leaks(stderr);
		abort();
	}
}

TestSuite(gpu_cards, .init = set_up, .fini = tear_down);

/* ---- memory ---- */

static void *memory_of(int gpu, size_t bytes)
{
	void *memory;

	cr_assert_eq(cudaSetDevice(gpu), cudaSuccess);
	cr_assert_eq(cudaMalloc(&memory, bytes), cudaSuccess);
	cr_assert_eq(cudaSetDevice(0), cudaSuccess);
	return memory;
}

static void is_refused(const struct rung_ids *from, void *to, const char *words)
{
	struct rung_request *request;

	cr_assert_eq(rung_gather_submit(f.store, from, to, 0, NULL, &request), RUNG_E_INVAL);
	says(words);
	cr_assert_eq(rung_gather(f.store, from, to, 0), RUNG_E_INVAL);
	says(words);
}

Test(gpu_cards, memory_of_another_gpu_is_refused_and_both_gpus_are_named)
{
	void *theirs = memory_of(2, ASKED * WIDTH);
	struct rung_ids there = { theirs, ASKED, RUNG_U64, RUNG_RANKS };

	is_refused(&list, theirs,
	           "memory of GPU 2, but the store gathers on GPU 1; copy it to GPU 1, "
	           "or open the store on GPU 2");
	is_refused(&there, out, "ids at ");
	cr_assert_eq(cudaSetDevice(1), cudaSuccess);
	/* other code may rely on peer access, the store does not */
	cr_assert_eq(cudaDeviceEnablePeerAccess(2, 0), cudaSuccess);
	is_refused(&list, theirs, "output at ");
	cr_assert_eq(cudaFree(theirs), cudaSuccess);
	fixture_gather_and_check(&f, ids, ASKED);
}

Test(gpu_cards, host_memory_is_checked_by_its_device_address)
{
	struct rung_ids here = { NULL, ASKED, RUNG_U64, RUNG_RANKS };
	void *pinned, *managed, *combined;

	/* host memory belongs to all GPUs, whichever is current */
	cr_assert_eq(cudaSetDevice(2), cudaSuccess);
	cr_assert_eq(cudaHostAlloc(&pinned, ASKED * WIDTH, cudaHostAllocDefault), cudaSuccess);
	cr_assert_eq(cudaMallocManaged(&managed, sizeof(ids), cudaMemAttachGlobal), cudaSuccess);
	cr_assert_eq(cudaHostAlloc(&combined, ASKED * WIDTH, cudaHostAllocWriteCombined),
	             cudaSuccess);
	memcpy(managed, ids, sizeof(ids));
	here.data = managed;
	works(rung_gather(f.store, &here, pinned, 0));
	cr_assert_eq(rung_store_copy(f.store, out, pinned, ASKED * WIDTH), 0);
	fixture_check(&f, ids, ASKED, out, WIDTH);
	is_refused(&here, combined, "the GPU cannot reach the output at ");
	cr_assert_eq(cudaFreeHost(pinned), cudaSuccess);
	cr_assert_eq(cudaFree(managed), cudaSuccess);
	cr_assert_eq(cudaFreeHost(combined), cudaSuccess);
}

/* ---- streams ---- */

static cudaStream_t stream_of(int gpu)
{
	cudaStream_t stream;

	cr_assert_eq(cudaSetDevice(gpu), cudaSuccess);
	cr_assert_eq(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
	cr_assert_eq(cudaSetDevice(0), cudaSuccess);
	return stream;
}

Test(gpu_cards, a_gather_on_a_stream_of_another_gpu_is_refused)
{
	cudaStream_t theirs = stream_of(2);
	struct rung_request *request;

	cr_assert_eq(rung_gather_submit(f.store, &list, out, 0, theirs, &request), RUNG_E_INVAL);
	says("is on GPU 2, but the store gathers on GPU 1; give a stream of GPU 1");
	/* as with a driver that lacks this function */
	sim_fail("cuStreamGetDevice", 1, cudaErrorUnknown);
	cr_assert_eq(rung_gather_submit(f.store, &list, out, 0, theirs, &request), RUNG_E_IO);
	says("cuda: starting the gather kernel");
	fixture_gather_and_check(&f, ids, ASKED);
	cr_assert_eq(cudaStreamDestroy(theirs), cudaSuccess);
}

Test(gpu_cards, work_on_a_stream_of_another_gpu_waits_for_the_rows)
{
	unsigned char *theirs = memory_of(2, ASKED * WIDTH);
	cudaStream_t stream = stream_of(2);
	struct rung_request *request;

	for (unsigned round = 0; round < 10; round++) {
		request = submit();
		works(rung_request_wait_stream(request, stream));
		cr_assert_eq(cudaMemcpyAsync(theirs, out, ASKED * WIDTH, cudaMemcpyDefault, stream),
		             cudaSuccess);
		cr_assert_eq(cudaStreamSynchronize(stream), cudaSuccess);
		rung_request_put(request);
		fixture_check(&f, ids, ASKED, theirs, WIDTH);
	}
	cr_assert_eq(cudaFree(theirs), cudaSuccess);
	cr_assert_eq(cudaStreamDestroy(stream), cudaSuccess);
}

/* ---- sampling ---- */

static const uint32_t fanouts[] = { 3, 2 };
static struct rung_gpu_sampler *sampler;
static struct rung__gpu_batch *batch;
static uint64_t *seeds;

static void open_sampler(void)
{
	struct rung_gpu_sampler_opts opts = {
		.size = sizeof(opts),
		.fanouts = fanouts,
		.hop_count = 2,
		.seed_count_max = SEEDS,
	};
	uint64_t first[SEEDS];

	for (uint64_t i = 0; i < SEEDS; i++)
		first[i] = i;
	works(rung_gpu_sampler_create(f.store, f.ds, f.plan, &opts, &sampler));
	works(rung__gpu_batch_create(sampler, &batch));
	seeds = fixture_memory(&f, sizeof(first));
	cr_assert_eq(rung_store_copy(f.store, seeds, first, sizeof(first)), 0);
}

static void sample(void)
{
	struct rung_ids sampled = { .dtype = RUNG_U64, .space = RUNG_RANKS };

	works(rung__gpu_batch_sample(batch, seeds, SEEDS, 1, NULL));
	works(rung__gpu_batch_wait(batch, -1));
	sampled.data = rung__gpu_batch_vertices(batch, &sampled.count);
	cr_assert_geq(sampled.count, SEEDS);
	works(rung_gather(f.store, &sampled, out, 0));
}

static void close_sampler(void)
{
	rung__gpu_batch_destroy(batch);
	rung_gpu_sampler_destroy(sampler);
}

Test(gpu_cards, seeds_and_streams_of_another_gpu_are_refused)
{
	uint64_t *theirs = memory_of(0, SEEDS * sizeof(*theirs));
	cudaStream_t stream = stream_of(0);

	open_sampler();
	cr_assert_eq(rung__gpu_batch_sample(batch, theirs, SEEDS, 1, NULL), RUNG_E_INVAL);
	says("memory of GPU 0, but the store gathers on GPU 1");
	cr_assert_eq(rung__gpu_batch_sample(batch, seeds, SEEDS, 1, stream), RUNG_E_INVAL);
	says("is on GPU 0, but the store gathers on GPU 1");
	sample();
	close_sampler();
	cr_assert_eq(cudaFree(theirs), cudaSuccess);
	cr_assert_eq(cudaStreamDestroy(stream), cudaSuccess);
}

/* ---- contexts ---- */

static void only_gpu_1_has_a_context(const char *after)
{
	int gpu = -1;

	for (int g = 0; g < 3; g++)
		cr_assert_eq(sim_has_context(g), g == 1, "%s: GPU %d", after, g);
	cr_assert_eq(cudaGetDevice(&gpu), cudaSuccess);
	cr_assert_eq(gpu, 0, "%s: the thread's GPU is now %d", after, gpu);
}

static void gather_in_every_way(void)
{
	struct rung_request *request;

	works(rung_gather(f.store, &list, out, 0));
	only_gpu_1_has_a_context("gather");
	for (unsigned way = 0; way < 3; way++) {
		request = submit();
		if (way == 0)
			works(rung_request_wait(request, 60000000000));
		if (way == 1)
			works(rung_request_wait_stream(request, NULL));
		while (!rung_request_poll(request))
			;
		rung_request_put(request);
		only_gpu_1_has_a_context("a request");
	}
	rung_request_put(submit());
	fixture_check(&f, ids, ASKED, out, WIDTH);
}

Test(gpu_cards, only_the_stores_gpu_gets_a_context)
{
	only_gpu_1_has_a_context("open");
	gather_in_every_way();
	open_sampler();
	sample();
	close_sampler();
	only_gpu_1_has_a_context("sampling");
	open_on_gpu_1(RUNG_BYTES_MAX); /* nothing is cold: callers poll the GPU themselves */
	gather_in_every_way();
	fixture_free_memories(&f);
	cr_assert_eq(rung_store_close(f.store), 0);
	f.store = NULL;
	only_gpu_1_has_a_context("close");
}

Test(gpu_cards, a_meter_uses_only_its_gpu)
{
	const struct rung__meter_ops *ops = rung__device_find(RUNG_DEVICE_CUDA)->meter;
	struct rung__meter_copy copy = { .bytes = 5000 };
	unsigned char *host = rung__map_pages(8192);
	struct rung__meter *meter;
	double seconds;

	works(ops->open(1, &meter));
	cr_assert_eq(ops->pin(1, host, 8192), 0);
	cr_assert_eq(ops->alloc(1, copy.bytes, &copy.to), 0);
	copy.from = host;
	cr_assert_eq(ops->put(1, copy.to, host, copy.bytes), 0);
	works(ops->copy(meter, &copy, 1, 3, &seconds));
	ops->release(1, copy.to);
	ops->unpin(1, host);
	ops->close(meter);
	rung__unmap_pages(host, 8192);
	only_gpu_1_has_a_context("measuring");
}

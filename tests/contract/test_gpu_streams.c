/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores on simulated GPUs and their callers' streams: which work is ordered with which, for each
 * kind of handle, and modules that are loaded while gathers run.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "sim_store_fixture.h"

#define TURNS 12 /* a wrong order shows in about every second turn */

TestSuite(gpu_streams, .fini = tear_down);

static void *pinned(size_t bytes)
{
	void *memory = NULL;

	cr_assert_eq(cudaHostAlloc(&memory, bytes, 0), cudaSuccess);
	memset(memory, 0, bytes);
	return memory;
}

/* ---- handles ---- */

/* The ids are written by work on the stream; until it has run, the memory holds other ids. */
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

Test(gpu_streams, the_default_stream_follows_blocking_streams)
{
	cudaStream_t blocking;

	open_store(true);
	blocking = new_stream(cudaStreamDefault);
	gather_follows(NULL, blocking);
	gather_follows(blocking, NULL);
	cr_assert_eq(cudaStreamDestroy(blocking), cudaSuccess);
}

Test(gpu_streams, a_per_thread_stream_is_the_calling_threads)
{
	open_store(true);
	gather_follows(cudaStreamPerThread, cudaStreamPerThread);
}

/* The rows are read by work on the caller's stream. */
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

/* The same handle names another stream in this thread. */
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

Test(gpu_streams, the_stream_of_one_thread_waits_for_that_of_another_thread)
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
		                             cudaStreamPerThread),
		             cudaSuccess);
		sim_hold(false);
		cr_assert_eq(cudaStreamSynchronize(cudaStreamPerThread), cudaSuccess);
		cr_assert_eq(rung_store_copy(f.store, copy, seen, ASKED * WIDTH), 0);
		fixture_check(&f, ids, ASKED, copy, WIDTH);
		rung_request_put(other.request);
	}
	cr_assert_eq(cudaFreeHost(seen), cudaSuccess);
}

/* Hold the stream until the host writes 1 to the word. */
static void hold_stream(cudaStream_t stream, const uint32_t *word)
{
	int (*wait_value)(cudaStream_t, unsigned long long, uint32_t, unsigned);

	cr_assert_eq(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", (void **)&wait_value,
	                                              12000, cudaEnableDefault, NULL),
	             cudaSuccess);
	cr_assert_eq(wait_value(stream, (uintptr_t)word, 1, 0), 0);
}

/* Work that holds the default stream does not hold the store's stream. */
Test(gpu_streams, the_stores_own_stream_is_ordered_with_no_other)
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

/* The same holds for cold rows, which are copied on another stream. */
Test(gpu_streams, cold_rows_are_ordered_with_the_default_stream)
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

/* ---- modules that are loaded lazily ---- */

static void *load(void *unused)
{
	(void)unused;
	cr_assert_eq(sim_load(), cudaSuccess);
	return NULL;
}

/*
 * The first launch of a kernel anywhere in the process holds a lock that CUDA calls need until the
 * GPU is idle. So rung's work on the GPU must not depend on a further CUDA call of rung.
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
		load(NULL); /* ordered after work that waits for the rows */
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
 * The rows are ready once their gather has run, and rung must see that without a CUDA call.
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

/* The kernels of gathers and scatters are loaded at open; a later load would hold up the caller's
 * work. */
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

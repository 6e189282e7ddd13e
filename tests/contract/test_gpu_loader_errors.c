/* SPDX-License-Identifier: Apache-2.0 */
/* The loader of a store on simulated GPUs whose CUDA calls fail; see test_gpu_loader.c. */
#include <unistd.h>

#include "gpu_loader_fixture.h"

static const char *const functions[] = { "cudaGetDevice",
	                                 "cudaSetDevice",
	                                 "cudaMalloc",
	                                 "cudaHostRegister",
	                                 "cudaMemcpyAsync",
	                                 "cudaStreamCreateWithPriority",
	                                 "cudaEventCreateWithFlags",
	                                 "cudaEventRecord",
	                                 "cudaEventQuery",
	                                 "cudaEventSynchronize",
	                                 "cudaStreamWaitEvent",
	                                 "cudaStreamSynchronize",
	                                 "cudaLaunchKernel",
	                                 "cudaPointerGetAttributes",
	                                 "cudaMemsetAsync" };

/* @return batches that were delivered with all their rows */
static uint64_t run_with_failures(struct rung_loader *loader)
{
	const struct rung_loader_pass pass = whole_pass();
	uint64_t good = 0;
	int rc = rung_loader_begin(loader, &pass);

	cr_assert_eq(rc, 0, "%s", rung_last_error());
	for (uint64_t b = 0; b < BATCHES; b++) {
		const struct rung_loader_batch *batch = NULL;

		rc = rung_loader_next(loader, &batch);
		cr_assert(rc == 1 || rc == RUNG_E_IO || rc == RUNG_E_NOMEM, "%d: %s", rc,
		          rung_last_error());
		if (rc != 1)
			continue;
		cr_assert_eq(batch->batch_idx, b);
		good += !batch->request || rung_request_wait(batch->request, -1) == 0;
		rung_loader_put(loader, batch, b % 2 ? user.stream : NULL);
	}
	return good;
}

static int create_once(uint64_t *good_out)
{
	struct rung_loader *loader = NULL;
	int rc = create_loader(loader_opts(1, 2, 2), &loader);

	*good_out = rc == 0 ? run_with_failures(loader) : 0;
	rung_loader_destroy(loader);
	return rc;
}

Test(gpu_loader_errors, every_call_may_fail_and_nothing_leaks, .timeout = 120)
{
	uint64_t good;

	open_all(ALL);
	for (unsigned i = 0; i < RUNG__ARRAY_LEN(functions); i++) {
		unsigned long before = sim_calls(functions[i]), calls;
		size_t live;

		cr_assert_eq(create_once(&good), 0, "%s", rung_last_error());
		cr_assert_eq(good, BATCHES);
		calls = sim_calls(functions[i]) - before;
		live = sim_live();
		for (unsigned nth = 1; nth <= calls; nth += 1 + nth / 3) {
			int rc;

			sim_fail(functions[i], nth, cudaErrorUnknown);
			rc = create_once(&good);
			sim_fail(functions[i], 0, cudaSuccess);
			cr_assert(rc == 0 || rc == RUNG_E_IO, "%s, call %u: %s", functions[i], nth,
			          rung_last_error());
			cr_assert(rc < 0 || good + 2 >= BATCHES,
			          "%s, call %u: %" PRIu64 " batches succeeded", functions[i], nth,
			          good);
			cr_assert_eq(sim_live(), live, "%s, call %u leaks", functions[i], nth);
			fixture_gather_and_check(&f, seeds, SEEDS);
		}
	}
	close_all();
}

Test(gpu_loader_errors, unused_memory_is_freed_when_the_gpu_is_full, .timeout = 120)
{
	struct rung_loader *loader;

	if (samples_on_gpu())
		cr_skip_test("sampling on the GPU allocates batches before the pass");
	open_all(ALL);
	loader = make_loader(1, 2, 2);
	for (unsigned nth = 1; nth <= POOL; nth++) {
		sim_fail("cudaMalloc", nth, cudaErrorMemoryAllocation);
		run_unwaited(loader, user.stream);
		sim_fail("cudaMalloc", 0, cudaSuccess);
		rung_loader_destroy(loader);
		loader = make_loader(1, 2, 2);
	}
	rung_loader_destroy(loader);
	close_all();
}

/* Wait until the loader's threads have nothing to do before the next call of next or put. */
static void await_idle(struct rung_loader *loader)
{
	bool idle = false;

	while (!idle) {
		pthread_mutex_lock(&loader->lock);
		idle = !loader->feeding && loader->sampling == 0 &&
		       loader->submitted - loader->handed == loader->opts.gathers &&
		       loader->claimed - loader->submitted == loader->opts.look_ahead;
		pthread_mutex_unlock(&loader->lock);
		usleep(100);
	}
}

/* If the end of the caller's work cannot be observed, the memory is not used again. */
Test(gpu_loader_errors, memory_that_could_not_be_returned_is_not_used_again, .timeout = 120)
{
	const struct rung_loader_batch *batch;
	struct rung_loader *loader;

	open_all(ALL);
	loader = make_loader(1, 2, 1);
	begin(loader, whole_pass());
	batch = next(loader);
	if (batch->request)
		cr_assert_eq(rung_request_wait(batch->request, -1), 0);
	hold(user.stream);
	cr_assert_eq(cudaMemcpyAsync(copy_of(0), batch->rows, batch->rank_count * WIDTH,
	                             cudaMemcpyDeviceToHost, user.stream),
	             cudaSuccess);
	if (batch->on_gpu)
		cr_assert_eq(cudaMemcpyAsync(user.ranks, batch->ranks, batch->rank_count * 8,
		                             cudaMemcpyDeviceToHost, user.stream),
		             cudaSuccess);
	await_idle(loader);
	sim_fail("cudaEventRecord", 1, cudaErrorUnknown);
	rung_loader_put(loader, batch, user.stream);
	for (uint64_t b = 1; b < BATCHES; b++)
		use_and_put(loader, next(loader), NULL);
	cr_assert_eq(cudaStreamSynchronize(NULL), cudaSuccess);
	let_go();
	cr_assert_eq(cudaStreamSynchronize(user.stream), cudaSuccess);
	check_copies();
	rung_loader_destroy(loader);
	close_all();
}

Test(gpu_loader_errors, a_broken_gpu_ends_the_pass, .timeout = 120)
{
	struct rung_loader *loader;
	uint64_t failed = 0;

	open_all(ALL);
	loader = make_loader(2, 3, 2);
	begin(loader, whole_pass());
	use_and_put(loader, next(loader), user.stream);
	(void)next(loader); /* not put */
	sim_hold(true);     /* running work has ended: its memory is freed below */
	sim_break(cudaErrorIllegalAddress);
	for (uint64_t b = 2; b < BATCHES; b++) {
		const struct rung_loader_batch *batch = NULL;
		int rc = rung_loader_next(loader, &batch);

		cr_assert(rc == 1 || rc == RUNG_E_IO, "%d: %s", rc, rung_last_error());
		failed += rc < 0 || (batch->request && rung_request_wait(batch->request, -1) < 0);
		rung_loader_put(loader, batch, NULL);
	}
	cr_assert_geq(failed, BATCHES - 2 - 2, "only gathers submitted ahead may have succeeded");
	rung_loader_destroy(loader);
	(void)cudaStreamDestroy(user.stream);
	(void)cudaFreeHost(user.word);
	(void)cudaFreeHost(user.copies);
	(void)cudaFreeHost(user.ranks);
	close_store();
	cr_assert_eq(sim_live(), 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loader of a store on simulated GPUs: in what order its memory is used, and what it may not do
 * during a pass. RUNG_TEST_DEVICE says which tiers there are, RUNG_TEST_SAMPLE_ON=gpu that batches
 * are sampled on the GPU.
 */
#include <unistd.h>

#include "gpu_loader_fixture.h"

#define TRIES  200u /* looks at what must not happen */
#define PASSES 20u  /* after which no memory is too small for a batch */

/* ---- in order with the caller's work, and with nothing else ---- */

Test(gpu_loader, a_pass_goes_on_while_the_legacy_stream_is_held, .timeout = 120)
{
	struct rung_loader *loader;

	open_all(ALL);
	loader = make_loader(2, 4, 2);
	for (unsigned again = 0; again < 2; again++) {
		begin(loader, whole_pass()); /* it may free, and so wait for the GPU */
		hold(cudaStreamLegacy);
		for (uint64_t b = 0; b < BATCHES; b++)
			use_and_put(loader, next(loader), user.stream);
		check_end(loader);
		cr_assert_eq(cudaStreamSynchronize(user.stream), cudaSuccess);
		check_copies();
		cr_assert_eq(cudaStreamQuery(cudaStreamLegacy), cudaErrorNotReady);
		let_go();
	}
	rung_loader_destroy(loader);
	close_all();
}

/* Of a caller whose work is on the legacy stream and held, the next batches come all the same, as
 * many as there is memory for. */
Test(gpu_loader, batches_come_while_the_putting_stream_is_held, .timeout = 120)
{
	const struct rung_loader_batch *kept[POOL];
	struct rung_loader *loader;

	open_all(ALL);
	loader = make_loader(2, 4, 2);
	begin(loader, whole_pass());
	hold(NULL);
	for (uint64_t b = 0; b < POOL; b++) {
		kept[b] = next(loader);
		if (kept[b]->request)
			cr_assert_eq(rung_request_wait(kept[b]->request, -1), 0, "%s",
			             rung_last_error());
		use_and_put(loader, kept[b], NULL);
	}
	cr_assert_eq(cudaStreamQuery(NULL), cudaErrorNotReady);
	let_go();
	for (uint64_t b = POOL; b < BATCHES; b++)
		use_and_put(loader, next(loader), NULL);
	cr_assert_eq(cudaStreamSynchronize(NULL), cudaSuccess);
	check_copies();
	rung_loader_destroy(loader);
	close_all();
}

/* Begin a pass and take POOL + 1 batches while work on the first ones is held. @return whether the
 * last one has the memory of the first: it has memory of its own if the first one's is too small,
 * which depends on the batches that were sampled when that was allocated. */
static bool memory_is_used_again(struct rung_loader *loader)
{
	const struct rung_loader_batch *batch = NULL;
	const void *first = NULL;
	bool again;

	begin(loader, whole_pass());
	hold(NULL);
	for (uint64_t b = 0; b < POOL; b++) {
		batch = next(loader);
		first = b == 0 ? batch->rows : first;
		use_and_put(loader, batch, NULL);
	}
	batch = next(loader);
	again = batch->rows == first;
	cr_assert_not_null(batch->request);
	for (unsigned i = 0; again && i < TRIES; i++) {
		cr_assert_eq(rung_request_poll(batch->request), 0,
		             "its memory is still to be read");
		usleep(500);
	}
	let_go();
	use_and_put(loader, batch, NULL);
	for (uint64_t b = POOL + 1; b < BATCHES; b++)
		use_and_put(loader, next(loader), NULL);
	check_end(loader);
	cr_assert_eq(cudaStreamSynchronize(NULL), cudaSuccess);
	check_copies();
	return again;
}

Test(gpu_loader, memory_is_used_again_after_the_work_on_the_putting_stream, .timeout = 120)
{
	struct rung_loader *loader;
	unsigned passes = 1;

	open_all(ALL);
	loader = make_loader(2, 4, 2);
	while (!memory_is_used_again(loader)) /* too small memory is replaced by larger */
		cr_assert_leq(++passes, PASSES);
	rung_loader_destroy(loader);
	close_all();
}

Test(gpu_loader, rows_are_those_of_their_batch_whenever_the_work_on_them_runs, .timeout = 120)
{
	static const uint64_t host_bytes[] = { ALL,
		                               HOST_BYTES }; /* the second with rows in the file */

	for (unsigned i = 0; i < RUNG__ARRAY_LEN(host_bytes); i++) {
		struct rung_loader *loader;

		open_all(host_bytes[i]);
		loader = make_loader(2, 4, 2);
		for (unsigned again = 0; again < 3; again++)
			run_unwaited(loader, again % 2 ? NULL : user.stream);
		rung_loader_destroy(loader);
		close_all();
	}
}

/* Nobody makes a stream wait for the rows: put does, or a gather that is late would write to the
 * next batch's memory. */
Test(gpu_loader, batches_that_are_put_unread_are_in_nobodys_way, .timeout = 120)
{
	struct rung_loader *loader;

	open_all(HOST_BYTES);
	loader = make_loader(2, 4, 2);
	for (uint64_t first = 0; first < 3; first++) {
		begin(loader, whole_pass());
		for (uint64_t b = 0; b < BATCHES; b++) {
			if (b % 3 == first)
				use_and_put(loader, next(loader), user.stream);
			else
				rung_loader_put(loader, next(loader), NULL);
		}
		check_end(loader);
	}
	cr_assert_eq(cudaStreamSynchronize(user.stream), cudaSuccess);
	check_copies();
	rung_loader_destroy(loader);
	close_all();
}

/* ---- what may not be during a pass ---- */

static const char *const waiting_calls[] = { "cudaMalloc",
	                                     "cudaFree",
	                                     "cudaHostRegister",
	                                     "cudaHostUnregister",
	                                     "cudaMemcpy",
	                                     "cudaDeviceSynchronize",
	                                     "cudaStreamCreateWithPriority",
	                                     "cudaStreamDestroy",
	                                     "cudaEventCreateWithFlags",
	                                     "cudaEventDestroy" };

/* @return whether a pass had memory enough; then it must have made none of these calls. */
static bool pass_allocates_nothing(struct rung_loader *loader)
{
	unsigned long before[RUNG__ARRAY_LEN(waiting_calls)], synchronized;

	cr_assert_eq(rung_loader_end(loader), 0); /* frees what was too small */
	for (unsigned i = 0; i < RUNG__ARRAY_LEN(waiting_calls); i++)
		before[i] = sim_calls(waiting_calls[i]);
	synchronized = sim_calls("cudaStreamSynchronize");
	begin(loader, whole_pass());
	for (uint64_t b = 0; b < BATCHES; b++)
		use_and_put(loader, next(loader), user.stream);
	if (sim_calls("cudaMalloc") != before[0]) /* a batch larger than those before it */
		return false;
	for (unsigned i = 0; i < RUNG__ARRAY_LEN(waiting_calls); i++)
		cr_assert_eq(sim_calls(waiting_calls[i]), before[i], "%s", waiting_calls[i]);
	if (!samples_on_gpu())
		cr_assert_eq(sim_calls("cudaStreamSynchronize"), synchronized);
	return true;
}

Test(gpu_loader, a_pass_allocates_nothing_and_waits_for_nothing_but_its_own, .timeout = 120)
{
	struct rung_loader_pass pass = whole_pass();
	struct rung_loader *loader;
	unsigned passes = 1;

	open_all(ALL);
	loader = make_loader(2, 4, 2);
	cr_assert_eq(rung_loader_warm_up(loader, &pass), 0, "%s", rung_last_error());
	while (!pass_allocates_nothing(loader)) {
		cr_assert_leq(++passes, PASSES);
		check_end(loader);
	}
	check_end(loader);
	rung_loader_destroy(loader);
	close_all();
}

/* Freeing would wait for all that the GPU has to do, the caller's work as well. */
Test(gpu_loader, memory_that_is_too_small_is_freed_when_the_pass_is_over, .timeout = 120)
{
	struct rung_loader_pass small = whole_pass();
	struct rung_loader *loader;
	unsigned long freed;

	open_all(ALL);
	loader = make_loader(2, 4, 2);
	small.seed_count = 2;
	cr_assert_eq(rung_loader_warm_up(loader, &small), 0, "%s", rung_last_error());
	freed = sim_calls("cudaFree");
	begin(loader, whole_pass());
	for (uint64_t b = 0; b < BATCHES; b++)
		use_and_put(loader, next(loader), user.stream);
	cr_assert_eq(sim_calls("cudaFree"), freed);
	cr_assert_eq(rung_loader_end(loader), 0);
	cr_assert_gt(sim_calls("cudaFree"), freed);
	cr_assert_eq(cudaStreamSynchronize(user.stream), cudaSuccess);
	check_copies();
	rung_loader_destroy(loader);
	close_all();
}

/* ---- passes that are left, loaders that are closed ---- */

Test(gpu_loader, a_pass_is_left_and_a_loader_destroyed_while_work_on_its_batches_is_to_come,
     .timeout = 120)
{
	open_all(HOST_BYTES);
	for (uint64_t taken = 0; taken <= POOL; taken++) {
		struct rung_loader *loader = make_loader(2, 3, 2);

		begin(loader, whole_pass());
		for (uint64_t b = 0; b < taken; b++)
			use_and_put(loader, next(loader), user.stream);
		if (taken % 2) {
			cr_assert_eq(rung_loader_end(loader), 0);
			begin(loader, whole_pass());
			(void)next(loader); /* not put */
		}
		rung_loader_destroy(loader); /* the copies come first */
		cr_assert_eq(cudaStreamQuery(user.stream), cudaSuccess);
		for (uint64_t b = 0; b < taken; b++)
			check_copy(b);
	}
	close_all();
}

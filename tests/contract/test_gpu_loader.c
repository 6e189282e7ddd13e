/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loader of a store on simulated GPUs: the order in which it uses its memory, and the calls it
 * must not make during a pass. RUNG_TEST_DEVICE selects the tiers; RUNG_TEST_SAMPLE_ON=gpu samples
 * the batches on the GPU.
 */
#include <unistd.h>

#include "gpu_loader_fixture.h"

#define TRIES  200u /* checks that something does not happen */
#define PASSES 20u  /* by then no buffer is too small for a batch */

/* ---- ordered with the caller's work, and with nothing else ---- */

Test(gpu_loader, a_pass_continues_while_the_legacy_stream_is_held, .timeout = 120)
{
	struct rung_loader *loader;

	open_all(ALL);
	loader = make_loader(2, 4, 2);
	for (unsigned again = 0; again < 2; again++) {
		begin(loader, whole_pass()); /* it may free memory, and so wait for the GPU */
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

/* A caller whose work is held on the legacy stream still gets further batches, as many as the pool
 * has memory for. */
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
 * last one uses the memory of the first. It does not if that memory is too small for it, which
 * depends on the batches that were sampled when it was allocated. */
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
		             "its memory has not been read yet");
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
	/* buffers that are too small are replaced by larger ones */
	while (!memory_is_used_again(loader))
		cr_assert_leq(++passes, PASSES);
	rung_loader_destroy(loader);
	close_all();
}

Test(gpu_loader, rows_match_their_batch_whenever_the_work_on_them_runs, .timeout = 120)
{
	static const uint64_t host_bytes[] = { ALL,
		                               HOST_BYTES }; /* the second has rows in the file */

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

/* No stream of the caller waits for the rows. put makes one wait, or a late gather would write to
 * the next batch's memory. */
Test(gpu_loader, batches_that_are_put_unread_disturb_no_later_batch, .timeout = 120)
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

/* ---- calls that a pass must not make ---- */

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

/* @return whether the pass had enough memory; then it must have made none of these calls. */
static bool pass_allocates_nothing(struct rung_loader *loader)
{
	unsigned long before[RUNG__ARRAY_LEN(waiting_calls)], synchronized;

	cr_assert_eq(rung_loader_end(loader), 0); /* frees buffers that were too small */
	for (unsigned i = 0; i < RUNG__ARRAY_LEN(waiting_calls); i++)
		before[i] = sim_calls(waiting_calls[i]);
	synchronized = sim_calls("cudaStreamSynchronize");
	begin(loader, whole_pass());
	for (uint64_t b = 0; b < BATCHES; b++)
		use_and_put(loader, next(loader), user.stream);
	if (sim_calls("cudaMalloc") != before[0]) /* a batch was larger than all before it */
		return false;
	for (unsigned i = 0; i < RUNG__ARRAY_LEN(waiting_calls); i++)
		cr_assert_eq(sim_calls(waiting_calls[i]), before[i], "%s", waiting_calls[i]);
	if (!samples_on_gpu())
		cr_assert_eq(sim_calls("cudaStreamSynchronize"), synchronized);
	return true;
}

Test(gpu_loader, a_pass_allocates_nothing_and_waits_only_for_its_own_work, .timeout = 120)
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

/* Freeing waits for all work of the GPU, including the caller's. */
Test(gpu_loader, buffers_that_are_too_small_are_freed_after_the_pass, .timeout = 120)
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

/* ---- abandoned passes, destroyed loaders ---- */

Test(gpu_loader, a_pass_ends_and_a_loader_is_destroyed_while_work_on_its_batches_is_pending,
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
		rung_loader_destroy(loader); /* waits for the copies */
		cr_assert_eq(cudaStreamQuery(user.stream), cudaSuccess);
		for (uint64_t b = 0; b < taken; b++)
			check_copy(b);
	}
	close_all();
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loader of a store on simulated GPUs: in what order its memory is used, what it may not do
 * during a pass, and CUDA calls that fail. RUNG_TEST_DEVICE says which tiers there are,
 * RUNG_TEST_SAMPLE_ON=gpu that batches are sampled on the GPU.
 */
#include <unistd.h>

#include "dataset.h"
#include "loader_fixture.h"
#include "loader/loader_internal.h"
#include "sim.h"

#define POOL           4u /* batches whose rows have memory before any is used again: gathers + 2 */
#define ALL            (ROWS * WIDTH * 2)
#define TRIES          200u /* looks at what must not happen */
#define BATCH_ROWS_MAX (BATCH * 5 * 4)

typedef int (*wait_value_fn)(cudaStream_t stream, unsigned long long at, uint32_t value,
                             unsigned flags);

/* Work of the caller's on a stream: it begins when the word says so, and copies rows. */
static struct {
	uint32_t *word;        /* pinned */
	unsigned char *copies; /* pinned: [BATCHES][BATCH_ROWS_MAX * WIDTH] */
	uint64_t *
		ranks; /* pinned: [BATCHES][BATCH_ROWS_MAX], of batches on the GPU */
	cudaStream_t stream; /* not in order with the legacy one */
} user;

static void close_all(void)
{
	cr_assert_eq(cudaStreamDestroy(user.stream), cudaSuccess);
	cr_assert_eq(cudaFreeHost(user.word), cudaSuccess);
	cr_assert_eq(cudaFreeHost(user.copies), cudaSuccess);
	cr_assert_eq(cudaFreeHost(user.ranks), cudaSuccess);
	close_store();
	if (sim_live() > 0) {
		sim_leaks(stderr);
		cr_assert_fail("CUDA objects are left");
	}
}

static void open_all(uint64_t host_bytes)
{
	open_store(host_bytes, (struct rung_store_opts){ .batch_rows_max = 1u << 14 });
	cr_assert_eq(cudaHostAlloc((void **)&user.word, 64, cudaHostAllocMapped), cudaSuccess);
	cr_assert_eq(cudaHostAlloc((void **)&user.copies, (size_t)BATCHES * BATCH_ROWS_MAX * WIDTH,
	                           cudaHostAllocMapped),
	             cudaSuccess);
	cr_assert_eq(cudaHostAlloc((void **)&user.ranks, (size_t)BATCHES * BATCH_ROWS_MAX * 8,
	                           cudaHostAllocMapped),
	             cudaSuccess);
	cr_assert_eq(cudaStreamCreateWithFlags(&user.stream, cudaStreamNonBlocking), cudaSuccess);
	*user.word = 0;
	memset(user.copies, 0x11, (size_t)BATCHES * BATCH_ROWS_MAX * WIDTH);
}

/* Work that is put on the stream from now on waits until let_go(). */
static void hold(cudaStream_t stream)
{
	enum cudaDriverEntryPointQueryResult found;
	void *function = NULL;
	wait_value_fn wait_value;

	cr_assert_eq(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", &function, 12000,
	                                              cudaEnableDefault, &found),
	             cudaSuccess);
	memcpy(&wait_value, &function, sizeof(function));
	__atomic_store_n(user.word, 0, __ATOMIC_RELEASE);
	cr_assert_eq(wait_value(stream, (unsigned long long)(uintptr_t)user.word, 1, 0), 0);
}

static void let_go(void)
{
	__atomic_store_n(user.word, 1, __ATOMIC_RELEASE);
}

static unsigned char *copy_of(uint64_t idx)
{
	return user.copies + idx * BATCH_ROWS_MAX * WIDTH;
}

/* As training does: behind the rows, reading them, and then the batch goes back while that is still
 * to come. */
static void use_and_put(struct rung_loader *loader, const struct rung_loader_batch *batch,
                        cudaStream_t stream)
{
	cr_assert_leq(batch->rank_count, BATCH_ROWS_MAX);
	if (batch->request)
		cr_assert_eq(rung_request_wait_stream(batch->request, stream), 0, "%s",
		             rung_last_error());
	cr_assert_eq(cudaMemcpyAsync(copy_of(batch->batch_idx), batch->rows,
	                             batch->rank_count * WIDTH, cudaMemcpyDeviceToHost, stream),
	             cudaSuccess);
	if (batch->on_gpu)
		cr_assert_eq(cudaMemcpyAsync(user.ranks + batch->batch_idx * BATCH_ROWS_MAX,
		                             batch->ranks, batch->rank_count * 8,
		                             cudaMemcpyDeviceToHost, stream),
		             cudaSuccess);
	rung_loader_put(loader, batch, stream);
}

static void check_copy(uint64_t idx)
{
	unsigned char row[WIDTH];
	uint64_t count;
	const uint64_t *ranks = rung_batch_vertices(expected[idx], &count);

	if (samples_on_gpu())
		cr_assert_eq(memcmp(user.ranks + idx * BATCH_ROWS_MAX, ranks, count * 8), 0,
		             "batch %" PRIu64, idx);
	for (uint64_t i = 0; i < count; i++) {
		support_row(f.vertex_of_rank[ranks[i]], WIDTH, row);
		cr_assert_eq(memcmp(row, copy_of(idx) + i * WIDTH, WIDTH), 0,
		             "batch %" PRIu64 ", row %" PRIu64, idx, i);
	}
}

static void check_copies(void)
{
	for (uint64_t b = 0; b < BATCHES; b++)
		check_copy(b);
}

/* ---- in order with the caller's work, and with nothing else ---- */

Test(gpu_loader, a_pass_goes_on_while_the_legacy_stream_is_held, .timeout = 120)
{
	struct rung_loader *loader;

	open_all(ALL);
	loader = make_loader(2, 4, 2);
	for (unsigned again = 0; again < 2; again++) {
		begin(loader, whole_pass());   /* it may free, and so wait for the GPU */
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

Test(gpu_loader, memory_is_used_again_after_the_work_on_the_putting_stream, .timeout = 120)
{
	const struct rung_loader_batch *late;
	struct rung_loader *loader;

	open_all(ALL);
	loader = make_loader(2, 4, 2);
	begin(loader, whole_pass());
	hold(NULL);
	for (uint64_t b = 0; b < POOL; b++)
		use_and_put(loader, next(loader), NULL);
	late = next(loader); /* into the memory of the first */
	cr_assert_not_null(late->request);
	for (unsigned i = 0; i < TRIES; i++) {
		cr_assert_eq(rung_request_poll(late->request), 0, "its memory is still to be read");
		usleep(500);
	}
	let_go();
	use_and_put(loader, late, NULL);
	for (uint64_t b = POOL + 1; b < BATCHES; b++)
		use_and_put(loader, next(loader), NULL);
	cr_assert_eq(cudaStreamSynchronize(NULL), cudaSuccess);
	check_copies();
	rung_loader_destroy(loader);
	close_all();
}

/* The whole pass is on the caller's stream before any of it is waited for; with RUNG_SIM_LAZY
 * nothing has run by then. */
static void run_unwaited(struct rung_loader *loader, cudaStream_t stream)
{
	begin(loader, whole_pass());
	for (uint64_t b = 0; b < BATCHES; b++)
		use_and_put(loader, next(loader), stream);
	check_end(loader);
	cr_assert_eq(cudaStreamSynchronize(stream), cudaSuccess);
	check_copies();
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

Test(gpu_loader, a_pass_allocates_nothing_and_waits_for_nothing_but_its_own, .timeout = 120)
{
	static const char *const calls[] = { "cudaMalloc",
		                             "cudaFree",
		                             "cudaHostRegister",
		                             "cudaHostUnregister",
		                             "cudaMemcpy",
		                             "cudaDeviceSynchronize",
		                             "cudaStreamCreateWithPriority",
		                             "cudaStreamDestroy",
		                             "cudaEventCreateWithFlags",
		                             "cudaEventDestroy" };
	unsigned long before[RUNG__ARRAY_LEN(calls)], synchronized;
	struct rung_loader_pass pass = whole_pass();
	struct rung_loader *loader;

	open_all(ALL);
	loader = make_loader(2, 4, 2);
	cr_assert_eq(rung_loader_warm_up(loader, &pass), 0, "%s", rung_last_error());
	run_unwaited(loader, user.stream); /* which may have had a batch larger than those */
	run_unwaited(loader, user.stream);
	cr_assert_eq(rung_loader_end(loader), 0);   /* frees what was too small */
	for (unsigned i = 0; i < RUNG__ARRAY_LEN(calls); i++)
		before[i] = sim_calls(calls[i]);
	synchronized = sim_calls("cudaStreamSynchronize");
	begin(loader, whole_pass());
	for (uint64_t b = 0; b < BATCHES; b++)
		use_and_put(loader, next(loader), user.stream);
	for (unsigned i = 0; i < RUNG__ARRAY_LEN(calls); i++)
		cr_assert_eq(sim_calls(calls[i]), before[i], "%s", calls[i]);
	if (!samples_on_gpu())
		cr_assert_eq(sim_calls("cudaStreamSynchronize"), synchronized);
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

/* ---- CUDA calls that fail ---- */

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

/* @return batches that were handed over and whose rows came */
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

Test(gpu_loader, every_call_may_fail_and_nothing_is_left, .timeout = 120)
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
			          "%s, call %u: %" PRIu64 " batches came", functions[i], nth, good);
			cr_assert_eq(sim_live(), live, "%s, call %u leaves something", functions[i],
			             nth);
			fixture_gather_and_check(&f, seeds, SEEDS);
		}
	}
	close_all();
}

Test(gpu_loader, a_gpu_without_room_gets_back_what_is_not_in_use, .timeout = 120)
{
	struct rung_loader *loader;

	if (samples_on_gpu())
		cr_skip_test("batches of the GPU are allocated before the pass");
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

/* The loader's threads have nothing to do until a batch is taken or put. */
static void await_idle(struct rung_loader *loader)
{
	bool idle = false;

	while (!idle) {
		pthread_mutex_lock(&loader->lock);
		idle = !loader->feeding && loader->sampling == 0 &&
		       loader->submitted - loader->handed == loader->opts.gathers &&
		       loader->claimed - loader->submitted == loader->opts.ahead;
		pthread_mutex_unlock(&loader->lock);
		usleep(100);
	}
}

/* Where nobody can say when the caller's work has run, the memory is not used again. */
Test(gpu_loader, memory_that_could_not_be_returned_is_not_used_again, .timeout = 120)
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

Test(gpu_loader, a_gpu_that_breaks_down_ends_the_pass, .timeout = 120)
{
	struct rung_loader *loader;
	uint64_t failed = 0;

	open_all(ALL);
	loader = make_loader(2, 3, 2);
	begin(loader, whole_pass());
	use_and_put(loader, next(loader), user.stream);
	(void)next(loader); /* not put */
	sim_hold(true);   /* what runs has ended: its memory is about to go */
	sim_break(cudaErrorIllegalAddress);
	for (uint64_t b = 2; b < BATCHES; b++) {
		const struct rung_loader_batch *batch = NULL;
		int rc = rung_loader_next(loader, &batch);

		cr_assert(rc == 1 || rc == RUNG_E_IO, "%d: %s", rc, rung_last_error());
		failed += rc < 0 || (batch->request && rung_request_wait(batch->request, -1) < 0);
		rung_loader_put(loader, batch, NULL);
	}
	cr_assert_geq(failed, BATCHES - 2 - 2, "gathers ahead may have run before");
	rung_loader_destroy(loader);
	(void)cudaStreamDestroy(user.stream);
	(void)cudaFreeHost(user.word);
	(void)cudaFreeHost(user.copies);
	(void)cudaFreeHost(user.ranks);
	close_store();
	cr_assert_eq(sim_live(), 0);
}

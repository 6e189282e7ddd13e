/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the threads between the kernels of a simulated GPU overlap, and which CUDA calls they make.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset.h"
#include "sort/radix.h"
#include "script_reader.h"
#include "sim.h"
#include "store_fixture.h"

#define ROWS       3000
#define WIDTH      512
#define COLD_FIRST 2000u              /* ranks from here on are in the file */
#define SOME_BYTES (ROWS / 4 * WIDTH) /* of host memory */
#define FEW        40u
#define MANY       60u
#define APART      100u        /* distance of ranks that are not read together */
#define LIMIT_NS   20000000000 /* limit for steps of some milliseconds */

static struct store_fixture f;

/* ---- a sort that can be held: the linker replaces the library's sort with this one ---- */

static pthread_mutex_t sort_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t sort_changed = PTHREAD_COND_INITIALIZER;
static uint64_t held_count; /* sorts of this many pairs are held; 0: none */
static unsigned sorts_held;

void __real_rung__radix_sort_pairs(uint64_t *keys, uint32_t *payload, uint64_t *keys_tmp,
                                   uint32_t *payload_tmp, uint64_t count, unsigned key_bits);
void __wrap_rung__radix_sort_pairs(uint64_t *keys, uint32_t *payload, uint64_t *keys_tmp,
                                   uint32_t *payload_tmp, uint64_t count, unsigned key_bits);

void __wrap_rung__radix_sort_pairs(uint64_t *keys, uint32_t *payload, uint64_t *keys_tmp,
                                   uint32_t *payload_tmp, uint64_t count, unsigned key_bits)
{
	pthread_mutex_lock(&sort_lock);
	while (held_count == count) {
		sorts_held = 1;
		pthread_cond_broadcast(&sort_changed);
		pthread_cond_wait(&sort_changed, &sort_lock);
	}
	sorts_held = 0;
	pthread_mutex_unlock(&sort_lock);
	__real_rung__radix_sort_pairs(keys, payload, keys_tmp, payload_tmp, count, key_bits);
}

static void hold_sorts_of(uint64_t count)
{
	pthread_mutex_lock(&sort_lock);
	held_count = count;
	pthread_cond_broadcast(&sort_changed);
	pthread_mutex_unlock(&sort_lock);
}

static void await_held_sort(void)
{
	pthread_mutex_lock(&sort_lock);
	while (!sorts_held)
		pthread_cond_wait(&sort_changed, &sort_lock);
	pthread_mutex_unlock(&sort_lock);
}

static bool is_sort_held(void)
{
	bool held;

	pthread_mutex_lock(&sort_lock);
	held = sorts_held > 0;
	pthread_mutex_unlock(&sort_lock);
	return held;
}

/* ---- */

static void hold_read(const struct script_read *read, struct script_fate *fate)
{
	(void)read;
	fate->held = true;
}

static void open_store(uint32_t file_count, uint64_t host_bytes)
{
	struct rung_store_opts opts = {
		.size = sizeof(opts),
		.requests_max = 4,
		.batch_rows_max = 1000,
	};

	script_reset();
	script.decide = hold_read;
	fixture_open_files(&f, file_count, ROWS, WIDTH, host_bytes, &opts, &script_reader);
}

static void close_store(void)
{
	fixture_close(&f);
	cr_assert_eq(script.violations, 0);
	if (sim_live() > 0) {
		sim_leaks(stderr);
		abort();
	}
}

static uint64_t scatters(void)
{
	struct rung_store_stats stats = { .size = sizeof(stats) };

	rung_store_stats(f.store, &stats);
	return stats.scatters;
}

static struct rung_request *submit(const uint64_t *ranks, uint64_t count, void *out)
{
	const struct rung_ids ids = fixture_ids(&f, ranks, count, RUNG_U64, RUNG_RANKS);
	struct rung_request *request;

	cr_assert_eq(rung_gather_submit(f.store, &ids, out, 0, NULL, &request), 0, "%s",
	             rung_last_error());
	return request;
}

static void ends_well(struct rung_request *request, const uint64_t *ranks, uint64_t count,
                      const void *out)
{
	cr_assert_eq(rung_request_wait(request, LIMIT_NS), 0, "%s", rung_last_error());
	fixture_check(&f, ranks, count, out, WIDTH);
	rung_request_put(request);
}

static struct rung_request *submit_and_wait(const struct rung_ids *ids, void *out)
{
	struct rung_request *request;

	cr_assert_eq(rung_gather_submit(f.store, ids, out, 0, NULL, &request), 0, "%s",
	             rung_last_error());
	cr_assert_eq(rung_request_wait(request, -1), 0, "%s", rung_last_error());
	return request;
}

static void rows_are_copied_while_others_are_sorted(uint32_t file_count)
{
	uint64_t early[FEW], late[MANY], before;
	struct rung_request *first, *second;
	void *first_out, *second_out;

	open_store(file_count, SOME_BYTES);
	cr_assert_leq(f.store->shape.tiers[RUNG__TIER_NVME].rank_first, COLD_FIRST);
	first_out = fixture_memory(&f, FEW * WIDTH);
	second_out = fixture_memory(&f, MANY * WIDTH);
	for (uint64_t i = 0; i < FEW; i++)
		early[i] = COLD_FIRST + i * 7;
	for (uint64_t i = 0; i < MANY; i++)
		late[i] = COLD_FIRST + 500 + i * 5;
	first = submit(early, FEW, first_out);
	while (script.held == 0)
		sched_yield(); /* until its misses are sorted and in flight */
	hold_sorts_of(MANY);
	second = submit(late, MANY, second_out);
	await_held_sort();
	before = scatters();
	script.release = 1;
	ends_well(first, early, FEW, first_out);
	cr_assert_gt(scatters(), before);
	cr_assert(is_sort_held());
	cr_assert_eq(rung_request_poll(second), 0);
	hold_sorts_of(0);
	ends_well(second, late, MANY, second_out);
	close_store();
}

Test(device_thread, rows_are_copied_while_misses_of_another_request_are_sorted)
{
	rows_are_copied_while_others_are_sorted(1);
}

Test(device_thread, rows_are_copied_during_sorts_with_three_refill_threads)
{
	rows_are_copied_while_others_are_sorted(3);
}

/*
 * CUDA is queried about a request at most once per RUNG__CHECK_NS and never right after the submit,
 * so N queries take at least N times RUNG__CHECK_NS.
 */
static void cuda_is_rarely_asked(uint64_t host_bytes)
{
	static const char *const questions[] = {
		"cudaEventQuery",
		"cudaEventSynchronize",
		"cudaStreamQuery",
		"cudaStreamSynchronize",
	};
	uint64_t ranks[MANY], asked = 0, begin_ns;
	struct rung_ids list;
	void *out;

	open_store(1, host_bytes);
	script.decide = NULL;
	out = fixture_memory(&f, MANY * WIDTH);
	fixture_random_ids(&f, ranks, MANY, 3);
	list = fixture_ids(&f, ranks, MANY, RUNG_U64, RUNG_RANKS);
	for (unsigned i = 0; i < RUNG__ARRAY_LEN(questions); i++)
		asked -= sim_calls(questions[i]);
	begin_ns = rung__now_ns();
	for (unsigned i = 0; i < 100; i++)
		rung_request_put(submit_and_wait(&list, out));
	for (unsigned i = 0; i < RUNG__ARRAY_LEN(questions); i++)
		asked += sim_calls(questions[i]);
	cr_assert_leq(asked * RUNG__CHECK_NS, rung__now_ns() - begin_ns);
	close_store();
}

Test(device_thread, cuda_is_rarely_polled_for_rows)
{
	cuda_is_rarely_asked(SOME_BYTES);
}

Test(device_thread, cuda_is_rarely_polled_without_cold_rows)
{
	cuda_is_rarely_asked(RUNG_BYTES_MAX);
}

/* ---- ids in plain host memory ---- */

static void are_right(struct rung_ids ids, const uint64_t *ranks, void *out)
{
	cr_assert_eq(rung_gather(f.store, &ids, out, 0), 0, "%s", rung_last_error());
	fixture_check(&f, ranks, ids.count, out, WIDTH);
}

Test(device_thread, ids_in_plain_memory_are_read_before_the_gather_runs)
{
	uint64_t ranks[MANY];
	const struct rung_ids ids = { ranks, MANY, RUNG_U64, RUNG_RANKS };
	struct rung_request *request;
	uint64_t before;
	void *out;

	open_store(3, SOME_BYTES);
	out = fixture_memory(&f, MANY * WIDTH);
	for (uint64_t i = 0; i < MANY; i++)
		ranks[i] = i % 2 ? i : COLD_FIRST + 3 * i;
	before = scatters();
	sim_hold(true);
	cr_assert_eq(rung_gather_submit(f.store, &ids, out, 0, RUNG_STREAM_OWN, &request), 0, "%s",
	             rung_last_error());
	while (script.held == 0)
		sched_yield();
	script.release = 1;
	while (script.ended < script.sent)
		sched_yield();
	cr_assert_eq(rung_request_wait(request, 1000000), RUNG_E_TIMEDOUT);
	/* no scatter before the gather: the output may be in use */
	cr_assert_eq(scatters(), before);
	sim_hold(false);
	ends_well(request, ranks, MANY, out);
	close_store();
}

Test(device_thread, ids_in_plain_memory_may_have_any_type_and_space)
{
	uint64_t ranks[MANY], vertices[MANY];
	uint32_t narrow[MANY];
	struct rung_ids list;
	struct rung_store_opts opts = { .size = sizeof(opts), .vertex_ids = 1 };
	void *out;

	fixture_open(&f, ROWS, WIDTH, SOME_BYTES, &opts, NULL);
	out = fixture_memory(&f, MANY * WIDTH);
	fixture_random_ids(&f, ranks, MANY, 8);
	for (unsigned i = 0; i < MANY; i++) {
		vertices[i] = f.vertex_of_rank[ranks[i]];
		narrow[i] = (uint32_t)vertices[i];
	}
	are_right((struct rung_ids){ ranks, MANY, RUNG_I64, RUNG_RANKS }, ranks, out);
	are_right((struct rung_ids){ vertices, MANY, RUNG_U64, RUNG_VERTICES }, ranks, out);
	are_right((struct rung_ids){ narrow, MANY, RUNG_U32, RUNG_VERTICES }, ranks, out);
	are_right((struct rung_ids){ narrow, MANY, RUNG_I32, RUNG_VERTICES }, ranks, out);
	vertices[7] = ROWS;
	narrow[9] = UINT32_MAX;
	list = (struct rung_ids){ vertices, MANY, RUNG_U64, RUNG_VERTICES };
	cr_assert_eq(rung_gather(f.store, &list, out, 0), RUNG_E_RANGE);
	cr_assert_str_eq(rung_last_error(), "gather: id 3000 at index 7 is not in 0..2999");
	list = (struct rung_ids){ narrow, MANY, RUNG_I32, RUNG_VERTICES };
	cr_assert_eq(rung_gather(f.store, &list, out, 0), RUNG_E_RANGE);
	cr_assert_str_eq(rung_last_error(), "gather: id -1 at index 9 is not in 0..2999");
	rung__alloc_limit(0);
	are_right((struct rung_ids){ ranks, MANY, RUNG_U64, RUNG_RANKS }, ranks, out);
	rung__alloc_limit(-1);
	close_store();
}

/* The early request's stream waits for a word that the host writes after the other request is
 * done. */
Test(device_thread, early_reads_leave_slots_for_other_requests)
{
	int (*wait_value)(cudaStream_t stream, unsigned long long at, uint32_t value,
	                  unsigned flags);
	uint64_t ranks[1000];
	const struct rung_ids ids = { ranks, 1000, RUNG_U64, RUNG_RANKS };
	struct rung_request *early, *other;
	unsigned char *early_out, *other_out;
	void *found = NULL;
	cudaStream_t mine;
	uint32_t *word;

	open_store(1, 64 * 1024);
	script.decide = NULL;
	cr_assert_lt(f.store->shape.slot_count, 500);
	for (uint64_t i = 0; i < 1000; i++)
		ranks[i] = 999 + 2 * i;
	early_out = fixture_memory(&f, 1000 * WIDTH);
	other_out = fixture_memory(&f, 1000 * WIDTH);
	cr_assert_eq(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", &found, 12000,
	                                              cudaEnableDefault, NULL),
	             cudaSuccess);
	memcpy(&wait_value, &found, sizeof(found));
	cr_assert_eq(cudaStreamCreateWithFlags(&mine, cudaStreamNonBlocking), cudaSuccess);
	cr_assert_eq(cudaHostAlloc((void **)&word, sizeof(*word), 0), cudaSuccess);
	*word = 0;
	cr_assert_eq(wait_value(mine, (uintptr_t)word, 1, 0), 0);
	cr_assert_eq(rung_gather_submit(f.store, &ids, early_out, 0, mine, &early), 0, "%s",
	             rung_last_error());
	while (script.sent == 0)
		sched_yield();
	other = submit(ranks, 1000, other_out);
	ends_well(other, ranks, 1000, other_out);
	cr_assert_eq(rung_request_poll(early), 0);
	__atomic_store_n(word, 1, __ATOMIC_RELEASE);
	ends_well(early, ranks, 1000, early_out);
	cr_assert_eq(cudaStreamDestroy(mine), cudaSuccess);
	cr_assert_eq(cudaFreeHost(word), cudaSuccess);
	close_store();
}

/* The list's last read uses the last slot for early reads. */
Test(device_thread, a_list_that_takes_all_slots_for_early_reads_ends_once)
{
	struct rung_ids ids = { .dtype = RUNG_U64, .space = RUNG_RANKS };
	uint64_t ranks[ROWS / APART], sent;
	struct rung_request *request;
	void *out;

	open_store(1, 64 * 1024);
	script.decide = NULL;
	ids.count = RUNG__MAX(f.store->shape.slot_count / 2, 1u);
	cr_assert_leq(ids.count, ROWS / APART / 2);
	out = fixture_memory(&f, ids.count * WIDTH);
	for (uint64_t i = 0; i < ids.count; i++)
		ranks[i] = ROWS - 1 - APART * i;
	ids.data = ranks;
	for (unsigned turn = 0; turn < 10 * f.store->request_count; turn++) {
		sent = script.sent;
		sim_hold(true);
		cr_assert_eq(rung_gather_submit(f.store, &ids, out, 0, RUNG_STREAM_OWN, &request),
		             0, "%s", rung_last_error());
		while (script.sent - sent < ids.count || script.ended < script.sent)
			sched_yield();
		sim_hold(false);
		ends_well(request, ranks, ids.count, out);
		cr_assert_eq(request->parts_left, 0);
	}
	close_store();
}

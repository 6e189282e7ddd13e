/* SPDX-License-Identifier: Apache-2.0 */
/* The loader: batches equal those of the sampler and their rows those of the dataset, in order, for
 * any number of threads and gathers. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "loader_fixture.h"

Test(loader, batches_equal_the_sampler_and_rows_the_dataset)
{
	static const uint32_t of[][3] = { { 0, 0, 0 }, { 1, 1, 1 }, { 1, 16, 3 },
		                          { 3, 1, 2 }, { 5, 4, 1 }, { 4, 100, 7 } };

	open_store(HOST_BYTES, (struct rung_store_opts){ .requests_max = 8 });
	for (unsigned i = 0; i < RUNG__ARRAY_LEN(of); i++) {
		struct rung_loader *loader = make_loader(of[i][0], of[i][1], of[i][2]);

		run_pass(loader, whole_pass());
		run_pass(loader, whole_pass());
		rung_loader_destroy(loader);
	}
	close_store();
}

Test(loader, counters_cover_the_current_pass)
{
	struct rung_loader_stats stats;
	struct rung_loader *loader;
	uint64_t rows = 0, edges = 0, count;

	open_store(HOST_BYTES, (struct rung_store_opts){ 0 });
	for (uint64_t b = 0; b < BATCHES; b++) {
		rung_batch_vertices(expected[b], &count);
		rows += count;
		edges += rung_batch_block(expected[b], 0)->edge_count +
		         rung_batch_block(expected[b], 1)->edge_count;
	}
	loader = make_loader(2, 0, 0);
	stats = stats_of(loader);
	cr_assert(stats.batches == 0 && stats.seconds == 0 && stats.wait_s == 0);
	for (int again = 0; again < 2; again++) {
		run_pass(loader, whole_pass());
		stats = stats_of(loader);
		cr_assert_eq(stats.batches, BATCHES);
		cr_assert_eq(stats.rows, rows);
		cr_assert_eq(stats.edges, edges);
		cr_assert(stats.sample_s > 0 && stats.gather_s > 0 && stats.announce_s > 0 &&
		          stats.seconds >= stats.wait_s);
		cr_assert_float_eq(stats.wait_s, stats.wait_sample_s + stats.wait_rows_s, 1e-6);
		cr_assert_eq(stats_of(loader).seconds, stats.seconds,
		             "the time must stop when the pass is over");
	}
	begin(loader, whole_pass());
	rung_loader_put(loader, next(loader), NULL);
	cr_assert_eq(stats_of(loader).batches, 1);
	cr_assert_eq(rung_loader_end(loader), 0);
	cr_assert_eq(stats_of(loader).batches, 1);
	stats.size = 4;
	cr_assert_eq(rung_loader_stats(loader, &stats), RUNG_E_INVAL);
	stats.size = sizeof(stats) + 8;
	cr_assert_eq(rung_loader_stats(loader, &stats), RUNG_E_ABI);
	rung_loader_destroy(loader);
	close_store();
}

static uint64_t store_requests(void)
{
	struct rung_store_stats stats = { .size = sizeof(stats) };

	cr_assert_eq(rung_store_stats(f.store, &stats), 0);
	return stats.requests;
}

Test(loader, warming_up_changes_neither_counters_nor_batches)
{
	struct rung_loader_pass pass = whole_pass();
	struct rung_loader *loader;
	struct rung_loader_stats stats;

	open_store(HOST_BYTES, (struct rung_store_opts){ 0 });
	loader = make_loader(2, 4, 2);
	for (unsigned again = 0; again < 3; again++) {
		const uint64_t before = store_requests();

		cr_assert_eq(rung_loader_warm_up(loader, &pass), 0, "%s", rung_last_error());
		stats = stats_of(loader);
		cr_assert(stats.batches == 0 && stats.rows == 0 && stats.sample_s == 0 &&
		          stats.seconds == 0);
		/* two that are gathered ahead, and two that the caller holds */
		cr_assert_geq(store_requests(), before + 4);
		cr_assert_eq(rung_loader_next(loader, &(const struct rung_loader_batch *){ NULL }),
		             RUNG_E_INVAL);
		run_pass(loader, whole_pass());
		cr_assert_eq(stats_of(loader).announced, BATCHES,
		             "no announcement of the warm-up may be left");
	}
	begin(loader, pass); /* a pass is in progress */
	rung_loader_put(loader, next(loader), NULL);
	pass.seed_count = BATCH; /* fewer batches than the loader holds at a time */
	cr_assert_eq(rung_loader_warm_up(loader, &pass), 0);
	pass.seed_count = 0;
	cr_assert_eq(rung_loader_warm_up(loader, &pass), 0);
	pass = whole_pass();
	pass.batch_first = BATCHES + 1;
	assert_error(rung_loader_warm_up(loader, &pass), RUNG_E_INVAL, "a pass of 11 batches");
	rung_loader_destroy(loader);
	close_store();
}

static void shuffled(uint64_t shuffle_seed, uint32_t threads, uint64_t order_out[SEEDS])
{
	struct rung_loader *loader = make_loader(threads, 0, 0);
	struct rung_loader_pass pass = whole_pass();
	uint64_t count = 0;

	pass.shuffle = 1;
	pass.shuffle_seed = shuffle_seed;
	begin(loader, pass);
	for (uint64_t b = 0; b < BATCHES; b++) {
		const struct rung_loader_batch *batch = next(loader);

		cr_assert_eq(rung_store_copy(f.store, order_out + count, batch->seeds,
		                             batch->seed_count * sizeof(*batch->seeds)),
		             0);
		count += batch->seed_count;
		check_rows(batch);
		rung_loader_put(loader, batch, NULL);
	}
	cr_assert_eq(count, SEEDS);
	check_end(loader);
	rung_loader_destroy(loader);
}

static int by_value(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

Test(loader, a_shuffled_pass_has_each_seed_once_in_the_order_of_its_key)
{
	uint64_t one[SEEDS], same[SEEDS], other[SEEDS], sorted[SEEDS], given[SEEDS];
	uint64_t moved = 0;

	open_store(HOST_BYTES, (struct rung_store_opts){ 0 });
	shuffled(7, 1, one);
	shuffled(7, 3, same);
	shuffled(8, 1, other);
	cr_assert_arr_eq(one, same, sizeof(one));
	cr_assert_arr_neq(one, other, sizeof(one));
	memcpy(sorted, one, sizeof(one));
	memcpy(given, seeds, sizeof(given));
	qsort(sorted, SEEDS, sizeof(*sorted), by_value);
	qsort(given, SEEDS, sizeof(*given), by_value);
	cr_assert_arr_eq(sorted, given, sizeof(given));
	for (uint64_t i = 0; i < SEEDS; i++)
		moved += one[i] != seeds[i];
	cr_assert_gt(moved, SEEDS * 9 / 10);
	close_store();
}

/* Three seeds in one batch have six orders. Each must occur equally often. */
Test(loader, every_order_is_equally_likely)
{
	struct rung_loader_opts opts = RUNG_LOADER_OPTS_INIT;
	static const uint64_t three[3] = { 0, 1, 2 };
	uint64_t seen[9] = { 0 };
	struct rung_loader *loader;

	open_store(RUNG_BYTES_MAX, (struct rung_store_opts){ 0 });
	opts.batch_size = 3;
	loader = make_loader_of(opts);
	for (uint64_t i = 0; i < 6000; i++) {
		const struct rung_loader_batch *batch;

		begin(loader, (struct rung_loader_pass){ .size = sizeof(struct rung_loader_pass),
		                                         .seeds = three,
		                                         .seed_count = 3,
		                                         .shuffle = 1,
		                                         .shuffle_seed = i });
		batch = next(loader);
		seen[batch->seeds[0] * 3 + batch->seeds[1]]++;
		rung_loader_put(loader, batch, NULL);
	}
	for (uint64_t i = 0; i < 9; i++) {
		if (i % 4 != 0)
			/* five standard deviations */
			cr_assert(seen[i] > 850 && seen[i] < 1150, "order %" PRIu64 ": %" PRIu64, i,
			          seen[i]);
	}
	rung_loader_destroy(loader);
	close_store();
}

Test(loader, a_caller_may_keep_all_batches)
{
	const struct rung_loader_batch *kept[BATCHES];
	struct rung_loader *loader;

	open_store(HOST_BYTES, (struct rung_store_opts){ .requests_max = 3 });
	loader = make_loader(2, 2, 1);
	for (int again = 0; again < 2; again++) {
		begin(loader, whole_pass());
		for (uint64_t b = 0; b < BATCHES; b++)
			kept[b] = next(loader);
		check_end(loader);
		for (uint64_t b = 0; b < BATCHES; b++)
			check_batch(kept[b], b);
		for (uint64_t b = 0; b < BATCHES; b++)
			rung_loader_put(loader, kept[b * 7 % BATCHES], NULL);
	}
	rung_loader_put(loader, NULL, NULL);
	rung_loader_destroy(loader);
	close_store();
}

struct putter {
	struct rung_loader *loader;
	const struct rung_loader_batch *batches[BATCHES];
};

static void *put_all(void *ctx)
{
	struct putter *putter = ctx;

	for (uint64_t b = BATCHES; b-- > 0;)
		rung_loader_put(putter->loader, putter->batches[b], NULL);
	return NULL;
}

Test(loader, another_thread_may_put_batches_in_any_order_during_the_next_pass)
{
	struct putter putter;
	pthread_t thread;

	open_store(HOST_BYTES, (struct rung_store_opts){ 0 });
	putter.loader = make_loader(2, 4, 2);
	begin(putter.loader, whole_pass());
	for (uint64_t b = 0; b < BATCHES; b++)
		putter.batches[b] = next(putter.loader);
	begin(putter.loader, whole_pass());
	for (uint64_t b = 0; b < BATCHES; b++)
		check_batch(putter.batches[b], b);
	cr_assert_eq(pthread_create(&thread, NULL, put_all, &putter), 0);
	for (uint64_t b = 0; b < BATCHES; b++) {
		const struct rung_loader_batch *batch = next(putter.loader);

		check_batch(batch, b);
		rung_loader_put(putter.loader, batch, NULL);
	}
	check_end(putter.loader);
	pthread_join(thread, NULL);
	rung_loader_destroy(putter.loader);
	close_store();
}

Test(loader, a_pass_may_end_at_any_batch_before_the_next)
{
	const struct rung_loader_batch *kept, *none = NULL;
	struct rung_loader *loader;

	open_store(HOST_BYTES, (struct rung_store_opts){ 0 });
	loader = make_loader(3, 5, 2);
	cr_assert_eq(rung_loader_next(loader, &none), RUNG_E_INVAL, "no pass has begun");
	cr_assert_eq(rung_loader_end(loader), 0);
	for (uint64_t leave = 0; leave <= BATCHES; leave++) {
		begin(loader, whole_pass());
		for (uint64_t b = 0; b < leave; b++)
			rung_loader_put(loader, next(loader), NULL);
		if (leave % 2)
			cr_assert_eq(rung_loader_end(loader), 0);
		if (leave % 2)
			cr_assert_eq(rung_loader_next(loader, &none), RUNG_E_INVAL);
	}
	begin(loader, whole_pass());
	kept = next(loader);
	cr_assert_eq(rung_loader_end(loader), 0);
	check_batch(kept, 0);
	run_pass(loader, whole_pass());
	check_batch(kept, 0);
	rung_loader_put(loader, kept, NULL);
	cr_assert_null(none);
	rung_loader_destroy(loader);
	close_store();
}

Test(loader, a_loader_may_be_destroyed_at_any_moment)
{
	open_store(HOST_BYTES, (struct rung_store_opts){ 0 });
	for (uint64_t taken = 0; taken <= 4; taken++) {
		struct rung_loader *loader = make_loader(2, 3, 2);

		begin(loader, whole_pass());
		for (uint64_t b = 0; b < taken; b++)
			next(loader);
		rung_loader_destroy(loader);
	}
	rung_loader_destroy(make_loader(2, 3, 2)); /* never used */
	rung_loader_destroy(NULL);
	close_store();
}

Test(loader, a_pass_may_begin_at_any_batch)
{
	struct rung_loader_pass pass = whole_pass();
	struct rung_loader *loader;

	open_store(HOST_BYTES, (struct rung_store_opts){ 0 });
	loader = make_loader(2, 3, 2);
	for (pass.batch_first = 0; pass.batch_first <= BATCHES; pass.batch_first++)
		run_pass(loader, pass);
	assert_error(rung_loader_begin(loader, &pass), RUNG_E_INVAL,
	             "a pass of 11 batches cannot begin with batch 12");
	rung_loader_destroy(loader);
	close_store();
}

static uint64_t count_batches(struct rung_loader *loader, uint64_t seed_count, int drop_last,
                              uint64_t *last_out)
{
	struct rung_loader_pass pass = whole_pass();
	const struct rung_loader_batch *batch;
	uint64_t count = 0;

	pass.seed_count = seed_count;
	pass.drop_last = drop_last;
	begin(loader, pass);
	while (rung_loader_next(loader, &batch) == 1) {
		count++;
		*last_out = batch->seed_count;
		rung_loader_put(loader, batch, NULL);
	}
	check_end(loader);
	return count;
}

Test(loader, the_last_batch_has_the_remaining_seeds_or_is_dropped)
{
	struct rung_loader *loader;
	uint64_t last = 0;

	open_store(HOST_BYTES, (struct rung_store_opts){ 0 });
	loader = make_loader(2, 3, 2);
	cr_assert_eq(count_batches(loader, 3 * BATCH + 1, 0, &last), 4);
	cr_assert_eq(last, 1);
	cr_assert_eq(count_batches(loader, 3 * BATCH + 1, 1, &last), 3);
	cr_assert_eq(last, BATCH);
	cr_assert_eq(count_batches(loader, 3 * BATCH, 1, &last), 3);
	cr_assert_eq(count_batches(loader, 3 * BATCH, 0, &last), 3);
	cr_assert_eq(count_batches(loader, BATCH - 1, 1, &last), 0);
	cr_assert_eq(count_batches(loader, 0, 0, &last), 0);
	rung_loader_destroy(loader);
	close_store();
}

Test(loader, without_edges_a_batch_is_its_seeds)
{
	struct rung_loader_opts opts = RUNG_LOADER_OPTS_INIT;
	struct rung_loader_pass pass = whole_pass();
	const struct rung_loader_batch *batch = NULL;
	struct rung_loader *loader;

	open_store(HOST_BYTES, (struct rung_store_opts){ 0 });
	opts.batch_size = BATCH;
	cr_assert_eq(rung_loader_create(f.store, NULL, &opts, &loader), 0, "%s", rung_last_error());
	seeds[5] = seeds[4]; /* a repeated seed is valid without edges */
	seeds[2 * BATCH + 3] = ROWS;
	begin(loader, pass);
	for (uint64_t b = 0; b < BATCHES; b++) {
		if (b == 2) {
			assert_error(rung_loader_next(loader, &batch), RUNG_E_RANGE,
			             "batch 2: loader: seed 3 is 3000");
			continue;
		}
		batch = next(loader);
		cr_assert_eq(batch->batch_idx, b);
		cr_assert(batch->seeds == batch->ranks && batch->seed_count == batch->rank_count &&
		          batch->block_count == 0);
		cr_assert_arr_eq(batch->seeds, seeds + b * BATCH,
		                 batch->seed_count * sizeof(*seeds));
		check_rows(batch);
		rung_loader_put(loader, batch, NULL);
	}
	check_end(loader);
	rung_loader_destroy(loader);
	close_store();
}

Test(loader, batches_larger_than_a_request_are_split)
{
	struct rung_loader *loader;

	open_store(HOST_BYTES, (struct rung_store_opts){ .batch_rows_max = 100 });
	loader = make_loader(2, 4, 2);
	run_pass(loader, whole_pass());
	cr_assert_eq(stats_of(loader).announced, BATCHES);
	rung_loader_destroy(loader);
	close_store();
}

Test(loader, a_pass_continues_while_other_users_hold_all_requests)
{
	struct rung_request *taken[3];
	struct rung_loader *loader;
	struct rung_ids ids;
	void *out;

	open_store(HOST_BYTES, (struct rung_store_opts){ .requests_max = 3 });
	ids = fixture_ids(&f, seeds, 10, RUNG_U64, RUNG_RANKS);
	out = fixture_memory(&f, 10 * WIDTH);
	for (unsigned i = 0; i < 3; i++)
		cr_assert_eq(rung_gather_submit(f.store, &ids, out, 0, NULL, &taken[i]), 0);
	loader = make_loader(2, 4, 2);
	run_pass(loader, whole_pass());
	for (unsigned i = 0; i < 3; i++)
		rung_request_put(taken[i]);
	rung_loader_destroy(loader);
	close_store();
}

Test(loader, times_of_a_batch_are_in_the_order_of_its_steps)
{
	struct rung_loader *loader;
	uint64_t begin_ns = rung__now_ns(), gathered_ns = 0;

	open_store(HOST_BYTES, (struct rung_store_opts){ 0 });
	loader = make_loader(2, 0, 0);
	begin(loader, whole_pass());
	for (uint64_t b = 0; b < BATCHES; b++) {
		const struct rung_loader_batch *batch = next(loader);
		const struct rung_loader_times times = batch->times;

		cr_assert(begin_ns <= times.sample_begin_ns &&
		          times.sample_begin_ns <= times.sample_end_ns &&
		          times.sample_end_ns <= times.gather_begin_ns &&
		          times.gather_begin_ns <= times.gather_end_ns);
		/* on a GPU the host does not wait for the rows */
		if (batch->request)
			cr_assert_eq(times.rows_ns, 0);
		else
			cr_assert(times.gather_begin_ns < times.rows_ns &&
			          times.rows_ns <= rung__now_ns());
		/* 0 if the store's window was full */
		cr_assert(times.announce_begin_ns == 0 ||
		          (times.sample_end_ns <= times.announce_begin_ns &&
		           times.announce_begin_ns <= times.announce_end_ns &&
		           times.announce_end_ns <= times.gather_begin_ns));
		cr_assert_geq(times.gather_begin_ns, gathered_ns, "gathers are in order");
		gathered_ns = times.gather_end_ns;
		rung_loader_put(loader, batch, NULL);
	}
	rung_loader_destroy(loader);
	close_store();
}

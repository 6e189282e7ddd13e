/* SPDX-License-Identifier: Apache-2.0 */
/* Reads of announced batches: the forecast of a plan is near what the store needs, with rows that
 * are read ahead, with a cache alone, and with rows in memory only by their rank. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "forecast_lists.h"
#include "graphs.h"
#include "refill/state.h"
#include "store_fixture.h"

#define ROWS    20000u
#define WIDTH   512u
#define BATCH   300u
#define BATCHES 90u
#define AHEAD   16u

static struct store_fixture f;
static uint64_t ranks[BATCHES * BATCH], starts[BATCHES + 1];

static int by_value(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Batches of distinct ranks, of which the lower ones are more frequent, as in sampled batches. */
static void draw_batches(void)
{
	uint64_t state = 77;

	for (uint64_t b = 0; b < BATCHES; b++) {
		static bool drawn[ROWS];
		uint64_t *batch = ranks + b * BATCH;

		for (uint64_t i = 0; i < ROWS; i++)
			drawn[i] = false;
		for (uint64_t i = 0; i < BATCH;) {
			const double u = (double)(test_random(&state) >> 11) / 9007199254740992.0;
			const uint64_t rank = (uint64_t)(ROWS * u * u);

			if (!drawn[rank])
				batch[i++] = rank;
			drawn[rank] = true;
		}
		qsort(batch, BATCH, sizeof(*batch), by_value);
		starts[b + 1] = (b + 1) * BATCH;
	}
}

static struct rung_store_stats stats_now(void)
{
	struct rung_store_stats stats = { .size = sizeof(stats) };

	cr_assert_eq(rung_store_stats(f.store, &stats), 0);
	return stats;
}

/* Wait until everything that was to be read ahead has been read: no row is owed, and no read is in
 * flight. Four times, because between two reads none is in flight. */
static void await_reads(void)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	for (unsigned ended = 0; ended < 4; nanosleep(&pause, NULL)) {
		const bool owed =
			__atomic_load_n(&f.store->refills[0]->ahead.owed, __ATOMIC_RELAXED) > 0;

		ended = owed || stats_now().reads_in_flight > 0 ? 0 : ended + 1;
	}
}

/* Reads per batch of the store, for the batches from `from` to `end`. */
static double store_reads(uint64_t from, uint64_t end)
{
	uint64_t announced = 0, before = 0;

	for (uint64_t b = 0; b < end; b++) {
		for (; announced < BATCHES && announced <= b + AHEAD; announced++) {
			struct rung_ids list = { ranks + starts[announced], BATCH, RUNG_U64,
				                 RUNG_RANKS };

			cr_assert_eq(rung_prefetch(f.store, &list), 0, "%s", rung_last_error());
		}
		if (b == from)
			before = stats_now().device_reads;
		fixture_gather_and_check(&f, ranks + starts[b], BATCH);
		await_reads();
	}
	return (double)(stats_now().device_reads - before) / (double)(end - from);
}

static void compare(uint64_t cache_bytes, uint32_t window)
{
	struct rung_plan_opts plan_opts = RUNG_PLAN_OPTS_INIT;
	struct rung_store_opts opts = RUNG_STORE_OPTS_INIT;
	struct rung_forecast_opts forecast_opts = RUNG_FORECAST_OPTS_INIT;
	struct rung_forecast forecast = { .size = sizeof(forecast) };
	struct rung_profile profile;
	double predicted, measured;

	rung_profile_assume(&profile);
	plan_opts.host_bytes = 3000000;
	plan_opts.cache_bytes = cache_bytes ? cache_bytes : RUNG_BYTES_NONE;
	rung_plan_destroy(f.plan);
	cr_assert_eq(rung_plan_create(f.ds, &plan_opts, &f.plan), 0, "%s", rung_last_error());
	forecast_opts.profile = &profile;
	forecast_opts.merge_gap_bytes = 16384;
	forecast_opts.look_ahead = AHEAD;
	forecast_opts.window = window;
	cr_assert_eq(forecast_lists(f.plan, &forecast_opts, ranks, starts, BATCHES, &forecast), 0,
	             "%s", rung_last_error());
	predicted = forecast.reads / BATCHES;
	opts.merge_gap_bytes = 16384;
	opts.window = window;
	opts.batch_rows_max = BATCH;
	cr_assert_eq(rung_store_open(f.ds, f.plan, &opts, &f.store), 0, "%s", rung_last_error());
	measured = store_reads(BATCHES / 3, BATCHES - AHEAD);
	cr_assert_lt(fabs(predicted / measured - 1), 0.15,
	             "cache %llu, window %u: %.1f reads per batch predicted, %.1f measured",
	             (unsigned long long)cache_bytes, window, predicted, measured);
	cr_assert_eq(forecast.window_batches > 0, stats_now().window_batches > 0);
	cr_assert_eq(stats_now().ahead_rows > 0, window != RUNG_WINDOW_NONE && cache_bytes > 0);
	fixture_free_memories(&f);
	cr_assert_eq(rung_store_close(f.store), 0);
	f.store = NULL;
}

Test(store_predicted, reads_of_announced_batches_are_as_forecast)
{
	fixture_open(&f, ROWS, WIDTH, 3000000, NULL, NULL);
	cr_assert_eq(rung_store_close(f.store), 0);
	f.store = NULL;
	draw_batches();
	compare(0, 0);
	compare(800000, RUNG_WINDOW_NONE);
	compare(800000, 0);
	compare(800000, 4);
	fixture_close(&f);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Rates between two snapshots, and the bottleneck that follows from them. */
#include <criterion/criterion.h>
#include <math.h>

#include "output/rates.h"

/* Two seconds of a store with 1000 rows in memory and 9000 in files. */
static struct tool_rates rates_of(uint64_t hot, uint64_t cold, uint64_t cached, uint64_t reads,
                                  double wait_rows, double wait_sample)
{
	struct rung_store_stats before = { .tier_count = 2,
		                           .cache_rows = 500,
		                           .tiers = {
						   { .name = "host", .rows = 1000, .hits = 70 },
						   { .name = "nvme", .rows = 9000, .hits = 7 } } };
	struct rung_store_stats after = before;
	struct tool_rates rates;

	after.tiers[0].hits += hot;
	after.tiers[0].bytes += 100 * hot;
	after.tiers[1].hits += cold;
	after.tiers[1].bytes += 100 * cold;
	after.cache_hits += cached;
	after.device_reads += reads;
	after.device_read_bytes += 512 * reads;
	after.read_ns += 10000000 * reads;
	after.wait_rows_ns += (uint64_t)(2e9 * wait_rows);
	after.wait_sample_ns += (uint64_t)(2e9 * wait_sample);
	tool_rates_of(&before, &after, 2, &rates);
	return rates;
}

static void expect(struct tool_rates rates, const char *bottleneck)
{
	cr_assert_str_eq(rates.bottleneck, bottleneck);
}

Test(rates, the_bottleneck_follows_from_waits_and_reads)
{
	expect(rates_of(0, 0, 0, 0, 0, 0), "idle: no rows are requested");
	expect(rates_of(0, 0, 0, 0, 1, 0), "waits for rows");
	expect(rates_of(0, 0, 0, 5, 1, 0), "waits for the drive");
	expect(rates_of(9, 0, 0, 0, 0, 0), "all rows come from memory");
	expect(rates_of(9, 0, 0, 0, 0.5, 0), "all rows come from memory");
	expect(rates_of(9, 0, 0, 0, 0, 0.5), "waits for sampling");
	expect(rates_of(9, 9, 0, 5, 0.5, 0), "waits for the drive");
	expect(rates_of(9, 9, 9, 0, 0.5, 0), "waits for rows");
	expect(rates_of(9, 9, 0, 5, 0.09, 0), "the trainer computes; rows are ready");
	expect(rates_of(9, 9, 0, 5, 0.08, 0.07), "waits for the drive");
	expect(rates_of(9, 9, 0, 5, 0.07, 0.08), "waits for sampling");
}

Test(rates, shares_and_rates_are_those_of_the_interval)
{
	const struct tool_rates rates = rates_of(60, 40, 10, 8, 0.25, 0.25);
	char text[TOOL_RATES_BYTES];

	cr_assert(rates.rows == 50 && rates.row_bytes == 5000);
	cr_assert(rates.reads == 4 && rates.read_bytes == 2048);
	cr_assert_float_eq(rates.queue, 0.04, 1e-9);
	cr_assert_float_eq(rates.read_s, 0.01, 1e-9);
	cr_assert_eq(rates.source_count, 3);
	cr_assert_str_eq(rates.sources[1].name, "cache");
	cr_assert_float_eq(rates.sources[0].share, 0.6, 1e-9);
	cr_assert_float_eq(rates.sources[1].share, 0.1, 1e-9);
	cr_assert_float_eq(rates.sources[2].share, 0.3, 1e-9);
	cr_assert_str_eq(tool_rates_line(text, &rates),
	                 "50 rows/s, 70 % from memory; reads 4/s, 2.00 KiB/s, 0.0 in flight; "
	                 "waits 50 %");
}

Test(rates, counters_that_do_not_grow_give_no_nonsense)
{
	struct rung_store_stats before = { .tier_count = 1,
		                           .device_reads = 9,
		                           .wait_rows_ns = 9000000000,
		                           .tiers = { { .name = "host", .rows = 1, .hits = 9 } } };
	struct rung_store_stats after = { .tier_count = 1,
		                          .reads_in_flight = 3,
		                          .tiers = { { .name = "host", .rows = 1 } } };
	struct tool_rates rates;

	tool_rates_of(&before, &after, 1, &rates);
	cr_assert(rates.rows == 0 && rates.reads == 0 && rates.wait == 0 && rates.queue == 3);
	cr_assert(isnan(rates.memory) && isnan(rates.sources[0].share) && isnan(rates.read_s));
	after.wait_rows_ns = UINT64_MAX;
	tool_rates_of(&before, &after, 1, &rates);
	cr_assert_eq(rates.wait, 1);
}

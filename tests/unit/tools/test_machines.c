/* SPDX-License-Identifier: Apache-2.0 */
/* Arrangements of several machines, compared with values worked out by hand. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan_machines.h"

/* A batch reads 1000 cold rows of 1536 bytes in 500 reads that span 2000 bytes a row. Half of its
 * requests are served by memory, which has a tenth of the rows. */
static const struct plan_work batch = {
	.row_bytes = 1536,
	.sector_bytes = 512,
	.copy_bytes = 12e9,
	.feature_bytes = 10e9,
	.memory_share = 0.1,
	.served = 0.5,
	.seeds = 40963,
	.batch = 1024,
	.cold_rows = 1000,
	.row_reads = 500,
	.row_read_bytes = 2e6,
	.list_reads = 100,
	.list_read_bytes = 5e5,
	.memory_seconds = 2e-3,
	.row_seconds = 5e-3, /* 100,000 reads per second */
	.list_seconds = 1e-3,
	.hits = { 0.95, 0.9, 0.8, 0.6 },
};

static struct plan_machines planned(double nic, double storage, const struct plan_work *work)
{
	const struct plan_machines_args args = { .machines = 4, .nic = nic, .storage = storage };
	struct plan_machines plan;

	plan_machines_init(&plan, &args, work);
	return plan;
}

static void expect(double found, double value)
{
	cr_assert(fabs(found - value) <= 1e-9 * fabs(value), "%.17g is not %.17g", found, value);
}

static void expect_times(const struct plan_arrangement *place, double seconds, double rows_per_s,
                         const char *limit)
{
	expect(place->seconds, seconds);
	expect(place->rows_per_s, rows_per_s);
	expect(place->epoch_seconds, 10 * seconds);
	cr_assert_str_eq(place->limit, limit);
}

Test(machines, seeds_are_divided_and_the_remainder_is_skipped)
{
	struct plan_work work = batch;

	cr_assert_eq(planned(1e9, 0, &work).batches, 10); /* 40963 / 4 is 10240 */
	work.seeds = 40964;
	cr_assert_eq(planned(1e9, 0, &work).batches, 11);
	work.seeds = 3;
	cr_assert_eq(planned(1e9, 0, &work).batches, 1);
}

Test(machines, reads_consist_of_whole_sectors)
{
	static const struct {
		uint64_t row_bytes;
		uint32_t sector_bytes;
		double rest;
	} cases[] = {
		{ 1536, 512, 0 },     { 388, 512, 508 }, { 256, 512, 256 }, { 768, 512, 256 },
		{ 1536, 4096, 3584 }, { 4096, 4096, 0 }, { 1, 512, 511 },   { 8192, 4096, 0 }
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_assert_eq(plan_sector_rest(cases[i].row_bytes, cases[i].sector_bytes),
		             cases[i].rest);
	/* 500 reads of whole pages: 500 x 3584 bytes more for 1000 rows */
	expect(planned(1e9, 0, &batch).page_bytes, 2000 + 1792);
}

Test(machines, own_copies_read_from_their_drives)
{
	const struct plan_machines plan = planned(1e9, 0, &batch);
	const struct plan_arrangement *own = &plan.arrangement[0];

	cr_assert_str_eq(own->name, "own copies");
	expect_times(own, 6e-3, 200e3, "drive"); /* 100 k reads/s, 0.5 a row */
	expect(own->disk_bytes, 12e9);
	expect(own->fetch_seconds, 12);
	expect(own->nic_bytes, 0);
	expect(own->source_bytes_per_s, 0);
}

Test(machines, shared_storage_is_limited_by_the_nic)
{
	const struct plan_machines plan = planned(1e8, 0, &batch);
	const struct plan_arrangement *shared = &plan.arrangement[plan.count - 2];

	cr_assert_str_eq(shared->name, "shared storage");
	expect_times(shared, 25e-3, 50e3, "network"); /* 2.5 MB, of which 2 MB are rows */
	expect(shared->disk_bytes, 0);
	expect(shared->source_bytes_per_s, 4e8);
}

Test(machines, shared_storage_serves_all_machines)
{
	const struct plan_machines plan = planned(1e9, 1e8, &batch);
	const struct plan_arrangement *shared = &plan.arrangement[plan.count - 2];

	/* 25 MB/s for each */
	expect_times(shared, 0.1, 1000 / 0.08, "storage");
	expect(shared->source_bytes_per_s, 1e8);
	/* a copy is fetched from it, too */
	expect(plan.arrangement[0].fetch_seconds, 4 * 12e9 / 1e8);
}

Test(machines, a_prefix_divides_the_cold_rows)
{
	const struct plan_machines plan = planned(1e8, 0, &batch);
	const struct plan_arrangement *prefix = &plan.arrangement[3];

	cr_assert_eq(plan.count, 7);
	cr_assert_str_eq(prefix->name, "prefix");
	expect(prefix->share, 0.4);
	expect(prefix->local_share, 0.6); /* (0.8 - 0.5) / (1 - 0.5) */
	expect(prefix->disk_bytes, 6e9);  /* 40 % of the rows, and the other files */
	expect(prefix->fetch_seconds, 60);
	expect(prefix->nic_bytes, 8e5);
	/* 3 ms for local rows and 1 ms for lists, 8 ms over the NIC */
	expect_times(prefix, 8e-3, 125e3, "network");
	expect(prefix->source_bytes_per_s, 4e8);
	/* with a faster NIC the drive is slower */
	expect_times(&planned(1e9, 0, &batch).arrangement[3], 4e-3, 1000 / 3e-3, "drive");
}

Test(machines, prefixes_that_memory_holds_are_left_out)
{
	struct plan_work work = batch;
	struct plan_machines plan;

	work.memory_share = 0.4;
	plan = planned(1e8, 0, &work);
	cr_assert_eq(plan.count, 5);
	expect(plan.arrangement[2].share, 0.6);
	/* memory can serve more than a prefix does by its estimate */
	work.served = 0.9;
	expect(planned(1e8, 0, &work).arrangement[2].local_share, 0);
	work.no_prefix = 1;
	cr_assert_eq(planned(1e8, 0, &work).count, 3);
}

Test(machines, memory_of_others_needs_a_part_of_the_cold_rows)
{
	const struct plan_machines plan = planned(1e8, 0, &batch);
	const struct plan_arrangement *memory = &plan.arrangement[6];
	struct plan_work work = batch;

	cr_assert_str_eq(memory->name, "other memory");
	expect(memory->memory_bytes, 9e9 / 4);
	expect(memory->nic_bytes, 1000 * 1536 * 0.75);
	expect_times(memory, 11.52e-3, 1e8 / (1536 * 0.75), "network");
	expect(memory->fetch_seconds, (2e9 + 9e9 / 4) / 1e8); /* other files to the drive */
	/* a cache keeps some of the rows */
	work.row_read_bytes = 1e6;
	expect(planned(1e8, 0, &work).arrangement[6].nic_bytes, 1e6 * 0.75);
}

Test(machines, the_break_even_is_the_rate_of_local_rows)
{
	const struct plan_machines plan = planned(1e8, 0, &batch);
	const struct plan_machines even = planned(plan.storage_even, 0, &batch),
				   memory = planned(plan.memory_even, 0, &batch);

	expect(plan.storage_even, 100e3 * 2000 / 0.5);
	expect(plan.memory_even, 100e3 * 1536 / 0.5 * 0.75);
	expect(even.arrangement[5].rows_per_s, even.arrangement[0].rows_per_s);
	expect(memory.arrangement[6].rows_per_s, memory.arrangement[0].rows_per_s);
}

Test(machines, numbers_of_four_pcie5_drives)
{
	struct plan_work work = batch;

	/* 13.2 M reads/s, one read a row: 162 Gbit/s with 1536 bytes, 54 Gbit/s with 512 */
	work.row_reads = work.cold_rows;
	work.row_seconds = work.row_reads / 13.2e6;
	work.row_read_bytes = work.cold_rows * 1536;
	expect(planned(1e9, 0, &work).storage_even * 8, 162.2016e9);
	work.row_read_bytes = work.cold_rows * 512;
	expect(planned(1e9, 0, &work).storage_even * 8, 54.0672e9);
	/* half a read a row doubles both */
	work.row_reads /= 2;
	work.row_seconds /= 2;
	expect(planned(1e9, 0, &work).storage_even * 8, 108.1344e9);
}

Test(machines, a_profile_has_the_rate_of_the_storage)
{
	struct rung_profile *rates = calloc(1, sizeof(*rates));
	struct plan_machines_args args = {
		.machines = 4, .nic = 1e9, .shared = "f", .rates = rates
	};
	struct plan_machines plan;

	cr_assert_not_null(rates);
	rates->drive_count = 1;
	rates->reads_count = 1;
	rates->reads[0] = (struct rung_profile_reads){ 0, 8192, 32, 10e3 };
	plan_machines_init(&plan, &args, &batch);
	/* 500 reads of rows and 100 of lists at 10 k reads/s */
	expect_times(&plan.arrangement[5], 60e-3, 1000 / 50e-3, "storage");
	expect_times(&plan.arrangement[3], 20e-3, 1000 / 20e-3, "storage");
	free(rates);
}

Test(machines, the_advice_is_the_least_disk_that_is_about_as_fast)
{
	struct plan_work work = batch;
	struct plan_machines plan = planned(1e7, 0, &work);

	cr_assert_eq(plan.advice, 0); /* a slow network: own copies */
	plan = planned(1e12, 0, &work);
	cr_assert_str_eq(plan.arrangement[plan.advice].name, "shared storage");
	/* 4 ms at 40 %, 3 ms at 20 % with 1.6 MB over the NIC */
	plan = planned(3.2e8, 0, &work);
	cr_assert_eq(plan.advice, 3);
	/* a model that needs 25 ms a batch does not need more than shared storage */
	work.compute = 25e-3;
	plan = planned(1e8, 0, &work);
	cr_assert_str_eq(plan.arrangement[plan.advice].name, "shared storage");
	work.compute = 24e-3;
	plan = planned(1e8, 0, &work);
	cr_assert_eq(plan.advice, 4);
}

Test(machines, nothing_is_compared_without_reads)
{
	struct plan_work work = batch;

	work.cold_rows = work.row_reads = work.row_read_bytes = work.row_seconds = 0;
	cr_assert_eq(planned(1e8, 0, &work).count, 0);
}

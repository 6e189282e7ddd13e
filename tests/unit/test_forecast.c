/* SPDX-License-Identifier: Apache-2.0 */
/* Seconds predicted from a profile: of plans and batches small enough to be counted by hand. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "plan_internal.h"
#include "profile_rates.h"
#include "rung/rung.h"

TestSuite(forecast, .timeout = 60);

#define VERTICES 1000u
#define MISS_NS 60.0
#define ID_NS 4.0

/* A row of 512 bytes takes 100 ns, a read of 512 bytes 1000 ns and one of 8192 bytes 3000 ns at depth 4. */
static struct rung_profile profile;
static struct rung_plan plan;
static struct rung_forecast_opts opts;

static void setup(void)
{
	profile = (struct rung_profile){
		.size = sizeof(profile), .rows_count = 2, .rows = { { 0, 1, 0, 0, 256, 1e9 / 60 }, { 0, 1, 0, 0, 768, 1e9 / 140 } },
		.drive_count = 1, .drives = { { "a" } },
		.reads_count = 4, .reads = { { 0, 512, 1, 250e3 }, { 0, 512, 4, 1e6 }, { 0, 8192, 1, 1e5 }, { 0, 8192, 4, 1e9 / 3000 } },
	};
	opts = (struct rung_forecast_opts){ .size = sizeof(opts), .profile = &profile };
	plan = (struct rung_plan){
		.vertex_count = VERTICES, .row_bytes = 512, .row_stride = 512, .data_offset = 4096, .sector_bytes = 512, .file_count = 1,
		.block_rows = VERTICES, .queue_depth = 4, .slots = { 4, 65536 },
		.tiers = { [RUNG__TIER_HOST] = { .row_count = 100 }, [RUNG__TIER_NVME] = { .rank_first = 100, .row_count = VERTICES - 100 } },
	};
}

static struct rung_forecast forecast_of(const uint64_t *ranks, const uint64_t *starts, uint64_t batches)
{
	struct rung_forecast out = { .size = sizeof(out) };

	cr_assert_eq(rung_plan_forecast(&plan, &opts, ranks, starts, batches, &out), 0, "%s", rung_last_error());
	cr_assert_eq(out.seconds, fmax(out.memory_seconds, out.nvme_seconds));
	cr_assert_eq(out.bound, out.nvme_seconds > out.memory_seconds ? RUNG_BOUND_NVME : RUNG_BOUND_MEMORY);
	cr_assert_eq(out.gpu_seconds + out.peer_seconds + out.link_seconds, 0);
	cr_assert_eq(out.assumed, 0);
	return out;
}

Test(forecast, rows_in_memory_take_the_time_between_two_sizes, .init = setup)
{
	const uint64_t ranks[] = { 5, 99, 0 }, starts[] = { 0, 3 };
	struct rung_forecast out = forecast_of(ranks, starts, 1);

	cr_assert_float_eq(out.memory_seconds, 3 * (100 + ID_NS) * 1e-9, 1e-15);
	cr_assert_eq(out.nvme_seconds, 0);
	cr_assert_str_eq(rung_bound_name(out.bound), "host memory");
	plan.row_bytes = 1536;   /* twice the largest size: twice its time */
	cr_assert_float_eq(forecast_of(ranks, starts, 1).memory_seconds, 3 * (280 + ID_NS) * 1e-9, 1e-15);
	plan.row_bytes = 8;      /* less than the smallest: no less time */
	cr_assert_float_eq(forecast_of(ranks, starts, 1).memory_seconds, 3 * (60 + ID_NS) * 1e-9, 1e-15);
}

Test(forecast, cold_rows_that_are_near_each_other_share_a_read, .init = setup)
{
	/* gap: a read of 1000 ns against 8192 bytes in 3000 ns: 2730 bytes, less the row's own, in whole sectors 2048 = 4 rows */
	const uint64_t ranks[] = { 300, 305, 200, 500, 506, 50, 300 }, starts[] = { 0, 7 };
	struct rung_forecast out = forecast_of(ranks, starts, 1);

	cr_assert_eq(out.gap_bytes, 2048);
	cr_assert_eq(out.queue_depth, 4);
	cr_assert_eq(out.reads, 4);   /* 200 | 300 and 305, four rows between them | 500 | 506, five rows between them */
	cr_assert_eq(out.read_bytes, 3 * 512 + 6 * 512);
	cr_assert_float_eq(out.nvme_seconds, (3 * 1000 + 1000 + 2000.0 * (6 * 512 - 512) / (8192 - 512)) * 1e-9, 1e-14);
	cr_assert_float_eq(out.memory_seconds, (7 * ID_NS + 100 + 6 * MISS_NS) * 1e-9, 1e-15);
	cr_assert_str_eq(rung_bound_name(out.bound), "nvme");
	opts.gap_bytes = 2560;
	cr_assert_eq(forecast_of(ranks, starts, 1).reads, 3);
	opts.gap_bytes = RUNG_GAP_NONE;
	cr_assert_eq(forecast_of(ranks, starts, 1).reads, 5);
	cr_assert_eq(forecast_of((uint64_t[]){ 300, 301 }, (uint64_t[]){ 0, 2 }, 1).reads, 1);
	opts.no_merge = 1;
	cr_assert_eq(forecast_of((uint64_t[]){ 300, 301 }, (uint64_t[]){ 0, 2 }, 1).reads, 2);
}

Test(forecast, reads_that_share_are_no_longer_than_a_slot, .init = setup)
{
	uint64_t ranks[64], starts[] = { 0, 64 };

	for (uint64_t i = 0; i < 64; i++)
		ranks[i] = 400 + i;
	plan.slots.slot_bytes = 8192;
	cr_assert_eq(forecast_of(ranks, starts, 1).reads, 4);
	plan.slots.slot_bytes = 65536;
	cr_assert_eq(forecast_of(ranks, starts, 1).reads, 1);
}

Test(forecast, depths_between_two_and_beyond, .init = setup)
{
	const uint64_t ranks[] = { 300 }, starts[] = { 0, 1 };

	plan.slots.slot_count = 2;   /* each read takes 4 us with one in flight, and with four */
	cr_assert_float_eq(forecast_of(ranks, starts, 1).nvme_seconds, 1 / 500e3, 1e-12);
	plan.slots.slot_count = 1;
	cr_assert_float_eq(forecast_of(ranks, starts, 1).nvme_seconds, 1 / 250e3, 1e-12);
	plan.slots.slot_count = 64;
	opts.queue_depth = 64;
	cr_assert_float_eq(forecast_of(ranks, starts, 1).nvme_seconds, 1e-6, 1e-12);
	profile.reads[1].reads_per_s = 5e5;   /* 8 us with four: 5.33 us with two, between */
	plan.slots.slot_count = 2;
	cr_assert_float_eq(forecast_of(ranks, starts, 1).nvme_seconds, 4e-6 * (4.0 / 3) / 2, 1e-12);
	profile.reads[0].depth = 2;           /* fewer than were measured: each as long as the fewest */
	plan.slots.slot_count = 1;
	cr_assert_float_eq(forecast_of(ranks, starts, 1).nvme_seconds, 8e-6, 1e-12);
}

Test(forecast, the_cache_has_what_the_batch_before_wanted_and_the_hottest, .init = setup)
{
	const uint64_t ranks[] = { 100, 300, 500, 100, 300, 700, 100, 500, 900, 500 }, starts[] = { 0, 3, 6, 9, 10 };

	plan.cache.row_count = 2;
	/* 100 and 300 were in the batch before; then 100 again, and 500 no more; then 500 */
	cr_assert_eq(forecast_of(ranks, starts, 4).cache_hits, 2 + 1 + 1);
	plan.cache.row_count = 1;   /* room for one: 100 of the two, 100, 500 */
	cr_assert_eq(forecast_of(ranks, starts, 4).cache_hits, 3);
	plan.cache.row_count = 0;
	cr_assert_eq(forecast_of(ranks, starts, 4).cache_hits, 0);
	cr_assert_eq(forecast_of(ranks, starts, 4).reads, 10);
}

Test(forecast, the_busiest_of_several_files_counts, .init = setup)
{
	const uint64_t ranks[] = { 150, 250, 350, 550 }, starts[] = { 0, 4 };

	plan.file_count = 2;
	plan.block_rows = 100;
	plan.slots.slot_count = 8;
	cr_assert_float_eq(forecast_of(ranks, starts, 1).nvme_seconds, 3e-6, 1e-12);   /* three of them in the second file */
}

Test(forecast, reads_are_those_of_the_drive_that_the_features_lie_on, .init = setup)
{
	const uint64_t ranks[] = { 300 }, starts[] = { 0, 1 };
	struct rung_forecast out;

	profile.drive_count = 2;
	strcpy(profile.drives[1].name, "b");
	profile.reads[profile.reads_count++] = (struct rung_profile_reads){ 1, 512, 4, 1e5 };
	strcpy(plan.drive_names[0], "b");
	out = forecast_of(ranks, starts, 1);
	cr_assert_float_eq(out.nvme_seconds, 1e-5, 1e-12);
	cr_assert(out.choice.drive_count == 1 && out.choice.drive_idx[0] == 1);
	cr_assert_str_eq(out.choice.drives[0], "b");
	cr_assert_str_eq(out.choice.drive_why, "the features lie there");
	strcpy(plan.drive_names[0], "c");
	out = forecast_of(ranks, starts, 1);
	cr_assert_float_eq(out.nvme_seconds, 1e-6, 1e-12);
	cr_assert_str_eq(out.choice.drives[0], "a");
	cr_assert(strstr(out.choice.drive_why, "c, of which the profile has no reads: a, its first"), "%s", out.choice.drive_why);
	plan.drive_names[0][0] = 0;
	profile.drives[0].name[0] = 0;   /* two that have no name are not the same drive */
	out = forecast_of(ranks, starts, 1);
	cr_assert_eq(out.choice.drive_idx[0], 0);
	cr_assert(strstr(out.choice.drive_why, "does not name: a drive without a name"), "%s", out.choice.drive_why);
}

Test(forecast, files_on_several_drives_have_each_its_own_reads, .init = setup)
{
	const uint64_t ranks[] = { 150, 250, 350, 550 }, starts[] = { 0, 4 };   /* one in the first file, three in the second */
	struct rung_forecast out;

	plan.file_count = 2;
	plan.block_rows = 100;
	plan.slots.slot_count = 8;
	profile.drive_count = 2;
	strcpy(profile.drives[1].name, "b");
	profile.reads[profile.reads_count++] = (struct rung_profile_reads){ 1, 512, 4, 1e5 };
	strcpy(plan.drive_names[0], "b");
	strcpy(plan.drive_names[1], "a");
	out = forecast_of(ranks, starts, 1);
	cr_assert_float_eq(out.nvme_seconds, 1e-5, 1e-12);   /* 10 us for the one, 1 us for each of the three */
	strcpy(plan.drive_names[0], "a");
	strcpy(plan.drive_names[1], "b");
	cr_assert_float_eq(forecast_of(ranks, starts, 1).nvme_seconds, 3e-5, 1e-12);
	cr_assert(out.gap_bytes == 0 && out.choice.gap_bytes == 0 && strstr(out.choice.gap_why, "one size"));   /* of the second drive one size is known */
}

Test(forecast, rows_in_place_lie_anywhere, .init = setup)
{
	uint64_t ranks[64], starts[] = { 0, 64 };

	for (uint64_t i = 0; i < 64; i++)
		ranks[i] = 400 + i;
	plan.vertices_bytes = 4 * VERTICES;
	cr_assert_gt(forecast_of(ranks, starts, 1).reads, 20);
}

/* ---- on a GPU ---- */

static int gpus[3];

/* 100 rows on the GPU, 300 dealt to three of them, 200 in host memory. */
static void setup_gpu(void)
{
	setup();
	memcpy(gpus, (int[]){ 1, 0, 1 }, sizeof(gpus));
	plan.device = (struct rung_plan_device){ .device = RUNG_DEVICE_CUDA, .gpus = gpus, .gpu_count = 3 };
	plan.tiers[RUNG__TIER_GPU] = (struct rung_plan_tier){ .rank_first = 0, .row_count = 100 };
	plan.tiers[RUNG__TIER_PEER] = (struct rung_plan_tier){ .rank_first = 100, .row_count = 300 };
	plan.tiers[RUNG__TIER_HOST] = (struct rung_plan_tier){ .rank_first = 400, .row_count = 200 };
	plan.tiers[RUNG__TIER_NVME] = (struct rung_plan_tier){ .rank_first = 600, .row_count = VERTICES - 600 };
	profile.gpu_rows_count = profile.peer_rows_count = profile.link_rows_count = 1;
	profile.gpu_rows[0] = (struct rung_profile_gpu_rows){ 512, 1e9 };
	profile.peer_rows[0] = (struct rung_profile_gpu_rows){ 512, 1e8 };
	profile.link_rows[0] = (struct rung_profile_gpu_rows){ 512, 2e7 };
}

static struct rung_forecast gpu_forecast_of(const uint64_t *ranks, uint64_t count)
{
	const uint64_t starts[] = { 0, count };
	struct rung_forecast out = { .size = sizeof(out) };

	cr_assert_eq(rung_plan_forecast(&plan, &opts, ranks, starts, 1, &out), 0, "%s", rung_last_error());
	cr_assert_eq(out.seconds, fmax(fmax(out.gpu_seconds, fmax(out.peer_seconds, out.link_seconds)), fmax(out.memory_seconds, out.nvme_seconds)));
	return out;
}

Test(forecast, a_gpu_reads_its_own_memory_and_others_and_its_link_side_by_side, .init = setup_gpu)
{
	/* two of its own; of those dealt 100 is GPU 1's, 101 GPU 0's, 102 GPU 1's again; two in host memory, one in the file */
	const uint64_t ranks[] = { 5, 99, 100, 101, 102, 400, 599, 700 };
	struct rung_forecast out = gpu_forecast_of(ranks, 8);

	cr_assert_float_eq(out.gpu_seconds, 4e-9, 1e-16);
	cr_assert_float_eq(out.peer_seconds, 1e-8, 1e-16);
	cr_assert_float_eq(out.link_seconds, 3 * 5e-8, 1e-16);
	cr_assert_float_eq(out.memory_seconds, MISS_NS * 1e-9, 1e-16);
	cr_assert_float_eq(out.nvme_seconds, 1e-6, 1e-14);
	cr_assert_eq(out.bound, RUNG_BOUND_NVME);
	cr_assert_eq(out.assumed, 0);
	out = gpu_forecast_of(ranks, 7);
	cr_assert_str_eq(rung_bound_name(out.bound), "link");
	out = gpu_forecast_of(ranks, 5);
	cr_assert_str_eq(rung_bound_name(out.bound), "peers");
	out = gpu_forecast_of(ranks, 2);
	cr_assert_str_eq(rung_bound_name(out.bound), "gpu memory");
	cr_assert_eq(out.memory_seconds, 0);
}

Test(forecast, rows_of_a_gpu_take_the_time_between_two_sizes, .init = setup_gpu)
{
	const uint64_t ranks[] = { 5 };
	const struct rung_profile_gpu_rows rows[] = { { 256, 1e9 }, { 768, 1e9 / 3 } };

	memcpy(profile.gpu_rows, rows, sizeof(rows));
	profile.gpu_rows_count = 2;
	cr_assert_float_eq(gpu_forecast_of(ranks, 1).gpu_seconds, 2e-9, 1e-16);
	plan.row_bytes = 1536;
	cr_assert_float_eq(gpu_forecast_of(ranks, 1).gpu_seconds, 6e-9, 1e-16);
	plan.row_bytes = 8;
	cr_assert_float_eq(gpu_forecast_of(ranks, 1).gpu_seconds, 1e-9, 1e-16);
}

Test(forecast, on_a_gpu_no_threads_are_chosen, .init = setup_gpu)
{
	const uint64_t ranks[] = { 5, 400, 700 };
	struct rung_forecast out;

	profile.rows[profile.rows_count++] = (struct rung_profile_rows){ 1, 8, 0, 0, 512, 1e9 };
	opts.threads = 7;   /* more of them look after cold rows no faster */
	out = gpu_forecast_of(ranks, 3);
	cr_assert_eq(out.threads + out.choice.threads, 0);
	cr_assert_str_eq(out.choice.threads_why, "a GPU gathers");
	cr_assert_float_eq(out.memory_seconds, MISS_NS * 1e-9, 1e-16);
	cr_assert_geq(out.choice.queue_depth, 1);
}

Test(forecast, rungs_without_figures_are_assumed_and_told, .init = setup_gpu)
{
	const uint64_t ranks[] = { 5, 101, 400 };
	struct rung_profile assumed;

	rung_profile_assume(&assumed);
	profile.peer_rows_count = 0;
	cr_assert_eq(gpu_forecast_of(ranks, 3).assumed, RUNG_ASSUMED_PEER);
	profile.gpu_rows_count = profile.link_rows_count = 0;
	cr_assert_eq(gpu_forecast_of(ranks, 3).assumed, RUNG_ASSUMED_ALL);
	cr_assert_float_eq(gpu_forecast_of(ranks, 3).link_seconds, 1 / assumed.link_rows[1].rows_per_s, 1e-15);
	cr_assert_eq(assumed.link_rows[1].row_bytes, 512);
	gpus[1] = 1;   /* one GPU that poses as three has no others */
	cr_assert_eq(gpu_forecast_of(ranks, 3).assumed, RUNG_ASSUMED_GPU | RUNG_ASSUMED_LINK);
	plan.tiers[RUNG__TIER_GPU].row_count = plan.tiers[RUNG__TIER_PEER].row_count = 0;
	plan.tiers[RUNG__TIER_PEER].rank_first = 0;
	plan.tiers[RUNG__TIER_HOST] = (struct rung_plan_tier){ .row_count = 600 };
	cr_assert_eq(gpu_forecast_of(ranks, 3).assumed, RUNG_ASSUMED_LINK);
	cr_assert_str_eq(rung_assumed_name(RUNG_ASSUMED_LINK), "host");
	cr_assert_null(rung_assumed_name(RUNG_ASSUMED_ALL));
}

Test(forecast, what_cannot_be_predicted_is_refused, .init = setup)
{
	const uint64_t ranks[] = { 5, VERTICES }, starts[] = { 0, 2 };
	struct rung_forecast out = { .size = sizeof(out) };

	cr_assert_eq(rung_plan_forecast(&plan, &opts, ranks, starts, 1, &out), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "rank 1000, there are 1000 vertices"), "%s", rung_last_error());
	profile.reads_count = 0;
	profile.drive_count = 0;
	cr_assert_eq(rung_plan_forecast(&plan, &opts, ranks, starts, 1, &out), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "the profile has no reads"), "%s", rung_last_error());
	profile.rows_count = 0;
	cr_assert_eq(rung_plan_forecast(&plan, &opts, ranks, starts, 1, &out), RUNG_E_INVAL);
	out.size = 4096;
	setup();
	cr_assert_eq(rung_plan_forecast(&plan, &opts, ranks, (uint64_t[]){ 0, 1 }, 1, &out), RUNG_E_ABI);
}

/* ---- what is chosen ---- */

static struct rung_choice choice_of(void)
{
	const uint64_t ranks[] = { 300 }, starts[] = { 0, 1 };

	return forecast_of(ranks, starts, 1).choice;
}

/* Reads of 512 bytes of a drive whose latency is 10 us, until it brings so many a second; of 64 KiB at a fifth of that. */
static void drive_with_a_knee_at(double most)
{
	static const uint32_t depths[] = { 1, 8, 32, 128, 512 };

	profile.reads_count = 0;
	for (unsigned i = 0; i < 10; i++)
		profile.reads[profile.reads_count++] = (struct rung_profile_reads){ 0, i < 5 ? 512 : 65536, depths[i % 5],
			                                                            fmin(depths[i % 5] * 1e5, i < 5 ? most : most / 5) };
}

Test(forecast, the_depth_is_where_the_curve_has_its_knee, .init = setup)
{
	struct rung_choice choice;

	drive_with_a_knee_at(3.2e6);   /* 10 us x 3.2 M a second: 32 in flight, 95 % of it are 31 */
	choice = choice_of();
	cr_assert_eq(choice.queue_depth, 31);
	cr_assert(strstr(choice.queue_depth_why, "3.1e+06 reads of 512 bytes a second, each of which takes 10 us"), "%s", choice.queue_depth_why);
	for (double most = 1e5; most < 5e7; most *= 1.1) {   /* a faster drive wants no fewer, and between depths no more than twice what it takes */
		const uint32_t before = choice.queue_depth;

		drive_with_a_knee_at(most);
		choice = choice_of();
		cr_assert(most == 1e5 || choice.queue_depth >= before, "%g: %u after %u", most, choice.queue_depth, before);
		cr_assert_geq(choice.queue_depth, fmin(0.949 * most / 1e5, 512));
		cr_assert_leq(choice.queue_depth, fmax(4 * most / 1e5, 1));
	}
	drive_with_a_knee_at(1e9);
	cr_assert_eq(choice_of().queue_depth, 487);   /* 95 % of the most that were measured: nobody knows of more */
	profile.reads_count = 1;
	profile.reads[0].depth = UINT32_MAX;
	cr_assert_eq(choice_of().queue_depth, RUNG__QUEUE_DEPTH_MAX * 95 / 100 + 1);
}

Test(forecast, of_several_drives_the_one_that_wants_most_decides_the_depth_and_the_one_that_gains_least_the_gap, .init = setup)
{
	struct rung_choice choice;

	plan.file_count = 2;
	plan.slots.slot_count = 8;
	profile.drive_count = 2;
	strcpy(profile.drives[1].name, "b");
	strcpy(plan.drive_names[0], "a");
	strcpy(plan.drive_names[1], "b");
	profile.reads[4] = (struct rung_profile_reads){ 1, 512, 64, 64e5 };
	profile.reads[5] = (struct rung_profile_reads){ 1, 4096, 64, 64e5 };
	profile.reads_count = 6;
	choice = choice_of();
	cr_assert_eq(choice.queue_depth, 61);
	cr_assert_eq(choice.gap_bytes, 2048);
	profile.reads[5].reads_per_s = 32e5;   /* 312 ns for 4096 bytes: in 156 ns 2048, less the row's own */
	cr_assert_eq(choice_of().gap_bytes, 1536);
}

Test(forecast, the_gap_never_makes_reads_slower_than_rows_read_apart, .init = setup)
{
	plan.sector_bytes = 512;
	for (double most = 1e5; most < 5e7; most *= 1.7) {
		struct rung_choice choice;
		struct rung__drive_reads reads;
		uint64_t gap;

		drive_with_a_knee_at(most);
		choice = choice_of();
		gap = choice.gap_bytes == RUNG_GAP_NONE ? 0 : choice.gap_bytes;
		reads = rung__drive_reads(&profile, 0);
		for (uint64_t rows = 2; rows * (512 + gap) < 65536; rows++)
			cr_assert_leq(rung__read_ns(&reads, choice.queue_depth, rows * 512 + (rows - 1) * gap),
			              1.0001 * (double)rows * rung__read_ns(&reads, choice.queue_depth, 512), "%g: gap %d", most, (int)gap);
	}
	profile.reads[9].reads_per_s = profile.reads[4].reads_per_s / 128;   /* each byte costs the same: nothing is gained */
	for (unsigned i = 5; i < 9; i++)
		profile.reads[i].reads_per_s = profile.reads[i - 5].reads_per_s / 128;
	cr_assert_eq(choice_of().gap_bytes, RUNG_GAP_NONE);
	for (unsigned i = 5; i < 10; i++)
		profile.reads[i].reads_per_s = 1e14;
	cr_assert_eq(choice_of().gap_bytes, 65536);
}

Test(forecast, threads_are_as_many_as_reach_the_rate_of_all_cores, .init = setup)
{
	static const double all[] = { 1e7, 2e7, 3e7, 5e7, 7.9e7, 1e12 };
	static const uint32_t threads[] = { 1, 2, 3, 5, 8, 8 };
	const uint64_t ranks[] = { 5, 99, 0 }, starts[] = { 0, 3 };
	double before = INFINITY;

	cr_assert_eq(choice_of().threads, 0);
	cr_assert(strstr(choice_of().threads_why, "no rates of rows by all cores"));
	cr_assert_eq(forecast_of(ranks, starts, 1).threads, 1);
	profile.rows_count = 2;
	profile.rows[0] = (struct rung_profile_rows){ 0, 1, 3, 3, 512, 1e7 };
	for (unsigned i = 0; i < RUNG__ARRAY_LEN(all); i++) {
		profile.rows[1] = (struct rung_profile_rows){ 1, 8, 3, 3, 512, all[i] };
		cr_assert_eq(choice_of().threads, threads[i], "%g", all[i]);
	}
	cr_assert(strstr(choice_of().threads_why, "a core of node 3 copies 1e+07 rows of 512 bytes a second, its 8 cores 1e+12"), "%s",
	          choice_of().threads_why);
	profile.rows[1].rows_per_s = 3e7;
	for (opts.threads = 1; opts.threads < 20; opts.threads++) {   /* more are never slower, and no faster than all cores */
		struct rung_forecast out = forecast_of(ranks, starts, 1);

		cr_assert_eq(out.threads, opts.threads);
		cr_assert_leq(out.memory_seconds, before);
		cr_assert_geq(out.memory_seconds, 3 / 3.0001e7);
		before = out.memory_seconds;
	}
	cr_assert_float_eq(before, 1e-7, 1e-12);
	profile.rows[1].rows_per_s = 1;   /* what cannot be: all cores slower than one of them */
	cr_assert_float_eq(forecast_of(ranks, starts, 1).memory_seconds, 3 * (100 + ID_NS) * 1e-9, 1e-15);
	cr_assert_eq(choice_of().threads, 1);
}

/* ---- nodes ---- */

/* Nodes 0 and 1 have CPUs: of 512 bytes a core copies 10 M rows a second that are near and 5 M that are not, all four cores of a node 40 M and 8 M. */
static void two_nodes(void)
{
	setup();
	profile.rows_count = 0;
	for (unsigned all = 0; all < 2; all++) {
		for (uint32_t pair = 0; pair < 4; pair++)
			profile.rows[profile.rows_count++] = (struct rung_profile_rows){ (int)all, all ? 4 : 1, pair / 2, pair % 2, 512,
				                                                         pair % 3 ? (all ? 8e6 : 5e6) : (all ? 4e7 : 1e7) };
	}
	rung__nodes_add(&plan.cpu_nodes, 0);
}

/* Ranks 0 to 49 on the first node, 50 to 99 on the second. */
static struct rung__placement halves(uint32_t first, uint32_t second)
{
	return (struct rung__placement){ .part_count = 2, .nodes = { first, second },
		                         .parts = { { 50 * 512, 50 * 512, 0, 1 }, { 50 * 512, 50 * 512, 1, 1 } } };
}

Test(forecast, rows_cost_what_the_nodes_do_that_they_lie_on, .init = two_nodes)
{
	const uint64_t ranks[] = { 0, 49, 50, 7 }, starts[] = { 0, 4 };

	cr_assert_float_eq(forecast_of(ranks, starts, 1).memory_seconds, 4 * (100 + ID_NS) * 1e-9, 1e-15);   /* placed nowhere: near */
	plan.places.host = halves(0, 1);
	cr_assert_float_eq(forecast_of(ranks, starts, 1).memory_seconds, (3 * 100 + 200 + 4 * ID_NS) * 1e-9, 1e-15);
	plan.places.host = halves(1, 0);
	cr_assert_float_eq(forecast_of(ranks, starts, 1).memory_seconds, (100 + 3 * 200 + 4 * ID_NS) * 1e-9, 1e-15);
	opts.threads = 1000;   /* three rows over the link, whatever waits for them */
	cr_assert_float_eq(forecast_of(ranks, starts, 1).memory_seconds, 3 * 125 * 1e-9, 1e-15);
	rung__nodes_add(&plan.cpu_nodes, 1);   /* half of the threads are there now, and half of what crosses goes the other way */
	cr_assert_float_eq(forecast_of(ranks, starts, 1).memory_seconds, 1.5 * 125 * 1e-9, 1e-15);
	opts.threads = 1;
	cr_assert_float_eq(forecast_of(ranks, starts, 1).memory_seconds, (2 * 100 + 2 * 200 + 4 * ID_NS) * 1e-9, 1e-15);
	plan.places.host = (struct rung__placement){ .part_count = 1, .nodes = { 0, 1 }, .parts = { { 100 * 512, 10 * 512, 0, 2 } } };
	plan.cpu_nodes.bits[0] = 1;   /* ranks 0 and 7 are in the first block, 49 and 50 in the fifth and the sixth */
	cr_assert_float_eq(forecast_of(ranks, starts, 1).memory_seconds, (3 * 100 + 200 + 4 * ID_NS) * 1e-9, 1e-15);
	plan.places.host = halves(7, 0);   /* a node that was not measured is taken for a near one */
	cr_assert_float_eq(forecast_of(ranks, starts, 1).memory_seconds, 4 * (100 + ID_NS) * 1e-9, 1e-15);
}

Test(forecast, the_more_rows_are_far_the_longer_it_takes, .init = two_nodes)
{
	uint64_t ranks[100], starts[] = { 0, 100 };

	for (uint64_t i = 0; i < 100; i++)
		ranks[i] = i;
	for (opts.threads = 1; opts.threads <= 8; opts.threads *= 2) {
		double before = 0;

		for (uint64_t far = 1; far < 100; far++) {
			double seconds;

			plan.places.host = halves(0, 1);
			plan.places.host.parts[0].bytes = (100 - far) * 512;
			plan.places.host.parts[1].bytes = far * 512;
			seconds = forecast_of(ranks, starts, 1).memory_seconds;
			cr_assert_gt(seconds, before * (opts.threads < 8), "%u threads, %d rows are far", opts.threads, (int)far);
			before = seconds;
		}
	}
}

Test(forecast, threads_are_those_of_all_nodes_whose_CPUs_gather, .init = two_nodes)
{
	cr_assert_eq(choice_of().threads, 4);
	rung__nodes_add(&plan.cpu_nodes, 1);
	cr_assert_eq(choice_of().threads, 8);
	cr_assert(strstr(choice_of().threads_why, "; likewise of 2 nodes in all"), "%s", choice_of().threads_why);
	plan.cpu_nodes.bits[0] = 1 << 5;   /* whose rates nobody knows: those of the best */
	cr_assert_eq(choice_of().threads, 4);
}

/* Rows on the readers' nodes 0 and 1, or on 2 as well, which has no CPUs: so many rows a second of one core there, so many of all. */
static void a_third_node(double one, double all)
{
	const struct rung_profile_rows rates[] = { { 0, 1, 0, 2, 512, one }, { 0, 1, 1, 2, 512, one }, { 1, 4, 0, 2, 512, all }, { 1, 4, 1, 2, 512, all } };

	rung__nodes_add(&plan.cpu_nodes, 1);
	plan.spread_count = 2;
	plan.spreads[0] = (struct rung__placement){ .part_count = 1, .nodes = { 0, 1 }, .parts = { { 100 * 512, 512, 0, 2 } } };
	plan.spreads[1] = (struct rung__placement){ .part_count = 1, .nodes = { 0, 1, 2 }, .parts = { { 100 * 512, 512, 0, 3 } } };
	plan.places.host = plan.spreads[0];
	memcpy(&profile.rows[8], rates, sizeof(rates));
	profile.rows_count = 12;
}

Test(forecast, rows_are_interleaved_over_all_nodes_where_that_takes_less, .init = two_nodes)
{
	const uint64_t ranks[] = { 0, 1, 2, 3, 4, 5 }, starts[] = { 0, 6 };
	struct rung_forecast out;

	a_third_node(4e6, 12e6);
	opts.threads = 1;   /* six rows, half of them near: 900 ns; a third of them on node 2: 600 + 500 ns */
	out = forecast_of(ranks, starts, 1);
	cr_assert_eq(out.choice.interleaved, 0);
	cr_assert_float_eq(out.memory_seconds, (900 + 6 * ID_NS) * 1e-9, 1e-15);
	cr_assert(strstr(out.choice.spread_why, "nearest first, 51200 bytes at the readers and 0 elsewhere: 9.24e-07 s; 51200 bytes in blocks over all nodes, "
	                 "34304 at the readers: 1.12e-06 s"), "%s", out.choice.spread_why);
	cr_assert_eq(rung_plan_place(&plan, 0)->nodes.count, 2);
	opts.threads = 100;   /* the links between 0 and 1 carry less: 1.5 rows each way, or one */
	out = forecast_of(ranks, starts, 1);
	cr_assert_eq(out.choice.interleaved, 1);
	cr_assert_float_eq(out.memory_seconds, 2 / 12e6, 1e-12);   /* what node 2 gives to those who get most of it */
	cr_assert_eq(rung_plan_place(&plan, 0)->nodes.count, 3);
	cr_assert_eq(plan.places.host.parts[0].node_count, 3);
	opts.threads = 1;     /* and back again */
	cr_assert_eq(forecast_of(ranks, starts, 1).choice.interleaved, 0);
	cr_assert_eq(rung_plan_place(&plan, 0)->nodes.count, 2);
	profile.rows_count = 1;   /* of one node alone: nothing tells them apart */
	cr_assert_eq(forecast_of(ranks, starts, 1).choice.interleaved, 0);
	rung__free(plan.place_list);
}

Test(forecast, profiles_that_cannot_be_are_refused, .init = setup)
{
	const uint64_t ranks[] = { 300 }, starts[] = { 0, 1 };
	struct rung_forecast out = { .size = sizeof(out) };

#define REFUSED(change)                                                                                           \
	do {                                                                                                      \
		setup();                                                                                          \
		change;                                                                                           \
		cr_assert_eq(rung_plan_forecast(&plan, &opts, ranks, starts, 1, &out), RUNG_E_INVAL, #change); \
	} while (0)
	REFUSED(profile.rows_count = RUNG_PROFILE_ROWS_MAX + 1);
	REFUSED(profile.reads_count = RUNG_PROFILE_READS_MAX + 1);
	REFUSED(profile.drive_count = RUNG_PROFILE_DRIVES_MAX + 1);
	REFUSED(profile.drive_count = 2);   /* of which one has no reads */
	REFUSED(profile.rows[1].rows_per_s = 0);
	REFUSED(profile.rows[0].rows_per_s = NAN);
	REFUSED(profile.rows[0].row_bytes = 0);
	REFUSED(profile.rows[0].threads = 0);
	REFUSED(profile.rows[1].cpu_node = UINT32_MAX);
	REFUSED(profile.rows[0].memory_node = profile.rows[1].memory_node = 1);   /* none is near */
	REFUSED(profile.rows[0].all_cores = profile.rows[1].all_cores = 1);
	REFUSED(profile.reads[1].depth = 1);   /* twice the same */
	REFUSED(profile.reads[1].read_bytes = 9999);
	REFUSED(profile.gpu_rows_count = RUNG_PROFILE_GPU_ROWS_MAX + 1);
	REFUSED(profile.peer_rows_count = RUNG_PROFILE_GPU_ROWS_MAX + 1);
	REFUSED(profile.link_rows_count = RUNG_PROFILE_GPU_ROWS_MAX + 1);
	REFUSED(profile.gpu_rows_count = 1);   /* of no bytes */
	REFUSED(profile.peer_rows_count = 1; profile.peer_rows[0].row_bytes = 512);   /* at no rate */
	REFUSED(profile.link_rows_count = 2; profile.link_rows[0].row_bytes = profile.link_rows[1].row_bytes = 512;   /* twice the same */
	        profile.link_rows[0].rows_per_s = profile.link_rows[1].rows_per_s = 1e9);
	REFUSED(opts.profile = NULL);
	REFUSED(profile.reads[3].reads_per_s = -1);
	REFUSED(profile.reads[3].reads_per_s = INFINITY);
	REFUSED(profile.reads[2].depth = 0);
	REFUSED(profile.reads[2].read_bytes = 0);
	REFUSED(profile.reads[2].drive = 1);
	REFUSED(profile.reads[0].drive = UINT32_MAX);
	setup();
	profile.size -= 8;
	cr_assert_eq(rung_plan_forecast(&plan, &opts, ranks, starts, 1, &out), RUNG_E_ABI);
}

Test(forecast, assumed_figures_are_whole)
{
	rung_profile_assume(&profile);
	cr_assert_gt(profile.rows_count, 1);
	cr_assert_gt(profile.reads_count, 1);
	cr_assert(profile.gpu_rows_count && profile.peer_rows_count && profile.link_rows_count);
	for (uint32_t i = 1; i < profile.reads_count; i++)
		cr_assert(profile.reads[i - 1].read_bytes < profile.reads[i].read_bytes || profile.reads[i - 1].depth < profile.reads[i].depth);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Seconds predicted from a profile, for plans and batches that are small enough to calculate by
 * hand. */
#include "forecast_fixture.h"

TestSuite(forecast, .timeout = 60);

Test(forecast, times_of_rows_in_memory_are_interpolated_by_size, .init = setup)
{
	const uint64_t ranks[] = { 5, 99, 0 }, starts[] = { 0, 3 };
	struct rung_forecast out = forecast_of(ranks, starts, 1);

	cr_assert_float_eq(out.memory_seconds, 3 * (100 + ID_NS) * 1e-9, 1e-15);
	cr_assert_eq(out.nvme_seconds, 0);
	cr_assert_str_eq(rung_bound_name(out.bound), "memory");
	plan.row_bytes = 1536; /* twice the largest measured size takes twice its time */
	cr_assert_float_eq(forecast_of(ranks, starts, 1).memory_seconds, 3 * (280 + ID_NS) * 1e-9,
	                   1e-15);
	plan.row_bytes = 8; /* below the smallest measured size the time is constant */
	cr_assert_float_eq(forecast_of(ranks, starts, 1).memory_seconds, 3 * (60 + ID_NS) * 1e-9,
	                   1e-15);
}

Test(forecast, nearby_cold_rows_share_a_read, .init = setup)
{
	/* The gap: in the 1000 ns of a read, 2730 bytes are transferred (8192 in 3000 ns). Less the
	 * row's own bytes, in whole sectors, that is 2048 bytes or 4 rows. */
	const uint64_t ranks[] = { 300, 305, 200, 500, 506, 50, 300 }, starts[] = { 0, 7 };
	struct rung_forecast out = forecast_of(ranks, starts, 1);

	cr_assert_eq(out.merge_gap_bytes, 2048);
	cr_assert_eq(out.queue_depth, 4);
	/* reads: 200 | 300 and 305, with four rows between | 500 | 506, five rows after 500 */
	cr_assert_eq(out.reads, 4);
	cr_assert_eq(out.read_bytes, 3 * 512 + 6 * 512);
	cr_assert_float_eq(out.nvme_seconds,
	                   (3 * 1000 + 1000 + 2000.0 * (6 * 512 - 512) / (8192 - 512)) * 1e-9,
	                   1e-14);
	cr_assert_float_eq(out.memory_seconds, (7 * ID_NS + 100 + 6 * MISS_NS) * 1e-9, 1e-15);
	cr_assert_str_eq(rung_bound_name(out.bound), "drive");
	opts.merge_gap_bytes = 2560;
	cr_assert_eq(forecast_of(ranks, starts, 1).reads, 3);
	opts.merge_gap_bytes = RUNG_MERGE_GAP_NONE;
	cr_assert_eq(forecast_of(ranks, starts, 1).reads, 5);
	cr_assert_eq(forecast_of((uint64_t[]){ 300, 301 }, (uint64_t[]){ 0, 2 }, 1).reads, 1);
	opts.no_merge = 1;
	cr_assert_eq(forecast_of((uint64_t[]){ 300, 301 }, (uint64_t[]){ 0, 2 }, 1).reads, 2);
}

Test(forecast, a_shared_read_is_no_longer_than_a_slot, .init = setup)
{
	uint64_t ranks[64], starts[] = { 0, 64 };

	for (uint64_t i = 0; i < 64; i++)
		ranks[i] = 400 + i;
	plan.slots.slot_bytes = 8192;
	cr_assert_eq(forecast_of(ranks, starts, 1).reads, 4);
	plan.slots.slot_bytes = 65536;
	cr_assert_eq(forecast_of(ranks, starts, 1).reads, 1);
}

Test(forecast, rates_are_interpolated_between_depths_and_bounded_beyond, .init = setup)
{
	const uint64_t ranks[] = { 300 }, starts[] = { 0, 1 };

	plan.slots.slot_count = 2; /* each read takes 4 us, with one in flight as with four */
	cr_assert_float_eq(forecast_of(ranks, starts, 1).nvme_seconds, 1 / 500e3, 1e-12);
	plan.slots.slot_count = 1;
	cr_assert_float_eq(forecast_of(ranks, starts, 1).nvme_seconds, 1 / 250e3, 1e-12);
	plan.slots.slot_count = 64;
	opts.queue_depth = 64;
	cr_assert_float_eq(forecast_of(ranks, starts, 1).nvme_seconds, 1e-6, 1e-12);
	/* 8 us with four in flight: 5.33 us with two, interpolated */
	profile.reads[1].reads_per_s = 5e5;
	plan.slots.slot_count = 2;
	cr_assert_float_eq(forecast_of(ranks, starts, 1).nvme_seconds, 4e-6 * (4.0 / 3) / 2, 1e-12);
	/* below the lowest measured depth, a read takes as long as at that depth */
	profile.reads[0].depth = 2;
	plan.slots.slot_count = 1;
	cr_assert_float_eq(forecast_of(ranks, starts, 1).nvme_seconds, 8e-6, 1e-12);
}

Test(forecast, the_cache_holds_the_hottest_rows_of_the_previous_batch, .init = setup)
{
	const uint64_t ranks[] = { 100, 300, 500, 100, 300, 700, 100, 500, 900, 500 },
		       starts[] = { 0, 3, 6, 9, 10 };

	plan.cache.row_count = 2;
	/* hits: 100 and 300 of the first batch; then 100 but not 500; then 500 */
	cr_assert_eq(forecast_of(ranks, starts, 4).cache_hits, 2 + 1 + 1);
	plan.cache.row_count = 1; /* room for one row: hits are 100, 100 and 500 */
	cr_assert_eq(forecast_of(ranks, starts, 4).cache_hits, 3);
	plan.cache.row_count = 0;
	cr_assert_eq(forecast_of(ranks, starts, 4).cache_hits, 0);
	cr_assert_eq(forecast_of(ranks, starts, 4).reads, 10);
}

Test(forecast, warm_up_batches_fill_the_cache_and_are_not_counted, .init = setup)
{
	const uint64_t ranks[] = { 5, 300, 500, 300, 500, 99, 900, 500 },
		       starts[] = { 0, 3, 5, 6, 8 };
	struct rung_forecast out;

	plan.cache.row_count = 2;
	opts.warmup_batches = 1;
	out = forecast_of(ranks, starts, 4);
	/* 300 and 500 were in the previous batch, which is not counted */
	cr_assert_eq(out.cache_hits, 2);
	cr_assert_eq(out.reads, 2);
	cr_assert_eq(out.read_bytes, 2 * 512);
	cr_assert_float_eq(out.nvme_seconds, 2e-6, 1e-14);
	cr_assert_float_eq(out.memory_seconds, (5 * ID_NS + 100 + 4 * MISS_NS) * 1e-9, 1e-15);
	opts.warmup_batches = 3;
	out = forecast_of(ranks, starts, 4);
	cr_assert_eq(out.reads, 2);
	cr_assert_float_eq(out.memory_seconds, (2 * ID_NS + 2 * MISS_NS) * 1e-9, 1e-15);
	opts.warmup_batches = 4;
	cr_assert_eq(forecast_lists(&plan, &opts, ranks, starts, 4, &out), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "4 of 4 batches are for warm-up; leave at least one"),
	          "%s", rung_last_error());
}

Test(forecast, the_busiest_of_several_files_counts, .init = setup)
{
	const uint64_t ranks[] = { 150, 250, 350, 550 }, starts[] = { 0, 4 };

	plan.file_count = 2;
	plan.layout.file_count = 2;
	plan.layout.ranges[0] = rung__range_of_all(VERTICES, 2, 100);
	plan.slots.slot_count = 8;
	/* three of them are in the second file */
	cr_assert_float_eq(forecast_of(ranks, starts, 1).nvme_seconds, 3e-6, 1e-12);
}

Test(forecast, reads_are_those_of_the_drive_of_the_features, .init = setup)
{
	const uint64_t ranks[] = { 300 }, starts[] = { 0, 1 };
	struct rung_forecast out;

	profile.drive_count = 2;
	strcpy(profile.drives[1].name, "b");
	profile.reads[profile.reads_count++] = (struct rung_profile_reads){ 1, 512, 4, 1e5 };
	strcpy(plan.drive_names[0], "b");
	out = forecast_of(ranks, starts, 1);
	cr_assert_float_eq(out.nvme_seconds, 1e-5, 1e-12);
	cr_assert(out.tuning.drive_count == 1 && out.tuning.drive_idx[0] == 1);
	cr_assert_str_eq(out.tuning.drives[0], "b");
	cr_assert_str_eq(out.tuning.drive_why, "the features are on this drive");
	strcpy(plan.drive_names[0], "c");
	out = forecast_of(ranks, starts, 1);
	cr_assert_float_eq(out.nvme_seconds, 1e-6, 1e-12);
	cr_assert_str_eq(out.tuning.drives[0], "a");
	cr_assert(
		strstr(out.tuning.drive_why, "c, for which the profile has no reads; a, its first"),
		"%s", out.tuning.drive_why);
	plan.drive_names[0][0] = 0;
	profile.drives[0].name[0] = 0; /* two drives without a name are different drives */
	out = forecast_of(ranks, starts, 1);
	cr_assert_eq(out.tuning.drive_idx[0], 0);
	cr_assert(strstr(out.tuning.drive_why,
	                 "does not name the drive of the features; a drive without a name"),
	          "%s", out.tuning.drive_why);
}

Test(forecast, each_file_uses_the_reads_of_its_drive, .init = setup)
{
	/* one row in the first file, three in the second */
	const uint64_t ranks[] = { 150, 250, 350, 550 }, starts[] = { 0, 4 };
	struct rung_forecast out;

	plan.file_count = 2;
	plan.layout.file_count = 2;
	plan.layout.ranges[0] = rung__range_of_all(VERTICES, 2, 100);
	plan.slots.slot_count = 8;
	profile.drive_count = 2;
	strcpy(profile.drives[1].name, "b");
	profile.reads[profile.reads_count++] = (struct rung_profile_reads){ 1, 512, 4, 1e5 };
	strcpy(plan.drive_names[0], "b");
	strcpy(plan.drive_names[1], "a");
	out = forecast_of(ranks, starts, 1);
	/* 10 us for one read, 1 us for each of three reads */
	cr_assert_float_eq(out.nvme_seconds, 1e-5, 1e-12);
	strcpy(plan.drive_names[0], "a");
	strcpy(plan.drive_names[1], "b");
	cr_assert_float_eq(forecast_of(ranks, starts, 1).nvme_seconds, 3e-5, 1e-12);
	/* only one size was measured on the second drive */
	cr_assert(out.merge_gap_bytes == 0 && out.tuning.merge_gap_bytes == 0 &&
	          strstr(out.tuning.merge_gap_why, "one size"));
}

/* The hottest rows on one drive, the others on another one, such as a mount. */
Test(forecast, each_range_uses_the_reads_of_its_drive, .init = setup)
{
	const uint64_t ranks[] = { 150, 250, 350, 550 }, starts[] = { 0, 4 };

	plan.file_count = 2;
	plan.layout.file_count = plan.layout.range_count = 2;
	plan.layout.ranges[0] = (struct rung__range){ 500, 0, 500, 0, 1, 0 };
	plan.layout.ranges[1] = (struct rung__range){ VERTICES, 0, VERTICES, 1, 1, 0 };
	plan.slots.slot_count = 8;
	profile.drive_count = 2;
	strcpy(profile.drives[1].name, "b");
	profile.reads[profile.reads_count++] = (struct rung_profile_reads){ 1, 512, 4, 1e5 };
	strcpy(plan.drive_names[0], "a");
	strcpy(plan.drive_names[1], "b");
	/* 1 us for each of three reads, 10 us for one */
	cr_assert_float_eq(forecast_of(ranks, starts, 1).nvme_seconds, 1e-5, 1e-12);
	plan.layout.ranges[0].end = 200;
	cr_assert_float_eq(forecast_of(ranks, starts, 1).nvme_seconds, 3e-5, 1e-12);
}

Test(forecast, rows_in_place_rarely_share_reads, .init = setup)
{
	uint64_t ranks[64], starts[] = { 0, 64 };

	for (uint64_t i = 0; i < 64; i++)
		ranks[i] = 400 + i;
	plan.bytes.map = 4 * VERTICES;
	cr_assert_gt(forecast_of(ranks, starts, 1).reads, 20);
}

/* ---- on a GPU ---- */

static int gpus[3];

/* 100 rows on each GPU, 300 interleaved over three GPUs, 200 in host memory. */
static void setup_gpu(void)
{
	setup();
	memcpy(gpus, (int[]){ 1, 0, 1 }, sizeof(gpus));
	plan.device = (struct rung_plan_device){ .device = RUNG_DEVICE_CUDA,
		                                 .gpus = gpus,
		                                 .gpu_count = 3 };
	plan.tiers[RUNG__TIER_GPU] = (struct rung_plan_tier){ .rank_first = 0, .row_count = 100 };
	plan.tiers[RUNG__TIER_PEER] =
		(struct rung_plan_tier){ .rank_first = 100, .row_count = 300 };
	plan.tiers[RUNG__TIER_HOST] =
		(struct rung_plan_tier){ .rank_first = 400, .row_count = 200 };
	plan.tiers[RUNG__TIER_NVME] =
		(struct rung_plan_tier){ .rank_first = 600, .row_count = VERTICES - 600 };
	profile.gpu_rows_count = profile.peer_rows_count = profile.link_rows_count = 1;
	profile.gpu_rows[0] = (struct rung_profile_gpu_rows){ 512, 1e9 };
	profile.peer_rows[0] = (struct rung_profile_gpu_rows){ 512, 1e8 };
	profile.link_rows[0] = (struct rung_profile_gpu_rows){ 512, 2e7 };
}

static struct rung_forecast gpu_forecast_of(const uint64_t *ranks, uint64_t count)
{
	const uint64_t starts[] = { 0, count };
	struct rung_forecast out = { .size = sizeof(out) };

	cr_assert_eq(forecast_lists(&plan, &opts, ranks, starts, 1, &out), 0, "%s",
	             rung_last_error());
	cr_assert_eq(out.seconds,
	             fmax(fmax(out.gpu_seconds, fmax(out.peer_seconds, out.link_seconds)),
	                  fmax(out.memory_seconds, out.nvme_seconds)));
	return out;
}

Test(forecast, a_gpu_reads_its_own_memory_peers_and_the_link_in_parallel, .init = setup_gpu)
{
	/* Each GPU holds rows 5 and 99. Rows 100 to 102 are interleaved: 100 and 102 are on GPU 1,
	 * and 101 is on GPU 0. Two rows are in host memory, one in the file. */
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

Test(forecast, warm_up_batches_of_a_gpu_are_not_counted, .init = setup_gpu)
{
	const uint64_t ranks[] = { 5, 100, 400, 700, 99 }, starts[] = { 0, 4, 5 };
	struct rung_forecast out = { .size = sizeof(out) };

	opts.warmup_batches = 1;
	cr_assert_eq(forecast_lists(&plan, &opts, ranks, starts, 2, &out), 0, "%s",
	             rung_last_error());
	cr_assert_float_eq(out.gpu_seconds, 1e-9, 1e-16);
	cr_assert_eq(out.peer_seconds + out.link_seconds + out.memory_seconds + out.nvme_seconds,
	             0);
}

Test(forecast, times_of_rows_on_a_gpu_are_interpolated_by_size, .init = setup_gpu)
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
	opts.threads = 7; /* more threads do not process cold rows faster */
	out = gpu_forecast_of(ranks, 3);
	cr_assert_eq(out.threads + out.tuning.threads, 0);
	cr_assert_str_eq(out.tuning.threads_why, "a GPU gathers");
	cr_assert_float_eq(out.memory_seconds, MISS_NS * 1e-9, 1e-16);
	cr_assert_geq(out.tuning.queue_depth, 1);
}

Test(forecast, rates_missing_for_a_tier_are_assumed_and_reported, .init = setup_gpu)
{
	const uint64_t ranks[] = { 5, 101, 400 };
	struct rung_profile assumed;

	rung_profile_assume(&assumed);
	profile.peer_rows_count = 0;
	cr_assert_eq(gpu_forecast_of(ranks, 3).assumed, RUNG_ASSUMED_PEER);
	profile.gpu_rows_count = profile.link_rows_count = 0;
	cr_assert_eq(gpu_forecast_of(ranks, 3).assumed, RUNG_ASSUMED_ALL);
	cr_assert_float_eq(gpu_forecast_of(ranks, 3).link_seconds,
	                   1 / assumed.link_rows[1].rows_per_s, 1e-15);
	cr_assert_eq(assumed.link_rows[1].row_bytes, 512);
	gpus[1] = 1; /* one GPU listed three times has no peers */
	cr_assert_eq(gpu_forecast_of(ranks, 3).assumed, RUNG_ASSUMED_GPU | RUNG_ASSUMED_LINK);
	plan.tiers[RUNG__TIER_GPU].row_count = plan.tiers[RUNG__TIER_PEER].row_count = 0;
	plan.tiers[RUNG__TIER_PEER].rank_first = 0;
	plan.tiers[RUNG__TIER_HOST] = (struct rung_plan_tier){ .row_count = 600 };
	cr_assert_eq(gpu_forecast_of(ranks, 3).assumed, RUNG_ASSUMED_LINK);
	cr_assert_str_eq(rung_assumed_name(RUNG_ASSUMED_LINK), "host");
	cr_assert_null(rung_assumed_name(RUNG_ASSUMED_ALL));
}

Test(forecast, invalid_input_is_rejected, .init = setup)
{
	const uint64_t ranks[] = { 5, VERTICES }, starts[] = { 0, 2 };
	struct rung_forecast out = { .size = sizeof(out) };

	cr_assert_eq(forecast_lists(&plan, &opts, ranks, starts, 1, &out), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "rank 1000 is out of range; there are 1000 vertices"),
	          "%s", rung_last_error());
	profile.reads_count = 0;
	profile.drive_count = 0;
	cr_assert_eq(forecast_lists(&plan, &opts, ranks, starts, 1, &out), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "the profile has no read rates"), "%s",
	          rung_last_error());
	profile.rows_count = 0;
	cr_assert_eq(forecast_lists(&plan, &opts, ranks, starts, 1, &out), RUNG_E_INVAL);
	out.size = 4096;
	setup();
	cr_assert_eq(forecast_lists(&plan, &opts, ranks, (uint64_t[]){ 0, 1 }, 1, &out),
	             RUNG_E_ABI);
}

Test(forecast, invalid_profiles_are_rejected, .init = setup)
{
	const uint64_t ranks[] = { 300 }, starts[] = { 0, 1 };
	struct rung_forecast out = { .size = sizeof(out) };

#define REFUSED(change)                                                                            \
	do {                                                                                       \
		setup();                                                                           \
		change;                                                                            \
		cr_assert_eq(forecast_lists(&plan, &opts, ranks, starts, 1, &out), RUNG_E_INVAL,   \
		             #change);                                                             \
	} while (0)
	REFUSED(profile.rows_count = RUNG_PROFILE_ROWS_MAX + 1);
	REFUSED(profile.reads_count = RUNG_PROFILE_READS_MAX + 1);
	REFUSED(profile.drive_count = RUNG_PROFILE_DRIVES_MAX + 1);
	REFUSED(profile.drive_count = 2); /* one of them has no reads */
	REFUSED(profile.rows[1].rows_per_s = 0);
	REFUSED(profile.rows[0].rows_per_s = NAN);
	REFUSED(profile.rows[0].row_bytes = 0);
	REFUSED(profile.rows[0].threads = 0);
	REFUSED(profile.rows[1].cpu_node = UINT32_MAX);
	/* no node has rates of near memory */
	REFUSED(profile.rows[0].memory_node = profile.rows[1].memory_node = 1);
	REFUSED(profile.rows[0].all_cores = profile.rows[1].all_cores = 1);
	REFUSED(profile.reads[1].depth = 1); /* same size and depth twice */
	REFUSED(profile.reads[1].read_bytes = 9999);
	REFUSED(profile.gpu_rows_count = RUNG_PROFILE_GPU_ROWS_MAX + 1);
	REFUSED(profile.peer_rows_count = RUNG_PROFILE_GPU_ROWS_MAX + 1);
	REFUSED(profile.link_rows_count = RUNG_PROFILE_GPU_ROWS_MAX + 1);
	REFUSED(profile.gpu_rows_count = 1); /* with rows of 0 bytes */
	/* with a rate of 0 */
	REFUSED(profile.peer_rows_count = 1; profile.peer_rows[0].row_bytes = 512);
	/* the same size twice */
	REFUSED(profile.link_rows_count = 2;
	        profile.link_rows[0].row_bytes = profile.link_rows[1].row_bytes = 512;
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
	cr_assert_eq(forecast_lists(&plan, &opts, ranks, starts, 1, &out), RUNG_E_ABI);
}

Test(forecast, the_assumed_profile_is_complete)
{
	rung_profile_assume(&profile);
	cr_assert_gt(profile.rows_count, 1);
	cr_assert_gt(profile.reads_count, 1);
	cr_assert(profile.gpu_rows_count && profile.peer_rows_count && profile.link_rows_count);
	for (uint32_t i = 1; i < profile.reads_count; i++)
		cr_assert(profile.reads[i - 1].read_bytes < profile.reads[i].read_bytes ||
		          profile.reads[i - 1].depth < profile.reads[i].depth);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Seconds predicted from a profile: of plans and batches small enough to be counted by hand. */
#include <criterion/criterion.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "plan_internal.h"
#include "rung/rung.h"

TestSuite(forecast, .timeout = 60);

#define VERTICES 1000u
#define MISS_NS 60.0
#define ID_NS 4.0

/* A row of 512 bytes takes 100 ns, a read of 512 bytes 1000 ns and one of 8192 bytes 3000 ns at depth 4. */
static struct rung_profile profile;
static struct rung_plan plan;

static void setup(void)
{
	profile = (struct rung_profile){
		.size = sizeof(profile), .rows_count = 2, .rows = { { 256, 1e9 / 60 }, { 768, 1e9 / 140 } },
		.reads_count = 4, .reads = { { 512, 1, 250e3 }, { 512, 4, 1e6 }, { 8192, 1, 1e5 }, { 8192, 4, 1e9 / 3000 } },
	};
	plan = (struct rung_plan){
		.vertex_count = VERTICES, .row_bytes = 512, .row_stride = 512, .data_offset = 4096, .sector_bytes = 512, .file_count = 1,
		.block_rows = VERTICES, .slots = { 4, 65536 },
		.tiers = { [RUNG__TIER_HOST] = { .row_count = 100 }, [RUNG__TIER_NVME] = { .rank_first = 100, .row_count = VERTICES - 100 } },
	};
}

static struct rung_forecast forecast_of(const uint64_t *ranks, const uint64_t *starts, uint64_t batches)
{
	struct rung_forecast out = { .size = sizeof(out) };

	cr_assert_eq(rung_plan_forecast(&plan, &profile, ranks, starts, batches, 4, &out), 0, "%s", rung_last_error());
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
	/* gap: 8192 bytes in 3000 ns against 1000 ns a read: 2730 bytes, in whole sectors 2560 = 5 rows */
	const uint64_t ranks[] = { 300, 306, 200, 500, 507, 50, 300 }, starts[] = { 0, 7 };
	struct rung_forecast out = forecast_of(ranks, starts, 1);

	cr_assert_eq(out.gap_bytes, 2560);
	cr_assert_eq(out.depth, 4);
	cr_assert_eq(out.reads, 4);   /* 200 | 300 and 306, five rows between them | 500 | 507, six rows between them */
	cr_assert_eq(out.read_bytes, 3 * 512 + 7 * 512);
	cr_assert_float_eq(out.nvme_seconds, (3 * 1000 + 1000 + 2000.0 * (7 * 512 - 512) / (8192 - 512)) * 1e-9, 1e-14);
	cr_assert_float_eq(out.memory_seconds, (7 * ID_NS + 100 + 6 * MISS_NS) * 1e-9, 1e-15);
	cr_assert_str_eq(rung_bound_name(out.bound), "nvme");
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

	plan.slots.slot_count = 2;   /* half way from 1 to 4 by doubling */
	cr_assert_float_eq(forecast_of(ranks, starts, 1).nvme_seconds, 1 / 625e3, 1e-12);
	plan.slots.slot_count = 1;
	cr_assert_float_eq(forecast_of(ranks, starts, 1).nvme_seconds, 1 / 250e3, 1e-12);
	plan.slots.slot_count = 64;
	cr_assert_float_eq(forecast_of(ranks, starts, 1).nvme_seconds, 1e-6, 1e-12);
	cr_assert_eq(forecast_of(ranks, starts, 1).depth_best, 4);
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
	profile.gpu_rows[0] = (struct rung_profile_rows){ 512, 1e9 };
	profile.peer_rows[0] = (struct rung_profile_rows){ 512, 1e8 };
	profile.link_rows[0] = (struct rung_profile_rows){ 512, 2e7 };
}

static struct rung_forecast gpu_forecast_of(const uint64_t *ranks, uint64_t count)
{
	const uint64_t starts[] = { 0, count };
	struct rung_forecast out = { .size = sizeof(out) };

	cr_assert_eq(rung_plan_forecast(&plan, &profile, ranks, starts, 1, 4, &out), 0, "%s", rung_last_error());
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

Test(forecast, rungs_without_figures_are_assumed_and_told, .init = setup_gpu)
{
	const uint64_t ranks[] = { 5, 101, 400 };
	struct rung_profile known = profile, assumed;

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
	profile = known;
	profile.size = offsetof(struct rung_profile, gpu_rows_count);   /* of a caller that does not know of GPUs */
	cr_assert_eq(gpu_forecast_of(ranks, 3).assumed, RUNG_ASSUMED_LINK);
	cr_assert_str_eq(rung_assumed_name(RUNG_ASSUMED_LINK), "host");
	cr_assert_null(rung_assumed_name(RUNG_ASSUMED_ALL));
}

Test(forecast, what_cannot_be_predicted_is_refused, .init = setup)
{
	const uint64_t ranks[] = { 5, VERTICES }, starts[] = { 0, 2 };
	struct rung_forecast out = { .size = sizeof(out) };

	cr_assert_eq(rung_plan_forecast(&plan, &profile, ranks, starts, 1, 0, &out), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "rank 1000, there are 1000 vertices"), "%s", rung_last_error());
	profile.reads_count = 0;
	cr_assert_eq(rung_plan_forecast(&plan, &profile, ranks, starts, 1, 0, &out), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "the profile has no reads"), "%s", rung_last_error());
	profile.rows_count = 0;
	cr_assert_eq(rung_plan_forecast(&plan, &profile, ranks, starts, 1, 0, &out), RUNG_E_INVAL);
	out.size = 4096;
	setup();
	profile.link_rows_count = RUNG_PROFILE_ROWS_MAX + 1;
	cr_assert_eq(rung_plan_forecast(&plan, &profile, ranks, starts, 1, 0, &out), RUNG_E_INVAL);
	setup();
	cr_assert_eq(rung_plan_forecast(&plan, &profile, ranks, (uint64_t[]){ 0, 1 }, 1, 0, &out), RUNG_E_ABI);
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

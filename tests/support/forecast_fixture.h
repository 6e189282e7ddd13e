/* SPDX-License-Identifier: Apache-2.0 */
/** A plan and a profile that are small enough to calculate forecasts by hand, for the tests of
 * forecasts and of choices from a profile. */
#ifndef SUPPORT_FORECAST_FIXTURE_H
#define SUPPORT_FORECAST_FIXTURE_H

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "forecast_lists.h"
#include "plan/plan.h"
#include "rung/rung.h"

#define VERTICES 1000u
#define MISS_NS  60.0
#define ID_NS    4.0

/* At depth 4, a row of 512 bytes takes 100 ns, a read of 512 bytes 1000 ns and a read of 8192 bytes
 * 3000 ns. */
static struct rung_profile profile;
static struct rung_plan plan;
static struct rung_forecast_opts opts;

static inline void setup(void)
{
	profile = (struct rung_profile){
		.size = sizeof(profile),
		.rows_count = 2,
		.rows = { { 0, 1, 0, 0, 256, 1e9 / 60 }, { 0, 1, 0, 0, 768, 1e9 / 140 } },
		.drive_count = 1,
		.drives = { { "a" } },
		.reads_count = 4,
		.reads = { { 0, 512, 1, 250e3 },
		           { 0, 512, 4, 1e6 },
		           { 0, 8192, 1, 1e5 },
		           { 0, 8192, 4, 1e9 / 3000 } },
	};
	opts = (struct rung_forecast_opts){ .size = sizeof(opts), .profile = &profile };
	plan = (struct rung_plan){
		.vertex_count = VERTICES,
		.row_bytes = 512,
		.row_stride = 512,
		.data_offset = 4096,
		.sector_bytes = 512,
		.file_count = 1,
		.layout = { .file_count = 1,
		            .range_count = 1,
		            .ranges[0] = rung__range_of_all(VERTICES, 1, VERTICES) },
		.queue_depth = 4,
		.slots = { 4, 65536 },
		.tiers = { [RUNG__TIER_HOST] = { .row_count = 100 },
		           [RUNG__TIER_NVME] = { .rank_first = 100, .row_count = VERTICES - 100 } },
	};
}

static inline struct rung_forecast forecast_of(const uint64_t *ranks, const uint64_t *starts,
                                               uint64_t batches)
{
	struct rung_forecast out = { .size = sizeof(out) };

	cr_assert_eq(forecast_lists(&plan, &opts, ranks, starts, batches, &out), 0, "%s",
	             rung_last_error());
	cr_assert_eq(out.seconds, fmax(out.memory_seconds, out.nvme_seconds));
	cr_assert_eq(out.bound,
	             out.nvme_seconds > out.memory_seconds ? RUNG_BOUND_NVME : RUNG_BOUND_MEMORY);
	cr_assert_eq(out.gpu_seconds + out.peer_seconds + out.link_seconds, 0);
	cr_assert_eq(out.assumed, 0);
	return out;
}

#endif

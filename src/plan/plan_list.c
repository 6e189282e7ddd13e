/* SPDX-License-Identifier: Apache-2.0 */
/* Where the memory of a plan goes, as a list for users. */
#include "plan/plan.h"

struct rung__placed rung__plan_placed(const struct rung_plan *plan)
{
	const struct rung_plan_tier *host = &plan->tiers[RUNG__TIER_HOST];

	return (struct rung__placed){
		.rank_first = host->rank_first,
		.row_count = host->row_count,
		.row_stride = plan->row_stride,
		.slots_bytes = plan->slots.slot_count / plan->file_count * plan->slots.slot_bytes,
		.frames_bytes = rung__align_up(plan->cache.row_count * plan->cache.frame_bytes,
		                               RUNG__PAGE_BYTES),
		.file_count = plan->slots.slot_count ? plan->file_count : 0,
	};
}

int rung__plan_spread(struct rung_plan *plan, unsigned idx)
{
	const struct rung__placement before = plan->places.host;
	struct rung__placed sizes = rung__plan_placed(plan);
	struct rung_place *list;
	size_t count;
	int rc;

	plan->places.host = plan->spreads[idx];
	rc = rung__places_list(&plan->places, &sizes, &list, &count);
	if (rc < 0) {
		plan->places.host = before;
		return rc;
	}
	rung__free(plan->place_list);
	plan->place_list = list;
	plan->place_count = count;
	return 0;
}

const struct rung_place *rung_plan_place(const struct rung_plan *plan, size_t idx)
{
	return idx < plan->place_count ? &plan->place_list[idx] : NULL;
}

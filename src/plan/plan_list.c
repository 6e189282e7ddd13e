/* SPDX-License-Identifier: Apache-2.0 */
/* The placement of a plan's memory as a list for users. The list is rebuilt when a forecast changes
 * the placement of the host rows. */
#include "plan/plan.h"

struct rung__placement_sizes rung__plan_placement_sizes(const struct rung_plan *plan)
{
	const struct rung_plan_tier *host = &plan->tiers[RUNG__TIER_HOST];

	return (struct rung__placement_sizes){
		.rank_first = host->rank_first,
		/* a part of a typed dataset without features has ranks, but no memory for them */
		.row_count = plan->row_stride ? host->row_count : 0,
		.row_stride = plan->row_stride,
		/* slot_count is the sum over all files, slots_bytes is the size for each */
		.slots_bytes = plan->slots.slot_count / RUNG__MAX(plan->file_count, 1u) *
		               plan->slots.slot_bytes,
		.frames_bytes = rung__align_up(plan->cache.row_count * plan->cache.frame_bytes,
		                               RUNG__PAGE_BYTES),
		.file_count = plan->slots.slot_count ? plan->file_count : 0,
	};
}

int rung__plan_interleave(struct rung_plan *plan, unsigned idx)
{
	const struct rung__placement before = plan->placements.host;
	struct rung__placement_sizes sizes = rung__plan_placement_sizes(plan);
	struct rung_placement *list;
	size_t count;
	int rc;

	plan->placements.host = plan->interleavings[idx];
	/* the list is built from the set, so the set is changed first, and restored after a
	 * failure */
	rc = rung__placement_set_list(&plan->placements, &sizes, &list, &count);
	if (rc < 0) {
		plan->placements.host = before;
		return rc;
	}
	rung__free(plan->placement_list);
	plan->placement_list = list;
	plan->placement_count = count;
	return 0;
}

const struct rung_placement *rung_plan_placement(const struct rung_plan *plan, size_t idx)
{
	return idx < plan->placement_count ? &plan->placement_list[idx] : NULL;
}

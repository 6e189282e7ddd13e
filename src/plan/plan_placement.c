/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan's NUMA nodes. They are chosen last, when all sizes are known, and nothing is allocated
 * here: the store binds its memory by these decisions. The lists of the graph are
 * placed before the rows. Of each of the two, slots and frames are placed first, because they are
 * small and each belongs near its drive. Rows use the remaining memory, the hottest near their
 * readers.
 */
#include "plan/plan.h"

/* Check a requested node. It must exist and have memory that this process may use. */
static int check_node(const struct rung_topology *topology, uint32_t node)
{
	struct rung_topology_info info = { .size = sizeof(info) };

	if (rung__placement_node(topology, node))
		return 0;
	rung_topology_info(topology, &info);
	return rung__fail(RUNG_E_INVAL,
	                  "NUMA node %" PRIu32 " is not available to this process; %" PRIu32
	                  " nodes exist (rung numa --topology lists them)",
	                  node, info.node_count);
}

int rung__plan_inspect_machine(struct rung_plan *plan, const struct rung_plan_opts *opts,
                               struct rung_topology **topology_out)
{
	struct rung__placement_set *placements = &plan->placements;
	int rc;

	if ((unsigned)opts->numa > RUNG_NUMA_NONE)
		return rung__fail(RUNG_E_INVAL,
		                  "plan: NUMA placement %d is not a valid value; use "
		                  "RUNG_NUMA_AUTO, _NODE, _INTERLEAVE or _NONE",
		                  (int)opts->numa);
	if (opts->numa == RUNG_NUMA_NODE && opts->numa_node >= RUNG_NODES_MAX)
		return rung__fail(RUNG_E_INVAL,
		                  "plan: NUMA node %" PRIu32 " is out of range; use one below %d",
		                  opts->numa_node, RUNG_NODES_MAX);
	placements->off = opts->numa == RUNG_NUMA_NONE;
	placements->requested_node = opts->numa == RUNG_NUMA_NODE ? (int32_t)opts->numa_node : -1;
	for (uint32_t f = 0; f < RUNG_FEATURE_FILES_MAX; f++)
		/* unknown, until the features files are opened */
		placements->slots[f] = placements->drives[f] = -1;
	rc = rung__placement_set_begin(placements, &plan->bound, &plan->only, topology_out);
	if (rc == 0 && *topology_out)
		rung__placement_near_cpus(*topology_out, &plan->cpu_nodes);
	/* without a topology nothing is placed, so there is nothing to check */
	if (rc == 0 && *topology_out && opts->numa == RUNG_NUMA_NODE)
		rc = check_node(*topology_out, opts->numa_node);
	/* as if the process were bound to it: the default budget is then half of the memory of this
	 * node only */
	if (opts->numa == RUNG_NUMA_NODE) {
		rung__nodes_add(&plan->bound, opts->numa_node);
		plan->only = &plan->bound;
	}
	return rc;
}

/* Find the nodes of the readers: GPUs whose node the kernel reports; without GPUs or their nodes,
 * the CPUs. */
static int find_readers(const struct rung_plan *plan, const struct rung_topology *topology,
                        struct rung__nodes *near)
{
	bool found = false;

	for (uint32_t i = 0; i < plan->device.gpu_count; i++) {
		struct rung_gpu_info info;
		int rc = rung__device_find(RUNG_DEVICE_CUDA)->gpu_info(plan->gpus[i], &info);

		if (rc < 0)
			return rc;
		if (info.node < 0 || info.node >= RUNG_NODES_MAX)
			continue;
		rung__nodes_add(near, (uint32_t)info.node);
		found = true;
	}
	if (!found)
		rung__placement_near_cpus(topology, near);
	return 0;
}

/* Whether rows could also be placed on nodes that have memory but no readers. With all readers on
 * one node there is nothing to choose: nearest first is then always used. */
static bool some_are_far(const struct rung__node_budgets *budgets, const struct rung__nodes *near)
{
	uint32_t at = 0;

	for (uint32_t r = 0; r < budgets->count; r++)
		at += rung__nodes_have(near, budgets->list[r].node);
	return at > 1 && at < budgets->count;
}

/* Add all nodes that have a budget. */
static void add_budgets(const struct rung__node_budgets *budgets, struct rung__nodes *nodes)
{
	for (uint32_t r = 0; r < budgets->count; r++)
		rung__nodes_add(nodes, budgets->list[r].node);
}

/*
 * Compute both placements, if there is a choice. The faster one depends on the requested rows,
 * which only a forecast knows. Each uses its own copy of the budgets, because only one of them will
 * be applied. With a GPU there is no choice: profiles have only rates of CPUs.
 */
static void keep_interleavings(struct rung_plan *plan, const struct rung__node_budgets *budgets,
                               const struct rung__nodes *near, uint64_t bytes)
{
	struct rung__nodes all = { .bits = { 0 } };
	struct rung__node_budgets left;

	if (plan->device.device != RUNG_DEVICE_CPU || bytes == 0 || !some_are_far(budgets, near))
		return;
	add_budgets(budgets, &all);
	left = *budgets;
	rung__placement_decide(&left, near, bytes, &plan->interleavings[0]);
	left = *budgets;
	rung__placement_decide(&left, &all, bytes, &plan->interleavings[1]);
	plan->interleaving_count = 2;
}

/* Place the rows of the host tier. They come last: `budgets` is the memory that is left after slots
 * and frames. */
static int place_rows(struct rung_plan *plan, const struct rung_plan_opts *opts,
                      const struct rung__placement_sizes *sizes, struct rung__node_budgets *budgets)
{
	uint64_t bytes = rung__align_up(sizes->row_count * sizes->row_stride, RUNG__PAGE_BYTES);
	struct rung__nodes near = { .bits = { 0 } };
	int rc = 0;

	if (opts->numa == RUNG_NUMA_NODE) {
		rung__placement_on(opts->numa_node, bytes, &plan->placements.host);
		return 0;
	}
	plan->interleave_requested = opts->numa == RUNG_NUMA_INTERLEAVE;
	if (plan->interleave_requested)
		add_budgets(budgets, &near);
	else
		rc = find_readers(plan, budgets->topology, &near);
	if (rc == 0 && !plan->interleave_requested)
		keep_interleavings(plan, budgets, &near, bytes);
	if (rc == 0)
		rung__placement_decide(budgets, &near, bytes, &plan->placements.host);
	return rc;
}

/* Place the frames of the cold-row cache near the drives, whose refill threads fill them. If no
 * drive's node is known, the kernel decides. */
static void place_frames(struct rung__placement_set *placements,
                         const struct rung__placement_sizes *sizes,
                         struct rung__node_budgets *budgets)
{
	struct rung__nodes near = { .bits = { 0 } };
	bool known = false;

	if (placements->requested_node >= 0) {
		rung__placement_on((uint32_t)placements->requested_node, sizes->frames_bytes,
		                   &placements->frames);
		return;
	}
	for (uint32_t f = 0; f < sizes->file_count; f++) {
		if (placements->drives[f] < 0)
			continue;
		rung__nodes_add(&near, (uint32_t)placements->drives[f]);
		known = true;
	}
	if (known)
		rung__placement_decide(budgets, &near, sizes->frames_bytes, &placements->frames);
}

int rung__plan_place_host(struct rung_plan *plan, const struct rung_plan_opts *opts,
                          struct rung__node_budgets *budgets)
{
	struct rung__placement_sizes sizes = rung__plan_placement_sizes(plan);
	int rc = 0;

	if (budgets) {
		rung__placement_set_decide_slots(&plan->placements, &sizes, budgets);
		place_frames(&plan->placements, &sizes, budgets);
		rc = place_rows(plan, opts, &sizes, budgets);
	}
	/* the reason depends on the placement, so it is written again */
	if (plan->has_choice)
		rung__interleave_explain(plan, &plan->tuning);
	return rc == 0 ? rung__placement_set_list(&plan->placements, &sizes, &plan->placement_list,
	                                          &plan->placement_count)
	               : rc;
}

const char *rung_plan_placement_why(const struct rung_plan *plan)
{
	return plan->placements.why;
}

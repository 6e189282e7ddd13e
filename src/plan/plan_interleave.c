/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of gathering rows from several nodes, and the placement with the lowest cost.
 *
 * Threads run on the CPUs of all nodes that the process may use, and each gathers the same share of
 * the rows, because requests are not known in advance. Three things can limit a gather: the
 * threads, each of which copies rows of a node at the rate measured for one core; the rate that all
 * cores of one node reach from another node, limited by its link or its memory; and the memory of a
 * node, whose limit is the highest rate measured for its own cores. The longest of the three
 * counts. Distant nodes therefore cost time while threads are few, and add bandwidth when they are
 * many.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plan/plan.h"
#include "plan/profile_rates.h"

/*
 * Nanoseconds per row for a pair of nodes. A pair that was not measured gets the best measured
 * rate, so that no rate is invented.
 * @return 0: no pair was measured with these cores
 */
static double row_ns(const struct rung_profile *profile, enum rung__cores cores, uint32_t cpu_node,
                     uint32_t memory_node, uint64_t row_bytes)
{
	const double ns = rung__row_ns(profile, cores, cpu_node, memory_node, row_bytes);

	return ns > 0 ? ns : rung__row_ns_near(profile, cores, row_bytes, NULL);
}

/* Nanoseconds per row at the highest rate measured for a node's memory: by its own cores or, if the
 * node has no cores, by the fastest ones. */
static double memory_ns(const struct rung_plan *plan, const struct rung_profile *profile,
                        uint32_t memory_node)
{
	double least =
		rung__row_ns(profile, RUNG__CORES_ALL, memory_node, memory_node, plan->row_bytes);

	for (uint32_t cpu = 0; cpu < RUNG_NODES_MAX && least == 0; cpu++) {
		if (rung__nodes_have(&plan->cpu_nodes, cpu))
			least = row_ns(profile, RUNG__CORES_ALL, cpu, memory_node, plan->row_bytes);
	}
	for (uint32_t cpu = 0; cpu < RUNG_NODES_MAX; cpu++) {
		if (rung__nodes_have(&plan->cpu_nodes, cpu))
			least = fmin(least, row_ns(profile, RUNG__CORES_ALL, cpu, memory_node,
			                           plan->row_bytes));
	}
	return least;
}

static uint32_t count_nodes(const struct rung__nodes *nodes)
{
	uint32_t count = 0;

	for (size_t i = 0; i < RUNG__ARRAY_LEN(nodes->bits); i++)
		count += (uint32_t)__builtin_popcountll(nodes->bits[i]);
	return count;
}

/*
 * Add the time of the rows on one node, which all readers request equally often.
 * @param one  increased by the time of one thread for all these rows
 * @param all the shortest time that many threads can reach; raised if this node limits it more
 */
static void add_node(const struct rung_plan *plan, const struct rung_profile *profile,
                     uint32_t memory_node, double hits, double *one, double *all)
{
	const double share = hits / count_nodes(&plan->cpu_nodes);

	for (uint32_t cpu = 0; cpu < RUNG_NODES_MAX; cpu++) {
		if (!rung__nodes_have(&plan->cpu_nodes, cpu))
			continue;
		*one += share * row_ns(profile, RUNG__CORES_ONE, cpu, memory_node, plan->row_bytes);
		*all = fmax(*all, share * row_ns(profile, RUNG__CORES_ALL, cpu, memory_node,
		                                 plan->row_bytes));
	}
	/* the memory serves all readers */
	*all = fmax(*all, hits * memory_ns(plan, profile, memory_node));
}

double rung__interleave_ns(const struct rung_plan *plan, const struct rung_profile *profile,
                           const struct rung__interleave *rows, double cpu_ns, uint32_t threads)
{
	double one = cpu_ns, all = 0, near = 0;

	for (uint32_t n = 0; n < RUNG__PLACEMENT_NODES_MAX; n++) {
		if (rows->hits[n] == 0)
			continue;
		/* the kernel places the rows, or the readers are unknown: count the rows as near */
		if (rows->placement.part_count == 0 || count_nodes(&plan->cpu_nodes) == 0)
			near += (double)rows->hits[n];
		else
			add_node(plan, profile, rows->placement.nodes[n], (double)rows->hits[n],
			         &one, &all);
	}
	one += near * rung__row_ns_near(profile, RUNG__CORES_ONE, plan->row_bytes, NULL);
	all = fmax(all, near * rung__row_ns_near(profile, RUNG__CORES_ALL, plan->row_bytes, NULL));
	/* all threads together are never slower than one */
	return fmax(one / threads, fmin(all, one));
}

/* ---- the choice ---- */

/* Bytes of a placement that are on the nodes of the readers, for the text of the reason. */
static uint64_t bytes_near(const struct rung_plan *plan, const struct rung__placement *placement)
{
	uint64_t bytes = 0;

	for (uint32_t p = 0; p < placement->part_count; p++) {
		for (uint32_t i = 0; i < placement->parts[p].node_count; i++) {
			if (rung__nodes_have(&plan->cpu_nodes,
			                     placement->nodes[placement->parts[p].node_first + i]))
				bytes += rung__part_share(&placement->parts[p], i);
		}
	}
	return bytes;
}

/* Bytes of a placement on all nodes. */
static uint64_t bytes_of(const struct rung__placement *placement)
{
	uint64_t bytes = 0;

	for (uint32_t p = 0; p < placement->part_count; p++)
		bytes += placement->parts[p].bytes;
	return bytes;
}

void rung__interleave_explain(const struct rung_plan *plan, struct rung_tuning *tuning)
{
	const char *why = "in blocks over the nodes of the readers: no other node has memory";

	if (plan->device.device != RUNG_DEVICE_CPU)
		why = "nearest to the GPUs first: the profile has only rates of CPUs";
	else if (plan->placements.requested_node >= 0 || plan->placements.off ||
	         plan->interleave_requested)
		why = "as requested";
	else if (plan->placements.host.part_count == 0)
		why = plan->placements.why[0] ? plan->placements.why : "no rows are in host memory";
	else if (count_nodes(&plan->cpu_nodes) < 2)
		why = "nearest first: all readers are on one node";
	else if (plan->interleaving_count > 1)
		why = "nearest first, until seconds are predicted";
	snprintf(tuning->interleaved_why, sizeof(tuning->interleaved_why), "%s", why);
}

int rung__interleave_choose(struct rung_plan *plan, const double ns[2], struct rung_tuning *tuning)
{
	const struct rung__placement *near = &plan->interleavings[0],
				     *interleaved = &plan->interleavings[1];
	const uint64_t bytes = bytes_of(near), at_readers = bytes_near(plan, near);

	tuning->interleaved = ns[1] < ns[0];
	snprintf(tuning->interleaved_why, sizeof(tuning->interleaved_why),
	         "nearest first, %" PRIu64 " bytes at the readers and %" PRIu64
	         " elsewhere: %.3g s; %" PRIu64 " bytes in blocks over all nodes, %" PRIu64
	         " at the readers: %.3g s",
	         at_readers, bytes - at_readers, ns[0] * 1e-9, bytes, bytes_near(plan, interleaved),
	         ns[1] * 1e-9);
	/* rung_plan_tuning() shows the same choice as the forecast */
	if (plan->has_choice) {
		plan->tuning.interleaved = tuning->interleaved;
		memcpy(plan->tuning.interleaved_why, tuning->interleaved_why,
		       sizeof(tuning->interleaved_why));
	}
	return rung__plan_interleave(plan, tuning->interleaved != 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Applying a placement: checking free memory, binding memory, touching it, and running on the CPUs
 * of a node. */
#include <errno.h>
#include <sched.h>
#include <sys/mman.h>

#include "placement/placement.h"
#include "rung_config.h"
#include "topology/sysfs.h"
#if RUNG_HAVE_NUMA
#include <numaif.h>
#endif

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif
#define TOUCH_BYTES (64ull << 20) /* a thread touches this many bytes at a time */
/* 1/4 of the reserve must still be free: the rest may have been used since the plan was created */
#define CHECK_SHARE 4u

/* ---- before the first touch ---- */

static void add_node(struct rung__node_needs *needs, uint32_t node, uint64_t bytes)
{
	uint32_t n = 0;

	while (n < needs->count && needs->list[n].node != node)
		n++;
	if (n == RUNG__PLACEMENT_NODES_MAX) /* not reached: decisions use at most this many nodes */
		return;
	if (n == needs->count) {
		needs->list[n].node = node;
		needs->list[n].bytes = 0;
		needs->count++;
	}
	needs->list[n].bytes += bytes;
}

void rung__node_needs_add(struct rung__node_needs *needs, const struct rung__placement *placement)
{
	for (uint32_t p = 0; p < placement->part_count; p++) {
		const struct rung__placement_part *part = &placement->parts[p];

		for (uint32_t i = 0; i < part->node_count; i++)
			add_node(needs, placement->nodes[part->node_first + i],
			         rung__part_share(part, i));
	}
}

const struct rung_topology_node *rung__placement_node(const struct rung_topology *topology,
                                                      uint32_t number)
{
	const size_t at = rung__node_position(topology, number);
	const struct rung_topology_node *node = rung_topology_node(topology, at);

	return node && node->has_memory && node->memory_allowed != 0 ? node : NULL;
}

int rung__placement_check(const struct rung_topology *topology,
                          const struct rung__node_needs *needs)
{
	for (uint32_t n = 0; n < needs->count; n++) {
		const struct rung_topology_node *node =
			rung__placement_node(topology, needs->list[n].node);
		uint64_t wanted = needs->list[n].bytes, available = 0;

		if (node && node->available_bytes == RUNG_UNKNOWN)
			continue;
		if (node)
			available = node->available_bytes -
			            RUNG__MIN(node->available_bytes,
			                      rung__spare_of(node) / CHECK_SHARE);
		if (wanted > available)
			return rung__fail(
				RUNG_E_NOMEM,
				"NUMA node %" PRIu32 ": %" PRIu64
				" bytes of host memory are planned here, but %" PRIu64
				" are free; free memory on this node, set a smaller host budget, "
				"or plan again with other nodes (NUMA node auto or interleave)",
				needs->list[n].node, wanted, available);
	}
	return 0;
}

/* ---- bind and touch ---- */

/*
 * Set the policy of untouched memory.
 * @param only  bind to the node; otherwise the node is preferred
 * @return 0 or an errno value
 */
static int set_policy(void *memory, uint64_t bytes, bool only, uint32_t node)
{
#if RUNG_HAVE_NUMA
	unsigned long mask[RUNG_NODES_MAX / (8 * sizeof(unsigned long))] = { 0 };
	int mode = only ? MPOL_BIND : MPOL_PREFERRED;

	mask[node / (8 * sizeof(unsigned long))] = 1ul << (node % (8 * sizeof(unsigned long)));
	/* the kernel uses one bit less than this number */
	return mbind(memory, bytes, mode, mask, RUNG_NODES_MAX + 1, 0) == 0 ? 0 : errno;
#else
	(void)memory;
	(void)bytes;
	(void)only;
	(void)node;
	return ENOSYS;
#endif
}

int rung__placement_prefer(void *memory, uint64_t bytes, uint32_t node)
{
	return set_policy(memory, bytes, false, node);
}

int rung__placement_bind(void *memory, const struct rung__placement *placement)
{
	unsigned char *at = memory;

	for (uint32_t p = 0; p < placement->part_count; p++) {
		const struct rung__placement_part *part = &placement->parts[p];

		for (uint64_t from = 0, block = 0; from < part->bytes;
		     from += part->block_bytes, block++) {
			uint32_t node =
				placement->nodes[part->node_first + block % part->node_count];
			int err = set_policy(at + from,
			                     RUNG__MIN(part->block_bytes, part->bytes - from), true,
			                     node);

			if (err)
				return err;
		}
		at += part->bytes;
	}
	return 0;
}

/* Touch pages in one call, or by writing each page on kernels before 5.14. Writing a byte's own
 * value back keeps the content. */
static void touch(unsigned char *memory, uint64_t bytes)
{
	if (madvise(memory, bytes, MADV_POPULATE_WRITE) == 0)
		return;
	for (uint64_t at = 0; at < bytes; at += RUNG__PAGE_BYTES) {
		volatile unsigned char *byte = memory + at;

		*byte = *byte;
	}
}

void rung__placement_touch(void *memory, uint64_t bytes)
{
	int64_t count = (int64_t)((bytes + TOUCH_BYTES - 1) / TOUCH_BYTES);

#pragma omp parallel for num_threads(rung__threads(0)) schedule(dynamic, 1)
	for (int64_t i = 0; i < count; i++)
		touch((unsigned char *)memory + (uint64_t)i * TOUCH_BYTES,
		      RUNG__MIN(TOUCH_BYTES, bytes - (uint64_t)i * TOUCH_BYTES));
}

/* ---- CPUs ---- */

int rung__placement_run_on(const struct rung_topology *topology, uint32_t number)
{
	unsigned char set[RUNG__CPUS_MAX / 8] = { 0 };
	const size_t at = rung__node_position(topology, number);
	const struct rung_topology_node *node = rung_topology_node(topology, at);

	if (!node || node->cpus_allowed.count == 0)
		return ENODEV;
	for (uint32_t i = 0; i < node->cpus_allowed.count; i++)
		CPU_SET_S(node->cpus_allowed.ids[i], sizeof(set), (cpu_set_t *)set);
	return sched_setaffinity(0, sizeof(set), (cpu_set_t *)set) == 0 ? 0 : errno;
}

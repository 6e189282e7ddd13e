/* SPDX-License-Identifier: Apache-2.0 */
/* Stores on a synthetic machine with two nodes. Wrapped system calls record or refuse placement
 * requests. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "placement_fixture.h"

Test(placement_memory, the_hottest_rows_are_bound_to_the_nearest_node_before_they_are_read)
{
	const struct rung_placement *placement;
	struct rung_store_stats stats;
	uint64_t first;

	begin(4 + 6); /* room for slots, cache, and some of the rows */
	cr_assert_eq(reopen(&plain, NULL), 0, "%s", rung_last_error());
	stats = stats_of();
	cr_assert_eq(stats.placement_count, 4); /* rows on both, slots, cache */
	placement = &stats.placements[0].placement;
	first = placement->bytes;
	cr_assert_eq(first % (2 * MIB), 0);
	cr_assert(placement->nodes.count == 1 && placement->nodes.ids[0] == 1 &&
	          placement->rank_first == 0);
	cr_assert_eq(placement->row_count, first / WIDTH);
	placement = &stats.placements[1].placement;
	cr_assert(placement->nodes.count == 1 && placement->nodes.ids[0] == 0 &&
	          placement->rank_first == first / WIDTH);
	cr_assert_eq(placement->row_count,
	             f.plan->tiers[RUNG__TIER_HOST].row_count - first / WIDTH);
	cr_assert_eq(bound_on(f.store->host_view.base, 1), first);
	cr_assert_eq(bound_on(f.store->host_view.base + first, 0), placement->bytes);
	cr_assert_str_eq(stats.placements[2].placement.name, "slots");
	cr_assert_eq(bound_on(f.store->pool.base, 1), stats.placements[2].placement.bytes);
	cr_assert_eq(stats.placements[2].cpu_node, 1);
	cr_assert_str_eq(stats.placements[3].placement.name, "cache");
	cr_assert_eq(bound_on(f.store->pool.base + f.store->pool.frames_at, 1),
	             stats.placements[3].placement.bytes);
	for (unsigned i = 0; i < stats.placement_count; i++) {
		cr_assert_float_eq(stats.placements[i].node_share, 1, 1e-9);
		cr_assert_str_eq(stats.placements[i].why, "");
	}
	gather_some();
	close_all();
}

Test(placement_memory, pages_on_other_nodes_are_counted)
{
	struct rung_store_stats stats;

	begin(60);
	stray_every = 4;
	cr_assert_eq(reopen(&plain, NULL), 0, "%s", rung_last_error());
	stray_every = 0;
	stats = stats_of();
	cr_assert_eq(stats.placement_count, 3);
	for (unsigned i = 0; i < stats.placement_count; i++)
		cr_assert_float_eq(stats.placements[i].node_share, 0.75, 0.01, "%f",
		                   stats.placements[i].node_share);
	close_all();
}

/* The system's text depends on the user's language. */
static void is_refused(const char *why, const char *call)
{
	cr_assert(strstr(why, call) && strstr(why, strerror(EPERM)), "%s", why);
}

Test(placement_memory, a_store_works_without_permission_to_bind)
{
	struct rung_store_stats stats;

	begin(4 + 6);
	bind_refused = EPERM;
	cr_assert_eq(reopen(&plain, NULL), 0, "%s", rung_last_error());
	stats = stats_of();
	cr_assert_eq(bound_count, 0);
	cr_assert_eq(stats.placement_count, 4);
	for (unsigned i = 0; i < stats.placement_count; i++)
		is_refused(stats.placements[i].why, "mbind: ");
	/* rows were queried: they reside on node 0 */
	cr_assert_float_eq(stats.placements[0].node_share, 0, 1e-9);
	cr_assert_float_eq(stats.placements[1].node_share, 1, 1e-9);
	/* the slots may not have been touched yet */
	cr_assert(isnan(stats.placements[2].node_share));
	gather_some();
	close_all();
}

Test(placement_memory, without_permission_to_query_the_placement_is_unknown)
{
	struct rung_store_stats stats;

	begin(60);
	look_refused = EPERM;
	cr_assert_eq(reopen(&plain, NULL), 0, "%s", rung_last_error());
	stats = stats_of();
	cr_assert_gt(stats.placement_count, 0);
	for (unsigned i = 0; i < stats.placement_count; i++) {
		cr_assert(isnan(stats.placements[i].node_share));
		is_refused(stats.placements[i].why, "move_pages: ");
	}
	gather_some();
	close_all();
}

Test(placement_memory, a_node_that_is_too_small_is_an_error_before_anything_is_touched)
{
	struct rung_plan_opts opts = plain;

	begin(5);
	opts.numa = RUNG_NUMA_NODE;
	opts.numa_node = 1;
	cr_assert_eq(reopen(&opts, NULL), RUNG_E_NOMEM);
	cr_assert(strstr(rung_last_error(), "NUMA node 1: "), "%s", rung_last_error());
	/* 5 MiB, less a quarter of the 4 MiB that are left free */
	cr_assert(strstr(rung_last_error(), "4194304 are free"), "%s", rung_last_error());
	cr_assert_leq(bound_count, 1); /* the page of the trial */
	/* half of the node's free memory, less the part that is left free */
	opts.host_bytes = 0;
	cr_assert_eq(reopen(&opts, NULL), 0, "%s", rung_last_error());
	cr_assert_leq(stats_of().placements[0].placement.bytes, MIB / 2);
	opts = plain;
	opts.numa = RUNG_NUMA_NODE;
	opts.numa_node = 0;
	cr_assert_eq(reopen(&opts, NULL), 0, "%s", rung_last_error());
	cr_assert_gt(stats_of().placements[0].placement.bytes, MIB);
	gather_some();
	close_all();
}

Test(placement_memory, exceeding_the_control_group_is_an_error)
{
	struct rung_plan_opts opts = plain;

	begin(60);
	support_put(root, "/proc/self/cgroup", "0::/job\n");
	support_put(root, "/sys/fs/cgroup/job/memory.max", "9000000\n");
	support_put(root, "/sys/fs/cgroup/job/memory.current", "8000000\n");
	cr_assert_eq(reopen(&opts, NULL), RUNG_E_NOMEM);
	cr_assert(strstr(rung_last_error(), "1000000 available"), "%s", rung_last_error());
	/* page cache, which the kernel can reclaim */
	support_put(root, "/sys/fs/cgroup/job/memory.stat",
	            "anon 1\ninactive_file 5500000\nactive_file 500000\n");
	cr_assert_eq(reopen(&opts, NULL), 0, "%s", rung_last_error());
	close_all();
}

Test(placement_memory, a_cpuset_of_one_node_is_obeyed_and_limits_memory)
{
	struct rung_plan_opts opts = plain;

	begin(60);
	support_put(root, "/proc/self/status", "Cpus_allowed_list:\t0-9\nMems_allowed_list:\t1\n");
	cr_assert_eq(reopen(&opts, NULL), 0, "%s", rung_last_error());
	cr_assert_eq(bound_on(f.store->host_view.base, 1),
	             stats_of().placements[0].placement.bytes);
	support_put_node(root, 1, "\n", NODE_KIB, 5 << 10);
	cr_assert_eq(reopen(&opts, NULL), RUNG_E_NOMEM);
	opts.host_bytes = 0; /* half of the free memory there */
	cr_assert_eq(reopen(&opts, NULL), 0, "%s", rung_last_error());
	cr_assert_leq(stats_of().placements[0].placement.bytes, 1 * MIB);
	close_all();
}

Test(placement_memory, an_existing_memory_policy_is_kept)
{
	begin(60);
	policy = 3; /* MPOL_INTERLEAVE */
	cr_assert_eq(reopen(&plain, NULL), 0, "%s", rung_last_error());
	cr_assert_eq(bound_count, 0);
	cr_assert(strstr(stats_of().placements[0].why, "has a memory policy"), "%s",
	          stats_of().placements[0].why);
	policy = MODE_BIND;
	policy_mask = 1;
	cr_assert_eq(reopen(&plain, NULL), 0, "%s", rung_last_error());
	/* even though the CPUs are at node 1 */
	cr_assert_eq(bound_on(f.store->host_view.base, 0),
	             stats_of().placements[0].placement.bytes);
	close_all();
}

Test(placement_memory, nothing_is_placed_on_request_or_with_one_node)
{
	struct rung_plan_opts opts = plain;

	begin(60);
	opts.numa = RUNG_NUMA_NONE;
	cr_assert_eq(reopen(&opts, NULL), 0);
	cr_assert_eq(bound_count, 0);
	cr_assert_eq(stats_of().placements[0].placement.nodes.count, 0);
	cr_assert_eq(stats_of().placements[1].cpu_node, -1);
	support_put(root, "/sys/devices/system/node/online", "1\n");
	support_put(root, "/sys/devices/system/node/node1/distance", "10\n");
	cr_assert_eq(reopen(&plain, NULL), 0);
	cr_assert_eq(bound_count, 0);
	cr_assert_str_eq(stats_of().placements[0].why, "there is one NUMA node");
	close_all();
}

Test(placement_memory, an_unknown_node_is_rejected)
{
	struct rung_plan_opts opts = plain;

	begin(60);
	opts.numa = RUNG_NUMA_NODE;
	opts.numa_node = 2;
	cr_assert_eq(reopen(&opts, NULL), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "NUMA node 2"), "%s", rung_last_error());
	/* a default share of that node's memory: the message must name the node, not half of 0
	 * bytes */
	opts.host_bytes = 0;
	cr_assert_eq(reopen(&opts, NULL), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "NUMA node 2"), "%s", rung_last_error());
	opts.numa_node = RUNG_NODES_MAX;
	cr_assert_eq(reopen(&opts, NULL), RUNG_E_INVAL);
	opts.numa = (enum rung_numa)4;
	cr_assert_eq(reopen(&opts, NULL), RUNG_E_INVAL);
	close_all();
}

Test(placement_memory, an_unreadable_topology_is_not_an_error)
{
	begin(60);
	support_put(root, "/sys/devices/system/node/node1/distance", "x y\n");
	cr_assert_eq(reopen(&plain, NULL), 0, "%s", rung_last_error());
	cr_assert_eq(bound_count, 0);
	cr_assert(strstr(stats_of().placements[0].why, "node1/distance"), "%s",
	          stats_of().placements[0].why);
	gather_some();
	close_all();
}

Test(placement_memory, shared_memory_is_bound_too)
{
	char path[300];
	struct rung_store_opts opts = { .size = sizeof(opts), .share_path = path };
	struct rung_store_stats stats;

	begin(4 + 6);
	snprintf(path, sizeof(path), "%s/run/socket", f.parent);
	cr_assert_eq(reopen(&plain, &opts), 0, "%s", rung_last_error());
	stats = stats_of();
	cr_assert_eq(bound_on(f.store->host_view.base, 1), stats.placements[0].placement.bytes);
	cr_assert_eq(bound_on(f.store->pool.base + f.store->pool.frames_at, 1),
	             stats.placements[3].placement.bytes);
	close_all();
}

/* ---- simulated GPUs; skipped without them ---- */

static const struct rung_plan_opts *gpu_opts(unsigned gpu_count)
{
	static const int gpus[] = { 0, 1 };
	static struct rung_plan_opts opts;

	opts = plain;
	opts.device = RUNG_DEVICE_CUDA;
	opts.gpus = gpus;
	opts.gpu_count = gpu_count;
	opts.gpu_bytes = RUNG_BYTES_NONE;
	return &opts;
}

Test(placement_memory, gpus_have_the_hottest_rows_at_their_node)
{
	static const struct rung_store_opts small = { .size = sizeof(small),
		                                      .batch_rows_max = 1u << 12 };
	const struct rung_placement *placement;

	if (!fixture_on_cuda())
		cr_skip_test("RUNG_TEST_DEVICE: no GPU");
	begin(60);
	/* the CPUs are at node 1 */
	support_put(root, "/sys/bus/pci/devices/0000:10:00.0/numa_node", "0\n");
	cr_assert_eq(reopen(gpu_opts(1), &small), 0, "%s", rung_last_error());
	placement = &stats_of().placements[0].placement;
	cr_assert_str_eq(placement->name, "host");
	cr_assert(placement->nodes.count == 1 && placement->nodes.ids[0] == 0);
	cr_assert_eq(bound_on(f.store->host_view.base, 0), placement->bytes);
	gather_some();
	close_all();
}

Test(placement_memory, gpus_at_several_nodes_share_rows_in_blocks)
{
	static const struct rung_store_opts small = { .size = sizeof(small),
		                                      .batch_rows_max = 1u << 12 };
	const struct rung_placement *placement;

	if (!fixture_on_cuda())
		cr_skip_test("RUNG_TEST_DEVICE: no GPU");
	begin(60);
	support_put(root, "/sys/bus/pci/devices/0000:10:00.0/numa_node", "0\n");
	support_put(root, "/sys/bus/pci/devices/0000:11:00.0/numa_node", "1\n");
	cr_assert_eq(reopen(gpu_opts(2), &small), 0, "%s", rung_last_error());
	placement = &stats_of().placements[0].placement;
	cr_assert(placement->nodes.count == 2 && placement->block_bytes == 2 * MIB &&
	          placement->bytes > 2 * placement->block_bytes);
	for (uint64_t at = 0; at < placement->bytes; at += 2 * MIB) {
		int node = (int)placement->nodes.ids[at / (2 * MIB) % 2];

		cr_assert_eq(node_at(f.store->host_view.base + at), node);
		cr_assert_eq(bound_on(f.store->host_view.base + at, node),
		             RUNG__MIN(2 * MIB, placement->bytes - at));
	}
	cr_assert_neq(placement->nodes.ids[0], placement->nodes.ids[1]);
	gather_some();
	close_all();
}

Test(placement_memory, any_failed_allocation_is_an_error)
{
	int rc = RUNG_E_NOMEM;

	begin(4 + 6);
	rung_store_close(f.store);
	f.store = NULL;
	/* an engine whose allocation fails is not an error: the next engine is used */
	for (int64_t allowed = 0; rc < 0; allowed++) {
		rung__alloc_limit(allowed);
		rc = reopen(&plain, NULL);
		rung__alloc_limit(-1);
		cr_assert_lt(allowed, 2000);
	}
	cr_assert_eq(rc, 0, "%s", rung_last_error());
	gather_some();
	close_all();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Stores on a synthetic machine with two nodes. Wrapped system calls record or refuse placement
 * requests. */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "engine/engine.h"
#include "dataset.h"
#include "machine.h"
#include "store_fixture.h"

#define NODE_KIB   (64u << 10)
#define VERTICES   16000
#define WIDTH      512
#define HOST_BYTES (6ull << 20)
#define MIB        (1ull << 20)
#define MODE_BIND  2
#define BOUND_MAX  256

long __wrap_mbind(void *memory, unsigned long bytes, int mode, const unsigned long *mask,
                  unsigned long bits, unsigned flags);
long __wrap_move_pages(int pid, unsigned long count, void **pages, const int *nodes, int *status,
                       int flags);
long __wrap_get_mempolicy(int *mode, unsigned long *mask, unsigned long bits, void *at,
                          unsigned long flags);

static struct {
	unsigned char *at;
	uint64_t bytes;
	int node;
	bool touched; /* touched before it was bound */
} bound[BOUND_MAX];
static unsigned bound_count, stray_every, page_count;
static int bind_refused, look_refused, policy;
static unsigned long policy_mask;

static bool is_touched(void *memory, unsigned long bytes)
{
	unsigned char in[4096] = { 0 };
	bool touched = false;

	cr_assert_leq(bytes / 4096, sizeof(in));
	cr_assert_eq(mincore(memory, bytes, in), 0);
	for (unsigned long p = 0; p < bytes / 4096; p++)
		touched |= in[p] & 1;
	return touched;
}

long __wrap_mbind(void *memory, unsigned long bytes, int mode, const unsigned long *mask,
                  unsigned long bits, unsigned flags)
{
	cr_assert_eq(flags, 0);
	cr_assert_gt(bits, 2);
	if (bind_refused) {
		errno = bind_refused;
		return -1;
	}
	cr_assert_lt(bound_count, BOUND_MAX);
	bound[bound_count].at = memory;
	bound[bound_count].bytes = bytes;
	bound[bound_count].node = __builtin_ctzl(mask[0]);
	bound[bound_count].touched = mode == MODE_BIND && is_touched(memory, bytes);
	bound_count++;
	return 0;
}

static int node_at(const unsigned char *page)
{
	for (unsigned i = bound_count; i-- > 0;) {
		if (page >= bound[i].at && page < bound[i].at + bound[i].bytes)
			return bound[i].node;
	}
	return 0;
}

long __wrap_move_pages(int pid, unsigned long count, void **pages, const int *nodes, int *status,
                       int flags)
{
	cr_assert(pid == 0 && !nodes && flags == 0);
	if (look_refused) {
		errno = look_refused;
		return -1;
	}
	for (unsigned long i = 0; i < count; i++)
		status[i] = stray_every && ++page_count % stray_every == 0 ? 1 - node_at(pages[i])
		                                                           : node_at(pages[i]);
	return 0;
}

long __wrap_get_mempolicy(int *mode, unsigned long *mask, unsigned long bits, void *at,
                          unsigned long flags)
{
	cr_assert(bits > 64 && !at && flags == 0);
	*mode = policy;
	mask[0] = policy_mask;
	return 0;
}

/* ---- a machine ---- */

static char root[256];
static struct store_fixture f;

/* The first CPU and the drive are at node 1. Node 1 has `free_mib` of free memory; 4 MiB of it are
 * left free. */
static void put_machine(unsigned free_mib)
{
	char text[200], link[300];
	struct stat st;

	cr_assert_eq(support_tempdir(root, sizeof(root)), 0);
	snprintf(text, sizeof(text), "Cpus_allowed_list:\t%u\nMems_allowed_list:\t0-1\n",
	         support_first_cpu());
	support_put(root, "/proc/self/status", text);
	support_put(root, "/proc/meminfo",
	            "MemTotal: 131072 kB\nMemFree: 120000 kB\nMemAvailable: 120000 kB\n");
	snprintf(text, sizeof(text), "%u\n", support_first_cpu());
	support_put(root, "/sys/devices/system/cpu/online", text);
	support_put(root, "/sys/devices/system/node/online", "0-1\n");
	support_put_node(root, 0, "\n", NODE_KIB, 60 << 10);
	support_put_node(root, 1, text, NODE_KIB, free_mib << 10);
	cr_assert_eq(stat(f.dir, &st), 0);
	snprintf(link, sizeof(link), "/sys/dev/block/%u:%u", major(st.st_dev), minor(st.st_dev));
	support_put(root, "/sys/devices/pci0000:80/0000:80:01.0/block/sdz/size", "8\n");
	support_put(root, "/sys/devices/pci0000:80/0000:80:01.0/numa_node", "1\n");
	support_put_link(root, link, "../../devices/pci0000:80/0000:80:01.0/block/sdz");
	rung__machine_root = root;
}

static void close_all(void)
{
	rung__machine_root = "";
	support_remove(root);
	fixture_close(&f);
}

/* Replaces the fixture's store with one on the synthetic machine. */
static int reopen(const struct rung_plan_opts *opts, const struct rung_store_opts *store_opts)
{
	struct rung_plan *plan;
	int rc = rung_plan_create(f.ds, opts, &plan);

	if (rc < 0)
		return rc;
	rung_store_close(f.store);
	f.store = NULL;
	rung_plan_destroy(f.plan);
	f.plan = plan;
	bound_count = 0;
	return rung__store_open_over(f.ds, f.plan, store_opts, &rung__file_reader, &f.store);
}

static struct rung_store_stats stats_of(void)
{
	struct rung_store_stats stats = { .size = sizeof(stats) };

	cr_assert_eq(rung_store_stats(f.store, &stats), 0);
	return stats;
}

static void begin(unsigned free_mib)
{
	fixture_open(&f, VERTICES, WIDTH, HOST_BYTES, NULL, NULL);
	put_machine(free_mib);
}

static void gather_some(void)
{
	uint64_t ranks[2000];

	fixture_random_ids(&f, ranks, 2000, 3);
	fixture_gather_and_check(&f, ranks, 2000);
}

static const struct rung_plan_opts plain = { .size = sizeof(plain), .host_bytes = HOST_BYTES };

/* @return bytes from `at` on that were bound to the node, up to the first page that was not */
static uint64_t bound_on(const unsigned char *at, int node)
{
	uint64_t bytes = 0;

	/* requests of one page are the trial, whose memory may have been reused */
	for (unsigned i = 0; i < bound_count; i++) {
		if (bound[i].at == at + bytes && bound[i].node == node && bound[i].bytes > 4096) {
			cr_assert_not(bound[i].touched);
			bytes += bound[i].bytes;
		}
	}
	return bytes;
}

Test(place_memory, the_hottest_rows_are_bound_to_the_nearest_node_before_they_are_read)
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

Test(place_memory, pages_on_other_nodes_are_counted)
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

Test(place_memory, a_store_works_without_permission_to_bind)
{
	struct rung_store_stats stats;

	begin(4 + 6);
	bind_refused = EPERM;
	cr_assert_eq(reopen(&plain, NULL), 0, "%s", rung_last_error());
	stats = stats_of();
	cr_assert_eq(bound_count, 0);
	cr_assert_eq(stats.placement_count, 4);
	for (unsigned i = 0; i < stats.placement_count; i++)
		cr_assert(strstr(stats.placements[i].why, "mbind: Operation not permitted"), "%s",
		          stats.placements[i].why);
	/* rows were queried: they reside on node 0 */
	cr_assert_float_eq(stats.placements[0].node_share, 0, 1e-9);
	cr_assert_float_eq(stats.placements[1].node_share, 1, 1e-9);
	/* the slots may not have been touched yet */
	cr_assert(isnan(stats.placements[2].node_share));
	gather_some();
	close_all();
}

Test(place_memory, without_permission_to_query_the_placement_is_unknown)
{
	struct rung_store_stats stats;

	begin(60);
	look_refused = EPERM;
	cr_assert_eq(reopen(&plain, NULL), 0, "%s", rung_last_error());
	stats = stats_of();
	cr_assert_gt(stats.placement_count, 0);
	for (unsigned i = 0; i < stats.placement_count; i++) {
		cr_assert(isnan(stats.placements[i].node_share));
		cr_assert(strstr(stats.placements[i].why, "move_pages: Operation not permitted"),
		          "%s", stats.placements[i].why);
	}
	gather_some();
	close_all();
}

Test(place_memory, a_node_that_is_too_small_is_an_error_before_anything_is_touched)
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

Test(place_memory, exceeding_the_control_group_is_an_error)
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

Test(place_memory, a_cpuset_of_one_node_is_obeyed_and_limits_memory)
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

Test(place_memory, an_existing_memory_policy_is_kept)
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

Test(place_memory, nothing_is_placed_on_request_or_with_one_node)
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

Test(place_memory, an_unknown_node_is_rejected)
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

Test(place_memory, an_unreadable_topology_is_not_an_error)
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

Test(place_memory, shared_memory_is_bound_too)
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

Test(place_memory, gpus_have_the_hottest_rows_at_their_node)
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

Test(place_memory, gpus_at_several_nodes_share_rows_in_blocks)
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

Test(place_memory, any_failed_allocation_is_an_error)
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

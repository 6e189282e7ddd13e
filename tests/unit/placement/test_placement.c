/* SPDX-License-Identifier: Apache-2.0 */
/* Placement of memory on recorded and synthetic machines: decisions, and the messages of the check
 * before memory is first touched. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "dataset.h"
#include "machine.h"
#include "placement/placement.h"
#include "rung/rung.h"
#include "rung_config.h"

#define KIB  1024ull
#define GIB  (1ull << 30)
#define HUGE (2ull << 20)

static char root[256];
static struct rung_topology *topology;
static struct rung__node_budgets rooms;

static void load(const char *name)
{
	support_machine(name, root, sizeof(root));
	rung__machine_root = root;
	cr_assert_eq(rung_topology_load(root, &topology), 0, "%s", rung_last_error());
	rung__node_budgets_find(topology, NULL, &rooms);
}

static void unload(void)
{
	rung_topology_destroy(topology);
	support_remove(root);
}

static struct rung__nodes nodes_of(const char *list)
{
	struct rung__nodes nodes = { .bits = { 0 } };

	for (char *end; *list; list = *end ? end + 1 : end)
		rung__nodes_add(&nodes, (uint32_t)strtoul(list, &end, 10));
	return nodes;
}

static struct rung__placement decide(const char *near, uint64_t bytes)
{
	struct rung__nodes nodes = nodes_of(near);
	struct rung__placement placement;

	rung__placement_decide(&rooms, &nodes, bytes, &placement);
	cr_assert(rung__placement_ok(&placement, bytes));
	return placement;
}

static uint64_t room(uint32_t node)
{
	for (uint32_t r = 0; r < rooms.count; r++) {
		if (rooms.list[r].node == node)
			return rooms.list[r].bytes;
	}
	return UINT64_MAX;
}

static void check_part(const struct rung__placement *placement, uint32_t idx, uint64_t bytes,
                       const char *nodes)
{
	const struct rung__placement_part *part = &placement->parts[idx];
	struct rung__nodes wanted = nodes_of(nodes);
	uint32_t count = 1;

	for (const char *at = nodes; *at; at++)
		count += *at == ',';
	cr_assert_lt(idx, placement->part_count);
	cr_assert_eq(part->bytes, bytes, "part %u: %llu bytes, not %llu", idx,
	             (unsigned long long)part->bytes, (unsigned long long)bytes);
	cr_assert_eq(part->node_count, count);
	for (uint32_t i = 0; i < count; i++)
		cr_assert(rung__nodes_have(&wanted, placement->nodes[part->node_first + i]),
		          "part %u: node %u", idx, placement->nodes[part->node_first + i]);
}

Test(placement, nodes_are_filled_in_the_order_of_distance)
{
	uint64_t near, next;
	struct rung__placement placement;

	load("cxl");
	near = rung__align_down(130000000 * KIB - GIB, HUGE); /* 1 GiB is left free */
	next = near;
	cr_assert_eq(rung__align_down(room(1), HUGE), near);
	placement = decide("1", 2 * near + 5 * HUGE + 4096);
	cr_assert_eq(placement.part_count, 3);
	check_part(&placement, 0, near, "1");
	check_part(&placement, 1, next, "0");
	check_part(&placement, 2, 5 * HUGE + 4096, "2"); /* the expander, which is farthest */
	cr_assert_lt(room(1), HUGE);                     /* it is full */
	placement = decide("1", HUGE);
	check_part(&placement, 0, HUGE, "2");
	unload();
}

Test(placement, memory_that_fits_on_the_nearest_node_stays_there)
{
	struct rung__placement placement;

	load("cxl");
	placement = decide("2", 3 * HUGE + 4096);
	cr_assert_eq(placement.part_count, 1);
	check_part(&placement, 0, 3 * HUGE + 4096, "2");
	unload();
}

/* The naive way: deals one block at a time to each node in turn, without parts. */
static void deal_slowly(uint64_t *left, uint32_t count, uint64_t bytes, uint64_t *given)
{
	while (bytes > 0) {
		for (uint32_t n = 0; n < count && bytes > 0; n++) {
			if (left[n] < HUGE)
				continue;
			left[n] -= HUGE;
			given[n] += RUNG__MIN(bytes, HUGE);
			bytes -= RUNG__MIN(bytes, HUGE);
		}
	}
}

Test(placement, memory_for_readers_at_several_nodes_is_interleaved)
{
	static const uint32_t numbers[] = { 0, 2, 8 };
	uint64_t left[3], given[3] = { 0 }, got[3] = { 0 };
	struct rung__placement placement;

	load("holes");
	for (unsigned i = 0; i < 3; i++)
		left[i] = room(numbers[i]);
	deal_slowly(left, 3, 35 * GIB, given);
	placement = decide("0,2,8", 35 * GIB);
	cr_assert_eq(placement.part_count, 2);
	cr_assert_eq(placement.parts[0].node_count, 3);
	check_part(&placement, 1, 35 * GIB - placement.parts[0].bytes, "8"); /* most room */
	for (uint32_t p = 0; p < placement.part_count; p++) {
		for (uint32_t i = 0; i < placement.parts[p].node_count; i++) {
			for (unsigned n = 0; n < 3; n++) {
				if (placement.nodes[placement.parts[p].node_first + i] ==
				    numbers[n])
					got[n] += rung__part_share(&placement.parts[p], i);
			}
		}
	}
	for (unsigned n = 0; n < 3; n++) { /* blocks may be larger than in the naive way */
		uint64_t apart = got[n] > given[n] ? got[n] - given[n] : given[n] - got[n];

		cr_assert_leq(apart, 2 * placement.parts[0].block_bytes, "node %u", numbers[n]);
	}
	unload();
}

Test(placement, shares_equal_the_sum_of_their_blocks)
{
	struct rung__placement_part part = { .block_bytes = HUGE, .node_count = 3 };

	for (uint64_t bytes = 4096; bytes < 9 * HUGE; bytes += HUGE / 4) {
		uint64_t slow[3] = { 0 };

		part.bytes = bytes;
		for (uint64_t at = 0; at < bytes; at += HUGE)
			slow[at / HUGE % 3] += RUNG__MIN(HUGE, bytes - at);
		for (uint32_t i = 0; i < 3; i++)
			cr_assert_eq(rung__part_share(&part, i), slow[i]);
	}
}

Test(placement, the_number_of_blocks_is_limited)
{
	struct rung__placement placement;

	load("cxl");
	placement = decide("0,1", 200 * GIB);
	cr_assert_eq(placement.part_count, 1);
	cr_assert_leq(placement.parts[0].bytes / placement.parts[0].block_bytes, 8192);
	cr_assert_eq(placement.parts[0].block_bytes % HUGE, 0);
	unload();
}

Test(placement, memory_of_a_gpu_is_used_only_when_requested)
{
	struct rung__nodes only = nodes_of("0,1");

	load("grace-hopper");
	cr_assert_eq(room(1), UINT64_MAX);
	cr_assert_eq(decide("0", 10 * GIB).nodes[0], 0);
	rung__node_budgets_find(topology, &only, &rooms);
	cr_assert_eq(rooms.count, 2);
	cr_assert_neq(room(1), UINT64_MAX);
	unload();
}

Test(placement, nothing_is_placed_unless_the_machine_has_several_nodes)
{
	/* on the third machine, the job may use only one node of two */
	static const char *const machines[] = { "one-node", "no-numa", "two-sockets",
		                                "grace-hopper" };
	struct rung__placement_set placements;
	struct rung__nodes bound;
	const struct rung__nodes *only;
	struct rung_topology *found;
	struct rung__placement placement;

	for (unsigned i = 0; i < RUNG__ARRAY_LEN(machines); i++) {
		load(machines[i]);
		placements = (struct rung__placement_set){ .requested_node = -1 };
		cr_assert_eq(rung__placement_set_begin(&placements, &bound, &only, &found), 0);
		cr_assert_eq(found != NULL, i == 2, "%s: %s", machines[i], placements.why);
		cr_assert_eq(placements.why[0] == 0, i == 2);
		rung_topology_destroy(found);
		unload();
	}
	load("two-sockets");
	cr_assert_eq(rooms.count, 1);
	placement = decide("1", GIB);
	check_part(&placement, 0, GIB, "0");
	unload();
}

Test(placement, without_distances_lower_numbers_come_first)
{
	struct rung__placement placement;

	load("unplaced");
	placement = decide("", 4 * HUGE); /* no readers either */
	cr_assert_eq(placement.part_count, 1);
	check_part(&placement, 0, 4 * HUGE, "0");
	unload();
}

Test(placement, page_cache_counts_as_free_memory)
{
	load("cxl");
	support_put(root, "/sys/devices/system/node/node1/meminfo",
	            "Node 1 MemTotal: 16777216 kB\nNode 1 MemFree: 1048576 kB\nNode 1 "
	            "Active(file): 2097152 kB\nNode 1 Inactive(file): 1048576 kB\n"
	            "Node 1 SReclaimable: 524288 kB\n");
	rung_topology_destroy(topology);
	cr_assert_eq(rung_topology_load(root, &topology), 0);
	rung__node_budgets_find(topology, NULL, &rooms);
	cr_assert_eq(room(1), (1048576 + 2097152 + 1048576 + 524288) * KIB - GIB);
	unload();
}

Test(placement, a_lack_of_memory_names_the_node_and_both_sizes)
{
	struct rung__node_needs demand = { .count = 0 };
	struct rung__placement placement;
	uint64_t all;
	char text[64];

	load("cxl");
	all = 3 * rung__align_down(room(0), HUGE);
	placement = decide("0", all);
	rung__node_needs_add(&demand, &placement);
	cr_assert_eq(demand.count, 3);
	cr_assert_eq(rung__placement_check(topology, &demand), 0);
	rung__node_budgets_find(topology, NULL, &rooms);
	placement = decide("0", all + 4096);
	cr_assert_eq(placement.part_count, 1);
	demand.count = 0;
	rung__node_needs_add(&demand, &placement);
	cr_assert_eq(rung__placement_check(topology, &demand), RUNG_E_NOMEM);
	snprintf(text, sizeof(text), "NUMA node 0: %llu bytes", (unsigned long long)all + 4096);
	cr_assert(strstr(rung_last_error(), text), "%s", rung_last_error());
	snprintf(text, sizeof(text), "%llu are free", 130000000 * KIB - GIB / 4);
	cr_assert(strstr(rung_last_error(), text), "%s", rung_last_error());
	unload();
}

Test(placement, nodes_that_the_process_may_not_use_have_no_room)
{
	struct rung__node_needs demand = { .list = { { .node = 1, .bytes = 4096 } }, .count = 1 };

	load("two-sockets");
	cr_assert_eq(rung__placement_check(topology, &demand), RUNG_E_NOMEM);
	cr_assert_null(rung__placement_node(topology, 1));
	cr_assert_not_null(rung__placement_node(topology, 0));
	demand.list[0].node = 77;
	cr_assert_eq(rung__placement_check(topology, &demand), RUNG_E_NOMEM);
	unload();
}

Test(placement, an_offset_is_on_the_node_of_its_part_and_block)
{
	struct rung__placement placement = {
		.part_count = 3,
		.nodes = { 3, 1, 7 },
		.parts = { { 5 * HUGE, HUGE, 0, 2 }, { HUGE, HUGE, 1, 1 }, { 4096, 4096, 2, 1 } }
	};
	static const uint32_t nodes[] = { 3, 1, 3, 1, 3, 1, 7 };

	for (uint64_t i = 0; i < RUNG__ARRAY_LEN(nodes); i++) {
		cr_assert_eq(placement.nodes[rung__placement_at(&placement, i * HUGE)], nodes[i],
		             "block %d", (int)i);
		cr_assert_eq(placement.nodes[rung__placement_at(
				     &placement, i * HUGE + (i < 6 ? HUGE - 1 : 4095))],
		             nodes[i], "block %d", (int)i);
	}
	for (uint32_t p = 0; p < 2; p++) /* the bytes on each node match the shares */
		cr_assert_eq(rung__part_share(&placement.parts[0], p), (3 - p) * HUGE);
	cr_assert_eq(rung__placement_at(&(struct rung__placement){ .part_count = 0 }, HUGE), 0);
}

Test(placement, a_placement_from_another_process_is_checked)
{
	struct rung__placement good = { .part_count = 2,
		                        .nodes = { 3, 1 },
		                        .parts = { { HUGE, HUGE, 0, 2 }, { 4096, 4096, 1, 1 } } },
			       bad;

	cr_assert(rung__placement_ok(&good, HUGE + 4096));
	cr_assert_not(rung__placement_ok(&good, HUGE));
	cr_assert(rung__placement_ok(&(struct rung__placement){ .part_count = 0 }, 77));
#define REFUSED(member, value)                                                                     \
	do {                                                                                       \
		bad = good;                                                                        \
		bad.member = value;                                                                \
		cr_assert_not(rung__placement_ok(&bad, HUGE + 4096), #member);                     \
	} while (0)
	REFUSED(part_count, RUNG__PLACEMENT_NODES_MAX + 1);
	REFUSED(nodes[1], RUNG_NODES_MAX);
	REFUSED(parts[0].bytes, 0);
	REFUSED(parts[0].bytes, UINT64_MAX - 4095);
	REFUSED(parts[0].block_bytes, 0);
	REFUSED(parts[0].block_bytes, 17);
	REFUSED(parts[0].block_bytes, UINT64_MAX / 2 - 4095);
	REFUSED(parts[0].node_count, 0);
	REFUSED(parts[0].node_count, RUNG__PLACEMENT_NODES_MAX + 1);
	REFUSED(parts[0].node_first, RUNG__PLACEMENT_NODES_MAX - 1);
	REFUSED(parts[0].node_first, UINT32_MAX);
}

Test(placement, nodes_of_allowed_cpus_are_near)
{
	struct rung__nodes near;

	load("two-sockets"); /* CPUs 0 to 7 of 64 */
	rung__placement_near_cpus(topology, &near);
	cr_assert(rung__nodes_have(&near, 0));
	cr_assert_not(rung__nodes_have(&near, 1));
	unload();
	load("cxl");
	rung__placement_near_cpus(topology, &near);
	cr_assert(rung__nodes_have(&near, 0) && rung__nodes_have(&near, 1) &&
	          !rung__nodes_have(&near, 2));
	unload();
}

Test(placement, a_build_without_libnuma_places_nothing)
{
#if RUNG_HAVE_NUMA
	cr_skip_test("built with libnuma");
#else
	struct rung_numa_policy policy = { .size = sizeof(policy) };
	uint64_t count, there;
	struct rung__placement placement;
	unsigned char *page = rung__map_pages(4096);

	rung__placement_on(0, 4096, &placement);
	cr_assert_eq(rung__placement_bind(page, &placement), ENOSYS);
	cr_assert_eq(rung__placement_query(page, &placement, 0, &count, &there), ENOSYS);
	cr_assert_eq(rung_numa_probe_policy(0, &policy), 0);
	cr_assert(!policy.can_bind && strstr(policy.bind_why, "without libnuma"));
	rung__unmap_pages(page, 4096);
#endif
}

/* ---- drives ---- */

static int drive_fd;
static char drive_link[64];

static void on_disk(const char *folder)
{
	char target[512];

	snprintf(target, sizeof(target), "../../%s", folder);
	support_put_link(root, drive_link, target);
}

static int32_t drive_node(void)
{
	int32_t node = 77;

	cr_assert_eq(rung__placement_drive(topology, drive_fd, &node), 0);
	return node;
}

static void load_drives(void)
{
	struct stat st;

	load("two-sockets");
	/* any file will do: only its device number matters */
	drive_fd = open(root, O_RDONLY | O_CLOEXEC);
	cr_assert_geq(drive_fd, 0);
	cr_assert_eq(fstat(drive_fd, &st), 0);
	snprintf(drive_link, sizeof(drive_link), "/sys/dev/block/%u:%u", major(st.st_dev),
	         minor(st.st_dev));
}

static void unload_drives(void)
{
	close(drive_fd);
	unload();
}

#define NVME2 "devices/pci0000:b0/0000:b0:00.0/0000:b1:00.0/nvme/nvme2/nvme2n1"
#define NVME0                                                                                      \
	"devices/pci0000:17/0000:17:00.0/0000:18:00.0/0000:19:01.0/0000:1b:00.0/nvme/nvme0/"       \
	"nvme0n1"

Test(placement, a_drive_is_at_the_node_of_its_controller)
{
	load_drives();
	cr_assert_eq(drive_node(), -1); /* no such device: a file system without a block device */
	on_disk(NVME2);
	cr_assert_eq(drive_node(), 1);
	on_disk(NVME0);
	cr_assert_eq(drive_node(), 0);
	support_put(root, "/sys/" NVME2 "/nvme2n1p3/partition", "3\n");
	on_disk(NVME2 "/nvme2n1p3");
	cr_assert_eq(drive_node(), 1);
	unload_drives();
}

Test(placement, any_other_disk_is_at_the_node_of_its_parent_device)
{
	load_drives();
	support_put(root, "/sys/devices/pci0000:b0/0000:b0:07.0/virtio9/block/vda/size", "8\n");
	on_disk("devices/pci0000:b0/0000:b0:07.0/virtio9/block/vda");
	cr_assert_eq(drive_node(), -1);
	support_put(root, "/sys/devices/pci0000:b0/0000:b0:07.0/numa_node", "-1\n");
	cr_assert_eq(drive_node(), -1);
	support_put(root, "/sys/devices/pci0000:b0/0000:b0:07.0/numa_node", "1\n");
	cr_assert_eq(drive_node(), 1);
	unload_drives();
}

Test(placement, a_volume_is_at_the_node_of_all_its_devices)
{
	load_drives();
	support_put(root, "/sys/devices/virtual/block/md0/slaves/nvme2n1p3", "");
	support_put_link(root, "/sys/class/block/nvme2n1p3", "../../" NVME2 "/nvme2n1p3");
	support_put(root, "/sys/" NVME2 "/nvme2n1p3/partition", "3\n");
	on_disk("devices/virtual/block/md0");
	cr_assert_eq(drive_node(), 1);
	support_put(root, "/sys/devices/virtual/block/md0/slaves/nvme0n1", "");
	cr_assert_eq(drive_node(), -1); /* the location of that device is unknown */
	support_put_link(root, "/sys/class/block/nvme0n1", "../../" NVME0);
	cr_assert_eq(drive_node(), -1); /* this device is at another node */
	cr_assert_eq(unlink(strcat(strcpy((char[768]){ 0 }, root),
	                           "/sys/devices/virtual/block/md0/slaves/nvme2n1p3")),
	             0);
	cr_assert_eq(drive_node(), 0);
	unload_drives();
}

Test(placement, a_volume_that_contains_itself_ends_the_search)
{
	load_drives();
	support_put(root, "/sys/devices/virtual/block/dm-0/slaves/dm-0", "");
	support_put_link(root, "/sys/class/block/dm-0", "../../devices/virtual/block/dm-0");
	on_disk("devices/virtual/block/dm-0");
	cr_assert_eq(drive_node(), -1);
	unload_drives();
}

Test(placement, any_failed_allocation_is_an_error)
{
	int32_t node;
	int rc = RUNG_E_NOMEM;

	load_drives();
	support_put(root, "/sys/" NVME2 "/nvme2n1p3/partition", "3\n");
	support_put(root, "/sys/devices/virtual/block/md0/slaves/nvme2n1p3", "");
	support_put_link(root, "/sys/class/block/nvme2n1p3", "../../" NVME2 "/nvme2n1p3");
	on_disk("devices/virtual/block/md0");
	for (int64_t allowed = 0; rc == RUNG_E_NOMEM; allowed++) {
		rung__alloc_limit(allowed);
		rc = rung__placement_drive(topology, drive_fd, &node);
		rung__alloc_limit(-1);
		cr_assert_lt(allowed, 100);
	}
	cr_assert_eq(rc, 0);
	cr_assert_eq(node, 1);
	unload_drives();
}

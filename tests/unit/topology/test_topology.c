/* SPDX-License-Identifier: Apache-2.0 */
/* The topology: lists, numbers, PCI paths, a machine with gaps in its numbering, and failed
 * allocations. Recorded machines are tested by tests/cli/numa/test_numa.py. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dataset.h"
#include "refuse.h"
#include "rung/rung.h"
#include "topology/state.h"

static char root[256];

static void make_root(void)
{
	cr_assert_eq(support_tempdir(root, sizeof(root)), 0);
}

static void remove_root(void)
{
	support_remove(root);
}

static void put_link(const char *name, const char *target)
{
	char path[512];

	support_put(root, name, ""); /* makes the folders */
	snprintf(path, sizeof(path), "%s%s", root, name);
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(symlink(target, path), 0);
}

/* Nodes 1 and 5, CPU 3 off, a GPU at node 5 whose memory is node 1, and a drive with an unknown
 * location. */
static void put_machine(void)
{
	support_put(root, "/proc/meminfo",
	            "MemTotal: 3000 kB\nMemFree: 900 kB\nMemAvailable: 1000 kB\n");
	support_put(root, "/proc/self/status", "Cpus_allowed_list:\t0-1\nMems_allowed_list:\t5\n");
	support_put(root, "/sys/devices/system/cpu/online", "0-2\n");
	support_put(root, "/sys/devices/system/cpu/present", "0-3\n");
	put_link("/sys/devices/system/cpu/cpu3/node5", "../../node/node5");
	support_put(root, "/sys/devices/system/node/online", "1,5\n");
	support_put(root, "/sys/devices/system/node/node1/cpulist", "\n");
	support_put(root, "/sys/devices/system/node/node1/distance", "10 80\n");
	support_put(root, "/sys/devices/system/node/node1/meminfo",
	            "Node 1 MemTotal: 2000 kB\nNode 1 MemFree: 700 kB\n");
	support_put(root, "/sys/devices/system/node/node5/cpulist", "0-2\n");
	support_put(root, "/sys/devices/system/node/node5/distance", "81 10\n");
	support_put(root, "/sys/devices/system/node/node5/meminfo",
	            "Node 5 MemTotal: 1000 kB\nNode 5 MemFree: 200 kB\n");
	support_put(root, "/sys/devices/system/node/node5/hugepages/hugepages-2048kB/nr_hugepages",
	            "2\n");
	support_put(root, "/sys/devices/system/node/node5/access0/initiators/read_bandwidth",
	            "3\n");
	put_link("/sys/devices/system/node/node5/access0/initiators/node5", "../../../node5");
	put_link("/sys/bus/pci/devices/0000:01:00.0",
	         "../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0");
	support_put(root, "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/class", "0x030200\n");
	support_put(root, "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/vendor", "0x10de\n");
	support_put(root, "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/numa_node", "5\n");
	support_put(root, "/proc/driver/nvidia/gpus/0000:01:00.0/numa_status",
	            "Node:      1\nStatus:    online\n");
	put_link("/sys/block/nvme0n1", "../devices/pci0000:80/0000:80:00.0/nvme/nvme0/nvme0n1");
	support_put(root, "/sys/devices/pci0000:80/0000:80:00.0/nvme/nvme0/nvme0n1/size", "8\n");
	put_link("/sys/class/nvme/nvme0", "../../devices/pci0000:80/0000:80:00.0/nvme/nvme0");
	put_link("/sys/devices/pci0000:80/0000:80:00.0/nvme/nvme0/device", "../../../0000:80:00.0");
}

static void check_ids(const struct rung_id_list *list, uint32_t count, const uint32_t *ids)
{
	cr_assert_eq(list->count, count);
	cr_assert_not_null(list->ids);
	cr_assert_arr_eq(list->ids, ids, count * sizeof(*ids));
}

#define CHECK_IDS(list, ...)                                                                       \
	check_ids(list, sizeof((uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t),                    \
	          (uint32_t[]){ __VA_ARGS__ })

Test(topology, lists_are_read_as_the_kernel_writes_them)
{
	uint32_t ids[16], count;

	cr_assert(rung__ids_of_text("0-3,8,10-11", 12, NULL, &count));
	cr_assert_eq(count, 7);
	cr_assert(rung__ids_of_text("0-3,8,10-11", 12, ids, &count));
	cr_assert_arr_eq(ids, ((uint32_t[]){ 0, 1, 2, 3, 8, 10, 11 }), 7 * sizeof(*ids));
	cr_assert(rung__ids_of_text("", 1, ids, &count));
	cr_assert_eq(count, 0);
	cr_assert(rung__ids_of_text("\n", 1, ids, &count));
	cr_assert_eq(count, 0);
	cr_assert(rung__ids_of_text("7\n", 8, ids, &count));
	cr_assert_eq(ids[0], 7);
	cr_assert(rung__ids_of_text("0-65535", 65536, NULL, &count));
	cr_assert_eq(count, 65536);
}

Test(topology, invalid_lists_are_rejected)
{
	static const char *const bad[] = { "-",      "0-",   "-0",         "0--1",
		                           "3-2",    "1,0",  "0,0",        "0-2,2",
		                           ",",      "0,",   ",0",         "0,,1",
		                           " 0",     "0 ",   "0\n1",       "0\n\n",
		                           "12",     "0-12", "4294967296", "18446744073709551616",
		                           "0x1",    "+1",   "1.0",        "a",
		                           "0-3:1/2" };
	uint32_t count = 99;

	for (size_t i = 0; i < RUNG__ARRAY_LEN(bad); i++) {
		cr_assert_not(rung__ids_of_text(bad[i], 12, NULL, &count), "'%s'", bad[i]);
		cr_assert_eq(count, 99);
	}
}

Test(topology, numbers_have_a_maximum_and_a_suffix)
{
	uint64_t number = 7;

	cr_assert(rung__number_of_text("18446744073709551615", 10, UINT64_MAX, "", &number));
	cr_assert_eq(number, UINT64_MAX);
	cr_assert(rung__number_of_text("0x10de", 16, 0xffff, "", &number));
	cr_assert_eq(number, 0x10de);
	cr_assert(rung__number_of_text("12 kB", 10, 12, " kB", &number));
	cr_assert_eq(number, 12);
	cr_assert_not(rung__number_of_text("18446744073709551616", 10, UINT64_MAX, "", &number));
	cr_assert_not(rung__number_of_text("13", 10, 12, "", &number));
	cr_assert_not(rung__number_of_text("", 10, 12, "", &number));
	cr_assert_not(rung__number_of_text("0x", 16, 12, "", &number));
	cr_assert_not(rung__number_of_text("1a", 10, 100, "", &number));
	cr_assert_not(rung__number_of_text(" 1", 10, 100, "", &number));
	cr_assert_not(rung__number_of_text("12 kB ", 10, 12, " kB", &number));
	cr_assert_eq(number, 12);
}

Test(topology, links_follow_from_pci_paths)
{
	static const struct {
		const char *a, *b;
		enum rung_link link;
	} cases[] = {
		/* two namespaces of a drive */
		{ "pci0000:00/0000:00:01.0/0000:01:00.0", "pci0000:00/0000:00:01.0/0000:01:00.0",
		  RUNG_LINK_PIX },
		/* two functions of a device */
		{ "pci0000:00/0000:00:01.0/0000:01:00.0", "pci0000:00/0000:00:01.0/0000:01:00.1",
		  RUNG_LINK_PIX },
		{ "pci0000:00/0000:00:01.0/0000:01:00.0", "pci0000:00/0000:00:02.0/0000:02:00.0",
		  RUNG_LINK_PHB },
		/* a device integrated in the processor */
		{ "pci0000:00/0000:00:01.0", "pci0000:00/0000:00:02.0/0000:02:00.0",
		  RUNG_LINK_PHB },
		{ "pci0000:00/0000:00:01.0/0000:01:00.0", "pci0000:80/0000:80:01.0/0000:81:00.0",
		  RUNG_LINK_UNKNOWN },
		{ "pci0000:00/0000:00:01.0", "pci0000:000/0000:00:01.0", RUNG_LINK_UNKNOWN },
		{ "pci0000:00/r/up/0000:02:00.0/0000:03:00.0",
		  "pci0000:00/r/up/0000:02:01.0/0000:04:00.0", RUNG_LINK_PIX },
		{ "pci0000:00/r/up/d0/0000:03:00.0", "pci0000:00/r/up/d1/up/d0/0000:05:00.0",
		  RUNG_LINK_PXB },
		{ "pci0000:00/r/up/d0/up/d0/0000:03:00.0", "pci0000:00/r/up/d1/up/d0/0000:05:00.0",
		  RUNG_LINK_PXB },
		{ "pci0000:00/r/up/d1/up/d1/0000:03:00.0", "pci0000:00/r/up/d1/up/d0/0000:05:00.0",
		  RUNG_LINK_PIX },
		{ "pci0000:b0/0000:b0:05.5/pci10000:80/a/b",
		  "pci0000:b0/0000:b0:05.5/pci10000:80/c/d", RUNG_LINK_PHB },
	};

	for (size_t i = 0; i < RUNG__ARRAY_LEN(cases); i++) {
		cr_assert_eq(rung__pci_link(cases[i].a, cases[i].b), cases[i].link, "%s, %s",
		             cases[i].a, cases[i].b);
		cr_assert_eq(rung__pci_link(cases[i].b, cases[i].a), cases[i].link, "%s, %s",
		             cases[i].b, cases[i].a);
	}
}

Test(topology, bus_ids_and_host_bridges_are_recognised)
{
	cr_assert(rung__is_bus_id("0000:3b:00.0", 12));
	cr_assert(rung__is_bus_id("10000:e1:00.7/nvme", 13));
	cr_assert_not(rung__is_bus_id("0000:3b:00.8", 12));
	cr_assert_not(rung__is_bus_id("0000:3b:00", 10));
	cr_assert_not(rung__is_bus_id("000:3b:00.0", 11));
	cr_assert_not(rung__is_bus_id("0000:3b:00.0x", 13));
	cr_assert_not(rung__is_bus_id("0000:3B:00.0", 12));
	cr_assert_not(rung__is_bus_id("", 0));
	cr_assert(rung__is_host_bridge("pci0000:00/0000:00:01.0", 10));
	cr_assert_not(rung__is_host_bridge("pci0000:001", 11));
	cr_assert_not(rung__is_host_bridge("pci_bus", 7));
	cr_assert_not(rung__is_host_bridge("p", 1));
}

Test(topology, positions_and_numbers_differ, .init = make_root, .fini = remove_root)
{
	struct rung_topology_info info = { .size = sizeof(info) };
	const struct rung_topology_node *gpu_memory, *near;
	const struct rung_topology_device *gpu, *drive;
	struct rung_topology *topology;

	put_machine();
	cr_assert_eq(rung_topology_load(root, &topology), 0, "%s", rung_last_error());
	cr_assert_eq(rung_topology_info(topology, &info), 0);
	cr_assert_eq(info.node_count, 2);
	cr_assert_eq(info.gpu_count, 1);
	cr_assert_eq(info.nvme_count, 1);
	cr_assert_eq(info.total_bytes, 3000 << 10);
	cr_assert_eq(info.available_bytes, 1000 << 10);
	cr_assert_eq(info.limit_bytes, RUNG_UNKNOWN);
	CHECK_IDS(&info.cpus_offline, 3);
	CHECK_IDS(&info.nodes_allowed, 5);
	gpu_memory = rung_topology_node(topology, 0);
	near = rung_topology_node(topology, 1);
	cr_assert_null(rung_topology_node(topology, 2));
	cr_assert_eq(gpu_memory->node, 1);
	cr_assert_eq(gpu_memory->cpus.count, 0);
	cr_assert_not_null(gpu_memory->cpus.ids);
	cr_assert_not(gpu_memory->has_cpu);
	cr_assert_eq(gpu_memory->memory_allowed, 0);
	cr_assert_str_eq(gpu_memory->gpu, "0000:01:00.0");
	cr_assert_eq(near->node, 5);
	CHECK_IDS(&near->cpus, 0, 1, 2);
	CHECK_IDS(&near->cpus_allowed, 0, 1);
	CHECK_IDS(&near->cpus_offline, 3);
	cr_assert_eq(near->huge_page_count, 1);
	cr_assert_eq(near->huge_pages[0].free, RUNG_UNKNOWN);
	cr_assert_eq(near->rating_count, 1);
	cr_assert_eq(near->ratings[0].read_bytes_per_s, 3 << 20);
	cr_assert_eq(near->ratings[0].read_latency_ns, RUNG_UNKNOWN);
	cr_assert_eq(rung_topology_distance(topology, 0, 1), 80);
	cr_assert_eq(rung_topology_distance(topology, 1, 0), 81);
	cr_assert_eq(rung_topology_distance(topology, 1, 2), 0);
	gpu = rung_topology_device(topology, 0);
	drive = rung_topology_device(topology, 1);
	cr_assert_null(rung_topology_device(topology, 2));
	cr_assert_eq(gpu->node, 5);
	cr_assert_eq(gpu->memory_node, 1);
	cr_assert_eq(drive->node, -1);
	cr_assert_eq(drive->bytes, 4096);
	cr_assert_eq(rung_topology_link(topology, 0, 1), RUNG_LINK_UNKNOWN);
	cr_assert_eq(rung_topology_link(topology, 0, 2), RUNG_LINK_UNKNOWN);
	cr_assert_eq(rung_topology_node_link(topology, 0, 0), RUNG_LINK_SELF);
	cr_assert_eq(rung_topology_node_link(topology, 0, 1), RUNG_LINK_NODE);
	cr_assert_eq(rung_topology_node_link(topology, 1, 1), RUNG_LINK_UNKNOWN);
	rung_topology_destroy(topology);
	rung_topology_destroy(NULL);
}

Test(topology, nothing_leaks_whichever_allocation_fails, .init = make_root, .fini = remove_root)
{
	const int fds = support_open_descriptors();
	struct rung_topology *topology;
	int64_t allowed = 0;
	int rc;

	put_machine();
	do {
		topology = NULL;
		rung__alloc_limit(allowed++);
		rc = rung_topology_load(root, &topology);
		rung__alloc_limit(-1);
		cr_assert(rc == 0 || rc == RUNG_E_NOMEM, "%d %s", rc, rung_last_error());
		cr_assert_eq(topology != NULL, rc == 0);
		rung_topology_destroy(topology);
		cr_assert_eq(support_open_descriptors(), fds);
	} while (rc < 0);
	cr_assert_gt(allowed, 20);
}

Test(topology, newer_callers_and_invalid_nodes_are_rejected)
{
	struct {
		struct rung_topology_info info;
		char more[8];
	} newer = { .info = { .size = sizeof(newer) } };
	struct rung_numa_policy policy = { .size = sizeof(policy) };
	struct rung_topology *topology;

	cr_assert_eq(rung_topology_load(NULL, &topology), 0, "%s", rung_last_error());
	cr_assert_eq(rung_topology_info(topology, &newer.info), RUNG_E_ABI);
	rung_topology_destroy(topology);
	cr_assert_eq(rung_numa_probe_policy(RUNG_NODES_MAX, &policy), RUNG_E_INVAL);
	policy.size = 0;
	cr_assert_eq(rung_numa_probe_policy(0, &policy), RUNG_E_INVAL);
}

static bool has_libnuma(void)
{
	const char *name, *why;
	int built_in = 0;

	for (unsigned i = 0; (name = rung_feature(i, &built_in, &why)) != NULL; i++) {
		if (strcmp(name, "numa") == 0)
			return built_in;
	}
	return false;
}

Test(topology, a_trial_finds_whether_memory_can_be_placed)
{
	struct rung_numa_policy policy = { .size = sizeof(policy) };

	/* no known machine has this node */
	cr_assert_eq(rung_numa_probe_policy(RUNG_NODES_MAX - 1, &policy), 0);
	cr_assert_not(policy.can_bind);
	cr_assert(strstr(policy.bind_why, has_libnuma() ? "mbind" : "libnuma"), "%s",
	          policy.bind_why);
	cr_assert_eq(policy.can_query != 0, policy.query_why[0] == 0);
}

Test(topology, a_container_that_refuses_placement_is_reported)
{
	struct rung_numa_policy policy = { .size = sizeof(policy) };
	char why[100];

	if (!has_libnuma())
		cr_skip("built without libnuma");
	if (!refuse_placement())
		cr_skip("seccomp is not available: %s", strerror(errno));
	cr_assert_eq(rung_numa_probe_policy(0, &policy), 0);
	cr_assert_not(policy.can_bind);
	cr_assert_not(policy.can_query);
	snprintf(why, sizeof(why), "mbind: %s", strerror(EPERM));
	cr_assert_str_eq(policy.bind_why, why);
	snprintf(why, sizeof(why), "move_pages: %s", strerror(EPERM));
	cr_assert_str_eq(policy.query_why, why);
}

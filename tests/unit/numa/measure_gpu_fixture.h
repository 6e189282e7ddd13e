/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A synthetic machine with two nodes and the simulated GPUs. The calls that place memory are
 * defined here and wrapped by the linker, so only one file of a program can include this header.
 */
#ifndef MEASURE_GPU_FIXTURE_H
#define MEASURE_GPU_FIXTURE_H

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "dataset.h"
#include "machine.h"
#include "rung/rung.h"
#include "sim.h"

#define BOUND_MAX 4096
#define FREE_KIB  (16ull << 20)

long __wrap_mbind(void *memory, unsigned long bytes, int mode, const unsigned long *mask,
                  unsigned long bits, unsigned flags);
long __wrap_move_pages(int pid, unsigned long count, void **pages, const int *nodes, int *status,
                       int flags);

static struct {
	unsigned char *at;
	uint64_t bytes;
	int node;
} bound[BOUND_MAX];
static unsigned bound_count;
static bool all_on_node_0;

long __wrap_mbind(void *memory, unsigned long bytes, int mode, const unsigned long *mask,
                  unsigned long bits, unsigned flags)
{
	(void)mode;
	(void)bits;
	(void)flags;
	cr_assert_lt(bound_count, BOUND_MAX);
	bound[bound_count].at = memory;
	bound[bound_count].bytes = bytes;
	bound[bound_count++].node = __builtin_ctzl(mask[0]);
	return 0;
}

static inline int node_at(const unsigned char *page)
{
	for (unsigned i = bound_count; i-- > 0 && !all_on_node_0;) {
		if (page >= bound[i].at && page < bound[i].at + bound[i].bytes)
			return bound[i].node;
	}
	return 0;
}

long __wrap_move_pages(int pid, unsigned long count, void **pages, const int *nodes, int *status,
                       int flags)
{
	cr_assert(pid == 0 && !nodes && flags == 0);
	for (unsigned long i = 0; i < count; i++)
		status[i] = node_at(pages[i]);
	return 0;
}

static char root[256];
static struct rung_topology *topology;
static int gpu_count; /* number of simulated GPUs */

static void put_gpu(const char *bus_id, unsigned node)
{
	char name[100], target[100], text[20];

	snprintf(name, sizeof(name), "/sys/devices/pci0000:00/%s/class", bus_id);
	support_put(root, name, "0x030200\n");
	snprintf(name, sizeof(name), "/sys/devices/pci0000:00/%s/vendor", bus_id);
	support_put(root, name, "0x10de\n");
	snprintf(name, sizeof(name), "/sys/devices/pci0000:00/%s/numa_node", bus_id);
	snprintf(text, sizeof(text), "%u\n", node);
	support_put(root, name, text);
	snprintf(name, sizeof(name), "/sys/bus/pci/devices/%s", bus_id);
	snprintf(target, sizeof(target), "../../../devices/pci0000:00/%s", bus_id);
	support_put_link(root, name, target);
}

/* Node 0 has memory only. The GPUs have the bus ids of the simulated ones. */
static inline void set_up(void)
{
	const char *gpus = getenv("RUNG_SIM_GPUS");
	char text[200];

	gpu_count = gpus ? atoi(gpus) : 1;
	cr_assert_eq(support_tempdir(root, sizeof(root)), 0);
	snprintf(text, sizeof(text), "Cpus_allowed_list:\t%u\nMems_allowed_list:\t0-1\n",
	         support_first_cpu());
	support_put(root, "/proc/self/status", text);
	snprintf(text, sizeof(text), "MemTotal: %llu kB\nMemFree: %llu kB\nMemAvailable: %llu kB\n",
	         2 * FREE_KIB, 2 * FREE_KIB, 2 * FREE_KIB);
	support_put(root, "/proc/meminfo", text);
	snprintf(text, sizeof(text), "%u\n", support_first_cpu());
	support_put(root, "/sys/devices/system/cpu/online", text);
	support_put(root, "/sys/devices/system/node/online", "0-1\n");
	support_put_node(root, 0, "\n", FREE_KIB, FREE_KIB);
	support_put_node(root, 1, text, FREE_KIB, FREE_KIB);
	for (int i = 0; i < gpu_count; i++) {
		snprintf(text, sizeof(text), "0000:1%d:00.0", i);
		put_gpu(text, (unsigned)i % 2);
	}
	cr_assert_eq(rung_topology_load(root, &topology), 0, "%s", rung_last_error());
}

static inline void reload(void)
{
	rung_topology_destroy(topology);
	cr_assert_eq(rung_topology_load(root, &topology), 0, "%s", rung_last_error());
}

static inline void tear_down(void)
{
	rung_topology_destroy(topology);
	support_remove(root);
	if (sim_live() > 0) {
		sim_leaks(stderr);
		abort();
	}
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Stores on a synthetic machine with two nodes. The calls that place memory are defined here and
 * wrapped by the linker, so only one file of a program can include this header.
 */
#ifndef SUPPORT_PLACEMENT_FIXTURE_H
#define SUPPORT_PLACEMENT_FIXTURE_H

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "dataset.h"
#include "engine/engine.h"
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

static inline bool is_touched(void *memory, unsigned long bytes)
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

static inline int node_at(const unsigned char *page)
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

static char root[256];
static struct store_fixture f;

/* The first CPU and the drive are at node 1. Node 1 has `free_mib` of free memory; 4 MiB of it are
 * left free. */
static inline void put_machine(unsigned free_mib)
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

static inline void close_all(void)
{
	rung__machine_root = "";
	support_remove(root);
	fixture_close(&f);
}

/* Replaces the fixture's store with one on the synthetic machine. */
static inline int reopen(const struct rung_plan_opts *opts,
                         const struct rung_store_opts *store_opts)
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

static inline struct rung_store_stats stats_of(void)
{
	struct rung_store_stats stats = { .size = sizeof(stats) };

	cr_assert_eq(rung_store_stats(f.store, &stats), 0);
	return stats;
}

static inline void begin(unsigned free_mib)
{
	fixture_open(&f, VERTICES, WIDTH, HOST_BYTES, NULL, NULL);
	put_machine(free_mib);
}

static inline void gather_some(void)
{
	uint64_t ranks[2000];

	fixture_random_ids(&f, ranks, 2000, 3);
	fixture_gather_and_check(&f, ranks, 2000);
}

static const struct rung_plan_opts plain = { .size = sizeof(plain), .host_bytes = HOST_BYTES };

/* @return bytes from `at` on that were bound to the node, up to the first page that was not */
static inline uint64_t bound_on(const unsigned char *at, int node)
{
	uint64_t bytes = 0;

	/* a request of one page is the trial, whose memory may have been reused */
	for (unsigned i = 0; i < bound_count; i++) {
		if (bound[i].at == at + bytes && bound[i].node == node && bound[i].bytes > 4096) {
			cr_assert_not(bound[i].touched);
			bytes += bound[i].bytes;
		}
	}
	return bytes;
}

#endif

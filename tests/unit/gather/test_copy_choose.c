/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of stores and prefetch distance, for caches of any size and for recorded machines. */
#include <criterion/criterion.h>
#include <string.h>

#include "dataset.h"
#include "gather/copy.h"
#include "machine.h"

#define KIB UINT64_C(1024)
#define MIB (KIB << 10)
#define GIB (MIB << 10)

/* for a core with this room in its caches, half of it in the second level */
static bool streams(uint64_t room, uint64_t out_bytes, uint64_t table_bytes)
{
	const struct rung__caches caches = { .second_bytes = room / 2,
		                             .last_bytes = room - room / 2,
		                             .last_cores = 1 };

	return rung__copy_choose(&caches, out_bytes, table_bytes, 512).streams;
}

Test(copy_choose, outputs_are_streamed_if_three_of_them_exceed_the_caches_with_their_rows)
{
	for (uint64_t room = 1536 * KIB; room <= 3 * GIB / 2; room *= 2) {
		const uint64_t batch = room / 3;

		/* half is written, and half is read from a larger table */
		cr_assert_not(streams(room, batch / 2, 16 * room), "%lu", (unsigned long)room);
		cr_assert(streams(room, batch / 2 + 1, 16 * room));
		/* a small table leaves space for a larger output */
		cr_assert_not(streams(room, batch - 4096, 4096));
		cr_assert(streams(room, batch - 4095, 4096));
		cr_assert(streams(room, batch + 1, 0));
		/* table sizes matter only up to the size of the output */
		cr_assert_eq(streams(room, batch / 2, batch / 2),
		             streams(room, batch / 2, GIB << 10));
	}
}

Test(copy_choose, a_core_has_its_share_of_the_last_level)
{
	for (uint64_t last = MIB; last <= GIB; last *= 2) {
		struct rung__caches caches = { 256 * KIB, last, 1 };

		for (; caches.last_cores <= 256; caches.last_cores *= 2) {
			const uint64_t batch = (256 * KIB + last / caches.last_cores) / 3;

			cr_assert_not(rung__copy_choose(&caches, batch / 2, GIB, 512).streams);
			cr_assert(rung__copy_choose(&caches, batch / 2 + 1, GIB, 512).streams);
		}
	}
}

Test(copy_choose, larger_caches_stream_no_more_and_larger_outputs_no_less)
{
	for (uint64_t room = MIB; room < GIB; room *= 2) {
		for (uint64_t out = 4 * KIB; out <= 4 * GIB; out *= 2) {
			for (uint64_t table = 4 * KIB; table <= 64 * GIB; table *= 16) {
				cr_assert_leq(streams(2 * room, out, table),
				              streams(room, out, table));
				cr_assert_geq(streams(room, 2 * out, table),
				              streams(room, out, table));
				cr_assert_geq(streams(room, out, 2 * table),
				              streams(room, out, table));
			}
		}
	}
}

Test(copy_choose, extreme_sizes_do_not_overflow)
{
	cr_assert(streams(GIB, UINT64_MAX, UINT64_MAX));
	cr_assert(streams(GIB, UINT64_MAX, 0));
	cr_assert(streams(0, 1, 1));
	cr_assert_not(streams(UINT64_MAX, GIB, GIB));
	cr_assert_not(streams(0, 0, GIB), "an empty output");
	cr_assert(rung__copy_choose(&(struct rung__caches){ 0, MIB, 0 }, MIB, MIB, 0).streams,
	          "no cores, no row");
}

Test(copy_choose, the_prefetched_rows_are_a_small_part_of_the_second_level_cache)
{
	for (uint64_t second = 256 * KIB; second <= 16 * MIB; second *= 2) {
		const struct rung__caches caches = { second, 32 * MIB, 2 };
		uint32_t before = UINT32_MAX;

		for (uint64_t row = 1; row <= 4 * MIB; row *= 2) {
			const uint32_t rows = rung__copy_choose(&caches, MIB, GIB, row).ahead_rows;

			cr_assert(rows >= 1 && rows <= 32);
			cr_assert(rows == 1 || rows * row <= second / 16);
			/* enough to hide the latency, unless the rows are narrow */
			cr_assert(rows == 32 || rows * row >= 4 * KIB);
			cr_assert_leq(rows, before, "wider rows, fewer of them");
			before = rows;
		}
	}
	/* more than 32 KiB brings nothing, however large the cache */
	cr_assert_eq(
		rung__copy_choose(&(struct rung__caches){ GIB, GIB, 1 }, MIB, GIB, 4096).ahead_rows,
		8);
}

Test(copy_choose, recorded_machines_have_their_caches)
{
	static const struct {
		const char *name;
		struct rung__caches caches;
		bool streams[4]; /* outputs of out_bytes, out of a large table */
	} machines[] = {
		{ "one-node", { 512 * KIB, 32 * MIB, 2 }, { false, false, true, true } },
		/* 16 cores of two threads each */
		{ "two-sockets", { 1280 * KIB, 24 * MIB, 16 }, { false, true, true, true } },
		{ "grace-hopper", { 1 * MIB, 114 * MIB, 72 }, { false, true, true, true } },
		{ "cxl", { 2 * MIB, 260 * MIB, 4 }, { false, false, false, true } },
		/* reports no caches: the values stay */
		{ "cpu-only", { 1 * KIB, 1 * MIB, 8 }, { true, true, true, true } },
	};
	static const uint64_t out_bytes[] = { 256 * KIB, 2 * MIB, 4 * MIB, 24 * MIB };

	for (size_t i = 0; i < RUNG__ARRAY_LEN(machines); i++) {
		struct rung__caches caches = { 1 * KIB, 1 * MIB, 8 };
		char root[256];

		support_machine(machines[i].name, root, sizeof(root));
		cr_assert_eq(rung__caches_read(root, &caches), 0, "%s", rung_last_error());
		support_remove(root);
		cr_assert_eq(caches.second_bytes, machines[i].caches.second_bytes, "%s",
		             machines[i].name);
		cr_assert_eq(caches.last_bytes, machines[i].caches.last_bytes, "%s",
		             machines[i].name);
		cr_assert_eq(caches.last_cores, machines[i].caches.last_cores, "%s",
		             machines[i].name);
		for (size_t o = 0; o < RUNG__ARRAY_LEN(out_bytes); o++)
			cr_assert_eq(rung__copy_choose(&caches, out_bytes[o], GIB, 512).streams,
			             machines[i].streams[o], "%s, %zu", machines[i].name, o);
	}
}

Test(copy_choose, the_caches_are_those_of_the_first_usable_cpu)
{
	struct rung__caches caches = { 1, 1, 1 };
	char root[256];

	cr_assert_eq(support_tempdir(root, sizeof(root)), 0);
	support_put(root, "/proc/self/status", "Cpus_allowed_list:\t3-4\n");
	support_put(root, "/sys/devices/system/cpu/cpu0/cache/index0/level", "3\n");
	support_put(root, "/sys/devices/system/cpu/cpu0/cache/index0/size", "1024K\n");
	support_put(root, "/sys/devices/system/cpu/cpu3/cache/index0/level", "2\n");
	support_put(root, "/sys/devices/system/cpu/cpu3/cache/index0/type", "Instruction\n");
	support_put(root, "/sys/devices/system/cpu/cpu3/cache/index0/size", "64K\n");
	support_put(root, "/sys/devices/system/cpu/cpu3/cache/index1/level", "2\n");
	support_put(root, "/sys/devices/system/cpu/cpu3/cache/index1/type", "Unified\n");
	support_put(root, "/sys/devices/system/cpu/cpu3/cache/index1/size", "2048K\n");
	cr_assert_eq(rung__caches_read(root, &caches), 0, "%s", rung_last_error());
	/* without a third level the last one stays unknown */
	cr_assert_eq(caches.second_bytes, 2 * MIB);
	cr_assert_eq(caches.last_bytes, 1);

	support_put(root, "/sys/devices/system/cpu/cpu3/cache/index1/level", "x\n");
	cr_assert_eq(rung__caches_read(root, &caches), RUNG_E_FORMAT);
	cr_assert(strstr(rung_last_error(), "cpu3/cache/index1/level: 'x'"), "%s",
	          rung_last_error());
	cr_assert_eq(caches.second_bytes, 2 * MIB);
	support_remove(root);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of measuring: statistics, kernels compared with plain loops, the cycle of the pointer
 * chase, teams of threads. */
#include <criterion/criterion.h>
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "rung/rung.h"

/* ---- values ---- */

Test(measure_parts, a_value_has_median_minimum_and_maximum)
{
	const double samples[] = { 5, 1, 4, 2, 3, 9 };
	double sorted[6];
	struct rung_numa_value value = rung__measure_value(samples, 5, sorted);

	cr_assert_eq(value.median, 3);
	cr_assert_eq(value.min, 1);
	cr_assert_eq(value.max, 5);
	cr_assert_eq(value.samples, samples, "samples must keep the order of measuring");
	cr_assert_eq(rung__measure_value(samples, 6, sorted).median, 3.5,
	             "the median of an even count is the mean of the middle two");
	cr_assert_eq(rung__measure_value(samples, 1, sorted).median, 5);
	cr_assert(isnan(rung__measure_value(samples, 0, sorted).median));
}

/* ---- kernels ---- */

#define COUNT 256u

struct arrays {
	_Alignas(64) double a[COUNT + 32], b[COUNT], c[COUNT];
};

static struct arrays *new_arrays(void)
{
	struct arrays *arrays = rung__malloc_aligned(64, sizeof(*arrays));

	cr_assert(arrays);
	for (size_t i = 0; i < COUNT; i++) {
		arrays->b[i] = (double)i + 0.5;
		arrays->c[i] = 1000.0 - (double)i;
	}
	for (size_t i = 0; i < COUNT + 32; i++)
		arrays->a[i] = -7;
	return arrays;
}

Test(measure_parts, kernels_do_what_stream_defines)
{
	for (unsigned kind = 0; kind < RUNG__STREAM_COUNT; kind++) {
		struct arrays *x = new_arrays();

		rung__stream_pass(kind, x->a, x->b, x->c, COUNT);
		for (size_t i = 0; i < COUNT; i++) {
			const double want[] = { -7, 1, x->b[i], x->b[i] + 3 * x->c[i] };

			cr_assert_eq(x->a[i], want[kind], "kind %u, element %zu: %g", kind, i,
			             x->a[i]);
			cr_assert_eq(x->b[i], (double)i + 0.5);
			cr_assert_eq(x->c[i], 1000.0 - (double)i);
		}
		for (size_t i = COUNT; i < COUNT + 32; i++)
			cr_assert_eq(x->a[i], -7, "no byte after the end is written");
		rung__free(x);
	}
}

/* ---- chase ---- */

Test(measure_parts, the_chase_visits_each_line_once_and_changes_page_at_each_hop)
{
	for (uint64_t pages = 2; pages < 200; pages = pages * 3 + 1) {
		const uint64_t lines = pages * RUNG__PAGE_BYTES / RUNG__MEASURE_LINE_BYTES;
		unsigned char *memory = rung__map_pages(pages * RUNG__PAGE_BYTES),
			      *seen = calloc(lines, 1);
		uint32_t order[256];
		void *first = rung__chase_make(memory, pages, order), *at = first;

		for (uint64_t i = 0; i < lines; i++) {
			const uint64_t offset = (uint64_t)((unsigned char *)at - memory);
			void *next = rung__chase(at, 1);

			cr_assert_eq(offset % RUNG__MEASURE_LINE_BYTES, 0);
			cr_assert_not(seen[offset / RUNG__MEASURE_LINE_BYTES]);
			seen[offset / RUNG__MEASURE_LINE_BYTES] = 1;
			cr_assert_neq(offset / RUNG__PAGE_BYTES,
			              (uint64_t)((unsigned char *)next - memory) /
			                      RUNG__PAGE_BYTES);
			at = next;
		}
		cr_assert_eq(at, first);
		cr_assert_eq(rung__chase(first, 3 * lines + 5), rung__chase(first, 5),
		             "the chase must support any number of hops");
		rung__unmap_pages(memory, pages * RUNG__PAGE_BYTES);
		free(seen);
	}
}

Test(measure_parts, the_lines_of_a_pair_are_far_apart)
{
	const uint64_t pages = 16, lines = pages * 64;
	unsigned char *memory = rung__map_pages(pages * RUNG__PAGE_BYTES);
	uint64_t *turn = calloc(lines, sizeof(*turn));
	uint32_t order[16];
	void *at = rung__chase_make(memory, pages, order);

	for (uint64_t i = 0; i < lines; i++, at = rung__chase(at, 1))
		turn[(uint64_t)((unsigned char *)at - memory) / 64] = i;
	for (uint64_t line = 0; line < lines; line += 2) {
		const uint64_t apart = turn[line + 1] - turn[line];

		cr_assert_gt(turn[line + 1], turn[line]);
		cr_assert(apart > pages && apart < lines - pages, "%lu of %lu hops",
		          (unsigned long)apart, (unsigned long)lines);
	}
	rung__unmap_pages(memory, pages * RUNG__PAGE_BYTES);
	free(turn);
}

/* ---- threads ---- */

static uint32_t allowed_cpu(void)
{
	cpu_set_t set;

	cr_assert_eq(sched_getaffinity(0, sizeof(set), &set), 0);
	for (uint32_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &set))
			return cpu;
	}
	cr_assert_fail("no CPU");
	return 0;
}

struct seen {
	uint32_t cpu;
	_Atomic(uint64_t) ranks, passes;
	_Atomic(uint32_t) elsewhere;
};

static void look(void *ctx, uint32_t rank, uint32_t count, uint64_t passes)
{
	struct seen *seen = ctx;

	cr_assert_lt(rank, count);
	atomic_fetch_add(&seen->ranks, UINT64_C(1) << (8 * rank));
	atomic_fetch_add(&seen->passes, passes);
	atomic_fetch_add(&seen->elsewhere, sched_getcpu() != (int)seen->cpu);
}

Test(measure_parts, a_team_runs_each_thread_once_on_its_cpu)
{
	const uint32_t cpu = allowed_cpu(), cpus[] = { cpu, cpu, cpu };
	struct seen seen = { .cpu = cpu };
	struct rung__team *team;

	cr_assert_eq(rung__team_start(cpus, 3, &team), 0, "%s", rung_last_error());
	cr_assert_eq(rung__team_count(team), 3);
	for (int i = 0; i < 5; i++)
		cr_assert_geq(rung__team_run(team, look, &seen, 7), 0);
	rung__team_stop(team);
	cr_assert_eq(seen.ranks, UINT64_C(0x050505));
	cr_assert_eq(seen.passes, 3 * 5 * 7);
	cr_assert_eq(seen.elsewhere, 0);
}

Test(measure_parts, an_unknown_cpu_is_named)
{
	const uint32_t cpus[] = { allowed_cpu(), RUNG__CPUS_MAX - 1 };
	struct rung__team *team;

	cr_assert_eq(rung__team_start(cpus, 2, &team), RUNG_E_NOSUP);
	cr_assert(strstr(rung_last_error(), "CPU 65535"), "%s", rung_last_error());
}

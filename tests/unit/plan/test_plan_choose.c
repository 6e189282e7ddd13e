/* SPDX-License-Identifier: Apache-2.0 */
/* How a profile determines a plan: reads in flight, gaps, threads, nodes. */
#include "forecast_fixture.h"
#include "plan/profile_rates.h"

TestSuite(plan_choose, .timeout = 120);

static struct rung_tuning choice_of(void)
{
	const uint64_t ranks[] = { 300 }, starts[] = { 0, 1 };

	return forecast_of(ranks, starts, 1).tuning;
}

/* A drive with a latency of 10 us: reads of 512 bytes reach this rate, reads of 64 KiB a fifth of
 * it. */
static void drive_with_a_knee_at(double most)
{
	static const uint32_t depths[] = { 1, 8, 32, 128, 512 };

	profile.reads_count = 0;
	for (unsigned i = 0; i < 10; i++)
		profile.reads[profile.reads_count++] =
			(struct rung_profile_reads){ 0, i < 5 ? 512 : 65536, depths[i % 5],
			                             fmin(depths[i % 5] * 1e5,
			                                  i < 5 ? most : most / 5) };
}

Test(plan_choose, the_depth_is_at_the_knee_of_the_curve, .init = setup)
{
	struct rung_tuning tuning;

	drive_with_a_knee_at(3.2e6); /* 10 us x 3.2 M/s: 32 in flight; 31 reach 95 % */
	tuning = choice_of();
	cr_assert_eq(tuning.queue_depth, 31);
	cr_assert(strstr(tuning.queue_depth_why,
	                 "3.10 M reads/s of 512 bytes, each of which takes 10 us"),
	          "%s", tuning.queue_depth_why);
	/* a faster drive needs no fewer, and between depths at most twice as many as necessary */
	for (double most = 1e5; most < 5e7; most *= 1.1) {
		const uint32_t before = tuning.queue_depth;

		drive_with_a_knee_at(most);
		tuning = choice_of();
		cr_assert(most == 1e5 || tuning.queue_depth >= before, "%g: %u after %u", most,
		          tuning.queue_depth, before);
		cr_assert_geq(tuning.queue_depth, fmin(0.949 * most / 1e5, 512));
		cr_assert_leq(tuning.queue_depth, fmax(4 * most / 1e5, 1));
	}
	drive_with_a_knee_at(1e9);
	/* 95 % of the highest measured rate; higher rates are unknown */
	cr_assert_eq(choice_of().queue_depth, 487);
	profile.reads_count = 1;
	profile.reads[0].depth = UINT32_MAX;
	cr_assert_eq(choice_of().queue_depth, RUNG__QUEUE_DEPTH_MAX * 95 / 100 + 1);
}

Test(plan_choose, fast_drives_get_several_refill_threads, .init = setup)
{
	static const struct {
		double most;
		uint32_t threads;
	} cases[] = { { 1e5, 1 }, { 3e5, 1 }, { 7e5, 3 }, { 1e9, 8 } };

	for (unsigned i = 0; i < RUNG__ARRAY_LEN(cases); i++) {
		struct rung_tuning tuning;

		drive_with_a_knee_at(cases[i].most);
		tuning = choice_of();
		cr_assert_eq(tuning.refill_threads, cases[i].threads, "%g: %u", cases[i].most,
		             tuning.refill_threads);
		cr_assert(strstr(tuning.refill_threads_why, "a refill thread up to 300 k"), "%s",
		          tuning.refill_threads_why);
	}
}

Test(plan_choose, the_highest_depth_and_the_smallest_gap_of_the_drives_are_used, .init = setup)
{
	struct rung_tuning tuning;

	plan.file_count = 2;
	plan.slots.slot_count = 8;
	profile.drive_count = 2;
	strcpy(profile.drives[1].name, "b");
	strcpy(plan.drive_names[0], "a");
	strcpy(plan.drive_names[1], "b");
	profile.reads[4] = (struct rung_profile_reads){ 1, 512, 64, 64e5 };
	profile.reads[5] = (struct rung_profile_reads){ 1, 4096, 64, 64e5 };
	profile.reads_count = 6;
	tuning = choice_of();
	cr_assert_eq(tuning.queue_depth, 61);
	cr_assert_eq(tuning.merge_gap_bytes, 2048);
	/* 312 ns for 4096 bytes: 2048 bytes in 156 ns, less the row's own */
	profile.reads[5].reads_per_s = 32e5;
	cr_assert_eq(choice_of().merge_gap_bytes, 1536);
}

Test(plan_choose, shared_reads_are_never_slower_than_separate_ones, .init = setup)
{
	plan.sector_bytes = 512;
	for (double most = 1e5; most < 5e7; most *= 1.7) {
		struct rung_tuning tuning;
		struct rung__drive_reads reads;
		uint64_t gap;

		drive_with_a_knee_at(most);
		tuning = choice_of();
		gap = tuning.merge_gap_bytes == RUNG_MERGE_GAP_NONE ? 0 : tuning.merge_gap_bytes;
		reads = rung__drive_reads(&profile, 0);
		for (uint64_t rows = 2; rows * (512 + gap) < 65536; rows++)
			cr_assert_leq(rung__read_ns(&reads, tuning.queue_depth,
			                            rows * 512 + (rows - 1) * gap),
			              1.0001 * (double)rows *
			                      rung__read_ns(&reads, tuning.queue_depth, 512),
			              "%g: gap %d", most, (int)gap);
	}
	/* the time is proportional to the bytes: sharing reads gains nothing */
	profile.reads[9].reads_per_s = profile.reads[4].reads_per_s / 128;
	for (unsigned i = 5; i < 9; i++)
		profile.reads[i].reads_per_s = profile.reads[i - 5].reads_per_s / 128;
	cr_assert_eq(choice_of().merge_gap_bytes, RUNG_MERGE_GAP_NONE);
	for (unsigned i = 5; i < 10; i++)
		profile.reads[i].reads_per_s = 1e14;
	cr_assert_eq(choice_of().merge_gap_bytes, 65536);
}

Test(plan_choose, there_are_enough_threads_for_the_rate_of_all_cores, .init = setup)
{
	static const double all[] = { 1e7, 2e7, 3e7, 5e7, 7.9e7, 1e12 };
	static const uint32_t threads[] = { 1, 2, 3, 5, 8, 8 };
	const uint64_t ranks[] = { 5, 99, 0 }, starts[] = { 0, 3 };
	double before = INFINITY;

	cr_assert_eq(choice_of().threads, 0);
	cr_assert(strstr(choice_of().threads_why, "no rates of rows by all cores"));
	cr_assert_eq(forecast_of(ranks, starts, 1).threads, 1);
	profile.rows_count = 2;
	profile.rows[0] = (struct rung_profile_rows){ 0, 1, 3, 3, 512, 1e7 };
	for (unsigned i = 0; i < RUNG__ARRAY_LEN(all); i++) {
		profile.rows[1] = (struct rung_profile_rows){ 1, 8, 3, 3, 512, all[i] };
		cr_assert_eq(choice_of().threads, threads[i], "%g", all[i]);
	}
	cr_assert(strstr(choice_of().threads_why, "a core of node 3 copies 10.0 M rows/s of 512 "
	                                          "bytes, its 8 cores 1.00 T"),
	          "%s", choice_of().threads_why);
	profile.rows[1].rows_per_s = 3e7;
	/* more threads are never slower, and no faster than all cores */
	for (opts.threads = 1; opts.threads < 20; opts.threads++) {
		struct rung_forecast out = forecast_of(ranks, starts, 1);

		cr_assert_eq(out.threads, opts.threads);
		cr_assert_leq(out.memory_seconds, before);
		cr_assert_geq(out.memory_seconds, 3 / 3.0001e7);
		before = out.memory_seconds;
	}
	cr_assert_float_eq(before, 1e-7, 1e-12);
	profile.rows[1].rows_per_s = 1; /* implausible: all cores slower than one */
	cr_assert_float_eq(forecast_of(ranks, starts, 1).memory_seconds, 3 * (100 + ID_NS) * 1e-9,
	                   1e-15);
	cr_assert_eq(choice_of().threads, 1);
}

/* ---- nodes ---- */

/* Nodes 0 and 1 have CPUs. A core copies 10 M near or 5 M far rows of 512 bytes per second; all
 * four cores of a node copy 40 M or 8 M. */
static void two_nodes(void)
{
	setup();
	profile.rows_count = 0;
	for (unsigned all = 0; all < 2; all++) {
		for (uint32_t pair = 0; pair < 4; pair++)
			profile.rows[profile.rows_count++] = (struct rung_profile_rows){
				(int)all, all ? 4 : 1,
				pair / 2, pair % 2,
				512,      pair % 3 ? (all ? 8e6 : 5e6) : (all ? 4e7 : 1e7)
			};
	}
	rung__nodes_add(&plan.cpu_nodes, 0);
}

/* Places ranks 0 to 49 on the first node and 50 to 99 on the second. */
static struct rung__placement halves(uint32_t first, uint32_t second)
{
	return (struct rung__placement){ .part_count = 2,
		                         .nodes = { first, second },
		                         .parts = { { 50 * 512, 50 * 512, 0, 1 },
		                                    { 50 * 512, 50 * 512, 1, 1 } } };
}

Test(plan_choose, rows_have_the_rates_of_their_nodes, .init = two_nodes)
{
	const uint64_t ranks[] = { 0, 49, 50, 7 }, starts[] = { 0, 4 };

	/* without placement rows count as near */
	cr_assert_float_eq(forecast_of(ranks, starts, 1).memory_seconds, 4 * (100 + ID_NS) * 1e-9,
	                   1e-15);
	plan.placements.host = halves(0, 1);
	cr_assert_float_eq(forecast_of(ranks, starts, 1).memory_seconds,
	                   (3 * 100 + 200 + 4 * ID_NS) * 1e-9, 1e-15);
	plan.placements.host = halves(1, 0);
	cr_assert_float_eq(forecast_of(ranks, starts, 1).memory_seconds,
	                   (100 + 3 * 200 + 4 * ID_NS) * 1e-9, 1e-15);
	opts.threads = 1000; /* three rows over the link, whose rate limits any number of threads */
	cr_assert_float_eq(forecast_of(ranks, starts, 1).memory_seconds, 3 * 125 * 1e-9, 1e-15);
	/* now half of the threads are on that node, and half of the far rows go in the other
	 * direction */
	rung__nodes_add(&plan.cpu_nodes, 1);
	cr_assert_float_eq(forecast_of(ranks, starts, 1).memory_seconds, 1.5 * 125 * 1e-9, 1e-15);
	opts.threads = 1;
	cr_assert_float_eq(forecast_of(ranks, starts, 1).memory_seconds,
	                   (2 * 100 + 2 * 200 + 4 * ID_NS) * 1e-9, 1e-15);
	plan.placements.host = (struct rung__placement){
		.part_count = 1, .nodes = { 0, 1 }, .parts = { { 100 * 512, 10 * 512, 0, 2 } }
	};
	/* ranks 0 and 7 are in the first block, 49 and 50 in the fifth and sixth */
	plan.cpu_nodes.bits[0] = 1;
	cr_assert_float_eq(forecast_of(ranks, starts, 1).memory_seconds,
	                   (3 * 100 + 200 + 4 * ID_NS) * 1e-9, 1e-15);
	/* a node without measurements counts as near */
	plan.placements.host = halves(7, 0);
	cr_assert_float_eq(forecast_of(ranks, starts, 1).memory_seconds, 4 * (100 + ID_NS) * 1e-9,
	                   1e-15);
}

Test(plan_choose, more_far_rows_take_longer, .init = two_nodes)
{
	uint64_t ranks[100], starts[] = { 0, 100 };

	for (uint64_t i = 0; i < 100; i++)
		ranks[i] = i;
	for (opts.threads = 1; opts.threads <= 8; opts.threads *= 2) {
		double before = 0;

		for (uint64_t far = 1; far < 100; far++) {
			double seconds;

			plan.placements.host = halves(0, 1);
			plan.placements.host.parts[0].bytes = (100 - far) * 512;
			plan.placements.host.parts[1].bytes = far * 512;
			seconds = forecast_of(ranks, starts, 1).memory_seconds;
			cr_assert_gt(seconds, before * (opts.threads < 8),
			             "%u threads, %d far rows", opts.threads, (int)far);
			before = seconds;
		}
	}
}

Test(plan_choose, threads_are_summed_over_the_nodes_that_gather, .init = two_nodes)
{
	cr_assert_eq(choice_of().threads, 4);
	rung__nodes_add(&plan.cpu_nodes, 1);
	cr_assert_eq(choice_of().threads, 8);
	cr_assert(strstr(choice_of().threads_why, "; the same on each of 2 nodes"), "%s",
	          choice_of().threads_why);
	plan.cpu_nodes.bits[0] = 1 << 5; /* rates unknown: the best node's are used */
	cr_assert_eq(choice_of().threads, 4);
}

/* Rows can be on the readers' nodes 0 and 1 only, or also on node 2, which has no CPUs. From node
 * 2, one core gathers `one` rows per second and all cores gather `all`. */
static void a_third_node(double one, double all)
{
	const struct rung_profile_rows rates[] = { { 0, 1, 0, 2, 512, one },
		                                   { 0, 1, 1, 2, 512, one },
		                                   { 1, 4, 0, 2, 512, all },
		                                   { 1, 4, 1, 2, 512, all } };

	rung__nodes_add(&plan.cpu_nodes, 1);
	plan.interleaving_count = 2;
	plan.interleavings[0] = (struct rung__placement){ .part_count = 1,
		                                          .nodes = { 0, 1 },
		                                          .parts = { { 100 * 512, 512, 0, 2 } } };
	plan.interleavings[1] = (struct rung__placement){ .part_count = 1,
		                                          .nodes = { 0, 1, 2 },
		                                          .parts = { { 100 * 512, 512, 0, 3 } } };
	plan.placements.host = plan.interleavings[0];
	memcpy(&profile.rows[8], rates, sizeof(rates));
	profile.rows_count = 12;
}

Test(plan_choose, rows_are_interleaved_over_all_nodes_if_that_is_faster, .init = two_nodes)
{
	const uint64_t ranks[] = { 0, 1, 2, 3, 4, 5 }, starts[] = { 0, 6 };
	struct rung_forecast out;

	a_third_node(4e6, 12e6);
	/* six rows, half of them near: 900 ns; with a third of them on node 2: 600 + 500 ns */
	opts.threads = 1;
	out = forecast_of(ranks, starts, 1);
	cr_assert_eq(out.tuning.interleaved, 0);
	cr_assert_float_eq(out.memory_seconds, (900 + 6 * ID_NS) * 1e-9, 1e-15);
	cr_assert(strstr(out.tuning.interleaved_why,
	                 "nearest first, 51200 bytes at the readers and 0 elsewhere: 9.24e-07 s; "
	                 "51200 bytes in blocks over all nodes, "
	                 "34304 at the readers: 1.12e-06 s"),
	          "%s", out.tuning.interleaved_why);
	cr_assert_eq(rung_plan_placement(&plan, 0)->nodes.count, 2);
	/* the links between 0 and 1 are the bottleneck: 1.5 rows each way, or one with node 2 */
	opts.threads = 100;
	out = forecast_of(ranks, starts, 1);
	cr_assert_eq(out.tuning.interleaved, 1);
	/* the rows that one reader gets from node 2 */
	cr_assert_float_eq(out.memory_seconds, 2 / 12e6, 1e-12);
	cr_assert_eq(rung_plan_placement(&plan, 0)->nodes.count, 3);
	cr_assert_eq(plan.placements.host.parts[0].node_count, 3);
	opts.threads = 1;
	/* as for an open store: a third of the rows is on node 2, as above */
	opts.keep_placement = 1;
	out = forecast_of(ranks, starts, 1);
	cr_assert_float_eq(out.memory_seconds, (600 + 500 + 6 * ID_NS) * 1e-9, 1e-15);
	cr_assert_eq(rung_plan_placement(&plan, 0)->nodes.count, 3);
	opts.keep_placement = 0; /* chosen again, back to two nodes */
	cr_assert_eq(forecast_of(ranks, starts, 1).tuning.interleaved, 0);
	cr_assert_eq(rung_plan_placement(&plan, 0)->nodes.count, 2);
	profile.rows_count = 1; /* rates of a single node: the placements cannot be compared */
	cr_assert_eq(forecast_of(ranks, starts, 1).tuning.interleaved, 0);
	rung__free(plan.placement_list);
}

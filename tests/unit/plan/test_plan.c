/* SPDX-License-Identifier: Apache-2.0 */
/* The plan: spans of rows, sizes of tiers, free memory, and a traffic forecast compared with a
 * count of the same batches. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "forecast_lists.h"
#include "dataset.h"
#include "machine.h"
#include "store_fixture.h"

Test(plan, the_span_of_a_row_is_its_longest_aligned_read)
{
	static const struct {
		uint64_t row_bytes, stride, align;
	} cases[] = { { 1, 1, 512 },        { 4, 4, 4096 },       { 100, 100, 512 },
		      { 512, 512, 512 },    { 512, 512, 4096 },   { 1200, 1200, 512 },
		      { 1536, 1536, 4096 }, { 4096, 4096, 4096 }, { 5000, 5000, 4096 },
		      { 5732, 5732, 512 },  { 7, 7, 1 } };

	for (size_t i = 0; i < RUNG__ARRAY_LEN(cases); i++) {
		uint64_t align = cases[i].align, most = 0;

		/* tries every position in a block */
		for (uint64_t rank = 0; rank < 2 * align + 1; rank++) {
			uint64_t first = 4096 + rank * cases[i].stride;

			most = RUNG__MAX(most,
			                 (first + cases[i].row_bytes + align - 1) / align * align -
			                         first / align * align);
		}
		cr_assert_eq(
			rung__row_span(cases[i].row_bytes, cases[i].stride, 4096, (uint32_t)align),
			most, "row of %d bytes", (int)cases[i].row_bytes);
	}
}

Test(plan, tiers_are_ranges_of_ranks_and_slots_are_inside_the_budget)
{
	struct store_fixture f;

	fixture_open(&f, 5000, 1000, RUNG_BYTES_MAX, NULL, NULL);
	cr_assert_eq(rung_plan_tier(f.plan, 0)->row_count, 5000);
	cr_assert_eq(rung_plan_slots(f.plan)->slot_count, 0);
	for (uint64_t budget = 40000; budget < 6000000; budget += 470000) {
		struct rung_plan_opts opts = { .size = sizeof(opts), .host_bytes = budget };
		struct rung_plan *plan;
		const struct rung_plan_tier *host, *nvme;
		const struct rung_plan_slots *slots;

		cr_assert_eq(rung_plan_create(f.ds, &opts, &plan), 0, "%s", rung_last_error());
		host = rung_plan_tier(plan, 0);
		nvme = rung_plan_tier(plan, 1);
		slots = rung_plan_slots(plan);
		cr_assert_eq(host->rank_first, 0);
		cr_assert_eq(nvme->rank_first, host->row_count);
		cr_assert_eq(host->row_count + nvme->row_count, 5000);
		cr_assert_leq(host->row_count * 1000 + slots->slot_count * slots->slot_bytes,
		              budget);
		cr_assert_eq(nvme->row_count > 0, slots->slot_count > 0);
		cr_assert(isnan(host->hit_share));
		cr_assert_null(rung_plan_tier(plan, 2));
		rung_plan_destroy(plan);
	}
	fixture_close(&f);
}

Test(plan, a_budget_too_small_reports_the_least_that_works)
{
	struct rung_plan_opts opts = { .size = sizeof(opts), .host_bytes = 1 };
	struct rung_plan *plan = NULL;
	struct store_fixture f;

	fixture_open(&f, 5000, 1000, RUNG_BYTES_MAX, NULL, NULL);
	cr_assert_eq(rung_plan_create(f.ds, &opts, &plan), RUNG_E_INVAL);
	opts.host_bytes = rung_last_error_min_bytes() - 1;
	cr_assert_eq(rung_plan_create(f.ds, &opts, &plan), RUNG_E_INVAL);
	opts.host_bytes++;
	cr_assert_eq(rung_last_error_min_bytes(), opts.host_bytes);
	cr_assert_eq(rung_plan_create(f.ds, &opts, &plan), 0, "%s", rung_last_error());
	rung_plan_destroy(plan);
	fixture_close(&f);
}

Test(plan, a_cache_of_any_size_is_inside_the_budget)
{
	struct store_fixture f;

	fixture_open(&f, 5000, 1000, RUNG_BYTES_MAX, NULL, NULL);
	for (uint64_t budget = 60000; budget < 400000; budget += 1700) {
		for (uint64_t part = 0; part < 3; part++) {
			struct rung_plan_opts opts = { .size = sizeof(opts),
				                       .host_bytes = budget,
				                       .cache_bytes = part ? budget / part
				                                           : RUNG_BYTES_MAX };
			const struct rung_plan_slots *slots;
			struct rung_plan *plan;

			cr_assert_eq(rung_plan_create(f.ds, &opts, &plan), 0, "%s",
			             rung_last_error());
			slots = rung_plan_slots(plan);
			cr_assert_leq(rung_plan_tier(plan, 0)->row_count * 1000 +
			                      slots->slot_count * slots->slot_bytes +
			                      rung_plan_cache(plan)->bytes,
			              budget, "budget %d, part %d", (int)budget, (int)part);
			rung_plan_destroy(plan);
		}
	}
	fixture_close(&f);
}

static struct rung_plan_cache cache_of(const struct store_fixture *f, uint64_t host_bytes,
                                       uint64_t cache_bytes, double cache_share)
{
	struct rung_plan_opts opts = { .size = sizeof(opts),
		                       .host_bytes = host_bytes,
		                       .cache_bytes = cache_bytes,
		                       .cache_share = cache_share };
	struct rung_plan_cache cache;
	struct rung_plan *plan;

	cr_assert_eq(rung_plan_create(f->ds, &opts, &plan), 0, "%s", rung_last_error());
	cache = *rung_plan_cache(plan);
	rung_plan_destroy(plan);
	return cache;
}

Test(plan, a_cache_share_is_a_share_of_the_host_budget)
{
	const double wrong[] = { -0.1, 1.1, (double)NAN };
	struct rung_plan_opts opts = {
		.size = sizeof(opts), .host_bytes = 400000, .cache_bytes = 1, .cache_share = 0.5
	};
	struct rung_plan *plan;
	struct store_fixture f;

	fixture_open(&f, 5000, 1000, RUNG_BYTES_MAX, NULL, NULL);
	cr_assert_gt(cache_of(&f, 400000, 0, 0.25).row_count, 50);
	cr_assert_eq(cache_of(&f, 400000, 0, 0.25).row_count,
	             cache_of(&f, 400000, 100000, 0).row_count);
	cr_assert_eq(cache_of(&f, 400000, 0, 1).row_count,
	             cache_of(&f, 400000, RUNG_BYTES_MAX, 0).row_count);
	cr_assert_eq(cache_of(&f, 400000, 0, 1e-6).row_count, 0);
	/* every row is in memory */
	cr_assert_eq(cache_of(&f, RUNG_BYTES_MAX, 0, 1).row_count, 0);
	cr_assert_eq(rung_plan_create(f.ds, &opts, &plan), RUNG_E_INVAL);
	opts.cache_bytes = 0;
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		opts.cache_share = wrong[i];
		cr_assert_eq(rung_plan_create(f.ds, &opts, &plan), RUNG_E_INVAL, "%g", wrong[i]);
	}
	fixture_close(&f);
}

Test(plan, a_traffic_forecast_equals_a_count_of_the_same_batches)
{
	static const uint32_t fanouts[] = { 5, 3 };
	struct rung_sampler_opts sampler = {
		.size = sizeof(sampler), .fanouts = fanouts, .hop_count = 2, .seed = 11
	};
	struct rung_plan_traffic traffic;
	struct rung_graph *graph;
	struct store_fixture f;
	uint64_t *train, train_count;
	const struct rung_plan_tier *host, *nvme;

	fixture_open(&f, 4000, 512, 4000 * 512 / 5, NULL, NULL);
	cr_assert_eq(rung_dataset_load_graph(f.ds, &graph), 0);
	cr_assert_eq(rung_dataset_load_ids(f.ds, "split_train", &train_count, &train), 0);
	cr_assert_eq(rung_plan_predict(f.plan, rung_graph_csc(graph), &sampler, train, train_count,
	                               100, 0, NULL, &traffic),
	             0);
	host = rung_plan_tier(f.plan, 0);
	nvme = rung_plan_tier(f.plan, 1);
	cr_assert_eq(traffic.batches_per_epoch, (train_count + 99) / 100);
	/* fewer than 32: a whole epoch */
	cr_assert_eq(traffic.batches_sampled, traffic.batches_per_epoch);
	cr_assert_float_eq(host->hit_share + nvme->hit_share, 1, 1e-12);
	cr_assert_float_eq(traffic.cold_rows_per_epoch, nvme->hit_share * traffic.rows_per_epoch,
	                   1e-6);
	cr_assert_float_eq(traffic.rows_per_epoch,
	                   traffic.rows_per_batch * (double)traffic.batches_per_epoch, 1e-6);
	cr_assert_float_eq(traffic.read_bytes_per_epoch,
	                   traffic.cold_rows_per_epoch * RUNG__MAX(512, traffic.sector_bytes),
	                   1e-3);
	/* the hottest fifth gets more than a fifth of the rows */
	cr_assert_gt(host->hit_share, 0.2);
	cr_assert_eq(rung_plan_predict(f.plan, rung_graph_csc(graph), &sampler, train, 0, 100, 0,
	                               NULL, NULL),
	             RUNG_E_INVAL);
	rung_free(train);
	rung_graph_destroy(graph);
	fixture_close(&f);
}

Test(plan, free_memory_is_the_minimum_of_the_kernel_and_cgroup_limits)
{
	char root[256];

	cr_assert_eq(support_tempdir(root, sizeof(root)), 0);
	/* without /proc the amount of free memory is unknown */
	cr_assert_eq(rung__host_memory_free(root), 0);
	support_put(root, "/proc/meminfo",
	            "MemTotal:       8000 kB\nMemFree:  10 kB\nMemAvailable:    4000 kB\n");
	cr_assert_eq(rung__host_memory_free(root), 4000 * 1024);
	support_put(root, "/proc/self/cgroup", "0::/job/step\n");
	support_put(root, "/sys/fs/cgroup/job/step/memory.max", "max\n");
	support_put(root, "/sys/fs/cgroup/job/step/memory.current", "100\n");
	cr_assert_eq(rung__host_memory_free(root), 4000 * 1024);
	/* the parent's limit applies too */
	support_put(root, "/sys/fs/cgroup/job/memory.max", "3000000\n");
	support_put(root, "/sys/fs/cgroup/job/memory.current", "1000000\n");
	cr_assert_eq(rung__host_memory_free(root), 2000000);
	support_put(root, "/proc/self/cgroup", "7:cpu,cpuacct:/x\n5:memory:/old\n");
	support_put(root, "/sys/fs/cgroup/memory/old/memory.limit_in_bytes", "500000\n");
	/* usage above the limit */
	support_put(root, "/sys/fs/cgroup/memory/old/memory.usage_in_bytes", "600000\n");
	cr_assert_eq(rung__host_memory_free(root), 0);
	support_put(root, "/sys/fs/cgroup/memory/old/memory.usage_in_bytes", "100000\n");
	cr_assert_eq(rung__host_memory_free(root), 400000);
	cr_assert_eq(rung__host_memory_budget(root), 300000);
	cr_assert_leq(rung__host_memory_budget(""), (uint64_t)sysconf(_SC_PHYS_PAGES) * 4096 / 4);
	cr_assert_eq(rung__host_memory_limit(root), 500000);
	/* the value with which version 1 reports "no limit" */
	support_put(root, "/sys/fs/cgroup/memory/old/memory.limit_in_bytes",
	            "9223372036854771712\n");
	cr_assert_eq(rung__host_memory_limit(root), UINT64_MAX);
	cr_assert_eq(rung__host_memory_free(root), 4000 * 1024);
	support_remove(root);
}

Test(plan, stores_use_its_choices_unless_options_override_them)
{
	struct rung_profile profile;
	struct rung_plan_opts opts = { .size = sizeof(opts),
		                       .host_bytes = 900000,
		                       .profile = &profile };
	struct rung_store_opts own = { .size = sizeof(own),
		                       .queue_depth = 5,
		                       .merge_gap_bytes = 8192 };
	struct rung_store_stats stats = { .size = sizeof(stats) };
	const struct rung_tuning *tuning;
	struct store_fixture f;
	struct rung_plan *plan;

	fixture_open(&f, 5000, 1000, 900000, NULL, NULL);
	cr_assert_null(rung_plan_tuning(f.plan));
	rung_profile_assume(&profile);
	cr_assert_eq(rung_plan_create(f.ds, &opts, &plan), 0, "%s", rung_last_error());
	tuning = rung_plan_tuning(plan);
	cr_assert(tuning->queue_depth > 30 && tuning->queue_depth < 128, "%u", tuning->queue_depth);
	for (unsigned given = 0; given < 2; given++) {
		const uint32_t gap = tuning->merge_gap_bytes == RUNG_MERGE_GAP_NONE
		                             ? 0
		                             : tuning->merge_gap_bytes;
		struct rung_store *store;

		cr_assert_eq(rung_store_open(f.ds, plan, given ? &own : NULL, &store), 0, "%s",
		             rung_last_error());
		rung_store_stats(store, &stats);
		cr_assert_eq(
			stats.queue_depth,
			given ? 5
			      : RUNG__MIN(tuning->queue_depth, rung_plan_slots(plan)->slot_count));
		cr_assert_eq(stats.merge_gap_bytes, given ? 8192 : gap);
		rung_store_close(store);
	}
	rung_plan_destroy(plan);
	opts.queue_depth = 9;
	cr_assert_eq(rung_plan_create(f.ds, &opts, &plan), 0, "%s", rung_last_error());
	cr_assert_leq(rung_plan_slots(plan)->slot_count, 18);
	rung_plan_destroy(plan);
	profile.rows[0].rows_per_s = 0;
	cr_assert_eq(rung_plan_create(f.ds, &opts, &plan), RUNG_E_INVAL);
	fixture_close(&f);
}

/* A machine with CPUs at nodes 0 and 1, and memory only at node 2. */
Test(plan, host_rows_are_spread_by_the_rates_of_the_nodes)
{
	/* from each of the three blocks of 2 MiB */
	const uint64_t ranks[] = { 1, 2500, 4500, 4900 }, starts[] = { 0, 4 };
	struct rung_profile profile = { .size = sizeof(profile) };
	struct rung_plan_opts opts = { .size = sizeof(opts),
		                       .host_bytes = RUNG_BYTES_MAX,
		                       .profile = &profile };
	struct rung_forecast_opts ask = { .size = sizeof(ask), .profile = &profile };
	struct rung_forecast forecast = { .size = sizeof(forecast) };
	struct store_fixture f;
	struct rung_plan *plan;
	char root[300];

	/* node 2 has the best rates, measured with cores of the other nodes */
	for (unsigned i = 0; i < 12; i++) {
		const double one = i % 3 == 2 ? 9e6 : i % 3 == i / 3 % 2 ? 8e6 : 4e6;

		profile.rows[profile.rows_count++] =
			(struct rung_profile_rows){ i >= 6, i < 6 ? 1 : 4, i / 3 % 2,
			                            i % 3,  1000,          one * (i < 6 ? 1 : 4) };
	}
	fixture_open(&f, 5000, 1000, RUNG_BYTES_MAX, NULL, NULL);
	support_machine("cxl", root, sizeof(root));
	rung__machine_root = root;
	cr_assert_eq(rung_plan_create(f.ds, &opts, &plan), 0, "%s", rung_last_error());
	cr_assert_eq(rung_plan_placement(plan, 0)->nodes.count, 2);
	cr_assert_str_eq(rung_plan_tuning(plan)->interleaved_why,
	                 "nearest first, until seconds are predicted");
	cr_assert_eq(rung_plan_tuning(plan)->threads, 8);
	cr_assert_eq(forecast_lists(plan, &ask, ranks, starts, 1, &forecast), 0, "%s",
	             rung_last_error());
	cr_assert_eq(rung_plan_tuning(plan)->interleaved, 1, "%s",
	             rung_plan_tuning(plan)->interleaved_why);
	cr_assert_eq(rung_plan_placement(plan, 0)->nodes.count, 3);
	cr_assert_eq(rung_plan_placement(plan, 0)->row_count, 5000);
	ask.keep_placement = 1;
	cr_assert_eq(forecast_lists(plan, &ask, ranks, starts, 1, &forecast), 0, "%s",
	             rung_last_error());
	cr_assert_eq(forecast.tuning.interleaved, 1);
	cr_assert_str_eq(forecast.tuning.interleaved_why, rung_plan_tuning(plan)->interleaved_why);
	ask.keep_placement = 0;
	rung_plan_destroy(plan);
	opts.numa = RUNG_NUMA_INTERLEAVE; /* an explicit request is not overridden */
	cr_assert_eq(rung_plan_create(f.ds, &opts, &plan), 0, "%s", rung_last_error());
	cr_assert_eq(forecast_lists(plan, &ask, ranks, starts, 1, &forecast), 0, "%s",
	             rung_last_error());
	cr_assert(strcmp(rung_plan_tuning(plan)->interleaved_why, "as requested") == 0 &&
	          !rung_plan_tuning(plan)->interleaved);
	rung_plan_destroy(plan);
	rung__machine_root = "";
	support_remove(root);
	fixture_close(&f);
}

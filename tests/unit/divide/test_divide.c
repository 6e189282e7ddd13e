/* SPDX-License-Identifier: Apache-2.0 */
/* Dividing a host budget: the result can be planned, needs nearly the fewest reads, and keeps what
 * the caller has decided. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset.h"
#include "expect_error.h"
#include "interrupted.h"
#include "base/base.h"
#include "rung/rung.h"

#define VERTICES 20000u
#define EDGES    400000u
#define BATCH    16u
#define SPLITS   9u

static const uint32_t fanouts[] = { 5, 5 };
static char parent[200];
static struct rung_dataset *ds;
static struct rung_graph *graph;
static uint64_t *seeds, seed_count;
static struct rung_profile profile;

static void setup(void)
{
	char dir[256];

	cr_assert_eq(support_tempdir(parent, sizeof(parent)), 0);
	cr_assert_eq(support_dataset(parent, VERTICES, EDGES, 200, 5), 0, "%s", rung_last_error());
	snprintf(dir, sizeof(dir), "%s/ds", parent);
	cr_assert_eq(rung_dataset_open(dir, &ds), 0, "%s", rung_last_error());
	cr_assert_eq(rung_dataset_load_graph(ds, &graph), 0);
	cr_assert_eq(rung_dataset_load_ids(ds, "split_train", &seed_count, &seeds), 0);
	rung_profile_assume(&profile);
}

static void teardown(void)
{
	rung_free(seeds);
	rung_graph_destroy(graph);
	rung_dataset_close(ds);
	support_remove(parent);
}

TestSuite(divide, .init = setup, .fini = teardown);

static struct rung_plan_opts plan_opts(uint64_t host_bytes)
{
	struct rung_plan_opts opts = RUNG_PLAN_OPTS_INIT;

	opts.device = RUNG_DEVICE_CPU;
	opts.host_bytes = host_bytes;
	opts.queue_depth = 8;
	return opts;
}

static struct rung_sampler_opts sampler_opts(void)
{
	struct rung_sampler_opts opts = RUNG_SAMPLER_OPTS_INIT;

	opts.fanouts = fanouts;
	opts.hop_count = RUNG__ARRAY_LEN(fanouts);
	return opts;
}

static int divide(const struct rung_plan_opts *opts, struct rung_plan_division *division_out)
{
	const struct rung_sampler_opts sampler = sampler_opts();

	*division_out = (struct rung_plan_division){ .size = sizeof(*division_out) };
	return rung_plan_divide(ds, opts, &sampler, seeds, seed_count, BATCH, 0, division_out);
}

/* Predicted reads per batch of a division; negative: it cannot be planned. */
static double reads_of(uint64_t host_bytes, uint64_t structure_bytes, uint64_t cache_bytes)
{
	const struct rung_sampler_opts sampler = sampler_opts();
	struct rung_plan_opts opts = plan_opts(host_bytes);
	struct rung_forecast_opts forecast = RUNG_FORECAST_OPTS_INIT;
	struct rung_plan_traffic traffic;
	struct rung_plan *plan;
	int rc;

	opts.structure_bytes = structure_bytes;
	opts.cache_bytes = cache_bytes;
	forecast.profile = &profile;
	forecast.look_ahead = RUNG_LOOK_AHEAD;
	rc = rung_plan_create(ds, &opts, &plan);
	if (rc == RUNG_E_INVAL)
		return -1;
	cr_assert_eq(rc, 0, "%s", rung_last_error());
	cr_assert_eq(rung_plan_predict(plan, rung_graph_csc(graph), &sampler, seeds, seed_count,
	                               BATCH, 0, &forecast, &traffic),
	             0, "%s", rung_last_error());
	cr_assert(traffic.blocks_per_epoch > 0 &&
	          traffic.cold_blocks_per_epoch <= traffic.blocks_per_epoch);
	rung_plan_destroy(plan);
	return (traffic.forecast.reads + traffic.structure_forecast.reads) /
	       (double)traffic.batches_sampled;
}

Test(divide, the_division_needs_nearly_the_fewest_reads)
{
	static const uint64_t hosts[] = { 500000, 1500000, 4000000 };

	for (unsigned i = 0; i < RUNG__ARRAY_LEN(hosts); i++) {
		const struct rung_plan_opts opts = plan_opts(hosts[i]);
		struct rung_plan_division division;
		double chosen, best = INFINITY;

		cr_assert_eq(divide(&opts, &division), 0, "%s", rung_last_error());
		cr_assert_eq(division.host_bytes, hosts[i]);
		cr_assert(division.batches > 0 && division.tried > 0);
		cr_assert(division.rows_saved >= 0 && division.structure_saved >= 0 &&
		          division.cache_saved >= 0);
		chosen = reads_of(hosts[i], division.structure_bytes, division.cache_bytes);
		cr_assert_geq(chosen, 0, "the division cannot be planned");
		for (uint64_t split = 1; split <= SPLITS; split++) {
			const double reads = reads_of(hosts[i], hosts[i] * split / (SPLITS + 1),
			                              division.cache_bytes);

			best = reads >= 0 && reads < best ? reads : best;
		}
		cr_assert_leq(chosen, 1.05 * best, "host %llu: %g reads, best %g",
		              (unsigned long long)hosts[i], chosen, best);
	}
}

Test(divide, a_budget_for_everything_holds_all_lists)
{
	struct rung_plan_opts opts = plan_opts(32u << 20);
	struct rung_plan_division division;

	cr_assert_eq(divide(&opts, &division), 0, "%s", rung_last_error());
	cr_assert_eq(division.structure_bytes, RUNG_BYTES_MAX);
	cr_assert(division.row_reads == 0 && division.list_reads == 0);
	opts.host_bytes = RUNG_BYTES_MAX;
	cr_assert_eq(divide(&opts, &division), 0, "%s", rung_last_error());
	cr_assert_eq(division.structure_bytes, RUNG_BYTES_MAX);
	cr_assert_eq(division.host_bytes, RUNG_BYTES_MAX);
}

Test(divide, what_the_caller_has_decided_is_kept)
{
	struct rung_plan_opts opts = plan_opts(2000000);
	struct rung_plan_division division;

	opts.structure_bytes = 700000;
	cr_assert_eq(divide(&opts, &division), 0, "%s", rung_last_error());
	cr_assert_eq(division.structure_bytes, 700000);
	opts = plan_opts(2000000);
	opts.cache_bytes = 500000;
	cr_assert_eq(divide(&opts, &division), 0, "%s", rung_last_error());
	cr_assert_leq(division.structure_bytes, 1500000);
	cr_assert_eq(division.cache_bytes, 500000);
	opts.cache_bytes = 0;
	opts.cache_share = 0.25;
	cr_assert_eq(divide(&opts, &division), 0, "%s", rung_last_error());
	cr_assert_eq(division.cache_bytes, 500000);
	opts.cache_share = 0;
	opts.cache_bytes = RUNG_BYTES_NONE;
	cr_assert_eq(divide(&opts, &division), 0, "%s", rung_last_error());
	cr_assert_eq(division.cache_bytes, RUNG_BYTES_NONE);
	opts = plan_opts(RUNG_BYTES_MAX);
	opts.structure_bytes = 700000;
	cr_assert_eq(divide(&opts, &division), 0, "%s", rung_last_error());
	cr_assert_eq(division.structure_bytes, 700000);
}

Test(divide, each_part_has_its_own_saving)
{
	struct rung_plan_opts opts = plan_opts(3000000);
	struct rung_plan_division division;

	opts.structure_bytes = RUNG_BYTES_MAX;
	opts.cache_bytes = RUNG_BYTES_NONE;
	cr_assert_eq(divide(&opts, &division), 0, "%s", rung_last_error());
	cr_assert(division.structure_saved == 0 && division.rows_saved > 0);
	opts.structure_bytes = 700000;
	opts.cache_bytes = 100000;
	cr_assert_eq(divide(&opts, &division), 0, "%s", rung_last_error());
	cr_assert(division.structure_saved > 0 && division.rows_saved > 0);
	cr_assert_neq(division.cache_saved, division.rows_saved);
}

Test(divide, lists_get_what_complete_rows_leave)
{
	struct rung_plan_opts opts = plan_opts(VERTICES * 200 + 500000);
	struct rung_plan_division division;
	struct rung_plan *plan;

	cr_assert_eq(divide(&opts, &division), 0, "%s", rung_last_error());
	opts.structure_bytes = division.structure_bytes;
	opts.cache_bytes = division.cache_bytes;
	cr_assert_eq(rung_plan_create(ds, &opts, &plan), 0, "%s", rung_last_error());
	if (division.row_reads == 0)
		cr_assert_eq(rung_plan_slots(plan)->slot_count, 0);
	rung_plan_destroy(plan);
}

Test(divide, a_structure_that_was_given_and_does_not_fit_is_named)
{
	struct rung_plan_opts opts = plan_opts(1000000);
	struct rung_plan_division division;

	opts.structure_bytes = 1000000;
	assert_error(divide(&opts, &division), RUNG_E_INVAL, "next to the lists of the graph");
	cr_assert_gt(rung_last_error_min_bytes(), 1000000);
	opts = plan_opts(RUNG_BYTES_NONE);
	assert_error(divide(&opts, &division), RUNG_E_INVAL, "a host budget of 0 bytes");
}

Test(divide, a_budget_that_is_too_small_names_the_least)
{
	struct rung_plan_opts opts = plan_opts(1000);
	struct rung_plan_division division;
	struct rung_plan *plan;
	unsigned long long least;

	assert_error(divide(&opts, &division), RUNG_E_INVAL,
	             "cannot hold the staging slots of rows and lists");
	least = rung_last_error_min_bytes();
	cr_assert_gt(least, 1000);
	opts.host_bytes = least;
	cr_assert_eq(divide(&opts, &division), 0, "%s", rung_last_error());
	opts.structure_bytes = division.structure_bytes;
	opts.cache_bytes = division.cache_bytes;
	cr_assert_eq(rung_plan_create(ds, &opts, &plan), 0, "%s", rung_last_error());
	rung_plan_destroy(plan);
}

Test(divide, no_memory_and_bad_seeds_leave_nothing)
{
	const struct rung_plan_opts opts = plan_opts(1500000);
	const struct rung_sampler_opts sampler = sampler_opts();
	const uint64_t outside = VERTICES;
	struct rung_plan_division division = { .size = sizeof(division) };
	const int before = support_open_descriptors();
	int rc = RUNG_E_NOMEM;

	cr_assert_eq(rung_plan_divide(ds, &opts, &sampler, &outside, 1, BATCH, 0, &division),
	             RUNG_E_RANGE);
	cr_assert_eq(rung_plan_divide(ds, &opts, &sampler, seeds, 0, BATCH, 0, &division),
	             RUNG_E_INVAL);
	for (int64_t allowed = 0; rc != 0 && allowed < 200; allowed += 7) {
		rung__alloc_limit(allowed);
		rc = rung_plan_divide(ds, &opts, &sampler, seeds, seed_count, BATCH, 0, &division);
		rung__alloc_limit(-1);
		cr_assert(rc == 0 || rc == RUNG_E_NOMEM, "%s", rung_last_error());
		cr_assert_eq(support_open_descriptors(), before);
	}
}

/* ---- sweeps ---- */

static int sweep(const struct rung_plan_opts *opts, struct rung_plan_budget *budgets,
                 uint32_t count)
{
	const struct rung_sampler_opts sampler = sampler_opts();
	struct rung_forecast_opts forecast = RUNG_FORECAST_OPTS_INIT;

	forecast.profile = &profile;
	forecast.look_ahead = RUNG_LOOK_AHEAD;
	return rung_plan_sweep(ds, opts, &sampler, seeds, seed_count, BATCH, 0, &forecast, budgets,
	                       count);
}

Test(divide, a_sweep_has_the_results_of_the_single_calls)
{
	struct rung_plan_budget budgets[4] = {
		{ .size = sizeof(budgets[0]), .host_bytes = 1 },
		{ .size = sizeof(budgets[0]), .host_bytes = 500000 },
		{ .size = sizeof(budgets[0]), .host_bytes = 2000000 },
		{ .size = sizeof(budgets[0]), .host_bytes = RUNG_BYTES_MAX }
	};
	const struct rung_plan_opts opts = plan_opts(0);
	struct rung_plan_division division;

	cr_assert_eq(sweep(&opts, budgets, 4), 0, "%s", rung_last_error());
	cr_assert_null(budgets[0].plan, "one byte has no room for slots");
	for (unsigned i = 1; i < 3; i++) {
		const struct rung_plan_opts single = plan_opts(budgets[i].host_bytes);
		const struct rung_plan_traffic *traffic = &budgets[i].traffic;

		cr_assert_eq(divide(&single, &division), 0, "%s", rung_last_error());
		cr_assert_eq(memcmp(&division, &budgets[i].division, sizeof(division)), 0);
		cr_assert_eq(rung_plan_bytes(budgets[i].plan)->host, budgets[i].host_bytes);
		cr_assert_eq((traffic->forecast.reads + traffic->structure_forecast.reads) /
		                     (double)traffic->batches_sampled,
		             reads_of(budgets[i].host_bytes, division.structure_bytes,
		                      division.cache_bytes));
		cr_assert_gt(traffic->seconds_per_epoch, budgets[i + 1].traffic.seconds_per_epoch);
	}
	cr_assert_eq(budgets[3].traffic.forecast.reads, 0, "everything is in memory");
	cr_assert_eq(budgets[3].division.batches, 0);
	for (unsigned i = 0; i < 4; i++)
		rung_plan_destroy(budgets[i].plan);
}

Test(divide, a_sweep_without_a_plan_fails)
{
	struct rung_plan_budget budgets[2] = { { .size = sizeof(budgets[0]), .host_bytes = 1 },
		                               { .size = sizeof(budgets[0]), .host_bytes = 2 } };
	struct rung_plan_opts opts = plan_opts(0);

	for (int device = 0; device < 2; device++) {
		opts.device = device ? RUNG_DEVICE_AUTO : RUNG_DEVICE_CPU;
		cr_assert_eq(sweep(&opts, budgets, 2), RUNG_E_INVAL);
		cr_assert_gt(rung_last_error_min_bytes(), 2);
	}
	cr_assert_eq(sweep(&opts, budgets, 0), RUNG_E_INVAL);
	budgets[1].size--;
	cr_assert_eq(sweep(&opts, budgets, 2), RUNG_E_ABI);
}

/* A canceled division ends at the question that was answered with yes, whichever it is, and the
 * questions are as many as the rows of its forecasts require. */
Test(divide, a_division_can_be_canceled_at_every_2_20th_row)
{
	const struct rung_plan_opts opts = plan_opts(1500000);
	const struct rung_sampler_opts sampler = sampler_opts();
	struct rung_plan_division division = { .size = sizeof(division) };
	uint64_t calls;

	interrupt_begin(0);
	cr_assert_eq(rung_plan_divide(ds, &opts, &sampler, seeds, seed_count, 256, 0, &division), 0,
	             "%s", rung_last_error());
	calls = interrupt_calls;
	/* a batch has more rows than seeds */
	cr_assert_geq(calls, division.tried * division.batches * 256 >> 20);
	cr_assert_geq(calls, 3);
	for (uint64_t at = 1; at <= calls; at++) {
		interrupt_begin(at);
		assert_error(
			rung_plan_divide(ds, &opts, &sampler, seeds, seed_count, 256, 0, &division),
			RUNG_E_CANCELED, "canceled");
		cr_assert_eq(interrupt_calls, at);
	}
	rung_interrupt_set(NULL, NULL);
}

/* Batches of all neighbours of all vertices, on one thread and on several. */
Test(divide, sampling_can_be_canceled_at_every_2_20th_draw)
{
	static const uint32_t all[] = { UINT32_MAX };

	for (uint32_t threads = 1; threads <= 2; threads++) {
		struct rung_sampler_opts opts = RUNG_SAMPLER_OPTS_INIT;
		struct rung_sampler *sampler;
		struct rung_batch *batch;
		uint64_t *vertices = malloc(VERTICES * sizeof(*vertices));

		opts.fanouts = all;
		opts.hop_count = 1;
		opts.threads = threads;
		for (uint64_t i = 0; i < VERTICES; i++)
			vertices[i] = i;
		cr_assert_eq(rung_sampler_create(rung_graph_csc(graph), &opts, &sampler), 0);
		cr_assert_eq(rung_batch_create(&batch), 0);
		interrupt_begin(2);
		for (int i = 0; i < 5; i++)
			cr_assert_eq(rung_sampler_sample(sampler, vertices, VERTICES, 1, batch), 0);
		assert_error(rung_sampler_sample(sampler, vertices, VERTICES, 1, batch),
		             RUNG_E_CANCELED, "sampling: canceled");
		cr_assert_eq(interrupt_calls, 2);
		rung_interrupt_set(NULL, NULL);
		cr_assert_eq(rung_sampler_sample(sampler, vertices, VERTICES, 1, batch), 0);
		rung_batch_destroy(batch);
		rung_sampler_destroy(sampler);
		free(vertices);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Staging in little memory: with every plan for rows and edges, the files equal those of a run with
 * everything in memory. */
#include "base/base.h"
#include "stage_fixture.h"
#include "rows/stage_schedule.h"
#include "stage/stage_memory.h"

TestSuite(stage_budget, .init = setup, .fini = teardown, .timeout = 300);

#define PLENTY (UINT64_C(1) << 30)

static char reference[310];

/* Creates sources, and stages the reference from them with everything in memory and in one
 * range. */
static void stage_reference(uint64_t vertices, uint64_t row_bytes)
{
	const struct rung_stage_opts wanted = opts;

	cr_assert_eq(support_sources(dir, vertices, 3 * vertices, row_bytes, 9), 0);
	snprintf(reference, sizeof(reference), "%s/reference", dir);
	support_remove(reference);
	opts.out_dir = reference;
	opts.memory_bytes = PLENTY;
	opts.row_order = RUNG_ROW_ORDER_PASSES;
	rung__stage_range_rows_max = 0;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	opts = wanted;
	opts.out_dir = out;
}

static struct rung_stage_report stage_by(enum rung_row_order plan, uint64_t range_rows)
{
	struct rung_stage_report report;

	support_remove(out);
	opts.row_order = plan;
	rung__stage_range_rows_max = range_rows;
	cr_assert_eq(rung_stage(&opts, &report), 0, "%s: %s", rung_row_order_name(plan),
	             rung_last_error());
	same_files(reference, out);
	no_leftovers(out);
	return report;
}

Test(stage_budget, all_plans_give_the_same_files_for_rows_of_any_width)
{
	static const struct {
		uint64_t row_bytes, vertices, range_rows;
	} cases[] = {
		{ 1, 5000, 700 },   { 12, 3000, 999 }, { 100, 3000, 64 }, { 1433, 3000, 1000 },
		{ 4096, 600, 199 }, { 5732, 500, 77 }, { 300001, 40, 7 },
	};

	for (size_t i = 0; i < RUNG__ARRAY_LEN(cases); i++) {
		stage_reference(cases[i].vertices, cases[i].row_bytes);
		for (int plan = RUNG_ROW_ORDER_PASSES; plan <= RUNG_ROW_ORDER_GATHER; plan++) {
			const struct rung_stage_report report =
				stage_by((enum rung_row_order)plan, cases[i].range_rows);

			cr_assert_eq((int)report.row_order, plan);
			cr_assert_eq(report.range_count, (cases[i].vertices + cases[i].range_rows -
			                                  1) / cases[i].range_rows);
		}
	}
}

/* Large enough that batches, ranges and checksum blocks end at different offsets. */
Test(stage_budget, every_plan_keeps_within_a_small_budget)
{
	static const uint64_t budget = UINT64_C(16) << 20;

	opts.score.method = RUNG_SCORE_DEGREE;
	stage_reference(30000, 1100);
	opts.memory_bytes = budget;
	for (int plan = RUNG_ROW_ORDER_PASSES; plan <= RUNG_ROW_ORDER_GATHER; plan++) {
		const struct rung_stage_report report = stage_by((enum rung_row_order)plan, 0);

		cr_assert_leq(report.memory_bytes, budget);
		cr_assert_eq(report.budget_bytes, budget);
		cr_assert_gt(report.range_count, 2);
		cr_assert_eq(report.temp_bytes > 0, plan == RUNG_ROW_ORDER_PARTITION);
		cr_assert_eq(report.rows_bytes_read,
		             plan == RUNG_ROW_ORDER_PASSES
		                     ? report.range_count * report.feature_bytes
		             : plan == RUNG_ROW_ORDER_PARTITION ? 2 * report.feature_bytes
		                                                : report.feature_bytes);
	}
}

/* The budget decides which data stays in files. These tests force it, so that small graphs stay in
 * files. */
Test(stage_budget, a_graph_that_stays_in_files_gives_the_same_files)
{
	static const enum rung_score_method methods[] = { RUNG_SCORE_DEGREE, RUNG_SCORE_EXPECTED,
		                                          RUNG_SCORE_BLEND };

	for (size_t i = 0; i < RUNG__ARRAY_LEN(methods); i++) {
		opts.score.method = methods[i];
		opts.graph.undirected = i == 1;
		opts.graph.dedup = i == 2;
		rung__stage_graph_in_files = false;
		stage_reference(2000, 8);
		rung__stage_graph_in_files = true;
		cr_assert_eq(stage_by(RUNG_ROW_ORDER_AUTO, 300).graph_in_files, 1);
	}
}

/* Features without a graph: ranked by the train split, otherwise in their order. */
Test(stage_budget, without_a_graph_all_plans_give_the_same_files)
{
	opts.graph.specs = NULL;
	opts.graph.spec_count = 0;
	for (int i = 0; i < 2; i++) {
		opts.score.method = i == 0 ? RUNG_SCORE_BLEND : RUNG_SCORE_EXPECTED;
		rung__stage_graph_in_files = false;
		stage_reference(2000, 8);
		rung__stage_graph_in_files = true;
		cr_assert_eq(stage_by(RUNG_ROW_ORDER_AUTO, 300).edge_count, 0);
	}
	opts.graph.dedup = 1;
	opts.force = 1;
	cr_assert_eq(rung_stage(&opts, NULL), RUNG_E_INVAL);
	cr_assert_not_null(strstr(rung_last_error(), "dedup needs edges"));
}

Test(stage_budget, a_graph_that_does_not_fit_stays_in_files)
{
	struct rung_stage_report report;

	opts.score.method = RUNG_SCORE_DEGREE;
	stage_reference(2000, 8);
	cr_assert_eq(support_sources(dir, 2000, 2000000, 8, 9), 0);
	opts.memory_bytes = 1;
	/* the rows, then the score, report the memory that they need */
	for (int tries = 0; tries < 3 && rung_stage(&opts, &report) < 0; tries++)
		opts.memory_bytes = rung_last_error_min_bytes();
	cr_assert(opens(out), "%s", rung_last_error());
	cr_assert_eq(report.graph_in_files, 1);
}

/* A sparse file of edges has a length but occupies no space. */
Test(stage_budget, space_for_sorting_a_graph_in_files_is_checked_first)
{
	static char spec[400];
	const unsigned long long edge_count = 1ull << 40;

	snprintf(spec, sizeof(spec), "%s/edges.bin", dir);
	cr_assert_eq(support_write_file(spec, "", 0), 0);
	cr_assert_eq(truncate(spec, (off_t)(8 * edge_count)), 0);
	snprintf(spec, sizeof(spec), "raw:%s/edges.bin,u32,2x%llu", dir, edge_count);
	specs[0] = spec;
	opts.memory_bytes = PLENTY;
	fails(RUNG_E_NOSPC, "are free; free");
}

Test(stage_budget, too_little_memory_is_reported_with_the_least_that_works)
{
	cr_assert_eq(support_sources(dir, 3000, 1000000, 500, 9), 0);
	opts.memory_bytes = 1;
	fails(RUNG_E_INVAL, "--memory");
	opts.memory_bytes = rung_last_error_min_bytes();
	fails(RUNG_E_INVAL, "too small for this score"); /* the score reports its own minimum */
	opts.memory_bytes = rung_last_error_min_bytes();
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	support_remove(out);
	opts.row_order = (enum rung_row_order)9;
	fails(RUNG_E_INVAL, "row order 9 is not a valid value");
}

/* With a graph in place and a given score, memory is needed only for rows and ranks. */
Test(stage_budget, the_reported_minimum_is_enough_for_every_plan)
{
	static float score[3000];
	char path[400];

	cr_assert_eq(support_sources(dir, 3000, 20, 500, 9), 0);
	for (unsigned v = 0; v < 3000; v++)
		score[v] = (float)(v * 7919 % 3000);
	snprintf(path, sizeof(path), "%s/score.npy", dir);
	cr_assert_eq(support_write_npy(path, "<f4", "(3000,)", score, sizeof(score)), 0);
	opts.score_spec = path;
	for (int plan = RUNG_ROW_ORDER_AUTO; plan <= RUNG_ROW_ORDER_GATHER; plan++) {
		opts.row_order = (enum rung_row_order)plan;
		opts.memory_bytes = 1;
		fails(RUNG_E_INVAL, "--memory");
		opts.memory_bytes = rung_last_error_min_bytes();
		cr_assert_gt(opts.memory_bytes, 1);
		cr_assert_eq(rung_stage(&opts, NULL), 0, "%s: %s",
		             rung_row_order_name(opts.row_order), rung_last_error());
		support_remove(out);
	}
}

/* The checksums of many blocks are part of the budget, too. */
Test(stage_budget, checksums_are_counted_in_the_budget_of_a_dry_run)
{
	const uint64_t vertices = 1 << 20, row_bytes = 256;
	char spec[400], sparse[300];
	struct rung_stage_report report;

	snprintf(sparse, sizeof(sparse), "%s/sparse", dir);
	cr_assert_eq(support_sources(dir, vertices, 10, 1, 9), 0);
	cr_assert_eq(support_write_file(sparse, "", 0), 0);
	cr_assert_eq(truncate(sparse, (off_t)(vertices * row_bytes)), 0);
	snprintf(spec, sizeof(spec), "raw:%s,u8,%lux%lu", sparse, (unsigned long)vertices,
	         (unsigned long)row_bytes);
	opts.features = spec;
	opts.dry_run = 1;
	for (int plan = RUNG_ROW_ORDER_PASSES; plan <= RUNG_ROW_ORDER_GATHER; plan++) {
		opts.row_order = (enum rung_row_order)plan;
		opts.memory_bytes = 64 << 20;
		cr_assert_eq(rung_stage(&opts, &report), 0, "%s", rung_last_error());
		cr_assert_leq(report.memory_bytes, report.budget_bytes, "%s",
		              rung_row_order_name(report.row_order));
	}
}

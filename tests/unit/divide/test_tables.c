/* SPDX-License-Identifier: Apache-2.0 */
/* One budget for several tables: the division of curves is compared with all divisions, that of
 * datasets with a sweep, and every plan made with its result. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "dataset.h"
#include "expect_error.h"
#include "base/random.h"
#include "divide/curve.h"
#include "rung/rung.h"

/* ---- curves ---- */

#define CURVES 3u
#define POINTS 14u

struct example {
	struct rung__curve curve[CURVES];
	const struct rung__curve *list[CURVES];
	uint64_t bytes[CURVES][POINTS];
	double hits[CURVES][POINTS];
};

static double real(struct rung__rng *rng)
{
	return (double)rung__rng_below(rng, 1u << 20) / (1u << 20);
}

/* @param concave  rows of one width per curve, hottest first; else any widths in any order */
static void draw(struct rung__rng *rng, bool concave, struct example *ex)
{
	for (unsigned c = 0; c < CURVES; c++) {
		const uint64_t width = 1 + rung__rng_below(rng, 9);
		double accesses = 1;

		ex->bytes[c][0] = rung__rng_below(rng, 20);
		ex->hits[c][0] = 0;
		for (unsigned p = 1; p < POINTS; p++) {
			accesses = concave ? accesses * (0.5 + real(rng) / 2) : real(rng);
			ex->bytes[c][p] = ex->bytes[c][p - 1] +
			                  (concave ? width : 1 + rung__rng_below(rng, 9));
			ex->hits[c][p] = ex->hits[c][p - 1] + accesses;
		}
		ex->curve[c] = (struct rung__curve){ .bytes = ex->bytes[c],
			                             .hits = ex->hits[c],
			                             .count = POINTS,
			                             .cost = 1 + 4 * real(rng) };
		ex->list[c] = &ex->curve[c];
	}
}

static double value(const struct example *ex, const unsigned point[CURVES])
{
	double sum = 0;

	for (unsigned c = 0; c < CURVES; c++)
		sum += ex->curve[c].cost * ex->hits[c][point[c]];
	return sum;
}

/* The best of all divisions. */
static double best_of_all(const struct example *ex, uint64_t budget)
{
	double best = 0;
	unsigned p[CURVES];

	for (p[0] = 0; p[0] < POINTS; p[0]++)
		for (p[1] = 0; p[1] < POINTS; p[1]++)
			for (p[2] = 0; p[2] < POINTS; p[2]++)
				if (ex->bytes[0][p[0]] + ex->bytes[1][p[1]] + ex->bytes[2][p[2]] <=
				    budget)
					best = fmax(best, value(ex, p));
	return best;
}

/* The division, as points. @return its bytes */
static uint64_t divided(const struct example *ex, uint64_t budget, unsigned point[CURVES])
{
	uint64_t bytes[CURVES], sum = 0;

	cr_assert_eq(rung__curves_divide(ex->list, CURVES, budget, bytes), 0);
	for (unsigned c = 0; c < CURVES; c++) {
		for (point[c] = 0; ex->bytes[c][point[c]] != bytes[c]; point[c]++)
			cr_assert_lt(point[c], POINTS - 1, "not a point");
		sum += bytes[c];
	}
	return sum;
}

static uint64_t bytes_of(const struct example *ex, unsigned point)
{
	uint64_t sum = 0;

	for (unsigned c = 0; c < CURVES; c++)
		sum += ex->bytes[c][point];
	return sum;
}

/* The most that a point of any curve adds: a block. */
static double block_of(const struct example *ex)
{
	double most = 0;

	for (unsigned c = 0; c < CURVES; c++)
		for (unsigned p = 1; p < POINTS; p++)
			most = fmax(most,
			            ex->curve[c].cost * (ex->hits[c][p] - ex->hits[c][p - 1]));
	return most;
}

Test(tables, rows_in_the_order_of_their_scores_are_divided_best_up_to_a_block)
{
	struct rung__rng rng = { 5 };
	struct example ex;

	for (unsigned round = 0; round < 300; round++) {
		draw(&rng, true, &ex);
		for (uint64_t budget = bytes_of(&ex, 0); budget < bytes_of(&ex, POINTS - 1);
		     budget += 1 + rung__rng_below(&rng, 7)) {
			unsigned point[CURVES];
			const double best = best_of_all(&ex, budget);

			cr_assert_leq(divided(&ex, budget, point), budget);
			cr_assert_geq(value(&ex, point), best - block_of(&ex), "round %u", round);
		}
	}
}

Test(tables, equal_widths_are_divided_exactly_best)
{
	struct rung__rng rng = { 6 };
	struct example ex;

	for (unsigned round = 0; round < 100; round++) {
		draw(&rng, true, &ex);
		for (unsigned c = 0; c < CURVES; c++)
			for (unsigned p = 0; p < POINTS; p++)
				ex.bytes[c][p] = 4 * p;
		for (uint64_t budget = 0; budget <= bytes_of(&ex, POINTS - 1); budget += 3) {
			unsigned point[CURVES];

			divided(&ex, budget, point);
			cr_assert_float_eq(value(&ex, point), best_of_all(&ex, budget), 1e-9);
		}
	}
}

/* In another order a step can be the whole curve, so the bound is not a block; on average little is
 * lost. */
Test(tables, rows_in_any_order_are_divided_nearly_best)
{
	struct rung__rng rng = { 7 };
	double sum = 0, best_sum = 0;
	struct example ex;

	for (unsigned round = 0; round < 300; round++) {
		draw(&rng, false, &ex);
		for (uint64_t budget = bytes_of(&ex, 0); budget < bytes_of(&ex, POINTS - 1);
		     budget += 1 + rung__rng_below(&rng, 7)) {
			unsigned point[CURVES];
			const double best = best_of_all(&ex, budget);

			cr_assert_leq(divided(&ex, budget, point), budget);
			cr_assert_geq(value(&ex, point), best - 3 * block_of(&ex));
			sum += value(&ex, point);
			best_sum += best;
		}
	}
	cr_assert_gt(sum, 0.97 * best_sum);
}

Test(tables, a_hot_end_that_does_not_fit_takes_nothing)
{
	/* the accesses of the first curve are all in its last point */
	struct example ex = { .bytes = { { 0, 10, 20 }, { 0, 1, 2 }, { 0, 1, 2 } },
		              .hits = { { 0, 0, 100 }, { 0, 2, 3 }, { 0, 1, 1.5 } } };
	unsigned point[CURVES];

	for (unsigned c = 0; c < CURVES; c++) {
		ex.curve[c] = (struct rung__curve){
			.bytes = ex.bytes[c], .hits = ex.hits[c], .count = 3, .cost = 1
		};
		ex.list[c] = &ex.curve[c];
	}
	divided(&ex, 20, point);
	cr_assert(point[0] == 2 && point[1] == 0 && point[2] == 0);
	divided(&ex, 19, point);
	cr_assert(point[1] == 2 && point[2] == 2);
	divided(&ex, 3, point);
	cr_assert(point[0] == 0 && point[1] == 2 && point[2] == 1);
}

/* ---- datasets ---- */

#define TABLES   3u
#define VERTICES 3000u

static const uint64_t widths[TABLES] = { 40, 600, 200 };
static char parents[TABLES][200];
static struct rung_dataset *datasets[TABLES];
static float *scores[TABLES];

static void setup(void)
{
	for (unsigned t = 0; t < TABLES; t++) {
		char dir[sizeof(parents[t]) + 4];

		cr_assert_eq(support_tempdir(parents[t], sizeof(parents[t])), 0);
		cr_assert_eq(support_dataset(parents[t], VERTICES, 9000 * (t + 1), widths[t], 5), 0,
		             "%s", rung_last_error());
		snprintf(dir, sizeof(dir), "%.*s/ds", (int)sizeof(parents[t]) - 1, parents[t]);
		cr_assert_eq(rung_dataset_open(dir, &datasets[t]), 0, "%s", rung_last_error());
		cr_assert_eq(
			rung_dataset_load_array(datasets[t], "score", NULL, (void **)&scores[t]),
			0);
	}
}

static void teardown(void)
{
	for (unsigned t = 0; t < TABLES; t++) {
		rung_free(scores[t]);
		rung_dataset_close(datasets[t]);
		support_remove(parents[t]);
	}
}

TestSuite(tables, .init = setup, .fini = teardown);

static struct rung_plan_opts plan_opts(uint64_t host_bytes)
{
	struct rung_plan_opts opts = RUNG_PLAN_OPTS_INIT;

	opts.device = RUNG_DEVICE_CPU;
	opts.host_bytes = host_bytes;
	opts.queue_depth = 1; /* few slots, whose number does not depend on the budget */
	return opts;
}

/* The rows of all datasets, and with `lists` their lists too. */
static size_t list_tables(struct rung_plan_table *tables, bool lists)
{
	for (unsigned t = 0; t < TABLES * (lists ? 2u : 1u); t++)
		tables[t] = (struct rung_plan_table){ .size = sizeof(tables[t]),
			                              .ds = datasets[t % TABLES],
			                              .lists = t >= TABLES };
	return TABLES * (lists ? 2u : 1u);
}

/* Bytes in memory of a plan of one table alone, or of its lists. */
static uint64_t planned(const struct rung_plan_table *table, uint64_t host_bytes,
                        uint64_t structure_bytes)
{
	/* the rows that the lists' dataset also has are another table */
	struct rung_plan_opts opts = plan_opts(table->lists ? RUNG_BYTES_MAX : host_bytes);
	struct rung_plan *plan;
	uint64_t bytes;

	opts.structure_bytes = structure_bytes;
	cr_assert_eq(rung_plan_create(table->ds, &opts, &plan), 0, "%s", rung_last_error());
	bytes = rung_plan_tier(table->lists ? rung_plan_structure(plan) : plan, 0)->bytes;
	rung_plan_destroy(plan);
	return bytes;
}

/* Saved time of the rows that a budget keeps in memory; 0 below the least. */
static double saved(unsigned t, const struct rung_plan_table *table, uint64_t bytes)
{
	double sum = 0;
	uint64_t rows;

	if (bytes < table->least_bytes)
		return 0;
	rows = planned(table, bytes, 0) / widths[t];
	for (uint64_t r = 0; r < rows; r++)
		sum += 1 - exp(-(double)scores[t][r]);
	return sum * table->read_ns;
}

static uint64_t whole_bytes(const struct rung_plan_table *tables, size_t count)
{
	uint64_t sum = 0;

	for (size_t t = 0; t < count; t++)
		sum += tables[t].row_bytes * tables[t].row_count;
	return sum;
}

Test(tables, no_split_in_a_sweep_saves_more_time)
{
	struct rung_plan_table tables[TABLES];
	const size_t count = list_tables(tables, false);

	for (uint64_t budget = 150000; budget < 2500000; budget += 400000) {
		const struct rung_plan_opts opts = plan_opts(budget);
		double joint = 0, best = 0;
		uint64_t sum = 0;

		cr_assert_eq(rung_plan_tables(&opts, tables, count), 0, "%s", rung_last_error());
		for (unsigned t = 0; t < TABLES; t++) {
			sum += tables[t].bytes;
			joint += saved(t, &tables[t], tables[t].bytes);
			cr_assert_float_eq(tables[t].hits * tables[t].read_ns,
			                   saved(t, &tables[t], tables[t].bytes),
			                   1e-3 * tables[t].read_ns * tables[t].accesses);
		}
		cr_assert_leq(sum, budget);
		for (unsigned i = 0; i <= 24; i++)
			for (unsigned j = 0; i + j <= 24; j++) {
				const uint64_t one = budget * i / 24, two = budget * j / 24,
					       three = budget - one - two;

				if (one < tables[0].least_bytes || two < tables[1].least_bytes ||
				    three < tables[2].least_bytes)
					continue;
				best = fmax(best, saved(0, &tables[0], one) +
				                          saved(1, &tables[1], two) +
				                          saved(2, &tables[2], three));
			}
		cr_assert_geq(joint, best * (1 - 1e-3), "budget %d: %g, but a split %g",
		              (int)budget, joint, best);
	}
}

Test(tables, plans_with_the_result_hold_what_it_states)
{
	struct rung_plan_table tables[2 * TABLES];
	const size_t count = list_tables(tables, true);

	for (uint64_t budget = 250000; budget < 4000000; budget += 500000) {
		const struct rung_plan_opts opts = plan_opts(budget);
		uint64_t sum = 0;

		cr_assert_eq(rung_plan_tables(&opts, tables, count), 0, "%s", rung_last_error());
		for (size_t t = 0; t < count; t++) {
			sum += tables[t].bytes;
			cr_assert_eq(planned(&tables[t], tables[t].host_bytes,
			                     tables[t].structure_bytes),
			             tables[t].resident_bytes, "table %zu, budget %d", t,
			             (int)budget);
			cr_assert_leq(tables[t].hits, tables[t].accesses * (1 + 1e-12));
			if (tables[t].bytes == tables[t].row_bytes * tables[t].row_count)
				cr_assert_float_eq(tables[t].hits, tables[t].accesses, 1e-9);
		}
		cr_assert_leq(sum, budget);
	}
}

Test(tables, lists_that_lack_the_rest_of_a_block_can_be_planned)
{
	struct rung_plan_table tables[2 * TABLES];
	struct rung_plan_opts opts = plan_opts(RUNG_BYTES_MAX);
	uint64_t whole;

	list_tables(tables, true);
	cr_assert_eq(rung_plan_tables(&opts, &tables[TABLES], 1), 0, "%s", rung_last_error());
	whole = tables[TABLES].bytes;
	for (opts.host_bytes = whole - 600; opts.host_bytes <= whole; opts.host_bytes++) {
		cr_assert_eq(rung_plan_tables(&opts, &tables[TABLES], 1), 0, "%s",
		             rung_last_error());
		cr_assert_leq(tables[TABLES].bytes, opts.host_bytes);
		cr_assert_eq(planned(&tables[TABLES], 0, tables[TABLES].structure_bytes),
		             tables[TABLES].resident_bytes, "%d bytes less",
		             (int)(whole - opts.host_bytes));
	}
}

Test(tables, a_budget_for_everything_is_not_spent_beyond_it)
{
	const uint64_t budgets[] = { RUNG_BYTES_MAX, 1u << 30 };

	for (size_t i = 0; i < RUNG__ARRAY_LEN(budgets); i++) {
		struct rung_plan_table tables[2 * TABLES];
		const size_t count = list_tables(tables, true);
		const struct rung_plan_opts opts = plan_opts(budgets[i]);
		uint64_t sum = 0;

		cr_assert_eq(rung_plan_tables(&opts, tables, count), 0, "%s", rung_last_error());
		for (size_t t = 0; t < count; t++) {
			sum += tables[t].bytes;
			cr_assert_float_eq(tables[t].hits, tables[t].accesses, 1e-9);
		}
		cr_assert_eq(sum, whole_bytes(tables, count));
	}
}

Test(tables, one_table_gets_the_whole_budget)
{
	struct rung_plan_table tables[TABLES];
	const struct rung_plan_opts opts = plan_opts(500000);

	list_tables(tables, false);
	cr_assert_eq(rung_plan_tables(&opts, &tables[1], 1), 0, "%s", rung_last_error());
	cr_assert_eq(tables[1].resident_bytes, planned(&tables[1], 500000, 0));
	cr_assert_gt(tables[1].hits, 0);
}

Test(tables, a_budget_too_small_names_the_table_and_the_least_that_works)
{
	struct rung_plan_table tables[2 * TABLES];
	const size_t count = list_tables(tables, true);
	struct rung_plan_opts opts = plan_opts(RUNG_BYTES_NONE);

	assert_error(rung_plan_tables(&opts, tables, count), RUNG_E_INVAL, "of which the ");
	cr_assert(strstr(rung_last_error(), "a host budget of 0 bytes"));
	opts.host_bytes = rung_last_error_min_bytes() - 1;
	assert_error(rung_plan_tables(&opts, tables, count), RUNG_E_INVAL, "give at least");
	cr_assert_eq(rung_last_error_min_bytes(), opts.host_bytes + 1);
	opts.host_bytes++;
	cr_assert_eq(rung_plan_tables(&opts, tables, count), 0, "%s", rung_last_error());
	opts.host_bytes = 1;
	assert_error(rung_plan_tables(&opts, &tables[1], 1), RUNG_E_INVAL, parents[1]);
}

Test(tables, the_default_budget_is_that_of_a_plan)
{
	struct rung_plan_table tables[TABLES];
	const size_t count = list_tables(tables, false);
	const struct rung_plan_opts opts = plan_opts(0);

	cr_assert_eq(rung_plan_tables(&opts, tables, count), 0, "%s", rung_last_error());
	for (size_t t = 0; t < count; t++)
		cr_assert_eq(tables[t].bytes, widths[t] * VERTICES); /* half of the free memory */
}

Test(tables, slow_reads_of_wide_rows_count_more)
{
	struct rung_plan_table tables[TABLES];
	const size_t count = list_tables(tables, false);
	struct rung_plan_opts opts = plan_opts(400000);
	struct rung_profile profile;
	uint64_t before;

	cr_assert_eq(rung_plan_tables(&opts, tables, count), 0, "%s", rung_last_error());
	cr_assert_float_eq(tables[0].read_ns, tables[1].read_ns, 1e-9); /* of one sector */
	before = tables[1].bytes;
	rung_profile_assume(&profile);
	profile.reads_count = 2; /* large reads take a hundred times as long as small ones */
	profile.reads[0] = (struct rung_profile_reads){ 0, 512, 1, 1e6 };
	profile.reads[1] = (struct rung_profile_reads){ 0, 1024, 1, 1e4 };
	opts.profile = &profile;
	cr_assert_eq(rung_plan_tables(&opts, tables, count), 0, "%s", rung_last_error());
	if (tables[0].read_ns < tables[1].read_ns) /* not if sectors have 4096 bytes */
		cr_assert_gt(tables[1].bytes, before);
}

Test(tables, wrong_tables_are_refused)
{
	struct rung_plan_table tables[TABLES];
	struct rung_plan_opts opts = plan_opts(1 << 20);

	list_tables(tables, false);
	assert_error(rung_plan_tables(&opts, tables, 0), RUNG_E_INVAL, "no tables");
	opts.cache_share = 2;
	assert_error(rung_plan_tables(&opts, tables, TABLES), RUNG_E_INVAL, "cache_share");
	opts.cache_share = 0;
	tables[2].size--;
	assert_error(rung_plan_tables(&opts, tables, TABLES), RUNG_E_ABI, "rung_plan_table");
}

Test(tables, every_failed_allocation_is_reported)
{
	const struct rung_plan_opts opts = plan_opts(400000);

	for (int64_t limit = 0;; limit++) {
		struct rung_plan_table tables[2 * TABLES];
		const size_t count = list_tables(tables, true);
		int rc;

		rung__alloc_limit(limit);
		rc = rung_plan_tables(&opts, tables, count);
		rung__alloc_limit(-1);
		if (rc == 0)
			break;
		cr_assert_eq(rc, RUNG_E_NOMEM, "%s", rung_last_error());
	}
}

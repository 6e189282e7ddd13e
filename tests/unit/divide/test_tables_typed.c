/* SPDX-License-Identifier: Apache-2.0 */
/* One budget for the parts of a typed dataset: types with and without rows, lists of relations, and
 * edge rows, which are in the order of the edges. */
#include "expect_error.h"
#include "typed_fixture.h"

#define PARTS (TYPES + RELATIONS + 1)

TestSuite(tables_typed, .init = setup_typed, .fini = teardown);

static struct rung_dataset *parts[PARTS], *typed;

static void open_parts(struct rung_plan_table *tables)
{
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	cr_assert_eq(rung_dataset_open(out, &typed), 0, "%s", rung_last_error());
	for (size_t i = 0; i < PARTS; i++) {
		const char *path = part_of(out, rung_dataset_info(typed), i);

		cr_assert_eq(rung_dataset_open(path, &parts[i]), 0, "%s", rung_last_error());
		tables[i] = (struct rung_plan_table){ .size = sizeof(tables[i]),
			                              .ds = parts[i],
			                              .lists = i >= TYPES && i < PARTS - 1 };
	}
}

static void close_parts(void)
{
	for (size_t i = 0; i < PARTS; i++)
		rung_dataset_close(parts[i]);
	rung_dataset_close(typed);
}

/* Plan a part as the result says, and open its structure if it has lists. */
static void use(const struct rung_plan_table *table)
{
	struct rung_plan_opts plan_opts = RUNG_PLAN_OPTS_INIT;
	struct rung_structure *structure;
	struct rung_plan *plan;

	plan_opts.device = RUNG_DEVICE_CPU;
	plan_opts.host_bytes = table->host_bytes;
	plan_opts.structure_bytes = table->structure_bytes;
	cr_assert_eq(rung_plan_create(table->ds, &plan_opts, &plan), 0, "%s", rung_last_error());
	cr_assert_eq(rung_plan_tier(plan, 0)->bytes, table->lists ? 0 : table->resident_bytes);
	if (table->lists) {
		cr_assert_eq(rung_plan_tier(rung_plan_structure(plan), 0)->bytes,
		             table->resident_bytes);
		cr_assert_eq(rung_structure_open(table->ds, plan, NULL, &structure), 0, "%s",
		             rung_last_error());
		rung_structure_close(structure);
	}
	rung_plan_destroy(plan);
}

Test(tables_typed, parts_of_every_kind_get_what_they_need)
{
	struct rung_plan_opts plan_opts = RUNG_PLAN_OPTS_INIT;
	struct rung_plan_table tables[PARTS];
	struct rung_profile profile;

	open_parts(tables);
	rung_profile_assume(&profile);
	plan_opts.device = RUNG_DEVICE_CPU;
	plan_opts.host_bytes = 1 << 21;
	plan_opts.profile = &profile;
	cr_assert_eq(rung_plan_tables(&plan_opts, tables, PARTS), 0, "%s", rung_last_error());
	for (size_t i = 0; i < PARTS; i++) {
		cr_assert_float_eq(tables[i].hits, tables[i].accesses, 1e-9);
		use(&tables[i]);
	}
	for (size_t i = 0; i < TYPES; i++)
		cr_assert_eq(tables[i].bytes, rung_dataset_info(parts[i])->feature_bytes);
	cr_assert_eq(tables[VENUE].bytes, 0);
	cr_assert_eq(tables[TYPES + WRITES_PAPER].bytes, (WRITES * 4 + 511) / 512 * 512);
	cr_assert_eq(tables[PARTS - 1].bytes, WRITES * EDGE_BYTES);
	close_parts();
}

Test(tables_typed, small_tables_are_needed_as_a_whole)
{
	struct rung_plan_opts plan_opts = RUNG_PLAN_OPTS_INIT;
	struct rung_plan_table tables[PARTS];

	open_parts(tables);
	plan_opts.device = RUNG_DEVICE_CPU;
	plan_opts.host_bytes = 1000;
	assert_error(rung_plan_tables(&plan_opts, tables, PARTS), RUNG_E_INVAL, " need most, ");
	plan_opts.host_bytes = rung_last_error_min_bytes();
	cr_assert_eq(rung_plan_tables(&plan_opts, tables, PARTS), 0, "%s", rung_last_error());
	/* fewer bytes than the slots for a part of it */
	cr_assert_eq(tables[TYPES + WRITES_PAPER].bytes, (WRITES * 4 + 511) / 512 * 512);
	cr_assert_eq(tables[TYPES + WRITES_PAPER].least_bytes, tables[TYPES + WRITES_PAPER].bytes);
	close_parts();
}

Test(tables_typed, the_typed_dataset_itself_and_parts_without_lists_are_refused)
{
	struct rung_plan_table tables[PARTS];

	open_parts(tables);
	tables[0].lists = 1;
	assert_error(rung_plan_tables(NULL, tables, PARTS), RUNG_E_INVAL, "has no neighbour lists");
	tables[0].lists = 0;
	tables[0].ds = typed;
	assert_error(rung_plan_tables(NULL, tables, PARTS), RUNG_E_INVAL, "has several types");
	close_parts();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* rung plan of a typed dataset: one or several budgets, each divided among the tables of all parts
 * by expected accesses per byte. No batches are sampled: the scores are the prediction. */
#include <stdlib.h>

#include "output/json.h"
#include "output/table.h"
#include "plan/plan_dataset.h"

/* The tables of a dataset, and their division for each budget. */
struct typed {
	struct rung_dataset *ds;
	struct rung_dataset **parts; /* [table_count] */
	const char **names;          /* [table_count] folders of the parts */
	struct rung_plan_table
		*tables; /* [budget_count + 1][table_count]; first, without a limit */
	size_t table_count;
	uint64_t whole_bytes, budgets[PLAN_BUDGETS_MAX];
	uint32_t budget_count;
};

int plan_is_typed(const char *dir)
{
	struct rung_dataset *ds;
	int typed;

	/* a folder that cannot be opened is reported by the plan of an untyped one */
	if (rung_dataset_open(dir, &ds) < 0)
		return 0;
	typed = rung_dataset_info(ds)->type_count > 0;
	rung_dataset_close(ds);
	return typed;
}

/* The first option that has no meaning for a typed dataset; NULL: none was given. */
static const char *refused(const struct plan_args *args)
{
	return args->sampled                 ? args->sampled
	       : args->store.structure_given ? args->store.structure_given
	       : args->store.device_option   ? args->store.device_option
	       : args->machines.machines     ? "machines"
	       : args->compute > 0           ? "compute"
	       : args->explain               ? "explain"
	       : args->svg                   ? "svg"
	       : args->store.quantize        ? "quantize"
	                                     : NULL;
}

static int add_table(struct typed *typed, const char *folder, int lists)
{
	const size_t idx = typed->table_count;
	char *path = NULL;
	int rc;

	if (asprintf(&path, "%s/%s", rung_dataset_dir(typed->ds), folder) < 0)
		return RUNG_E_NOMEM;
	rc = rung_dataset_open(path, &typed->parts[idx]);
	free(path);
	if (rc < 0)
		return rc;
	typed->names[idx] = folder;
	typed->tables[idx] = (struct rung_plan_table){ .size = sizeof(typed->tables[idx]),
		                                       .ds = typed->parts[idx],
		                                       .lists = lists };
	typed->table_count++;
	return 0;
}

/* Types without features have no bytes, so they are not listed. */
static int open_tables(const char *dir, struct typed *typed)
{
	const struct rung_dataset_info *info;
	int rc = rung_dataset_open(dir, &typed->ds);
	size_t most;

	if (rc < 0)
		return rc;
	info = rung_dataset_info(typed->ds);
	most = info->type_count + 2 * (size_t)info->relation_count;
	typed->parts = calloc(most, sizeof(struct rung_dataset *));
	typed->names = calloc(most, sizeof(*typed->names));
	typed->tables = calloc(most * (PLAN_BUDGETS_MAX + 1), sizeof(*typed->tables));
	if (!typed->parts || !typed->names || !typed->tables)
		return RUNG_E_NOMEM;
	for (uint32_t t = 0; t < info->type_count && rc == 0; t++) {
		if (info->types[t].has_features)
			rc = add_table(typed, info->types[t].folder, 0);
	}
	for (uint32_t r = 0; r < info->relation_count && rc == 0; r++) {
		rc = add_table(typed, info->relations[r].folder, 1);
		if (rc == 0 && info->relations[r].rows_folder)
			rc = add_table(typed, info->relations[r].rows_folder, 0);
	}
	return rc;
}

static struct rung_plan_table *tables_of(const struct typed *typed, uint32_t budget)
{
	return typed->tables + (budget + 1) * typed->table_count;
}

/* Bytes of all rows, to which a share such as "10%" refers: the folder above the parts has none. */
static uint64_t row_bytes(const struct typed *typed)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < typed->table_count; i++)
		sum += rung_dataset_info(typed->parts[i])->feature_bytes;
	return sum;
}

/* Divide a budget; one that is too small is left out of several. */
static int divide(struct typed *typed, const struct rung_plan_opts *opts, uint64_t bytes,
                  int several)
{
	struct rung_plan_table *tables = tables_of(typed, typed->budget_count);
	struct rung_plan_opts now = *opts;
	int rc;

	now.host_bytes = bytes;
	for (size_t i = 0; i < typed->table_count; i++)
		tables[i] = typed->tables[i];
	rc = rung_plan_tables(&now, tables, typed->table_count);
	if (rc == RUNG_E_INVAL && several && rung_last_error_min_bytes() > 0)
		return 0;
	if (rc == 0)
		typed->budgets[typed->budget_count++] = bytes;
	return rc;
}

/* Divide the budget of --host, or several up to all bytes. */
static int divide_all(const struct plan_args *args, const struct rung_profile *profile,
                      struct typed *typed)
{
	struct rung_plan_opts opts = RUNG_PLAN_OPTS_INIT;
	struct plan_answers answers = { .count = 0 };
	uint64_t budgets[PLAN_BUDGETS_MAX];
	uint32_t count = 1;
	int rc;

	tool_plan_opts(&args->store, row_bytes(typed), &opts);
	opts.profile = profile;
	opts.device = RUNG_DEVICE_CPU; /* each table would get all of a GPU */
	answers.given_bytes = budgets[0] = opts.host_bytes;
	opts.host_bytes = RUNG_BYTES_MAX;
	rc = rung_plan_tables(&opts, typed->tables, typed->table_count);
	for (size_t i = 0; i < typed->table_count; i++)
		typed->whole_bytes += typed->tables[i].bytes;
	answers.whole_bytes = typed->whole_bytes;
	if (args->sweep)
		count = plan_budgets(&answers, budgets);
	for (uint32_t i = 0; i < count && rc == 0; i++)
		rc = divide(typed, &opts, budgets[i], args->sweep);
	/* a share of few rows can be less than the slots need: it is rounded up */
	if (rc == RUNG_E_INVAL && args->store.host.share > 0 && rung_last_error_min_bytes() > 0)
		rc = divide(typed, &opts, rung_last_error_min_bytes(), 0);
	return rc;
}

/* ---- output ---- */

static double share(double part, double whole)
{
	return whole > 0 ? part / whole : 1;
}

static double resident_share(const struct rung_plan_table *table)
{
	/* the last block of lists is longer than its lists */
	return share((double)table->resident_bytes,
	             (double)table->row_count * (double)table->row_bytes);
}

static void sum_up(const struct typed *typed, uint32_t budget, double *hits, double *accesses,
                   uint64_t *bytes)
{
	const struct rung_plan_table *tables = tables_of(typed, budget);

	*hits = *accesses = 0;
	*bytes = 0;
	for (size_t i = 0; i < typed->table_count; i++) {
		*hits += tables[i].hits;
		*accesses += tables[i].accesses;
		*bytes += tables[i].bytes;
	}
}

static json_t *table_json(const struct rung_plan_table *table, const char *name)
{
	json_t *root = json_object();

	tool_json_set(root, "table", tool_json_text(name));
	tool_json_set(root, "lists", json_boolean(table->lists));
	tool_json_set(root, "rows", tool_json_u64(table->row_count));
	tool_json_set(root, "row_bytes", tool_json_u64(table->row_bytes));
	tool_json_set(root, "least_bytes", tool_json_u64(table->least_bytes));
	tool_json_set(root, "bytes", tool_json_u64(table->bytes));
	tool_json_set(root, "resident_bytes", tool_json_u64(table->resident_bytes));
	tool_json_set(root, "accesses_per_batch", tool_json_real(table->accesses));
	tool_json_set(root, "hits_per_batch", tool_json_real(table->hits));
	tool_json_set(root, "read_seconds", tool_json_real(table->read_ns / 1e9));
	return root;
}

static json_t *typed_json(const struct typed *typed)
{
	json_t *root = json_object(), *budgets = json_array();

	for (uint32_t b = 0; b < typed->budget_count; b++) {
		json_t *budget = json_object(), *tables = json_array();
		double hits, accesses;
		uint64_t bytes;

		sum_up(typed, b, &hits, &accesses, &bytes);
		for (size_t i = 0; i < typed->table_count; i++)
			tool_json_append(tables,
			                 table_json(&tables_of(typed, b)[i], typed->names[i]));
		tool_json_set(budget, "host_bytes",
		              typed->budgets[b] >= RUNG_BYTES_NONE
		                      ? json_null()
		                      : tool_json_u64(typed->budgets[b]));
		tool_json_set(budget, "used_bytes", tool_json_u64(bytes));
		tool_json_set(budget, "served_share", tool_json_real(share(hits, accesses)));
		tool_json_set(budget, "tables", tables);
		tool_json_append(budgets, budget);
	}
	tool_json_set(root, "whole_bytes", tool_json_u64(typed->whole_bytes));
	tool_json_set(root, "budgets", budgets);
	return root;
}

/* The division of one budget. */
static void print_one(const struct typed *typed)
{
	struct tool_table *table = tool_table_new("lrrrrrr");
	static const char *const heads[] = { "table",     "rows",         "row bytes", "bytes",
		                             "in memory", "hits a batch", "served" };
	double hits, accesses;
	uint64_t bytes;
	char text[TOOL_TEXT_BYTES];

	sum_up(typed, 0, &hits, &accesses, &bytes);
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
		tool_table_cell(table, "%s", heads[i]);
	for (size_t i = 0; i < typed->table_count; i++) {
		const struct rung_plan_table *row = &tables_of(typed, 0)[i];

		tool_table_cell(table, "%s", typed->names[i]);
		tool_table_cell(table, "%s", tool_count_text(text, (double)row->row_count));
		tool_table_cell(table, "%llu", (unsigned long long)row->row_bytes);
		tool_table_cell(table, "%s", tool_bytes_text(text, (double)row->bytes));
		tool_table_cell(table, "%.1f %%", 100 * resident_share(row));
		tool_table_cell(table, "%.3g", row->hits);
		tool_table_cell(table, "%.1f %%", 100 * share(row->hits, row->accesses));
	}
	tool_table_cell(table, "total");
	tool_table_cell(table, "%s", "");
	tool_table_cell(table, "%s", "");
	tool_table_cell(table, "%s", tool_bytes_text(text, (double)bytes));
	tool_table_cell(table, "%s", "");
	tool_table_cell(table, "%.3g", hits);
	tool_table_cell(table, "%.1f %%", 100 * share(hits, accesses));
	tool_table_print(table);
}

/* Several budgets are columns, with the share of each table in memory. */
static void print_several(const struct typed *typed)
{
	char text[TOOL_TEXT_BYTES], columns[PLAN_BUDGETS_MAX + 2] = "l";
	struct tool_table *table;

	for (uint32_t b = 0; b < typed->budget_count; b++)
		columns[b + 1] = 'r';
	table = tool_table_new(columns);
	tool_table_cell(table, "in memory of --host");
	for (uint32_t b = 0; b < typed->budget_count; b++)
		tool_table_cell(table, "%s", tool_bytes_text(text, (double)typed->budgets[b]));
	for (size_t i = 0; i < typed->table_count; i++) {
		tool_table_cell(table, "%s", typed->names[i]);
		for (uint32_t b = 0; b < typed->budget_count; b++)
			tool_table_cell(table, "%.1f %%",
			                100 * resident_share(&tables_of(typed, b)[i]));
	}
	tool_table_cell(table, "served");
	for (uint32_t b = 0; b < typed->budget_count; b++) {
		double hits, accesses;
		uint64_t bytes;

		sum_up(typed, b, &hits, &accesses, &bytes);
		tool_table_cell(table, "%.1f %%", 100 * share(hits, accesses));
	}
	tool_table_print(table);
}

int plan_typed_run(const char *name, const struct plan_args *args)
{
	struct rung_profile *profile = NULL;
	struct typed typed = { 0 };
	const char *option = refused(args);
	int rc, code = TOOL_DONE;

	if (option)
		return tool_error(name, TOOL_USAGE,
		                  "--%s: %s has several types, whose budget is divided by scores; "
		                  "omit it",
		                  option, args->dir);
	rc = open_tables(args->dir, &typed);
	if (rc == 0 && args->store.profile)
		rc = tool_profile_load(args->store.profile, &profile);
	if (rc == 0)
		rc = divide_all(args, profile, &typed);
	if (rc < 0)
		code = tool_fail(name, rc);
	else if (args->common.json)
		code = tool_json_print(name, typed_json(&typed)) < 0 ? TOOL_FAILED : TOOL_DONE;
	else if (args->sweep)
		print_several(&typed);
	else
		print_one(&typed);
	for (size_t i = 0; i < typed.table_count; i++)
		rung_dataset_close(typed.parts[i]);
	rung_dataset_close(typed.ds);
	free(typed.parts);
	free(typed.names);
	free(typed.tables);
	free(profile);
	return code;
}

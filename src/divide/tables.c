/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rung_plan_tables(): one budget for several tables. Every table gets what it needs at least; the
 * rest is divided by curve_divide.c. Curves have points at some distance, so bytes are left that
 * reach no next point: they go to the table that gains most, if the plan keeps more rows with them.
 */
#include <stdio.h>

#include "dataset/dataset.h"
#include "divide/curve.h"

/* What a call needs. */
struct tables {
	struct rung_plan_opts opts;
	struct rung__divided *divided; /* [count] */
	const struct rung__curve **curves;
	uint64_t *bytes; /* [count] the division */
	size_t count;
	uint64_t host_bytes; /* the budget, with its default filled in */
};

/* A number of bytes would be that of each table. With all bytes for the cache, tables get no more
 * than their least, because the division counts rows. */
static int check_cache(const struct rung_plan_opts *opts)
{
	char bytes[24] = "all";

	if (opts->cache_bytes == 0 || opts->cache_bytes == RUNG_BYTES_NONE)
		return 0;
	if (opts->cache_bytes != RUNG_BYTES_MAX)
		snprintf(bytes, sizeof(bytes), "%" PRIu64, opts->cache_bytes);
	return rung__fail(RUNG_E_INVAL,
	                  "cache of %s bytes: each table has a cache; give a share, such as 25%%",
	                  bytes);
}

static int check_table(const struct rung_plan_table *table)
{
	if (table->size != sizeof(*table))
		return rung__fail(RUNG_E_ABI,
		                  "rung_plan_table: size %zu; set it to %zu for this version",
		                  table->size, sizeof(*table));
	return rung__dataset_needs(table->ds, table->lists ? RUNG__NEEDS_LISTS : 0);
}

/* The default of the budget is that of a plan. */
static int find_budget(struct tables *tables, const struct rung_dataset *ds)
{
	struct rung_plan_opts opts = tables->opts;
	struct rung_plan *plan;
	int rc;

	tables->host_bytes = opts.host_bytes == RUNG_BYTES_NONE ? 0 : opts.host_bytes;
	if (opts.host_bytes != 0)
		return 0;
	opts.structure_bytes = 0;
	rc = rung_plan_create(ds, &opts, &plan);
	if (rc < 0)
		return rc;
	tables->host_bytes = plan->bytes.host;
	rung_plan_destroy(plan);
	return 0;
}

/* Every table must get its least. The message names the table that needs most. */
static int check_budget(const struct tables *tables)
{
	uint64_t least = 0;
	size_t most = 0;

	for (size_t i = 0; i < tables->count; i++) {
		least += tables->divided[i].curve.least;
		if (tables->divided[i].curve.least > tables->divided[most].curve.least)
			most = i;
	}
	if (least <= tables->host_bytes)
		return 0;
	return rung__fail_min_bytes(
		least,
		"a host budget of %" PRIu64 " bytes cannot hold the least of %zu tables, of which "
		"the %s of %s need most, %" PRIu64 " bytes; give at least %" PRIu64 " bytes",
		tables->host_bytes, tables->count,
		tables->divided[most].is_lists ? "lists" : "rows",
		rung_dataset_dir(tables->divided[most].ds), tables->divided[most].curve.least,
		least);
}

/* Accesses that table `idx` serves with `bytes`, as time. */
static int value_of(struct tables *tables, size_t idx, uint64_t bytes, double *value_out)
{
	struct rung__divided *table = &tables->divided[idx];
	uint64_t resident;
	const int rc = rung__divided_try(table, bytes, &resident);

	*value_out = rc == 0 ? table->curve.cost * rung__curve_hits(&table->curve, resident) : 0;
	return rc;
}

/* Give the bytes that reach no next point to the table that gains most with them. */
static int spend_rest(struct tables *tables)
{
	uint64_t left = tables->host_bytes, best_bytes = 0;
	double most = 0;
	size_t best = 0;

	for (size_t i = 0; i < tables->count; i++)
		left -= tables->bytes[i];
	for (size_t i = 0; i < tables->count; i++) {
		const uint64_t more =
			RUNG__MIN(left, tables->divided[i].curve.whole - tables->bytes[i]);
		double now, then;
		int rc = value_of(tables, i, tables->bytes[i], &now);

		if (rc == 0)
			rc = value_of(tables, i, tables->bytes[i] + more, &then);
		if (rc < 0)
			return rc;
		if (then - now > most) {
			most = then - now;
			best = i;
			best_bytes = more;
		}
	}
	tables->bytes[best] += best_bytes;
	return 0;
}

static int divide(struct tables *tables)
{
	int rc = check_budget(tables);

	for (size_t i = 0; i < tables->count && rc == 0; i++) {
		rc = rung__divided_curve(&tables->divided[i], tables->host_bytes);
		tables->curves[i] = &tables->divided[i].curve;
	}
	if (rc == 0)
		rc = rung__curves_divide(tables->curves, tables->count, tables->host_bytes,
		                         tables->bytes);
	/* without a limit everything fits, and nothing can be subtracted from the budget */
	if (rc == 0 && tables->host_bytes != RUNG_BYTES_MAX)
		rc = spend_rest(tables);
	return rc;
}

/* Write what a table gets. */
static int report(struct tables *tables, size_t idx, struct rung_plan_table *table)
{
	struct rung__divided *divided = &tables->divided[idx];
	const struct rung_dataset_info *info = rung_dataset_info(divided->ds);
	const bool all = tables->bytes[idx] == divided->curve.whole;
	/* a structure of all lists needs the rest of their last block too */
	const uint64_t most =
		table->lists && !all ? info->edge_count * info->index_bytes - 1 : UINT64_MAX;
	const uint64_t bytes = RUNG__MIN(tables->bytes[idx], most);
	const int rc = rung__divided_try(divided, bytes, &table->resident_bytes);

	/* 0 bytes would be the default of the options */
	table->bytes = bytes;
	table->host_bytes = bytes ? bytes : RUNG_BYTES_NONE;
	table->structure_bytes = !table->lists ? 0 : all ? RUNG_BYTES_MAX : bytes;
	table->row_bytes = divided->part ? divided->part->row_stride : 0;
	table->row_count = divided->part ? divided->part->vertex_count : 0;
	table->least_bytes = divided->curve.least;
	table->accesses = divided->curve.accesses;
	table->hits = rung__curve_hits(&divided->curve, table->resident_bytes);
	table->read_ns = divided->curve.cost;
	return rc;
}

int rung_plan_tables(const struct rung_plan_opts *opts, struct rung_plan_table *list, size_t count)
{
	struct tables tables = { .opts = RUNG_PLAN_OPTS_INIT, .count = count };
	int rc = rung__opts_copy_in(&tables.opts, sizeof(tables.opts), opts, "rung_plan_opts");

	if (rc == 0)
		rc = check_cache(&tables.opts);
	if (rc == 0 && count == 0)
		rc = rung__fail(RUNG_E_INVAL, "no tables to divide a budget among; give at least "
		                              "one");
	for (size_t i = 0; i < count && rc == 0; i++)
		rc = check_table(&list[i]);
	if (rc == 0)
		rc = find_budget(&tables, list[0].ds);
	if (rc < 0)
		return rc;
	tables.divided = rung__zalloc_array(count, sizeof(*tables.divided));
	tables.curves = rung__malloc_array(count, sizeof(*tables.curves));
	tables.bytes = rung__malloc_array(count, sizeof(*tables.bytes));
	if (!tables.divided || !tables.curves || !tables.bytes)
		rc = rung__fail(RUNG_E_NOMEM, "plan: out of memory");
	for (size_t i = 0; i < count && rc == 0; i++) {
		tables.divided[i].ds = list[i].ds;
		tables.divided[i].is_lists = list[i].lists != 0;
		rc = rung__divided_begin(&tables.divided[i], &tables.opts);
	}
	if (rc == 0)
		rc = divide(&tables);
	for (size_t i = 0; i < count && rc == 0; i++)
		rc = report(&tables, i, &list[i]);
	for (size_t i = 0; tables.divided && i < count; i++)
		rung__divided_fini(&tables.divided[i]);
	rung__free(tables.bytes);
	rung__free(tables.curves);
	rung__free(tables.divided);
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The division of the host budget that rung plan reports: what each part holds, serves, reads and
 * would save with one more MiB. */
#include <math.h>
#include <stdio.h>

#include "plan/plan_budget.h"
#include "output/json.h"
#include "output/table.h"

static uint64_t slots_bytes(const struct rung_plan *plan)
{
	const struct rung_plan_slots *slots = rung_plan_slots(plan);

	return slots->slot_count * slots->slot_bytes;
}

/* The tier "host" of a plan; NULL without one. */
static const struct rung_plan_tier *host_tier(const struct rung_plan *plan)
{
	/* the order ends with "host" and "nvme", with or without GPUs */
	return rung_plan_tier(plan, rung_plan_device(plan)->device == RUNG_DEVICE_CUDA ? 2 : 0);
}

uint64_t plan_used_bytes(const struct rung_plan *plan)
{
	const struct rung_plan *lists = rung_plan_structure(plan);
	uint64_t bytes = host_tier(plan)->bytes + slots_bytes(plan) + rung_plan_bytes(plan)->map +
	                 rung_plan_cache(plan)->bytes;

	if (lists)
		bytes += host_tier(lists)->bytes + slots_bytes(lists);
	return bytes;
}

void plan_parts_add(struct plan_parts *parts, const char *name, uint64_t bytes, double share,
                    double reads, double saving)
{
	parts->part[parts->count++] = (struct plan_part){ name, bytes, share, reads, saving };
}

static struct plan_parts parts_of(const struct plan_budget *budget)
{
	const struct rung_plan *plan = budget->plan, *lists = rung_plan_structure(plan);
	const struct rung_plan_traffic *traffic = budget->traffic;
	const struct rung_plan_division *division = budget->division;
	const int compared = division->batches > 0;
	const double batches = (double)traffic->batches_sampled;
	const double rows = traffic->rows_per_batch * batches;
	const struct rung_plan_tier *host = host_tier(plan);
	struct plan_parts parts = { .count = 0 };

	plan_parts_add(&parts, "rows", host->bytes, host->hit_share,
	               traffic->forecast.reads / batches,
	               compared ? division->rows_saved : (double)NAN);
	if (lists)
		plan_parts_add(&parts, "lists", host_tier(lists)->bytes,
		               1 - traffic->cold_blocks_per_epoch / traffic->blocks_per_epoch,
		               traffic->structure_forecast.reads / batches,
		               compared ? division->structure_saved : (double)NAN);
	plan_parts_add(&parts, "cache", rung_plan_cache(plan)->bytes,
	               traffic->forecast.cache_hits / rows, (double)NAN,
	               compared ? division->cache_saved : (double)NAN);
	plan_parts_add(&parts, "row slots", slots_bytes(plan), (double)NAN, (double)NAN,
	               (double)NAN);
	if (lists)
		plan_parts_add(&parts, "list slots", slots_bytes(lists), (double)NAN, (double)NAN,
		               (double)NAN);
	plan_parts_add(&parts, "map", rung_plan_bytes(plan)->map, (double)NAN, (double)NAN,
	               (double)NAN);
	return parts;
}

static uint64_t sum_of(const struct plan_parts *parts)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < parts->count; i++)
		sum += parts->part[i].bytes;
	return sum;
}

json_t *plan_parts_json(const struct plan_parts *parts, uint64_t host_bytes)
{
	json_t *root = json_object(), *array = json_array();

	for (size_t i = 0; i < parts->count; i++) {
		const struct plan_part *part = &parts->part[i];
		json_t *entry = json_object();

		tool_json_set(entry, "name", tool_json_text(part->name));
		tool_json_set(entry, "bytes", tool_json_u64(part->bytes));
		tool_json_set(entry, "share", tool_json_real(part->share));
		tool_json_set(entry, "reads_per_batch", tool_json_real(part->reads));
		tool_json_set(entry, "reads_saved_per_mib", tool_json_real(part->saving));
		tool_json_append(array, entry);
	}
	tool_json_set(root, "host_bytes",
	              host_bytes == RUNG_BYTES_MAX ? json_null() : tool_json_u64(host_bytes));
	tool_json_set(root, "used_bytes", tool_json_u64(sum_of(parts)));
	tool_json_set(root, "parts", array);
	return root;
}

json_t *plan_budget_json(const struct plan_budget *budget)
{
	const struct plan_parts parts = parts_of(budget);
	json_t *root = plan_parts_json(&parts, rung_plan_bytes(budget->plan)->host);

	tool_json_set(root, "offsets_bytes", tool_json_u64(rung_plan_bytes(budget->plan)->offsets));
	tool_json_set(root, "divisions_compared", tool_json_u64(budget->division->tried));
	return root;
}

/* A number with three digits, or "-" for NaN. */
static void number_cell(struct tool_table *table, double value)
{
	char text[TOOL_TEXT_BYTES];

	if (isnan(value))
		tool_table_cell(table, "-");
	else if (value >= 1000)
		tool_table_cell(table, "%s", tool_count_text(text, value));
	else
		tool_table_cell(table, "%.3g", value);
}

void plan_parts_print(const struct plan_parts *parts)
{
	struct tool_table *table = tool_table_new("lrrrr");
	char text[TOOL_TEXT_BYTES];

	tool_table_cell(table, "part of --host");
	tool_table_cell(table, "bytes");
	tool_table_cell(table, "served");
	tool_table_cell(table, "reads a batch");
	tool_table_cell(table, "saved by 1 MiB more");
	for (size_t i = 0; i < parts->count; i++) {
		const struct plan_part *part = &parts->part[i];

		if (part->bytes == 0 && isnan(part->reads))
			continue; /* not in this plan */
		tool_table_cell(table, "%s", part->name);
		tool_table_cell(table, "%s", tool_bytes_text(text, (double)part->bytes));
		if (isnan(part->share))
			tool_table_cell(table, "-");
		else
			tool_table_cell(table, "%.1f %%", 100 * part->share);
		number_cell(table, part->reads);
		number_cell(table, part->saving);
	}
	tool_table_cell(table, "total");
	tool_table_cell(table, "%s", tool_bytes_text(text, (double)sum_of(parts)));
	for (unsigned i = 0; i < 3; i++)
		tool_table_cell(table, "%s", "");
	tool_table_print(table);
}

void plan_budget_print(const struct plan_budget *budget)
{
	const struct plan_parts parts = parts_of(budget);
	char text[TOOL_TEXT_BYTES];

	plan_parts_print(&parts);
	if (rung_plan_bytes(budget->plan)->offsets)
		printf("not part of --host: offsets of the lists, %s\n",
		       tool_bytes_text(text, (double)rung_plan_bytes(budget->plan)->offsets));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The arrangements of several machines as text, with their arithmetic, and as JSON. Bytes have
 * powers of 1000 here, as those of networks and drives do. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "output/json.h"
#include "output/table.h"
#include "plan/plan_machines.h"

#define PERCENT 100

/* ---- JSON ---- */

static json_t *arrangement_json(const struct plan_arrangement *place)
{
	json_t *root = json_object();

	tool_json_set(root, "name", tool_json_text(place->name));
	tool_json_set(root, "local_rows_share", tool_json_real(place->share));
	tool_json_set(root, "disk_bytes", tool_json_real(place->disk_bytes));
	tool_json_set(root, "more_memory_bytes", tool_json_real(place->memory_bytes));
	tool_json_set(root, "fetch_seconds", tool_json_real(place->fetch_seconds));
	tool_json_set(root, "local_cold_share", tool_json_real(place->local_share));
	tool_json_set(root, "nic_bytes_per_batch", tool_json_real(place->nic_bytes));
	tool_json_set(root, "cold_rows_per_s", tool_json_real(place->rows_per_s));
	tool_json_set(root, "seconds_per_batch", tool_json_real(place->seconds));
	tool_json_set(root, "seconds_per_epoch", tool_json_real(place->epoch_seconds));
	tool_json_set(root, "from_storage_bytes_per_s", tool_json_real(place->source_bytes_per_s));
	tool_json_set(root, "limit", tool_json_text(place->limit));
	return root;
}

/* Ratios of the cold rows; null without them. */
static void set_ratios(json_t *root, const struct plan_machines *plan)
{
	static const char *const names[] = { "reads_per_cold_row",
		                             "bytes_per_cold_row",
		                             "bytes_per_cold_row_in_pages",
		                             "local_reads_per_s",
		                             "break_even_storage_bytes_per_s",
		                             "break_even_memory_bytes_per_s" };
	const struct plan_work *work = &plan->work;
	const double values[] = { work->row_reads / work->cold_rows,
		                  work->row_read_bytes / work->cold_rows,
		                  plan->page_bytes,
		                  work->row_reads / work->row_seconds,
		                  plan->storage_even,
		                  plan->memory_even };

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		tool_json_set(root, names[i],
		              plan->count > 0 ? tool_json_real(values[i]) : json_null());
}

static json_t *machines_json(const struct plan_machines *plan)
{
	const struct plan_work *work = &plan->work;
	json_t *root = json_object(), *places = json_array();

	for (uint32_t i = 0; i < plan->count; i++)
		tool_json_append(places, arrangement_json(&plan->arrangement[i]));
	tool_json_set(root, "count", tool_json_u64(plan->args.machines));
	tool_json_set(root, "nic_bytes_per_s", tool_json_real(plan->args.nic));
	tool_json_set(root, "shared_bytes_per_s",
	              plan->args.storage > 0 ? tool_json_real(plan->args.storage) : json_null());
	tool_json_set(root, "shared", tool_json_text(plan->args.shared));
	tool_json_set(root, "batches_per_epoch", tool_json_u64(plan->batches));
	tool_json_set(root, "copy_bytes", tool_json_real(work->copy_bytes));
	tool_json_set(root, "cold_rows_per_batch", tool_json_real(work->cold_rows));
	set_ratios(root, plan);
	tool_json_set(root, "arrangements", places);
	tool_json_set(root, "advice", plan->count > 0 ? json_integer(plan->advice) : json_null());
	return root;
}

json_t *plan_machines_json(const struct plan_machines_args *args, const struct plan_work *work)
{
	struct plan_machines plan;

	if (args->machines == 0)
		return json_null();
	plan_machines_init(&plan, args, work);
	return machines_json(&plan);
}

/* ---- text ---- */

/* "12.5 GB" */
static const char *decimal(char text[TOOL_TEXT_BYTES], double bytes)
{
	tool_count_text(text, bytes);
	if (!strchr(text, ' '))
		strcat(text, " ");
	return strcat(text, "B");
}

/* "100 Gbit/s" */
static const char *bits(char text[TOOL_TEXT_BYTES], double bytes)
{
	tool_count_text(text, 8 * bytes);
	if (!strchr(text, ' '))
		strcat(text, " ");
	return strcat(text, "bit/s");
}

static const char *title(char text[TOOL_TEXT_BYTES], const struct plan_arrangement *place)
{
	if (strcmp(place->name, "prefix") == 0)
		snprintf(text, TOOL_TEXT_BYTES, "hottest %.0f %% local", PERCENT * place->share);
	else
		snprintf(text, TOOL_TEXT_BYTES, "%s%s", place->name,
		         place->memory_bytes > 0 ? " *" : "");
	return text;
}

static void print_table(const struct plan_machines *plan)
{
	static const char *const headings[] = { "arrangement", "disk",    "fetch",
		                                "rows/s",      "storage", "batch",
		                                "epoch",       "limit",   "" };
	struct tool_table *table = tool_table_new("lrrrrrrll");
	char text[TOOL_TEXT_BYTES];

	for (size_t i = 0; i < sizeof(headings) / sizeof(headings[0]); i++)
		tool_table_cell(table, "%s", headings[i]);
	for (uint32_t i = 0; i < plan->count; i++) {
		const struct plan_arrangement *place = &plan->arrangement[i];

		tool_table_cell(table, "%s", title(text, place));
		tool_table_cell(table, "%s", decimal(text, place->disk_bytes));
		tool_table_cell(table, "%s", tool_seconds_text(text, place->fetch_seconds));
		tool_table_cell(table, "%s", tool_count_text(text, place->rows_per_s));
		tool_table_cell(table, "%s/s", decimal(text, place->source_bytes_per_s));
		tool_table_cell(table, "%s", tool_seconds_text(text, place->seconds));
		tool_table_cell(table, "%s", tool_seconds_text(text, place->epoch_seconds));
		tool_table_cell(table, "%s", place->limit);
		tool_table_cell(table, "%s", i == plan->advice ? "<- advice" : "");
	}
	tool_table_print(table);
}

/* What a batch reads, and how fast local drives deliver it. */
static void print_local(const struct plan_machines *plan)
{
	const struct plan_work *work = &plan->work;
	char cold[TOOL_TEXT_BYTES], reads[TOOL_TEXT_BYTES], lists[TOOL_TEXT_BYTES],
		rate[TOOL_TEXT_BYTES], rows[TOOL_TEXT_BYTES], each[TOOL_TEXT_BYTES],
		list_time[TOOL_TEXT_BYTES];
	const double per_row = work->row_reads / work->cold_rows;

	tool_wrap(2,
	          "A batch reads %s cold rows in %s reads (%.3g a row) of %.0f bytes a row, and "
	          "lists in %s reads.",
	          tool_count_text(cold, work->cold_rows), tool_count_text(reads, work->row_reads),
	          per_row, work->row_read_bytes / work->cold_rows,
	          tool_count_text(lists, work->list_reads));
	tool_wrap(2,
	          "own copies: %s reads/s / %.3g reads a row = %s cold rows/s; a batch: %s / %s "
	          "reads/s = %s, and %s of lists",
	          tool_count_text(rate, work->row_reads / work->row_seconds), per_row,
	          tool_count_text(rows, work->cold_rows / work->row_seconds), reads, rate,
	          tool_seconds_text(each, work->row_seconds),
	          tool_seconds_text(list_time, work->list_seconds));
}

static void print_prefixes(const struct plan_machines *plan)
{
	char served[TOOL_TEXT_BYTES];

	snprintf(served, sizeof(served), "%.1f", PERCENT * plan->work.served);
	for (uint32_t i = 0; i < plan->count; i++) {
		const struct plan_arrangement *place = &plan->arrangement[i];
		char text[TOOL_TEXT_BYTES], bytes[TOOL_TEXT_BYTES];
		const double hits =
			place->local_share * (1 - plan->work.served) + plan->work.served;

		if (strcmp(place->name, "prefix") != 0)
			continue;
		tool_wrap(2,
		          "%s: (%.1f %% of the requests - %s %% by memory) / (100 %% - %s %%) = "
		          "%.1f %% of the cold rows; %s a batch come over the NIC",
		          title(text, place), PERCENT * hits, served, served,
		          PERCENT * place->local_share, decimal(bytes, place->nic_bytes));
	}
	if (plan->work.no_prefix)
		tool_wrap(2, "no local prefix: rows that were staged in place are not in rank "
		             "order");
}

/* What limits the shared storage, or how to find out. */
static void print_storage(const struct plan_machines *plan)
{
	const struct plan_arrangement *storage = &plan->arrangement[plan->count - 2];
	const uint32_t machines = plan->args.machines;
	char rate[TOOL_TEXT_BYTES], text[TOOL_TEXT_BYTES], rows[TOOL_TEXT_BYTES];

	tool_count_text(rows, storage->rows_per_s);
	if (plan->args.storage > 0)
		tool_wrap(
			2,
			"with --shared: %s/s / %u machines = %s/s for each: %s cold rows/s at most",
			decimal(rate, plan->args.storage), machines,
			decimal(text, plan->args.storage / machines), rows);
	else if (plan->args.shared)
		tool_wrap(2,
		          "by the profile %s, a machine reads %s cold rows/s at most; several at "
		          "once may read fewer",
		          plan->args.shared, rows);
	else
		tool_wrap(
			2,
			"the rate of the storage is unknown, so only the NIC limits it here: give "
			"the rate for all machines, such as --shared 200GB, or measure it with "
			"rung numa --only gather,nvme --dir MOUNT --row-bytes %llu --json > "
			"shared.json and give --shared shared.json",
			(unsigned long long)plan->work.row_bytes);
}

static void print_remote(const struct plan_machines *plan)
{
	const struct plan_work *work = &plan->work;
	const struct plan_arrangement *memory = &plan->arrangement[plan->count - 1];
	const double row_bytes = work->row_read_bytes / work->cold_rows;
	char nic[TOOL_TEXT_BYTES], text[TOOL_TEXT_BYTES];

	decimal(nic, plan->args.nic);
	tool_wrap(2, "shared storage: %s/s / %.0f bytes read per cold row = %s cold rows/s", nic,
	          row_bytes, tool_count_text(text, plan->args.nic / row_bytes));
	if (plan->page_bytes > row_bytes)
		tool_wrap(2,
		          "file systems that report no alignment are read in pages of 4096 bytes: "
		          "%.0f bytes per cold row, %s cold rows/s",
		          plan->page_bytes,
		          tool_count_text(text, plan->args.nic / plan->page_bytes));
	print_storage(plan);
	tool_wrap(2, "* other memory: %s/s / (%.0f bytes x %u/%u) = %s cold rows/s", nic,
	          fmin(row_bytes, (double)work->row_bytes), plan->args.machines - 1,
	          plan->args.machines, tool_count_text(text, memory->rows_per_s));
	tool_wrap(2,
	          "it needs 1/%u of the cold rows, %s, in the memory of each machine next to "
	          "--host; rung does not serve rows to other machines",
	          plan->args.machines, decimal(text, memory->memory_bytes));
}

/* Where the arrangements are equally fast. */
static void print_rule(const struct plan_machines *plan)
{
	const struct plan_work *work = &plan->work;
	char rate[TOOL_TEXT_BYTES], bytes[TOOL_TEXT_BYTES], even[TOOL_TEXT_BYTES];

	tool_wrap(2, "break-even: %s reads/s x %.0f bytes / %.3g reads a row = %s/s = %s",
	          tool_count_text(rate, work->row_reads / work->row_seconds),
	          work->row_read_bytes / work->cold_rows, work->row_reads / work->cold_rows,
	          decimal(bytes, plan->storage_even), bits(even, plan->storage_even));
	putchar('\n');
	tool_wrap(2,
	          "Rule: with less than %s a machine, local drives deliver cold rows faster than "
	          "shared storage; with less than %s, faster than the memory of other machines.",
	          even, bits(rate, plan->memory_even));
}

static void print_advice(const struct plan_machines *plan)
{
	const struct plan_arrangement *best = &plan->arrangement[plan->advice];
	char name[TOOL_TEXT_BYTES], time[TOOL_TEXT_BYTES], rate[TOOL_TEXT_BYTES],
		condition[96] = "";

	if (best->source_bytes_per_s > 0 && plan->args.storage == 0)
		snprintf(condition, sizeof(condition),
		         ", if the storage delivers %s/s to all machines",
		         decimal(rate, best->source_bytes_per_s));
	tool_wrap(2, "Advice: %s, %s an epoch, limited by %s%s.", title(name, best),
	          tool_seconds_text(time, best->epoch_seconds), best->limit, condition);
}

/* The time in which every machine has a copy. */
static void print_copy(const struct plan_machines *plan)
{
	const double bytes = plan->work.copy_bytes, storage = plan->args.storage,
		     nics = plan->args.nic * plan->args.machines;
	char copy[TOOL_TEXT_BYTES], rate[TOOL_TEXT_BYTES], time[TOOL_TEXT_BYTES];

	tool_seconds_text(time, plan_fetch_seconds(&plan->args, bytes));
	decimal(copy, bytes);
	if (storage > 0 && storage < nics)
		tool_wrap(2, "a copy: %u x %s / %s/s of the storage = %s", plan->args.machines,
		          copy, decimal(rate, storage), time);
	else
		tool_wrap(2, "a copy: %s / %s/s = %s, if its source delivers that to all machines",
		          copy, decimal(rate, plan->args.nic), time);
}

static void print_machines(const struct plan_machines *plan)
{
	char nic[TOOL_TEXT_BYTES], bytes[TOOL_TEXT_BYTES];

	putchar('\n');
	tool_wrap(2,
	          "%u machines, each with a NIC of %s (%s/s) and 1/%u of the seeds: %llu batches "
	          "an epoch",
	          plan->args.machines, bits(nic, plan->args.nic), decimal(bytes, plan->args.nic),
	          plan->args.machines, (unsigned long long)plan->batches);
	if (plan->count == 0) {
		tool_wrap(2, "no rows are read in an epoch: each machine reads its copy when the "
		             "store is opened");
		print_copy(plan);
		return;
	}
	putchar('\n');
	print_table(plan);
	putchar('\n');
	print_local(plan);
	print_prefixes(plan);
	print_remote(plan);
	print_copy(plan);
	print_rule(plan);
	print_advice(plan);
}

void plan_machines_print(const struct plan_machines_args *args, const struct plan_work *work)
{
	struct plan_machines plan;

	if (args->machines == 0)
		return;
	plan_machines_init(&plan, args, work);
	print_machines(&plan);
}

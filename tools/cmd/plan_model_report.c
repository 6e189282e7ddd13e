/* SPDX-License-Identifier: Apache-2.0 */
/* The report of rung plan --model: sizes, memory, the division of the budget, and times. */
#include <math.h>

#include "cmd/plan_budget.h"
#include "cmd/plan_model.h"
#include "output/json.h"
#include "output/table.h"

#define SEED_BYTES 8u /* of a train vertex in memory */
#define MAP_BYTES  4u /* of a vertex in a map */

static double cold_rows(const struct plan_model *plan)
{
	return plan->rows * (1 - plan->division.row_hits);
}

static double cold_blocks(const struct plan_model *plan)
{
	return plan->blocks * (1 - plan->division.list_hits);
}

static double reads(const struct plan_model *plan)
{
	return plan->division.row_reads + plan->division.list_reads;
}

/* Bytes of the rows and blocks that an epoch reads, without gaps and sectors. */
static double epoch_bytes(const struct plan_model *plan)
{
	const double rows = plan->rows * (1 - plan->division.row_hits - plan->division.cache_hits);

	return (rows * (double)plan->row_bytes + cold_blocks(plan) * PLAN_MODEL_BLOCK) *
	       (double)plan->batches;
}

/* Memory that training needs next to the budget. */
static uint64_t resident_bytes(const struct plan_model *plan)
{
	return plan->offsets_bytes + plan->train * SEED_BYTES;
}

static struct plan_parts parts_of(const struct plan_model *plan)
{
	const struct plan_model_division *division = &plan->division;
	struct plan_parts parts = { .count = 0 };

	plan_parts_add(&parts, "rows", division->rows_bytes, division->row_hits,
	               division->row_reads, plan->rows_saved);
	plan_parts_add(&parts, "lists", division->lists_bytes, division->list_hits,
	               division->list_reads, plan->lists_saved);
	plan_parts_add(&parts, "cache", division->cache_bytes, division->cache_hits, (double)NAN,
	               plan->cache_saved);
	plan_parts_add(&parts, "row slots", division->row_slots_bytes, (double)NAN, (double)NAN,
	               (double)NAN);
	plan_parts_add(&parts, "list slots", division->list_slots_bytes, (double)NAN, (double)NAN,
	               (double)NAN);
	return parts;
}

/* ---- JSON ---- */

static json_t *tier_json(const char *name, uint64_t rows, uint64_t row_bytes, double share)
{
	json_t *tier = json_object();

	tool_json_set(tier, "name", tool_json_text(name));
	tool_json_set(tier, "rows", tool_json_u64(rows));
	tool_json_set(tier, "bytes", tool_json_u64(rows * row_bytes));
	tool_json_set(tier, "hit_share", tool_json_real(share));
	return tier;
}

static json_t *tiers_json(const struct plan_model *plan)
{
	const struct plan_model_division *division = &plan->division;
	json_t *tiers = json_array();

	tool_json_append(tiers,
	                 tier_json("host", division->rows, plan->row_bytes, division->row_hits));
	tool_json_append(tiers, tier_json("nvme", plan->vertices - division->rows, plan->row_bytes,
	                                  1 - division->row_hits));
	return tiers;
}

static json_t *resident_json(const struct plan_model *plan)
{
	json_t *resident = json_object();

	tool_json_set(resident, "offsets_bytes", tool_json_u64(plan->offsets_bytes));
	tool_json_set(resident, "train_bytes", tool_json_u64(plan->train * SEED_BYTES));
	tool_json_set(resident, "bytes", tool_json_u64(resident_bytes(plan)));
	tool_json_set(resident, "bytes_per_vertex",
	              tool_json_real((double)resident_bytes(plan) / (double)plan->vertices));
	tool_json_set(resident, "vertex_ids_bytes", tool_json_u64(plan->vertices * MAP_BYTES));
	return resident;
}

static void set_counts(json_t *root, const struct plan_model *plan)
{
	tool_json_set(root, "model", tool_json_text(plan->model->name));
	tool_json_set(root, "scale", tool_json_real(1.0 / (double)plan->scale));
	tool_json_set(root, "vertices", tool_json_u64(plan->vertices));
	tool_json_set(root, "edges", tool_json_u64(plan->edges));
	tool_json_set(root, "undirected", json_boolean(plan->model->undirected));
	tool_json_set(root, "train", tool_json_u64(plan->train));
	tool_json_set(root, "row_bytes", tool_json_u64(plan->row_bytes));
	tool_json_set(root, "feature_bytes", tool_json_u64(plan->feature_bytes));
	tool_json_set(root, "lists_bytes", tool_json_u64(plan->lists_bytes));
	tool_json_set(root, "map_bytes", tool_json_u64(2 * plan->vertices * MAP_BYTES));
	tool_json_set(root, "resident", resident_json(plan));
	tool_json_set(root, "tiers", tiers_json(plan));
}

static void set_traffic(json_t *root, const struct plan_model *plan)
{
	const struct plan_model_division *division = &plan->division;

	tool_json_set(root, "rows_per_batch", tool_json_real(plan->rows));
	tool_json_set(root, "cold_rows_per_batch", tool_json_real(cold_rows(plan)));
	tool_json_set(root, "reads_per_batch", tool_json_real(division->row_reads));
	tool_json_set(root, "list_blocks_per_batch", tool_json_real(plan->blocks));
	tool_json_set(root, "cold_list_blocks_per_batch", tool_json_real(cold_blocks(plan)));
	tool_json_set(root, "list_reads_per_batch", tool_json_real(division->list_reads));
	tool_json_set(root, "rows_per_epoch", tool_json_real(plan->rows * (double)plan->batches));
	tool_json_set(root, "reads_per_epoch", tool_json_real(reads(plan) * (double)plan->batches));
	tool_json_set(root, "read_bytes_per_epoch", tool_json_real(epoch_bytes(plan)));
	tool_json_set(root, "batches_per_epoch", tool_json_u64(plan->batches));
	tool_json_set(root, "fanout", tool_json_u32s(plan->model->fanouts, plan->model->hop_count));
	tool_json_set(root, "batch", tool_json_u64(plan->batch));
}

static json_t *report_json(const struct plan_model *plan, const struct plan_model_args *args)
{
	const struct plan_parts parts = parts_of(plan);
	json_t *root = json_object(), *curves = json_object();

	set_counts(root, plan);
	tool_json_set(root, "budget", plan_parts_json(&parts, plan->host_bytes));
	set_traffic(root, plan);
	tool_json_set(root, "seconds_per_epoch",
	              tool_json_real(plan->seconds * (double)plan->batches));
	tool_json_set(root, "seconds_per_batch", tool_json_real(plan->seconds));
	tool_json_set(root, "memory_seconds_per_batch", tool_json_real(plan->memory_seconds));
	tool_json_set(root, "nvme_seconds_per_batch", tool_json_real(plan->nvme_seconds));
	tool_json_set(root, "bound", tool_json_text(rung_bound_name(plan->bound)));
	tool_json_set(root, "threads", tool_json_u64(plan->threads));
	tool_json_set(root, "queue_depth",
	              reads(plan) > 0 ? tool_json_u64(plan->depth) : json_null());
	tool_json_set(root, "profile", tool_json_text(args->store->profile));
	tool_json_set(curves, "scale", tool_json_real(1.0 / plan->curve->scale));
	tool_json_set(curves, "batch", tool_json_u64(plan->curve->batch));
	tool_json_set(curves, "extrapolated", json_boolean(plan->curve->scale != plan->scale));
	tool_json_set(root, "curves", curves);
	return root;
}

/* ---- text ---- */

static void print_counts(const struct plan_model *plan)
{
	char text[TOOL_TEXT_BYTES];

	printf("%s", plan->model->name);
	if (plan->scale > 1)
		printf(" 1/%llu", (unsigned long long)plan->scale);
	printf(": %llu vertices, %llu edges%s, %llu train vertices\n",
	       (unsigned long long)plan->vertices, (unsigned long long)plan->edges,
	       plan->model->undirected ? " in both directions" : "",
	       (unsigned long long)plan->train);
	printf("on disk: features %s in rows of %llu bytes",
	       tool_bytes_text(text, (double)plan->feature_bytes),
	       (unsigned long long)plan->row_bytes);
	printf(", lists %s", tool_bytes_text(text, (double)plan->lists_bytes));
	printf(", maps of vertices %s\n",
	       tool_bytes_text(text, 2.0 * (double)plan->vertices * MAP_BYTES));
	printf("memory next to --host: %s, %.2f bytes per vertex (offsets of the lists, train "
	       "vertices)",
	       tool_bytes_text(text, (double)resident_bytes(plan)),
	       (double)resident_bytes(plan) / (double)plan->vertices);
	printf("; %s more for requests by vertex id\n\n",
	       tool_bytes_text(text, (double)plan->vertices * MAP_BYTES));
}

static void tier_row(struct tool_table *table, const char *name, uint64_t rows, uint64_t row_bytes,
                     double share)
{
	char text[TOOL_TEXT_BYTES];

	tool_table_cell(table, "%s", name);
	tool_table_cell(table, "%llu", (unsigned long long)rows);
	tool_table_cell(table, "%s", tool_bytes_text(text, (double)rows * (double)row_bytes));
	tool_table_cell(table, "%.1f %%", 100 * share);
}

static void print_tiers(const struct plan_model *plan)
{
	const struct plan_model_division *division = &plan->division;
	struct tool_table *table = tool_table_new("lrrr");

	tool_table_cell(table, "tier");
	tool_table_cell(table, "rows");
	tool_table_cell(table, "bytes");
	tool_table_cell(table, "hits");
	tier_row(table, "host", division->rows, plan->row_bytes, division->row_hits);
	tier_row(table, "nvme", plan->vertices - division->rows, plan->row_bytes,
	         1 - division->row_hits);
	tool_table_print(table);
	putchar('\n');
}

static void print_traffic(const struct plan_model *plan)
{
	const double batches = (double)plan->batches;
	char text[TOOL_TEXT_BYTES];

	printf("\nan epoch of %llu batches (%u seeds each, fanout ",
	       (unsigned long long)plan->batches, plan->batch);
	for (uint32_t i = 0; i < plan->model->hop_count; i++)
		printf("%s%u", i > 0 ? "," : "", plan->model->fanouts[i]);
	printf("): %s rows a batch", tool_count_text(text, plan->rows));
	printf(", %s rows in all", tool_count_text(text, plan->rows * batches));
	printf(", %s cold", tool_count_text(text, cold_rows(plan) * batches));
	printf("\nread from the file per epoch: %s", tool_bytes_text(text, epoch_bytes(plan)));
	printf(", in %s reads", tool_count_text(text, reads(plan) * batches));
}

/* Times, the source of the rates, and what is not measured. */
static void print_times(const struct plan_model *plan, const struct plan_model_args *args)
{
	const struct gen_curve *curve = plan->curve;
	char text[TOOL_TEXT_BYTES];

	printf("\npredicted: %s a batch, ", tool_seconds_text(text, plan->seconds));
	printf("%s an epoch, bound by %s, with %u thread%s",
	       tool_seconds_text(text, plan->seconds * (double)plan->batches),
	       rung_bound_name(plan->bound), plan->threads, plan->threads > 1 ? "s" : "");
	if (reads(plan) > 0)
		printf(" and %u reads in flight", plan->depth);
	if (args->store->profile)
		printf("\nby the profile %s, its first drive\n", args->store->profile);
	else
		printf("\nrates of the machine are assumed: measure them with rung numa --json, "
		       "and give --profile\n");
	if (curve->scale == plan->scale)
		printf("hits, rows and reads were measured on the model at this scale");
	else
		printf("extrapolated: hits, rows and reads were measured on the model at 1/%u "
		       "with %u seed%s a batch; they are assumed to hold at equal density",
		       curve->scale, curve->batch, curve->batch > 1 ? "s" : "");
	printf("; the model is fitted to the original, and is not the original\n");
}

int plan_model_report(const char *name, const struct plan_model *plan,
                      const struct plan_model_args *args)
{
	const struct plan_parts parts = parts_of(plan);

	if (args->common->json)
		return tool_json_print(name, report_json(plan, args)) < 0 ? TOOL_FAILED : TOOL_DONE;
	print_counts(plan);
	print_tiers(plan);
	plan_parts_print(&parts);
	print_traffic(plan);
	print_times(plan, args);
	return TOOL_DONE;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The report of rung plan --model: sizes, memory, the division of the budget, and times. */
#include <math.h>

#include "plan/plan_budget.h"
#include "plan/plan_model.h"
#include "output/json.h"

#define SEED_BYTES   8u /* of a train vertex in memory */
#define OFFSET_BYTES 8u /* of a list in the file */
#define SCORE_BYTES  4u
#define SECTOR       512u /* of a drive */

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

static struct plan_answer answer_of(const struct plan_model *plan)
{
	const struct plan_model_division *division = &plan->division;
	const uint64_t cold = plan->vertices - division->rows;

	return (struct plan_answer){
		.host_bytes = plan->host_bytes,
		.rows = plan->vertices,
		.tiers = { { "host", division->rows, division->rows_bytes, division->row_hits },
		           { "nvme", cold, cold * plan->row_bytes, 1 - division->row_hits } },
		.tier_count = 2,
		.cache_share = division->cache_hits,
		.read_bytes = epoch_bytes(plan),
		.batches = plan->batches,
		.seconds = plan->seconds,
		.memory_seconds = plan->memory_seconds,
		.nvme_seconds = plan->nvme_seconds,
		.list_nvme_seconds = plan->list_nvme_seconds,
		.drives = plan->drives,
		.bound = plan->bound,
	};
}

/* The work of a batch of the model, for several machines. */
static struct plan_work work_of(const struct plan_model *plan, double compute)
{
	const struct plan_model_division *division = &plan->division;
	const double vertices = (double)plan->vertices;
	struct plan_work work = {
		.row_bytes = plan->row_bytes,
		.sector_bytes = SECTOR,
		.feature_bytes = (double)plan->feature_bytes,
		.memory_share = (double)division->rows / vertices,
		.served = division->row_hits,
		.seeds = plan->train,
		.batch = plan->batch,
		.cold_rows = cold_rows(plan),
		.row_reads = division->row_reads,
		.list_reads = division->list_reads,
		.list_read_bytes = cold_blocks(plan) * PLAN_MODEL_BLOCK,
		.memory_seconds = plan->memory_seconds,
		.row_seconds = plan->nvme_seconds - plan->list_nvme_seconds,
		.list_seconds = plan->list_nvme_seconds,
		.compute = compute,
	};

	work.row_read_bytes = plan->rows * (1 - division->row_hits - division->cache_hits) *
	                              (double)plan->row_bytes +
	                      division->row_reads * plan_sector_rest(plan->row_bytes, SECTOR);
	/* lists and their offsets, both maps, scores and the train split */
	work.copy_bytes = work.feature_bytes + (double)plan->lists_bytes +
	                  vertices * (OFFSET_BYTES + 2.0 * plan->id_bytes + SCORE_BYTES) +
	                  (double)plan->train * plan->id_bytes;
	for (uint32_t i = 0; i < PLAN_PREFIXES; i++)
		work.hits[i] = gen_curve_at(plan->curve, plan_prefixes[i]).rows;
	return work;
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
	tool_json_set(resident, "vertex_ids_bytes", tool_json_u64(plan->vertices * plan->id_bytes));
	return resident;
}

static void set_counts(json_t *root, const struct plan_model *plan)
{
	tool_json_set(root, "model", tool_json_text(plan->model->name));
	tool_json_set(root, "scale", tool_json_real(1.0 / (double)plan->scale));
	tool_json_set(root, "vertices", tool_json_u64(plan->vertices));
	tool_json_set(root, "edges", tool_json_u64(plan->edges));
	tool_json_set(root, "undirected", json_boolean(plan->undirected));
	tool_json_set(root, "train", tool_json_u64(plan->train));
	tool_json_set(root, "drives", tool_json_u64(plan->drives));
	tool_json_set(root, "quantize",
	              plan->quantize ? tool_json_text(tool_quant_formats[plan->quantize])
	                             : json_null());
	tool_json_set(root, "row_bytes", tool_json_u64(plan->row_bytes));
	tool_json_set(root, "feature_bytes", tool_json_u64(plan->feature_bytes));
	tool_json_set(root, "lists_bytes", tool_json_u64(plan->lists_bytes));
	tool_json_set(root, "map_bytes", tool_json_u64(2 * plan->vertices * plan->id_bytes));
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
	json_t *root = json_object(), *curves = json_object(), *assumed = json_array();
	const struct plan_work work = work_of(plan, args->compute);
	struct plan_answer answer;

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
	if (!args->store->profile) {
		tool_json_append(assumed, tool_json_text("host"));
		tool_json_append(assumed, tool_json_text("nvme"));
	}
	tool_json_set(curves, "scale", tool_json_real(1.0 / plan->curve->scale));
	tool_json_set(curves, "batch", tool_json_u64(plan->curve->batch));
	tool_json_set(curves, "extrapolated", json_boolean(plan->curve->scale != plan->scale));
	tool_json_set(root, "curves", curves);
	tool_json_set(root, "assumed", assumed);
	answer = answer_of(plan);
	plan_answer_json(&answer, args->compute, root);
	tool_json_set(root, "machines", plan_machines_json(args->machines, &work));
	return root;
}

/* ---- text ---- */

static void print_counts(const struct plan_model *plan)
{
	char features[TOOL_TEXT_BYTES], lists[TOOL_TEXT_BYTES], maps[TOOL_TEXT_BYTES],
		scale[32] = "";
	const double ids = (double)plan->vertices * plan->id_bytes;

	if (plan->scale > 1)
		snprintf(scale, sizeof(scale), " 1/%llu", (unsigned long long)plan->scale);
	tool_wrap(2, "%s%s: %llu vertices, %llu edges%s, %llu train vertices", plan->model->name,
	          scale, (unsigned long long)plan->vertices, (unsigned long long)plan->edges,
	          plan->undirected ? " in both directions" : "", (unsigned long long)plan->train);
	tool_wrap(2, "on disk: features %s in rows of %llu bytes, lists %s, maps of vertices %s",
	          tool_bytes_text(features, (double)plan->feature_bytes),
	          (unsigned long long)plan->row_bytes,
	          tool_bytes_text(lists, (double)plan->lists_bytes),
	          tool_bytes_text(maps, 2 * ids));
	tool_wrap(2,
	          "memory next to --host: %s, %.2f bytes per vertex (offsets of the lists, train "
	          "vertices); %s more for requests by vertex id",
	          tool_bytes_text(features, (double)resident_bytes(plan)),
	          (double)resident_bytes(plan) / (double)plan->vertices,
	          tool_bytes_text(maps, ids));
}

static void print_batches(const struct plan_model *plan)
{
	char rows[TOOL_TEXT_BYTES], hops[12 * RUNG_HOPS_MAX + 1] = "";
	size_t used = 0;

	for (uint32_t i = 0; i < plan->model->hop_count; i++)
		used += (size_t)snprintf(hops + used, sizeof(hops) - used, "%s%u", i > 0 ? "," : "",
		                         plan->model->fanouts[i]);
	tool_wrap(2, "batches of %u seed%s, fanout %s: %s rows each, %llu an epoch", plan->batch,
	          plan->batch == 1 ? "" : "s", hops, tool_count_text(rows, plan->rows),
	          (unsigned long long)plan->batches);
	if (plan->draws_max > 0)
		tool_wrap(2, "rows of a batch: at most %.4g a seed, as if all draws differed",
		          plan->draws_max);
	putchar('\n');
}

/* --explain: the division of the budget, and the settings of the prediction. */
static void explain(const struct plan_model *plan)
{
	const struct plan_parts parts = parts_of(plan);
	const double batches = (double)plan->batches;
	char rows[TOOL_TEXT_BYTES], cold[TOOL_TEXT_BYTES], bytes[TOOL_TEXT_BYTES];

	putchar('\n');
	plan_parts_print(&parts);
	tool_wrap(2, "an epoch: %s rows, of which %s are in files",
	          tool_count_text(rows, plan->rows * batches),
	          tool_count_text(cold, cold_rows(plan) * batches));
	tool_wrap(2, "read from the file per epoch: %s, in %s reads",
	          tool_bytes_text(bytes, epoch_bytes(plan)),
	          tool_count_text(rows, reads(plan) * batches));
	tool_wrap(2, "%u thread%s", plan->threads, plan->threads > 1 ? "s gather" : " gathers");
	if (reads(plan) > 0)
		tool_wrap(2, "%u reads in flight", plan->depth);
}

/* The source of the rates, and what is not measured. */
static void print_sources(const struct plan_model *plan, const struct plan_model_args *args)
{
	const struct gen_curve *curve = plan->curve;
	char drives[64] = "its first drive";

	if (plan->drives > 1)
		snprintf(drives, sizeof(drives), "%u drives at the rate of its first",
		         plan->drives);
	if (args->store->profile)
		tool_wrap(2, "by the profile %s, %s", args->store->profile, drives);
	else
		tool_wrap(2,
		          "rates of the machine are assumed: measure them with rung numa --json, "
		          "and give --profile");
	if (curve->scale == plan->scale)
		tool_wrap(2, "hits, rows and reads were measured on the model at this scale; the "
		             "model is fitted to the original, and is not the original");
	else
		tool_wrap(2,
		          "extrapolated: hits, rows and reads were measured on the model at 1/%u "
		          "with %u seed%s a batch; they are assumed to hold at equal density; the "
		          "model is fitted to the original, and is not the original",
		          curve->scale, curve->batch, curve->batch > 1 ? "s" : "");
}

/* Several budgets. @return an exit code */
static int report_sweep(const char *name, const struct plan_model *plans,
                        const struct plan_answers *answers, const struct plan_model_args *args)
{
	const struct gen_model *model = plans->model;
	json_t *budgets;

	if (args->svg)
		plan_answers_svg(answers, model->name, args->svg);
	if (args->common->json) {
		budgets = json_array();
		for (uint32_t i = 0; i < answers->count; i++)
			tool_json_append(budgets, report_json(&plans[i], args));
		return tool_json_print(name, plan_answers_json(answers, budgets)) < 0 ? TOOL_FAILED
		                                                                      : TOOL_DONE;
	}
	print_counts(plans);
	print_batches(plans);
	plan_answers_print(answers, args->argv);
	print_sources(plans, args);
	return TOOL_DONE;
}

int plan_model_report(const char *name, const struct plan_model *plans, uint32_t count,
                      const struct plan_model_args *args)
{
	struct plan_answers answers = { .count = count, .compute = args->compute };
	struct plan_work work;

	for (uint32_t i = 0; i < count; i++)
		answers.answer[i] = answer_of(&plans[i]);
	answers.whole_bytes = plans->whole_bytes;
	answers.given_bytes = args->store->host.given
	                              ? tool_size_bytes(&args->store->host, plans->feature_bytes)
	                              : 0;
	if (args->sweep)
		return report_sweep(name, plans, &answers, args);
	if (args->svg)
		plan_answer_svg(&answers.answer[0], args->compute, plans->model->name, args->svg);
	if (args->common->json)
		return tool_json_print(name, report_json(plans, args)) < 0 ? TOOL_FAILED
		                                                           : TOOL_DONE;
	print_counts(plans);
	print_batches(plans);
	plan_answer_print(&answers.answer[0], args->compute);
	print_sources(plans, args);
	if (args->explain)
		explain(plans);
	work = work_of(plans, args->compute);
	plan_machines_print(args->machines, &work);
	return TOOL_DONE;
}

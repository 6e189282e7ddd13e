/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan for a data set that is absent: its counts are those of the original, and its hits are
 * interpolated in the curves of its scale model. As in rung_plan_divide(), the best division of the
 * host budget is the one with the fewest reads.
 */
#include <math.h>
#include <stdlib.h>

#include "plan/plan_model.h"
#include "plan/plan_rates.h"

#define PAGE          4096u
#define DEPTH_DEFAULT 64u  /* as in the library */
#define DIVISIONS     512u /* that are compared, evenly spaced in the bytes of the lists */

/* ---- counts ---- */

/* The library's offsets have 2 bytes per vertex, and space for as many long lines as the edges
 * allow. */
static uint64_t offsets_bytes(uint64_t vertices, uint64_t entries)
{
	const uint64_t lines = (vertices + 31) / 32, wide = entries >> 14;

	return lines * 64 + (wide < lines ? wide : lines) * 32 * 8;
}

static uint64_t train_count(const struct plan_model *plan)
{
	const double labelled = floor((double)plan->vertices * plan->model->labelled + 0.5);
	const uint64_t train = (uint64_t)(labelled * plan->model->train + 0.5);

	return train ? train : 1;
}

/* Counts of the options, in place of those of the model. */
static void set_counts(struct plan_model *plan, const struct plan_counts *counts)
{
	const struct gen_model *model = plan->model;
	const double per_vertex = (double)model->edges / (double)model->vertices;

	plan->undirected = model->undirected;
	plan->vertices = counts->vertices ? counts->vertices : model->vertices / plan->scale;
	plan->edges = model->edges / plan->scale;
	if (counts->vertices)
		plan->edges = (uint64_t)((double)counts->vertices * per_vertex + 0.5);
	plan->entries = plan->edges * (model->undirected ? 2 : 1);
	if (counts->edges) {
		plan->edges = plan->entries = counts->edges;
		plan->undirected = 0;
	}
	plan->train = train_count(plan);
	if (counts->train > 0)
		plan->train = (uint64_t)ceil((double)plan->vertices * counts->train);
	plan->id_bytes = plan->vertices >> 32 ? 8 : 4;
	plan->drives = counts->drives ? counts->drives : 1;
}

/* Draws per seed if all vertices have `degree` neighbours, the seed included: no batch has more
 * rows. @param drawing_out  the vertices of them that draw */
static double draws(const struct gen_model *model, double degree, double *drawing_out)
{
	double hop = 1, sum = 1;

	*drawing_out = 0;
	for (uint32_t i = 0; i < model->hop_count; i++) {
		*drawing_out += hop;
		hop *= fmin(model->fanouts[i], degree);
		sum += hop;
	}
	return sum;
}

/* Rows and blocks of a batch. The curve has those of the original's degree; for a given number of
 * edges the rows are at most the draws, and each vertex that draws needs as many blocks. */
static void set_requests(struct plan_model *plan, int edges_given)
{
	const struct gen_model *model = plan->model;
	const double entries = (double)model->edges * (model->undirected ? 2 : 1);
	double own, drawing;

	plan->rows = plan->curve->rows_per_seed * plan->batch;
	plan->blocks = plan->curve->blocks_per_seed * plan->batch;
	if (!edges_given)
		return;
	draws(model, entries / (double)model->vertices, &own);
	plan->draws_max = draws(model, (double)plan->entries / (double)plan->vertices, &drawing);
	plan->rows = fmin(plan->draws_max * plan->batch, (double)plan->vertices);
	plan->blocks *= drawing / own;
}

void plan_model_init(struct plan_model *plan, const struct plan_model_args *args)
{
	const struct gen_model *model = args->model;
	const struct tool_store_args *store = args->store;

	*plan = (struct plan_model){ .model = model, .curve = gen_curve_find(model->name) };
	plan->scale = args->scale ? args->scale : 1;
	set_counts(plan, args->counts);
	plan->row_bytes = (uint64_t)model->width * rung_dtype_bytes(model->dtype);
	if (args->counts->row_bytes)
		plan->row_bytes = args->counts->row_bytes;
	plan->quantize = store->quantize;
	if (plan->quantize)
		plan->row_bytes = tool_quant_row_bytes(
			store->quantize, plan->row_bytes / rung_dtype_bytes(model->dtype));
	plan->feature_bytes = plan->vertices * plan->row_bytes;
	plan->lists_bytes = plan->entries * plan->id_bytes;
	plan->offsets_bytes = offsets_bytes(plan->vertices, plan->entries);
	/* the density of the original's batches */
	plan->batch = (uint32_t)(model->batch_size / plan->scale);
	plan->batch = plan->batch ? plan->batch : 1;
	plan->batches = (plan->train - 1) / plan->batch + 1;
	set_requests(plan, args->counts->edges > 0);
	plan->host_bytes = tool_size_bytes(&store->host, plan->feature_bytes);
	if (plan->host_bytes == RUNG_BYTES_NONE)
		plan->host_bytes = 0;
	plan->structure_bytes = tool_size_bytes(&store->structure, plan->lists_bytes);
	if (plan->structure_bytes == RUNG_BYTES_NONE)
		plan->structure_bytes = 1; /* too small as well; 0 would be "auto" */
	plan->whole_bytes = plan->feature_bytes + plan->lists_bytes;
	if (plan->structure_bytes && plan->structure_bytes < plan->lists_bytes)
		plan->whole_bytes = plan->feature_bytes + plan->structure_bytes;
	plan->depth = store->queue_depth;
}

/* ---- slots ---- */

/* The longest read of one item, in whole pages. */
static uint64_t span_of(uint64_t bytes)
{
	const uint64_t pages = (bytes + PAGE - 1) / PAGE * PAGE;

	return bytes % PAGE == 0 || PAGE % bytes == 0 ? pages : pages + PAGE;
}

#define SLOTS_MIN 4u

/* Bytes of the slots for reading items of `bytes`, as rung_plan_create() chooses them on the CPU:
 * two for each read in flight, in at most an eighth of the budget, or smaller ones. */
static uint64_t slots_bytes(uint64_t budget, uint64_t bytes, uint32_t depth)
{
	static const uint64_t good[] = { 65536, 16384, 0 };
	const uint64_t span = span_of(bytes);
	uint64_t slot, count;

	for (unsigned i = 0;; i++) {
		slot = span > good[i] ? span : good[i];
		count = budget / 8 / slot;
		if (count >= depth || good[i] == 0)
			break;
		if (budget / 2 / slot >= depth) {
			count = depth;
			break;
		}
	}
	count = count < SLOTS_MIN ? SLOTS_MIN : count;
	return slot * (count < 2 * (uint64_t)depth ? count : 2 * (uint64_t)depth);
}

static uint64_t least_structure(const struct plan_model *plan)
{
	const uint64_t slots = SLOTS_MIN * span_of(PLAN_MODEL_BLOCK);

	return slots < plan->lists_bytes ? slots : plan->lists_bytes;
}

uint64_t plan_model_host_min(const struct plan_model *plan)
{
	const uint64_t given = plan->structure_bytes && plan->structure_bytes < RUNG_BYTES_NONE
	                               ? plan->structure_bytes
	                               : 0;
	uint64_t lists = given < least_structure(plan) ? least_structure(plan) : given;

	if (plan->structure_bytes == RUNG_BYTES_MAX || lists > plan->lists_bytes)
		lists = plan->lists_bytes;
	return lists + SLOTS_MIN * span_of(plan->row_bytes);
}

/* ---- divisions ---- */

/* Place rows and cache in what the lists leave. A cache keeps the hottest of the rows that are not
 * in memory, so it serves as those would. */
static void place_rows(const struct plan_model *plan, uint64_t left, uint64_t cache_bytes,
                       struct plan_model_division *out)
{
	const double whole = (double)plan->feature_bytes;
	struct gen_curve_point hot, warm;

	if (left >= plan->feature_bytes) {
		out->rows = plan->vertices;
		out->rows_bytes = plan->feature_bytes;
		out->row_hits = 1;
		return;
	}
	out->row_slots_bytes = slots_bytes(left, plan->row_bytes, plan->depth);
	if (out->row_slots_bytes > left) {
		out->row_reads = INFINITY;
		return;
	}
	left -= out->row_slots_bytes;
	out->cache_bytes = cache_bytes < left ? cache_bytes : left;
	out->rows = (left - out->cache_bytes) / plan->row_bytes;
	out->rows_bytes = out->rows * plan->row_bytes;
	hot = gen_curve_at(plan->curve, (double)out->rows_bytes / whole);
	warm = gen_curve_at(plan->curve, (double)(out->rows_bytes + out->cache_bytes) / whole);
	out->row_hits = hot.rows;
	out->cache_hits = warm.rows - hot.rows;
	out->row_reads = plan->rows * (1 - warm.rows) * warm.row_reads;
}

/* Evaluate a division. @param structure_bytes  for lists and their slots */
static struct plan_model_division evaluate(const struct plan_model *plan, uint64_t host_bytes,
                                           uint64_t structure_bytes, uint64_t cache_bytes)
{
	struct plan_model_division out = { .list_hits = 1, .lists_bytes = plan->lists_bytes };
	struct gen_curve_point lists;
	uint64_t left = host_bytes;

	if (structure_bytes < plan->lists_bytes) {
		out.list_slots_bytes = slots_bytes(structure_bytes, PLAN_MODEL_BLOCK, plan->depth);
		if (out.list_slots_bytes > structure_bytes) {
			out.row_reads = INFINITY;
			return out;
		}
		out.lists_bytes = (structure_bytes - out.list_slots_bytes) / PLAN_MODEL_BLOCK *
		                  PLAN_MODEL_BLOCK;
		lists = gen_curve_at(plan->curve,
		                     (double)out.lists_bytes / (double)plan->lists_bytes);
		out.list_hits = lists.lists;
		out.list_reads = plan->blocks * (1 - lists.lists) * lists.list_reads;
	}
	if (out.lists_bytes + out.list_slots_bytes > left)
		out.row_reads = INFINITY;
	else
		place_rows(plan, left - out.lists_bytes - out.list_slots_bytes, cache_bytes, &out);
	return out;
}

static double total(const struct plan_model_division *division)
{
	return division->row_reads + division->list_reads;
}

/* The reads per batch that one more MiB of a part saves, from a division of a larger budget. */
static double saving(const struct plan_model *plan, uint64_t more_structure, uint64_t more_cache,
                     uint64_t more)
{
	const struct plan_model_division *best = &plan->division;
	const uint64_t structure = best->lists_bytes + best->list_slots_bytes;
	const struct plan_model_division larger =
		evaluate(plan, plan->host_bytes + more, structure + more_structure,
	                 best->cache_bytes + more_cache);

	return fmax(total(best) - total(&larger), 0) * 0x1p20 / (double)more;
}

void plan_model_divide(struct plan_model *plan)
{
	const uint64_t host = plan->host_bytes;
	uint64_t least = least_structure(plan), most = plan->lists_bytes, more;

	if (plan->structure_bytes) /* the one division that was given */
		least = most = plan->structure_bytes < most ? plan->structure_bytes : most;
	else if (most > host)
		most = host;
	if (most < least)
		most = least; /* the budget is too small */
	plan->division = evaluate(plan, host, most, plan->cache_bytes);
	for (uint64_t i = 0; i < DIVISIONS; i++) {
		const uint64_t structure =
			least + (uint64_t)((double)(most - least) * (double)i / DIVISIONS);
		const struct plan_model_division division =
			evaluate(plan, host, structure, plan->cache_bytes);

		if (total(&division) < total(&plan->division))
			plan->division = division;
	}
	plan->rows_saved = plan->lists_saved = plan->cache_saved = (double)NAN;
	if (host == RUNG_BYTES_MAX || total(&plan->division) == 0)
		return;
	more = host / 64 > 1u << 20 ? host / 64 : 1u << 20;
	plan->rows_saved = saving(plan, 0, 0, more);
	plan->lists_saved = saving(plan, more, 0, more);
	/* a cache that was not given would serve no more than rows do */
	if (plan->cache_bytes)
		plan->cache_saved = saving(plan, 0, more, more);
}

/* ---- times ---- */

void plan_model_time(struct plan_model *plan, const struct rung_profile *profile, uint32_t threads)
{
	const struct plan_model_division *division = &plan->division;
	const double cold_rows = plan->rows * (1 - division->row_hits - division->cache_hits),
		     cold_blocks = plan->blocks * (1 - division->list_hits);

	plan->memory_seconds =
		plan->rows * plan_row_seconds(profile, threads, plan->row_bytes, &plan->threads);
	plan->nvme_seconds = plan->list_nvme_seconds = 0;
	if (division->row_reads > 0)
		plan->nvme_seconds += division->row_reads *
		                      plan_read_seconds(profile, plan->depth,
		                                        cold_rows / division->row_reads *
		                                                (double)plan->row_bytes) /
		                      plan->drives;
	if (division->list_reads > 0)
		plan->list_nvme_seconds =
			division->list_reads *
			plan_read_seconds(profile, plan->depth,
		                          cold_blocks / division->list_reads * PLAN_MODEL_BLOCK);
	plan->nvme_seconds += plan->list_nvme_seconds;
	plan->bound =
		plan->nvme_seconds > plan->memory_seconds ? RUNG_BOUND_NVME : RUNG_BOUND_MEMORY;
	plan->seconds = fmax(plan->nvme_seconds, plan->memory_seconds);
}

/* The profile of the option, else assumed rates. @return a status */
static int load_profile(const char *path, struct rung_profile **profile_out)
{
	struct rung_profile *profile;

	if (path)
		return tool_profile_load(path, profile_out);
	profile = malloc(sizeof(*profile));
	if (!profile)
		return RUNG_E_NOMEM;
	rung_profile_assume(profile);
	*profile_out = profile;
	return 0;
}

/* Why a budget has no plan. @return an exit code */
static int fail_plan(const char *name, const struct plan_model *plan, const char *profile)
{
	if (!isinf(plan->division.row_reads))
		return tool_error(name, TOOL_USAGE,
		                  "%s: the profile has no read rates, but rows are in files; "
		                  "measure a drive (rung numa --dir)",
		                  profile);
	if (plan->structure_bytes && plan->structure_bytes < least_structure(plan))
		return tool_error(
			name, TOOL_USAGE,
			"--structure: too small for the slots of the lists; give at least "
			"%llu bytes",
			(unsigned long long)least_structure(plan));
	return tool_error(name, TOOL_USAGE,
	                  "a host budget of %llu bytes cannot hold the slots of rows and "
	                  "lists; give at least %llu bytes",
	                  (unsigned long long)plan->host_bytes,
	                  (unsigned long long)plan_model_host_min(plan));
}

/* Plan one budget. @return nonzero if there is a plan */
static int plan_budget(struct plan_model *plan, const struct rung_profile *profile,
                       uint32_t threads)
{
	plan_model_divide(plan);
	if (isinf(plan->division.row_reads) ||
	    (total(&plan->division) > 0 && profile->reads_count == 0))
		return 0;
	plan_model_time(plan, profile, threads);
	return 1;
}

int plan_model_run(const char *name, const struct plan_model_args *args)
{
	struct plan_model plan, plans[PLAN_BUDGETS_MAX];
	struct plan_answers answers = { .count = 0 };
	uint64_t budgets[PLAN_BUDGETS_MAX];
	struct rung_profile *profile;
	uint32_t count = 1, planned = 0;
	int rc = load_profile(args->store->profile, &profile), code;

	if (rc < 0)
		return tool_fail(name, rc);
	plan_model_init(&plan, args);
	if (plan.depth == 0 && args->store->profile)
		plan.depth = plan_read_depth(profile, plan.row_bytes);
	if (plan.depth == 0)
		plan.depth = DEPTH_DEFAULT;
	budgets[0] = plan.host_bytes;
	if (args->sweep) {
		answers.whole_bytes = plan.whole_bytes;
		answers.given_bytes = args->store->host.given ? plan.host_bytes : 0;
		count = plan_budgets(&answers, budgets);
	}
	for (uint32_t i = 0; i < count; i++) {
		plan.host_bytes = budgets[i];
		plan.cache_bytes = tool_size_bytes(&args->store->cache, plan.host_bytes);
		if (plan.cache_bytes == RUNG_BYTES_NONE)
			plan.cache_bytes = 0;
		plans[planned] = plan;
		if (plan_budget(&plans[planned], profile, args->common->threads))
			planned++;
		else
			plan.division = plans[planned].division;
	}
	code = planned ? plan_model_report(name, plans, planned, args)
	               : fail_plan(name, &plan, args->store->profile);
	free(profile);
	return code;
}

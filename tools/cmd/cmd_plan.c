/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rung plan: print which rows go into which tier, and predict hits and times from sampled batches.
 * The store is not opened, so no row is read and no memory for rows is allocated: a budget can be
 * tried before it is used. Batches are sampled from the planned structure of the graph.
 */
#include <stdlib.h>

#include "args/args.h"
#include "cmd/plan_budget.h"
#include "cmd/plan_model.h"
#include "output/json.h"

#define VERTICES_MIN 16 /* of a scale model, as in rung generate */

struct plan_args {
	const char *dir;
	struct tool_fanouts fanouts; /* count 0: those of the manifest */
	uint32_t batch;              /* seeds per batch; 0: that of the manifest */
	uint64_t seed;
	const char *sampled; /* the last option given that describes sampled batches, or NULL */
	const struct gen_model *model; /* NULL: DIR is planned */
	uint64_t scale;                /* N of 1/N; 0: not given */
	struct tool_store_args store;
	struct tool_common common;
};

/* The result, with the settings that were used once the defaults were filled in. */
struct prediction {
	struct tool_fanouts fanouts;
	uint32_t batch;
	uint64_t seed_count; /* distinct train ranks */
	struct rung_plan_traffic traffic;
};

static void set_model(const struct argp_state *state, void *ctx, const char *arg)
{
	struct plan_args *args = ctx;

	args->model = gen_arg_model(state, arg);
}

static void set_scale(const struct argp_state *state, void *ctx, const char *arg)
{
	struct plan_args *args = ctx;

	args->scale = gen_arg_scale(state, arg);
}

/* A model has counts and curves, but no files, no batches and no machine. */
static void check_model(const struct argp_state *state, const struct plan_args *args)
{
	const struct gen_model *model = args->model;
	const char *option = args->store.numa_given ? "numa-node" : args->sampled;

	option = args->store.device_option ? args->store.device_option : option;
	if (args->dir)
		argp_error(state, "--model and DIR exclude each other; omit one of them");
	if (option)
		argp_error(state, "--%s needs DIR, a staged dataset; omit it with --model", option);
	if (!args->store.host.given)
		argp_error(state, "--model needs --host; give a size such as 24GiB");
	if (args->scale > model->vertices / VERTICES_MIN)
		argp_error(state,
		           "--scale: 1/%llu of %llu vertices is too small; give one that leaves "
		           "at least %d",
		           (unsigned long long)args->scale, (unsigned long long)model->vertices,
		           VERTICES_MIN);
}

static void check_args(const struct argp_state *state, void *ctx)
{
	const struct plan_args *args = ctx;

	if (args->model) {
		check_model(state, args);
		return;
	}
	if (args->scale)
		argp_error(state, "--scale needs --model");
	tool_need_dir(state, args->dir);
}

static const struct tool_option options[] = {
	{ "model", "NAME", 1,
	  "Plan a public data set without its files, instead of DIR: mag240m, papers100m, "
	  "wikikg90m, igb, arxiv, debian-docs or debian; needs --host",
	  TOOL_SET(set_model) },
	{ "scale", "1/N", 1,
	  "With --model: vertices, edges and batch of a scale model (default: 1)",
	  TOOL_SET(set_scale) },
	{ "fanout", "LIST", 1, "Neighbours drawn per hop in the prediction (default: as staged)",
	  TOOL_FANOUTS(struct plan_args, fanouts), TOOL_NOTED(struct plan_args, sampled) },
	{ "batch", "N", 1, "Seeds per batch in the prediction (default: as staged)",
	  TOOL_U32(struct plan_args, batch, 1, UINT32_MAX), TOOL_NOTED(struct plan_args, sampled) },
	{ "seed", "N", 1, "Seed of the sampled batches (default: 1)",
	  TOOL_U64(struct plan_args, seed, 0, UINT64_MAX), TOOL_NOTED(struct plan_args, sampled) },
	{ 0 },
};

/* Without the options of the engine: a plan does not read rows. Checks run from the last set to the
 * first. */
static const struct tool_part parts[] = {
	TOOL_PART(tool_gpu_set, struct plan_args, store),
	TOOL_PART(tool_budget_set, struct plan_args, store),
	TOOL_PART(tool_placement_set, struct plan_args, store),
	TOOL_PART(tool_structure_set, struct plan_args, store),
	TOOL_PART(tool_common_set, struct plan_args, common),
	{ 0 },
};
const struct tool_command tool_plan_command = {
	.options = options,
	.parts = parts,
	.operands = "DIR\n--model NAME --host SIZE",
	.doc = "Place the rows of the staged dataset DIR into tiers, and predict from sampled "
	       "batches how many requests each tier will serve. With --model, predict it for a "
	       "public data set from measured curves.",
	.operand_kind = TOOL_OPERAND_DIR_OR_NOT,
	.dir = offsetof(struct plan_args, dir),
	.check = check_args,
};

/*
 * Open the structure, sample batches of the train ranks, and predict their traffic and time. Also
 * sets the hit shares of the tiers in data->plan, which the report prints.
 * @return a status
 */
static int predict(const struct plan_args *args, const struct tool_data *data,
                   struct prediction *out)
{
	const struct rung_dataset_info *info = rung_dataset_info(data->ds);
	struct rung_sampler_opts sampler = RUNG_SAMPLER_OPTS_INIT;
	struct rung_forecast_opts forecast = RUNG_FORECAST_OPTS_INIT;
	struct rung_profile assumed;
	struct rung_structure *structure;
	uint64_t *seeds = NULL;
	int rc;

	/* A forecast needs a profile. Without --profile it uses typical rates, and the report
	 * states that they were not measured. */
	rung_profile_assume(&assumed);
	forecast.profile = data->profile ? data->profile : &assumed;
	forecast.threads = args->common.threads;
	tool_fanouts_of(&args->fanouts, info, &out->fanouts);
	out->batch = args->batch ? args->batch : info->batch_size;
	rc = tool_train_ranks(data->ds, &out->seed_count, &seeds);
	if (rc < 0)
		return rc;
	rc = rung_structure_open(data->ds, data->plan, NULL, &structure);
	if (rc < 0)
		goto free_seeds;
	sampler.fanouts = out->fanouts.hops;
	sampler.hop_count = out->fanouts.count;
	sampler.seed = args->seed;
	sampler.threads = args->common.threads;
	sampler.structure = structure;
	/* batches_max 0: the library's default number of batches, not the whole epoch */
	rc = rung_plan_predict(data->plan, NULL, &sampler, seeds, out->seed_count, out->batch, 0,
	                       &forecast, &out->traffic);
	rung_structure_close(structure);
free_seeds:
	free(seeds);
	return rc;
}

/* The device that would gather, and the reason if it is not the requested one. */
static void set_device(json_t *root, const struct rung_plan_device *device)
{
	json_t *gpus = json_array();

	for (uint32_t i = 0; i < device->gpu_count; i++)
		tool_json_append(gpus, json_integer(device->gpus[i]));
	tool_json_set(root, "device", tool_json_text(rung_device_name(device->device)));
	tool_json_set(root, "device_why", tool_json_text(*device->why ? device->why : NULL));
	tool_json_set(root, "gpus", gpus);
}

/* Predicted reads of lists, and the blocks of lists from which the hops of a batch draw. */
static void set_lists(json_t *root, const struct rung_plan_traffic *traffic)
{
	const struct rung_forecast *lists = &traffic->structure_forecast;
	const double sampled = (double)traffic->batches_sampled,
		     epoch = (double)traffic->batches_per_epoch;

	tool_json_set(root, "list_blocks_per_batch",
	              tool_json_real(traffic->blocks_per_epoch / epoch));
	tool_json_set(root, "cold_list_blocks_per_batch",
	              tool_json_real(traffic->cold_blocks_per_epoch / epoch));
	tool_json_set(root, "list_reads_per_batch", tool_json_real(lists->reads / sampled));
	tool_json_set(root, "list_read_bytes_per_batch",
	              tool_json_real(lists->read_bytes / sampled));
	tool_json_set(root, "list_nvme_seconds_per_batch",
	              tool_json_real(lists->nvme_seconds / sampled));
}

/*
 * Predicted times and the settings they assume. The forecast has totals over the sampled batches;
 * JSON has means per batch, which do not depend on how many were sampled. GPU times are null on the
 * CPU, and `threads` is null on a GPU, where the host threads do not gather.
 */
static void set_forecast(json_t *root, const struct rung_plan *plan, const struct plan_args *args,
                         const struct rung_plan_traffic *traffic)
{
	const struct rung_forecast *forecast = &traffic->forecast;
	const int on_gpu = rung_plan_device(plan)->device == RUNG_DEVICE_CUDA;
	const double batches = (double)traffic->batches_sampled;

	tool_json_set(root, "seconds_per_epoch", tool_json_real(traffic->seconds_per_epoch));
	tool_json_set(root, "seconds_per_batch", tool_json_real(forecast->seconds / batches));
	tool_json_set(root, "memory_seconds_per_batch",
	              tool_json_real(forecast->memory_seconds / batches));
	tool_json_set(root, "nvme_seconds_per_batch",
	              tool_json_real(forecast->nvme_seconds / batches));
	tool_json_set(root, "gpu_seconds_per_batch",
	              on_gpu ? tool_json_real(forecast->gpu_seconds / batches) : json_null());
	tool_json_set(root, "peer_seconds_per_batch",
	              on_gpu ? tool_json_real(forecast->peer_seconds / batches) : json_null());
	tool_json_set(root, "link_seconds_per_batch",
	              on_gpu ? tool_json_real(forecast->link_seconds / batches) : json_null());
	tool_json_set(root, "reads_per_batch", tool_json_real(forecast->reads / batches));
	set_lists(root, traffic);
	tool_json_set(root, "bound", tool_json_text(rung_bound_name(forecast->bound)));
	tool_json_set(root, "threads", on_gpu ? json_null() : tool_json_u64(forecast->threads));
	/* a depth of 0: all rows are in memory, and nothing is read */
	tool_json_set(root, "queue_depth",
	              forecast->queue_depth ? tool_json_u64(forecast->queue_depth) : json_null());
	tool_json_set(root, "merge_gap_bytes",
	              forecast->queue_depth ? tool_json_u64(forecast->merge_gap_bytes)
	                                    : json_null());
	tool_json_set(root, "chosen", tool_json_tuning(rung_plan_tuning(plan)));
	tool_json_set(root, "profile", tool_json_text(args->store.profile));
	/* null without a profile: then every rate is assumed, not only those in the list */
	tool_json_set(root, "assumed",
	              args->store.profile ? tool_json_assumed(forecast->assumed) : json_null());
}

/* The same for people: time per batch and per epoch, the bottleneck, and where the rates are from.
 * `text` is used twice, so the two times are printed by two calls. */
static void print_forecast(const struct plan_args *args, const struct rung_plan_traffic *traffic)
{
	const struct rung_forecast *forecast = &traffic->forecast;
	char text[TOOL_ASSUMED_BYTES], more[TOOL_TEXT_BYTES];

	printf("\npredicted: %s a batch, ",
	       tool_seconds_text(text, forecast->seconds / (double)traffic->batches_sampled));
	printf("%s an epoch, bound by %s", tool_seconds_text(more, traffic->seconds_per_epoch),
	       rung_bound_name(forecast->bound));
	if (forecast->threads)
		printf(", with %u thread%s", forecast->threads, forecast->threads > 1 ? "s" : "");
	if (forecast->queue_depth)
		printf("%s %u reads in flight; one read spans gaps up to %u bytes",
		       forecast->threads ? " and" : ", with", forecast->queue_depth,
		       forecast->merge_gap_bytes);
	if (args->store.profile)
		printf("\nby the profile %s%s", args->store.profile,
		       tool_assumed_text(text, forecast->assumed));
	else
		printf("\nrates of the machine are assumed: measure them with rung numa --json, "
		       "and give --profile");
}

/* Planned NUMA nodes of each block of host memory. Called after predict(), which interleaves the
 * rows of the host tier if that is faster. */
static void set_placements(json_t *root, const struct rung_plan *plan)
{
	const char *why = rung_plan_placement_why(plan);
	const struct rung_placement *placement;
	json_t *placements = json_array();

	for (size_t i = 0; (placement = rung_plan_placement(plan, i)) != NULL; i++)
		tool_json_append(placements, tool_json_placement(placement));
	tool_json_set(root, "placements", placements);
	tool_json_set(root, "placement_why", tool_json_text(*why ? why : NULL));
}

/* The tiers come after predict(): only then do they have a hit share. */
static json_t *plan_json(const struct tool_data *data, const struct plan_args *args,
                         const struct prediction *prediction)
{
	const struct rung_plan *plan = data->plan;
	const struct rung_plan_traffic *traffic = &prediction->traffic;
	const struct plan_budget budget = { plan, traffic, &data->division };
	const struct rung_plan_slots *slots = rung_plan_slots(plan);
	const struct rung_plan_cache *cache = rung_plan_cache(plan);
	json_t *root = json_object(), *slots_json = json_object(), *cache_json = json_object();

	tool_json_set(slots_json, "count", tool_json_u64(slots->slot_count));
	tool_json_set(slots_json, "slot_bytes", tool_json_u64(slots->slot_bytes));
	tool_json_set(slots_json, "bytes", tool_json_u64(slots->slot_count * slots->slot_bytes));
	tool_json_set(cache_json, "rows", tool_json_u64(cache->row_count));
	tool_json_set(cache_json, "bytes", tool_json_u64(cache->bytes));
	set_device(root, rung_plan_device(plan));
	tool_json_set(root, "tiers", tool_json_plan(plan));
	set_placements(root, plan);
	tool_json_set(root, "slots", slots_json);
	tool_json_set(root, "cache", cache_json);
	tool_json_set(root, "map_bytes", tool_json_u64(rung_plan_map_bytes(plan)));
	tool_json_set(root, "budget", plan_budget_json(&budget));
	tool_json_set(root, "read_bytes_per_epoch", tool_json_real(traffic->read_bytes_per_epoch));
	set_forecast(root, plan, args, traffic);
	tool_json_set(root, "rows_per_batch", tool_json_real(traffic->rows_per_batch));
	tool_json_set(root, "rows_per_epoch", tool_json_real(traffic->rows_per_epoch));
	tool_json_set(root, "cold_rows_per_epoch", tool_json_real(traffic->cold_rows_per_epoch));
	tool_json_set(root, "batches_per_epoch", tool_json_u64(traffic->batches_per_epoch));
	tool_json_set(root, "batches_sampled", tool_json_u64(traffic->batches_sampled));
	tool_json_set(root, "sector_bytes", tool_json_u64(traffic->sector_bytes));
	tool_json_set(root, "fanout",
	              tool_json_u32s(prediction->fanouts.hops, prediction->fanouts.count));
	tool_json_set(root, "batch", tool_json_u64(prediction->batch));
	tool_json_set(root, "seeds", tool_json_u64(prediction->seed_count));
	return root;
}

/* The first GPU of the list gathers, and reads the memory of the others; nothing is printed on the
 * CPU. */
static void print_gpus(const struct rung_plan_device *device)
{
	if (device->gpu_count == 0)
		return;
	printf("GPU %d gathers", device->gpus[0]);
	for (uint32_t i = 1; i < device->gpu_count; i++)
		printf("%s %d", i == 1 ? "; rows are interleaved with GPU" : ",", device->gpus[i]);
	putchar('\n');
}

static void print_plan(const struct tool_data *data, const struct plan_args *args,
                       const struct prediction *prediction)
{
	const struct rung_plan_traffic *traffic = &prediction->traffic;
	const struct plan_budget budget = { data->plan, traffic, &data->division };
	char text[TOOL_TEXT_BYTES];

	/* after predict(), as in plan_json() */
	tool_print_plan(data->plan);
	print_gpus(rung_plan_device(data->plan));
	putchar('\n');
	plan_budget_print(&budget);
	putchar('\n');
	printf("an epoch of %llu batches (%llu sampled, %u seeds each): %.0f rows a batch",
	       (unsigned long long)traffic->batches_per_epoch,
	       (unsigned long long)traffic->batches_sampled, prediction->batch,
	       traffic->rows_per_batch);
	printf(", %s rows in all", tool_count_text(text, traffic->rows_per_epoch));
	printf(", %s cold", tool_count_text(text, traffic->cold_rows_per_epoch));
	printf("\nread from the file per epoch: %s, in sectors of %u bytes",
	       tool_bytes_text(text, traffic->read_bytes_per_epoch), traffic->sector_bytes);
	print_forecast(args, traffic);
	putchar('\n');
	if (rung_plan_tuning(data->plan))
		tool_print_tuning(rung_plan_tuning(data->plan), args->store.profile);
}

int cmd_plan(int argc, char **argv)
{
	struct plan_args args = { .seed = 1 };
	struct prediction prediction = { 0 };
	struct tool_sampling sampling;
	struct tool_data data;
	int rc, code = TOOL_DONE;

	tool_args_parse(&tool_plan_command, argc, argv, &args);
	if (args.model)
		return plan_model_run(argv[0],
		                      &(struct plan_model_args){ args.model, args.scale,
		                                                 &args.store, &args.common });
	sampling = (struct tool_sampling){ .fanouts = args.fanouts,
		                           .batch = args.batch,
		                           .seed = args.seed,
		                           .threads = args.common.threads,
		                           .compare = 1 };
	rc = tool_plan(argv[0], args.dir, &args.store, &sampling, &data);
	if (rc < 0)
		return tool_fail(argv[0], rc); /* tool_plan() left nothing open */
	rc = predict(&args, &data, &prediction);
	if (rc < 0)
		code = tool_fail(argv[0], rc);
	else if (!args.common.json)
		print_plan(&data, &args, &prediction);
	else if (tool_json_print(argv[0], plan_json(&data, &args, &prediction)) < 0)
		code = TOOL_FAILED;
	tool_close(&data);
	return code;
}

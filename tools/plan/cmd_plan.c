/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rung plan: print which rows go into which tier, and predict hits and times from sampled batches.
 * The store is not opened, so no row is read and no memory for rows is allocated: a budget can be
 * tried before it is used. Batches are sampled from the planned structure of the graph.
 */
#include <stdlib.h>
#include <string.h>

#include "args/args.h"
#include "output/json.h"
#include "output/out_file.h"
#include "plan/plan_dataset.h"
#include "plan/plan_model.h"

#define VERTICES_MIN 16 /* of a scale model, as in rung generate */

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
	if (args->scale > model->vertices / VERTICES_MIN)
		argp_error(state,
		           "--scale: 1/%llu of %llu vertices is too small; give one that leaves "
		           "at least %d",
		           (unsigned long long)args->scale, (unsigned long long)model->vertices,
		           VERTICES_MIN);
}

/* Options of other commands that people expect here. */
static void refuse_score(const struct argp_state *state, void *ctx, const char *arg)
{
	(void)ctx;
	argp_error(state,
	           "--score %s: a plan uses the order in which the dataset was staged; compare "
	           "orders with rung trace --methods, or stage again with --score",
	           arg);
}

static void check_args(const struct argp_state *state, void *ctx)
{
	const struct plan_args *args = ctx;

	if (args->explain && (args->sweep || !args->store.host.given))
		argp_error(state, "--explain shows one budget; give --host SIZE, without --sweep");
	if (args->model) {
		check_model(state, args);
		return;
	}
	if (args->scale)
		argp_error(state, "--scale needs --model");
	tool_need_dir(state, args->dir);
}

static const struct tool_word quant_formats[] = {
	{ "int8", RUNG_QUANT_INT8 },
	{ "int4", RUNG_QUANT_INT4 },
	{ "fp8", RUNG_QUANT_FP8 },
	{ 0 },
};

static const struct tool_option options[] = {
	{ "model", "NAME", 1,
	  "Plan a public data set without its files, instead of DIR: mag240m, papers100m, "
	  "wikikg90m, igb, arxiv, debian-docs or debian",
	  TOOL_SET(set_model), TOOL_KNOWN(GEN_MODELS) },
	{ "scale", "1/N", 1,
	  "With --model: vertices, edges and batch of a scale model (default: 1)",
	  TOOL_SET(set_scale) },
	{ "fanout", "LIST", 1, "Neighbours drawn per hop in the prediction (default: as staged)",
	  TOOL_FANOUTS(struct plan_args, fanouts), TOOL_NOTED(struct plan_args, sampled) },
	{ "batch", "N", 1, "Seeds per batch in the prediction (default: as staged)",
	  TOOL_U32(struct plan_args, batch, 1, UINT32_MAX), TOOL_NOTED(struct plan_args, sampled) },
	{ "seed", "N", 1, "Seed of the sampled batches (default: 1)",
	  TOOL_U64(struct plan_args, seed, 0, UINT64_MAX), TOOL_NOTED(struct plan_args, sampled) },
	{ "quantize", "FORMAT", 1,
	  "Plan the rows as if they were staged with --quantize int8, int4 or fp8",
	  TOOL_WORD(struct plan_args, store.quantize, quant_formats, "int8, int4 or fp8") },
	{ "sweep", NULL, 3, "Compare several budgets (default without --host)",
	  TOOL_FLAG(struct plan_args, sweep) },
	{ "compute", "SECONDS", 3,
	  "Time of the model per batch, such as 90ms: shows how long the trainer waits",
	  TOOL_TIME(struct plan_args, compute, 1e-9, 1e6) },
	{ "explain", NULL, 3, "With --host: also show how it is divided, and why",
	  TOOL_FLAG(struct plan_args, explain) },
	{ "svg", "FILE", 3, "Draw the tiers or the budgets to FILE",
	  TOOL_TEXT(struct plan_args, svg) },
	{ "score", "METHOD", 3, NULL, TOOL_SET(refuse_score) },
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
	.operands = "DIR\n--model NAME",
	.doc = "Compare memory budgets for the staged dataset DIR, or with --host show the tiers "
	       "of one, with hits and times predicted from sampled batches. With --model, do it "
	       "for a public data set from measured curves.",
	.operand_kind = TOOL_OPERAND_DIR_OR_NOT,
	.dir = offsetof(struct plan_args, dir),
	.check = check_args,
	.headings = { [1] = "Budget and batches:",
	              [3] = "Answer:",
	              TOOL_GPU_HEADING,
	              TOOL_MEMORY_HEADING },
	.threads = "Threads that sample batches (default: one per CPU), and that gather in the "
		   "prediction (default: from --profile, else 1)",
	.examples = "  rung plan graph.rung --compute 90ms\n  rung plan --model mag240m --host 64G "
		    "--profile machine.json",
};

/*
 * Open the structure, sample batches of the train ranks, and predict their traffic and time. Also
 * sets the hit shares of the tiers in data->plan, which the report prints.
 * @return a status
 */
static int predict(const struct plan_args *args, const struct tool_data *data,
                   struct prediction *out)
{
	struct plan_sampling sampling = { .seeds = NULL };
	struct rung_structure *structure;
	int rc = plan_sampling_init(args, data, &sampling, out);

	if (rc < 0)
		return rc;
	rc = rung_structure_open(data->ds, data->plan, NULL, &structure);
	if (rc < 0)
		goto free_seeds;
	sampling.sampler.structure = structure;
	/* batches_max 0: the library's default number of batches, not the whole epoch */
	rc = rung_plan_predict(data->plan, NULL, &sampling.sampler, sampling.seeds, out->seed_count,
	                       out->batch, 0, &sampling.forecast, &out->traffic);
	rung_structure_close(structure);
free_seeds:
	free(sampling.seeds);
	return rc;
}

static int plan_one(const char *name, const struct plan_args *args, FILE *svg)
{
	const struct tool_sampling sampling = { .fanouts = args->fanouts,
		                                .batch = args->batch,
		                                .draws_as_staged = 1,
		                                .seed = args->seed,
		                                .threads = args->common.threads,
		                                .compare = 1 };
	struct prediction prediction = { 0 };
	struct plan_answer answer;
	struct tool_data data;
	int rc = tool_plan(name, args->dir, &args->store, &sampling, &data), code = TOOL_DONE;

	if (rc < 0)
		return tool_fail(name, rc); /* tool_plan() left nothing open */
	rc = predict(args, &data, &prediction);
	if (rc < 0) {
		code = tool_fail(name, rc);
		goto close_data;
	}
	answer = plan_answer_of(data.ds, data.plan, &prediction.traffic);
	if (svg)
		plan_answer_svg(&answer, args->compute, args->dir, svg);
	if (!args->common.json)
		plan_print(&data, args, &prediction);
	else if (tool_json_print(name, plan_json(&data, args, &prediction)) < 0)
		code = TOOL_FAILED;
close_data:
	tool_close(&data);
	return code;
}

int cmd_plan(int argc, char **argv)
{
	struct plan_args args = { .seed = 1, .argv = argv };
	struct tool_out svg;
	int code;

	tool_args_parse(&tool_plan_command, argc, argv, &args);
	args.sweep |= !args.store.host.given;
	code = tool_out_open(argv[0], args.svg, &svg);
	if (code != TOOL_DONE)
		return code;
	if (args.model)
		code = plan_model_run(
			argv[0], &(struct plan_model_args){ args.model, args.scale, &args.store,
		                                            &args.common, args.compute, args.sweep,
		                                            args.explain, svg.file, argv });
	else if (args.sweep)
		code = plan_sweep_run(argv[0], &args, svg.file);
	else
		code = plan_one(argv[0], &args, svg.file);
	if (code == TOOL_DONE)
		code = tool_out_commit(&svg);
	tool_out_abandon(&svg);
	return code;
}

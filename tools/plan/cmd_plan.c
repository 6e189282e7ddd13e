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

#define VERTICES_MIN  16 /* of a scale model, as in rung generate */
#define VERTICES_MAX  10000000000000u
#define EDGES_MAX     1000000000000000u
#define ROW_BYTES_MAX 1048576u
#define DRIVES_MAX    64

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

/* A share such as "1%": of a number, a unit would be ambiguous. */
static void set_train(const struct argp_state *state, void *ctx, const char *arg)
{
	const size_t length = strlen(arg);
	struct plan_args *args = ctx;
	struct tool_size size = { .share = -1 };

	if (length > 0 && arg[length - 1] == '%')
		size = tool_arg_size(state, "--train", arg);
	if (!(size.share > 0))
		argp_error(state,
		           "--train: '%s' is not a share of the vertices; give one such as 1%%",
		           arg);
	args->counts.train = size.share;
	args->counts.given = "train";
}

static void set_shared(const struct argp_state *state, void *ctx, const char *arg)
{
	struct plan_machines_args *machines = &((struct plan_args *)ctx)->machines;
	const int is_rate = tool_is_rate(arg);

	machines->storage = is_rate ? tool_arg_rate(state, "--shared", arg) : 0;
	machines->shared = is_rate ? NULL : arg;
}

/* Counts replace those of the model at its full size. */
static void check_counts(const struct argp_state *state, const struct plan_args *args)
{
	const struct plan_counts *counts = &args->counts;
	const struct gen_model *model = args->model;
	uint32_t value_bytes;

	if (!model)
		argp_error(state, "--%s needs --model, whose curves are used", counts->given);
	if (args->scale && strcmp(counts->given, "drives") != 0)
		argp_error(state, "--%s and --scale exclude each other; omit one of them",
		           counts->given);
	value_bytes = (uint32_t)rung_dtype_bytes(model->dtype);
	if (counts->row_bytes % value_bytes)
		argp_error(state,
		           "--row-bytes: %u is not a multiple of %u, the bytes of a value of %s",
		           counts->row_bytes, value_bytes, model->name);
}

static void check_machines(const struct argp_state *state, const struct plan_args *args)
{
	const struct plan_machines_args *machines = &args->machines;

	if (!machines->machines)
		argp_error(state, "--%s needs --machines N", machines->nic > 0 ? "nic" : "shared");
	if (!(machines->nic > 0))
		argp_error(state,
		           "--machines needs --nic RATE, such as 100Gb: that of one machine");
	if (args->sweep || !args->store.host.given)
		argp_error(state, "--machines needs --host SIZE, the budget of a machine, without "
		                  "--sweep");
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
	if (args->machines.machines || args->machines.nic > 0 || args->machines.storage > 0 ||
	    args->machines.shared)
		check_machines(state, args);
	if (args->counts.given)
		check_counts(state, args);
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
	{ "vertices", "N", 1, "With --model: number of vertices, in place of the original's",
	  TOOL_U64(struct plan_args, counts.vertices, VERTICES_MIN, VERTICES_MAX),
	  TOOL_NOTED(struct plan_args, counts.given) },
	{ "edges", "N", 1,
	  "With --model: entries of the neighbour lists (default: as many per vertex as the "
	  "original has)",
	  TOOL_U64(struct plan_args, counts.edges, 1, EDGES_MAX),
	  TOOL_NOTED(struct plan_args, counts.given) },
	{ "row-bytes", "N", 1, "With --model: bytes of a feature row",
	  TOOL_U32(struct plan_args, counts.row_bytes, 1, ROW_BYTES_MAX),
	  TOOL_NOTED(struct plan_args, counts.given) },
	{ "train", "SHARE", 1, "With --model: train vertices, as a share of all such as 1%",
	  TOOL_SET(set_train) },
	{ "drives", "N", 1,
	  "With --model: drives of a machine, over which rows are striped "
	  "(default: 1)",
	  TOOL_U32(struct plan_args, counts.drives, 1, DRIVES_MAX),
	  TOOL_NOTED(struct plan_args, counts.given) },
	{ "machines", "N", 2,
	  "With --host: compare own copies, shared storage and parts of both on N machines",
	  TOOL_U32(struct plan_args, machines.machines, PLAN_MACHINES_MIN, PLAN_MACHINES_MAX) },
	{ "nic", "RATE", 2, "Network of each machine: bits such as 100Gb, or bytes such as 12GB",
	  TOOL_RATE(struct plan_args, machines.nic) },
	{ "shared", "RATE|FILE", 2,
	  "Shared storage: what it delivers to all machines together, such as 200GB, or the "
	  "output of rung numa --json --dir MOUNT on one of them",
	  TOOL_SET(set_shared) },
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
	              [2] = "Several machines:",
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
	if (rc == 0 && args->machines.machines)
		rc = plan_prefix_hits(args, data, &sampling, out);
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

/* Read the profile of --shared. @return an exit code */
static int load_shared(const char *name, struct plan_machines_args *machines)
{
	int rc = 0;

	if (machines->shared)
		rc = tool_profile_load(machines->shared, &machines->rates);
	if (rc < 0)
		return tool_fail(name, rc);
	if (machines->rates && machines->rates->reads_count == 0)
		return tool_error(name, TOOL_USAGE,
		                  "--shared: %s has no read rates; measure the mount with "
		                  "rung numa --only gather,nvme --dir MOUNT --json",
		                  machines->shared);
	return TOOL_DONE;
}

int cmd_plan(int argc, char **argv)
{
	struct plan_args args = { .seed = 1, .argv = argv };
	struct tool_out svg;
	int code;

	tool_args_parse(&tool_plan_command, argc, argv, &args);
	args.sweep |= !args.store.host.given;
	if (!args.model && plan_is_typed(args.dir))
		return plan_typed_run(argv[0], &args);
	code = load_shared(argv[0], &args.machines);
	if (code == TOOL_DONE)
		code = tool_out_open(argv[0], args.svg, &svg);
	if (code != TOOL_DONE)
		goto free_rates;
	if (args.model)
		code = plan_model_run(
			argv[0], &(struct plan_model_args){ args.model, &args.counts,
		                                            &args.machines, args.scale, &args.store,
		                                            &args.common, args.compute, args.sweep,
		                                            args.explain, svg.file, argv });
	else if (args.sweep)
		code = plan_sweep_run(argv[0], &args, svg.file);
	else
		code = plan_one(argv[0], &args, svg.file);
	if (code == TOOL_DONE)
		code = tool_out_commit(&svg);
	tool_out_abandon(&svg);
free_rates:
	free(args.machines.rates);
	return code;
}

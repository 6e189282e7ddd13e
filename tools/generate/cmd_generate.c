/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rung generate: write a scale model of a public graph, as plain arrays and a dataset.json that
 * describes them. This file has the options and the report.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "args/args.h"
#include "generate.h"
#include "output/json.h"

#define VERTICES_MIN   16        /* ranges and permutations of fewer would need special cases */
#define VERTICES_MAX   INT32_MAX /* ids in edges.npy are int32 */
#define EDGES_MAX      (UINT64_C(1) << 40)
#define WIDTH_MAX      65536
#define MEMORY_DEFAULT (UINT64_C(256) << 20)

struct generate_args {
	const char *dir;
	const struct gen_model *model;
	uint64_t scale; /* N of 1/N; 0: not given */
	uint64_t vertices, edges, seed, memory_bytes;
	uint32_t width;
	double given[GEN_PARAMS_MAX]; /* of --set, in the order of gen_param_list */
	bool is_given[GEN_PARAMS_MAX];
	bool typed;
	struct tool_common common;
};

static void set_model(const struct argp_state *state, void *ctx, const char *arg)
{
	struct generate_args *args = ctx;

	args->model = gen_arg_model(state, arg);
}

static void set_scale(const struct argp_state *state, void *ctx, const char *arg)
{
	struct generate_args *args = ctx;

	args->scale = gen_arg_scale(state, arg);
}

static void set_param(const struct argp_state *state, void *ctx, const char *arg)
{
	struct generate_args *args = ctx;
	const size_t length = strcspn(arg, "=");

	for (size_t i = 0; gen_param_list[i].name; i++) {
		const struct gen_param *param = &gen_param_list[i];

		if (strlen(param->name) != length || strncmp(param->name, arg, length) != 0 ||
		    !arg[length])
			continue;
		args->given[i] = tool_arg_double(state, "--set", arg + length + 1, param->low,
		                                 param->high, TOOL_CLOSED);
		args->is_given[i] = true;
		return;
	}
	argp_error(state,
	           "--set: '%s' is not of the form NAME=VALUE with the name of a parameter; "
	           "rung-generate(1) lists them",
	           arg);
}

/* The counts of the original divided by the scale, where they were not given. */
static void check_args(const struct argp_state *state, void *ctx)
{
	struct generate_args *args = ctx;

	if (!args->dir || !*args->dir)
		argp_error(state, "DIR is missing; give the folder to create");
	if (!args->model)
		argp_error(state, "--model is missing; give a model such as mag240m");
	if (args->typed && !gen_model_typed(args->model->name))
		argp_error(state, "--typed: %s has one vertex type; use mag240m",
		           args->model->name);
	if (args->typed)
		args->model = gen_model_typed(args->model->name);
	if (args->scale && args->vertices)
		argp_error(state, "--scale and --vertices exclude each other; omit one of them");
	if (args->edges && !args->vertices)
		argp_error(state, "--edges needs --vertices");
	if (args->vertices && !args->edges)
		args->edges = (uint64_t)((double)args->vertices * (double)args->model->edges /
		                         (double)args->model->vertices);
	if (!args->vertices) {
		args->scale = args->scale ? args->scale : 1;
		args->vertices = args->model->vertices / args->scale;
		args->edges = args->model->edges / args->scale;
		if (args->vertices < VERTICES_MIN)
			argp_error(state,
			           "--scale: 1/%llu of %llu vertices is too small; give one that "
			           "leaves at least %d",
			           (unsigned long long)args->scale,
			           (unsigned long long)args->model->vertices, VERTICES_MIN);
	}
}

static const struct tool_option options[] = {
	{ "model", "NAME", 1,
	  "Graph to model: mag240m, papers100m, wikikg90m, igb, arxiv, debian-docs or debian",
	  TOOL_SET(set_model), TOOL_KNOWN(GEN_MODELS) },
	{ "scale", "1/N", 1, "Vertices and edges relative to the original (default: 1)",
	  TOOL_SET(set_scale) },
	{ "typed", NULL, 1, "With mag240m: authors and institutions are separate vertex types",
	  TOOL_FLAG(struct generate_args, typed) },
	{ "vertices", "N", 1, "Number of vertices, with --typed of papers, instead of --scale",
	  TOOL_U64(struct generate_args, vertices, VERTICES_MIN, VERTICES_MAX) },
	{ "edges", "N", 1, "Number of edges (default: as many per vertex as the original has)",
	  TOOL_U64(struct generate_args, edges, 1, EDGES_MAX) },
	{ "width", "N", 2, "Values per feature row (default: as the original)",
	  TOOL_U32(struct generate_args, width, 1, WIDTH_MAX) },
	{ "seed", "N", 2, "Seed of all draws (default: 0)",
	  TOOL_U64(struct generate_args, seed, 0, INT64_MAX) },
	{ "set", "NAME=VALUE", 2, "Replace a fitted parameter of the model", TOOL_SET(set_param) },
	{ "memory", "SIZE", 3, "Memory to use at most, for buffers (default: 256MiB)",
	  TOOL_BYTES(struct generate_args, memory_bytes, 0,
	             "not in bytes; give a size such as 256MiB") },
	{ 0 },
};

static const struct tool_part parts[] = {
	TOOL_PART(tool_common_set, struct generate_args, common),
	{ 0 },
};

const struct tool_command tool_generate_command = {
	.options = options,
	.parts = parts,
	.operands = "DIR --model NAME",
	.doc = "Generate a scale model of a public graph in the new folder DIR: edges, features, "
	       "labels, splits, and a dataset.json that describes them.\vThe same options give the "
	       "same bytes, with any number of threads.\n\nExit status: 0 done, 1 failed, 2 wrong "
	       "usage.",
	.operand_kind = TOOL_OPERAND_DIR_OR_NOT,
	.dir = offsetof(struct generate_args, dir),
	.check = check_args,
	.headings = { [1] = "Model and size:", [2] = "Details:", [3] = "Resources:" },
	.examples = "  rung generate arxiv --model arxiv\n  rung generate mag --model mag240m "
		    "--scale 1/64 --width 128",
};

/* ---- the job ---- */

static uint32_t thread_count(const struct generate_args *args)
{
#ifdef _OPENMP
	return args->common.threads ? args->common.threads : (uint32_t)omp_get_max_threads();
#else
	(void)args;
	return 1;
#endif
}

static int prepare_types(struct gen_job *job)
{
	job->typed = malloc(sizeof(*job->typed));
	if (!job->typed)
		return tool_error(job->command, TOOL_FAILED, "no memory for the tables of a model");
	gen_typed_init(job->typed, &job->graph, job->scale);
	return TOOL_DONE;
}

static int prepare(const struct generate_args *args, struct gen_job *job)
{
	struct gen_graph *graph = &job->graph;

	graph->model = args->model;
	graph->vertices = args->vertices;
	graph->edges = args->edges;
	graph->params = args->model->params;
	for (size_t i = 0; gen_param_list[i].name; i++) {
		if (args->is_given[i])
			*(double *)((char *)&graph->params + gen_param_list[i].offset) =
				args->given[i];
	}
	job->seed = args->seed;
	job->scale = args->scale;
	job->width = args->width ? args->width : args->model->width;
	job->memory_bytes = args->memory_bytes ? args->memory_bytes : MEMORY_DEFAULT;
	job->threads = thread_count(args);
	if (job->scale)
		snprintf(job->name, sizeof(job->name), "%s 1/%llu", args->model->name,
		         (unsigned long long)job->scale);
	else
		snprintf(job->name, sizeof(job->name), "%s with %llu vertices", args->model->name,
		         (unsigned long long)graph->vertices);
	if (gen_graph_init(graph, args->seed) < 0)
		return tool_error(job->command, TOOL_FAILED, "no memory for %llu communities",
		                  (unsigned long long)graph->communities);
	return args->typed ? prepare_types(job) : TOOL_DONE;
}

/* The files in an order in which a failure comes early: the graph, which can be impossible, first;
 * the rows, which are nearly all of the bytes, last. @return an exit code, the failure printed */
static int generate(struct gen_job *job)
{
	const uint64_t begin_ns = tool_now_ns();
	uint64_t edges_ns, rows_ns;
	int code = gen_complete(job);

	if (code == TOOL_DONE)
		code = gen_write_edges(job);
	edges_ns = tool_now_ns();
	if (code == TOOL_DONE)
		code = gen_write_labels(job);
	rows_ns = tool_now_ns();
	if (code == TOOL_DONE)
		code = gen_write_rows(job);
	job->edges_seconds = (double)(edges_ns - begin_ns) * 1e-9;
	job->rows_seconds = (double)(tool_now_ns() - rows_ns) * 1e-9;
	if (code == TOOL_DONE)
		code = gen_write_description(job);
	if (code == TOOL_DONE)
		code = gen_folder_commit(&job->folder);
	job->seconds = (double)(tool_now_ns() - begin_ns) * 1e-9;
	return code;
}

/* ---- the result ---- */

static json_t *report_json(const struct gen_job *job)
{
	const struct gen_graph *graph = &job->graph;
	json_t *root = json_object();

	tool_json_set(root, "out", tool_json_text(job->folder.path));
	tool_json_set(root, "model", tool_json_text(graph->model->name));
	tool_json_set(root, "scale",
	              job->scale ? tool_json_real(1.0 / (double)job->scale) : json_null());
	tool_json_set(root, "seed", tool_json_u64(job->seed));
	tool_json_set(root, "vertices", tool_json_u64(graph->vertices));
	tool_json_set(root, "edges", tool_json_u64(graph->edges));
	if (job->typed) {
		tool_json_set(root, "vertex_types", gen_types_json(job));
		tool_json_set(root, "relations", gen_relations_json(job));
	}
	tool_json_set(root, "undirected", json_boolean(graph->model->undirected));
	tool_json_set(root, "classes", tool_json_u64(graph->classes));
	tool_json_set(root, "communities", tool_json_u64(graph->communities));
	tool_json_set(root, "train", tool_json_u64(graph->split_count[GEN_TRAIN]));
	tool_json_set(root, "valid", tool_json_u64(graph->split_count[GEN_VALID]));
	tool_json_set(root, "test", tool_json_u64(graph->split_count[GEN_TEST]));
	tool_json_set(root, "row_bytes", tool_json_u64(gen_row_bytes(job)));
	tool_json_set(root, "bytes", tool_json_u64(gen_bytes(job)));
	tool_json_set(root, "parameters", gen_params_json(graph));
	tool_json_set(root, "threads", tool_json_u64(job->threads));
	tool_json_set(root, "memory_bytes", tool_json_u64(job->memory_bytes));
	tool_json_set(root, "edges_seconds", tool_json_real(job->edges_seconds));
	tool_json_set(root, "rows_seconds", tool_json_real(job->rows_seconds));
	tool_json_set(root, "seconds", tool_json_real(job->seconds));
	tool_json_set(root, "peak_rss_bytes", tool_json_u64(tool_peak_rss()));
	return root;
}

static void print_types(const struct gen_typed *typed)
{
	printf("%llu authors, who write %llu times; %llu institutions, %llu affiliations\n",
	       (unsigned long long)typed->authors, (unsigned long long)typed->writes.edges,
	       (unsigned long long)typed->institutions,
	       (unsigned long long)typed->affiliations.edges);
}

static void print_report(const struct gen_job *job)
{
	const struct gen_graph *graph = &job->graph;
	char text[TOOL_TEXT_BYTES], seconds[TOOL_TEXT_BYTES];

	printf("%s: %llu vertices, %llu edges%s, rows of %llu bytes\n", job->name,
	       (unsigned long long)graph->vertices, (unsigned long long)graph->edges,
	       graph->model->undirected ? " to use in both directions" : "",
	       (unsigned long long)gen_row_bytes(job));
	if (job->typed)
		print_types(job->typed);
	printf("%u classes; train %llu, valid %llu, test %llu\n", graph->classes,
	       (unsigned long long)graph->split_count[GEN_TRAIN],
	       (unsigned long long)graph->split_count[GEN_VALID],
	       (unsigned long long)graph->split_count[GEN_TEST]);
	printf("wrote %s to %s in %s\n", tool_bytes_text(text, (double)gen_bytes(job)),
	       job->folder.path, tool_seconds_text(seconds, job->seconds));
	printf("to use it: rung stage --dataset %s/dataset.json --out OUT\n", job->folder.path);
}

int cmd_generate(int argc, char **argv)
{
	struct generate_args args = { 0 };
	struct gen_job *job; /* its tables are too large for a stack */
	int code;

	tool_args_parse(&tool_generate_command, argc, argv, &args);
	job = calloc(1, sizeof(*job));
	if (!job)
		return tool_error(argv[0], TOOL_FAILED, "no memory for the tables of a model");
	job->command = argv[0];
	job->folder.command = argv[0];
	job->folder.path = args.dir;
	tool_progress_init(&job->progress, argv[0], args.common.quiet);
	code = prepare(&args, job);
	if (code == TOOL_DONE)
		code = gen_folder_open(&job->folder, gen_bytes(job));
	if (code == TOOL_DONE)
		code = generate(job);
	tool_progress_end(&job->progress);
	if (code == TOOL_DONE && args.common.json)
		code = tool_json_print(argv[0], report_json(job)) < 0 ? TOOL_FAILED : TOOL_DONE;
	else if (code == TOOL_DONE)
		print_report(job);
	gen_folder_close(&job->folder);
	gen_graph_fini(&job->graph);
	free(job->typed);
	free(job);
	return code;
}

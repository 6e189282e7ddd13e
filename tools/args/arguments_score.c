/* SPDX-License-Identifier: Apache-2.0 */
/* Options of the commands that read a graph and score it: rung stage, rung score, and rung verify,
 * which reads the graph again. */
#include <stdlib.h>
#include <string.h>

#include "args/args.h"

/* If --graph is repeated, the edge lists are joined. "none" is a word and not a file of that name,
 * which would be ./none. */
static void add_graph(const struct argp_state *state, void *ctx, const char *spec)
{
	struct tool_graph_args *args = ctx;
	const char **specs;

	if (strcmp(spec, "none") == 0) {
		args->none = 1;
		return;
	}
	specs = realloc(args->specs, (args->opts.spec_count + 1) * sizeof(*specs));
	if (!specs)
		argp_failure(state, TOOL_FAILED, 0, "no memory for the options");
	args->specs = specs;
	args->specs[args->opts.spec_count++] = spec;
	args->opts.specs = args->specs;
}

/* N, or TYPE=N or TYPE=SRC of a typed graph. A file whose name is a number is written ./N. */
static void set_vertices(const struct argp_state *state, void *ctx, const char *arg)
{
	struct tool_graph_args *args = ctx;
	const size_t length = tool_name_length(arg);
	const char *value = arg + length + 1;
	struct tool_type *types;

	if (length == 0) {
		const uint64_t before = args->opts.vertex_count;

		args->opts.vertex_count = tool_arg_u64(state, "--vertices", arg, 1, UINT64_MAX - 1);
		if (before && before != args->opts.vertex_count)
			argp_error(state,
			           "--vertices: '%s' is given, and another number, too; give one",
			           arg);
		return;
	}
	if (!args->may_be_typed)
		argp_error(state,
		           "--vertices: '%s' is a type of a typed graph, which only rung stage "
		           "reads; give a number",
		           arg);
	if (!*value)
		argp_error(state,
		           "--vertices: '%s' has no value; give TYPE=SRC, such as paper=x.npy, or "
		           "TYPE=N for N vertices without features",
		           arg);
	types = realloc(args->types, (args->type_count + 1) * sizeof(*types));
	if (!types)
		argp_failure(state, TOOL_FAILED, 0, "no memory for the options");
	args->types = types;
	types += args->type_count++;
	*types = (struct tool_type){ .text = arg, .name_length = length };
	if (value[0] >= '0' && value[0] <= '9' && !value[strspn(value, "0123456789.,eEkKMGT ")])
		types->count = tool_arg_u64(state, "--vertices", value, 1, UINT64_MAX - 1);
}

/* Runs after all options, because "none" can precede or follow another --graph. */
static void check_graph(const struct argp_state *state, void *ctx)
{
	const struct tool_graph_args *args = ctx;

	if (args->none && args->opts.spec_count > 0)
		argp_error(state, "--graph none: another --graph is given; omit one of them");
}

static const struct tool_option graph_options[] = {
	{ "graph", "GRAPH", 1,
	  "Edge index [2,E] or [E,2] as a SRC (repeatable, to join lists; append +FIRST,FIRST if "
	  "its ids start at these), or csc:SRC,SRC (indptr and indices of in-neighbours), or "
	  "csr:SRC,SRC (of out-neighbours), or none: no edges",
	  TOOL_SET(add_graph) },
	{ "undirected", NULL, 2, "Add the reverse of every edge",
	  TOOL_FLAG(struct tool_graph_args, opts.undirected) },
	{ "dedup", NULL, 2, "Keep only one of several equal edges",
	  TOOL_FLAG(struct tool_graph_args, opts.dedup) },
	{ "vertices", "N", 2, "Number of vertices, if graph and features do not determine it",
	  TOOL_SET(set_vertices) },
	{ 0 },
};

const struct tool_option_set tool_graph_set = { graph_options, NULL, check_graph };

const struct tool_word tool_draws[] = {
	{ "all", RUNG_DRAWS_ALL },
	{ "new", RUNG_DRAWS_NEW },
	{ 0 },
};

/* LIST, or SOURCE:RELATION:TARGET=LIST of a typed graph. */
static void set_fanouts(const struct argp_state *state, void *ctx, const char *arg)
{
	struct tool_score_args *args = ctx;
	const size_t length = tool_names_length(arg, 3);
	struct tool_relation_fanouts *typed;

	if (length == 0) {
		args->fanouts = tool_arg_fanouts(state, "--fanout", arg);
		return;
	}
	if (!args->may_be_typed)
		argp_error(state,
		           "--fanout: '%s' is a relation of a typed graph, which only rung stage "
		           "reads; give a list such as 25,10",
		           arg);
	typed = realloc(args->typed, (args->typed_count + 1) * sizeof(*typed));
	if (!typed)
		argp_failure(state, TOOL_FAILED, 0, "no memory for the options");
	args->typed = typed;
	typed += args->typed_count++;
	*typed = (struct tool_relation_fanouts){ .text = arg, .name_length = length };
	typed->fanouts = tool_arg_relation_fanouts(state, "--fanout", arg + length + 1);
}

/* Bounds are those of the library where it has them. A seed has 63 bits, because JSON and the
 * manifest store it as a signed integer. */
static const struct tool_option score_options[] = {
	{ "fanout", "LIST", 3,
	  "Neighbours that training draws per hop, starting at the seeds (default of rung stage: "
	  "25,10)",
	  TOOL_SET(set_fanouts) },
	{ "batch", "N", 3, "Seeds per batch of training (default: 1024)",
	  TOOL_U32(struct tool_score_args, opts.batch_size, 1, UINT32_MAX) },
	{ "draws", "all|new", 3,
	  "Vertices that draw at a hop: all of the batch, as in DGL (default), or new ones, as in "
	  "PyG",
	  TOOL_WORD(struct tool_score_args, opts.draws, tool_draws, "all or new"),
	  TOOL_NOTED(struct tool_score_args, draws_given) },
	{ "epochs", "N", 4, "presample: number of sampled epochs (default: 1)",
	  TOOL_U32(struct tool_score_args, opts.epochs, 1, 1000000) },
	{ "batches", "N", 4,
	  "presample: maximum number of batches (default: no limit); blend: the same for each of "
	  "its two runs (default: 256)",
	  TOOL_U32(struct tool_score_args, opts.batches_max, 1, UINT32_MAX) },
	{ "seed", "N", 4, "presample, blend: seed of the sampled batches (default: 0)",
	  TOOL_U64(struct tool_score_args, opts.seed, 0, INT64_MAX) },
	{ "iterations", "N", 4,
	  "wrpagerank, ppr: number of steps (default: 5); rpagerank: maximum number of steps "
	  "(default: 200)",
	  TOOL_U32(struct tool_score_args, opts.iterations, 1, 1000000) },
	{ "damping", "D", 4, "rpagerank, wrpagerank, ppr: between 0 and 1 (default: 0.85)",
	  TOOL_REAL(struct tool_score_args, opts.damping, 0, 1, TOOL_OPEN) },
	{ "tolerance", "X", 4,
	  "rpagerank: stop once the sum of all changes of a step is below X (default: 1e-6)",
	  TOOL_REAL(struct tool_score_args, opts.tolerance, 0, 1e6, TOOL_OPEN_LOW) },
	{ 0 },
};

const struct tool_option_set tool_score_set = { score_options, NULL, NULL };

/* The default method is blend, which samples. */
int tool_score_samples(enum rung_score_method method)
{
	return method == RUNG_SCORE_DEFAULT || method == RUNG_SCORE_PRESAMPLE ||
	       method == RUNG_SCORE_EXPECTED || method == RUNG_SCORE_BLEND;
}

int tool_score_converges(enum rung_score_method method)
{
	return method == RUNG_SCORE_RPAGERANK || method == RUNG_SCORE_WRPAGERANK ||
	       method == RUNG_SCORE_PPR;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Options of those that read a graph and score it: rung stage and rung score. */
#include <stdlib.h>
#include <string.h>

#include "tool.h"

enum {
	KEY_GRAPH = 0x4201,
	KEY_UNDIRECTED,
	KEY_DEDUP,
	KEY_VERTICES,
	KEY_FANOUT,
	KEY_BATCH,
	KEY_DRAWS,
	KEY_EPOCHS,
	KEY_BATCHES,
	KEY_ITERATIONS,
	KEY_DAMPING,
	KEY_TOLERANCE,
	KEY_SEED,
};

static const struct argp_option graph_options[] = {
	{ "graph", KEY_GRAPH, "GRAPH", 0,
	  "Edge index [2,E] or [E,2] as a SRC (repeat it to join lists; +FIRST,FIRST behind it: its ids count from there), or csc:SRC,SRC (indptr and indices of in-neighbours), or "
	  "csr:SRC,SRC (of out-neighbours); none: no edges",
	  1 },
	{ "undirected", KEY_UNDIRECTED, NULL, 0, "Add the reverse of every edge", 2 },
	{ "dedup", KEY_DEDUP, NULL, 0, "Keep one of equal edges", 2 },
	{ "vertices", KEY_VERTICES, "N", 0, "Number of vertices, when graph and features do not say it", 2 },
	{ 0 },
};

static void add_graph(const struct argp_state *state, struct tool_graph_args *args, const char *spec)
{
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

static error_t parse_graph(int key, char *arg, struct argp_state *state)
{
	struct tool_graph_args *args = state->input;

	switch (key) {
	case KEY_GRAPH:
		add_graph(state, args, arg);
		return 0;
	case ARGP_KEY_END:
		if (args->none && args->opts.spec_count > 0)
			argp_error(state, "--graph none: another is given as well; give one");
		return 0;
	case KEY_UNDIRECTED:
		args->opts.undirected = 1;
		return 0;
	case KEY_DEDUP:
		args->opts.dedup = 1;
		return 0;
	case KEY_VERTICES:
		args->opts.vertex_count = tool_arg_u64(state, "--vertices", arg, 1, UINT64_MAX - 1);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp tool_graph_argp = { graph_options, parse_graph, NULL, NULL, NULL, NULL, NULL };

static const struct argp_option score_options[] = {
	{ "fanout", KEY_FANOUT, "LIST", 0,
	  "Neighbours that training draws per hop, from the seeds on (rung stage takes 25,10 without it)", 3 },
	{ "batch", KEY_BATCH, "N", 0, "Seeds per batch of training (default: 1024)", 3 },
	{ "draws", KEY_DRAWS, "all|new", 0,
	  "Which vertices draw at a hop: all of the batch, as in DGL (default), or those that are new in it, as in PyG", 3 },
	{ "epochs", KEY_EPOCHS, "N", 0, "presample: epochs that are sampled (default: 1)", 4 },
	{ "batches", KEY_BATCHES, "N", 0, "presample: at most so many batches; blend: of each of its two runs (default: 256)", 4 },
	{ "seed", KEY_SEED, "N", 0, "presample, blend: seed of the sampled batches (default: 0)", 4 },
	{ "iterations", KEY_ITERATIONS, "N", 0, "wrpagerank, ppr: steps (default: 5); rpagerank: at most so many (default: 200)", 4 },
	{ "damping", KEY_DAMPING, "D", 0, "rpagerank, wrpagerank, ppr: between 0 and 1 (default: 0.85)", 4 },
	{ "tolerance", KEY_TOLERANCE, "X", 0, "rpagerank: change of all scores together to stop at (default: 1e-6)", 4 },
	{ 0 },
};

static enum rung_draws arg_draws(const struct argp_state *state, const char *arg)
{
	if (strcmp(arg, "all") == 0)
		return RUNG_DRAWS_ALL;
	if (strcmp(arg, "new") != 0)
		argp_error(state, "--draws: '%s' is no way of drawing; give all or new", arg);
	return RUNG_DRAWS_NEW;
}

static error_t parse_score(int key, char *arg, struct argp_state *state)
{
	struct tool_score_args *args = state->input;

	switch (key) {
	case KEY_FANOUT:
		args->fanouts = tool_arg_fanouts(state, "--fanout", arg);
		return 0;
	case KEY_BATCH:
		args->opts.batch_size = tool_arg_u32(state, "--batch", arg, 1, UINT32_MAX);
		return 0;
	case KEY_DRAWS:
		args->opts.draws = arg_draws(state, arg);
		return 0;
	case KEY_EPOCHS:
		args->opts.epochs = tool_arg_u32(state, "--epochs", arg, 1, 1000000);
		return 0;
	case KEY_BATCHES:
		args->opts.batches_max = tool_arg_u32(state, "--batches", arg, 1, UINT32_MAX);
		return 0;
	case KEY_ITERATIONS:
		args->opts.iterations = tool_arg_u32(state, "--iterations", arg, 1, 1000000);
		return 0;
	case KEY_DAMPING:
		args->opts.damping = tool_arg_double(state, "--damping", arg, 0, 1, TOOL_OPEN);
		return 0;
	case KEY_TOLERANCE:
		args->opts.tolerance = tool_arg_double(state, "--tolerance", arg, 0, 1e6, TOOL_OPEN_LOW);
		return 0;
	case KEY_SEED:
		args->opts.seed = tool_arg_u64(state, "--seed", arg, 0, INT64_MAX);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp tool_score_argp = { score_options, parse_score, NULL, NULL, NULL, NULL, NULL };

int tool_score_samples(enum rung_score_method method)
{
	return method == RUNG_SCORE_DEFAULT || method == RUNG_SCORE_PRESAMPLE || method == RUNG_SCORE_EXPECTED ||
	       method == RUNG_SCORE_BLEND;
}

int tool_score_converges(enum rung_score_method method)
{
	return method == RUNG_SCORE_RPAGERANK || method == RUNG_SCORE_WRPAGERANK || method == RUNG_SCORE_PPR;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rung score: compute a score for every vertex of a graph and write it as a .npy. Without --memory
 * the graph is loaded into memory; with it the edges stay in files and are read in passes, within
 * the given budget.
 *
 * The output file is opened first, so that an unwritable path fails before hours of work. It gets
 * its name only after the score has been computed and synced.
 */
#include <stdlib.h>
#include <string.h>

#include "args/args.h"
#include "output/json.h"
#include "output/out_file.h"

/* Bounds of the buffers through which a pass reads edges: a larger maximum does not speed up any
 * disk. */
#define EDGES_BYTES_MAX (UINT64_C(64) << 20)
#define EDGES_BYTES_MIN (UINT64_C(1) << 20)
/* The buffers of a pass have the size of at most 11 chunks: 4 slots with edges and offsets, and the
 * bounce buffers of its readers (src/edges/edges_pass.c). The rest is a margin for rounding. */
#define EDGES_CHUNKS    13
#define CHUNK_BYTES_MIN 4096u /* the least that rung_edges_open() accepts, and its alignment */

struct score_args {
	struct tool_graph_args graph;
	struct tool_score_args score;
	const char *train; /* SRC; NULL: every vertex is a train vertex */
	const char *out;
	uint64_t memory_bytes; /* 0: the graph is loaded into memory */
	struct tool_common common;
};

/* A score being computed. cmd_score() frees its members, whichever step failed. */
struct scoring {
	const char *name; /* of the command, for messages */
	const struct score_args *args;
	struct tool_progress progress;
	const char *steps[5];          /* of the progress, the last of which is NULL */
	struct rung_source *train_src; /* open until the ids are read */
	uint64_t *train;               /* [opts.train_count]; free with rung_free() */
	struct rung_score_opts opts;
	/* one of the two: the graph in memory, or its edges in files (--memory) */
	struct rung_graph *graph;
	struct rung_edges *edges;
	struct rung_edges_info edges_info;
	uint64_t vertex_count, edge_count;
	double load_seconds;
	float *score; /* [vertex_count], by original id */
	struct rung_score_report report;
};

/* The command has no operand; a forgotten --out is the usual reason for one. */
static void refuse_operand(const struct argp_state *state, void *args, const char *arg)
{
	(void)args;
	argp_error(state, "unexpected argument '%s'; to write to this file, use --out %s", arg,
	           arg);
}

/* Required options: argp has no way to declare them. */
static void check_complete(const struct argp_state *state, void *ctx)
{
	const struct score_args *args = ctx;
	const enum rung_score_method method = args->score.opts.method;

	if (!tool_graph_given(&args->graph))
		argp_error(
			state,
			"--graph is missing; give an edge index, csc:SRC,SRC, csr:SRC,SRC or none");
	if (!args->out)
		argp_error(state, "--out is missing; give the file to write");
	if (tool_score_samples(method) && args->score.fanouts.count == 0)
		argp_error(state,
		           "--fanout is missing: %s needs the training fanouts, such as 25,10",
		           rung_score_method_name(method));
}

/* Unlike rung stage --score, a file is not accepted: scores are the output here. */
static void set_method(const struct argp_state *state, void *ctx, const char *arg)
{
	struct score_args *args = ctx;

	if (rung_score_method_parse(arg, &args->score.opts.method) < 0)
		argp_error(state, "--score: unknown value '%s'; %s", arg,
		           tool_meant(arg, TOOL_SCORES, TOOL_SCORES));
}

/* The same form as for rung stage, of whose splits only "train" affects a score. */
static void set_split(const struct argp_state *state, void *ctx, const char *arg)
{
	struct score_args *args = ctx;

	if (strncmp(arg, "train=", 6) != 0 || arg[6] == '\0')
		argp_error(state, "--split: unknown value '%s'; use train=SRC", arg);
	tool_set_once(state, "--split train", &args->train, arg + 6);
}

static const struct tool_option options[] = {
	{ "out", "FILE.npy", 1, "File to write: float32 [vertices], by original id",
	  TOOL_TEXT(struct score_args, out) },
	{ "split", "train=SRC", 1,
	  "Ids of the train vertices, each once, or a bool mask over the vertices (default: every "
	  "vertex)",
	  TOOL_SET(set_split) },
	/* the earlier form of --split train=SRC, accepted without notice */
	{ "train", "SRC", 1, NULL, TOOL_SRC(struct score_args, train) },
	{ "score", "NAME", 3,
	  "blend (default), expected, presample, ppr, wrpagerank, rpagerank or degree",
	  TOOL_SET(set_method), TOOL_OLD("method"), TOOL_KNOWN(TOOL_SCORES) },
	{ "memory", "SIZE", 5,
	  "Leave the graph in its files and use at most this much memory (default: load the graph)",
	  TOOL_BYTES(struct score_args, memory_bytes, 0,
	             "not in bytes; give a size such as 4GiB, or omit it to load the graph") },
	{ 0 },
};

static const struct tool_part parts[] = {
	TOOL_PART(tool_common_set, struct score_args, common),
	TOOL_PART(tool_graph_set, struct score_args, graph),
	TOOL_PART(tool_score_set, struct score_args, score),
	{ 0 },
};
const struct tool_command tool_score_command = {
	.options = options,
	.parts = parts,
	.operands = "--graph GRAPH --out FILE.npy",
	.doc = "Compute how often the row of each vertex will be requested, and write it to "
	       "FILE.npy. A SRC is file.npy, file.npz:member, or "
	       "raw:FILE,DTYPE,DIM[xDIM][,OFFSET].",
	.operand = refuse_operand,
	.check = check_complete,
	.headings = { [1] = "Files:",
	              [2] = "Graph:",
	              [3] = "Score:",
	              [4] = "Settings of single scores:",
	              [5] = "Resources:" },
	.examples = "  rung score --graph edges.npy --fanout 15,10 --out score.npy\n  rung score "
		    "--graph csc:p.npy,i.npy --score degree --out s.npy --memory 4G",
};

/* ---- memory ---- */

/* The part of a budget for the graph's buffers during a pass: a quarter, within bounds. Train ids
 * and the score share the rest. */
static uint64_t edges_bytes(uint64_t memory_bytes)
{
	const uint64_t share = memory_bytes / 4;

	return share < EDGES_BYTES_MIN   ? EDGES_BYTES_MIN
	       : share > EDGES_BYTES_MAX ? EDGES_BYTES_MAX
	                                 : share;
}

/* The part of a budget that the score does not get: edge buffers, train ids, and one bit per vertex
 * that marks the train vertices. */
static uint64_t other_bytes(const struct scoring *scoring, uint64_t memory_bytes)
{
	/* `used` exceeds the share if deflated inputs or a small budget forced larger buffers */
	const uint64_t buffers = edges_bytes(memory_bytes), used = scoring->edges_info.memory_bytes;
	const uint64_t train =
		scoring->opts.train_count
			? scoring->opts.train_count * sizeof(uint64_t) + scoring->vertex_count / 8
			: 0;

	return train + (used > buffers ? used : buffers);
}

/*
 * The smallest budget that leaves `score_bytes` for the score, by bisection: the other parts grow
 * with the budget, but more slowly than the budget itself.
 */
static uint64_t least_budget(const struct scoring *scoring, uint64_t score_bytes)
{
	/* invariant: `low` is too small, `high` is enough */
	uint64_t low = score_bytes, high = score_bytes + other_bytes(scoring, UINT64_MAX);

	while (high - low > 1) {
		const uint64_t middle = low + (high - low) / 2;

		if (middle >= other_bytes(scoring, middle) + score_bytes)
			high = middle;
		else
			low = middle;
	}
	return high;
}

/* ---- graph ---- */

/* Report a failed call of the library, after the bar is cleared. @return its exit code */
static int failed(struct scoring *scoring, int status)
{
	tool_progress_end(&scoring->progress);
	return tool_fail(scoring->name, status);
}

/* @return a status */
static int load_graph(struct scoring *scoring, const struct rung_graph_opts *opts)
{
	const int rc = rung_graph_load(opts, &scoring->graph);

	if (rc < 0)
		return rc;
	scoring->vertex_count = rung_graph_csc(scoring->graph)->vertex_count;
	scoring->edge_count = rung_graph_csc(scoring->graph)->edge_count;
	return 0;
}

/* Sorting the edges can use the whole budget, because the score needs none of it yet. The buffers
 * of the passes, however, stay allocated next to the score: chunk_bytes limits them. */
static int open_edges(struct scoring *scoring, const struct rung_graph_opts *graph)
{
	struct rung_edges_opts opts = RUNG_EDGES_OPTS_INIT;
	const uint64_t memory_bytes = scoring->args->memory_bytes;
	const uint64_t chunk = edges_bytes(memory_bytes) / EDGES_CHUNKS;
	int rc;

	opts.graph = *graph;
	opts.memory_bytes = memory_bytes < EDGES_BYTES_MIN ? EDGES_BYTES_MIN : memory_bytes;
	opts.chunk_bytes = chunk - chunk % CHUNK_BYTES_MIN;
	rc = rung_edges_open(&opts, &scoring->edges);
	/* Do not fail here with the minimum of this step alone. With the edges open, score_edges()
	 * can report one minimum that is enough for all steps. */
	if (rc < 0 && rung_last_error_min_bytes() > 0) {
		opts.memory_bytes = rung_last_error_min_bytes();
		rc = rung_edges_open(&opts, &scoring->edges);
	}
	if (rc < 0)
		return rc;
	scoring->edges_info.size = sizeof(scoring->edges_info);
	rc = rung_edges_info(scoring->edges, &scoring->edges_info);
	scoring->vertex_count = scoring->edges_info.vertex_count;
	scoring->edge_count = scoring->edges_info.edge_count;
	return rc;
}

/* The steps of the progress, in their order. */
static void name_steps(struct scoring *scoring)
{
	const enum rung_score_method method = scoring->args->score.opts.method;
	unsigned count = 0;

	scoring->steps[count++] = "edges";
	if (scoring->args->memory_bytes)
		scoring->steps[count++] = "sort";
	if (method != RUNG_SCORE_PRESAMPLE)
		scoring->steps[count++] = "score";
	if (method == RUNG_SCORE_PRESAMPLE || method == RUNG_SCORE_BLEND)
		scoring->steps[count++] = "presample";
	scoring->progress.steps = scoring->steps;
}

/* @return an exit code, the failure printed */
static int open_graph(struct scoring *scoring)
{
	struct rung_graph_opts opts = scoring->args->graph.opts;
	const uint64_t begin_ns = tool_now_ns();
	int rc;

	name_steps(scoring);
	opts.progress = tool_progress_update;
	opts.progress_ctx = &scoring->progress;
	rc = scoring->args->memory_bytes ? open_edges(scoring, &opts) : load_graph(scoring, &opts);
	scoring->load_seconds = (double)(tool_now_ns() - begin_ns) * 1e-9;
	return rc < 0 ? failed(scoring, rc) : TOOL_DONE;
}

/* ---- score ---- */

/* Read the ids of the train vertices, after the graph: only then is the number of vertices known,
 * against which they are checked. @return an exit code, the failure printed */
static int read_train(struct scoring *scoring)
{
	int rc;

	if (!scoring->train_src)
		return TOOL_DONE;
	rc = rung_source_read_vertices(scoring->train_src, scoring->vertex_count, 1,
	                               &scoring->opts.train_count, &scoring->train);
	rung_source_close(scoring->train_src);
	scoring->train_src = NULL;
	if (rc < 0)
		return failed(scoring, rc);
	tool_progress_end(&scoring->progress);
	if (scoring->opts.train_count == 0)
		return tool_error(scoring->name, TOOL_FAILED,
		                  "%s: has no vertex; omit --split to use every vertex",
		                  scoring->args->train);
	scoring->opts.train = scoring->train;
	return TOOL_DONE;
}

/* Score from files. A budget below the minimum is wrong usage: the message names the smallest
 * --memory that works. @return an exit code, the failure printed */
static int score_edges(struct scoring *scoring)
{
	const uint64_t memory_bytes = scoring->args->memory_bytes,
		       others = other_bytes(scoring, memory_bytes);
	unsigned long long least;
	int rc;

	/* 1 is always too little: the error names the minimum; 0 would be the library's default */
	scoring->opts.memory_bytes = memory_bytes > others ? memory_bytes - others : 1;
	rc = rung_score_edges(scoring->edges, &scoring->opts, scoring->score, &scoring->report);
	if (rc == 0)
		return TOOL_DONE;
	least = rung_last_error_min_bytes();
	if (least == 0)
		return failed(scoring, rc);
	tool_progress_end(&scoring->progress);
	return tool_error(
		scoring->name, TOOL_USAGE,
		"--memory: %llu bytes are not enough to score %llu vertices with this "
		"number of threads; give at least %llu%s",
		(unsigned long long)memory_bytes, (unsigned long long)scoring->vertex_count,
		(unsigned long long)least_budget(scoring, least), tool_size_hint(memory_bytes));
}

/* Compute the score of a graph that is open, in memory or in files. @return an exit code, the
 * failure printed */
static int compute(struct scoring *scoring)
{
	int rc;

	scoring->opts = scoring->args->score.opts;
	scoring->opts.fanouts = scoring->args->score.fanouts.hops;
	scoring->opts.hop_count = scoring->args->score.fanouts.count;
	scoring->opts.threads = scoring->args->common.threads;
	scoring->opts.progress = tool_progress_update;
	scoring->opts.progress_ctx = &scoring->progress;
	if (read_train(scoring) != TOOL_DONE)
		return TOOL_FAILED;
	/* one element at least: for 0 bytes calloc() may return NULL, which looks like a failure */
	scoring->score =
		calloc(scoring->vertex_count ? scoring->vertex_count : 1, sizeof(*scoring->score));
	if (!scoring->score)
		return tool_error(scoring->name, TOOL_FAILED,
		                  "no memory for the score of %llu vertices",
		                  (unsigned long long)scoring->vertex_count);
	if (scoring->edges)
		return score_edges(scoring);
	rc = rung_score_compute(rung_graph_csc(scoring->graph), &scoring->opts, scoring->score,
	                        &scoring->report);
	return rc < 0 ? failed(scoring, rc) : TOOL_DONE;
}

/* ---- result ---- */

/* Edges that were processed per second: every pass reads all of them. */
static double edges_per_s(const struct scoring *scoring)
{
	const double edges = (double)scoring->edge_count * (double)scoring->report.edge_passes;

	return scoring->report.seconds > 0 ? edges / scoring->report.seconds : 0;
}

static json_t *report_json(const struct scoring *scoring)
{
	const struct score_args *args = scoring->args;
	const struct rung_score_report *report = &scoring->report;
	const int in_files = scoring->edges != NULL;
	json_t *root = json_object();

	tool_json_set(root, "out", tool_json_text(args->out));
	tool_json_set(root, "method",
	              tool_json_text(rung_score_method_name(args->score.opts.method)));
	tool_json_set(root, "vertices", tool_json_u64(scoring->vertex_count));
	tool_json_set(root, "edges", tool_json_u64(scoring->edge_count));
	tool_json_set(root, "load_seconds", tool_json_real(scoring->load_seconds));
	tool_json_set(root, "seconds", tool_json_real(report->seconds));
	tool_json_set(root, "edges_per_s", tool_json_real(edges_per_s(scoring)));
	tool_json_set(root, "edge_passes", tool_json_u64(report->edge_passes));
	tool_json_set(root, "iterations",
	              report->iterations ? tool_json_u64(report->iterations) : json_null());
	tool_json_set(root, "residual",
	              tool_score_converges(args->score.opts.method)
	                      ? tool_json_real(report->residual)
	                      : json_null());
	tool_json_set(root, "batches_sampled", tool_json_u64(report->batches_sampled));
	/* the cost of keeping to a budget; null for a graph in memory */
	tool_json_set(root, "memory_bytes",
	              in_files ? tool_json_u64(args->memory_bytes) : json_null());
	tool_json_set(root, "input_passes",
	              in_files ? tool_json_u64(scoring->edges_info.input_passes) : json_null());
	tool_json_set(root, "temp_bytes",
	              in_files ? tool_json_u64(scoring->edges_info.temp_bytes) : json_null());
	tool_json_set(root, "peak_rss_bytes", tool_json_u64(tool_peak_rss()));
	return root;
}

/* Numbers that a method does not have, such as edge passes of presample, are left out. */
static void print_report(const struct scoring *scoring)
{
	const struct rung_score_report *report = &scoring->report;
	char text[TOOL_TEXT_BYTES];

	printf("%llu vertices, %llu edges, read in %s\n", (unsigned long long)scoring->vertex_count,
	       (unsigned long long)scoring->edge_count,
	       tool_seconds_text(text, scoring->load_seconds));
	printf("%s in %s", rung_score_method_name(scoring->args->score.opts.method),
	       tool_seconds_text(text, report->seconds));
	if (report->edge_passes)
		printf(", %llu edge pass%s", (unsigned long long)report->edge_passes,
		       report->edge_passes == 1 ? "" : "es");
	if (report->batches_sampled)
		printf(", %llu batch%s sampled", (unsigned long long)report->batches_sampled,
		       report->batches_sampled == 1 ? "" : "es");
	printf("\nwrote %s\n", scoring->args->out);
}

/* All steps from opened output to report. The report comes after the commit, so a result that is
 * printed is also on disk. @return an exit code */
static int score(struct scoring *scoring, struct tool_out *out)
{
	int code, rc;

	/* opened before the graph is read, so that a wrong path fails at once */
	if (scoring->args->train &&
	    (rc = rung_source_open(scoring->args->train, &scoring->train_src)) < 0)
		return failed(scoring, rc);
	code = open_graph(scoring);
	if (code == TOOL_DONE)
		code = compute(scoring);
	tool_progress_end(&scoring->progress);
	if (code == TOOL_DONE)
		code = tool_out_npy(out, RUNG_F32, scoring->vertex_count, scoring->score);
	if (code == TOOL_DONE)
		code = tool_out_commit(out);
	if (code != TOOL_DONE)
		return code;
	if (!scoring->args->common.json)
		print_report(scoring);
	else if (tool_json_print(scoring->name, report_json(scoring)) < 0)
		code = TOOL_FAILED;
	return code;
}

int cmd_score(int argc, char **argv)
{
	struct score_args args = { .graph = { .opts = RUNG_GRAPH_OPTS_INIT },
		                   .score = { .opts = RUNG_SCORE_OPTS_INIT } };
	struct scoring scoring = { .name = argv[0], .args = &args };
	struct tool_out out;
	int code;

	tool_args_parse(&tool_score_command, argc, argv, &args);
	tool_progress_init(&scoring.progress, argv[0], args.common.quiet);
	code = tool_out_open(argv[0], args.out, &out);
	if (code == TOOL_DONE)
		code = score(&scoring, &out);
	tool_out_abandon(&out); /* does nothing after a commit */
	rung_source_close(scoring.train_src);
	rung_edges_close(scoring.edges);
	rung_graph_destroy(scoring.graph);
	rung_free(scoring.train);
	free(scoring.score);
	free(args.graph.specs);
	return code;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rung train: a small GraphSAGE trainer on the CPU, which uses the library as any trainer would:
 * loaders sample and gather ahead while the model computes. This file has the options, and opens
 * and closes the parts; train.c runs the epochs.
 */
#include <limits.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "args/args.h"
#include "blas.h"
#include "output/out_file.h"
#include "output/status.h"
#include "train.h"

#define GATHERS            2 /* requests in flight, in addition to the batch in use */
#define LOADER_THREADS_MAX 8 /* sampling is a fraction of the model's work */
/* Arrays of this size are mapped, and unmapped when they grow: the heap would keep the hole that
 * each smaller array leaves. */
#define MAPPED_BYTES (1 << 20)

static const char doc[] =
	"Train a GraphSAGE model on the staged dataset DIR, with its features on the tiers that "
	"--host allows.\vThe splits train, valid and test are used; the weights with the highest "
	"validation accuracy are tested. A seed gives the same losses with any --host and "
	"--engine. If other programs also use the cores, OMP_WAIT_POLICY=passive in the "
	"environment makes training faster.\n\nExit status: 0 done, 1 failed, 2 wrong usage.";

static const struct tool_word norms[] = {
	{ "none", TRAIN_NORM_NONE },
	{ "l1", TRAIN_NORM_L1 },
	{ "l2", TRAIN_NORM_L2 },
	{ 0 },
};

/* Options that other commands have: a message that names them is more useful than "unknown". */
static void refuse_gpu(const struct argp_state *state, void *args, const char *arg)
{
	(void)args;
	(void)arg;
	argp_error(state, "training computes on the CPU; omit --device, --gpu, --gpus, --peers and "
	                  "--replicate");
}

static void check_args(const struct argp_state *state, void *ctx)
{
	const struct train_args *args = ctx;

	if (!args->dir)
		argp_error(state, "DIR is missing; give the folder of the staged dataset");
	if (tool_engine_is_null(&args->store))
		argp_error(state, "--engine: null and null_instant read nothing, so there are no "
		                  "rows to train with; they are for rung bench");
	if (args->no_edges && args->store.structure_given)
		argp_error(state, "--no-edges and --structure exclude each other: without edges no "
		                  "neighbour list is read");
	if (args->fanouts.count && args->eval_fanouts.count &&
	    args->fanouts.count != args->eval_fanouts.count)
		argp_error(state,
		           "--eval-fanout has %u hops, --fanout has %u; both need one hop per "
		           "layer of the model",
		           args->eval_fanouts.count, args->fanouts.count);
}

static const struct tool_option options[] = {
	{ "hidden", "N", 2, "Width of hidden layers (default: 128)",
	  TOOL_U32(struct train_args, hidden, 1, 65536) },
	{ "fanout", "LIST", 1,
	  "In-neighbours drawn per hop, hop 0 first; the model has one layer per hop (default: as "
	  "staged)",
	  TOOL_FANOUTS(struct train_args, fanouts) },
	{ "batch", "N", 1, "Train vertices per batch (default: as staged)",
	  TOOL_U32(struct train_args, batch_size, 1, INT32_MAX) },
	{ "epochs", "N", 1, "Number of epochs (default: 10)",
	  TOOL_U32(struct train_args, epochs, 1, 1000000) },
	{ "patience", "N", 2,
	  "Stop after N epochs without a better validation accuracy (default: never)",
	  TOOL_U32(struct train_args, patience, 1, 1000000) },
	{ "lr", "F", 2, "Learning rate of Adam (default: 0.01)",
	  TOOL_REAL(struct train_args, lr, 0, 1000, TOOL_OPEN_LOW) },
	{ "weight-decay", "F", 2, "L2 penalty, added to the gradients of the matrices (default: 0)",
	  TOOL_REAL(struct train_args, weight_decay, 0, 1000, TOOL_CLOSED) },
	{ "dropout", "F", 2, "Share of inputs and hidden values dropped (default: 0.5)",
	  TOOL_REAL(struct train_args, dropout, 0, 0.99, TOOL_CLOSED) },
	{ "input-dropout", "F", 2, "Share of inputs dropped (default: same as --dropout)",
	  TOOL_REAL(struct train_args, input_dropout, 0, 0.99, TOOL_CLOSED) },
	{ "normalize", "NORM", 2,
	  "Scale each feature row to norm 1: none, l1 or l2 (default: none)",
	  TOOL_WORD(struct train_args, norm, norms, "none, l1 or l2") },
	{ "seed", "N", 1, "Seed of weights, order, neighbours and dropout (default: 0)",
	  TOOL_U64(struct train_args, seed, 0, UINT64_MAX) },
	{ "eval-fanout", "LIST", 2, "Fanouts of the evaluation (default: same as --fanout)",
	  TOOL_FANOUTS(struct train_args, eval_fanouts) },
	{ "no-edges", NULL, 2,
	  "Train the same model without neighbours, to see the benefit of the graph",
	  TOOL_FLAG(struct train_args, no_edges) },
	{ "look-ahead", "N", 1,
	  "Batches sampled ahead, so that the cache keeps their rows (default: 16)",
	  TOOL_U32(struct train_args, look_ahead, 1, RUNG_LOADER_LOOK_AHEAD_MAX),
	  TOOL_OLD("ahead") },
	{ "consumer", "RATE", 1,
	  "Take RATE batches per second and compute nothing, to measure the path of the features",
	  TOOL_REAL(struct train_args, consumer, 0.001, 1e6, TOOL_CLOSED) },
	{ "status", "SECONDS", 1,
	  "Print a status line on stderr every SECONDS, as SIGUSR1 does once (default: none)",
	  TOOL_TIME(struct train_args, status, 0.01, 1e6) },
	{ "trace-out", "FILE.json", 1,
	  "Write when each batch was sampled, announced, copied, read and computed, as a trace for "
	  "Perfetto",
	  TOOL_TEXT(struct train_args, trace_out) },
	{ "trace-svg", "FILE.svg", 1, "Draw this timeline for a few batches",
	  TOOL_TEXT(struct train_args, trace_svg) },
	{ "device", "NAME", 9, NULL, TOOL_SET(refuse_gpu) },
	{ "gpu", "SIZE", 9, NULL, TOOL_SET(refuse_gpu) },
	{ "peers", "N", 9, NULL, TOOL_SET(refuse_gpu) },
	{ "replicate", "SIZE", 9, NULL, TOOL_SET(refuse_gpu) },
	{ "gpus", "LIST", 9, NULL, TOOL_SET(refuse_gpu) },
	{ 0 },
};

static const struct tool_part parts[] = {
	TOOL_PART(tool_budget_set, struct train_args, store),
	TOOL_PART(tool_placement_set, struct train_args, store),
	TOOL_PART(tool_structure_set, struct train_args, store),
	TOOL_PART(tool_engine_set, struct train_args, store),
	TOOL_PART(tool_common_set, struct train_args, common),
	{ 0 },
};
const struct tool_command tool_train_command = {
	.options = options,
	.parts = parts,
	.operands = "DIR",
	.doc = doc,
	.operand_kind = TOOL_OPERAND_DIR_OR_NOT,
	.dir = offsetof(struct train_args, dir),
	.check = check_args,
	.headings = { [1] = "Training:", [2] = "Model:", TOOL_MEMORY_HEADING, TOOL_READ_HEADING },
	.threads = "Threads that compute (default: one per CPU) and that sample (at most 8)",
	.examples = "  rung train graph.rung --host 10%\n  rung train graph.rung --host 4G "
		    "--fanout 15,10 --epochs 20 --hidden 256",
};

/* Everything that is open while training. */
struct session {
	struct tool_data tool;
	struct train_data data;
	struct rung_loader *loader, *eval_loader; /* the same one if the fanouts are the same */
	struct train_model model;
	struct tool_progress progress;
	struct train_timeline timeline;
	struct tool_out trace, picture; /* --trace-out, --trace-svg */
};

/* OpenMP and OpenBLAS have separate thread pools; without --threads both use their defaults. */
static void set_threads(uint32_t threads)
{
	if (!threads)
		return;
#ifdef _OPENMP
	omp_set_num_threads((int)threads);
#endif
	train_blas.set_num_threads((int)threads);
}

/* Fill in defaults from the dataset. @return an exit code */
static int complete_args(struct train_args *args, const char *name,
                         const struct rung_dataset_info *info)
{
	if (!args->fanouts.count) {
		if (!info->fanout_count || info->fanout_count > RUNG_HOPS_MAX)
			return tool_error(name, TOOL_USAGE,
			                  "the dataset was staged without fanouts; give them, such "
			                  "as --fanout 25,10");
		args->fanouts.count = info->fanout_count;
		memcpy(args->fanouts.hops, info->fanouts,
		       info->fanout_count * sizeof(*info->fanouts));
	}
	if (!args->eval_fanouts.count)
		args->eval_fanouts = args->fanouts;
	if (args->eval_fanouts.count != args->fanouts.count)
		return tool_error(name, TOOL_USAGE,
		                  "--eval-fanout has %u hops, but the model has %u layers",
		                  args->eval_fanouts.count, args->fanouts.count);
	if (!args->batch_size)
		args->batch_size =
			info->batch_size && info->batch_size <= INT32_MAX ? info->batch_size : 1024;
	return TOOL_DONE;
}

/* Upper bound of the vertices of a batch, in training and in evaluation: the store allocates its
 * buffers for it. */
static uint32_t batch_rows_max(const struct train_args *args, uint64_t vertex_count)
{
	const struct tool_fanouts *lists[] = { &args->fanouts, &args->eval_fanouts };
	uint64_t most = 0;
	for (int i = 0; i < 2; i++) {
		uint64_t rows = args->batch_size;
		for (uint32_t h = 0; h < lists[i]->count && !args->no_edges; h++) {
			if (__builtin_mul_overflow(rows, (uint64_t)lists[i]->hops[h] + 1, &rows))
				rows = UINT64_MAX;
		}
		most = rows > most ? rows : most;
	}
	most = most < vertex_count ? most : vertex_count;
	return most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
}

static bool same_fanouts(const struct tool_fanouts *a, const struct tool_fanouts *b)
{
	return a->count == b->count && memcmp(a->hops, b->hops, a->count * sizeof(*a->hops)) == 0;
}

/* The loaders sample from the structure of the store. Without edges they have no sampler: a batch
 * is its seeds. @return a status */
static int open_loaders(struct session *session, const struct train_args *args)
{
	struct rung_loader_opts opts = RUNG_LOADER_OPTS_INIT;
	if (!args->no_edges) {
		opts.sampler.fanouts = args->fanouts.hops;
		opts.sampler.hop_count = args->fanouts.count;
		opts.sampler.seed = args->seed;
	}
	opts.batch_size = args->batch_size;
	opts.threads = args->common.threads < LOADER_THREADS_MAX ? args->common.threads
	                                                         : LOADER_THREADS_MAX;
	opts.look_ahead = args->look_ahead;
	opts.gathers = GATHERS;
	int rc = rung_loader_create(session->tool.store, NULL, &opts, &session->loader);
	session->eval_loader = session->loader;
	if (rc < 0 || args->no_edges || same_fanouts(&args->fanouts, &args->eval_fanouts))
		return rc;
	opts.sampler.fanouts = args->eval_fanouts.hops;
	session->eval_loader = NULL;
	return rung_loader_create(session->tool.store, NULL, &opts, &session->eval_loader);
}

/* One layer per hop; the first is as wide as a feature row has elements, of any shape. @return an
 * exit code */
static int open_model(struct session *session, const struct train_args *args, const char *name)
{
	const struct rung_array_info *features = &rung_dataset_info(session->tool.ds)->features;
	uint64_t width = features->row_bytes / rung_dtype_bytes(features->dtype);
	int rc = RUNG_E_INVAL;
	if (width <= INT_MAX)
		rc = train_model_init(&session->model, args->fanouts.count, (uint32_t)width,
		                      args->hidden, session->data.class_count, (float)args->dropout,
		                      args->seed);
	if (rc < 0)
		return tool_error(name, TOOL_FAILED,
		                  "%s for a model of %llu inputs, %u hidden units, %u classes",
		                  rung_status_text(rc), (unsigned long long)width, args->hidden,
		                  session->data.class_count);
	return TOOL_DONE;
}

/* Everything that can fail before the first batch. The caller closes the session, even after a
 * failure. @return an exit code */
static int open_session(struct session *session, struct train_args *args, const char *name)
{
	struct rung_store_opts opts = RUNG_STORE_OPTS_INIT;
	struct tool_sampling sampling;
	struct rung_dataset *ds;
	/* opened twice: the options of the store depend on the dataset, and labels are checked
	 * before memory for the store is allocated */
	int rc = rung_dataset_open(args->dir, &ds);
	if (rc < 0)
		return tool_fail(name, rc);
	if (rung_dataset_info(ds)->type_count > 0) {
		rung_dataset_close(ds);
		return tool_error(name, TOOL_USAGE,
		                  "%s: is typed; train on it in Python, as "
		                  "python/examples/rgraphsage.py does",
		                  args->dir);
	}
	int code = complete_args(args, name, rung_dataset_info(ds));
	opts.requests_max = GATHERS + 1;
	opts.batch_rows_max = batch_rows_max(args, rung_dataset_info(ds)->vertex_count);
	sampling = (struct tool_sampling){ .fanouts = args->fanouts,
		                           .batch = args->batch_size,
		                           .seed = args->seed,
		                           .threads = args->common.threads };
	if (code == TOOL_DONE)
		code = train_data_load(ds, name, args->common.quiet, &session->data);
	rung_dataset_close(ds);
	if (code != TOOL_DONE)
		return code;
	rc = tool_open(name, args->dir, &args->store, args->no_edges ? NULL : &sampling, &opts,
	               &session->tool);
	if (rc < 0)
		return tool_fail(name, rc);
	rc = open_loaders(session, args);
	if (rc < 0)
		return tool_fail(name, rc);
	return open_model(session, args, name);
}

/* Open the files of the timeline, before work that may take hours. @return an exit code */
static int open_timeline(struct session *session, const struct train_args *args, const char *name)
{
	int code = tool_out_open(name, args->trace_out, &session->trace);

	if (code == TOOL_DONE)
		code = tool_out_open(name, args->trace_svg, &session->picture);
	if (code != TOOL_DONE || (!args->trace_out && !args->trace_svg))
		return code;
	return train_timeline_init(&session->timeline) == 0
	               ? TOOL_DONE
	               : tool_error(name, TOOL_FAILED, "no memory for the timeline");
}

/* @return an exit code */
static int write_timeline(struct session *session, const struct train_args *args)
{
	int code;

	if (session->trace.file)
		train_timeline_json(&session->timeline, session->trace.file);
	if (session->picture.file)
		train_timeline_svg(&session->timeline, args->dir, session->picture.file);
	code = tool_out_commit(&session->trace);
	return code == TOOL_DONE ? tool_out_commit(&session->picture) : code;
}

/* Loaders before the store, which they use. Members may be NULL. */
static void close_session(struct session *session)
{
	tool_out_abandon(&session->trace);
	tool_out_abandon(&session->picture);
	free(session->timeline.marks);
	train_model_fini(&session->model);
	if (session->eval_loader != session->loader)
		rung_loader_destroy(session->eval_loader);
	rung_loader_destroy(session->loader);
	tool_close(&session->tool);
	train_data_fini(&session->data);
}

static int report(const struct train_run *run, const struct train_result *result,
                  const struct rung_store *store)
{
	const struct rung_structure *structure = rung_store_structure(store);
	struct train_reads reads = { .rows.size = sizeof(reads.rows),
		                     .lists.size = sizeof(reads.lists),
		                     .has_lists = structure != NULL };
	int rc = rung_store_stats(store, &reads.rows);
	if (rc == 0 && structure)
		rc = rung_structure_stats(structure, &reads.lists);
	if (rc < 0)
		return tool_fail(run->name, rc);
	if (run->args->common.json)
		return train_print_json(run, result, &reads);
	train_print_summary(run, result, &reads);
	return TOOL_DONE;
}

/* The element type of gathered rows. The call fails only for callers of another version. */
static enum rung_dtype row_dtype(const struct rung_store *store)
{
	struct rung_store_info info = { .size = sizeof(info) };
	rung_store_info(store, &info);
	return info.features.dtype;
}

int cmd_train(int argc, char **argv)
{
	struct train_args args = { .hidden = 128,
		                   .epochs = 10,
		                   .lr = 0.01,
		                   .dropout = 0.5,
		                   .input_dropout = -1,
		                   .argv = argv };
	struct session session = { 0 };
	struct train_result result = { 0 };
	struct tool_status status;
	const char *name = argv[0];
	tool_args_parse(&tool_train_command, argc, argv, &args);
	/* after the options: --help works without OpenBLAS */
	const size_t missing = train_blas_space_missing();
	if (missing > 0)
		return tool_error(name, TOOL_FAILED,
		                  "OpenBLAS needs %zu MiB of address space, and ulimit -v leaves "
		                  "less; use ulimit -v unlimited",
		                  missing >> 20);
	const char *why = train_blas_load();
	if (why)
		return tool_error(name, TOOL_FAILED,
		                  "OpenBLAS cannot be loaded: %s; "
		                  "install it (Debian: libopenblas0)",
		                  why);
	set_threads(args.common.threads);
	mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES);
	tool_progress_init(&session.progress, name, args.common.quiet);
	int code = open_timeline(&session, &args, name);
	if (code == TOOL_DONE)
		code = open_session(&session, &args, name);
	if (code == TOOL_DONE) {
		struct train_run run = { .name = name,
			                 .args = &args,
			                 .data = &session.data,
			                 .info = rung_dataset_info(session.tool.ds),
			                 .row_dtype = row_dtype(session.tool.store),
			                 .loader = session.loader,
			                 .eval_loader = session.eval_loader,
			                 .model = &session.model,
			                 .progress = &session.progress,
			                 .timeline = &session.timeline };
		tool_status_start(&status, &session.progress, session.tool.store, args.status);
		code = train_run(&run, &result);
		tool_status_stop(&status);
		tool_progress_end(&session.progress);
		if (code == TOOL_DONE)
			code = write_timeline(&session, &args);
		if (code == TOOL_DONE)
			code = report(&run, &result, session.tool.store);
		free(result.epochs);
	}
	close_session(&session);
	return code;
}

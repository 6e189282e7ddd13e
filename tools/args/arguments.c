/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments of the subcommands: names, and the options shared by several subcommands for budgets
 * and engines. Options of GPUs, presets and scores are in arguments_gpu.c, arguments_preset.c and
 * arguments_score.c; sizes, numbers and lists in numbers.c.
 *
 * All tool_arg_*() functions exit in argp_error(), so code after it sees only valid values.
 */
#include <stdlib.h>
#include <string.h>

#include "args/args.h"

/* A path with other characters before its '=', such as ./a=b.npy, is a SRC without a name. */
size_t tool_names_length(const char *arg, int count)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
	size_t length = 0, name;

	for (int i = 0; i < count; i++) {
		name = strspn(arg + length, letters);
		length += name;
		if (name == 0 || arg[length++] != (i + 1 < count ? ':' : '='))
			return 0;
	}
	return length - 1;
}

size_t tool_name_length(const char *arg)
{
	return tool_names_length(arg, 1);
}

void tool_texts_add(const struct argp_state *state, struct tool_texts *list, const char *text)
{
	const char **texts = realloc(list->texts, (list->count + 1) * sizeof(*texts));

	if (!texts)
		argp_failure(state, TOOL_FAILED, 0, "no memory for the options");
	list->texts = texts;
	list->texts[list->count++] = text;
}

size_t tool_arg_split(const struct argp_state *state, const char *arg)
{
	const size_t length = strcspn(arg, "=");

	if (length == 0 || !arg[length] || !arg[length + 1])
		argp_error(state,
		           "--split: '%s' is not of the form NAME=SRC, such as train=ids.npy", arg);
	return length;
}

/* ---- options that every subcommand has ---- */

#define THREADS_MAX 1024u /* the most that the library starts */

#define OUTPUT_OPTIONS                                                                             \
	{ "json", NULL, -1, "Print the result as one JSON object",                                 \
	  TOOL_FLAG(struct tool_common, json) },                                                   \
	{                                                                                          \
		"quiet", NULL, -1, "Print no progress on stderr",                                  \
			TOOL_FLAG(struct tool_common, quiet)                                       \
	}

static const struct tool_option output_options[] = { OUTPUT_OPTIONS, { 0 } };

const struct tool_option_set tool_output_set = { output_options, NULL, NULL };

static const struct tool_option common_options[] = {
	OUTPUT_OPTIONS,
	{ "threads", "N", -1, "Number of threads (default: one per CPU)",
	  TOOL_U32(struct tool_common, threads, 1, THREADS_MAX) },
	{ 0 },
};

const struct tool_option_set tool_common_set = { common_options, NULL, NULL };

/* ---- budgets ---- */

/* For the user 0 means that no gap is read; for the store 0 is the default. */
static void set_merge_gap(const struct argp_state *state, void *ctx, const char *arg)
{
	struct tool_store_args *args = ctx;
	const struct tool_size size = tool_arg_size(state, "--merge-gap", arg);

	if (size.share >= 0 || size.bytes >= RUNG_MERGE_GAP_NONE)
		argp_error(state,
		           "--merge-gap: '%s' is too large or not a size in bytes; give one such "
		           "as 0 or 16KiB",
		           arg);
	args->merge_gap_bytes = size.bytes ? (uint32_t)size.bytes : RUNG_MERGE_GAP_NONE;
}

/* A number of batches, 0 for no window, or the word for the default. */
static void set_window(const struct argp_state *state, void *ctx, const char *arg)
{
	struct tool_store_args *args = ctx;
	uint32_t batches;

	args->window = 0;
	if (strcmp(arg, "auto") == 0)
		return;
	if (*arg < '0' || *arg > '9')
		argp_error(state, "--window: unknown value '%s'; %s", arg,
		           tool_meant(arg, "auto", "a number of batches, 0 or auto"));
	batches = tool_arg_u32(state, "--window", arg, 0, RUNG_WINDOW_MAX);
	args->window = batches ? batches : RUNG_WINDOW_NONE;
}

/* A word or the number of a node. An argument that starts with a digit gets the error message for
 * numbers. */
static void set_numa(const struct argp_state *state, void *ctx, const char *arg)
{
	static const struct tool_word words[] = {
		{ "auto", RUNG_NUMA_AUTO },
		{ "interleave", RUNG_NUMA_INTERLEAVE },
		{ "none", RUNG_NUMA_NONE },
	};
	struct tool_store_args *args = ctx;

	args->numa_given = 1;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(arg, words[i].word) == 0) {
			args->numa = (enum rung_numa)words[i].value;
			return;
		}
	}
	if (*arg < '0' || *arg > '9')
		argp_error(state, "--numa-node: unknown value '%s'; %s", arg,
		           tool_meant(arg, "auto interleave none",
		                      "a node number, auto, interleave or none"));
	args->numa = RUNG_NUMA_NODE;
	args->numa_node = tool_arg_u32(state, "--numa-node", arg, 0, RUNG_NODES_MAX - 1);
}

#define HOST_SIZE                                                                                  \
	"a size such as 64KiB or 1.5GiB, a share of the features such as 10%, or max (default: "   \
	"half of the free memory)"
#define CACHE_SIZE                                                                                 \
	"Part of --host for a cache of rows that were read from the file: bytes, or a share of "   \
	"--host such as 10% "

static const struct tool_option budget_options[] = {
	{ "host", "SIZE", 1,
	  "Host memory for rows, neighbour lists, staging slots and cold-row cache: " HOST_SIZE,
	  TOOL_SIZE(struct tool_store_args, host) },
	{ "cache", "SIZE", 5,
	  CACHE_SIZE "(default: an eighth, or as --structure auto divides --host)",
	  TOOL_SIZE(struct tool_store_args, cache) },
	{ 0 },
};

const struct tool_option_set tool_budget_set = { budget_options, NULL, NULL };

static const struct tool_option rows_budget_options[] = {
	{ "host", "SIZE", 1, "Host memory for rows, staging slots and cold-row cache: " HOST_SIZE,
	  TOOL_SIZE(struct tool_store_args, host) },
	{ "cache", "SIZE", 5, CACHE_SIZE "(default: an eighth)",
	  TOOL_SIZE(struct tool_store_args, cache) },
	{ 0 },
};

const struct tool_option_set tool_rows_budget_set = { rows_budget_options, NULL, NULL };

static const struct tool_option placement_options[] = {
	{ "queue-depth", "N", 5,
	  "Reads in flight on the NVMe tier (default: from --profile, else 64)",
	  TOOL_U32(struct tool_store_args, queue_depth, 1, 32768) },
	{ "numa-node", "N|WORD", 5,
	  "NUMA node of host memory; auto (default): rows near their readers, buffers of reads "
	  "near their drive; interleave: rows over all nodes; none: left to the kernel",
	  TOOL_SET(set_numa), TOOL_KNOWN("auto interleave none") },
	{ "profile", "FILE", 5,
	  "Output of rung numa --json on this machine, from which defaults of other options are "
	  "chosen (default: fixed values)",
	  TOOL_TEXT(struct tool_store_args, profile) },
	{ 0 },
};

const struct tool_option_set tool_placement_set = { placement_options, NULL, NULL };

/* ---- lists of the graph ---- */

/* A size, or the word for the default. */
static void set_structure(const struct argp_state *state, void *ctx, const char *arg)
{
	struct tool_store_args *args = ctx;

	args->structure = (struct tool_size){ 0 };
	if (strcmp(arg, "auto") == 0)
		return;
	if (!tool_is_size(arg))
		argp_error(state, "--structure: unknown value '%s'; %s", arg,
		           tool_meant(arg, "auto max", "a size such as 64KiB or 10%, auto or max"));
	args->structure = tool_arg_size(state, "--structure", arg);
}

#define STRUCTURE_SIZE "a size, a share of the lists such as 10%, max (all lists), or auto "

static const struct tool_option structure_options[] = {
	{ "structure", "SIZE|WORD", 5,
	  "Memory for the neighbour lists of the hottest vertices and for reading the "
	  "others: " STRUCTURE_SIZE "(default: auto, which divides --host by predicted reads)",
	  TOOL_SET(set_structure), TOOL_KNOWN("auto max"),
	  TOOL_NOTED(struct tool_store_args, structure_given) },
	{ 0 },
};

const struct tool_option_set tool_structure_set = { structure_options, NULL, NULL };

static const struct tool_option lists_options[] = {
	{ "structure", "SIZE|WORD", 5,
	  "Memory for the neighbour lists of the hottest vertices and for reading the others, not "
	  "part of --host: " STRUCTURE_SIZE
	  "(default: auto, which is all lists, or as many as half of the free memory holds)",
	  TOOL_SET(set_structure), TOOL_KNOWN("auto max"),
	  TOOL_NOTED(struct tool_store_args, structure_given) },
	{ 0 },
};

const struct tool_option_set tool_lists_set = { lists_options, NULL, NULL };

/* ---- engine ---- */

static const struct tool_word engines[] = {
	{ "auto", RUNG_ENGINE_AUTO },
	{ "nvme", RUNG_ENGINE_NVME },
	{ "io_uring_poll", RUNG_ENGINE_IO_URING_POLL },
	{ "io_uring", RUNG_ENGINE_IO_URING },
	{ "pread", RUNG_ENGINE_PREAD },
	{ "null", RUNG_ENGINE_NULL },
	{ "null_instant", RUNG_ENGINE_NULL_INSTANT },
	{ 0 },
};

static const struct tool_option engine_options[] = {
	{ "engine", "NAME", 6,
	  "How rows are read from the file: auto, nvme, io_uring_poll, io_uring or pread "
	  "(default: auto)",
	  TOOL_WORD(struct tool_store_args, engine, engines,
	            "auto, nvme, io_uring_poll, io_uring or pread") },
	{ "buffered", NULL, 6, "Read through the page cache instead of O_DIRECT",
	  TOOL_FLAG(struct tool_store_args, buffered) },
	{ "no-merge", NULL, 6, "Read adjacent rows of the file one by one",
	  TOOL_FLAG(struct tool_store_args, no_merge) },
	{ "merge-gap", "SIZE", 6,
	  "Largest gap between two rows of one read, in bytes (default: from --profile, else "
	  "measured)",
	  TOOL_SET(set_merge_gap), TOOL_OLD("gap") },
	{ "window", "N|auto", 6,
	  "Coming batches whose rows are read together before they begin: auto (default) follows "
	  "--cache, 0 reads no row ahead",
	  TOOL_SET(set_window), TOOL_KNOWN("auto") },
	{ 0 },
};

const struct tool_option_set tool_engine_set = { engine_options, NULL, NULL };

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments of the subcommands: sizes, numbers and lists; and the options shared by several
 * subcommands for budgets and engines. Options of GPUs, presets and scores are in arguments_gpu.c,
 * arguments_preset.c and arguments_score.c.
 *
 * All tool_arg_*() functions exit in argp_error(), so code after it sees only valid values.
 */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "args/args.h"

#define SIZE_HELP "give bytes (4096), 64KiB, 1.5GiB, TiB, a share such as 10%%, or max"

/* Bytes of the unit after a number; 0 for an unknown unit. KB and GB are refused: some people read
 * them as powers of 1000, others as powers of 1024. */
static double unit_bytes(const char *unit)
{
	static const struct {
		const char *name;
		double bytes;
	} units[] = { { "", 1 },         { "B", 1 },        { "KiB", 0x1p10 },
		      { "MiB", 0x1p20 }, { "GiB", 0x1p30 }, { "TiB", 0x1p40 } };

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(unit, units[i].name) == 0)
			return units[i].bytes;
	}
	return 0;
}

/* Length of the number at the beginning of a text: digits with at most one point; 0: not a number.
 * strtod() alone would also accept signs, hexadecimals, exponents, "nan" and leading blanks. */
static size_t decimal_length(const char *text)
{
	size_t digits = strspn(text, "0123456789"), behind = 0;

	if (text[digits] == '.')
		behind = strspn(text + digits + 1, "0123456789");
	if (digits + behind == 0)
		return 0;
	return text[digits] == '.' ? digits + 1 + behind : digits;
}

static void too_large(const struct argp_state *state, const char *option, const char *arg)
{
	argp_error(state, "%s: '%s' is too large; give less than 2^64 bytes, or max for no limit",
	           option, arg);
}

/* A number of `length` bytes with a unit. Whole numbers are computed in integers, because a double
 * is exact only up to 2^53. */
static void size_bytes(const struct argp_state *state, const char *option, const char *arg,
                       size_t length, struct tool_size *size)
{
	double unit = unit_bytes(arg + length);
	unsigned long long whole;

	if (unit == 0)
		argp_error(state, "%s: '%s' is not a valid size; " SIZE_HELP, option, arg);
	errno = 0;
	whole = strtoull(arg, NULL, 10);
	if (memchr(arg, '.', length)) {
		double bytes = strtod(arg, NULL) * unit;
		if (!(bytes < 0x1p64)) /* the conversion below would be undefined */
			too_large(state, option, arg);
		size->bytes = (uint64_t)bytes;
	} else if (errno == ERANGE ||
	           __builtin_mul_overflow((uint64_t)whole, (uint64_t)unit, &size->bytes) ||
	           size->bytes == RUNG_BYTES_NONE) { /* reserved: means an empty budget */
		too_large(state, option, arg);
	}
}

struct tool_size tool_arg_size(const struct argp_state *state, const char *option, const char *arg)
{
	struct tool_size size = { .given = 1, .share = -1 };
	size_t length = decimal_length(arg);

	if (strcmp(arg, "max") == 0) {
		size.bytes = RUNG_BYTES_MAX;
	} else if (length == 0) {
		argp_error(state, "%s: '%s' is not a valid size; " SIZE_HELP, option, arg);
	} else if (strcmp(arg + length, "%") == 0) {
		size.share = strtod(arg, NULL) / 100;
		if (size.share > 1)
			argp_error(state, "%s: '%s' is more than the whole; give at most 100%%",
			           option, arg);
	} else {
		size_bytes(state, option, arg, length, &size);
	}
	return size;
}

uint64_t tool_size_bytes(const struct tool_size *size, uint64_t whole)
{
	uint64_t bytes = size->bytes;

	if (!size->given)
		return 0;
	/* 100% must not lose bytes by rounding */
	if (size->share >= 1)
		bytes = whole;
	else if (size->share >= 0)
		bytes = (uint64_t)(size->share * (double)whole);
	return bytes ? bytes : RUNG_BYTES_NONE;
}

uint64_t tool_arg_u64(const struct argp_state *state, const char *option, const char *arg,
                      uint64_t low, uint64_t high)
{
	size_t length = strspn(arg, "0123456789");
	unsigned long long value;

	if (length == 0 || arg[length] != 0)
		argp_error(state, "%s: '%s' is not a whole number", option, arg);
	errno = 0;
	value = strtoull(arg, NULL, 10);
	if (errno == ERANGE || value < low || value > high) {
		argp_error(state, "%s: '%s' is out of range; give %llu to %llu", option, arg,
		           (unsigned long long)low, (unsigned long long)high);
	}
	return value;
}

uint32_t tool_arg_u32(const struct argp_state *state, const char *option, const char *arg,
                      uint32_t low, uint32_t high)
{
	return (uint32_t)tool_arg_u64(state, option, arg, low, high);
}

double tool_arg_double(const struct argp_state *state, const char *option, const char *arg,
                       double low, double high, enum tool_bounds bounds)
{
	char *end;
	double value = strtod(arg, &end);

	if (end == arg || *end || isspace((unsigned char)arg[0]) || !isfinite(value))
		argp_error(state, "%s: '%s' is not a number", option, arg);
	if (value < low || value > high || ((bounds & TOOL_OPEN_LOW) && value <= low) ||
	    ((bounds & TOOL_OPEN_HIGH) && value >= high)) {
		argp_error(state, "%s: '%s' is out of range; give %s %g and %s %g", option, arg,
		           bounds & TOOL_OPEN_LOW ? "more than" : "at least", low,
		           bounds & TOOL_OPEN_HIGH ? "less than" : "at most", high);
	}
	return value;
}

#define ITEM_BYTES 32 /* longer than any number in a list */

/* Copy the text of a list up to its next comma; "" if it is empty or too long, which the callers
 * refuse. @return the text after the comma; NULL at the end */
static const char *parse_item(const char *from, char item[ITEM_BYTES])
{
	size_t length = strcspn(from, ",");

	item[0] = 0;
	if (length == 0 || length >= ITEM_BYTES)
		return NULL;
	memcpy(item, from, length);
	item[length] = 0;
	return from[length] ? from + length + 1 : NULL;
}

struct tool_fanouts tool_arg_fanouts(const struct argp_state *state, const char *option,
                                     const char *arg)
{
	struct tool_fanouts fanouts = { 0 };
	char item[ITEM_BYTES];

	for (const char *from = arg; from;) {
		from = parse_item(from, item);
		if (!item[0])
			argp_error(state,
			           "%s: '%s' is not a list of fanouts; give one per hop, such as "
			           "25,10 or 25,all",
			           option, arg);
		if (fanouts.count == RUNG_HOPS_MAX)
			argp_error(state, "%s: '%s' has too many hops; give at most %d", option,
			           arg, RUNG_HOPS_MAX);
		fanouts.hops[fanouts.count++] =
			strcmp(item, "all") == 0
				? UINT32_MAX
				: tool_arg_u32(state, option, item, 1, UINT32_MAX - 1);
	}
	return fanouts;
}

uint32_t tool_arg_gpus(const struct argp_state *state, const char *option, const char *arg,
                       int gpus[RUNG_GPUS_MAX])
{
	uint32_t count = 0;
	char item[ITEM_BYTES];

	for (const char *from = arg; from;) {
		from = parse_item(from, item);
		if (!item[0])
			argp_error(
				state,
				"%s: '%s' is not a list of GPUs; give their numbers, such as 0,1",
				option, arg);
		if (count == RUNG_GPUS_MAX)
			argp_error(state, "%s: '%s' has too many GPUs; give at most %d", option,
			           arg, RUNG_GPUS_MAX);
		gpus[count++] = (int)tool_arg_u32(state, option, item, 0, INT_MAX);
	}
	return count;
}

uint32_t tool_arg_u32s(const struct argp_state *state, const char *option, const char *arg,
                       uint32_t low, uint32_t high, uint32_t *numbers, uint32_t room)
{
	uint32_t count = 0;
	char item[ITEM_BYTES];

	for (const char *from = arg; from;) {
		from = parse_item(from, item);
		if (!item[0])
			argp_error(state,
			           "%s: '%s' is not a list of numbers; give one such as 512,4096",
			           option, arg);
		if (count == room)
			argp_error(state, "%s: '%s' has too many numbers; give at most %u", option,
			           arg, room);
		numbers[count++] = tool_arg_u32(state, option, item, low, high);
	}
	return count;
}

/* A path with other characters before its '=', such as ./a=b.npy, is a SRC without a name. */
size_t tool_name_length(const char *arg)
{
	size_t length =
		strspn(arg, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");

	return arg[length] == '=' ? length : 0;
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

static const struct tool_option common_options[] = {
	{ "json", NULL, -1, "Print the result as one JSON object",
	  TOOL_FLAG(struct tool_common, json) },
	{ "quiet", NULL, -1, "Print no progress on stderr", TOOL_FLAG(struct tool_common, quiet) },
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
		argp_error(state,
		           "--numa-node: unknown value '%s'; use a node number, auto, interleave "
		           "or none",
		           arg);
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
	{ "host", "SIZE", 5,
	  "Host memory for rows, neighbour lists, staging slots and cold-row cache: " HOST_SIZE,
	  TOOL_SIZE(struct tool_store_args, host) },
	{ "cache", "SIZE", 5,
	  CACHE_SIZE "(default: an eighth, or as --structure auto divides --host)",
	  TOOL_SIZE(struct tool_store_args, cache) },
	{ 0 },
};

const struct tool_option_set tool_budget_set = { budget_options, NULL, NULL };

static const struct tool_option rows_budget_options[] = {
	{ "host", "SIZE", 5, "Host memory for rows, staging slots and cold-row cache: " HOST_SIZE,
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
	  TOOL_SET(set_numa) },
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
	const size_t length = decimal_length(arg);
	const int is_size =
		length > 0 && (strcmp(arg + length, "%") == 0 || unit_bytes(arg + length) > 0);

	args->structure = (struct tool_size){ 0 };
	if (strcmp(arg, "auto") == 0)
		return;
	if (strcmp(arg, "max") != 0 && !is_size)
		argp_error(state,
		           "--structure: unknown value '%s'; use a size such as 64KiB or 10%%, "
		           "auto or max",
		           arg);
	args->structure = tool_arg_size(state, "--structure", arg);
}

#define STRUCTURE_SIZE "a size, a share of the lists such as 10%, max (all lists), or auto "

static const struct tool_option structure_options[] = {
	{ "structure", "SIZE|WORD", 5,
	  "Memory for the neighbour lists of the hottest vertices and for reading the "
	  "others: " STRUCTURE_SIZE "(default: auto, which divides --host by predicted reads)",
	  TOOL_SET(set_structure), TOOL_NOTED(struct tool_store_args, structure_given) },
	{ 0 },
};

const struct tool_option_set tool_structure_set = { structure_options, NULL, NULL };

static const struct tool_option lists_options[] = {
	{ "structure", "SIZE|WORD", 5,
	  "Memory for the neighbour lists of the hottest vertices and for reading the others, not "
	  "part of --host: " STRUCTURE_SIZE
	  "(default: auto, which is all lists, or as many as half of the free memory holds)",
	  TOOL_SET(set_structure), TOOL_NOTED(struct tool_store_args, structure_given) },
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
	{ 0 },
};

const struct tool_option_set tool_engine_set = { engine_options, NULL, NULL };

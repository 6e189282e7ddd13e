/* SPDX-License-Identifier: Apache-2.0 */
/* The options of rung bench, and the checks of their combinations. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "args/args.h"
#include "bench/bench.h"

#define LOOK_AHEAD_MAX 4096u      /* the most announced batches that a store accepts */
#define RUNTIME_MAX    1e6        /* seconds */
#define WARMUP_ROWS    (1u << 16) /* by default, at most */

/* Check the options for the origin of the store and for sharing it. An attached store already has
 * its dataset and its budgets. */
static void check_origin(const struct argp_state *state, const struct bench_args *args)
{
	const char *budget = args->store.host.given    ? "host"
	                     : args->store.cache.given ? "cache"
	                     : args->store.numa_given  ? "numa-node"
	                                               : args->store.device_option;

	if (args->dir && args->attach)
		argp_error(state,
		           "DIR and --attach exclude each other: the store at %s determines the "
		           "dataset",
		           args->attach);
	if (args->attach && budget)
		argp_error(state,
		           "--attach and --%s exclude each other: the process that shares the "
		           "store has already placed the rows",
		           budget);
	if (args->attach && args->share)
		argp_error(state,
		           "--attach and --share exclude each other: other processes can attach to "
		           "%s, too",
		           args->attach);
	if (args->store.profile && (args->attach || args->in_flight < 2 || args->look_ahead ||
	                            bench_ids_are_vertices(args)))
		argp_error(state,
		           "--profile predicts only runs with a private store, two or more "
		           "requests in flight, and generated ids; omit --attach, --in-flight 1, "
		           "--look-ahead and ids in files");
	if (args->store.structure_given && !bench_ids_are_sampled(args))
		argp_error(state, "--structure needs --ids trace: other ids are not sampled");
	if (args->hold && !args->share)
		argp_error(state, "--hold needs --share: it keeps a shared store open");
	if (args->private_cache && !args->share && !args->attach)
		argp_error(state, "--private-cache needs --share or --attach: without them, the "
		                  "cache is always private");
}

/* Text that is neither a kind, nor looks like a SRC, nor names a file is a misspelled kind. */
static void set_ids(const struct argp_state *state, void *ctx, const char *arg)
{
	struct bench_args *args = ctx;

	args->ids = arg;
	if (bench_ids_are_vertices(args) && !strpbrk(arg, ".:/") && access(arg, F_OK) != 0)
		argp_error(state, "--ids: '%s' is not a kind or file; %s", arg,
		           tool_meant(arg, "trace uniform zipf", "trace, uniform, zipf or a file"));
}

static const struct tool_option options[] = {
	{ "ids", "KIND|SRC", 1,
	  "Rows to request: trace (those of sampled batches, the default), uniform, zipf (exponent "
	  "1 over the ranks), or the vertex ids in a file",
	  TOOL_SET(set_ids), TOOL_KNOWN("trace uniform zipf") },
	{ "rows", "N", 1,
	  "Rows to gather (default: 1048576; from a file: all); trace also gathers the rest of its "
	  "last batch",
	  TOOL_U64(struct bench_args, rows, 1, BENCH_ROWS_MAX) },
	{ "runtime", "TIME", 1,
	  "End after this time, such as 30s or 5min, instead of after --rows rows",
	  TOOL_TIME(struct bench_args, runtime, 1e-6, RUNTIME_MAX) },
	{ "repeat", "N", 1, "Run N times, and report the median run and the spread (default: 1)",
	  TOOL_U32(struct bench_args, repeat, 1, BENCH_REPEAT_MAX) },
	{ "warmup", "N", 1,
	  "Rows to gather before the clock starts, in whole requests (default: a tenth of "
	  "--rows, at most 65536; 0 with --check and for ids in a file)",
	  TOOL_U64(struct bench_args, warmup, 0, BENCH_ROWS_MAX) },
	{ "batch", "N", 1,
	  "Rows per request (default: 4096); with trace: seeds per batch (default: as staged)",
	  TOOL_U32(struct bench_args, batch, 1, UINT32_MAX) },
	{ "fanout", "LIST", 1, "With trace: neighbours drawn per hop (default: as staged)",
	  TOOL_FANOUTS(struct bench_args, fanouts) },
	{ "in-flight", "N", 1, "Requests in flight per submitting thread (default: 2)",
	  TOOL_U32(struct bench_args, in_flight, 1, BENCH_REQUESTS_MAX) },
	{ "refill-threads", "N", 6,
	  "Number of threads that read each features file, and share its queue depth (default: "
	  "from --profile, else 1)",
	  TOOL_U32(struct bench_args, refill_threads, 1, RUNG_FEATURE_FILES_MAX) },
	{ "look-ahead", "N", 1,
	  "Announce N batches ahead, so that the cache keeps their rows (default: 0)",
	  TOOL_U32(struct bench_args, look_ahead, 0, LOOK_AHEAD_MAX), TOOL_OLD("prefetch") },
	{ "seed", "N", 1, "Seed of the ids (default: 1)",
	  TOOL_U64(struct bench_args, seed, 0, UINT64_MAX) },
	{ "check", NULL, 1,
	  "Compare every row with the staged file, read without the store; the run is slower",
	  TOOL_FLAG(struct bench_args, check) },
	{ "status", "SECONDS", 1,
	  "Print a status line on stderr every SECONDS, as SIGUSR1 does once (default: none)",
	  TOOL_TIME(struct bench_args, status, 0.01, 1e6) },
	{ "explain", NULL, 1,
	  "Also print the counters: tiers, engine, device, cache, phases of reads",
	  TOOL_FLAG(struct bench_args, explain) },
	{ "csv", "FILE", 1, "Write a line per run as CSV to FILE; - is standard output",
	  TOOL_TEXT(struct bench_args, csv) },
	{ "share", "PATH", 2,
	  "While the store is open, share it through the socket PATH, which is in a private folder",
	  TOOL_TEXT(struct bench_args, share) },
	{ "hold", NULL, 2,
	  "With --share: after the report, keep the store open until SIGINT or SIGTERM",
	  TOOL_FLAG(struct bench_args, hold) },
	{ "attach", "PATH", 2, "Use the store that another process shares at PATH, instead of DIR",
	  TOOL_TEXT(struct bench_args, attach) },
	{ "private-cache", NULL, 2,
	  "With --share or --attach: do not share the cold-row cache, because every process could "
	  "write to it",
	  TOOL_FLAG(struct bench_args, private_cache) },
	{ 0 },
};

/* The default warm-up: the first rows of a run find empty caches and untouched memory. A checked
 * run measures nothing, and all ids of a file are to be gathered. */
static void set_warmup(struct bench_args *args)
{
	const uint64_t rows = bench_rows(args);

	if (args->warmup != UINT64_MAX)
		return;
	args->warmup = rows / 10 < WARMUP_ROWS ? rows / 10 : WARMUP_ROWS;
	if (args->check || bench_ids_are_vertices(args))
		args->warmup = 0;
}

static void check(const struct argp_state *state, void *ctx)
{
	struct bench_args *args = ctx;

	set_warmup(args);
	if (args->runtime > 0 && args->repeat > 1 && args->look_ahead)
		argp_error(state, "--runtime with --repeat excludes --look-ahead: a run would find "
		                  "the announced batches of the run before it; give --rows");
	if (args->csv && strcmp(args->csv, "-") == 0 && args->common.json)
		argp_error(state, "--csv - and --json exclude each other: both print to standard "
		                  "output; give a file to --csv");
	if (args->check && tool_engine_is_null(&args->store))
		argp_error(state, "--check and --engine null exclude each other: that engine reads "
		                  "nothing, so the rows are not valid");
	if (!args->attach)
		tool_need_dir(state, args->dir);
	check_origin(state, args);
	/* with --share: processes that attach may use vertex ids, and cannot load the map
	 * themselves */
	args->store.vertex_ids = bench_ids_are_vertices(args) || args->share;
	if ((uint64_t)args->common.threads * args->in_flight > BENCH_REQUESTS_MAX)
		argp_error(
			state,
			"--threads %u times --in-flight %u exceeds %u requests; lower one of them",
			args->common.threads, args->in_flight, BENCH_REQUESTS_MAX);
}

static const struct tool_part parts[] = {
	TOOL_PART(tool_gpu_set, struct bench_args, store),
	TOOL_PART(tool_budget_set, struct bench_args, store),
	TOOL_PART(tool_placement_set, struct bench_args, store),
	TOOL_PART(tool_structure_set, struct bench_args, store),
	TOOL_PART(tool_engine_set, struct bench_args, store),
	TOOL_PART(tool_common_set, struct bench_args, common),
	{ 0 },
};
const struct tool_command tool_bench_command = {
	.options = options,
	.parts = parts,
	.operands = "DIR\n--attach PATH",
	.doc = "Gather rows of the staged dataset DIR and report rows per second, reads, latencies "
	       "and CPU time. Ids are generated and the store is opened before the clock starts.",
	.operand_kind = TOOL_OPERAND_DIR_OR_NOT,
	.dir = offsetof(struct bench_args, dir),
	.check = check,
	.headings = { [1] = "Requests:",
	              [2] = "Shared stores:",
	              TOOL_GPU_HEADING,
	              TOOL_MEMORY_HEADING,
	              TOOL_READ_HEADING },
	.threads = "Number of threads that submit requests (default: from --profile, else 1)",
	.examples = "  rung bench graph.rung --host 10%\n  rung bench graph.rung --host 4G --ids "
		    "zipf -n 10M -t 4 --check",
};

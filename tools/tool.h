/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Helpers shared by the subcommands: arguments, failures, progress, opening a store, tables and
 * JSON.
 *
 * A subcommand is `int cmd_NAME(int argc, char **argv)`: argv[0] is "rung NAME", the return value
 * is an exit code. It reads its options with tables (args/args.h).
 *
 * The tool_arg_* functions do not return if the argument is wrong: they print the reason and exit
 * with TOOL_USAGE.
 */
#ifndef RUNG_TOOL_H
#define RUNG_TOOL_H

#include <argp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

#include <rung/rung.h>

enum tool_exit {
	TOOL_DONE = 0,
	TOOL_FAILED = 1,
	TOOL_USAGE = 2,
	TOOL_CORRUPT = 3, /**< data do not verify */
	TOOL_NO_HARDWARE = 77
};

int cmd_stage(int argc, char **argv);
int cmd_score(int argc, char **argv);
int cmd_verify(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_trace(int argc, char **argv);
int cmd_numa(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_train(int argc, char **argv); /* only where RUNG_HAVE_BLAS */

/* ---- arguments ---- */

/** A size as given: bytes, or a share of a whole that is known later. */
struct tool_size {
	int given;      /**< 0: the option was not there */
	uint64_t bytes; /**< RUNG_BYTES_MAX for "max" */
	double share;   /**< 0 to 1 for "10%"; negative when it is bytes */
};

/** "4096", "64KiB", "1.5GiB", "10%", "max". */
struct tool_size tool_arg_size(const struct argp_state *state, const char *option, const char *arg);

/** The bytes of a size, `whole` being 100%; RUNG_BYTES_NONE for none at all, since 0 stands for a
 * default in the library. */
uint64_t tool_size_bytes(const struct tool_size *size, uint64_t whole);

/** Whole numbers, bounds included. */
uint64_t tool_arg_u64(const struct argp_state *state, const char *option, const char *arg,
                      uint64_t low, uint64_t high);
uint32_t tool_arg_u32(const struct argp_state *state, const char *option, const char *arg,
                      uint32_t low, uint32_t high);

enum tool_bounds { TOOL_CLOSED = 0, TOOL_OPEN_LOW = 1, TOOL_OPEN_HIGH = 2, TOOL_OPEN = 3 };

/** A finite number between low and high; `bounds` selects which of the two are excluded. */
double tool_arg_double(const struct argp_state *state, const char *option, const char *arg,
                       double low, double high, enum tool_bounds bounds);

struct tool_fanouts {
	uint32_t count; /**< 0: the option was not there */
	uint32_t hops[RUNG_HOPS_MAX];
};

/** "25,10"; "all" in it is UINT32_MAX. */
struct tool_fanouts tool_arg_fanouts(const struct argp_state *state, const char *option,
                                     const char *arg);

/** "0,1": numbers of GPUs. @return how many */
uint32_t tool_arg_gpus(const struct argp_state *state, const char *option, const char *arg,
                       int gpus[RUNG_GPUS_MAX]);

/** "512,4096": whole numbers, bounds included, into `numbers`, which has so much room. @return how
 * many */
uint32_t tool_arg_u32s(const struct argp_state *state, const char *option, const char *arg,
                       uint32_t low, uint32_t high, uint32_t *numbers, uint32_t room);

/** Length of NAME in "NAME=SRC", where NAME consists of letters, digits, _ and -; 0 for a SRC
 * without a name. */
size_t tool_name_length(const char *arg);

/** Length of NAME in the NAME=SRC of --split. */
size_t tool_arg_split(const struct argp_state *state, const char *arg);

/** --json --quiet --threads N, of every subcommand. */
struct tool_common {
	int json;
	int quiet;
	uint32_t threads; /**< 0: not given */
};

/** Budgets, engine and GPUs: which rows are where, and how they are read. */
struct tool_store_args {
	struct tool_size host, cache;
	uint32_t queue_depth; /**< 0: not given */
	enum rung_engine engine;
	int buffered;
	int no_merge;
	uint32_t merge_gap_bytes;  /**< as in struct rung_store_opts */
	const char *device_given;  /**< "device" where it was */
	const char *device_option; /**< an option of GPUs that was given, or that; NULL: none was */
	enum rung_device device;   /**< CPU without any of them, AUTO without --device */
	struct tool_size gpu;
	struct tool_size replicate;
	int gpus[RUNG_GPUS_MAX];
	uint32_t gpu_count; /**< 0: not given */
	uint32_t peers;     /**< 0: not given; otherwise equal to gpu_count */
	enum rung_numa numa;
	uint32_t numa_node; /**< of RUNG_NUMA_NODE */
	int numa_given;
	const char *profile; /**< of the machine; NULL: not given */
	int vertex_ids;      /**< set by the subcommand: ids of space RUNG_VERTICES will be used */
};

/** --graph --undirected --dedup --vertices. Free specs. */
struct tool_graph_args {
	struct rung_graph_opts opts; /**< starts as RUNG_GRAPH_OPTS_INIT */
	const char **specs;
	int none; /**< nonzero: --graph none, no edges and no specs */
};

static inline int tool_graph_given(const struct tool_graph_args *args)
{
	return args->none || args->opts.spec_count > 0;
}

/** --ogb-papers100M --ogb-mag240m --igb. Free with tool_preset_free(). */
struct tool_preset_args {
	enum rung_preset_kind kind; /**< 0: none was given */
	const char *option;         /**< as typed */
	char *root, *part;          /**< part NULL: not given */
	struct rung_preset *preset; /**< after tool_preset_fill() */
};

/** Take from the data set's folder what `opts` lacks: graph, features, labels, splits. @return a
 * status */
int tool_preset_fill(struct tool_preset_args *args, struct rung_stage_opts *opts);

void tool_preset_free(struct tool_preset_args *args);

/** --fanout --batch --draws, and what belongs to some methods alone. */
struct tool_score_args {
	struct rung_score_opts opts; /**< starts as RUNG_SCORE_OPTS_INIT; without fanouts */
	struct tool_fanouts fanouts;
};

/** Nonzero when a method needs fanouts. */
int tool_score_samples(enum rung_score_method method);

/** Nonzero when a method is a PageRank: its steps leave a residual. */
int tool_score_converges(enum rung_score_method method);

/* ---- failures ---- */

/**
 * Print "rung NAME: sentence" for a failed call of the library; returns the exit code of its
 * status. Nothing is printed for a call that a signal has canceled: main() reports the signal.
 */
int tool_fail(const char *name, int status);

/** Print "rung NAME: ..." of the tool's own; returns `code`. */
int tool_error(const char *name, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/** Flush standard output. @return an exit code, the failure printed, once */
int tool_flush(const char *name);

/** Print that standard output is lost, and why: an errno value, 0: unknown. Drops its buffer. */
void tool_output_lost(const char *name, int err);

/** Exit code of a status. */
int tool_exit_code(int status);

/* ---- progress ---- */

/**
 * Progress of a long call: on a terminal a bar with rate and time left once a step has taken a
 * second, else a line every 10 s; nothing with `quiet`. tool_progress_update() returns what
 * tool_interrupted() returns (interrupt.h).
 */
struct tool_progress {
	const char *name; /**< "rung stage" */
	int quiet;
	int terminal;
	pthread_mutex_t lock; /**< tool_progress_update() may come from any thread */
	char stage[32];
	uint64_t stage_ns; /**< when the step began */
	uint64_t shown_ns; /**< when it was last shown */
	int drawn;         /**< a bar is on the terminal's line */
};

void tool_progress_init(struct tool_progress *progress, const char *name, int quiet);
/** A rung_progress_fn. */
int tool_progress_update(void *progress, const char *stage, unsigned long long done,
                         unsigned long long total);
/* clears the bar; before results and errors are printed */
void tool_progress_end(struct tool_progress *progress);

/* ---- store ---- */

struct tool_data {
	struct rung_dataset *ds;
	struct rung_plan *plan;       /**< NULL of a store that was attached */
	struct rung_store *store;     /**< NULL after tool_plan() */
	struct rung_profile *profile; /**< of --profile; NULL without it */
};

/**
 * Open a dataset and place its rows. If a GPU was requested and the CPU gathers, or only one of
 * several GPUs, it prints the reason on stderr, after `name`.
 * @return a status, RUNG_E_NODEV also for a GPU that this build cannot use; after a failure nothing
 *         is left open
 */
int tool_plan(const char *name, const char *dir, const struct tool_store_args *args,
              struct tool_data *data_out);

/** The same, and open its store; `opts` has the settings without a common option (requests_max,
 * batch_rows_max). */
int tool_open(const char *name, const char *dir, const struct tool_store_args *args,
              const struct rung_store_opts *opts, struct tool_data *data_out);

/** Open the store of what tool_plan() opened, which stays open on failure. */
int tool_open_store(const struct tool_store_args *args, const struct rung_store_opts *opts,
                    struct tool_data *data);

/** Attach to the store that another process shares at `path`, with the options of the engine. */
int tool_attach_store(const char *path, const struct tool_store_args *args,
                      const struct rung_store_opts *opts, struct tool_data *data);

/**
 * The ranks of the split "train", distinct and ascending; those of all vertices if there is no such
 * split.
 * @param ids_out  free it with free()
 */
int tool_train_ranks(const struct rung_dataset *ds, uint64_t *count_out, uint64_t **ids_out);

/** The fanouts of the options, or those given at staging. */
void tool_fanouts_of(const struct tool_fanouts *given, const struct rung_dataset_info *info,
                     struct tool_fanouts *out);

/** Close everything that is open. @return the result of rung_store_close() */
int tool_close(struct tool_data *data);

/* ---- numbers and tables ---- */

uint64_t tool_now_ns(void);

/** Most memory this process had resident, in bytes. */
uint64_t tool_peak_rss(void);

#define TOOL_TEXT_BYTES 32

/** "62.2 MiB" into `text`, which is returned. */
const char *tool_bytes_text(char text[TOOL_TEXT_BYTES], double bytes);

/** Text such as "12.3 M", for rates and counts. */
const char *tool_count_text(char text[TOOL_TEXT_BYTES], double count);

/** Text such as "2 min 05 s". */
const char *tool_seconds_text(char text[TOOL_TEXT_BYTES], double seconds);

#define TOOL_ASSUMED_BYTES 160

/** Text to print after the name of a profile about tiers whose rates it lacks; "" if it has all. */
const char *tool_assumed_text(char text[TOOL_ASSUMED_BYTES], uint32_t assumed);

/** Print a table of the tiers of a plan on stdout: name, rows, bytes, predicted hits (if known);
 * and the planned nodes of host memory. */
void tool_print_plan(const struct rung_plan *plan);

/** Print the settings that a plan derived from a profile, with the reasons, on stdout. */
void tool_print_choice(const struct rung_tuning *tuning, const char *profile);

/** Print a line for each block of a store's host memory with nodes: how much of it is there, or why
 * that is not known, on stdout. */
void tool_print_placements(const struct rung_store_stats *stats);

/** Table of tiers of a store on stdout: name, rows, hits and their share. */
void tool_print_hits(const struct rung_store_stats *stats);

/** "io_uring, O_DIRECT, depth 64, sectors of 512 bytes" and why not better, on stdout. */
void tool_print_engine(const struct rung_store_stats *stats);

#endif

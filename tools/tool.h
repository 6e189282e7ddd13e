/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Helpers shared by the subcommands: arguments, failures, progress, opening a store, and tables.
 *
 * A subcommand is `int cmd_NAME(int argc, char **argv)`: argv[0] is "rung NAME", the return value
 * is an exit code. It reads its options with tables (args/args.h). Results go to stdout; messages
 * and progress go to stderr, each line starting with "rung NAME: ".
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
	TOOL_CORRUPT = 3,     /**< data do not verify */
	TOOL_WORSE = 4,       /**< compared values have become worse */
	TOOL_NO_HARDWARE = 77 /**< requested hardware is absent; tests count it as skipped */
};

int cmd_generate(int argc, char **argv);
int cmd_stage(int argc, char **argv);
int cmd_score(int argc, char **argv);
int cmd_verify(int argc, char **argv);
int cmd_fetch(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_trace(int argc, char **argv);
int cmd_numa(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_train(int argc, char **argv); /* only where RUNG_HAVE_BLAS */

/* ---- arguments ---- */

/** A size as given: bytes, or a share of a whole that is known only later. */
struct tool_size {
	int given;      /**< 0: the option was not given */
	uint64_t bytes; /**< RUNG_BYTES_MAX for "max" */
	double share;   /**< 0 to 1 for "10%"; negative if the size is in bytes */
};

/** "4096", "64KiB", "1.5 GiB", "4G" (4 GiB), "4GB" (4e9 bytes), "10%", "max". */
struct tool_size tool_arg_size(const struct argp_state *state, const char *option, const char *arg);

/** Nonzero for text of such a form, whatever its value. */
int tool_is_size(const char *arg);

/**
 * The bytes of a size, where `whole` is 100%.
 * @return 0 if the option was not given (the library's default), RUNG_BYTES_NONE for a size of 0
 */
uint64_t tool_size_bytes(const struct tool_size *size, uint64_t whole);

/** A share of a whole, above 0 and at most 1: "0.4", "40%". */
double tool_arg_share(const struct argp_state *state, const char *option, const char *arg);

/** A whole number from `low` to `high`, both included: "5000", "64k" (64,000), "1.06 M", "1e6". */
uint64_t tool_arg_u64(const struct argp_state *state, const char *option, const char *arg,
                      uint64_t low, uint64_t high);
uint32_t tool_arg_u32(const struct argp_state *state, const char *option, const char *arg,
                      uint32_t low, uint32_t high);

/** A size in bytes. */
uint32_t tool_arg_size32(const struct argp_state *state, const char *option, const char *arg,
                         uint32_t low, uint32_t high);

/** A time such as 0.09, 90ms, 30s or 5min, in seconds from low to high, both included. */
double tool_arg_seconds(const struct argp_state *state, const char *option, const char *arg,
                        double low, double high);

/** A rate of data in bytes per second: bits with b ("100Gb", "25Gbit/s", "100Gbps"), bytes with B
 * ("12GB", "12.5 GB/s"). */
double tool_arg_rate(const struct argp_state *state, const char *option, const char *arg);

/** Nonzero for text of such a form, but 0. */
int tool_is_rate(const char *arg);

enum tool_bounds { TOOL_CLOSED = 0, TOOL_OPEN_LOW = 1, TOOL_OPEN_HIGH = 2, TOOL_OPEN = 3 };

/** A finite number between low and high; `bounds` selects which of the two are excluded. */
double tool_arg_double(const struct argp_state *state, const char *option, const char *arg,
                       double low, double high, enum tool_bounds bounds);

struct tool_fanouts {
	uint32_t count;               /**< 0: the option was not given */
	uint32_t hops[RUNG_HOPS_MAX]; /**< [count]; UINT32_MAX: all neighbours */
};

/** "25,10" or "all,10", one number per hop. */
struct tool_fanouts tool_arg_fanouts(const struct argp_state *state, const char *option,
                                     const char *arg);

/** The same for a relation, where 0 draws nothing at a hop. */
struct tool_fanouts tool_arg_relation_fanouts(const struct argp_state *state, const char *option,
                                              const char *arg);

/** "0,1": numbers of GPUs. @return the number of entries */
uint32_t tool_arg_gpus(const struct argp_state *state, const char *option, const char *arg,
                       int gpus[RUNG_GPUS_MAX]);

/** tool_arg_u32() or tool_arg_size32(). */
typedef uint32_t tool_item_fn(const struct argp_state *state, const char *option, const char *arg,
                              uint32_t low, uint32_t high);

/** "512,4096": items from `low` to `high`, written to numbers[room].
 * @return the number of entries */
uint32_t tool_arg_u32s(const struct argp_state *state, const char *option, const char *arg,
                       tool_item_fn *parse, uint32_t low, uint32_t high, uint32_t *numbers,
                       uint32_t room);

/** Length of NAME in "NAME=SRC", where NAME consists of letters, digits, _ and -; 0 for a SRC
 * without a name, which is accepted, too. */
size_t tool_name_length(const char *arg);

/** Length of the names in "NAME:NAME=...", `count` of them; 0 for another text. */
size_t tool_names_length(const char *arg, int count);

/** Length of NAME in the NAME=SRC of --split, where both parts are required. */
size_t tool_arg_split(const struct argp_state *state, const char *arg);

/** Texts of the command line, of an option that may be repeated. */
struct tool_texts {
	const char **texts; /**< [count]; the subcommand frees the list */
	size_t count;
};

void tool_texts_add(const struct argp_state *state, struct tool_texts *list, const char *text);

/** --json --quiet --threads N, which every subcommand has. */
struct tool_common {
	int json;         /**< nonzero: one JSON object instead of text */
	int quiet;        /**< nonzero: no progress */
	uint32_t threads; /**< 0: not given */
};

/** Budgets, engine and GPUs: in which tier rows are placed, and how they are read. */
struct tool_store_args {
	struct tool_size host, cache; /**< a share in `cache` refers to the size of `host` */
	struct tool_size structure;   /**< a share refers to all lists; not given: auto */
	const char *structure_given;  /**< "structure" if the option was given, else NULL */
	uint32_t queue_depth;         /**< 0: not given */
	enum rung_engine engine;
	int buffered;
	int no_merge;
	uint32_t merge_gap_bytes;  /**< as in struct rung_store_opts */
	uint32_t window;           /**< as in struct rung_store_opts */
	const char *device_given;  /**< "device" if --device was given, else NULL */
	const char *device_option; /**< name of the last GPU option given, else device_given */
	/** without --device: AUTO if a GPU option was given, else CPU */
	enum rung_device device;
	struct tool_size gpu;
	struct tool_size replicate;
	int gpus[RUNG_GPUS_MAX];
	uint32_t gpu_count; /**< 0: not given */
	uint32_t peers;     /**< 0: not given; otherwise equal to gpu_count */
	enum rung_numa numa;
	uint32_t numa_node; /**< of RUNG_NUMA_NODE */
	int numa_given;
	enum rung_quant_format quantize; /**< of rung plan: rows as if they were quantized */
	const char *profile; /**< file with the profile of the machine; NULL: not given */
	/** nonzero: requests use vertex ids (RUNG_VERTICES); set by the subcommand */
	int vertex_ids;
};

/* ---- failures ---- */

/**
 * Print "rung NAME: reason" for a failed call of the library, with the text of rung_last_error().
 * Nothing is printed for a call that a signal has canceled: main() reports the signal.
 * @param name  "rung NAME"
 * @return the exit code of `status`
 */
int tool_fail(const char *name, int status);

/**
 * End of an error message about an unknown word: "did you mean train?", or "use ACCEPTED" if no
 * known word is near. Several that are equally near are all listed.
 * @param known     the words, separated by blanks or commas; an "or" is not one of them
 * @param accepted  everything that is accepted, for people
 * @return text that is valid until the next call
 */
const char *tool_meant(const char *word, const char *known, const char *accepted);

/** Record a size that was given as a small number without a unit. */
void tool_size_note(const char *option, uint64_t bytes);

/** End of an error message about too few `bytes`: "; did you mean --host 4GiB?" if they were given
 * as a small number without a unit, else "". tool_fail() adds it by itself. */
const char *tool_size_hint(uint64_t bytes);

/** Print "rung NAME: ..." for a failure of the command itself, or a note. @return `code` */
int tool_error(const char *name, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/** Flush standard output. A failure is printed once. @return an exit code */
int tool_flush(const char *name);

/** Print that standard output could not be written, and drop its buffer, so that a later flush
 * does not report it again. @param err  an errno value; 0: unknown */
void tool_output_lost(const char *name, int err);

/** Exit code of a status. */
int tool_exit_code(int status);

/* ---- progress ---- */

/**
 * Progress of a long call: step, share, rate with its unit, elapsed time and time left. On a
 * terminal it is a bar, once a step has taken a second, which advances even if the call reports
 * nothing; elsewhere a line every 10 s; with `quiet` nothing. SIGUSR1 asks for a line at any time.
 * There is one bar per process.
 */
struct tool_progress {
	const char *name; /**< "rung stage" */
	int quiet;
	int terminal; /**< stderr is one */
	/** the steps in their order, up to a NULL, of which the bar shows the number; a step that
	 * begins with such a name belongs to it. Constant; NULL: not known */
	const char *const *steps;
	int whole; /**< nonzero: all steps share one bar, and `done` counts from the first one on */
};

void tool_progress_init(struct tool_progress *progress, const char *name, int quiet);
/** A rung_progress_fn. @return tool_interrupted(): nonzero cancels the call */
int tool_progress_update(void *progress, const char *step, unsigned long long done,
                         unsigned long long total);
/** Clear the bar. Call it before results and errors are printed. */
void tool_progress_end(struct tool_progress *progress);
/** Print "rung NAME: text" on stderr, also with --quiet. Any thread. */
void tool_progress_line(struct tool_progress *progress, const char *text);

/** Answer SIGUSR1 from now on with a line of progress or status. */
void tool_ask_listen(void);
/** Nonzero once after a SIGUSR1, unless a thread waits for it. */
int tool_asked(void);
/** Nonzero: leave SIGUSR1 to a thread that calls tool_ask_await(). Each call wakes it. */
void tool_ask_watch(int watched);
/** Sleep until SIGUSR1, a wake or the time `until_ns`. @return nonzero before that time */
int tool_ask_await(uint64_t until_ns);

/* ---- store ---- */

/** How a subcommand samples its dataset. */
struct tool_sampling {
	struct tool_fanouts fanouts; /**< count 0: as staged */
	uint32_t batch;              /**< seeds per batch; 0: as staged, else 1024 */
	int draws_as_staged;         /**< zero: RUNG_DRAWS_ALL, as the trainer samples */
	uint64_t seed;
	uint32_t threads; /**< 0: the library's default */
	/** nonzero: also predict what one more MiB saves, if --host has room for less than
	 * everything */
	int compare;
	/** nonzero: the lists have a plan without rows, tool_data.lists, and the plan of the rows
	 * has no lists: the store is opened later than the lists, and must not open them again */
	int apart;
};

/** The open objects of a subcommand; tool_close() closes all that are not NULL. */
struct tool_data {
	struct rung_dataset *ds;
	struct rung_plan *plan;       /**< NULL for a store that was attached */
	struct rung_plan *lists;      /**< of the lists alone; NULL: they are part of `plan` */
	struct rung_store *store;     /**< NULL after tool_plan() */
	struct rung_profile *profile; /**< of --profile; NULL without it */
	/** of the host budget between rows, cache and lists; batches 0: it was not compared with
	 * others */
	struct rung_plan_division division;
};

/** Load the file of --profile. @param profile_out  free it with free(). @return a status */
int tool_profile_load(const char *path, struct rung_profile **profile_out);

/** The budgets and the device of the options, added to `opts`. @param feature_bytes  100% */
void tool_plan_opts(const struct tool_store_args *args, uint64_t feature_bytes,
                    struct rung_plan_opts *opts);

/** Names of enum rung_quant_format and enum rung_quant_scales. */
extern const char *const tool_quant_formats[];
extern const char *const tool_quant_scales[];

/** Bytes of a quantized row with a scale (rung/dtype.h). */
uint64_t tool_quant_row_bytes(enum rung_quant_format format, uint64_t columns);

/** Print the reason on stderr if not the requested GPUs gather. */
void tool_report_device(const char *name, const struct rung_plan_device *device);

/** rung_plan_create(). A build without CUDA, or a machine without its driver, is RUNG_E_NODEV: the
 * exit status is 77, as without a GPU. Other calls return RUNG_E_NOSUP for other reasons. */
int tool_plan_create(const struct rung_dataset *ds, const struct rung_plan_opts *opts,
                     struct rung_plan **plan_out);

/**
 * Open a dataset and place its rows and, with `sampling`, the lists of its graph in the budgets of
 * the options. If a GPU was requested but the CPU gathers, or only one of several GPUs, the reason
 * is printed on stderr.
 * @param sampling  NULL: the subcommand reads no lists
 * @return a status, RUNG_E_NODEV also for a GPU that this build cannot use; after a failure nothing
 *         is left open
 */
int tool_plan(const char *name, const char *dir, const struct tool_store_args *args,
              const struct tool_sampling *sampling, struct tool_data *data_out);

/** tool_plan(), then open the store; `opts` has the settings without a common option
 * (requests_max, batch_rows_max). */
int tool_open(const char *name, const char *dir, const struct tool_store_args *args,
              const struct tool_sampling *sampling, const struct rung_store_opts *opts,
              struct tool_data *data_out);

/**
 * Decide the bytes of the lists in memory by --structure, in a plan whose other options are set.
 * With "auto", everything is in memory if it fits; otherwise sampled batches decide, and the cache
 * is set, too.
 * @param opts      changed
 * @param division  written if divisions were compared
 * @return a status
 */
int tool_structure_plan(const struct tool_store_args *args, const struct rung_dataset *ds,
                        const struct tool_sampling *sampling, struct rung_plan_opts *opts,
                        struct rung_plan_division *division);

/** --structure as an option of a plan; 0: auto. */
uint64_t tool_structure_bytes(const struct tool_store_args *args, const struct rung_dataset *ds);

/** Bytes of a plan's host budget that the lists and their slots use. */
uint64_t tool_lists_bytes(const struct rung_plan *plan);

/** The lists of a graph for a subcommand that samples without a store. */
struct tool_lists {
	struct rung_graph *graph;         /**< all of it in memory; else NULL */
	struct rung_structure *structure; /**< some lists are in the file; else NULL */
};

/**
 * Open the lists of a dataset.
 * @param plan       with a structure; NULL: in memory that is not part of --host. "auto" then means
 *                   all lists, or as many as half of the free memory holds
 * @param lists_out  close it with tool_lists_close()
 * @return a status
 */
int tool_lists_open(const struct tool_store_args *args, const struct rung_dataset *ds,
                    const struct rung_plan *plan, struct tool_lists *lists_out);

/** Close what is open. */
void tool_lists_close(struct tool_lists *lists);

/** The graph of `lists` for calls that accept one in memory or opts->structure, which is set. */
const struct rung_csc *tool_lists_for(const struct tool_lists *lists,
                                      struct rung_sampler_opts *opts);

/**
 * Move the structure out of a plan, and plan the rows with the rest of the host budget.
 * @param opts   with which data->plan was created; changed
 * @param data   plan: becomes that of the rows; lists: the former plan
 * @return a status
 */
int tool_structure_move(struct rung_plan_opts *opts, struct tool_data *data);

/** Nonzero if the engine reads nothing, so that the rows are not valid. */
static inline int tool_engine_is_null(const struct tool_store_args *args)
{
	return args->engine == RUNG_ENGINE_NULL || args->engine == RUNG_ENGINE_NULL_INSTANT;
}

/** The options of the engine, added to `opts`. */
struct rung_store_opts tool_store_opts(const struct tool_store_args *args,
                                       const struct rung_store_opts *opts);

/** Open the store of a plan of tool_plan(). Dataset and plan stay open on failure. */
int tool_open_store(const struct tool_store_args *args, const struct rung_store_opts *opts,
                    struct tool_data *data);

/** Attach to the store that another process shares at `path`, with the options of the engine. */
int tool_attach_store(const char *path, const struct tool_store_args *args,
                      const struct rung_store_opts *opts, struct tool_data *data);

/**
 * The ranks of the split "train", distinct and ascending; without that split all ranks.
 * @param ids_out  free it with free()
 */
int tool_train_ranks(const struct rung_dataset *ds, uint64_t *count_out, uint64_t **ids_out);

/** The fanouts of the options, else those that were given at staging. */
void tool_fanouts_of(const struct tool_fanouts *given, const struct rung_dataset_info *info,
                     struct tool_fanouts *out);

/** Close everything that is open. @return the result of rung_store_close() */
int tool_close(struct tool_data *data);

/* ---- numbers and tables ---- */

/** Monotonic time in nanoseconds; async-signal-safe. */
uint64_t tool_now_ns(void);

/** CPUs that this process may use. */
unsigned tool_cpu_count(void);

/** Peak resident memory of this process, in bytes. */
uint64_t tool_peak_rss(void);

#define TOOL_TEXT_BYTES 32 /**< of every text below, with its end */

/** Text such as "62.2 MiB". @return `text`, as all functions here */
const char *tool_bytes_text(char text[TOOL_TEXT_BYTES], double bytes);

/** Text such as "12.3 M", for rates and counts; a value below 100 that is not whole keeps two
 * digits: "0.25", "3.4". */
const char *tool_count_text(char text[TOOL_TEXT_BYTES], double count);

/** Text such as "710 us", "3.4 ms", "1.25 s" or "2 min 05 s". */
const char *tool_seconds_text(char text[TOOL_TEXT_BYTES], double seconds);

/** The value below which a share of the counted values is, interpolated within its bucket. Of
 * few values only the median is known; other shares need one value that is beyond them.
 * @param buckets  a latency histogram of the library
 * @return NaN if too few values are counted: fewer than 100 for the share 0.99 */
double tool_percentile(const uint64_t buckets[RUNG_LATENCY_BUCKETS], double share);

/** Nonzero if `count` values are enough for the percentile of `share`. */
static inline int tool_percentile_known(uint64_t count, double share)
{
	/* a little more, because 1 - 0.99 is below 0.01 */
	return count > 0 && (share <= 0.5 || (double)count * (1 - share) > 0.999999);
}

/** The sum of the counted values, each as the middle of its bucket. */
double tool_latency_sum(const uint64_t buckets[RUNG_LATENCY_BUCKETS]);

#define TOOL_ASSUMED_BYTES 160

/** Clause to print after the name of a profile: the tiers whose rates it lacks; "" if it has all.
 * @param assumed  a sum of enum rung_assumed */
const char *tool_assumed_text(char text[TOOL_ASSUMED_BYTES], uint32_t assumed);

/** Print a table of the tiers of a plan on stdout: name, rows, bytes, predicted hits (if known).
 * The planned nodes of host memory follow. */
void tool_print_plan(const struct rung_plan *plan);

/** Print a paragraph on stdout, wrapped at 100 columns.
 * @param indent  blanks before all lines but the first */
void tool_wrap(int indent, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Print the settings that a plan derived from a profile, with the reasons, on stdout. */
void tool_print_tuning(const struct rung_tuning *tuning, const char *profile);

/** The node on which placing a page is tried: of the nodes that this process may use, the one with
 * the most free memory. @return its number, or -1 */
int tool_node_to_probe(const struct rung_topology *topology);

/** Print a line on stdout for each block of a store's host memory that was placed on nodes: the
 * share of its pages that is on the planned nodes, or why the share is unknown. */
void tool_print_placements(const struct rung_store_stats *stats);

/** Print a table of the tiers of a store on stdout: name, rows, hits and their share. */
void tool_print_hits(const struct rung_store_stats *stats);

/** Print "engine: io_uring, O_DIRECT, depth 64, sectors of 512 bytes" on stdout, and why no better
 * engine is used. */
void tool_print_engine(const struct rung_store_stats *stats);

#endif

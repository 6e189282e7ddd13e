/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Tables of options: each option is written once, with its line in the help, the check of its value
 * and its destination. Options that several subcommands share form sets. A subcommand includes a
 * set with the offset of its targets. The completions are generated from the same tables
 * (completion/completion.c).
 *
 *     static const struct tool_option options[] = {
 *             { "rows", "N", 1, "Rows to gather",
 *               TOOL_U64(struct bench_args, rows, 1, UINT64_MAX) },
 *             { "check", NULL, 1, "Compare every row", TOOL_FLAG(struct bench_args, check) },
 *             { "ids", "KIND|SRC", 1, "Rows to request", TOOL_SET(set_ids) },
 *             { 0 },
 *     };
 *     static const struct tool_part parts[] = {
 *             TOOL_PART(tool_common_set, struct bench_args, common), { 0 },
 *     };
 *     static const struct tool_command command = {
 *             .options = options, .parts = parts, .doc = "Measure gathers.",
 *     };
 */
#ifndef RUNG_TOOL_ARGS_H
#define RUNG_TOOL_ARGS_H

#include <stddef.h>

#include "tool.h"

/** The target of an option. */
enum tool_option_type {
	TOOL_TYPE_SET,    /**< any type: set by the function `set` */
	TOOL_TYPE_FLAG,   /**< an int, which becomes 1 */
	TOOL_TYPE_TEXT,   /**< a const char *: a path, a SRC; points into the command line */
	TOOL_TYPE_U32,    /**< a uint32_t */
	TOOL_TYPE_U64,    /**< a uint64_t */
	TOOL_TYPE_REAL,   /**< a double */
	TOOL_TYPE_TIME,   /**< seconds, a double */
	TOOL_TYPE_RATE,   /**< bytes per second, a double */
	TOOL_TYPE_SIZE,   /**< a struct tool_size */
	TOOL_TYPE_BYTES,  /**< a uint64_t, no share or max; 0 becomes 1, because 0 is the default */
	TOOL_TYPE_WORD,   /**< an enum: one of `words` */
	TOOL_TYPE_LIST,   /**< uint32_t [room], and a size_t, the number of entries */
	TOOL_TYPE_SIZES,  /**< the same, of sizes in bytes */
	TOOL_TYPE_FANOUTS /**< a struct tool_fanouts */
};

/** Handle the value of an option or an operand. @param args  the struct of the set or subcommand */
typedef void tool_option_fn(const struct argp_state *state, void *args, const char *arg);
/** Check combinations of options after the last one; exits if they are wrong. */
typedef void tool_check_fn(const struct argp_state *state, void *args);

/** A word that an option accepts, and the value of an enum that it stands for. */
struct tool_word {
	const char *word;
	unsigned value;
};

/** An option; without a name: a heading of the help. A row of zeros ends a table. */
struct tool_option {
	const char *name, *value; /**< value: its name in the help; NULL: the option has no value */
	int group;                /**< as in struct argp_option: the help is sorted by it */
	const char *help;         /**< NULL: not listed */
	enum tool_option_type type;
	size_t offset;              /**< of the target, in the struct of the set or subcommand */
	uint64_t low, high;         /**< U32, U64, LIST: inclusive bounds; BYTES: low only */
	double real_low, real_high; /**< REAL: inclusive or not according to `bounds` */
	enum tool_bounds bounds;
	const struct tool_word *words; /**< WORD: list up to a NULL word */
	/** end of the error message. WORD: after "use "; BYTES: after "--merge-gap: 'x' is " */
	const char *wrong;
	const char *known;   /**< SET: words for the completion, separated by blanks or commas */
	size_t count_offset; /**< LIST: offset of the number of entries */
	uint32_t room;       /**< LIST: largest number of entries */
	int once;            /**< TEXT: a second one is refused */
	const char *old;     /**< earlier spelling of the name, accepted without notice; or NULL */
	size_t noted;        /**< offset of a const char * that is set to the name; 0: none */
	tool_option_fn *set; /**< SET: called with the value */
};

/* Initialisers for the last part of an option: its type, target and bounds. */

#define TOOL_AT(kind, args, member) .type = (kind), .offset = offsetof(args, member)
#define TOOL_SET(function)          .type = TOOL_TYPE_SET, .set = (function)
#define TOOL_FLAG(args, member)     TOOL_AT(TOOL_TYPE_FLAG, args, member)
#define TOOL_TEXT(args, member)     TOOL_AT(TOOL_TYPE_TEXT, args, member)
#define TOOL_SRC(args, member)      TOOL_TEXT(args, member), .once = 1
#define TOOL_SIZE(args, member)     TOOL_AT(TOOL_TYPE_SIZE, args, member)
#define TOOL_FANOUTS(args, member)  TOOL_AT(TOOL_TYPE_FANOUTS, args, member)
#define TOOL_U32(args, member, least, most)                                                        \
	TOOL_AT(TOOL_TYPE_U32, args, member), .low = (least), .high = (most)
#define TOOL_U64(args, member, least, most)                                                        \
	TOOL_AT(TOOL_TYPE_U64, args, member), .low = (least), .high = (most)
#define TOOL_REAL(args, member, least, most, which)                                                \
	TOOL_AT(TOOL_TYPE_REAL, args, member), .real_low = (least), .real_high = (most),           \
					       .bounds = (which)
#define TOOL_TIME(args, member, least, most)                                                       \
	TOOL_AT(TOOL_TYPE_TIME, args, member), .real_low = (least), .real_high = (most)
#define TOOL_RATE(args, member) TOOL_AT(TOOL_TYPE_RATE, args, member)
#define TOOL_BYTES(args, member, least, text)                                                      \
	TOOL_AT(TOOL_TYPE_BYTES, args, member), .low = (least), .wrong = (text)
#define TOOL_WORD(args, member, accepted, text)                                                    \
	TOOL_AT(TOOL_TYPE_WORD, args, member), .words = (accepted), .wrong = (text)
#define TOOL_LIST(args, member, count, least, most)                                                \
	TOOL_ITEMS(TOOL_TYPE_LIST, args, member, count, least, most)
#define TOOL_SIZES(args, member, count, least, most)                                               \
	TOOL_ITEMS(TOOL_TYPE_SIZES, args, member, count, least, most)
#define TOOL_ITEMS(kind, args, member, count, least, most)                                         \
	TOOL_AT(kind, args, member), .count_offset = offsetof(args, count),                        \
				     .room = sizeof(((args *)0)->member) / sizeof(uint32_t),       \
				     .low = (least), .high = (most)
#define TOOL_OLD(spelling)       .old = (spelling)
#define TOOL_KNOWN(list)         .known = (list)
#define TOOL_NOTED(args, member) .noted = offsetof(args, member)

/** Options that several subcommands share. */
struct tool_option_set {
	const struct tool_option *options;
	void (*begin)(void *args); /**< called before the first option; may be NULL */
	tool_check_fn *check;      /**< called after the last option; may be NULL */
};

extern const struct tool_option_set tool_common_set; /**< struct tool_common */
extern const struct tool_option_set tool_output_set; /**< the same without --threads */
/** struct tool_store_args; --host and --cache, with or without neighbour lists in --host */
extern const struct tool_option_set tool_budget_set, tool_rows_budget_set;
extern const struct tool_option_set tool_placement_set; /**< struct tool_store_args */
extern const struct tool_option_set tool_engine_set;    /**< struct tool_store_args */
/** struct tool_store_args; of commands that sample a staged dataset. The lists are part of --host,
 * or in other memory */
extern const struct tool_option_set tool_structure_set, tool_lists_set;
extern const struct tool_option_set tool_gpu_set;     /**< struct tool_store_args */
extern const struct tool_option_set tool_graph_set;   /**< struct tool_graph_args */
extern const struct tool_option_set tool_score_set;   /**< struct tool_score_args */
extern const struct tool_option_set tool_preset_set;  /**< struct tool_preset_args */
extern const struct tool_option_set tool_dataset_set; /**< --dataset; struct tool_preset_args */

extern const struct tool_word tool_draws[]; /**< enum rung_draws */

/** Names of the scores, for help and errors. */
#define TOOL_SCORES "blend, expected, presample, ppr, wrpagerank, rpagerank, degree"

/** A set included in a subcommand, whose struct has its targets at `offset`. */
struct tool_part {
	const struct tool_option_set *set;
	size_t offset;
};
#define TOOL_PART(set, args, member)                                                               \
	{                                                                                          \
		&(set), offsetof(args, member)                                                     \
	}

/** Operands that a subcommand accepts. */
enum tool_operands {
	TOOL_OPERAND_OPTIONS = 0, /**< none, only options */
	TOOL_OPERAND_DIR,         /**< DIR, the staged dataset, exactly once */
	TOOL_OPERAND_DIR_OR_NOT   /**< DIR or nothing; the subcommand checks when it is needed */
};

#define TOOL_GROUPS_MAX 8

/** Headings of the groups of tool_gpu_set, tool_placement_set and tool_engine_set. */
#define TOOL_GPU_HEADING    [4] = "GPU:"
#define TOOL_MEMORY_HEADING [5] = "Memory and placement:"
#define TOOL_READ_HEADING   [6] = "Reading the file:"

struct tool_command {
	const struct tool_option *options; /**< NULL: only those of the parts */
	const struct tool_part *parts;     /**< the end has a NULL `set`; checked last to first */
	const char *operands, *doc;        /**< as args_doc and doc of struct argp */
	const char *examples;              /**< command lines at the end of the help, by '\n' */
	const char *headings[TOOL_GROUPS_MAX]; /**< of the help, by group of options; or NULL */
	const char *threads; /**< help of --threads; NULL: one thread per CPU is the default */
	enum tool_operands operand_kind;
	size_t dir; /**< offset of a const char *, if `operand_kind` is TOOL_OPERAND_DIR */
	tool_option_fn *operand; /**< handles each operand instead; NULL: as in `operand_kind` */
	tool_check_fn *check;    /**< runs after those of the parts; may be NULL */
};

extern const struct tool_command tool_generate_command, tool_stage_command, tool_score_command,
	tool_verify_command, tool_fetch_command, tool_info_command, tool_plan_command,
	tool_trace_command, tool_numa_command, tool_bench_command, tool_doctor_command,
	tool_top_command, tool_train_command; /**< the last only where RUNG_HAVE_BLAS */

/* ---- structs of the sets for graphs ---- */

/** A vertex type of --vertices: "paper=x.npy" or "author=1000". */
struct tool_type {
	const char *text;
	size_t name_length;
	uint64_t count; /**< 0: the value is a SRC of features */
};

/** --graph --undirected --dedup --vertices. */
struct tool_graph_args {
	struct rung_graph_opts opts; /**< starts as RUNG_GRAPH_OPTS_INIT */
	const char **specs;          /**< [opts.spec_count]; the subcommand frees the list */
	int none;                    /**< nonzero: --graph none, no edges and no specs */
	int may_be_typed;            /**< set by the subcommand; zero: types are refused */
	struct tool_type *types;     /**< [type_count]; the subcommand frees the list */
	size_t type_count;
};

static inline int tool_graph_given(const struct tool_graph_args *args)
{
	return args->none || args->opts.spec_count > 0;
}

/** --dataset, or --ogb-papers100M --ogb-mag240m --igb. Free with tool_preset_free(). */
struct tool_preset_args {
	enum rung_preset_kind kind; /**< 0: none was given */
	const char *option;         /**< "--igb" and so on, for messages */
	char *root, *part;          /**< folder or dataset.json; part NULL: not given */
	/** parts (RUNG_PRESET_SPLITS and so on) that options of a typed graph replace */
	unsigned replaced;
	struct rung_preset *preset; /**< after tool_preset_fill() */
};

/**
 * Fill in the members of `opts` that were not given from a description or from the folder of a
 * public dataset: graph, features, labels, splits and further arrays, or types and relations;
 * names, fanouts and batch size. `opts` then points into args->preset, which is NULL if no dataset
 * was given.
 * @return a status
 */
int tool_preset_fill(struct tool_preset_args *args, struct rung_stage_opts *opts);

void tool_preset_free(struct tool_preset_args *args);

/** The fanouts of a relation: "author:writes:paper=15,10". */
struct tool_relation_fanouts {
	const char *text;
	size_t name_length;
	struct tool_fanouts fanouts;
};

/** --fanout --batch --draws, and the options of single methods. */
struct tool_score_args {
	struct rung_score_opts opts; /**< starts as RUNG_SCORE_OPTS_INIT; without fanouts */
	struct tool_fanouts fanouts;
	const char *draws_given;             /**< NULL: opts.draws is the default */
	int may_be_typed;                    /**< set by the subcommand */
	struct tool_relation_fanouts *typed; /**< [typed_count]; the subcommand frees the list */
	size_t typed_count;
};

/** Nonzero if a method needs fanouts. */
int tool_score_samples(enum rung_score_method method);

/** Nonzero if a method is a PageRank, whose report has a residual. */
int tool_score_converges(enum rung_score_method method);

/** The short form of an option, such as 'o' of --out, the same in all subcommands; 0: none. */
char tool_option_letter(const char *name);

/** Read a command line into `args`, which already has its defaults; exits if it is wrong. */
void tool_args_parse(const struct tool_command *command, int argc, char **argv, void *args);

/** Set the SRC at `at`; exit if it was already set: the first one would be ignored. */
void tool_set_once(const struct argp_state *state, const char *option, const char **at,
                   const char *src);

/** Exit if no DIR was given. */
void tool_need_dir(const struct argp_state *state, const char *dir);

#endif

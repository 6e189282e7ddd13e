/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Tables of options: each option is written once, and gives its line of the help, the check of its
 * value and the place where that goes.
 *
 *     static const struct tool_option options[] = {
 *             { "rows", "N", 1, "Rows to gather",
 *               TOOL_U64(struct bench_args, rows, 1, UINT64_MAX) },
 *             { "check", NULL, 1, "Compare every row", TOOL_FLAG(struct bench_args, check) },
 *             { "ids", "KIND|SRC", 1, "Rows to ask for", TOOL_SET(set_ids) },
 *             { 0 },
 *     };
 */
#ifndef RUNG_TOOL_ARGS_H
#define RUNG_TOOL_ARGS_H

#include <stddef.h>

#include "tool.h"

enum tool_option_type {
	TOOL_TYPE_SET,       /**< by a function */
	TOOL_TYPE_FLAG,      /**< an int, which becomes 1 */
	TOOL_TYPE_TEXT,      /**< a const char *: a path, a SRC */
	TOOL_TYPE_U32,
	TOOL_TYPE_U64,
	TOOL_TYPE_REAL,      /**< a double */
	TOOL_TYPE_FANOUTS    /**< a struct tool_fanouts */
};

typedef void tool_option_fn(const struct argp_state *state, void *args, const char *arg);

struct tool_option {
	const char *name, *value;      /**< value: its name in the help; NULL: it has none */
	int group;                     /**< as in struct argp_option: options are listed by it */
	const char *help;              /**< NULL: not listed */
	enum tool_option_type type;
	size_t offset;                 /**< of the target in the struct of the subcommand */
	uint64_t low, high;            /**< of U32 and U64, included */
	double real_low, real_high;    /**< of REAL, by `bounds` */
	enum tool_bounds bounds;
	tool_option_fn *set;           /**< of SET */
};

#define TOOL_AT(kind, args, member) .type = (kind), .offset = offsetof(args, member)
#define TOOL_SET(function) .type = TOOL_TYPE_SET, .set = (function)
#define TOOL_FLAG(args, member) TOOL_AT(TOOL_TYPE_FLAG, args, member)
#define TOOL_TEXT(args, member) TOOL_AT(TOOL_TYPE_TEXT, args, member)
#define TOOL_FANOUTS(args, member) TOOL_AT(TOOL_TYPE_FANOUTS, args, member)
#define TOOL_U32(args, member, least, most) \
	TOOL_AT(TOOL_TYPE_U32, args, member), .low = (least), .high = (most)
#define TOOL_U64(args, member, least, most) \
	TOOL_AT(TOOL_TYPE_U64, args, member), .low = (least), .high = (most)
#define TOOL_REAL(args, member, least, most, which) \
	TOOL_AT(TOOL_TYPE_REAL, args, member), .real_low = (least), .real_high = (most), \
	.bounds = (which)

/** argp_parse() of `argp` with these options besides; exits when one is wrong. */
void tool_args_parse(const struct argp *argp, const struct tool_option *options, int argc,
		     char **argv, void *args);

/**
 * The key of one of `options`: its value is checked and stored in `args`.
 * @return 0, or ARGP_ERR_UNKNOWN when it is the key of none of them
 */
error_t tool_args_option(const struct tool_option *options, int key, char *arg,
			 const struct argp_state *state, void *args);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** Options of rung stage for a typed graph, and the lists that are built from them. */
#ifndef RUNG_CMD_STAGE_BUILD_H
#define RUNG_CMD_STAGE_BUILD_H

#include "args/args.h"

/** Options as given, and what they become. Free with stage_typed_free(). */
struct stage_typed {
	/** "TYPE=SRC", "TYPE:NAME=SRC", the same, "TYPE=FORMAT"; labels may have no TYPE */
	struct tool_texts labels, splits, arrays, quantize;
	struct tool_texts edges, edge_rows; /**< "SOURCE:RELATION:TARGET=SRC" */

	struct rung_stage_type *types; /**< [type_count] */
	size_t type_count;
	struct rung_stage_relation *relations; /**< [relation_count] */
	size_t relation_count;
	void **owned; /**< [owned_count] names and lists */
	size_t owned_count;
};

void stage_typed_free(struct stage_typed *typed);

/** The state of one call; after the first failure nothing more is printed. */
struct stage_build {
	const char *name; /* "rung stage" */
	struct stage_typed *typed;
	int code; /* an exit code */
};

#define STAGE_FAIL(build, ...) ((build)->code = tool_error((build)->name, TOOL_USAGE, __VA_ARGS__))

/** Own a block, or NULL from a failed allocation. @return the block; NULL: the build has failed */
void *stage_own(struct stage_build *build, void *block);

/** A list with one more entry than before, which is copied. The old one stays owned: lists of
 * options are short. */
void *stage_longer(struct stage_build *build, const void *list, size_t count, size_t item_bytes);

#endif

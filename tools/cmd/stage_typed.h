/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Options of rung stage for a typed graph: they describe its vertex types and relations, or change
 * those of --dataset or of a public dataset. Names are checked after the last option, because their
 * order is free and a description is opened later.
 */
#ifndef RUNG_CMD_STAGE_TYPED_H
#define RUNG_CMD_STAGE_TYPED_H

#include "cmd/stage_build.h"

/** Parts that the options replace in a description, as in struct tool_preset_args. */
unsigned stage_typed_replaced(const struct stage_typed *typed);

/**
 * Set types and relations of `opts`, and check that all options agree on whether the graph is
 * typed.
 * @param opts  with what tool_preset_fill() has set, and with the untyped options
 * @return an exit code; the reason is printed
 */
int stage_typed_fill(const char *name, struct stage_typed *typed,
                     const struct tool_graph_args *graph, const struct tool_score_args *score,
                     struct rung_stage_opts *opts);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** Vertex types from the options of rung stage. */
#ifndef RUNG_CMD_STAGE_TYPES_H
#define RUNG_CMD_STAGE_TYPES_H

#include "cmd/stage_build.h"

/** The type with this name; NULL: unknown. */
struct rung_stage_type *stage_find_type(const struct stage_typed *typed, const char *text,
                                        size_t length);

/** The type in "TYPE..." of an option. @return NULL: unknown, which is printed */
struct rung_stage_type *stage_type_of(struct stage_build *build, const char *option,
                                      const char *text, size_t length);

/** Parse "FORMAT[:SCALES]". @return nonzero if it is valid */
int stage_quantize_parse(const char *text, enum rung_quant_format *format,
                         enum rung_quant_scales *scales);

/** Add or change types. @param opts  `quantize` becomes that of the types */
void stage_build_types(struct stage_build *build, const struct tool_graph_args *graph,
                       struct rung_stage_opts *opts);

#endif

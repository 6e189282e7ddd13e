/* SPDX-License-Identifier: Apache-2.0 */
/** Relations from the options of rung stage. */
#ifndef RUNG_CMD_STAGE_RELATIONS_H
#define RUNG_CMD_STAGE_RELATIONS_H

#include "cmd/stage_build.h"

/** Add or change relations, whose types are complete. @param opts  gets the default fanouts if only
 * some relations have their own */
void stage_build_relations(struct stage_build *build, const struct tool_score_args *score,
                           struct rung_stage_opts *opts);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** Parts of a dataset that are staged by separate calls, and their assembly by part 0. */
#ifndef RUNG_IO_STAGE_PARTS_H
#define RUNG_IO_STAGE_PARTS_H

#include "run/run.h"

/** Check the options of a part. Without parts there is nothing to check. */
int rung__stage_parts_check(const struct rung_stage_opts *opts);

/** Part 0: move the files of the other parts to OUT.partial, and add their checksums. RUNG_E_NOENT
 * names the parts that are not complete; the files of all others then stay where they are. */
int rung__stage_parts_assemble(struct rung__stage *stage);

/** Another part: check its file and its inputs, and record that it is complete. */
int rung__stage_part_end(struct rung__stage *stage);

/** Another part: whether an earlier run has completed it. Its file is then checked, unless part 0
 * has moved it. */
int rung__stage_part_again(struct rung__stage *stage, bool *complete_out);

#endif

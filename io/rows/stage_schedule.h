/* SPDX-License-Identifier: Apache-2.0 */
/** The choice of the order in which rows are moved, and its sizes. */
#ifndef RUNG_IO_STAGE_SCHEDULE_H
#define RUNG_IO_STAGE_SCHEDULE_H

#include "run/run.h"

/** Plan how the rows of a source are brought into rank order within the memory budget. If an
 * earlier run has begun to write them, its order is continued. @param name  the first output file
 * @return 0, or RUNG_E_INVAL: the source cannot be read in the requested order, or the memory is
 * too small, and the message has the smallest value that works */
int rung__rows_schedule(struct rung__stage *stage, const struct rung_source *src, const char *name,
                        const struct rung__layout *layout, struct rung__rows_schedule *plan_out);

/** Tests: largest number of rows in a range; 0 (the default): as many as fit. */
extern uint64_t rung__stage_range_rows_max;

#endif

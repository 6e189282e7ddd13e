/* SPDX-License-Identifier: Apache-2.0 */
/** How rows are brought into order. */
#ifndef RUNG_IO_STAGE_SCHEDULE_H
#define RUNG_IO_STAGE_SCHEDULE_H

#include "run/run.h"

/** The plan for it within the budget, `name` being the first file; RUNG_E_INVAL with the least that
 * the rows take. */
int rung__rows_schedule(struct rung__stage *stage, const struct rung_source *src, const char *name,
                        const struct rung__layout *layout, struct rung__rows_schedule *plan_out);

/** Tests: largest number of rows in a range; 0 (the default): as many as fit. */
extern uint64_t rung__stage_range_rows_max;

#endif

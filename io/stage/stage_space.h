/* SPDX-License-Identifier: Apache-2.0 */
/** Free space for all that is written, on each file system. */
#ifndef RUNG_IO_STAGE_SPACE_H
#define RUNG_IO_STAGE_SPACE_H

#include "run/run.h"

/** RUNG_E_NOSPC if a file system lacks space for everything that goes there: OUT, stripes, and the
 * temporary files of the graph. */
int rung__stage_check_space(struct rung__stage *stage);

#endif

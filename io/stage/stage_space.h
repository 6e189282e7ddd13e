/* SPDX-License-Identifier: Apache-2.0 */
/** Checks the free space of each file system that staging writes to. */
#ifndef RUNG_IO_STAGE_SPACE_H
#define RUNG_IO_STAGE_SPACE_H

#include "run/run.h"

/** RUNG_E_NOSPC if a file system lacks space for the files that are written to it: OUT, stripes,
 * and the temporary files of graph and rows. Space that an earlier run's files use counts as free.
 * Also lays out the manifest and sets the report's free_bytes. */
int rung__stage_check_space(struct rung__stage *stage);

#endif

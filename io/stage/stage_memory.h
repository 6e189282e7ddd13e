/* SPDX-License-Identifier: Apache-2.0 */
/** The memory budget: the share of each step, and the least budget that works; the free space.
 * Sizes are in bytes. */
#ifndef RUNG_IO_STAGE_MEMORY_H
#define RUNG_IO_STAGE_MEMORY_H

#include "run/run.h"

/** Fix the budget, the schedules of all rows, and whether the graph is loaded into memory. May be
 * called again when the journal is known. RUNG_E_INVAL with the least budget that works. */
int rung__stage_divide_memory(struct rung__stage *stage);
/** The peak of the memory held at once, by the run's own count. */
uint64_t rung__stage_memory_of(const struct rung__stage *stage);
/** The share of the budget for the buffers of a pass over edges in files. */
uint64_t rung__stage_edges_bytes(const struct rung__stage *stage);

/* ---- stage_space.c ---- */

/** RUNG_E_NOSPC if a file system lacks space for the files that are written to it: OUT, stripes,
 * and the temporary files of graph and rows. Space that an earlier run's files use counts as free.
 * Also lays out the manifest and sets the report's free_bytes. */
int rung__stage_check_space(struct rung__stage *stage);

/** Tests: leave the graph in files even if it fits. */
extern bool rung__stage_graph_in_files;

#endif

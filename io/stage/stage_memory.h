/* SPDX-License-Identifier: Apache-2.0 */
/** The budget: what each step may take, and the least that works. */
#ifndef RUNG_IO_STAGE_MEMORY_H
#define RUNG_IO_STAGE_MEMORY_H

#include "run/run.h"

/** Settle the budget, and whether the graph goes into memory. RUNG_E_INVAL with the least that
 * works. */
int rung__stage_divide_memory(struct rung__stage *stage);
/** Most bytes held at once. */
uint64_t rung__stage_memory_of(const struct rung__stage *stage);
/** The part of the budget for the buffers of a pass over edges in files. */
uint64_t rung__stage_edges_bytes(const struct rung__stage *stage);

/** Tests: leave the graph in files even if it fits. */
extern bool rung__stage_graph_in_files;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** Passes over graphs in files: panels of the size that the budget allows. Private to
 * propagation*.c. */
#ifndef RUNG_PROPAGATION_FILES_H
#define RUNG_PROPAGATION_FILES_H

#include "propagation/propagation.h"

/** Create the members that graphs in memory and in files have in common. propagation_create.c */
int rung__propagation_create(const struct rung_csc *csc, struct rung_edges *edges,
                             const struct rung__propagation_opts *opts,
                             struct rung__propagation **prop_out);

/** Bytes of the buffers of each thread. propagation_create.c */
uint64_t rung__propagation_scratch_bytes(const struct rung__propagation *prop);

/** Release the memory of a panel, so that a step between passes can use it, and allocate it again.
 * propagation_panel.c */
void rung__propagation_send_panel(struct rung__propagation *prop);
int rung__propagation_receive_panel(struct rung__propagation *prop);

/** Allocate the buffers of all threads. propagation_create.c */
int rung__propagation_alloc_buffers(struct rung__propagation *prop);

/** Allocate the blocks and their arrays. On failure rung__propagation_close() frees them. */
int rung__propagation_claim_blocks(struct rung__propagation *prop);

/** Run all panels of a pass, each when its blocks have been read from the files. */
int rung__propagation_run_files(struct rung__propagation *prop,
                                const struct rung__propagation_rule *rule);

#endif

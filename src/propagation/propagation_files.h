/* SPDX-License-Identifier: Apache-2.0 */
/** Passes over graphs in files: panels as the budget allows. Private to spread*.c. */
#ifndef RUNG_PROPAGATION_FILES_H
#define RUNG_PROPAGATION_FILES_H

#include "propagation/propagation.h"

/** Members common to both kinds. propagation_create.c */
int rung__propagation_create(const struct rung_csc *csc, struct rung_edges *edges,
                             const struct rung__propagation_opts *opts,
                             struct rung__propagation **spread_out);

/** Memory of each thread. propagation_create.c */
uint64_t rung__propagation_room_bytes(const struct rung__propagation *spread);

/** Free the memory of a panel and allocate it again. propagation_panel.c */
void rung__propagation_send_panel(struct rung__propagation *spread);
int rung__propagation_receive_panel(struct rung__propagation *spread);

/** All panels of a pass, as they come out of the files. */
int rung__propagation_run_files(struct rung__propagation *spread,
                                const struct rung__propagation_rule *rule);

#endif

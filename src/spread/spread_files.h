/* SPDX-License-Identifier: Apache-2.0 */
/** Passes over graphs in files: panels as the budget allows. Private to spread*.c. */
#ifndef RUNG_SPREAD_FILES_H
#define RUNG_SPREAD_FILES_H

#include "spread/spread.h"

/** Members common to both kinds. spread_create.c */
int rung__spread_create(const struct rung_csc *csc, struct rung_edges *edges,
                        const struct rung__spread_opts *opts, struct rung__spread **spread_out);

/** Memory of each thread. spread_create.c */
uint64_t rung__spread_room_bytes(const struct rung__spread *spread);

/** Free the memory of a panel and allocate it again. spread_panel.c */
void rung__spread_give_panel(struct rung__spread *spread);
int rung__spread_take_panel(struct rung__spread *spread);

/** All panels of a pass, as they come out of the files. */
int rung__spread_run_files(struct rung__spread *spread, const struct rung__spread_rule *rule);

#endif

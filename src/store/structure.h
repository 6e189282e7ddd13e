/* SPDX-License-Identifier: Apache-2.0 */
/** The structure of a dataset: its graph, whose first lists are in memory. Private to the store. */
#ifndef RUNG_STORE_STRUCTURE_H
#define RUNG_STORE_STRUCTURE_H

#include "rung/structure.h"
#include "sample/lists.h"
#include "store/store.h"

/** What struct rung_structure points to. */
struct structure {
	struct rung_structure base;   /* first: the lists, which samplers read */
	struct rung_store *store;     /* of the blocks; NULL: the graph has no edges */
	struct rung__segment offsets; /* memory of lists.offsets */
	char *path;                   /* of the file with the lists */
	bool is_shared;               /* its memory can be sent to other processes */
};

/**
 * Open a structure.
 * @param plan  of the lists; NULL: the graph has no edges
 * @param is_shared  offsets and lists are in memory that other processes can map
 */
int rung__structure_open(const struct rung_dataset *ds, const struct rung_plan *plan,
                         const struct rung_store_opts *opts,
                         const struct rung__reader_ops *reader_ops, bool is_shared,
                         struct structure **structure_out);

/** Complete the lists of a structure whose offsets and store are open, and check those in memory.
 * */
int rung__structure_finish(struct structure *structure);

/** As rung_structure_close(). */
int rung__structure_close(struct structure *structure);

#endif

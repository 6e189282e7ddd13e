/* SPDX-License-Identifier: Apache-2.0 */
/** The structure of a dataset: its graph, whose first lists are in memory. Private to the store. */
#ifndef RUNG_STORE_STRUCTURE_H
#define RUNG_STORE_STRUCTURE_H

#include "rung/structure.h"
#include "sample/lists.h"
#include "store/store.h"

/** What struct rung_structure points to. */
struct rung__structure {
	struct rung_structure base;   /* first: the lists, which samplers read */
	struct rung_store *store;     /* of the blocks; NULL: the graph has no edges */
	struct rung__segment offsets; /* memory of lists.offsets */
	char *path;                   /* of the file with the lists */
	bool is_shared;               /* its memory can be sent to other processes */
};

/**
 * Open a structure.
 * @param plan  of the dataset, with structure_bytes
 * @param opts  of the caller; what is not set is as planned for the lists
 * @param is_shared  offsets and lists are in memory that other processes can map
 */
int rung__structure_open(const struct rung_dataset *ds, const struct rung_plan *plan,
                         const struct rung_store_opts *opts,
                         const struct rung__reader_ops *reader_ops, bool is_shared,
                         struct rung__structure **structure_out);

/** What other processes need of the structure: see rung__share_start(). */
struct rung__share_lists rung__structure_offer(const struct rung__structure *structure);

/** Options of the store of blocks: those of the caller that concern reads. */
struct rung_store_opts rung__structure_opts(const struct rung_store_opts *caller);

/** Complete the lists of a structure whose offsets and store are open, and check those in memory.
 * */
int rung__structure_finish(struct rung__structure *structure);

/** As rung_structure_close(). */
int rung__structure_close(struct rung__structure *structure);

#endif

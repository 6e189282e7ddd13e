/* SPDX-License-Identifier: Apache-2.0 */
/** Files with data from memory, with their checksums; the manifest. */
#ifndef RUNG_IO_STAGE_WRITE_H
#define RUNG_IO_STAGE_WRITE_H

#include "run/run.h"

/** Write an array that is in memory, sync it, and add it to the journal, to be committed. */
int rung__stage_write_array(struct rung__stage *stage, const char *name, const void *data);
/** Score by rank. */
int rung__stage_write_score(struct rung__stage *stage);
/** The same for a file that another function wrote and synced: its blocks are read and summed. */
int rung__stage_sum_file(struct rung__stage *stage, const char *name);
/** An array as an earlier run left it; RUNG_E_CORRUPT when it is another by now. */
int rung__stage_read_array(struct rung__stage *stage, const char *name, void *data_out);
/** All splits, as ranks in the order they were given. */
int rung__stage_write_splits(struct rung__stage *stage);
/** checksums.npy, and the manifest under its temporary name. */
int rung__stage_write_manifest(struct rung__stage *stage);

/** Allocate a buffer, and the checksums of all blocks; those in the journal are set. */
int rung__stage_accept_sums(struct rung__stage *stage);
/** Check that the manifest under its temporary name is what was written; otherwise
 * RUNG_E_CORRUPT. */
int rung__stage_check_manifest(struct rung__stage *stage);

#endif

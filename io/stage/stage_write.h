/* SPDX-License-Identifier: Apache-2.0 */
/** Writes the manifest, and files with data from memory and their checksums. Also reads and checks
 * such files. */
#ifndef RUNG_IO_STAGE_WRITE_H
#define RUNG_IO_STAGE_WRITE_H

#include "run/run.h"

/** Write an array that is in memory, sync it, and add it to the journal; the caller commits. */
int rung__stage_write_array(struct rung__stage *stage, const char *name, const void *data);
/** Write the score, which is in memory by vertex, in rank order. Both maps are needed. */
int rung__stage_write_score(struct rung__stage *stage);
/** Add a file to the journal that another function has written and synced. Its blocks are read for
 * their checksums. */
int rung__stage_sum_file(struct rung__stage *stage, const char *name);
/** Read an array that an earlier run has written. RUNG_E_CORRUPT if it was changed afterwards.
 * @param data_out  [items] of the array */
int rung__stage_read_array(struct rung__stage *stage, const char *name, void *data_out);
/** Write all splits, as ranks in the order in which they were given, and commit the journal. */
int rung__stage_write_splits(struct rung__stage *stage);
/** Write checksums.npy, and the manifest under its temporary name. */
int rung__stage_write_manifest(struct rung__stage *stage);

/** Allocate the buffer and the checksums of all blocks, and set the checksums that the journal
 * has. */
int rung__stage_accept_sums(struct rung__stage *stage);
/** RUNG_E_CORRUPT if the manifest under its temporary name differs from the one in memory, or the
 * failure with which readers would refuse it. */
int rung__stage_check_manifest(struct rung__stage *stage);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * The structure: the relabelled graph of a dataset, whose hottest neighbour lists are in memory and
 * whose other lists stay in the file.
 *
 * Ranks are ordered by score, so the lists that samplers read most come first in the file. A plan
 * with structure_bytes puts as many of them into memory as the bytes hold. A sampler reads the
 * others from the file: for each hop it requests the blocks of 512 bytes with the entries that it
 * draws, all at once and each of them once; of a long list only the blocks with drawn entries. The
 * reads use the I/O engine of the rows, and merge, retry, time out, fail and count in the same way.
 *
 * Batches are the same, bit for bit, as with the graph in memory. The offsets of the lists are
 * always in memory, compressed to 2 bytes per vertex, in addition to the plan's budget.
 *
 * Contents. Offsets and the lists in memory are checked when the structure is opened, and those in
 * the file when they are read. A list entry that is not a vertex fails the batch with
 * RUNG_E_RANGE, a block that cannot be read with RUNG_E_IO; later batches are not affected.
 *
 * A store that is opened with such a plan has a structure (rung_store_structure()), and shares it
 * with the processes that attach to it: offsets and lists exist once per machine. Loaders use the
 * structure of their store if they are given no graph. rung_structure_open() is for samplers
 * without a store.
 */
#ifndef RUNG_STRUCTURE_H
#define RUNG_STRUCTURE_H

#include "store.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Open the structure of a dataset.
 *
 * @param ds             may be closed afterwards
 * @param plan           with structure_bytes; may be destroyed afterwards
 * @param opts           engine, queue_depth, no_merge, buffered, merge_gap_bytes and
 *                       read_timeout_ms are used; NULL: defaults
 * @param structure_out  close it with rung_structure_close()
 * @return 0, RUNG_E_INVAL (a plan without structure), RUNG_E_FORMAT or RUNG_E_RANGE (damaged
 *         contents), RUNG_E_NOSUP (the engine), RUNG_E_NOMEM, RUNG_E_IO
 *
 * Threads: any.
 */
RUNG_API int rung_structure_open(const struct rung_dataset *ds, const struct rung_plan *plan,
                                 const struct rung_store_opts *opts,
                                 struct rung_structure **structure_out);

/**
 * Close a structure that rung_structure_open() opened. Samplers that use it must be destroyed
 * first. The structure of a store is closed with the store.
 *
 * @param structure  NULL is allowed
 * @return 0, or RUNG_E_TIMEDOUT: reads did not complete in time; the memory that they may still
 *         write to stays allocated
 *
 * Threads: any, but no other call may use the structure.
 */
RUNG_API int rung_structure_close(struct rung_structure *structure);

/**
 * Copy the counters of the reads of lists. The rows of the statistics are blocks of 512 bytes, and
 * the hits of tier "nvme" are the blocks that samplers requested from the file. Entries in memory
 * are read directly, so the hits of tier "host" are not counted.
 *
 * @param stats_out  with `size` set; its texts and arrays are valid until the structure is closed
 * @return 0, or RUNG_E_ABI
 *
 * Threads: any, also while samplers run.
 */
RUNG_API int rung_structure_stats(const struct rung_structure *structure,
                                  struct rung_store_stats *stats_out);

/**
 * The structure of a store, for samplers that share it with the store's loaders. Pass it as
 * rung_sampler_opts.structure.
 *
 * @param store  an open store
 * @return the structure, which the store owns; valid until rung_store_close(). NULL if the plan of
 *         the store had no structure_bytes
 *
 * Threads: any.
 */
RUNG_API struct rung_structure *rung_store_structure(const struct rung_store *store);

#ifdef __cplusplus
}
#endif
#endif

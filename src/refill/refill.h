/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The refill threads: they read cold rows, one or several threads per file of the features. Private
 * to rung.
 *
 * Each has its own queue, slots, reader and engine, so threads share no lock but the cache's. A
 * request reaches a thread through its mailbox, as a *part*: its misses in the thread's blocks of
 * its file (state/state.h).
 */
#ifndef RUNG_REFILL_REFILL_H
#define RUNG_REFILL_REFILL_H

#include "state/state.h"

/**
 * Open a reader over a file of the features and start the thread; returns when the engine has been
 * probed. The store then has the thread and its mailbox at refill_idx.
 * @param refill_idx  file_idx * threads_per_file + the number of the thread in the file
 * @param args        the file, the pool, the tokens and the memory for the probe are filled in here
 */
int rung__refill_start(struct rung_store *store, uint32_t refill_idx,
                       const struct rung__reader_ops *ops, const struct rung__reader_args *args);

/** Stop the thread after its reads in flight, and free it. @return 0 or RUNG_E_TIMEDOUT: then the
 * thread still runs, and nothing is freed */
int rung__refill_stop(struct rung__refill *refill);

/** The NUMA node on whose CPUs the thread runs; -1: any. */
int rung__refill_node(const struct rung__refill *refill);

/** Alignment of the thread's reads in the file, in bytes; 1 if they go through the page cache. */
uint32_t rung__refill_align(const struct rung__refill *refill);

/** Write the thread's engine and sizes to the statistics. Its counters are in the store's page
 * (watch.h). Any thread. */
void rung__refill_stats(const struct rung__refill *refill, struct rung_store_stats *stats);

#endif

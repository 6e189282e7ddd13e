/* SPDX-License-Identifier: Apache-2.0 */
/** The refill threads: they read cold rows, one thread per file of the features. Private to
 * rung. */
#ifndef RUNG_REFILL_REFILL_H
#define RUNG_REFILL_REFILL_H

#include "state/state.h"

/**
 * Open a reader over one file of the features and start the thread; returns when the engine has
 * been probed.
 */
int rung__refill_start(struct rung_store *store, uint32_t file_idx,
                       const struct rung__reader_ops *ops, const struct rung__reader_args *args);

/** Stop the thread after its reads in flight. @return 0 or RUNG_E_TIMEDOUT, in which case memory in
 * use is left alone */
int rung__refill_stop(struct rung__refill *refill);

/** The node on whose CPUs it runs; -1: anywhere. */
int rung__refill_node(const struct rung__refill *refill);

/** Alignment of its reads. */
uint32_t rung__refill_align(const struct rung__refill *refill);

/** Add its counters to statistics. */
void rung__refill_stats(const struct rung__refill *refill, struct rung_store_stats *stats);

#endif

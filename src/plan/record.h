/* SPDX-License-Identifier: Apache-2.0 */
/** Recorded batches of ids, for forecasts that process them several times. Private to plans and
 * their division. */
#ifndef RUNG_PLAN_RECORD_H
#define RUNG_PLAN_RECORD_H

#include "base/base.h"

/** A zeroed struct is an empty record. */
struct rung__record {
	uint64_t *ids; /* of all batches, one after the other */
	uint64_t count, capacity;
	uint64_t *ends; /* [batches] end of each batch in ids */
	uint64_t batches, batches_capacity;
	uint64_t next; /* batch that rung__record_next() returns next */
};

/** Add an id to the batch that is being recorded. @param record  a struct rung__record. @return 0
 * or RUNG_E_NOMEM */
int rung__record_add(void *record, uint64_t id);

/** End the batch that is being recorded; it may be empty. @return 0 or RUNG_E_NOMEM */
int rung__record_end(struct rung__record *record);

/** Record a batch of ids in ascending order, so that no forecast has to sort them. @return 0 or
 * RUNG_E_NOMEM */
int rung__record_sorted(struct rung__record *record, const uint64_t *ids, uint64_t count);

/** The same, each id once. */
int rung__record_distinct(struct rung__record *record, const uint64_t *ids, uint64_t count);

/** The first `batches` batches of a record, which keeps the memory. */
struct rung__record rung__record_first(const struct rung__record *record, uint64_t batches);

/** A rung_forecast_next_fn over the batches; at the end it starts from the first again. @param
 * record  a struct rung__record */
int rung__record_next(void *record, const uint64_t **ids_out, uint64_t *count_out);

/** Free the memory. */
void rung__record_fini(struct rung__record *record);

#endif

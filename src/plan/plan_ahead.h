/* SPDX-License-Identifier: Apache-2.0 */
/** The cold-row cache of a planned store with announced batches, without its rows. Private to
 * plans. */
#ifndef RUNG_PLAN_AHEAD_H
#define RUNG_PLAN_AHEAD_H

#include "cache/cache.h"
#include "plan/plan.h"

struct rung__ahead_model {
	struct rung__cache *cache;
	void *index;
	uint64_t index_bytes;
	bool reads_ahead;
	struct rung__ahead ahead;
	uint64_t *rows; /* [row_count] ranks that the last step reads ahead */
	uint64_t row_count, rows_capacity;
	uint32_t window_batches; /* the longest window so far */
};

/**
 * Create the cache that the plan gives the store. A zeroed model can be closed.
 * @param window    as in struct rung_store_opts
 * @param rows_max  rows of the batches that are announced at a time
 * @return 0 or RUNG_E_NOMEM
 */
int rung__ahead_model_open(const struct rung_plan *plan, uint32_t window, uint64_t rows_max,
                           struct rung__ahead_model *model_out);
void rung__ahead_model_close(struct rung__ahead_model *model);

/** Announce a batch: its cold ranks, ascending and distinct. */
void rung__ahead_model_announce(struct rung__ahead_model *model, const uint64_t *cold,
                                uint64_t count);

/** Gather the oldest announced batch. @param read_out [count] the ranks that the batch has to read
 * itself, ascending @return their number */
uint64_t rung__ahead_model_gather(struct rung__ahead_model *model, const uint64_t *cold,
                                  uint64_t count, uint64_t *read_out);

/** Read ahead until the next batch begins: model->rows. @return 0 or RUNG_E_NOMEM */
int rung__ahead_model_step(struct rung__ahead_model *model);

#endif

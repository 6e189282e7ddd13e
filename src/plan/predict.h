/* SPDX-License-Identifier: Apache-2.0 */
/** Sampling the batches of an epoch for predictions. Private to plans and src/divide. */
#ifndef RUNG_PLAN_PREDICT_H
#define RUNG_PLAN_PREDICT_H

#include "plan/record.h"
#include "rung/plan.h"
#include "sample/sample.h"

/** Batches of a shuffled epoch, sampled one after the other. */
struct rung__batches {
	struct rung_sampler *sampler;
	struct rung_batch *batch;
	uint64_t *order; /* [seed_count] shuffled seeds */
	uint64_t seed_count, batch_size;
	uint64_t per_epoch;            /* batches of an epoch */
	uint64_t sampled, batches_max; /* batches sampled so far; batches to sample */
	/* receives the blocks of lists that each hop draws from, one recorded batch for each hop;
	 * NULL: they are not recorded */
	struct rung__record *blocks;
};

/**
 * Create the sampler and shuffle the seeds.
 * @param batches_max  0: 48
 * @return 0, RUNG_E_INVAL, RUNG_E_NOMEM, or an error of rung_sampler_create()
 */
int rung__batches_open(const struct rung_csc *csc, const struct rung_sampler_opts *sampler_opts,
                       const uint64_t *seeds, uint64_t seed_count, uint32_t batch_size,
                       uint32_t batches_max, struct rung__batches *batches_out);

/** Sample the next batch: a rung_forecast_next_fn. @param batches  a struct rung__batches */
int rung__batches_next(void *batches, const uint64_t **ranks_out, uint64_t *count_out);

/** Free everything but the record of blocks. */
void rung__batches_close(struct rung__batches *batches);

/** Batches for a prediction, and what they are a sample of. */
struct rung__recorded {
	struct rung__record rows;   /* of each batch */
	struct rung__record blocks; /* of lists, a batch for each hop */
	uint64_t per_epoch;         /* batches of an epoch */
	uint32_t hop_count;
};

/** rung_plan_predict() with recorded batches. @param sample  several threads may read it */
int rung__predict_sample(struct rung_plan *plan, const struct rung__recorded *sample,
                         const struct rung_forecast_opts *forecast_opts,
                         struct rung_plan_traffic *traffic_out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** Dividing host budgets for batches that were sampled before. Private to this folder. */
#ifndef RUNG_DIVIDE_H
#define RUNG_DIVIDE_H

#include "plan/predict.h"
#include "rung/structure.h"

/**
 * Sample the batches of rung_plan_divide() or of a sweep.
 * @param opts        a host budget of 0 is the default; the lists are read within it
 * @param host_bytes  limits the memory for the lists while they are sampled
 * @param ids_max     stop after that many ids, but not before two batches are recorded
 * @param sample_out  empty; rung__sample_fini() frees it, also after a failure
 */
int rung__sample_batches(const struct rung_dataset *ds, const struct rung_plan_opts *opts,
                         uint64_t host_bytes, const struct rung_sampler_opts *sampler,
                         const uint64_t *seeds, uint64_t seed_count, uint32_t batch_size,
                         uint32_t batches_max, uint64_t ids_max, struct rung__recorded *sample_out);

void rung__sample_fini(struct rung__recorded *sample);

/** rung_plan_divide() with sampled batches. Of a large sample, the part is used that
 * rung_plan_divide() would have sampled. */
int rung__divide_sample(const struct rung_dataset *ds, const struct rung_plan_opts *opts,
                        const struct rung__recorded *sample,
                        struct rung_plan_division *division_out);

#endif

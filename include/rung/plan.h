/* SPDX-License-Identifier: Apache-2.0 */
/** The plan: which ranks live in which tier, within the budgets, and what a batch will find where. */
#ifndef RUNG_PLAN_H
#define RUNG_PLAN_H

#include "dataset.h"
#include "sampler.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A budget without limit. */
#define RUNG_BYTES_MAX UINT64_MAX

struct rung_plan;

struct rung_plan_opts {
	size_t size;             /**< sizeof(struct rung_plan_opts), set by the initialiser */
	uint64_t host_bytes;     /**< host memory for rows and staging slots together; 0: half of what is free; RUNG_BYTES_MAX: all rows */
	uint32_t queue_depth;    /**< reads in flight wanted on the NVMe tier; 0: 64 */
};

#ifdef __cplusplus
static inline struct rung_plan_opts rung_plan_opts_init(void)
{
	struct rung_plan_opts opts = {};
	opts.size = sizeof(opts);
	return opts;
}
#else
#define RUNG_PLAN_OPTS_INIT { .size = sizeof(struct rung_plan_opts) }
#endif

struct rung_plan_tier {
	const char *name;        /**< "host", "nvme" */
	uint64_t rank_first;     /**< ranks rank_first .. rank_first + row_count live here */
	uint64_t row_count;
	uint64_t bytes;          /**< row_count * row_bytes */
	double hit_share;        /**< predicted share of requested rows, 0 to 1; NaN before rung_plan_predict() */
};

/** Staging slots: buffers in host memory that rows are read into from the NVMe tier; inside the host budget. */
struct rung_plan_slots {
	uint64_t slot_count;     /**< 0 when every row is in memory */
	uint64_t slot_bytes;
};

/** What sampled batches say of the traffic to come. */
struct rung_plan_traffic {
	uint64_t batches_sampled;
	uint64_t batches_per_epoch;
	double rows_per_batch;           /**< mean, deduplicated */
	double rows_per_epoch;
	double cold_rows_per_epoch;
	double read_bytes_per_epoch;     /**< from the NVMe tier, in whole sectors of sector_bytes, rows not merged */
	uint32_t sector_bytes;
};

/**
 * Place the rows of a dataset.
 *
 * @param opts      NULL: defaults
 * @param plan_out  free with rung_plan_destroy(); does not need the dataset any more
 * @return 0, RUNG_E_INVAL when the budget cannot hold the staging slots (says the least that works), RUNG_E_NOMEM
 */
RUNG_API int rung_plan_create(const struct rung_dataset *ds, const struct rung_plan_opts *opts, struct rung_plan **plan_out);
RUNG_API void rung_plan_destroy(struct rung_plan *plan);

/** Tier `idx`, fastest first; NULL past the end. Tiers without rows are listed too. */
RUNG_API const struct rung_plan_tier *rung_plan_tier(const struct rung_plan *plan, unsigned idx);
RUNG_API const struct rung_plan_slots *rung_plan_slots(const struct rung_plan *plan);

/**
 * Predict the traffic of training: sample up to `batches_max` batches of a shuffled epoch and count rows per tier.
 *
 * @param csc         the relabelled graph (rung_dataset_load_graph)
 * @param seeds       train ranks, distinct
 * @param batches_max 0: 32
 * @param traffic_out may be NULL
 * @return 0 and hit_share of every tier set, or what the sampler returns
 */
RUNG_API int rung_plan_predict(struct rung_plan *plan, const struct rung_csc *csc, const struct rung_sampler_opts *sampler,
                               const uint64_t *seeds, uint64_t seed_count, uint32_t batch_size, uint32_t batches_max,
                               struct rung_plan_traffic *traffic_out);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** State of a forecast. Private to plan_forecast*.c. */
#ifndef RUNG_PLAN_FORECAST_H
#define RUNG_PLAN_FORECAST_H

#include "plan/plan.h"
#include "plan/plan_ahead.h"
#include "plan/profile_rates.h"

struct rung__forecaster {
	struct rung_plan *plan;
	struct rung_forecast_opts opts;
	struct rung__read_rule rule; /* which rows share a read, as in the store */
	uint64_t frames, cold_first; /* of the cache; first rank of the NVMe tier */
	/* [frames] by rank, from cold_first on: whether the row was read */
	unsigned char *seen;
	uint64_t rows_max; /* rows of the largest batch so far: size of the lists */
	/* [rows_max] cold: the cold ranks of a batch, ascending, each once; tmp: scratch of the
	 * sort, then the positions of the rows to be read */
	uint64_t *cold, *tmp;
	uint64_t *before; /* [before_count] ranks of the previous batch */
	uint64_t before_count;
	/* placements of rows in host memory that are compared; without a choice only the first is
	 * used */
	struct rung__interleave interleavings[2];
	uint32_t interleaving_count;
	/* work other than copying, of all gather threads or, with a GPU, of the thread that handles
	 * cold rows */
	double cpu_ns;
	double gpu_ns, peer_ns, link_ns;                  /* per row, on a GPU */
	struct rung__drive_reads drives[RUNG__FILES_MAX]; /* by file */
	double nvme_ns[RUNG__FILES_MAX];                  /* by file, sum of the reads so far */
	/* announced batches: decides instead of `seen` and `before`; without a cache it is zero */
	struct rung__ahead_model ahead;
	struct rung_forecast *out;
};

/* ---- plan_forecast_batch.c ---- */

/** Make the lists large enough for a batch. @return 0 or RUNG_E_NOMEM */
int rung__forecast_reserve(struct rung__forecaster *f, uint64_t rows);

/** Add a batch to the sums. @return 0 or RUNG_E_INVAL */
int rung__forecast_add(struct rung__forecaster *f, const uint64_t *ranks, uint64_t count);

/** Add an announced batch, whose ranks are ascending and distinct, and the rows that are read ahead
 * before the next one. @return 0 or RUNG_E_NOMEM */
int rung__forecast_add_announced(struct rung__forecaster *f, const uint64_t *ranks, uint64_t count);

/** Fail if a rank is not one of the plan's. */
int rung__forecast_check(const struct rung__forecaster *f, const uint64_t *ranks, uint64_t count);

#endif

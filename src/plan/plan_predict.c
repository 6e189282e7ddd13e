/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traffic forecast: sample some batches of a shuffled epoch, count the rows of each tier, and
 * extrapolate to the epoch. The plan does not depend on the batches, so only hit shares and, with a
 * forecast, the placement of host rows are written to it.
 */
#include <math.h>
#include <string.h>

#include "plan/plan.h"
#include "base/random.h"

#define BATCHES_DEFAULT 32u

/* Batches of an epoch, sampled one after the other, and their counts so far. */
struct counts {
	const struct rung_plan *plan;
	struct rung_sampler *sampler;
	struct rung_batch *batch;
	const uint64_t *order; /* [seed_count] shuffled seeds */
	uint64_t seed_count, batch_size;
	uint64_t batches, batches_max; /* batches sampled so far; batches to sample */
	uint64_t rows;                 /* distinct rows, summed over the batches */
	uint64_t tier_rows[RUNG__TIER_COUNT];
	uint64_t read_bytes; /* bytes to read for cold rows, ignoring the cache and merged reads */
};

/* Bytes of the sectors that a row touches. */
static uint64_t row_read_bytes(const struct rung_plan *plan, uint64_t rank)
{
	uint64_t first = plan->data_offset + rank * plan->row_stride;

	return rung__align_up(first + plan->row_bytes, plan->sector_bytes) -
	       rung__align_down(first, plan->sector_bytes);
}

static void count_rows(struct counts *counts, const uint64_t *ranks, uint64_t count)
{
	const struct rung_plan *plan = counts->plan;

	counts->rows += count;
	for (uint64_t i = 0; i < count; i++) {
		unsigned tier = RUNG__TIER_GPU;

		/* ends at "nvme" at the latest, because every rank is in one tier */
		while (ranks[i] - plan->tiers[tier].rank_first >= plan->tiers[tier].row_count)
			tier++;
		counts->tier_rows[tier]++;
		if (tier == RUNG__TIER_NVME)
			counts->read_bytes += row_read_bytes(plan, ranks[i]);
	}
}

/* Sample and count the next batch. A rung_forecast_next_fn, so a forecast sees the batches while
 * they are counted, and none is stored. */
static int next_batch(void *ctx, const uint64_t **ranks_out, uint64_t *count_out)
{
	struct counts *counts = ctx;
	const uint64_t first = counts->batches * counts->batch_size;
	int rc;

	if (counts->batches == counts->batches_max)
		return 0;
	rc = rung_sampler_sample(counts->sampler, counts->order + first,
	                         RUNG__MIN(counts->batch_size, counts->seed_count - first),
	                         counts->batches, counts->batch);
	if (rc < 0)
		return rc;
	counts->batches++;
	*ranks_out = rung_batch_vertices(counts->batch, count_out);
	count_rows(counts, *ranks_out, *count_out);
	return 1;
}

/* A random number below `limit` for the shuffle, keyed by the sampler's seed: the same arguments
 * give the same forecast. Values that would bias the result are rejected. */
static uint64_t keyed_below(struct rung__rng *stream, uint64_t limit)
{
	uint64_t bits = rung__mix64(limit), value;

	do
		bits = rung__mix64(stream->state ^ bits);
	while (!rung__bits_modulo(bits, limit, &value));
	return value;
}

/* Sample all batches, through the forecast if there is one, because it calls next_batch(). */
static int sample_batches(struct counts *counts, const struct rung_csc *csc,
                          const struct rung_sampler_opts *sampler_opts,
                          const struct rung_forecast_opts *forecast_opts, struct rung_plan *plan,
                          struct rung_forecast *forecast)
{
	const uint64_t *ranks;
	uint64_t count;
	int rc = rung_sampler_create(csc, sampler_opts, &counts->sampler);

	if (rc == 0)
		rc = rung_batch_create(&counts->batch);
	if (rc == 0 && forecast_opts)
		rc = rung_plan_forecast(plan, forecast_opts, next_batch, counts, forecast);
	else if (rc == 0)
		while ((rc = next_batch(counts, &ranks, &count)) > 0)
			;
	rung_batch_destroy(counts->batch);
	rung_sampler_destroy(counts->sampler);
	return rc;
}

/* Write hit shares and the numbers of an epoch, scaled from the sampled batches.
 * @param forecast  NULL: seconds are not predicted */
static void report(struct rung_plan *plan, const struct counts *counts, uint64_t batches_per_epoch,
                   const struct rung_forecast *forecast, struct rung_plan_traffic *traffic_out)
{
	const uint64_t batches = counts->batches;
	double rows = (double)counts->rows;
	double scale = (double)batches_per_epoch / (double)batches;

	for (unsigned t = 0; t < RUNG__TIER_COUNT; t++)
		plan->tiers[t].hit_share = (double)counts->tier_rows[t] / rows;
	if (traffic_out)
		*traffic_out = (struct rung_plan_traffic){
			.batches_sampled = batches,
			.batches_per_epoch = batches_per_epoch,
			.rows_per_batch = rows / (double)batches,
			.rows_per_epoch = rows * scale,
			.cold_rows_per_epoch = (double)counts->tier_rows[RUNG__TIER_NVME] * scale,
			.read_bytes_per_epoch = (double)counts->read_bytes * scale,
			.sector_bytes = plan->sector_bytes,
			.seconds_per_epoch = forecast ? forecast->seconds * scale : NAN,
			.forecast = forecast ? *forecast
			                     : (struct rung_forecast){ .size = sizeof(*forecast) },
		};
}

int rung_plan_predict(struct rung_plan *plan, const struct rung_csc *csc,
                      const struct rung_sampler_opts *sampler_opts, const uint64_t *seeds,
                      uint64_t seed_count, uint32_t batch_size, uint32_t batches_max,
                      const struct rung_forecast_opts *forecast_opts,
                      struct rung_plan_traffic *traffic_out)
{
	struct rung_forecast forecast = { .size = sizeof(forecast) };
	struct counts counts = { .plan = plan, .seed_count = seed_count, .batch_size = batch_size };
	struct rung__rng stream = { sampler_opts ? sampler_opts->seed : 0 };
	uint64_t batches_per_epoch;
	uint64_t *order;
	int rc;

	if (seed_count == 0 || batch_size == 0)
		return rung__fail(RUNG_E_INVAL,
		                  "forecast: %" PRIu64
		                  " seeds and a batch size of %u; both must be at least 1",
		                  seed_count, batch_size);
	if (csc->vertex_count != plan->vertex_count)
		return rung__fail(RUNG_E_INVAL,
		                  "the graph has %" PRIu64 " vertices, but the plan has %" PRIu64
		                  "; use the graph of the planned dataset",
		                  csc->vertex_count, plan->vertex_count);
	/* the last batch of an epoch may be smaller */
	batches_per_epoch = (seed_count - 1) / batch_size + 1;
	counts.batches_max =
		RUNG__MIN(batches_per_epoch, batches_max ? batches_max : BATCHES_DEFAULT);
	/* the shuffle works on a copy: the seeds belong to the caller */
	order = rung__malloc_array(seed_count, sizeof(*order));
	if (!order)
		return rung__fail(RUNG_E_NOMEM, "forecast: no memory for %" PRIu64 " seeds",
		                  seed_count);
	memcpy(order, seeds, seed_count * sizeof(*order));
	rung__shuffle(order, seed_count, keyed_below, &stream);
	counts.order = order;
	rc = sample_batches(&counts, csc, sampler_opts, forecast_opts, plan, &forecast);
	if (rc == 0)
		report(plan, &counts, batches_per_epoch, forecast_opts ? &forecast : NULL,
		       traffic_out);
	rung__free(order);
	return rc;
}

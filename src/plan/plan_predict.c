/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traffic forecast: sample some batches of a shuffled epoch, count the rows and the blocks of lists
 * of each tier, and extrapolate to the epoch. The plan does not depend on the batches, so only hit
 * shares and, with a forecast, the placement of host rows are written to it.
 */
#include <math.h>
#include <string.h>

#include "base/random.h"
#include "plan/plan.h"
#include "plan/predict.h"

#define BATCHES_DEFAULT 48u

/* The counts of the batches so far. */
struct counts {
	const struct rung_plan *plan;
	rung_forecast_next_fn next; /* samples the next batch, or returns a recorded one */
	void *ctx;
	uint64_t batches, per_epoch;
	uint32_t hop_count;
	uint64_t rows; /* distinct rows, summed over the batches */
	uint64_t tier_rows[RUNG__TIER_COUNT];
	uint64_t read_bytes; /* bytes to read for cold rows, ignoring the cache and merged reads */
	struct rung__record blocks; /* of lists, a batch for each hop */
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

int rung__batches_next(void *ctx, const uint64_t **ranks_out, uint64_t *count_out)
{
	struct rung__batches *batches = ctx;
	const uint64_t first = batches->sampled * batches->batch_size;
	int rc;

	if (batches->sampled == batches->batches_max)
		return 0;
	rc = rung_sampler_sample(batches->sampler, batches->order + first,
	                         RUNG__MIN(batches->batch_size, batches->seed_count - first),
	                         batches->sampled, batches->batch);
	for (uint32_t hop = 0; rc == 0 && batches->blocks && hop < batches->sampler->hop_count;
	     hop++) {
		rc = rung__hop_blocks(batches->sampler, batches->batch, batches->sampled, hop,
		                      rung__record_add, batches->blocks);
		if (rc == 0)
			rc = rung__record_end(batches->blocks);
	}
	if (rc < 0)
		return rc;
	batches->sampled++;
	*ranks_out = rung_batch_vertices(batches->batch, count_out);
	return 1;
}

/* Get and count the next batch. A rung_forecast_next_fn, so a forecast sees the batches while they
 * are counted, and only the blocks of their lists need to be stored. */
static int next_batch(void *ctx, const uint64_t **ranks_out, uint64_t *count_out)
{
	struct counts *counts = ctx;
	const int rc = counts->next(counts->ctx, ranks_out, count_out);

	if (rc > 0) {
		counts->batches++;
		count_rows(counts, *ranks_out, *count_out);
	}
	return rc;
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

int rung__batches_open(const struct rung_csc *csc, const struct rung_sampler_opts *sampler_opts,
                       const uint64_t *seeds, uint64_t seed_count, uint32_t batch_size,
                       uint32_t batches_max, struct rung__batches *batches_out)
{
	struct rung__batches batches = { .seed_count = seed_count, .batch_size = batch_size };
	struct rung__rng stream = { sampler_opts ? sampler_opts->seed : 0 };
	int rc;

	if (seed_count == 0 || batch_size == 0)
		return rung__fail(RUNG_E_INVAL,
		                  "forecast: %" PRIu64
		                  " seeds and a batch size of %u; both must be at least 1",
		                  seed_count, batch_size);
	/* the last batch of an epoch may be smaller */
	batches.per_epoch = (seed_count - 1) / batch_size + 1;
	batches.batches_max =
		RUNG__MIN(batches.per_epoch, batches_max ? batches_max : BATCHES_DEFAULT);
	/* the shuffle works on a copy: the seeds belong to the caller */
	batches.order = rung__malloc_array(seed_count, sizeof(*batches.order));
	if (!batches.order)
		return rung__fail(RUNG_E_NOMEM, "forecast: no memory for %" PRIu64 " seeds",
		                  seed_count);
	memcpy(batches.order, seeds, seed_count * sizeof(*seeds));
	rung__shuffle(batches.order, seed_count, keyed_below, &stream);
	rc = rung_sampler_create(csc, sampler_opts, &batches.sampler);
	if (rc == 0)
		rc = rung_batch_create(&batches.batch);
	if (rc < 0) {
		rung__batches_close(&batches);
		return rc;
	}
	*batches_out = batches;
	return 0;
}

void rung__batches_close(struct rung__batches *batches)
{
	rung_batch_destroy(batches->batch);
	rung_sampler_destroy(batches->sampler);
	rung__free(batches->order);
}

/* Sample all batches, through the forecast if there is one, because it calls next_batch(). */
static int sample_batches(struct counts *counts, const struct rung_forecast_opts *forecast_opts,
                          struct rung_plan *plan, struct rung_forecast *forecast)
{
	const uint64_t *ranks;
	uint64_t count;
	int rc;

	if (forecast_opts)
		return rung_plan_forecast(plan, forecast_opts, next_batch, counts, forecast);
	while ((rc = next_batch(counts, &ranks, &count)) > 0)
		;
	return rc;
}

/* Write the hit shares and the numbers of the lists' blocks, and predict their reads.
 * @param forecast_opts  NULL: nothing is predicted */
static int report_lists(struct rung_plan *lists, struct counts *counts, double scale,
                        const struct rung_forecast_opts *forecast_opts,
                        struct rung_plan_traffic *traffic)
{
	const struct rung__record *blocks = &counts->blocks;
	const uint64_t hot = lists->tiers[RUNG__TIER_HOST].row_count;
	uint64_t cold = 0;
	int rc = 0;

	for (uint64_t i = 0; i < blocks->count; i++)
		cold += blocks->ids[i] >= hot;
	lists->tiers[RUNG__TIER_NVME].hit_share =
		(double)cold / (double)RUNG__MAX(blocks->count, 1u);
	lists->tiers[RUNG__TIER_HOST].hit_share = 1 - lists->tiers[RUNG__TIER_NVME].hit_share;
	traffic->blocks_per_epoch = (double)blocks->count * scale;
	traffic->cold_blocks_per_epoch = (double)cold * scale;
	traffic->structure_forecast.size = sizeof(traffic->structure_forecast);
	if (forecast_opts) {
		struct rung_forecast_opts opts = *forecast_opts;

		opts.keep_placement = 1; /* the rows were placed in the memory that it leaves */
		opts.warmup_batches *= counts->hop_count; /* a batch for each hop */
		rc = rung_plan_forecast(lists, &opts, rung__record_next, &counts->blocks,
		                        &traffic->structure_forecast);
	}
	return rc;
}

/* The lists are read from the same drive as the rows, so the times of both reads add up. */
static void add_list_seconds(double scale, struct rung_plan_traffic *traffic)
{
	struct rung_forecast *rows = &traffic->forecast;
	const double nvme = rows->nvme_seconds + traffic->structure_forecast.nvme_seconds;

	if (nvme <= rows->seconds)
		return;
	rows->bound = RUNG_BOUND_NVME;
	rows->seconds = nvme;
	traffic->seconds_per_epoch = nvme * scale;
}

/* Write hit shares and the numbers of an epoch, scaled from the sampled batches. */
static void report_rows(struct rung_plan *plan, const struct counts *counts, double scale,
                        struct rung_plan_traffic *traffic)
{
	const double rows = (double)counts->rows;

	for (unsigned t = 0; t < RUNG__TIER_COUNT; t++)
		plan->tiers[t].hit_share = (double)counts->tier_rows[t] / rows;
	traffic->batches_sampled = counts->batches;
	traffic->batches_per_epoch = counts->per_epoch;
	traffic->rows_per_batch = rows / (double)counts->batches;
	traffic->rows_per_epoch = rows * scale;
	traffic->cold_rows_per_epoch = (double)counts->tier_rows[RUNG__TIER_NVME] * scale;
	traffic->read_bytes_per_epoch = (double)counts->read_bytes * scale;
	traffic->sector_bytes = plan->sector_bytes;
}

/* Go through the batches, and write everything about them. */
static int predict(struct rung_plan *plan, struct counts *counts,
                   const struct rung_forecast_opts *forecast_opts,
                   struct rung_plan_traffic *traffic)
{
	double scale;
	int rc;

	traffic->forecast.size = sizeof(traffic->forecast);
	rc = sample_batches(counts, forecast_opts, plan, &traffic->forecast);
	if (rc < 0)
		return rc;
	scale = (double)counts->per_epoch / (double)counts->batches;
	report_rows(plan, counts, scale, traffic);
	traffic->seconds_per_epoch = forecast_opts ? traffic->forecast.seconds * scale : NAN;
	if (!plan->structure)
		return 0;
	rc = report_lists(plan->structure, counts, scale, forecast_opts, traffic);
	if (rc == 0 && forecast_opts)
		add_list_seconds(scale, traffic);
	return rc;
}

int rung__predict_sample(struct rung_plan *plan, const struct rung__recorded *sample,
                         const struct rung_forecast_opts *forecast_opts,
                         struct rung_plan_traffic *traffic_out)
{
	struct rung__record rows = rung__record_first(&sample->rows, sample->rows.batches);
	struct counts counts = { .plan = plan,
		                 .next = rung__record_next,
		                 .ctx = &rows,
		                 .per_epoch = sample->per_epoch,
		                 .hop_count = sample->hop_count };
	struct rung_plan_traffic traffic = { 0 };
	int rc;

	counts.blocks = rung__record_first(&sample->blocks, sample->blocks.batches);
	rc = predict(plan, &counts, forecast_opts, &traffic);
	if (rc == 0)
		*traffic_out = traffic;
	return rc;
}

int rung_plan_predict(struct rung_plan *plan, const struct rung_csc *csc,
                      const struct rung_sampler_opts *sampler_opts, const uint64_t *seeds,
                      uint64_t seed_count, uint32_t batch_size, uint32_t batches_max,
                      const struct rung_forecast_opts *forecast_opts,
                      struct rung_plan_traffic *traffic_out)
{
	struct rung__batches batches;
	struct counts counts = { .plan = plan, .next = rung__batches_next, .ctx = &batches };
	struct rung_plan_traffic traffic = { 0 };
	uint64_t vertex_count;
	int rc = rung__batches_open(csc, sampler_opts, seeds, seed_count, batch_size, batches_max,
	                            &batches);

	if (rc < 0)
		return rc;
	counts.per_epoch = batches.per_epoch;
	counts.hop_count = batches.sampler->hop_count;
	batches.blocks = plan->structure ? &counts.blocks : NULL;
	vertex_count = batches.sampler->types[0].vertex_count;
	if (vertex_count != plan->vertex_count)
		rc = rung__fail(RUNG_E_INVAL,
		                "the graph has %" PRIu64 " vertices, but the plan has %" PRIu64
		                "; use the graph of the planned dataset",
		                vertex_count, plan->vertex_count);
	else
		rc = predict(plan, &counts, forecast_opts, &traffic);
	if (rc == 0 && traffic_out)
		*traffic_out = traffic;
	rung__record_fini(&counts.blocks);
	rung__batches_close(&batches);
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Traffic forecast: sample some batches of a shuffled epoch and count where their rows live. */
#include <math.h>
#include <string.h>

#include "plan_internal.h"

#define BATCHES_DEFAULT 32u

struct counts {
	uint64_t *ranks;       /* [room] of all batches, when seconds are to be predicted */
	uint64_t room;
	uint64_t *starts;      /* [batches + 1] */
	uint64_t rows;
	uint64_t tier_rows[RUNG__TIER_COUNT];
	uint64_t read_bytes;
};

/* Bytes of the sectors that a row touches. */
static uint64_t row_read_bytes(const struct rung_plan *plan, uint64_t rank)
{
	uint64_t first = plan->data_offset + rank * plan->row_stride;

	return rung__align_up(first + plan->row_bytes, plan->sector_bytes) - rung__align_down(first, plan->sector_bytes);
}

static int keep_batch(struct counts *counts, uint64_t batch_idx, const struct rung_batch *batch)
{
	uint64_t count, *larger;
	const uint64_t *ranks = rung_batch_vertices(batch, &count);

	if (counts->rows + count > counts->room) {
		counts->room = 2 * (counts->rows + count);
		larger = rung__realloc_array(counts->ranks, counts->room, sizeof(*larger));
		if (!larger)
			return rung__fail(RUNG_E_NOMEM, "forecast: %" PRIu64 " rows", counts->room);
		counts->ranks = larger;
	}
	memcpy(counts->ranks + counts->rows, ranks, count * sizeof(*ranks));
	counts->starts[batch_idx + 1] = counts->rows + count;
	return 0;
}

static void count_batch(const struct rung_plan *plan, const struct rung_batch *batch, struct counts *counts)
{
	uint64_t count;
	const uint64_t *ranks = rung_batch_vertices(batch, &count);

	counts->rows += count;
	for (uint64_t i = 0; i < count; i++) {
		unsigned tier = RUNG__TIER_GPU;

		while (ranks[i] - plan->tiers[tier].rank_first >= plan->tiers[tier].row_count)   /* every rank is in one */
			tier++;
		counts->tier_rows[tier]++;
		if (tier == RUNG__TIER_NVME)
			counts->read_bytes += row_read_bytes(plan, ranks[i]);
	}
}

/* Fisher-Yates, keyed by the sampler's seed: the same forecast each time. */
static void shuffle(uint64_t *ids, uint64_t count, uint64_t seed)
{
	for (uint64_t i = count; i > 1; i--) {
		uint64_t j = rung__mix64(seed ^ rung__mix64(i)) % i;
		uint64_t id = ids[i - 1];

		ids[i - 1] = ids[j];
		ids[j] = id;
	}
}

static int sample_batches(struct rung_sampler *sampler, const struct rung_plan *plan, const uint64_t *order, uint64_t seed_count,
                          uint64_t batch_size, uint64_t batches, struct counts *counts)
{
	struct rung_batch *batch;
	int rc = rung_batch_create(&batch);

	if (rc < 0)
		return rc;
	for (uint64_t b = 0; b < batches && rc == 0; b++) {
		uint64_t first = b * batch_size;

		rc = rung_sampler_sample(sampler, order + first, RUNG__MIN(batch_size, seed_count - first), b, batch);
		if (rc == 0 && counts->starts)
			rc = keep_batch(counts, b, batch);
		if (rc == 0)
			count_batch(plan, batch, counts);
	}
	rung_batch_destroy(batch);
	return rc;
}

static void report(struct rung_plan *plan, const struct counts *counts, uint64_t batches, uint64_t batches_per_epoch,
                   const struct rung_forecast *forecast, struct rung_plan_traffic *traffic_out)
{
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
			.seconds_per_epoch = counts->starts ? forecast->seconds * scale : NAN,
			.forecast = *forecast,
		};
}

int rung_plan_predict(struct rung_plan *plan, const struct rung_csc *csc, const struct rung_sampler_opts *sampler_opts,
                      const uint64_t *seeds, uint64_t seed_count, uint32_t batch_size, uint32_t batches_max,
                      const struct rung_forecast_opts *forecast_opts, struct rung_plan_traffic *traffic_out)
{
	struct rung_forecast forecast = { .size = sizeof(forecast) };
	uint64_t batches_per_epoch, batches;
	struct counts counts = { 0 };
	struct rung_sampler *sampler;
	uint64_t *order;
	int rc;

	if (seed_count == 0 || batch_size == 0)
		return rung__fail(RUNG_E_INVAL, "a forecast needs seeds (got %" PRIu64 ") and a batch size (got %u)", seed_count, batch_size);
	if (csc->vertex_count != plan->vertex_count)
		return rung__fail(RUNG_E_INVAL, "the graph has %" PRIu64 " vertices, the plan %" PRIu64 ": give the dataset's own graph",
		                  csc->vertex_count, plan->vertex_count);
	batches_per_epoch = (seed_count - 1) / batch_size + 1;
	batches = RUNG__MIN(batches_per_epoch, batches_max ? batches_max : BATCHES_DEFAULT);
	order = rung__malloc_array(seed_count, sizeof(*order));
	if (!order)
		return rung__fail(RUNG_E_NOMEM, "forecast: out of memory for %" PRIu64 " seeds", seed_count);
	if (forecast_opts) {
		counts.starts = rung__zalloc_array(batches + 1, sizeof(*counts.starts));
		if (!counts.starts) {
			rc = rung__fail(RUNG_E_NOMEM, "forecast: out of memory for %" PRIu64 " batches", batches);
			goto free_order;
		}
	}
	for (uint64_t i = 0; i < seed_count; i++)
		order[i] = seeds[i];
	shuffle(order, seed_count, sampler_opts ? sampler_opts->seed : 0);
	rc = rung_sampler_create(csc, sampler_opts, &sampler);
	if (rc < 0)
		goto free_order;
	rc = sample_batches(sampler, plan, order, seed_count, batch_size, batches, &counts);
	rung_sampler_destroy(sampler);
	if (rc == 0 && forecast_opts)
		rc = rung_plan_forecast(plan, forecast_opts, counts.ranks, counts.starts, batches, &forecast);
	if (rc == 0)
		report(plan, &counts, batches, batches_per_epoch, &forecast, traffic_out);
free_order:
	rung__free(counts.starts);
	rung__free(counts.ranks);
	rung__free(order);
	return rc;
}

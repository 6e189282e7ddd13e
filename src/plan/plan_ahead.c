/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store's cold-row cache in a forecast: the same code decides here and in the store which rows
 * are kept and which are read ahead. A read completes at once; the store, too, chooses the frame of
 * a row when the row has been read.
 */
#include "plan/plan_ahead.h"

int rung__ahead_model_open(const struct rung_plan *plan, uint32_t window, uint64_t rows_max,
                           struct rung__ahead_model *model_out)
{
	const struct rung__cache_shape shape = {
		.rank_first = plan->tiers[RUNG__TIER_NVME].rank_first,
		.row_count = plan->tiers[RUNG__TIER_NVME].row_count,
		.frame_count = plan->cache.row_count,
	};
	struct rung__ahead_model model = { .index_bytes = rung__cache_index_bytes(&shape) };
	int rc;

	model.index = rung__map_pages(model.index_bytes);
	if (!model.index)
		return rung__fail(RUNG_E_NOMEM,
		                  "forecast: no memory for a cache of %" PRIu64 " rows",
		                  shape.frame_count);
	rc = rung__cache_open(&shape, model.index, -1, true,
	                      RUNG__MIN(rows_max, RUNG__CACHE_WINDOW_ROWS_MAX),
	                      RUNG__CACHE_BATCHES_MAX, &model.cache);
	/* a plan does not know the positions of rows that were staged in place */
	if (rc == 0 && window != RUNG_WINDOW_NONE && !plan->bytes.map) {
		model.reads_ahead = true;
		model.ahead.batches_max = window;
		rc = rung__ahead_open(model.cache, NULL);
	}
	if (rc < 0) {
		rung__ahead_model_close(&model);
		return rc;
	}
	*model_out = model;
	return 0;
}

void rung__ahead_model_close(struct rung__ahead_model *model)
{
	rung__cache_close(model->cache);
	rung__unmap_pages(model->index, model->index_bytes);
	rung__free(model->rows);
}

void rung__ahead_model_announce(struct rung__ahead_model *model, const uint64_t *cold,
                                uint64_t count)
{
	uint64_t batch;

	/* a window that is full is not a failure: the batch is then not announced */
	if (count > 0)
		(void)rung__cache_announce(model->cache, cold, count, &batch);
}

uint64_t rung__ahead_model_gather(struct rung__ahead_model *model, const uint64_t *cold,
                                  uint64_t count, uint64_t *read_out)
{
	struct rung__cache *cache = model->cache;
	uint64_t batch = 0, misses = 0;

	if (count == 0)
		return 0;
	rung__cache_begin(cache, cold, count, &batch);
	rung__cache_lock(cache);
	for (uint64_t i = 0; i < count; i++) {
		struct rung__cache_slot slot;

		switch (rung__cache_look_up(cache, batch, cold[i], 0, &slot)) {
		case RUNG__CACHE_HIT:
			rung__cache_unpin(cache, slot.frame);
			break;
		case RUNG__CACHE_KEEP:
			rung__cache_filled(cache, slot.frame, 0);
			read_out[misses++] = cold[i];
			break;
		default:
			read_out[misses++] = cold[i];
		}
	}
	rung__cache_unlock(cache);
	rung__cache_end(cache, batch);
	return misses;
}

/* Add a row to those that are read ahead. */
static int add_row(struct rung__ahead_model *model, uint64_t rank)
{
	if (model->row_count == model->rows_capacity) {
		const uint64_t capacity = RUNG__MAX(2 * model->rows_capacity, 4096u);
		uint64_t *rows = rung__realloc_array(model->rows, capacity, sizeof(*rows));

		if (!rows)
			return rung__fail(RUNG_E_NOMEM,
			                  "forecast: no memory to read %" PRIu64 " rows ahead",
			                  capacity);
		model->rows = rows;
		model->rows_capacity = capacity;
	}
	model->rows[model->row_count++] = rank;
	return 0;
}

int rung__ahead_model_step(struct rung__ahead_model *model)
{
	struct rung__cache *cache = model->cache;
	uint64_t rank;
	int rc = 0;

	model->row_count = 0;
	if (!model->reads_ahead)
		return 0;
	rung__cache_lock(cache);
	rung__ahead_advance(cache, &model->ahead, 0);
	while (rc == 0 && rung__ahead_peek(cache, &model->ahead, &rank)) {
		struct rung__cache_slot slot;

		if (rung__ahead_look_up(cache, &model->ahead, rank, 0, &slot) == RUNG__CACHE_KEEP) {
			rung__cache_filled(cache, slot.frame, 0);
			rc = add_row(model, rank);
		}
		rung__ahead_pass(cache, &model->ahead, rank);
	}
	rung__cache_unlock(cache);
	model->window_batches = RUNG__MAX(model->window_batches, model->ahead.batches);
	return rc;
}

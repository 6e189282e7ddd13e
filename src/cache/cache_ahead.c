/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading ahead: which rows of the announced batches are read before their batches begin.
 *
 * The file is swept in parts, one per batch that begins, and in one part less than the window has
 * batches: the whole file is passed before a batch begins that was announced as the last of the
 * window. Wherever the sweep passes, it reads all rows that a batch of the window needs, near rows
 * with one read, and frames hold them until their last use. So a row is read once for all batches
 * that want it, and a read has the rows of several batches. Each row needs its frame for half a
 * sweep on average: reading all batches of a window at once needs twice as many frames. AGNES (KDD
 * 2026) reads the blocks of several batches that were prepared together; here the batches are those
 * of any trainer.
 *
 * A store and a forecast call the same functions.
 */
#include "cache/state.h"

/* Half of the rows of a window are in frames at a time. Rows in flight, rows kept for a later batch
 * and batches of unequal size need the rest: the rows of a window, each batch counted alone, are
 * 7/4 of the frames. On the graphs that were measured, windows of half and of twice this length
 * cost up to 40 % more reads. One batch alone would be read as if nothing was read ahead. */
uint32_t rung__ahead_batches(uint64_t frames, uint64_t batch_rows, uint32_t batches)
{
	const uint64_t fit =
		batch_rows ? (7 * frames + 2 * batch_rows) / (4 * batch_rows) : batches;

	return fit < 2 ? 0 : (uint32_t)RUNG__MIN(fit, batches);
}

int rung__ahead_open(struct rung__cache *cache, const struct rung__ahead_order *order)
{
	struct rung__cache_window *window = &cache->window;
	const uint64_t positions = order ? order->count : cache->shape.row_count;
	struct rung__cache_map map;
	const uint64_t bytes = rung__cache_map_lay_out(&map, positions);
	void *base = rung__map_growing(bytes);

	if (!base)
		return rung__fail(RUNG_E_NOMEM,
		                  "cold-row cache: no memory for a window of %" PRIu64 " rows",
		                  positions);
	rung__cache_map_place(&map, base);
	window->wanted = map;
	if (order)
		window->order = *order;
	return 0;
}

void rung__ahead_close(struct rung__cache *cache)
{
	struct rung__cache_map *wanted = &cache->window.wanted;

	if (wanted->level_count > 0)
		rung__unmap_pages(wanted->levels[0],
		                  rung__cache_map_lay_out(wanted, wanted->row_count));
	wanted->level_count = 0;
}

/* ---- positions ---- */

static uint64_t position_of(const struct rung__cache *cache, uint64_t rank)
{
	const struct rung__ahead_order *order = &cache->window.order;

	return order->count ? rung__id_get(order->position_of_rank, order->entry_bytes, rank)
	                    : rank - cache->shape.rank_first;
}

static uint64_t rank_at(const struct rung__cache *cache, uint64_t position)
{
	const struct rung__ahead_order *order = &cache->window.order;

	return order->count ? rung__id_get(order->rank_of_position, order->entry_bytes, position)
	                    : position + cache->shape.rank_first;
}

void rung__ahead_want(const struct rung__cache *cache, uint64_t row)
{
	rung__cache_map_set(&cache->window.wanted,
	                    position_of(cache, row + cache->shape.rank_first));
}

void rung__ahead_drop(const struct rung__cache *cache, uint64_t row)
{
	rung__cache_map_clear(&cache->window.wanted,
	                      position_of(cache, row + cache->shape.rank_first));
}

/* ---- the sweep ---- */

/* Each process of a shared cache has a private window, for which it has a share of the frames. */
static uint64_t own_frames(const struct rung__cache *cache)
{
	const int clients =
		cache->shared ? __builtin_popcount(rung__cache_load(&cache->index->joined)) : 1;

	return cache->frame_count / (uint64_t)RUNG__MAX(clients, 1);
}

void rung__ahead_advance(const struct rung__cache *cache, struct rung__ahead *ahead,
                         uint64_t waiting)
{
	const struct rung__cache_window *window = &cache->window;
	const uint64_t rows = window->wanted.row_count, known = window->begun_count - ahead->begun;
	const uint64_t begun = known > waiting ? known - waiting : 0;
	uint32_t batches = (uint32_t)window->listed_count;

	if (begun == 0)
		return;
	ahead->begun += begun;
	if (ahead->batches_max > 0)
		batches = RUNG__MIN(batches, ahead->batches_max);
	else if (batches > 0)
		batches = rung__ahead_batches(own_frames(cache), window->listed_rows / batches,
		                              batches);
	ahead->batches = batches;
	ahead->step = batches ? (rows - 1) / RUNG__MAX(batches - 1, 1u) + 1 : 0;
	ahead->owed =
		batches ? RUNG__MIN(ahead->owed + RUNG__MIN(begun, batches) * ahead->step, rows)
			: 0;
}

bool rung__ahead_peek(struct rung__cache *cache, struct rung__ahead *ahead, uint64_t *rank_out)
{
	const struct rung__cache_window *window = &cache->window;
	const uint64_t rows = window->wanted.row_count, end = ahead->position + ahead->owed;
	uint64_t at;

	if (ahead->owed == 0)
		return false;
	/* the part that is owed can end behind the last row: it continues at the first */
	if (!rung__cache_map_next(&window->wanted, ahead->position, &at) || at >= end) {
		const uint64_t passed = RUNG__MIN(ahead->owed, rows - ahead->position);

		ahead->owed -= passed;
		ahead->position = (ahead->position + passed) % rows;
		if (ahead->owed == 0 || !rung__cache_map_next(&window->wanted, 0, &at) ||
		    at >= ahead->owed) {
			ahead->position = (ahead->position + ahead->owed) % rows;
			ahead->owed = 0;
			return false;
		}
	}
	ahead->owed -= at - ahead->position;
	ahead->position = at;
	*rank_out = rank_at(cache, at);
	return true;
}

void rung__ahead_pass(const struct rung__cache *cache, struct rung__ahead *ahead, uint64_t rank)
{
	const uint64_t rows = cache->window.wanted.row_count;
	/* the last block of a file can be longer than the rows that are left */
	const uint64_t end = RUNG__MIN(position_of(cache, rank) + 1, rows);
	/* maps that are not each other's inverse can lead back; the sweep goes on in any case */
	const uint64_t passed =
		RUNG__MIN(end > ahead->position ? end - ahead->position : 1, ahead->owed);

	ahead->owed -= passed;
	ahead->position = (ahead->position + passed) % rows;
}

enum rung__cache_lookup rung__ahead_look_up(struct rung__cache *cache,
                                            const struct rung__ahead *ahead, uint64_t rank,
                                            uint32_t reader, struct rung__cache_slot *slot_out)
{
	const uint64_t row = rank - cache->shape.rank_first;
	const uint32_t next_use = rung__cache_window_next(cache, row);

	if (!cache->locked || next_use == 0 || row >= cache->shape.row_count ||
	    rung__cache_later(next_use, cache->clock + ahead->batches) ||
	    rung__cache_frames_find(cache, row))
		return RUNG__CACHE_PASS;
	return rung__cache_admit(cache, row, next_use, reader, slot_out);
}

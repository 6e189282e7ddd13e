/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading ahead: which rows of the announced batches are read before their batches begin.
 *
 * The file is swept in steps, one per batch that begins, and in one step less than the window has
 * batches: the whole file is passed before a batch begins that was announced as the last of the
 * window. Steps read about the same number of rows: the sweeps before have shown where rows are.
 * Hot rows are near each other, and steps of the same length would fill the frames with the rows
 * of one.
 *
 * Wherever the sweep passes, it reads all rows that a batch of the window needs, near rows with one
 * read, and frames hold them until their last use. So a row is read once for all batches that want
 * it, and a read has the rows of several batches. Each row needs its frame for half a sweep on
 * average: reading all batches of a window at once needs twice as many frames. AGNES (KDD 2026)
 * reads the blocks of several batches that were prepared together; here the batches are those of
 * any trainer.
 *
 * A store and a forecast call the same functions.
 */
#include "cache/state.h"

/*
 * On average the rows of half a window are in frames. If rows are far from each other, a row that
 * is evicted before its use costs another read, so everything must fit: W / 2 + 1 batches, the
 * batch that begins, and one more for steps of unequal numbers of rows and rows that are kept
 * for a batch behind the window. If they are near each other, such a row is read along with
 * others, many rows are those of several batches, and a longer window makes reads of more rows:
 * the rows of a window, each batch counted alone, are 7/4 of the frames. On the graphs that were
 * measured, windows of half and of twice this length cost up to 40 % more reads.
 */
uint32_t rung__ahead_batches(uint64_t frames, uint64_t batch_rows, uint32_t batches, bool sparse)
{
	uint64_t fit = batches;

	if (batch_rows > 0 && sparse)
		fit = 2 * frames / batch_rows < 6 ? 0 : 2 * frames / batch_rows - 6;
	else if (batch_rows > 0)
		fit = (7 * frames + 2 * batch_rows) / (4 * batch_rows);
	/* one batch alone would be read as if nothing was read ahead */
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

void rung__ahead_want(struct rung__cache *cache, uint64_t row)
{
	const uint64_t at = position_of(cache, row + cache->shape.rank_first);

	cache->window.wanted_count += rung__cache_map_set(&cache->window.wanted, at);
}

void rung__ahead_drop(struct rung__cache *cache, uint64_t row)
{
	const uint64_t at = position_of(cache, row + cache->shape.rank_first);

	cache->window.wanted_count -= rung__cache_map_clear(&cache->window.wanted, at);
}

/* ---- the sweep ---- */

#define WEIGHTS_SUM (UINT64_C(1) << 24)
#define LEAST_SHARE 8u /* this part of the weights is equal, so that a change is noticed */

/* Expect of the next sweep what the last ones have found, the last one above all. */
static void learn(struct rung__ahead *ahead)
{
	uint64_t found = 0, sum = 0;

	for (unsigned i = 0; i < RUNG__AHEAD_PARTS; i++)
		found += ahead->found[i];
	for (unsigned i = 0; i < RUNG__AHEAD_PARTS && found > 0; i++) {
		const uint64_t expected = WEIGHTS_SUM * ahead->found[i] / found +
		                          WEIGHTS_SUM / RUNG__AHEAD_PARTS / LEAST_SHARE;

		ahead->weights[i] =
			(uint32_t)(ahead->weight_sum ? (ahead->weights[i] + 3 * expected) / 4
		                                     : expected);
		ahead->found[i] = 0;
		sum += ahead->weights[i];
	}
	if (found > 0)
		ahead->weight_sum = sum;
}

static uint64_t part_rows(uint64_t rows)
{
	return (rows - 1) / RUNG__AHEAD_PARTS + 1;
}

/* The number of rows from `at` on that have the weight of one of `steps` steps. */
static uint64_t step_from(const struct rung__ahead *ahead, uint64_t rows, uint64_t at,
                          uint64_t steps)
{
	const uint64_t size = part_rows(rows);
	uint64_t left, passed = 0;

	if (ahead->weight_sum == 0 || steps == 1)
		return (rows - 1) / steps + 1;
	left = (ahead->weight_sum - 1) / steps + 1;
	while (passed < rows) {
		const uint64_t part = at / size, end = RUNG__MIN((part + 1) * size, rows);
		const uint64_t whole = end - part * size;
		/* at least 1: a part of a large file can have more rows than weight */
		const uint64_t weight = RUNG__MAX(ahead->weights[part] * (end - at) / whole, 1u);

		if (weight >= left)
			return RUNG__MIN(passed + (end - at) * left / weight + 1, rows);
		left -= weight;
		passed += end - at;
		at = end == rows ? 0 : end;
	}
	return rows;
}

static void move(struct rung__ahead *ahead, uint64_t rows, uint64_t passed)
{
	ahead->owed -= passed;
	ahead->position += passed;
	if (ahead->position < rows)
		return;
	ahead->position -= rows;
	learn(ahead);
}

/* Each process of a shared cache has a private window, for which it has a share of the frames. */
static uint64_t own_frames(const struct rung__cache *cache)
{
	const int clients =
		cache->shared ? __builtin_popcount(rung__cache_load(&cache->index->joined)) : 1;

	return cache->frame_count / (uint64_t)RUNG__MAX(clients, 1);
}

/* Whether most rows of the window are too far from the next one to share its read. */
static bool is_sparse(const struct rung__cache_window *window, const struct rung__ahead *ahead)
{
	return ahead->near_rows * window->wanted_count < window->wanted.row_count / 2;
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
		                              batches, is_sparse(window, ahead));
	ahead->batches = batches;
	ahead->owed = batches ? ahead->owed : 0;
	for (uint64_t i = 0; i < begun && batches && ahead->owed < rows; i++) {
		ahead->step = step_from(ahead, rows, (ahead->position + ahead->owed) % rows,
		                        RUNG__MAX(batches - 1, 1u));
		ahead->owed = RUNG__MIN(ahead->owed + ahead->step, rows);
	}
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
		move(ahead, rows, RUNG__MIN(ahead->owed, rows - ahead->position));
		if (ahead->owed == 0 || !rung__cache_map_next(&window->wanted, 0, &at) ||
		    at >= ahead->owed) {
			move(ahead, rows, ahead->owed);
			return false;
		}
	}
	move(ahead, rows, at - ahead->position);
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

	move(ahead, rows, passed);
}

enum rung__cache_lookup rung__ahead_look_up(struct rung__cache *cache, struct rung__ahead *ahead,
                                            uint64_t rank, uint32_t reader,
                                            struct rung__cache_slot *slot_out)
{
	const uint64_t row = rank - cache->shape.rank_first;
	const uint32_t next_use = rung__cache_window_next(cache, row);

	if (!cache->locked || next_use == 0 || row >= cache->shape.row_count ||
	    rung__cache_later(next_use, cache->clock + ahead->batches) ||
	    rung__cache_frames_find(cache, row))
		return RUNG__CACHE_PASS;
	if (rung__cache_admit(cache, row, next_use, reader, slot_out) == RUNG__CACHE_PASS)
		return RUNG__CACHE_PASS;
	ahead->found[position_of(cache, rank) / part_rows(cache->window.wanted.row_count)]++;
	return RUNG__CACHE_KEEP;
}

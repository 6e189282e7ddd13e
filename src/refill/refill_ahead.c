/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading ahead of the batches: the rows of announced batches that this thread's sweep passes
 * (cache/cache_ahead.c) are read into frames, before the batches begin.
 *
 * The misses of these reads belong to a request that only this thread uses, which has no output and
 * never completes: a reference to it names a row, and other requests wait for its reads as for any.
 * A position in its list is free again when the row has been read or has failed. A row that cannot
 * be read ahead is not an error: the batch that needs it reads it once more, and reports the
 * failure.
 */
#include "refill/state.h"

#define ROWS_MAX  65536u /* rows in flight at most */
#define POLLS_MAX 256u   /* rows looked up before the cache's lock is released to others */

int rung__refill_ahead_init(struct rung__refill *refill)
{
	struct rung_store *store = refill->store;
	struct rung_request *request = &store->requests[store->request_count + refill->refill_idx];
	const uint64_t rows_of_slot = refill->slot_bytes / refill->layout.row_stride + 1,
		       rows = RUNG__MIN(rows_of_slot * refill->slot_count, ROWS_MAX);
	struct rung__misses *misses = &request->misses;

	if (!store->cache || !rung__store_reads_ahead(store))
		return 0;
	misses->ranks = rung__malloc_array(rows, sizeof(*misses->ranks));
	misses->links = rung__malloc_array(rows, sizeof(*misses->links));
	misses->frames = rung__malloc_array(rows, sizeof(*misses->frames));
	if (!misses->ranks || !misses->links || !misses->frames) {
		rung__refill_ahead_fini(refill);
		return rung__fail(RUNG_E_NOMEM, "store: no memory to read %" PRIu64 " rows ahead",
		                  rows);
	}
	request->store = store;
	refill->ahead_part = &request->parts[refill->refill_idx];
	*refill->ahead_part = (struct rung__part){ .request = request, .is_ahead = true };
	refill->ahead = (struct rung__ahead){ .batches_max = store->opts.window };
	refill->ahead_rows = (uint32_t)rows;
	refill->ahead_free = RUNG__AHEAD_NONE;
	return 0;
}

void rung__refill_ahead_fini(struct rung__refill *refill)
{
	struct rung_store *store = refill->store;
	struct rung__misses *misses =
		&store->requests[store->request_count + refill->refill_idx].misses;

	rung__free(misses->frames);
	rung__free(misses->links);
	rung__free(misses->ranks);
	*misses = (struct rung__misses){ .ranks = NULL };
	refill->ahead_part = NULL;
}

/* ---- positions in the list ---- */

static uint32_t position_acquire(struct rung__refill *refill)
{
	const uint32_t at = refill->ahead_free;

	if (at == RUNG__AHEAD_NONE)
		return refill->ahead_used++;
	refill->ahead_free = refill->ahead_part->request->misses.frames[at];
	return at;
}

/* ---- reads ---- */

void rung__refill_ahead_advance(struct rung__refill *refill)
{
	uint64_t waiting = 0;

	if (!refill->ahead_part)
		return;
	/* a batch that waits gets its own reads first, and then its step of the sweep */
	RUNG__QUEUE_EACH(part, &refill->issuing, struct rung__part, link)
	waiting++;
	refill->ahead.near_rows = rung__rule_near_rows(&refill->rule, refill->layout.row_stride);
	rung__cache_lock(refill->cache);
	rung__ahead_advance(refill->cache, &refill->ahead, waiting);
	rung__cache_unlock(refill->cache);
	if (refill->ahead.batches >
	    atomic_load_explicit(&refill->counters->window_batches, memory_order_relaxed))
		atomic_store_explicit(&refill->counters->window_batches, refill->ahead.batches,
		                      memory_order_relaxed);
}

/* The next wanted row that is this thread's. */
static bool peek(struct rung__refill *refill, uint64_t *rank)
{
	const struct rung__layout *layout = &refill->layout;
	const uint32_t threads = refill->store->threads_per_file;

	while (rung__ahead_peek(refill->cache, &refill->ahead, rank)) {
		uint64_t others = 1;

		if (rung__row_refill(layout, threads, *rank) == refill->refill_idx)
			return true;
		if (rung__row_file(layout, *rank) != refill->file_idx)
			others = rung__row_run(layout, *rank, UINT64_MAX);
		rung__ahead_pass(refill->cache, &refill->ahead, *rank + others - 1);
	}
	return false;
}

/* Whether the row joins the read of the rows before it. */
static bool joins(const struct rung__refill *refill, const struct rung__read *read,
                  uint64_t row_end, uint64_t rank)
{
	return read->rows == 0 || rung__row_joins(&refill->rule, read->offset, row_end,
	                                          rung__row_offset(&refill->layout, rank));
}

bool rung__refill_ahead_next(struct rung__refill *refill, uint32_t token)
{
	struct rung__read *read = &refill->reads[token];
	const struct rung__misses *misses = &refill->ahead_part->request->misses;
	struct rung__cache_slot slot = { RUNG__CACHE_NONE, 0 };
	uint64_t rank, row_end = 0;
	uint32_t polls = 0;

	rung__read_begin(read, refill->ahead_part);
	rung__cache_lock(refill->cache);
	while (rung__refill_ahead_has_room(refill) && peek(refill, &rank) &&
	       joins(refill, read, row_end, rank)) {
		if (rung__ahead_look_up(refill->cache, &refill->ahead, rank, token, &slot) ==
		    RUNG__CACHE_KEEP) {
			const uint32_t at = position_acquire(refill);

			misses->ranks[at] = rank;
			row_end =
				rung__read_add(refill, read, rung__miss_ref(refill->ahead_part, at),
			                       slot.frame | RUNG__KEEPER);
		}
		rung__ahead_pass(refill->cache, &refill->ahead, rank);
		if (++polls % POLLS_MAX == 0) {
			rung__cache_unlock(refill->cache);
			rung__cache_lock(refill->cache);
		}
	}
	rung__cache_unlock(refill->cache);
	if (read->rows == 0)
		return false;
	rung__read_set_end(refill, read, row_end);
	return true;
}

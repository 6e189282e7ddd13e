/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The uses of a row in the window of the cold-row cache, in order of time. The first use is in a
 * hash table, so the next use of a row costs one lookup; it points to the last, so a later use is
 * appended without a walk. The memory is private to the process and can be trusted.
 */
#include "cache/state.h"

/* The rows of the new head are moved from the head that had them until now: one head at a time, so
 * that no call pays for rehashing the whole table. */
void rung__cache_uses_grow(struct rung__cache_window *window)
{
	uint32_t *from, *to = &window->heads[window->heads_count];

	if (window->heads_count == window->heads_max)
		return;
	if (window->heads_count > window->heads_mask)
		window->heads_mask = 2 * window->heads_mask + 1;
	from = rung__cache_window_head(window, window->heads_count);
	window->heads_count++;
	while (*from) {
		struct rung__cache_use *use = rung__cache_use_at(window, *from);
		uint32_t link = *from;

		if (rung__cache_window_head(window, rung__cache_hash(use->row)) != to) {
			from = &use->hash_next;
			continue;
		}
		*from = use->hash_next;
		use->hash_next = *to;
		*to = link;
	}
}

uint32_t *rung__cache_uses_find(const struct rung__cache_window *window, uint64_t row)
{
	uint32_t *from = rung__cache_window_head(window, rung__cache_hash(row));

	while (*from && rung__cache_use_at(window, *from)->row != row)
		from = &rung__cache_use_at(window, *from)->hash_next;
	return from;
}

uint32_t rung__cache_uses_time(const struct rung__cache_window *window, const uint32_t *from,
                               uint64_t row)
{
	return *from && rung__cache_use_at(window, *from)->row == row
	               ? rung__cache_use_at(window, *from)->time
	               : 0;
}

/* Insert a use between the first and the last one of its row. The walk must check for the end of
 * the list, because times may be out of order if another process damages the clock. */
static void insert_behind(struct rung__cache_window *window, struct rung__cache_use *first,
                          uint32_t link)
{
	struct rung__cache_use *use = rung__cache_use_at(window, link), *before = first;

	while (before->later &&
	       !rung__cache_later(rung__cache_use_at(window, before->later)->time, use->time))
		before = rung__cache_use_at(window, before->later);
	use->later = before->later;
	before->later = link;
	if (!use->later)
		first->last = link;
}

bool rung__cache_uses_insert(struct rung__cache_window *window, uint32_t link)
{
	struct rung__cache_use *use = rung__cache_use_at(window, link), *first, *last;
	uint32_t *from = rung__cache_uses_find(window, use->row);

	use->later = 0;
	if (!*from) {
		use->hash_next = 0;
		use->last = link;
		*from = link;
		return true;
	}
	first = rung__cache_use_at(window, *from);
	last = rung__cache_use_at(window, first->last);
	/* the usual case: batches are announced in the order of their gathers */
	if (!rung__cache_later(last->time, use->time)) {
		last->later = link;
		first->last = link;
		return false;
	}
	if (rung__cache_later(first->time, use->time)) {
		use->hash_next = first->hash_next;
		use->last = first->last;
		use->later = *from;
		*from = link;
		return true;
	}
	insert_behind(window, first, link);
	return false;
}

/* Remove the row's first use; the next one replaces it in the table. */
static void remove_first(struct rung__cache_window *window, uint32_t *from)
{
	struct rung__cache_use *first = rung__cache_use_at(window, *from);

	if (first->later) {
		struct rung__cache_use *next = rung__cache_use_at(window, first->later);

		next->hash_next = first->hash_next;
		next->last = first->last;
		*from = first->later;
	} else {
		*from = first->hash_next;
	}
}

struct rung__cache_use *rung__cache_uses_remove(struct rung__cache_window *window, uint32_t *from,
                                                uint16_t batch_idx)
{
	struct rung__cache_use *first = rung__cache_use_at(window, *from);
	uint32_t before = *from, link;

	if (first->batch == batch_idx) { /* the usual case: it is the earliest batch with the row */
		remove_first(window, from);
		return first;
	}
	for (link = first->later; link && rung__cache_use_at(window, link)->batch != batch_idx;
	     link = rung__cache_use_at(window, link)->later)
		before = link;
	if (!link)
		return NULL;
	rung__cache_use_at(window, before)->later = rung__cache_use_at(window, link)->later;
	if (first->last == link)
		first->last = before;
	return rung__cache_use_at(window, link);
}

uint32_t rung__cache_window_next(const struct rung__cache *cache, uint64_t row)
{
	return rung__cache_uses_time(&cache->window, rung__cache_uses_find(&cache->window, row),
	                             row);
}

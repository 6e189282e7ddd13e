/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LRU of all sizes at once. The stack distance of a request is the number of distinct rows since
 * the last request of its row, including that row; a tier of at least that many rows still has it
 * (Mattson, Gecsei, Slutz, Traiger 1970).
 *
 * A bitmap has a bit at the time of each row's last request. The distance is the number of bits
 * set from that time on. Bits of whole words are counted with a Fenwick tree (Fenwick 1994), which
 * has an entry per word and is small enough for the CPU's cache; the remaining bits are counted in
 * their word. Times run up to twice the number of rows; then the bits are compacted, and times
 * continue after them. With n rows this happens at most once per n requests.
 */
#include <string.h>

#include "trace/state.h"

#define WORD_BITS         64u
#define PROGRESS_REQUESTS (UINT64_C(1) << 20) /* requests between two progress reports */

/* State of the simulation. A time is a position in `bits`. */
struct lru {
	uint64_t row_count;
	uint64_t *last; /* [row_count] time of the last request + 1; 0: none yet */
	uint64_t *bits; /* [word_count] set at the times in `last` */
	/* [word_count + 1] Fenwick tree over the numbers of bits of the words; entry 0 is not
	 * used */
	uint64_t *tree;
	uint64_t word_count;
	uint64_t now; /* next time */
	/* number of set bits, which is the number of distinct rows requested so far */
	uint64_t live;
};

/* Allocate for this many rows. After an error lru_fini() frees what was allocated. */
static int lru_init(struct lru *lru, uint64_t row_count)
{
	*lru = (struct lru){ .row_count = row_count };
	if (!rung__mul(row_count, 2, &lru->word_count))
		return rung__fail(RUNG_E_NOMEM, "LRU of %" PRIu64 " rows: no memory", row_count);
	lru->word_count = lru->word_count / WORD_BITS + 1;
	lru->last = rung__zalloc_array(row_count, sizeof(*lru->last));
	lru->bits = rung__zalloc_array(lru->word_count, sizeof(*lru->bits));
	lru->tree = rung__zalloc_array(lru->word_count + 1, sizeof(*lru->tree));
	if (!lru->last || !lru->bits || !lru->tree)
		return rung__fail(RUNG_E_NOMEM, "LRU of %" PRIu64 " rows: no memory", row_count);
	return 0;
}

static void lru_fini(struct lru *lru)
{
	rung__free(lru->last);
	rung__free(lru->bits);
	rung__free(lru->tree);
}

/* Add to the count of a word. */
static void tree_add(struct lru *lru, uint64_t word, uint64_t change)
{
	for (uint64_t i = word + 1; i <= lru->word_count; i += i & (0 - i))
		/* adding UINT64_MAX subtracts one, because the sum wraps around */
		lru->tree[i] += change;
}

/* Number of bits at times before this one. */
static uint64_t bits_before(const struct lru *lru, uint64_t time)
{
	const uint64_t word = time / WORD_BITS, below = (UINT64_C(1) << time % WORD_BITS) - 1;
	uint64_t count = (uint64_t)__builtin_popcountll(lru->bits[word] & below);

	for (uint64_t i = word; i > 0; i &= i - 1)
		count += lru->tree[i];
	return count;
}

/* Set the time of a row's last request. The caller updates the tree. */
static void set_time(struct lru *lru, uint64_t row, uint64_t time)
{
	lru->bits[time / WORD_BITS] |= UINT64_C(1) << time % WORD_BITS;
	lru->last[row] = time + 1;
}

/* Compact: the time of each row becomes the number of earlier bits, which keeps their order. All
 * times are computed first, from the old bits; then bits and tree are built again. */
static void push_together(struct lru *lru)
{
	for (uint64_t row = 0; row < lru->row_count; row++) {
		if (lru->last[row])
			lru->last[row] = bits_before(lru, lru->last[row] - 1) + 1;
	}
	memset(lru->bits, 0, lru->word_count * sizeof(*lru->bits));
	memset(lru->tree, 0, (lru->word_count + 1) * sizeof(*lru->tree));
	for (uint64_t row = 0; row < lru->row_count; row++) {
		if (lru->last[row])
			set_time(lru, row, lru->last[row] - 1);
	}
	for (uint64_t word = 0; word < lru->word_count; word++)
		tree_add(lru, word, (uint64_t)__builtin_popcountll(lru->bits[word]));
	lru->now = lru->live;
}

/* Process a request: move the bit of the row to the present. @return its stack distance; 0 for the
 * first request of a row */
static uint64_t request(struct lru *lru, uint64_t row)
{
	const uint64_t last = lru->last[row];
	uint64_t distance = 0;

	if (last) {
		const uint64_t time = last - 1;

		distance = lru->live - bits_before(lru, time);
		lru->bits[time / WORD_BITS] &= ~(UINT64_C(1) << time % WORD_BITS);
		tree_add(lru, time / WORD_BITS, UINT64_MAX);
		lru->live--;
	}
	set_time(lru, row, lru->now);
	tree_add(lru, lru->now / WORD_BITS, 1);
	lru->live++;
	lru->now++;
	if (lru->now == lru->word_count * WORD_BITS)
		push_together(lru);
	return distance;
}

/* The first of the ascending sizes that is at least `rows`; size_count if all are smaller. */
static uint32_t first_size(const uint64_t *sizes, uint32_t size_count, uint64_t rows)
{
	uint32_t low = 0, high = size_count;

	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;

		if (sizes[middle] < rows)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

int rung_trace_lru_hits(const struct rung_trace *trace, uint64_t counted_from,
                        const uint64_t *sizes, uint32_t size_count, uint64_t *hits_out)
{
	const struct rung_trace_opts *opts = &trace->opts;
	struct lru lru;
	int rc = rung__trace_check_sizes(trace, sizes, size_count);

	if (rc < 0)
		return rc;
	rc = lru_init(&lru, opts->vertex_count);
	memset(hits_out, 0, size_count * sizeof(*hits_out));
	for (uint64_t i = 0; i < trace->kept_count && rc == 0; i++) {
		const uint64_t distance =
			request(&lru, rung__id_get(trace->kept, trace->id_bytes, i));
		const uint32_t s = distance && i >= counted_from
		                           ? first_size(sizes, size_count, distance)
		                           : size_count;

		if (s < size_count)
			hits_out[s]++;
		if (opts->progress && i % PROGRESS_REQUESTS == 0 &&
		    opts->progress(opts->progress_ctx, "LRU", i, trace->kept_count))
			rc = rung__fail(RUNG_E_CANCELED, "LRU: canceled");
	}
	/* a hit was counted for the smallest tier that has it; all larger tiers have it, too */
	for (uint32_t s = 1; s < size_count; s++)
		hits_out[s] += hits_out[s - 1];
	lru_fini(&lru);
	return rc;
}

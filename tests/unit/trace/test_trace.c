/* SPDX-License-Identifier: Apache-2.0 */
/* Hits of static tiers, LRU and Belady's algorithm, compared with simulations that process one
 * request at a time. */
#include "graphs.h"
#include "base/base.h"
#include "rung/trace.h"

#define ROWS     60u
#define REQUESTS 3000u
#define SIZES    8u

static const uint64_t sizes[SIZES] = { 0, 1, 2, 5, 17, 17, 59, 60 };

struct fixture {
	struct rung_trace *trace;
	uint64_t rows[REQUESTS];
	uint64_t seen; /* number of distinct rows */
};

/* Batches of distinct rows, some much more likely than others. The last three rows never occur. */
static void draw(struct fixture *f, uint64_t seed)
{
	uint64_t state = seed * 2 + 1, seen[ROWS] = { 0 };

	f->seen = 0;
	for (uint64_t i = 0; i < REQUESTS; i++) {
		const uint64_t range = test_random(&state) % 3 ? ROWS / 5 : ROWS - 3;

		f->rows[i] = test_random(&state) % range;
		f->seen += !seen[f->rows[i]]++;
	}
}

static struct rung_trace *make_trace(uint64_t row_count, uint64_t kept_max, uint32_t threads)
{
	struct rung_trace_opts opts = RUNG_TRACE_OPTS_INIT;
	struct rung_trace *trace;

	opts.vertex_count = row_count;
	opts.kept_max = kept_max;
	opts.threads = threads;
	cr_assert_eq(rung_trace_create(&opts, &trace), 0, "%s", rung_last_error());
	return trace;
}

static void init(struct fixture *f, uint64_t seed, uint64_t kept_max)
{
	draw(f, seed);
	f->trace = make_trace(ROWS, kept_max, 2);
	for (uint64_t i = 0; i < REQUESTS; i += 100)
		cr_assert_eq(rung_trace_add(f->trace, f->rows + i, 100), 0, "%s",
		             rung_last_error());
}

/* Keeps a list of rows, the most recent first. */
static uint64_t naive_lru(const struct fixture *f, uint64_t count, uint64_t counted_from,
                          uint64_t size)
{
	uint64_t list[ROWS], held = 0, hits = 0;

	for (uint64_t i = 0; i < count; i++) {
		uint64_t at = 0;

		while (at < held && list[at] != f->rows[i])
			at++;
		if (at < held)
			hits += i >= counted_from;
		else if (held < size)
			held++;
		else if (size == 0)
			continue;
		else
			at = held - 1;
		if (at == held)
			at--;
		memmove(list + 1, list, at * sizeof(*list));
		list[0] = f->rows[i];
	}
	return hits;
}

static uint64_t next_use(const struct fixture *f, uint64_t count, uint64_t from, uint64_t row)
{
	while (from < count && f->rows[from] != row)
		from++;
	return from;
}

static uint64_t naive_belady(const struct fixture *f, uint64_t count, uint64_t counted_from,
                             uint64_t size)
{
	bool here[ROWS] = { false };
	uint64_t held = 0, hits = 0;

	for (uint64_t i = 0; i < count; i++) {
		uint64_t farthest = f->rows[i];

		if (here[f->rows[i]]) {
			hits += i >= counted_from;
			continue;
		}
		here[f->rows[i]] = true;
		if (held++ < size)
			continue;
		for (uint64_t row = 0; row < ROWS; row++) {
			if (here[row] &&
			    next_use(f, count, i + 1, row) > next_use(f, count, i + 1, farthest))
				farthest = row;
		}
		here[farthest] = false;
		held--;
	}
	return hits;
}

Test(trace, lru_and_belady_equal_a_plain_simulation)
{
	for (uint64_t seed = 1; seed <= 4; seed++) {
		const uint64_t counted_from = seed % 2 ? 0 : REQUESTS / 3;
		uint64_t lru[SIZES], belady[SIZES];
		struct fixture f;

		init(&f, seed, 0);
		cr_assert_eq(rung_trace_lru_hits(f.trace, counted_from, sizes, SIZES, lru), 0);
		cr_assert_eq(rung_trace_belady_hits(f.trace, counted_from, sizes, SIZES, belady),
		             0);
		for (uint32_t s = 0; s < SIZES; s++) {
			cr_assert_eq(lru[s], naive_lru(&f, REQUESTS, counted_from, sizes[s]),
			             "LRU of %d rows", (int)sizes[s]);
			cr_assert_eq(belady[s], naive_belady(&f, REQUESTS, counted_from, sizes[s]),
			             "Belady, %d rows", (int)sizes[s]);
		}
		cr_assert_eq(lru[0], 0);
		if (counted_from == 0)
			cr_assert_eq(belady[SIZES - 1], REQUESTS - f.seen,
			             "every row must miss once");
		rung_trace_destroy(f.trace);
	}
}

/* The most hits of requests i to count with these rows in the tier, by trying every choice of rows
 * to keep. */
static unsigned most_hits(const unsigned *rows, unsigned count, unsigned i, unsigned held, int size)
{
	unsigned best = 0, all;

	if (i == count)
		return 0;
	all = held | 1u << rows[i];
	for (unsigned kept = all;; kept = (kept - 1) & all) {
		if (__builtin_popcount(kept) <= size) {
			const unsigned hits = most_hits(rows, count, i + 1, kept, size);

			best = RUNG__MAX(best, hits);
		}
		if (kept == 0)
			break;
	}
	return best + (held >> rows[i] & 1);
}

Test(trace, nothing_beats_belady_on_short_traces)
{
	uint64_t state = 5;

	for (int try = 0; try < 60; try++) {
		struct rung_trace *trace = make_trace(4, 0, 1);
		const uint64_t three[] = { 1, 2, 3 };
		uint64_t hits[3];
		unsigned rows[8];

		for (unsigned i = 0; i < 8; i++) {
			const uint64_t row = test_random(&state) % 4;

			rows[i] = (unsigned)row;
			cr_assert_eq(rung_trace_add(trace, &row, 1), 0);
		}
		cr_assert_eq(rung_trace_belady_hits(trace, 0, three, 3, hits), 0);
		for (int size = 1; size <= 3; size++)
			cr_assert_eq(hits[size - 1], most_hits(rows, 8, 0, 0, size),
			             "try %d, size %d", try, size);
		rung_trace_destroy(trace);
	}
}

/* More than one level of bits, and times that are compacted many times. */
Test(trace, long_traces_of_few_rows_are_scanned)
{
	enum { MANY = 300000 };
	struct rung_trace *trace = make_trace(100, 0, 2);
	const uint64_t three[] = { 10, 99, 100 };
	uint64_t row = 0, hits[3];

	for (uint64_t i = 0; i < MANY; i++, row = (row + 1) % 100)
		cr_assert_eq(rung_trace_add(trace, &row, 1), 0);
	cr_assert_eq(rung_trace_lru_hits(trace, 0, three, 3, hits), 0);
	cr_assert(hits[0] == 0 && hits[1] == 0 && hits[2] == MANY - 100,
	          "a scan is the worst case of LRU");
	cr_assert_eq(rung_trace_belady_hits(trace, 0, three, 3, hits), 0);
	cr_assert_eq(hits[0], (MANY / 100 - 1) * 10, "ten rows must stay in the tier");
	cr_assert_eq(hits[2], MANY - 100);
	rung_trace_destroy(trace);
}

Test(trace, static_hits_follow_the_order_and_the_oracle_is_best)
{
	uint32_t order[ROWS];
	uint64_t wide[ROWS], counts[ROWS] = { 0 }, hits[SIZES], wide_hits[SIZES], own_hits[SIZES],
			     oracle[SIZES];
	struct fixture f;

	init(&f, 9, 0);
	for (uint64_t i = 0; i < REQUESTS; i++)
		counts[f.rows[i]]++;
	cr_assert_eq(memcmp(counts, rung_trace_counts(f.trace), sizeof(counts)), 0);
	for (uint32_t i = 0; i < ROWS; i++)
		wide[i] = order[i] = i * 7 % ROWS;
	cr_assert_eq(rung_trace_static_hits(f.trace, order, 4, sizes, SIZES, hits), 0);
	cr_assert_eq(rung_trace_static_hits(f.trace, wide, 8, sizes, SIZES, wide_hits), 0);
	cr_assert_eq(rung_trace_static_hits(f.trace, NULL, 0, sizes, SIZES, own_hits), 0);
	cr_assert_eq(rung_trace_oracle_hits(f.trace, sizes, SIZES, oracle), 0);
	for (uint32_t s = 0; s < SIZES; s++) {
		uint64_t expected = 0, own = 0, most = 0, left[ROWS];

		memcpy(left, counts, sizeof(left));
		for (uint64_t i = 0; i < sizes[s]; i++) {
			uint64_t largest = 0;

			expected += counts[order[i]];
			own += counts[i];
			for (uint64_t row = 0; row < ROWS; row++)
				largest = left[row] > left[largest] ? row : largest;
			most += left[largest];
			left[largest] = 0;
		}
		cr_assert(hits[s] == expected && wide_hits[s] == expected && own_hits[s] == own &&
		          oracle[s] == most);
	}
	order[3] = ROWS;
	cr_assert_eq(rung_trace_static_hits(f.trace, order, 4, sizes, SIZES, hits), RUNG_E_RANGE);
	cr_assert(strstr(rung_last_error(), "order[3] is 60") != NULL, "%s", rung_last_error());
	rung_trace_destroy(f.trace);
}

Test(trace, counts_above_the_radix_of_a_digit_are_sorted)
{
	struct rung_trace *trace = make_trace(3, 1, 1);
	const uint64_t rows[] = { 1 }, three[] = { 1, 2, 3 };
	uint64_t hits[3];

	for (int i = 0; i < 5000; i++)
		cr_assert_eq(rung_trace_add(trace, rows, 1), 0);
	cr_assert_eq(rung_trace_add(trace, (const uint64_t[]){ 2, 2, 0 }, 3), 0);
	cr_assert_eq(rung_trace_oracle_hits(trace, three, 3, hits), 0);
	cr_assert(hits[0] == 5000 && hits[1] == 5002 && hits[2] == 5003);
	rung_trace_destroy(trace);
}

Test(trace, only_the_first_requests_are_kept_but_all_are_counted)
{
	uint64_t lru[SIZES], belady[SIZES], all[SIZES];
	struct fixture f;

	init(&f, 2, 1234);
	cr_assert_eq(rung_trace_kept(f.trace), 1234);
	cr_assert_eq(rung_trace_requests(f.trace), REQUESTS);
	cr_assert_eq(rung_trace_lru_hits(f.trace, 400, sizes, SIZES, lru), 0);
	cr_assert_eq(rung_trace_belady_hits(f.trace, 400, sizes, SIZES, belady), 0);
	cr_assert_eq(rung_trace_static_hits(f.trace, NULL, 0, sizes, SIZES, all), 0);
	for (uint32_t s = 0; s < SIZES; s++) {
		cr_assert_eq(lru[s], naive_lru(&f, 1234, 400, sizes[s]));
		cr_assert_eq(belady[s], naive_belady(&f, 1234, 400, sizes[s]));
	}
	cr_assert_eq(all[SIZES - 1], REQUESTS);
	rung_trace_destroy(f.trace);
}

Test(trace, an_empty_trace_has_no_hits)
{
	struct rung_trace *trace = make_trace(5, 0, 1);
	const uint64_t two[] = { 0, 5 };
	uint64_t hits[2] = { 9, 9 };

	cr_assert_eq(rung_trace_lru_hits(trace, 0, two, 2, hits), 0);
	cr_assert(hits[0] == 0 && hits[1] == 0);
	hits[0] = hits[1] = 9;
	cr_assert_eq(rung_trace_belady_hits(trace, 0, two, 2, hits), 0);
	cr_assert(hits[0] == 0 && hits[1] == 0);
	rung_trace_destroy(trace);
}

Test(trace, invalid_rows_and_sizes_are_named)
{
	const uint64_t rows[] = { 3, 60, 1 }, descending[] = { 5, 4 }, large[] = { 5, 61 };
	struct rung_trace_opts opts = RUNG_TRACE_OPTS_INIT;
	struct rung_trace *none;
	uint64_t hits[2];
	struct fixture f;

	init(&f, 1, 0);
	cr_assert_eq(rung_trace_add(f.trace, rows, 3), RUNG_E_RANGE);
	cr_assert(strstr(rung_last_error(), "request 1 of a batch is for row 60") != NULL, "%s",
	          rung_last_error());
	cr_assert(rung_trace_requests(f.trace) == REQUESTS && rung_trace_kept(f.trace) == REQUESTS);
	for (int i = 0; i < 2; i++) {
		const uint64_t *wrong = i ? large : descending;

		cr_assert_eq(rung_trace_static_hits(f.trace, NULL, 0, wrong, 2, hits),
		             RUNG_E_INVAL);
		cr_assert_eq(rung_trace_oracle_hits(f.trace, wrong, 2, hits), RUNG_E_INVAL);
		cr_assert_eq(rung_trace_lru_hits(f.trace, 0, wrong, 2, hits), RUNG_E_INVAL);
		cr_assert_eq(rung_trace_belady_hits(f.trace, 0, wrong, 2, hits), RUNG_E_INVAL);
		cr_assert(strstr(rung_last_error(), "sizes[1]") != NULL, "%s", rung_last_error());
	}
	cr_assert_eq(rung_trace_create(&opts, &none), RUNG_E_INVAL);
	rung_trace_destroy(f.trace);
}

static int cancel(void *ctx, const char *step, unsigned long long done, unsigned long long total)
{
	(void)step;
	(void)done;
	(void)total;
	++*(int *)ctx;
	return 1;
}

Test(trace, long_counts_can_be_canceled)
{
	struct rung_trace_opts opts = RUNG_TRACE_OPTS_INIT;
	struct rung_trace *trace;
	const uint64_t rows[] = { 0, 1, 0, 1 }, two[] = { 1, 2 };
	uint64_t hits[2];
	int calls = 0;

	opts.vertex_count = 2;
	opts.progress = cancel;
	opts.progress_ctx = &calls;
	opts.threads = 1;
	cr_assert_eq(rung_trace_create(&opts, &trace), 0);
	cr_assert_eq(rung_trace_add(trace, rows, 4), 0);
	cr_assert_eq(rung_trace_lru_hits(trace, 0, two, 2, hits), RUNG_E_CANCELED);
	cr_assert_eq(rung_trace_belady_hits(trace, 0, two, 2, hits), RUNG_E_CANCELED);
	cr_assert_eq(calls, 2);
	rung_trace_destroy(trace);
}

Test(trace, every_allocation_may_fail)
{
	for (int what = 0; what < 4; what++) {
		struct rung_trace_opts opts = { .size = sizeof(opts),
			                        .vertex_count = ROWS,
			                        .threads = 2 };
		struct fixture f;
		uint64_t hits[SIZES];
		int64_t limit;
		int rc = -1;

		init(&f, 1, 0);
		for (limit = 0; rc < 0; limit++) {
			struct rung_trace *trace = NULL;

			rung__alloc_limit(limit);
			if (what == 0)
				rc = rung_trace_create(&opts, &trace);
			if (trace)
				rc = rung_trace_add(trace, f.rows, REQUESTS);
			if (what == 1)
				rc = rung_trace_oracle_hits(f.trace, sizes, SIZES, hits);
			else if (what == 2)
				rc = rung_trace_lru_hits(f.trace, 0, sizes, SIZES, hits);
			else if (what == 3)
				rc = rung_trace_belady_hits(f.trace, 0, sizes, SIZES, hits);
			rung__alloc_limit(-1);
			cr_assert(rc == 0 || rc == RUNG_E_NOMEM);
			rung_trace_destroy(trace);
		}
		cr_assert_gt(limit, 2);
		rung_trace_destroy(f.trace);
	}
}

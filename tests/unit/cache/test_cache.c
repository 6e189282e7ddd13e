/* SPDX-License-Identifier: Apache-2.0 */
/* Rows kept by the cold-row cache, compared with naive models of Belady, static order, and
 * SIEVE. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cache_fixture.h"
#include "graphs.h"

#define RANK_FIRST 700u
#define ROWS       2000u
#define FRAMES     200u

static const struct rung__cache_shape shape = { RANK_FIRST, ROWS, FRAMES };
static struct cache_fixture f;

static void check_lists(void)
{
	const char *fault = cache_fixture_check(&f);

	cr_assert(!fault, "%s", fault);
}

/* ---- traces ---- */

struct trace {
	uint64_t batch_count, batch_rows;
	uint64_t *rows; /* batch after batch, ascending */
};

static int by_value(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Row ROWS * u^skew with u uniform: a larger skew makes the first rows hotter. The ranks of
 * `shuffled` rows are independent of their heat. */
static struct trace make_trace(uint64_t batch_count, uint64_t batch_rows, double skew,
                               bool shuffled, uint64_t seed)
{
	struct trace trace = { batch_count, batch_rows,
		               malloc(batch_count * batch_rows * sizeof(*trace.rows)) };
	uint64_t state = seed * 2 + 1, name_of[ROWS];

	for (uint64_t i = 0; i < ROWS; i++) {
		uint64_t other = shuffled ? test_random(&state) % (i + 1) : i;

		name_of[i] = i;
		name_of[i] = name_of[other];
		name_of[other] = i;
	}
	for (uint64_t b = 0; b < batch_count; b++) {
		uint64_t *batch = trace.rows + b * batch_rows;
		bool taken[ROWS] = { false };

		for (uint64_t i = 0; i < batch_rows;) {
			double u = (double)(test_random(&state) >> 11) / 9007199254740992.0;
			uint64_t row = name_of[(uint64_t)(ROWS * pow(u, skew))];

			if (taken[row])
				continue;
			taken[row] = true;
			batch[i++] = row;
		}
		qsort(batch, batch_rows, sizeof(*batch), by_value);
	}
	return trace;
}

/* ---- naive models of a trace; all frames are empty at first ---- */

/* Evicts the row with the latest next use. If that is the new row, it is not admitted. */
static uint64_t belady_hits(const struct trace *trace)
{
	uint64_t count = trace->batch_count * trace->batch_rows, hits = 0, filled = 0;
	uint64_t next_of[ROWS], resident[FRAMES];
	uint64_t *next = malloc(count * sizeof(*next));
	bool here[ROWS] = { false };

	for (uint64_t row = 0; row < ROWS; row++)
		next_of[row] = UINT64_MAX;
	for (uint64_t i = count; i-- > 0;) {
		next[i] = next_of[trace->rows[i]];
		next_of[trace->rows[i]] = i;
	}
	for (uint64_t i = 0; i < count; i++) {
		uint64_t row = trace->rows[i], worst = 0;

		next_of[row] = next[i];
		hits += here[row];
		if (here[row])
			continue;
		if (filled < FRAMES) {
			resident[filled++] = row;
			here[row] = true;
			continue;
		}
		for (uint64_t r = 1; r < FRAMES; r++)
			worst = next_of[resident[r]] > next_of[resident[worst]] ? r : worst;
		if (next_of[resident[worst]] <= next_of[row])
			continue;
		here[resident[worst]] = false;
		here[row] = true;
		resident[worst] = row;
	}
	free(next);
	return hits;
}

/* Hits if the FRAMES lowest rows are kept once read. @param from first request to count */
static uint64_t static_hits(const struct trace *trace, uint64_t from)
{
	bool here[ROWS] = { false };
	uint64_t hits = 0;

	for (uint64_t i = 0; i < trace->batch_count * trace->batch_rows; i++) {
		uint64_t row = trace->rows[i];

		hits += i >= from && here[row];
		here[row] = row < FRAMES;
	}
	return hits;
}

/* ---- the cache itself ---- */

static void announce(const struct trace *trace, uint64_t b)
{
	uint64_t batch;

	cr_assert_eq(rung__cache_announce(f.cache, trace->rows + b * trace->batch_rows,
	                                  trace->batch_rows, &batch),
	             0, "%s", rung_last_error());
}

/* Hits when each batch is announced `ahead` batches before it begins. */
static uint64_t cache_hits(const struct trace *given, uint64_t ahead, uint64_t from)
{
	uint64_t count = given->batch_count * given->batch_rows, announced = 0, hits = 0;
	struct trace trace = { given->batch_count, given->batch_rows,
		               malloc(count * sizeof(*trace.rows)) };

	for (uint64_t i = 0; i < count; i++)
		trace.rows[i] = given->rows[i] + RANK_FIRST;
	cache_fixture_open(&f, &shape, (ahead + 1) * trace.batch_rows, (uint32_t)ahead + 1);
	for (uint64_t b = 0; b < trace.batch_count; b++) {
		uint64_t batch;

		for (; ahead > 0 && announced < trace.batch_count && announced <= b + ahead;
		     announced++)
			announce(&trace, announced);
		rung__cache_begin(f.cache, trace.rows + b * trace.batch_rows, trace.batch_rows,
		                  &batch);
		cr_assert_neq(batch, 0);
		for (uint64_t i = b * trace.batch_rows; i < (b + 1) * trace.batch_rows; i++)
			hits += cache_fixture_take(&f, batch, trace.rows[i]) == RUNG__CACHE_HIT &&
			        i >= from;
		rung__cache_end(f.cache, batch);
		if (b % 64 == 0)
			check_lists();
	}
	check_lists();
	cache_fixture_close(&f);
	free(trace.rows);
	return hits;
}

/* With a window of `frames` times the frames, the cache must reach this percentage of the hits of
 * Belady's algorithm, which knows all accesses. */
static void expect_share_of_belady(double skew, bool shuffled, uint64_t batch_rows, uint64_t times,
                                   uint64_t percent)
{
	struct trace trace =
		make_trace(24000 / batch_rows, batch_rows, skew, shuffled, (uint64_t)skew);
	uint64_t best = belady_hits(&trace),
		 hits = cache_hits(&trace, times * FRAMES / batch_rows, 0);

	cr_expect_geq(hits * 100, best * percent, "skew %g, shuffled %d, batches of %u: %u of %u",
	              skew, shuffled, (unsigned)batch_rows, (unsigned)hits, (unsigned)best);
	cr_expect_leq(hits, best); /* otherwise the model is wrong: Belady's algorithm is optimal */
	free(trace.rows);
}

Test(cache, a_window_of_four_times_the_frames_is_close_to_belady)
{
	static const double skews[] = { 2, 3, 5 };

	for (unsigned s = 0; s < RUNG__ARRAY_LEN(skews); s++) {
		expect_share_of_belady(skews[s], false, 100, 4, 97);
		expect_share_of_belady(skews[s], false, 200, 4, 97);
	}
}

/* Rows of equal heat, or scores without information: accesses beyond the window are unpredictable,
 * so the window has to be longer. */
Test(cache, a_window_of_six_times_the_frames_needs_no_scores)
{
	static const double skews[] = { 1, 1.5, 3, 5 };

	for (unsigned s = 0; s < RUNG__ARRAY_LEN(skews); s++) {
		expect_share_of_belady(skews[s], true, 50, 6, 99);
		expect_share_of_belady(skews[s], true, 200, 6, 99);
	}
}

Test(cache, announcing_one_batch_ahead_is_no_worse_than_a_static_order)
{
	static const double skews[] = { 1, 2, 4 };

	for (unsigned s = 0; s < RUNG__ARRAY_LEN(skews); s++) {
		struct trace trace = make_trace(240, 100, skews[s], false, s + 10);
		uint64_t half = 12000;

		for (uint64_t ahead = 1; ahead <= 32; ahead *= 2) {
			uint64_t hits = cache_hits(&trace, ahead, 0),
				 later = cache_hits(&trace, ahead, half);

			cr_expect_geq(hits, static_hits(&trace, 0), "skew %g, %u ahead: %u",
			              skews[s], (unsigned)ahead, (unsigned)hits);
			cr_expect_geq(later, static_hits(&trace, half), "skew %g, %u ahead: %u",
			              skews[s], (unsigned)ahead, (unsigned)later);
		}
		free(trace.rows);
	}
}

/* ---- without announcements ---- */

/* Rows and whether they were visited, from the newest [0] to the oldest, and the rejected rows,
 * each at the index of its hash. */
struct model {
	uint64_t rows[FRAMES];
	bool visited[FRAMES];
	int count, hand; /* -1: start at the oldest */
	uint64_t refused[256];
	int room; /* length of refused in use, a power of two */
};

static void model_remove(struct model *m, int at)
{
	memmove(&m->rows[at], &m->rows[at + 1], (size_t)(m->count - at - 1) * sizeof(*m->rows));
	memmove(&m->visited[at], &m->visited[at + 1],
	        (size_t)(m->count - at - 1) * sizeof(*m->visited));
	m->count--;
	m->hand -= m->hand >= at; /* the hand moves to the next newer row, or to -1 */
}

static int model_coldest(const struct model *m)
{
	int coldest = 0;

	for (int i = 1; i < m->count; i++)
		coldest = m->rows[i] > m->rows[coldest] ? i : coldest;
	return coldest;
}

/* The SIEVE victim, for a row colder than all; other rows replace the coldest. */
static int model_victim(struct model *m, uint64_t row)
{
	int coldest = model_coldest(m), at = m->hand >= 0 ? m->hand : m->count - 1;

	if (row < m->rows[coldest] || !m->visited[coldest])
		return coldest;
	while (m->visited[at]) {
		m->visited[at] = false;
		at = at > 0 ? at - 1 : m->count - 1;
	}
	m->hand = at;
	return at;
}

/* A row colder than all cached rows is admitted only if it was rejected recently. */
static bool model_refuses(struct model *m, uint64_t row)
{
	uint64_t *refused = &m->refused[rung__mix64(row) % (uint64_t)m->room];
	bool again = *refused == row + 1;

	if (row < m->rows[model_coldest(m)])
		return false;
	*refused = again ? 0 : row + 1;
	return !again;
}

static enum rung__cache_lookup model_take(struct model *m, int frames, uint64_t row)
{
	for (int i = 0; i < m->count; i++) {
		if (m->rows[i] == row) {
			m->visited[i] = true;
			return RUNG__CACHE_HIT;
		}
	}
	if (m->count == frames && model_refuses(m, row))
		return RUNG__CACHE_PASS;
	if (m->count == frames)
		model_remove(m, model_victim(m, row));
	memmove(&m->rows[1], &m->rows[0], (size_t)m->count * sizeof(*m->rows));
	memmove(&m->visited[1], &m->visited[0], (size_t)m->count * sizeof(*m->visited));
	m->rows[0] = row;
	m->visited[0] = false;
	m->count++;
	m->hand += m->hand >= 0;
	return RUNG__CACHE_KEEP;
}

Test(cache, without_announcements_rank_admits_and_sieve_evicts)
{
	static const int frames[] = { 1, 2, 30, 64, 100 }; /* below HAND_VISITED_MAX */

	for (unsigned n = 0; n < RUNG__ARRAY_LEN(frames); n++) {
		for (unsigned shuffled = 0; shuffled < 2; shuffled++) {
			struct trace trace = make_trace(100, 200, 3, shuffled, n);
			struct rung__cache_shape small = { RANK_FIRST, ROWS, (uint64_t)frames[n] };
			struct model model = { .hand = -1, .room = 1 };

			while (model.room < frames[n])
				model.room *= 2;
			cache_fixture_open(&f, &small, 10, 2);
			for (uint64_t i = 0; i < trace.batch_count * trace.batch_rows; i++)
				cr_assert_eq(cache_fixture_take(&f, 0, RANK_FIRST + trace.rows[i]),
				             model_take(&model, frames[n], trace.rows[i]),
				             "%d frames, row %u", frames[n], (unsigned)i);
			check_lists();
			cr_assert_eq(rung__cache_filled_count(f.cache), (uint64_t)frames[n]);
			cache_fixture_close(&f);
			free(trace.rows);
		}
	}
}

Test(cache, reused_rows_outlive_a_scan)
{
	uint64_t scanned = FRAMES, hits = 0;

	cache_fixture_open(&f, &shape, 1000, 10);
	for (unsigned round = 0; round < 20; round++) {
		for (uint64_t i = 0; i < FRAMES; i++)
			hits += cache_fixture_take(&f, 0, RANK_FIRST + i / 2) == RUNG__CACHE_HIT;
		for (unsigned i = 0; i < 3 * FRAMES;
		     i++, scanned = scanned + 1 < ROWS ? scanned + 1 : FRAMES)
			cache_fixture_take(&f, 0, RANK_FIRST + scanned);
	}
	/* nearly all except the first reads */
	cr_assert_geq(hits * 100, (20 * FRAMES - FRAMES / 2) * 99);
	check_lists();
	cache_fixture_close(&f);
}

Test(cache, rows_of_batches_in_flight_are_kept_without_announcements)
{
	uint64_t coming[FRAMES / 2], batch, other[FRAMES], next;

	cache_fixture_open(&f, &shape, 1000, 10);
	for (unsigned i = 0; i < FRAMES; i++)
		other[i] = RANK_FIRST + FRAMES + i;
	for (unsigned i = 0; i < FRAMES / 2; i++) {
		coming[i] = RANK_FIRST + 2 * i;
		cache_fixture_take(&f, 0, coming[i]);
	}
	rung__cache_begin(f.cache, other, FRAMES, &batch);
	rung__cache_begin(f.cache, coming, FRAMES / 2, &next);
	for (unsigned i = 0; i < FRAMES; i++)
		cache_fixture_take(&f, batch, other[i]);
	rung__cache_end(f.cache, batch);
	for (unsigned i = 0; i < FRAMES / 2; i++)
		cr_assert_eq(cache_fixture_take(&f, next, coming[i]), RUNG__CACHE_HIT);
	rung__cache_end(f.cache, next);
	check_lists();
	cache_fixture_close(&f);
}

Test(cache, old_announcements_expire)
{
	uint64_t batch, row = RANK_FIRST;

	cache_fixture_open(&f, &shape, 1000, 10);
	cr_assert_eq(rung__cache_announce(f.cache, &row, 1, &batch), 0);
	rung__cache_begin(f.cache, &row, 1, &batch);
	for (uint64_t i = 0; i < FRAMES; i++)
		cache_fixture_take(&f, batch, RANK_FIRST + i);
	rung__cache_end(f.cache, batch);
	for (unsigned i = 0; i < 2; i++) /* colder than all: repeating does not admit it */
		cr_assert_eq(cache_fixture_take(&f, 0, RANK_FIRST + FRAMES), RUNG__CACHE_PASS);
	for (uint64_t i = 0; i <= RUNG__CACHE_LOOKAHEAD_MAX; i++) {
		rung__cache_begin(f.cache, &row, 1, &batch);
		rung__cache_end(f.cache, batch);
	}
	cr_assert_eq(cache_fixture_take(&f, 0, RANK_FIRST + FRAMES), RUNG__CACHE_PASS);
	cr_assert_eq(cache_fixture_take(&f, 0, RANK_FIRST + FRAMES), RUNG__CACHE_KEEP);
	check_lists();
	cache_fixture_close(&f);
}

/* ---- pins ---- */

struct pin {
	uint32_t frame;
	uint64_t rank;
};

Test(cache, pinned_rows_stay_in_their_frames)
{
	struct pin pins[FRAMES * 2];
	uint64_t state = 5, batch, ahead[20], kept = 0;
	unsigned count = 0;

	cache_fixture_open(&f, &shape, 1000, 10);
	for (unsigned step = 0; step < 60000; step++) {
		uint64_t rank =
			RANK_FIRST + test_random(&state) % (step % 20000 < 10000 ? ROWS : FRAMES);
		struct rung__cache_slot place;
		enum rung__cache_lookup found;

		if (step % 100 == 0) { /* with announcements and without */
			for (unsigned i = 0; i < RUNG__ARRAY_LEN(ahead); i++)
				ahead[i] = RANK_FIRST + i * 97 + step / 100 % 90;
			if (step / 20000 == 1)
				cr_assert_eq(rung__cache_announce(f.cache, ahead,
				                                  RUNG__ARRAY_LEN(ahead), &batch),
				             0);
			rung__cache_begin(f.cache, ahead, RUNG__ARRAY_LEN(ahead), &batch);
		}
		rung__cache_lock(f.cache);
		found = rung__cache_look_up(f.cache, batch, rank, 0, &place);
		if (found == RUNG__CACHE_KEEP) {
			f.contents[place.frame] = rank;
			rung__cache_filled(f.cache, place.frame, 1);
			kept++;
		}
		if (found == RUNG__CACHE_HIT || found == RUNG__CACHE_KEEP) {
			if (count < RUNG__ARRAY_LEN(pins) && step % 3)
				rung__cache_pin(f.cache, place.frame);
			pins[count++] = (struct pin){ place.frame, rank };
			if (count < RUNG__ARRAY_LEN(pins) && step % 3)
				pins[count++] = (struct pin){ place.frame, rank };
			else if (step % 3)
				rung__cache_unpin(f.cache, place.frame);
		} else {
			cr_assert_eq(found, RUNG__CACHE_PASS);
		}
		while (count > 0 &&
		       (count >= RUNG__ARRAY_LEN(pins) - 1 || test_random(&state) % 5 < 3)) {
			unsigned which = (unsigned)(test_random(&state) % count);

			cr_assert_eq(f.contents[pins[which].frame], pins[which].rank, "step %u",
			             step);
			rung__cache_unpin(f.cache, pins[which].frame);
			pins[which] = pins[--count];
		}
		rung__cache_unlock(f.cache);
		if (step % 100 == 99)
			rung__cache_end(f.cache, batch);
		if (step % 5000 == 0)
			check_lists();
	}
	cr_assert_gt(kept, 1000);
	cache_fixture_close(&f);
}

Test(cache, rows_bypass_the_cache_while_every_frame_is_pinned)
{
	struct rung__cache_slot place;

	cache_fixture_open(&f, &shape, 1000, 10);
	rung__cache_lock(f.cache);
	for (uint64_t i = 0; i < FRAMES; i++) {
		cr_assert_eq(rung__cache_look_up(f.cache, 0, RANK_FIRST + 1 + i, 0, &place),
		             RUNG__CACHE_KEEP);
		rung__cache_filled(f.cache, place.frame, 1);
	}
	cr_assert_eq(rung__cache_look_up(f.cache, 0, RANK_FIRST, 0, &place), RUNG__CACHE_PASS);
	rung__cache_unpin(f.cache, 7);
	cr_assert_eq(rung__cache_look_up(f.cache, 0, RANK_FIRST, 0, &place), RUNG__CACHE_KEEP);
	cr_assert_eq(place.frame, 7);
	rung__cache_failed(f.cache, 7);
	cr_assert_eq(rung__cache_filled_count(f.cache), FRAMES - 1);
	rung__cache_unlock(f.cache);
	check_lists();
	cache_fixture_close(&f);
}

Test(cache, rows_outside_its_ranks_bypass_the_cache)
{
	struct rung__cache_slot place;

	cache_fixture_open(&f, &shape, 1000, 10);
	rung__cache_lock(f.cache);
	cr_assert_eq(rung__cache_look_up(f.cache, 0, RANK_FIRST - 1, 0, &place), RUNG__CACHE_PASS);
	cr_assert_eq(rung__cache_look_up(f.cache, 0, RANK_FIRST + ROWS, 0, &place),
	             RUNG__CACHE_PASS);
	cr_assert_eq(rung__cache_look_up(f.cache, 0, UINT64_MAX, 0, &place), RUNG__CACHE_PASS);
	cr_assert_eq(rung__cache_look_up(f.cache, 0, RANK_FIRST + ROWS - 1, 0, &place),
	             RUNG__CACHE_KEEP);
	rung__cache_unlock(f.cache);
	check_lists();
	cache_fixture_close(&f);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Belady's rule with bypassing (Belady 1966). A row either stays from one request to its next,
 * which is then a hit, or it does not. If more rows would stay than fit, the row with the farthest
 * next request is dropped, which may be the row just requested. A tier is therefore the set of
 * times of the next requests of its rows. No two rows have the same time. A request is a hit if the
 * present time is in the set. The victim has the largest time of the set.
 *
 * A time is the number of a request. A set is a bitmap of times with summary levels, each with a
 * bit per word of the level below, so that the largest time is found with one word per level. Each
 * size is a separate simulation; the threads take sizes.
 */
#include <string.h>

#include "trace/state.h"

#define WORD_BITS  64u
#define LEVELS_MAX 11u /* 64^11 > 2^64 */

/* A set of times. */
struct time_set {
	/* levels[0] has a bit for each time, the others a bit for each nonzero word of the level
	 * below */
	uint64_t *levels[LEVELS_MAX];
	uint64_t words[LEVELS_MAX]; /* words of each level */
	unsigned level_count;       /* the last level is one word */
};

/* Allocate an empty set for times up to time_count. After an error set_fini() frees what was
 * allocated. */
static int set_init(struct time_set *set, uint64_t time_count)
{
	uint64_t bits = time_count;

	memset(set, 0, sizeof(*set));
	do {
		const uint64_t words = bits / WORD_BITS + 1;

		set->levels[set->level_count] = rung__zalloc_array(words, sizeof(uint64_t));
		if (!set->levels[set->level_count])
			return rung__fail(RUNG_E_NOMEM,
			                  "Belady's rule over %" PRIu64 " requests: no memory",
			                  time_count);
		set->words[set->level_count++] = words;
		bits = words;
	} while (bits > 1);
	return 0;
}

static void set_clear(struct time_set *set)
{
	for (unsigned level = 0; level < set->level_count; level++)
		memset(set->levels[level], 0, set->words[level] * sizeof(uint64_t));
}

static void set_fini(struct time_set *set)
{
	for (unsigned level = 0; level < LEVELS_MAX; level++)
		rung__free(set->levels[level]);
}

static bool set_has(const struct time_set *set, uint64_t time)
{
	return set->levels[0][time / WORD_BITS] >> time % WORD_BITS & 1;
}

/* Add a time. Levels above a word that was not empty have their bits already. */
static void set_put(struct time_set *set, uint64_t time)
{
	for (unsigned level = 0; level < set->level_count; level++, time /= WORD_BITS) {
		uint64_t *word = &set->levels[level][time / WORD_BITS];
		const bool known = *word;

		*word |= UINT64_C(1) << time % WORD_BITS;
		if (known)
			break;
	}
}

/* Remove a time. Levels above a word that is still not empty keep their bits. */
static void set_accept(struct time_set *set, uint64_t time)
{
	for (unsigned level = 0; level < set->level_count; level++, time /= WORD_BITS) {
		uint64_t *word = &set->levels[level][time / WORD_BITS];

		*word &= ~(UINT64_C(1) << time % WORD_BITS);
		if (*word)
			break;
	}
}

/* The largest time of a set that is not empty: from the top level down, the highest bit of the
 * word selects the word of the next level. */
static uint64_t set_largest(const struct time_set *set)
{
	uint64_t at = 0;

	for (unsigned level = set->level_count; level-- > 0;)
		at = at * WORD_BITS +
		     (WORD_BITS - 1 - (unsigned)__builtin_clzll(set->levels[level][at]));
	return at;
}

/* Set next[i] to the time of the next request of the row of request i, or to `never`. Requests are
 * visited from the last to the first, with the soonest known time of each row. */
static int make_next(const struct rung_trace *trace, uint64_t never, void *next)
{
	const unsigned bytes = trace->id_bytes;
	void *soonest = rung__malloc_array(trace->opts.vertex_count, bytes);

	if (!soonest)
		return rung__fail(RUNG_E_NOMEM, "Belady's rule over %" PRIu64 " rows: no memory",
		                  trace->opts.vertex_count);
	/* all bits set is not below `never`: no request of the row is known yet */
	memset(soonest, 0xff, trace->opts.vertex_count * bytes);
	for (uint64_t i = trace->kept_count; i-- > 0;) {
		const uint64_t row = rung__id_get(trace->kept, bytes, i),
			       time = rung__id_get(soonest, bytes, row);

		rung__id_set(next, bytes, i, RUNG__MIN(time, never));
		rung__id_set(soonest, bytes, row, i);
	}
	rung__free(soonest);
	return 0;
}

/* Simulate a tier of `size` rows. @param counted_from  first request whose hits count; earlier ones
 * warm the tier up. @return hits */
static uint64_t count_hits(struct time_set *set, const void *next, unsigned bytes, uint64_t count,
                           uint64_t counted_from, uint64_t size)
{
	uint64_t hits = 0, held = 0;

	set_clear(set);
	for (uint64_t i = 0; i < count; i++) {
		const uint64_t again = rung__id_get(next, bytes, i);

		if (set_has(set, i)) {
			hits += i >= counted_from;
			set_accept(set, i);
			held--;
		}
		if (again == count) /* a row that is never requested again does not stay */
			continue;
		/* Add the new time first, then drop the largest, which may be the new one. */
		set_put(set, again);
		if (held < size)
			held++;
		else
			set_accept(set, set_largest(set));
	}
	return hits;
}

/* One call of rung_trace_belady_hits(), shared by its threads. */
struct belady {
	const struct rung_trace *trace;
	const void *next; /* [kept_count], filled by make_next() */
	uint64_t counted_from;
	const uint64_t *sizes;
	uint32_t size_count;
	uint64_t *hits; /* [size_count] */
	uint32_t done;  /* number of sizes that all threads have completed */
	int rc;         /* failure of a thread, which also ends the other threads */
};

/* Report a completed size, on the thread that simulated it. @return true: the caller cancels */
static bool report_progress(struct belady *belady)
{
	const struct rung_trace_opts *opts = &belady->trace->opts;
	uint32_t done;

#pragma omp atomic capture
	done = ++belady->done;
	return opts->progress &&
	       opts->progress(opts->progress_ctx, "Belady", done, belady->size_count);
}

/* Simulate all sizes. A thread has one set for all of its sizes, as large as the trace. After a
 * failure the remaining iterations do nothing, because a parallel loop cannot be left. */
static void all_sizes(struct belady *belady)
{
	const struct rung_trace *trace = belady->trace;

#pragma omp parallel num_threads(rung__threads(trace->opts.threads))
	{
		struct time_set set;
		int rc = set_init(&set, trace->kept_count), failed;

#pragma omp for schedule(dynamic, 1)
		for (uint32_t s = 0; s < belady->size_count; s++) {
#pragma omp atomic read
			failed = belady->rc;
			if (rc < 0 || failed < 0)
				continue;
			belady->hits[s] =
				count_hits(&set, belady->next, trace->id_bytes, trace->kept_count,
			                   belady->counted_from, belady->sizes[s]);
			if (report_progress(belady))
				rc = RUNG_E_CANCELED;
		}
		set_fini(&set);
		if (rc < 0) {
#pragma omp atomic write
			belady->rc = rc;
		}
	}
}

int rung_trace_belady_hits(const struct rung_trace *trace, uint64_t counted_from,
                           const uint64_t *sizes, uint32_t size_count, uint64_t *hits_out)
{
	struct belady belady = {
		.trace = trace,
		.counted_from = counted_from,
		.sizes = sizes,
		.size_count = size_count,
		.hits = hits_out,
	};
	void *next;
	int rc = rung__trace_check_sizes(trace, sizes, size_count);

	if (rc < 0)
		return rc;
	next = rung__malloc_array(trace->kept_count, trace->id_bytes);
	if (!next)
		return rung__fail(RUNG_E_NOMEM,
		                  "Belady's rule over %" PRIu64
		                  " requests: no memory; reduce kept_max",
		                  trace->kept_count);
	rc = make_next(trace, trace->kept_count, next);
	if (rc == 0) {
		belady.next = next;
		all_sizes(&belady);
		rc = belady.rc;
	}
	/* error messages belong to a thread, so the failure of another thread is recorded here */
	if (rc == RUNG_E_CANCELED)
		rung__fail(rc, "Belady's rule: canceled");
	else if (rc == RUNG_E_NOMEM)
		rung__fail(rc,
		           "Belady's rule over %" PRIu64 " requests: no memory; reduce kept_max",
		           trace->kept_count);
	rung__free(next);
	return rc;
}

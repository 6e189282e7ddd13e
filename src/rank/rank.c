/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranking by descending score: pairs of key and id are partitioned into buckets, ranges of keys
 * with about equally many scores (rank_cuts.c), then every bucket is ranked in the cache of one
 * core (rank_bucket.c). Every thread has a slice of the scores; its output positions follow from
 * the counts of all slices, bucket by bucket and within a bucket slice by slice. So ids ascend in
 * every bucket, and ties are in the order of ids for any thread count and any cuts.
 *
 * A pair stays where it was written and gets its rank there. Because ids ascend, the pairs of a
 * range of vertices are contiguous in every bucket, and reading these pieces, range by range,
 * writes the inverse map inside the cache: one partition serves both maps.
 *
 * Measured on two cores of an EPYC 9004 with 100 M scores: the line after the one being written is
 * prefetched, because stores wait for their lines in order; without that, more than 1000 buckets
 * take twice the time. Collecting pairs in private lines, which are written with streaming stores,
 * is no faster. Finding the bucket of a score a second time would cost as much as the rest of the
 * partition, so the buckets are kept, in memory that later holds the output.
 */
#include <string.h>

#include "base/base.h"
#include "rank/rank_bucket.h"
#include "rank/rank_cuts.h"
#include "rank/state.h"
#include "rung/rank.h"
#include "sort/partition.h"

#define SLICE_MIN 1024u /* fewer scores are not worth a thread */
/* few enough that for all buckets the line being written and the next one stay in a second-level
 * cache */
#define BUCKETS_MAX   2048u
#define RANGE         (UINT64_C(1) << 16) /* vertices of a range: their ranks fit in the cache */
#define AHEAD_BUCKETS 4u /* the piece of a range is prefetched this many buckets ahead */
/* lines that are prefetched of each piece: with 1500 buckets a piece has 6 on average */
#define AHEAD_LINES 6u

struct ranking {
	const float *score;
	uint64_t count;
	unsigned index_bytes;
	int threads;
	bool wide; /* ids do not fit 4 bytes */
	/* [count]; before the ranks are written: buckets of the scores, 2 bytes each */
	void *vertex_of_rank;
	void *rank_of_vertex; /* [count], the inverse map; NULL: not requested */
	struct rung__cuts cuts;
	/* [threads][cuts.count] next output position of each slice by bucket, finally its end */
	uint64_t *starts;
	uint64_t *firsts;  /* [cuts.count + 1] first position of each bucket */
	uint64_t *cursors; /* [threads][cuts.count] positions of the pairs that are inverted next */
	uint64_t *pairs;   /* [count] */
	uint64_t pairs_bytes;
	uint32_t *
		scratch_list; /* [threads][scratch_words] counters and order for ranking a bucket */
	uint64_t scratch_words;
};

static uint64_t slice_begin(const struct ranking *rk, int slice)
{
	return rung__slice_begin(rk->count, slice, rk->threads);
}

/* Next output positions of a slice by bucket; after the partition, the positions at which the next
 * slice begins. */
static uint64_t *starts_of(const struct ranking *rk, int slice)
{
	return rk->starts + (uint64_t)slice * rk->cuts.count;
}

/* Count the scores of a slice by bucket, and keep the bucket of each score. */
static void count_slice(const struct ranking *rk, int slice)
{
	/* stores cannot alias a local copy, so it stays in registers */
	const struct rung__cuts cuts = rk->cuts;
	const float *score = rk->score;
	uint16_t *buckets = rk->vertex_of_rank;
	uint64_t *counts = starts_of(rk, slice);
	const uint64_t end = slice_begin(rk, slice + 1);

	memset(counts, 0, cuts.count * sizeof(*counts));
	for (uint64_t v = slice_begin(rk, slice); v < end; v++) {
		const uint32_t bucket = rung__cuts_find(&cuts, rung__rank_key(score[v]));

		buckets[v] = (uint16_t)bucket;
		counts[bucket]++;
	}
}

/* Write the pairs of a slice to their buckets, in the order of ids. */
static inline __attribute__((always_inline)) void partition_slice(const struct ranking *rk,
                                                                  bool wide, int slice)
{
	const float *score = rk->score;
	const uint16_t *buckets = rk->vertex_of_rank;
	uint64_t *pairs = rk->pairs, *starts = starts_of(rk, slice);
	const uint64_t end = slice_begin(rk, slice + 1);

	for (uint64_t v = slice_begin(rk, slice); v < end; v++) {
		const uint64_t at = starts[buckets[v]]++;

		rung__pair_set(pairs, wide, at, (struct rung__pair){ v, rung__rank_key(score[v]) });
		__builtin_prefetch((const unsigned char *)(pairs + at * rung__pair_words(wide)) +
		                           RUNG__LINE_BYTES,
		                   1);
	}
}

/* Counting and writing use the same slices, so the positions from the counts are exact. */
static void partition(const struct ranking *rk)
{
#pragma omp parallel for num_threads(rk->threads) schedule(static, 1)
	for (int slice = 0; slice < rk->threads; slice++)
		count_slice(rk, slice);
	rung__slice_starts(rk->starts, rk->cuts.count, rk->threads, rk->firsts);
#pragma omp parallel for num_threads(rk->threads) schedule(static, 1)
	for (int slice = 0; slice < rk->threads; slice++) {
		if (rk->wide)
			partition_slice(rk, true, slice);
		else
			partition_slice(rk, false, slice);
	}
}

static struct rung__rank_bucket bucket_at(const struct ranking *rk, uint32_t bucket)
{
	const uint64_t first = rk->firsts[bucket];

	return (struct rung__rank_bucket){
		.pairs = rk->pairs + first * rung__pair_words(rk->wide),
		.wide = rk->wide,
		.count = rk->firsts[bucket + 1] - first,
		.first_rank = first,
		.first_key = rung__cuts_first(&rk->cuts, bucket),
		.last_key = rk->cuts.last[bucket],
		.index_bytes = rk->index_bytes,
		.vertex_of_rank = rk->vertex_of_rank,
	};
}

/*
 * Allocate room for the largest bucket that needs it. Its size depends on the sample, but only
 * slightly.
 * @return false: out of memory, or a bucket with too many pairs for 32-bit positions
 */
static bool alloc_scratch(struct ranking *rk)
{
	uint64_t order_words = 0;

	for (uint32_t b = 0; b < rk->cuts.count; b++) {
		const struct rung__rank_bucket bucket = bucket_at(rk, b);
		const uint32_t range = bucket.last_key - bucket.first_key;

		if (range && bucket.count > UINT32_MAX)
			return false;
		if (range >= RUNG__RANK_DIGITS)
			order_words = RUNG__MAX(order_words, bucket.count);
	}
	rk->scratch_words = RUNG__RANK_DIGITS + order_words;
	rk->scratch_list = rung__malloc_array((uint64_t)rk->threads * rk->scratch_words,
	                                      sizeof(*rk->scratch_list));
	return rk->scratch_list != NULL;
}

/* Buckets are taken dynamically, because their sizes differ. */
static void rank_buckets(const struct ranking *rk)
{
#pragma omp parallel for num_threads(rk->threads) schedule(dynamic, 1)
	for (uint32_t b = 0; b < rk->cuts.count; b++) {
		uint32_t *words =
			rk->scratch_list + (uint64_t)rung__thread_number() * rk->scratch_words;
		const struct rung__rank_scratch scratch = { .starts = words,
			                                    .order = words + RUNG__RANK_DIGITS };
		const struct rung__rank_bucket bucket = bucket_at(rk, b);

		rung__rank_bucket(&bucket, &scratch);
	}
}

/* Write the ranks of a slice's vertices below `range_end`; the ranks of earlier ranges are written
 * already. Ids ascend in each bucket, so each piece ends at the first larger id. */
static inline __attribute__((always_inline)) void invert_range(const struct ranking *rk, bool wide,
                                                               unsigned index_bytes, int slice,
                                                               uint64_t range_end)
{
	const uint32_t bucket_count = rk->cuts.count;
	const uint64_t *pairs = rk->pairs, *ends = starts_of(rk, slice);
	uint64_t *cursors = rk->cursors + (uint64_t)slice * bucket_count;
	void *ranks = rk->rank_of_vertex;

	for (uint32_t b = 0; b < bucket_count; b++) {
		const uint64_t *ahead =
			pairs + cursors[RUNG__MIN(b + AHEAD_BUCKETS, bucket_count - 1)] *
					rung__pair_words(wide);
		uint64_t i = cursors[b];

		for (unsigned line = 0; line < AHEAD_LINES; line++)
			__builtin_prefetch((const unsigned char *)ahead + line * RUNG__LINE_BYTES);
		for (; i < ends[b]; i++) {
			const struct rung__pair pair = rung__pair_get(pairs, wide, i);

			if (pair.id >= range_end)
				break;
			rung__id_set(ranks, index_bytes, pair.id, pair.key);
		}
		cursors[b] = i;
	}
}

static inline __attribute__((always_inline)) void invert_slice(const struct ranking *rk, bool wide,
                                                               unsigned index_bytes, int slice)
{
	const uint64_t end = slice_begin(rk, slice + 1);
	const uint64_t *begins = slice ? starts_of(rk, slice - 1) : rk->firsts;
	uint64_t first = slice_begin(rk, slice), range_end;

	memcpy(rk->cursors + (uint64_t)slice * rk->cuts.count, begins,
	       rk->cuts.count * sizeof(*rk->cursors));
	for (; first < end; first = range_end) {
		range_end = RUNG__MIN(first + RANGE, end);
		invert_range(rk, wide, index_bytes, slice, range_end);
	}
}

/* Slices are the same as before: a thread reads only pairs that its slice wrote. */
static void invert(const struct ranking *rk)
{
#pragma omp parallel for num_threads(rk->threads) schedule(static, 1)
	for (int slice = 0; slice < rk->threads; slice++) {
		if (rk->wide)
			invert_slice(rk, true, 8, slice);
		else if (rk->index_bytes == 8)
			invert_slice(rk, false, 8, slice);
		else
			invert_slice(rk, false, 4, slice);
	}
}

static bool alloc(struct ranking *rk, uint64_t bucket_scores)
{
	const uint32_t bucket_count =
		(uint32_t)RUNG__MIN(rk->count / bucket_scores + 1, BUCKETS_MAX);
	const uint64_t threads = (uint64_t)rk->threads;

	if (!rung__cuts_init(&rk->cuts, rk->score, rk->count, bucket_count) ||
	    !rung__mul(rk->count, rung__pair_words(rk->wide) * sizeof(*rk->pairs),
	               &rk->pairs_bytes))
		return false;
	rk->starts = rung__malloc_array(threads * rk->cuts.count, sizeof(*rk->starts));
	rk->firsts = rung__malloc_array((uint64_t)rk->cuts.count + 1, sizeof(*rk->firsts));
	rk->cursors = rung__malloc_array(threads * rk->cuts.count, sizeof(*rk->cursors));
	rk->pairs = rung__map_pages(rk->pairs_bytes);
	return rk->starts && rk->firsts && rk->cursors && rk->pairs;
}

int rung__rank_order(const float *score, uint64_t vertex_count, unsigned index_bytes,
                     uint32_t threads, const struct rung__rank_measures *measures,
                     void *vertex_of_rank, void *rank_of_vertex)
{
	struct ranking rk = {
		.score = score,
		.count = vertex_count,
		.index_bytes = index_bytes,
		.wide = measures->wide,
		.vertex_of_rank = vertex_of_rank,
		.rank_of_vertex = rank_of_vertex,
	};
	bool done = false;

	if (vertex_count == 0)
		return 0;
	rk.threads = (int)RUNG__MIN((uint64_t)rung__threads(threads), vertex_count / SLICE_MIN + 1);
	if (alloc(&rk, measures->bucket_scores)) {
		partition(&rk);
		done = alloc_scratch(&rk);
	}
	if (done)
		rank_buckets(&rk);
	if (done && rank_of_vertex)
		invert(&rk);
	rung__unmap_pages(rk.pairs, rk.pairs_bytes);
	rung__free(rk.scratch_list);
	rung__free(rk.cursors);
	rung__free(rk.starts);
	rung__free(rk.firsts);
	rung__cuts_fini(&rk.cuts);
	return done ? 0
	            : rung__fail(RUNG_E_NOMEM, "ranking: no memory for %" PRIu64 " vertices",
	                         vertex_count);
}

int rung_rank_order(const float *score, uint64_t vertex_count, unsigned index_bytes,
                    uint32_t threads, void *vertex_of_rank, void *rank_of_vertex)
{
	const struct rung__rank_measures measures = {
		.bucket_scores = RUNG__BUCKET_SCORES,
		.wide = rung_index_bytes(vertex_count) == 8,
	};

	if ((index_bytes != 4 && index_bytes != 8) || index_bytes < rung_index_bytes(vertex_count))
		return rung__fail(
			RUNG_E_INVAL,
			"ranking %" PRIu64
			" vertices: index_bytes is %u; use 8, or 4 for at most 2^32 vertices",
			vertex_count, index_bytes);
	return rung__rank_order(score, vertex_count, index_bytes, threads, &measures,
	                        vertex_of_rank, rank_of_vertex);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rank one bucket: a counting sort over the bits in which its keys differ, at most 16 at a time.
 * With tens of thousands of pairs one pass is enough for most scores: a pair's rank follows from
 * its key and the pairs before it, and no pair moves. If the keys differ in more bits, the
 * positions of the pairs are first sorted by the lower half of those bits.
 */
#include "rank/rank_bucket.h"

#include <string.h>

#include "base/base.h"

#define DIGIT_BITS 16u

/* A digit is the bits of key - first_key that are selected by shift and mask. */
struct digit {
	uint32_t first_key;
	unsigned shift;
	uint32_t mask;
};

static inline __attribute__((always_inline)) uint32_t digit_of(const struct digit *digit,
                                                               uint64_t key)
{
	return ((uint32_t)key - digit->first_key) >> digit->shift & digit->mask;
}

/* A mask of the bits in which keys can differ after the first key is subtracted. If the range of
 * the bucket fits in one digit, the pairs need not be read. */
static inline __attribute__((always_inline)) uint32_t differing_bits(
	const struct rung__rank_bucket *bucket, bool wide)
{
	const uint32_t range = bucket->last_key - bucket->first_key;
	uint32_t bits = 0;

	if (range < RUNG__RANK_DIGITS)
		return range ? UINT32_MAX >> __builtin_clz(range) : 0;
	for (uint64_t i = 0; i < bucket->count; i++)
		bits |= (uint32_t)rung__pair_get(bucket->pairs, wide, i).key - bucket->first_key;
	return bits;
}

/* Count the pairs by digit and convert the counts to first positions. Also prefetch the output. */
static inline __attribute__((always_inline)) void find_starts(
	const struct rung__rank_bucket *shared, bool wide, unsigned index_bytes, struct digit digit,
	uint32_t *starts)
{
	/* stores cannot alias a local copy, so it stays in registers */
	const struct rung__rank_bucket bucket = *shared;
	const unsigned char *output =
		(const unsigned char *)bucket.vertex_of_rank + bucket.first_rank * index_bytes;
	uint32_t sum = 0;

	memset(starts, 0, ((size_t)digit.mask + 1) * sizeof(*starts));
	for (uint64_t i = 0; i < bucket.count; i++) {
		starts[digit_of(&digit, rung__pair_get(bucket.pairs, wide, i).key)]++;
		__builtin_prefetch(output + i * index_bytes, 1); /* written soon, in random order */
	}
	for (uint32_t d = 0; d <= digit.mask; d++) {
		const uint32_t here = starts[d];

		starts[d] = sum;
		sum += here;
	}
}

/*
 * Write each pair's vertex to the output at its rank, and the rank in place of the pair's key.
 * @param order  positions in the order of lower digits; NULL: as stored
 * @param starts  first positions by digit; NULL: all keys are equal
 */
static inline __attribute__((always_inline)) void place(const struct rung__rank_bucket *shared,
                                                        bool wide, unsigned index_bytes,
                                                        struct digit digit, const uint32_t *order,
                                                        uint32_t *starts)
{
	const struct rung__rank_bucket bucket = *shared;

	for (uint64_t k = 0; k < bucket.count; k++) {
		const uint64_t i = order ? order[k] : k;
		struct rung__pair pair = rung__pair_get(bucket.pairs, wide, i);

		pair.key = bucket.first_rank + (starts ? starts[digit_of(&digit, pair.key)]++ : k);
		rung__id_set(bucket.vertex_of_rank, index_bytes, pair.key, pair.id);
		rung__pair_set(bucket.pairs, wide, i, pair);
	}
}

/* Sort the positions of the pairs by a digit, stably. */
static inline __attribute__((always_inline)) void order_by(const struct rung__rank_bucket *shared,
                                                           bool wide, struct digit digit,
                                                           uint32_t *starts, uint32_t *order)
{
	const struct rung__rank_bucket bucket = *shared;

	for (uint64_t i = 0; i < bucket.count; i++)
		order[starts[digit_of(&digit, rung__pair_get(bucket.pairs, wide, i).key)]++] =
			(uint32_t)i;
}

/* No pass if all keys are equal, one pass for up to 16 differing bits, two for more. */
static inline __attribute__((always_inline)) void rank_bucket(
	const struct rung__rank_bucket *bucket, bool wide, unsigned index_bytes,
	const struct rung__rank_scratch *scratch)
{
	const uint32_t bits = differing_bits(bucket, wide);
	const unsigned low = bits ? (unsigned)__builtin_ctz(bits) : 0;
	const unsigned width = bits ? 32 - (unsigned)__builtin_clz(bits) - low : 0;
	const unsigned half = width > DIGIT_BITS ? width / 2 : 0;
	const struct digit upper = { bucket->first_key, low + half,
		                     (UINT32_C(1) << (width - half)) - 1 };
	const struct digit lower = { bucket->first_key, low, (UINT32_C(1) << half) - 1 };

	if (!width) {
		place(bucket, wide, index_bytes, upper, NULL, NULL);
	} else if (!half) {
		find_starts(bucket, wide, index_bytes, upper, scratch->starts);
		place(bucket, wide, index_bytes, upper, NULL, scratch->starts);
	} else {
		find_starts(bucket, wide, index_bytes, lower, scratch->starts);
		order_by(bucket, wide, lower, scratch->starts, scratch->order);
		find_starts(bucket, wide, index_bytes, upper, scratch->starts);
		place(bucket, wide, index_bytes, upper, scratch->order, scratch->starts);
	}
}

void rung__rank_bucket(const struct rung__rank_bucket *bucket,
                       const struct rung__rank_scratch *scratch)
{
	if (bucket->wide)
		rank_bucket(bucket, true, 8, scratch);
	else if (bucket->index_bytes == 8)
		rank_bucket(bucket, false, 8, scratch);
	else
		rank_bucket(bucket, false, 4, scratch);
}

/* SPDX-License-Identifier: Apache-2.0 */
/** Ranges of keys with about equally many scores each, found from a sample. Private to the core. */
#ifndef RUNG_RANK_CUTS_H
#define RUNG_RANK_CUTS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define RUNG__COARSE_BITS 12u /* sign, exponent and three bits of the mantissa */
/* flag in an entry of `fine`: the bin has keys of several buckets */
#define RUNG__CUT_INSIDE 0x8000u

/**
 * Bucket b has the keys after last[b - 1] up to last[b]. A key that more scores have than a bucket
 * should hold gets its own bucket. The tables map the bin of a key to the bucket in which it
 * begins: coarse bins by the upper bits, divided into as many fine ones as the buckets need.
 */
struct rung__cuts {
	uint32_t count;
	uint32_t *last; /* [count] */
	/* [1 << RUNG__COARSE_BITS] by coarse bin: (its first fine bin) << 8 | number of key bits
	 * below a fine bin */
	uint32_t *coarse;
	/* bucket of the smallest key of a fine bin, with RUNG__CUT_INSIDE if the largest key has
	 * another bucket */
	uint16_t *fine;
};

/**
 * Choose the cuts from a sample of the scores.
 * @param score_count   at least bucket_count, which is not 0
 * @param bucket_count  approximate number, at most 4096; the result may be a small multiple
 * @return false: out of memory
 */
bool rung__cuts_init(struct rung__cuts *cuts, const float *score, uint64_t score_count,
                     uint32_t bucket_count);
void rung__cuts_fini(struct rung__cuts *cuts);

/** Key of a score: ascending keys are descending scores. NaN gets the largest key, which no number
 * has, and -0.0 the key of 0.0. */
static inline uint32_t rung__rank_key(float score)
{
	const uint32_t sign = UINT32_C(1) << 31;
	uint32_t bits, key;

	memcpy(&bits, &score, sizeof(bits));
	bits = bits == sign ? 0 : bits;
	key = bits & sign ? bits : bits ^ ~sign;
	return (bits & ~sign) > UINT32_C(0x7f800000) ? UINT32_MAX : key;
}

/** The smallest key of a bucket. */
static inline uint32_t rung__cuts_first(const struct rung__cuts *cuts, uint32_t bucket)
{
	return bucket ? cuts->last[bucket - 1] + 1 : 0;
}

/** The bucket of a key. */
static inline uint32_t rung__cuts_find(const struct rung__cuts *cuts, uint32_t key)
{
	const uint32_t coarse = cuts->coarse[key >> (32 - RUNG__COARSE_BITS)];
	const uint32_t below = key & (UINT32_MAX >> RUNG__COARSE_BITS);
	uint32_t bucket = cuts->fine[(coarse >> 8) + (below >> (coarse & 31))];

	/* this branch is rarely taken: only in fine bins with more scores than a bucket */
	if (bucket & RUNG__CUT_INSIDE) {
		bucket ^= RUNG__CUT_INSIDE;
		while (key > cuts->last[bucket])
			bucket++;
	}
	return bucket;
}

#endif

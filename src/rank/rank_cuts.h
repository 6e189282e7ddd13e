/* SPDX-License-Identifier: Apache-2.0 */
/** Ranges of keys that hold about as many scores each, found from a sample. Private to the core. */
#ifndef RUNG_RANK_CUTS_H
#define RUNG_RANK_CUTS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define RUNG__COARSE_BITS 12u /* sign, exponent and three bits of the mantissa */
#define RUNG__CUT_INSIDE  0x8000u

/**
 * Bucket b has the keys after last[b - 1] up to last[b]. A key that alone exceeds a bucket has its
 * own bucket. The tables map the bin of a key to the bucket in which it begins: coarse bins by the
 * upper bits, divided into as many fine ones as the buckets need.
 */
struct rung__cuts {
	uint32_t count;
	uint32_t *last; /* [count] */
	/* [1 << RUNG__COARSE_BITS] its first fine bin << 8 | the bits of a key below its fine
	 * bins */
	uint32_t *coarse;
	/* bucket of the smallest key of a fine bin, and RUNG__CUT_INSIDE when the largest has
	 * another */
	uint16_t *fine;
};

/**
 * @param score_count   at least bucket_count, which is not 0
 * @param bucket_count  approximate number, at most 4096; the result may be a small multiple
 * @return false without memory
 */
bool rung__cuts_init(struct rung__cuts *cuts, const float *score, uint64_t score_count,
                     uint32_t bucket_count);
void rung__cuts_fini(struct rung__cuts *cuts);

/** Ascending keys are descending scores. NaN gets the largest key, which no number has; -0.0 the
 * key of 0.0. */
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

static inline uint32_t rung__cuts_find(const struct rung__cuts *cuts, uint32_t key)
{
	const uint32_t coarse = cuts->coarse[key >> (32 - RUNG__COARSE_BITS)];
	const uint32_t below = key & (UINT32_MAX >> RUNG__COARSE_BITS);
	uint32_t bucket = cuts->fine[(coarse >> 8) + (below >> (coarse & 31))];

	/* rare: of fine bins that alone are more than a bucket's worth */
	if (bucket & RUNG__CUT_INSIDE) {
		bucket ^= RUNG__CUT_INSIDE;
		while (key > cuts->last[bucket])
			bucket++;
	}
	return bucket;
}

#endif

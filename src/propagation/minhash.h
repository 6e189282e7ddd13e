/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Estimates how much sets of vertices overlap, from 32 bits per set: minwise hashing (Broder, "On
 * the resemblance and containment of documents", 1997) with few bits per hash (Li, König, "b-Bit
 * Minwise Hashing", 2010). Private to the core.
 *
 * Each of three hashes of 21 bits has a minimum over a set. Two sets A and B have the same minimum
 * with probability |A & B| / |A | B|. A *signature* has the lower 8 bits of the three minima, and
 * the size of the set, truncated to four significant binary digits.
 */
#ifndef RUNG_MINHASH_H
#define RUNG_MINHASH_H

#include <stdint.h>
#include <string.h>

#define RUNG__MINHASHES    3u
#define RUNG__MINHASH_BITS 21u
/** the three minima of the empty set, packed into 63 bits */
#define RUNG__MINHASH_NONE ((UINT64_C(1) << RUNG__MINHASHES * RUNG__MINHASH_BITS) - 1)

/** The three hashes of a vertex in the lower 63 bits. The vertex is multiplied and shifted as in
 * splitmix64, with one multiplication and one shift fewer. */
static inline uint64_t rung__minhash_of(uint64_t vertex)
{
	uint64_t x = (vertex + 1) * UINT64_C(0xbf58476d1ce4e5b9);

	x ^= x >> 32;
	x *= UINT64_C(0x94d049bb133111eb);
	return (x ^ x >> 29) & RUNG__MINHASH_NONE;
}

/** The minimum of both, hash by hash. The fields are compared in place, without shifts. */
static inline uint64_t rung__minhash_min(uint64_t a, uint64_t b)
{
	const uint64_t low = (UINT64_C(1) << RUNG__MINHASH_BITS) - 1,
		       middle = low << RUNG__MINHASH_BITS, high = middle << RUNG__MINHASH_BITS;

	return ((a & low) < (b & low) ? a & low : b & low) |
	       ((a & middle) < (b & middle) ? a & middle : b & middle) |
	       ((a & high) < (b & high) ? a & high : b & high);
}

/** Signature of a set. @param count  vertices of the set; its first four binary digits are kept */
static inline uint32_t rung__minhash_signature(uint64_t minima, float count)
{
	const float number = count > 0 ? count : 1;
	uint32_t signature = 0, bits;

	for (unsigned i = 0; i < RUNG__MINHASHES; i++)
		signature |= (uint32_t)(minima >> i * RUNG__MINHASH_BITS & 0xff) << 8 * i;
	/* a float has 23 fraction bits, of which 3 are kept; 127 is the exponent of 1 */
	memcpy(&bits, &number, sizeof(bits));
	bits = (bits >> 20) - (127u << 3);
	return signature | (bits < 255 ? bits : 255) << 24;
}

/** Number of hashes on which two signatures agree. */
static inline uint32_t rung__minhash_common(uint32_t a, uint32_t b)
{
	const uint32_t differs = a ^ b;

	return (uint32_t) !(differs & 0xff) + (uint32_t) !(differs & 0xff00) +
	       (uint32_t) !(differs & 0xff0000);
}

/** Whether two signatures agree on any hash. The sizes of the sets are not compared. */
static inline int rung__minhash_agree(uint32_t a, uint32_t b)
{
	/* a zero byte is the only one whose upper bit is clear and is set by subtracting 1; the
	 * byte of the count is never zero */
	const uint32_t differs = (a ^ b) | 0xff000000u;

	return ((differs - 0x01010101u) & ~differs & 0x80808080u) != 0;
}

/** Number of vertices of the set, at least 1. From 16 on it may be too small by up to an eighth. */
static inline float rung__minhash_count(uint32_t signature)
{
	const uint32_t bits = ((signature >> 24) + (127u << 3)) << 20;
	float number;

	memcpy(&number, &bits, sizeof(number));
	return number;
}

/** Estimated share of B that is also in A. With J = |A & B| / |A | B| estimated as common / 3, |A &
 * B| is J / (1 + J) of |A| + |B|. */
static inline float rung__minhash_share(uint32_t a, uint32_t b)
{
	const float common = (float)rung__minhash_common(a, b);
	const float share = common / (RUNG__MINHASHES + common) *
	                    (1 + rung__minhash_count(a) / rung__minhash_count(b));

	return share < 1 ? share : 1;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Random draws that depend only on a key and an index: they are the same for any number of threads
 * and any order of execution, also on a GPU. Private to rung.
 *
 * The stream of a key is splitmix64, started at the key (Steele, Lea, Flood, "Fast Splittable
 * Pseudorandom Number Generators", 2014).
 */
#ifndef RUNG_RANDOM_H
#define RUNG_RANDOM_H

#include "base/base.h"

#define RUNG__STREAM_STEP UINT64_C(0x9e3779b97f4a7c15) /* as in rung__mix64() */

/** A position in a stream. */
struct rung__rng {
	uint64_t state; /* key + index * RUNG__STREAM_STEP */
};

/** Combine two keys; not symmetric, so (a, b) and (b, a) differ. */
static RUNG__ANYWHERE inline uint64_t rung__key_join(uint64_t a, uint64_t b)
{
	return rung__mix64(rung__mix64(a) ^ b);
}

/** Number `i` of the stream of `key`. RUNG__STREAM_STEP is the constant that rung__mix64() adds
 * before it mixes. */
static RUNG__ANYWHERE inline uint64_t rung__rng_at(uint64_t key, uint64_t i)
{
	return rung__mix64(key + i * RUNG__STREAM_STEP);
}

/** Next number of the stream. */
static inline uint64_t rung__rng_next(struct rung__rng *stream)
{
	const uint64_t value = rung__mix64(stream->state);

	stream->state += RUNG__STREAM_STEP;
	return value;
}

/**
 * Map 64 random bits to a number below `limit` (at least 1), every number equally likely: D.
 * Lemire, "Fast Random Integer Generation in an Interval", 2019. @return false: the bits fall into
 * the surplus and must be replaced by the next ones
 */
static RUNG__ANYWHERE inline bool rung__bits_below(uint64_t bits, uint64_t limit,
                                                   uint64_t *value_out)
{
	const unsigned __int128 product = (unsigned __int128)bits * limit;

	*value_out = (uint64_t)(product >> 64);
	/* 2^64 mod limit is the number of surplus low halves. It is below limit, so the division is
	 * rarely needed */
	return (uint64_t)product >= limit || (uint64_t)product >= (0 - limit) % limit;
}

/** The stream's next number below `limit`. */
static inline uint64_t rung__rng_below(struct rung__rng *stream, uint64_t limit)
{
	uint64_t value;

	while (!rung__bits_below(rung__rng_next(stream), limit, &value))
		;
	return value;
}

/**
 * 64 random bits modulo `limit` (at least 1), every remainder equally likely. @return false: the
 * bits are above the last full range of `limit` numbers and must be replaced
 */
static inline bool rung__bits_modulo(uint64_t bits, uint64_t limit, uint64_t *value_out)
{
	*value_out = bits % limit;
	return bits <= UINT64_MAX - (0 - limit) % limit;
}

/** Returns a number below `limit` (at least 1), every one equally likely, as rung__rng_below(). */
typedef uint64_t (*rung__below_fn)(struct rung__rng *stream, uint64_t limit);

/**
 * Shuffle in place; all orders are equally likely: Fisher and Yates; R. Durstenfeld, "Algorithm
 * 235: Random permutation", CACM 7(7), 1964.
 */
static inline void rung__shuffle(uint64_t *items, uint64_t count, rung__below_fn below,
                                 struct rung__rng *stream)
{
	for (uint64_t i = count; i > 1; i--) {
		const uint64_t j = below(stream, i), item = items[i - 1];

		items[i - 1] = items[j];
		items[j] = item;
	}
}

#endif

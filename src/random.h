/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Draws that depend on a key and a running number only: the same for any order of execution. Private to the core.
 *
 * Stream `key` is splitmix64 started at `key` (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
 */
#ifndef RUNG_RANDOM_H
#define RUNG_RANDOM_H

#include "internal.h"

struct rung__stream {
	uint64_t state;
};

/** A key made of two: not symmetric, so that (a, b) and (b, a) differ. */
static inline uint64_t rung__key_join(uint64_t a, uint64_t b)
{
	return rung__mix64(rung__mix64(a) ^ b);
}

static inline uint64_t rung__stream_next(struct rung__stream *stream)
{
	const uint64_t value = rung__mix64(stream->state);

	stream->state += 0x9e3779b97f4a7c15u;   /* the step that rung__mix64() adds before it mixes */
	return value;
}

/**
 * A number below `limit` (at least 1), every one equally likely: Lemire, "Fast Random Integer Generation in an Interval", 2019.
 */
static inline uint64_t rung__stream_below(struct rung__stream *stream, uint64_t limit)
{
	unsigned __int128 product = (unsigned __int128)rung__stream_next(stream) * limit;

	if ((uint64_t)product < limit) {
		const uint64_t threshold = (0 - limit) % limit;   /* 2^64 mod limit: so many low halves are one too many */

		while ((uint64_t)product < threshold)
			product = (unsigned __int128)rung__stream_next(stream) * limit;
	}
	return (uint64_t)(product >> 64);
}

#endif

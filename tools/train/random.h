/* SPDX-License-Identifier: Apache-2.0 */
/** Random numbers that depend only on a key and a position: the same for any number of threads. */
#ifndef TRAIN_RANDOM_H
#define TRAIN_RANDOM_H

#include <stdint.h>

/** splitmix64's step and finaliser (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014). */
static inline uint64_t train_mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/** A key of its own for each (seed, a, b). */
static inline uint64_t train_key(uint64_t seed, uint64_t a, uint64_t b)
{
	return train_mix(train_mix(train_mix(seed) ^ a) ^ b);
}

/** Uniform below `bound` (at least 1): the high half of a product, whose bias is below bound / 2^64. */
static inline uint64_t train_below(uint64_t draw, uint64_t bound)
{
	return (uint64_t)(((unsigned __int128)draw * bound) >> 64);
}

#endif

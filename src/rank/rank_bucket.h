/* SPDX-License-Identifier: Apache-2.0 */
/** Pairs of key and id, and ranking a bucket of them in the cache of one core. Private to the
 * core. */
#ifndef RUNG_RANK_BUCKET_H
#define RUNG_RANK_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

#define RUNG__RANK_DIGITS (1u << 16)
#define RUNG__LINE_BYTES  64u

/* A pair is one 64-bit number with the key in its upper half; above 2^32 vertices it is two
 * numbers, id and key. */
struct rung__pair {
	uint64_t id, key;
};

/* Number of words of a pair. `wide` does not change inside a loop, so the compiler generates two
 * loops. */
static inline unsigned rung__pair_words(bool wide)
{
	return wide ? 2 : 1;
}

static inline struct rung__pair rung__pair_get(const uint64_t *pairs, bool wide, uint64_t i)
{
	if (wide)
		return (struct rung__pair){ pairs[2 * i], pairs[2 * i + 1] };
	return (struct rung__pair){ (uint32_t)pairs[i], pairs[i] >> 32 };
}

static inline void rung__pair_set(uint64_t *pairs, bool wide, uint64_t i, struct rung__pair pair)
{
	if (wide) {
		pairs[2 * i] = pair.id;
		pairs[2 * i + 1] = pair.key;
	} else {
		pairs[i] = pair.key << 32 | pair.id;
	}
}

/** A bucket to be ranked. */
struct rung__rank_bucket {
	uint64_t *pairs;              /* [count] by ascending id */
	bool wide;                    /* two words per pair */
	uint64_t count;               /* less than 2^32, unless all keys are equal */
	uint64_t first_rank;          /* rank of the smallest key */
	uint32_t first_key, last_key; /* all keys are in this range */
	unsigned index_bytes;
	void *vertex_of_rank; /* [first_rank + count]; written from first_rank on */
};

/** Buffers of one thread. */
struct rung__rank_scratch {
	uint32_t *starts; /* [RUNG__RANK_DIGITS] */
	/* [count]; needed only if last_key - first_key is RUNG__RANK_DIGITS or more */
	uint32_t *order;
};

/** Rank the pairs by ascending key, and equal keys by id. Pairs are not moved; the rank of each
 * replaces its key. */
void rung__rank_bucket(const struct rung__rank_bucket *bucket,
                       const struct rung__rank_scratch *scratch);

#endif

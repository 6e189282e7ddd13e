/* SPDX-License-Identifier: Apache-2.0 */
/** Pairs of a bucket in memory, put in order. Private to the core. */
#ifndef RUNG_EDGES_BUCKET_H
#define RUNG_EDGES_BUCKET_H

#include "sort/partition.h"

/* of the keys, at most, that are brought together before lists are filled */
#define RUNG__BUCKET_PARTS 500u

struct rung__adjacency {
	uint64_t first, range;      /* of keys */
	unsigned char *pairs;       /* [count] key, value */
	unsigned char *partitioned; /* [count] the same brought together by key */
	uint64_t count;
	uint64_t *ends;     /* [range] of the lists, when they are filled */
	unsigned char *ids; /* [count] of the lists; may be where the pairs are */
	unsigned id_bytes;
};

/** Values to the lists of their keys, in the order of the pairs. @return false when a key is
 * outside of the range */
bool rung__adjacency_fill(const struct rung__adjacency *lists, struct rung__partition *partition);

/** Keep one of equal ids in every list, which gets sorted. @return number of ids left; ends[] is
 * updated */
uint64_t rung__adjacency_drop_repeats(const struct rung__adjacency *lists, int threads);

/** All values as one sorted list without repeats, ignoring the keys. @return its length */
uint64_t rung__adjacency_join(const struct rung__adjacency *lists);

#endif

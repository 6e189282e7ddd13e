/* SPDX-License-Identifier: Apache-2.0 */
/** Sorting the pairs of a bucket in memory into lists. Private to the core. */
#ifndef RUNG_EDGES_BUCKET_H
#define RUNG_EDGES_BUCKET_H

#include "sort/partition.h"

/* most parts into which the range of keys is partitioned before the lists are filled */
#define RUNG__BUCKET_PARTS 500u

/** The memory of a bucket: pairs in, lists out. Owned by the caller. */
struct rung__adjacency {
	uint64_t first, range;      /* keys first .. first + range - 1 */
	unsigned char *pairs;       /* [count] key and value, interleaved */
	unsigned char *partitioned; /* [count] the same, partitioned by key; scratch space */
	uint64_t count;
	uint64_t *ends;     /* [range] end of each list in ids, once they are filled */
	unsigned char *ids; /* [count] of the lists; may overlap the pairs, which are then lost */
	unsigned id_bytes;  /* of keys and values: 4 or 8 */
};

/** Append the values to the lists of their keys, in the order of the pairs. @param partition is set
 * to the range of the keys. @return false if a key is outside the range */
bool rung__adjacency_fill(const struct rung__adjacency *lists, struct rung__partition *partition);

/** Sort every list and keep one of equal ids. @return remaining number of ids; ends[] is updated */
uint64_t rung__adjacency_drop_repeats(const struct rung__adjacency *lists, int threads);

/** Store all values as one sorted list without repeats, ignoring the keys. @return its length */
uint64_t rung__adjacency_join(const struct rung__adjacency *lists);

#endif

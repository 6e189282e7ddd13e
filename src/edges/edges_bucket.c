/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists from the pairs of a bucket. The pairs are partitioned by ranges of keys; then one thread
 * fills the lists of each range, which fit in its cache. Both steps are stable, so a list has the
 * order of the input, whatever the number of threads.
 */
#include "base/base.h"
#include "edges/edges_bucket.h"

#include "sort/sort_ids.h"

/* Fill the lists of the keys [key_begin, key_end) from the pairs [first, end): a counting sort.
 * Afterwards ends[k] is the end of list k. Always inline, so that id_bytes is a constant in each of
 * the two versions. */
static inline __attribute__((always_inline)) void fill_part(const struct rung__adjacency *lists,
                                                            uint64_t key_begin, uint64_t key_end,
                                                            uint64_t first, uint64_t end,
                                                            unsigned id_bytes)
{
	uint64_t sum = first;

	for (uint64_t k = key_begin; k < key_end; k++)
		lists->ends[k] = 0;
	for (uint64_t i = first; i < end; i++)
		lists->ends[rung__id_get(lists->partitioned, id_bytes, 2 * i) - lists->first]++;
	/* counts become beginnings; each beginning then advances to the end of its list */
	for (uint64_t k = key_begin; k < key_end; k++) {
		const uint64_t here = lists->ends[k];

		lists->ends[k] = sum;
		sum += here;
	}
	for (uint64_t i = first; i < end; i++) {
		const uint64_t key =
			rung__id_get(lists->partitioned, id_bytes, 2 * i) - lists->first;

		rung__id_set(lists->ids, id_bytes, lists->ends[key]++,
		             rung__id_get(lists->partitioned, id_bytes, 2 * i + 1));
	}
}

bool rung__adjacency_fill(const struct rung__adjacency *lists, struct rung__partition *partition)
{
	const struct rung__pairs pairs = {
		.keys = lists->pairs,
		.values = lists->pairs + lists->id_bytes,
		.count = lists->count,
		.stride = 2,
	};
	unsigned shift = 0;

	/* parts with equal ranges of keys, each a power of two */
	while ((lists->range - 1) >> shift >= RUNG__BUCKET_PARTS)
		shift++;
	rung__partition_set(partition, lists->id_bytes, lists->first, lists->range, shift);
	if (!rung__partition_pairs(partition, &pairs, lists->partitioned))
		return false;
#pragma omp parallel for num_threads(partition->threads) schedule(dynamic, 1)
	for (uint64_t part = 0; part < partition->bucket_count; part++) {
		const uint64_t key = part << shift,
			       key_end = RUNG__MIN(key + (UINT64_C(1) << shift), lists->range);
		const uint64_t first = partition->firsts[part], end = partition->firsts[part + 1];

		if (lists->id_bytes == 4)
			fill_part(lists, key, key_end, first, end, 4);
		else
			fill_part(lists, key, key_end, first, end, 8);
	}
	return true;
}

uint64_t rung__adjacency_drop_repeats(const struct rung__adjacency *lists, int threads)
{
	uint64_t begin = 0, at = 0;

	(void)threads; /* without OpenMP */
#pragma omp parallel for num_threads(threads) schedule(dynamic, 64)
	for (uint64_t i = 0; i < lists->range; i++) {
		const uint64_t first = i == 0 ? 0 : lists->ends[i - 1];

		rung__ids_sort(lists->ids + first * lists->id_bytes, lists->id_bytes,
		               lists->ends[i] - first);
	}
	/* Close the gaps, on one thread: the lists move to the front one after the other. `at`
	 * never passes `begin`, so nothing is overwritten before it is read. */
	for (uint64_t i = 0; i < lists->range; i++) {
		const uint64_t list_first = at;

		for (; begin < lists->ends[i]; begin++) {
			const uint64_t id = rung__id_get(lists->ids, lists->id_bytes, begin);

			if (at == list_first ||
			    rung__id_get(lists->ids, lists->id_bytes, at - 1) != id)
				rung__id_set(lists->ids, lists->id_bytes, at++, id);
		}
		lists->ends[i] = at;
	}
	return at;
}

uint64_t rung__adjacency_join(const struct rung__adjacency *lists)
{
	const unsigned id_bytes = lists->id_bytes;
	uint64_t kept = 0;

	/* ascending, because ids may overlap the pairs: no value is overwritten unread */
	for (uint64_t i = 0; i < lists->count; i++)
		rung__id_set(lists->ids, id_bytes, i,
		             rung__id_get(lists->pairs, id_bytes, 2 * i + 1));
	rung__ids_sort(lists->ids, id_bytes, lists->count);
	for (uint64_t i = 0; i < lists->count; i++) {
		const uint64_t id = rung__id_get(lists->ids, id_bytes, i);

		if (kept == 0 || rung__id_get(lists->ids, id_bytes, kept - 1) != id)
			rung__id_set(lists->ids, id_bytes, kept++, id);
	}
	return kept;
}

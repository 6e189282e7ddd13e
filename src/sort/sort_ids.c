/* SPDX-License-Identifier: Apache-2.0 */
/* Insertion sort for short lists, which are the most frequent; otherwise a heap sort. It needs
 * no further memory, and no input makes it slow: the ids can come from untrusted files. */
#include "sort/sort_ids.h"

#include "base/base.h"

#define INSERTION_MAX 32u

static inline __attribute__((always_inline)) void sort_by_insertion(void *ids, unsigned id_bytes,
                                                                    uint64_t count)
{
	for (uint64_t i = 1; i < count; i++) {
		const uint64_t id = rung__id_get(ids, id_bytes, i);
		uint64_t j = i;

		for (; j > 0 && rung__id_get(ids, id_bytes, j - 1) > id; j--)
			rung__id_set(ids, id_bytes, j, rung__id_get(ids, id_bytes, j - 1));
		rung__id_set(ids, id_bytes, j, id);
	}
}

/* Move `id` down the heap ids[0, count) from the free position `at`. */
static inline __attribute__((always_inline)) void sift_down(void *ids, unsigned id_bytes,
                                                            uint64_t count, uint64_t at,
                                                            uint64_t id)
{
	for (;;) {
		uint64_t child = 2 * at + 1;

		if (child + 1 < count &&
		    rung__id_get(ids, id_bytes, child + 1) > rung__id_get(ids, id_bytes, child))
			child++;
		if (child >= count || rung__id_get(ids, id_bytes, child) <= id)
			break;
		rung__id_set(ids, id_bytes, at, rung__id_get(ids, id_bytes, child));
		at = child;
	}
	rung__id_set(ids, id_bytes, at, id);
}

static inline __attribute__((always_inline)) void sort(void *ids, unsigned id_bytes, uint64_t count)
{
	if (count <= INSERTION_MAX) {
		sort_by_insertion(ids, id_bytes, count);
		return;
	}
	for (uint64_t i = count / 2; i-- > 0;)
		sift_down(ids, id_bytes, count, i, rung__id_get(ids, id_bytes, i));
	for (uint64_t end = count - 1; end > 0; end--) {
		const uint64_t id = rung__id_get(ids, id_bytes, end);

		rung__id_set(ids, id_bytes, end, rung__id_get(ids, id_bytes, 0));
		sift_down(ids, id_bytes, end, 0, id);
	}
}

void rung__ids_sort(void *ids, unsigned id_bytes, uint64_t count)
{
	if (id_bytes == 4)
		sort(ids, 4, count);
	else
		sort(ids, 8, count);
}

/* SPDX-License-Identifier: Apache-2.0 */
/** Find the ids of one list in another, which is how mutual edges are found. Private to
 * propagation*.c. */
#ifndef RUNG_LOOKUP_H
#define RUNG_LOOKUP_H

#include "base/base.h"

/**
 * The ids of a list in a hash set of at least twice the size. One id that is not in the list marks
 * free slots. An id is multiplied by an odd number near 2^64 divided by the golden ratio (Knuth,
 * "The Art of Computer Programming", volume 3); the upper bits of the product are the first slot to
 * probe.
 */
struct rung__lookup {
	void *slots; /* [rung__lookup_slots()] of index_bytes */
	unsigned index_bytes;
	unsigned bits;
	const void *few;    /* the list itself if it is short; then slots are not used */
	uint64_t few_count; /* 0: the list is in slots */
};

/* Lists of up to this many ids are compared id by id, which is faster than slots. */
#define RUNG__LOOKUP_FEW 24u
/* Lists of any length are searched without slots when at most this many ids are looked up. */
#define RUNG__LOOKUP_REQUESTED 4u

/** Number of slots for lists of up to `ids_max` ids. */
static inline uint64_t rung__lookup_slots(uint64_t ids_max)
{
	return 4 * ids_max + 2;
}

/* The slot of an id, or the free slot where it belongs. */
static inline __attribute__((always_inline)) uint64_t rung__lookup_find(
	const struct rung__lookup *set, unsigned index_bytes, uint64_t free_id, uint64_t id)
{
	const uint64_t mask = (UINT64_C(1) << set->bits) - 1;
	uint64_t slot = (id * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - set->bits);
	uint64_t held = rung__id_get(set->slots, index_bytes, slot);

	while (held != id && held != free_id) {
		slot = (slot + 1) & mask;
		held = rung__id_get(set->slots, index_bytes, slot);
	}
	return slot;
}

static inline __attribute__((always_inline)) void rung__lookup_fill_as(
	struct rung__lookup *set, unsigned index_bytes, uint64_t free_id, const void *ids,
	uint64_t begin, uint64_t end, uint64_t lookup_count)
{
	set->few = (const char *)ids + begin * index_bytes;
	set->few_count = end - begin <= RUNG__LOOKUP_FEW || lookup_count <= RUNG__LOOKUP_REQUESTED
	                         ? end - begin
	                         : 0;
	if (set->few_count)
		return;
	set->bits = 1;
	while (UINT64_C(1) << set->bits < 2 * (end - begin))
		set->bits++;
	for (uint64_t slot = 0; slot < UINT64_C(1) << set->bits; slot++)
		rung__id_set(set->slots, index_bytes, slot, free_id);
	for (; begin < end; begin++) {
		const uint64_t id = rung__id_get(ids, index_bytes, begin);

		rung__id_set(set->slots, index_bytes,
		             rung__lookup_find(set, index_bytes, free_id, id), id);
	}
}

/**
 * Fill the set with ids [begin, end); ids equal to free_id are left out.
 * @param lookup_count  the number of ids that will be looked up, which decides the form of
 *                      the set: slots, or the list itself
 */
static inline void rung__lookup_fill(struct rung__lookup *set, uint64_t free_id, const void *ids,
                                     uint64_t begin, uint64_t end, uint64_t lookup_count)
{
	if (set->index_bytes == 4)
		rung__lookup_fill_as(set, 4, free_id, ids, begin, end, lookup_count);
	else
		rung__lookup_fill_as(set, 8, free_id, ids, begin, end, lookup_count);
}

/* No early exit, so that several ids are compared at once by vector instructions. */
static inline __attribute__((always_inline)) bool rung__lookup_among(const struct rung__lookup *set,
                                                                     unsigned index_bytes,
                                                                     uint64_t id)
{
	const uint32_t *narrow = set->few;
	const uint64_t *wide = set->few;
	uint32_t found = 0;

	if (index_bytes == 4) {
		for (uint64_t k = 0; k < set->few_count; k++)
			found |= narrow[k] == (uint32_t)id;
	} else {
		for (uint64_t k = 0; k < set->few_count; k++)
			found |= wide[k] == id;
	}
	return found;
}

static inline __attribute__((always_inline)) bool rung__lookup_has(const struct rung__lookup *set,
                                                                   unsigned index_bytes,
                                                                   uint64_t free_id, uint64_t id)
{
	if (set->few_count)
		return rung__lookup_among(set, index_bytes, id);
	return rung__id_get(set->slots, index_bytes,
	                    rung__lookup_find(set, index_bytes, free_id, id)) == id;
}

static inline __attribute__((always_inline)) void rung__lookup_mark_as(
	const struct rung__lookup *set, unsigned index_bytes, uint64_t free_id, const void *ids,
	uint64_t first, uint64_t count, uint64_t *bits, uint64_t bit)
{
	uint64_t word = 0;

	for (uint64_t i = 0; i < count; i++, bit++) {
		const uint64_t id = rung__id_get(ids, index_bytes, first + i);

		word |= (uint64_t)(id != free_id && rung__lookup_has(set, index_bytes, free_id, id))
		        << (bit % 64);
		if (bit % 64 == 63 || i + 1 == count) {
			if (word) /* other threads set bits of other lists in the same word */
				__atomic_fetch_or(&bits[bit / 64], word, __ATOMIC_RELAXED);
			word = 0;
		}
	}
}

/** Set bit `bit` + i of `bits` for each i below count with ids[first + i] in the set. */
static inline void rung__lookup_mark(const struct rung__lookup *set, uint64_t free_id,
                                     const void *ids, uint64_t first, uint64_t count,
                                     uint64_t *bits, uint64_t bit)
{
	if (set->index_bytes == 4)
		rung__lookup_mark_as(set, 4, free_id, ids, first, count, bits, bit);
	else
		rung__lookup_mark_as(set, 8, free_id, ids, first, count, bits, bit);
}

#endif

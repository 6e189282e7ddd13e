/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The vertices of a batch by id: a hash table of slots, each an id and a number, both TABLE_NONE
 * when free. It has at least twice as many slots as there can be ids, so that searches are short; a
 * search ends after all slots at the latest. Ids are never removed. The slot of an id depends on
 * timing, but no result of a batch depends on the slot. Valid CUDA and C++17.
 */
#ifndef RUNG_KERNELS_VERTEX_TABLE_H
#define RUNG_KERNELS_VERTEX_TABLE_H

#include "warp.h"

#define TABLE_NONE UINT64_MAX /* never a vertex id, because ids are below the vertex count */

struct vertex_table {
	unsigned long long *slots; /* [2 * (mask + 1)] pairs of id and number */
	uint64_t mask;
};

/** The slot of an id; a new id gets a free slot. Several threads may search for the same id. */
static __device__ __forceinline__ uint64_t table_slot(const struct vertex_table &table, uint64_t id)
{
	uint64_t slot = rung__mix64(id) & table.mask;

	for (uint64_t n = 0; n <= table.mask; n++) {
		unsigned long long *key = table.slots + 2 * slot;
		unsigned long long held = __ldcg(key);

		if (held == TABLE_NONE)
			held = atomicCAS(key, (unsigned long long)TABLE_NONE,
			                 (unsigned long long)id);
		if (held == TABLE_NONE || held == id)
			break;
		slot = (slot + 1) & table.mask;
	}
	return slot;
}

/** Offer a number: the slot keeps the smallest offer. */
static __device__ __forceinline__ void table_offer(const struct vertex_table &table, uint64_t slot,
                                                   uint64_t number)
{
	unsigned long long *held = table.slots + 2 * slot + 1;

	/* read before the atomic: otherwise all edges of a popular vertex would queue for one
	 * address */
	if (__ldcg(held) > number)
		atomicMin(held, (unsigned long long)number);
}

/* The number of a slot. In a kernel that can change the number, use the function ending in _now,
 * whose read bypasses the read-only cache. */
static __device__ __forceinline__ uint64_t table_number_now(const struct vertex_table &table,
                                                            uint64_t slot)
{
	return __ldcg(table.slots + 2 * slot + 1);
}

static __device__ __forceinline__ uint64_t table_number(const struct vertex_table &table,
                                                        uint64_t slot)
{
	return __ldg(table.slots + 2 * slot + 1);
}

#endif

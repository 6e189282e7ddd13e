/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The position of each id in its batch: a dense table for small graphs, a hash table for larger
 * ones. Both are empty between batches. Private to sampler*.c.
 */
#ifndef RUNG_SAMPLER_POSITIONS_H
#define RUNG_SAMPLER_POSITIONS_H

#include "base/base.h"

/* no position, so a batch has fewer vertices than this number */
#define RUNG__POSITION_NONE UINT32_MAX

struct rung__positions {
	uint32_t *dense; /* [vertex_count] RUNG__POSITION_NONE without a position; NULL: hashed */
	/* [slot_count] (low half of the id) << 32 | (position + 1); 0: free. At most half of them
	 * are in use */
	uint64_t *slots;
	uint64_t slot_count; /* a power of two, or 0 */
};

/** @param hashed  true: a hash table, which grows with the batches; false: 4 bytes per vertex.
 * @return false: no memory */
bool rung__positions_init(struct rung__positions *positions, uint64_t vertex_count, bool hashed);
void rung__positions_fini(struct rung__positions *positions);

/** Ensure space for `count_max` ids; the first `count` of vertices are in the table, and are
 * inserted again when a hash table grows. @return 0 or RUNG_E_NOMEM */
int rung__positions_reserve(struct rung__positions *positions, const uint64_t *vertices,
                            uint64_t count, uint64_t count_max);

/** Empty the table, whose ids are `vertices`. */
void rung__positions_clear(struct rung__positions *positions, const uint64_t *vertices,
                           uint64_t count);

/* Multiplicative hashing (Knuth, The Art of Computer Programming, 6.4): consecutive ids get distant
 * slots. */
static inline uint64_t rung__positions_slot(const struct rung__positions *positions, uint64_t id)
{
	return (id * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (positions->slot_count - 1);
}

/* Entry of an id: never 0, because a position is below RUNG__POSITION_NONE. */
static inline uint64_t rung__positions_entry(uint64_t id, uint32_t position)
{
	return id << 32 | (position + UINT32_C(1));
}

/* Whether an entry is that of an id. An entry has only the low half of an id; ids of 8 bytes are
 * then compared with the vertices of the batch. */
static inline bool rung__positions_is(uint64_t entry, uint64_t id, const uint64_t *vertices,
                                      unsigned id_bytes)
{
	return entry >> 32 == (id & UINT32_MAX) &&
	       (id_bytes == 4 || vertices[(uint32_t)entry - 1] == id);
}

/** Return the position of an id; an id without a position gets `next`. The table must have space
 * for it. Always inline, so that id_bytes and hashed are constants in each caller's loop. */
static inline __attribute__((always_inline)) uint32_t rung__positions_put(
	struct rung__positions *positions, uint64_t id, uint32_t next, const uint64_t *vertices,
	unsigned id_bytes, bool hashed)
{
	uint64_t slot;

	if (!hashed) {
		const uint32_t position = positions->dense[id];

		if (position == RUNG__POSITION_NONE)
			positions->dense[id] = next;
		return position == RUNG__POSITION_NONE ? next : position;
	}
	for (slot = rung__positions_slot(positions, id); positions->slots[slot];
	     slot = (slot + 1) & (positions->slot_count - 1)) {
		if (rung__positions_is(positions->slots[slot], id, vertices, id_bytes))
			return (uint32_t)positions->slots[slot] - 1;
	}
	positions->slots[slot] = rung__positions_entry(id, next);
	return next;
}

/** Prefetch the entry of an id for writing. */
static inline __attribute__((always_inline)) void rung__positions_fetch(
	const struct rung__positions *positions, uint64_t id, bool hashed)
{
	if (hashed)
		__builtin_prefetch(&positions->slots[rung__positions_slot(positions, id)], 1);
	else
		__builtin_prefetch(&positions->dense[id], 1);
}

#endif

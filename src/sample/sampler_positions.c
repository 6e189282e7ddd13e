/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of positions. The dense table is reset only where a batch has written to it. The hash
 * table is cleared as a whole, which is fast if the batch filled much of it, or slot by slot after
 * a small batch. Slot by slot, the last id is removed first, so that when an id is searched, all
 * slots that were probed when it was inserted are still in use. A repeated id has one entry, with
 * its first position; the search for its other positions ends at a free slot.
 */
#include <string.h>

#include "sample/sampler_positions.h"

#define SLOTS_MIN 1024u
#define SPARSE    16u /* with more slots per id than this, ids are removed slot by slot */

bool rung__positions_init(struct rung__positions *positions, uint64_t vertex_count, bool hashed)
{
	*positions = (struct rung__positions){ 0 };
	if (hashed)
		return true;
	positions->dense = rung__malloc_array(vertex_count, sizeof(*positions->dense));
	if (positions->dense)
		memset(positions->dense, 0xff, vertex_count * sizeof(*positions->dense));
	return positions->dense != NULL;
}

void rung__positions_fini(struct rung__positions *positions)
{
	rung__free(positions->dense);
	rung__free(positions->slots);
}

int rung__positions_reserve(struct rung__positions *positions, const uint64_t *vertices,
                            uint64_t count, uint64_t count_max)
{
	uint64_t *old = positions->slots, wanted = RUNG__MAX(positions->slot_count, SLOTS_MIN);

	if (positions->dense || count_max <= positions->slot_count / 2)
		return 0;
	while (wanted / 2 < count_max) /* count_max is below 2^32: no overflow */
		wanted *= 2;
	positions->slots = rung__zalloc_array(wanted, sizeof(*positions->slots));
	if (!positions->slots) {
		positions->slots = old;
		return rung__fail(RUNG_E_NOMEM,
		                  "batch: no memory to number %" PRIu64
		                  " vertices; use a smaller batch or fanout",
		                  count_max);
	}
	positions->slot_count = wanted;
	rung__free(old);
	for (uint64_t i = 0; i < count; i++)
		rung__positions_put(positions, vertices[i], (uint32_t)i, vertices, 8, true);
	return 0;
}

/* Remove the entry of an id with this position, if it has one. */
static void forget(struct rung__positions *positions, uint64_t id, uint32_t position)
{
	uint64_t slot = rung__positions_slot(positions, id);

	while (positions->slots[slot] &&
	       positions->slots[slot] != rung__positions_entry(id, position))
		slot = (slot + 1) & (positions->slot_count - 1);
	positions->slots[slot] = 0;
}

void rung__positions_clear(struct rung__positions *positions, const uint64_t *vertices,
                           uint64_t count)
{
	if (positions->dense) {
		for (uint64_t i = 0; i < count; i++)
			positions->dense[vertices[i]] = RUNG__POSITION_NONE;
	} else if (count < positions->slot_count / SPARSE) {
		for (uint64_t i = count; i-- > 0;)
			forget(positions, vertices[i], (uint32_t)i);
	} else if (positions->slots) {
		memset(positions->slots, 0, positions->slot_count * sizeof(*positions->slots));
	}
}

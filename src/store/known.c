/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gathers on a device with ids in plain host memory, which the device cannot read.
 *
 * The submitting thread writes the ranks of the ids to pinned memory of the request, where the
 * kernel reads them. In the same pass it lists the cold rows among them, so that refill reads them
 * while the gather waits on its stream. This costs a comparison and a store per row on the
 * submitting thread; a vertex also costs the lookup in the host's map, which the device then need
 * not do. Out-of-range ids are detected here, so the submission fails instead of the request.
 */
#include "store/store.h"

/* The loop over the ids. map_bytes: width of an entry of the map; 0: the ids are ranks. */
__attribute__((always_inline)) static inline int list_ids(struct rung_request *request,
                                                          const struct rung_ids *ids,
                                                          enum rung_dtype dtype, unsigned map_bytes,
                                                          unsigned rank_bytes)
{
	const struct rung_store *store = request->store;
	const uint64_t vertex_count = store->shape.vertex_count, count = ids->count;
	const uint64_t cold_first = store->shape.tiers[RUNG__TIER_NVME].rank_first;
	const bool any_cold = store->shape.tiers[RUNG__TIER_NVME].row_count > 0;
	const void *data = ids->data, *map = store->rank_of_vertex;
	uint64_t *cold_ranks = request->misses.ranks, cold = 0;
	uint32_t *cold_rows = request->misses.rows;
	void *ranks = request->ranks;

	for (uint64_t i = 0; i < count; i++) {
		uint64_t rank = rung__gather_id(data, dtype, i);

		/* checked before it is used, because an id out of range would read beyond the
		 * map */
		if (rank >= vertex_count)
			return rung__gather_outside(dtype, rank, request->index_first + i,
			                            vertex_count);
		if (map_bytes)
			rank = rung__id_get(map, map_bytes, rank);
		rung__id_set(ranks, rank_bytes, i, rank);
		/* without a branch: an entry is written for every row, and is overwritten unless
		 * the row is cold. It is within the array, because cold <= i */
		cold_ranks[cold] = rank;
		cold_rows[cold] = (uint32_t)i;
		cold += any_cold && rank >= cold_first;
	}
	request->misses.count = cold;
	return 0;
}

/* As in list_ids(). Other dtypes than these four were refused before. */
__attribute__((always_inline)) static inline int list_dtype(struct rung_request *request,
                                                            const struct rung_ids *ids,
                                                            unsigned map_bytes, unsigned rank_bytes)
{
	switch (ids->dtype) {
	case RUNG_I32:
		return list_ids(request, ids, RUNG_I32, map_bytes, rank_bytes);
	case RUNG_U32:
		return list_ids(request, ids, RUNG_U32, map_bytes, rank_bytes);
	case RUNG_I64:
		return list_ids(request, ids, RUNG_I64, map_bytes, rank_bytes);
	default:
		return list_ids(request, ids, RUNG_U64, map_bytes, rank_bytes);
	}
}

/* The compiler creates a loop for each combination of widths, so no loop branches on a width. */
__attribute__((always_inline)) static inline int list_mapped(struct rung_request *request,
                                                             const struct rung_ids *ids,
                                                             unsigned map_bytes,
                                                             unsigned rank_bytes)
{
	return rank_bytes == 4 ? list_dtype(request, ids, map_bytes, 4)
	                       : list_dtype(request, ids, map_bytes, 8);
}

int rung__known_list(struct rung_request *request, const struct rung_ids *ids,
                     struct rung_ids *ranks_out)
{
	const struct rung_store *store = request->store;
	const unsigned map_bytes =
		ids->space == RUNG_VERTICES ? (unsigned)store->shape.map_bytes : 0;
	const unsigned rank_bytes = rung__known_rank_bytes(store);
	int rc;

	if (map_bytes == 4)
		rc = list_mapped(request, ids, 4, rank_bytes);
	else if (map_bytes == 8)
		rc = list_mapped(request, ids, 8, rank_bytes);
	else
		rc = list_mapped(request, ids, 0, rank_bytes);
	*ranks_out = (struct rung_ids){
		.data = request->ranks,
		.count = ids->count,
		.dtype = rank_bytes == 4 ? RUNG_U32 : RUNG_U64,
		.space = RUNG_RANKS,
	};
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of ids that a device's caller has in plain host memory: their ranks are written to pinned
 * memory of the request, where the gather reads them, and the cold rows among them are listed here,
 * so that they are read while the gather is still to run. Costs a comparison and a store a row on
 * the caller's thread; a vertex also the lookup in the host's map, which the device then needs not.
 */
#include "store/store.h"

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

		if (rank >= vertex_count)
			return rung__gather_outside(dtype, rank, request->index_first + i,
			                            vertex_count);
		if (map_bytes)
			rank = rung__id_get(map, map_bytes, rank);
		rung__id_set(ranks, rank_bytes, i, rank);
		/* cold <= i: within the array, even if the row turns out not to be cold */
		cold_ranks[cold] = rank;
		cold_rows[cold] = (uint32_t)i;
		cold += any_cold && rank >= cold_first;
	}
	request->misses.count = cold;
	return 0;
}

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

/* A loop for each width, so that none is chosen in it. */
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

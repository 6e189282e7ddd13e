/* SPDX-License-Identifier: Apache-2.0 */
/** The sampler's kernels that choose the neighbours: they write a position in the graph's indices
 * for each edge (`where`). Valid CUDA and C++17. */
#ifndef RUNG_KERNELS_SAMPLER_DRAWS_H
#define RUNG_KERNELS_SAMPLER_DRAWS_H

#include "draws.h"
#include "sampler_step.h"

/* Fanouts up to 32: one group of lanes per list, one lane per edge. A warp has 32 / lanes groups,
 * which iterate together, because draw_position() votes over the whole warp. */
static __global__ void draw_short(const __grid_constant__ struct sample_step s, uint32_t lanes)
{
	const struct draw_group group = draw_group_of(lanes);
	const uint64_t count = dst_count_of(s), lists = WARP_LANES / lanes;

	if (stopped(s))
		return;
	for (uint64_t first = global_warp() * lists; first < count;
	     first += global_warps() * lists) {
		const uint64_t i = first + group.first / lanes;
		const uint64_t at = i < count ? __ldg(s.indptr + i) : 0,
			       draws = i < count ? __ldg(s.indptr + i + 1) - at : 0;
		const uint64_t degree = i < count ? __ldg(s.degrees + i) : 0;
		const bool mine = group.at < draws, chosen = mine && draws < degree;
		uint64_t position = group.at; /* the position in a list that is used whole */

		if (__ballot_sync(WARP_ALL, chosen)) {
			const uint64_t key =
				chosen ? rung__key_join(s.hop_key, __ldg(s.vertices + i)) : 0;
			/* the fallback of this lane's draw, and the largest position that it can
			 * draw */
			const uint64_t fallback = degree - draws + group.at;
			uint64_t number;
			const uint64_t drawn =
				draw_position(group, key, group.at, fallback + 1, chosen, &number);
			const bool falls_back =
				draw_falls_back(group, drawn, degree - draws, chosen, false);

			if (chosen)
				position = falls_back ? fallback : drawn;
		}
		if (mine)
			__stwb(s.where + at + group.at, __ldg(s.begins + i) + position);
	}
}

/* Draws from one list in chunks of 32. The set holds the positions of earlier chunks. */
static __device__ __forceinline__ void draw_list(const struct sample_step &s, uint64_t i,
                                                 uint64_t at, uint64_t draws, uint64_t degree)
{
	const struct draw_group warp = draw_group_of(WARP_LANES);
	const struct draw_set set = { s.sets + 2 * at, 2 * draws };
	const uint64_t key = rung__key_join(s.hop_key, __ldg(s.vertices + i)),
		       begin = __ldg(s.begins + i);
	/* rejections shift the numbers, so a chunk begins after the last number used by the
	 * previous one */
	uint64_t number = warp.at;

	for (uint64_t k = warp.at; k < set.slot_count; k += WARP_LANES)
		__stwb(set.slots + k, (unsigned long long)DRAW_SET_FREE);
	__syncwarp();
	for (uint64_t chunk = 0; chunk < draws; chunk += WARP_LANES) {
		const uint64_t fallback = degree - draws + chunk + warp.at;
		const bool mine = chunk + warp.at < draws;
		const uint64_t drawn =
			draw_position(warp, key, number, fallback + 1, mine, &number);
		const bool taken = mine && draw_set_has(set, drawn);
		const uint64_t position =
			draw_falls_back(warp, drawn, degree - draws + chunk, mine, taken) ? fallback
											  : drawn;

		if (mine) {
			draw_set_add(set, position);
			__stwb(s.where + at + chunk + warp.at, begin + position);
		}
		number = __shfl_sync(WARP_ALL, number, (int)WARP_LANES - 1) + 1 + warp.at;
		__syncwarp(); /* the next chunk must find all positions of this one */
	}
}

/* Fanouts above 32: one warp per list that is longer than the fanout. */
static __global__ void draw_long(const __grid_constant__ struct sample_step s)
{
	const uint64_t count = dst_count_of(s);

	if (stopped(s))
		return;
	for (uint64_t i = global_warp(); i < count; i += global_warps()) {
		const uint64_t at = __ldg(s.indptr + i), draws = __ldg(s.indptr + i + 1) - at,
			       degree = __ldg(s.degrees + i);

		if (draws < degree)
			draw_list(s, i, at, draws, degree);
	}
}

/* The destination of an edge, by binary search: the last destination whose offset is at or before
 * the edge. */
static __device__ __forceinline__ uint64_t dst_of_edge(const uint64_t *indptr, uint64_t dst_count,
                                                       uint64_t edge)
{
	uint64_t low = 0, high = dst_count;

	while (high - low > 1) {
		const uint64_t middle = low + (high - low) / 2;

		if (__ldg(indptr + middle) <= edge)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Fanouts above 32: edges of lists that are used whole. One thread per edge, so that a long list is
 * spread over the grid. */
static __global__ void copy_whole_lists(const __grid_constant__ struct sample_step s)
{
	const uint64_t dst_count = dst_count_of(s), edge_count = edge_count_of(s);

	if (stopped(s))
		return;
	for (uint64_t e = global_thread(); e < edge_count; e += global_threads()) {
		const uint64_t i = dst_of_edge(s.indptr, dst_count, e), at = __ldg(s.indptr + i);

		if (__ldg(s.indptr + i + 1) - at == __ldg(s.degrees + i))
			__stwb(s.where + e, __ldg(s.begins + i) + (e - at));
	}
}

#endif

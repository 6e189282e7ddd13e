/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The sampler's kernels after the draws: they look up the neighbours' ids, give each new vertex the
 * next number in the order of its first edge, and write the indices of the block. Valid CUDA and
 * C++17.
 *
 * At first, the number of a new vertex in the table is the smallest offer: dst_count + e, where e
 * is the first edge to the vertex. number_fresh() replaces it by the final number.
 */
#ifndef RUNG_KERNELS_SAMPLER_NUMBERS_H
#define RUNG_KERNELS_SAMPLER_NUMBERS_H

#include "sampler_step.h"

/* Does the random reads: the neighbour's id from its tier, and its slot in the table. */
static __global__ void look_up(const __grid_constant__ struct sample_step s,
                               const __grid_constant__ struct rung__cuda_graph graph)
{
	const uint64_t dst_count = dst_count_of(s), edge_count = edge_count_of(s);

	if (stopped(s))
		return;
	for (uint64_t e = global_thread(); e < edge_count; e += global_threads()) {
		/* below the edge count of the graph, because find_list() has checked the lists */
		const uint64_t place = __ldcg(s.where + e);
		const uint64_t id = array_item(graph.indices, place);
		uint64_t slot = NO_SLOT;

		if (id < graph.vertex_count) {
			slot = table_slot(s.table, id);
			/* vertices that have a number keep it, because it is smaller than this
			 * offer */
			table_offer(s.table, slot, dst_count + e);
		} else {
			note_smallest(&s.state->bad_place, place);
		}
		__stwb(s.where + e, slot);
	}
}

/* Flags the edges whose offer has won, each of which adds a vertex, and sums the flags of each
 * tile. */
static __global__ void flag_fresh(const __grid_constant__ struct sample_step s)
{
	const uint64_t dst_count = dst_count_of(s), edge_count = edge_count_of(s);

	if (stopped(s))
		return;
	for (uint64_t tile = global_warp(); tile < tiles_of(edge_count); tile += global_warps()) {
		uint64_t fresh_count = 0;

		for (uint32_t k = 0; k < SCAN_TILE; k += WARP_LANES) {
			const uint64_t first = tile * SCAN_TILE + k,
				       e = first + threadIdx.x % WARP_LANES;
			const uint64_t slot = e < edge_count ? __ldg(s.where + e) : NO_SLOT;
			const unsigned fresh = __ballot_sync(
				WARP_ALL,
				slot != NO_SLOT && table_number(s.table, slot) == dst_count + e);

			fresh_count += (unsigned)__popc(fresh);
			if (threadIdx.x % WARP_LANES == 0 && first < edge_count)
				__stwb(s.flags + first / WARP_LANES, fresh);
		}
		if (threadIdx.x % WARP_LANES == 0)
			__stwb(s.sums + tile, fresh_count);
	}
}

/* Converts the sums of tiles to first numbers in one block, and checks that the vertices fit. */
static __global__ void merge_vertices(const __grid_constant__ struct sample_step s,
                                      const __grid_constant__ struct rung__cuda_graph graph)
{
	uint64_t bad, vertex_count;

	if (stopped(s))
		return;
	__syncthreads(); /* all threads have read the outcome before stop() may change it */
	vertex_count = dst_count_of(s) + block_scan(s.sums, tiles_of(edge_count_of(s)));
	if (threadIdx.x != 0)
		return;
	bad = ~(uint64_t)__ldcg(&s.state->bad_place);
	if (bad != UINT64_MAX)
		stop(s, RUNG__CUDA_SAMPLE_BAD_VERTEX, bad, array_item(graph.indices, bad), 0);
	else if (vertex_count > s.vertex_capacity)
		stop(s, RUNG__CUDA_SAMPLE_MANY_VERTICES, 0, 0, 0);
	__stwb(&s.state->report.vertex_counts[s.hop + 1], vertex_count);
}

/* Gives the vertices of flagged edges their final numbers, in the order of the edges. */
static __global__ void number_fresh(const __grid_constant__ struct sample_step s)
{
	const uint64_t dst_count = dst_count_of(s), edge_count = edge_count_of(s);
	const uint32_t lane = threadIdx.x % WARP_LANES;

	if (stopped(s))
		return;
	for (uint64_t tile = global_warp(); tile < tiles_of(edge_count); tile += global_warps()) {
		uint64_t number = dst_count + __ldg(s.sums + tile);

		for (uint32_t k = 0; k < SCAN_TILE; k += WARP_LANES) {
			const uint64_t first = tile * SCAN_TILE + k;
			const unsigned fresh =
				first < edge_count ? __ldg(s.flags + first / WARP_LANES) : 0;

			if (fresh >> lane & 1) {
				const uint64_t mine =
					number + (unsigned)__popc(fresh & ((1u << lane) - 1));
				unsigned long long *slot =
					s.table.slots + 2 * __ldg(s.where + first + lane);

				__stwb(s.vertices + mine, (uint64_t)__ldcg(slot));
				__stwb(slot + 1, (unsigned long long)mine);
			}
			number += (unsigned)__popc(fresh);
		}
	}
}

/* Writes the indices. This is a separate kernel, because an edge can lead to a vertex that another
 * block numbers. */
static __global__ void write_positions(const __grid_constant__ struct sample_step s)
{
	const uint64_t edge_count = edge_count_of(s);

	if (stopped(s))
		return;
	for (uint64_t e = global_thread(); e < edge_count; e += global_threads())
		__stwb(s.indices + e, (uint32_t)table_number(s.table, __ldg(s.where + e)));
}

#endif

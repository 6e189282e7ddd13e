/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The sampler's kernels up to the indptr of a hop: they enter the seeds into the table, find the
 * list of each vertex, and count the edges. Valid CUDA and C++17.
 *
 * A kernel of one block follows each kernel that may detect errors. It alone decides whether the
 * batch stops, so that the kernels after it see one outcome in all blocks.
 */
#ifndef RUNG_KERNELS_SAMPLER_LISTS_H
#define RUNG_KERNELS_SAMPLER_LISTS_H

#include "sampler_step.h"

/* ---- seeds ---- */

/* Enters the seeds. Each seed offers its index as its number, so edges lead to the first of equal
 * seeds. */
static __global__ void read_seeds(const __grid_constant__ struct sample_step s,
                                  uint64_t vertex_count)
{
	for (uint64_t i = global_thread(); i < s.seed_count; i += global_threads()) {
		const uint64_t id = __ldg(s.seeds + i);

		if (id < vertex_count)
			table_offer(s.table, table_slot(s.table, id), i);
		else
			note_smallest(&s.state->bad_seed, i);
		__stwb(s.vertices + i, id);
	}
}

/* Uses one block. Reports the first error, as a loop over the seeds would. */
static __global__ void merge_seeds(const __grid_constant__ struct sample_step s)
{
	const uint64_t bad = ~(uint64_t)__ldcg(&s.state->bad_seed);

	if (threadIdx.x != 0)
		return;
	if (bad != UINT64_MAX)
		stop(s, RUNG__CUDA_SAMPLE_BAD_SEED, bad, __ldg(s.vertices + bad), 0);
	__stwb(&s.state->report.vertex_counts[0], s.seed_count);
}

/* ---- lists ---- */

/* Finds the list of vertex i of the batch. @return its length; 0 if its indptr is invalid */
static __device__ __forceinline__ uint64_t find_list(const struct sample_step &s,
                                                     const struct rung__cuda_graph &graph,
                                                     uint64_t i)
{
	const uint64_t v = __ldcg(s.vertices + i);
	const uint64_t begin = array_item(graph.indptr, v), end = array_item(graph.indptr, v + 1);
	const bool good = begin <= end && end <= graph.edge_count;
	const uint64_t degree = good ? end - begin : 0;

	if (!good)
		note_smallest(&s.state->bad_list, v);
	__stwb(s.begins + i, begin);
	__stwb(s.degrees + i, degree);
	return degree;
}

/* Sums of draws per tile, for the prefix sums of merge_edges(). The vertices of earlier hops keep
 * their lists, so only new ones are read from the graph. */
static __global__ void find_lists(const __grid_constant__ struct sample_step s,
                                  const __grid_constant__ struct rung__cuda_graph graph)
{
	const uint64_t count = dst_count_of(s);
	/* vertices whose lists an earlier hop has found */
	const uint64_t known = s.hop ? __ldcg(&s.state->report.vertex_counts[s.hop - 1]) : 0;

	if (stopped(s))
		return;
	for (uint64_t tile = global_warp(); tile < tiles_of(count); tile += global_warps()) {
		uint64_t mine = 0, sum;

		for (uint32_t k = threadIdx.x % WARP_LANES; k < SCAN_TILE; k += WARP_LANES) {
			const uint64_t i = tile * SCAN_TILE + k;

			if (i < count)
				mine = add_capped(
					mine, rung__draw_count(s.fanout,
				                               i < known ? __ldcg(s.degrees + i)
				                                         : find_list(s, graph, i)));
		}
		warp_sum_before(mine, &sum);
		if (threadIdx.x % WARP_LANES == 0)
			__stwb(s.sums + tile, sum);
	}
}

/* Converts the sums of tiles to offsets in one block, and checks that the edges fit. */
static __global__ void merge_edges(const __grid_constant__ struct sample_step s,
                                   const __grid_constant__ struct rung__cuda_graph graph)
{
	uint64_t bad, edge_count;

	if (stopped(s))
		return;
	__syncthreads(); /* all threads have read the outcome before stop() may change it */
	edge_count = block_scan(s.sums, tiles_of(dst_count_of(s)));
	if (threadIdx.x != 0)
		return;
	bad = ~(uint64_t)__ldcg(&s.state->bad_list);
	if (bad != UINT64_MAX)
		stop(s, RUNG__CUDA_SAMPLE_BAD_LIST, bad, array_item(graph.indptr, bad),
		     array_item(graph.indptr, bad + 1));
	else if (edge_count > s.edge_capacity)
		stop(s, RUNG__CUDA_SAMPLE_MANY_EDGES, 0, 0, 0);
	__stwb(&s.state->report.edge_counts[s.hop], edge_count);
}

/* Repeats the sums within each tile, from the tile's offset on. */
static __global__ void write_offsets(const __grid_constant__ struct sample_step s)
{
	const uint64_t count = dst_count_of(s);

	if (stopped(s))
		return;
	if (global_thread() == 0)
		__stwb(s.indptr + count, edge_count_of(s));
	for (uint64_t tile = global_warp(); tile < tiles_of(count); tile += global_warps()) {
		uint64_t offset = __ldg(s.sums + tile);

		for (uint32_t k = 0; k < SCAN_TILE; k += WARP_LANES) {
			const uint64_t i = tile * SCAN_TILE + k + threadIdx.x % WARP_LANES;
			const uint64_t draws =
				i < count ? rung__draw_count(s.fanout, __ldg(s.degrees + i)) : 0;
			uint64_t sum;
			const uint64_t before = warp_sum_before(draws, &sum);

			if (i < count)
				__stwb(s.indptr + i, offset + before);
			offset += sum;
		}
	}
}

#endif

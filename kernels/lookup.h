/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What the gather does besides copying: it looks up ids and counts rows, lists misses, and writes
 * the report. Valid CUDA and C++17.
 *
 * Ids and map entries are untrusted: both are compared with row_count before they are used.
 *
 * Rows of the first view, usually the largest part, are not counted: they are the ids that nothing
 * else has counted.
 */
#ifndef RUNG_KERNELS_LOOKUP_H
#define RUNG_KERNELS_LOOKUP_H

#include "finish.h"
#include "rows.h"
#include "views.h"

/* Ids of 4 bytes are sign-extended later, by id_of(), because doing so here would wait for the
 * load. */
static __device__ __forceinline__ uint64_t load_id(const struct rung__cuda_gather &g, uint64_t i)
{
	if (g.id_dtype == RUNG_I64 || g.id_dtype == RUNG_U64)
		return __ldg((const unsigned long long *)g.ids + i);
	return __ldg((const unsigned *)g.ids + i);
}

static __device__ __forceinline__ uint64_t id_of(const struct rung__cuda_gather &g, uint64_t loaded)
{
	/* negative ids are far out of range */
	return g.id_dtype == RUNG_I32 ? (uint64_t)(int64_t)(int32_t)loaded : loaded;
}

static __device__ __forceinline__ uint64_t id_at(const struct rung__cuda_gather &g, uint64_t i)
{
	return id_of(g, load_id(g, i));
}

/* The id must be below row_count. The map entry that is returned is untrusted. */
static __device__ __forceinline__ uint64_t rank_at(const struct rung__cuda_gather &g, uint64_t id)
{
	if (!g.rank_of_vertex)
		return id;
	if (g.map_bytes == 4)
		return __ldg((const unsigned *)g.rank_of_vertex + id);
	return __ldg((const unsigned long long *)g.rank_of_vertex + id);
}

/* Counts invalid ids and keeps the smallest index. One lane does this for the warp. */
static __device__ __forceinline__ void report_bad(const struct rung__cuda_gather &g,
                                                  uint64_t index_first, bool bad)
{
	const unsigned lanes = __ballot_sync(WARP_ALL, bad);

	if (lanes && threadIdx.x % WARP_LANES == 0) {
		atomicAdd(&g.counts->bad_count, (unsigned long long)__popc(lanes));
		atomicMax(&g.counts->bad_index_inverted,
		          ~(unsigned long long)(index_first + (unsigned)__ffs((int)lanes) - 1));
	}
}

/* Appends the warp's misses to the lists with one atomic. The order of the lists is arbitrary. */
static __device__ __forceinline__ void list_misses(const struct rung__cuda_gather &g, uint64_t i,
                                                   uint64_t rank, bool miss)
{
	const unsigned lane = threadIdx.x % WARP_LANES;
	const unsigned lanes = __ballot_sync(WARP_ALL, miss);
	unsigned long long at = 0;

	if (!lanes)
		return;
	if (lane == 0)
		at = atomicAdd(&g.counts->miss_count, (unsigned long long)__popc(lanes));
	if (!g.miss_ranks)
		return;
	at = __shfl_sync(WARP_ALL, at, 0) + (unsigned)__popc(lanes & ((1u << lane) - 1));
	if (miss) {
		__stwb((unsigned long long *)g.miss_ranks + at, (unsigned long long)rank);
		__stwb(g.miss_rows + at, (unsigned)i);
	}
}

/* Adds the warp's rows per view, except the first: lane v keeps the count of view v until the block
 * ends. */
static __device__ __forceinline__ uint32_t count_views(const struct rung__cuda_gather &g,
                                                       uint32_t view, uint32_t counted)
{
	for (uint32_t v = 1; v < g.view_count; v++) {
		const unsigned lanes = __ballot_sync(WARP_ALL, view == v);

		if (threadIdx.x % WARP_LANES == v)
			counted += (unsigned)__popc(lanes);
	}
	return counted;
}

/* Moves the counts to the report and zeroes them for the next gather. One warp calls it, after all
 * blocks have counted. */
static __device__ __forceinline__ void write_report(const struct rung__cuda_gather &g)
{
	const unsigned lane = threadIdx.x % WARP_LANES;
	const bool has_view = lane < g.view_count;
	unsigned long long rows = has_view ? atomicExch(&g.counts->view_rows[lane], 0ull) : 0;
	unsigned long long counted = 0, misses = 0, bad = 0;

	if (lane == 0) {
		misses = atomicExch(&g.counts->miss_count, 0ull);
		bad = atomicExch(&g.counts->bad_count, 0ull);
	}
	for (uint32_t v = 1; v < g.view_count; v++)
		counted += __shfl_sync(WARP_ALL, rows, (int)v);
	if (lane == 0)
		rows = g.id_count - misses - bad - counted;
	if (has_view)
		__stwb((unsigned long long *)&g.report->view_rows[lane], rows);
	if (lane != 0)
		return;
	const unsigned long long bad_index = ~atomicExch(&g.counts->bad_index_inverted, 0ull);

	__stwb((unsigned long long *)&g.report->miss_count, misses);
	__stwb((unsigned long long *)&g.report->bad_count, bad);
	if (bad) {
		__stwb((unsigned long long *)&g.report->bad_index, bad_index);
		__stwb((unsigned long long *)&g.report->bad_id,
		       (unsigned long long)id_at(g, bad_index));
	}
	atomicExch(&g.counts->items_taken[0], 0u);
	atomicExch(&g.counts->items_taken[1], 0u);
}

/* Every warp calls this once, with the rows per view that its lanes have counted. */
static __device__ __forceinline__ void add_view_rows(const struct rung__cuda_gather &g,
                                                     uint32_t view_rows)
{
	const unsigned lane = threadIdx.x % WARP_LANES;

	if (lane > 0 && lane < g.view_count && view_rows)
		atomicAdd(&g.counts->view_rows[lane], (unsigned long long)view_rows);
}

/* The lane of set bit number n of `lanes`, counted from 0; any lane if fewer bits are set. */
static __device__ __forceinline__ uint32_t nth_lane(unsigned lanes, uint32_t n)
{
	uint32_t lane = 0;

#pragma unroll
	for (uint32_t width = WARP_LANES / 2; width > 0; width /= 2) {
		const uint32_t set = (uint32_t)__popc(lanes >> lane & ((1u << width) - 1));

		if (n >= set) {
			n -= set;
			lane += width;
		}
	}
	return lane;
}

/* Move the rows of a warp to its first lanes, because idle lanes in between would have no loads in
 * flight.
 * @return the number of rows */
static __device__ __forceinline__ uint32_t pack_rows(struct row_move *move)
{
	const unsigned lane = threadIdx.x % WARP_LANES;
	const unsigned lanes = __ballot_sync(WARP_ALL, move->from != NULL);
	const uint32_t count = (uint32_t)__popc(lanes);
	const int source = (int)nth_lane(lanes, lane);
	const unsigned long long mine = (unsigned long long)(uintptr_t)move->from;
	const unsigned long long from = __shfl_sync(WARP_ALL, mine, source);

	move->to_row = __shfl_sync(WARP_ALL, move->to_row, source);
	move->from = lane < count ? (const unsigned char *)(uintptr_t)from : NULL;
	return count;
}

#endif

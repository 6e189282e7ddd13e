/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Floyd's draws without replacement (src/sample/sampler_draw.c), by several lanes in parallel.
 * Valid CUDA and C++17.
 *
 * Draw i turns number i of the list's stream of random numbers into a position below first + i + 1,
 * where first is the list's length minus the number of draws. If that position has been drawn
 * before, the draw falls back to position first + i. On the CPU this is a loop over draws. A group
 * of lanes makes up to 32 draws at once, with the same outcome:
 *
 * - A rejected number (rung__bits_below) shifts all later draws by one number. Rejections are so
 *   rare that the group then simply repeats the step.
 * - A draw falls back in two cases. First, if an earlier draw has the same position: the position
 *   is taken, whether that draw kept it or fell back. Second, if its position is first + j, the
 *   fallback of draw j, and draw j did fall back. A draw therefore depends on at most one earlier
 *   draw, which may depend on another one. These chains are followed in steps of 1, 2, 4, 8 and 16.
 * - Lists with more draws are processed in chunks of 32. The positions of earlier chunks are in a
 *   set (struct draw_set).
 */
#ifndef RUNG_KERNELS_DRAWS_H
#define RUNG_KERNELS_DRAWS_H

#include "base/random.h"
#include "warp.h"

#define DRAW_SET_FREE UINT64_MAX /* never a position, because a degree is at most the edge count */

/** A group of adjacent lanes of a warp that draw from one list. */
struct draw_group {
	uint32_t lanes; /* a power of two up to 32, the same for the whole warp */
	uint32_t first; /* first lane of the group within the warp */
	uint32_t at;    /* this lane's index within the group */
	unsigned mask;  /* lanes of the group, as for __ballot_sync() */
};

static __device__ __forceinline__ struct draw_group draw_group_of(uint32_t lanes)
{
	const uint32_t lane = threadIdx.x % WARP_LANES;
	const uint32_t first = lane & ~(lanes - 1);
	const struct draw_group group = { lanes, first, lane - first,
		                          (WARP_ALL >> (WARP_LANES - lanes)) << first };

	return group;
}

/**
 * The draw of each lane: a position below `limit`. All lanes of the warp must call this, because it
 * contains a vote. The lanes that draw are the first ones of their group.
 *
 * @param key         of the list's stream
 * @param number      index in the stream for this lane, if no number is rejected
 * @param number_out  the index that was used
 */
static __device__ __forceinline__ uint64_t draw_position(const struct draw_group &group,
                                                         uint64_t key, uint64_t number,
                                                         uint64_t limit, bool draws,
                                                         uint64_t *number_out)
{
	uint64_t position = 0;

	for (;;) {
		const bool bad =
			draws && !rung__bits_below(rung__rng_at(key, number), limit, &position);
		const unsigned thrown = __ballot_sync(WARP_ALL, bad);
		const unsigned ours = thrown & group.mask;

		if (!thrown)
			break;
		/* the first lane with a rejected number and all lanes after it advance by one
		 * number; their results are not valid yet */
		if (ours && threadIdx.x % WARP_LANES >= (unsigned)__ffs((int)ours) - 1)
			number++;
	}
	*number_out = number;
	return position;
}

/**
 * Whether a draw falls back. All lanes of the warp must call this.
 *
 * @param fallback_first  fallback of the draw of the group's first lane
 * @param taken           an earlier chunk drew the position
 */
static __device__ __forceinline__ bool draw_falls_back(const struct draw_group &group,
                                                       uint64_t position, uint64_t fallback_first,
                                                       bool draws, bool taken)
{
	const uint32_t lane = threadIdx.x % WARP_LANES;
	const unsigned drawing = __ballot_sync(WARP_ALL, draws) & group.mask;
	const unsigned same = __match_any_sync(WARP_ALL, position) & drawing;
	const bool twice = draws && (taken || (same & ((1u << lane) - 1)) != 0);
	/* if `of` is below `at`, the position is the fallback of lane `of`, an earlier one;
	 * positions below fallback_first wrap to huge numbers */
	const uint64_t of = position - fallback_first;
	int root = (int)(draws && !twice && of < group.at ? group.first + (uint32_t)of : lane);

	/* pointer doubling: a chain has at most `lanes` draws */
	for (uint32_t step = 1; step < group.lanes; step *= 2)
		root = __shfl_sync(WARP_ALL, root, root);
	return __shfl_sync(WARP_ALL, (int)twice, root) != 0;
}

/** Positions drawn from one list: open addressing in twice as many slots, used by one warp only. */
struct draw_set {
	unsigned long long *slots;
	uint64_t slot_count;
};

/* The first slot to search: the hash scaled to the slot count, which is not a power of two. */
static __device__ __forceinline__ uint64_t draw_set_begin(const struct draw_set &set,
                                                          uint64_t position)
{
	return (uint64_t)(((unsigned __int128)rung__mix64(position) * set.slot_count) >> 64);
}

static __device__ __forceinline__ bool draw_set_has(const struct draw_set &set, uint64_t position)
{
	uint64_t slot = draw_set_begin(set, position);

	for (uint64_t n = 0; n < set.slot_count; n++) {
		const uint64_t held = __ldcg(set.slots + slot);

		if (held == position || held == DRAW_SET_FREE)
			return held == position;
		slot = slot + 1 < set.slot_count ? slot + 1 : 0;
	}
	return false;
}

/** Add a position that is not in the set, and that no other lane adds at the same time. */
static __device__ __forceinline__ void draw_set_add(const struct draw_set &set, uint64_t position)
{
	uint64_t slot = draw_set_begin(set, position);

	for (uint64_t n = 0; n < set.slot_count; n++) {
		if (atomicCAS(set.slots + slot, (unsigned long long)DRAW_SET_FREE,
		              (unsigned long long)position) == DRAW_SET_FREE)
			return;
		slot = slot + 1 < set.slot_count ? slot + 1 : 0;
	}
}

#endif

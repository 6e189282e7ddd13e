/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The address of a row in the views of a launch (launch.h), and the checks of views on the host.
 * Used by the gather for rows and by the sampler for lines of the graph. Valid CUDA and C++17.
 */
#ifndef RUNG_KERNELS_VIEWS_H
#define RUNG_KERNELS_VIEWS_H

#include <cuda_runtime.h>

#include "launch.h"

/** The address of row `i` of a view, counted from the view's first rank. */
static __device__ __forceinline__ const unsigned char *row_in_view(
	const struct rung__cuda_view &view, uint64_t i)
{
	uint64_t base = 0;
	uint64_t slot = i;

	if (view.base_count > 1) {
		if (i >> 32 == 0) { /* a GPU's 64-bit division is many times slower */
			slot = (uint32_t)i / view.base_count;
			base = (uint32_t)i % view.base_count;
		} else {
			slot = i / view.base_count;
			base = i % view.base_count;
		}
	}
	return view.base[base] + slot * view.stride;
}

/** The address of the row of a rank, and its view; NULL if no view holds the rank. All lanes check
 * the same view at the same time, so its fields are one constant load for the warp. */
static __device__ __forceinline__ const unsigned char *row_in_views(
	const struct rung__cuda_view *views, uint32_t view_count, uint64_t rank, uint32_t *view_out)
{
	uint64_t rank_first = 0;

	for (uint32_t v = 0; v < view_count; v++) {
		if (rank < views[v].rank_end) {
			*view_out = v;
			return row_in_view(views[v], rank - rank_first);
		}
		rank_first = views[v].rank_end;
	}
	return NULL;
}

/* ---- host side ---- */

/** The stride and the used bases of a view with `rows` rows, combined by OR. With fewer rows than
 * bases, the others are unused and may be NULL. */
static inline uint64_t view_ored(const struct rung__cuda_view *view, uint64_t rows)
{
	uint64_t ored = view->stride;

	for (uint32_t b = 0; b < view->base_count && b < rows; b++)
		ored |= (uint64_t)(uintptr_t)view->base[b];
	return ored;
}

/** Check the views of a launch. @param who  names the kernel in the message.
 * @return 0 or RUNG_E_INVAL */
static inline int check_views(const char *who, const struct rung__cuda_view *views,
                              uint32_t view_count, uint64_t row_count, uint32_t row_bytes)
{
	uint64_t rank_first = 0;

	if (view_count > RUNG__CUDA_VIEWS_MAX)
		return rung__fail(RUNG_E_INVAL, "%s: %u views; use at most %d", who,
		                  (unsigned)view_count, RUNG__CUDA_VIEWS_MAX);
	for (uint32_t v = 0; v < view_count; v++) {
		const struct rung__cuda_view *view = &views[v];

		if (view->rank_end < rank_first || view->rank_end > row_count)
			return rung__fail(RUNG_E_INVAL,
			                  "%s: view %u ends at rank %" PRIu64 "; use %" PRIu64
			                  " to %" PRIu64,
			                  who, (unsigned)v, view->rank_end, rank_first, row_count);
		if (view->rank_end == rank_first)
			continue;
		if (view->base_count < 1 || view->base_count > RUNG__CUDA_BASES_MAX)
			return rung__fail(RUNG_E_INVAL, "%s: view %u has %u bases; use 1 to %d",
			                  who, (unsigned)v, (unsigned)view->base_count,
			                  RUNG__CUDA_BASES_MAX);
		if (view->stride < row_bytes)
			return rung__fail(RUNG_E_INVAL,
			                  "%s: view %u has a stride of %" PRIu64
			                  " bytes, less than a row (%u)",
			                  who, (unsigned)v, view->stride, (unsigned)row_bytes);
		for (uint32_t b = 0; b < view->base_count && b < view->rank_end - rank_first; b++)
			if (!view->base[b])
				return rung__fail(RUNG_E_INVAL, "%s: view %u: base %u is NULL", who,
				                  (unsigned)v, (unsigned)b);
		rank_first = view->rank_end;
	}
	return 0;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** The inside of a batch on a GPU, which sampler.cu works in and sampler_room.cu measures. Valid CUDA and C++17. */
#ifndef RUNG_KERNELS_SAMPLER_LAYOUT_H
#define RUNG_KERNELS_SAMPLER_LAYOUT_H

#include "sampler_launch.h"

#define SAMPLE_ALIGN 128u        /* of each part of the workspace: a line */
#define SCAN_TILE 256u           /* items whose sum is one entry of `sums` */
#define SHORT_FANOUT 32u         /* up to so many draws one group of lanes draws a list at once; more need a set */

/** Zeroed before a batch. The report's counts and outcome change only in kernels of one block: the others all see the same. */
struct sample_state {
	struct rung__cuda_sample_report report;
	/* smallest of each kind, inverted: zero and a maximum will do */
	unsigned long long bad_seed, twice_seed, bad_list, bad_place;
};

static inline bool sample_needs_sets(uint32_t fanout)
{
	return fanout > SHORT_FANOUT && fanout != UINT32_MAX;
}

struct sample_step;

/**
 * Cut the workspace into the parts of a step. The sampler was checked.
 * @param workspace  NULL: to know its bytes
 * @param step_out   its pointers into the workspace are set
 * @return 0 or RUNG_E_INVAL (sizes overflow)
 */
extern "C" int rung__cuda_sample_layout(const struct rung__cuda_sampler *sampler, void *workspace,
                                        struct sample_step *step_out, uint64_t *bytes_out);

#endif

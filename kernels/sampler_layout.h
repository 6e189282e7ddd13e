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

/** Offsets into the workspace, in bytes. */
struct sample_layout {
	uint64_t state;
	uint64_t begins;     /* [vertices before the last hop] where a vertex's list begins; kept from hop to hop */
	uint64_t degrees;    /* [the same] */
	uint64_t where;      /* [edges or seeds] an edge's place in the graph's indices, then its slot in the table */
	uint64_t sums;       /* [tiles] */
	uint64_t flags;      /* [edges, in bits] the edges that bring a new vertex */
	uint64_t sets;       /* [2 * edges of hops that need it] drawn positions */
	uint64_t table;      /* [2 * slots] pairs of id and number */
	uint64_t table_slots;
	uint64_t bytes;
};

static inline bool sample_needs_sets(uint32_t fanout)
{
	return fanout > SHORT_FANOUT && fanout != UINT32_MAX;
}

/** @return 0 or RUNG_E_INVAL (sizes overflow); the sampler was checked */
extern "C" int rung__cuda_sample_layout(const struct rung__cuda_sampler *sampler, struct sample_layout *layout_out);

#endif

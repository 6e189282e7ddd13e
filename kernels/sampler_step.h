/* SPDX-License-Identifier: Apache-2.0 */
/** Shared parts of the sampler's kernels (sampler.cu describes how they work together). Valid CUDA
 * and C++17. */
#ifndef RUNG_KERNELS_SAMPLER_STEP_H
#define RUNG_KERNELS_SAMPLER_STEP_H

#include "sample/sample.h"
#include "sampler_launch.h"
#include "scan.h"
#include "vertex_table.h"
#include "views.h"

#define NO_SLOT      UINT64_MAX /* the slot of an invalid id */
#define SAMPLE_ALIGN 128u       /* alignment of each part of the workspace: a line */
#define SCAN_TILE    256u       /* number of items per entry of `sums` */
/* maximum number of draws that a group of lanes makes at once; more draws need a set */
#define SHORT_FANOUT 32u

/**
 * State of a batch, zeroed before it. Only kernels of one block change the counts and the outcome
 * of the report, so that all blocks of the other kernels read the same values.
 */
struct sample_state {
	struct rung__cuda_sample_report report;
	/* the smallest index of each kind of error, inverted: it is found as a maximum, which
	 * starts at zero */
	unsigned long long bad_seed, bad_list, bad_place;
};

/* Without draws (all neighbours) no set is needed. */
static inline bool sample_needs_sets(uint32_t fanout)
{
	return fanout > SHORT_FANOUT && fanout != UINT32_MAX;
}

/* The arguments of the kernels of one hop. */
struct sample_step {
	struct sample_state *state;
	const uint64_t *seeds;
	uint64_t *vertices;
	/* parts of the workspace: */
	/* [vertices before the last hop] first position of a vertex's list; kept for later hops */
	uint64_t *begins;
	uint64_t *degrees; /* [vertices before the last hop] length of the list */
	/* [edges or seeds] an edge's position in the graph's indices, then its slot in the table */
	uint64_t *where;
	uint64_t *sums;            /* [tiles] sums, then the sums before each tile */
	unsigned *flags;           /* [one bit per edge] the edges that add a vertex */
	unsigned long long *sets;  /* [2 * edges of hops that need it] drawn positions */
	struct vertex_table table; /* pairs of id and number */
	uint64_t seed_count;
	uint64_t hop_key; /* of the hop's draws */
	uint64_t vertex_capacity,
		/* maximum numbers of vertices after this hop, and of the hop's edges */
		edge_capacity;
	uint64_t *indptr; /* outputs of this hop */
	uint32_t *indices;
	uint32_t hop, fanout;
};

/**
 * Divide the workspace into the parts of a step. The sampler must have been checked.
 * @param workspace  NULL: only compute its size
 * @param step_out   its pointers into the workspace are set
 * @return 0 or RUNG_E_INVAL (sizes overflow)
 */
extern "C" int rung__cuda_sample_layout(const struct rung__cuda_sampler *sampler, void *workspace,
                                        struct sample_step *step_out, uint64_t *bytes_out);

/* Whether an earlier kernel has ended the batch: the kernel then does nothing. */
static __device__ __forceinline__ bool stopped(const struct sample_step &s)
{
	return __ldcg(&s.state->report.outcome) != RUNG__CUDA_SAMPLE_NOT_YET;
}

/* The number of vertices that the hop starts from. */
static __device__ __forceinline__ uint64_t dst_count_of(const struct sample_step &s)
{
	return __ldcg(&s.state->report.vertex_counts[s.hop]);
}

static __device__ __forceinline__ uint64_t edge_count_of(const struct sample_step &s)
{
	return __ldcg(&s.state->report.edge_counts[s.hop]);
}

static __device__ __forceinline__ uint64_t global_thread()
{
	return (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ __forceinline__ uint64_t global_threads()
{
	return (uint64_t)gridDim.x * blockDim.x;
}

static __device__ __forceinline__ uint64_t tiles_of(uint64_t count)
{
	return (count + SCAN_TILE - 1) / SCAN_TILE;
}

/* Item i of an array. Its line is in a view, as check_array() in sampler_host.cu has verified. */
static __device__ __forceinline__ uint64_t array_item(const struct rung__cuda_array &array,
                                                      uint64_t i)
{
	const uint32_t line_items = LINE_BYTES / array.item_bytes; /* a power of two */
	const uint32_t at = (uint32_t)i & (line_items - 1);
	uint32_t view;
	const unsigned char *line =
		row_in_views(array.views, array.view_count, i / line_items, &view);

	if (array.item_bytes == 4)
		return __ldg((const unsigned *)line + at);
	return __ldg((const uint64_t *)line + at);
}

/* Records an error; the smallest index remains. */
static __device__ __forceinline__ void note_smallest(unsigned long long *inverted, uint64_t index)
{
	atomicMax(inverted, ~(unsigned long long)index);
}

/** End the batch. Called by one thread of a kernel with one block. */
static __device__ __forceinline__ void stop(const struct sample_step &s, uint64_t outcome,
                                            uint64_t index, uint64_t value, uint64_t other)
{
	struct rung__cuda_sample_report *report = &s.state->report;

	__stwb(&report->hop, (uint64_t)s.hop);
	__stwb(&report->index, index);
	__stwb(&report->value, value);
	__stwb(&report->other, other);
	__stwb(&report->outcome, outcome);
}

#endif

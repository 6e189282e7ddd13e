/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The neighbour sampler on a GPU. A hop is a sequence of kernels, each a loop over items that its
 * grid shares evenly:
 *
 *   lists     tiles of vertices  each vertex's list and its number of draws: sums of tiles
 *   edges     one block          sums to prefixes; do the edges fit?
 *   offsets   tiles of vertices  the block's indptr
 *   draw      groups of lanes    positions in the lists (draws.h), one list per group
 *   whole     edges              positions of lists that are used whole; only for large fanouts
 *   look_up   edges              the neighbour's id, from its tier; its slot in the vertex table
 *   fresh     tiles of edges     which edges add a vertex: sums of tiles
 *   vertices  one block          sums to prefixes; do the vertices fit?
 *   number    tiles of edges     new vertices get the next numbers, in the order of their edges
 *   positions edges              ids to numbers
 *
 * The reason for this division: the cost is in random reads of the graph's arrays, perhaps over a
 * link, and of the table. Both are done edge by edge, so that every thread has a load in flight
 * regardless of the degrees, and a vertex with millions of neighbours is spread over the grid. Only
 * the draws are done list by list. They read no tier, and a short list uses only its group of lanes
 * of a warp. Lists that are used whole need no draws. With a fanout of up to 32 the group writes
 * their positions; with a larger one each edge finds its list by a search in indptr.
 *
 * Equality with the CPU's batch: draws depend on the key, not on the thread. A vertex's number is
 * decided by the smallest edge that leads to it: an edge offers its position after all existing
 * vertices, the table keeps the smallest offer, and the edges with winning offers are counted in
 * order. This is the order of first appearance, independent of timing.
 *
 * Kernels keep counts and failures in the batch's state, in device memory. Only kernels of one
 * block change them, so all blocks of a grid take the same path; a kernel that detects an error
 * records it separately. The graph is untrusted: lists and ids are compared with the counts before
 * they are used.
 */
#include "cuda_status.h"
#include "sampler_draws.h"
#include "sampler_lists.h"
#include "sampler_numbers.h"

#define WARPS (BLOCK_THREADS / WARP_LANES)

/* Copies the report to the host. This is the last kernel of a batch and uses one warp. */
static __global__ void write_report(const struct sample_state *state,
                                    struct rung__cuda_sample_report *report)
{
	const uint64_t *from = (const uint64_t *)&state->report;

	for (uint32_t k = threadIdx.x; k < sizeof(*report) / sizeof(*from); k += WARP_LANES) {
		uint64_t word = __ldg(from + k);

		if (k == 0 && word == RUNG__CUDA_SAMPLE_NOT_YET)
			word = RUNG__CUDA_SAMPLE_DONE;
		__stwb((uint64_t *)report + k, word);
	}
}

/* ---- host side ---- */

static_assert(offsetof(struct rung__cuda_sample_report, outcome) == 0,
              "write_report uses it as the first word");
static_assert(sizeof(struct sample_step) + sizeof(struct rung__cuda_graph) <= 4096,
              "the limit of a kernel's arguments");

struct sample_launch {
	struct sample_step step;
	const struct rung__cuda_graph *graph;
	unsigned block_count;
	cudaStream_t stream;
};

/* The number of blocks for `items` items, `block_items` per block: from one to the bound. */
static unsigned blocks_for(const struct sample_launch &l, uint64_t items, uint64_t block_items)
{
	const uint64_t blocks = items / block_items + (items % block_items != 0);

	return blocks < 1 ? 1 : (unsigned)RUNG__MIN(blocks, (uint64_t)l.block_count);
}

/* Starts a kernel with the step and `args`. Does nothing after an error. */
template <class... Args>
static void start(cudaError_t *err, const struct sample_launch &l, unsigned blocks,
                  void (*kernel)(struct sample_step, Args...), Args... args)
{
	struct sample_step step = l.step;
	void *pointers[] = { &step, &args... };

	if (*err == cudaSuccess)
		*err = cudaLaunchKernel(kernel, dim3(blocks), dim3(BLOCK_THREADS), pointers, 0,
		                        l.stream);
}

/* The lanes of a group for this fanout: the next power of two. */
static uint32_t lanes_for(uint32_t fanout)
{
	uint32_t lanes = 1;

	while (lanes < fanout)
		lanes *= 2;
	return lanes;
}

static void start_seeds(cudaError_t *err, const struct sample_launch &l)
{
	const unsigned blocks = blocks_for(l, l.step.seed_count, BLOCK_THREADS);

	start(err, l, blocks, read_seeds, l.graph->vertex_count);
	start(err, l, 1, merge_seeds);
}

/* The counts are on the device, so grids are sized for the largest possible counts, up to the
 * bound. */
static void start_hop(cudaError_t *err, const struct sample_launch &l, uint64_t dst_max)
{
	const uint32_t fanout = l.step.fanout;
	const unsigned edge_blocks = blocks_for(l, l.step.edge_capacity, BLOCK_THREADS);
	const unsigned list_tiles = blocks_for(l, dst_max, SCAN_TILE * WARPS),
		       edge_tiles = blocks_for(l, l.step.edge_capacity, SCAN_TILE * WARPS);

	start(err, l, list_tiles, find_lists, *l.graph);
	start(err, l, 1, merge_edges, *l.graph);
	start(err, l, list_tiles, write_offsets);
	if (fanout <= SHORT_FANOUT)
		start(err, l, blocks_for(l, dst_max, BLOCK_THREADS / lanes_for(fanout)), draw_short,
		      lanes_for(fanout));
	else
		start(err, l, edge_blocks, copy_whole_lists);
	if (sample_needs_sets(fanout))
		start(err, l, blocks_for(l, dst_max, WARPS), draw_long);
	start(err, l, edge_blocks, look_up, *l.graph);
	start(err, l, edge_tiles, flag_fresh);
	start(err, l, 1, merge_vertices, *l.graph);
	start(err, l, edge_tiles, number_fresh);
	start(err, l, edge_blocks, write_positions);
}

/* ---- arguments ---- */

static int check_sample(const struct rung__cuda_sampler *sampler,
                        const struct rung__cuda_sample *sample, unsigned block_count,
                        uint64_t needed)
{
	if (sample->seed_count < 1 || sample->seed_count > sampler->capacity.vertex_counts[0])
		return rung__fail(RUNG_E_INVAL,
		                  "sampler kernels: a batch of %" PRIu64
		                  " seeds is out of range; use 1 to %" PRIu64,
		                  sample->seed_count, sampler->capacity.vertex_counts[0]);
	if ((uintptr_t)sample->workspace % SAMPLE_ALIGN != 0 || sample->workspace_bytes < needed)
		return rung__fail(RUNG_E_INVAL,
		                  "sampler kernels: a workspace of %" PRIu64
		                  " bytes at %p; use at least %" PRIu64
		                  " bytes, aligned to %u bytes",
		                  sample->workspace_bytes, sample->workspace, needed, SAMPLE_ALIGN);
	if (block_count < 1 || !sample->seeds || !sample->vertices || !sample->workspace ||
	    !sample->report)
		return rung__fail(RUNG_E_INVAL, "sampler kernels: an argument is missing: blocks, "
		                                "seeds, vertices, workspace or report");
	for (uint32_t hop = 0; hop < sampler->hop_count; hop++)
		if (!sample->indptr[hop] ||
		    (!sample->indices[hop] && sampler->capacity.edge_counts[hop]))
			return rung__fail(RUNG_E_INVAL,
			                  "sampler kernels: indptr or indices of hop %u is missing",
			                  (unsigned)hop);
	return 0;
}

extern "C" int rung__cuda_sample_launch(const struct rung__cuda_sampler *sampler,
                                        const struct rung__cuda_sample *sample,
                                        unsigned block_count, struct CUstream_st *stream)
{
	const uint64_t batch_key = rung__key_join(sampler->seed, sample->batch_key);
	const struct sample_state *state;
	struct sample_launch l = {};
	uint64_t needed;
	cudaError_t err;
	int rc = rung__cuda_sampler_check(sampler);

	if (rc == 0)
		rc = rung__cuda_sample_layout(sampler, sample->workspace, &l.step, &needed);
	if (rc == 0)
		rc = check_sample(sampler, sample, block_count, needed);
	if (rc < 0)
		return rc;
	l.step.seeds = sample->seeds;
	l.step.seed_count = sample->seed_count;
	l.step.vertices = sample->vertices;
	l.graph = &sampler->graph;
	l.block_count = block_count;
	l.stream = stream;
	err = cudaMemsetAsync(l.step.state, 0, sizeof(*l.step.state), stream);
	if (err == cudaSuccess)
		err = cudaMemsetAsync(l.step.table.slots, 0xff, (l.step.table.mask + 1) * 16,
		                      stream); /* sets all slots to TABLE_NONE */
	start_seeds(&err, l);
	for (uint32_t hop = 0; hop < sampler->hop_count; hop++) {
		l.step.hop = hop;
		l.step.fanout = sampler->fanouts[hop];
		l.step.hop_key = rung__key_join(batch_key, hop);
		l.step.indptr = sample->indptr[hop];
		l.step.indices = sample->indices[hop];
		l.step.edge_capacity = sampler->capacity.edge_counts[hop];
		l.step.vertex_capacity = sampler->capacity.vertex_counts[hop + 1];
		start_hop(&err, l, sampler->capacity.vertex_counts[hop]);
	}
	state = l.step.state;
	if (err == cudaSuccess) {
		struct rung__cuda_sample_report *report = sample->report;
		void *pointers[] = { &state, &report };

		err = cudaLaunchKernel(write_report, dim3(1), dim3(WARP_LANES), pointers, 0,
		                       stream);
	}
	return cuda_status(err, "starting the sampler kernels");
}

extern "C" int rung__cuda_sampler_blocks(unsigned *block_count_out)
{
	static const void *const kernels[] = {
		/* comes first, because most of a batch's time is spent in it and the first kernel
		 * determines block_count */
		(const void *)look_up,          (const void *)read_seeds,
		(const void *)merge_seeds,      (const void *)find_lists,
		(const void *)merge_edges,      (const void *)write_offsets,
		(const void *)draw_short,       (const void *)draw_long,
		(const void *)copy_whole_lists, (const void *)flag_fresh,
		(const void *)merge_vertices,   (const void *)number_fresh,
		(const void *)write_positions,  (const void *)write_report,
	};

	return cuda_load(kernels, BLOCK_THREADS, "loading the sampler kernels", block_count_out);
}

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Neighbour sampling on a GPU, as C functions. A batch equals that of rung_sampler_sample() for the
 * same graph, fanouts, seed and batch key, entry by entry (see rung/sampler.h); only the point at
 * which an error stops the batch may differ.
 *
 * When opening: fill in a struct rung__cuda_sampler, with its capacity from
 * rung__cuda_sample_capacity_max() or with smaller numbers; then rung__cuda_sampler_check(),
 * rung__cuda_sampler_workspace(), rung__cuda_sampler_blocks(). Then allocate, for each batch in
 * flight, a workspace, the outputs and a report. For each batch: rung__cuda_sample_launch(), wait
 * for the stream or an event after the batch, rung__cuda_sample_status().
 *
 * The rules of launch.h apply: a launch queues its work on a stream and returns, and does not
 * allocate, wait or log. All pointers are addresses that the current device can use. Structs are
 * read only during the call. Any number of threads may call.
 *
 * One launch queues all hops on the stream. Counts, offsets and failures pass from kernel to kernel
 * in device memory, grids are sized for the largest counts, and a report in mapped host memory ends
 * the batch. The capacity is fixed at opening: the worst case or less. A batch that needs more
 * stops before it exceeds the capacity, and reports the sizes it needs. Seeds and the graph are
 * untrusted: an invalid list or id is reported and not used.
 *
 * The graph's arrays are divided into lines of 128 bytes. Views contain lines in the same way as
 * rows, so both share the tiers and the budget.
 */
#ifndef RUNG_KERNELS_SAMPLER_H
#define RUNG_KERNELS_SAMPLER_H

#include "launch.h"
#include "rung/sampler.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * An array of a graph, divided into lines of 128 bytes: item e is in line e * item_bytes / 128.
 * Each line is in one view, like a row. Strides are at least 128. Bases and strides are multiples
 * of item_bytes, and preferably of 128, for speed. Only the part of the last line that contains
 * items is read.
 */
struct rung__cuda_array {
	uint32_t item_bytes; /* 4 or 8 */
	uint32_t view_count; /* 0 only for an array without items */
	struct rung__cuda_view views[RUNG__CUDA_VIEWS_MAX];
};

/** Lines of an array. */
static inline uint64_t rung__cuda_lines(uint64_t item_count, uint32_t item_bytes)
{
	const uint64_t line_items = 128 / item_bytes;

	return item_count / line_items + (item_count % line_items != 0);
}

/** A graph as in rung/graph.h. Its arrays are untrusted: entries are checked before use. */
struct rung__cuda_graph {
	uint64_t vertex_count;
	uint64_t edge_count;
	struct rung__cuda_array indptr;  /* vertex_count + 1 items of 8 bytes */
	struct rung__cuda_array indices; /* edge_count items of 4 or 8 bytes */
};

/** Capacity of a batch. A batch that needs more ends with a report of its needs. */
struct rung__cuda_sample_capacity {
	/* vertices before each hop ([0]: the seeds) and after the last one; not decreasing */
	uint64_t vertex_counts[RUNG_HOPS_MAX + 1];
	uint64_t edge_counts[RUNG_HOPS_MAX];
};

struct rung__cuda_sampler {
	struct rung__cuda_graph graph;
	uint32_t fanouts[RUNG_HOPS_MAX]; /* each at least 1; UINT32_MAX: all neighbours */
	uint32_t hop_count;              /* 1 to RUNG_HOPS_MAX */
	uint64_t seed;                   /* seed of all draws */
	struct rung__cuda_sample_capacity capacity;
};

/**
 * Compute a capacity that no batch of up to seed_count_max seeds exceeds: every list is as long as
 * the fanout and no vertex is drawn twice, limited by the size of the graph and by repeated seeds.
 * With "all neighbours" this is the whole graph, in which the lists of repeated seeds may not fit,
 * so use smaller numbers.
 * @return 0, RUNG_E_INVAL (hop count, a fanout of 0, no seeds or too many of them)
 */
int rung__cuda_sample_capacity_max(uint64_t vertex_count, uint64_t edge_count,
                                   const uint32_t *fanouts, uint32_t hop_count,
                                   uint64_t seed_count_max,
                                   struct rung__cuda_sample_capacity *capacity_out);

/** Check everything that can be checked without reading the graph. Each launch repeats this check.
 * @return 0, RUNG_E_INVAL */
int rung__cuda_sampler_check(const struct rung__cuda_sampler *sampler);

/** Device memory that a batch needs in addition to its outputs. @return 0, RUNG_E_INVAL */
int rung__cuda_sampler_workspace(const struct rung__cuda_sampler *sampler, uint64_t *bytes_out);

/** Like rung__cuda_gather_blocks(), for the sampler. */
int rung__cuda_sampler_blocks(unsigned *block_count_out);

/** Outcome of a batch. Unless it is SAMPLE_DONE, the outputs are invalid. */
enum rung__cuda_sample_outcome {
	RUNG__CUDA_SAMPLE_NOT_YET = 0, /* the report was zeroed and has not been written since */
	RUNG__CUDA_SAMPLE_DONE,
	RUNG__CUDA_SAMPLE_BAD_SEED,      /* seed `index` is `value`, not a vertex */
	RUNG__CUDA_SAMPLE_MANY_EDGES,    /* edge_counts[hop] exceeds the capacity */
	RUNG__CUDA_SAMPLE_MANY_VERTICES, /* vertex_counts[hop + 1] exceeds the capacity */
	/* graph: indptr[index] is `value`, and the next entry is `other` */
	RUNG__CUDA_SAMPLE_BAD_LIST,
	RUNG__CUDA_SAMPLE_BAD_VERTEX /* graph: indices[index] is `value`, not a vertex */
};

/**
 * Results of a batch. The host reads them after the stream has passed the batch. If a hop has
 * several errors of one kind, the one with the smallest index is reported.
 */
struct rung__cuda_sample_report {
	uint64_t outcome; /* enum rung__cuda_sample_outcome */
	uint64_t hop;     /* the hop in which the batch ended early */
	uint64_t index, value, other;
	/* as in the capacity; set up to the hop in which the batch ended */
	uint64_t vertex_counts[RUNG_HOPS_MAX + 1];
	uint64_t edge_counts[RUNG_HOPS_MAX]; /* UINT64_MAX means that many or more */
};

struct rung__cuda_sample {
	const uint64_t *seeds; /* each entry is read once */
	uint64_t seed_count;   /* at least 1, at most capacity.vertex_counts[0] */
	uint64_t batch_key;
	/* output [capacity.vertex_counts[hop_count]]: the batch's vertices, seeds first */
	uint64_t *vertices;
	/* outputs [capacity.vertex_counts[hop] + 1], as in struct rung_block */
	uint64_t *indptr[RUNG_HOPS_MAX];
	uint32_t *indices[RUNG_HOPS_MAX]; /* out [capacity.edge_counts[hop]] */
	/* aligned to 128 bytes, for one batch at a time; batches need no contents of earlier
	 * ones */
	void *workspace;
	uint64_t workspace_bytes;                /* at least rung__cuda_sampler_workspace() */
	struct rung__cuda_sample_report *report; /* mapped host memory, or the device's */
};

/**
 * Sample one batch. All hops are queued on the stream at once; counts pass from hop to hop in
 * device memory.
 *
 * @param block_count  bound of the grids, from rung__cuda_sampler_blocks()
 * @return 0, or as rung__cuda_gather_launch()
 */
int rung__cuda_sample_launch(const struct rung__cuda_sampler *sampler,
                             const struct rung__cuda_sample *sample, unsigned block_count,
                             struct CUstream_st *stream);

/**
 * The report of a batch as a status, with the message of a failure.
 * @return 0 (done), RUNG_E_RANGE (bad seed; bad vertex in the graph), RUNG_E_NOMEM (beyond the
 *         capacity), RUNG_E_FORMAT (bad list in the graph), RUNG_E_IO (no report)
 */
int rung__cuda_sample_status(const struct rung__cuda_sampler *sampler,
                             const struct rung__cuda_sample_report *report);

#ifdef __cplusplus
}
#endif
#endif

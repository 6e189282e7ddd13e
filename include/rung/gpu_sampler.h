/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Neighbour sampling on a GPU, for a loader (rung_loader_opts.gpu_sampler). A batch equals, entry
 * by entry, the one that rung_sampler_sample() returns for the same graph, fanouts, seed and batch
 * key. It stays in GPU memory, and its vertices are the ids of the gather that follows.
 *
 * The arrays of the graph are tiered like the features: the first part, with the hottest vertices,
 * is interleaved over the GPUs of the plan. The rest is in host memory, which kernels read over the
 * link.
 *
 * The plan determines the sizes of these parts (rung_plan_opts.sample_on_gpu; without it, all of
 * the graph is in host memory). Pass a plan for the dataset, or NULL for the plan of the store; for
 * an attached store, NULL places the graph in host memory. Damage in the graph is reported by the
 * batch that reads it. The message of RUNG_E_NOMEM has the free GPU memory.
 */
#ifndef RUNG_GPU_SAMPLER_H
#define RUNG_GPU_SAMPLER_H

#include "plan.h"
#include "sampler.h"
#include "store.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rung_gpu_sampler;

/** Options of rung_gpu_sampler_create(). */
struct rung_gpu_sampler_opts {
	size_t size;             /**< sizeof the struct, set by the initialiser */
	const uint32_t *fanouts; /**< [hop_count], as in struct rung_sampler_opts */
	uint32_t hop_count;
	uint64_t seed;
	uint64_t seed_count_max; /**< maximum seeds of a batch; 0: 1024 */
	/** maximum vertices of a batch; 0: as many as are possible. A larger batch fails */
	uint64_t vertex_count_max;
	/** maximum edges of a hop; 0: as many as are possible, which is the whole graph if a
	 * fanout is "all" */
	uint64_t edge_count_max;
	enum rung_draws draws; /**< RUNG_DRAWS_ALL; only the CPU samples RUNG_DRAWS_NEW */
};

/** Initialiser: all defaults. In C++: rung_gpu_sampler_opts_init(). */
#define RUNG_GPU_SAMPLER_OPTS_INIT RUNG_INIT(struct rung_gpu_sampler_opts)
RUNG_INIT_FUNCTION(rung_gpu_sampler_opts, {})

/**
 * Load the relabelled graph of a dataset as the plan assigns, and create a sampler for it. See the
 * top of this file.
 *
 * @param store        gathers on a GPU; must outlive the sampler
 * @param ds           the dataset of the store; may be closed afterwards
 * @param plan         may be destroyed afterwards; NULL: the plan of the store
 * @param sampler_out  free it with rung_gpu_sampler_destroy()
 * @return 0, RUNG_E_NOSUP (the store gathers on the CPU; draws), RUNG_E_INVAL (opts), RUNG_E_NOMEM,
 *         RUNG_E_IO
 *
 * Threads: any. Stream: none; the graph is complete when the call returns.
 */
RUNG_API int rung_gpu_sampler_create(struct rung_store *store, const struct rung_dataset *ds,
                                     const struct rung_plan *plan,
                                     const struct rung_gpu_sampler_opts *opts,
                                     struct rung_gpu_sampler **sampler_out);

/**
 * Free a sampler and its memory on the GPU and on the host.
 *
 * @param sampler  the sampler; NULL is allowed
 *
 * Destroy the loaders that use it first, and close the store after it. Batches that these loaders
 * returned are invalid from then on.
 *
 * Threads: any, but no other call with the same sampler. Stream: none.
 */
RUNG_API void rung_gpu_sampler_destroy(struct rung_gpu_sampler *sampler);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Neighbour sampling on a GPU, for a loader (rung_loader_opts.gpu_sampler). A batch is the one that
 * rung_sampler_sample() gives for the same graph, fanouts, seed and batch key, entry by entry. It
 * stays in GPU memory: its vertices are the ids of the gather that follows.
 *
 * The graph lies on the store's rungs: the first part of its arrays, where the hottest vertices are, is interleaved over the plan's GPUs,
 * the rest is in host memory that kernels read over the link.
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
	size_t size;                 /**< sizeof(struct rung_gpu_sampler_opts), set by the initialiser */
	const uint32_t *fanouts;     /**< [hop_count], as in struct rung_sampler_opts */
	uint32_t hop_count;
	uint64_t seed;
	uint64_t seed_count_max;     /**< seeds of a batch; 0: 1024 */
	uint64_t vertex_count_max;   /**< vertices of a batch; 0: as many as there can be. A batch that has more fails */
	uint64_t edge_count_max;     /**< edges of a hop; 0: likewise. With "all neighbours" as a fanout that is the whole graph */
	enum rung_draws draws;       /**< RUNG_DRAWS_ALL: the other is for the CPU's sampler alone */
};

/** Initialiser: all defaults. In C++: rung_gpu_sampler_opts_init(). */
#define RUNG_GPU_SAMPLER_OPTS_INIT { .size = sizeof(struct rung_gpu_sampler_opts) }
RUNG_INIT_FUNCTION(rung_gpu_sampler_opts, {})

/**
 * Load the relabelled graph of a dataset to where the plan puts it (rung_plan_opts.sample_on_gpu; without it, all of it to host memory).
 *
 * @param store        its gathers run on a GPU; must outlive the sampler
 * @param ds           that of the store; may be closed afterwards
 * @param plan         one of the same dataset; may be destroyed afterwards. NULL: the plan that the
 *                     store was opened with; of an attached store the graph is in host memory
 * @param sampler_out  free with rung_gpu_sampler_destroy()
 * @return 0, RUNG_E_NOSUP (the store's gathers run on the CPU; draws), RUNG_E_INVAL (opts), RUNG_E_NOMEM (says how much the GPU has free),
 *         RUNG_E_IO. What the graph holds is not read here: a batch that meets an id or a list that cannot be says so.
 */
RUNG_API int rung_gpu_sampler_create(struct rung_store *store, const struct rung_dataset *ds, const struct rung_plan *plan,
                                     const struct rung_gpu_sampler_opts *opts, struct rung_gpu_sampler **sampler_out);
/** Free the sampler and its memory on GPU and host, after the loaders that use it. NULL is allowed.
 */
RUNG_API void rung_gpu_sampler_destroy(struct rung_gpu_sampler *sampler);

#ifdef __cplusplus
}
#endif
#endif

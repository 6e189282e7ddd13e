/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampling on the device of a store: the files of the graph, the share of them on the GPUs, and the
 * batches.
 *
 * The sampler and the memory of a batch belong to the device; this file checks arguments, opens the
 * graph's arrays, and waits. The loader uses it: each of its workers samples batches on its own
 * stream.
 */
#include <string.h>
#include <time.h>

#include "plan/plan.h"
#include "rung/gpu_sampler.h"
#include "store/store.h"

#define SEEDS_DEFAULT 1024u /* seeds per batch if the caller sets no seed_count_max */
#define POLL_NS       20000 /* interval of polls while a caller waits for a batch */

struct rung_gpu_sampler {
	const struct rung_store *store; /* outlives the sampler */
	const struct rung__device_ops *ops;
	struct rung__device_sampler *sampler;
	uint32_t hop_count;
	/* largest number of seeds in a batch, for which its memory is allocated */
	uint64_t seed_count_max;
};

struct rung__gpu_batch {
	struct rung_gpu_sampler *sampler;
	struct rung__device_batch *batch;
	struct rung__sampled sampled;
	bool there; /* the batch is complete, and `sampled` has its results */
};

/* Open both arrays of the graph. The caller closes the files, also after a failure. */
static int open_arrays(const struct rung_dataset *ds, const struct rung__graph_location *graph,
                       struct rung__features files[2], struct rung__sampler_args *args)
{
	const struct rung_dataset_info *info = rung_dataset_info(ds);
	int rc = rung__array_open(ds, "graph_indptr.npy", &files[0]);

	if (rc == 0)
		rc = rung__array_open(ds, "graph_indices.npy", &files[1]);
	args->indptr = (struct rung__graph_array){ &files[0], info->vertex_count + 1,
		                                   sizeof(uint64_t), graph->indptr_lines };
	args->indices = (struct rung__graph_array){ &files[1], info->edge_count, info->index_bytes,
		                                    graph->indices_lines };
	return rc;
}

/* Check all arguments that can be checked without the device. */
static int check_opts(const struct rung_store *store, const struct rung_dataset *ds,
                      const struct rung_plan *plan, const struct rung_gpu_sampler_opts *opts)
{
	if (!store->device)
		return rung__fail(RUNG_E_NOSUP, "sampling on a GPU: the store's gathers run on the "
		                                "CPU; use rung_sampler_create()");
	if (rung_dataset_info(ds)->vertex_count != store->shape.vertex_count ||
	    (plan && plan->vertex_count != store->shape.vertex_count))
		return rung__fail(
			RUNG_E_INVAL,
			"sampling on a GPU: dataset, plan and store have different vertex counts; "
			"use the dataset and plan that the store was opened with");
	if (opts->hop_count < 1 || opts->hop_count > RUNG_HOPS_MAX || !opts->fanouts)
		return rung__fail(
			RUNG_E_INVAL,
			"sampling on a GPU: %u hops; give 1 to %d, with a fanout for each",
			opts->hop_count, RUNG_HOPS_MAX);
	if (opts->draws != RUNG_DRAWS_ALL)
		return rung__fail(RUNG_E_NOSUP, "sampling on a GPU: only RUNG_DRAWS_ALL is "
		                                "supported; use rung_sampler_create() for other "
		                                "draws");
	return 0;
}

int rung_gpu_sampler_create(struct rung_store *store, const struct rung_dataset *ds,
                            const struct rung_plan *plan,
                            const struct rung_gpu_sampler_opts *user_opts,
                            struct rung_gpu_sampler **sampler_out)
{
	struct rung_gpu_sampler_opts opts = RUNG_GPU_SAMPLER_OPTS_INIT;
	struct rung__features files[2] = { 0 };
	struct rung__sampler_args args = { 0 };
	struct rung_gpu_sampler *sampler;
	int rc = rung__opts_copy_in(&opts, sizeof(opts), user_opts, "rung_gpu_sampler_opts");

	if (rc == 0)
		rc = check_opts(store, ds, plan, &opts);
	if (rc < 0)
		return rc;
	sampler = rung__zalloc(sizeof(*sampler));
	if (!sampler)
		return rung__fail(RUNG_E_NOMEM, "sampling on a GPU: out of memory");
	args.fanouts = opts.fanouts;
	args.hop_count = sampler->hop_count = opts.hop_count;
	args.seed = opts.seed;
	args.seed_count_max = sampler->seed_count_max =
		opts.seed_count_max ? opts.seed_count_max : SEEDS_DEFAULT;
	args.vertex_count_max = opts.vertex_count_max;
	args.edge_count_max = opts.edge_count_max;
	sampler->ops = store->device_ops;
	sampler->store = store;
	/* an attached store has no location of the graph: all of it goes to host memory unless the
	 * caller passes a plan */
	rc = open_arrays(ds, plan ? &plan->graph : &store->graph, files, &args);
	if (rc == 0)
		rc = store->device_ops->sampler_open(store->device, &args, &sampler->sampler);
	/* the files are open only while the device loads them */
	rung__features_close(&files[0]);
	rung__features_close(&files[1]);
	if (rc < 0) {
		rung__free(sampler);
		return rc;
	}
	*sampler_out = sampler;
	return 0;
}

void rung_gpu_sampler_destroy(struct rung_gpu_sampler *sampler)
{
	if (!sampler)
		return;
	sampler->ops->sampler_close(sampler->sampler);
	rung__free(sampler);
}

int rung__gpu_sampler_check(const struct rung_gpu_sampler *sampler, const struct rung_store *store,
                            uint64_t seed_count)
{
	if (sampler->store != store)
		return rung__fail(RUNG_E_INVAL, "sampling on a GPU: the sampler was created for "
		                                "another store; create one for this store");
	if (seed_count > sampler->seed_count_max)
		return rung__fail(RUNG_E_INVAL,
		                  "sampling on a GPU: batches have %" PRIu64
		                  " seeds, but the sampler accepts at most %" PRIu64
		                  "; create it with a larger seed_count_max",
		                  seed_count, sampler->seed_count_max);
	return 0;
}

uint32_t rung__gpu_sampler_hops(const struct rung_gpu_sampler *sampler)
{
	return sampler->hop_count;
}

uint64_t rung__gpu_sampler_vertices(const struct rung_gpu_sampler *sampler)
{
	return sampler->ops->sampler_vertices(sampler->sampler);
}

int rung__gpu_batch_create(struct rung_gpu_sampler *sampler, struct rung__gpu_batch **batch_out)
{
	struct rung__gpu_batch *batch = rung__zalloc(sizeof(*batch));
	int rc;

	if (!batch)
		return rung__fail(RUNG_E_NOMEM, "batch: out of memory");
	batch->sampler = sampler;
	rc = sampler->ops->batch_open(sampler->sampler, &batch->batch);
	if (rc < 0) {
		rung__free(batch);
		return rc;
	}
	*batch_out = batch;
	return 0;
}

void rung__gpu_batch_destroy(struct rung__gpu_batch *batch)
{
	if (!batch)
		return;
	batch->sampler->ops->batch_close(batch->batch);
	rung__free(batch);
}

int rung__gpu_batch_sample(struct rung__gpu_batch *batch, const uint64_t *seeds,
                           uint64_t seed_count, uint64_t batch_key, struct CUstream_st *stream)
{
	batch->there = false;
	if (seed_count == 0)
		return rung__fail(RUNG_E_INVAL,
		                  "sampling: the batch has no seeds; give at least one");
	if (seed_count > batch->sampler->seed_count_max)
		return rung__fail(RUNG_E_INVAL,
		                  "sampling: the batch has %" PRIu64
		                  " seeds, but the sampler accepts at most %" PRIu64
		                  "; create it with a larger seed_count_max",
		                  seed_count, batch->sampler->seed_count_max);
	return batch->sampler->ops->sample(batch->batch, seeds, seed_count, batch_key, stream);
}

int rung__gpu_batch_wait(struct rung__gpu_batch *batch, int64_t timeout_ns)
{
	const struct rung__device_ops *ops = batch->sampler->ops;
	const struct timespec pause = { .tv_nsec = POLL_NS };
	uint64_t until_ns = rung__now_ns() + (uint64_t)RUNG__MAX(timeout_ns, 0);
	int rc;

	/* without a time limit the device waits, which needs no polling, so the loop runs once */
	for (;;) {
		rc = ops->sampled(batch->batch, timeout_ns < 0, &batch->sampled);
		if (rc != 0)
			break;
		if (rung__now_ns() >= until_ns)
			return rung__fail(RUNG_E_TIMEDOUT,
			                  "batch: not complete after %" PRId64 " ns", timeout_ns);
		nanosleep(&pause, NULL);
	}
	batch->there = rc > 0;
	return rc < 0 ? rc : 0;
}

const uint64_t *rung__gpu_batch_vertices(const struct rung__gpu_batch *batch, uint64_t *count_out)
{
	*count_out = batch->there ? batch->sampled.vertex_count : 0;
	return batch->sampled.vertices;
}

const struct rung_block *rung__gpu_batch_block(const struct rung__gpu_batch *batch, uint32_t hop)
{
	return batch->there && hop < batch->sampler->hop_count ? &batch->sampled.blocks[hop] : NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/** A store with a graph, the batches that its sampler draws for a list of seeds, and loaders of
 * them. */
#ifndef SUPPORT_LOADER_FIXTURE_H
#define SUPPORT_LOADER_FIXTURE_H

#include <criterion/criterion.h>

#include "fault_reader.h"
#include "rung/gpu_sampler.h"
#include "expect_error.h"
#include "store_fixture.h"

#define ROWS       3000u
#define WIDTH      512u
#define HOST_BYTES 500000u /* of 1.5 MB, less slots and cache */
#define SEEDS      330u
#define BATCH      32u
#define BATCHES    ((SEEDS + BATCH - 1) / BATCH)
#define HOPS       2
#define KEY_FIRST  100u

static const uint32_t fanouts[HOPS] = { 4, 3 };

static struct store_fixture f;
static struct rung_graph *graph;
static uint64_t seeds[SEEDS];
static struct rung_batch *expected[BATCHES]; /* by rung_sampler_sample() */
static struct rung_gpu_sampler *gpu_sampler; /* of all loaders, with RUNG_TEST_SAMPLE_ON=gpu */

static inline bool samples_on_gpu(void)
{
	return getenv("RUNG_TEST_SAMPLE_ON") != NULL;
}

static inline void open_gpu_sampler(void)
{
	struct rung_gpu_sampler_opts opts = RUNG_GPU_SAMPLER_OPTS_INIT;

	opts.fanouts = fanouts;
	opts.hop_count = HOPS;
	opts.seed = 3;
	opts.seed_count_max = BATCH;
	cr_assert_eq(rung_gpu_sampler_create(f.store, f.ds, NULL, &opts, &gpu_sampler), 0, "%s",
	             rung_last_error());
}

static inline void sample_expected(void)
{
	struct rung_sampler_opts opts = RUNG_SAMPLER_OPTS_INIT;
	struct rung_sampler *sampler;

	opts.fanouts = fanouts;
	opts.hop_count = HOPS;
	opts.seed = 3;
	cr_assert_eq(rung_sampler_create(rung_graph_csc(graph), &opts, &sampler), 0);
	for (uint64_t b = 0; b < BATCHES; b++) {
		cr_assert_eq(rung_batch_create(&expected[b]), 0);
		cr_assert_eq(rung_sampler_sample(sampler, seeds + b * BATCH,
		                                 RUNG__MIN(BATCH, SEEDS - b * BATCH), KEY_FIRST + b,
		                                 expected[b]),
		             0);
	}
	rung_sampler_destroy(sampler);
}

static inline void open_store(uint64_t host_bytes, struct rung_store_opts opts)
{
	opts.size = sizeof(opts);
	support_fault_reset();
	fixture_open(&f, ROWS, WIDTH, host_bytes, &opts, &support_fault_reader);
	cr_assert_eq(rung_dataset_load_graph(f.ds, &graph), 0);
	for (uint64_t i = 0; i < SEEDS; i++)
		seeds[i] = (i * 1237 + 11) % ROWS;
	sample_expected();
	if (samples_on_gpu())
		open_gpu_sampler();
}

static inline void close_store(void)
{
	for (uint64_t b = 0; b < BATCHES; b++)
		rung_batch_destroy(expected[b]);
	rung_graph_destroy(graph);
	rung_gpu_sampler_destroy(gpu_sampler);
	gpu_sampler = NULL;
	fixture_close(&f);
}

static inline struct rung_loader_opts loader_opts(uint32_t threads, uint32_t ahead,
                                                  uint32_t gathers)
{
	struct rung_loader_opts opts = RUNG_LOADER_OPTS_INIT;

	opts.sampler.fanouts = fanouts;
	opts.sampler.hop_count = HOPS;
	opts.sampler.seed = 3;
	opts.batch_size = BATCH;
	opts.threads = threads;
	opts.look_ahead = ahead;
	opts.gathers = gathers;
	return opts;
}

/* Create a loader of batches with edges; options as from loader_opts(). */
static inline int create_loader(struct rung_loader_opts opts, struct rung_loader **loader_out)
{
	const struct rung_csc *csc = rung_graph_csc(graph);

	if (gpu_sampler && opts.sampler.hop_count > 0) {
		opts.gpu_sampler = gpu_sampler;
		opts.sampler.hop_count = 0;
		csc = NULL;
	}
	return rung_loader_create(f.store, csc, &opts, loader_out);
}

static inline struct rung_loader *make_loader_of(struct rung_loader_opts opts)
{
	struct rung_loader *loader;

	cr_assert_eq(create_loader(opts, &loader), 0, "%s", rung_last_error());
	return loader;
}

static inline struct rung_loader *make_loader(uint32_t threads, uint32_t ahead, uint32_t gathers)
{
	return make_loader_of(loader_opts(threads, ahead, gathers));
}

static inline struct rung_loader_pass whole_pass(void)
{
	struct rung_loader_pass pass = RUNG_LOADER_PASS_INIT;

	pass.seeds = seeds;
	pass.seed_count = SEEDS;
	pass.key_first = KEY_FIRST;
	return pass;
}

static inline void begin(struct rung_loader *loader, struct rung_loader_pass pass)
{
	cr_assert_eq(rung_loader_begin(loader, &pass), 0, "%s", rung_last_error());
}

static inline const struct rung_loader_batch *next(struct rung_loader *loader)
{
	const struct rung_loader_batch *batch = NULL;

	cr_assert_eq(rung_loader_next(loader, &batch), 1, "%s", rung_last_error());
	return batch;
}

static inline void check_end(struct rung_loader *loader)
{
	const struct rung_loader_batch *batch = NULL;

	for (int again = 0; again < 2; again++)
		cr_assert_eq(rung_loader_next(loader, &batch), 0);
	cr_assert_null(batch);
}

/* An array of a batch, on the host. */
static inline void *array_of(const struct rung_loader_batch *batch, const void *array,
                             uint64_t bytes)
{
	void *copy = malloc(bytes + 1);

	cr_assert_eq(rung_store_copy(f.store, copy, array, bytes), 0, "%s", rung_last_error());
	cr_assert_eq(batch->on_gpu, gpu_sampler != NULL && batch->block_count > 0);
	return copy;
}

static inline void check_array(const struct rung_loader_batch *batch, const void *array,
                               const void *wanted, uint64_t bytes)
{
	void *copy = array_of(batch, array, bytes);

	cr_assert_eq(memcmp(copy, wanted, bytes), 0, "batch %" PRIu64, batch->batch_idx);
	free(copy);
}

static inline void check_rows(const struct rung_loader_batch *batch)
{
	uint64_t *ranks = array_of(batch, batch->ranks, batch->rank_count * sizeof(*ranks));

	cr_assert(fixture_on_cuda() || !batch->request);
	if (batch->request)
		cr_assert_eq(rung_request_wait(batch->request, -1), 0, "%s", rung_last_error());
	cr_assert_eq(fixture_wrong_rows(&f, ranks, batch->rank_count, batch->rows, WIDTH), 0,
	             "batch %" PRIu64, batch->batch_idx);
	free(ranks);
}

static inline void check_batch(const struct rung_loader_batch *batch, uint64_t idx)
{
	uint64_t count;
	const uint64_t *vertices = rung_batch_vertices(expected[idx], &count);

	cr_assert_eq(batch->batch_idx, idx);
	cr_assert_eq(batch->rank_count, count);
	check_array(batch, batch->ranks, vertices, count * sizeof(*vertices));
	cr_assert_eq(batch->seed_count, RUNG__MIN(BATCH, SEEDS - idx * BATCH));
	check_array(batch, batch->seeds, seeds + idx * BATCH, batch->seed_count * sizeof(*seeds));
	cr_assert_eq(batch->block_count, HOPS);
	for (uint32_t hop = 0; hop < HOPS; hop++) {
		const struct rung_block *got = batch->blocks[hop],
					*want = rung_batch_block(expected[idx], hop);

		cr_assert(got->dst_count == want->dst_count && got->src_count == want->src_count &&
		          got->edge_count == want->edge_count);
		check_array(batch, got->indptr, want->indptr,
		            (want->dst_count + 1) * sizeof(*want->indptr));
		check_array(batch, got->indices, want->indices,
		            want->edge_count * sizeof(*want->indices));
	}
	check_rows(batch);
}

static inline void run_pass(struct rung_loader *loader, struct rung_loader_pass pass)
{
	begin(loader, pass);
	for (uint64_t b = pass.batch_first; b < BATCHES; b++) {
		const struct rung_loader_batch *batch = next(loader);

		check_batch(batch, b);
		rung_loader_put(loader, batch, NULL);
	}
	check_end(loader);
}

static inline struct rung_loader_stats stats_of(const struct rung_loader *loader)
{
	struct rung_loader_stats stats = { .size = sizeof(stats) };

	cr_assert_eq(rung_loader_stats(loader, &stats), 0);
	return stats;
}

#endif

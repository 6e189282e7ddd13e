/* SPDX-License-Identifier: Apache-2.0 */
/* Sampling on the GPU of a store, over a graph on several tiers: the batches match those of the
 * CPU, and errors are reported. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plan/plan.h"
#include "rung/gpu_sampler.h"
#include "expect_error.h"
#include "store_fixture.h"

#define ROWS  3000
#define WIDTH 64
#define SEEDS 40

static struct store_fixture f;
static const uint32_t fanouts[] = { 5, 3, UINT32_MAX };
static struct rung_gpu_sampler_opts opts = {
	.size = sizeof(opts), .fanouts = fanouts, .hop_count = 3, .seed = 9, .seed_count_max = SEEDS
};

static void set_up(void)
{
	if (!fixture_on_cuda())
		cr_skip_test("RUNG_TEST_DEVICE names no GPU tiers");
	fixture_open(&f, ROWS, WIDTH, ROWS * WIDTH / 4, NULL, NULL);
}

static void tear_down(void)
{
	fixture_close(&f);
}

TestSuite(gpu_sampler, .init = set_up, .fini = tear_down);

static struct rung_plan *plan_for(uint64_t host_bytes,
                                  const struct rung__graph_location **graph_out)
{
	int gpus[3];
	struct rung_plan_opts plan_opts = fixture_plan_opts(ROWS * WIDTH, host_bytes, gpus);
	struct rung_plan *plan;

	plan_opts.sample_on_gpu = 1;
	cr_assert_eq(rung_plan_create(f.ds, &plan_opts, &plan), 0, "%s", rung_last_error());
	*graph_out = &plan->graph;
	return plan;
}

static void *fetch(const void *from, uint64_t bytes)
{
	void *copy = malloc(bytes + 1);

	cr_assert_eq(rung_store_copy(f.store, copy, from, bytes), 0, "%s", rung_last_error());
	return copy;
}

static void same(const void *gpu, const void *cpu, uint64_t bytes, const char *what)
{
	void *copy = fetch(gpu, bytes);

	cr_assert_eq(memcmp(copy, cpu, bytes), 0, "%s", what);
	free(copy);
}

static void batches_are_equal(const struct rung__gpu_batch *gpu, const struct rung_batch *cpu)
{
	uint64_t count, wanted;
	const uint64_t *vertices = rung__gpu_batch_vertices(gpu, &count),
		       *wanted_vertices = rung_batch_vertices(cpu, &wanted);

	cr_assert_eq(count, wanted);
	same(vertices, wanted_vertices, count * sizeof(*vertices), "vertices");
	for (uint32_t hop = 0; hop < opts.hop_count; hop++) {
		const struct rung_block *got = rung__gpu_batch_block(gpu, hop),
					*block = rung_batch_block(cpu, hop);

		cr_assert_eq(got->dst_count, block->dst_count);
		cr_assert_eq(got->src_count, block->src_count);
		cr_assert_eq(got->edge_count, block->edge_count);
		same(got->indptr, block->indptr, (block->dst_count + 1) * sizeof(*block->indptr),
		     "indptr");
		same(got->indices, block->indices, block->edge_count * sizeof(*block->indices),
		     "indices");
	}
	cr_assert_null(rung__gpu_batch_block(gpu, opts.hop_count));
}

static void choose_seeds(uint64_t *seeds, uint64_t key)
{
	for (uint64_t i = 0; i < SEEDS; i++)
		seeds[i] = (i * 71 + key * 13) % ROWS; /* 71 and ROWS are coprime */
}

Test(gpu_sampler, batches_match_the_cpu_and_their_rows_follow)
{
	struct rung_sampler_opts cpu_opts = {
		.size = sizeof(cpu_opts), .fanouts = fanouts, .hop_count = 3, .seed = 9
	};
	const struct rung__graph_location *where;
	struct rung_plan *plan = plan_for(RUNG_BYTES_MAX, &where);
	struct rung_gpu_sampler *sampler;
	struct rung__gpu_batch *batch;
	struct rung_sampler *cpu;
	struct rung_batch *cpu_batch;
	struct rung_graph *graph;

	cr_assert_eq(rung_dataset_load_graph(f.ds, &graph), 0);
	cr_assert_eq(rung_sampler_create(rung_graph_csc(graph), &cpu_opts, &cpu), 0);
	cr_assert_eq(rung_batch_create(&cpu_batch), 0);
	cr_assert_eq(rung_gpu_sampler_create(f.store, f.ds, plan, &opts, &sampler), 0, "%s",
	             rung_last_error());
	cr_assert_eq(rung__gpu_batch_create(sampler, &batch), 0, "%s", rung_last_error());
	for (uint64_t key = 0; key < 6; key++) {
		struct rung_ids ids = { .dtype = RUNG_U64, .space = RUNG_RANKS };
		uint64_t seeds[SEEDS], *ranks;
		unsigned char *out;

		choose_seeds(seeds, key);
		seeds[key] = seeds[SEEDS - 1]; /* a repeated seed */
		cr_assert_eq(rung_sampler_sample(cpu, seeds, SEEDS, key, cpu_batch), 0);
		cr_assert_eq(rung__gpu_batch_sample(
				     batch,
				     fixture_ids(&f, seeds, SEEDS, RUNG_U64, RUNG_RANKS).data,
				     SEEDS, key, NULL),
		             0, "%s", rung_last_error());
		cr_assert_eq(rung__gpu_batch_wait(batch, key % 2 ? -1 : 60000000000), 0, "%s",
		             rung_last_error());
		batches_are_equal(batch, cpu_batch);
		ids.data = rung__gpu_batch_vertices(batch, &ids.count);
		out = fixture_memory(&f, ids.count * WIDTH);
		cr_assert_eq(rung_gather(f.store, &ids, out, 0), 0, "%s", rung_last_error());
		ranks = fetch(ids.data, ids.count * sizeof(*ranks));
		fixture_check(&f, ranks, ids.count, out, WIDTH);
		free(ranks);
	}
	rung__gpu_batch_destroy(batch);
	rung_gpu_sampler_destroy(sampler);
	rung_batch_destroy(cpu_batch);
	rung_sampler_destroy(cpu);
	rung_graph_destroy(graph);
	rung_plan_destroy(plan);
}

/* Graph and rows share the budgets, and the same fraction of each is on the GPUs. */
Test(gpu_sampler, structure_and_features_share_one_budget)
{
	int gpus[3];
	struct rung_plan_opts plan_opts = fixture_plan_opts(ROWS * WIDTH, RUNG_BYTES_MAX, gpus);
	const struct rung__graph_location *graph;
	struct rung_plan *plan = plan_for(RUNG_BYTES_MAX, &graph);
	uint64_t map_bytes = rung_plan_device(plan)->map_on_gpu ? ROWS * 4 : 0, gpu_rows = 0;
	uint64_t gpu_count = rung_plan_device(plan)->gpu_count, budget = plan_opts.gpu_bytes;

	for (unsigned t = 0; t < 2; t++)
		gpu_rows += rung_plan_tier(plan, t)->row_count *
		            (strcmp(rung_plan_tier(plan, t)->name, "gpu") == 0 ? gpu_count : 1);
	cr_assert_eq(graph->bytes,
	             ((ROWS + 1) * 8 + 127) / 128 * 128 +
	                     (rung_dataset_info(f.ds)->edge_count * 4 + 127) / 128 * 128);
	if (budget == RUNG_BYTES_NONE) {
		cr_assert_eq(graph->gpu_bytes, 0);
		cr_assert_eq(gpu_rows, 0);
	} else {
		double share = (double)graph->gpu_bytes / (double)graph->bytes;

		cr_assert_gt(gpu_rows, 0);
		cr_assert_leq(gpu_rows * WIDTH + graph->gpu_bytes + map_bytes * gpu_count,
		              budget * gpu_count);
		cr_assert_gt(gpu_rows * WIDTH + graph->gpu_bytes + map_bytes * gpu_count,
		             budget * gpu_count * 9 / 10);
		cr_assert_lt(share, (double)budget * (double)gpu_count /
		                                    (double)(graph->bytes + ROWS * WIDTH) +
		                            0.01);
		cr_assert_gt(share, 0.1);
	}
	rung_plan_destroy(plan);
	plan_opts.sample_on_gpu = 1;
	plan_opts.host_bytes = 4096;
	cr_assert_eq(rung_plan_create(f.ds, &plan_opts, &plan), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "bytes of the graph"), "%s", rung_last_error());
}

static void fails(struct rung__gpu_batch *batch, const uint64_t *seeds, uint64_t count, int status,
                  const char *words)
{
	uint64_t vertex_count;

	cr_assert_eq(rung__gpu_batch_sample(
			     batch, fixture_ids(&f, seeds, count, RUNG_U64, RUNG_RANKS).data, count,
			     1, NULL),
	             0, "%s", rung_last_error());
	assert_error(rung__gpu_batch_wait(batch, -1), status, words);
	rung__gpu_batch_vertices(batch, &vertex_count);
	cr_assert_eq(vertex_count, 0);
	cr_assert_null(rung__gpu_batch_block(batch, 0));
}

Test(gpu_sampler, mistakes_are_reported_and_the_batch_can_be_reused)
{
	uint64_t outside[] = { 1, 2, ROWS }, good[SEEDS] = { 0 };
	const struct rung__graph_location *where;
	struct rung_plan *plan = plan_for(RUNG_BYTES_MAX, &where);
	struct rung_gpu_sampler_opts small = opts;
	struct rung_gpu_sampler *sampler;
	struct rung__gpu_batch *batch;

	cr_assert_eq(rung_gpu_sampler_create(f.store, f.ds, plan, &opts, &sampler), 0, "%s",
	             rung_last_error());
	cr_assert_eq(rung__gpu_batch_create(sampler, &batch), 0, "%s", rung_last_error());
	fails(batch, outside, 3, RUNG_E_RANGE, "seed 2 is 3000");
	cr_assert_eq(rung__gpu_batch_sample(batch, NULL, 0, 1, NULL), RUNG_E_INVAL);
	cr_assert_eq(rung__gpu_batch_sample(batch, good, SEEDS + 1, 1, NULL), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "seed_count_max"), "%s", rung_last_error());
	cr_assert_eq(rung__gpu_batch_sample(batch, good, SEEDS, 1, NULL), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "cannot reach the seeds"), "%s", rung_last_error());
	choose_seeds(good, 3);
	cr_assert_eq(rung__gpu_batch_sample(batch,
	                                    fixture_ids(&f, good, SEEDS, RUNG_U64, RUNG_RANKS).data,
	                                    SEEDS, 1, NULL),
	             0);
	cr_assert_eq(rung__gpu_batch_wait(batch, -1), 0, "%s", rung_last_error());
	rung__gpu_batch_destroy(batch);
	rung_gpu_sampler_destroy(sampler);
	small.vertex_count_max = SEEDS + 3;
	cr_assert_eq(rung_gpu_sampler_create(f.store, f.ds, plan, &small, &sampler), 0, "%s",
	             rung_last_error());
	cr_assert_eq(rung__gpu_batch_create(sampler, &batch), 0, "%s", rung_last_error());
	fails(batch, good, SEEDS, RUNG_E_NOMEM, "vertices");
	rung__gpu_batch_destroy(batch);
	rung_gpu_sampler_destroy(sampler);
	small.hop_count = 0;
	cr_assert_eq(rung_gpu_sampler_create(f.store, f.ds, plan, &small, &sampler), RUNG_E_INVAL);
	rung_plan_destroy(plan);
}

/* The file's contents are checked when they are used: the error names an invalid vertex id. */
Test(gpu_sampler, a_damaged_graph_fails_the_batch_that_reads_it)
{
	const struct rung__graph_location *where;
	struct rung_plan *plan = plan_for(RUNG_BYTES_MAX, &where);
	uint64_t seeds[SEEDS], edge_count = rung_dataset_info(f.ds)->edge_count;
	uint32_t *bad = malloc(edge_count * sizeof(*bad));
	struct rung_gpu_sampler *sampler;
	struct rung__gpu_batch *batch;
	char path[400];
	int fd;

	memset(bad, 0xff, edge_count * sizeof(*bad));
	snprintf(path, sizeof(path), "%s/graph_indices.npy", f.dir);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	cr_assert_eq(pwrite(fd, bad, edge_count * sizeof(*bad), 4096),
	             (ssize_t)(edge_count * sizeof(*bad)));
	close(fd);
	free(bad);
	cr_assert_eq(rung_gpu_sampler_create(f.store, f.ds, plan, &opts, &sampler), 0, "%s",
	             rung_last_error());
	cr_assert_eq(rung__gpu_batch_create(sampler, &batch), 0, "%s", rung_last_error());
	choose_seeds(seeds, 1);
	fails(batch, seeds, SEEDS, RUNG_E_RANGE, "4294967295");
	rung__gpu_batch_destroy(batch);
	rung_gpu_sampler_destroy(sampler);
	rung_plan_destroy(plan);
}

Test(gpu_sampler, a_store_on_the_cpu_names_the_cpu_sampler)
{
	struct rung_plan_opts plan_opts = { .size = sizeof(plan_opts) };
	struct rung_gpu_sampler *sampler;
	struct rung_store *store;
	struct rung_plan *plan;

	cr_assert_eq(rung_plan_create(f.ds, &plan_opts, &plan), 0);
	cr_assert_eq(rung_store_open(f.ds, plan, NULL, &store), 0);
	cr_assert_eq(rung_gpu_sampler_create(store, f.ds, plan, &opts, &sampler), RUNG_E_NOSUP);
	cr_assert(strstr(rung_last_error(), "rung_sampler_create"), "%s", rung_last_error());
	rung_store_close(store);
	rung_plan_destroy(plan);
}

Test(gpu_sampler, draws_for_new_vertices_only_need_the_cpu)
{
	const struct rung__graph_location *where;
	struct rung_plan *plan = plan_for(RUNG_BYTES_MAX, &where);
	struct rung_gpu_sampler_opts new_draws = opts;
	struct rung_gpu_sampler *sampler;

	new_draws.draws = RUNG_DRAWS_NEW;
	cr_assert_eq(rung_gpu_sampler_create(f.store, f.ds, plan, &new_draws, &sampler),
	             RUNG_E_NOSUP);
	cr_assert(strstr(rung_last_error(), "RUNG_DRAWS_ALL"), "%s", rung_last_error());
	rung_plan_destroy(plan);
}

Test(gpu_sampler, creation_fails_cleanly_however_few_allocations_succeed)
{
	const struct rung__graph_location *where;
	struct rung_plan *plan = plan_for(RUNG_BYTES_MAX, &where);
	struct rung_gpu_sampler *sampler = NULL;
	struct rung__gpu_batch *batch = NULL;
	int64_t allowed = 0;
	int rc;

	do {
		rung__alloc_limit(allowed++);
		rc = rung_gpu_sampler_create(f.store, f.ds, plan, &opts, &sampler);
		if (rc == 0) {
			rc = rung__gpu_batch_create(sampler, &batch);
			if (rc < 0)
				rung_gpu_sampler_destroy(sampler);
		}
		rung__alloc_limit(-1);
		cr_assert(rc == 0 || rc == RUNG_E_NOMEM, "%s: %s", rung_status_name(rc),
		          rung_last_error());
		cr_assert_lt(allowed, 1000);
	} while (rc < 0);
	cr_assert_gt(allowed, 10);
	rung__gpu_batch_destroy(batch);
	rung_gpu_sampler_destroy(sampler);
	rung_plan_destroy(plan);
}

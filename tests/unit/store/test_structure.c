/* SPDX-License-Identifier: Apache-2.0 */
/* The structure of a dataset, read from files by the engine and by a reader with faults: batches
 * equal those of the graph in memory, and a failing read fails one batch. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dataset.h"
#include "expect_error.h"
#include "fault_reader.h"
#include "plan/plan.h"
#include "rung/rung.h"
#include "store/structure.h"

#define VERTICES   20000u
#define EDGES      300000u
#define SEEDS      64u
#define BATCHES    6u
#define HOPS       2
#define TIMEOUT_MS 1000 /* of reads while one of them is held */

static const uint32_t fanouts[HOPS] = { 7, 5 };
static char parent[200], dir[256];
static struct rung_dataset *ds;
static struct rung_graph *graph;
static struct rung_batch *expected[BATCHES];

static void fill_seeds(uint64_t batch, uint64_t *seeds)
{
	for (uint64_t i = 0; i < SEEDS; i++)
		seeds[i] = (i * 307 + batch * 41 + 5) % VERTICES;
}

static struct rung_sampler *make_sampler(struct rung_structure *structure)
{
	struct rung_sampler_opts opts = RUNG_SAMPLER_OPTS_INIT;
	struct rung_sampler *sampler;

	opts.fanouts = fanouts;
	opts.hop_count = HOPS;
	opts.seed = 9;
	opts.structure = structure;
	cr_assert_eq(rung_sampler_create(structure ? NULL : rung_graph_csc(graph), &opts, &sampler),
	             0, "%s", rung_last_error());
	return sampler;
}

static int sample(struct rung_sampler *sampler, uint64_t b, struct rung_batch *batch)
{
	uint64_t seeds[SEEDS];

	fill_seeds(b, seeds);
	return rung_sampler_sample(sampler, seeds, SEEDS, b, batch);
}

static void setup(void)
{
	struct rung_sampler *sampler;

	support_fault_reset();
	cr_assert_eq(support_tempdir(parent, sizeof(parent)), 0);
	cr_assert_eq(support_dataset(parent, VERTICES, EDGES, 64, 3), 0, "%s", rung_last_error());
	snprintf(dir, sizeof(dir), "%s/ds", parent);
	cr_assert_eq(rung_dataset_open(dir, &ds), 0, "%s", rung_last_error());
	cr_assert_eq(rung_dataset_load_graph(ds, &graph), 0);
	sampler = make_sampler(NULL);
	for (uint64_t b = 0; b < BATCHES; b++) {
		cr_assert_eq(rung_batch_create(&expected[b]), 0);
		cr_assert_eq(sample(sampler, b, expected[b]), 0);
	}
	rung_sampler_destroy(sampler);
}

static void teardown(void)
{
	for (uint64_t b = 0; b < BATCHES; b++)
		rung_batch_destroy(expected[b]);
	rung_graph_destroy(graph);
	rung_dataset_close(ds);
	support_remove(parent);
}

TestSuite(structure, .init = setup, .fini = teardown);

static struct rung_plan *make_plan(uint64_t structure_bytes)
{
	struct rung_plan_opts opts = RUNG_PLAN_OPTS_INIT;
	struct rung_plan *plan;

	opts.device = RUNG_DEVICE_CPU;
	opts.host_bytes = 8u << 20;
	opts.structure_bytes = structure_bytes;
	cr_assert_eq(rung_plan_create(ds, &opts, &plan), 0, "%s", rung_last_error());
	return plan;
}

static void check_batch(const struct rung_batch *batch, uint64_t b)
{
	uint64_t count, wanted;
	const uint64_t *got = rung_batch_vertices(batch, &count),
		       *want = rung_batch_vertices(expected[b], &wanted);

	cr_assert_eq(count, wanted);
	cr_assert_arr_eq(got, want, count * sizeof(*got));
	for (uint32_t hop = 0; hop < HOPS; hop++) {
		const struct rung_block *x = rung_batch_block(batch, hop),
					*y = rung_batch_block(expected[b], hop);

		cr_assert_eq(x->edge_count, y->edge_count);
		cr_assert_arr_eq(x->indptr, y->indptr, (x->dst_count + 1) * sizeof(*x->indptr));
		cr_assert_arr_eq(x->indices, y->indices, x->edge_count * sizeof(*x->indices));
	}
}

static void check_batches(struct rung_structure *structure)
{
	struct rung_sampler *sampler = make_sampler(structure);
	struct rung_batch *batch;

	cr_assert_eq(rung_batch_create(&batch), 0);
	for (uint64_t b = 0; b < BATCHES; b++) {
		cr_assert_eq(sample(sampler, b, batch), 0, "%s", rung_last_error());
		check_batch(batch, b);
	}
	rung_batch_destroy(batch);
	rung_sampler_destroy(sampler);
}

static struct rung_store_stats stats_of(const struct rung_structure *structure)
{
	struct rung_store_stats stats = { .size = sizeof(stats) };

	cr_assert_eq(rung_structure_stats(structure, &stats), 0);
	return stats;
}

/* Distinct blocks that the expected batches draw from, per batch and hop, at or after `first`: at
 * most the blocks of complete lists. */
static uint64_t blocks_max(uint64_t first)
{
	const struct rung_csc *csc = rung_graph_csc(graph);
	uint64_t all = 0;

	for (uint64_t b = 0; b < BATCHES; b++) {
		uint64_t count;
		const uint64_t *vertices = rung_batch_vertices(expected[b], &count);

		for (uint32_t hop = 0; hop < HOPS; hop++) {
			const uint64_t dst_count = rung_batch_block(expected[b], hop)->dst_count;

			for (uint64_t i = 0; i < dst_count; i++) {
				const uint64_t begin = csc->indptr[vertices[i]] / 128,
					       end = (csc->indptr[vertices[i] + 1] + 127) / 128;

				all += end > first ? end - RUNG__MAX(begin, first) : 0;
			}
		}
	}
	return all;
}

Test(structure, batches_equal_those_of_the_graph_in_memory)
{
	static const uint64_t bytes[] = { 40000, 120000, 400000, RUNG_BYTES_MAX };

	for (unsigned i = 0; i < RUNG__ARRAY_LEN(bytes); i++) {
		struct rung_plan *plan = make_plan(bytes[i]);
		const struct rung_plan *lists = rung_plan_structure(plan);
		const uint64_t hot = rung_plan_tier(lists, 0)->row_count,
			       cold = rung_plan_tier(lists, 1)->row_count;
		struct rung_structure *structure;
		struct rung_store_stats stats;

		cr_assert_eq(hot + cold, (EDGES * 4 + 511) / 512);
		cr_assert(hot * 512 + rung_plan_slots(lists)->slot_count *
		                              rung_plan_slots(lists)->slot_bytes <=
		          bytes[i]);
		cr_assert_eq(cold == 0, bytes[i] == RUNG_BYTES_MAX);
		cr_assert_eq(rung_structure_open(ds, plan, NULL, &structure), 0, "%s",
		             rung_last_error());
		check_batches(structure);
		stats = stats_of(structure);
		cr_assert_eq(stats.device_reads > 0, cold > 0);
		/* each block is requested once per hop, and adjacent ones share a read */
		cr_assert_leq(stats.tiers[1].hits, blocks_max(hot));
		cr_assert_leq(stats.device_reads, stats.tiers[1].hits);
		cr_assert_eq(stats.duplicate_rows, 0);
		cr_assert_eq(rung_structure_close(structure), 0);
		rung_plan_destroy(plan);
	}
}

Test(structure, loaders_use_the_structure_of_their_store)
{
	struct rung_plan *plan = make_plan(150000);
	struct rung_loader_opts opts = RUNG_LOADER_OPTS_INIT;
	struct rung_loader_pass pass = RUNG_LOADER_PASS_INIT;
	const struct rung_loader_batch *batch;
	struct rung_loader *loader;
	struct rung_store *store;
	uint64_t seeds[BATCHES][SEEDS];

	cr_assert_eq(rung_store_open(ds, plan, NULL, &store), 0, "%s", rung_last_error());
	cr_assert_not_null(rung_store_structure(store));
	check_batches(rung_store_structure(store));
	opts.sampler.fanouts = fanouts;
	opts.sampler.hop_count = HOPS;
	opts.sampler.seed = 9;
	opts.batch_size = SEEDS;
	cr_assert_eq(rung_loader_create(store, NULL, &opts, &loader), 0, "%s", rung_last_error());
	for (uint64_t b = 0; b < BATCHES; b++)
		fill_seeds(b, seeds[b]);
	pass.seeds = seeds[0];
	pass.seed_count = BATCHES * SEEDS;
	cr_assert_eq(rung_loader_begin(loader, &pass), 0);
	for (uint64_t b = 0; b < BATCHES; b++) {
		uint64_t count;
		const uint64_t *vertices = rung_batch_vertices(expected[b], &count);

		cr_assert_eq(rung_loader_next(loader, &batch), 1, "%s", rung_last_error());
		cr_assert_eq(batch->rank_count, count);
		cr_assert_arr_eq(batch->ranks, vertices, count * sizeof(*vertices));
		rung_loader_put(loader, batch, NULL);
	}
	rung_loader_destroy(loader);
	cr_assert_eq(rung_store_close(store), 0);
	rung_plan_destroy(plan);
}

Test(structure, attached_processes_use_the_same_memory)
{
	static const uint64_t bytes[] = { 150000, RUNG_BYTES_MAX };

	for (unsigned i = 0; i < RUNG__ARRAY_LEN(bytes); i++) {
		struct rung_plan *plan = make_plan(bytes[i]);
		struct rung_store_opts opts = RUNG_STORE_OPTS_INIT;
		struct rung_store *store, *attached;
		const struct rung__structure *ours, *theirs;
		char path[300];

		snprintf(path, sizeof(path), "%s/share/s", parent);
		opts.share_path = path;
		cr_assert_eq(rung_store_open(ds, plan, &opts, &store), 0, "%s", rung_last_error());
		cr_assert_eq(rung_store_attach(path, NULL, &attached), 0, "%s", rung_last_error());
		ours = (const struct rung__structure *)rung_store_structure(store);
		theirs = (const struct rung__structure *)rung_store_structure(attached);
		cr_assert_not_null(theirs);
		cr_assert_eq(theirs->base.lists.resident_count, ours->base.lists.resident_count);
		cr_assert_eq(theirs->base.lists.degree_max, ours->base.lists.degree_max);
		cr_assert(theirs->store->host_memory.fd == -1 && theirs->offsets.fd == -1,
		          "private memory");
		check_batches(rung_store_structure(attached));
		cr_assert_eq(rung_store_close(store), 0);
		/* the memory exists as long as a process maps it */
		check_batches(rung_store_structure(attached));
		cr_assert_eq(rung_store_close(attached), 0);
		rung_plan_destroy(plan);
	}
}

Test(structure, a_budget_that_is_too_small_is_refused)
{
	struct rung_plan_opts opts = RUNG_PLAN_OPTS_INIT;
	struct rung_plan *plan;
	struct rung_structure *structure;

	opts.device = RUNG_DEVICE_CPU;
	opts.host_bytes = 1u << 20;
	opts.structure_bytes = RUNG_BYTES_MAX;
	assert_error(rung_plan_create(ds, &opts, &plan), RUNG_E_INVAL,
	             "cannot hold 1200128 bytes of the graph");
	opts.host_bytes = rung_last_error_min_bytes() - 1;
	assert_error(rung_plan_create(ds, &opts, &plan), RUNG_E_INVAL, "staging slots");
	opts.host_bytes = rung_last_error_min_bytes();
	cr_assert_eq(rung_plan_create(ds, &opts, &plan), 0, "%s", rung_last_error());
	cr_assert_eq(rung_plan_slots(rung_plan_structure(plan))->slot_count, 0);
	cr_assert_leq(rung_plan_tier(plan, 0)->bytes, opts.host_bytes - 1200128);
	rung_plan_destroy(plan);
	/* enough for the entries, not for the last block */
	opts.host_bytes = 1200000;
	assert_error(rung_plan_create(ds, &opts, &plan), RUNG_E_INVAL, "1200128 bytes");
	opts.host_bytes = 1u << 20;
	opts.structure_bytes = 1;
	assert_error(rung_plan_create(ds, &opts, &plan), RUNG_E_INVAL, "staging slots");
	plan = make_plan(0);
	cr_assert_null(rung_plan_structure(plan));
	assert_error(rung_structure_open(ds, plan, NULL, &structure), RUNG_E_INVAL,
	             "the plan has no structure");
	rung_plan_destroy(plan);
}

Test(structure, engines_that_read_nothing_serve_only_lists_in_memory)
{
	struct rung_store_opts opts = RUNG_STORE_OPTS_INIT;
	const enum rung_engine engines[] = { RUNG_ENGINE_NULL, RUNG_ENGINE_NULL_INSTANT };

	for (unsigned e = 0; e < RUNG__ARRAY_LEN(engines); e++) {
		struct rung_plan *cold = make_plan(64 << 10), *all = make_plan(RUNG_BYTES_MAX);
		struct rung_structure *structure;

		opts.engine = engines[e];
		assert_error(rung_structure_open(ds, cold, &opts, &structure), RUNG_E_INVAL,
		             "read nothing, and neighbour lists are in the file");
		cr_assert_eq(rung_structure_open(ds, all, &opts, &structure), 0, "%s",
		             rung_last_error());
		check_batches(structure);
		rung_structure_close(structure);
		rung_plan_destroy(all);
		rung_plan_destroy(cold);
	}
}

Test(structure, a_plan_of_another_graph_is_refused)
{
	static const uint64_t edges[] = { EDGES / 2, 0 };

	for (unsigned i = 0; i < RUNG__ARRAY_LEN(edges); i++) {
		char folder[200], other[256];
		struct rung_plan_opts opts = RUNG_PLAN_OPTS_INIT;
		struct rung_structure *structure;
		struct rung_dataset *another;
		struct rung_store *store;
		struct rung_plan *plan;

		cr_assert_eq(support_tempdir(folder, sizeof(folder)), 0);
		cr_assert_eq(support_dataset(folder, VERTICES, edges[i], 64, 3), 0, "%s",
		             rung_last_error());
		snprintf(other, sizeof(other), "%s/ds", folder);
		cr_assert_eq(rung_dataset_open(other, &another), 0, "%s", rung_last_error());
		opts.device = RUNG_DEVICE_CPU;
		opts.host_bytes = 8u << 20;
		opts.structure_bytes = RUNG_BYTES_MAX;
		cr_assert_eq(rung_plan_create(another, &opts, &plan), 0, "%s", rung_last_error());
		assert_error(rung_structure_open(ds, plan, NULL, &structure), RUNG_E_INVAL,
		             "no structure of this dataset");
		assert_error(rung_store_open(ds, plan, NULL, &store), RUNG_E_INVAL,
		             "no structure of this dataset");
		rung_plan_destroy(plan);
		rung_dataset_close(another);
		support_remove(folder);
	}
}

/* ---- faults ---- */

/* @param timeout_ms 0: the default, which no read reaches, however busy the machine is */
static struct rung__structure *open_faulty(struct rung_plan *plan, uint32_t timeout_ms)
{
	struct rung_store_opts opts = RUNG_STORE_OPTS_INIT;
	struct rung__structure *structure;

	opts.read_timeout_ms = timeout_ms;
	cr_assert_eq(
		rung__structure_open(ds, plan, &opts, &support_fault_reader, false, &structure), 0,
		"%s", rung_last_error());
	return structure;
}

Test(structure, short_and_reversed_reads_change_nothing)
{
	static const enum support_fault_kind kinds[] = { SUPPORT_FAULT_SHORT,
		                                         SUPPORT_FAULT_REVERSED };
	struct rung_plan *plan = make_plan(100000);

	for (unsigned i = 0; i < RUNG__ARRAY_LEN(kinds); i++) {
		struct rung__structure *structure;

		support_fault_reset();
		structure = open_faulty(plan, 0);
		support_fault.kind = kinds[i];
		support_fault.count = kinds[i] == SUPPORT_FAULT_SHORT ? 200 : UINT64_MAX;
		support_fault.first = support_fault.seen;
		check_batches(&structure->base);
		cr_assert_eq(rung__structure_close(structure), 0);
	}
	rung_plan_destroy(plan);
}

/* Sample a batch while the next `count` reads have a fault: it fails with each of the texts. After
 * the fault the structure serves batches as before. */
static void check_fault(enum support_fault_kind kind, uint64_t count, const char *first,
                        const char *second)
{
	struct rung_plan *plan = make_plan(100000);
	struct rung__structure *structure =
		open_faulty(plan, kind == SUPPORT_FAULT_HELD ? TIMEOUT_MS : 0);
	struct rung_sampler *sampler = make_sampler(&structure->base);
	struct rung_batch *batch;

	cr_assert_eq(rung_batch_create(&batch), 0);
	support_fault.kind = kind;
	support_fault.err = EIO;
	support_fault.first = support_fault.seen;
	support_fault.count = count;
	assert_error(sample(sampler, 0, batch), RUNG_E_IO, first);
	cr_assert(strstr(rung_last_error(), second), "%s", rung_last_error());
	support_fault.release = 1;
	support_fault.kind = SUPPORT_FAULT_NONE;
	cr_assert_eq(sample(sampler, 1, batch), 0, "%s", rung_last_error());
	check_batch(batch, 1);
	rung_batch_destroy(batch);
	rung_sampler_destroy(sampler);
	cr_assert_eq(rung__structure_close(structure), 0);
	rung_plan_destroy(plan);
}

Test(structure, a_failing_read_fails_its_batch_and_names_the_block)
{
	check_fault(SUPPORT_FAULT_ERRNO, UINT64_MAX, "graph_indices.npy: block of neighbour",
	            strerror(EIO));
}

Test(structure, a_read_that_does_not_end_fails_its_batch)
{
	check_fault(SUPPORT_FAULT_HELD, 1, "graph_indices.npy: block of neighbour",
	            "has not completed in 1000 ms");
}

Test(structure, a_truncated_file_is_an_error_of_the_batches_that_need_the_rest)
{
	struct rung_plan *plan = make_plan(100000);
	struct rung_structure *structure;
	struct rung_sampler *sampler;
	struct rung_batch *batch;
	char path[300];
	int failed = 0;

	cr_assert_eq(rung_structure_open(ds, plan, NULL, &structure), 0);
	sampler = make_sampler(structure);
	cr_assert_eq(rung_batch_create(&batch), 0);
	snprintf(path, sizeof(path), "%s/graph_indices.npy", dir);
	cr_assert_eq(truncate(path, 4096 + EDGES * 2), 0);
	for (uint64_t b = 0; b < BATCHES; b++) {
		if (sample(sampler, b, batch) == 0) {
			check_batch(batch, b);
			continue;
		}
		failed++;
		cr_assert(strstr(rung_last_error(), "it was truncated; run rung verify"), "%s",
		          rung_last_error());
	}
	cr_assert(failed > 0);
	rung_batch_destroy(batch);
	rung_sampler_destroy(sampler);
	cr_assert_eq(rung_structure_close(structure), 0);
	rung_plan_destroy(plan);
}

Test(structure, damaged_contents_are_found_when_opened_or_read)
{
	struct rung_plan *plan = make_plan(100000);
	struct rung_structure *structure;
	char path[300];

	snprintf(path, sizeof(path), "%s/graph_indices.npy", dir);
	/* the highest byte of entry 5, in memory */
	cr_assert_eq(support_flip(path, 4096 + 5 * 4 + 3), 0);
	assert_error(rung_structure_open(ds, plan, NULL, &structure), RUNG_E_RANGE,
	             "graph_indices.npy: entry 5 is");
	cr_assert_eq(support_flip(path, 4096 + 5 * 4 + 3), 0);
	snprintf(path, sizeof(path), "%s/graph_indptr.npy", dir);
	cr_assert_eq(support_flip(path, 4096 + 100 * 8 + 4), 0);
	assert_error(rung_structure_open(ds, plan, NULL, &structure), RUNG_E_FORMAT,
	             "graph_indptr.npy: entry 100 is");
	cr_assert_eq(support_flip(path, 4096 + 100 * 8 + 4), 0);
	cr_assert_eq(support_flip(path, 4096), 0);
	assert_error(rung_structure_open(ds, plan, NULL, &structure), RUNG_E_FORMAT, "entry 0 is");
	rung_plan_destroy(plan);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Typed samplers whose lists are in files, read by the engine: batches equal those of graphs in
 * memory for every budget. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "dataset.h"
#include "rung/rung.h"

#define VERTICES 20000u
#define EDGES    300000u
#define SEEDS    64u
#define HOPS     2

static const uint32_t fanouts[HOPS] = { 7, 5 };

/* A staged graph, as two relations of one type. */
struct fixture {
	char parent[200];
	struct rung_dataset *ds;
	struct rung_graph *graph;
};

static void init(struct fixture *f)
{
	char dir[256];

	cr_assert_eq(support_tempdir(f->parent, sizeof(f->parent)), 0);
	cr_assert_eq(support_dataset(f->parent, VERTICES, EDGES, 64, 3), 0, "%s",
	             rung_last_error());
	snprintf(dir, sizeof(dir), "%s/ds", f->parent);
	cr_assert_eq(rung_dataset_open(dir, &f->ds), 0, "%s", rung_last_error());
	cr_assert_eq(rung_dataset_load_graph(f->ds, &f->graph), 0);
}

static void fini(struct fixture *f)
{
	rung_graph_destroy(f->graph);
	rung_dataset_close(f->ds);
	support_remove(f->parent);
}

static struct rung_structure *open_structure(const struct fixture *f, uint64_t bytes)
{
	struct rung_plan_opts opts = RUNG_PLAN_OPTS_INIT;
	struct rung_structure *structure;
	struct rung_plan *plan;

	opts.device = RUNG_DEVICE_CPU;
	opts.host_bytes = 8u << 20;
	opts.structure_bytes = bytes;
	cr_assert_eq(rung_plan_create(f->ds, &opts, &plan), 0, "%s", rung_last_error());
	cr_assert_eq(rung_structure_open(f->ds, plan, NULL, &structure), 0, "%s",
	             rung_last_error());
	rung_plan_destroy(plan);
	return structure;
}

/* Sample a batch of the two relations; those without a structure are in memory. */
static struct rung_batch *sample(const struct fixture *f, struct rung_structure *first,
                                 struct rung_structure *second, uint64_t key)
{
	const struct rung_csc *csc = rung_graph_csc(f->graph);
	const struct rung_sampler_relation relations[2] = {
		{ .csc = first ? NULL : csc, .structure = first, .fanouts = fanouts },
		{ .csc = second ? NULL : csc, .structure = second, .fanouts = fanouts },
	};
	const uint64_t count = VERTICES;
	struct rung_sampler_opts opts = RUNG_SAMPLER_OPTS_INIT;
	struct rung_sampler *sampler;
	struct rung_batch *batch;
	uint64_t seeds[SEEDS];

	for (uint64_t i = 0; i < SEEDS; i++)
		seeds[i] = (i * 307 + key * 41 + 5) % VERTICES;
	opts.hop_count = HOPS;
	opts.type_counts = &count;
	opts.type_count = 1;
	opts.relations = relations;
	opts.relation_count = 2;
	opts.edge_positions = 1;
	cr_assert_eq(rung_sampler_create(NULL, &opts, &sampler), 0, "%s", rung_last_error());
	cr_assert_eq(rung_batch_create(&batch), 0);
	cr_assert_eq(rung_sampler_sample(sampler, seeds, SEEDS, key, batch), 0, "%s",
	             rung_last_error());
	rung_sampler_destroy(sampler);
	return batch;
}

static void assert_equal(const struct rung_typed_batch *a, const struct rung_typed_batch *b)
{
	cr_assert_eq(a->types[0].count, b->types[0].count);
	cr_assert_arr_eq(a->types[0].vertices, b->types[0].vertices,
	                 a->types[0].count * sizeof(*a->types[0].vertices));
	for (uint32_t i = 0; i < HOPS * 2; i++) {
		const struct rung_block *x = &a->blocks[i], *y = &b->blocks[i];

		cr_assert(x->dst_count == y->dst_count && x->edge_count == y->edge_count);
		cr_assert_arr_eq(x->indptr, y->indptr, (x->dst_count + 1) * sizeof(*x->indptr));
		cr_assert_arr_eq(x->indices, y->indices, x->edge_count * sizeof(*x->indices));
		cr_assert_arr_eq(x->edges, y->edges, x->edge_count * sizeof(*x->edges));
	}
}

Test(structure_relations, batches_equal_those_of_graphs_in_memory)
{
	static const uint64_t bytes[] = { 40000, 400000, RUNG_BYTES_MAX };
	struct fixture f;

	init(&f);
	for (unsigned i = 0; i < 2 * RUNG__ARRAY_LEN(bytes); i++) {
		struct rung_structure *structure = open_structure(&f, bytes[i / 2]);
		struct rung_store_stats stats = { .size = sizeof(stats) };
		struct rung_batch *in_memory = sample(&f, NULL, NULL, i);
		struct rung_batch *tiered = sample(&f, structure, i % 2 ? structure : NULL, i);

		assert_equal(rung_batch_typed(in_memory), rung_batch_typed(tiered));
		cr_assert_eq(rung_structure_stats(structure, &stats), 0);
		cr_assert_eq(stats.device_reads > 0, bytes[i / 2] < RUNG_BYTES_MAX);
		rung_batch_destroy(in_memory);
		rung_batch_destroy(tiered);
		cr_assert_eq(rung_structure_close(structure), 0);
	}
	fini(&f);
}

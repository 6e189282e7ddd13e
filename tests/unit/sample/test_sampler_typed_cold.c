/* SPDX-License-Identifier: Apache-2.0 */
/* Relations whose lists are in files, here arrays that a callback reads: batches and positions of
 * edges equal those of graphs in memory, whichever lists are cold. */
#include "base/base.h"
#include "expect_error.h"
#include "sample/sample.h"
#include "sampler_fixture.h"
#include "relations_fixture.h"

#define HOPS  3u
#define SEEDS 20u

/* The lists of a relation in a file. */
struct cold {
	struct rung_structure structure;
	void *block; /* of the offsets */
	uint64_t blocks_read;
	int rc; /* of the next reads */
};

static struct typed_graph typed;
static struct cold colds[RELATIONS];
static uint64_t seeds[SEEDS];

static const uint32_t fanouts[2][RELATIONS][HOPS] = {
	{ { 4, 3, 2 }, { 3, 3, 3 }, { 2, 2, 2 }, { 1, 1, 1 }, { 5, 40, 2 }, { 2, 2, 2 } },
	{ { UINT32_MAX, 1, 0 },
	  { 40, 1, 0 },
	  { 0, 9, 9 },
	  { 0, UINT32_MAX, 0 },
	  { 0, 0, UINT32_MAX },
	  { UINT32_MAX, 0, 1 } },
};

static int read_blocks(const struct rung__lists *lists, const uint64_t *blocks, uint64_t count,
                       unsigned char *to)
{
	struct cold *cold = &colds[0];
	uint64_t bytes = lists->csc.edge_count * lists->csc.index_bytes;

	while (cold != lists->owner)
		cold++;
	for (uint64_t i = 0; i < count; i++) {
		const uint64_t at = blocks[i] * RUNG__LIST_BLOCK_BYTES;

		cr_assert(at < bytes && (i == 0 || blocks[i] > blocks[i - 1]));
		memset(to + i * RUNG__LIST_BLOCK_BYTES, 0xee, RUNG__LIST_BLOCK_BYTES);
		memcpy(to + i * RUNG__LIST_BLOCK_BYTES, (const char *)lists->csc.indices + at,
		       RUNG__MIN(bytes - at, RUNG__LIST_BLOCK_BYTES));
	}
	cold->blocks_read += count;
	return cold->rc ? rung__fail(cold->rc, "injected") : 0;
}

static void setup(void)
{
	typed_graph_init(&typed);
	for (uint64_t i = 0; i < SEEDS; i++)
		seeds[i] = i * 29;
	for (uint32_t i = 0; i < RELATIONS; i++) {
		const struct rung_csc *csc = &typed.graphs[i].csc;
		struct rung__offsets_writer writer;

		colds[i].block = calloc(1, rung__offsets_bytes(csc->vertex_count, csc->edge_count));
		rung__offsets_begin(&writer, colds[i].block, csc->vertex_count, csc->edge_count);
		cr_assert_eq(rung__offsets_add(&writer, "test", csc->indptr + 1, csc->vertex_count),
		             0);
		colds[i].structure.lists = (struct rung__lists){
			.csc = *csc,
			.offsets = rung__offsets_of(colds[i].block, csc->vertex_count),
			.degree_max = writer.degree_max,
			.read = read_blocks,
			.owner = &colds[i],
			.path = "lists",
		};
		colds[i].structure.lists.csc.indptr = NULL;
	}
}

static void teardown(void)
{
	for (uint32_t i = 0; i < RELATIONS; i++)
		free(colds[i].block);
	typed_graph_fini(&typed);
}

TestSuite(sampler_typed_cold, .init = setup, .fini = teardown);

/* Put the lists of the relations in `mask` into files, all but their first `resident` entries. */
static void place(struct rung_sampler_relation *relations, unsigned mask, double resident)
{
	for (uint32_t i = 0; i < RELATIONS; i++) {
		struct rung__lists *lists = &colds[i].structure.lists;
		const uint64_t entries = RUNG__LIST_BLOCK_BYTES / lists->csc.index_bytes;
		const uint64_t hot = (uint64_t)((double)lists->csc.edge_count * resident);

		relations[i] = typed.relations[i];
		if (mask & 1u << i) {
			relations[i].csc = NULL;
			relations[i].structure = &colds[i].structure;
		}
		lists->resident_count = resident < 1 ? hot / entries * entries : hot;
		colds[i].blocks_read = 0;
	}
}

Test(sampler_typed_cold, batches_equal_those_of_graphs_in_memory)
{
	static const double resident[] = { 0, 0.1, 0.9, 1 };
	static const unsigned masks[] = { 0x3f, 0x2a, 0x01 };
	struct rung_batch *expected = make_batch(), *batch = make_batch();

	for (unsigned form = 0; form < 48; form++) {
		struct rung_sampler_opts opts = typed_opts(&typed, HOPS);
		struct rung_sampler_relation relations[RELATIONS];
		const unsigned mask = masks[form / 4 % 3];
		struct rung_sampler *in_memory, *tiered;

		for (uint32_t i = 0; i < RELATIONS; i++)
			typed.relations[i].fanouts = fanouts[form / 12 % 2][i];
		opts.draws = form / 24 ? RUNG_DRAWS_NEW : RUNG_DRAWS_ALL;
		in_memory = typed_sampler(&opts);
		place(relations, mask, resident[form % 4]);
		opts.relations = relations;
		opts.threads = form % 3;
		tiered = typed_sampler(&opts);
		for (uint64_t key = 0; key < 3; key++)
			cr_assert(typed_equal(typed_sample(in_memory, seeds, SEEDS, key, expected),
			                      typed_sample(tiered, seeds, SEEDS, key, batch)));
		cr_assert_eq(colds[0].blocks_read > 0, (mask & 1) && resident[form % 4] < 1);
		cr_assert_eq(colds[2].blocks_read > 0, mask == 0x3f && resident[form % 4] < 1);
		rung_sampler_destroy(in_memory);
		rung_sampler_destroy(tiered);
	}
	rung_batch_destroy(expected);
	rung_batch_destroy(batch);
}

struct handed {
	struct rung_sampler *in_memory;
	struct rung_batch *batch;
	uint64_t equal;
};

static int compare(void *ctx, const struct rung_batch *batch, uint64_t idx, uint32_t thread)
{
	struct handed *handed = ctx;
	const struct rung_typed_batch *expected =
		typed_sample(handed->in_memory, seeds + 4 * idx, 4, idx, handed->batch);

	(void)thread;
	handed->equal += typed_equal(expected, rung_batch_typed(batch));
	return 0;
}

Test(sampler_typed_cold, runs_hand_over_the_same_batches)
{
	struct rung_sampler_opts opts = typed_opts(&typed, HOPS);
	struct rung_minibatches batches = RUNG_MINIBATCHES_INIT;
	struct rung_sampler_relation relations[RELATIONS];
	struct handed handed = { .batch = make_batch() };
	struct rung_sampler *tiered;

	for (uint32_t i = 0; i < RELATIONS; i++)
		typed.relations[i].fanouts = fanouts[0][i];
	handed.in_memory = typed_sampler(&opts);
	place(relations, 0x15, 0.3);
	opts.relations = relations;
	opts.threads = 1; /* the callback of the test asserts */
	tiered = typed_sampler(&opts);
	batches.seeds = seeds;
	batches.seed_count = SEEDS;
	batches.batch_size = 4;
	cr_assert_eq(rung_sampler_run(tiered, &batches, compare, &handed), 0);
	cr_assert_eq(handed.equal, SEEDS / 4);
	rung_sampler_destroy(tiered);
	rung_sampler_destroy(handed.in_memory);
	rung_batch_destroy(handed.batch);
}

/* The bound of the entries is the number of sources, here below the number of lists. */
Test(sampler_typed_cold, an_entry_that_is_not_a_source_fails_the_batch_only)
{
	static const uint32_t all = UINT32_MAX, none = 0;
	struct rung_sampler_opts opts = typed_opts(&typed, 1);
	struct rung_sampler_relation relations[RELATIONS];
	struct rung_sampler *sampler;
	struct rung_batch *batch = make_batch();
	const uint64_t author = 7;
	struct test_graph *graph = &typed.graphs[3];
	uint64_t at = graph->indptr[author], kept;

	cr_assert(graph->indptr[author + 1] > at && graph->csc.index_bytes == 8);
	for (uint32_t i = 0; i < RELATIONS; i++)
		typed.relations[i].fanouts = i == 3 ? &all : &none;
	place(relations, 0x08, 0);
	opts.relations = relations;
	opts.seed_type = AUTHOR;
	sampler = typed_sampler(&opts);
	kept = ((uint64_t *)graph->indices)[at];
	((uint64_t *)graph->indices)[at] = type_counts[INSTITUTION];
	assert_error(rung_sampler_sample(sampler, &author, 1, 1, batch), RUNG_E_RANGE,
	             "is 40, not below the vertex count 40");
	cr_assert_null(rung_batch_typed(batch));
	((uint64_t *)graph->indices)[at] = kept;
	assert_typed_batch(&typed, &opts, &author, 1, typed_sample(sampler, &author, 1, 1, batch));
	colds[3].rc = RUNG_E_IO;
	assert_error(rung_sampler_sample(sampler, &author, 1, 1, batch), RUNG_E_IO, "injected");
	colds[3].rc = 0;
	typed_sample(sampler, &author, 1, 1, batch);
	rung_sampler_destroy(sampler);
	rung_batch_destroy(batch);
}

Test(sampler_typed_cold, later_batches_allocate_nothing)
{
	struct rung_sampler_opts opts = typed_opts(&typed, HOPS);
	struct rung_sampler_relation relations[RELATIONS];
	struct rung_sampler *sampler;
	struct rung_batch *batch = make_batch();

	for (uint32_t i = 0; i < RELATIONS; i++)
		typed.relations[i].fanouts = fanouts[0][i];
	place(relations, 0x3f, 0.2);
	opts.relations = relations;
	sampler = typed_sampler(&opts);
	typed_sample(sampler, seeds, SEEDS, 1, batch);
	rung__alloc_limit(0);
	typed_sample(sampler, seeds, SEEDS, 1, batch);
	rung__alloc_limit(-1);
	rung_sampler_destroy(sampler);
	rung_batch_destroy(batch);
}

Test(sampler_typed_cold, edges_of_a_graph_without_types_are_the_same)
{
	static const uint32_t mixed[HOPS] = { 5, UINT32_MAX, 40 };
	struct rung_sampler_opts opts = RUNG_SAMPLER_OPTS_INIT;
	struct rung_sampler *sampler;
	struct rung_batch *expected = make_batch(), *batch = make_batch();

	opts.fanouts = mixed;
	opts.hop_count = HOPS;
	opts.edge_positions = 1;
	cr_assert_eq(rung_sampler_create(&typed.graphs[1].csc, &opts, &sampler), 0);
	sample(sampler, seeds, SEEDS, 2, expected);
	rung_sampler_destroy(sampler);
	colds[1].structure.lists.resident_count = 640;
	opts.structure = &colds[1].structure;
	cr_assert_eq(rung_sampler_create(NULL, &opts, &sampler), 0, "%s", rung_last_error());
	sample(sampler, seeds, SEEDS, 2, batch);
	for (uint32_t hop = 0; hop < HOPS; hop++) {
		const struct rung_block *x = rung_batch_block(expected, hop),
					*y = rung_batch_block(batch, hop);

		cr_assert_eq(x->edge_count, y->edge_count);
		cr_assert_arr_eq(x->indices, y->indices, x->edge_count * sizeof(*x->indices));
		cr_assert_arr_eq(x->edges, y->edges, x->edge_count * sizeof(*x->edges));
	}
	rung_sampler_destroy(sampler);
	rung_batch_destroy(expected);
	rung_batch_destroy(batch);
}

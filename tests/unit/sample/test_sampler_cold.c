/* SPDX-License-Identifier: Apache-2.0 */
/* Lists in a file, here an array that a callback reads: the batches equal those of the graph in
 * memory, and each block is requested once. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "expect_error.h"
#include "sample/sample.h"

#define VERTICES 3000u
#define SEEDS    40u

/* A graph in memory and the same graph with lists in a file. */
struct pair {
	struct rung_csc csc;
	struct rung_structure structure;
	void *block; /* of the offsets */
	uint64_t calls, blocks_read;
	int rc; /* of the next reads */
};

static struct pair pair;

static int read_blocks(const struct rung__lists *lists, const uint64_t *blocks, uint64_t count,
                       unsigned char *to)
{
	const uint64_t bytes = pair.csc.edge_count * pair.csc.index_bytes;

	cr_assert(lists->owner == &pair && count > 0 && count <= RUNG__LIST_BLOCKS_MAX);
	for (uint64_t i = 0; i < count; i++) {
		const uint64_t at = blocks[i] * RUNG__LIST_BLOCK_BYTES;

		cr_assert(i == 0 || blocks[i] > blocks[i - 1], "ascending, each once");
		cr_assert(at < bytes);
		cr_assert(at + RUNG__LIST_BLOCK_BYTES >
		                  pair.structure.lists.resident_count * pair.csc.index_bytes,
		          "a block in memory is requested");
		/* bytes past the end of the file are undefined */
		memset(to + i * RUNG__LIST_BLOCK_BYTES, 0xee, RUNG__LIST_BLOCK_BYTES);
		memcpy(to + i * RUNG__LIST_BLOCK_BYTES, (const char *)pair.csc.indices + at,
		       RUNG__MIN(bytes - at, RUNG__LIST_BLOCK_BYTES));
	}
	pair.calls++;
	pair.blocks_read += count;
	return pair.rc ? rung__fail(pair.rc, "injected") : 0;
}

/* Lists as in a power law: a few are longer than a line of the offsets can count. */
static void make_graph(unsigned index_bytes)
{
	uint64_t *indptr = malloc((VERTICES + 1) * sizeof(*indptr));
	struct rung__rng rng = { 7 };
	struct rung__offsets_writer writer;
	struct rung__lists *lists = &pair.structure.lists;
	void *indices;

	memset(&pair, 0, sizeof(pair));
	indptr[0] = 0;
	for (uint64_t v = 0; v < VERTICES; v++)
		indptr[v + 1] = indptr[v] + (v % 9 == 5 ? 0 : 40000 / (v + 2) + v % 31);
	indices = malloc(indptr[VERTICES] * index_bytes);
	for (uint64_t e = 0; e < indptr[VERTICES]; e++)
		rung__id_set(indices, index_bytes, e, rung__rng_below(&rng, VERTICES));
	pair.csc = (struct rung_csc){ VERTICES, indptr[VERTICES], indptr, indices, index_bytes, 0 };
	pair.block = calloc(1, rung__offsets_bytes(VERTICES, pair.csc.edge_count));
	rung__offsets_begin(&writer, pair.block, VERTICES, pair.csc.edge_count);
	cr_assert_eq(rung__offsets_add(&writer, "test", indptr + 1, 1000), 0);
	cr_assert_eq(rung__offsets_add(&writer, "test", indptr + 1001, VERTICES - 1000), 0);
	cr_assert(writer.wide_count > 0 && writer.wide_count < 10);
	*lists = (struct rung__lists){
		.csc = { VERTICES, pair.csc.edge_count, NULL, indices, index_bytes, 0 },
		.offsets = rung__offsets_of(pair.block, VERTICES),
		.degree_max = writer.degree_max,
		.read = read_blocks,
		.owner = &pair,
		.path = "lists",
	};
}

static void free_graph(void)
{
	free((void *)pair.csc.indptr);
	free((void *)pair.csc.indices);
	free(pair.block);
}

static struct rung_sampler *make_sampler(const struct rung_csc *csc,
                                         const struct rung_sampler_opts *from, uint32_t threads)
{
	struct rung_sampler_opts opts = *from;
	struct rung_sampler *sampler;

	opts.threads = threads;
	opts.structure = csc ? NULL : &pair.structure;
	cr_assert_eq(rung_sampler_create(csc, &opts, &sampler), 0, "%s", rung_last_error());
	return sampler;
}

static struct rung_batch *sample(struct rung_sampler *sampler, uint64_t key)
{
	uint64_t seeds[SEEDS];
	struct rung_batch *batch;

	for (uint64_t i = 0; i < SEEDS; i++)
		seeds[i] = (i * 83 + key * 17) % VERTICES;
	cr_assert_eq(rung_batch_create(&batch), 0);
	cr_assert_eq(rung_sampler_sample(sampler, seeds, SEEDS, key, batch), 0, "%s",
	             rung_last_error());
	return batch;
}

static void check_equal(const struct rung_batch *a, const struct rung_batch *b, uint32_t hops)
{
	uint64_t count, other;
	const uint64_t *of_a = rung_batch_vertices(a, &count),
		       *of_b = rung_batch_vertices(b, &other);

	cr_assert_eq(count, other);
	cr_assert_arr_eq(of_a, of_b, count * sizeof(*of_a));
	for (uint32_t hop = 0; hop < hops; hop++) {
		const struct rung_block *x = rung_batch_block(a, hop),
					*y = rung_batch_block(b, hop);

		cr_assert_eq(x->edge_count, y->edge_count);
		cr_assert_arr_eq(x->indptr, y->indptr, (x->dst_count + 1) * sizeof(*x->indptr));
		cr_assert_arr_eq(x->indices, y->indices, x->edge_count * sizeof(*x->indices));
	}
}

static void compare(const struct rung_sampler_opts *opts)
{
	const uint64_t entries = RUNG__LIST_BLOCK_BYTES / pair.csc.index_bytes;
	const uint64_t resident[] = { 0, entries, pair.csc.edge_count / 10 / entries * entries,
		                      pair.csc.edge_count / entries * entries,
		                      pair.csc.edge_count };
	struct rung_sampler *in_memory = make_sampler(&pair.csc, opts, 1);

	for (unsigned i = 0; i < RUNG__ARRAY_LEN(resident); i++) {
		struct rung_sampler *tiered;

		pair.structure.lists.resident_count = resident[i];
		pair.blocks_read = 0;
		tiered = make_sampler(NULL, opts, 1 + i % 2);
		for (uint64_t key = 0; key < 3; key++) {
			struct rung_batch *a = sample(in_memory, key), *b = sample(tiered, key);

			check_equal(a, b, opts->hop_count);
			rung_batch_destroy(a);
			rung_batch_destroy(b);
		}
		cr_assert(resident[i] > 0 || pair.blocks_read > 0);
		cr_assert(resident[i] < pair.csc.edge_count || pair.blocks_read == 0);
		rung_sampler_destroy(tiered);
	}
	rung_sampler_destroy(in_memory);
}

Test(sampler_cold, batches_equal_those_of_the_graph_in_memory)
{
	static const uint32_t fanouts[][2] = {
		{ 5, 3 }, { 1, UINT32_MAX }, { 100, 2 }, { 20000, 1 }
	};

	for (unsigned bytes = 4; bytes <= 8; bytes += 4) {
		make_graph(bytes);
		for (unsigned i = 0; i < RUNG__ARRAY_LEN(fanouts); i++) {
			struct rung_sampler_opts opts = RUNG_SAMPLER_OPTS_INIT;

			opts.fanouts = fanouts[i];
			opts.hop_count = 2;
			opts.draws = i % 2 ? RUNG_DRAWS_NEW : RUNG_DRAWS_ALL;
			compare(&opts);
		}
		free_graph();
	}
}

/* Equal lists, of one block and of more blocks than a request has. */
Test(sampler_cold, repeated_seeds_read_equal_lists)
{
	static const uint32_t fanouts[] = { UINT32_MAX, 70, 3000000 };
	static const uint64_t seeds[] = { 3, 0, 2, 0, 3, 1, 0, 3 };
	const uint64_t lists[] = { 2200000, 40, 5, 100 };
	uint64_t indptr[5] = { 0 };

	make_graph(4);
	free_graph();
	for (unsigned v = 0; v < 4; v++)
		indptr[v + 1] = indptr[v] + lists[v];
	pair.csc = (struct rung_csc){ 4, indptr[4], indptr, malloc(indptr[4] * 4), 4, 0 };
	for (uint64_t e = 0; e < indptr[4]; e++)
		rung__id_set((void *)pair.csc.indices, 4, e, e * 7 / 5 % 4);
	pair.structure.lists.csc = pair.csc;
	pair.structure.lists.offsets = (struct rung__offsets){ 0 };
	pair.structure.lists.degree_max = lists[0];
	for (unsigned i = 0; i < RUNG__ARRAY_LEN(fanouts); i++) {
		struct rung_sampler_opts opts = RUNG_SAMPLER_OPTS_INIT;
		struct rung_batch *expected, *batch;
		struct rung_sampler *in_memory, *tiered;

		opts.fanouts = &fanouts[i];
		opts.hop_count = 1;
		in_memory = make_sampler(&pair.csc, &opts, 1);
		tiered = make_sampler(NULL, &opts, 1);
		cr_assert_eq(rung_batch_create(&expected), 0);
		cr_assert_eq(rung_batch_create(&batch), 0);
		cr_assert_eq(rung_sampler_sample(in_memory, seeds, 8, 1, expected), 0);
		cr_assert_eq(rung_sampler_sample(tiered, seeds, 8, 1, batch), 0);
		check_equal(batch, expected, 1);
		rung_batch_destroy(batch);
		rung_batch_destroy(expected);
		rung_sampler_destroy(tiered);
		rung_sampler_destroy(in_memory);
	}
	free((void *)pair.csc.indices);
}

Test(sampler_cold, an_id_that_is_not_a_vertex_fails_the_batch_only)
{
	static const uint32_t fanout = UINT32_MAX;
	struct rung_sampler_opts opts = RUNG_SAMPLER_OPTS_INIT;
	struct rung_sampler *sampler;
	struct rung_batch *batch;
	const uint64_t seed = 2;
	uint64_t at;
	uint32_t kept;

	make_graph(4);
	opts.fanouts = &fanout;
	opts.hop_count = 1;
	sampler = make_sampler(NULL, &opts, 1);
	at = pair.csc.indptr[seed] + 3;
	kept = ((uint32_t *)pair.csc.indices)[at];
	((uint32_t *)pair.csc.indices)[at] = VERTICES;
	cr_assert_eq(rung_batch_create(&batch), 0);
	assert_error(rung_sampler_sample(sampler, &seed, 1, 1, batch), RUNG_E_RANGE,
	             "is 3000, not below the vertex count 3000");
	((uint32_t *)pair.csc.indices)[at] = kept;
	cr_assert_eq(rung_sampler_sample(sampler, &seed, 1, 1, batch), 0);
	pair.rc = RUNG_E_IO;
	assert_error(rung_sampler_sample(sampler, &seed, 1, 1, batch), RUNG_E_IO, "injected");
	pair.rc = 0;
	cr_assert_eq(rung_sampler_sample(sampler, &seed, 1, 1, batch), 0);
	rung_batch_destroy(batch);
	rung_sampler_destroy(sampler);
	free_graph();
}

Test(sampler_cold, no_memory_leaves_the_sampler_usable)
{
	static const uint32_t fanouts[] = { 5, 3 };
	struct rung_sampler_opts opts = RUNG_SAMPLER_OPTS_INIT;
	int64_t allowed;
	const uint64_t seed = 1;

	make_graph(4);
	opts.fanouts = fanouts;
	opts.hop_count = 2;
	for (allowed = 0;; allowed++) {
		struct rung_sampler *sampler = make_sampler(NULL, &opts, 1);
		struct rung_batch *batch;
		int rc;

		cr_assert_eq(rung_batch_create(&batch), 0);
		rung__alloc_limit(allowed);
		rc = rung_sampler_sample(sampler, &seed, 1, 1, batch);
		rung__alloc_limit(-1);
		cr_assert(rc == 0 || rc == RUNG_E_NOMEM);
		cr_assert_eq(rung_sampler_sample(sampler, &seed, 1, 1, batch), 0);
		rung_batch_destroy(batch);
		rung_sampler_destroy(sampler);
		if (rc == 0)
			break;
	}
	cr_assert(allowed >= 6);
	free_graph();
}

Test(sampler_cold, one_graph_is_needed)
{
	static const uint32_t fanout = 2;
	struct rung_sampler_opts opts = RUNG_SAMPLER_OPTS_INIT;
	struct rung_sampler *sampler;

	make_graph(4);
	opts.fanouts = &fanout;
	opts.hop_count = 1;
	assert_error(rung_sampler_create(NULL, &opts, &sampler), RUNG_E_INVAL,
	             "no graph was given");
	opts.structure = &pair.structure;
	assert_error(rung_sampler_create(&pair.csc, &opts, &sampler), RUNG_E_INVAL,
	             "two graphs were given");
	free_graph();
}

Test(sampler_cold, damaged_offsets_are_refused)
{
	struct rung__offsets_writer writer;
	const uint64_t falling[] = { 3, 2 }, large[] = { 3, 11 };
	struct rung__offset_line block[1 + 4] = { 0 };
	uint64_t degree_max;

	rung__offsets_begin(&writer, block, 2, 10);
	assert_error(rung__offsets_add(&writer, "indptr", falling, 2), RUNG_E_FORMAT,
	             "indptr: entry 2 is 2, but the entry before it is 3");
	rung__offsets_begin(&writer, block, 2, 10);
	assert_error(rung__offsets_add(&writer, "indptr", large, 2), RUNG_E_FORMAT,
	             "the graph has 10 edges");
	cr_assert_eq(rung__offsets_bytes(UINT64_MAX, 10), 0);
	cr_assert_eq(rung__offsets_bytes(10, RUNG__OFFSETS_EDGES), 0);
	make_graph(4);
	cr_assert(rung__offsets_ok(&pair.structure.lists.offsets, VERTICES, pair.csc.edge_count,
	                           &degree_max));
	cr_assert_eq(degree_max, pair.structure.lists.degree_max);
	cr_assert(!rung__offsets_ok(&pair.structure.lists.offsets, VERTICES,
	                            pair.csc.edge_count + 1, &degree_max));
	((struct rung__offset_line *)pair.block)[5].words[7] ^= RUNG__OFFSETS_WIDE;
	cr_assert(!rung__offsets_ok(&pair.structure.lists.offsets, VERTICES, pair.csc.edge_count,
	                            &degree_max));
	free_graph();
}

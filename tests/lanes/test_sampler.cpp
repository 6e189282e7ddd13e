/* SPDX-License-Identifier: Apache-2.0 */
/* The sampler's kernels, lane by lane: they return the same batches as the CPU for any graph,
 * fanouts and tiers. */
#include "base/random.h"
#include "sampler_case.h"

static random_numbers rnd = { 12 };

/* ---- graphs ---- */

static graph random_graph(uint64_t vertex_count, uint64_t degree_max, unsigned index_bytes)
{
	graph g;

	g.index_bytes = index_bytes;
	for (uint64_t v = 0; v < vertex_count; v++) {
		std::vector<uint64_t> list;
		const uint64_t kind = rnd.below(8); /* an eighth empty, an eighth long */
		const uint64_t degree = kind == 0   ? 0
		                        : kind == 1 ? rnd.below(degree_max * 4 + 1)
		                                    : rnd.below(degree_max + 1);
		for (uint64_t k = 0; k < degree; k++)
			/* parallel edges, loops, hubs */
			list.push_back(
				rnd.below(rnd.below(2) ? vertex_count : (vertex_count + 9) / 10));
		g.add(list);
	}
	return g;
}

/* All vertices point to vertex 0 and it points to all, to some of them twice. */
static graph star(uint64_t leaves, unsigned index_bytes)
{
	graph g;
	std::vector<uint64_t> all;

	g.index_bytes = index_bytes;
	for (uint64_t v = 0; v <= leaves; v++) {
		all.push_back(v);
		if (v % 3 == 0)
			all.push_back(leaves - v);
	}
	g.add(all);
	for (uint64_t v = 0; v < leaves; v++)
		g.add({ 0 });
	return g;
}

/* Vertex d has a list of d neighbours, in a ring. */
static graph all_degrees(uint64_t degree_max, unsigned index_bytes)
{
	graph g;

	g.index_bytes = index_bytes;
	for (uint64_t d = 0; d <= degree_max; d++) {
		std::vector<uint64_t> list;
		for (uint64_t k = 0; k < d; k++)
			list.push_back((d + k + 1) % (degree_max + 1));
		g.add(list);
	}
	return g;
}

static std::vector<uint64_t> some_seeds(const graph &g, uint64_t count)
{
	std::vector<uint64_t> all(g.vertices());

	for (uint64_t v = 0; v < all.size(); v++)
		all[v] = v;
	for (uint64_t i = all.size() - 1; i > 0; i--)
		std::swap(all[i], all[rnd.below(i + 1)]);
	all.resize(std::min<uint64_t>(count, all.size()));
	return all;
}

/* Up to 8 tiers with random boundaries, some of them empty; the last tier takes the rest. */
static std::vector<tier> random_tiers(uint64_t lines)
{
	std::vector<tier> tiers(rnd.below(rnd.below(4) ? 4 : 8));

	for (tier &t : tiers)
		t = { rnd.below(3) ? rnd.below(lines + 1) : 0, 1 + (unsigned)rnd.below(4), 0,
		      128 * (unsigned)rnd.below(2) };
	tiers.push_back({ REST, 1, 1 });
	return tiers;
}

/* ---- tests ---- */

static void each_fanout_on_each_degree()
{
	for (unsigned index_bytes : { 4u, 8u }) {
		const graph g = all_degrees(110, index_bytes);
		for (uint32_t fanout : { 1u,  2u,  3u,  4u,   7u,   8u,   10u,   16u,
		                         17u, 25u, 31u, 32u,  33u,  63u,  64u,   65u,
		                         95u, 96u, 97u, 100u, 109u, 110u, 5000u, ALL_NEIGHBOURS }) {
			for (uint64_t key = 0; key < 3; key++) {
				sample_case c;
				c.g = &g;
				c.fanouts = { fanout };
				c.seeds = some_seeds(g, 111);
				c.batch_key = key;
				c.block_count = 1 + (unsigned)rnd.below(4);
				scenario("fanout %u, key %u, degrees 0 to 110, ids of %u bytes",
				         fanout, (unsigned)key, index_bytes);
				run_case(c);
			}
		}
	}
}

static void random_graphs_fanouts_and_tiers(unsigned rounds)
{
	static const uint32_t fanouts[] = { 1, 2, 3, 5, 10, 25, 33, 64, 65, 100, ALL_NEIGHBOURS };

	for (unsigned round = 0; round < rounds; round++) {
		const unsigned index_bytes = rnd.below(2) ? 4 : 8;
		const graph g = random_graph(1 + rnd.below(rnd.below(3) ? 60 : 400),
		                             1 + rnd.below(30), index_bytes);
		sample_case c;
		uint64_t edges_max = 3000; /* fibers are slow */
		c.g = &g;
		c.indptr_tiers = random_tiers(rung__cuda_lines(g.indptr.size(), 8));
		c.index_tiers = random_tiers(rung__cuda_lines(g.indices.size(), index_bytes));
		c.fanouts.clear();
		for (uint64_t hop = 0, hops = 1 + rnd.below(3); hop < hops; hop++) {
			c.fanouts.push_back(fanouts[rnd.below(sizeof(fanouts) / sizeof(*fanouts))]);
			edges_max = edges_max / std::min(c.fanouts.back(), 40u) + 1;
		}
		c.seeds = some_seeds(g, 1 + rnd.below(std::min<uint64_t>(edges_max, 300)));
		c.seed_room = std::min<uint64_t>(g.vertices(), c.seeds.size() + rnd.below(3) * 7);
		c.seed = rnd.below(1 << 20);
		c.batch_key = rnd.below(1 << 20);
		c.block_count = 1 + (unsigned)rnd.below(3);
		scenario("round %u: %zu vertices, %zu edges, %zu hops from %zu seeds, first fanout "
		         "%u",
		         round, (size_t)g.vertices(), g.indices.size(), c.fanouts.size(),
		         c.seeds.size(), c.fanouts[0]);
		run_case(c);
	}
}

static void views_split_anywhere()
{
	const graph g = random_graph(40, 12, 4);
	const uint64_t lines = rung__cuda_lines(g.indptr.size(), 8),
		       index_lines = rung__cuda_lines(g.indices.size(), 4);
	sample_case c;

	c.g = &g;
	c.fanouts = { 4 };
	c.seeds = some_seeds(g, 40);
	for (unsigned gpus = 1; gpus <= 4; gpus++) {
		for (uint64_t a = 0; a <= index_lines; a++) {
			for (uint64_t b = 0; b <= lines; b++) {
				scenario("%u GPUs, %u lines of indices and %u of indptr on them",
				         gpus, (unsigned)a, (unsigned)b);
				c.index_tiers = { { a, gpus }, { REST, 1, 1 } };
				c.indptr_tiers = { { b / 2 }, { b - b / 2, gpus }, { REST, 1, 1 } };
				run_case(c);
			}
		}
	}
	/* one array on GPUs, the other on the host; then more GPUs than lines */
	c.indptr_tiers = { { REST, 4 } };
	c.index_tiers = { { 0 }, { 0, 3 }, { REST, 1, 1 } };
	scenario("indptr on GPUs, indices on the host");
	run_case(c);
	c.indptr_tiers = { { REST, 1, 1 } };
	c.index_tiers = { { REST, 16 } };
	scenario("indptr on the host, indices over 16 GPUs");
	run_case(c);
}

static void a_hub_is_shared_by_the_grid()
{
	for (unsigned index_bytes : { 4u, 8u }) {
		const graph g = star(3000, index_bytes);
		for (uint32_t fanout : { ALL_NEIGHBOURS, 1u, 25u, 300u }) {
			sample_case c;
			c.g = &g;
			c.fanouts = { fanout };
			c.seeds = { 17, 0, 3 };
			c.index_tiers = { { 20, 3 }, { REST, 1, 1 } };
			c.block_count = 3;
			scenario("a star of 3000, fanout %u", fanout);
			run_case(c);
			c.fanouts = { fanout, 2 };
			run_case(c);
		}
	}
}

static void small_graphs()
{
	graph lonely, loop, empty;
	sample_case c;

	lonely.add({});
	loop.add({ 0, 0, 0 });
	for (unsigned v = 0; v < 600; v++) /* tiles of vertices without an edge */
		empty.add({});
	c.seeds = { 0 };
	for (uint32_t fanout : { 1u, 2u, 40u, ALL_NEIGHBOURS }) {
		c.fanouts = { fanout, fanout, fanout };
		c.seeds = { 0 };
		c.g = &lonely;
		c.index_tiers = {};
		scenario("one vertex without an edge, fanout %u", fanout);
		run_case(c);
		c.g = &empty;
		c.seeds = some_seeds(empty, 600);
		scenario("600 vertices without an edge, fanout %u", fanout);
		run_case(c);
		c.g = &loop;
		c.seeds = { 0 };
		c.index_tiers = { { REST } };
		scenario("one vertex with three loops, fanout %u", fanout);
		CHECK(run_case(c).vertices.size() == 1);
	}
}

static void repeated_seeds()
{
	for (unsigned round = 0; round < 60; round++) {
		const graph g =
			random_graph(2 + rnd.below(60), 1 + rnd.below(40), round % 2 ? 4 : 8);
		const uint32_t fanouts[] = { 2, 33, 70 };
		sample_case c;
		c.g = &g;
		c.fanouts = { fanouts[round % 3], 2 };
		c.seeds = some_seeds(g, 1 + rnd.below(40));
		c.seed_room = c.seeds.size();
		for (uint64_t &seed : c.seeds)
			seed = c.seeds[rnd.below(rnd.below(c.seeds.size()) + 1)];
		c.block_count = 1 + round % 3;
		scenario("round %u: %zu seeds of %zu vertices", round, c.seeds.size(),
		         (size_t)g.vertices());
		run_case(c);
	}
}

/* Several tiles of each kind; a missing or an extra draw would shift all later results. */
static void many_tiles()
{
	const graph g = random_graph(2500, 4, 4);
	sample_case c;

	c.g = &g;
	c.fanouts = { 3, 2 };
	c.seeds = some_seeds(g, 1200);
	c.indptr_tiers = { { 30 }, { 60, 2 }, { REST, 1, 1 } };
	for (unsigned blocks : { 1u, 3u, 40u }) {
		scenario("1200 seeds of 2500, %u blocks", blocks);
		c.block_count = blocks;
		run_case(c);
	}
}

static void every_order_of_lanes_gives_the_same_batch()
{
	const graph g = random_graph(50, 20, 8);
	sample_case c;

	c.g = &g;
	c.fanouts = { 3, 40 };
	c.seeds = some_seeds(g, 10);
	for (unsigned turn = 1; turn <= 40; turn++) {
		lanes::seed = turn * 7919;
		c.block_count = 1 + turn % 3;
		scenario("order %u", turn);
		run_case(c);
	}
}

/* A window into a graph of 2^37 vertices: lines, bytes and ids beyond 32 bits. A loop repeats the
 * draws. */
static void numbers_beyond_32_bits()
{
	const uint64_t first = (UINT64_C(1) << 37) - 100, first_edge = (UINT64_C(1) << 38) + 5,
		       hop_key = rung__key_join(rung__key_join(9, 4), 0);
	graph g;
	sample_case c;

	g.index_bytes = 8;
	g.indptr = { first_edge };
	for (uint64_t v = 0; v < 90; v++) {
		for (uint64_t k = 0; k < v; k++)
			g.indices.push_back(first + (v * 31 + k * 7) % 90);
		g.indptr.push_back(first_edge + g.indices.size());
	}
	c.g = &g;
	c.vertex_count = UINT64_C(1) << 37;
	c.edge_count = UINT64_C(1) << 39;
	c.window_vertex = first;
	c.window_edge = first_edge;
	c.seed = 9;
	c.batch_key = 4;
	c.index_tiers = { { 1000 }, { REST, 3 } };
	c.indptr_tiers = { { UINT64_C(1) << 32, 4 }, { REST, 3, 1 } };
	for (uint64_t v = 0; v < 90; v += 3)
		c.seeds.push_back(first + v);
	for (uint32_t fanout : { 6u, 40u, ALL_NEIGHBOURS }) {
		c.fanouts = { fanout };
		c.edge_capacity = { 2000 };
		c.vertex_capacity = { c.seeds.size(), 2000 };
		scenario("vertices from 2^37 - 100 on, fanout %u", fanout);
		const sampled got = run_case(c);
		for (size_t i = 0; i < c.seeds.size() && fanout < 90; i++) {
			const uint64_t v = c.seeds[i] - first, degree = v, begin = got.indptr[0][i],
				       draws = got.indptr[0][i + 1] - begin;
			struct rung__rng stream = { rung__key_join(hop_key, c.seeds[i]) };
			std::vector<uint64_t> positions;
			for (uint64_t k = degree - draws; k < degree && draws < degree; k++) {
				const uint64_t position = rung__rng_below(&stream, k + 1);
				positions.push_back(
					std::count(positions.begin(), positions.end(), position)
						? k
						: position);
				CHECK(got.vertices[got.indices[0][begin + positions.size() - 1]] ==
				      g.indices[g.indptr[v] - first_edge + positions.back()]);
			}
		}
	}
}

int main()
{
	each_fanout_on_each_degree();
	random_graphs_fanouts_and_tiers(1500);
	views_split_anywhere();
	a_hub_is_shared_by_the_grid();
	small_graphs();
	repeated_seeds();
	many_tiles();
	every_order_of_lanes_gives_the_same_batch();
	numbers_beyond_32_bits();
	printf("sampler: %lu cases\n", cases);
	return 0;
}

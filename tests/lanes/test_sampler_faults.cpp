/* SPDX-License-Identifier: Apache-2.0 */
/* The sampler's kernels with faults in the seeds, the capacities, the graph's arrays or the
 * arguments. All memory has its exact size. */
#include "sampler_case.h"

/* 40 vertices in a ring of lists of 10; indices of 4 bytes. */
static graph ring(unsigned index_bytes = 4)
{
	graph g;

	g.index_bytes = index_bytes;
	for (uint64_t v = 0; v < 40; v++) {
		std::vector<uint64_t> list;
		for (uint64_t k = 1; k <= 10; k++)
			list.push_back((v + k) % 40);
		g.add(list);
	}
	return g;
}

static void expect(const sample_case &c, uint64_t outcome, int status, const char *says)
{
	for (unsigned turn = 0; turn < 4; turn++) {
		sample_case again = c;
		again.block_count = 1 + turn;
		lanes::seed += turn;
		const sampled got = run_batch(again);
		CHECK(got.report.outcome == outcome, "%u: %s", (unsigned)got.report.outcome,
		      rung_last_error());
		CHECK(got.status == status && strstr(rung_last_error(), says), "%d: %s", got.status,
		      rung_last_error());
	}
}

/* ---- seeds ---- */

/* The message must match the CPU's, and so must the seed it names. */
static void bad_seeds(const std::vector<uint64_t> &seeds, uint64_t outcome)
{
	const graph g = ring();
	sample_case c;

	c.g = &g;
	c.seeds = seeds;
	c.seed_room = 40;
	cpu_sampler cpu(c);
	const int status = cpu.sample(c);
	const std::string says = rung_last_error();
	CHECK(status < 0);
	expect(c, outcome, status, says.c_str());
}

static void invalid_seeds_are_named_as_on_the_cpu()
{
	scenario("a seed that is not a vertex");
	bad_seeds({ 1, 2, 40, 3 }, RUNG__CUDA_SAMPLE_BAD_SEED);
	bad_seeds({ UINT64_MAX }, RUNG__CUDA_SAMPLE_BAD_SEED); /* the mark of free slots */
	bad_seeds({ UINT64_MAX - 1, 3 }, RUNG__CUDA_SAMPLE_BAD_SEED);
	bad_seeds({ 1, 99, 98, 97, 1, 1 }, RUNG__CUDA_SAMPLE_BAD_SEED);
}

/* ---- room ---- */

static void batches_beyond_the_room_say_what_they_need()
{
	const graph g = ring();
	sample_case c;

	c.g = &g;
	c.seeds = { 0, 20 };
	c.fanouts = { ALL_NEIGHBOURS, 3 };
	c.edge_capacity = { 20, 66 };
	c.vertex_capacity = { 2, 22, 40 };
	scenario("just enough room");
	const sampled enough = run_case(c);
	CHECK(enough.report.edge_counts[0] == 20 && enough.report.edge_counts[1] == 66 &&
	      enough.report.vertex_counts[1] == 22);
	c.vertex_capacity[2] = enough.report.vertex_counts[2];
	run_case(c);
	scenario("no room for a vertex of the last hop");
	c.vertex_capacity[2]--;
	expect(c, RUNG__CUDA_SAMPLE_MANY_VERTICES, RUNG_E_NOMEM,
	       ("hop 1 has " + std::to_string(c.vertex_capacity[2] + 1) +
	        " vertices, but the memory has a capacity of")
	               .c_str());
	scenario("no room for an edge of the last hop");
	c.edge_capacity[1] = 65;
	expect(c, RUNG__CUDA_SAMPLE_MANY_EDGES, RUNG_E_NOMEM,
	       "hop 1 has 66 edges, but the memory has a capacity of 65");
	scenario("no room for a vertex of the first hop");
	c.vertex_capacity = { 2, 21, 40 };
	expect(c, RUNG__CUDA_SAMPLE_MANY_VERTICES, RUNG_E_NOMEM,
	       "hop 0 has 22 vertices, but the memory has a capacity of 21");
	scenario("no room for an edge of the first hop");
	c.edge_capacity[0] = 19;
	expect(c, RUNG__CUDA_SAMPLE_MANY_EDGES, RUNG_E_NOMEM,
	       "hop 0 has 20 edges, but the memory has a capacity of 19");
	c.edge_capacity[0] = 0;
	expect(c, RUNG__CUDA_SAMPLE_MANY_EDGES, RUNG_E_NOMEM,
	       "hop 0 has 20 edges, but the memory has a capacity of 0");
}

static void room_max_is_what_a_batch_can_reach()
{
	struct rung__cuda_sample_capacity room;
	const uint32_t small[] = { 25, 15 }, all[] = { 10, ALL_NEIGHBOURS }, none[] = { 3, 0 },
		       large[] = { UINT32_MAX - 1, UINT32_MAX - 1 };

	scenario("room");
	CHECK(rung__cuda_sample_capacity_max(1000000, 50000000, small, 2, 1024, &room) == 0);
	CHECK(room.vertex_counts[0] == 1024 && room.edge_counts[0] == 25600 &&
	      room.vertex_counts[1] == 26624);
	CHECK(room.edge_counts[1] == 26624 * 15 && room.vertex_counts[2] == 26624 * 16);
	CHECK(rung__cuda_sample_capacity_max(30000, 50000000, small, 2, 1024, &room) == 0);
	CHECK(room.vertex_counts[1] == 26624 && room.edge_counts[1] == 26624 * 15 &&
	      room.vertex_counts[2] == 30000 + 1023); /* with repeated seeds */
	CHECK(rung__cuda_sample_capacity_max(1000000, 20000, small, 2, 1024, &room) == 0);
	CHECK(room.edge_counts[0] == 25600 && room.edge_counts[1] == 20000 + 1023 * 15);
	CHECK(rung__cuda_sample_capacity_max(1000000, 20000, all, 2, 1024, &room) == 0);
	CHECK(room.edge_counts[0] == 10240 && room.edge_counts[1] == 20000 &&
	      room.vertex_counts[2] == 1024 + 10240 + 20000);
	CHECK(rung__cuda_sample_capacity_max(UINT64_C(1) << 50, UINT64_MAX, large, 2, UINT32_MAX,
	                                     &room) == 0);
	CHECK(room.edge_counts[0] == UINT64_C(0xffffffff) * (UINT32_MAX - 1) &&
	      room.vertex_counts[2] == UINT32_MAX);
	CHECK(rung__cuda_sample_capacity_max(10, 10, none, 2, 1, &room) == RUNG_E_INVAL &&
	      strstr(rung_last_error(), "hop 1 is 0"));
	CHECK(rung__cuda_sample_capacity_max(10, 10, small, 0, 1, &room) == RUNG_E_INVAL);
	CHECK(rung__cuda_sample_capacity_max(10, 10, small, RUNG_HOPS_MAX + 1, 1, &room) ==
	      RUNG_E_INVAL);
	CHECK(rung__cuda_sample_capacity_max(10, 10, small, 2, 11, &room) == RUNG_E_INVAL &&
	      strstr(rung_last_error(), "use 1 to 10"));
	CHECK(rung__cuda_sample_capacity_max(10, 10, small, 2, 0, &room) == RUNG_E_INVAL);
}

/* ---- damaged graphs ---- */

/* The graph is damaged after the CPU's checks: its sampler trusts a checked graph. */
static void damaged_lists_are_named_and_not_used()
{
	const struct {
		uint64_t at, value;
		const char *says;
	} damages[] = {
		{ 5, 39, "indptr[4] is 40 and the next entry 39" },
		{ 5, 401,
		  "indptr[4] is 40 and the next entry 401, which do not ascend within 400 edges" },
		{ 5, UINT64_MAX, "indptr[4] is 40 and the next entry 18446744073709551615" },
		{ 0, 11, "indptr[0] is 11 and the next entry 10" },
		{ 40, 1000, "indptr[39] is 390 and the next entry 1000" },
	};

	for (const auto &damage : damages) {
		for (uint32_t fanout : { 3u, 50u, ALL_NEIGHBOURS }) {
			graph g = ring();
			sample_case c;
			c.g = &g;
			c.edge_count = 400;
			c.fanouts = { fanout };
			for (uint64_t v = 0; v < 40; v++)
				c.seeds.push_back(39 - v);
			scenario("indptr[%u] is %llu, fanout %u", (unsigned)damage.at,
			         (unsigned long long)damage.value, fanout);
			g.indptr[damage.at] = damage.value;
			expect(c, RUNG__CUDA_SAMPLE_BAD_LIST, RUNG_E_FORMAT, damage.says);
		}
	}
	graph g = ring();
	sample_case c;
	c.g = &g;
	c.edge_count = 400;
	c.fanouts = { ALL_NEIGHBOURS, 2 };
	c.seeds = { 0 };
	scenario("a damaged list that only a later hop reads");
	for (uint64_t v = 1; v < 40; v++)
		g.indptr[v] = v % 2 ? 400 : 10;
	g.indptr[1] = 10;
	expect(c, RUNG__CUDA_SAMPLE_BAD_LIST, RUNG_E_FORMAT,
	       "indptr[3] is 400 and the next entry 10");
	c.fanouts = { ALL_NEIGHBOURS };
	CHECK(run_batch(c).status == 0); /* one hop does not read it */
}

/* Every list claims all edges: sums that would wrap saturate, and the capacity is respected. */
static void lists_that_claim_everything_do_not_wrap()
{
	const uint64_t edge_count = UINT64_MAX / 16;
	graph g;
	sample_case c;

	g.index_bytes = 4;
	for (uint64_t v = 0; v < 400; v++)
		g.indptr.push_back(v % 2 ? 0 : edge_count);
	c.g = &g;
	c.edge_count = edge_count;
	c.fanouts = { ALL_NEIGHBOURS };
	c.edge_capacity = { 100 };
	c.vertex_capacity = { 200, 300 };
	for (uint64_t v = 0; v < 200; v++)
		c.seeds.push_back(2 * v);
	scenario("200 lists of nearly 2^60 edges");
	expect(c, RUNG__CUDA_SAMPLE_MANY_EDGES, RUNG_E_NOMEM,
	       "has at least 18446744073709551615 edges, but the memory has a capacity of 100");
}

static void damaged_indices_are_named_and_not_used()
{
	for (unsigned index_bytes : { 4u, 8u }) {
		for (uint64_t value :
		     { (uint64_t)40, (uint64_t)UINT32_MAX, UINT64_MAX, UINT64_MAX - 1 }) {
			graph g = ring(index_bytes);
			sample_case c;
			const uint64_t stored = index_bytes == 4 ? (uint32_t)value : value;
			c.g = &g;
			c.fanouts = { 10, 2 };
			c.seeds = { 30, 4, 9 };
			/* in the lists of vertices 4, 9 and 30 */
			g.indices[45] = g.indices[97] = g.indices[301] = value;
			scenario("an index of %llu", (unsigned long long)stored);
			expect(c, RUNG__CUDA_SAMPLE_BAD_VERTEX, RUNG_E_RANGE,
			       ("indices[45] is " + std::to_string(stored)).c_str());
			c.seeds = { 17, 18 };
			c.fanouts = { 2 };
			CHECK(run_batch(c).status == 0);
		}
	}
}

/* ---- arguments ---- */

struct arguments {
	unsigned char room[8192] __attribute__((aligned(128)));
	struct rung__cuda_sampler sampler = {};
	struct rung__cuda_sample sample = {};

	arguments()
	{
		const uint32_t fanout = 5;

		sampler.graph.vertex_count = 40, sampler.graph.edge_count = 400;
		for (struct rung__cuda_array *array :
		     { &sampler.graph.indptr, &sampler.graph.indices }) {
			array->item_bytes = array == &sampler.graph.indptr ? 8 : 4;
			array->view_count = 2;
			array->views[0].base_count = 1, array->views[0].base[0] = room,
			array->views[0].stride = 128, array->views[0].rank_end = 2;
			array->views[1] = array->views[0];
			/* 41 * 8 and 400 * 4 bytes */
			array->views[1].rank_end = array == &sampler.graph.indptr ? 3 : 13;
		}
		sampler.fanouts[0] = fanout, sampler.hop_count = 1;
		CHECK(rung__cuda_sample_capacity_max(40, 400, &fanout, 1, 4, &sampler.capacity) ==
		      0);
		sample.seeds = (const uint64_t *)room, sample.seed_count = 4,
		sample.vertices = (uint64_t *)room, sample.workspace = room;
		sample.indptr[0] = (uint64_t *)room, sample.indices[0] = (uint32_t *)room;
		sample.report = (struct rung__cuda_sample_report *)room;
		CHECK(rung__cuda_sampler_workspace(&sampler, &sample.workspace_bytes) == 0, "%s",
		      rung_last_error());
	}
	void refused(const char *says, unsigned blocks = 4)
	{
		const unsigned before = lanes::launches;
		CHECK(rung__cuda_sample_launch(&sampler, &sample, blocks, nullptr) == RUNG_E_INVAL,
		      "%s", says);
		CHECK(strstr(rung_last_error(), says), "%s", rung_last_error());
		CHECK(lanes::launches == before);
	}
};

#define REFUSED(change, says)                                                                      \
	do {                                                                                       \
		arguments a;                                                                       \
		struct rung__cuda_graph &g = a.sampler.graph;                                      \
		(void)g;                                                                           \
		change;                                                                            \
		a.refused(says);                                                                   \
	} while (0)

static void what_is_wrong_is_refused()
{
	scenario("refused arguments");
	REFUSED(a.sampler.hop_count = 0, "0 hops");
	REFUSED(a.sampler.hop_count = 17, "17 hops");
	REFUSED(a.sampler.fanouts[0] = 0, "fanout of hop 0 is 0");
	REFUSED(g.vertex_count = 0, "a graph of 0 vertices");
	REFUSED(g.edge_count = UINT64_MAX / 8, "edges");
	REFUSED(g.indptr.item_bytes = 4, "items of 4 bytes in indptr");
	REFUSED(g.indices.item_bytes = 0, "and 0 in indices");
	REFUSED(g.indices.item_bytes = 16, "and 16 in indices");
	REFUSED(g.indices.view_count = 9, "indices: 9 views");
	REFUSED(g.indices.view_count = 1, "indices: lines from 2 to 13 are not covered by a view");
	REFUSED(g.indices.view_count = 0, "indices: lines from 0 to 13 are not covered by a view");
	REFUSED(g.indptr.views[1].rank_end = 2,
	        "indptr: lines from 2 to 3 are not covered by a view");
	REFUSED(g.indptr.views[1].rank_end = 4, "indptr: view 1 ends at rank 4; use 2 to 3");
	REFUSED(g.indptr.views[0].rank_end = 4, "indptr: view 0 ends at rank 4; use 0 to 3");
	REFUSED(g.indptr.views[1].rank_end = 1, "indptr: view 1 ends at rank 1; use 2 to 3");
	REFUSED(g.indptr.views[0].stride = 120,
	        "indptr: view 0 has a stride of 120 bytes, less than a row (128)");
	REFUSED(g.indptr.views[0].stride = 132,
	        "indptr: view 0 has a base or stride that is not a multiple of 8");
	REFUSED(g.indices.views[1].base[0]++,
	        "indices: view 1 has a base or stride that is not a multiple of 4");
	REFUSED(g.indices.views[1].base_count = 2, "indices: view 1: base 1 is NULL");
	REFUSED(g.indices.views[1].base_count = 17, "indices: view 1 has 17 bases");
	REFUSED(a.sampler.capacity.vertex_counts[0] = 0, "a capacity of 0 vertices before hop 0");
	REFUSED(a.sampler.capacity.vertex_counts[1] = 3,
	        "a capacity of 3 vertices before hop 1 is out of range; use 4 to");
	REFUSED(a.sampler.capacity.vertex_counts[1] = UINT64_C(1) << 32,
	        "a capacity of 4294967296 vertices");
	REFUSED(a.sampler.capacity.edge_counts[0] = UINT64_MAX / 2, "edges for hop 0");
	REFUSED(a.sample.seed_count = 0, "a batch of 0 seeds");
	REFUSED(a.sample.seed_count = 5, "a batch of 5 seeds is out of range; use 1 to 4");
	REFUSED(a.sample.workspace_bytes--, "use at least");
	REFUSED(a.sample.workspace = a.room + 8, "aligned to 128");
	REFUSED(a.sample.workspace = nullptr, "blocks, seeds");
	REFUSED(a.sample.seeds = nullptr, "blocks, seeds");
	REFUSED(a.sample.vertices = nullptr, "blocks, seeds");
	REFUSED(a.sample.report = nullptr, "blocks, seeds");
	REFUSED(a.sample.indptr[0] = nullptr, "indptr or indices of hop 0");
	REFUSED(a.sample.indices[0] = nullptr, "indptr or indices of hop 0");
	arguments a;
	a.refused("blocks, seeds", 0);
}

static void errors_of_the_device_are_passed_on()
{
	struct rung__cuda_sample_report nothing = {};
	arguments a;
	unsigned blocks = 0;

	scenario("errors of the device");
	for (cudaError_t err : { cudaErrorNoDevice, cudaErrorNoKernelImageForDevice }) {
		const unsigned before = lanes::launches;
		const int status = err == cudaErrorNoDevice ? RUNG_E_NODEV : RUNG_E_NOSUP;
		lanes::next_error = err;
		CHECK(rung__cuda_sample_launch(&a.sampler, &a.sample, 4, nullptr) == status &&
		      lanes::launches == before);
		lanes::next_error = err;
		CHECK(rung__cuda_sampler_blocks(&blocks) == status && blocks == 0);
	}
	CHECK(rung__cuda_sampler_blocks(&blocks) == 0 &&
	      blocks == (unsigned)(lanes::sm_count * lanes::blocks_per_sm));
	CHECK(rung__cuda_sample_status(&a.sampler, &nothing) == RUNG_E_IO &&
	      strstr(rung_last_error(), "not written a report"));
	nothing.outcome = 4711;
	nothing.hop = UINT64_MAX;
	CHECK(rung__cuda_sample_status(&a.sampler, &nothing) == RUNG_E_IO);
	nothing.outcome = RUNG__CUDA_SAMPLE_MANY_EDGES;
	CHECK(rung__cuda_sample_status(&a.sampler, &nothing) == RUNG_E_NOMEM);
}

int main()
{
	invalid_seeds_are_named_as_on_the_cpu();
	batches_beyond_the_room_say_what_they_need();
	room_max_is_what_a_batch_can_reach();
	damaged_lists_are_named_and_not_used();
	lists_that_claim_everything_do_not_wrap();
	damaged_indices_are_named_and_not_used();
	what_is_wrong_is_refused();
	errors_of_the_device_are_passed_on();
	printf("sampler faults: %lu cases\n", cases);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* How the gather kernel accesses memory: piece width, lines over a link, loads in flight, atomics
 * and grid; and the arguments it refuses. */
#include <map>
#include <set>

#include "gather_case.h"

static std::vector<__int128> ids_up_to(size_t count, uint64_t limit)
{
	std::vector<__int128> ids;

	for (size_t i = 0; i < count; i++)
		ids.push_back((__int128)(i * 7 % limit));
	return ids;
}

/* Pieces are exactly as wide as the width, the strides and both addresses allow. */
static void pieces_are_as_wide_as_alignment_allows()
{
	for (unsigned base = 0; base <= 16; base++) {
		for (unsigned out = 0; out <= 16; out++) {
			for (uint32_t w : { 64u, 66u, 68u, 72u, 65u, 80u }) {
				gather_case c;
				gather_seen seen;
				const unsigned all = base | out | w;
				const unsigned widest = all % 16 == 0 ? 16 : all % 4 == 0 ? 4 : 1;
				c.row_bytes = w;
				c.tiers = { { 9, 1, 0, base % 16 } };
				c.out_misaligned = out % 16;
				c.ids = ids_up_to(20, 9);
				scenario("base %u, out %u, width %u", base, out, w);
				run_case(c, &seen);
				CHECK(!seen.row_loads.empty() && !seen.stores.empty());
				for (const auto &list : { seen.row_loads, seen.stores })
					for (const lanes::access &a : list)
						CHECK(a.bytes == widest, "%zu bytes", a.bytes);
			}
		}
	}
}

/* Over a link, each lane of a warp keeps its place in the line, so that the warp's accesses start
 * at line boundaries. */
static void accesses_over_a_link_begin_at_lines()
{
	for (unsigned base = 0; base < 128; base++) {
		for (uint32_t w :
		     { 4u, 16u, 44u, 100u, 128u, 176u, 256u, 400u, 512u, 516u, 600u, 1040u }) {
			for (unsigned more : { 0u, 16u }) {
				gather_case c;
				gather_seen seen;
				c.row_bytes = w;
				c.tiers = { { 12, 1, 1, base, more } };
				c.ids = ids_up_to(16, 12);
				scenario("host rows of %u bytes, stride %u, base %u "
				         "past a line",
				         w, w + more, base);
				run_case(c, &seen);
				if (base == 0 && (w + more) % 128 == 0)
					continue; /* all rows start at lines: nothing to shift */
				for (const lanes::access &a : seen.row_loads) {
					const uint64_t window =
						std::min<uint64_t>(128, 32 * a.bytes);
					CHECK(a.at % window == a.thread * a.bytes % window,
					      "thread %u reads %zu bytes at %zu of a line",
					      a.thread, a.bytes, (size_t)(a.at % 128));
				}
			}
		}
	}
}

/* Rows that start at lines take no more rounds than their width needs, and local rows are never
 * shifted. */
static void nothing_is_shifted_without_need()
{
	for (unsigned link : { 0u, 1u }) {
		gather_case c;
		gather_seen seen;
		c.row_bytes = 512;
		c.tiers = { { 12, 1, link, link ? 0u : 16u } };
		c.ids = ids_up_to(16, 12);
		scenario("rows of 512 bytes, over a link %u", link);
		run_case(c, &seen);
		for (size_t k = 0; k < seen.row_loads.size(); k++)
			/* lane l copies piece l */
			CHECK(seen.stores[k].thread % 32 * 16 ==
			      (seen.stores[k].at - seen.out_begin) % 512);
	}
}

/* Each lane loads several pieces before it stores the first of them, for short and long rows. */
static void loads_are_in_flight_before_the_first_store()
{
	for (uint32_t w : { 16u, 64u, 256u, 512u, 2048u, 4096u, 100u, 333u }) {
		gather_case c;
		c.row_bytes = w;
		c.tiers = { { 64 } };
		c.ids = ids_up_to(512, 64);
		c.block_count = 1;
		scenario("512 rows of %u bytes", w);
		std::map<unsigned, unsigned> ahead; /* thread: loads since its last store */
		unsigned long batches = 0, full = 0;
		gather_seen seen;
		run_case(c, &seen);
		for (const lanes::access &a : seen.in_order) {
			if (a.kind == lanes::LOAD) {
				ahead[a.thread]++;
			} else if (ahead[a.thread]) {
				batches++;
				/* a tile has no more pieces for short rows; for ragged rows some
				 * lanes idle in the last round */
				full += ahead[a.thread] >= (w < 64 || w % 16 ? 2 : 4);
				ahead[a.thread] = 0;
			}
		}
		CHECK(batches && full * 10 >= batches * 7, "only %lu of %lu batches were full",
		      full, batches);
	}
}

/* The minimum is one row, or one per group of lanes. */
static void a_tile_has_at_most_16_kib()
{
	const struct {
		uint32_t row_bytes, rows;
	} cases_of[] = { { 16, 32 },  { 512, 32 }, { 528, 16 }, { 1024, 16 },
		         { 4096, 4 }, { 5000, 2 }, { 8208, 1 }, { 1 << 20, 1 } };

	for (const auto &k : cases_of) {
		scenario("tiles of rows of %u bytes", k.row_bytes);
		const uint32_t piece = piece_bytes(k.row_bytes);
		const struct rows_shape shape =
			rows_shape_make(k.row_bytes, piece, 0, 10000000, 100, TILE_BYTES);
		CHECK(shape.tile_rows == k.rows, "%u rows", shape.tile_rows);
	}
}

static void misses_take_one_atomic_per_tile()
{
	for (size_t n : { 31u, 32u, 33u, 1000u, 5000u }) {
		gather_case c;
		gather_seen seen;
		c.row_bytes = 64;
		c.tiers = { { 3 } };
		c.row_count = 1000;
		c.ids = ids_up_to(n, 1000);
		c.block_count = 1;
		scenario("%zu ids, nearly all of them misses", n);
		run_case(c, &seen);
		CHECK(seen.misses > n * 9 / 10);
		/* 8 warps in the grid, 4 rows side by side: tiles are full from 256 ids on, and
		 * smaller below */
		const size_t tile = n >= 256 ? 32 : 8;
		CHECK(seen.atomics <= (n + tile - 1) / tile + 1, /* one more for the report */
		      "%lu atomics", seen.atomics);
	}
	gather_case hits;
	gather_seen seen;
	hits.tiers = { { 100 } };
	hits.ids = ids_up_to(500, 100);
	scenario("only hits");
	run_case(hits, &seen);
	CHECK(seen.atomics == 1); /* the report's */
}

/* Every third row is over a link, every third a miss. */
static gather_case thirds(uint32_t row_bytes, size_t count)
{
	gather_case c;

	c.row_bytes = row_bytes;
	c.tiers = { { 30 }, { 30, 1, 1 } };
	c.row_count = 90;
	for (size_t i = 0; i < count; i++)
		c.ids.push_back((__int128)(i % 3 * 30 + i / 3 % 30));
	return c;
}

/* As many blocks as have link_bytes in flight, by the width of the pieces; other blocks copy no row
 * over a link. */
static void few_blocks_copy_rows_over_a_link()
{
	const struct {
		uint32_t row_bytes;
		uint64_t link_bytes;
		unsigned block_count, blocks;
	} cases_of[] = {
		{ 512, 16384, 40, 1 }, { 512, 32768, 40, 2 }, { 512, 20000, 40, 2 },
		{ 500, 16384, 40, 4 }, { 501, 4096, 40, 4 },  { 512, 0, 40, 20 },
		{ 512, 0, 8, 4 },      { 512, 16384, 2, 1 },
	};

	for (const auto &k : cases_of) {
		gather_case c = thirds(k.row_bytes, 6000);
		std::set<unsigned> blocks;
		size_t loads = 0;
		gather_seen seen;

		c.block_count = k.block_count;
		c.link_bytes = k.link_bytes;
		scenario("rows of %u bytes, %u bytes in flight, %u blocks", k.row_bytes,
		         (unsigned)k.link_bytes, k.block_count);
		run_case(c, &seen);
		for (const lanes::access &a : seen.link_loads)
			blocks.insert(a.block);
		CHECK(blocks.size() == k.blocks && *blocks.rbegin() == k.blocks - 1,
		      "%zu blocks, to %u", blocks.size(), *blocks.rbegin());
		CHECK(lanes::blocks_started == k.block_count, "%u blocks in total",
		      lanes::blocks_started);
		for (const lanes::access &a : seen.row_loads)
			loads += a.block < k.blocks;
		CHECK(loads == seen.link_loads.size(), "these blocks copy other rows, too");
	}
	gather_case near_only;
	gather_seen seen;
	near_only.tiers = { { 100 }, { 0, 1, 1 } }; /* the tier over the link is empty */
	near_only.ids = ids_up_to(20000, 100);
	near_only.block_count = 40;
	scenario("no row is over a link");
	run_case(near_only, &seen);
	const auto by_first = [](const lanes::access &a) { return a.block == 0; };
	CHECK(std::any_of(seen.row_loads.begin(), seen.row_loads.end(), by_first));
}

/* Rows between misses and rows of the other part still have their loads in flight together. */
static void rows_between_others_are_in_flight_together()
{
	for (uint32_t w : { 512u, 1024u, 2048u }) {
		gather_case c = thirds(w, 6144);
		std::map<std::pair<unsigned, unsigned>, unsigned> ahead; /* by block and thread */
		unsigned long batches = 0, full = 0;
		gather_seen seen;

		c.block_count = 4;
		c.link_bytes = 16384;
		scenario("rows of %u bytes on the GPU, over a link and missing in turn", w);
		run_case(c, &seen);
		for (const lanes::access &a : seen.in_order) {
			unsigned &loads = ahead[{ a.block, a.thread }];

			if (a.kind == lanes::LOAD) {
				loads++;
			} else if (loads) {
				batches++;
				full += loads >= 4;
				loads = 0;
			}
		}
		CHECK(batches && full * 10 >= batches * 7, "%lu of %lu batches were full", full,
		      batches);
	}
}

/* The harness runs one block after another. So the first block gets all tiles except the first
 * tiles of the other blocks. */
static void a_warp_holds_one_tile_at_a_time()
{
	for (unsigned link : { 0u, 1u }) {
		gather_case c;
		std::map<unsigned, std::set<uint64_t>> rows_of_block;
		std::vector<size_t> rows;
		gather_seen seen;

		c.row_bytes = 64;
		c.tiers = { { 100, 1, link } };
		c.ids = ids_up_to(10000, 100);
		c.block_count = link ? 6 : 3; /* three for the rows over the link */
		c.link_bytes = 3 * 16384;
		scenario("10000 rows for 3 blocks, over a link %u", link);
		run_case(c, &seen);
		for (const lanes::access &a : seen.stores)
			rows_of_block[a.block].insert((a.at - seen.out_begin) / 64);
		for (const auto &k : rows_of_block)
			rows.push_back(k.second.size());
		std::sort(rows.begin(), rows.end());
		const size_t first = 8 * (link ? 128 : 32); /* the first tiles of a block's warps */
		CHECK(rows.size() == 3 && rows[0] == first && rows[1] == first, "%zu and %zu rows",
		      rows[0], rows[1]);
	}
}

static void the_grid_is_bounded_and_no_larger_than_the_work()
{
	gather_case c;
	unsigned blocks = 0;

	c.tiers = { { 100 } };
	c.ids = ids_up_to(20000, 100);
	c.block_count = 5;
	scenario("20000 ids, 5 blocks");
	run_case(c);
	CHECK(lanes::blocks_started == 5);
	c.ids = ids_up_to(16, 100);
	c.block_count = 1000;
	scenario("16 ids, 1000 blocks");
	run_case(c);
	CHECK(lanes::blocks_started == 1);
	CHECK(rung__cuda_gather_blocks(&blocks) == 0 &&
	      blocks == (unsigned)(lanes::sm_count * lanes::blocks_per_sm));
}

static struct rung__cuda_gather a_good_gather(const memory &room)
{
	struct rung__cuda_gather g = {};

	g.ids = room.at;
	g.id_count = 3;
	g.id_dtype = RUNG_U32;
	g.row_count = 100;
	g.row_bytes = 16;
	g.out = room.at + 256;
	g.out_stride = 16;
	g.miss_ranks = (uint64_t *)(room.at + 512);
	g.miss_rows = (uint32_t *)(room.at + 640);
	g.report = (struct rung__cuda_report *)(room.at + 768);
	g.counts = (struct rung__cuda_counts *)(room.at + 1024);
	g.view_count = 1;
	g.views[0].base[0] = room.at + 896;
	g.views[0].base_count = 1;
	g.views[0].stride = 16;
	g.views[0].rank_end = 8;
	return g;
}

static void misses_that_are_known_are_counted_alone()
{
	lanes::lent.clear();
	const memory room(1024 + sizeof(struct rung__cuda_counts), 0, true);
	const uint32_t ids[3] = { 7, 8, 99 };
	memset(room.at, 0, room.bytes);
	memcpy(room.at, ids, sizeof(ids));
	struct rung__cuda_gather g = a_good_gather(room);
	scenario("misses without a list");
	memset(g.miss_rows, 0xee, 12);
	g.miss_ranks = nullptr;
	CHECK(rung__cuda_gather_launch(&g, 4, nullptr) == 0, "%s", rung_last_error());
	CHECK(g.report->miss_count == 2 && g.report->view_rows[0] == 1);
	CHECK(g.miss_rows[0] == 0xeeeeeeee && g.miss_rows[1] == 0xeeeeeeee);
}

template <class Change> static void refused(const memory &room, const char *says, Change change)
{
	struct rung__cuda_gather g = a_good_gather(room);
	unsigned blocks = 4;

	change(g, blocks);
	scenario("refused: %s", says);
	const unsigned before = lanes::launches;
	CHECK(rung__cuda_gather_launch(&g, blocks, nullptr) == RUNG_E_INVAL);
	CHECK(strstr(rung_last_error(), says), "%s", rung_last_error());
	CHECK(lanes::launches == before);
}

static void invalid_arguments_are_refused_before_the_launch()
{
	lanes::lent.clear();
	const memory room(1024 + sizeof(struct rung__cuda_counts), 0, true);
	memset(room.at, 0, room.bytes);
	struct rung__cuda_gather good = a_good_gather(room);
	scenario("the valid gather that each case changes");
	CHECK(rung__cuda_gather_launch(&good, 4, nullptr) == 0, "%s", rung_last_error());

	using gather = struct rung__cuda_gather;
	refused(room, "dtype number", [](gather &g, unsigned &) { g.id_dtype = RUNG_F32; });
	refused(room, "ids; use at most",
	        [](gather &g, unsigned &) { g.id_count = UINT64_C(1) << 32; });
	refused(room, "not aligned to their size",
	        [](gather &g, unsigned &) { g.ids = (const char *)g.ids + 2; });
	refused(room, "not aligned to their size", [](gather &g, unsigned &) {
		g.id_dtype = RUNG_I64, g.ids = (const char *)g.ids + 4;
	});
	refused(room, "map entries",
	        [](gather &g, unsigned &) { g.rank_of_vertex = g.ids, g.map_bytes = 2; });
	refused(room, "map entries", [](gather &g, unsigned &) {
		g.rank_of_vertex = (const char *)g.ids + 4, g.map_bytes = 8;
	});
	refused(room, "rows of 0 bytes", [](gather &g, unsigned &) { g.row_bytes = 0; });
	refused(room, "rows of",
	        [](gather &g, unsigned &) { g.row_bytes = RUNG__CUDA_ROW_BYTES_MAX + 1; });
	refused(room, "output stride", [](gather &g, unsigned &) { g.out_stride = 15; });
	refused(room, "blocks, ids", [](gather &, unsigned &blocks) { blocks = 0; });
	refused(room, "report", [](gather &g, unsigned &) { g.report = nullptr; });
	refused(room, "counts", [](gather &g, unsigned &) { g.counts = nullptr; });
	refused(room, "output", [](gather &g, unsigned &) { g.out = nullptr; });
	refused(room, "views; use at most", [](gather &g, unsigned &) { g.view_count = 9; });
	refused(room, "ends at rank 101", [](gather &g, unsigned &) { g.views[0].rank_end = 101; });
	refused(room, "ends at rank 7",
	        [](gather &g, unsigned &) { g.view_count = 2, g.views[1].rank_end = 7; });
	refused(room, "0 bases", [](gather &g, unsigned &) { g.views[0].base_count = 0; });
	refused(room, "17 bases", [](gather &g, unsigned &) { g.views[0].base_count = 17; });
	refused(room, "base 1 is NULL", [](gather &g, unsigned &) { g.views[0].base_count = 2; });
	refused(room, "has a stride of 15", [](gather &g, unsigned &) { g.views[0].stride = 15; });

	const struct {
		cudaError_t err;
		int status;
	} errors[] = { { cudaErrorNoDevice, RUNG_E_NODEV },
		       { cudaErrorInsufficientDriver, RUNG_E_NODEV },
		       { cudaErrorLaunchFailure, RUNG_E_IO },
		       { cudaErrorMemoryAllocation, RUNG_E_NOMEM },
		       { cudaErrorNoKernelImageForDevice, RUNG_E_NOSUP } };
	for (const auto &e : errors) {
		scenario("CUDA error %d", (int)e.err);
		lanes::next_error = e.err;
		CHECK(rung__cuda_gather_launch(&good, 4, nullptr) == e.status);
		CHECK(strstr(rung_last_error(), "error of the harness"), "%s", rung_last_error());
		unsigned blocks = 77;
		lanes::next_error = e.err;
		CHECK(rung__cuda_gather_blocks(&blocks) == e.status && blocks == 77);
	}
}

int main()
{
	pieces_are_as_wide_as_alignment_allows();
	accesses_over_a_link_begin_at_lines();
	nothing_is_shifted_without_need();
	loads_are_in_flight_before_the_first_store();
	a_tile_has_at_most_16_kib();
	misses_take_one_atomic_per_tile();
	few_blocks_copy_rows_over_a_link();
	rows_between_others_are_in_flight_together();
	a_warp_holds_one_tile_at_a_time();
	the_grid_is_bounded_and_no_larger_than_the_work();
	misses_that_are_known_are_counted_alone();
	invalid_arguments_are_refused_before_the_launch();
	printf("access: %lu cases\n", cases);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The gather kernel, lane by lane, compared with a naive loop: widths, alignments, thresholds, ids,
 * maps, misses. */
#include "gather_case.h"

static random_numbers rnd = { 2024 };
static const enum rung_dtype id_types[] = { RUNG_I32, RUNG_U32, RUNG_I64, RUNG_U64 };

/* `count` ids below `limit` with repeats among them. */
static std::vector<__int128> draw_ids(size_t count, uint64_t limit)
{
	std::vector<__int128> ids;

	for (size_t i = 0; i < count; i++)
		ids.push_back(i % 5 == 4 ? ids[rnd.below(i)] : (__int128)rnd.below(limit));
	return ids;
}

/* Local, peers, host; some rows beyond the tiers. */
static gather_case three_tiers(uint32_t row_bytes, size_t ids)
{
	gather_case c;

	c.row_bytes = row_bytes;
	c.tiers = { { 4 }, { 7, 1 + (unsigned)rnd.below(5) }, { 6, 1, 1 } };
	c.row_count = 20;
	c.ids = draw_ids(ids, 20);
	c.dtype = id_types[rnd.below(4)];
	c.map_bytes = (unsigned)rnd.below(3) * 4;
	c.block_count = 1 + (unsigned)rnd.below(3);
	return c;
}

/* Every width with every misalignment of the tiers; the output's misalignment is random. */
static void widths_and_base_misalignments()
{
	std::vector<uint32_t> widths;

	for (uint32_t w = 1; w <= 600; w++)
		widths.push_back(w);
	for (uint32_t w = 4080; w <= 4112; w++)
		widths.push_back(w);
	for (uint32_t w : widths) {
		for (unsigned m = 0; m < 16; m++) {
			gather_case c = three_tiers(w, w < 128 ? 40 : w < 1024 ? 14 : 6);
			/* in half of the cases only the width and the misalignment determine the
			 * pieces */
			const bool keep = m % 2 == 0;
			for (tier &t : c.tiers) {
				t.misaligned = m;
				t.stride_more = keep ? (16 - w % 16) % 16 : (unsigned)rnd.below(40);
			}
			c.out_misaligned = keep ? 0 : (unsigned)rnd.below(16);
			c.out_stride_more = keep ? (16 - w % 16) % 16 : (unsigned)rnd.below(40);
			scenario("width %u, base misaligned by %u, %zu ids", w, m, c.ids.size());
			run_case(c);
		}
	}
}

static void base_and_out_misalignments()
{
	for (uint32_t w : { 1u, 2u, 4u, 8u, 15u, 16u, 17u, 32u, 48u, 64u, 100u, 128u, 144u, 256u,
	                    264u, 496u, 512u, 528u, 600u }) {
		for (unsigned base = 0; base < 16; base++) {
			for (unsigned out = 0; out < 16; out++) {
				gather_case c = three_tiers(w, 12);
				c.tiers[base % 3].misaligned = base;
				c.out_misaligned = out;
				scenario("width %u, one base misaligned by %u, out by %u", w, base,
				         out);
				run_case(c);
			}
		}
	}
}

/* Random tiers in any order, misses, repeats, ids out of range, any width, alignment and grid. */
static void random_mixes()
{
	for (unsigned turn = 0; turn < 3000; turn++) {
		gather_case c;
		const uint32_t unit = 1u << rnd.below(6), wide = rnd.below(10) == 0 ? 5000 : 700;
		uint64_t held = 0;

		c.row_bytes = unit * (1 + (uint32_t)rnd.below(wide / unit + 1));
		for (size_t t = 1 + rnd.below(5); t > 0; t--) {
			tier drawn = { rnd.below(12), 1 + (unsigned)rnd.below(4) };

			drawn.over_link = (unsigned)rnd.below(2);
			if (rnd.below(3) == 0)
				drawn.misaligned = (unsigned)rnd.below(128) / unit * unit;
			if (rnd.below(2))
				drawn.stride_more = (unsigned)rnd.below(4) * unit;
			c.tiers.push_back(drawn);
			held += drawn.rows;
		}
		c.row_count = held + 1 + rnd.below(6);
		c.row_count += c.row_count % 7 == 0;
		c.ids = draw_ids(1 + rnd.below(c.row_bytes < 100 ? 700 : 60),
		                 c.row_count + rnd.below(2));
		c.dtype = id_types[rnd.below(4)];
		c.map_bytes = (unsigned)rnd.below(3) * 4;
		c.out_misaligned = rnd.below(4) == 0 ? (unsigned)rnd.below(16) : 0;
		c.out_stride_more = rnd.below(2) ? (unsigned)rnd.below(3) * unit : 0;
		c.block_count = 1 + (unsigned)rnd.below(12);
		c.link_bytes = rnd.below(3) * 5000;
		c.long_bytes = rnd.below(3) == 0 ? 1 + rnd.below(20000) : 0;
		scenario("mix %u: width %u, %zu tiers, %zu ids, %u blocks", turn, c.row_bytes,
		         c.tiers.size(), c.ids.size(), c.block_count);
		run_case(c);
	}
}

/* Every position of the three boundaries in a dozen ranks, so that each tier, and each pair of
 * tiers, is empty once. */
static void thresholds()
{
	const uint64_t n = 12;

	for (uint64_t a = 0; a <= n; a++) {
		for (uint64_t b = a; b <= n; b++) {
			for (uint64_t h = b; h <= n; h++) {
				for (unsigned gpus = 1; gpus <= 5; gpus++) {
					gather_case c;
					c.row_bytes = 20;
					c.row_count = n;
					c.tiers = { { a }, { b - a, gpus }, { h - b, 1, 1 } };
					for (uint64_t r = 0; r < n; r++)
						c.ids.push_back((__int128)((r * 5 + a) % n));
					c.block_count = 1;
					scenario("boundaries %d %d %d of %d, %u GPUs", (int)a,
					         (int)b, (int)h, (int)n, gpus);
					run_case(c);
				}
			}
		}
	}
}

static void numbers_of_tiers()
{
	for (unsigned count = 0; count <= RUNG__CUDA_VIEWS_MAX; count++) {
		gather_case c;
		for (unsigned v = 0; v < count; v++)
			c.tiers.push_back({ v % 3 == 2 ? 0 : 3 + v,
			                    v % 2 ? RUNG__CUDA_BASES_MAX : 1u, v % 4 == 3 });
		c.row_count = 64;
		for (int r = 63; r >= 0; r--)
			c.ids.push_back(r);
		scenario("%u tiers", count);
		run_case(c);
	}
}

/* Few and many ids, so that tiles have every size, are partly filled, and are processed by every
 * warp of few and many blocks. */
static void counts_and_grids()
{
	for (size_t n : { 0u, 1u, 2u, 3u, 15u, 16u, 17u, 31u, 32u, 33u, 63u, 64u, 65u, 255u, 256u,
	                  257u, 1000u, 3000u }) {
		for (unsigned blocks : { 1u, 2u, 3u, 7u, 40u }) {
			for (uint32_t w : { 4u, 16u, 48u, 256u, 520u }) {
				gather_case c = three_tiers(w, n);
				c.block_count = blocks;
				scenario("%zu ids, %u blocks, width %u", n, blocks, w);
				run_case(c);
			}
		}
	}
}

static void ids_at_the_limits_and_out_of_range()
{
	const __int128 one = 1;

	for (enum rung_dtype dtype : id_types) {
		const bool is_signed = dtype == RUNG_I32 || dtype == RUNG_I64;
		const int bits = dtype == RUNG_I32 || dtype == RUNG_U32 ? 32 : 64;
		const __int128 top = (one << (bits - is_signed)) - 1,
			       bottom = is_signed ? -(one << (bits - 1)) : 0;
		for (unsigned map_bytes : { 0u, 4u, 8u }) {
			gather_case c = three_tiers(24, 0);
			c.dtype = dtype;
			c.map_bytes = map_bytes;
			c.ids = { 0, 19, 20, 21, top, top - 1, bottom, 3 };
			if (is_signed)
				c.ids.insert(c.ids.end(), { -1, -2, -20, bottom + 1 });
			/* each id is first once, and last once */
			for (size_t first = 0; first < c.ids.size(); first++) {
				std::rotate(c.ids.begin(), c.ids.begin() + 1, c.ids.end());
				for (size_t in_front : { 0u, 40u, 300u }) {
					gather_case longer = c;
					longer.ids.insert(longer.ids.begin(), in_front, 7);
					scenario("%d-bit ids, signed %d, map %u, %zu valid ids in "
					         "front, turn %zu",
					         bits, is_signed, map_bytes, in_front, first);
					run_case(longer);
				}
			}
		}
	}
	gather_case all = three_tiers(24, 0);
	all.dtype = RUNG_I64;
	all.ids.assign(1000, -1);
	scenario("every id out of range");
	run_case(all);
}

/* The map is untrusted: its entries are range-checked, too. */
static void map_entries_out_of_range_are_reported_and_not_used()
{
	for (unsigned map_bytes : { 4u, 8u }) {
		const size_t n = 40;
		lanes::lent.clear();
		const memory rows(8 * 16, 0, false), ids(n * 4, 0, false),
			map(8 * map_bytes, 0, false), out(n * 16, 0, true);
		const memory ranks(n * 8, 0, true), miss_rows(n * 4, 0, true),
			report(sizeof(struct rung__cuda_report), 0, true);
		const memory counts(sizeof(struct rung__cuda_counts), 0, true);
		memset(counts.at, 0, counts.bytes);
		memset(map.at, 0, map.bytes);
		memset(map.at + 5 * map_bytes, 0xff, map_bytes);
		map.at[6 * map_bytes] = 8; /* the first rank out of range */
		for (unsigned i = 0; i < n; i++)
			((uint32_t *)ids.at)[i] = i < 33 ? 1 : i % 8;
		struct rung__cuda_gather g = {};
		g.ids = ids.at, g.id_count = n, g.id_dtype = RUNG_U32, g.map_bytes = map_bytes,
		g.rank_of_vertex = map.at;
		g.row_count = 8, g.row_bytes = 16, g.view_count = 1;
		g.views[0].base[0] = rows.at, g.views[0].base_count = 1, g.views[0].stride = 16,
		g.views[0].rank_end = 8;
		g.out = out.at, g.out_stride = 16, g.miss_ranks = (uint64_t *)ranks.at,
		g.miss_rows = (uint32_t *)miss_rows.at;
		g.report = (struct rung__cuda_report *)report.at,
		g.counts = (struct rung__cuda_counts *)counts.at;
		scenario("a map of %u-byte entries, two of them wrong", map_bytes);
		CHECK(rung__cuda_gather_launch(&g, 2, nullptr) == 0);
		CHECK(g.report->bad_count == 2 && g.report->bad_index == 37 &&
		      g.report->bad_id == 5 && g.report->miss_count == 0);
	}
}

/* Ranks, slots and map entries around 2^32 and 2^33; only a window of them has memory. */
static void numbers_beyond_32_bits()
{
	const uint64_t g4 = UINT64_C(1) << 32, n = 2 * g4 + 500;
	const uint64_t windows[] = { g4 - 20,     g4,           g4 + 80,     2 * g4 - 20,
		                     2 * g4 + 80, 2 * g4 + 380, 2 * g4 + 460 };
	const tier tail = { 300, 1, 1 }, all = { 2 * g4 + 400, 1, 1 };

	for (uint64_t first : windows) {
		for (unsigned gpus : { 1u, 3u, 4u, 5u }) {
			for (uint32_t w : { 12u, 64u }) {
				for (int which = 0; which < 3; which++) {
					gather_case c;
					c.row_bytes = w;
					c.row_count = n;
					if (which == 0)
						c.tiers = { { g4 + 40 }, { g4 + 100, gpus }, tail };
					else if (which == 1)
						c.tiers = { { 50 }, { 2 * g4 + 100, gpus }, tail };
					else
						c.tiers = { { 10 }, { 30, gpus }, all };
					c.window_first = first;
					c.window_rows = 40;
					c.dtype = RUNG_U64;
					for (uint64_t i = 0; i < 40; i++)
						c.ids.push_back((__int128)(first + i * 11 % 40));
					scenario("ids from 2^32 %+lld on, tiers %d, %u GPUs, width "
					         "%u",
					         (long long)(first - g4), which, gpus, w);
					run_case(c);
					c.dtype = RUNG_I64;
					run_case(c);
				}
			}
		}
	}
}

static void negative_ids_and_long_maps()
{
	const uint64_t g4 = UINT64_C(1) << 32, n = 2 * g4 + 500;

	/* -1 is not read as 2^32 - 1 */
	for (enum rung_dtype dtype : { RUNG_I32, RUNG_I64 }) {
		gather_case c;
		c.row_count = n;
		c.tiers = { { n } };
		c.window_first = (__int128)g4 - 20;
		c.window_rows = 40;
		c.dtype = dtype;
		c.ids = { -1, -2, -20, -1 };
		scenario("negative ids of %s among more than 2^32 rows", rung_dtype_name(dtype));
		run_case(c);
	}
	/* a map longer than 2^32; its ranks are beyond all tiers */
	for (unsigned map_bytes : { 4u, 8u }) {
		gather_case c;
		c.row_count = map_bytes == 8 ? n : g4 - 3;
		c.tiers = { { 3 } };
		c.map_bytes = map_bytes;
		c.window_first = (__int128)c.row_count - 100;
		c.window_rows = 100;
		c.dtype = RUNG_U64;
		for (unsigned i = 0; i < 100; i++)
			c.ids.push_back(c.window_first + i);
		c.ids.push_back((__int128)c.row_count);
		c.tiers[0].rows = 0;
		scenario("a map of %llu entries", (unsigned long long)c.row_count);
		run_case(c);
	}
}

/* From long_bytes on: a warp per tile of 2 KiB, however small the grid, and a second launch. */
static void long_gathers_have_a_warp_per_tile()
{
	const struct {
		uint32_t row_bytes;
		size_t ids;
		uint64_t long_bytes;
		unsigned near, link, blocks, launches;
	} cases_of[] = {
		{ 512, 640, 640 * 512, 20, 0, 20, 2 },
		{ 512, 640, 640 * 512 + 1, 20, 0, 1, 1 },
		{ 4096, 64, 1, 20, 0, 8, 2 },
		{ 512, 640, 1, 0, 20, 2, 1 },
		{ 1024, 320, 320 * 1024, 10, 10, 21, 2 },
		{ 768, 320, 1, 20, 0, 20, 2 },
	};

	for (const auto &k : cases_of) {
		gather_case c;

		c.row_bytes = k.row_bytes;
		c.tiers = { { k.near }, { k.link, 1, 1 } };
		c.row_count = 24;
		c.ids = draw_ids(k.ids, 24);
		c.dtype = RUNG_I64;
		c.block_count = 1;
		c.long_bytes = k.long_bytes;
		scenario("%zu rows of %u bytes, long from %u bytes on", k.ids, k.row_bytes,
		         (unsigned)k.long_bytes);
		const unsigned before = lanes::launches;
		run_case(c);
		CHECK(lanes::launches - before == k.launches, "%u launches",
		      lanes::launches - before);
		CHECK(lanes::most_blocks == k.blocks, "%u blocks", lanes::most_blocks);
	}
}

int main()
{
	widths_and_base_misalignments();
	base_and_out_misalignments();
	random_mixes();
	thresholds();
	long_gathers_have_a_warp_per_tile();
	numbers_of_tiers();
	counts_and_grids();
	ids_at_the_limits_and_out_of_range();
	map_entries_out_of_range_are_reported_and_not_used();
	numbers_beyond_32_bits();
	negative_ids_and_long_maps();
	printf("gather: %lu cases\n", cases);
	return 0;
}

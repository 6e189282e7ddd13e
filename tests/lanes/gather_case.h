/* SPDX-License-Identifier: Apache-2.0 */
/**
 * One gather: tiers in memory, ids, the kernel's run, and the naive loop that it is compared with.
 * The loop computes rows by the formula of row_byte() and tiers from their sizes; it shares neither
 * the kernel's arithmetic nor its memory.
 */
#ifndef GATHER_CASE_H
#define GATHER_CASE_H

#include <algorithm>

#include "../../kernels/gather.cu"
#include "lanes_test.h"

struct tier {
	uint64_t rows;
	unsigned gpus = 1;
	unsigned over_link = 0;
	unsigned misaligned = 0;
	unsigned stride_more = 0; /* padding after each row, in bytes */
};

struct gather_case {
	uint32_t row_bytes = 64;
	uint64_t row_count = 0; /* 0: the tiers' rows plus 5 */
	std::vector<tier> tiers;
	std::vector<__int128> ids;
	enum rung_dtype dtype = RUNG_U32;
	/* 0: ids are ranks; else rank = (7 * vertex + 3) mod row_count, which 7 must not divide */
	unsigned map_bytes = 0;
	unsigned out_misaligned = 0;
	unsigned out_stride_more = 0;
	unsigned block_count = 2;
	uint64_t link_bytes = 0, long_bytes = 0;
	/* tiers' memory and map begin at this rank and vertex, for numbers beyond any memory */
	__int128 window_first = 0;
	uint64_t window_rows = UINT64_MAX;
};

struct gather_seen {
	uint64_t misses;
	std::vector<lanes::access> row_loads, stores, in_order; /* in_order: both */
	std::vector<lanes::access> link_loads;                  /* row_loads over a link */
	unsigned long atomics;                                  /* on the counter of misses */
	uintptr_t out_begin;
};

static uint64_t map_of(const gather_case &c, uint64_t vertex)
{
	return (uint64_t)(((unsigned __int128)vertex * 7 + 3) % c.row_count);
}

/* Place the rows of one tier that are in the window, in one memory per GPU. Fills the view. */
static void place_tier(const gather_case &c, const tier &t, uint64_t rank_first,
                       struct rung__cuda_view *view, std::vector<memory> &memories)
{
	const uint64_t window_first = (uint64_t)c.window_first;
	const uint64_t first =
		window_first > rank_first ? std::min(window_first - rank_first, t.rows) : 0;
	const uint64_t end = c.window_rows > t.rows - first ? t.rows : first + c.window_rows;
	const uint64_t stride = c.row_bytes + t.stride_more;

	view->base_count = t.gpus;
	view->over_link = t.over_link;
	view->stride = stride;
	view->rank_end = rank_first + t.rows;
	for (unsigned gpu = 0; gpu < t.gpus; gpu++) {
		std::vector<uint64_t> held;
		for (uint64_t i = first; i < end; i++)
			if (i % t.gpus == gpu)
				held.push_back(i);
		if (held.empty()) {
			/* not lent: any access fails */
			static unsigned char nothing[16] __attribute__((aligned(16)));
			view->base[gpu] = t.rows > gpu ? nothing : nullptr;
			continue;
		}
		memories.emplace_back((held.size() - 1) * stride + c.row_bytes, t.misaligned,
		                      false);
		for (size_t k = 0; k < held.size(); k++)
			fill_row(memories.back().at + k * stride, rank_first + held[k],
			         c.row_bytes);
		/* the address slot 0 would have */
		view->base[gpu] = memories.back().at - held[0] / t.gpus * stride;
	}
}

static memory place_ids(const gather_case &c)
{
	const size_t bytes = rung_dtype_bytes(c.dtype);
	memory ids(c.ids.size() * bytes, bytes, false); /* aligned to its width only */

	for (size_t i = 0; i < c.ids.size(); i++) {
		const uint64_t value = (uint64_t)c.ids[i];
		memcpy(ids.at + i * bytes, &value, bytes); /* little endian */
	}
	return ids;
}

static memory place_map(const gather_case &c)
{
	const uint64_t first = (uint64_t)c.window_first;
	const uint64_t count = c.map_bytes ? std::min(c.window_rows, c.row_count - first) : 0;
	memory map(count * c.map_bytes, c.map_bytes, false);

	for (uint64_t i = 0; i < count; i++) {
		const uint64_t rank = map_of(c, first + i);
		memcpy(map.at + i * c.map_bytes, &rank, c.map_bytes);
	}
	return map;
}

/* Compare the output, the miss list and the report with the expected ones. */
static void compare_with_naive_loop(const gather_case &c, const memory &out,
                                    const struct rung__cuda_gather &g)
{
	const uint64_t stride = c.row_bytes + c.out_stride_more;
	std::vector<unsigned char> rows(out.bytes, 0xee);
	std::vector<std::pair<uint64_t, uint32_t>> misses, listed;
	uint64_t bad = 0, bad_first = UINT64_MAX;
	std::vector<uint64_t> tier_rows(RUNG__CUDA_VIEWS_MAX, 0);

	for (size_t i = 0; i < c.ids.size(); i++) {
		uint64_t rank, tiers_end = 0;
		if (c.ids[i] < 0 || c.ids[i] >= (__int128)c.row_count) {
			bad++;
			bad_first = std::min(bad_first, (uint64_t)i);
			continue;
		}
		rank = c.map_bytes ? map_of(c, (uint64_t)c.ids[i]) : (uint64_t)c.ids[i];
		for (size_t t = 0; t < c.tiers.size(); t++) {
			tier_rows[t] += rank >= tiers_end && rank < tiers_end + c.tiers[t].rows;
			tiers_end += c.tiers[t].rows;
		}
		if (rank < tiers_end)
			fill_row(&rows[i * stride], rank, c.row_bytes);
		else
			misses.push_back({ rank, (uint32_t)i });
	}
	CHECK(g.report->bad_count == bad, "%llu instead of %llu",
	      (unsigned long long)g.report->bad_count, (unsigned long long)bad);
	if (bad)
		CHECK(g.report->bad_index == bad_first &&
		              g.report->bad_id == (uint64_t)c.ids[bad_first],
		      "index %llu, id %llu", (unsigned long long)g.report->bad_index,
		      (unsigned long long)g.report->bad_id);
	for (size_t t = 0; t < c.tiers.size(); t++)
		CHECK(g.report->view_rows[t] == tier_rows[t], "view %zu: %llu rows instead of %llu",
		      t, (unsigned long long)g.report->view_rows[t],
		      (unsigned long long)tier_rows[t]);
	CHECK(g.report->miss_count == misses.size(), "%llu instead of %zu",
	      (unsigned long long)g.report->miss_count, misses.size());
	for (size_t k = 0; k < misses.size(); k++)
		listed.push_back({ g.miss_ranks[k], g.miss_rows[k] });
	std::sort(misses.begin(), misses.end());
	std::sort(listed.begin(), listed.end());
	CHECK(misses == listed);
	for (size_t k = 0; k < out.bytes; k++)
		CHECK(out.at[k] == rows[k], "byte %zu of row %zu", k % stride, k / stride);
}

static uint64_t out_stride(const gather_case &c)
{
	return c.row_bytes + c.out_stride_more;
}

/* The kernel's output. `counts` is zero again afterwards; `report` is not written without ids. */
struct gather_output {
	memory rows, miss_ranks, miss_rows, report, counts, word;

	gather_output(const gather_case &c, size_t n)
	    : rows(n ? (n - 1) * out_stride(c) + c.row_bytes : 0, c.out_misaligned, true),
	      miss_ranks(n * 8, 0, true), miss_rows(n * 4, 4, true),
	      report(sizeof(struct rung__cuda_report), 8, true),
	      counts(sizeof(struct rung__cuda_counts), 8, true), word(4, 4, true)
	{
		memset(rows.at, 0xee, rows.bytes);
		memset(report.at, n ? 0x77 : 0, report.bytes);
		memset(counts.at, 0, counts.bytes);
		memset(word.at, 0, word.bytes);
	}
};

/* Place the tiers in memory; it is lent first. @return for each memory whether it is over a link */
static std::vector<bool> place_tiers(gather_case &c, struct rung__cuda_gather &g,
                                     std::vector<memory> &memories)
{
	std::vector<bool> over_link;
	uint64_t rank_first = 0;

	memories.reserve(64);
	lanes::lent.clear();
	if (c.row_count == 0) {
		c.row_count = 5;
		for (const tier &t : c.tiers)
			c.row_count += t.rows;
		c.row_count += c.row_count % 7 == 0;
	}
	g.view_count = (uint32_t)c.tiers.size();
	for (size_t v = 0; v < c.tiers.size(); v++) {
		place_tier(c, c.tiers[v], rank_first, &g.views[v], memories);
		over_link.resize(memories.size(), c.tiers[v].over_link);
		rank_first += c.tiers[v].rows;
	}
	return over_link;
}

static void describe(const gather_case &c, const memory &ids, const memory &map,
                     const gather_output &out, struct rung__cuda_gather &g)
{
	g.end = { (uint32_t *)out.word.at, 77 };
	g.ids = ids.at;
	g.id_count = c.ids.size();
	g.id_dtype = c.dtype;
	g.map_bytes = c.map_bytes;
	g.rank_of_vertex = c.map_bytes ? map.at - (uint64_t)c.window_first * c.map_bytes : nullptr;
	g.row_count = c.row_count;
	g.row_bytes = c.row_bytes;
	g.link_bytes = c.link_bytes;
	g.long_bytes = c.long_bytes;
	g.out = out.rows.at;
	g.out_stride = out_stride(c);
	g.miss_ranks = (uint64_t *)out.miss_ranks.at;
	g.miss_rows = (uint32_t *)out.miss_rows.at;
	g.counts = (struct rung__cuda_counts *)out.counts.at;
	g.report = (struct rung__cuda_report *)out.report.at;
}

/* Record accesses. Relies on the tiers' memories being the first that were lent. */
static void watch_accesses(const gather_output &out, const std::vector<bool> &over_link,
                           gather_seen *seen)
{
	const std::vector<lanes::region> lent = lanes::lent;
	const uintptr_t out_begin = (uintptr_t)out.rows.at, out_end = out_begin + out.rows.bytes;
	const uintptr_t miss_counter =
		(uintptr_t)out.counts.at + offsetof(struct rung__cuda_counts, miss_count);

	*seen = {};
	seen->out_begin = out_begin;
	lanes::watch = [=](const lanes::access &a) {
		seen->atomics += a.kind == lanes::ATOMIC && a.at == miss_counter;
		bool row = a.kind == lanes::STORE && a.at >= out_begin && a.at < out_end;
		if (row)
			seen->stores.push_back(a);
		const bool load = a.kind == lanes::LOAD;
		for (size_t m = 0; m < over_link.size() && load && !row; m++) {
			row = a.at >= lent[m].begin && a.at < lent[m].end;
			if (row && over_link[m])
				seen->link_loads.push_back(a);
		}
		if (row && load)
			seen->row_loads.push_back(a);
		if (row)
			seen->in_order.push_back(a);
	};
}

static void launch(const gather_case &c, const struct rung__cuda_gather &g)
{
	lanes::blocks_started = lanes::most_blocks = 0;
	const int rc = rung__cuda_gather_launch(&g, c.block_count, nullptr);
	lanes::watch = nullptr;
	CHECK(rc == 0, "%s", rung_last_error());
	const bool link = std::any_of(c.tiers.begin(), c.tiers.end(),
	                              [](const tier &t) { return t.over_link && t.rows; });
	const unsigned blocks_max = std::max(c.block_count, link ? 2u : 1u);
	CHECK(c.long_bytes || lanes::blocks_started <= blocks_max, "%u blocks",
	      lanes::blocks_started);
	CHECK(*g.end.word == (g.id_count ? 77u : 0u));
}

static void check_bytes(const gather_case &c, const struct rung__cuda_gather &g, gather_seen *seen)
{
	uint64_t loaded = 0, stored = 0, hits;

	seen->misses = g.report->miss_count;
	hits = g.id_count - seen->misses - g.report->bad_count;
	for (const lanes::access &a : seen->row_loads)
		loaded += a.bytes;
	for (const lanes::access &a : seen->stores)
		stored += a.bytes;
	CHECK(loaded == hits * c.row_bytes && stored == loaded,
	      "not every byte is read once and written once");
}

/** Run one gather and compare. `seen` returns the accesses. */
static void run_case(gather_case c, gather_seen *seen = nullptr)
{
	std::vector<memory> memories;
	struct rung__cuda_gather g = {};
	const std::vector<bool> over_link = place_tiers(c, g, memories);
	const memory ids = place_ids(c), map = place_map(c);
	const gather_output out(c, c.ids.size());

	describe(c, ids, map, out, g);
	if (seen)
		watch_accesses(out, over_link, seen);
	launch(c, g);
	compare_with_naive_loop(c, out.rows, g);
	for (size_t k = 0; k < out.counts.bytes; k++)
		CHECK(out.counts.at[k] == 0,
		      "byte %zu of the counts is not reset for the next gather", k);
	if (seen)
		check_bytes(c, g, seen);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * One batch: a graph whose arrays are spread over tiers, the kernels' run, the CPU's sampler on the
 * same graph, and a naive loop over the result. The loop shares nothing with either sampler: it
 * checks that the batch is valid, not that it is one particular batch.
 */
#ifndef SAMPLER_CASE_H
#define SAMPLER_CASE_H

#include <algorithm>
#include <map>

#include "../../kernels/sampler.cu"
#include "../../kernels/sampler_host.cu"
#include "lanes_test.h"

static const uint32_t ALL_NEIGHBOURS = UINT32_MAX;

struct graph {
	std::vector<uint64_t> indptr = { 0 }, indices;
	unsigned index_bytes = 4;

	uint64_t vertices() const
	{
		return indptr.size() - 1;
	}
	uint64_t degree(uint64_t v) const
	{
		return indptr[v + 1] - indptr[v];
	}
	void add(const std::vector<uint64_t> &list) /* appends the next vertex */
	{
		indices.insert(indices.end(), list.begin(), list.end());
		indptr.push_back(indices.size());
	}
};

/* The part of an array in one tier, in lines of 128 bytes. */
struct tier {
	uint64_t lines;
	unsigned gpus = 1;
	unsigned over_link = 0;
	unsigned stride_more = 0;
};

static const uint64_t REST = UINT64_MAX; /* lines of the last tier: all remaining ones */

struct sample_case {
	const graph *g = nullptr;
	std::vector<tier> indptr_tiers = { { REST } }, index_tiers = { { REST } };
	std::vector<uint32_t> fanouts = { 5 };
	std::vector<uint64_t> seeds;
	uint64_t seed = 1, batch_key = 0;
	unsigned block_count = 2;
	uint64_t seed_room = 0; /* 0: the number of seeds */
	std::vector<uint64_t> vertex_capacity,
		edge_capacity; /* empty: a capacity that no batch exceeds */
	/* 0: the graph's; otherwise the graph is a window into a larger one */
	uint64_t vertex_count = 0, edge_count = 0;
	uint64_t window_vertex = 0, window_edge = 0; /* its first vertex and edge */
};

struct sampled {
	struct rung__cuda_sampler sampler;
	struct rung__cuda_sample_report report;
	int status;
	std::vector<uint64_t> vertices;
	std::vector<std::vector<uint64_t>> indptr;
	std::vector<std::vector<uint32_t>> indices;
};

/* ---- arrays in tiers ---- */

/* Place `item_count` items, the graph's from window_first on, in memories of exact size, with each
 * line where its tier's rule puts it. */
static void place_array(struct rung__cuda_array *array, const std::vector<uint64_t> &items,
                        uint64_t window_first, uint64_t item_count, unsigned item_bytes,
                        const std::vector<tier> &tiers, std::vector<memory> &memories)
{
	const uint64_t line_items = 128 / item_bytes,
		       lines = rung__cuda_lines(item_count, item_bytes);
	const uint64_t window_end = window_first + items.size();
	uint64_t line_first = 0;

	array->item_bytes = item_bytes;
	array->view_count = (uint32_t)tiers.size();
	for (size_t v = 0; v < tiers.size(); v++) {
		struct rung__cuda_view *view = &array->views[v];
		const uint64_t line_end =
			tiers[v].lines < lines - line_first ? line_first + tiers[v].lines : lines;
		const uint64_t begin = std::max(line_first, window_first / line_items);
		const uint64_t end = std::min(line_end, (window_end + line_items - 1) / line_items);
		view->base_count = tiers[v].gpus;
		view->over_link = tiers[v].over_link;
		view->stride = 128 + tiers[v].stride_more;
		view->rank_end = line_end;
		for (unsigned gpu = 0; gpu < tiers[v].gpus; gpu++) {
			std::vector<uint64_t> held;
			for (uint64_t line = begin; line < end; line++)
				if ((line - line_first) % tiers[v].gpus == gpu)
					held.push_back(line);
			if (held.empty()) {
				/* not lent: any access fails */
				static unsigned char nothing[128] __attribute__((aligned(128)));
				view->base[gpu] = line_end - line_first > gpu ? nothing : nullptr;
				continue;
			}
			const uint64_t last_items =
				std::min(line_items, item_count - held.back() * line_items);
			memories.emplace_back((held.size() - 1) * view->stride +
			                              last_items * item_bytes,
			                      0, false);
			unsigned char *at = memories.back().at;
			memset(at, 0xab, memories.back().bytes);
			for (size_t k = 0; k < held.size(); k++)
				for (uint64_t i = held[k] * line_items;
				     i < (held[k] + 1) * line_items && i < item_count; i++)
					if (i >= window_first && i < window_end) /* little endian */
						memcpy(at + k * view->stride +
						               i % line_items * item_bytes,
						       &items[i - window_first], item_bytes);
			view->base[gpu] =
				at - (held[0] - line_first) / tiers[v].gpus * view->stride;
		}
		line_first = line_end;
	}
}

/* ---- the kernels' batch ---- */

static void describe(const sample_case &c, struct rung__cuda_sampler *s,
                     std::vector<memory> &memories)
{
	const graph &g = *c.g;

	s->graph.vertex_count = c.vertex_count ? c.vertex_count : g.vertices();
	s->graph.edge_count = c.edge_count ? c.edge_count : g.indices.size();
	place_array(&s->graph.indptr, g.indptr, c.window_vertex, s->graph.vertex_count + 1, 8,
	            c.indptr_tiers, memories);
	place_array(&s->graph.indices, g.indices, c.window_edge, s->graph.edge_count, g.index_bytes,
	            c.index_tiers, memories);
	s->hop_count = (uint32_t)c.fanouts.size();
	std::copy(c.fanouts.begin(), c.fanouts.end(), s->fanouts);
	s->seed = c.seed;
	CHECK(rung__cuda_sample_capacity_max(
		      s->graph.vertex_count, s->graph.edge_count, s->fanouts, s->hop_count,
		      c.seed_room ? c.seed_room : c.seeds.size(), &s->capacity) == 0,
	      "%s", rung_last_error());
	if (!c.vertex_capacity.empty())
		std::copy(c.vertex_capacity.begin(), c.vertex_capacity.end(),
		          s->capacity.vertex_counts);
	if (!c.edge_capacity.empty())
		std::copy(c.edge_capacity.begin(), c.edge_capacity.end(), s->capacity.edge_counts);
}

/** Run one batch and copy its results. All memory has its exact size and holds garbage before the
 * run. */
static sampled run_batch(const sample_case &c)
{
	std::vector<memory> memories;
	sampled got = {};
	struct rung__cuda_sampler &s = got.sampler;
	struct rung__cuda_sample sample = {};

	lanes::lent.clear();
	describe(c, &s, memories);
	CHECK(rung__cuda_sampler_workspace(&s, &sample.workspace_bytes) == 0, "%s",
	      rung_last_error());
	const memory seeds(c.seeds.size() * 8, 8, false), work(sample.workspace_bytes, 0, true);
	const memory report(sizeof(struct rung__cuda_sample_report), 8, true),
		vertices(s.capacity.vertex_counts[s.hop_count] * 8, 8, true);
	std::vector<memory> indptr, indices;

	memcpy(seeds.at, c.seeds.data(), seeds.bytes);
	memset(work.at, 0x5a, work.bytes);
	for (uint32_t hop = 0; hop < s.hop_count; hop++) {
		indptr.emplace_back((s.capacity.vertex_counts[hop] + 1) * 8, 8, true);
		indices.emplace_back(s.capacity.edge_counts[hop] * 4, 4, true);
		sample.indptr[hop] = (uint64_t *)indptr.back().at;
		sample.indices[hop] = (uint32_t *)indices.back().at;
	}
	sample.seeds = (const uint64_t *)seeds.at;
	sample.seed_count = c.seeds.size();
	sample.batch_key = c.batch_key;
	sample.vertices = (uint64_t *)vertices.at;
	sample.workspace = work.at;
	sample.report = (struct rung__cuda_sample_report *)report.at;
	CHECK(rung__cuda_sample_launch(&s, &sample, c.block_count, nullptr) == 0, "%s",
	      rung_last_error());
	got.report = *sample.report;
	got.status = rung__cuda_sample_status(&s, sample.report);
	if (got.status < 0)
		return got;
	for (uint32_t hop = 0; hop < s.hop_count; hop++) {
		got.indptr.emplace_back(sample.indptr[hop],
		                        sample.indptr[hop] + got.report.vertex_counts[hop] + 1);
		got.indices.emplace_back(sample.indices[hop],
		                         sample.indices[hop] + got.report.edge_counts[hop]);
	}
	got.vertices.assign(sample.vertices,
	                    sample.vertices + got.report.vertex_counts[s.hop_count]);
	return got;
}

/* ---- expected results ---- */

/** The CPU's sampler over one graph, created once for many batches. */
struct cpu_sampler {
	std::vector<uint32_t> narrow;
	struct rung_csc csc = {};
	struct rung_sampler *sampler = nullptr;
	struct rung_batch *batch = nullptr;

	explicit cpu_sampler(const sample_case &c)
	    : narrow(c.g->indices.begin(), c.g->indices.end())
	{
		struct rung_sampler_opts opts = rung_sampler_opts_init();

		csc.vertex_count = c.g->vertices();
		csc.edge_count = c.g->indices.size();
		csc.indptr = c.g->indptr.data();
		csc.indices =
			c.g->index_bytes == 4 ? (const void *)narrow.data() : c.g->indices.data();
		csc.index_bytes = c.g->index_bytes;
		opts.fanouts = c.fanouts.data();
		opts.hop_count = (uint32_t)c.fanouts.size();
		opts.seed = c.seed;
		opts.threads = 1;
		CHECK(rung_sampler_create(&csc, &opts, &sampler) == 0, "%s", rung_last_error());
		CHECK(rung_batch_create(&batch) == 0);
	}
	cpu_sampler(const cpu_sampler &) = delete;
	cpu_sampler &operator=(const cpu_sampler &) = delete;
	~cpu_sampler()
	{
		rung_batch_destroy(batch);
		rung_sampler_destroy(sampler);
	}
	int sample(const sample_case &c)
	{
		return rung_sampler_sample(sampler, c.seeds.data(), c.seeds.size(), c.batch_key,
		                           batch);
	}
};

static void compare_with_cpu(const sample_case &c, const sampled &got)
{
	cpu_sampler cpu(c);
	uint64_t count;

	CHECK(cpu.sample(c) == 0, "%s", rung_last_error());
	const uint64_t *vertices = rung_batch_vertices(cpu.batch, &count);
	CHECK(std::vector<uint64_t>(vertices, vertices + count) == got.vertices);
	for (uint32_t hop = 0; hop < c.fanouts.size(); hop++) {
		const struct rung_block *block = rung_batch_block(cpu.batch, hop);
		CHECK(block->dst_count == got.report.vertex_counts[hop] &&
		      block->src_count == got.report.vertex_counts[hop + 1]);
		CHECK(block->edge_count == got.report.edge_counts[hop]);
		CHECK(std::vector<uint64_t>(block->indptr, block->indptr + block->dst_count + 1) ==
		      got.indptr[hop]);
		CHECK(std::vector<uint32_t>(block->indices, block->indices + block->edge_count) ==
		      got.indices[hop]);
	}
}

/* Checks counts, places without replacement, whole lists in order, and numbers by first
 * appearance. */
static void check_structure(const sample_case &c, const sampled &got)
{
	const graph &g = *c.g;
	std::map<uint64_t, uint32_t> number;
	uint64_t known = c.seeds.size();

	CHECK(got.report.vertex_counts[0] == known);
	for (size_t i = 0; i < known; i++) {
		CHECK(got.vertices[i] == c.seeds[i]);
		number.insert({ c.seeds[i], (uint32_t)i }); /* the first of equal seeds */
	}
	for (size_t hop = 0; hop < c.fanouts.size(); hop++) {
		const uint64_t dst_count = known;
		uint64_t at = 0;
		CHECK(got.report.vertex_counts[hop] == dst_count);
		for (uint64_t i = 0; i < dst_count; i++) {
			const uint64_t v = got.vertices[i] - c.window_vertex, degree = g.degree(v);
			const uint64_t draws = c.fanouts[hop] == ALL_NEIGHBOURS
			                               ? degree
			                               : std::min<uint64_t>(degree, c.fanouts[hop]);
			std::map<uint64_t, int> left;
			for (uint64_t k = 0; k < degree; k++)
				left[g.indices[g.indptr[v] + k - c.window_edge]]++;
			CHECK(got.indptr[hop][i] == at, "vertex %zu", (size_t)i);
			for (uint64_t k = 0; k < draws; k++) {
				const uint32_t position = got.indices[hop][at + k];
				CHECK(position < got.vertices.size());
				const uint64_t id = got.vertices[position];
				CHECK(left[id]-- > 0, "drawn more often than it occurs: %zu",
				      (size_t)id);
				CHECK(draws < degree ||
				      id == g.indices[g.indptr[v] + k - c.window_edge]);
				if (number.insert({ id, (uint32_t)known }).second)
					known++;
				CHECK(number[id] == position);
			}
			at += draws;
		}
		CHECK(got.indptr[hop][dst_count] == at && got.report.edge_counts[hop] == at);
		CHECK(got.report.vertex_counts[hop + 1] == known);
	}
}

/** Run one batch that must succeed, and check it. */
static sampled run_case(const sample_case &c)
{
	const sampled got = run_batch(c);

	CHECK(got.status == 0, "%s", rung_last_error());
	check_structure(c, got);
	if (!c.vertex_count)
		compare_with_cpu(c, got);
	return got;
}

#endif

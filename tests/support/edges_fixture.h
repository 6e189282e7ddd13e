/* SPDX-License-Identifier: Apache-2.0 */
/** Edges in files, for tests: a folder with graph files, their specs, and the comparison with
 * graphs in memory. */
#ifndef TESTS_EDGES_FIXTURE_H
#define TESTS_EDGES_FIXTURE_H

#include <stdio.h>
#include <unistd.h>

#include "dataset.h"
#include "edges/edges.h"
#include "graphs.h"
#include "raw_files.h"
#include "expect_error.h"

static inline unsigned dtype_bytes(const char *dtype)
{
	return dtype[1] == '3' ? 4 : 8;
}

/* Write integers as a file of any of the four types. */
static inline const char *ids_file(int slot, const uint64_t *values, uint64_t count, size_t skip,
                                   const char *dtype)
{
	void *ids = test_ids(values, count, dtype_bytes(dtype));
	char shape[60];

	snprintf(shape, sizeof(shape), "%s,%d", dtype, (int)count);
	raw_file(slot, ids, count * dtype_bytes(dtype), skip, shape);
	free(ids);
	return spec_text[slot];
}

/* Adjacency lists as "csc:SRC,SRC" or "csr:SRC,SRC". */
static inline const char *columns_spec(const char *prefix, const struct test_graph *graph,
                                       size_t skip, const char *offset_dtype, const char *id_dtype)
{
	static char text[1200];
	uint64_t *indices = malloc(graph->csc.edge_count * sizeof(*indices) + 1);

	for (uint64_t e = 0; e < graph->csc.edge_count; e++)
		indices[e] = test_id(graph->indices, graph->csc.index_bytes, e);
	snprintf(text, sizeof(text), "%s:%s,%s", prefix,
	         ids_file(0, graph->indptr, graph->csc.vertex_count + 1, skip, offset_dtype),
	         ids_file(1, indices, graph->csc.edge_count, skip, id_dtype));
	free(indices);
	return text;
}

/* The contents of all chunks so far, compared with the graph in memory. */
struct seen {
	const struct rung_csc *csc;
	uint64_t vertices, edges; /* so far */
	uint64_t chunks, split;
	uint64_t edges_max;
};

static inline int compare_chunk(void *ctx, const struct rung__edge_chunk *chunk)
{
	struct seen *seen = ctx;
	const struct rung_csc *csc = seen->csc;
	const bool goes_on = chunk->edge_first > chunk->indptr[0];
	const bool stays_open =
		chunk->edge_first + chunk->edge_count < chunk->indptr[chunk->vertex_count];
	uint64_t covered = 0;

	cr_assert_eq(chunk->index_bytes, csc->index_bytes);
	cr_assert_eq(chunk->vertex_first, seen->vertices);
	cr_assert_eq(chunk->edge_first, seen->edges);
	cr_assert_gt(chunk->vertex_count, 0);
	cr_assert_leq(chunk->vertex_first + chunk->vertex_count, csc->vertex_count);
	cr_assert_leq(chunk->edge_count, seen->edges_max);
	cr_assert_eq(memcmp(chunk->indptr, csc->indptr + chunk->vertex_first,
	                    (chunk->vertex_count + 1) * 8),
	             0);
	cr_assert_eq(memcmp(chunk->indices,
	                    (const char *)csc->indices + chunk->edge_first * csc->index_bytes,
	                    chunk->edge_count * csc->index_bytes),
	             0, "edges from %d on", (int)chunk->edge_first);
	for (uint64_t i = 0; i < chunk->vertex_count; i++) {
		uint64_t begin, end;

		rung__edge_chunk_list(chunk, i, &begin, &end);
		cr_assert_eq(begin, covered);
		covered = end;
		if (goes_on || stays_open)
			cr_assert(i > 0 || chunk->indptr[1] - chunk->indptr[0] > seen->edges_max,
			          "a list that fits is split");
	}
	cr_assert_eq(covered, chunk->edge_count);
	if (stays_open)
		cr_assert_eq(chunk->vertex_count, 1);
	seen->chunks++;
	seen->split += stays_open;
	seen->vertices += chunk->vertex_count - stays_open;
	seen->edges += chunk->edge_count;
	return 0;
}

static inline int open_edges(const char *const *specs, size_t spec_count,
                             struct rung_edges_opts opts, struct rung_edges **edges_out)
{
	opts.graph.specs = specs;
	opts.graph.spec_count = spec_count;
	opts.temp_dir = folder;
	return rung_edges_open(&opts, edges_out);
}

#define DEFAULTS (struct rung_edges_opts) RUNG_EDGES_OPTS_INIT

/* Passes over the files must equal a graph in memory. @return the chunks seen */
static inline struct seen assert_passes_equal(const struct rung_csc *csc, const char *const *specs,
                                              size_t spec_count, struct rung_edges_opts opts)
{
	struct rung_edges_info info = { .size = sizeof(info) };
	struct rung_edges *edges;
	struct seen seen;

	cr_assert_eq(open_edges(specs, spec_count, opts, &edges), 0, "%s", rung_last_error());
	cr_assert_eq(rung_edges_info(edges, &info), 0);
	cr_assert_eq(info.vertex_count, csc->vertex_count);
	cr_assert_eq(info.source_count, csc->source_count);
	cr_assert_eq(info.edge_count, csc->edge_count);
	cr_assert_leq(info.memory_bytes,
	              opts.memory_bytes ? opts.memory_bytes : UINT64_C(256) << 20);
	for (int pass = 0; pass < 2; pass++) {
		seen = (struct seen){ .csc = csc,
			              .edges_max = info.chunk_bytes / info.index_bytes };
		cr_assert_eq(rung__edges_pass(edges, compare_chunk, &seen), 0, "%s",
		             rung_last_error());
		cr_assert_eq(seen.vertices, info.vertex_count);
		cr_assert_eq(seen.edges, info.edge_count);
	}
	rung_edges_close(edges);
	return seen;
}

/* Passes over the files must equal the graph that rung_graph_load() builds from them. @return the
 * chunks seen */
static inline struct seen assert_equals_load(const char *const *specs, size_t spec_count,
                                             struct rung_edges_opts opts)
{
	struct rung_graph *graph;
	struct seen seen;

	opts.graph.specs = specs;
	opts.graph.spec_count = spec_count;
	cr_assert_eq(rung_graph_load(&opts.graph, &graph), 0, "%s", rung_last_error());
	seen = assert_passes_equal(rung_graph_csc(graph), specs, spec_count, opts);
	rung_graph_destroy(graph);
	return seen;
}

/* Vertex 3 has 5000 in-edges, the others few or none. */
static inline struct test_graph hub_graph(void)
{
	uint64_t *sources = malloc(5200 * sizeof(*sources)),
		 *destinations = malloc(5200 * sizeof(*destinations)), state = 5;

	for (uint64_t e = 0; e < 5200; e++) {
		sources[e] = test_random(&state) % 40000;
		destinations[e] = e % 26 ? 3 : test_random(&state) % 40000;
	}
	return test_graph_of_edges(40000, 5200, sources, destinations, 4);
}

static inline const char *edges_spec(int slot, const struct test_graph *graph, uint64_t first,
                                     uint64_t count, bool by_row, const char *dtype)
{
	uint64_t *both = malloc(2 * count * sizeof(*both) + 1);
	void *ids;
	char shape[60];

	for (uint64_t e = 0; e < count; e++) {
		both[by_row ? 2 * e : e] = graph->sources[first + e];
		both[by_row ? 2 * e + 1 : count + e] = graph->destinations[first + e];
	}
	ids = test_ids(both, 2 * count, dtype_bytes(dtype));
	snprintf(shape, sizeof(shape), by_row ? "%s,%dx2" : "%s,2x%d", dtype, (int)count);
	raw_file(slot, ids, 2 * count * dtype_bytes(dtype), 0, shape);
	free(ids);
	free(both);
	return spec_text[slot];
}

/* Opening fails with each allocation in turn, without a leak, until it has all that it needs. */
static inline void assert_opens_after_failures(const char *spec, struct rung_edges_opts opts)
{
	const int fds = support_open_descriptors();
	struct rung_edges *edges;
	int64_t limit = 0;
	int rc;

	do {
		rung__alloc_limit(limit++);
		rc = open_edges(&spec, 1, opts, &edges);
		rung__alloc_limit(-1);
		cr_assert(rc == 0 || rc == RUNG_E_NOMEM, "allocation %d: %s", (int)limit,
		          rung_last_error());
		if (rc == 0)
			rung_edges_close(edges);
		cr_assert_eq(support_open_descriptors(), fds);
	} while (rc < 0);
	cr_assert_gt(limit, 9);
}

static inline int cancel_when_sorting(void *ctx, const char *step, unsigned long long done,
                                      unsigned long long total)
{
	cr_assert_leq(done, total);
	return strcmp(step, ctx) == 0;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contents of graph files. The input is a byte of flags, a byte with the number of vertices,
 * and the files: offsets of 8 bytes (for csc: and csr:), then ids. If rung_graph_load() accepts
 * them, passes over the edges in files must accept them too and give the same lists.
 */
#include <string.h>

#include "edges/edges.h"
#include "fuzz.h"
#include "rung/rung.h"

const size_t fuzz_bytes_max = 4096;
const size_t fuzz_places_max = 2;

enum { UNDIRECTED = 1, DEDUP = 2, COLUMNS = 4, ROWS = 8, WIDE = 16, PAIRS_DOWN = 32 };

struct lists {
	const struct rung_csc *csc;
	uint64_t edges;
};

static int compare_chunk(void *ctx, const struct rung__edge_chunk *chunk)
{
	struct lists *lists = ctx;
	const struct rung_csc *csc = lists->csc;

	FUZZ_CHECK(chunk->edge_first == lists->edges && chunk->index_bytes == csc->index_bytes);
	FUZZ_CHECK(chunk->vertex_first + chunk->vertex_count <= csc->vertex_count);
	FUZZ_CHECK(chunk->edge_count <= csc->edge_count - lists->edges);
	FUZZ_CHECK(memcmp(chunk->indptr, csc->indptr + chunk->vertex_first,
	                  (chunk->vertex_count + 1) * sizeof(uint64_t)) == 0);
	FUZZ_CHECK(chunk->edge_count == 0 ||
	           memcmp(chunk->indices,
	                  (const char *)csc->indices + lists->edges * csc->index_bytes,
	                  chunk->edge_count * csc->index_bytes) == 0);
	lists->edges += chunk->edge_count;
	return 0;
}

static int pass(const struct rung_graph_opts *graph, const struct rung_csc *csc)
{
	struct rung_edges_opts opts = RUNG_EDGES_OPTS_INIT;
	struct lists lists = { .csc = csc };
	struct rung_edges *edges;
	int rc;

	opts.graph = *graph;
	opts.memory_bytes = 1 << 20;
	opts.chunk_bytes = 4096;
	opts.temp_dir = fuzz_folder();
	rc = rung_edges_open(&opts, &edges);
	if (rc < 0)
		return rc;
	if (csc)
		rc = rung__edges_pass(edges, compare_chunk, &lists);
	rung_edges_close(edges);
	FUZZ_CHECK(!csc || rc < 0 || lists.edges == csc->edge_count);
	return rc;
}

/* Write the files of an input, and the spec of their graph. */
static bool write_spec(const uint8_t *data, size_t bytes, char *spec, size_t spec_bytes)
{
	const size_t id_bytes = data[0] & WIDE ? 8 : 4, offsets_count = (size_t)data[1] + 1;
	const size_t offsets_bytes = data[0] & (COLUMNS | ROWS) ? 8 * offsets_count : 0;
	const char *offsets, *ids;
	size_t count;

	if (bytes - 2 < offsets_bytes)
		return false;
	count = (bytes - 2 - offsets_bytes) / id_bytes;
	offsets = fuzz_file(0, "offsets", data + 2, offsets_bytes);
	ids = fuzz_file(1, "ids", data + 2 + offsets_bytes, bytes - 2 - offsets_bytes);
	if (offsets_bytes > 0)
		snprintf(spec, spec_bytes, "%s:raw:%s,u64,%zu,0,raw:%s,%s,%zu,0,trailing=ignore",
		         data[0] & COLUMNS ? "csc" : "csr", offsets, offsets_count, ids,
		         id_bytes == 8 ? "i64" : "u32", count);
	else if (data[0] & PAIRS_DOWN)
		snprintf(spec, spec_bytes, "raw:%s,%s,%zux2,0,trailing=ignore", ids,
		         id_bytes == 8 ? "u64" : "i32", count / 2);
	else
		snprintf(spec, spec_bytes, "raw:%s,%s,2x%zu,0,trailing=ignore", ids,
		         id_bytes == 8 ? "u64" : "i32", count / 2);
	return true;
}

int fuzz_one(const uint8_t *data, size_t bytes)
{
	struct rung_graph_opts opts = RUNG_GRAPH_OPTS_INIT;
	struct rung_graph *graph = NULL;
	const char *specs[1];
	char spec[400];
	int rc, passed;

	if (bytes < 2 || data[1] == 0 || !write_spec(data, bytes, spec, sizeof(spec)))
		return FUZZ_UNTRIED;
	specs[0] = spec;
	opts.specs = specs;
	opts.spec_count = 1;
	opts.vertex_count = data[1];
	opts.undirected = data[0] & UNDIRECTED;
	opts.dedup = data[0] & DEDUP;
	rc = rung_graph_load(&opts, &graph);
	FUZZ_CHECK(rc < 0 || rung_csc_check(rung_graph_csc(graph)) == 0);
	passed = pass(&opts, rc == 0 ? rung_graph_csc(graph) : NULL);
	FUZZ_CHECK(rc < 0 || passed == 0);
	rung_graph_destroy(graph);
	return passed < 0 ? passed : rc;
}

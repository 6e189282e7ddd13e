/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Edges of a csc: or csr: source, which are read in place; and functions for all open edges:
 * creating, closing, and their properties.
 */
#include "edges/edges.h"
#include "graph/graph.h"
#include "source/source.h"

/* Open the two arrays. Only their headers and lengths are read; each pass checks the offsets and
 * ids, because the files may change between passes. The caller closes `edges` after an error. */
static int open_columns(const struct rung_graph_opts *opts, uint64_t memory_bytes,
                        uint64_t chunk_bytes, struct rung_edges *edges)
{
	uint64_t limit;
	int rc = rung__columns_open(opts->specs[0], &edges->indptr_src, &edges->indices_src);

	if (rc < 0)
		return rc;
	rc = rung__columns_count(edges->indptr_src, rung__graph_lists_wanted(opts),
	                         &edges->info.vertex_count);
	if (rc < 0)
		return rc;
	edges->info.edge_count = rung_source_info(edges->indices_src)->row_count;
	limit = rung__graph_entries_limit(opts, edges->info.vertex_count);
	edges->info.source_count = opts->source_count ? limit : 0;
	edges->info.index_bytes = rung_index_bytes(RUNG__MAX(limit, edges->info.vertex_count));
	if ((rc = rung__id_file_open(&edges->indptr, edges->indptr_src)) < 0 ||
	    (rc = rung__id_file_open(&edges->indices, edges->indices_src)) < 0)
		return rc;
	/* counted in memory_bytes, although the sources own it */
	edges->source_bytes = rung__source_location(edges->indptr_src).memory_bytes +
	                      rung__source_location(edges->indices_src).memory_bytes;
	return rung__edges_plan_pass(edges, memory_bytes, chunk_bytes);
}

struct rung_edges *rung__edges_create(void)
{
	struct rung_edges *edges = rung__zalloc(sizeof(*edges));

	if (edges)
		edges->info.size = sizeof(edges->info);
	else
		rung__fail(RUNG_E_NOMEM, "edges: no memory");
	return edges;
}

int rung__edges_opened(struct rung_edges *edges, int rc, struct rung_edges **edges_out)
{
	if (rc < 0)
		rung_edges_close(edges);
	else
		*edges_out = edges;
	return rc;
}

int rung__edges_open_columns(const struct rung_graph_opts *opts, uint64_t memory_bytes,
                             uint64_t chunk_bytes, struct rung_edges **edges_out)
{
	struct rung_edges *edges = rung__edges_create();

	return !edges ? RUNG_E_NOMEM
	              : rung__edges_opened(edges,
	                                   open_columns(opts, memory_bytes, chunk_bytes, edges),
	                                   edges_out);
}

int rung_edges_info(const struct rung_edges *edges, struct rung_edges_info *info_out)
{
	return rung__opts_copy_out(info_out, &edges->info, sizeof(edges->info), "rung_edges_info");
}

void rung_edges_close(struct rung_edges *edges)
{
	if (!edges)
		return;
	rung__unmap_pages(edges->buffers, edges->buffer_bytes);
	rung__id_file_close(&edges->indptr);
	rung__id_file_close(&edges->indices);
	rung_source_close(edges->indptr_src);
	rung_source_close(edges->indices_src);
	rung__free(edges->temp_name);
	rung__free(edges->temp_dir);
	rung__free(edges);
}

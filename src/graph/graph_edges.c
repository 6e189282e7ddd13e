/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Edge lists to columns: a counting sort. The files are read twice, one chunk at a time: the first
 * pass counts the length of every column, the second stores the sources in their places. One more
 * pass comes first if the vertex count is not given. So the edges are in memory only once. Input
 * order is kept inside a column; the reverse of an edge follows it.
 *
 * Files may change between the passes: every pass checks every id, and no column is written past
 * its end.
 */
#include <string.h>

#include "sort/bucket.h"
#include "graph/edge_lists.h"
#include "graph/graph.h"

#define CHUNK_EDGES (RUNG__CHUNK_PAIRS / 2) /* an edge and its reverse are two pairs */

/* State of loading. */
struct loader {
	struct rung__edge_lists lists;
	uint64_t *indptr; /* [vertex_count + 1] counts, then offsets */
	uint64_t *next;   /* [vertex_count] place of the next edge of each column */
	void *indices;
	struct rung__buckets buckets; /* for place_pairs() */
};

/* First pass: add the pairs of a chunk to the lengths of their columns. */
static int count_pairs(void *ctx, const void *keys, const void *values, uint64_t pair_count,
                       const char *spec)
{
	const struct loader *loader = ctx;

	(void)values, (void)spec;
	rung__count_keys(keys, loader->lists.index_bytes, pair_count, loader->lists.threads,
	                 loader->indptr);
	return 0;
}

/* Second pass: store the sources of a chunk. If a pair has no place, the file has changed since it
 * was counted. */
static int place_pairs(void *ctx, const void *keys, const void *values, uint64_t pair_count,
                       const char *spec)
{
	const struct loader *loader = ctx;

	if (rung__buckets_place(&loader->buckets, keys, values, pair_count, loader->next,
	                        loader->indptr + 1, loader->indices) != pair_count)
		return rung__edges_changed(spec);
	return 0;
}

/* Allocate the arrays with an entry per vertex. A vertex count that follows from an id in a file
 * can be absurdly large: the message then names the edge. */
static int alloc_columns(struct loader *loader)
{
	const struct rung__edge_lists *lists = &loader->lists;
	uint64_t entries;

	if (rung__add(lists->vertex_count, 1, &entries))
		loader->indptr = rung__zalloc_array(entries, sizeof(*loader->indptr));
	loader->next = rung__malloc_array(lists->vertex_count, sizeof(*loader->next));
	if (loader->indptr && loader->next)
		return rung__buckets_init(&loader->buckets, lists->vertex_count, lists->index_bytes,
		                          lists->threads);
	if (lists->largest_spec)
		return rung__fail(RUNG_E_NOMEM,
		                  "graph: no memory for %" PRIu64
		                  " vertices, a count that follows from edge %" PRIu64
		                  " of %s with vertex %" PRIu64,
		                  lists->vertex_count, lists->largest_edge, lists->largest_spec,
		                  lists->largest);
	return rung__fail(RUNG_E_NOMEM, "graph of %" PRIu64 " vertices: no memory",
	                  lists->vertex_count);
}

/* Both passes. Afterwards every column must be full; otherwise the files had fewer edges in the
 * second pass. */
static int fill_columns(struct loader *loader)
{
	struct rung__edge_lists *lists = &loader->lists;
	const uint64_t vertex_count = lists->vertex_count;
	uint64_t pair_count;
	int rc;

	rc = rung__edge_lists_each(lists, count_pairs, loader);
	if (rc < 0)
		return rc;
	rung__offsets_of_counts(loader->indptr, vertex_count + 1);
	memcpy(loader->next, loader->indptr, vertex_count * sizeof(*loader->next));
	pair_count = loader->indptr[vertex_count];
	loader->indices = rung__malloc_array(pair_count, lists->index_bytes);
	if (!loader->indices)
		return rung__fail(RUNG_E_NOMEM, "graph of %" PRIu64 " edges: no memory",
		                  pair_count);
	rc = rung__edge_lists_each(lists, place_pairs, loader);
	for (uint64_t v = 0; v < vertex_count && rc == 0; v++) {
		if (loader->next[v] != loader->indptr[v + 1])
			rc = rung__edges_changed(rung__graph_first(lists->opts));
	}
	return rc;
}

int rung__graph_from_edges(const struct rung_graph_opts *opts, struct rung_graph **graph_out,
                           void **numbers_out)
{
	struct loader loader = { .indptr = NULL };
	struct rung_csc csc;
	int rc;

	rc = rung__edge_lists_open(&loader.lists, opts, CHUNK_EDGES);
	loader.lists.numbered = numbers_out != NULL;
	/* for the progress: the two or three passes described at the top of this file */
	loader.lists.pass_total = loader.lists.edge_count * (opts->vertex_count ? 2 : 3);
	if (rc == 0)
		rc = rung__edge_lists_find_vertex_count(&loader.lists);
	if (rc == 0)
		rc = alloc_columns(&loader);
	if (rc == 0)
		rc = fill_columns(&loader);
	/* Copied, because the lists are closed before the graph is checked: their buffers are freed
	 * first. */
	csc = (struct rung_csc){ .vertex_count = loader.lists.vertex_count,
		                 .edge_count =
		                         rc == 0 ? loader.indptr[loader.lists.vertex_count] : 0,
		                 .indptr = loader.indptr,
		                 .indices = loader.indices,
		                 .index_bytes = loader.lists.index_bytes,
		                 .source_count = opts->source_count };
	rung__edge_lists_close(&loader.lists);
	rung__free(loader.next);
	rung__buckets_fini(&loader.buckets);
	if (rc < 0) {
		rung__free(loader.indptr);
		rung__free(loader.indices);
		return rc;
	}
	if (!numbers_out)
		return rung__graph_adopt(&csc, graph_out);
	rung__free(loader.indptr);
	*numbers_out = loader.indices;
	return 0;
}

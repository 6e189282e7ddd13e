/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transposing a graph: lists of in-neighbours to lists of out-neighbours, and operations built on
 * it. A transposition visits the edges in the order of their columns, so its lists are ascending.
 * Two transpositions give the original graph with every list sorted by id, which finds duplicates
 * without sorting each list.
 */
#include <string.h>

#include "sort/bucket.h"
#include "graph/graph.h"

/* Column of edge `edge`: the last v with indptr[v] <= edge, so empty columns before it are
 * skipped. */
static uint64_t column_of(const struct rung_csc *csc, uint64_t edge)
{
	uint64_t low = 0, high = csc->vertex_count;

	while (high - low > 1) {
		const uint64_t middle = low + (high - low) / 2;

		if (csc->indptr[middle] <= edge)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Set columns[i] to the column of edge first + i. Each thread searches the first column of its part
 * and then continues in order. */
static void fill_columns(const struct rung_csc *csc, uint64_t first, uint64_t count, int threads,
                         void *columns)
{
	const uint64_t part = (count + (uint64_t)threads - 1) / (uint64_t)threads;

#pragma omp parallel for num_threads(threads) schedule(static, 1)
	for (int t = 0; t < threads; t++) {
		uint64_t edge = first + RUNG__MIN(count, part * (uint64_t)t);
		const uint64_t end = RUNG__MIN(first + count, edge + part);
		uint64_t column = edge < end ? column_of(csc, edge) : 0;

		for (; edge < end; edge++) {
			while (csc->indptr[column + 1] <= edge)
				column++;
			rung__id_set(columns, csc->index_bytes, edge - first, column);
		}
	}
}

/* Store all edges of csc in lists by source. indptr is that of the result. `next` is a copy of it,
 * which the call modifies: the place of the next edge of each list. */
static int place_edges(const struct rung_csc *csc, int threads, const uint64_t *indptr,
                       uint64_t *next, void *indices)
{
	const char *keys = csc->indices;
	struct rung__buckets buckets;
	uint64_t count;
	void *columns;
	int rc;

	rc = rung__buckets_init(&buckets, rung__csc_sources(csc), csc->index_bytes, threads);
	if (rc < 0)
		return rc;
	columns = rung__malloc_array(RUNG__CHUNK_PAIRS, csc->index_bytes);
	if (!columns) {
		rc = rung__fail(RUNG_E_NOMEM,
		                "transposing edges: no memory for %" PRIu64 " columns",
		                RUNG__CHUNK_PAIRS);
		goto fini_buckets;
	}
	/* in chunks, because the pairs of all edges would need a second copy of the graph */
	for (uint64_t first = 0; first < csc->edge_count; first += count) {
		count = RUNG__MIN(RUNG__CHUNK_PAIRS, csc->edge_count - first);
		fill_columns(csc, first, count, threads, columns);
		rung__buckets_place(&buckets, keys + first * csc->index_bytes, columns, count, next,
		                    indptr + 1, indices);
	}
	rung__free(columns);
fini_buckets:
	rung__buckets_fini(&buckets);
	return rc;
}

int rung__csc_turn(const struct rung_csc *csc, int threads, uint64_t **indptr_out,
                   void **indices_out)
{
	const uint64_t list_count = rung__csc_sources(csc);
	uint64_t *indptr = rung__zalloc_array(list_count + 1, sizeof(*indptr));
	uint64_t *next = rung__malloc_array(list_count, sizeof(*next));
	void *indices = rung__malloc_array(csc->edge_count, csc->index_bytes);
	int rc = 0;

	if (!indptr || !next || !indices) {
		rc = rung__fail(RUNG_E_NOMEM,
		                "transposing a graph of %" PRIu64 " vertices and %" PRIu64
		                " edges: no memory",
		                csc->vertex_count, csc->edge_count);
		goto out;
	}
	rung__count_keys(csc->indices, csc->index_bytes, csc->edge_count, threads, indptr);
	rung__offsets_of_counts(indptr, list_count + 1);
	memcpy(next, indptr, list_count * sizeof(*next));
	rc = place_edges(csc, threads, indptr, next, indices);
out:
	rung__free(next);
	if (rc < 0) {
		rung__free(indptr);
		rung__free(indices);
		return rc;
	}
	*indptr_out = indptr;
	*indices_out = indices;
	return 0;
}

/* The graph of the arrays that rung__csc_turn() returned for `csc`. */
static struct rung_csc turned_csc(const struct rung_csc *csc, const uint64_t *indptr,
                                  const void *indices)
{
	struct rung_csc turned = *csc;

	turned.indptr = indptr;
	turned.indices = indices;
	if (csc->source_count) {
		turned.vertex_count = csc->source_count;
		turned.source_count = csc->vertex_count;
	}
	return turned;
}

/* Remove repeats from sorted lists in place. The write position `at` never passes the read
 * position. */
static void drop_repeats(struct rung_graph *graph)
{
	const unsigned index_bytes = graph->csc.index_bytes;
	uint64_t begin = 0, at = 0;

	for (uint64_t v = 0; v < graph->csc.vertex_count; v++) {
		const uint64_t end = graph->indptr[v + 1];

		for (uint64_t e = begin; e < end; e++) {
			const uint64_t id = rung__id_get(graph->indices, index_bytes, e);

			if (e > begin && rung__id_get(graph->indices, index_bytes, at - 1) == id)
				continue;
			rung__id_set(graph->indices, index_bytes, at++, id);
		}
		begin = end;
		graph->indptr[v + 1] = at;
	}
	graph->csc.edge_count = at;
}

int rung__graph_dedup(struct rung_graph *graph)
{
	const int threads = rung__threads(0);
	struct rung_csc turned;
	uint64_t *indptr, *next;
	void *indices, *smaller;
	int rc;

	rc = rung__csc_turn(&graph->csc, threads, &indptr, &indices);
	if (rc < 0)
		return rc;
	next = rung__malloc_array(graph->csc.vertex_count, sizeof(*next));
	if (!next) {
		rc = rung__fail(RUNG_E_NOMEM,
		                "sorting the lists of %" PRIu64 " vertices: no memory",
		                graph->csc.vertex_count);
		goto out;
	}
	turned = turned_csc(&graph->csc, indptr, indices);
	memcpy(next, graph->indptr, graph->csc.vertex_count * sizeof(*next));
	/* The second transposition writes into the arrays of the graph itself. Its indptr is
	 * already that of the result: sorting does not change the length of a list. */
	rc = place_edges(&turned, threads, graph->indptr, next, graph->indices);
	if (rc < 0)
		goto out;
	drop_repeats(graph);
	smaller =
		rung__realloc_array(graph->indices, graph->csc.edge_count, graph->csc.index_bytes);
	if (smaller) { /* after a failure the longer array stays */
		graph->indices = smaller;
		graph->csc.indices = smaller;
	}
out:
	rung__free(next);
	rung__free(indptr);
	rung__free(indices);
	return rc;
}

/* Replace the arrays of a graph, and free the old ones. */
static void replace(struct rung_graph *graph, uint64_t *indptr, void *indices, uint64_t edge_count)
{
	rung__free(graph->indptr);
	rung__free(graph->indices);
	graph->indptr = indptr;
	graph->indices = indices;
	graph->csc.indptr = indptr;
	graph->csc.indices = indices;
	graph->csc.edge_count = edge_count;
}

/* Copy the entries of v's out-list, without v itself, to position `at`. @param indices  NULL: only
 * count them. @return position after them */
static uint64_t copy_reverse(const struct rung_csc *out, uint64_t v, uint64_t at, void *indices)
{
	for (uint64_t e = out->indptr[v]; e < out->indptr[v + 1]; e++) {
		const uint64_t id = rung__id_get(out->indices, out->index_bytes, e);

		if (id == v)
			continue;
		if (indices)
			rung__id_set(indices, out->index_bytes, at, id);
		at++;
	}
	return at;
}

/* Append to each list of the graph the entries of the same list of `out`, in new arrays. The
 * lengths are computed first, serially, since each offset depends on the previous ones; the lists
 * are then copied in parallel. */
static int join(struct rung_graph *graph, const struct rung_csc *out)
{
	const struct rung_csc in = graph->csc;
	uint64_t *indptr = rung__malloc_array(in.vertex_count + 1, sizeof(*indptr));
	void *indices = NULL;

	if (indptr) {
		indptr[0] = 0;
		for (uint64_t v = 0; v < in.vertex_count; v++)
			indptr[v + 1] = copy_reverse(
				out, v, indptr[v] + in.indptr[v + 1] - in.indptr[v], NULL);
		indices = rung__malloc_array(indptr[in.vertex_count], in.index_bytes);
	}
	if (!indices) {
		rung__free(indptr);
		return rung__fail(RUNG_E_NOMEM, "reversing %" PRIu64 " edges: no memory",
		                  in.edge_count);
	}
#pragma omp parallel for num_threads(rung__threads(0)) schedule(dynamic, 1024)
	for (uint64_t v = 0; v < in.vertex_count; v++) {
		const uint64_t degree = in.indptr[v + 1] - in.indptr[v];

		memcpy((char *)indices + indptr[v] * in.index_bytes,
		       (const char *)in.indices + in.indptr[v] * in.index_bytes,
		       degree * in.index_bytes);
		copy_reverse(out, v, indptr[v] + degree, indices);
	}
	replace(graph, indptr, indices, indptr[in.vertex_count]);
	return 0;
}

int rung__graph_undirect(struct rung_graph *graph)
{
	struct rung_csc out = graph->csc;
	uint64_t *indptr;
	void *indices;
	int rc;

	rc = rung__csc_turn(&graph->csc, rung__threads(0), &indptr, &indices);
	if (rc < 0)
		return rc;
	out.indptr = indptr;
	out.indices = indices;
	rc = join(graph, &out);
	rung__free(indptr);
	rung__free(indices);
	return rc;
}

int rung__graph_flip(struct rung_graph *graph, bool undirected)
{
	uint64_t *out_indptr = graph->indptr, *indptr;
	void *out_indices = graph->indices, *indices;
	const struct rung_csc out = graph->csc;
	int rc;

	rc = rung__csc_turn(&out, rung__threads(0), &indptr, &indices);
	if (rc < 0)
		return rc;
	/* join() still needs the old arrays, so replace() must not free them */
	graph->indptr = NULL;
	graph->indices = NULL;
	graph->csc = turned_csc(&out, indptr, indices);
	replace(graph, indptr, indices, out.edge_count);
	if (undirected)
		rc = join(graph, &out);
	rung__free(out_indptr);
	rung__free(out_indices);
	return rc;
}

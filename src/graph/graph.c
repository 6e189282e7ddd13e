/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs in memory: creation, release, and the check of every entry of indptr and indices.
 *
 * The rest of rung relies on this check and indexes arrays by these entries without checking them
 * again. Each check reports the first bad position, whatever the number of threads.
 */
#include "graph/graph.h"

const struct rung_csc *rung_graph_csc(const struct rung_graph *graph)
{
	return &graph->csc;
}

void rung_graph_destroy(struct rung_graph *graph)
{
	if (!graph)
		return;
	rung__free(graph->indptr);
	rung__free(graph->indices);
	rung__free(graph);
}

uint64_t rung__offsets_of_counts(uint64_t *counts, uint64_t count)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < count; i++) {
		uint64_t here = counts[i];

		counts[i] = sum;
		sum += here; /* cannot overflow: counts of entries of an array in memory */
	}
	return sum;
}

/* The first i with indptr[i] > indptr[i + 1]; vertex_count if indptr never decreases. */
static int first_descent(const struct rung_csc *csc, uint64_t *at_out)
{
	uint64_t found = csc->vertex_count;
	int rc = 0;

	for (uint64_t at = 0, end; at < found && rc == 0; at = end) {
		end = RUNG__MIN(at + RUNG__WORK_BYTES / sizeof(*csc->indptr), csc->vertex_count);
#pragma omp parallel for num_threads(rung__threads(0)) reduction(min : found) schedule(static)
		for (uint64_t i = at; i < end; i++) {
			if (csc->indptr[i] > csc->indptr[i + 1] && i < found)
				found = i;
		}
		if (found == csc->vertex_count)
			rc = rung__worked("graph", (end - at) * sizeof(*csc->indptr));
	}
	*at_out = found;
	return rc;
}

int rung_csc_check(const struct rung_csc *csc)
{
	uint64_t at;
	int rc;

	if (csc->index_bytes != 4 && csc->index_bytes != 8)
		return rung__fail(RUNG_E_INVAL,
		                  "graph: index_bytes is %u; use 4 (uint32_t) or 8 (uint64_t)",
		                  csc->index_bytes);
	if (csc->indptr[0] != 0)
		return rung__fail(RUNG_E_FORMAT, "graph: indptr[0] is %" PRIu64 "; it must be 0",
		                  csc->indptr[0]);
	rc = first_descent(csc, &at);
	if (rc == 0 && at < csc->vertex_count)
		return rung__fail(RUNG_E_FORMAT,
		                  "graph: indptr[%" PRIu64 "] is %" PRIu64 " and indptr[%" PRIu64
		                  "] is %" PRIu64 "; it must never decrease",
		                  at, csc->indptr[at], at + 1, csc->indptr[at + 1]);
	if (rc == 0 && csc->indptr[csc->vertex_count] != csc->edge_count)
		return rung__fail(RUNG_E_FORMAT,
		                  "graph: indptr[%" PRIu64 "] (the last) is %" PRIu64
		                  ", but there are %" PRIu64 " indices; they must be equal",
		                  csc->vertex_count, csc->indptr[csc->vertex_count],
		                  csc->edge_count);
	if (rc == 0)
		rc = rung__ids_stray("graph", csc->indices, csc->index_bytes, csc->edge_count,
		                     rung__csc_sources(csc), &at);
	if (rc == 0 && at < csc->edge_count)
		return rung__fail(RUNG_E_RANGE,
		                  "graph: indices[%" PRIu64 "] is %" PRIu64
		                  ", which is not below the %s count %" PRIu64
		                  "; correct the index or the count",
		                  at, rung__id_get(csc->indices, csc->index_bytes, at),
		                  csc->source_count ? "source" : "vertex", rung__csc_sources(csc));
	return rc;
}

int rung__graph_adopt(const struct rung_csc *csc, struct rung_graph **graph_out)
{
	struct rung_graph *graph = rung__zalloc(sizeof(*graph));
	/* the arrays are rung's, so they may be modified and freed */
	uint64_t *indptr = (uint64_t *)(uintptr_t)csc->indptr;
	void *indices = (void *)(uintptr_t)csc->indices;
	int rc;

	if (!graph) {
		rung__free(indptr);
		rung__free(indices);
		return rung__fail(RUNG_E_NOMEM, "graph of %" PRIu64 " vertices: no memory",
		                  csc->vertex_count);
	}
	graph->indptr = indptr;
	graph->indices = indices;
	graph->csc = *csc;
	rc = rung_csc_check(&graph->csc);
	if (rc < 0) {
		rung_graph_destroy(graph);
		return rc;
	}
	*graph_out = graph;
	return 0;
}

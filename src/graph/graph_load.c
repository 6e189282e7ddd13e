/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading a graph: detecting which of the three forms it has, and the steps after reading.
 *
 * `undirected` comes before `dedup`, so that an edge and an equal reverse edge are kept only once.
 */
#include <string.h>

#include "graph/graph.h"

int rung__graph_opts_check(const struct rung_graph_opts *opts)
{
	const bool none = opts->spec_count == 0;

	if (none ? opts->vertex_count == 0 : !opts->specs)
		return rung__fail(RUNG_E_INVAL,
		                  "graph: no source and no vertex count; "
		                  "use an edge index, csc:INDPTR,INDICES or csr:INDPTR,INDICES");
	if (none && (opts->undirected || opts->dedup))
		return rung__fail(RUNG_E_INVAL,
		                  "graph: %s needs edges; pass a graph, or omit this option",
		                  opts->undirected ? "undirected" : "dedup");
	if (opts->source_count && opts->undirected)
		return rung__fail(RUNG_E_INVAL,
		                  "graph: edges between two types cannot be undirected; give the "
		                  "reverse edges as another relation");
	if (opts->source_count && opts->vertex_count == 0)
		return rung__fail(RUNG_E_INVAL, "graph: edges between two types need the number of "
		                                "targets; give both counts");
	for (size_t i = 0; i < opts->spec_count && opts->spec_count > 1; i++) {
		if (rung__spec_is_csc(opts->specs[i]) || rung__spec_is_csr(opts->specs[i]))
			return rung__fail(
				RUNG_E_INVAL,
				"%s: is a whole graph, but %zu sources are given; use several "
				"edge lists, or a single %.4s",
				opts->specs[i], opts->spec_count, opts->specs[i]);
	}
	return 0;
}

/* Read the graph and add reverse edges: to edge lists while they are read, to columns afterwards,
 * by a transposition. */
static int load(const struct rung_graph_opts *opts, struct rung_graph **graph_out)
{
	const char *spec = rung__graph_first(opts);
	int rc;

	if (!rung__spec_is_csc(spec) && !rung__spec_is_csr(spec))
		return rung__graph_from_edges(opts, graph_out, NULL);
	rc = rung__graph_from_columns(spec, opts, graph_out);
	if (rc < 0)
		return rc;
	if (rung__graph_by_row(opts))
		rc = rung__graph_flip(*graph_out, opts->undirected);
	else if (opts->undirected)
		rc = rung__graph_undirect(*graph_out);
	if (rc < 0)
		rung_graph_destroy(*graph_out);
	return rc;
}

int rung_graph_load(const struct rung_graph_opts *caller_opts, struct rung_graph **graph_out)
{
	struct rung_graph_opts opts = RUNG_GRAPH_OPTS_INIT;
	struct rung_graph *graph;
	int rc;

	rc = rung__opts_copy_in(&opts, sizeof(opts), caller_opts, "rung_graph_opts");
	if (rc < 0)
		return rc;
	rc = rung__graph_opts_check(&opts);
	if (rc < 0)
		return rc;
	rc = load(&opts, &graph);
	if (rc < 0)
		return rc;
	if (opts.dedup) {
		rc = rung__graph_dedup(graph);
		if (rc < 0) {
			rung_graph_destroy(graph);
			return rc;
		}
	}
	*graph_out = graph;
	return 0;
}

/* The numbers of the edges of a csc: or csr:, whose positions in the file are the numbers. Those of
 * lists that were turned around follow the edges to their new places. */
static int number_columns(const struct rung_graph_opts *opts, const struct rung_csc *csc,
                          void **numbers_out)
{
	const unsigned bytes = rung_index_bytes(csc->edge_count);
	struct rung_graph *read = NULL;
	void *numbers = rung__malloc_array(csc->edge_count, bytes);
	uint64_t *next = rung__malloc_array(csc->vertex_count, sizeof(*next));
	int rc = numbers && next ? 0
	                         : rung__fail(RUNG_E_NOMEM, "graph of %" PRIu64 " edges: no memory",
	                                      csc->edge_count);

	if (rc == 0 && rung__graph_by_row(opts))
		rc = rung__graph_from_columns(rung__graph_first(opts), opts, &read);
	if (rc == 0 && read)
		memcpy(next, csc->indptr, csc->vertex_count * sizeof(*next));
	for (uint64_t e = 0; rc == 0 && e < csc->edge_count; e++) {
		uint64_t at = e;

		if (read) {
			const uint64_t v =
				rung__id_get(read->csc.indices, read->csc.index_bytes, e);

			at = next[v]++;
			if (at >= csc->indptr[v + 1])
				rc = rung__edges_changed(rung__graph_first(opts));
		}
		if (rc == 0)
			rung__id_set(numbers, bytes, at, e);
	}
	rung_graph_destroy(read);
	rung__free(next);
	if (rc < 0)
		rung__free(numbers);
	else
		*numbers_out = numbers;
	return rc;
}

/* Numbers in the width that their count needs; edge lists give those that ids need as well. */
static int narrow(void **numbers, const struct rung_csc *csc)
{
	const unsigned bytes = rung_index_bytes(csc->edge_count),
		       given = rung_index_bytes(RUNG__MAX(csc->vertex_count, csc->edge_count));
	void *narrow;

	if (bytes == given)
		return 0;
	narrow = rung__malloc_array(csc->edge_count, bytes);
	if (!narrow)
		return rung__fail(RUNG_E_NOMEM, "graph of %" PRIu64 " edges: no memory",
		                  csc->edge_count);
	for (uint64_t e = 0; e < csc->edge_count; e++)
		rung__id_set(narrow, bytes, e, rung__id_get(*numbers, given, e));
	rung__free(*numbers);
	*numbers = narrow;
	return 0;
}

int rung__graph_load_numbered(const struct rung_graph_opts *opts, struct rung_graph **graph_out,
                              void **numbers_out)
{
	const char *spec = rung__graph_first(opts);
	struct rung_graph *graph = NULL;
	void *numbers = NULL;
	int rc;

	if (opts->undirected || opts->dedup)
		return rung__fail(RUNG_E_INVAL,
		                  "graph: edges with rows cannot be undirected or merged");
	rc = rung_graph_load(opts, &graph);
	if (rc == 0 && (rung__spec_is_csc(spec) || rung__spec_is_csr(spec)))
		rc = number_columns(opts, &graph->csc, &numbers);
	else if (rc == 0) {
		rc = rung__graph_from_edges(opts, NULL, &numbers);
		if (rc == 0)
			rc = narrow(&numbers, &graph->csc);
	}
	if (rc < 0) {
		rung_graph_destroy(graph);
		rung__free(numbers);
		return rc;
	}
	*graph_out = graph;
	*numbers_out = numbers;
	return 0;
}

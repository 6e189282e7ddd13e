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
		return rung__graph_from_edges(opts, graph_out);
	rc = rung__graph_from_columns(spec, opts, graph_out);
	if (rc < 0)
		return rc;
	if (rung__spec_is_csr(spec))
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

/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a graph: which of the two forms it has, and what is done to it afterwards. */
#include <string.h>

#include "graph_internal.h"

#define CSC_PREFIX "csc:"

static int load(const struct rung_graph_opts *opts, struct rung_graph **graph_out)
{
	const size_t prefix = strlen(CSC_PREFIX);
	int rc;

	for (size_t i = 0; i < opts->spec_count; i++) {
		if (!strncmp(opts->specs[i], CSC_PREFIX, prefix) && opts->spec_count > 1)
			return rung__fail(RUNG_E_INVAL, "%s: stands alone, but %zu graphs are given: give edge lists or one csc:", opts->specs[i],
			                  opts->spec_count);
	}
	if (strncmp(opts->specs[0], CSC_PREFIX, prefix))
		return rung__graph_from_edges(opts, graph_out);   /* undirected while it reads */
	rc = rung__graph_from_csc(opts->specs[0] + prefix, opts, graph_out);
	if (rc < 0 || !opts->undirected)
		return rc;
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

	rc = rung__opts_take(&opts, sizeof(opts), caller_opts, "rung_graph_opts");
	if (rc < 0)
		return rc;
	if (!opts.specs || opts.spec_count == 0)
		return rung__fail(RUNG_E_INVAL, "graph: no source is given: an edge index or csc:INDPTR,INDICES is needed");
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

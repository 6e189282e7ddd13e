/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of edge rows: row p is that of the edge at position p of the lists. The lists are
 * loaded again with the numbers of their edges, and sorted by the ranks of their targets. Memory is
 * 20 to 24 bytes per edge, whatever the budget.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "dataset/dataset.h"
#include "graph/graph.h"
#include "source/npy.h"
#include "typed/state.h"

/* Write the score of every edge by its number: that of the edges of its target. */
static int write_scores(struct rung__typed *typed, uint32_t number, const struct rung_csc *csc,
                        const void *edge_numbers, unsigned number_bytes)
{
	float *by_target = NULL, *score = rung__malloc_array(csc->edge_count, sizeof(*score));
	char name[32];
	int rc;

	snprintf(name, sizeof(name), RUNG__TYPED_EDGES, number);
	rc = score ? rung__typed_read_score(typed, name, csc->vertex_count, &by_target)
	           : rung__fail(RUNG_E_NOMEM,
	                        "staging: no memory for the scores of %" PRIu64 " edges",
	                        csc->edge_count);

	for (uint64_t v = 0; rc == 0 && v < csc->vertex_count; v++) {
		for (uint64_t e = csc->indptr[v]; e < csc->indptr[v + 1]; e++)
			score[rung__id_get(edge_numbers, number_bytes, e)] = by_target[v];
	}
	snprintf(name, sizeof(name), RUNG__TYPED_SCORE, number);
	if (rc == 0)
		rc = rung__typed_write_score(typed, name, score, csc->edge_count);
	rung__free(by_target);
	rung__free(score);
	return rc;
}

/* The ranks of the targets, from the part with their rows. */
static int load_targets(const struct rung__typed *typed, uint32_t relation, uint64_t **targets_out)
{
	const struct rung__types *types = typed->stage.manifest->types;
	const uint32_t target = types->relations[relation].target_type;
	char *dir =
		rung__format("%s/%s", typed->stage.dir.partial_path, types->types[target].folder);
	struct rung_dataset *ds = NULL;
	uint64_t count;
	int rc = dir ? rung__dataset_open(dir, true, &ds) : rung__fail(RUNG_E_NOMEM, "staging");

	if (rc == 0)
		rc = rung_dataset_load_ids(ds, "vertex_of_rank", &count, targets_out);
	rung_dataset_close(ds);
	rung__free(dir);
	return rc;
}

/* The edge numbers in the order of the lists of the ranks. */
static int order(const struct rung_csc *csc, const void *edge_numbers, unsigned number_bytes,
                 const uint64_t *vertex_of_rank, void **edge_of_position_out)
{
	unsigned char *order = rung__malloc_array(csc->edge_count, number_bytes), *at = order;

	if (!order)
		return rung__fail(RUNG_E_NOMEM,
		                  "staging: no memory for the order of %" PRIu64 " edge rows",
		                  csc->edge_count);
	for (uint64_t r = 0; r < csc->vertex_count; r++) {
		const uint64_t v = vertex_of_rank[r],
			       bytes = (csc->indptr[v + 1] - csc->indptr[v]) * number_bytes;

		memcpy(at, (const unsigned char *)edge_numbers + csc->indptr[v] * number_bytes,
		       bytes);
		at += bytes;
	}
	*edge_of_position_out = order;
	return 0;
}

int rung__typed_order_rows(struct rung__typed *typed, uint32_t number, uint32_t relation,
                           void **edge_of_position_out)
{
	const struct rung_graph_opts opts = rung__typed_graph_opts(typed, relation);
	const unsigned number_bytes =
		rung_index_bytes(typed->stage.manifest->types->relations[relation].edge_count);
	struct rung_graph *graph = NULL;
	uint64_t *vertex_of_rank = NULL;
	void *edge_numbers = NULL;
	int rc = rung__graph_load_numbered(&opts, &graph, &edge_numbers);

	if (rc == 0)
		rc = load_targets(typed, relation, &vertex_of_rank);
	if (rc == 0)
		rc = write_scores(typed, number, rung_graph_csc(graph), edge_numbers, number_bytes);
	if (rc == 0)
		rc = order(rung_graph_csc(graph), edge_numbers, number_bytes, vertex_of_rank,
		           edge_of_position_out);
	rung_graph_destroy(graph);
	rung__free(vertex_of_rank);
	rung__free(edge_numbers);
	return rc;
}

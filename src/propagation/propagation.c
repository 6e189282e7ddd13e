/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes over all edges: memory for graphs in memory, and the order in which a pass processes
 * panels. propagation.h explains the method. A graph in memory is tiled once, in its first pass,
 * and its tiles serve all later passes.
 */
#include "propagation/propagation_files.h"
#include "graph/graph.h"
#include "propagation/state.h"

/* Cut a graph in memory into blocks; with blocks NULL only count them.
 * @return the number of blocks */
static uint64_t cut_blocks(const struct rung__propagation *spread, struct rung__block *blocks)
{
	const struct rung_csc *csc = &spread->csc;
	uint64_t vertex = 0, edge = 0, count = 0;

	while (vertex < csc->vertex_count) {
		struct rung__block block;

		rung__block_cut(spread, vertex, edge, &block);
		edge += block.edge_count;
		vertex += block.vertex_count;
		if (edge < csc->indptr[vertex]) /* the list continues */
			vertex--;
		if (blocks)
			blocks[count] = block;
		count++;
	}
	return count;
}

/* Give each block its part of the arrays. */
static void place_blocks(struct rung__propagation *spread)
{
	const char *ids = spread->csc.indices;

	for (uint64_t i = 0; i < spread->block_count; i++) {
		struct rung__block *block = &spread->blocks[i];

		block->ids = ids + block->edge_first * spread->csc.index_bytes;
		block->tiles = spread->tiles + 2 * block->edge_first;
		block->starts[RUNG__PLAIN] = spread->starts + i * (spread->bin_count + UINT64_C(1));
	}
}

int rung__propagation_of_csc(const struct rung_csc *csc, const struct rung__propagation_opts *opts,
                             struct rung__propagation **spread_out)
{
	struct rung__propagation *spread;
	int rc = rung__propagation_create(csc, NULL, opts, &spread);

	if (rc < 0)
		return rc;
	spread->block_count = cut_blocks(spread, NULL);
	spread->blocks = rung__malloc_array(spread->block_count, sizeof(*spread->blocks));
	spread->starts = rung__malloc_array(spread->block_count * (spread->bin_count + UINT64_C(1)),
	                                    sizeof(*spread->starts));
	spread->tile_bytes = csc->edge_count * 2 * sizeof(*spread->tiles);
	spread->tiles = rung__map_pages(spread->tile_bytes);
	/* passes without records hold all values at once; passes with records at least those of one
	 * block, and need several panels */
	spread->values_max = csc->edge_count + RUNG__LINE_FLOATS * 2 * spread->block_count;
	spread->values_max = RUNG__MAX(spread->values_max,
	                               (uint64_t)spread->block_edges * (1 + opts->width_max) +
	                                       2 * RUNG__LINE_FLOATS);
	spread->values = rung__map_pages(spread->values_max * sizeof(*spread->values));
	if (!spread->blocks || !spread->starts || !spread->tiles || !spread->values) {
		rung__propagation_close(spread);
		return rung__fail(RUNG_E_NOMEM,
		                  "edge passes: no memory for %" PRIu64
		                  " edges, 8 bytes each; give a memory budget, so that they "
		                  "stay in files",
		                  csc->edge_count);
	}
	/* cut again rather than grown: the array has its exact size */
	cut_blocks(spread, spread->blocks);
	place_blocks(spread);
	*spread_out = spread;
	return 0;
}

/* Run a pass in panels of as many blocks as the values of this rule fit. A graph without blocks has
 * one empty panel, in which receive() is called. */
static int run_in_memory(struct rung__propagation *spread,
                         const struct rung__propagation_rule *rule)
{
	uint64_t begin = 0;

	do {
		uint64_t end = begin, floats = 0;
		int rc;

		while (end < spread->block_count) {
			floats += rung__block_values_max(rule, &spread->blocks[end]);
			if (floats > spread->values_max)
				break;
			end++;
		}
		rung__panel_run(spread, rule, spread->blocks + begin, end - begin, begin == 0,
		                end == spread->block_count);
		begin = end;
		rc = rung__progress(spread->opts.progress, spread->opts.progress_ctx, "score",
		                    spread->rules_run, spread->opts.pass_total);
		if (rc < 0)
			return rc;
	} while (begin < spread->block_count);
	return 0;
}

int rung__propagation_pass(struct rung__propagation *spread,
                           const struct rung__propagation_rule *rule, double *sum_out)
{
	double sum = 0;
	int rc;

	spread->passes++;
	spread->rules_run++;
	rc = spread->edges ? rung__propagation_run_files(spread, rule)
	                   : run_in_memory(spread, rule);
	if (rc < 0)
		return rc;
	/* in the order of the bins, whichever thread ran them: the same bits for any number of
	 * threads */
	for (uint32_t bin = 0; bin < spread->bin_count; bin++)
		sum += spread->bin_results[bin];
	if (sum_out)
		*sum_out = sum;
	return 0;
}

int rung__propagation_find_records(struct rung__propagation *spread, const uint32_t *signatures)
{
	spread->signatures = signatures;
	return spread->edges ? rung__propagation_mark_mutual_files(spread)
	                     : rung__propagation_mark_records(spread);
}

uint64_t rung__propagation_passes(const struct rung__propagation *spread)
{
	return spread->passes;
}

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
static uint64_t cut_blocks(const struct rung__propagation *prop, struct rung__block *blocks)
{
	const struct rung_csc *csc = &prop->csc;
	uint64_t vertex = 0, edge = 0, count = 0;

	while (vertex < csc->vertex_count) {
		struct rung__block block;

		rung__block_cut(prop, vertex, edge, &block);
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
static void place_blocks(struct rung__propagation *prop)
{
	const char *ids = prop->csc.indices;

	for (uint64_t i = 0; i < prop->block_count; i++) {
		struct rung__block *block = &prop->blocks[i];

		block->ids = ids + block->edge_first * prop->csc.index_bytes;
		block->tiles = prop->tiles + 2 * block->edge_first;
		block->starts[RUNG__PLAIN] = prop->starts + i * (prop->bin_count + UINT64_C(1));
	}
}

static int fail_edges(const struct rung__propagation *prop)
{
	return rung__fail(RUNG_E_NOMEM,
	                  "edge passes: no memory for %" PRIu64
	                  " edges, 8 bytes each; give a memory budget, which keeps them in files",
	                  prop->csc.edge_count);
}

static int alloc_values(struct rung__propagation *prop)
{
	prop->values = rung__map_pages(prop->values_max * sizeof(*prop->values));
	return prop->values ? 0 : fail_edges(prop);
}

int rung__propagation_of_csc(const struct rung_csc *csc, const struct rung__propagation_opts *opts,
                             struct rung__propagation **prop_out)
{
	struct rung__propagation *prop;
	int rc = rung__propagation_create(csc, NULL, opts, &prop);

	if (rc < 0)
		return rc;
	prop->block_count = cut_blocks(prop, NULL);
	prop->blocks = rung__malloc_array(prop->block_count, sizeof(*prop->blocks));
	prop->starts = rung__malloc_array(prop->block_count * (prop->bin_count + UINT64_C(1)),
	                                  sizeof(*prop->starts));
	prop->tile_bytes = csc->edge_count * 2 * sizeof(*prop->tiles);
	prop->tiles = rung__map_pages(prop->tile_bytes);
	/* passes without records hold all values at once; passes with records hold at least the
	 * values of one block, and need several panels */
	prop->values_max = csc->edge_count + RUNG__LINE_FLOATS * 2 * prop->block_count;
	prop->values_max =
		RUNG__MAX(prop->values_max, (uint64_t)prop->block_edges * (1 + opts->width_max) +
	                                            2 * RUNG__LINE_FLOATS);
	rc = prop->blocks && prop->starts && prop->tiles ? 0 : fail_edges(prop);
	if (rc == 0)
		rc = alloc_values(prop);
	if (rc < 0) {
		rung__propagation_close(prop);
		return rc;
	}
	/* the first cut only counted the blocks, so that the array gets its exact size */
	cut_blocks(prop, prop->blocks);
	place_blocks(prop);
	*prop_out = prop;
	return 0;
}

int rung__propagation_resume(struct rung__propagation *prop)
{
	const int rc = rung__propagation_alloc_buffers(prop);

	if (rc < 0)
		return rc;
	return prop->edges ? rung__propagation_claim_blocks(prop) : alloc_values(prop);
}

/* Run a pass in panels. Each panel has as many blocks as values_max allows under this rule. A graph
 * without blocks has one empty panel, in which receive() is called. */
static int run_in_memory(struct rung__propagation *prop, const struct rung__propagation_rule *rule)
{
	uint64_t begin = 0;

	do {
		uint64_t end = begin, floats = 0;
		int rc;

		while (end < prop->block_count) {
			floats += rung__block_values_max(rule, &prop->blocks[end]);
			if (floats > prop->values_max)
				break;
			end++;
		}
		rung__panel_run(prop, rule, prop->blocks + begin, end - begin, begin == 0,
		                end == prop->block_count);
		begin = end;
		rc = rung__progress(prop->opts.progress, prop->opts.progress_ctx, "score",
		                    prop->rules_run, prop->opts.pass_total);
		if (rc < 0)
			return rc;
	} while (begin < prop->block_count);
	return 0;
}

int rung__propagation_pass(struct rung__propagation *prop,
                           const struct rung__propagation_rule *rule, double *sum_out)
{
	double sum = 0;
	int rc;

	prop->passes++;
	prop->rules_run++;
	rc = prop->edges ? rung__propagation_run_files(prop, rule) : run_in_memory(prop, rule);
	if (rc < 0)
		return rc;
	/* added in the order of the bins, whichever thread ran them, so the total has the same bits
	 * for any number of threads */
	for (uint32_t bin = 0; rule->receive && bin < prop->bin_count; bin++)
		sum += prop->bin_results[bin];
	if (sum_out)
		*sum_out = sum;
	return 0;
}

int rung__propagation_find_records(struct rung__propagation *prop,
                                   struct rung__propagation *opposite, const uint32_t *signatures_u,
                                   const uint32_t *signatures_v)
{
	prop->signatures_u = signatures_u;
	prop->signatures_v = signatures_v;
	return prop->edges ? rung__propagation_mark_mutual_files(prop, opposite)
	                   : rung__propagation_mark_records(prop, opposite);
}

uint64_t rung__propagation_passes(const struct rung__propagation *prop)
{
	return prop->passes;
}

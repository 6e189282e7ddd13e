/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the memory of staging: the bytes that each phase holds, by rung's own count. They decide
 * whether the graph is loaded into memory. If not, it stays in files, and only arrays with an entry
 * per vertex are always resident.
 *
 * Phases follow each other, so the peak is that of the largest phase, plus the memory that is held
 * from the first phase to the last (rung__stage_fixed_bytes()).
 */
#include "base/base.h"
#include "layout/layout.h"
#include "rows/stage_schedule.h"
#include "stage/stage_memory.h"

bool rung__stage_graph_in_files;

/* a block has one 4-byte value for each of a million edges; a score needs one block per thread, and
 * one for each value of a record */
#define SCORE_BLOCK_BYTES (UINT64_C(4) << 20)
/* bytes per edge of a chunk while the graph is read */
#define LOAD_EDGE_BYTES 48u
#define LOAD_EDGES_MAX  (UINT64_C(1) << 22) /* number of edges in a chunk */
/* sorting needs 1 MiB, and a pass needs some chunks */
#define EDGES_BYTES_MIN (UINT64_C(2) << 20)

/* Memory of scoring in addition to the graph. rank.h documents the bytes per vertex, per edge and
 * per thread of each method; both places must agree. */
static uint64_t score_bytes(const struct rung__stage *stage, uint64_t edge_count)
{
	const struct rung__manifest *m = stage->manifest;
	const uint64_t hops = m->fanout_count, threads = (uint64_t)stage->threads;
	const uint64_t sampling = (12 + 4 * threads) * m->vertex_count;
	uint64_t per_vertex = 12, per_edge = 8, records = 0;

	if (stage->score_source)
		return 4 * m->vertex_count; /* the scores themselves, float32 */
	if (stage->method == RUNG_SCORE_PRESAMPLE)
		return sampling;
	if (stage->method == RUNG_SCORE_EXPECTED || stage->method == RUNG_SCORE_BLEND) {
		per_vertex = 4 * hops + 20;
		per_edge = 9; /* one bit each, rounded up */
		records = hops + 2;
	}
	return RUNG__MAX(sampling, per_vertex * m->vertex_count + per_edge * edge_count +
	                                   (threads + records) * SCORE_BLOCK_BYTES);
}

/* Memory of ranking: the score (4 bytes per vertex), both maps, and the buffers of the sort, which
 * are 8 bytes per vertex and a third map. */
static uint64_t rank_bytes(const struct rung__stage *stage)
{
	return 12 * stage->manifest->vertex_count + rung__stage_map_bytes(stage, 2) +
	       rung__stage_map_bytes(stage, 1);
}

/* Memory with a loaded graph, or of a part that loads none: the graph, plus the largest of reading
 * it, of scoring, and of relabelling, which holds a second graph with score, maps and the buffers
 * of sorting. */
static uint64_t in_memory_bytes(const struct rung__stage *stage, uint64_t edge_count)
{
	const struct rung__manifest *m = stage->manifest;
	const uint64_t graph = 8 * (m->vertex_count + 1) + m->index_bytes * edge_count;
	const uint64_t loading =
		8 * m->vertex_count + LOAD_EDGE_BYTES * RUNG__MIN(edge_count, LOAD_EDGES_MAX);

	if (stage->opts.part > 0)
		return rank_bytes(stage);
	return graph + RUNG__MAX(loading, RUNG__MAX(graph + rank_bytes(stage),
	                                            score_bytes(stage, edge_count)));
}

/* The least memory for a graph in files: for ranking, or for relabelling with both maps. The score
 * checks the memory for its blocks of edges itself, when the number of edges is known. */
static uint64_t in_files_bytes_min(const struct rung__stage *stage)
{
	return RUNG__MAX(rank_bytes(stage), rung__stage_map_bytes(stage, 2) + EDGES_BYTES_MIN);
}

uint64_t rung__stage_edges_bytes(const struct rung__stage *stage)
{
	const uint64_t left = stage->memory_bytes -
	                      RUNG__MIN(stage->memory_bytes, rung__stage_fixed_bytes(stage));

	/* a quarter, because the buffers of a pass stay allocated while the score is computed, and
	 * the blocks of the score need the rest */
	return RUNG__MAX(left / 4, EDGES_BYTES_MIN);
}

uint64_t rung__stage_memory_of(const struct rung__stage *stage)
{
	/* while rows are moved, one map is in memory; a graph in files uses its whole budget */
	const uint64_t rows = rung__stage_map_bytes(stage, 1) + stage->rows_bytes;
	const uint64_t graph = stage->in_files
	                               ? stage->memory_bytes - rung__stage_fixed_bytes(stage)
	                               : in_memory_bytes(stage, stage->manifest->edge_count);

	return rung__stage_fixed_bytes(stage) + RUNG__MAX(graph, rows);
}

/* Report that the budget is too small. Tools read the least budget that works with
 * rung_last_error_min_bytes(). */
static int fail_budget(const struct rung__stage *stage, uint64_t least)
{
	return rung__fail_min_bytes(least,
	                            "staging %s: %" PRIu64 " vertices with rows of %" PRIu64
	                            " bytes need more than %" PRIu64
	                            " bytes of memory; give at least %" PRIu64 " with --memory",
	                            stage->opts.out_dir, stage->manifest->vertex_count,
	                            stage->manifest->features.row_bytes, stage->memory_bytes,
	                            least);
}

/* Plan how the rows of one array are moved. If the memory does not suffice, the reported minimum
 * also covers the graph, so that a second attempt with that budget does not fail for another
 * reason. */
static int plan_rows(struct rung__stage *stage, const struct rung_source *src, const char *name,
                     const struct rung__layout *layout, struct rung__rows_schedule *plan)
{
	int rc = rung__rows_schedule(stage, src, name, layout, plan);

	if (rc < 0 && rung_last_error_min_bytes() > 0)
		return fail_budget(
			stage,
			RUNG__MAX(rung_last_error_min_bytes() + rung__stage_fixed_bytes(stage) +
		                          rung__stage_map_bytes(stage, 1),
		                  rung__stage_fixed_bytes(stage) + in_files_bytes_min(stage)));
	/* arrays are written one after the other, so the largest counts */
	if (rc == 0)
		stage->rows_bytes = RUNG__MAX(stage->rows_bytes, plan->memory_bytes);
	return rc;
}

/* Set block_count_max, for the memory of the checksums. The number of edges is not known yet, so
 * the files are laid out with its upper bound. The number in the manifest does not change. */
static int bound_blocks(struct rung__stage *stage)
{
	struct rung__manifest *m = stage->manifest;
	const uint64_t edge_count = m->edge_count;
	int rc;

	m->edge_count = RUNG__MAX(edge_count, stage->edge_count_max);
	rc = rung__manifest_lay_out(m);
	m->edge_count = edge_count;
	stage->block_count_max = m->block_count + m->checksums.block_count;
	return rc;
}

int rung__stage_divide_memory(struct rung__stage *stage)
{
	const struct rung__layout features = rung__stage_features_layout(stage);
	uint64_t least, left;
	int rc = bound_blocks(stage);

	if (rc < 0)
		return rc;
	stage->memory_bytes =
		stage->opts.memory_bytes ? stage->opts.memory_bytes : rung__host_memory_budget("");
	stage->report.budget_bytes = stage->memory_bytes;
	rc = stage->opts.in_place || !stage->features
	             ? 0
	             : plan_rows(stage, stage->features, rung__stage_features_name(stage),
	                         &features, &stage->features_plan);
	for (uint32_t i = 0; rc == 0 && i < stage->extra_count; i++) {
		struct rung__extra_array *extra_arrays = &stage->extra_arrays[i];

		rc = plan_rows(stage, extra_arrays->src, extra_arrays->name, &extra_arrays->layout,
		               &extra_arrays->plan);
	}
	if (rc < 0)
		return rc;
	least = rung__stage_fixed_bytes(stage) + in_files_bytes_min(stage);
	left = stage->memory_bytes - RUNG__MIN(stage->memory_bytes, rung__stage_fixed_bytes(stage));
	/* computed with the upper bound of the edges, because a graph whose loading has begun must
	 * fit */
	stage->in_files =
		in_memory_bytes(stage, stage->edge_count_max) > left || rung__stage_graph_in_files;
	stage->report.graph_in_files = stage->in_files;
	return stage->in_files && stage->memory_bytes < least ? fail_budget(stage, least) : 0;
}

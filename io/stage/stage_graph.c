/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes graph, score, ranks and relabelled graph: in memory if they fit, otherwise in files,
 * with the same result.
 *
 * In files, edges are sorted into columns, the score is computed in passes over them, and the
 * relabelled graph is sorted again by the ranks. If only features are given, a graph without edges
 * is built in the same way.
 *
 * The ranks are the point from which a run can be resumed: scoring is the long part of the work on
 * the graph, and all later steps start from the maps and the inputs.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "dataset/checksum.h"
#include "edges/edges.h"
#include "folder/stage_publish.h"
#include "folder/stage_step.h"
#include "graph/graph.h"
#include "stage/stage_graph.h"
#include "stage/stage_memory.h"
#include "stage/stage_write.h"

#define EDGES_CHUNKS 12u /* memory of a pass, in chunks: those read ahead, and their buffers */
/* The limits of chunks in rung_edges_open(): smaller ones are invalid, and its default is never
 * larger. */
#define CHUNK_BYTES_MIN 4096u
#define CHUNK_BYTES_MAX (UINT64_C(16) << 20)
/* added to the minimum for a score: the least memory that a pass needs */
#define EDGES_SPARE_BYTES (UINT64_C(2) << 20)
/* memory for reads while edges are counted; smaller than any budget that works */
#define COUNT_BYTES (UINT64_C(4) << 20)

/* Context of forward_progress(). */
struct step {
	const struct rung__stage *stage;
	const char *name; /* "graph", "score" or "relabel" */
};

/* Report progress under the name of the step: loading and scoring use names of their inner steps,
 * which the caller of rung_stage() does not know. */
static int forward_progress(void *ctx, const char *inner, unsigned long long done,
                            unsigned long long total)
{
	const struct step *step = ctx;

	/* sampled batches are counted separately from passes over the edges */
	return rung__stage_progress(step->stage,
	                            strcmp(inner, "presample") == 0 ? "score, sampling"
	                                                            : step->name,
	                            done, total) < 0;
}

/* The options of the graph as the caller gave them, with the vertex count of the features. */
static struct rung_graph_opts graph_opts(const struct rung__stage *stage, struct step *step)
{
	struct rung_graph_opts opts = stage->opts.graph;

	opts.vertex_count = stage->manifest->vertex_count;
	opts.progress = forward_progress;
	opts.progress_ctx = step;
	return opts;
}

static int fail_graph(const struct rung__stage *stage, int rc)
{
	return stage->member ? rung__stage_fail_input(rc, "edges", NULL, stage->opts.relation)
	                     : rung__stage_fail_input(rc, "graph", NULL, NULL);
}

int rung__stage_count_edges(struct rung__stage *stage)
{
	struct step step = { stage, "graph" };
	const struct rung_graph_opts opts = graph_opts(stage, &step);
	struct rung__edge_input input;
	int rc = rung__graph_opts_check(&opts);

	if (rc < 0 || stage->opts.part > 0 || stage->manifest->no_graph)
		return rc; /* only part 0 reads the graph */
	rc = rung__edge_input_open(&input, &opts, COUNT_BYTES);
	stage->edge_count_max = input.pair_count_max;
	stage->graph_source_bytes = input.source_bytes;
	rung__edge_input_close(&input);
	return fail_graph(stage, rc);
}

/* The budget minus `taken` bytes and the memory held all the time. At least 1, because 0 would
 * select the default budget in the functions that receive it. */
static uint64_t left_bytes(const struct rung__stage *stage, uint64_t taken)
{
	taken += rung__stage_fixed_bytes(stage);
	return stage->memory_bytes > taken ? stage->memory_bytes - taken : 1;
}

/* Open the graph in files, with temporary files in OUT.partial: free space is checked there. */
static int open_edges(struct rung__stage *stage, const struct rung_graph_opts *graph)
{
	/* The chunks of a pass stay allocated while the score is computed, so a pass gets only a
	 * share of the budget. Sorting has ended by then, so it gets the whole budget. */
	const uint64_t chunk =
		rung__align_down(rung__stage_edges_bytes(stage) / EDGES_CHUNKS, RUNG__PAGE_BYTES);
	struct rung_edges_opts opts = RUNG_EDGES_OPTS_INIT;
	uint64_t least;
	int rc;

	opts.graph = *graph;
	opts.memory_bytes = left_bytes(stage, 0);
	opts.chunk_bytes = RUNG__MIN(RUNG__MAX(chunk, CHUNK_BYTES_MIN), CHUNK_BYTES_MAX);
	opts.temp_dir = stage->dir.partial_path;
	rc = rung_edges_open(&opts, &stage->edges);
	least = rc < 0 ? rung_last_error_min_bytes() : 0;
	if (least == 0)
		return rc; /* rc is a success, or a failure that more memory does not prevent */
	/* reported again in terms of --memory, because rung_edges_open() sees only its share */
	least += rung__stage_fixed_bytes(stage);
	return rung__fail_min_bytes(least,
	                            "staging %s: a memory budget of %" PRIu64
	                            " bytes is too small for this graph; give at least %" PRIu64
	                            " with --memory",
	                            stage->opts.out_dir, stage->memory_bytes, least);
}

static struct rung_edges_info edges_info(const struct rung__stage *stage)
{
	struct rung_edges_info info = { .size = sizeof(info) };

	rung_edges_info(stage->edges, &info);
	return info;
}

int rung__stage_load_graph(struct rung__stage *stage)
{
	struct step step = { stage, "graph" };
	const struct rung_graph_opts opts = graph_opts(stage, &step);
	int rc;

	if (stage->graph || stage->edges || stage->manifest->no_graph)
		return 0;
	rung__stage_phase(stage, "graph");
	rc = rung__stage_progress(stage, "graph", 0, 0);
	if (rc == 0)
		rc = fail_graph(stage, stage->in_files ? open_edges(stage, &opts)
		                                       : rung_graph_load(&opts, &stage->graph));
	if (rc == 0)
		stage->manifest->edge_count = stage->in_files
		                                      ? edges_info(stage).edge_count
		                                      : rung_graph_csc(stage->graph)->edge_count;
	return rc;
}

void rung__stage_drop_graph(struct rung__stage *stage)
{
	rung_graph_destroy(stage->graph);
	rung_edges_close(stage->edges);
	stage->graph = NULL;
	stage->edges = NULL;
}

/* ---- score ---- */

/* Score a graph in files, with the memory that the buffers of its passes leave. */
static int score_edges(struct rung__stage *stage, struct rung_score_opts *opts)
{
	uint64_t least;
	int rc;

	opts->memory_bytes = left_bytes(stage, edges_info(stage).memory_bytes);
	rc = rung_score_edges(stage->edges, opts, stage->score, &stage->report.score);
	least = rung_last_error_min_bytes();
	if (rc == 0 || least == 0)
		return rc;
	/* A larger budget also gives a quarter to the graph's buffers (rung__stage_edges_bytes()),
	 * so the score gets three quarters of it. */
	least = least / 3 * 4 + EDGES_SPARE_BYTES + rung__stage_fixed_bytes(stage);
	return rung__fail_min_bytes(least,
	                            "staging %s: a memory budget of %" PRIu64
	                            " bytes is too small for this score; give at least %" PRIu64
	                            " with --memory, or choose another score",
	                            stage->opts.out_dir, stage->memory_bytes, least);
}

/* Compute the score with the settings of the manifest, which trainers use as well. */
static int score_graph(struct rung__stage *stage)
{
	struct rung_score_opts opts = stage->opts.score;
	struct rung__manifest *m = stage->manifest;
	struct step step = { stage, "score" };
	int rc;

	opts.progress = forward_progress;
	opts.progress_ctx = &step;
	opts.fanouts = m->fanouts;
	opts.hop_count = m->fanout_count;
	opts.batch_size = m->batch_size;
	opts.draws = m->draws;
	if (opts.threads == 0)
		opts.threads = stage->opts.threads;
	/* without a split "train", all vertices count as train vertices */
	for (uint32_t i = 0; i < m->split_count; i++) {
		if (strcmp(m->splits[i].name, "train") == 0) {
			opts.train = stage->splits[i].ids;
			opts.train_count = stage->splits[i].count;
		}
	}
	rc = stage->in_files ? score_edges(stage, &opts)
	                     : rung_score_compute(rung_graph_csc(stage->graph), &opts, stage->score,
	                                          &stage->report.score);
	if (rc < 0)
		return rc;
	if (m->score_damping > 0)
		m->score_iterations = stage->report.score.iterations;
	m->score_batches = stage->report.score.batches_sampled;
	return 0;
}

/* Read the given scores. NaN is rejected: the order would put it last without a warning. */
static int read_score(struct rung__stage *stage)
{
	const uint64_t count = stage->manifest->vertex_count;
	const int rc = rung_source_read(stage->score_source, 0, count, stage->score);

	for (uint64_t v = 0; rc == 0 && v < count; v++) {
		if (isnan(stage->score[v]))
			return rung__fail(RUNG_E_FORMAT,
			                  "%s: score %" PRIu64
			                  " is NaN, which is not a valid score; replace it, for "
			                  "example with numpy.nan_to_num(a, nan=0)",
			                  stage->opts.score_spec, v);
	}
	return rc;
}

/* Record the checksum of the scores, which all parts must have. A part other than 0 has no files of
 * the maps: when it is resumed, the scores are read again and must be those of before. */
static int sum_score(struct rung__stage *stage)
{
	const char *words = rung__journal_last(&stage->journal, RUNG__JOURNAL_SCORED);

	if (stage->score)
		stage->score_sum =
			rung__checksum(stage->score, (size_t)(4 * stage->manifest->vertex_count));
	if (!words)
		return rung__journal_add(&stage->journal, RUNG__JOURNAL_SCORED " %016" PRIx64,
		                         stage->score_sum);
	if (!stage->score)
		stage->score_sum = strtoull(words, NULL, 16);
	return stage->score_sum == strtoull(words, NULL, 16)
	               ? 0
	               : rung__fail(RUNG_E_CORRUPT,
	                            "%s: the scores have changed since the part was begun; start "
	                            "from scratch with --force",
	                            stage->opts.score_spec);
}

static int score(struct rung__stage *stage)
{
	const uint64_t count = stage->manifest->vertex_count;
	int rc;

	rung__stage_phase(stage, "score");
	rc = rung__stage_progress(stage, "score", 0, 0);
	if (rc < 0)
		return rc;
	stage->score = rung__malloc_array(count, sizeof(*stage->score));
	if (!stage->score)
		return rung__fail(RUNG_E_NOMEM,
		                  "staging: no memory for the score of %" PRIu64 " vertices",
		                  count);
	return stage->score_source ? read_score(stage) : score_graph(stage);
}

/* ---- ranks ---- */

static int adopt_maps(struct rung__stage *stage)
{
	const struct rung__manifest *m = stage->manifest;

	stage->vertex_of_rank = rung__malloc_array(m->vertex_count, m->index_bytes);
	stage->rank_of_vertex = rung__malloc_array(rung__stage_source_count(stage), m->index_bytes);
	if (stage->vertex_of_rank && stage->rank_of_vertex)
		return 0;
	return rung__fail(RUNG_E_NOMEM, "staging: no memory for the maps of %" PRIu64 " vertices",
	                  m->vertex_count);
}

/*
 * Write the line that makes an unfinished folder worth keeping. It has the numbers of the manifest
 * and of the report that only the graph and the score provide, because a resumed run computes
 * neither. All earlier lines were pending and are written with this one.
 */
static int note_ranked(struct rung__stage *stage)
{
	const struct rung_score_report *score = &stage->report.score;
	const struct rung__manifest *m = stage->manifest;
	int rc = rung__journal_add(&stage->journal,
	                           RUNG__JOURNAL_RANKED " %" PRIu64 " %" PRIu32 " %" PRIu64
	                                                " %" PRIu64 " %.17g %.17g",
	                           m->edge_count, score->iterations, score->batches_sampled,
	                           score->edge_passes, score->residual, score->seconds);

	return rc < 0 ? rc : rung__stage_dir_keep(&stage->dir, &stage->journal);
}

/* Write the files of the maps and of the score. */
static int write_ranks(struct rung__stage *stage)
{
	const bool maps = !stage->manifest->no_maps;
	int rc = maps ? rung__stage_write_array(stage, RUNG__VERTEX_OF_RANK, stage->vertex_of_rank)
	              : 0;

	if (rc == 0 && maps)
		rc = rung__stage_write_array(stage, RUNG__RANK_OF_VERTEX, stage->rank_of_vertex);
	return rc < 0 ? rc : rung__stage_write_score(stage);
}

/* Order the vertices by score, and write maps and score. The score is not needed afterwards. Parts
 * other than 0 write no files, and order again when they are resumed. */
static int rank(struct rung__stage *stage)
{
	const struct rung__manifest *m = stage->manifest;
	int rc;

	rung__stage_phase(stage, "rank");
	rc = adopt_maps(stage);
	if (rc == 0)
		rc = stage->member && stage->member->vertex_of_rank
		             ? rung__stage_copy_maps(stage)
		             : rung_rank_order(stage->score, m->vertex_count, m->index_bytes,
		                               (uint32_t)stage->threads, stage->vertex_of_rank,
		                               stage->rank_of_vertex);
	if (rc < 0)
		return rc;
	if (stage->opts.part == 0)
		rc = write_ranks(stage);
	if (rc == 0 && !rung__journal_last(&stage->journal, RUNG__JOURNAL_RANKED))
		rc = note_ranked(stage);
	if (rc < 0)
		return rc;
	rung__free(stage->score);
	stage->score = NULL;
	return 0;
}

/* Restore the values in the journal's line "ranked". */
static int adopt_ranked(struct rung__stage *stage, const char *words)
{
	struct rung_score_report *score = &stage->report.score;
	struct rung__manifest *m = stage->manifest;

	if (sscanf(words, "%" SCNu64 " %" SCNu32 " %" SCNu64 " %" SCNu64 " %lg %lg", &m->edge_count,
	           &score->iterations, &score->batches_sampled, &score->edge_passes,
	           &score->residual, &score->seconds) != 6)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: line '%.*s' is not valid; start from scratch with --force",
		                  stage->journal.path, (int)strcspn(words, "\n"), words);
	if (m->score_damping > 0)
		m->score_iterations = score->iterations;
	m->score_batches = score->batches_sampled;
	return 0;
}

/* Read the maps of an earlier run. Positions of rows are computed from them, so they are checked
 * entry by entry: matching checksums are not enough, because the author of the files can also have
 * written the journal. */
static int read_maps(struct rung__stage *stage)
{
	const struct rung__manifest *m = stage->manifest;
	int rc;

	if ((rc = adopt_maps(stage)) < 0 || m->no_maps)
		return rc < 0 ? rc : rung__stage_copy_maps(stage);
	if ((rc = rung__stage_read_array(stage, RUNG__VERTEX_OF_RANK, stage->vertex_of_rank)) < 0 ||
	    (rc = rung__stage_read_array(stage, RUNG__RANK_OF_VERTEX, stage->rank_of_vertex)) < 0)
		return rc;
	rc = rung__maps_check(stage->vertex_of_rank, stage->rank_of_vertex, m->vertex_count,
	                      m->index_bytes, stage->threads);
	return rc < 0 ? rung__fail(RUNG_E_CORRUPT,
	                           "%s: " RUNG__VERTEX_OF_RANK " and " RUNG__RANK_OF_VERTEX
	                           " are not each other's inverse; "
	                           "start from scratch with --force",
	                           stage->dir.partial_path)
	              : 0;
}

int rung__stage_rank(struct rung__stage *stage)
{
	const bool maps =
		stage->opts.part == 0 && rung__journal_last(&stage->journal, RUNG__JOURNAL_RANKED);
	int rc = maps ? read_maps(stage) : score(stage);

	if (rc == 0 && stage->opts.part_count > 0)
		rc = sum_score(stage);
	return rc < 0 || maps ? rc : rank(stage);
}

int rung__stage_fix_counts(struct rung__stage *stage)
{
	const char *words = rung__journal_last(&stage->journal, RUNG__JOURNAL_RANKED);

	if (words)
		return adopt_ranked(stage, words);
	return stage->opts.part > 0 ? 0 : rung__stage_load_graph(stage);
}

/* ---- the relabelled graph ---- */

/* Relabel the loaded graph, and write both of its arrays. */
static int relabel_in_memory(struct rung__stage *stage)
{
	const struct rung_csc *csc = rung_graph_csc(stage->graph);
	uint64_t *indptr = rung__malloc_array(csc->vertex_count + 1, sizeof(*indptr));
	void *indices = rung__malloc_array(csc->edge_count, csc->index_bytes);
	int rc;

	if (!indptr || !indices)
		rc = rung__fail(RUNG_E_NOMEM,
		                "staging: no memory for the relabelled graph of %" PRIu64
		                " vertices and %" PRIu64 " edges",
		                csc->vertex_count, csc->edge_count);
	else
		rc = rung__graph_relabel(csc, stage->vertex_of_rank, stage->rank_of_vertex,
		                         (uint32_t)stage->threads, indptr, indices);
	if (rc == 0)
		rc = rung__stage_write_array(stage, RUNG__INDPTR, indptr);
	if (rc == 0)
		rc = rung__stage_write_array(stage, RUNG__INDICES, indices);
	rung__free(indptr);
	rung__free(indices);
	return rc;
}

/* Sort the edges by the ranks of their ends into files in OUT.partial. They are written by the
 * sort, so their blocks are read once more for their checksums. */
static int relabel_in_files(struct rung__stage *stage)
{
	/* the two maps and the buffers of a pass are resident while edges are sorted */
	const uint64_t taken = rung__stage_map_bytes(stage, 2) + edges_info(stage).memory_bytes;
	struct rung__relabel_opts opts = { 0 };
	struct step step = { stage, "relabel" };
	char *indptr = rung__format("%s/" RUNG__INDPTR, stage->dir.partial_path);
	char *indices = rung__format("%s/" RUNG__INDICES, stage->dir.partial_path);
	int rc;

	/* at least the memory that sorting needs, which the minimum of the budget includes */
	opts.memory_bytes = RUNG__MAX(left_bytes(stage, taken + 2 * edges_info(stage).chunk_bytes),
	                              UINT64_C(1) << 20);
	opts.temp_dir = stage->dir.partial_path;
	opts.threads = (uint32_t)stage->threads;
	opts.progress = forward_progress;
	opts.progress_ctx = &step;
	rung__stage_step("relabel");
	rc = indptr && indices ? rung__edges_relabel(stage->edges, stage->vertex_of_rank,
	                                             stage->rank_of_vertex, &opts, indptr, indices)
	                       : rung__fail(RUNG_E_NOMEM, RUNG__INDPTR);
	rung__free(indptr);
	rung__free(indices);
	if (rc == 0)
		rc = rung__stage_sum_file(stage, RUNG__INDPTR);
	return rc < 0 ? rc : rung__stage_sum_file(stage, RUNG__INDICES);
}

int rung__stage_relabel(struct rung__stage *stage)
{
	int rc = 0;

	/* indptr and indices are committed together, and indices comes last */
	if (stage->opts.part == 0 && !stage->manifest->no_graph &&
	    !rung__stage_file_done(stage, RUNG__INDICES)) {
		rc = rung__stage_load_graph(stage);
		rung__stage_phase(stage, "relabel");
		if (rc == 0)
			rc = rung__stage_progress(stage, "relabel", 0, 0);
		if (rc == 0)
			rc = stage->in_files ? relabel_in_files(stage) : relabel_in_memory(stage);
		if (rc == 0)
			rc = rung__journal_commit(&stage->journal, stage->dir.fd);
	}
	rung__stage_drop_graph(stage);
	rung__free(stage->vertex_of_rank);
	stage->vertex_of_rank = NULL;
	return rc;
}

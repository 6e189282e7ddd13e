/* SPDX-License-Identifier: Apache-2.0 */
/* Staging: inputs, graph, score, ranks, relabelled graph, files, publication, in this order. */
#include <math.h>
#include <string.h>

#include "internal.h"
#include "stage_private.h"

#define SPACE_SPARE_BYTES 65536u              /* for the folder itself */
#define SCORE_BLOCK_BYTES (UINT64_C(4) << 20) /* a million edges at a time, which each thread of a score holds, and their records */

struct step {
	const struct rung__stage *stage;
	const char *name;
};

int rung__stage_progress(const struct rung__stage *stage, const char *what, uint64_t done, uint64_t total)
{
	const struct rung_stage_opts *opts = &stage->opts;

	if (opts->progress && opts->progress(opts->progress_ctx, what, done, total))
		return rung__fail(RUNG_E_CANCELED, "staging %s: canceled at %s, %" PRIu64 " of %" PRIu64, opts->out_dir, what,
				  done, total);
	return 0;
}

/* The steps of loading and scoring have names of their own; the caller sees "graph" and "score". */
static int forward_progress(void *ctx, const char *inner, unsigned long long done, unsigned long long total)
{
	const struct step *step = ctx;

	(void)inner;
	return rung__stage_progress(step->stage, step->name, done, total) < 0;
}

static int load_graph(struct rung__stage *stage)
{
	struct rung_graph_opts opts = stage->opts.graph;
	const uint64_t rows = stage->manifest->vertex_count;
	struct step step = { stage, "graph" };
	int rc = rung__stage_progress(stage, "graph", 0, 0);

	if (rc < 0)
		return rc;
	opts.vertex_count = rows;
	opts.progress = forward_progress;
	opts.progress_ctx = &step;
	rc = rung_graph_load(&opts, &stage->graph);
	if (rc < 0)
		return rc;
	stage->csc = rung_graph_csc(stage->graph);
	if (stage->csc->vertex_count != rows)
		return rung__fail(RUNG_E_FORMAT,
				  "%s: has %" PRIu64 " rows, the graph %" PRIu64 " vertices; give the features of this graph",
				  stage->opts.features, rows, stage->csc->vertex_count);
	stage->manifest->edge_count = stage->csc->edge_count;
	return 0;
}

/* Bytes on the device, whole pages. */
static uint64_t bytes_needed(const struct rung__manifest *m)
{
	uint64_t needed =
		rung__align_up(m->checksums.bytes, RUNG__PAGE_BYTES) + RUNG__MANIFEST_BYTES_MAX / 256 + SPACE_SPARE_BYTES;

	for (uint32_t i = 0; i < m->file_count; i++) {
		if (!rung__add(needed, rung__align_up(m->files[i].bytes, RUNG__PAGE_BYTES), &needed))
			return UINT64_MAX;
	}
	return needed;
}

static int check_space(struct rung__stage *stage)
{
	uint64_t needed;
	int rc = rung__manifest_plan(stage->manifest);

	if (rc == 0)
		rc = rung__stage_dir_free_bytes(&stage->dir, &stage->report.free_bytes);
	if (rc < 0)
		return rc;
	needed = bytes_needed(stage->manifest);
	if (needed > stage->report.free_bytes)
		return rung__fail(RUNG_E_NOSPC,
				  "%s: staging needs %" PRIu64 " bytes, %" PRIu64 " are free there; make room for %" PRIu64
				  " more, or choose an output elsewhere",
				  stage->opts.out_dir, needed, stage->report.free_bytes, needed - stage->report.free_bytes);
	return 0;
}

/* What scoring takes beside the graph: rank.h has the bytes a vertex, and tells of edges and threads. */
static uint64_t score_bytes(const struct rung__stage *stage)
{
	const struct rung__manifest *m = stage->manifest;
	const uint64_t hops = m->fanout_count, threads = (uint64_t)stage->threads;
	const uint64_t sampling = (12 + 4 * threads) * m->vertex_count;
	uint64_t per_vertex = 12, per_edge = 8, records = 0;

	if (stage->score_source)
		return 4 * m->vertex_count;
	if (stage->method == RUNG_SCORE_PRESAMPLE)
		return sampling;
	if (stage->method == RUNG_SCORE_EXPECTED || stage->method == RUNG_SCORE_BLEND) {
		per_vertex = 4 * hops + 16;
		per_edge = 9;   /* a bit, rounded up */
		records = hops + 1;
	}
	return RUNG__MAX(sampling, per_vertex * m->vertex_count + per_edge * m->edge_count + (threads + records) * SCORE_BLOCK_BYTES);
}

/* Most memory held at once: the graph, and beside it what scoring takes, or room for it relabelled, score, maps and what sorting takes. */
static uint64_t memory_of(const struct rung__stage *stage)
{
	const struct rung__manifest *m = stage->manifest;
	const uint64_t graph = 8 * (m->vertex_count + 1) + m->index_bytes * m->edge_count;
	const uint64_t relabelled = graph + (12 + 3 * m->index_bytes) * m->vertex_count;
	uint64_t bytes = graph + RUNG__MAX(relabelled, score_bytes(stage)) + RUNG__STAGE_BUFFER_BYTES +
			 8 * (m->block_count + m->checksums.block_count);

	for (uint32_t i = 0; i < m->split_count; i++)
		bytes += 8 * m->splits[i].count;
	return bytes;
}

static int fill_report(struct rung__stage *stage)
{
	struct rung_stage_report *report = &stage->report;
	struct rung__manifest *m = stage->manifest;
	char *text;
	int rc = rung__manifest_format(m, &text); /* for its length: checksums have a fixed one */

	if (rc < 0)
		return rc;
	rung__free(text);
	report->vertex_count = m->vertex_count;
	report->edge_count = m->edge_count;
	report->row_bytes = m->features.row_bytes;
	report->feature_bytes = m->vertex_count * m->features.row_bytes;
	report->memory_bytes = memory_of(stage);
	report->bytes_written = m->text_bytes + m->checksums.bytes;
	for (uint32_t i = 0; i < m->file_count; i++)
		report->bytes_written += m->files[i].bytes;
	return 0;
}

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
	for (uint32_t i = 0; i < m->split_count; i++) {
		if (strcmp(m->splits[i].name, "train") == 0) {
			opts.train = stage->splits[i].ids;
			opts.train_count = stage->splits[i].count;
		}
	}
	rc = rung_score_compute(stage->csc, &opts, stage->score, &stage->report.score);
	if (rc < 0)
		return rc;
	if (m->score_damping > 0)
		m->score_iterations = stage->report.score.iterations;
	m->score_batches = stage->report.score.batches_sampled;
	return 0;
}

static int read_score(struct rung__stage *stage)
{
	const uint64_t count = stage->manifest->vertex_count;
	const int rc = rung_source_read(stage->score_source, 0, count, stage->score);

	for (uint64_t v = 0; rc == 0 && v < count; v++) {
		if (isnan(stage->score[v]))
			return rung__fail(RUNG_E_FORMAT,
					  "%s: score %" PRIu64 " is NaN, which has no place in an order; give a number for each vertex, "
					  "as numpy.nan_to_num(a, nan=0) does",
					  stage->opts.score_spec, v);
	}
	return rc;
}

static int score(struct rung__stage *stage)
{
	const uint64_t count = stage->manifest->vertex_count;
	int rc = rung__stage_progress(stage, "score", 0, 0);

	if (rc < 0)
		return rc;
	stage->score = rung__malloc_array(count, sizeof(*stage->score));
	if (!stage->score)
		return rung__fail(RUNG_E_NOMEM, "score of %" PRIu64 " vertices", count);
	return stage->score_source ? read_score(stage) : score_graph(stage);
}

static int rank_and_relabel(struct rung__stage *stage)
{
	const struct rung__manifest *m = stage->manifest;
	const uint32_t threads = (uint32_t)stage->threads;
	int rc;

	stage->vertex_of_rank = rung__malloc_array(m->vertex_count, m->index_bytes);
	stage->rank_of_vertex = rung__malloc_array(m->vertex_count, m->index_bytes);
	stage->indptr = rung__malloc_array(m->vertex_count + 1, sizeof(*stage->indptr));
	stage->indices = rung__malloc_array(m->edge_count, m->index_bytes);
	if (!stage->vertex_of_rank || !stage->rank_of_vertex || !stage->indptr || !stage->indices)
		return rung__fail(RUNG_E_NOMEM, "maps and relabelled graph of %" PRIu64 " vertices and %" PRIu64 " edges",
				  m->vertex_count, m->edge_count);
	rc = rung_rank_order(stage->score, m->vertex_count, m->index_bytes, threads, stage->vertex_of_rank,
			     stage->rank_of_vertex);
	if (rc == 0)
		rc = rung_graph_relabel(stage->csc, stage->vertex_of_rank, stage->rank_of_vertex, threads, stage->indptr,
					stage->indices);
	if (rc < 0)
		return rc;
	rung_graph_destroy(stage->graph);
	stage->graph = NULL;
	stage->csc = NULL;
	return 0;
}

static int write_files(struct rung__stage *stage)
{
	stage->buffer = rung__malloc_aligned(RUNG__PAGE_BYTES, RUNG__STAGE_BUFFER_BYTES);
	stage->sums = rung__malloc_array(stage->manifest->block_count, sizeof(*stage->sums));
	if (!stage->buffer || !stage->sums)
		return rung__fail(RUNG_E_NOMEM, "checksums of %" PRIu64 " blocks", stage->manifest->block_count);
	return rung__stage_write_all(stage);
}

static int run(struct rung__stage *stage)
{
	const struct rung_stage_opts *opts = &stage->opts;
	int rc;

	if ((rc = rung__stage_open_inputs(stage)) < 0)
		return rc;
	if (!opts->dry_run && (rc = rung__stage_dir_acquire(&stage->dir)) < 0)
		return rc;
	/* the features are most of it: no need to read the graph to see that they do not fit */
	if ((rc = check_space(stage)) < 0 || (rc = load_graph(stage)) < 0 || (rc = check_space(stage)) < 0 ||
	    (rc = fill_report(stage)) < 0)
		return rc;
	if (opts->dry_run)
		return 0;
	if ((rc = score(stage)) < 0 || (rc = rank_and_relabel(stage)) < 0 || (rc = write_files(stage)) < 0 ||
	    (rc = fill_report(stage)) < 0)
		return rc;
	return rung__stage_dir_publish(&stage->dir);
}

static void fini(struct rung__stage *stage)
{
	rung__stage_dir_fini(&stage->dir);
	rung__stage_close_inputs(stage);
	rung_graph_destroy(stage->graph);
	rung__manifest_destroy(stage->manifest);
	rung__free(stage->score);
	rung__free(stage->vertex_of_rank);
	rung__free(stage->rank_of_vertex);
	rung__free(stage->indptr);
	rung__free(stage->indices);
	rung__free(stage->sums);
	rung__free(stage->buffer);
}

int rung_stage(const struct rung_stage_opts *opts, struct rung_stage_report *report_out)
{
	struct rung__stage stage = { .opts = RUNG_STAGE_OPTS_INIT, .dir = { .parent_fd = -1, .fd = -1 } };
	const uint64_t start_ns = rung__now_ns();
	int rc = rung__opts_take(&stage.opts, sizeof(stage.opts), opts, "rung_stage_opts");

	if (rc < 0)
		return rc;
	if (!stage.opts.features || !stage.opts.out_dir)
		return rung__fail(RUNG_E_INVAL, "staging: features and out_dir are both needed");
	stage.threads = rung__threads(stage.opts.threads);
	stage.manifest = rung__zalloc(sizeof(*stage.manifest));
	rc = stage.manifest ? rung__stage_dir_init(&stage.dir, stage.opts.out_dir, stage.opts.force)
			    : rung__fail(RUNG_E_NOMEM, "staging %s", stage.opts.out_dir);
	if (rc == 0)
		rc = run(&stage);
	fini(&stage);
	if (rc == 0 && report_out) {
		stage.report.seconds = (double)(rung__now_ns() - start_ns) * 1e-9;
		*report_out = stage.report;
	}
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scores of all types and of the lists of all relations, from the graphs of all relations at
 * once: in memory if they fit in half of the budget, otherwise in files, with the same result.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "dataset/checksum.h"
#include "file/file.h"
#include "score/typed.h"
#include "source/npy.h"
#include "stage/stage_memory.h"
#include "typed/state.h"

/* The graphs of the relations, and the arrays of scores. */
struct scoring {
	struct rung__typed *typed;
	struct rung_graph *graphs[RUNG__RELATIONS_MAX]; /* one of the two for each */
	struct rung_edges *edges[RUNG__RELATIONS_MAX];
	struct rung__typed_relation relations[RUNG__RELATIONS_MAX];
	float *types[RUNG__TYPES_MAX]; /* [vertices] */
	/* [vertices of the target type]; edge_scores: of relations with edge rows, else NULL */
	float *lists[RUNG__RELATIONS_MAX], *edge_scores[RUNG__RELATIONS_MAX];
	uint64_t counts[RUNG__TYPES_MAX];
};

/* Report progress under the names of rung_stage()'s steps. */
static int forward_progress(void *ctx, const char *inner, unsigned long long done,
                            unsigned long long total)
{
	const bool sampling = strcmp(inner, "presample") == 0, scoring = !strcmp(inner, "score");

	return rung__stage_progress(ctx,
	                            sampling  ? "score, sampling"
	                            : scoring ? "score"
	                                      : "graph",
	                            done, total) < 0;
}

/* ---- graphs ---- */

/* Memory of all graphs: 8 bytes per vertex and its index per edge, by the upper bounds of the dry
 * run. */
static uint64_t graphs_bytes(const struct rung__types *types)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < types->relation_count; i++)
		bytes += 16 * types->types[types->relations[i].target_type].vertex_count +
		         types->relations[i].edge_count *
		                 (8 + rung_index_bytes(types->types[types->relations[i].source_type]
		                                               .vertex_count));
	return bytes;
}

static int open_graphs(struct scoring *scoring, bool in_files, uint64_t memory_bytes)
{
	struct rung__stage *stage = &scoring->typed->stage;
	const struct rung__types *types = stage->manifest->types;
	int rc = 0;

	for (uint32_t i = 0; i < types->relation_count && rc == 0; i++) {
		struct rung_edges_opts opts = RUNG_EDGES_OPTS_INIT;

		opts.graph = rung__typed_graph_opts(scoring->typed, i);
		opts.graph.progress = forward_progress;
		opts.graph.progress_ctx = stage;
		opts.temp_dir = stage->dir.partial_path;
		opts.memory_bytes = memory_bytes;
		rc = in_files ? rung_edges_open(&opts, &scoring->edges[i])
		              : rung_graph_load(&opts.graph, &scoring->graphs[i]);
		rc = rung__stage_fail_input(rc, "edges", NULL, types->relations[i].name);
		scoring->relations[i] = (struct rung__typed_relation){
			.source_type = types->relations[i].source_type,
			.target_type = types->relations[i].target_type,
			.csc = scoring->graphs[i] ? rung_graph_csc(scoring->graphs[i]) : NULL,
			.edges = scoring->edges[i],
			.fanouts = types->relations[i].fanouts,
		};
	}
	return rc;
}

static int alloc_scores(struct scoring *scoring)
{
	const struct rung__types *types = scoring->typed->stage.manifest->types;
	bool failed = false;

	for (uint32_t i = 0; i < types->type_count; i++) {
		scoring->counts[i] = types->types[i].vertex_count;
		scoring->types[i] = rung__malloc_array(scoring->counts[i], sizeof(float));
		failed |= !scoring->types[i];
	}
	for (uint32_t i = 0; i < types->relation_count; i++) {
		scoring->lists[i] = rung__malloc_array(
			scoring->counts[types->relations[i].target_type], sizeof(float));
		failed |= !scoring->lists[i];
		if (!scoring->typed->has_rows[i])
			continue;
		scoring->edge_scores[i] = rung__malloc_array(
			scoring->counts[types->relations[i].target_type], sizeof(float));
		failed |= !scoring->edge_scores[i];
	}
	return failed ? rung__fail(RUNG_E_NOMEM, "staging: no memory for the scores") : 0;
}

static void fini(struct scoring *scoring)
{
	for (uint32_t i = 0; i < RUNG__RELATIONS_MAX; i++) {
		rung_graph_destroy(scoring->graphs[i]);
		rung_edges_close(scoring->edges[i]);
		rung__free(scoring->lists[i]);
		rung__free(scoring->edge_scores[i]);
	}
	for (uint32_t i = 0; i < RUNG__TYPES_MAX; i++)
		rung__free(scoring->types[i]);
	rung__free(scoring);
}

/* ---- files ---- */

uint32_t rung__typed_rows_part(const struct rung__typed *typed, uint32_t relation)
{
	struct rung__typed_part part;
	uint32_t number = 0;

	while (rung__typed_part(typed, number, &part) &&
	       (part.kind != RUNG__TYPED_EDGE_ROWS || part.idx != relation))
		number++;
	return number;
}

int rung__typed_write_score(const struct rung__typed *typed, const char *name, const float *score,
                            uint64_t count)
{
	struct rung_array_info array = { .dtype = RUNG_F32, .dim_count = 1, .dims = { count } };
	char *path = rung__format("%s/%s", typed->stage.dir.partial_path, name);
	unsigned char header[RUNG__NPY_DATA_OFFSET];
	uint64_t bytes;
	int fd, rc;

	if (!path || !rung__array_measure(&array, &bytes))
		return rung__fail(RUNG_E_NOMEM, "staging: no memory for the scores");
	rung__npy_format(&array, header);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	rc = fd < 0 ? rung__fail_errno(errno, "%s: cannot be created", path)
	            : rung__pwrite_all(fd, path, header, sizeof(header), 0);
	if (rc == 0)
		rc = rung__pwrite_all(fd, path, score, bytes, sizeof(header));
	if (rc == 0 && fsync(fd) < 0)
		rc = rung__fail_errno(errno, "%s: cannot be synced to the device", path);
	if (fd >= 0)
		close(fd);
	rung__free(path);
	return rc;
}

int rung__typed_read_score(const struct rung__typed *typed, const char *name, uint64_t count,
                           float **score_out)
{
	const struct rung__stage *stage = &typed->stage;
	const char *sum = rung__journal_last_of(&stage->journal, RUNG__TYPED_SUM, name);
	char *path = rung__format("%s/%s", stage->dir.partial_path, name);
	struct rung_source *src = NULL;
	float *score = NULL;
	int rc = path ? rung_source_open(path, &src) : rung__fail(RUNG_E_NOMEM, "%s", name);

	if (rc == 0) {
		count = count ? count : rung_source_info(src)->row_count;
		score = rung__malloc_array(count, sizeof(*score));
		rc = score ? rung_source_read(src, 0, count, score)
		           : rung__fail(RUNG_E_NOMEM, "%s: no memory for its scores", path);
	}
	rung_source_close(src);
	if (rc < 0 && rc != RUNG_E_NOMEM)
		rc = rung__fail(RUNG_E_CORRUPT, "%s; " RUNG__STAGE_CURE, rung_last_error());
	else if (rc == 0 && sum &&
	         rung__checksum(score, count * sizeof(*score)) != strtoull(sum, NULL, 16))
		rc = rung__fail(RUNG_E_CORRUPT,
		                "%s: does not match its checksum in the journal; " RUNG__STAGE_CURE,
		                path);
	rung__free(path);
	if (rc < 0)
		rung__free(score);
	else
		*score_out = score;
	return rc;
}

/* Write scores, and note their checksum for a run that resumes.
 * @param edges  the scores of edges, for the part with their rows */
static int write_score(const struct scoring *scoring, bool edges, uint32_t number,
                       const float *score, uint32_t type)
{
	struct rung__journal *journal = &scoring->typed->stage.journal;
	char name[32];
	int rc;

	if (edges)
		snprintf(name, sizeof(name), RUNG__TYPED_EDGES, number);
	else
		snprintf(name, sizeof(name), RUNG__TYPED_SCORE, number);
	rc = rung__typed_write_score(scoring->typed, name, score, scoring->counts[type]);
	return rc < 0 ? rc
	              : rung__journal_add(
				journal, RUNG__TYPED_SUM " %s %016" PRIx64, name,
				rung__checksum(score, scoring->counts[type] * sizeof(*score)));
}

static int write_scores(const struct scoring *scoring)
{
	const struct rung__types *types = scoring->typed->stage.manifest->types;
	int rc = 0;

	for (uint32_t i = 0; i < types->type_count && rc == 0; i++)
		rc = write_score(scoring, false, i, scoring->types[i], i);
	for (uint32_t i = 0; i < types->relation_count && rc == 0; i++) {
		const uint32_t target = types->relations[i].target_type;

		rc = write_score(scoring, false, types->type_count + i, scoring->lists[i], target);
		if (rc == 0 && scoring->edge_scores[i])
			rc = write_score(scoring, true, rung__typed_rows_part(scoring->typed, i),
			                 scoring->edge_scores[i], target);
	}
	return rc;
}

/* ---- all ---- */

static int compute(struct scoring *scoring)
{
	struct rung__typed *typed = scoring->typed;
	struct rung__stage *stage = &typed->stage;
	struct rung__manifest *m = stage->manifest;
	const uint64_t memory =
		stage->opts.memory_bytes ? stage->opts.memory_bytes : rung__host_memory_budget("");
	const struct rung__typed_graph graph = {
		.type_counts = scoring->counts,
		.type_count = m->types->type_count,
		.relations = scoring->relations,
		.relation_count = m->types->relation_count,
		.seed_type = m->types->seed_type,
	};
	const struct rung__typed_scores scores = { scoring->types, scoring->lists,
		                                   scoring->edge_scores };
	struct rung_score_opts opts = stage->opts.score;
	int rc;

	opts.method = stage->method;
	opts.train = typed->train;
	opts.train_count = typed->train_count;
	opts.batch_size = m->batch_size;
	opts.hop_count = m->fanout_count;
	opts.draws = m->draws;
	opts.threads = opts.threads ? opts.threads : stage->opts.threads;
	opts.memory_bytes = memory / 2;
	opts.progress = forward_progress;
	opts.progress_ctx = stage;
	stage->in_files = graphs_bytes(m->types) > memory / 2 || rung__stage_graph_in_files;
	stage->report.graph_in_files = stage->in_files;
	rung__stage_phase(stage, "graph");
	rc = open_graphs(scoring, stage->in_files, memory / 2);
	rung__stage_phase(stage, "score");
	if (rc == 0)
		rc = alloc_scores(scoring);
	if (rc == 0)
		rc = rung__score_typed(&graph, &opts, &scores, &stage->report.score);
	if (rc < 0)
		return rc;
	m->score_batches = stage->report.score.batches_sampled;
	return write_scores(scoring);
}

int rung__typed_score(struct rung__typed *typed)
{
	struct scoring *scoring = rung__zalloc(sizeof(*scoring));
	int rc;

	if (!scoring)
		return rung__fail(RUNG_E_NOMEM, "staging: no memory for the scores");
	scoring->typed = typed;
	rc = compute(scoring);
	fini(scoring);
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the inputs of staging. All of them are opened and checked before the long work starts, so
 * that a wrong file costs seconds, not hours. Shapes and settings go into the manifest here,
 * because the job and the layout of the files follow from them. Splits are small and are read
 * completely.
 */
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "source/npy.h"
#include "stage/stage_input.h"
#include "stage/stage_job.h"

/* Check the counts of the options against the fixed sizes of the manifest's lists. */
static int check_counts(const struct rung__stage *stage)
{
	const struct rung_stage_opts *opts = &stage->opts;

	if (opts->fanout_count > RUNG_HOPS_MAX)
		return rung__fail(RUNG_E_INVAL, "staging: %u fanouts; give at most %d",
		                  opts->fanout_count, RUNG_HOPS_MAX);
	for (uint32_t i = 0; i < opts->fanout_count; i++) {
		if (opts->fanouts[i] == 0)
			return rung__fail(RUNG_E_INVAL,
			                  "staging: fanout %u is 0; give the number of neighbours "
			                  "to draw at each hop, as in 25,10",
			                  i);
	}
	if (!stage->member && opts->graph.spec_count == 0 && opts->fanout_count > 0)
		return rung__fail(RUNG_E_INVAL,
		                  "staging: fanouts need a graph; give both, or neither");
	if (opts->array_count > RUNG__ARRAYS_MAX)
		return rung__fail(RUNG_E_INVAL, "staging: %zu arrays; give at most %u",
		                  opts->array_count, RUNG__ARRAYS_MAX);
	if (opts->split_count > RUNG__SPLITS_MAX)
		return rung__fail(RUNG_E_INVAL, "staging: %zu splits; give at most %u",
		                  opts->split_count, RUNG__SPLITS_MAX);
	return 0;
}

/* What a part of a typed dataset has, before its features are opened. */
static void fill_member(struct rung__stage *stage)
{
	const struct rung__stage_member *member = stage->member;
	struct rung__manifest *m = stage->manifest;

	m->is_part = true;
	m->no_features = member->no_features;
	m->no_maps = member->no_maps;
	m->no_graph = member->no_graph;
	m->source_count = member->source_count;
	m->vertex_count = member->vertex_count;
	m->index_bytes = rung_index_bytes(m->source_count ? m->source_count : m->vertex_count);
}

static int fail_input(const struct rung__stage *stage, int rc, const char *option, const char *name)
{
	return rung__stage_fail_input(rc, option, name,
	                              stage->member ? stage->opts.vertex_type : NULL);
}

static int open_rows(struct rung__stage *stage)
{
	const struct rung_stage_opts *opts = &stage->opts;
	const struct rung_array_info *info;
	int rc = rung_source_open(opts->features, &stage->features);

	if (rc < 0)
		return rc;
	info = rung_source_info(stage->features);
	if (info->row_count == 0 || info->row_bytes == 0)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: has %" PRIu64 " rows of %" PRIu64
		                  " bytes: nothing to stage; give the features of the vertices",
		                  opts->features, info->row_count, info->row_bytes);
	if (stage->member && stage->member->vertex_count != info->row_count)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: has %" PRIu64 " rows, but %s has %" PRIu64
		                  "; give one row for each",
		                  opts->features, info->row_count, opts->vertex_type,
		                  stage->member->vertex_count);
	if (opts->graph.vertex_count && opts->graph.vertex_count != info->row_count)
		return rung__fail(
			RUNG_E_FORMAT,
			"%s: has %" PRIu64 " rows, but the graph has %" PRIu64
			" vertices; give the features of this graph, or correct --vertices",
			opts->features, info->row_count, opts->graph.vertex_count);
	return 0;
}

/* Open the features, which come first: their row count is the number of vertices, against which the
 * other inputs are checked. */
static int open_features(struct rung__stage *stage)
{
	const struct rung_array_info *info;
	int rc;

	if (stage->member)
		fill_member(stage);
	if (stage->manifest->no_features)
		return 0;
	rc = fail_input(stage, open_rows(stage),
	                stage->member && stage->member->edge_rows ? "edge rows" : "features", NULL);
	if (rc < 0)
		return rc;
	info = rung_source_info(stage->features);
	stage->manifest->vertex_count = info->row_count;
	stage->manifest->index_bytes = rung_index_bytes(info->row_count);
	stage->manifest->features = *info;
	stage->manifest->data_offset = RUNG__NPY_DATA_OFFSET;
	rc = rung__stage_quantize(stage);
	return rc < 0 ? rc : rung__stage_choose_layout(stage);
}

/* Open an array with one row per vertex. @param what  "labels" or "arrays", for messages and the
 * progress; a constant, which is kept */
static int open_extra(struct rung__stage *stage, const char *spec, const char *what,
                      struct rung__extra_array **extra_out)
{
	struct rung__extra_array *extra_arrays = &stage->extra_arrays[stage->extra_count];
	const struct rung_array_info *info;
	int rc = rung_source_open(spec, &extra_arrays->src);

	if (rc < 0)
		return rc;
	/* counted before the checks, because rung__stage_close_inputs() closes only counted
	 * sources */
	stage->extra_count++;
	info = rung_source_info(extra_arrays->src);
	if (info->row_count != stage->manifest->vertex_count || info->row_bytes == 0)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: has %" PRIu64 " %s of %" PRIu64 " bytes for %" PRIu64
		                  " vertices; give one for each vertex",
		                  spec, info->row_count,
		                  strcmp(what, "labels") == 0 ? what : "rows", info->row_bytes,
		                  stage->manifest->vertex_count);
	extra_arrays->what = what;
	extra_arrays->layout = rung__manifest_array_layout(info);
	*extra_out = extra_arrays;
	return 0;
}

static int open_labels(struct rung__stage *stage)
{
	struct rung__extra_array *extra_arrays;
	int rc;

	if (!stage->opts.labels)
		return 0;
	rc = fail_input(stage, open_extra(stage, stage->opts.labels, "labels", &extra_arrays),
	                "labels", NULL);
	if (rc < 0)
		return rc;
	strcpy(extra_arrays->name, RUNG__LABELS);
	stage->manifest->has_labels = true;
	stage->manifest->labels = *rung_source_info(extra_arrays->src);
	return 0;
}

/* Check the name of an array. It becomes part of a file name, so its characters are restricted,
 * and it must be unique. */
static int check_array_name(const struct rung__stage *stage, size_t idx)
{
	const struct rung_stage_array *arrays = stage->opts.arrays;

	if (!arrays[idx].name || !arrays[idx].spec || !rung__split_name_ok(arrays[idx].name))
		return rung__fail(RUNG_E_INVAL,
		                  "array %zu: '%s' is not a valid name; use 1 to %u letters, "
		                  "digits, '_' and '-'",
		                  idx, arrays[idx].name ? arrays[idx].name : "",
		                  RUNG__SPLIT_NAME_BYTES - 1);
	for (size_t i = 0; i < idx; i++) {
		if (strcmp(arrays[i].name, arrays[idx].name) == 0)
			return rung__fail(
				RUNG_E_INVAL,
				"features '%s' are given twice (%s and %s); give each name once",
				arrays[i].name, arrays[i].spec, arrays[idx].spec);
	}
	return 0;
}

static int open_arrays(struct rung__stage *stage)
{
	struct rung__manifest *m = stage->manifest;
	struct rung__extra_array *extra_arrays;
	int rc;

	for (size_t i = 0; i < stage->opts.array_count; i++) {
		rc = check_array_name(stage, i);
		if (rc == 0)
			rc = fail_input(stage,
			                open_extra(stage, stage->opts.arrays[i].spec, "arrays",
			                           &extra_arrays),
			                "features", stage->opts.arrays[i].name);
		if (rc < 0)
			return rc;
		strcpy(m->arrays[i].name, stage->opts.arrays[i].name);
		snprintf(extra_arrays->name, sizeof(extra_arrays->name),
		         RUNG__ARRAY_PREFIX "%s.npy", m->arrays[i].name);
		m->arrays[i].info = *rung_source_info(extra_arrays->src);
		m->array_count++;
	}
	return 0;
}

/* Open the given scores, if any. Only float32 is accepted: scores are read into the same array that
 * computed ones use, without a conversion. */
static int open_score(struct rung__stage *stage)
{
	const struct rung_array_info *info;
	const char *spec = stage->opts.score_spec;
	int rc;

	if (!spec)
		return 0;
	rc = rung_source_open(spec, &stage->score_source);
	if (rc < 0)
		return rc;
	info = rung_source_info(stage->score_source);
	if (info->dtype != RUNG_F32 || info->dim_count != 1)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: scores are %s with %u dimensions; use f32 with 1 dimension, "
		                  "for example a.astype('<f4').ravel()",
		                  spec, rung_dtype_name(info->dtype), info->dim_count);
	if (info->row_count != stage->manifest->vertex_count)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: has %" PRIu64 " scores for %" PRIu64
		                  " vertices; give one score for each vertex",
		                  spec, info->row_count, stage->manifest->vertex_count);
	return 0;
}

/* Like check_array_name(), for splits. */
static int check_split_name(const struct rung__stage *stage, size_t idx)
{
	const struct rung_stage_split *splits = stage->opts.splits;

	if (!splits[idx].name || !splits[idx].spec || !rung__split_name_ok(splits[idx].name))
		return rung__fail(RUNG_E_INVAL,
		                  "split %zu: '%s' is not a valid name; use 1 to %u letters, "
		                  "digits, '_' and '-'",
		                  idx, splits[idx].name ? splits[idx].name : "",
		                  RUNG__SPLIT_NAME_BYTES - 1);
	for (size_t i = 0; i < idx; i++) {
		if (strcmp(splits[i].name, splits[idx].name) == 0)
			return rung__fail(
				RUNG_E_INVAL,
				"split '%s' is given twice (%s and %s); give each name once",
				splits[i].name, splits[i].spec, splits[idx].spec);
	}
	return 0;
}

/* Read the ids of one split. A repeated id is an error: training counts each vertex of a split
 * once. The score treats an empty list as all vertices, so an empty train split is an error. */
static int read_split(const struct rung__stage *stage, size_t idx,
                      struct rung__stage_split_ids *split)
{
	const struct rung_stage_split *given = &stage->opts.splits[idx];
	struct rung_source *src;
	int rc = rung_source_open(given->spec, &src);

	if (rc < 0)
		return rc;
	rc = rung_source_read_vertices(src, stage->manifest->vertex_count, 1, &split->count,
	                               &split->ids);
	rung_source_close(src);
	if (rc == 0 && !stage->opts.score_spec && split->count == 0 &&
	    strcmp(given->name, "train") == 0)
		return rung__fail(
			RUNG_E_FORMAT,
			"%s: has no train vertex; omit the split 'train' to count all vertices",
			given->spec);
	return rc;
}

static int read_splits(struct rung__stage *stage)
{
	struct rung__manifest *m = stage->manifest;
	int rc;

	stage->splits = rung__zalloc_array(stage->opts.split_count, sizeof(*stage->splits));
	if (!stage->splits)
		return rung__fail(RUNG_E_NOMEM, "staging: no memory for %zu splits",
		                  stage->opts.split_count);
	for (size_t i = 0; i < stage->opts.split_count; i++) {
		rc = check_split_name(stage, i);
		if (rc == 0)
			rc = fail_input(stage, read_split(stage, i, &stage->splits[i]), "split",
			                stage->opts.splits[i].name);
		if (rc < 0)
			return rc;
		strcpy(m->splits[i].name, stage->opts.splits[i].name);
		m->splits[i].count = stage->splits[i].count;
		/* counts only splits that are complete in both m->splits and stage->splits */
		m->split_count++;
	}
	return 0;
}

/* Copy the name of the vertex type or of the relation. @param what  its kind, for messages */
static int fill_name(const char *given, const char *usual, const char *what,
                     char name[RUNG__SPLIT_NAME_BYTES])
{
	if (given && !rung__split_name_ok(given))
		return rung__fail(RUNG_E_INVAL,
		                  "staging: %s '%s': not a valid name; use 1 to %u letters, "
		                  "digits, '_' and '-'",
		                  what, given, RUNG__SPLIT_NAME_BYTES - 1);
	strcpy(name, given ? given : usual);
	return 0;
}

static int fill_names(struct rung__stage *stage)
{
	struct rung__manifest *m = stage->manifest;
	int rc = fill_name(stage->opts.vertex_type, RUNG__VERTEX_TYPE, "vertex type",
	                   m->vertex_type);

	return rc < 0 ? rc
	              : fill_name(stage->opts.relation, RUNG__RELATION, "relation", m->relation);
}

/* Set the settings that the manifest stores for trainers and that the score uses. Defaults are
 * filled in here, so that the job and the score see the same values. */
static int fill_sampling(struct rung__stage *stage)
{
	static const uint32_t fanouts[] = { 25, 10 };
	const struct rung_stage_opts *opts = &stage->opts;
	struct rung__manifest *m = stage->manifest;

	m->fanout_count = opts->fanout_count ? opts->fanout_count : RUNG__ARRAY_LEN(fanouts);
	memcpy(m->fanouts, opts->fanout_count ? opts->fanouts : fanouts,
	       m->fanout_count * sizeof(m->fanouts[0]));
	m->batch_size = opts->batch_size ? opts->batch_size : 1024;
	m->draws = opts->score.draws;
	if (m->draws != RUNG_DRAWS_ALL && m->draws != RUNG_DRAWS_NEW)
		return rung__fail(RUNG_E_INVAL,
		                  "staging: draws %d is not a valid value; use RUNG_DRAWS_ALL or "
		                  "RUNG_DRAWS_NEW",
		                  (int)m->draws);
	return 0;
}

/* Set the settings of the score in the manifest. Settings that the method does not use stay 0.
 * RUNG_SCORE_DEFAULT becomes the method that it stands for. */
static int fill_score(struct rung__stage *stage)
{
	const struct rung_score_opts *opts = &stage->opts.score;
	struct rung__manifest *m = stage->manifest;
	const char *name = stage->opts.score_spec ? "given" : rung_score_method_name(opts->method);
	enum rung_score_method method;

	if (!name)
		return rung__fail(RUNG_E_INVAL,
		                  "staging: score method %d is not a valid value; use "
		                  "enum rung_score_method",
		                  (int)opts->method);
	snprintf(m->score_method, sizeof(m->score_method), "%s",
	         stage->member ? stage->member->score_method : name);
	if (stage->opts.score_spec)
		return 0;
	rung_score_method_parse(name, &stage->method);
	method = stage->method;
	if (method == RUNG_SCORE_RPAGERANK || method == RUNG_SCORE_WRPAGERANK ||
	    method == RUNG_SCORE_PPR)
		m->score_damping = opts->damping != 0 ? opts->damping : 0.85;
	if (method == RUNG_SCORE_RPAGERANK)
		m->score_tolerance = opts->tolerance != 0 ? opts->tolerance : 1e-6;
	m->score_sampled = method == RUNG_SCORE_PRESAMPLE || method == RUNG_SCORE_BLEND;
	m->score_seed = m->score_sampled ? opts->seed : 0;
	/* integers of the manifest's JSON are at most 2^63 - 1 */
	if (m->score_seed > INT64_MAX)
		return rung__fail(RUNG_E_INVAL,
		                  "staging: score seed %" PRIu64
		                  " is out of range; use a seed below 2^63",
		                  m->score_seed);
	return 0;
}

int rung__stage_open_inputs(struct rung__stage *stage)
{
	int rc = check_counts(stage);

	snprintf(stage->manifest->producer, sizeof(stage->manifest->producer), "rung %s (%s)",
	         rung_version(), rung_commit());
	/* The state of the files is recorded before any of them is opened: otherwise a change
	 * between opening and recording would not be noticed. */
	if (rc < 0 || (rc = rung__stage_job_begin(stage)) < 0 || (rc = fill_names(stage)) < 0 ||
	    (rc = fill_sampling(stage)) < 0 || (rc = fill_score(stage)) < 0 ||
	    (rc = open_features(stage)) < 0 ||
	    (rc = fail_input(stage, open_score(stage), "score", NULL)) < 0 ||
	    stage->opts.part > 0) /* the other inputs are those of part 0 */
		return rc;
	if ((rc = open_labels(stage)) < 0 || (rc = open_arrays(stage)) < 0)
		return rc;
	return read_splits(stage);
}

void rung__stage_close_inputs(struct rung__stage *stage)
{
	/* the list was zeroed, so the ids of splits that were not read are NULL */
	for (size_t i = 0; stage->splits && i < stage->opts.split_count; i++)
		rung__free(stage->splits[i].ids);
	rung__free(stage->splits);
	rung_source_close(stage->score_source);
	for (uint32_t i = 0; i < stage->extra_count; i++)
		rung_source_close(stage->extra_arrays[i].src);
	rung_source_close(stage->features);
}

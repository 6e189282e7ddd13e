/* SPDX-License-Identifier: Apache-2.0 */
/* What staging reads, opened and checked before the long work starts. Splits are read here: their ids are untrusted. */
#include <stdio.h>
#include <string.h>

#include "internal.h"
#include "npy.h"
#include "stage_private.h"

static int check_counts(const struct rung_stage_opts *opts)
{
	if (opts->fanout_count > RUNG_HOPS_MAX)
		return rung__fail(RUNG_E_INVAL, "staging: %u fanouts, at most %d are kept", opts->fanout_count, RUNG_HOPS_MAX);
	for (uint32_t i = 0; i < opts->fanout_count; i++) {
		if (opts->fanouts[i] == 0)
			return rung__fail(RUNG_E_INVAL,
					  "staging: fanout %u is 0; give the neighbours to draw at each hop, as in 25,10", i);
	}
	if (opts->split_count > RUNG__SPLITS_MAX)
		return rung__fail(RUNG_E_INVAL, "staging: %zu splits, at most %u are kept", opts->split_count, RUNG__SPLITS_MAX);
	return 0;
}

static int open_features(struct rung__stage *stage)
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
	if (opts->graph.vertex_count && opts->graph.vertex_count != info->row_count)
		return rung__fail(RUNG_E_FORMAT,
				  "%s: has %" PRIu64 " rows, the graph %" PRIu64 " vertices; give the features of this graph, or "
				  "the number of rows with --vertices",
				  opts->features, info->row_count, opts->graph.vertex_count);
	stage->manifest->vertex_count = info->row_count;
	stage->manifest->index_bytes = rung_index_bytes(info->row_count);
	stage->manifest->features = *info;
	stage->manifest->feature_file_count = 1;
	stage->manifest->block_rows = info->row_count;
	stage->manifest->row_stride = info->row_bytes;
	stage->manifest->data_offset = RUNG__NPY_DATA_OFFSET;
	return 0;
}

static int open_labels(struct rung__stage *stage)
{
	const struct rung_array_info *info;
	int rc;

	if (!stage->opts.labels)
		return 0;
	rc = rung_source_open(stage->opts.labels, &stage->labels);
	if (rc < 0)
		return rc;
	info = rung_source_info(stage->labels);
	if (info->row_count != stage->manifest->vertex_count || info->row_bytes == 0)
		return rung__fail(RUNG_E_FORMAT,
				  "%s: has %" PRIu64 " labels of %" PRIu64 " bytes, there are %" PRIu64 " vertices; "
				  "give one label for each vertex",
				  stage->opts.labels, info->row_count, info->row_bytes, stage->manifest->vertex_count);
	stage->manifest->has_labels = true;
	stage->manifest->labels = *info;
	return 0;
}

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
		return rung__fail(
			RUNG_E_FORMAT,
			"%s: scores are %s with %u dimensions, not f32 with 1; convert them with a.astype('<f4').ravel()", spec,
			rung_dtype_name(info->dtype), info->dim_count);
	if (info->row_count != stage->manifest->vertex_count)
		return rung__fail(RUNG_E_FORMAT,
				  "%s: has %" PRIu64 " scores, there are %" PRIu64 " vertices; give one score for each vertex",
				  spec, info->row_count, stage->manifest->vertex_count);
	return 0;
}

static int check_split_name(const struct rung__stage *stage, size_t idx)
{
	const struct rung_stage_split *splits = stage->opts.splits;

	if (!splits[idx].name || !splits[idx].spec || !rung__split_name_ok(splits[idx].name))
		return rung__fail(RUNG_E_INVAL, "split %zu '%s': a name is 1 to %u letters, digits, '_' and '-'", idx,
				  splits[idx].name ? splits[idx].name : "", RUNG__SPLIT_NAME_BYTES - 1);
	for (size_t i = 0; i < idx; i++) {
		if (strcmp(splits[i].name, splits[idx].name) == 0)
			return rung__fail(RUNG_E_INVAL, "split '%s' is given twice (%s and %s); give each name once",
					  splits[i].name, splits[i].spec, splits[idx].spec);
	}
	return 0;
}

static int split_of_mask(const struct rung_source *src, const unsigned char *mask, uint64_t vertex_count,
			 struct rung__stage_split_ids *split)
{
	uint64_t count = 0;

	for (uint64_t v = 0; v < vertex_count; v++)
		count += mask[v] != 0;
	split->ids = rung__malloc_array(count, sizeof(*split->ids));
	if (!split->ids)
		return rung__fail(RUNG_E_NOMEM, "%s: %" PRIu64 " ids", rung_source_spec(src), count);
	for (uint64_t v = 0; v < vertex_count; v++) {
		if (mask[v])
			split->ids[split->count++] = v;
	}
	return 0;
}

/* Integers of any type. @return true and the value when it is not negative */
static bool integer_at(const void *data, enum rung_dtype dtype, uint64_t i, uint64_t *value_out, int64_t *negative_out)
{
	int64_t value;

	switch (dtype) {
	case RUNG_U8:
		*value_out = ((const uint8_t *)data)[i];
		return true;
	case RUNG_U16:
		*value_out = ((const uint16_t *)data)[i];
		return true;
	case RUNG_U32:
		*value_out = ((const uint32_t *)data)[i];
		return true;
	case RUNG_U64:
		*value_out = ((const uint64_t *)data)[i];
		return true;
	case RUNG_I8:
		value = ((const int8_t *)data)[i];
		break;
	case RUNG_I16:
		value = ((const int16_t *)data)[i];
		break;
	case RUNG_I32:
		value = ((const int32_t *)data)[i];
		break;
	default:
		value = ((const int64_t *)data)[i];
		break;
	}
	*value_out = (uint64_t)value;
	*negative_out = value;
	return value >= 0;
}

static bool is_integer(enum rung_dtype dtype)
{
	return dtype >= RUNG_I8 && dtype <= RUNG_U64;
}

static int split_of_ids(const struct rung_source *src, const void *data, uint64_t vertex_count,
			struct rung__stage_split_ids *split)
{
	const struct rung_array_info *info = rung_source_info(src);
	int64_t negative;
	uint64_t id;

	split->ids = rung__malloc_array(info->row_count, sizeof(*split->ids));
	if (!split->ids)
		return rung__fail(RUNG_E_NOMEM, "%s: %" PRIu64 " ids", rung_source_spec(src), info->row_count);
	for (uint64_t i = 0; i < info->row_count; i++) {
		if (!integer_at(data, info->dtype, i, &id, &negative))
			return rung__fail(RUNG_E_RANGE,
					  "%s: entry %" PRIu64 " is %" PRId64 ", ids are 0 to %" PRIu64 "; give ids of vertices",
					  rung_source_spec(src), i, negative, vertex_count - 1);
		if (id >= vertex_count)
			return rung__fail(RUNG_E_RANGE,
					  "%s: entry %" PRIu64 " is %" PRIu64 ", ids are 0 to %" PRIu64 "; give ids of vertices",
					  rung_source_spec(src), i, id, vertex_count - 1);
		split->ids[split->count++] = id;
	}
	return 0;
}

static int check_split_shape(const struct rung_source *src, uint64_t vertex_count)
{
	const struct rung_array_info *info = rung_source_info(src);
	const char *spec = rung_source_spec(src);

	if (info->dim_count != 1 || (info->dtype != RUNG_BOOL && !is_integer(info->dtype)))
		return rung__fail(RUNG_E_FORMAT,
				  "%s: a split is a bool mask or integer ids with 1 dimension, this is %s with %u; "
				  "convert it with a.astype('<i8').ravel()",
				  spec, rung_dtype_name(info->dtype), info->dim_count);
	if (info->dtype == RUNG_BOOL && info->row_count != vertex_count)
		return rung__fail(RUNG_E_FORMAT,
				  "%s: the mask has %" PRIu64 " entries, there are %" PRIu64
				  " vertices; give one for each vertex",
				  spec, info->row_count, vertex_count);
	if (info->row_count > vertex_count)
		return rung__fail(RUNG_E_FORMAT,
				  "%s: has %" PRIu64 " ids, there are only %" PRIu64 " vertices; give each id once", spec,
				  info->row_count, vertex_count);
	return 0;
}

static int read_split(const char *spec, uint64_t vertex_count, struct rung__stage_split_ids *split)
{
	const struct rung_array_info *info;
	struct rung_source *src;
	void *data = NULL;
	int rc = rung_source_open(spec, &src);

	if (rc < 0)
		return rc;
	info = rung_source_info(src);
	rc = check_split_shape(src, vertex_count);
	if (rc < 0)
		goto close_src;
	data = rung__malloc_array(info->row_count, (size_t)info->row_bytes);
	rc = data ? rung_source_read(src, 0, info->row_count, data)
		  : rung__fail(RUNG_E_NOMEM, "%s: %" PRIu64 " entries", spec, info->row_count);
	if (rc == 0)
		rc = info->dtype == RUNG_BOOL ? split_of_mask(src, data, vertex_count, split)
					      : split_of_ids(src, data, vertex_count, split);
	rung__free(data);
close_src:
	rung_source_close(src);
	return rc;
}

static int read_splits(struct rung__stage *stage)
{
	struct rung__manifest *m = stage->manifest;
	int rc;

	stage->splits = rung__zalloc_array(stage->opts.split_count, sizeof(*stage->splits));
	if (!stage->splits)
		return rung__fail(RUNG_E_NOMEM, "staging: %zu splits", stage->opts.split_count);
	for (size_t i = 0; i < stage->opts.split_count; i++) {
		rc = check_split_name(stage, i);
		if (rc == 0)
			rc = read_split(stage->opts.splits[i].spec, m->vertex_count, &stage->splits[i]);
		if (rc < 0)
			return rc;
		strcpy(m->splits[i].name, stage->opts.splits[i].name);
		m->splits[i].count = stage->splits[i].count;
		m->split_count++;
	}
	return 0;
}

static int fill_parameters(struct rung__stage *stage)
{
	static const uint32_t fanouts[] = { 25, 10 };
	const struct rung_stage_opts *opts = &stage->opts;
	struct rung__manifest *m = stage->manifest;
	const char *method = opts->score_spec ? "given" : rung_score_method_name(opts->score.method);

	if (!method)
		return rung__fail(RUNG_E_INVAL, "staging: %d is no score method", (int)opts->score.method);
	snprintf(m->score_method, sizeof(m->score_method), "%s", method);
	snprintf(m->producer, sizeof(m->producer), "rung %s (%s)", rung_version(), rung_commit());
	m->fanout_count = opts->fanout_count ? opts->fanout_count : RUNG__ARRAY_LEN(fanouts);
	memcpy(m->fanouts, opts->fanout_count ? opts->fanouts : fanouts, m->fanout_count * sizeof(m->fanouts[0]));
	m->batch_size = opts->batch_size ? opts->batch_size : 1024;
	return 0;
}

int rung__stage_open_inputs(struct rung__stage *stage)
{
	int rc = check_counts(&stage->opts);

	if (rc < 0 || (rc = fill_parameters(stage)) < 0 || (rc = open_features(stage)) < 0 || (rc = open_labels(stage)) < 0 ||
	    (rc = open_score(stage)) < 0)
		return rc;
	return read_splits(stage);
}

void rung__stage_close_inputs(struct rung__stage *stage)
{
	for (size_t i = 0; stage->splits && i < stage->opts.split_count; i++)
		rung__free(stage->splits[i].ids);
	rung__free(stage->splits);
	rung_source_close(stage->score_source);
	rung_source_close(stage->labels);
	rung_source_close(stage->features);
}

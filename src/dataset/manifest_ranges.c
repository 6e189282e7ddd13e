/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout of the rows that a manifest describes, and its text. A single range of ranks has at
 * most the key "block_rows", as in the first version of the format; several are the list "ranges".
 */
#include <string.h>

#include "base/base.h"
#include "dataset/manifest_field.h"
#include "dataset/state.h"
#include "source/npy.h"

#define BLOCK_ROWS_MAX (INT64_MAX / 16 / RUNG_FEATURE_FILES_MAX)

unsigned rung__manifest_version(const struct rung__manifest *m)
{
	if (m->types || m->is_part)
		return RUNG__FORMAT_VERSION_TYPES;
	if (m->range_count > 1)
		return RUNG__FORMAT_VERSION_RANGES;
	return m->quant.format != RUNG_QUANT_NONE ? RUNG__FORMAT_VERSION_QUANT
	                                          : RUNG__FORMAT_VERSION;
}

struct rung__layout rung__manifest_features_layout(const struct rung__manifest *m)
{
	/* rows in place are one file in the order of the vertices: readers map a rank to its
	 * vertex, an id of vertex_bytes, first */
	const bool in_place = rung__manifest_in_place(m);
	struct rung__layout layout = {
		.data_offset = m->data_offset,
		.row_stride = m->row_stride,
		.row_bytes = m->features.row_bytes,
		.file_count = in_place ? 1 : m->feature_file_count,
		.vertex_bytes = in_place ? m->index_bytes : 0,
		.range_count = m->range_count,
	};

	memcpy(layout.ranges, m->ranges, sizeof(m->ranges));
	return layout;
}

struct rung__layout rung__manifest_array_layout(const struct rung_array_info *info)
{
	return (struct rung__layout){
		.data_offset = RUNG__NPY_DATA_OFFSET,
		.row_stride = info->row_bytes,
		.row_bytes = info->row_bytes,
		.file_count = 1,
		.range_count = 1,
		.ranges[0] = rung__range_of_all(info->row_count, 1, info->row_count),
	};
}

static int put_block_rows(json_t *object, const struct rung__range *range)
{
	return range->file_count > 1
	               ? json_object_set_new(object, "block_rows",
	                                     json_integer((json_int_t)range->block_rows))
	               : 0;
}

/* NULL: out of memory; jansson's functions accept it as a value and fail. @param begin  the first
 * rank of the range */
static json_t *range_json(const struct rung__range *range, uint64_t begin)
{
	json_t *object = json_pack("{s:I, s:I}", "end", (json_int_t)range->end, "files",
	                           (json_int_t)range->file_count);
	int failed = put_block_rows(object, range);

	if (range->stored_first != begin || range->stored_end != range->end)
		failed |= json_object_set_new(object, "stored",
		                              json_pack("[I, I]", (json_int_t)range->stored_first,
		                                        (json_int_t)range->stored_end));
	if (!failed)
		return object;
	json_decref(object);
	return NULL;
}

int rung__manifest_put_ranges(const struct rung__manifest *m, json_t *features)
{
	json_t *list;
	uint64_t begin = 0;
	int failed = 0;

	if (m->feature_file_count == 0)
		return 0;
	if (m->range_count == 1)
		return put_block_rows(features, &m->ranges[0]);
	list = json_array();
	for (uint32_t i = 0; i < m->range_count; i++) {
		failed |= json_array_append_new(list, range_json(&m->ranges[i], begin));
		begin = m->ranges[i].end;
	}
	return failed | json_object_set_new(features, "ranges", list);
}

static bool get_block_rows(const json_t *object, struct rung__range *range)
{
	return range->file_count <= 1 ||
	       rung__field_u64(object, "block_rows", BLOCK_ROWS_MAX, &range->block_rows);
}

/* The rows that the files of a range have: those of its ranks, unless `stored` has others. */
static bool get_stored(const json_t *object, uint64_t begin, struct rung__range *range)
{
	const json_t *stored = json_object_get(object, "stored");
	const json_t *first = json_array_get(stored, 0), *end = json_array_get(stored, 1);

	range->stored_first = begin;
	range->stored_end = range->end;
	if (!stored)
		return true;
	if (json_array_size(stored) != 2 || !json_is_integer(first) || !json_is_integer(end) ||
	    json_integer_value(first) < 0 || json_integer_value(end) < 0)
		return false;
	range->stored_first = (uint64_t)json_integer_value(first);
	range->stored_end = (uint64_t)json_integer_value(end);
	return true;
}

static bool get_list(const json_t *list, struct rung__manifest *m)
{
	uint64_t begin = 0, files = 0;

	m->range_count = (uint32_t)RUNG__MIN(json_array_size(list), RUNG_FEATURE_FILES_MAX + 1u);
	if (m->range_count < 2 || m->range_count > RUNG_FEATURE_FILES_MAX)
		return false;
	for (uint32_t i = 0; i < m->range_count; i++) {
		const json_t *object = json_array_get(list, i);
		struct rung__range *range = &m->ranges[i];

		if (!rung__field_u64(object, "end", INT64_MAX, &range->end) ||
		    !rung__field_u64(object, "files", RUNG_FEATURE_FILES_MAX, &range->file_count) ||
		    !get_block_rows(object, range) || !get_stored(object, begin, range))
			return false;
		range->file_first = files;
		files += range->file_count;
		begin = range->end;
	}
	return true;
}

bool rung__manifest_ranges_parse(const json_t *features, struct rung__manifest *m)
{
	const json_t *list = json_object_get(features, "ranges");
	struct rung__layout layout;

	if (list) {
		if (!get_list(list, m))
			return false;
	} else {
		m->range_count = 1;
		m->ranges[0] = rung__range_of_all(
			m->vertex_count, RUNG__MAX(m->feature_file_count, 1u), m->vertex_count);
		if (!get_block_rows(features, &m->ranges[0]))
			return false;
	}
	layout = rung__manifest_features_layout(m);
	return rung__ranges_ok(&layout, m->vertex_count);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a dataset, laid out from its counts, and the text of the manifest. The text ends in
 * a checksum of all of it, computed with zeros in place of the checksum's digits, so that a changed
 * byte anywhere is found before anything is parsed.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/checksum.h"
#include "base/base.h"
#include "dataset/manifest.h"
#include "dataset/state.h"
#include "source/npy.h"
#include "layout/layout.h"

/* Name a file, and compute its size and blocks. @return false: its size needs more than 63 bits */
static bool size_file(struct rung__manifest_file *file, const char *prefix, const char *name,
                      const char *suffix, const struct rung_array_info *array)
{
	uint64_t bytes;

	snprintf(file->name, sizeof(file->name), "%s%s%s", prefix, name, suffix);
	file->array = *array;
	if (!rung__array_measure(&file->array, &bytes) || bytes > INT64_MAX - RUNG__NPY_DATA_OFFSET)
		return false;
	file->bytes = bytes + RUNG__NPY_DATA_OFFSET;
	file->block_count = rung__block_count(file->bytes);
	return true;
}

/* Name and measure the next file of the list. Its blocks follow those of the previous file. */
static bool add_file(struct rung__manifest *m, const char *prefix, const char *name,
                     const char *suffix, const struct rung_array_info *array)
{
	struct rung__manifest_file *file = &m->files[m->file_count];

	if (!size_file(file, prefix, name, suffix, array))
		return false;
	file->first_block = m->block_count;
	m->block_count += file->block_count; /* cannot overflow: at most 2^43 per file */
	m->file_count++;
	return true;
}

static struct rung_array_info vector(enum rung_dtype dtype, uint64_t count)
{
	return (struct rung_array_info){ .dtype = dtype, .dim_count = 1, .dims = { count } };
}

/* Type and shape of the features in the .npy header. For padded rows that is a matrix of elements,
 * whose last columns are padding. */
static struct rung_array_info features_array(const struct rung__manifest *m)
{
	struct rung_array_info array = m->features;

	if (m->row_stride == m->features.row_bytes)
		return array;
	array.dim_count = 2;
	array.dims[1] = m->row_stride / rung_dtype_bytes(array.dtype);
	return array;
}

/* The features files come first: feature_file_count indexes them. */
static bool add_features(struct rung__manifest *m)
{
	const struct rung__layout layout = rung__manifest_features_layout(m);
	struct rung_array_info part = features_array(m);
	char name[RUNG__SPLIT_NAME_BYTES];

	for (uint32_t f = 0; f < m->feature_file_count; f++) {
		const struct rung__range *range = rung__file_range(&layout, f);

		snprintf(name, sizeof(name), RUNG__FEATURES_NAME, f);
		part.dims[0] = rung__dealt_rows(range, range->stored_end - range->stored_first,
		                                f - range->file_first);
		if (!add_file(m, "", name, "", &part))
			return false;
	}
	return true;
}

/* The list of files, in the order that docs/FORMAT.md defines. Readers compare it with the
 * manifest, entry by entry. */
static bool plan_files(struct rung__manifest *m)
{
	enum rung_dtype index = m->index_bytes == 4 ? RUNG_U32 : RUNG_U64;
	const struct rung_array_info indptr = vector(RUNG_U64, m->vertex_count + 1),
				     indices = vector(index, m->edge_count);
	const struct rung_array_info map = vector(index, m->vertex_count),
				     score = vector(RUNG_F32, m->vertex_count);
	struct rung_array_info split, sums;

	m->file_count = 0;
	m->block_count = 0;
	if (!add_features(m) ||
	    (!m->no_graph && (!add_file(m, "", RUNG__INDPTR, "", &indptr) ||
	                      !add_file(m, "", RUNG__INDICES, "", &indices))) ||
	    (!m->no_maps && (!add_file(m, "", RUNG__VERTEX_OF_RANK, "", &map) ||
	                     !add_file(m, "", RUNG__RANK_OF_VERTEX, "", &map))) ||
	    !add_file(m, "", RUNG__SCORE, "", &score))
		return false;
	if (m->has_labels && !add_file(m, "", RUNG__LABELS, "", &m->labels))
		return false;
	for (uint32_t i = 0; i < m->array_count; i++) {
		if (!add_file(m, RUNG__ARRAY_PREFIX, m->arrays[i].name, ".npy", &m->arrays[i].info))
			return false;
	}
	for (uint32_t i = 0; i < m->split_count; i++) {
		split = vector(index, m->splits[i].count);
		if (!add_file(m, RUNG__SPLIT_PREFIX, m->splits[i].name, ".npy", &split))
			return false;
	}
	sums = vector(RUNG_U64, m->block_count);
	return size_file(&m->checksums, "", RUNG__CHECKSUMS, "", &sums);
}

int rung__manifest_lay_out(struct rung__manifest *m)
{
	/* 16: the vertex_count + 1 offsets of 8 bytes then stay below 2^63 bytes */
	if (m->vertex_count > INT64_MAX / 16 || !plan_files(m))
		return rung__fail(RUNG_E_RANGE,
		                  "dataset: %" PRIu64 " vertices and %" PRIu64
		                  " edges with rows of %" PRIu64
		                  " bytes need files larger than 2^63 bytes",
		                  m->vertex_count, m->edge_count, m->features.row_bytes);
	/* each checksum has 16 digits in the manifest: more than fit there are refused before
	 * memory is allocated for them */
	if (m->checksums.block_count > RUNG__MANIFEST_BYTES_MAX / RUNG__CHECKSUM_DIGITS)
		return rung__fail(RUNG_E_RANGE,
		                  "dataset: the checksums of its %" PRIu64
		                  " blocks need more than %u bytes, the largest size of a manifest",
		                  m->block_count, RUNG__MANIFEST_BYTES_MAX);
	/* a manifest can be laid out again, after its arrays have changed */
	rung__free(m->checksums_sums);
	m->checksums_sums = rung__zalloc_array(m->checksums.block_count, sizeof(uint64_t));
	if (!m->checksums_sums)
		return rung__fail(RUNG_E_NOMEM,
		                  "dataset: no memory for the checksums of %" PRIu64 " blocks",
		                  m->block_count);
	return 0;
}

/* Linear: a few hundred files, and callers look up a few of them. */
const struct rung__manifest_file *rung__manifest_file(const struct rung__manifest *m,
                                                      const char *name)
{
	for (uint32_t i = 0; i < m->file_count; i++) {
		if (strcmp(m->files[i].name, name) == 0)
			return &m->files[i];
	}
	return strcmp(name, RUNG__CHECKSUMS) == 0 ? &m->checksums : NULL;
}

/* jansson's functions accept NULL for a value or a container and then fail, so a list or object is
 * built without checks and checked once. This frees it after a failure. */
static json_t *list_or_null(json_t *list, int failed)
{
	if (!failed)
		return list;
	json_decref(list);
	return NULL;
}

static json_t *shape_json(const struct rung_array_info *array)
{
	json_t *shape = json_array();
	int failed = 0;

	for (unsigned i = 0; i < array->dim_count; i++)
		failed |= json_array_append_new(shape, json_integer((json_int_t)array->dims[i]));
	return list_or_null(shape, failed);
}

/* Checksums as text: they need 64 bits, and numbers in a manifest have 63. */
static json_t *sums_json(const uint64_t *sums, uint64_t count)
{
	json_t *list = json_array();
	char text[RUNG__CHECKSUM_DIGITS + 1];
	int failed = 0;

	for (uint64_t i = 0; i < count && !failed; i++) {
		rung__checksum_text(sums[i], text);
		failed = json_array_append_new(list, json_string(text));
	}
	return list_or_null(list, failed);
}

static json_t *file_json(const struct rung__manifest_file *file)
{
	return json_pack("{s:s, s:I, s:s, s:o, s:I, s:I}", "name", file->name, "bytes",
	                 (json_int_t)file->bytes, "dtype", rung_dtype_name(file->array.dtype),
	                 "shape", shape_json(&file->array), "first_block",
	                 (json_int_t)file->first_block, "blocks", (json_int_t)file->block_count);
}

/* In the struct 0 means "does not apply"; in the manifest null does. */
static json_t *real_or_null(double value)
{
	return value != 0 ? json_real(value) : json_null();
}

static json_t *score_json(const struct rung__manifest *m)
{
	json_t *iterations = m->score_iterations ? json_integer(m->score_iterations) : json_null();
	json_t *batches =
		m->score_sampled ? json_integer((json_int_t)m->score_batches) : json_null();
	json_t *seed = m->score_sampled ? json_integer((json_int_t)m->score_seed) : json_null();

	return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "method", m->score_method, "iterations",
	                 iterations, "damping", real_or_null(m->score_damping), "tolerance",
	                 real_or_null(m->score_tolerance), "batches", batches, "seed", seed);
}

static json_t *in_place_json(const struct rung__in_place *in_place)
{
	return json_pack("{s:s, s:I, s:I, s:o}", "file", in_place->path, "bytes",
	                 (json_int_t)in_place->bytes, "mtime_ns", (json_int_t)in_place->mtime_ns,
	                 "samples", sums_json(in_place->samples, in_place->sample_count));
}

static json_t *features_json(const struct rung__manifest *m)
{
	json_t *files, *features;
	int failed = 0;

	if (m->no_features)
		return json_null();
	files = json_array();
	for (uint32_t f = 0; f < m->feature_file_count; f++)
		failed |= json_array_append_new(files, json_string(m->files[f].name));
	features = json_pack("{s:o, s:s, s:o, s:I, s:I, s:I}", "files", files, "dtype",
	                     rung_dtype_name(m->features.dtype), "shape", shape_json(&m->features),
	                     "row_bytes", (json_int_t)m->features.row_bytes, "row_stride",
	                     (json_int_t)m->row_stride, "data_offset", (json_int_t)m->data_offset);
	/* keys that do not apply are absent */
	failed |= rung__manifest_put_ranges(m, features);
	if (rung__manifest_in_place(m))
		failed |= json_object_set_new(features, "in_place", in_place_json(&m->in_place));
	if (m->quant.format != RUNG_QUANT_NONE)
		failed |= json_object_set_new(features, "quantized", rung__manifest_quant_json(m));
	return list_or_null(features, failed);
}

static json_t *checksums_json(const struct rung__manifest *m)
{
	return json_pack("{s:s, s:I, s:s, s:I, s:o}", "algorithm", RUNG__CHECKSUM_NAME,
	                 "block_bytes", (json_int_t)RUNG__BLOCK_BYTES, "file", RUNG__CHECKSUMS,
	                 "bytes", (json_int_t)m->checksums.bytes, "blocks",
	                 sums_json(m->checksums_sums, m->checksums.block_count));
}

/* A list of lines; null if the job is not recorded, as in older datasets. */
static json_t *job_json(const struct rung__manifest *m)
{
	json_t *lines = m->job ? json_array() : json_null();
	const char *end;
	int failed = 0;

	for (const char *line = m->job; line && (end = strchr(line, '\n')) != NULL; line = end + 1)
		failed |= json_array_append_new(lines, json_stringn(line, (size_t)(end - line)));
	return list_or_null(lines, failed);
}

/* Add a key; the value is owned by the object, or freed. */
static int put(json_t *object, const char *key, json_t *value)
{
	return json_object_set_new(object, key, value);
}

/* The names of the vertex type and of the relation, unless they are the defaults: a dataset that
 * was staged without names has the same manifest as before there were any. */
static int put_names(const struct rung__manifest *m, json_t *root)
{
	int failed = 0;

	if (strcmp(m->vertex_type, RUNG__VERTEX_TYPE) == 0 &&
	    strcmp(m->relation, RUNG__RELATION) == 0)
		return 0;
	failed |= put(root, "vertex_types",
	              json_pack("[{s:s, s:I}]", "name", m->vertex_type, "vertices",
	                        (json_int_t)m->vertex_count));
	failed |= put(root, "relations",
	              json_pack("[{s:s, s:s, s:s, s:I}]", "name", m->relation, "source",
	                        m->vertex_type, "target", m->vertex_type, "edges",
	                        (json_int_t)m->edge_count));
	return failed;
}

/* The defaults for training. */
static int put_defaults(const struct rung__manifest *m, json_t *root)
{
	json_t *fanouts = json_array();
	int failed = 0;

	for (uint32_t i = 0; i < m->fanout_count; i++)
		failed |= json_array_append_new(fanouts, json_integer(m->fanouts[i]));
	failed |= put(root, "fanouts", fanouts);
	failed |= put(root, "batch_size", json_integer(m->batch_size));
	failed |= put(root, "draws", json_string(m->draws == RUNG_DRAWS_NEW ? "new" : "all"));
	return failed;
}

/* The lists of names and files, in the order of the text. */
static int put_lists(const struct rung__manifest *m, json_t *root)
{
	json_t *arrays = json_array(), *splits = json_array(), *files = json_array();
	int failed = 0;

	for (uint32_t i = 0; i < m->array_count; i++)
		failed |= json_array_append_new(arrays, json_string(m->arrays[i].name));
	for (uint32_t i = 0; i < m->split_count; i++)
		failed |= json_array_append_new(splits, json_string(m->splits[i].name));
	for (uint32_t i = 0; i < m->file_count; i++)
		failed |= json_array_append_new(files, file_json(&m->files[i]));
	failed |= put(root, "labels", json_boolean(m->has_labels));
	failed |= put(root, "arrays", arrays);
	failed |= put(root, "splits", splits);
	failed |= put(root, "files", files);
	failed |= put(root, "job", job_json(m));
	return failed;
}

/* The whole text, with zeros as its checksum. malloc() of jansson: free it with free(). */
static char *dump(const struct rung__manifest *m)
{
	json_t *root = json_object();
	char *text = NULL;
	int failed = 0;

	failed |= put(root, "format", json_string(RUNG__FORMAT_NAME));
	failed |= put(root, "version", json_integer(rung__manifest_version(m)));
	failed |= put(root, "producer", json_string(m->producer));
	failed |= put(root, "vertices", json_integer((json_int_t)m->vertex_count));
	failed |= put(root, "edges", json_integer((json_int_t)m->edge_count));
	if (m->types || m->is_part)
		failed |= rung__manifest_put_types(m, root);
	if (!m->types) {
		failed |= put_names(m, root);
		failed |= put(root, "index_bytes", json_integer(m->index_bytes));
		failed |= put(root, "features", features_json(m));
	}
	failed |= put(root, "score", score_json(m));
	failed |= put_defaults(m, root);
	if (!m->types) {
		failed |= put_lists(m, root);
		failed |= put(root, "checksums", checksums_json(m));
	} else
		failed |= put(root, "job", job_json(m));
	/* the last key: RUNG__MANIFEST_TAIL follows its digits */
	failed |= put(root, "checksum", json_string("0000000000000000"));
	if (!failed)
		text = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(15));
	json_decref(root);
	return text;
}

int rung__manifest_format(struct rung__manifest *m, char **text_out)
{
	char *dumped = dump(m), *text;
	char digits[RUNG__CHECKSUM_DIGITS + 1];
	size_t bytes;

	/* jansson writes no line feed at the end; its memory is not rung's */
	text = dumped ? rung__format("%s\n", dumped) : NULL;
	free(dumped);
	if (!text)
		return rung__fail(RUNG_E_NOMEM, "dataset: no memory for the text of its manifest");
	bytes = strlen(text);
	if (bytes > RUNG__MANIFEST_BYTES_MAX) {
		rung__free(text);
		return rung__fail(
			RUNG_E_RANGE,
			"dataset: its manifest would have %zu bytes; at most %u can be read", bytes,
			RUNG__MANIFEST_BYTES_MAX);
	}
	/* replace the zeros by the checksum, in place */
	m->text_sum = rung__checksum(text, bytes);
	rung__checksum_text(m->text_sum, digits);
	memcpy(text + bytes - strlen(RUNG__MANIFEST_TAIL) - RUNG__CHECKSUM_DIGITS, digits,
	       RUNG__CHECKSUM_DIGITS);
	m->text_bytes = bytes;
	*text_out = text;
	return 0;
}

void rung__manifest_destroy(struct rung__manifest *m)
{
	if (!m)
		return;
	rung__free(m->checksums_sums);
	rung__free(m->column_scales);
	rung__free(m->job);
	rung__free(m->types);
	rung__free(m);
}

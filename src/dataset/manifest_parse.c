/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parsing the text of a manifest. Its checksum finds damage, but anybody can compute it for a
 * manifest with false fields. Every field is therefore checked, and the list of files must be the
 * one that follows from the counts. Later code uses the manifest without further checks.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "dataset/checksum.h"
#include "base/base.h"
#include "dataset/manifest.h"
#include "dataset/manifest_field.h"
#include "dataset/state.h"
#include "source/npy.h"
#include "layout/layout.h"

/* Fail because of a field. `key` is its key, or "outer key: inner key". */
static int bad_field(const char *path, const char *key)
{
	return rung__fail(RUNG_E_FORMAT,
	                  "%s: \"%s\" is missing or not as the format defines it; stage the "
	                  "dataset again",
	                  path, key);
}

/* "all" or "new"; a missing key, as in older datasets, means "all". */
static bool get_draws(const json_t *object, enum rung_draws *draws_out)
{
	const json_t *value = json_object_get(object, "draws");
	const char *name = value ? json_string_value(value) : "all";

	if (!name || (strcmp(name, "all") != 0 && strcmp(name, "new") != 0))
		return false;
	*draws_out = strcmp(name, "new") == 0 ? RUNG_DRAWS_NEW : RUNG_DRAWS_ALL;
	return true;
}

/* The names are fixed by the format, so they cannot lead out of the folder. An empty list means
 * rows in place. */
static bool feature_files_ok(const json_t *files)
{
	char wanted[RUNG__SPLIT_NAME_BYTES];

	if (!json_is_array(files) || json_array_size(files) > RUNG_FEATURE_FILES_MAX)
		return false;
	for (unsigned f = 0; f < json_array_size(files); f++) {
		const char *name = json_string_value(json_array_get(files, f));

		snprintf(wanted, sizeof(wanted), RUNG__FEATURES_NAME, f);
		if (!name || strcmp(name, wanted) != 0)
			return false;
	}
	return true;
}

/* Rows that were left in their source. They have no padding there, and all of them must be inside
 * the file, so that no read is past its end. */
static bool get_in_place(const json_t *features, struct rung__manifest *m)
{
	const json_t *in_place = json_object_get(features, "in_place");
	struct rung__in_place *out = &m->in_place;
	uint64_t end;

	if (!rung__field_text(in_place, "file", out->path, sizeof(out->path)) ||
	    out->path[0] != '/' || !rung__field_u64(in_place, "bytes", INT64_MAX, &out->bytes) ||
	    !rung__field_u64(in_place, "mtime_ns", INT64_MAX, &out->mtime_ns) ||
	    m->row_stride != m->features.row_bytes ||
	    !rung__mul(m->vertex_count, m->row_stride, &end) ||
	    !rung__add(end, m->data_offset, &end) || end > out->bytes)
		return false;
	/* follows from the size, which bounds the list */
	out->sample_count = rung__in_place_sample_count(out->bytes);
	return rung__field_sums(json_object_get(in_place, "samples"), out->sample_count,
	                        out->samples);
}

/* Type, shape and layout of the rows. Readers compute offsets from these fields without checks. */
static int get_features(const char *path, const json_t *root, struct rung__manifest *m)
{
	const json_t *features = json_object_get(root, "features"),
		     *files = json_object_get(features, "files");
	bool nomem = false;

	m->no_features = m->is_part && json_is_null(features);
	if (m->no_features)
		return 0;
	if (!rung__field_array(features, &m->features) ||
	    m->features.row_count != m->vertex_count || m->features.row_bytes == 0)
		return bad_field(path, "features: dtype, shape");
	if (!rung__manifest_quant_parse(features, m, &nomem))
		return nomem ? rung__fail(RUNG_E_NOMEM, "%s: no memory for its scales", path)
		             : bad_field(path, "features: quantized");
	if (!feature_files_ok(files))
		return bad_field(path, "features: files");
	m->feature_file_count = (uint32_t)json_array_size(files);
	if (!rung__manifest_ranges_parse(features, m))
		return bad_field(path, json_object_get(features, "ranges")
		                               ? "features: ranges"
		                               : "features: block_rows");
	/* a stride of whole elements: padded rows are a matrix of them. Data of staged files start
	 * at the page after the header; those of a source start anywhere */
	if (!rung__field_has_u64(features, "row_bytes", m->features.row_bytes) ||
	    !rung__field_u64(features, "row_stride", INT64_MAX, &m->row_stride) ||
	    m->row_stride < m->features.row_bytes ||
	    m->row_stride % rung_dtype_bytes(m->features.dtype) != 0 ||
	    !rung__field_u64(features, "data_offset", INT64_MAX, &m->data_offset) ||
	    (m->feature_file_count > 0 && m->data_offset != RUNG__NPY_DATA_OFFSET))
		return bad_field(path, "features: row_bytes, row_stride, data_offset");
	if (rung__manifest_in_place(m) && !get_in_place(features, m))
		return bad_field(path, "features: in_place");
	return 0;
}

/* How the score was computed. It is only reported: values are not checked against the method. */
static int get_score(const char *path, const json_t *root, struct rung__manifest *m)
{
	const json_t *score = json_object_get(root, "score");
	uint64_t iterations = 0;

	if (!rung__field_text(score, "method", m->score_method, sizeof(m->score_method)) ||
	    !rung__field_real(score, "damping", &m->score_damping) ||
	    !rung__field_real(score, "tolerance", &m->score_tolerance))
		return bad_field(path, "score");
	if (!json_is_null(json_object_get(score, "iterations")) &&
	    !rung__field_u64(score, "iterations", UINT32_MAX, &iterations))
		return bad_field(path, "score: iterations");
	m->score_iterations = (uint32_t)iterations;
	/* null or missing unless the score was computed from sampled batches */
	m->score_sampled = json_is_integer(json_object_get(score, "batches"));
	if (!rung__field_count_or_null(score, "batches", &m->score_batches) ||
	    !rung__field_count_or_null(score, "seed", &m->score_seed))
		return bad_field(path, "score: batches, seed");
	return 0;
}

/* Defaults for training: fanouts, batch size, draws. A fanout or batch size of 0 is refused. */
static int get_defaults(const char *path, const json_t *root, struct rung__manifest *m)
{
	const json_t *fanouts = json_object_get(root, "fanouts"), *fanout;
	uint64_t batch_size;

	if (!json_is_array(fanouts) || json_array_size(fanouts) > RUNG_HOPS_MAX)
		return bad_field(path, "fanouts");
	m->fanout_count = (uint32_t)json_array_size(fanouts);
	for (uint32_t i = 0; i < m->fanout_count; i++) {
		fanout = json_array_get(fanouts, i);
		if (!json_is_integer(fanout) || json_integer_value(fanout) < 1 ||
		    json_integer_value(fanout) > UINT32_MAX)
			return bad_field(path, "fanouts");
		m->fanouts[i] = (uint32_t)json_integer_value(fanout);
	}
	if (!rung__field_u64(root, "batch_size", UINT32_MAX, &batch_size) || batch_size == 0)
		return bad_field(path, "batch_size");
	m->batch_size = (uint32_t)batch_size;
	return get_draws(root, &m->draws) ? 0 : bad_field(path, "draws");
}

/* A name that may be that of a vertex type or a relation. */
static bool get_name(const json_t *object, char name[RUNG__SPLIT_NAME_BYTES])
{
	return rung__field_text(object, "name", name, RUNG__SPLIT_NAME_BYTES) &&
	       rung__split_name_ok(name);
}

/* The vertex type and the relation, a list with one entry each. A missing list, as in datasets that
 * were staged without names, gives the default name. */
static int get_names(const char *path, const json_t *root, struct rung__manifest *m)
{
	const json_t *types = json_object_get(root, "vertex_types"),
		     *relations = json_object_get(root, "relations");
	const json_t *type = json_array_get(types, 0), *relation = json_array_get(relations, 0);

	strcpy(m->vertex_type, RUNG__VERTEX_TYPE);
	strcpy(m->relation, RUNG__RELATION);
	if (types && (json_array_size(types) != 1 || !get_name(type, m->vertex_type) ||
	              !rung__field_has_u64(type, "vertices", m->vertex_count)))
		return bad_field(path, "vertex_types");
	if (relations && (json_array_size(relations) != 1 || !get_name(relation, m->relation) ||
	                  !rung__field_has_text(relation, "source", m->vertex_type) ||
	                  !rung__field_has_text(relation, "target", m->vertex_type) ||
	                  !rung__field_has_u64(relation, "edges", m->edge_count)))
		return bad_field(path, "relations");
	return 0;
}

/* A list of names without repeats, each of which becomes part of a file name: only letters, digits,
 * "_" and "-" are accepted. A missing list is empty, as in datasets from before arrays existed. */
static bool names_ok(const json_t *names, size_t count_max, bool may_be_absent)
{
	if (!names)
		return may_be_absent;
	if (!json_is_array(names) || json_array_size(names) > count_max)
		return false;
	for (size_t i = 0; i < json_array_size(names); i++) {
		const char *name = json_string_value(json_array_get(names, i));

		if (!name || strlen(name) != json_string_length(json_array_get(names, i)) ||
		    !rung__split_name_ok(name))
			return false;
		/* at most 256 names: comparing all pairs is fast enough */
		for (size_t j = 0; j < i; j++) {
			if (strcmp(json_string_value(json_array_get(names, j)), name) == 0)
				return false;
		}
	}
	return true;
}

/* Shapes of labels, arrays and splits are not among the counts. They come from the list of files:
 * the files of labels, arrays and splits follow the fixed ones, in this order. A list that is too
 * short gives NULL, which rung__field_array() refuses. @param file entry of labels.npy, if there
 * are labels */
static int get_labels(const char *path, const json_t *root, const json_t *file,
                      struct rung__manifest *m)
{
	const json_t *labels = json_object_get(root, "labels");

	if (!json_is_boolean(labels))
		return bad_field(path, "labels");
	m->has_labels = json_is_true(labels);
	if (m->has_labels &&
	    (!rung__field_array(file, &m->labels) || m->labels.row_count != m->vertex_count))
		return bad_field(path, "files: labels.npy");
	return 0;
}

/* Names and shapes of the additional arrays. @param first_file  index of their first entry */
static int get_arrays(const char *path, const json_t *root, size_t first_file,
                      struct rung__manifest *m)
{
	const json_t *names = json_object_get(root, "arrays"),
		     *files = json_object_get(root, "files");

	if (!names_ok(names, RUNG__ARRAYS_MAX, true))
		return bad_field(path, "arrays");
	m->array_count = (uint32_t)json_array_size(names);
	for (uint32_t i = 0; i < m->array_count; i++) {
		struct rung_array_info *info = &m->arrays[i].info;

		if (!rung__field_array(json_array_get(files, first_file + i), info) ||
		    info->row_count != m->vertex_count || info->row_bytes == 0)
			return bad_field(path, "files: arrays");
		/* names_ok() has checked the length */
		strcpy(m->arrays[i].name, json_string_value(json_array_get(names, i)));
	}
	return 0;
}

/* Names and lengths of the splits, which are sets of vertices. */
static int get_splits(const char *path, const json_t *root, size_t first_file,
                      struct rung__manifest *m)
{
	const json_t *names = json_object_get(root, "splits"),
		     *files = json_object_get(root, "files");
	struct rung_array_info array;

	if (!names_ok(names, RUNG__SPLITS_MAX, false))
		return bad_field(path, "splits");
	m->split_count = (uint32_t)json_array_size(names);
	for (uint32_t i = 0; i < m->split_count; i++) {
		if (!rung__field_array(json_array_get(files, first_file + i), &array) ||
		    array.dim_count != 1 || array.row_count > m->vertex_count)
			return bad_field(path, "files: splits");
		strcpy(m->splits[i].name, json_string_value(json_array_get(names, i)));
		m->splits[i].count = array.row_count;
	}
	return 0;
}

static int get_extra_arrays(const char *path, const json_t *root, struct rung__manifest *m)
{
	size_t at = m->feature_file_count + rung__manifest_fixed_files(m);
	int rc = get_labels(path, root, json_array_get(json_object_get(root, "files"), at), m);

	if (rc < 0)
		return rc;
	at += m->has_labels;
	rc = get_arrays(path, root, at, m);
	return rc < 0 ? rc : get_splits(path, root, at + m->array_count, m);
}

/* Whether an entry of "files" equals that of the layout. */
static bool file_agrees(const json_t *object, const struct rung__manifest_file *file)
{
	struct rung_array_info array;

	return rung__field_has_text(object, "name", file->name) &&
	       rung__field_array(object, &array) && rung__array_equal(&array, &file->array) &&
	       rung__field_has_u64(object, "bytes", file->bytes) &&
	       rung__field_has_u64(object, "first_block", file->first_block) &&
	       rung__field_has_u64(object, "blocks", file->block_count);
}

/* Compare the list of files with the layout, and read the checksums of checksums.npy. */
static int get_files(const char *path, const json_t *root, struct rung__manifest *m)
{
	const json_t *files = json_object_get(root, "files"),
		     *sums = json_object_get(root, "checksums");
	const json_t *blocks = json_object_get(sums, "blocks");

	if (!json_is_array(files) || json_array_size(files) != m->file_count)
		return bad_field(path, "files");
	for (uint32_t i = 0; i < m->file_count; i++) {
		if (!file_agrees(json_array_get(files, i), &m->files[i]))
			return rung__fail(RUNG_E_FORMAT,
			                  "%s: entry %u of \"files\" does not match the counts, "
			                  "which require the file %s; stage the dataset again",
			                  path, i, m->files[i].name);
	}
	if (!rung__field_has_text(sums, "algorithm", RUNG__CHECKSUM_NAME) ||
	    !rung__field_has_u64(sums, "block_bytes", RUNG__BLOCK_BYTES) ||
	    !rung__field_has_text(sums, "file", RUNG__CHECKSUMS) ||
	    !rung__field_has_u64(sums, "bytes", m->checksums.bytes) || !json_is_array(blocks) ||
	    json_array_size(blocks) != m->checksums.block_count)
		return bad_field(path, "checksums");
	return rung__field_sums(blocks, m->checksums.block_count, m->checksums_sums)
	               ? 0
	               : bad_field(path, "checksums: blocks");
}

/* Join the lines of "job", each with a line feed. A missing key, as in older datasets, or null: the
 * job was not recorded, and m->job stays NULL. */
static int get_job(const char *path, const json_t *root, struct rung__manifest *m)
{
	const json_t *lines = json_object_get(root, "job");
	size_t bytes = 1; /* the NUL */
	char *at;

	if (!lines || json_is_null(lines))
		return 0;
	if (!json_is_array(lines))
		return bad_field(path, "job");
	for (size_t i = 0; i < json_array_size(lines); i++) {
		if (!rung__field_is_text(json_array_get(lines, i)))
			return bad_field(path, "job");
		bytes += json_string_length(json_array_get(lines, i)) + 1;
	}
	at = m->job = rung__malloc(bytes);
	if (!at)
		return rung__fail(RUNG_E_NOMEM, "%s: no memory for %zu bytes of \"job\"", path,
		                  bytes);
	for (size_t i = 0; i < json_array_size(lines); i++) {
		at = stpcpy(at, json_string_value(json_array_get(lines, i)));
		*at++ = '\n';
	}
	*at = '\0';
	return 0;
}

/* A typed dataset has only types, relations and settings; its files are those of the parts. */
static int get_typed(const char *path, const json_t *root, struct rung__manifest *m)
{
	const char *bad;
	int rc;

	if ((rc = get_score(path, root, m)) < 0 || (rc = get_defaults(path, root, m)) < 0 ||
	    (rc = get_job(path, root, m)) < 0)
		return rc;
	strcpy(m->vertex_type, RUNG__VERTEX_TYPE);
	strcpy(m->relation, RUNG__RELATION);
	m->no_features = m->no_maps = m->no_graph = true;
	bad = rung__manifest_types_parse(root, m);
	if (!bad)
		return 0;
	return bad[0] ? bad_field(path, bad)
	              : rung__fail(RUNG_E_NOMEM, "%s: no memory for the types", path);
}

/* All fields. Counts come first: later checks compare shapes with them. After a failure the caller
 * frees `m`, with the parts that were filled. */
static int get_all(const char *path, const json_t *root, uint64_t version, struct rung__manifest *m)
{
	const json_t *files = json_object_get(root, "files");
	uint64_t index_bytes;
	int rc;

	if (!rung__field_text(root, "producer", m->producer, sizeof(m->producer)))
		return bad_field(path, "producer");
	if (!rung__field_u64(root, "vertices", INT64_MAX / 16, &m->vertex_count) ||
	    m->vertex_count == 0)
		return bad_field(path, "vertices");
	if (!rung__field_u64(root, "edges", INT64_MAX / 16, &m->edge_count))
		return bad_field(path, "edges");
	if (version == RUNG__FORMAT_VERSION_TYPES && rung__field_has_text(root, "kind", "typed"))
		return get_typed(path, root, m);
	if (version == RUNG__FORMAT_VERSION_TYPES && !rung__manifest_part_parse(root, m))
		return bad_field(path, "kind, maps, graph");
	if (!rung__field_u64(root, "index_bytes", 8, &index_bytes) ||
	    index_bytes != rung_index_bytes(m->source_count ? m->source_count : m->vertex_count))
		return bad_field(path, "index_bytes");
	m->index_bytes = (unsigned)index_bytes;
	if ((rc = get_names(path, root, m)) < 0 || (rc = get_features(path, root, m)) < 0 ||
	    (rc = get_score(path, root, m)) < 0 || (rc = get_defaults(path, root, m)) < 0 ||
	    (rc = get_extra_arrays(path, root, m)) < 0 || (rc = get_job(path, root, m)) < 0)
		return rc;
	/* before the layout allocates checksums: their number follows from the counts, and a short
	 * text can claim any counts */
	if (json_array_size(files) != m->feature_file_count + rung__manifest_fixed_files(m) +
	                                      m->has_labels + m->array_count + m->split_count)
		return bad_field(path, "files");
	rc = rung__manifest_lay_out(m);
	return rc < 0 ? rc : get_files(path, root, m);
}

/* Whether the text ends as it must, with the right digits. @param copy  [bytes] for the text with
 * zeros in their place */
static bool sum_agrees(const char *text, size_t bytes, char *copy, uint64_t *sum_out)
{
	const size_t tail = strlen(RUNG__MANIFEST_TAIL), key = strlen(RUNG__MANIFEST_CHECKSUM_KEY);
	char digits[RUNG__CHECKSUM_DIGITS + 1];
	size_t at;

	if (bytes < tail + key + RUNG__CHECKSUM_DIGITS)
		return false;
	at = bytes - tail - RUNG__CHECKSUM_DIGITS;
	if (memcmp(text + bytes - tail, RUNG__MANIFEST_TAIL, tail) != 0 ||
	    memcmp(text + at - key, RUNG__MANIFEST_CHECKSUM_KEY, key) != 0)
		return false;
	memcpy(copy, text, bytes);
	memset(copy + at, '0', RUNG__CHECKSUM_DIGITS);
	*sum_out = rung__checksum(copy, bytes);
	rung__checksum_text(*sum_out, digits);
	return memcmp(text + at, digits, RUNG__CHECKSUM_DIGITS) == 0;
}

/* Before the text is parsed: JSON errors would otherwise be reported for damage. */
static int check_sum(const char *path, const char *text, size_t bytes, uint64_t *sum_out)
{
	char *copy = rung__malloc(bytes);
	bool agrees;

	if (!copy)
		return rung__fail(RUNG_E_NOMEM, "%s: no memory for %zu bytes", path, bytes);
	agrees = sum_agrees(text, bytes, copy, sum_out);
	rung__free(copy);
	if (!agrees)
		return rung__fail(
			RUNG_E_CORRUPT,
			"%s: does not match its own checksum: it was changed or truncated "
			"after staging; stage the dataset again",
			path);
	return 0;
}

int rung__manifest_parse(const char *path, const char *text, size_t bytes,
                         struct rung__manifest **manifest_out)
{
	struct rung__manifest *m = NULL;
	uint64_t version, sum = 0;
	json_t *root = NULL;
	int rc;

	rc = check_sum(path, text, bytes, &sum);
	if (rc < 0)
		return rc;
	/* the root is NULL if the text is not JSON, and then has no "format" either. Equal keys are
	 * refused, because readers would differ in which of them they use */
	root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
	if (!rung__field_has_text(root, "format", RUNG__FORMAT_NAME) ||
	    !rung__field_u64(root, "version", INT64_MAX, &version)) {
		rc = rung__fail(RUNG_E_FORMAT, "%s: not a manifest of a staged dataset", path);
		goto free_root;
	}
	/* before other fields are read: another version may define them differently */
	if (version < RUNG__FORMAT_VERSION || version > RUNG__FORMAT_VERSION_TYPES) {
		rc = rung__fail(RUNG_E_FORMAT,
		                "%s: format version %" PRIu64
		                "; this version of rung reads format versions %u to %u; "
		                "stage the dataset again, or use the version of rung that wrote it",
		                path, version, RUNG__FORMAT_VERSION, RUNG__FORMAT_VERSION_TYPES);
		goto free_root;
	}
	m = rung__zalloc(sizeof(*m));
	rc = m ? get_all(path, root, version, m) : rung__fail(RUNG_E_NOMEM, "%s", path);
	if (rc == 0 && version != rung__manifest_version(m))
		rc = bad_field(path, "version, features: quantized, ranges");
	if (rc < 0) {
		rung__manifest_destroy(m);
		goto free_root;
	}
	m->text_bytes = bytes;
	m->text_sum = sum;
	*manifest_out = m;
free_root:
	json_decref(root);
	return rc;
}

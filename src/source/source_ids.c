/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of vertices in files, such as the train split: ids of any integer type, or masks. Callers
 * index arrays with the result, so every id is checked.
 */
#include "base/base.h"
#include "source/source.h"

static bool is_integer(enum rung_dtype dtype)
{
	return dtype >= RUNG_I8 && dtype <= RUNG_U64;
}

/* Checked before memory is allocated: a set has at most one entry per vertex, so a wrong file
 * cannot need more memory. */
static int check_shape(const struct rung_source *src, uint64_t vertex_count)
{
	const struct rung_array_info *info = rung_source_info(src);
	const char *spec = rung__source_spec(src);

	if (info->dim_count != 1 || (info->dtype != RUNG_BOOL && !is_integer(info->dtype)))
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: vertices must be a 1-D bool mask or 1-D integer ids, but "
		                  "this is %s and %u-D; convert it with a.astype('<i8').ravel()",
		                  spec, rung_dtype_name(info->dtype), info->dim_count);
	if (info->dtype == RUNG_BOOL && info->row_count != vertex_count)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: the mask has %" PRIu64 " entries, but there are %" PRIu64
		                  " vertices; give one entry per vertex",
		                  spec, info->row_count, vertex_count);
	/* also checked where repeats are allowed: a set has at most one entry per vertex */
	if (info->row_count > vertex_count)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: has %" PRIu64 " ids, but there are only %" PRIu64
		                  " vertices; give each id once",
		                  spec, info->row_count, vertex_count);
	return 0;
}

/* Number of vertices that a mask selects. A file can contain bytes other than 0 and 1: as in NumPy,
 * all bytes except 0 are true. */
static uint64_t count_masked(const unsigned char *mask, uint64_t vertex_count)
{
	uint64_t count = 0;

	for (uint64_t v = 0; v < vertex_count; v++)
		count += mask[v] != 0;
	return count;
}

/* List the selected vertices in ascending order. @param ids [count_masked()] */
static void write_masked(const unsigned char *mask, uint64_t vertex_count, uint64_t *ids)
{
	for (uint64_t v = 0; v < vertex_count; v++) {
		if (mask[v])
			*ids++ = v;
	}
}

/* Entry `i` of an array of any integer type. No single type holds negative values and those from
 * 2^63 on, and messages print both. @return true: *value_out is the value; false: it is negative,
 * and in *negative_out */
static bool integer_at(const void *data, enum rung_dtype dtype, uint64_t i, uint64_t *value_out,
                       int64_t *negative_out)
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

/* Widen the ids to 64 bits. The first one that is not a vertex is reported with its position. */
static int write_ids(const struct rung_source *src, const void *data, uint64_t vertex_count,
                     uint64_t *ids)
{
	const struct rung_array_info *info = rung_source_info(src);
	int64_t negative;

	for (uint64_t i = 0; i < info->row_count; i++) {
		if (!integer_at(data, info->dtype, i, &ids[i], &negative))
			return rung__fail(RUNG_E_RANGE,
			                  "%s: entry %" PRIu64 " is %" PRId64
			                  ", but vertex ids are 0 to %" PRIu64
			                  "; correct the entry",
			                  rung__source_spec(src), i, negative, vertex_count - 1);
		if (ids[i] >= vertex_count)
			return rung__fail(RUNG_E_RANGE,
			                  "%s: entry %" PRIu64 " is %" PRIu64
			                  ", but vertex ids are 0 to %" PRIu64
			                  "; correct the entry",
			                  rung__source_spec(src), i, ids[i], vertex_count - 1);
	}
	return 0;
}

/* Find the first occurrence of a repeated id, for the message. The check does not know it, because
 * it keeps a bit per vertex and no positions. */
static int fail_repeat(const struct rung_source *src, const uint64_t *ids, uint64_t second)
{
	uint64_t first = 0;

	while (ids[first] != ids[second])
		first++;
	return rung__fail(RUNG_E_FORMAT,
	                  "%s: entries %" PRIu64 " and %" PRIu64 " are both %" PRIu64
	                  "; give each id once; numpy.unique(a) removes repeats",
	                  rung__source_spec(src), first, second, ids[second]);
}

/* Find repeated ids with one bit per vertex, in one pass. Sorting a copy would need 64 bits per
 * id. */
static int check_distinct(const struct rung_source *src, uint64_t vertex_count, const uint64_t *ids,
                          uint64_t count)
{
	uint64_t *seen = rung__zalloc_array(vertex_count / 64 + 1, sizeof(*seen));
	int rc = 0;

	if (!seen)
		return rung__fail(RUNG_E_NOMEM,
		                  "%s: no memory for a bitmap of %" PRIu64 " vertices",
		                  rung__source_spec(src), vertex_count);
	for (uint64_t i = 0; rc == 0 && i < count; i++) {
		if (seen[ids[i] / 64] >> (ids[i] % 64) & 1)
			rc = fail_repeat(src, ids, i);
		seen[ids[i] / 64] |= UINT64_C(1) << (ids[i] % 64);
	}
	rung__free(seen);
	return rc;
}

/* Whether the ids are a mask that was saved as integers: 0 and 1, or 0 and one other value with an
 * entry per vertex. Three entries of two values repeat an id, so no valid set has this form.
 * @param one_out  the value that is not 0 */
static bool is_mask(const uint64_t *ids, uint64_t count, uint64_t vertex_count, uint64_t *one_out)
{
	uint64_t one = 0;

	for (uint64_t i = 0; i < count; i++) {
		one = one ? one : ids[i];
		if (ids[i] != 0 && ids[i] != one)
			return false;
	}
	*one_out = one ? one : 1;
	return count > 2 && (*one_out == 1 || count == vertex_count);
}

static int check_values(const struct rung_source *src, uint64_t vertex_count, int distinct,
                        const uint64_t *ids, uint64_t count)
{
	uint64_t one;

	if (is_mask(ids, count, vertex_count, &one))
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: looks like a mask saved as %s: all %" PRIu64
		                  " entries are 0 or %" PRIu64 "; save it with a.astype(bool)",
		                  rung__source_spec(src),
		                  rung_dtype_name(rung_source_info(src)->dtype), count, one);
	return distinct ? check_distinct(src, vertex_count, ids, count) : 0;
}

/* Convert the content of the file, which the caller has already read, to ids. The caller owns
 * *ids_out. */
static int convert_ids(const struct rung_source *src, const void *data, uint64_t vertex_count,
                       int distinct, uint64_t *count_out, uint64_t **ids_out)
{
	const struct rung_array_info *info = rung_source_info(src);
	const bool mask = info->dtype == RUNG_BOOL;
	const uint64_t count = mask ? count_masked(data, vertex_count) : info->row_count;
	uint64_t *ids = rung__malloc_array(count, sizeof(*ids));
	int rc = 0;

	if (!ids)
		return rung__fail(RUNG_E_NOMEM, "%s: no memory for %" PRIu64 " ids",
		                  rung__source_spec(src), count);
	if (mask)
		write_masked(data, vertex_count, ids);
	else
		rc = write_ids(src, data, vertex_count, ids);
	if (rc == 0 && !mask)
		rc = check_values(src, vertex_count, distinct, ids, count);
	if (rc < 0) {
		rung__free(ids);
		return rc;
	}
	*count_out = count;
	*ids_out = ids;
	return 0;
}

int rung_source_read_vertices(const struct rung_source *src, uint64_t vertex_count, int distinct,
                              uint64_t *count_out, uint64_t **ids_out)
{
	const struct rung_array_info *info = rung_source_info(src);
	int rc = check_shape(src, vertex_count);
	void *data;

	if (rc < 0)
		return rc;
	/* the whole file at once, because a set has at most vertex_count entries */
	data = rung__malloc_array(info->row_count, (size_t)info->row_bytes);
	if (!data)
		return rung__fail(RUNG_E_NOMEM, "%s: no memory for %" PRIu64 " entries",
		                  rung__source_spec(src), info->row_count);
	rc = rung_source_read(src, 0, info->row_count, data);
	if (rc == 0)
		rc = convert_ids(src, data, vertex_count, distinct, count_out, ids_out);
	rung__free(data);
	return rc;
}

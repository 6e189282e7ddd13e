/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of a manifest's JSON objects, each checked for its type and range. jansson's functions
 * return NULL or 0 for NULL, so a missing object needs no separate check. */
#include <string.h>

#include "dataset/checksum.h"
#include "dataset/manifest.h"
#include "dataset/manifest_field.h"
#include "base/base.h"
#include "source/npy.h"

bool rung__field_u64(const json_t *object, const char *key, uint64_t max, uint64_t *value_out)
{
	const json_t *value = json_object_get(object, key);

	/* 3.0 is not an integer for jansson, and is refused */
	if (!json_is_integer(value) || json_integer_value(value) < 0 ||
	    (uint64_t)json_integer_value(value) > max)
		return false;
	*value_out = (uint64_t)json_integer_value(value);
	return true;
}

bool rung__field_has_u64(const json_t *object, const char *key, uint64_t wanted)
{
	uint64_t value;

	return rung__field_u64(object, key, INT64_MAX, &value) && value == wanted;
}

bool rung__field_is_text(const json_t *value)
{
	const char *text = json_string_value(value);

	/* JSON text may contain NUL, which would hide the rest from C */
	if (!text || strlen(text) != json_string_length(value))
		return false;
	for (; *text; text++) {
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			return false;
	}
	return true;
}

bool rung__field_text(const json_t *object, const char *key, char *text, size_t text_bytes)
{
	const json_t *value = json_object_get(object, key);

	if (!rung__field_is_text(value) || json_string_length(value) >= text_bytes)
		return false;
	memcpy(text, json_string_value(value), json_string_length(value) + 1);
	return true;
}

bool rung__field_has_text(const json_t *object, const char *key, const char *wanted)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text && strcmp(text, wanted) == 0;
}

bool rung__field_real(const json_t *object, const char *key, double *value_out)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_null(value) && !json_is_number(value))
		return false;
	*value_out = json_is_null(value) ? 0 : json_number_value(value);
	return true;
}

bool rung__field_count_or_null(const json_t *object, const char *key, uint64_t *value_out)
{
	const json_t *value = json_object_get(object, key);

	*value_out = 0;
	return !value || json_is_null(value) || rung__field_u64(object, key, INT64_MAX, value_out);
}

bool rung__field_array(const json_t *object, struct rung_array_info *array)
{
	const json_t *shape = json_object_get(object, "shape"), *dim;
	char dtype[16]; /* longer than every name of a dtype */
	uint64_t bytes;

	if (!rung__field_text(object, "dtype", dtype, sizeof(dtype)) || !json_is_array(shape) ||
	    json_array_size(shape) > RUNG_DIMS_MAX)
		return false;
	/* RUNG_DTYPE_NONE if the name is unknown; it is refused below */
	array->dtype = rung__dtype_parse(dtype);
	array->dim_count = (unsigned)json_array_size(shape);
	for (unsigned i = 0; i < array->dim_count; i++) {
		dim = json_array_get(shape, i);
		if (!json_is_integer(dim) || json_integer_value(dim) < 0)
			return false;
		array->dims[i] = (uint64_t)json_integer_value(dim);
	}
	/* also refuses an unknown dtype, no dimensions, and sizes above 63 bits */
	return rung__array_measure(array, &bytes);
}

/* Exactly RUNG__CHECKSUM_DIGITS lower-case digits, as they are written: strtoull() accepts more. */
static bool parse_hex(const char *text, uint64_t *value_out)
{
	static const char digits[] = "0123456789abcdef";
	uint64_t value = 0;

	for (int i = 0; i < RUNG__CHECKSUM_DIGITS; i++) {
		/* strchr() would find the NUL */
		const char *digit = text[i] ? strchr(digits, text[i]) : NULL;

		if (!digit)
			return false;
		value = value << 4 | (uint64_t)(digit - digits);
	}
	*value_out = value;
	return text[RUNG__CHECKSUM_DIGITS] == '\0';
}

bool rung__field_sums(const json_t *list, uint64_t count, uint64_t *sums_out)
{
	if (!json_is_array(list) || json_array_size(list) != count)
		return false;
	for (uint64_t i = 0; i < count; i++) {
		const char *hex = json_string_value(json_array_get(list, i));

		if (!hex || !parse_hex(hex, &sums_out[i]))
			return false;
	}
	return true;
}

bool rung__split_name_ok(const char *name)
{
	/* no dot and no slash: the name cannot lead out of the folder */
	size_t len =
		strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");

	return len > 0 && len < RUNG__SPLIT_NAME_BYTES && name[len] == '\0';
}

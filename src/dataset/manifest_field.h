/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Fields of a manifest's JSON objects. The text is untrusted: each function checks the type and the
 * range of a field, and returns false if the field is missing or does not pass. A NULL object has
 * no fields. Private to rung.
 */
#ifndef RUNG_DATASET_MANIFEST_FIELD_H
#define RUNG_DATASET_MANIFEST_FIELD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rung/dtype.h"

/** An integer from 0 to `max`. */
bool rung__field_u64(const json_t *object, const char *key, uint64_t max, uint64_t *value_out);

/** The field is an integer, and equals `wanted`. */
bool rung__field_has_u64(const json_t *object, const char *key, uint64_t wanted);

/** An integer, or 0 if the field is null or missing: older datasets lack fields that were added
 * later. */
bool rung__field_count_or_null(const json_t *object, const char *key, uint64_t *value_out);

/** A number, or 0 if the field is null. */
bool rung__field_real(const json_t *object, const char *key, double *value_out);

/** The value is text without control characters or NUL, because it is printed on terminals. */
bool rung__field_is_text(const json_t *value);

/** The field is such a text, and is copied to text[text_bytes] with its NUL. */
bool rung__field_text(const json_t *object, const char *key, char *text, size_t text_bytes);

/** The field is text, and equals `wanted`. */
bool rung__field_has_text(const json_t *object, const char *key, const char *wanted);

/** The fields "dtype" and "shape" of an object, and the row size that follows from them. */
bool rung__field_array(const json_t *object, struct rung_array_info *array);

/** A list of exactly `count` checksums. @param sums_out [count] */
bool rung__field_sums(const json_t *list, uint64_t count, uint64_t *sums_out);

#endif

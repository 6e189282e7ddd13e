/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the JSON of a description of a data set. Texts of the file are shown in messages without
 * control characters, because messages are printed on terminals, and not longer than a line.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "dataset/manifest.h"
#include "dataset/manifest_field.h"
#include "file/file.h"
#include "preset/description_json.h"

#define SHOWN_BYTES   72u  /* of a text of the file in a message, with its NUL */
#define MESSAGE_BYTES 600u /* of a message after the key; a longer list of keys is cut off */

/* Copy a text of the file for a message. A longer text is cut off between two characters. */
static const char *shown(char copy[SHOWN_BYTES], const char *text)
{
	size_t bytes = strlen(text);

	if (bytes >= SHOWN_BYTES) {
		bytes = SHOWN_BYTES - sizeof("...");
		while (bytes > 0 && ((unsigned char)text[bytes] & 0xc0) == 0x80)
			bytes--;
	}
	for (size_t i = 0; i < bytes; i++)
		copy[i] = (unsigned char)text[i] < ' ' || text[i] == 0x7f ? '?' : text[i];
	strcpy(copy + bytes, text[bytes] ? "..." : "");
	return copy;
}

int rung__described_refuse(const struct rung__described *object, const char *key,
                           const char *format, ...)
{
	char name[SHOWN_BYTES], text[MESSAGE_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return rung__fail(RUNG_E_FORMAT, "%s: %s%s: %s", object->file, object->prefix,
	                  shown(name, key), text);
}

/* ---- the file ---- */

static int read_text(int fd, const char *file, uint64_t bytes_max, char **text_out,
                     size_t *bytes_out)
{
	struct stat st;
	char *text;
	int rc;

	if (fstat(fd, &st) < 0)
		return rung__fail_errno(errno, "%s", file);
	if ((uint64_t)st.st_size > bytes_max)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: has %jd bytes; a description has at most %" PRIu64
		                  "; give a dataset.json, which names the files of the arrays",
		                  file, (intmax_t)st.st_size, bytes_max);
	text = rung__malloc((size_t)st.st_size);
	if (!text)
		return rung__fail(RUNG_E_NOMEM, "%s: no memory for %jd bytes", file,
		                  (intmax_t)st.st_size);
	rc = rung__pread_all(fd, file, text, (uint64_t)st.st_size, 0);
	if (rc < 0) {
		rung__free(text);
		return rc;
	}
	*text_out = text;
	*bytes_out = (size_t)st.st_size;
	return 0;
}

/* Repeated keys are refused, because readers would differ in which of them they use. */
static int parse(const char *file, const char *text, size_t bytes, json_t **root_out)
{
	char why[SHOWN_BYTES];
	json_error_t error;
	json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);

	if (!root && json_error_code(&error) == json_error_out_of_memory)
		return rung__fail(RUNG_E_NOMEM, "%s: no memory for its JSON", file);
	if (!root)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: line %d, column %d: %s; correct the JSON there", file,
		                  error.line, error.column, shown(why, error.text));
	if (!json_is_object(root)) {
		json_decref(root);
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: is a list; a description is one JSON object; correct the "
		                  "file, or give another one",
		                  file);
	}
	*root_out = root;
	return 0;
}

int rung__described_read(const char *file, uint64_t bytes_max, json_t **root_out)
{
	char *text = NULL;
	size_t bytes = 0;
	int fd = rung__open_regular(AT_FDCWD, file, file, 0), rc;

	if (fd < 0)
		return fd;
	rc = read_text(fd, file, bytes_max, &text, &bytes);
	close(fd);
	if (rc == 0)
		rc = parse(file, text, bytes, root_out);
	rung__free(text);
	return rc;
}

/* ---- fields ---- */

static const char *kind_of(const json_t *value)
{
	switch (json_typeof(value)) {
	case JSON_OBJECT:
		return "an object";
	case JSON_ARRAY:
		return "a list";
	case JSON_STRING:
		return "a text";
	case JSON_INTEGER:
		return "a number";
	case JSON_REAL:
		return "a number with a fraction or exponent";
	case JSON_NULL:
		return "null";
	default:
		return "true or false";
	}
}

/* Fail because a value is absent (NULL) or has another type. */
static int fail_kind(const struct rung__described *object, const char *key, const json_t *value,
                     const char *wanted)
{
	if (!value)
		return rung__described_refuse(object, key, "is missing; give %s", wanted);
	return rung__described_refuse(object, key, "is %s; give %s", kind_of(value), wanted);
}

int rung__described_keys(const struct rung__described *object, const char *const *known)
{
	char list[MESSAGE_BYTES / 2] = "", unknown[SHOWN_BYTES];
	const json_t *value;
	const char *key;
	size_t i, used = 0;

	/* the iteration does not change the object; jansson's macro has no const version */
	json_object_foreach((json_t *)(uintptr_t)object->json, key, value)
	{
		for (i = 0; known[i] && strcmp(known[i], key) != 0; i++)
			;
		if (known[i])
			continue;
		for (i = 0; known[i] && used < sizeof(list); i++)
			used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s",
			                         i ? ", " : "", known[i]);
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: %s%s: unknown key; use one of %s, or move it into \"about\"",
		                  object->file, object->prefix, shown(unknown, key), list);
	}
	return 0;
}

int rung__described_text(const struct rung__described *object, const char *key, bool needed,
                         const char *wanted, const char **value_out)
{
	const json_t *value = json_object_get(object->json, key);

	if (!value && !needed)
		return 0;
	if (!json_is_string(value))
		return fail_kind(object, key, value, wanted);
	if (!rung__field_is_text(value))
		return rung__described_refuse(object, key, "has control characters; give %s",
		                              wanted);
	*value_out = json_string_value(value);
	return 0;
}

int rung__described_check_name(const struct rung__described *object, const char *key,
                               const char *name)
{
	char value[SHOWN_BYTES];

	if (rung__split_name_ok(name))
		return 0;
	return rung__described_refuse(object, key,
	                              "'%s' is not a valid name; use 1 to %u letters, digits, "
	                              "'_' and '-'",
	                              shown(value, name), RUNG__SPLIT_NAME_BYTES - 1);
}

int rung__described_name(const struct rung__described *object, const char *key,
                         const char **value_out)
{
	const char *name = NULL;
	int rc = rung__described_text(object, key, true, "a name such as \"paper\"", &name);

	if (rc == 0)
		rc = rung__described_check_name(object, key, name);
	if (rc == 0)
		*value_out = name;
	return rc;
}

int rung__described_number(const struct rung__described *object, const char *key,
                           const json_t *value, unsigned least, uint64_t most, uint64_t *value_out)
{
	json_int_t number;

	if (!json_is_integer(value))
		return fail_kind(object, key, value, "a whole number");
	number = json_integer_value(value);
	if (number < (json_int_t)least || (uint64_t)number > most)
		return rung__described_refuse(object, key,
		                              "is %" JSON_INTEGER_FORMAT
		                              "; give a whole number from %u to %" PRIu64,
		                              number, least, most);
	*value_out = (uint64_t)number;
	return 0;
}

int rung__described_count(const struct rung__described *object, const char *key, bool needed,
                          unsigned least, uint64_t most, uint64_t *value_out)
{
	const json_t *value = json_object_get(object->json, key);

	if (!value && !needed)
		return 0;
	return rung__described_number(object, key, value, least, most, value_out);
}

int rung__described_flag(const struct rung__described *object, const char *key, int *value_out)
{
	const json_t *value = json_object_get(object->json, key);

	if (value && !json_is_boolean(value))
		return fail_kind(object, key, value, "true or false");
	*value_out = json_is_true(value);
	return 0;
}

int rung__described_list(const struct rung__described *object, const char *key, bool needed,
                         const char *wanted, const json_t **value_out)
{
	const json_t *value = json_object_get(object->json, key);

	if ((value || needed) && !json_is_array(value))
		return fail_kind(object, key, value, wanted);
	*value_out = value;
	return 0;
}

int rung__described_object(const struct rung__described *object, const char *key,
                           const char *prefix, struct rung__described *value_out)
{
	const json_t *value = json_object_get(object->json, key);

	if (value && !json_is_object(value))
		return fail_kind(object, key, value, "an object");
	*value_out = (struct rung__described){ object->file, prefix, value };
	return 0;
}

int rung__described_objects(const struct rung__described *object, const char *key, size_t most,
                            const json_t **list_out)
{
	const json_t *list = NULL;
	int rc = rung__described_list(object, key, true, "a list of objects", &list);

	if (rc < 0)
		return rc;
	if (json_array_size(list) < 1 || json_array_size(list) > most)
		return rung__described_refuse(object, key, "has %zu entries; give 1 to %zu objects",
		                              json_array_size(list), most);
	for (size_t i = 0; i < json_array_size(list); i++) {
		if (!json_is_object(json_array_get(list, i)))
			return rung__described_refuse(object, key,
			                              "entry %zu is %s; give a list of objects", i,
			                              kind_of(json_array_get(list, i)));
	}
	*list_out = list;
	return 0;
}

int rung__described_fanouts(const struct rung__described *object, const char *key, unsigned least,
                            uint32_t fanouts[RUNG_HOPS_MAX], uint32_t *count_out)
{
	const json_t *list = NULL;
	uint64_t fanout = 0;
	int rc = rung__described_list(object, key, false, "a list such as [25, 15]", &list);

	if (rc < 0 || !list)
		return rc;
	if (json_array_size(list) < 1 || json_array_size(list) > RUNG_HOPS_MAX)
		return rung__described_refuse(object, key, "has %zu entries; give 1 to %d numbers",
		                              json_array_size(list), RUNG_HOPS_MAX);
	for (uint32_t i = 0; i < json_array_size(list); i++) {
		rc = rung__described_number(object, key, json_array_get(list, i), least, UINT32_MAX,
		                            &fanout);
		if (rc < 0)
			return rc;
		fanouts[i] = (uint32_t)fanout;
	}
	*count_out = (uint32_t)json_array_size(list);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Fields of the JSON objects in a description of a data set. The text is untrusted: each function
 * checks the type and the range of a field, and its message names the file, the key, the value and
 * what is accepted. Private to io/preset.
 */
#ifndef RUNG_IO_PRESET_DESCRIPTION_JSON_H
#define RUNG_IO_PRESET_DESCRIPTION_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "rung/sampler.h"

/** An object of a description, and its position in the file, for messages. */
struct rung__described {
	const char *file;   /* path of the description */
	const char *prefix; /* precedes a key: "" in the outermost object, "vertex_types[0]." */
	const json_t *json;
};

/** Read a file of at most `bytes_max` bytes as one JSON object. @param root_out  release it with
 * json_decref(). @return 0, RUNG_E_FORMAT, RUNG_E_NOMEM, or the status of errno */
int rung__described_read(const char *file, uint64_t bytes_max, json_t **root_out);

/** Fail because of the value of a key. The format continues the message after the key.
 * @return RUNG_E_FORMAT */
int rung__described_refuse(const struct rung__described *object, const char *key,
                           const char *format, ...) __attribute__((format(printf, 3, 4)));

/** Refuse keys that are not in the list, which ends with NULL. */
int rung__described_keys(const struct rung__described *object, const char *const *known);

/* In the functions below `wanted` describes an accepted value in messages. A key that is absent is
 * refused if `needed` is set; otherwise the result is 0 and *value_out is unchanged. */

/** A text without control characters, which the JSON owns. */
int rung__described_text(const struct rung__described *object, const char *key, bool needed,
                         const char *wanted, const char **value_out);

/** A text that may be the name of a split, an array, a vertex type or a relation. */
int rung__described_name(const struct rung__described *object, const char *key,
                         const char **value_out);

/** Check a name that is given as a key or as a text. */
int rung__described_check_name(const struct rung__described *object, const char *key,
                               const char *name);

/** A whole number from `least` to `most`. */
int rung__described_count(const struct rung__described *object, const char *key, bool needed,
                          unsigned least, uint64_t most, uint64_t *value_out);

/** As before, for a value that is not a field but an entry of the list `key`. */
int rung__described_number(const struct rung__described *object, const char *key,
                           const json_t *value, unsigned least, uint64_t most, uint64_t *value_out);

/** true or false. */
int rung__described_flag(const struct rung__described *object, const char *key, int *value_out);

/** A list. @param value_out  NULL if it is absent */
int rung__described_list(const struct rung__described *object, const char *key, bool needed,
                         const char *wanted, const json_t **value_out);

/** An object. @param prefix  that of its keys. @param value_out  its `json` is NULL if it is absent
 */
int rung__described_object(const struct rung__described *object, const char *key,
                           const char *prefix, struct rung__described *value_out);

/** A list of 1 to `most` objects. */
int rung__described_objects(const struct rung__described *object, const char *key, size_t most,
                            const json_t **list_out);

/** A list with the fanout of each hop. @param least  0 or 1. @param count_out  0 if it is absent */
int rung__described_fanouts(const struct rung__described *object, const char *key, unsigned least,
                            uint32_t fanouts[RUNG_HOPS_MAX], uint32_t *count_out);

#endif

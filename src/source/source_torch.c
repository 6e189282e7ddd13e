/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays in dicts that torch.save() wrote: a zip file, in which the member NAME/data.pkl is the
 * pickled dict. The pickle is loaded into memory, and one of its arrays is decoded.
 */
#include <string.h>

#include "file/file.h"
#include "base/base.h"
#include "source/pickle.h"
#include "source/state.h"

#define LIST_BYTES 512u /* bytes of the list of keys in a message */

/* torch before 1.6 wrote a bare pickle, which gets its own message. For a file of fewer than 4
 * bytes the magic stays zero, so it fails in the same way. */
static int check_zip(const struct rung_source *src, uint64_t file_bytes)
{
	unsigned char magic[4] = { 0 };
	int rc = file_bytes < sizeof(magic)
	                 ? 0
	                 : rung__pread_all(src->fd, src->path, magic, sizeof(magic), 0);

	if (rc == 0 && memcmp(magic, "PK\3\4", sizeof(magic)) != 0)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: not a zip file, the format of torch.save() since torch 1.6; "
		                  "load it with torch and save it again",
		                  src->path);
	return rc;
}

/* Load the pickle into src->data and parse it. The dict points into src->data. */
static int read_dict(struct rung_source *src, uint64_t file_bytes, struct rung__pickle_dict *dict)
{
	int rc = check_zip(src, file_bytes);

	if (rc == 0)
		rc = rung__source_load_ending(src, "/data.pkl", file_bytes);
	return rc < 0 ? rc : rung__pickle_read(src->path, src->data, src->data_bytes, dict);
}

/* Fail because no array has the key, or no key is given, and list the existing keys. */
static int no_key(const struct rung_source *src, const struct rung__pickle_dict *dict,
                  const char *key)
{
	char list[LIST_BYTES] = "none";
	size_t used = 0;

	/* the loop ends while the longest key, a separator and the NUL still fit */
	for (uint32_t i = 0; i < dict->count && used + RUNG__PICKLE_KEY_BYTES + 8 < LIST_BYTES;
	     i++) {
		const char *separator = used ? ", " : "";

		memcpy(list + used, separator, strlen(separator) + 1);
		used += strlen(separator);
		memcpy(list + used, dict->items[i].key, strlen(dict->items[i].key) + 1);
		used += strlen(dict->items[i].key);
	}
	if (!key)
		return rung__fail(
			RUNG_E_INVAL,
			"%s: names no array of the dict; write it as file.pt:KEY; its arrays: %s",
			src->spec, list);
	return rung__fail(RUNG_E_NOENT, "%s: has no array '%s'; it has: %s", src->path, key, list);
}

/* Replace src->data, the pickle, by the decoded array. */
static int open_array(struct rung_source *src, const struct rung__pickle_item *item)
{
	const uint64_t item_bytes = rung_dtype_bytes(item->dtype);
	unsigned char *data;
	int rc;

	/* each byte of the array is one byte of the text, or two: this bounds the memory before it
	 * is allocated */
	if (item->count > item->text_bytes / item_bytes)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: array '%s' claims %" PRIu64
		                  " entries, which do not fit in its %" PRIu64
		                  " bytes; copy the file again",
		                  src->path, item->key, item->count, item->text_bytes);
	data = rung__malloc_array(item->count, (size_t)item_bytes);
	if (!data)
		return rung__fail(RUNG_E_NOMEM, "%s: no memory for %" PRIu64 " entries", src->spec,
		                  item->count);
	rc = rung__pickle_array(src->path, item, data);
	if (rc < 0) {
		rung__free(data);
		return rc;
	}
	rung__free(src->data); /* freed only now, because item->text points into it */
	src->data = data;
	src->data_bytes = item->count * item_bytes;
	src->info = (struct rung_array_info){ .dtype = item->dtype,
		                              .dim_count = 1,
		                              .dims = { item->count },
		                              .row_count = item->count,
		                              .row_bytes = item_bytes };
	return 0;
}

int rung__source_open_torch(struct rung_source *src, const char *key, uint64_t file_bytes)
{
	struct rung__pickle_dict *dict = rung__malloc(sizeof(*dict));
	int rc;

	if (!dict)
		return rung__fail(RUNG_E_NOMEM, "%s: no memory to read it", src->spec);
	rc = read_dict(src, file_bytes, dict);
	if (rc == 0) {
		uint32_t i = 0;

		/* an entry that is a number cannot be opened as an array; OGB's preset reads such
		 * entries */
		while (key && i < dict->count &&
		       (strcmp(dict->items[i].key, key) != 0 || !dict->items[i].is_array))
			i++;
		rc = key && i < dict->count ? open_array(src, &dict->items[i])
		                            : no_key(src, dict, key);
	}
	rung__free(dict);
	return rc;
}

int rung__torch_read(const char *path, struct rung__pickle_dict *dict_out)
{
	struct rung_source *src = rung__zalloc(sizeof(*src));
	uint64_t bytes;
	int rc = RUNG_E_NOMEM;

	if (src) {
		src->fd = -1;
		src->spec = rung__strdup(path);
	}
	if (src && src->spec)
		rc = rung__source_open_file(src, path, strlen(path), &bytes);
	else
		rung__fail(rc, "%s", path);
	if (rc == 0)
		rc = read_dict(src, bytes, dict_out);
	for (uint32_t i = 0; rc == 0 && i < dict_out->count; i++)
		/* the text points into the source, which is closed */
		dict_out->items[i].text = NULL;
	rung_source_close(src);
	return rc;
}

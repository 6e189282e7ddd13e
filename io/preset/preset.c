/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that all presets share: texts that live as long as the preset, files that must exist,
 * and arrays with or without a .npy header.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file/file.h"
#include "base/base.h"
#include "preset/state.h"

#define LIST_BYTES 700u /* size of the list of paths in a message; a longer list is cut off */

/* Own a block of memory. @return the block; NULL, and the block is freed, without memory */
static void *keep(struct rung__preset *p, void *block)
{
	if (block && p->kept_count == p->kept_room) {
		const size_t room = p->kept_room ? 2 * p->kept_room : 64;
		void **kept = rung__realloc_array(p->kept, room, sizeof(*kept));

		if (!kept) {
			rung__free(block);
			block = NULL;
		} else {
			p->kept = kept;
			p->kept_room = room;
		}
	}
	if (block)
		p->kept[p->kept_count++] = block;
	else
		rung__fail(RUNG_E_NOMEM, "%s: no memory for the names of its files", p->root);
	return block;
}

const char *rung__preset_text(struct rung__preset *p, const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	text = rung__vformat(format, args);
	va_end(args);
	return keep(p, text);
}

void *rung__preset_list(struct rung__preset *p, size_t count, size_t item_bytes)
{
	return keep(p, rung__zalloc_array(count, item_bytes));
}

int rung__preset_add_graph(struct rung__preset *p, const char *spec)
{
	if (!spec)
		return RUNG_E_NOMEM;
	/* in bounds: a data set that is not typed has one edge list */
	p->graphs[p->derived.graph_count++] = spec;
	return 0;
}

int rung__preset_add_split(struct rung__preset *p, const char *name, const char *spec)
{
	if (!name || !spec)
		return RUNG_E_NOMEM;
	/* in bounds: a dict has at most RUNG__PICKLE_ITEMS_MAX entries, of which one becomes
	 * three */
	p->splits[p->derived.split_count++] =
		(struct rung_stage_split){ .name = name, .spec = spec };
	return 0;
}

int rung__preset_add_array(struct rung__preset *p, const char *name, const char *spec)
{
	if (!name || !spec)
		return RUNG_E_NOMEM;
	/* in bounds: a data set has one array */
	p->arrays[p->derived.array_count++] =
		(struct rung_stage_array){ .name = name, .spec = spec };
	return 0;
}

bool rung__preset_exists(const char *path, uint64_t *bytes_out)
{
	struct stat st;

	if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	*bytes_out = (uint64_t)st.st_size;
	return true;
}

int rung__preset_find(struct rung__preset *p, const char *const *inside, const char *file)
{
	char list[LIST_BYTES] = ""; /* the paths that were tried */
	uint64_t bytes;

	for (size_t used = 0; *inside; inside++) {
		const char *slash = **inside ? "/" : "";
		const char *path = rung__preset_text(p, "%s%s%s/%s", p->root, slash, *inside, file);

		if (!path)
			return RUNG_E_NOMEM;
		if (rung__preset_exists(path, &bytes)) {
			p->dir = rung__preset_text(p, "%s%s%s", p->root, slash, *inside);
			return p->dir ? 0 : RUNG_E_NOMEM;
		}
		if (used < LIST_BYTES)
			used += (size_t)snprintf(list + used, LIST_BYTES - used, "%s%s",
			                         used ? ", " : "", path);
	}
	return rung__fail(
		RUNG_E_NOENT,
		"%s: not a folder of %s: %s is missing; give the folder with the unpacked "
		"data set, or unpack it again",
		p->root, p->option, list);
}

int rung__preset_file(struct rung__preset *p, const char *name, const char *why,
                      const char **path_out)
{
	const char *path = rung__preset_text(p, "%s/%s", p->dir, name);
	uint64_t bytes;

	if (!path)
		return RUNG_E_NOMEM;
	if (!rung__preset_exists(path, &bytes))
		return rung__fail(RUNG_E_NOENT,
		                  "%s: is missing (%s of %s); unpack the data set again, or give "
		                  "this file with its option",
		                  path, why, p->option);
	*path_out = path;
	return 0;
}

/* Whether a file has the magic bytes of a .npy. The name does not show it: some data sets use .npy
 * for files without a header. O_NONBLOCK: opening a FIFO must not wait for a writer. */
static int is_npy(const char *path, bool *npy_out)
{
	unsigned char magic[6] = { 0 }; /* a shorter file is not a .npy */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc = 0;
	struct stat st;

	if (fd < 0)
		return rung__fail_errno(errno, "%s: cannot be opened", path);
	if (fstat(fd, &st) < 0)
		rc = rung__fail_errno(errno, "%s", path);
	else if (st.st_size >= (off_t)sizeof(magic))
		rc = rung__pread_all(fd, path, magic, sizeof(magic), 0);
	close(fd);
	*npy_out = memcmp(magic, "\x93NUMPY", sizeof(magic)) == 0;
	return rc;
}

/* The number of rows in the header of a .npy. */
static int npy_rows(const char *path, uint64_t *rows_out)
{
	struct rung_source *src;
	int rc = rung_source_open(path, &src);

	if (rc < 0)
		return rc;
	*rows_out = rung_source_info(src)->row_count;
	rung_source_close(src);
	return 0;
}

int rung__preset_npy_or_raw(struct rung__preset *p, const char *path, enum rung_dtype dtype,
                            uint64_t row_items, const char **spec_out, uint64_t *rows_out)
{
	const uint64_t row_bytes = row_items * rung_dtype_bytes(dtype);
	uint64_t bytes = 0;
	bool npy = false;
	int rc = is_npy(path, &npy);

	*spec_out = path;
	if (rc < 0 || npy)
		return rc < 0 ? rc : npy_rows(path, rows_out);
	rung__preset_exists(path, &bytes); /* otherwise `bytes` stays 0, which is an error */
	if (bytes == 0 || bytes % row_bytes)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: has no .npy header, and its %" PRIu64
		                  " bytes are not a whole number of rows of %" PRIu64
		                  " bytes (%" PRIu64 " values of %s); copy it again",
		                  path, bytes, row_bytes, row_items, rung_dtype_name(dtype));
	*rows_out = bytes / row_bytes;
	/* one item per row: described with one dimension, as labels need */
	if (row_items == 1)
		*spec_out = rung__preset_text(p, "raw:%s,%s,%" PRIu64, path, rung_dtype_name(dtype),
		                              *rows_out);
	else
		*spec_out = rung__preset_text(p, "raw:%s,%s,%" PRIu64 "x%" PRIu64, path,
		                              rung_dtype_name(dtype), *rows_out, row_items);
	return *spec_out ? 0 : RUNG_E_NOMEM;
}

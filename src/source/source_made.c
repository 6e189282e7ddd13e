/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members of zip files that only libzip can read: inflated when they are opened, into memory while
 * they are small, else into a temporary file, which is then read as any other.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file/file.h"
#include "base/base.h"
#include "source/source_made.h"

#define BUFFER_BYTES (4u << 20)

uint64_t rung__made_memory_max = UINT64_C(256) << 20;

static int begin_file(struct rung__made *made)
{
	const char *dir = getenv("TMPDIR") ? getenv("TMPDIR") : "/var/tmp";
	int rc;

	made->path = rung__format("%s: its copy in %s", made->src->spec, dir);
	made->buffer = rung__malloc_aligned(RUNG__PAGE_BYTES, BUFFER_BYTES);
	if (!made->path || !made->buffer)
		return rung__fail(RUNG_E_NOMEM, "%s: a buffer of %u bytes", made->src->spec,
		                  BUFFER_BYTES);
	rc = rung__space_check(dir, made->bytes);
	if (rc < 0)
		return rung__fail(
			rc,
			"%s: its %" PRIu64
			" bytes go into a temporary file: %s; set TMPDIR to a folder with room",
			made->src->spec, made->bytes, rung_last_error());
	return rung__direct_temp(&made->file, dir, made->path, made->bytes);
}

int rung__made_begin(struct rung__made *made, struct rung_source *src, uint64_t bytes)
{
	*made = (struct rung__made){ .src = src, .bytes = bytes, .file = { .fd = -1 } };
	made->in_file = bytes > rung__made_memory_max;
	if (made->in_file)
		return begin_file(made);
	src->data = rung__malloc_array(bytes, 1);
	if (!src->data)
		return rung__fail(RUNG_E_NOMEM, "%s: %" PRIu64 " bytes to hold it", src->spec,
		                  bytes);
	src->data_bytes = bytes;
	return 0;
}

unsigned char *rung__made_room(struct rung__made *made, uint64_t *bytes_out)
{
	const uint64_t left = made->bytes - made->done;

	*bytes_out = made->in_file ? RUNG__MIN(left, BUFFER_BYTES - made->used) : left;
	return made->in_file ? made->buffer + made->used : made->src->data + made->done;
}

static int flush(struct rung__made *made)
{
	const uint64_t bytes = rung__align_up(made->used, RUNG__PAGE_BYTES);
	int rc;

	memset(made->buffer + made->used, 0, (size_t)(bytes - made->used));
	rc = bytes ? rung__direct_write(&made->file, made->buffer, bytes, made->done - made->used)
	           : 0;
	made->used = 0;
	return rc;
}

int rung__made_take(struct rung__made *made, uint64_t bytes)
{
	made->done += bytes;
	if (!made->in_file)
		return 0;
	made->used += bytes;
	return made->used == BUFFER_BYTES || made->done == made->bytes ? flush(made) : 0;
}

int rung__made_end(struct rung__made *made)
{
	struct rung_source *src = made->src;
	int fd;

	if (!made->in_file)
		return 0;
	fd = rung__reopen(made->file.fd, 0);
	if (fd < 0)
		return rung__fail_errno(errno, "%s", made->path);
	if (src->fd >= 0)
		close(src->fd);
	src->fd = fd;
	rung__free(src->path);
	src->path = made->path;
	made->path = NULL;
	return 0;
}

void rung__made_fini(struct rung__made *made)
{
	rung__direct_close(&made->file);
	rung__free(made->buffer);
	rung__free(made->path);
}

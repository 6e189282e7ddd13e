/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members of zip files that are inflated as a whole when the source is opened. These are members of
 * at most 1 MiB, and those whose compression is not deflate. A member of at most 256 MiB is stored
 * in memory, a larger one in a temporary file, which is then read like any other file. That file is
 * written past the page cache, because it can be larger than memory.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file/file.h"
#include "base/base.h"
#include "source/source_generated.h"

#define BUFFER_BYTES (4u << 20) /* bytes of one write */

uint64_t rung__generated_memory_max = UINT64_C(256) << 20;

static int begin_file(struct rung__generated *generated)
{
	const char *dir = getenv("TMPDIR") ? getenv("TMPDIR") : "/var/tmp";
	int rc;

	/* a description for messages, because the file has no name */
	generated->path = rung__format("%s: its copy in %s", generated->src->spec, dir);
	generated->buffer = rung__malloc_aligned(RUNG__PAGE_BYTES, BUFFER_BYTES);
	if (!generated->path || !generated->buffer)
		return rung__fail(RUNG_E_NOMEM, "%s: no memory for a buffer of %u bytes",
		                  generated->src->spec, BUFFER_BYTES);
	/* checked before the member is inflated, because inflating can take long */
	rc = rung__space_check(dir, generated->bytes);
	if (rc < 0)
		return rung__fail(rc,
		                  "%s: its %" PRIu64 " bytes do not fit in a temporary file: %s; "
		                  "set TMPDIR to a folder with room",
		                  generated->src->spec, generated->bytes, rung_last_error());
	return rung__direct_temp(&generated->file, dir, generated->path, generated->bytes);
}

int rung__generated_begin(struct rung__generated *generated, struct rung_source *src,
                          uint64_t bytes)
{
	*generated = (struct rung__generated){ .src = src, .bytes = bytes, .file = { .fd = -1 } };
	generated->in_file = bytes > rung__generated_memory_max;
	if (generated->in_file)
		return begin_file(generated);
	src->data = rung__malloc_array(bytes, 1);
	if (!src->data)
		return rung__fail(RUNG_E_NOMEM, "%s: no memory for its %" PRIu64 " bytes",
		                  src->spec, bytes);
	src->data_bytes = bytes;
	return 0;
}

unsigned char *rung__generated_buffer(struct rung__generated *generated, uint64_t *bytes_out)
{
	const uint64_t left = generated->bytes - generated->done;

	*bytes_out = generated->in_file ? RUNG__MIN(left, BUFFER_BYTES - generated->used) : left;
	return generated->in_file ? generated->buffer + generated->used
	                          : generated->src->data + generated->done;
}

/* Write the buffer. Direct writes need whole pages: zeros follow the last byte of the member, and
 * readers know its length. */
static int flush(struct rung__generated *generated)
{
	const uint64_t bytes = rung__align_up(generated->used, RUNG__PAGE_BYTES);
	int rc;

	memset(generated->buffer + generated->used, 0, (size_t)(bytes - generated->used));
	rc = bytes ? rung__direct_write(&generated->file, generated->buffer, bytes,
	                                generated->done - generated->used)
	           : 0;
	generated->used = 0;
	return rc;
}

int rung__generated_add(struct rung__generated *generated, uint64_t bytes)
{
	generated->done += bytes;
	if (!generated->in_file)
		return 0;
	generated->used += bytes;
	return generated->used == BUFFER_BYTES || generated->done == generated->bytes
	               ? flush(generated)
	               : 0;
}

int rung__generated_end(struct rung__generated *generated)
{
	struct rung_source *src = generated->src;
	int fd;

	if (!generated->in_file)
		return 0;
	/* a descriptor for reading, without O_DIRECT; it keeps the nameless file alive */
	fd = rung__reopen(generated->file.fd, 0);
	if (fd < 0)
		return rung__fail_errno(errno, "%s", generated->path);
	if (src->fd >= 0)
		close(src->fd);
	src->fd = fd;
	rung__free(src->path);
	src->path = generated->path; /* the source owns the path now */
	generated->path = NULL;
	return 0;
}

void rung__generated_fini(struct rung__generated *generated)
{
	rung__direct_close(&generated->file);
	rung__free(generated->buffer);
	rung__free(generated->path);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that all formats of sources share: opening their file, reading, closing. Files are read
 * by pread() and never mapped: a file that shrinks then causes an error, not a SIGBUS.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file/file.h"
#include "base/base.h"
#include "source/source.h"
#include "source/state.h"

int rung__source_open_file(struct rung_source *src, const char *path, size_t path_len,
                           uint64_t *bytes_out)
{
	struct stat st;

	src->path = rung__format("%.*s", (int)path_len, path);
	if (!src->path)
		return rung__fail(RUNG_E_NOMEM, "source '%s'", src->spec);
	/* O_NONBLOCK: opening a FIFO would otherwise wait for its writer */
	src->fd = open(src->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (src->fd < 0) {
		const int rc = rung__fail_errno(errno, "%s: cannot be opened", src->path);

		return rc == RUNG_E_NOENT
		               ? rung__fail(rc, "%s; correct its name", rung_last_error())
		               : rc;
	}
	if (fstat(src->fd, &st) < 0)
		return rung__fail_errno(errno, "%s", src->path);
	/* only a regular file has a size with which headers can be compared */
	if (!S_ISREG(st.st_mode))
		return rung__fail(
			RUNG_E_INVAL,
			"%s: not a regular file; copy the data into a file, and give that file",
			src->path);
	*bytes_out = (uint64_t)st.st_size;
	return 0;
}

bool rung__parse_number(const char **at, char stop, uint64_t *value_out)
{
	const char *p = *at;
	uint64_t value = 0;

	if (*p < '0' || *p > '9')
		return false;
	for (; *p >= '0' && *p <= '9'; p++) {
		if (!rung__mul(value, 10, &value) ||
		    !rung__add(value, (uint64_t)(*p - '0'), &value))
			return false;
	}
	/* trailing text is an error, never ignored */
	if (*p != stop && *p != '\0')
		return false;
	*at = p;
	*value_out = value;
	return true;
}

const struct rung_array_info *rung_source_info(const struct rung_source *src)
{
	return &src->info;
}

const char *rung__source_spec(const struct rung_source *src)
{
	return src->spec;
}

struct rung__source_location rung__source_location(const struct rung_source *src)
{
	return (struct rung__source_location){
		.data = src->data ? src->data + src->data_offset : NULL,
		.streamed = src->stream != NULL,
		.any_order = src->any_order,
		.fd = src->fd,
		.path = src->path,
		.offset = src->data_offset,
		.memory_bytes =
			src->data_bytes + (src->stream ? src->stream_ops->memory(src->stream) : 0)
	};
}

int rung__source_read_bytes(const struct rung_source *src, uint64_t byte_first, uint64_t byte_count,
                            void *buf)
{
	/* does not overflow: it was compared with the file when the source was opened */
	const uint64_t bytes = src->info.row_count * src->info.row_bytes;
	int rc;

	if (byte_first > bytes || byte_count > bytes - byte_first)
		return rung__fail(RUNG_E_INVAL,
		                  "%s: %" PRIu64 " bytes from byte %" PRIu64
		                  " on are out of range; the array has %" PRIu64 " bytes",
		                  src->spec, byte_count, byte_first, bytes);
	/* streams can rely on at least one byte, and on rows that are not empty */
	if (byte_count == 0)
		return 0;
	/* content in memory needs no check, because its CRC was compared when it was inflated */
	if (src->data) {
		memcpy(buf, src->data + src->data_offset + byte_first, (size_t)byte_count);
		return 0;
	}
	if (src->stream)
		return src->stream_ops->read(src->stream, byte_first, byte_count, buf);
	rc = rung__pread_all(src->fd, src->path, buf, byte_count, src->data_offset + byte_first);
	return rc < 0 ? rc : rung__source_was_read(src, byte_first, byte_count, buf);
}

int rung__source_was_read(const struct rung_source *src, uint64_t byte_first, uint64_t byte_count,
                          const void *bytes)
{
	return src->crc ? rung__member_crc_add(src->crc, byte_first, byte_count, bytes) : 0;
}

int rung_source_read(const struct rung_source *src, uint64_t row_first, uint64_t row_count,
                     void *buf)
{
	const struct rung_array_info *info = &src->info;

	/* rows are checked first, so that the products below do not overflow */
	if (row_first > info->row_count || row_count > info->row_count - row_first)
		return rung__fail(RUNG_E_INVAL,
		                  "%s: rows [%" PRIu64 ", %" PRIu64
		                  ") are out of range; the array has %" PRIu64 " rows",
		                  src->spec, row_first, row_first + row_count, info->row_count);
	return rung__source_read_bytes(src, row_first * info->row_bytes,
	                               row_count * info->row_bytes, buf);
}

void rung_source_close(struct rung_source *src)
{
	if (!src)
		return;
	/* closed first, because a stream can use src->fd and src->path until then */
	if (src->stream)
		src->stream_ops->close(src->stream);
	rung__member_crc_close(src->crc);
	if (src->fd >= 0)
		close(src->fd);
	rung__free(src->data);
	rung__free(src->path);
	rung__free(src->spec);
	rung__free(src);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays that rung makes itself: inflated members, ranges, rows with others behind them. In memory while they are small, else in a
 * temporary file, which is then read as any other.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file.h"
#include "internal.h"
#include "npy.h"
#include "source_made.h"

#define BUFFER_BYTES (4u << 20)

uint64_t rung__made_memory_max = UINT64_C(256) << 20;

static int begin_file(struct rung__made *made)
{
	const char *dir = getenv("TMPDIR") ? getenv("TMPDIR") : "/var/tmp";
	int rc;

	made->path = rung__format("%s: its copy in %s", made->src->spec, dir);
	made->buffer = rung__malloc_aligned(RUNG__PAGE_BYTES, BUFFER_BYTES);
	if (!made->path || !made->buffer)
		return rung__fail(RUNG_E_NOMEM, "%s: a buffer of %u bytes", made->src->spec, BUFFER_BYTES);
	rc = rung__space_check(dir, made->bytes);
	if (rc < 0)
		return rung__fail(rc, "%s: its %" PRIu64 " bytes go into a temporary file: %s; set TMPDIR to a folder with room",
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
		return rung__fail(RUNG_E_NOMEM, "%s: %" PRIu64 " bytes to hold it", src->spec, bytes);
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
	rc = bytes ? rung__direct_write(&made->file, made->buffer, bytes, made->done - made->used) : 0;
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

/* ---- ranges and padding ---- */

static int fill_range(struct rung__made *made, uint64_t first)
{
	int rc = 0;

	while (rc == 0 && made->done < made->bytes) {
		uint64_t room_bytes, count, *ids = (uint64_t *)(void *)rung__made_room(made, &room_bytes);

		count = room_bytes / sizeof(*ids);
		for (uint64_t i = 0; i < count; i++)
			ids[i] = first + made->done / sizeof(*ids) + i;
		rc = rung__made_take(made, count * sizeof(*ids));
	}
	return rc;
}

int rung__source_open_range(struct rung_source *src)
{
	const char *at = src->spec + strlen(RUNG__RANGE_PREFIX);
	uint64_t first = 0, end = 0;
	struct rung__made made;
	int rc;

	if (!rung__parse_number(&at, ',', &first) || *at++ != ',' || !rung__parse_number(&at, '\0', &end) || first > end ||
	    end > INT64_MAX / 8)
		return rung__fail(RUNG_E_INVAL, "source '%s': write it as range:FIRST,END, as in range:0,60000 for 0 to 59999", src->spec);
	src->info = (struct rung_array_info){ .dtype = RUNG_I64, .dim_count = 1, .dims = { end - first },
					      .row_count = end - first, .row_bytes = 8 };
	rc = rung__made_begin(&made, src, (end - first) * 8);
	if (rc == 0)
		rc = fill_range(&made, first);
	if (rc == 0)
		rc = rung__made_end(&made);
	rung__made_fini(&made);
	return rc;
}

/* Every bit set is -1 in all signed types, and NaN in all floating ones. */
static int fill_padded(struct rung__made *made, const struct rung_source *inner)
{
	const uint64_t inner_bytes = inner->info.row_count * inner->info.row_bytes;
	int rc = 0;

	while (rc == 0 && made->done < made->bytes) {
		uint64_t room_bytes;
		unsigned char *room = rung__made_room(made, &room_bytes);

		if (made->done < inner_bytes) {
			room_bytes = RUNG__MIN(room_bytes, inner_bytes - made->done);
			rc = rung_source_read_bytes(inner, made->done, room_bytes, room);
		} else {
			memset(room, 0xff, (size_t)room_bytes);
		}
		if (rc == 0)
			rc = rung__made_take(made, room_bytes);
	}
	return rc;
}

static int check_padded(const struct rung_source *src, const struct rung_source *inner, uint64_t row_count)
{
	const enum rung_dtype dtype = inner->info.dtype;

	if (dtype == RUNG_BOOL || (dtype >= RUNG_U8 && dtype <= RUNG_U64 && (dtype - RUNG_I8) % 2))
		return rung__fail(RUNG_E_FORMAT, "source '%s': rows behind those of %s would be NaN or -1, which %s has not; convert it with "
				  "a.astype('<i8')", src->spec, inner->spec, rung_dtype_name(dtype));
	if (inner->info.row_count > row_count)
		return rung__fail(RUNG_E_FORMAT, "source '%s': %s has %" PRIu64 " rows, more than the %" PRIu64 " there are to be", src->spec,
				  inner->spec, inner->info.row_count, row_count);
	return 0;
}

int rung__source_open_padded(struct rung_source *src)
{
	const char *at = src->spec + strlen(RUNG__PAD_PREFIX);
	struct rung_source *inner;
	struct rung__made made;
	uint64_t row_count, bytes;
	int rc;

	if (!rung__parse_number(&at, ',', &row_count) || *at++ != ',' || !*at || strncmp(at, RUNG__PAD_PREFIX, strlen(RUNG__PAD_PREFIX)) == 0)
		return rung__fail(RUNG_E_INVAL, "source '%s': write it as pad:ROWS,SRC, as in pad:244160499,node_label.npy", src->spec);
	rc = rung_source_open(at, &inner);
	if (rc < 0)
		return rc;
	rc = check_padded(src, inner, row_count);
	if (rc < 0)
		goto close_inner;
	src->info = inner->info;
	src->info.dims[0] = row_count;
	if (!rung__array_measure(&src->info, &bytes)) {
		rc = rung__fail(RUNG_E_INVAL, "source '%s': its rows need more than 63 bits", src->spec);
		goto close_inner;
	}
	rc = rung__made_begin(&made, src, bytes);
	if (rc == 0)
		rc = fill_padded(&made, inner);
	if (rc == 0)
		rc = rung__made_end(&made);
	rung__made_fini(&made);
close_inner:
	rung_source_close(inner);
	return rc;
}

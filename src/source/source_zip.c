/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Zip files through libzip. Large deflated members of .npz files are inflated while they are read,
 * from the first byte to the last, without memory for all of them. Reading at another position
 * starts again from the beginning, so random rows would be inflated many times. Callers that read
 * at random refuse such sources (`streamed` in source.h).
 */
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "base/base.h"
#include "source/source_zip.h"

int rung__zip_failed(const struct rung_source *src, const char *what, zip_error_t *error)
{
	int code = zip_error_code_zip(error);

	if (code == ZIP_ER_MEMORY)
		return rung__fail(RUNG_E_NOMEM, "%s: %s", src->spec, what);
	if (code == ZIP_ER_READ || code == ZIP_ER_SEEK)
		return rung__fail(RUNG_E_IO, "%s: %s: %s", src->spec, what,
		                  zip_error_strerror(error));
	return rung__fail(RUNG_E_FORMAT,
	                  "%s: %s: %s; write it again with numpy.savez(), or copy it again",
	                  src->spec, what, zip_error_strerror(error));
}

int rung__zip_open(const struct rung_source *src, zip_t **zip_out)
{
	int code = 0, rc, fd = dup(src->fd);
	zip_error_t error;

	if (fd < 0)
		return rung__fail_errno(errno, "%s", src->path);
	*zip_out = zip_fdopen(fd, 0, &code);
	if (*zip_out)
		return 0;
	close(fd);
	zip_error_init_with_code(&error, code);
	rc = rung__zip_failed(src, "cannot be read as a .npz (zip) file", &error);
	zip_error_fini(&error);
	return rc;
}

/* A file that was truncated after its directory was read is an I/O error, not damage, because the
 * read can succeed later. */
int rung__zip_inflating_failed(const struct rung_source *src, zip_file_t *file)
{
	zip_error_t *error = zip_file_get_error(file);

	if (zip_error_code_zip(error) == ZIP_ER_EOF)
		return rung__fail(RUNG_E_IO, "%s: cannot be inflated: %s; copy it again", src->spec,
		                  zip_error_strerror(error));
	return rung__zip_failed(src, "cannot be inflated", error);
}

int rung__zip_wrong_length(const struct rung_source *src, const char *how, uint64_t bytes)
{
	return rung__fail(RUNG_E_FORMAT,
	                  "%s: inflates to %s than the %" PRIu64
	                  " bytes its zip entry claims; copy it again",
	                  src->spec, how, bytes);
}

/* ---- members that are inflated as they are read ---- */

/* An edge list [2,E] is read at two positions in turn, the sources and the targets of the edges;
 * the third handle is the one that read the header. */
#define HANDLES    3u
#define SKIP_BYTES 32768u /* a handle skips more bytes than this only if no other handle is free */

/* A position in the inflated member. A read continues where a handle is; another position needs
 * another handle, which starts at byte 0. */
struct handle {
	zip_file_t *file; /* NULL: free */
	uint64_t at;      /* bytes inflated so far */
	/* value of `uses` at the last read; the handle with the smallest value is replaced */
	uint64_t used;
};

struct inflated {
	/* held for a whole read, because a zip_t is not thread-safe */
	pthread_mutex_t lock;
	const struct rung_source *src; /* the source, for messages; it owns this stream */
	zip_t *zip;
	zip_uint64_t idx;     /* index of the member */
	uint64_t bytes;       /* inflated size of the member, as its entry claims */
	uint64_t data_offset; /* offset of the array in the member */
	struct handle handles[HANDLES];
	uint64_t uses; /* number of reads so far; each read stores it in the `used` of its handle */
	bool damaged;  /* damage was found: every later read fails too */
	unsigned char skipped[SKIP_BYTES]; /* receives bytes that are skipped */
};

static void close_handle(struct handle *handle)
{
	if (handle->file)
		zip_fclose(handle->file);
	handle->file = NULL;
}

/* Start a handle at byte 0, ending its current use. */
static int open_handle(struct inflated *inflated, struct handle *handle)
{
	close_handle(handle);
	handle->at = 0;
	handle->file = zip_fopen_index(inflated->zip, inflated->idx, 0);
	return handle->file ? 0
	                    : rung__zip_failed(inflated->src, "cannot be opened",
	                                       zip_get_error(inflated->zip));
}

/* Choose the handle that reads from `first`. The nearest handle at or before `first` continues if
 * it is at most SKIP_BYTES away, or if no handle is free. Otherwise a free handle starts at byte 0,
 * or, if none is free, the least recently used one starts again. */
static int find_handle(struct inflated *inflated, uint64_t first, struct handle **handle_out)
{
	struct handle *nearest = NULL, *free_one = NULL, *oldest = &inflated->handles[0];

	for (uint32_t i = 0; i < HANDLES; i++) {
		struct handle *handle = &inflated->handles[i];

		if (!handle->file)
			free_one = handle;
		else if (handle->at <= first && (!nearest || handle->at > nearest->at))
			nearest = handle;
		if (handle->used < oldest->used)
			oldest = handle;
	}
	if (nearest && (first - nearest->at <= SKIP_BYTES || !free_one)) {
		*handle_out = nearest;
		return 0;
	}
	*handle_out = free_one ? free_one : oldest;
	return open_handle(inflated, *handle_out);
}

/* Advance a handle to byte `end`. @param to  receives the bytes; NULL: discard them */
static int inflate_up_to(struct inflated *inflated, struct handle *handle, uint64_t end,
                         unsigned char *to)
{
	while (handle->at < end) {
		const uint64_t left = end - handle->at;
		zip_int64_t got = zip_fread(handle->file, to ? to : inflated->skipped,
		                            to ? left : RUNG__MIN(left, SKIP_BYTES));

		if (got < 0)
			return rung__zip_inflating_failed(inflated->src, handle->file);
		if (got == 0)
			return rung__zip_wrong_length(inflated->src, "less", inflated->bytes);
		handle->at += (uint64_t)got;
		to = to ? to + got : NULL;
	}
	return 0;
}

/* libzip compares the CRC when a byte after the last one is requested. */
static int check_end(struct inflated *inflated, struct handle *handle)
{
	unsigned char past;
	zip_int64_t got = zip_fread(handle->file, &past, 1);

	if (got < 0)
		return rung__zip_inflating_failed(inflated->src, handle->file);
	return got > 0 ? rung__zip_wrong_length(inflated->src, "more", inflated->bytes) : 0;
}

/* Read bytes of the member, with the lock held. */
static int read_locked(struct inflated *inflated, uint64_t first, uint64_t count, unsigned char *to)
{
	struct handle *handle = NULL;
	int rc;

	if (inflated->damaged)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: is damaged, as an earlier read has shown; copy it again",
		                  inflated->src->spec);
	rc = find_handle(inflated, first, &handle);
	if (rc < 0)
		return rc;
	handle->used = ++inflated->uses;
	rc = inflate_up_to(inflated, handle, first, NULL);
	if (rc == 0)
		rc = inflate_up_to(inflated, handle, first + count, to);
	if (rc == 0 && handle->at == inflated->bytes)
		rc = check_end(inflated, handle);
	/* no read can continue from the end, or after a failure */
	if (rc < 0 || handle->at == inflated->bytes)
		close_handle(handle);
	inflated->damaged = rc == RUNG_E_FORMAT;
	return rc;
}

static int read_inflated(void *stream, uint64_t first, uint64_t count, unsigned char *to)
{
	struct inflated *inflated = stream;
	int rc;

	pthread_mutex_lock(&inflated->lock);
	rc = read_locked(inflated, inflated->data_offset + first, count, to);
	pthread_mutex_unlock(&inflated->lock);
	return rc;
}

/* Per handle, zlib uses 44 KiB, and libzip has a buffer: 64 KiB is enough for both. */
static uint64_t memory_of_inflated(const void *stream)
{
	(void)stream;
	return sizeof(struct inflated) + HANDLES * (64u << 10);
}

static void close_inflated(void *stream)
{
	struct inflated *inflated = stream;

	for (uint32_t i = 0; i < HANDLES; i++)
		close_handle(&inflated->handles[i]);
	if (inflated->zip)
		zip_discard(inflated->zip);
	pthread_mutex_destroy(&inflated->lock);
	rung__free(inflated);
}

static const struct rung__stream_ops inflated_ops = { read_inflated, memory_of_inflated,
	                                              close_inflated };

int rung__inflated_begin(struct rung_source *src, const zip_stat_t *st, size_t head_bytes,
                         struct rung__npy *npy)
{
	unsigned char *head = rung__malloc(head_bytes);
	struct inflated *inflated = rung__zalloc(sizeof(*inflated));
	int rc;

	if (!head || !inflated) {
		rung__free(head);
		rung__free(inflated);
		return rung__fail(RUNG_E_NOMEM, "%s: no memory for a .npy header of %zu bytes",
		                  src->spec, head_bytes);
	}
	pthread_mutex_init(&inflated->lock, NULL);
	inflated->src = src;
	inflated->idx = st->index;
	inflated->bytes = st->size;
	/* a separate zip_t, because the caller discards its own when the source is open */
	rc = rung__zip_open(src, &inflated->zip);
	/* data_offset is still 0, so this reads the member from its first byte */
	if (rc == 0)
		rc = read_inflated(inflated, 0, head_bytes, head);
	if (rc == 0)
		rc = rung__npy_parse(src->spec, head, head_bytes, st->size, npy);
	rung__free(head);
	if (rc < 0) {
		close_inflated(inflated);
		return rc;
	}
	inflated->data_offset = npy->data_offset;
	src->stream = inflated;
	src->stream_ops = &inflated_ops;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ids in text files, one per line, plain or compressed by gzip. Only digits and line ends are
 * accepted. A few compressed bytes can expand to any number of ids, so memory is not allocated for
 * them: they are counted when the file is opened, and parsed again when they are read. Reading
 * backwards starts again at the first line.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/base.h"
#include "source/state.h"

#define READ_BYTES (1u << 16) /* bytes of one call of zlib */
#define GZIP_BYTES (1u << 17) /* upper bound of the memory that zlib uses */

struct text {
	pthread_mutex_t lock; /* held for a whole read, because the file has only one position */
	/* zlib's handle, which reads plain files as well; NULL: not open yet */
	gzFile file;
	const char *path;  /* the source's */
	uint64_t count;    /* number of ids that the file had when it was opened */
	uint64_t row;      /* number of ids parsed since the start of the file */
	uint64_t last;     /* the id that was parsed last */
	unsigned used, at; /* bytes in the buffer, and how many of them were parsed */
	unsigned char buffer[READ_BYTES];
};

/* State of the parser inside a line. */
struct line {
	uint64_t value; /* value of the digits so far */
	bool digits;    /* there is at least one digit */
	bool returned;  /* a carriage return follows the digits */
	bool ended;     /* the line has ended with a line feed */
};

static int bad_line(const struct text *text, const char *what)
{
	return rung__fail(RUNG_E_FORMAT,
	                  "%s: line %" PRIu64 " %s; write one id per line, without a header, as "
	                  "numpy.savetxt(file, ids, '%%d') does",
	                  text->path, text->row + 1, what);
}

/* Parse one byte of a line: DIGITS [CR] LF. Blank lines are refused, because they would shift all
 * rows after them. */
static int read_char(const struct text *text, struct line *line, unsigned char c)
{
	if (c == '\n') {
		line->ended = true;
		return line->digits ? 0 : bad_line(text, "has no id");
	}
	/* only LF is allowed after CR */
	if (line->returned || (c == '\r' && !line->digits))
		return bad_line(text, "has a carriage return that does not end an id");
	if (c == '\r') {
		line->returned = true;
		return 0;
	}
	if (c < '0' || c > '9')
		return bad_line(text, "has characters other than the digits of an id");
	if (!rung__mul(line->value, 10, &line->value) ||
	    !rung__add(line->value, c - '0', &line->value) || line->value > INT64_MAX)
		return bad_line(text, "has an id of more than 63 bits");
	line->digits = true;
	return 0;
}

/* zlib's error as a status. A damaged file is RUNG_E_FORMAT, a device that fails is RUNG_E_IO. */
static int read_failed(const struct text *text)
{
	int code;
	const char *what = gzerror(text->file, &code);

	if (code == Z_MEM_ERROR)
		return rung__fail(RUNG_E_NOMEM, "%s: no memory to inflate it", text->path);
	if (code == Z_ERRNO)
		return rung__fail_errno(errno, "%s: cannot be read", text->path);
	return rung__fail(RUNG_E_FORMAT, "%s: cannot be inflated: %s; copy it again", text->path,
	                  code == Z_BUF_ERROR ? "it is truncated" : what);
}

/* Refill the buffer, which is empty. At the end of the file it stays empty. */
static int fill(struct text *text)
{
	int code, got = gzread(text->file, text->buffer, sizeof(text->buffer));

	text->at = 0;
	text->used = got > 0 ? (unsigned)got : 0;
	if (got > 0)
		return 0;
	gzerror(text->file, &code); /* without this check, a truncated file would look complete */
	return got < 0 || code != Z_OK ? read_failed(text) : 0;
}

/* Parse the next line into text->last. The last line may lack its line feed. @param there_out false
 * if the file has ended */
static int next_id(struct text *text, bool *there_out)
{
	struct line line = { .value = 0 };
	int rc = 0;

	while (rc == 0 && !line.ended) {
		if (text->at == text->used && ((rc = fill(text)) < 0 || text->used == 0))
			break;
		rc = read_char(text, &line, text->buffer[text->at++]);
	}
	*there_out = line.digits;
	if (rc == 0 && line.digits) {
		text->last = line.value;
		text->row++;
	}
	return rc;
}

/* Start again at the first line. zlib cannot seek backwards faster. */
static int rewind_text(struct text *text)
{
	if (gzrewind(text->file) < 0)
		return read_failed(text);
	text->row = 0;
	text->at = text->used = 0;
	return 0;
}

/* Parse until text->last is id number `row`. It may be that id already, because a read can end
 * inside an id. */
static int go_to(struct text *text, uint64_t row)
{
	bool there = true;
	/* if row + 1 == text->row, the id is in text->last */
	int rc = row + 1 < text->row ? rewind_text(text) : 0;

	while (rc == 0 && there && text->row <= row)
		rc = next_id(text, &there);
	if (rc == 0 && !there)
		return rung__fail(RUNG_E_IO,
		                  "%s: has %" PRIu64 " lines, but had %" PRIu64
		                  " when it was opened; do not change it while it is read",
		                  text->path, text->row, text->count);
	return rc;
}

/* Read bytes of the array of int64. They can begin and end inside an id. */
static int read_text(void *stream, uint64_t first, uint64_t count, unsigned char *to)
{
	struct text *text = stream;
	int rc = 0;

	pthread_mutex_lock(&text->lock);
	while (count > 0 && (rc = go_to(text, first / sizeof(text->last))) == 0) {
		const uint64_t skip = first % sizeof(text->last),
			       bytes = RUNG__MIN(count, sizeof(text->last) - skip);

		memcpy(to, (const unsigned char *)&text->last + skip, (size_t)bytes);
		to += bytes;
		first += bytes;
		count -= bytes;
	}
	pthread_mutex_unlock(&text->lock);
	return rc;
}

static uint64_t memory_of_text(const void *stream)
{
	(void)stream;
	return sizeof(struct text) + GZIP_BYTES;
}

static void close_text(void *stream)
{
	struct text *text = stream;

	if (text->file)
		gzclose(text->file);
	pthread_mutex_destroy(&text->lock);
	rung__free(text);
}

static const struct rung__stream_ops text_ops = { read_text, memory_of_text, close_text };

static bool named_gz(const char *path)
{
	const size_t len = strlen(path);

	return len > 3 && strcmp(path + len - 3, ".gz") == 0;
}

/* gzclose() closes its descriptor, so zlib gets a duplicate; both share a position, and src->fd is
 * not read. */
static int open_file(const struct rung_source *src, struct text *text)
{
	int fd = dup(src->fd);

	text->file = fd < 0 ? NULL : gzdopen(fd, "rb");
	if (!text->file) {
		const int failed = fd < 0 ? errno : ENOMEM;

		if (fd >= 0)
			close(fd);
		return rung__fail_errno(failed, "%s", src->path);
	}
	/* gzdirect() reads the first bytes: 1 for a file that is not compressed */
	if (gzdirect(text->file) != !named_gz(src->path))
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: its name indicates that it is %scompressed by gzip, but its "
		                  "first bytes show the opposite; rename it",
		                  src->path, named_gz(src->path) ? "" : "not ");
	return 0;
}

int rung__source_open_text(struct rung_source *src)
{
	struct text *text = rung__zalloc(sizeof(*text));
	bool there = true;
	int rc;

	if (!text)
		return rung__fail(RUNG_E_NOMEM, "%s", src->path);
	pthread_mutex_init(&text->lock, NULL);
	text->path = src->path;
	/* the source owns the stream from here on, and closes it if this function fails */
	src->stream = text;
	src->stream_ops = &text_ops;
	rc = open_file(src, text);
	/* the array's length must be known, so all lines are parsed; this also finds bad ones */
	while (rc == 0 && there)
		rc = next_id(text, &there);
	if (rc < 0)
		return rc;
	text->count = text->row;
	src->info = (struct rung_array_info){ .dtype = RUNG_I64,
		                              .dim_count = 1,
		                              .dims = { text->count },
		                              .row_count = text->count,
		                              .row_bytes = 8 };
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Ids in text files, one a line, plain or compressed by gzip. Digits and line ends are taken, and nothing else. */
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "internal.h"
#include "source_private.h"

#define READ_BYTES (1u << 16)
#define IDS_FIRST  1024u

struct reader {
	struct rung_source *src;
	int64_t *ids;
	uint64_t count, room;
	uint64_t value;
	bool digits;    /* the line has some */
	bool returned;  /* and a carriage return behind them */
};

static int keep_id(struct reader *r)
{
	uint64_t room = r->room ? 2 * r->room : IDS_FIRST;

	if (r->count == r->room) {
		int64_t *ids = rung__realloc_array(r->ids, room, sizeof(*ids));

		if (!ids)
			return rung__fail(RUNG_E_NOMEM, "%s: %" PRIu64 " ids", r->src->spec, room);
		r->ids = ids;
		r->room = room;
	}
	r->ids[r->count++] = (int64_t)r->value;
	r->value = 0;
	r->digits = r->returned = false;
	return 0;
}

static int bad_line(const struct reader *r, const char *what)
{
	return rung__fail(RUNG_E_FORMAT, "%s: line %" PRIu64 " %s; write one id a line, without a header, as numpy.savetxt(file, ids, '%%d') does",
			  r->src->path, r->count + 1, what);
}

static int take_char(struct reader *r, unsigned char c)
{
	if (c == '\n')
		return r->digits ? keep_id(r) : bad_line(r, "holds no id");
	if (r->returned || (c == '\r' && !r->digits))
		return bad_line(r, "holds a carriage return that ends no id");
	if (c == '\r') {
		r->returned = true;
		return 0;
	}
	if (c < '0' || c > '9')
		return bad_line(r, "holds more than the digits of an id");
	if (!rung__mul(r->value, 10, &r->value) || !rung__add(r->value, c - '0', &r->value) || r->value > INT64_MAX)
		return bad_line(r, "holds an id of more than 63 bits");
	r->digits = true;
	return 0;
}

static int read_failed(const struct reader *r, gzFile file)
{
	int code;
	const char *text = gzerror(file, &code);

	if (code == Z_MEM_ERROR)
		return rung__fail(RUNG_E_NOMEM, "%s: no memory to inflate it", r->src->path);
	if (code == Z_ERRNO)
		return rung__fail_errno(errno, "%s: cannot be read", r->src->path);
	return rung__fail(RUNG_E_FORMAT, "%s: cannot be inflated: %s; copy it again", r->src->path, code == Z_BUF_ERROR ? "it is cut short" : text);
}

static int read_all(struct reader *r, gzFile file)
{
	unsigned char buffer[READ_BYTES];
	int got, code, rc = 0;

	while (rc == 0 && (got = gzread(file, buffer, sizeof(buffer))) > 0) {
		for (int i = 0; rc == 0 && i < got; i++)
			rc = take_char(r, buffer[i]);
	}
	if (rc < 0)
		return rc;
	gzerror(file, &code);   /* a file that is cut short ends as if it were whole */
	if (got < 0 || code != Z_OK)
		return read_failed(r, file);
	return r->digits ? keep_id(r) : 0;
}

static bool named_gz(const char *path)
{
	const size_t len = strlen(path);

	return len > 3 && strcmp(path + len - 3, ".gz") == 0;
}

int rung__source_open_text(struct rung_source *src)
{
	struct reader r = { .src = src };
	int fd = dup(src->fd), rc;
	gzFile file = fd < 0 ? NULL : gzdopen(fd, "rb");

	if (!file) {
		rc = rung__fail_errno(fd < 0 ? errno : ENOMEM, "%s", src->path);
		if (fd >= 0)
			close(fd);
		return rc;
	}
	if (gzdirect(file) != !named_gz(src->path))
		rc = rung__fail(RUNG_E_FORMAT, "%s: its name says that it is %scompressed by gzip, its first bytes say otherwise; rename it",
				src->path, named_gz(src->path) ? "" : "not ");
	else
		rc = read_all(&r, file);
	gzclose(file);
	if (rc == 0 && !r.ids)
		r.ids = rung__malloc_array(0, sizeof(*r.ids));
	if (rc < 0 || !r.ids) {
		rung__free(r.ids);
		return rc < 0 ? rc : rung__fail(RUNG_E_NOMEM, "%s", src->path);
	}
	src->data = (unsigned char *)r.ids;
	src->data_bytes = r.count * sizeof(*r.ids);
	src->info = (struct rung_array_info){ .dtype = RUNG_I64, .dim_count = 1, .dims = { r.count }, .row_count = r.count, .row_bytes = 8 };
	return 0;
}

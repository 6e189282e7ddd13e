/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfers through the program that the source needs. curl and s5cmd read ranges of bytes, so that
 * pieces of a file can arrive in any order and in parallel. rsync copies files from their beginning
 * only; a limit on the size of the files that it writes ends it at the right byte, and --append
 * continues there.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "fetch/origin.h"
#include "file/file.h"

#define POLL_MS          100
#define RSYNC_POLL_MS    20
#define URL_BYTES        8192u
#define HEADER_BYTES_MAX 65536u
/* a transfer without a byte for this time fails, and is tried again */
#define STALLED_SECONDS "60"
#define SIGNED_FOR      "24h" /* longer than any transfer of a piece */

/* Whether the text begins with SCHEME://. */
static bool has_scheme(const char *text, const char *scheme)
{
	const size_t length = strlen(scheme);

	return strncasecmp(text, scheme, length) == 0 && strncmp(text + length, "://", 3) == 0;
}

static enum rung__origin_kind kind_of(const char *text)
{
	const char *colon = strchr(text, ':');
	const char *slash = strchr(text, '/');

	if (has_scheme(text, "s3"))
		return RUNG__ORIGIN_S3;
	if (has_scheme(text, "rsync"))
		return RUNG__ORIGIN_RSYNC;
	if (colon && colon > text && strncmp(colon, "://", 3) == 0)
		return RUNG__ORIGIN_CURL;
	/* as for rsync: a colon before the first slash follows the name of a host */
	if (colon && colon > text && (!slash || colon < slash))
		return RUNG__ORIGIN_RSYNC;
	return RUNG__ORIGIN_FOLDER;
}

int rung__origin_init(const char *text, atomic_bool *stop, struct rung__origin *origin_out)
{
	size_t length = strlen(text);

	while (length > 1 && text[length - 1] == '/')
		length--;
	*origin_out = (struct rung__origin){ .kind = kind_of(text), .stop = stop };
	origin_out->text = rung__format("%.*s", (int)length, text);
	return origin_out->text ? 0 : rung__fail(RUNG_E_NOMEM, "%s", text);
}

void rung__origin_fini(struct rung__origin *origin)
{
	rung__free(origin->text);
	origin->text = NULL;
}

static int fail_canceled(const struct rung__origin *origin, const char *name)
{
	return rung__fail(RUNG_E_CANCELED, "%s/%s: the transfer was canceled", origin->text, name);
}

/* ---- ranges of bytes ---- */

static int open_folder_file(const struct rung__origin *origin, const char *name,
                            struct rung__transfer *t)
{
	char *path = rung__format("%s/%s", origin->text, name);

	if (!path)
		return rung__fail(RUNG_E_NOMEM, "%s", name);
	t->fd = rung__open_regular(AT_FDCWD, path, path, 0);
	rung__free(path);
	return t->fd < 0 ? t->fd : 0;
}

/* A URL of the object that is valid for a while, signed with the user's credentials. */
static int sign(const struct rung__origin *origin, const char *name, char url[URL_BYTES])
{
	char *object = rung__format("%s/%s", origin->text, name), text[RUNG__CHILD_TEXT_BYTES];
	const char *argv[] = { "s5cmd", "presign", "--expire", SIGNED_FOR, object, NULL };
	struct rung__child child;
	size_t got = 0;
	ssize_t n;
	int rc;

	if (!object)
		return rung__fail(RUNG_E_NOMEM, "%s", name);
	rc = rung__child_start(argv, -1, 0, true, &child);
	if (rc == 0) {
		while (got < URL_BYTES - 1 &&
		       ((n = read(child.out_fd, url + got, URL_BYTES - 1 - got)) > 0 ||
		        (n < 0 && errno == EINTR)))
			got += n > 0 ? (size_t)n : 0;
		url[got] = '\0';
		url[strcspn(url, "\r\n")] = '\0';
		if (rung__child_end(&child, false, text) != 0 || !url[0])
			rc = rung__fail(RUNG_E_IO, "%s: %s", object, text);
	}
	rung__free(object);
	return rc;
}

static int start_curl(const struct rung__origin *origin, const char *name, struct rung__transfer *t)
{
	char url[URL_BYTES], range[64];
	const char *argv[] = { "curl",
		               "--silent",
		               "--show-error",
		               "--fail",
		               "--location",
		               "--globoff",
		               "--include",
		               "--suppress-connect-headers",
		               "--connect-timeout",
		               STALLED_SECONDS,
		               "--speed-limit",
		               "1",
		               "--speed-time",
		               STALLED_SECONDS,
		               "--range",
		               range,
		               "--",
		               url,
		               NULL };
	int rc = 0;

	snprintf(range, sizeof(range), "%" PRIu64 "-%" PRIu64, t->at, t->end - 1);
	if (origin->kind == RUNG__ORIGIN_S3)
		rc = sign(origin, name, url);
	else if (snprintf(url, sizeof(url), "%s/%s", origin->text, name) >= (int)sizeof(url))
		rc = rung__fail(RUNG_E_INVAL, "%s: the URL is too long", origin->text);
	return rc < 0 ? rc : rung__child_start(argv, -1, 0, true, &t->child);
}

/* Read what the child has written, at least a byte. @return bytes, 0 at its end, or a failure */
static ssize_t read_some(struct rung__transfer *t, void *to, size_t bytes)
{
	struct pollfd poll_fd = { t->child.out_fd, POLLIN, 0 };
	ssize_t got;

	for (;;) {
		if (atomic_load(t->origin->stop))
			return fail_canceled(t->origin, t->name);
		if (poll(&poll_fd, 1, POLL_MS) <= 0)
			continue;
		got = read(t->child.out_fd, to, bytes);
		if (got >= 0 || errno != EINTR)
			return got < 0 ? rung__fail_errno(errno, "%s", t->name) : got;
	}
}

/* The transfer ended too early: fail with the program's message. */
static int fail_ended(struct rung__transfer *t)
{
	char text[RUNG__CHILD_TEXT_BYTES];
	const int status = rung__child_end(&t->child, true, text);

	if (status == 0)
		return rung__fail(RUNG_E_IO,
		                  "%s/%s: ended at byte %" PRIu64 ", though the manifest lists "
		                  "more; copy the source again",
		                  t->origin->text, t->name, t->at);
	return rung__fail(RUNG_E_IO, "%s/%s: %s", t->origin->text, t->name, text);
}

/* Read a line of the headers, without its end. @return 0, or a failure */
static int read_line(struct rung__transfer *t, char *line, size_t capacity, size_t *left)
{
	size_t length = 0;
	char c = 0;

	while (c != '\n') {
		ssize_t got = *left > 0 ? read_some(t, &c, 1) : 0;

		if (got <= 0)
			return got < 0 ? (int)got : fail_ended(t);
		(*left)--;
		if (length + 1 < capacity && c != '\r' && c != '\n')
			line[length++] = c;
	}
	line[length] = '\0';
	return 0;
}

/* Skip the headers of the answer, and those of redirections before it. @return its status, such as
 * 206; or a failure */
static int read_headers(struct rung__transfer *t)
{
	size_t left = HEADER_BYTES_MAX;
	char line[256];
	int status, rc;

	do {
		rc = read_line(t, line, sizeof(line), &left);
		if (rc < 0)
			return rc;
		if (sscanf(line, "HTTP/%*s %d", &status) != 1)
			return rung__fail(RUNG_E_IO, "%s/%s: the answer is not HTTP",
			                  t->origin->text, t->name);
		while (line[0]) {
			rc = read_line(t, line, sizeof(line), &left);
			if (rc < 0)
				return rc;
		}
	} while (status < 200 || (status >= 300 && status < 400));
	return status;
}

/* A server without ranges answers with the whole file: skip the bytes before the first one. */
static int skip(struct rung__transfer *t, uint64_t bytes)
{
	char buffer[16384];

	while (bytes > 0) {
		ssize_t got = read_some(t, buffer, (size_t)RUNG__MIN(bytes, sizeof(buffer)));

		if (got <= 0)
			return got < 0 ? (int)got : fail_ended(t);
		bytes -= (uint64_t)got;
	}
	return 0;
}

int rung__transfer_begin(const struct rung__origin *origin, const char *name, uint64_t begin,
                         uint64_t end, struct rung__transfer *transfer_out)
{
	struct rung__transfer *t = transfer_out;
	int rc;

	*t = (struct rung__transfer){
		.origin = origin, .name = name, .at = begin, .end = end, .fd = -1
	};
	if (origin->kind == RUNG__ORIGIN_FOLDER)
		return open_folder_file(origin, name, t);
	rc = start_curl(origin, name, t);
	if (rc < 0)
		return rc;
	rc = read_headers(t);
	if (rc >= 0)
		rc = rc == 206 ? 0 : skip(t, begin);
	if (rc < 0)
		rung__transfer_end(t);
	return rc;
}

int rung__transfer_read(struct rung__transfer *t, void *to, uint64_t bytes)
{
	int rc;

	if (t->fd >= 0) {
		if (atomic_load(t->origin->stop))
			return fail_canceled(t->origin, t->name);
		rc = rung__pread_all(t->fd, t->name, to, bytes, t->at);
		t->at += bytes;
		return rc;
	}
	while (bytes > 0) {
		ssize_t got = read_some(t, to, (size_t)bytes);

		if (got <= 0)
			return got < 0 ? (int)got : fail_ended(t);
		to = (char *)to + got;
		bytes -= (uint64_t)got;
		t->at += (uint64_t)got;
	}
	return 0;
}

int rung__transfer_rest(struct rung__transfer *t, void *to, uint64_t bytes, uint64_t *got_out)
{
	char text[RUNG__CHILD_TEXT_BYTES];
	uint64_t got = 0;
	int status;

	for (; got < bytes;) {
		ssize_t n = t->fd >= 0 ? pread(t->fd, (char *)to + got, (size_t)(bytes - got),
		                               (off_t)(t->at + got))
		                       : read_some(t, (char *)to + got, (size_t)(bytes - got));

		if (n < 0)
			return t->fd >= 0
			               ? rung__fail_errno(errno, "%s/%s", t->origin->text, t->name)
			               : (int)n;
		if (n == 0)
			break;
		got += (uint64_t)n;
	}
	*got_out = got;
	if (t->fd >= 0 || got == bytes)
		return 0;
	status = rung__child_end(&t->child, true, text);
	return status == 0 ? 0 : rung__fail(RUNG_E_IO, "%s/%s: %s", t->origin->text, t->name, text);
}

void rung__transfer_end(struct rung__transfer *t)
{
	char text[RUNG__CHILD_TEXT_BYTES];

	if (t->fd >= 0)
		close(t->fd);
	t->fd = -1;
	if (t->child.pid > 0)
		rung__child_end(&t->child, true, text);
}

/* ---- rsync ---- */

static uint64_t size_of(int dir_fd, const char *name)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? (uint64_t)st.st_size : 0;
}

int rung__origin_append(const struct rung__origin *origin, const char *name, int dir_fd,
                        const char *to_name, uint64_t bytes, void (*each)(void *ctx), void *ctx)
{
	char *from = rung__format("%s/%s", origin->text, name), *to = rung__format("./%s", to_name);
	const char *argv[] = { "rsync",
		               "--append",
		               "--copy-links",
		               "--protect-args",
		               "--quiet",
		               "--timeout=" STALLED_SECONDS,
		               "--no-whole-file",
		               "--",
		               from,
		               to,
		               NULL };
	char text[RUNG__CHILD_TEXT_BYTES];
	struct rung__child child;
	int rc = from && to ? rung__child_start(argv, dir_fd, bytes, false, &child)
	                    : rung__fail(RUNG_E_NOMEM, "%s", name);

	if (rc == 0) {
		/* the limit on the size keeps rsync from writing more */
		while (rung__child_runs(&child) && !atomic_load(origin->stop) &&
		       size_of(dir_fd, to_name) < bytes) {
			poll(NULL, 0, RSYNC_POLL_MS);
			each(ctx);
		}
		rung__child_end(&child, true, text);
		if (atomic_load(origin->stop))
			rc = fail_canceled(origin, name);
		else if (size_of(dir_fd, to_name) < bytes)
			rc = rung__fail(RUNG_E_IO, "%s: %s", from, text);
	}
	rung__free(from);
	rung__free(to);
	return rc;
}

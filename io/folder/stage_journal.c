/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal of a run: appending, syncing and reading it.
 *
 * Each line is the checksum of its text in 16 hexadecimal digits, a space, and the text. Lines are
 * collected in memory and written together, because each commit waits for the device. If several
 * lines have the same key, the last one counts, so that progress is recorded without rewriting the
 * file.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "dataset/checksum.h"
#include "file/file.h"
#include "folder/stage_journal.h"
#include "folder/stage_step.h"

#define HEAD_BYTES  (RUNG__CHECKSUM_DIGITS + 1u) /* the checksum and the space */
#define SUMS_A_LINE 32u
/* has room for the checksums of about 60 TB of data; a larger file is refused unread */
#define JOURNAL_BYTES_MAX (UINT64_C(1) << 30)

/* Move the texts of the valid lines to the front of the buffer, without gaps, and end them with
 * NUL. The first invalid line ends the journal: lines are written in order, so nothing after it can
 * be relied on.
 * @return bytes of the valid lines in the file */
static uint64_t keep_good(char *text, uint64_t bytes)
{
	uint64_t at = 0, to = 0;
	char digits[RUNG__CHECKSUM_DIGITS + 1];

	while (at < bytes) {
		char *line = text + at, *end = memchr(line, '\n', (size_t)(bytes - at));

		if (!end || (size_t)(end - line) < HEAD_BYTES || line[HEAD_BYTES - 1] != ' ')
			break;
		rung__checksum_text(
			rung__checksum(line + HEAD_BYTES, (size_t)(end - line) - HEAD_BYTES),
			digits);
		if (memcmp(line, digits, RUNG__CHECKSUM_DIGITS) != 0)
			break;
		memmove(text + to, line + HEAD_BYTES, (size_t)(end + 1 - line) - HEAD_BYTES);
		to += (uint64_t)(end + 1 - line) - HEAD_BYTES;
		at += (uint64_t)(end + 1 - line);
	}
	text[to] = '\0';
	return at;
}

static int read_text(struct rung__journal *journal, int fd)
{
	struct stat st;
	int rc;

	if (fstat(fd, &st) < 0)
		return rung__fail_errno(errno, "%s", journal->path);
	/* checked before the file's size is allocated */
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > JOURNAL_BYTES_MAX)
		return rung__fail(
			RUNG_E_EXIST,
			"%s: is not a journal of rung; move it away or choose another output",
			journal->path);
	journal->text = rung__malloc((size_t)st.st_size + 1);
	if (!journal->text)
		return rung__fail(RUNG_E_NOMEM, "%s: no memory to read its %jd bytes",
		                  journal->path, (intmax_t)st.st_size);
	rc = rung__pread_all(fd, journal->path, journal->text, (uint64_t)st.st_size, 0);
	if (rc == 0)
		journal->bytes = keep_good(journal->text, (uint64_t)st.st_size);
	return rc;
}

int rung__journal_read(struct rung__journal *journal, int dir_fd, const char *dir)
{
	int fd, rc;

	*journal =
		(struct rung__journal){ .fd = -1, .path = rung__format("%s/" RUNG__JOURNAL, dir) };
	if (!journal->path)
		return rung__fail(RUNG_E_NOMEM, "%s", dir);
	fd = openat(dir_fd, RUNG__JOURNAL, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT) {
		journal->text = rung__strdup("");
		return journal->text ? 0 : rung__fail(RUNG_E_NOMEM, "%s", journal->path);
	}
	if (fd < 0)
		return rung__fail_errno(errno, "%s: cannot be opened", journal->path);
	rc = read_text(journal, fd);
	close(fd);
	return rc;
}

int rung__journal_begin(struct rung__journal *journal, int dir_fd)
{
	rung__stage_step("journal");
	journal->fd =
		openat(dir_fd, RUNG__JOURNAL, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
	if (journal->fd < 0)
		return rung__fail_errno(errno, "%s: cannot be created", journal->path);
	/* otherwise the rest of an incomplete line would make the next line invalid */
	if (ftruncate(journal->fd, (off_t)journal->bytes) < 0)
		return rung__fail_errno(errno, "%s: cannot be truncated after its last valid line",
		                        journal->path);
	return 0;
}

/* The text after `word` and a space at the start of `line`; NULL if it starts with another word. A
 * longer word does not match: "file a" is not "file ab". */
static const char *behind(const char *line, const char *word)
{
	const size_t len = strlen(word);

	if (strncmp(line, word, len) != 0 || (line[len] != ' ' && line[len] != '\n'))
		return NULL;
	return line + len + (line[len] == ' ');
}

const char *rung__lines_last(const char *text, const char *key)
{
	const char *found = NULL, *here;

	for (const char *line = text; line && *line; line = strchr(line, '\n') + 1) {
		here = behind(line, key);
		found = here ? here : found;
	}
	return found;
}

const char *rung__journal_last(const struct rung__journal *journal, const char *key)
{
	return rung__lines_last(journal->text, key);
}

const char *rung__journal_last_of(const struct rung__journal *journal, const char *kind,
                                  const char *name)
{
	const char *found = NULL, *here;

	for (const char *line = journal->text; line && *line; line = strchr(line, '\n') + 1) {
		here = behind(line, kind);
		here = here ? behind(here, name) : NULL;
		found = here ? here : found;
	}
	return found;
}

/* Make sure that `bytes` more fit in `pending`. */
static int reserve(struct rung__journal *journal, uint64_t bytes)
{
	uint64_t capacity = journal->pending_capacity ? journal->pending_capacity : 4096;
	char *pending;

	if (journal->pending_bytes + bytes <= journal->pending_capacity)
		return 0;
	while (capacity < journal->pending_bytes + bytes)
		capacity *= 2;
	pending = rung__realloc_array(journal->pending, capacity, 1);
	if (!pending)
		return rung__fail(RUNG_E_NOMEM,
		                  "%s: no memory for %" PRIu64 " bytes of journal lines",
		                  journal->path, capacity);
	journal->pending = pending;
	journal->pending_capacity = capacity;
	return 0;
}

/* Append a line with its checksum to `pending`. `text` contains no line break. */
static int add_text(struct rung__journal *journal, const char *text, size_t bytes)
{
	char digits[RUNG__CHECKSUM_DIGITS + 1], *to;
	int rc = reserve(journal, HEAD_BYTES + bytes + 1);

	if (rc < 0)
		return rc;
	to = journal->pending + journal->pending_bytes;
	rung__checksum_text(rung__checksum(text, bytes), digits);
	memcpy(to, digits, RUNG__CHECKSUM_DIGITS);
	to[HEAD_BYTES - 1] = ' ';
	memcpy(to + HEAD_BYTES, text, bytes);
	to[HEAD_BYTES + bytes] = '\n';
	journal->pending_bytes += HEAD_BYTES + bytes + 1;
	journal->lines_added++;
	return 0;
}

int rung__journal_add(struct rung__journal *journal, const char *format, ...)
{
	va_list args;
	char *text;
	int rc;

	va_start(args, format);
	text = rung__vformat(format, args);
	va_end(args);
	if (!text)
		return rung__fail(RUNG_E_NOMEM, "%s: no memory for a journal line", journal->path);
	for (char *c = text; *c; c++) {
		if (*c == '\n') /* in a file name a line feed would begin a new line */
			*c = '?';
	}
	rc = add_text(journal, text, strlen(text));
	rung__free(text);
	return rc;
}

int rung__journal_add_sums(struct rung__journal *journal, uint64_t first, uint64_t count,
                           const uint64_t *sums)
{
	char text[32 + SUMS_A_LINE * HEAD_BYTES]; /* 32: "sums " and the number of the block */
	int rc = 0;

	for (uint64_t done = 0; done < count && rc == 0; done += SUMS_A_LINE) {
		int at = snprintf(text, sizeof(text), "sums %" PRIu64, first + done);

		for (uint64_t i = done; i < RUNG__MIN(count, done + SUMS_A_LINE); i++) {
			text[at++] = ' ';
			rung__checksum_text(sums[i], text + at);
			at += RUNG__CHECKSUM_DIGITS;
		}
		rc = add_text(journal, text, (size_t)at);
	}
	return rc;
}

void rung__journal_drain_sums(const struct rung__journal *journal, uint64_t first, uint64_t end,
                              uint64_t *sums)
{
	for (const char *line = journal->text; line && *line; line = strchr(line, '\n') + 1) {
		char *at;
		uint64_t block;

		if (strncmp(line, "sums ", 5) != 0)
			continue;
		block = strtoull(line + 5, &at, 10);
		/* the bounds also hold for a journal that rung did not write */
		for (; *at == ' ' && block < end; block++) {
			const uint64_t sum = strtoull(at + 1, &at, 16);

			if (block >= first)
				sums[block] = sum;
		}
	}
}

int rung__journal_commit(struct rung__journal *journal, int dir_fd)
{
	int rc;

	rung__stage_step("journal");
	/* the new files must be in their folder before a line refers to them. EINVAL: a file system
	 * that cannot sync folders */
	if (dir_fd >= 0 && fsync(dir_fd) < 0 && errno != EINVAL)
		return rung__fail_errno(errno, "%s: its folder cannot be synced to the device",
		                        journal->path);
	rc = rung__pwrite_all(journal->fd, journal->path, journal->pending, journal->pending_bytes,
	                      journal->bytes);
	rung__stage_step("sync journal");
	if (rc == 0 && fdatasync(journal->fd) < 0)
		rc = rung__fail_errno(errno, "%s: cannot be synced to the device", journal->path);
	if (rc < 0)
		return rc;
	journal->bytes += journal->pending_bytes;
	journal->pending_bytes = 0;
	return 0;
}

void rung__journal_fini(struct rung__journal *journal)
{
	if (journal->fd >= 0)
		close(journal->fd);
	rung__free(journal->path);
	rung__free(journal->text);
	rung__free(journal->pending);
	*journal = (struct rung__journal){ .fd = -1 };
}

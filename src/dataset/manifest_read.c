/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the file of a manifest. It must be a regular file of limited size, because it is read
 * into memory before its checksum can be checked; manifest_parse.c checks the text.
 */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file/file.h"
#include "base/base.h"
#include "dataset/manifest.h"

/* The whole file. The caller frees *text_out. */
static int read_text(int fd, const char *path, char **text_out, size_t *bytes_out)
{
	struct stat st;
	char *text;
	int rc;

	if (fstat(fd, &st) < 0)
		return rung__fail_errno(errno, "%s", path);
	if (st.st_size > (off_t)RUNG__MANIFEST_BYTES_MAX)
		return rung__fail(
			RUNG_E_CORRUPT,
			"%s: has %jd bytes; a manifest has at most %u; stage the dataset again",
			path, (intmax_t)st.st_size, RUNG__MANIFEST_BYTES_MAX);
	text = rung__malloc((size_t)st.st_size);
	if (!text)
		return rung__fail(RUNG_E_NOMEM, "%s: no memory for %jd bytes", path,
		                  (intmax_t)st.st_size);
	rc = rung__pread_all(fd, path, text, (uint64_t)st.st_size, 0);
	if (rc < 0) {
		rung__free(text);
		return rc;
	}
	*text_out = text;
	*bytes_out = (size_t)st.st_size;
	return 0;
}

int rung__manifest_read(int dir_fd, const char *dir, struct rung__manifest **manifest_out)
{
	char *path = rung__format("%s/" RUNG__MANIFEST, dir), *text = NULL;
	size_t bytes = 0;
	int fd, rc;

	if (!path)
		return rung__fail(RUNG_E_NOMEM, "%s", dir);
	rc = fd = rung__open_own(dir_fd, RUNG__MANIFEST, path, 0);
	if (fd == RUNG_E_NOENT)
		rc = rung__fail(RUNG_E_NOENT,
		                "%s: has no " RUNG__MANIFEST
		                ": not a dataset, or staging did not finish; run rung stage",
		                dir);
	else if (fd == RUNG_E_FORMAT)
		rc = rung__fail(RUNG_E_CORRUPT, "%s", rung_last_error());
	else if (fd >= 0)
		rc = read_text(fd, path, &text, &bytes);
	if (rc == 0)
		rc = rung__manifest_parse(path, text, bytes, manifest_out);
	if (fd >= 0)
		close(fd);
	rung__free(text);
	rung__free(path);
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of the folder that staging writes, or of one that it replaces. Only files that rung wrote
 * are ever removed. If a single entry has a foreign name, nothing in the folder is touched, because
 * the user may have named the folder by mistake.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/base.h"
#include "dataset/features.h"
#include "dataset/manifest.h"
#include "folder/stage_entries.h"
#include "folder/stage_step.h"
#include "folder/stage_stripe.h"

/* how every manifest starts, whatever its version, and even if the rest is damaged */
#define FORMAT_LINE "{\n \"format\": \"" RUNG__FORMAT_NAME "\""

/* Temporary files of graphs that stay in files (src/edges, src/file/direct.c). They have a name
 * only for a moment, or while they are written. */
static bool is_temporary(const char *name)
{
	return strcmp(name, RUNG__INDPTR ".partial") == 0 ||
	       strcmp(name, RUNG__INDICES ".partial") == 0 ||
	       (strncmp(name, "rung-", 5) == 0 && strlen(name) == 5 + 6);
}

/* prefix, NAME, ".npy" */
static bool is_named(const char *name, const char *prefix)
{
	const size_t prefix_len = strlen(prefix), len = strlen(name), end_len = strlen(".npy");
	char inner[RUNG__SPLIT_NAME_BYTES];

	if (len < prefix_len + end_len || len - prefix_len - end_len >= sizeof(inner) ||
	    strncmp(name, prefix, prefix_len) != 0 || strcmp(name + len - end_len, ".npy") != 0)
		return false;
	snprintf(inner, sizeof(inner), "%.*s", (int)(len - prefix_len - end_len),
	         name + prefix_len);
	return rung__split_name_ok(inner);
}

/* Scores that staging a typed dataset keeps until the parts are complete. */
static bool is_score(const char *name)
{
	return strncmp(name, "score_", 6) == 0 && strspn(name + 6, "0123456789") == 3 &&
	       (strcmp(name + 9, ".npy") == 0 || strcmp(name + 9, "_edges.npy") == 0);
}

/* Folders in which a typed dataset has its parts. */
static bool is_parts_folder(const char *name)
{
	return strcmp(name, RUNG__TYPE_FOLDER) == 0 || strcmp(name, RUNG__LISTS_FOLDER) == 0 ||
	       strcmp(name, RUNG__ROWS_FOLDER) == 0;
}

/* A part, or the work of staging one: up to three names that are joined by dots, and .partial. */
static bool is_part(const char *name)
{
	char copy[NAME_MAX + 1], *at = copy;

	snprintf(copy, sizeof(copy), "%s", name);
	for (char *end; (end = strchr(at, '.')) != NULL; at = end + 1) {
		*end = '\0';
		if (!rung__split_name_ok(at))
			return false;
	}
	return rung__split_name_ok(at);
}

/* Whether rung writes files with this name. */
static bool is_ours(const char *name)
{
	static const char *const fixed[] = { RUNG__MANIFEST,       RUNG__MANIFEST_PARTIAL,
		                             RUNG__CHECKSUMS,      RUNG__INDPTR,
		                             RUNG__INDICES,        RUNG__VERTEX_OF_RANK,
		                             RUNG__RANK_OF_VERTEX, RUNG__SCORE,
		                             RUNG__LABELS,         RUNG__JOURNAL };

	for (size_t i = 0; i < RUNG__ARRAY_LEN(fixed); i++) {
		if (strcmp(name, fixed[i]) == 0)
			return true;
	}
	return is_temporary(name) || is_score(name) || rung__features_name_ok(name) ||
	       is_named(name, RUNG__SPLIT_PREFIX) || is_named(name, RUNG__ARRAY_PREFIX);
}

/* Call `each` for the entries of a folder, until it fails. The listing uses a separate descriptor,
 * because closedir() closes it; the position of `fd` does not move. */
static int for_entries(int fd, const char *path,
                       int (*each)(int fd, const char *path, const char *name, void *ctx),
                       void *ctx)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;
	DIR *entries = copy >= 0 ? fdopendir(copy) : NULL;
	struct dirent *entry;

	if (!entries) {
		rc = rung__fail_errno(errno, "%s: cannot be listed", path);
		if (copy >= 0)
			close(copy);
		return rc;
	}
	while (rc == 0 && (entry = readdir(entries)) != NULL) {
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			rc = each(fd, path, entry->d_name, ctx);
	}
	closedir(entries);
	return rc;
}

/* Call `each` for the entries of a folder in the folder `fd`. */
static int for_inner(int fd, const char *path, const char *name,
                     int (*each)(int fd, const char *path, const char *name, void *ctx))
{
	const int inner = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	char *inner_path = rung__format("%s/%s", path, name);
	int rc = inner_path ? 0 : rung__fail(RUNG_E_NOMEM, "%s/%s", path, name);

	if (rc == 0 && inner < 0)
		rc = rung__fail_errno(errno, "%s: cannot be opened", inner_path);
	if (rc == 0)
		rc = for_entries(inner, inner_path, each, NULL);
	if (inner >= 0)
		close(inner);
	rung__free(inner_path);
	return rc;
}

static bool is_folder(int fd, const char *name)
{
	struct stat st;

	return fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static int check_entry(int fd, const char *path, const char *name, void *ctx);

static int check_part(int fd, const char *path, const char *name, void *ctx)
{
	(void)ctx;
	if (is_part(name) && is_folder(fd, name))
		return for_inner(fd, path, name, check_entry);
	return rung__fail(RUNG_E_EXIST,
	                  "%s: contains '%s', which rung did not write; move it away or choose "
	                  "another output",
	                  path, name);
}

static int check_entry(int fd, const char *path, const char *name, void *ctx)
{
	char target[PATH_MAX];
	struct stat st;

	(void)ctx;
	if (is_parts_folder(name) && is_folder(fd, name))
		return for_inner(fd, path, name, check_part);
	if (is_ours(name) && fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    (S_ISREG(st.st_mode) || (S_ISLNK(st.st_mode) && rung__features_name_ok(name) &&
	                             (rung__stripe_link_ok(fd, name, target) ||
	                              rung__features_elsewhere(fd, name, target)))))
		return 0;
	return rung__fail(RUNG_E_EXIST,
	                  "%s: contains '%s', which rung did not write; move it away or choose "
	                  "another output",
	                  path, name);
}

/* The target of a link is removed before the link: in the other order, a run that is killed in
 * between would leave a file that no folder refers to. */
static int remove_entry(int fd, const char *path, const char *name, void *ctx);

/* Remove a folder with all entries. */
static int remove_folder(int fd, const char *path, const char *name,
                         int (*each)(int fd, const char *path, const char *name, void *ctx))
{
	int rc = for_inner(fd, path, name, each);

	rung__stage_step("rmdir");
	if (rc == 0 && unlinkat(fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		rc = rung__fail_errno(errno, "%s/%s: cannot be removed", path, name);
	return rc;
}

static int remove_part(int fd, const char *path, const char *name, void *ctx)
{
	(void)ctx;
	return remove_folder(fd, path, name, remove_entry);
}

static int remove_entry(int fd, const char *path, const char *name, void *ctx)
{
	int rc;

	(void)ctx;
	if (is_parts_folder(name) && is_folder(fd, name))
		return remove_folder(fd, path, name, remove_part);
	rung__stage_step("unlink");
	rc = rung__features_name_ok(name) ? rung__stripe_remove(fd, name) : 0;
	if (rc < 0)
		return rc;
	if (unlinkat(fd, name, 0) < 0 && errno != ENOENT)
		return rung__fail_errno(errno, "%s/%s: cannot be removed", path, name);
	return 0;
}

int rung__stage_entries_check(int fd, const char *path)
{
	return for_entries(fd, path, check_entry, NULL);
}

int rung__stage_entry_remove(int fd, const char *path, const char *name)
{
	return remove_entry(fd, path, name, NULL);
}

int rung__stage_entries_remove(int fd, const char *path)
{
	int rc = rung__stage_entries_check(fd, path);

	if (rc == 0)
		rc = remove_entry(fd, path, RUNG__MANIFEST, NULL);
	return rc < 0 ? rc : for_entries(fd, path, remove_entry, NULL);
}

int rung__stage_entries_check_dataset(int fd, const char *path)
{
	char line[sizeof(FORMAT_LINE)];
	/* O_NONBLOCK: opening a FIFO of this name must not wait for a writer */
	int file = openat(fd, RUNG__MANIFEST, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	ssize_t got = file >= 0 ? pread(file, line, sizeof(FORMAT_LINE) - 1, 0) : -1;

	if (file >= 0)
		close(file);
	if (got != (ssize_t)sizeof(FORMAT_LINE) - 1 ||
	    memcmp(line, FORMAT_LINE, sizeof(FORMAT_LINE) - 1) != 0)
		return rung__fail(RUNG_E_EXIST,
		                  "%s: exists and is not a staged dataset, so it is not replaced; "
		                  "choose another output",
		                  path);
	return rung__stage_entries_check(fd, path);
}

/* Whether the journal lists a file as finished or begun. */
static bool is_finished(const struct rung__journal *journal, const char *name)
{
	const bool features =
		strncmp(name, RUNG__FEATURES_PREFIX, strlen(RUNG__FEATURES_PREFIX)) == 0;
	/* a line of rows names only the first of its files. This also keeps the files that were
	 * moved here from other parts: after the rows of part 0 are complete */
	const char *first = features ? RUNG__FEATURES : name;

	if (strcmp(name, RUNG__INDPTR) == 0) /* one step writes both files of the graph */
		name = RUNG__INDICES;
	return strcmp(name, RUNG__JOURNAL) == 0 || rung__journal_last_of(journal, "file", name) ||
	       rung__journal_last_of(journal, "partitioned", name) ||
	       rung__journal_last_of(journal, "rows", name) ||
	       rung__journal_last_of(journal, "partitioned", first) ||
	       rung__journal_last_of(journal, "rows", first);
}

static int remove_unfinished(int fd, const char *path, const char *name, void *ctx)
{
	return is_finished(ctx, name) ? 0 : remove_entry(fd, path, name, NULL);
}

int rung__stage_dir_drop_unfinished(struct rung__stage_dir *dir, struct rung__journal *journal)
{
	return for_entries(dir->fd, dir->partial_path, remove_unfinished, journal);
}

/* Add the allocated bytes of a file: unlike its size, they do not count holes. Links are not
 * followed, because stripes are on other file systems. */
static int add_used(int fd, const char *path, const char *name, void *ctx)
{
	uint64_t *bytes = ctx;
	struct stat st;

	(void)path;
	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
		*bytes += (uint64_t)st.st_blocks * 512; /* the unit of st_blocks */
	return 0;
}

int rung__stage_dir_free_bytes(const struct rung__stage_dir *dir, uint64_t *free_out)
{
	struct statvfs vfs;
	uint64_t taken = 0;
	int rc;

	if (fstatvfs(dir->parent_fd, &vfs) < 0)
		return rung__fail_errno(errno, "%s: its free space cannot be determined",
		                        dir->path);
	rc = dir->fd >= 0 ? for_entries(dir->fd, dir->partial_path, add_used, &taken) : 0;
	if (!rung__mul(vfs.f_bavail, vfs.f_frsize, free_out) ||
	    !rung__add(*free_out, taken, free_out))
		*free_out = UINT64_MAX;
	return rc;
}

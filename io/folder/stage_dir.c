/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder that staging writes. Even if the process is killed, OUT is at any moment absent, the
 * old dataset, or the new one. Files are created and synced in OUT.partial, the manifest gets its
 * name last, and one rename turns OUT.partial into OUT. The lock is on the folder itself (flock),
 * so it ends with the process and moves with the folder. The journal moves with the folder too, and
 * is removed afterwards. If the run is killed in between, the next run finds the journal in OUT,
 * which shows that only this clean-up remains.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "dataset/manifest.h"
#include "file/file.h"
#include "folder/stage_dir.h"
#include "folder/stage_entries.h"
#include "folder/stage_step.h"

/* an attempt fails without an error only if another process removes or renames the folder during
 * the attempt */
#define ACQUIRE_TRIES 8

/* The paths of OUT, OUT.partial and OUT.replaced.partial. Their last parts are pointers into
 * them. */
static int make_paths(struct rung__stage_dir *dir, const char *out_dir)
{
	size_t len = strlen(out_dir);

	while (len > 1 && out_dir[len - 1] == '/')
		len--;
	dir->path = rung__format("%.*s", (int)len, out_dir);
	dir->aside_path = rung__format("%.*s.replaced.partial", (int)len, out_dir);
	if (dir->path && dir->part > 0)
		dir->partial_path =
			rung__format(RUNG_STAGE_PART_FORMAT, dir->path, dir->part, dir->part_count);
	else
		dir->partial_path = rung__format("%.*s.partial", (int)len, out_dir);
	if (!dir->path || !dir->partial_path || !dir->aside_path)
		return rung__fail(RUNG_E_NOMEM, "%s", out_dir);
	while (len > 0 && out_dir[len - 1] != '/')
		len--;
	dir->name = dir->path + len;
	dir->partial_name = dir->partial_path + len;
	dir->aside_name = dir->aside_path + len;
	return 0;
}

/* Readers reject names that end in .partial, so a dataset must not get such a name. */
static int check_name(const struct rung__stage_dir *dir)
{
	size_t len = strlen(dir->name);

	/* these three are existing folders that cannot be renamed */
	if (len == 0 || strcmp(dir->name, ".") == 0 || strcmp(dir->name, "..") == 0)
		return rung__fail(RUNG_E_INVAL,
		                  "output '%s': not a valid name for a new folder; give one that "
		                  "does not exist yet",
		                  dir->path);
	if (len >= 8 && strcmp(dir->name + len - 8, ".partial") == 0)
		return rung__fail(RUNG_E_INVAL,
		                  "output '%s': names that end in .partial are reserved for "
		                  "unfinished work; choose another",
		                  dir->path);
	return 0;
}

/* All later accesses are relative to this descriptor, so that they use one folder even if a path
 * is renamed during the run. Write permission is checked now, not after hours of work. */
static int open_parent(struct rung__stage_dir *dir)
{
	size_t len = (size_t)(dir->name - dir->path);
	char *parent = len > 0 ? rung__format("%.*s", (int)len, dir->path) : rung__format(".");
	int rc = 0;

	if (!parent)
		return rung__fail(RUNG_E_NOMEM, "%s", dir->path);
	dir->parent_fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir->parent_fd < 0)
		rc = rung__fail_errno(
			errno,
			"output '%s': its parent folder %s cannot be opened; create it first",
			dir->path, parent);
	else if (faccessat(dir->parent_fd, ".", W_OK | X_OK, 0) < 0)
		rc = rung__fail_errno(errno,
		                      "output '%s': its parent folder %s cannot be written to",
		                      dir->path, parent);
	rung__free(parent);
	return rc;
}

/* Check the length of the longest temporary name, which is longer than the name of the folder
 * itself: aside_name, or the name of a part's folder. */
static int check_length(const struct rung__stage_dir *dir)
{
	const long name_max = fpathconf(dir->parent_fd, _PC_NAME_MAX);
	const size_t bytes = strlen(dir->name);
	const size_t more = dir->part_count > 1
	                            ? (size_t)snprintf(NULL, 0, RUNG_STAGE_PART_FORMAT, "", 1u, 1u)
	                            : strlen(dir->aside_name) - bytes;

	if (name_max <= 0 || bytes + more <= (size_t)name_max)
		return 0;
	return rung__fail(RUNG_E_INVAL,
	                  "output '%s': its name has %zu bytes; at most %zu are allowed; choose a "
	                  "shorter one",
	                  dir->path, bytes, (size_t)name_max - more);
}

/* Whether `folder`, a name inside the parent folder, has an entry `name`. */
static bool holds(const struct rung__stage_dir *dir, const char *folder, const char *name)
{
	char path[2 * NAME_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return fstatat(dir->parent_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Whether a run with `resume` may continue with OUT itself. With `force`, unfinished work in
 * OUT.partial that will replace OUT has priority. The exception is an OUT with a journal: its own
 * clean-up is unfinished. */
static bool may_be_finished(const struct rung__stage_dir *dir)
{
	return dir->resume && holds(dir, dir->name, RUNG__MANIFEST) &&
	       (!dir->force || holds(dir, dir->name, RUNG__JOURNAL) ||
	        !holds(dir, dir->partial_name, RUNG__JOURNAL));
}

static int fail_exists(const struct rung__stage_dir *dir)
{
	return rung__fail(RUNG_E_EXIST,
	                  "%s: exists; choose another output, or replace it with --force",
	                  dir->path);
}

int rung__stage_dir_check_out(struct rung__stage_dir *dir, int *fd_out)
{
	struct stat st;
	int fd, rc;

	/* called again before the rename: OUT may have changed since the first check */
	dir->replaces = dir->staged = false;
	if (fd_out)
		*fd_out = -1;
	if (fstatat(dir->parent_fd, dir->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : rung__fail_errno(errno, "%s", dir->path);
	dir->staged = may_be_finished(dir);
	if (!dir->force)
		return dir->staged ? 0 : fail_exists(dir);
	fd = openat(dir->parent_fd, dir->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return rung__fail(RUNG_E_EXIST,
		                  "%s: exists and is not a folder, so it is not replaced; choose "
		                  "another output",
		                  dir->path);
	rc = rung__stage_entries_check_dataset(fd, dir->path);
	if (rc < 0 || !fd_out)
		close(fd);
	else
		*fd_out = fd;
	dir->replaces = rc == 0;
	return rc;
}

int rung__stage_dir_init(struct rung__stage_dir *dir, const struct rung_stage_opts *opts)
{
	int rc;

	*dir = (struct rung__stage_dir){
		.parent_fd = -1,
		.fd = -1,
		.force = opts->force,
		.resume = opts->resume,
		.part = opts->part,
		.part_count = opts->part_count,
	};
	if ((rc = make_paths(dir, opts->out_dir)) < 0 || (rc = check_name(dir)) < 0 ||
	    (rc = open_parent(dir)) < 0 || (rc = check_length(dir)) < 0)
		return rc;
	return rung__stage_dir_check_out(dir, NULL);
}

int rung__stage_dir_lock(int fd, const char *path)
{
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	if (errno == EWOULDBLOCK)
		return rung__fail(RUNG_E_BUSY,
		                  "%s: another process is staging into it; wait for it, or choose "
		                  "another output",
		                  path);
	return rung__fail_errno(errno, "%s: cannot be locked", path);
}

bool rung__stage_dir_still_partial(const struct rung__stage_dir *dir, int fd)
{
	struct stat named, held;

	return fstatat(dir->parent_fd, dir->partial_name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       fstat(fd, &held) == 0 && named.st_ino == held.st_ino && named.st_dev == held.st_dev;
}

/* Move the files of other parts, which part 0 has moved here and may be those of other machines,
 * back to the folders of these parts. A part that was staged again has a newer one. */
static int return_parts(const struct rung__stage_dir *dir, int fd,
                        const struct rung__journal *journal)
{
	const char *words = rung__journal_last(journal, "job parts");
	const unsigned long count = dir->part == 0 && words ? strtoul(words, NULL, 10) : 0;
	int rc = 0;

	for (uint32_t part = 1; part < RUNG__MIN(count, RUNG_FEATURE_FILES_MAX) && rc == 0;
	     part++) {
		char folder[NAME_MAX + 1], name[RUNG__SPLIT_NAME_BYTES];
		struct stat st;
		int to;

		snprintf(folder, sizeof(folder), RUNG_STAGE_PART_FORMAT, dir->name, part,
		         (unsigned)count);
		snprintf(name, sizeof(name), RUNG__FEATURES_NAME, part);
		to = openat(dir->parent_fd, folder,
		            O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (to < 0)
			continue;
		rc = rung__stage_dir_lock(to, folder);
		if (rc == 0 && fstatat(to, name, &st, AT_SYMLINK_NOFOLLOW) < 0 &&
		    renameat(fd, name, to, name) < 0 && errno != ENOENT)
			rc = rung__fail_errno(errno, "%s/%s: cannot be moved back to %s",
			                      dir->partial_path, name, folder);
		if (rc == 0)
			rc = rung__sync_folder(to, folder);
		close(to);
	}
	return rc;
}

/* Decide whether to keep the files that an earlier run left, and remove them if not. Sets `keep`,
 * and reads the journal. The caller holds the lock. */
static int remove_leftover(struct rung__stage_dir *dir, int fd, struct rung__journal *journal)
{
	int rc = rung__stage_entries_check(fd, dir->partial_path);

	rung__journal_fini(journal); /* from an earlier attempt */
	if (rc == 0)
		rc = rung__journal_read(journal, fd, dir->partial_path);
	if (rc < 0)
		return rc;
	dir->keep = rung__journal_last(journal, RUNG__JOURNAL_RANKED) != NULL;
	if (dir->keep && dir->resume)
		return 0;
	if (dir->keep && !dir->force)
		return rung__fail(RUNG_E_EXIST,
		                  "%s: contains unfinished work of a run that was stopped; "
		                  "continue it with --resume, or discard it with --force",
		                  dir->partial_path);
	dir->keep = false;
	rc = return_parts(dir, fd, journal);
	rung__journal_fini(journal);
	if (rc == 0)
		rc = rung__stage_entries_remove(fd, dir->partial_path);
	return rc < 0 ? rc : rung__journal_read(journal, fd, dir->partial_path);
}

/*
 * Create or open the folder, then lock it, then check that it still has its name: the process that
 * held the lock may have renamed or removed it before the lock was granted.
 * @return 0 with dir->fd set, or with dir->fd -1 if the name was lost to another process
 */
static int acquire_once(struct rung__stage_dir *dir, struct rung__journal *journal)
{
	int fd, rc;

	rung__stage_step("mkdir");
	if (mkdirat(dir->parent_fd, dir->partial_name, 0777) < 0 && errno != EEXIST)
		return rung__fail_errno(errno, "%s: cannot be created", dir->partial_path);
	fd = openat(dir->parent_fd, dir->partial_name,
	            O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0)
		return rung__fail(
			RUNG_E_EXIST,
			"%s: exists and is not a folder; move it away or choose another output",
			dir->partial_path);
	rc = rung__stage_dir_lock(fd, dir->partial_path);
	if (rc == 0 && rung__stage_dir_still_partial(dir, fd)) {
		rc = remove_leftover(dir, fd, journal);
		if (rc == 0) {
			dir->fd = fd;
			return 0;
		}
		/* succeeds only if it is empty: then there is nothing to lose */
		unlinkat(dir->parent_fd, dir->partial_name, AT_REMOVEDIR);
	}
	close(fd);
	return rc;
}

int rung__stage_dir_resolve_aside(struct rung__stage_dir *dir)
{
	struct stat st;
	int fd = openat(dir->parent_fd, dir->aside_name,
	                O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW),
	    rc = 0;

	if (fd < 0)
		return 0;
	rung__stage_step("settle");
	/* the run was killed before the second rename, which gives OUT its new content, or after
	 * it */
	if (fstatat(dir->parent_fd, dir->name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (renameat(dir->parent_fd, dir->aside_name, dir->parent_fd, dir->name) < 0)
			rc = rung__fail_errno(errno, "%s: cannot be renamed back to %s",
			                      dir->aside_path, dir->path);
	} else {
		rc = rung__stage_entries_remove(fd, dir->aside_path);
		if (rc == 0)
			unlinkat(dir->parent_fd, dir->aside_name, AT_REMOVEDIR);
	}
	close(fd);
	return rc;
}

int rung__stage_dir_acquire(struct rung__stage_dir *dir, struct rung__journal *journal)
{
	int rc = 0;

	for (int i = 0; i < ACQUIRE_TRIES && rc == 0 && dir->fd < 0; i++)
		rc = acquire_once(dir, journal);
	if (rc == 0 && dir->fd < 0)
		return rung__fail(RUNG_E_BUSY,
		                  "%s: other processes keep creating and removing it, so it cannot "
		                  "be locked; choose another output",
		                  dir->partial_path);
	/* checked under the lock, so that no other run can be between its two renames. Only part 0
	 * renames, and locks OUT.partial */
	if (rc == 0 && dir->part == 0)
		rc = rung__stage_dir_resolve_aside(dir);
	if (rc == 0)
		rc = rung__stage_dir_check_out(dir, NULL);
	/* checked again for a dataset that appeared after the first check */
	return rc == 0 && dir->staged && !dir->force ? fail_exists(dir) : rc;
}

int rung__stage_dir_open_out(struct rung__stage_dir *dir)
{
	dir->fd =
		openat(dir->parent_fd, dir->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (dir->fd < 0)
		return rung__fail_errno(errno, "%s: cannot be opened", dir->path);
	dir->published = holds(dir, dir->name, RUNG__JOURNAL);
	return dir->published ? rung__stage_dir_lock(dir->fd, dir->path) : 0;
}

void rung__stage_dir_close_out(struct rung__stage_dir *dir)
{
	if (dir->fd >= 0)
		close(dir->fd);
	dir->fd = -1;
	dir->published = false;
}

void rung__stage_dir_fini(struct rung__stage_dir *dir)
{
	const uint64_t least = rung_last_error_min_bytes();
	char text[RUNG__ERROR_BYTES];

	/* removing the files can fail too; the caller gets the original message */
	snprintf(text, sizeof(text), "%s", rung_last_error());
	if (dir->fd >= 0 && !dir->keep && rung__stage_dir_still_partial(dir, dir->fd) &&
	    rung__stage_entries_remove(dir->fd, dir->partial_path) == 0)
		unlinkat(dir->parent_fd, dir->partial_name, AT_REMOVEDIR);
	if (least)
		rung__fail_min_bytes(least, "%s", text);
	else
		rung__fail_text(0, text);
	if (dir->fd >= 0)
		close(dir->fd);
	if (dir->parent_fd >= 0)
		close(dir->parent_fd);
	rung__free(dir->path);
	rung__free(dir->partial_path);
	rung__free(dir->aside_path);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Renaming the complete folder, and removing what it replaces, or what a run that was killed at
 * that point left. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "dataset/manifest.h"
#include "file/file.h"
#include "folder/stage_dir.h"
#include "folder/stage_entries.h"
#include "folder/stage_publish.h"
#include "folder/stage_step.h"

bool rung__stage_plain_rename;

int rung__stage_dir_sync_parent(const struct rung__stage_dir *dir)
{
	rung__stage_step("sync parent");
	return rung__sync_folder(dir->parent_fd, dir->path);
}

/* Remove the replaced folder, or record in `dir->left` that it remains. The next run tries
 * again. */
static void remove_replaced(struct rung__stage_dir *dir, int fd, const char *name, const char *path)
{
	int rc = rung__stage_entries_remove(fd, path);

	rung__stage_step("rmdir");
	if (rc == 0 && unlinkat(dir->parent_fd, name, AT_REMOVEDIR) < 0)
		rc = rung__fail_errno(errno, "%s: cannot be removed", path);
	if (rc < 0)
		snprintf(dir->left, sizeof(dir->left),
		         "%s: the dataset that was replaced is left there, remove it: %.*s", path,
		         (int)sizeof(dir->left) / 2, rung_last_error());
}

static bool rename2(const struct rung__stage_dir *dir, unsigned flags)
{
	if (rung__stage_plain_rename) {
		errno = EINVAL;
		return false;
	}
	return renameat2(dir->parent_fd, dir->partial_name, dir->parent_fd, dir->name, flags) == 0;
}

static bool flags_unknown(int err)
{
	return err == EINVAL || err == ENOSYS || err == ENOTSUP;
}

static int publish_new(struct rung__stage_dir *dir)
{
	struct stat st;

	rung__stage_step("rename");
	if (rename2(dir, RENAME_NOREPLACE))
		return 0;
	if (flags_unknown(errno) &&
	    fstatat(dir->parent_fd, dir->name, &st, AT_SYMLINK_NOFOLLOW) < 0 &&
	    renameat(dir->parent_fd, dir->partial_name, dir->parent_fd, dir->name) == 0)
		return 0;
	return rung__fail_errno(flags_unknown(errno) ? EEXIST : errno,
	                        "%s: cannot be given its name", dir->path);
}

/* Put the old folder aside, the new one in its place. */
static int swap_plainly(struct rung__stage_dir *dir)
{
	int err;

	rung__stage_step("rename aside");
	if (renameat(dir->parent_fd, dir->name, dir->parent_fd, dir->aside_name) < 0)
		return rung__fail_errno(errno, "%s: cannot be moved aside", dir->path);
	rung__stage_step("rename");
	if (renameat(dir->parent_fd, dir->partial_name, dir->parent_fd, dir->name) == 0)
		return 0;
	err = errno;
	renameat(dir->parent_fd, dir->aside_name, dir->parent_fd, dir->name);
	return rung__fail_errno(err, "%s: cannot be given its name", dir->path);
}

/* `old` is OUT, to be replaced; locked, so that no process uses it once its name is OUT.partial. */
static int publish_over(struct rung__stage_dir *dir, int old)
{
	const char *old_name = dir->partial_name, *old_path = dir->partial_path;
	int rc = rung__stage_dir_lock(old, dir->path);

	if (rc < 0)
		return rc;
	rung__stage_step("exchange");
	if (!rename2(dir, RENAME_EXCHANGE)) {
		if (!flags_unknown(errno))
			return rung__fail_errno(errno, "%s: cannot be replaced", dir->path);
		rc = swap_plainly(dir);
		if (rc < 0)
			return rc;
		old_name = dir->aside_name;
		old_path = dir->aside_path;
	}
	rc = rung__sync_folder(dir->parent_fd, dir->path);
	if (rc == 0) /* a power failure could bring the old names back */
		remove_replaced(dir, old, old_name, old_path);
	return rc;
}

static int drop_journal(const struct rung__stage_dir *dir)
{
	int rc = rung__stage_entry_remove(dir->fd, dir->path, RUNG__JOURNAL);

	return rc < 0 ? rc : rung__sync_folder(dir->fd, dir->path);
}

/* A replaced dataset has the name OUT.partial; no process uses it. Anything else with that name is
 * not touched. */
static void drop_replaced(struct rung__stage_dir *dir)
{
	int fd = openat(dir->parent_fd, dir->partial_name,
	                O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;

	if (fd < 0)
		return;
	if (flock(fd, LOCK_EX | LOCK_NB) == 0 &&
	    fstatat(fd, RUNG__JOURNAL, &st, AT_SYMLINK_NOFOLLOW) < 0)
		remove_replaced(dir, fd, dir->partial_name, dir->partial_path);
	close(fd);
}

int rung__stage_dir_finish(struct rung__stage_dir *dir)
{
	int rc = drop_journal(dir);

	if (rc < 0)
		return rc;
	drop_replaced(dir);
	return rung__stage_dir_resolve_aside(dir);
}

int rung__stage_dir_publish(struct rung__stage_dir *dir)
{
	int old = -1, rc = rung__stage_dir_check_out(dir, &old);

	if (rc < 0)
		return rc;
	if (!rung__stage_dir_still_partial(dir, dir->fd))
		rc = rung__fail(RUNG_E_NOENT,
		                "%s: was moved or removed while it was staged; put it back and "
		                "continue with --resume",
		                dir->partial_path);
	rung__stage_step("rename manifest");
	if (rc == 0 && renameat(dir->fd, RUNG__MANIFEST_PARTIAL, dir->fd, RUNG__MANIFEST) < 0)
		rc = rung__fail_errno(errno, "%s/" RUNG__MANIFEST, dir->partial_path);
	if (rc == 0)
		rc = rung__sync_folder(dir->fd, dir->partial_path);
	if (rc == 0)
		rc = dir->replaces ? publish_over(dir, old) : publish_new(dir);
	if (rc == 0) {
		rc = rung__stage_dir_sync_parent(dir);
		if (rc == 0)
			rc = drop_journal(dir); /* of OUT */
		close(dir->fd);
		dir->fd = -1;
	}
	if (old >= 0)
		close(old);
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publication: one rename gives the complete OUT.partial the name OUT. renameat2() exchanges the
 * two names in one step if OUT is to be replaced. File systems without its flags need two renames,
 * with OUT.replaced.partial in between. Each folder is synced before the next step relies on it.
 * Then the folders of parts are removed, and the journal last, so that a later run can always
 * continue after a kill.
 */
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
#include "folder/stage_part.h"
#include "folder/stage_publish.h"
#include "folder/stage_step.h"

bool rung__stage_plain_rename;

static int sync_parent(const struct rung__stage_dir *dir)
{
	rung__stage_step("sync parent");
	return rung__sync_folder(dir->parent_fd, dir->path);
}

int rung__stage_dir_keep(struct rung__stage_dir *dir, struct rung__journal *journal)
{
	int rc = sync_parent(dir);

	if (rc == 0)
		rc = rung__journal_begin(journal, dir->fd);
	if (rc == 0)
		rc = rung__journal_commit(journal, dir->fd);
	dir->keep |= rc == 0;
	return rc;
}

/* Remove the replaced folder. If that fails, record in dir->left that it remains: this is not a
 * failure of staging, because the new dataset is in place. The next run tries again. */
static void remove_replaced(struct rung__stage_dir *dir, int fd, const char *name, const char *path)
{
	int rc = rung__stage_entries_remove(fd, path);

	rung__stage_step("rmdir");
	if (rc == 0 && unlinkat(dir->parent_fd, name, AT_REMOVEDIR) < 0)
		rc = rung__fail_errno(errno, "%s: cannot be removed", path);
	if (rc < 0)
		snprintf(dir->left, sizeof(dir->left),
		         "%s: the replaced dataset could not be removed; remove it: %.*s", path,
		         (int)sizeof(dir->left) / 2, rung_last_error());
}

/* Rename OUT.partial to OUT with `flags`. @return false with errno */
static bool rename2(const struct rung__stage_dir *dir, unsigned flags)
{
	if (rung__stage_plain_rename) {
		errno = EINVAL;
		return false;
	}
	return renameat2(dir->parent_fd, dir->partial_name, dir->parent_fd, dir->name, flags) == 0;
}

/* Whether renameat2() failed because the kernel or the file system does not know its flags. */
static bool flags_unknown(int err)
{
	return err == EINVAL || err == ENOSYS || err == ENOTSUP;
}

/* Give OUT.partial a name that must not exist yet. */
static int publish_new(struct rung__stage_dir *dir)
{
	struct stat st;

	rung__stage_step("rename");
	if (rename2(dir, RENAME_NOREPLACE))
		return 0;
	/* Not atomic, but the loss is small: a plain rename replaces a folder only if it is
	 * empty. */
	if (flags_unknown(errno) &&
	    fstatat(dir->parent_fd, dir->name, &st, AT_SYMLINK_NOFOLLOW) < 0 &&
	    renameat(dir->parent_fd, dir->partial_name, dir->parent_fd, dir->name) == 0)
		return 0;
	return rung__fail_errno(flags_unknown(errno) ? EEXIST : errno,
	                        "%s: the finished folder cannot be renamed to this name",
	                        dir->path);
}

/* Move the old folder aside, and the new one to its place. Between the two renames OUT does not
 * exist: rung__stage_dir_resolve_aside() restores it if the run is killed there. */
static int swap_plainly(struct rung__stage_dir *dir)
{
	int err;

	rung__stage_step("rename aside");
	if (renameat(dir->parent_fd, dir->name, dir->parent_fd, dir->aside_name) < 0)
		return rung__fail_errno(errno,
		                        "%s: the old folder cannot be moved aside for the new one",
		                        dir->path);
	rung__stage_step("rename");
	if (renameat(dir->parent_fd, dir->partial_name, dir->parent_fd, dir->name) == 0)
		return 0;
	err = errno;
	renameat(dir->parent_fd, dir->aside_name, dir->parent_fd, dir->name);
	return rung__fail_errno(err, "%s: the finished folder cannot be renamed to this name",
	                        dir->path);
}

/* `old` is OUT, which is to be replaced. It is locked first: after the exchange its name is
 * OUT.partial, and another run must not acquire that folder before it is removed. */
static int publish_over(struct rung__stage_dir *dir, int old)
{
	const char *old_name = dir->partial_name, *old_path = dir->partial_path;
	int rc = rung__stage_dir_lock(old, dir->path);

	if (rc < 0)
		return rc;
	rung__stage_step("exchange");
	if (!rename2(dir, RENAME_EXCHANGE)) {
		if (!flags_unknown(errno))
			return rung__fail_errno(errno, "%s: the old folder cannot be replaced",
			                        dir->path);
		rc = swap_plainly(dir);
		if (rc < 0)
			return rc;
		old_name = dir->aside_name;
		old_path = dir->aside_path;
	}
	/* Without this sync a power failure could restore the old names after the old files were
	 * removed. */
	rc = rung__sync_folder(dir->parent_fd, dir->path);
	if (rc == 0)
		remove_replaced(dir, old, old_name, old_path);
	return rc;
}

/* Remove the journal from dir->fd, which is OUT by now. This comes last: without a journal no run
 * completes the clean-up. */
static int drop_journal(const struct rung__stage_dir *dir)
{
	int rc = rung__stage_entry_remove(dir->fd, dir->path, RUNG__JOURNAL);

	return rc < 0 ? rc : rung__sync_folder(dir->fd, dir->path);
}

/* Remove a replaced dataset, which has the name OUT.partial and is locked by no process. A folder
 * with a journal is the unfinished work of another run, and is not touched. */
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
	int rc;

	rung__stage_parts_remove(dir);
	rc = drop_journal(dir);
	if (rc < 0)
		return rc;
	drop_replaced(dir);
	return rung__stage_dir_resolve_aside(dir);
}

int rung__stage_dir_publish(struct rung__stage_dir *dir)
{
	/* check again: OUT may have appeared or changed while the data were written */
	int old = -1, rc = rung__stage_dir_check_out(dir, &old);

	if (rc < 0)
		return rc;
	if (!rung__stage_dir_still_partial(dir, dir->fd))
		rc = rung__fail(RUNG_E_NOENT,
		                "%s: was moved or removed during staging; put it back and "
		                "continue with --resume",
		                dir->partial_path);
	/* the manifest gets its name before the folder does: OUT never exists without one */
	rung__stage_step("rename manifest");
	if (rc == 0 && renameat(dir->fd, RUNG__MANIFEST_PARTIAL, dir->fd, RUNG__MANIFEST) < 0)
		rc = rung__fail_errno(errno, "%s/" RUNG__MANIFEST, dir->partial_path);
	if (rc == 0)
		rc = rung__sync_folder(dir->fd, dir->partial_path);
	if (rc == 0)
		rc = dir->replaces ? publish_over(dir, old) : publish_new(dir);
	if (rc == 0) {
		rc = sync_parent(dir);
		if (rc == 0)
			rung__stage_parts_remove(dir);
		if (rc == 0)
			rc = drop_journal(dir);
		/* closed here, because rung__stage_dir_fini() must not remove the published
		 * folder */
		close(dir->fd);
		dir->fd = -1;
	}
	if (old >= 0)
		close(old);
	return rc;
}

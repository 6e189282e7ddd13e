/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder that staging writes. Whatever moment the process is killed at, OUT is absent, the old dataset or the new one:
 * files are made and synced in OUT.partial, its manifest gets its name last, and one rename makes OUT of it. The lock is on
 * the folder itself (flock), so it ends with the process and moves with the folder. The journal moves with it, too, and is removed then:
 * killed in between, the next run finds it in OUT and knows that this was all that was left to do.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "internal.h"
#include "stage_private.h"

#define ACQUIRE_TRIES 8 /* each lost to a process that removed or renamed the folder in between */
#define FORMAT_LINE   "{\n \"format\": \"" RUNG__FORMAT_NAME "\""

void (*rung__stage_step_hook)(const char *step);
bool rung__stage_plain_rename;

static int make_paths(struct rung__stage_dir *dir, const char *out_dir)
{
	size_t len = strlen(out_dir);

	while (len > 1 && out_dir[len - 1] == '/')
		len--;
	dir->path = rung__format("%.*s", (int)len, out_dir);
	dir->partial_path = rung__format("%.*s.partial", (int)len, out_dir);
	dir->aside_path = rung__format("%.*s.replaced.partial", (int)len, out_dir);
	if (!dir->path || !dir->partial_path || !dir->aside_path)
		return rung__fail(RUNG_E_NOMEM, "%s", out_dir);
	while (len > 0 && out_dir[len - 1] != '/')
		len--;
	dir->name = dir->path + len;
	dir->partial_name = dir->partial_path + len;
	dir->aside_name = dir->aside_path + len;
	return 0;
}

static int check_name(const struct rung__stage_dir *dir)
{
	size_t len = strlen(dir->name);

	if (len == 0 || strcmp(dir->name, ".") == 0 || strcmp(dir->name, "..") == 0)
		return rung__fail(RUNG_E_INVAL, "output '%s': names no new folder; give one that does not exist yet", dir->path);
	if (len >= 8 && strcmp(dir->name + len - 8, ".partial") == 0)
		return rung__fail(RUNG_E_INVAL,
				  "output '%s': names ending in .partial are kept for unfinished work; choose another",
				  dir->path);
	return 0;
}

static int open_parent(struct rung__stage_dir *dir)
{
	size_t len = (size_t)(dir->name - dir->path);
	char *parent = len > 0 ? rung__format("%.*s", (int)len, dir->path) : rung__format(".");
	int rc = 0;

	if (!parent)
		return rung__fail(RUNG_E_NOMEM, "%s", dir->path);
	dir->parent_fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir->parent_fd < 0)
		rc = rung__fail_errno(errno, "output '%s': its parent folder %s; make it first", dir->path, parent);
	else if (faccessat(dir->parent_fd, ".", W_OK | X_OK, 0) < 0)
		rc = rung__fail_errno(errno, "output '%s': its parent folder %s cannot be written to", dir->path, parent);
	rung__free(parent);
	return rc;
}

/* Temporary files that have a name for a moment, or while they are written: edges in files make them. */
static bool is_temporary(const char *name)
{
	return strcmp(name, RUNG__INDPTR ".partial") == 0 || strcmp(name, RUNG__INDICES ".partial") == 0 ||
	       (strncmp(name, "rung-", 5) == 0 && strlen(name) == 5 + 6);
}

static bool is_features(const char *name)
{
	const size_t prefix = strlen(RUNG__FEATURES_PREFIX);

	return strncmp(name, RUNG__FEATURES_PREFIX, prefix) == 0 && strspn(name + prefix, "0123456789") == 3 &&
	       strcmp(name + prefix + 3, ".npy") == 0;
}

/* prefix, NAME, ".npy" */
static bool is_named(const char *name, const char *prefix)
{
	const size_t prefix_len = strlen(prefix), len = strlen(name), end_len = strlen(".npy");
	char inner[RUNG__SPLIT_NAME_BYTES];

	if (len < prefix_len + end_len || len - prefix_len - end_len >= sizeof(inner) || strncmp(name, prefix, prefix_len) != 0 ||
	    strcmp(name + len - end_len, ".npy") != 0)
		return false;
	snprintf(inner, sizeof(inner), "%.*s", (int)(len - prefix_len - end_len), name + prefix_len);
	return rung__split_name_ok(inner);
}

static bool is_ours(const char *name)
{
	static const char *const fixed[] = { RUNG__MANIFEST,       RUNG__MANIFEST_PARTIAL, RUNG__CHECKSUMS,
					     RUNG__INDPTR,         RUNG__INDICES,
					     RUNG__VERTEX_OF_RANK, RUNG__RANK_OF_VERTEX,   RUNG__SCORE,
					     RUNG__LABELS,         RUNG__JOURNAL };

	for (size_t i = 0; i < RUNG__ARRAY_LEN(fixed); i++) {
		if (strcmp(name, fixed[i]) == 0)
			return true;
	}
	return is_temporary(name) || is_features(name) || is_named(name, RUNG__SPLIT_PREFIX) || is_named(name, RUNG__ARRAY_PREFIX);
}

/* Call `each` for the entries of a folder. */
static int for_entries(int fd, const char *path, int (*each)(int fd, const char *path, const char *name, void *ctx), void *ctx)
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

static int check_entry(int fd, const char *path, const char *name, void *ctx)
{
	char target[PATH_MAX];
	struct stat st;

	(void)ctx;
	if (is_ours(name) && fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    (S_ISREG(st.st_mode) || (S_ISLNK(st.st_mode) && is_features(name) && rung__stripe_link_ok(fd, name, target))))
		return 0;
	return rung__fail(RUNG_E_EXIST, "%s: holds '%s', which rung did not write; move it away or choose another output", path,
			  name);
}

static int remove_entry(int fd, const char *path, const char *name, void *ctx)
{
	int rc;

	(void)ctx;
	rung__stage_step("unlink");
	rc = is_features(name) ? rung__stripe_remove(fd, name) : 0;
	if (rc < 0)
		return rc;
	if (unlinkat(fd, name, 0) < 0 && errno != ENOENT)
		return rung__fail_errno(errno, "%s/%s: cannot be removed", path, name);
	return 0;
}

/* Remove all files, the manifest first: what is left of it does not open. */
static int empty(int fd, const char *path)
{
	int rc = for_entries(fd, path, check_entry, NULL);

	if (rc == 0)
		rc = remove_entry(fd, path, RUNG__MANIFEST, NULL);
	return rc < 0 ? rc : for_entries(fd, path, remove_entry, NULL);
}

/* Is the folder a dataset of any version, even a damaged one? Only such a one is replaced. */
static int check_replaceable(int fd, const char *path)
{
	char line[sizeof(FORMAT_LINE)];
	int file = openat(fd, RUNG__MANIFEST, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	ssize_t got = file >= 0 ? pread(file, line, sizeof(FORMAT_LINE) - 1, 0) : -1;

	if (file >= 0)
		close(file);
	if (got != (ssize_t)sizeof(FORMAT_LINE) - 1 || memcmp(line, FORMAT_LINE, sizeof(FORMAT_LINE) - 1) != 0)
		return rung__fail(RUNG_E_EXIST,
				  "%s: exists and is no staged dataset, so it is not replaced; choose another output", path);
	return for_entries(fd, path, check_entry, NULL);
}

/* An OUT that was just given its name. */
static bool holds_journal(const struct rung__stage_dir *dir)
{
	char path[NAME_MAX + sizeof("/" RUNG__JOURNAL)];
	struct stat st;

	snprintf(path, sizeof(path), "%s/" RUNG__JOURNAL, dir->name);
	return fstatat(dir->parent_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Look at OUT. Sets `replaces` and `published`. @param fd_out  OUT when it is to be replaced, else -1; NULL: not wanted */
static int check_out(struct rung__stage_dir *dir, int *fd_out)
{
	struct stat st;
	int fd, rc;

	dir->replaces = dir->published = false;
	if (fd_out)
		*fd_out = -1;
	if (fstatat(dir->parent_fd, dir->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : rung__fail_errno(errno, "%s", dir->path);
	if (dir->resume && holds_journal(dir)) {
		dir->published = true;
		return 0;
	}
	if (!dir->force)
		return rung__fail(RUNG_E_EXIST, "%s: exists; choose another output, or replace it with --force", dir->path);
	fd = openat(dir->parent_fd, dir->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return rung__fail(RUNG_E_EXIST, "%s: exists and is no folder, so it is not replaced; choose another output",
				  dir->path);
	rc = check_replaceable(fd, dir->path);
	if (rc < 0 || !fd_out)
		close(fd);
	else
		*fd_out = fd;
	dir->replaces = rc == 0;
	return rc;
}

int rung__stage_dir_init(struct rung__stage_dir *dir, const char *out_dir, bool force, bool resume)
{
	int rc;

	*dir = (struct rung__stage_dir){ .parent_fd = -1, .fd = -1, .force = force, .resume = resume };
	if ((rc = make_paths(dir, out_dir)) < 0 || (rc = check_name(dir)) < 0 || (rc = open_parent(dir)) < 0)
		return rc;
	return check_out(dir, NULL);
}

static int lock_folder(int fd, const char *path)
{
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	if (errno == EWOULDBLOCK)
		return rung__fail(RUNG_E_BUSY, "%s: another process is staging into it; wait for it, or choose another output",
				  path);
	return rung__fail_errno(errno, "%s: cannot be locked", path);
}

/* Is the folder still under its name? Its holder may have renamed or removed it before the lock was ours. */
static bool still_named(int parent_fd, const char *name, int fd)
{
	struct stat named, held;

	return fstatat(parent_fd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && fstat(fd, &held) == 0 &&
	       named.st_ino == held.st_ino && named.st_dev == held.st_dev;
}

/* What an earlier run left: is it worth keeping? */
static int settle_leftover(struct rung__stage_dir *dir, int fd, struct rung__journal *journal)
{
	int rc = for_entries(fd, dir->partial_path, check_entry, NULL);

	rung__journal_fini(journal);
	if (rc == 0)
		rc = rung__journal_read(journal, fd, dir->partial_path);
	if (rc < 0)
		return rc;
	dir->keep = rung__journal_last(journal, RUNG__JOURNAL_RANKED) != NULL;
	if (dir->keep && dir->resume)
		return 0;
	if (dir->keep && !dir->force)
		return rung__fail(RUNG_E_EXIST, "%s: holds the half-done work of a run that was stopped; finish it with --resume, or "
				  "throw it away and begin anew with --force", dir->partial_path);
	dir->keep = false;
	rung__journal_fini(journal);
	rc = empty(fd, dir->partial_path);
	return rc < 0 ? rc : rung__journal_read(journal, fd, dir->partial_path);
}

/* @return 0 with fd set or, when the name was lost meanwhile, with fd -1 */
static int acquire_once(struct rung__stage_dir *dir, struct rung__journal *journal)
{
	int fd, rc;

	rung__stage_step("mkdir");
	if (mkdirat(dir->parent_fd, dir->partial_name, 0777) < 0 && errno != EEXIST)
		return rung__fail_errno(errno, "%s: cannot be made", dir->partial_path);
	fd = openat(dir->parent_fd, dir->partial_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0)
		return rung__fail(RUNG_E_EXIST, "%s: exists and is no folder; move it away or choose another output",
				  dir->partial_path);
	rc = lock_folder(fd, dir->partial_path);
	if (rc == 0 && still_named(dir->parent_fd, dir->partial_name, fd)) {
		rc = settle_leftover(dir, fd, journal);
		if (rc == 0) {
			dir->fd = fd;
			return 0;
		}
		unlinkat(dir->parent_fd, dir->partial_name, AT_REMOVEDIR); /* if it is empty: we made it */
	}
	close(fd);
	return rc;
}

/* A folder set aside by a run that was killed between its two renames: back in place, or done with. */
static int settle_aside(struct rung__stage_dir *dir)
{
	struct stat st;
	int fd = openat(dir->parent_fd, dir->aside_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW), rc = 0;

	if (fd < 0)
		return 0;
	rung__stage_step("settle");
	if (fstatat(dir->parent_fd, dir->name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (renameat(dir->parent_fd, dir->aside_name, dir->parent_fd, dir->name) < 0)
			rc = rung__fail_errno(errno, "%s: cannot be renamed back to %s", dir->aside_path, dir->path);
	} else {
		rc = empty(fd, dir->aside_path);
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
		return rung__fail(RUNG_E_BUSY, "%s: comes and goes, other processes are staging into it; choose another output",
				  dir->partial_path);
	if (rc == 0)
		rc = settle_aside(dir);
	return rc < 0 ? rc : check_out(dir, NULL);
}

int rung__stage_dir_acquire_published(struct rung__stage_dir *dir, struct rung__journal *journal)
{
	int rc;

	dir->keep = true;
	dir->fd = openat(dir->parent_fd, dir->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (dir->fd < 0)
		return rung__fail_errno(errno, "%s: cannot be opened", dir->path);
	rc = lock_folder(dir->fd, dir->path);
	return rc < 0 ? rc : rung__journal_read(journal, dir->fd, dir->path);
}

static int sync_folder(int fd, const char *path)
{
	/* EINVAL: a file system without it, whose renames are as durable as they get */
	if (fsync(fd) < 0 && errno != EINVAL)
		return rung__fail_errno(errno, "%s: cannot be synced to the device", path);
	return 0;
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
	if (flags_unknown(errno) && fstatat(dir->parent_fd, dir->name, &st, AT_SYMLINK_NOFOLLOW) < 0 &&
	    renameat(dir->parent_fd, dir->partial_name, dir->parent_fd, dir->name) == 0)
		return 0;
	return rung__fail_errno(flags_unknown(errno) ? EEXIST : errno, "%s: cannot be given its name", dir->path);
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

/* `old` is OUT, to be replaced; locked, so that nobody works in it once it is called OUT.partial. */
static int publish_over(struct rung__stage_dir *dir, int old)
{
	const char *old_name = dir->partial_name, *old_path = dir->partial_path;
	int rc = lock_folder(old, dir->path);

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
	rc = sync_folder(dir->parent_fd, dir->path);
	/* The new dataset is in place: what cannot be removed of the old one is left to the next run. */
	if (empty(old, old_path) == 0) {
		rung__stage_step("rmdir");
		unlinkat(dir->parent_fd, old_name, AT_REMOVEDIR);
	}
	return rc;
}

static int drop_journal(const struct rung__stage_dir *dir)
{
	int rc = remove_entry(dir->fd, dir->path, RUNG__JOURNAL, NULL);

	return rc < 0 ? rc : sync_folder(dir->fd, dir->path);
}

/* A dataset that was replaced has the name OUT.partial; nobody works in it, and what else has that name is left alone. */
static void drop_replaced(const struct rung__stage_dir *dir)
{
	int fd = openat(dir->parent_fd, dir->partial_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;

	if (fd < 0)
		return;
	if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstatat(fd, RUNG__JOURNAL, &st, AT_SYMLINK_NOFOLLOW) < 0 &&
	    empty(fd, dir->partial_path) == 0)
		unlinkat(dir->parent_fd, dir->partial_name, AT_REMOVEDIR);
	close(fd);
}

int rung__stage_dir_finish(struct rung__stage_dir *dir)
{
	int rc = drop_journal(dir);

	if (rc < 0)
		return rc;
	drop_replaced(dir);
	return settle_aside(dir);
}

int rung__stage_dir_publish(struct rung__stage_dir *dir)
{
	int old = -1, rc = check_out(dir, &old);

	if (rc < 0)
		return rc;
	rung__stage_step("rename manifest");
	if (renameat(dir->fd, RUNG__MANIFEST_PARTIAL, dir->fd, RUNG__MANIFEST) < 0)
		rc = rung__fail_errno(errno, "%s/" RUNG__MANIFEST, dir->partial_path);
	else
		rc = sync_folder(dir->fd, dir->partial_path);
	if (rc == 0)
		rc = dir->replaces ? publish_over(dir, old) : publish_new(dir);
	if (rc == 0) {
		rung__stage_step("sync parent");
		rc = sync_folder(dir->parent_fd, dir->path);
		if (rc == 0)
			rc = drop_journal(dir); /* of OUT */
		close(dir->fd);
		dir->fd = -1;
	}
	if (old >= 0)
		close(old);
	return rc;
}

void rung__stage_dir_fini(struct rung__stage_dir *dir)
{
	const uint64_t least = rung_last_error_least();
	char text[RUNG__ERROR_BYTES];

	/* the failure that led here is what the caller is to read */
	snprintf(text, sizeof(text), "%s", rung_last_error());
	if (dir->fd >= 0 && !dir->keep && still_named(dir->parent_fd, dir->partial_name, dir->fd) &&
	    empty(dir->fd, dir->partial_path) == 0)
		unlinkat(dir->parent_fd, dir->partial_name, AT_REMOVEDIR);
	if (least)
		rung__fail_least(least, "%s", text);
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

static bool is_finished(const struct rung__journal *journal, const char *name)
{
	const bool features = strncmp(name, RUNG__FEATURES_PREFIX, strlen(RUNG__FEATURES_PREFIX)) == 0;
	const char *first = features ? RUNG__FEATURES : name;   /* lines of rows name the first of their files */

	if (strcmp(name, RUNG__INDPTR) == 0)   /* the two are made together */
		name = RUNG__INDICES;
	return strcmp(name, RUNG__JOURNAL) == 0 || rung__journal_last_of(journal, "file", name) ||
	       rung__journal_last_of(journal, "dealt", first) || rung__journal_last_of(journal, "rows", first);
}

static int remove_unfinished(int fd, const char *path, const char *name, void *ctx)
{
	return is_finished(ctx, name) ? 0 : remove_entry(fd, path, name, NULL);
}

int rung__stage_dir_drop_unfinished(struct rung__stage_dir *dir, struct rung__journal *journal)
{
	return for_entries(dir->fd, dir->partial_path, remove_unfinished, journal);
}

static int add_taken(int fd, const char *path, const char *name, void *ctx)
{
	uint64_t *bytes = ctx;
	struct stat st;

	(void)path;
	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
		*bytes += (uint64_t)st.st_blocks * 512;
	return 0;
}

int rung__stage_dir_free_bytes(const struct rung__stage_dir *dir, uint64_t *free_out)
{
	struct statvfs vfs;
	uint64_t taken = 0;
	int rc;

	if (fstatvfs(dir->parent_fd, &vfs) < 0)
		return rung__fail_errno(errno, "%s: free space is not known", dir->path);
	rc = dir->fd >= 0 ? for_entries(dir->fd, dir->partial_path, add_taken, &taken) : 0;
	if (!rung__mul(vfs.f_bavail, vfs.f_frsize, free_out) || !rung__add(*free_out, taken, free_out))
		*free_out = UINT64_MAX;
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Features files in other folders, on other devices: each is named NAME.features.NNN-DIGITS.npy,
 * and the dataset's folder has a symbolic link to it. The link is created and synced first, so that
 * every file can be found and removed through the folder. The digits are random, so a dataset that
 * is to be replaced keeps its files until the new one is complete.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/random.h"
#include "dataset/manifest.h"
#include "file/direct.h"
#include "file/file.h"
#include "folder/stage_step.h"
#include "folder/stage_stripe.h"

#define DIGITS      16u
#define ENDING      ".npy"
#define NAME_FORMAT "%s.features.%03" PRIu32 "-%016" PRIx64 ENDING

/* Whether `path` is absolute and its last part is the name of a striped features file. The target
 * of a link is removed with the dataset, so any other path must be rejected. */
static bool is_stripe(const char *path)
{
	const char *name = strrchr(path, '/'),
		   *at = name ? strstr(name, "." RUNG__FEATURES_PREFIX) : NULL, *next = at;

	/* the last occurrence: the dataset's own name may contain the prefix as well */
	while ((next = next ? strstr(next + 1, "." RUNG__FEATURES_PREFIX) : NULL) != NULL)
		at = next;
	if (path[0] != '/' || !at)
		return false;
	at += strlen("." RUNG__FEATURES_PREFIX);
	return strspn(at, "0123456789") == 3 && at[3] == '-' &&
	       strspn(at + 4, "0123456789abcdef") == DIGITS && strcmp(at + 4 + DIGITS, ENDING) == 0;
}

bool rung__stripe_link_ok(int dir_fd, const char *name, char target_out[PATH_MAX])
{
	const ssize_t bytes = readlinkat(dir_fd, name, target_out, PATH_MAX - 1);

	if (bytes <= 0)
		return false;
	target_out[bytes] = '\0';
	return is_stripe(target_out);
}

int rung__stripe_remove(int dir_fd, const char *name)
{
	char target[PATH_MAX];

	if (!rung__stripe_link_ok(dir_fd, name, target))
		return 0;
	/* ENOENT: a run was killed between creating link and file, or the file was removed
	 * before */
	if (unlink(target) < 0 && errno != ENOENT)
		return rung__fail_errno(errno, "%s: cannot be removed", target);
	return 0;
}

/* Sync the folder at `path`, so that the name of a new file in it survives a power failure. */
static int sync_dir(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc;

	if (fd < 0)
		return rung__fail_errno(errno, "%s: cannot be synced to the device", path);
	rc = rung__sync_folder(fd, path);
	close(fd);
	return rc;
}

/* Create the link, then the file. @param folder  its real path: the link must be valid from every
 * working directory. @return descriptor, or a failure */
static int make_in(const struct rung__stage_dir *dir, const char *folder, uint32_t file,
                   const char *name)
{
	const uint64_t draw = rung__mix64(rung__now_ns() ^ (uint64_t)getpid() << 32 ^ file);
	char *target = rung__format("%s/" NAME_FORMAT, folder, dir->name, file, draw);
	int fd = -1;

	if (!target)
		return rung__fail(RUNG_E_NOMEM, "%s", name);
	rung__stage_step("link");
	if (symlinkat(target, dir->fd, name) < 0 || (fsync(dir->fd) < 0 && errno != EINVAL)) {
		fd = rung__fail_errno(errno, "%s/%s: the link cannot be created", dir->partial_path,
		                      name);
	} else {
		rung__stage_step("create");
		fd = open(target, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
		if (fd < 0)
			fd = rung__fail_errno(errno, "%s: cannot be created", target);
	}
	rung__free(target);
	return fd;
}

int rung__stripe_make(const struct rung__stage_dir *dir, const char *folder, uint32_t file,
                      const char *name)
{
	char *real = realpath(folder, NULL);
	int fd, rc;

	if (!real)
		return rung__fail_errno(errno, "%s: this folder for stripes cannot be found",
		                        folder);
	fd = make_in(dir, real, file, name);
	rc = fd < 0 ? fd : sync_dir(real);
	free(real);
	if (rc < 0 && fd >= 0)
		close(fd);
	return rc < 0 ? rc : fd;
}

/* The names of striped files are longer than the name of the dataset. Names that are too long are
 * reported here, before the graph is read. */
static int check_name(const struct rung__stage_dir *dir, const char *given, const char *real)
{
	const int bytes = snprintf(NULL, 0, NAME_FORMAT, dir->name, 0u, UINT64_MAX),
		  more = bytes - (int)strlen(dir->name);
	const long name_max = pathconf(real, _PC_NAME_MAX);

	if (name_max > 0 && bytes > name_max)
		return rung__fail(RUNG_E_INVAL,
		                  "output '%s': its name has %zu bytes; with stripes in %s, at "
		                  "most %ld are allowed; choose a shorter name",
		                  dir->path, strlen(dir->name), given, name_max - more);
	if (strlen(real) + 1 + (size_t)bytes >= PATH_MAX)
		return rung__fail(RUNG_E_INVAL,
		                  "%s: its path has %zu bytes, so a link into it would exceed %d "
		                  "bytes; give a folder with a shorter path",
		                  given, strlen(real), PATH_MAX - 1);
	return 0;
}

static int check_folder(const struct rung__stage_dir *dir, const char *given)
{
	char *real = realpath(given, NULL);
	struct stat st;
	int rc;

	if (!real || stat(real, &st) < 0)
		rc = rung__fail_errno(
			errno, "%s: this folder for stripes is not writable; give a writable one",
			given);
	else if (!S_ISDIR(st.st_mode))
		rc = rung__fail(RUNG_E_INVAL, "%s: is not a folder; give the path of a folder",
		                given);
	else
		rc = check_name(dir, given, real);
	free(real);
	return rc;
}

int rung__stripes_check_folders(const struct rung__stage_dir *dir, const char *const *folders,
                                size_t folder_count)
{
	int rc = 0;

	for (size_t f = 0; f < folder_count && rc == 0; f++)
		rc = check_folder(dir, folders[f]);
	return rc;
}

int rung__stripes_check(const char *const *folders, size_t folder_count)
{
	for (size_t f = 0; f < folder_count; f++) {
		if (access(folders[f], W_OK | X_OK) < 0)
			return rung__fail_errno(
				errno,
				"%s: this folder for stripes is not writable; give a writable one",
				folders[f]);
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folders of parts other than 0. Each has a features file and a journal, which contains the
 * checksums of the file. Part 0 moves the file to OUT.partial before its own journal lists it. The
 * folder and its journal stay until OUT has its name: so a run that is killed at any moment finds
 * the file in one of the two folders and its checksums in a journal, and a complete part that is
 * repeated finds that it is complete.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "dataset/manifest.h"
#include "file/file.h"
#include "folder/stage_dir.h"
#include "folder/stage_entries.h"
#include "folder/stage_part.h"
#include "folder/stage_step.h"

/* Open the folder of a part by its name in the parent folder. @return descriptor, or -1 with
 * errno */
static int open_folder(const struct rung__stage_dir *dir, const char *path)
{
	return openat(dir->parent_fd, path + (dir->name - dir->path),
	              O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

int rung__stage_part_open(const struct rung__stage_dir *dir, uint32_t part,
                          struct rung__stage_part *part_out)
{
	int rc;

	*part_out = (struct rung__stage_part){
		.path = rung__format(RUNG_STAGE_PART_FORMAT, dir->path, part, dir->part_count),
		.fd = -1,
		.journal.fd = -1,
	};
	if (!part_out->path)
		return rung__fail(RUNG_E_NOMEM, "%s", dir->path);
	part_out->fd = open_folder(dir, part_out->path);
	if (part_out->fd < 0)
		return rung__fail_errno(errno, "%s: cannot be opened", part_out->path);
	rc = rung__stage_dir_lock(part_out->fd, part_out->path);
	return rc < 0 ? rc : rung__journal_read(&part_out->journal, part_out->fd, part_out->path);
}

void rung__stage_part_close(struct rung__stage_part *part)
{
	if (part->fd >= 0)
		close(part->fd);
	rung__free(part->path);
	rung__journal_fini(&part->journal);
}

static bool holds(int fd, const char *name)
{
	struct stat st;

	return fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

int rung__stage_part_move(const struct rung__stage_dir *dir, const struct rung__stage_part *part,
                          const char *name)
{
	rung__stage_step("move");
	if (renameat(part->fd, name, dir->fd, name) == 0)
		return rung__sync_folder(part->fd, part->path);
	if (errno != ENOENT)
		return rung__fail_errno(errno, "%s/%s: cannot be moved to %s", part->path, name,
		                        dir->partial_path);
	return holds(dir->fd, name)
	               ? 0
	               : rung__fail(RUNG_E_CORRUPT,
	                            "%s/%s: is missing; put the file back and continue with "
	                            "--resume, or stage this part again with --force",
	                            part->path, name);
}

bool rung__stage_part_moved(const struct rung__stage_dir *dir, const char *name)
{
	char *path = rung__format("%s.partial/%s", dir->name, name);
	const bool moved = path && !holds(dir->fd, name) && holds(dir->parent_fd, path);

	rung__free(path);
	return moved;
}

/* A folder with the features file has been staged again since the file was moved. */
static void remove_folder(const struct rung__stage_dir *dir, uint32_t part, const char *path)
{
	const int fd = open_folder(dir, path);
	char name[RUNG__SPLIT_NAME_BYTES];

	if (fd < 0)
		return;
	snprintf(name, sizeof(name), RUNG__FEATURES_NAME, part);
	if (rung__stage_dir_lock(fd, path) == 0 && !holds(fd, name) &&
	    rung__stage_entries_remove(fd, path) == 0)
		unlinkat(dir->parent_fd, path + (dir->name - dir->path), AT_REMOVEDIR);
	close(fd);
}

void rung__stage_parts_remove(const struct rung__stage_dir *dir)
{
	for (uint32_t part = 1; part < dir->part_count; part++) {
		char *path = rung__format(RUNG_STAGE_PART_FORMAT, dir->path, part, dir->part_count);

		if (path)
			remove_folder(dir, part, path);
		rung__free(path);
	}
}

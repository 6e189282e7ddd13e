/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of a model. Its files are created without names, in the folder's parent. When all of
 * them are complete, they are linked in a folder with a temporary name, which is then renamed. So a
 * process that is killed leaves nothing, or an empty folder at worst. On file systems without
 * unnamed files they get their names in the temporary folder at once; a signal then gives the
 * command time to remove them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "generate.h"
#include "interrupt.h"

static int refuse_path(const struct gen_folder *folder, const char *path, int err)
{
	return tool_error(folder->command, TOOL_FAILED, "%s cannot be written: %s", path,
	                  strerror(err));
}

int gen_folder_refuse(const struct gen_folder *folder, const struct gen_file *file, int err)
{
	if (err == ECANCELED) /* by a signal, which main() reports */
		return TOOL_FAILED;
	return tool_error(folder->command, TOOL_FAILED, "%s/%s cannot be written: %s", folder->path,
	                  file->name, strerror(err));
}

/* Set the names of the parent and of the temporary folder; both have no slash at the end. */
static int set_paths(struct gen_folder *folder)
{
	size_t length = strlen(folder->path), parent;

	while (length > 1 && folder->path[length - 1] == '/')
		length--;
	parent = length;
	while (parent > 0 && folder->path[parent - 1] != '/')
		parent--;
	folder->parent = parent ? strndup(folder->path, parent) : strdup(".");
	if (asprintf(&folder->partial, "%.*s.%ld.partial", (int)length, folder->path,
	             (long)getpid()) < 0)
		folder->partial = NULL;
	return folder->parent && folder->partial ? 0 : ENOMEM;
}

static int check_space(const struct gen_folder *folder, uint64_t bytes)
{
	char need[TOOL_TEXT_BYTES], have[TOOL_TEXT_BYTES];
	struct statvfs vfs;
	uint64_t left;

	if (statvfs(folder->parent, &vfs) < 0)
		return refuse_path(folder, folder->path, errno);
	left = (uint64_t)vfs.f_bavail * vfs.f_frsize;
	if (left >= bytes)
		return TOOL_DONE;
	return tool_error(folder->command, TOOL_FAILED,
	                  "%s needs %s, but %s are free; free space or use a smaller --scale",
	                  folder->path, tool_bytes_text(need, (double)bytes),
	                  tool_bytes_text(have, (double)left));
}

int gen_folder_open(struct gen_folder *folder, uint64_t bytes)
{
	struct stat found;
	const int err = set_paths(folder);

	if (err)
		return refuse_path(folder, folder->path, err);
	if (lstat(folder->path, &found) == 0)
		return tool_error(folder->command, TOOL_FAILED,
		                  "%s exists; remove it or give another DIR", folder->path);
	return check_space(folder, bytes);
}

static int open_named(struct gen_folder *folder, const char *name, int *fd_out)
{
	char *path;

	if (!folder->named && mkdir(folder->partial, 0777) < 0)
		return errno;
	if (!folder->named) /* files to remove: a signal must not end the process at once */
		tool_interrupt_grace(TOOL_GRACE_MS);
	folder->named = true;
	if (asprintf(&path, "%s/%s", folder->partial, name) < 0)
		return ENOMEM;
	*fd_out = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666);
	free(path);
	return *fd_out < 0 ? errno : 0;
}

int gen_folder_create(struct gen_folder *folder, const char *name, struct gen_file **file_out)
{
	struct gen_file *file = &folder->files[folder->file_count];
	int err = 0;

	*file = (struct gen_file){ .name = name, .fd = -1 };
	if (!folder->named)
		file->fd = open(folder->parent, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
	/* EOPNOTSUPP: the file system has no unnamed files; EISDIR: nor does the kernel */
	if (file->fd < 0 && (folder->named || errno == EOPNOTSUPP || errno == EISDIR))
		err = open_named(folder, name, &file->fd);
	else if (file->fd < 0)
		err = errno;
	if (err)
		return gen_folder_refuse(folder, file, err);
	folder->file_count++;
	*file_out = file;
	return TOOL_DONE;
}

/* ---- arrays ---- */

int gen_folder_array(struct gen_folder *folder, const char *name, enum rung_dtype dtype,
                     uint64_t rows, uint64_t columns, struct gen_file **file_out)
{
#define DESCR(code, word, bytes, descr) [code] = descr,
	static const char *const descrs[] = { RUNG_DTYPE_LIST(DESCR) };
#undef DESCR
	const unsigned length = GEN_DATA - 10;
	unsigned char head[GEN_DATA];
	char text[128], second[24] = "";
	const int code = gen_folder_create(folder, name, file_out);
	ssize_t written;
	int err;

	if (code != TOOL_DONE)
		return code;
	(*file_out)->bytes = rows * (columns ? columns : 1) * rung_dtype_bytes(dtype);
	if (columns)
		snprintf(second, sizeof(second), " %llu", (unsigned long long)columns);
	snprintf(text, sizeof(text),
	         "{'descr': '%s', 'fortran_order': False, 'shape': (%llu,%s), }", descrs[dtype],
	         (unsigned long long)rows, second);
	memset(head, ' ', sizeof(head));
	memcpy(head, "\x93NUMPY\x01\x00", 8);
	head[8] = (unsigned char)(length & 0xff);
	head[9] = (unsigned char)(length >> 8);
	memcpy(head + 10, text, strlen(text));
	head[GEN_DATA - 1] = '\n';
	written = pwrite((*file_out)->fd, head, sizeof(head), 0);
	/* a short write of a new file means that no more fits; errno is not set then */
	err = written < 0 ? errno : written < GEN_DATA ? ENOSPC : 0;
	/* the blocks of the file are reserved now: a full disk is reported before the work */
	if (err == 0 && (*file_out)->bytes)
		err = posix_fallocate((*file_out)->fd, GEN_DATA, (off_t)(*file_out)->bytes);
	return err ? gen_folder_refuse(folder, *file_out, err) : TOOL_DONE;
}

int gen_file_write(const struct gen_file *file, uint64_t offset, const void *data, size_t bytes)
{
	const uint64_t begin = GEN_DATA + offset;
	size_t done = 0;

	while (done < bytes) {
		const ssize_t written = pwrite(file->fd, (const char *)data + done, bytes - done,
		                               (off_t)(begin + done));
		if (written < 0 && errno != EINTR)
			return errno;
		if (written == 0)
			return ENOSPC;
		if (written > 0)
			done += (size_t)written;
	}
	/* Written pages go to the disk at once, and leave memory: otherwise gigabytes of them would
	 * wait, and evict the pages of other programs. Failures are those of fsync(). */
	sync_file_range(file->fd, (off_t)begin, (off_t)bytes, SYNC_FILE_RANGE_WRITE);
	posix_fadvise(file->fd, 0, (off_t)begin, POSIX_FADV_DONTNEED);
	return 0;
}

/* ---- the end ---- */

static int link_file(const struct gen_folder *folder, const struct gen_file *file)
{
	char fd_path[40], *path;
	int err = 0;

	if (fsync(file->fd) < 0)
		return errno;
	if (folder->named)
		return 0;
	if (asprintf(&path, "%s/%s", folder->partial, file->name) < 0)
		return ENOMEM;
	snprintf(fd_path, sizeof(fd_path), "/proc/self/fd/%d", file->fd);
	if (linkat(AT_FDCWD, fd_path, AT_FDCWD, path, AT_SYMLINK_FOLLOW) < 0)
		err = errno;
	free(path);
	return err;
}

/* Some file systems cannot sync a folder, which is not a failure. */
static int sync_folder(const char *path)
{
	const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const int err = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL) ? 0 : errno;

	if (fd >= 0)
		close(fd);
	return err;
}

int gen_folder_commit(struct gen_folder *folder)
{
	int err = 0;

	for (size_t i = 0; i < folder->file_count && !err; i++)
		err = fsync(folder->files[i].fd) < 0 ? errno : 0;
	/* from here on a signal must wait for the rename: the folder has a name */
	tool_interrupt_grace(TOOL_GRACE_MS);
	if (tool_interrupted())
		return TOOL_FAILED;
	if (!err && !folder->named)
		err = mkdir(folder->partial, 0777) < 0 ? errno : 0;
	for (size_t i = 0; i < folder->file_count && !err; i++)
		err = link_file(folder, &folder->files[i]);
	folder->named = true; /* gen_folder_close() removes the names if one of them failed */
	if (!err)
		err = sync_folder(folder->partial);
	/* fails if `path` has appeared since, unless it is an empty folder */
	if (!err && rename(folder->partial, folder->path) < 0)
		err = errno;
	if (err)
		return refuse_path(folder, folder->path, err);
	folder->named = false;
	err = sync_folder(folder->parent);
	return err ? refuse_path(folder, folder->path, err) : TOOL_DONE;
}

void gen_folder_close(struct gen_folder *folder)
{
	for (size_t i = 0; i < folder->file_count; i++) {
		char *path = NULL;

		if (folder->named &&
		    asprintf(&path, "%s/%s", folder->partial, folder->files[i].name) >= 0) {
			unlink(path);
			free(path);
		}
		close(folder->files[i].fd);
	}
	if (folder->named)
		rmdir(folder->partial);
	free(folder->parent);
	free(folder->partial);
	folder->parent = folder->partial = NULL;
	folder->file_count = 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of a model. Its files are created without names, in the folder's parent. When all of
 * them are complete, they are linked in a folder with a temporary name, which is then renamed. So a
 * process that is killed before leaves nothing. On file systems without unnamed files they get
 * their names in the temporary folder at once. A signal gives the command time to remove a
 * temporary folder; if that is not enough, because a sync takes long, the handler names the folder.
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
#include "output/out_file.h"

#define PARTIAL_TRIES 16 /* names of a temporary folder; one collides with probability 2^-32 */

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

/* Length of the path without slashes at the end. */
static int path_length(const struct gen_folder *folder)
{
	size_t length = strlen(folder->path);

	while (length > 1 && folder->path[length - 1] == '/')
		length--;
	return (int)length;
}

static int set_parent(struct gen_folder *folder)
{
	size_t parent = (size_t)path_length(folder);

	while (parent > 0 && folder->path[parent - 1] != '/')
		parent--;
	folder->parent = parent ? strndup(folder->path, parent) : strdup(".");
	return folder->parent ? 0 : ENOMEM;
}

/* Check that paths in the temporary folder are not too long, before the work and not after it. */
static int check_length(const struct gen_folder *folder)
{
	char *partial = tool_out_partial(folder->path, path_length(folder)), *path;
	struct stat found;
	int err = 0;

	if (!partial || asprintf(&path, "%s/dataset.json", partial) < 0) {
		free(partial);
		return ENOMEM;
	}
	if (lstat(path, &found) < 0 && errno != ENOENT)
		err = errno;
	free(path);
	free(partial);
	return err;
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
	int err = set_parent(folder);

	if (!err)
		err = check_length(folder);
	if (err)
		return refuse_path(folder, folder->path, err);
	if (lstat(folder->path, &found) == 0)
		return tool_error(folder->command, TOOL_FAILED,
		                  "%s exists; remove it or give another DIR", folder->path);
	return check_space(folder, bytes);
}

/* Name the temporary folder if a signal ends the process before the folder is removed or renamed.
 * Both texts must outlive the command, because the handler reads them; they are never freed.
 * Without memory for them the handler prints nothing. */
static void set_hint(const struct gen_folder *folder)
{
	char *path = strdup(folder->partial), *text;

	if (asprintf(&text, "%s: unfinished files are in %s; remove this folder\n", folder->command,
	             folder->partial) < 0)
		text = NULL;
	tool_interrupt_hint(path, text);
}

/* Create the temporary folder. It belongs to this process only if `partial` is set. */
static int create_partial(struct gen_folder *folder)
{
	int err = EEXIST;

	/* the folder must be removed: from here on a signal must not end the process at once */
	tool_interrupt_grace(TOOL_GRACE_MS);
	for (int i = 0; i < PARTIAL_TRIES && err == EEXIST; i++) {
		char *path = tool_out_partial(folder->path, path_length(folder));

		if (!path)
			return ENOMEM;
		err = mkdir(path, 0777) < 0 ? errno : 0;
		if (err)
			free(path);
		else
			folder->partial = path;
	}
	if (!err)
		set_hint(folder);
	return err;
}

static int open_named(struct gen_folder *folder, const char *name, int *fd_out)
{
	int err = folder->named ? 0 : create_partial(folder);
	char *path;

	if (err)
		return err;
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

/* Reserve the blocks of a file: a full disk is then reported before the work. Not
 * posix_fallocate(): it writes to every block if the file system cannot reserve them. */
static int reserve(const struct gen_file *file)
{
	int err;

	do
		err = fallocate(file->fd, 0, GEN_DATA, (off_t)file->bytes) < 0 ? errno : 0;
	while (err == EINTR && !tool_interrupted());
	if (err == EINTR)
		return ECANCELED;
	return err == EOPNOTSUPP || err == ENOSYS ? 0 : err;
}

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
	if (err == 0 && (*file_out)->bytes)
		err = reserve(*file_out);
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

	if (asprintf(&path, "%s/%s", folder->partial, file->name) < 0)
		return ENOMEM;
	snprintf(fd_path, sizeof(fd_path), "/proc/self/fd/%d", file->fd);
	if (linkat(AT_FDCWD, fd_path, AT_FDCWD, path, AT_SYMLINK_FOLLOW) < 0)
		err = errno;
	free(path);
	return err;
}

/* Give the files their names in the temporary folder. */
static int link_files(struct gen_folder *folder)
{
	int err = create_partial(folder);

	for (size_t i = 0; i < folder->file_count && !err; i++)
		err = link_file(folder, &folder->files[i]);
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

	for (size_t i = 0; i < folder->file_count && !err && !tool_interrupted(); i++)
		err = fsync(folder->files[i].fd) < 0 ? errno : 0;
	if (!err && !tool_interrupted() && !folder->named)
		err = link_files(folder);
	if (!err && !tool_interrupted())
		err = sync_folder(folder->partial);
	if (tool_interrupted())
		return TOOL_FAILED; /* gen_folder_close() removes the temporary folder */
	/* fails if `path` has appeared since, unless it is an empty folder */
	if (!err && rename(folder->partial, folder->path) < 0)
		err = errno;
	if (err)
		return refuse_path(folder, folder->path, err);
	free(folder->partial);
	folder->partial = NULL;
	err = sync_folder(folder->parent);
	return err ? refuse_path(folder, folder->path, err) : TOOL_DONE;
}

void gen_folder_close(struct gen_folder *folder)
{
	for (size_t i = 0; i < folder->file_count; i++) {
		char *path;

		if (folder->partial &&
		    asprintf(&path, "%s/%s", folder->partial, folder->files[i].name) >= 0) {
			unlink(path);
			free(path);
		}
		close(folder->files[i].fd);
	}
	if (folder->partial)
		rmdir(folder->partial);
	free(folder->parent);
	free(folder->partial);
	folder->parent = folder->partial = NULL;
	folder->named = false;
	folder->file_count = 0;
}

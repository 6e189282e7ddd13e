/* SPDX-License-Identifier: Apache-2.0 */
/* Complete reads and writes, and opening regular files. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "file/file.h"
#include "file/mount.h"

/* Linux transfers at most 2 GiB - 4 KiB per call */
#define CALL_BYTES_MAX RUNG__WORK_BYTES
#define RESERVE_TRIES  64 /* bounded: a periodic timer could interrupt every attempt */

static int read_failed(int fd, const char *path, uint64_t bytes, uint64_t offset)
{
	const int err = errno;
	char where[RUNG__MOUNT_TEXT_BYTES];
	dev_t device = 0;
	struct statx st;
	int rc;

	/* the mount may be the cause: do not wait for an answer of its server */
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0, &st) == 0)
		device = makedev(st.stx_dev_major, st.stx_dev_minor);
	rc = rung__fail_errno(err, "%s%s: reading %" PRIu64 " bytes at offset %" PRIu64, path,
	                      rung__mount_text("", device, path, where), bytes, offset);
	return rung__fail(rc, "%s%s", rung_last_error(), rung__mount_cure("", device));
}

int rung__pread_all(int fd, const char *path, void *buf, uint64_t bytes, uint64_t offset)
{
	unsigned char *to = buf;

	while (bytes > 0) {
		ssize_t got =
			pread(fd, to, (size_t)RUNG__MIN(bytes, CALL_BYTES_MAX), (off_t)offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return read_failed(fd, path, bytes, offset);
		if (got == 0)
			return rung__fail(RUNG_E_IO,
			                  "%s: ends at offset %" PRIu64 ", %" PRIu64
			                  " bytes short: the file was truncated",
			                  path, offset, bytes);
		to += got;
		offset += (uint64_t)got;
		bytes -= (uint64_t)got;
		if (rung__worked(path, (uint64_t)got) < 0)
			return RUNG_E_CANCELED;
	}
	return 0;
}

int rung__pwrite_all(int fd, const char *path, const void *buf, uint64_t bytes, uint64_t offset)
{
	const unsigned char *from = buf;

	while (bytes > 0) {
		ssize_t put =
			pwrite(fd, from, (size_t)RUNG__MIN(bytes, CALL_BYTES_MAX), (off_t)offset);

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return rung__fail_errno(put < 0 ? errno : EIO,
			                        "%s: writing %" PRIu64 " bytes at offset %" PRIu64,
			                        path, bytes, offset);
		from += put;
		offset += (uint64_t)put;
		bytes -= (uint64_t)put;
	}
	return 0;
}

int rung__reserve(int fd, const char *path, uint64_t bytes)
{
	int tries = 0, err;

	/* on any signal, even with SA_RESTART, tmpfs frees the allocation and returns EINTR */
	do
		err = fallocate(fd, 0, 0, (off_t)bytes) == 0 ? 0 : errno;
	while (err == EINTR && ++tries < RESERVE_TRIES);
	/* with these errors the file system cannot reserve space; writes will allocate it */
	if (err == 0 || err == EINTR || err == EOPNOTSUPP || err == ENOSYS || err == EINVAL)
		return 0;
	return rung__fail_errno(
		err, "%s: cannot reserve %" PRIu64 " bytes; make room, or choose another folder",
		path, bytes);
}

int rung__sync_folder(int fd, const char *path)
{
	/* EINVAL: a file system without fsync(); nothing more can be done for its renames */
	if (fsync(fd) < 0 && errno != EINVAL)
		return rung__fail_errno(errno, "%s: cannot be synced to the device", path);
	return 0;
}

/* S_IFREG and the like; 0: unknown. */
static mode_t type_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 ? st.st_mode & S_IFMT : 0;
}

/* Whether a file that cannot be opened is not a regular file: a socket, a link with O_NOFOLLOW, a
 * device on a nodev file system. The errno of open() differs for each. */
static bool is_irregular(int dir_fd, const char *name, int flags)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, flags & O_NOFOLLOW ? AT_SYMLINK_NOFOLLOW : 0) == 0 &&
	       !S_ISREG(st.st_mode);
}

int rung__open_regular(int dir_fd, const char *name, const char *path, int flags)
{
	const int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
	const int err = errno; /* errno of openat(), if it failed */

	if (fd >= 0 && type_of(fd) == S_IFREG) {
		/* with this flag, io_uring fails a read that would wait, with EAGAIN */
		fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
		return fd;
	}
	if (fd < 0 && !is_irregular(dir_fd, name, flags))
		return rung__fail_errno(err, "%s: cannot be opened", path);
	if (fd >= 0)
		close(fd);
	return rung__fail(RUNG_E_FORMAT, "%s: is not a regular file; replace it with one", path);
}

int rung__open_own(int dir_fd, const char *name, const char *path, int flags)
{
	struct stat link, folder, file;
	int fd;

	if (fstatat(dir_fd, name, &link, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISLNK(link.st_mode))
		return rung__open_regular(dir_fd, name, path, flags | O_NOFOLLOW);
	fd = rung__open_regular(dir_fd, name, path, flags);
	if (fd == RUNG_E_NOENT)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: is a symbolic link to a missing file; fetch that file again",
		                  path);
	/* the owner of the opened file, which the link may have been changed to by now */
	if (fd < 0 || (fstat(dir_fd, &folder) == 0 && fstat(fd, &file) == 0 &&
	               link.st_uid == folder.st_uid && file.st_uid == folder.st_uid))
		return fd;
	close(fd);
	return rung__fail(RUNG_E_FORMAT,
	                  "%s: is a symbolic link, and folder, link and file differ in their "
	                  "owner; replace it with a copy of the file",
	                  path);
}

int rung__reopen(int fd, int flags)
{
	const mode_t type = type_of(fd);
	char name[32];

	/* opening a FIFO again would wait for its writer */
	if (type != S_IFREG && type != S_IFBLK) {
		errno = EINVAL;
		return -1;
	}
	/* dup() would share the flags, and the path could name another file by now */
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	return open(name, O_RDONLY | O_CLOEXEC | flags);
}

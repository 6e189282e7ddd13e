/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes past the page cache. A file system may refuse O_DIRECT when the file is opened,
 * or accept it and refuse a read or write, or complete only a part of one. In each case the page
 * cache is used from there on.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "file/direct.h"
#include "file/file.h"
#include "base/base.h"

int rung__direct_open(struct rung__direct *file, int fd, const char *name)
{
	*file = (struct rung__direct){ .fd = rung__reopen(fd, O_DIRECT), .name = name };
	if (file->fd < 0) /* O_DIRECT was refused */
		file->fd = rung__reopen(fd, 0);
	if (file->fd < 0)
		return rung__fail_errno(errno, "%s: cannot be reopened through /proc/self/fd",
		                        name);
	return 0;
}

void rung__direct_close(struct rung__direct *file)
{
	if (file->fd >= 0)
		close(file->fd);
	file->fd = -1;
}

/* Use the page cache from here on. The flag belongs to the open file, so other threads also use the
 * page cache then. @return false: the flag was not set, so it does not explain EINVAL */
static bool drop_direct(int fd)
{
	const int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && (flags & O_DIRECT) && fcntl(fd, F_SETFL, flags & ~O_DIRECT) == 0;
}

int rung__direct_read(const struct rung__direct *file, void *to, uint64_t bytes, uint64_t offset)
{
	uint64_t done = 0;

	while (done < bytes) {
		const uint64_t rest = rung__align_up(bytes - done, RUNG__PAGE_BYTES);
		ssize_t got = pread(file->fd, (unsigned char *)to + done, (size_t)rest,
		                    (off_t)(offset + done));

		/* EINVAL: the file system accepts the flag but not the read */
		if (got < 0 && (errno == EINTR || (errno == EINVAL && drop_direct(file->fd))))
			continue;
		if (got < 0)
			return rung__fail_errno(errno,
			                        "%s: reading %" PRIu64 " bytes at offset %" PRIu64,
			                        file->name, rest, offset + done);
		if (got == 0)
			return rung__fail(RUNG_E_IO,
			                  "%s: ends at offset %" PRIu64 ", %" PRIu64
			                  " bytes short: the file was truncated",
			                  file->name, offset + done, bytes - done);
		/* continue a short read at a page boundary, which reads part of a page again */
		if ((uint64_t)got < bytes - done)
			got = (ssize_t)rung__align_down((uint64_t)got, RUNG__PAGE_BYTES);
		/* less than a page: a slow file system, or the end of the file. Only a read at an
		 * unaligned offset, without O_DIRECT, distinguishes the two */
		if (got == 0)
			break;
		done += (uint64_t)got;
		if (rung__worked(file->name, (uint64_t)got) < 0)
			return RUNG_E_CANCELED;
	}
	if (done < bytes) {
		drop_direct(file->fd);
		return rung__pread_all(file->fd, file->name, (unsigned char *)to + done,
		                       bytes - done, offset + done);
	}
	return 0;
}

int rung__direct_read_span(const struct rung__direct *file, uint64_t offset, uint64_t bytes,
                           unsigned char *buffer, const unsigned char **at_out)
{
	const uint64_t begin = rung__align_down(offset, RUNG__PAGE_BYTES);

	*at_out = buffer + (offset - begin);
	return bytes > 0 ? rung__direct_read(file, buffer, offset - begin + bytes, begin) : 0;
}

/* Set O_DIRECT after opening: with the flag in open(), a file system that refuses it may already
 * have created the file. A failure leaves the page cache in use. */
static void try_direct(int fd)
{
	const int flags = fcntl(fd, F_GETFL);

	if (flags >= 0)
		fcntl(fd, F_SETFL, flags | O_DIRECT);
}

int rung__direct_open_write(struct rung__direct *file, int fd, const char *name)
{
	*file = (struct rung__direct){ .fd = fcntl(fd, F_DUPFD_CLOEXEC, 0), .name = name };
	if (file->fd < 0)
		return rung__fail_errno(errno, "%s", name);
	try_direct(file->fd);
	return 0;
}

int rung__direct_temp(struct rung__direct *file, const char *dir, const char *name,
                      uint64_t bytes_needed)
{
	char *path;

	*file = (struct rung__direct){ .fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600),
		                       .name = name,
		                       .bytes_needed = bytes_needed };
	if (file->fd < 0) {
		path = rung__format("%s/rung-XXXXXX", dir);
		if (!path)
			return rung__fail(RUNG_E_NOMEM, "%s", name);
		file->fd = mkostemp(path, O_CLOEXEC);
		if (file->fd >= 0)
			unlink(path); /* otherwise the failure below reports errno of mkostemp() */
		rung__free(path);
	}
	if (file->fd < 0)
		return rung__fail_errno(errno, "%s: cannot be created", name);
	try_direct(file->fd);
	return 0;
}

int rung__direct_write(const struct rung__direct *file, const void *from, uint64_t bytes,
                       uint64_t offset)
{
	uint64_t done = 0;

	while (done < bytes) {
		ssize_t put = pwrite(file->fd, (const unsigned char *)from + done,
		                     (size_t)(bytes - done), (off_t)(offset + done));

		if (put < 0 && (errno == EINTR || (errno == EINVAL && drop_direct(file->fd))))
			continue;
		if (put <= 0)
			return rung__fail_errno(put < 0 ? errno : EIO,
			                        "%s: writing %" PRIu64 " bytes at offset %" PRIu64
			                        " (%" PRIu64 " bytes are needed in total)",
			                        file->name, bytes - done, offset + done,
			                        file->bytes_needed);
		done += (uint64_t)put;
		/* the disk ran full, or the file system writes in parts: the rest starts at an
		 * unaligned offset */
		if (done % RUNG__PAGE_BYTES)
			drop_direct(file->fd);
	}
	return 0;
}

int rung__space_check(const char *dir, uint64_t bytes)
{
	struct statvfs vfs;
	uint64_t there;

	if (statvfs(dir, &vfs) < 0)
		return rung__fail_errno(errno, "%s: free space is unknown", dir);
	/* an overflow is a file system with more than 2^64 bytes */
	if (!rung__mul(vfs.f_bavail, vfs.f_frsize, &there) || there >= bytes)
		return 0;
	return rung__fail(RUNG_E_NOSPC,
	                  "%s: %" PRIu64 " bytes are needed, but %" PRIu64
	                  " are free; make room, or choose another folder",
	                  dir, bytes, there);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Whole reads and writes. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "file.h"
#include "internal.h"

#define CALL_BYTES_MAX (1u << 30)   /* Linux moves at most 2 GiB - 4 KiB a call */

int rung__pread_all(int fd, const char *path, void *buf, uint64_t bytes, uint64_t offset)
{
	unsigned char *to = buf;

	while (bytes > 0) {
		ssize_t got = pread(fd, to, (size_t)RUNG__MIN(bytes, CALL_BYTES_MAX), (off_t)offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return rung__fail_errno(errno, "%s: reading %" PRIu64 " bytes at offset %" PRIu64, path, bytes, offset);
		if (got == 0)
			return rung__fail(RUNG_E_IO, "%s: ends at offset %" PRIu64 ", %" PRIu64 " bytes short: the file was truncated",
			                  path, offset, bytes);
		to += got;
		offset += (uint64_t)got;
		bytes -= (uint64_t)got;
	}
	return 0;
}

int rung__pwrite_all(int fd, const char *path, const void *buf, uint64_t bytes, uint64_t offset)
{
	const unsigned char *from = buf;

	while (bytes > 0) {
		ssize_t put = pwrite(fd, from, (size_t)RUNG__MIN(bytes, CALL_BYTES_MAX), (off_t)offset);

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return rung__fail_errno(put < 0 ? errno : EIO, "%s: writing %" PRIu64 " bytes at offset %" PRIu64, path, bytes, offset);
		from += put;
		offset += (uint64_t)put;
		bytes -= (uint64_t)put;
	}
	return 0;
}

int rung__reopen(int fd, int flags)
{
	char name[32];

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	return open(name, O_RDONLY | O_CLOEXEC | flags);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Loading rows from the features file. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "file.h"
#include "load.h"

int rung__loader_open(const struct rung__features *features, struct rung__loader *loader_out)
{
	struct rung__loader loader = { .path = features->path, .fd = rung__reopen(features->fd, O_DIRECT) };

	if (loader.fd < 0)
		loader.fd = rung__reopen(features->fd, 0);
	if (loader.fd < 0)
		return rung__fail_errno(errno, "%s: opening it again through /proc/self/fd", features->path);
	loader.bounce = rung__map_pages(RUNG__LOAD_BYTES);
	if (!loader.bounce) {
		close(loader.fd);
		return rung__fail(RUNG_E_NOMEM, "%s: no memory to read it through", features->path);
	}
	*loader_out = loader;
	return 0;
}

void rung__loader_close(struct rung__loader *loader)
{
	close(loader->fd);
	rung__unmap_pages(loader->bounce, RUNG__LOAD_BYTES);
}

/* Whole pages, since a direct read must cover whole sectors; the file may end before the last of them. */
static int read_pages(const struct rung__loader *loader, uint64_t offset, uint64_t bytes, unsigned char *to)
{
	uint64_t done = 0;

	while (done < bytes) {
		uint64_t rest = rung__align_up(bytes - done, RUNG__PAGE_BYTES);
		ssize_t got = pread(loader->fd, to + done, (size_t)rest, (off_t)(offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return rung__fail_errno(errno, "%s: reading %" PRIu64 " bytes at offset %" PRIu64, loader->path, rest, offset + done);
		if (got == 0)
			return rung__fail(RUNG_E_IO, "%s: ends at offset %" PRIu64 ", %" PRIu64 " bytes short: the file was truncated",
			                  loader->path, offset + done, bytes - done);
		if ((uint64_t)got < bytes - done)
			got = (ssize_t)rung__align_down((uint64_t)got, RUNG__PAGE_BYTES);
		if (got == 0)   /* less than a page at a time: this file system does not do direct reads properly */
			return rung__pread_all(loader->fd, loader->path, to + done, bytes - done, offset + done);
		done += (uint64_t)got;
	}
	return 0;
}

/* As far as the bounce buffer reaches. @return bytes, or a failure */
static int64_t read_through(const struct rung__loader *loader, uint64_t offset, uint64_t bytes, unsigned char *to)
{
	uint64_t lead = offset % RUNG__PAGE_BYTES;
	uint64_t part = RUNG__MIN(bytes, RUNG__LOAD_BYTES - lead);
	int rc = read_pages(loader, offset - lead, lead + part, loader->bounce);

	if (rc < 0)
		return rc;
	memcpy(to, loader->bounce + lead, part);
	return (int64_t)part;
}

int rung__loader_read(const struct rung__loader *loader, uint64_t offset, uint64_t bytes, unsigned char *to)
{
	while (bytes > 0) {
		int64_t part = (int64_t)RUNG__MIN(bytes, RUNG__LOAD_BYTES);

		if (offset % RUNG__PAGE_BYTES == 0 && (uintptr_t)to % RUNG__PAGE_BYTES == 0) {
			int rc = read_pages(loader, offset, (uint64_t)part, to);

			if (rc < 0)
				return rc;
		} else {
			part = read_through(loader, offset, bytes, to);
			if (part < 0)
				return (int)part;
		}
		offset += (uint64_t)part;
		bytes -= (uint64_t)part;
		to += part;
	}
	return 0;
}

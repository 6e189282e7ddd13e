/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host tier: the hottest rows in memory, one after the other as in the file. The memory is anonymous unless one is given that
 * other processes see too.
 *
 * The rows are read with large direct reads straight into place, so that loading leaves no second copy in the page cache.
 * With several NUMA nodes the pages are interleaved over the nodes we may use, so that no node's memory controller serves all hits.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "file.h"
#include "rung_config.h"
#include "tier_list.h"
#if RUNG_HAVE_NUMA
#include <numa.h>
#endif

#define LOAD_BYTES (4u << 20)   /* one read: large enough for any disk's full rate */

struct rung__tier {
	unsigned char *own;    /* memory taken here; NULL when it was given */
	uint64_t own_bytes;
	struct rung__view view;
};

static void spread_over_nodes(void *mem, uint64_t bytes)
{
#if RUNG_HAVE_NUMA
	if (numa_available() >= 0 && numa_num_task_nodes() > 1)
		numa_interleave_memory(mem, (size_t)bytes, numa_get_mems_allowed());
#else
	(void)mem;
	(void)bytes;
#endif
}

/* A direct read must cover whole sectors; the map has room for the last one, and the file may end before it. */
static int load_piece(int fd, const char *path, unsigned char *to, uint64_t bytes, uint64_t offset)
{
	uint64_t done = 0;

	while (done < bytes) {
		uint64_t rest = rung__align_up(bytes - done, RUNG__PAGE_BYTES);
		ssize_t got = pread(fd, to + done, (size_t)rest, (off_t)(offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return rung__fail_errno(errno, "%s: reading %" PRIu64 " bytes at offset %" PRIu64, path, rest, offset + done);
		if (got == 0)
			return rung__fail(RUNG_E_IO, "%s: ends at offset %" PRIu64 ", %" PRIu64 " bytes short: the file was truncated",
			                  path, offset + done, bytes - done);
		if ((uint64_t)got < bytes - done)
			got = (ssize_t)rung__align_down((uint64_t)got, RUNG__PAGE_BYTES);
		if (got == 0)   /* less than a page at a time: this file system does not do direct reads properly */
			return rung__pread_all(fd, path, to + done, bytes - done, offset + done);
		done += (uint64_t)got;
	}
	return 0;
}

static int load_rows(const struct rung__features *features, uint64_t offset, unsigned char *to, uint64_t bytes)
{
	uint64_t pieces = (bytes + LOAD_BYTES - 1) / LOAD_BYTES;
	bool direct = offset % RUNG__PAGE_BYTES == 0;
	int fd = direct ? rung__reopen(features->fd, O_DIRECT) : -1;
	int rc = 0;

	if (fd < 0)
		fd = rung__reopen(features->fd, 0);
	if (fd < 0)
		return rung__fail_errno(errno, "%s: opening it again through /proc/self/fd", features->path);
	for (uint64_t i = 0; i < pieces && rc == 0; i++) {
		uint64_t first = i * LOAD_BYTES;

		rc = load_piece(fd, features->path, to + first, RUNG__MIN(LOAD_BYTES, bytes - first), offset + first);
	}
	close(fd);
	return rc;
}

static void host_close(struct rung__tier *tier)
{
	rung__unmap_pages(tier->own, tier->own_bytes);
	rung__free(tier);
}

static int host_open(const struct rung__tier_args *args, struct rung__tier **tier_out)
{
	const struct rung__layout *layout = &args->features->layout;
	uint64_t bytes = args->row_count * layout->row_stride;   /* inside the file's size, which was checked */
	uint64_t map_bytes = rung__align_up(bytes, RUNG__PAGE_BYTES);
	struct rung__tier *tier = rung__zalloc(sizeof(*tier));
	unsigned char *rows = args->memory;
	int rc;

	if (!tier)
		return rung__fail(RUNG_E_NOMEM, "host tier: out of memory");
	if (!rows) {
		rows = tier->own = rung__map_pages(map_bytes);
		tier->own_bytes = map_bytes;
	}
	if (!rows) {
		rc = rung__fail(RUNG_E_NOMEM, "host tier: no memory for %" PRIu64 " rows (%" PRIu64 " bytes): give a smaller host budget",
		                args->row_count, bytes);
		goto close_tier;
	}
	if (!args->loaded) {
		spread_over_nodes(rows, map_bytes);
		rc = load_rows(args->features, layout->data_offset + args->rank_first * layout->row_stride, rows, bytes);
		if (rc < 0)
			goto close_tier;
	}
	tier->view = (struct rung__view){ rows, (size_t)layout->row_stride, args->rank_first, args->row_count };
	*tier_out = tier;
	return 0;
close_tier:
	host_close(tier);
	return rc;
}

static void host_view(const struct rung__tier *tier, struct rung__view *view_out)
{
	*view_out = tier->view;
}

const struct rung__tier_ops rung__host_tier = {
	.abi = RUNG__TIER_ABI,
	.size = sizeof(struct rung__tier_ops),
	.name = "host",
	.kind = RUNG__ADDRESSABLE,
	.open = host_open,
	.close = host_close,
	.view = host_view,
};

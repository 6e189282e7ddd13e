/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NVMe tier: the staged features file, read in sectors past the page cache by the best engine that works (ladder.h).
 *
 * O_DIRECT counts only after a real read as well: some file systems accept it at open and refuse at the first read.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "file/block_device.h"
#include "file/file.h"
#include "engine/engine.h"
#include "engine/gap.h"
#include "tier/tier.h"

#define WHY_BYTES 1024
#define READ_BYTES_MAX 131072u   /* of a merged read: larger ones bring no more rows, and others wait behind them */

struct rung__tier {
	struct rung__tier_args args;
	struct rung__geometry geometry;
	char *path;
	int fd;
	bool direct;
	struct rung__ladder ladder;
	char why[WHY_BYTES];
};

static int reopen_failed(const struct rung__tier *tier)
{
	return rung__fail_errno(errno, "%s: opening it again through /proc/self/fd", tier->path);
}

static int reopen_buffered(struct rung__tier *tier, int from_fd, const char *reason)
{
	int fd = rung__reopen(from_fd, 0);

	if (fd < 0)
		return reopen_failed(tier);
	if (tier->fd >= 0)
		close(tier->fd);
	tier->fd = fd;
	tier->direct = false;
	tier->geometry.align = 1;
	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);   /* no read-ahead between rows; advice only */
	rung__why_add(tier->why, sizeof(tier->why), reason);
	return 0;
}

static int open_file(struct rung__tier *tier, int from_fd, bool buffered)
{
	if (buffered)
		return reopen_buffered(tier, from_fd, "page cache asked for");
	tier->fd = rung__reopen(from_fd, O_DIRECT);
	if (tier->fd < 0 && errno != EINVAL)
		return reopen_failed(tier);
	if (tier->fd < 0)
		return reopen_buffered(tier, from_fd, "the file system refuses O_DIRECT: reads go through the page cache");
	if (rung__dio_refused(tier->fd))
		return reopen_buffered(tier, from_fd, "the file system does no direct reads of this file: they go through the page cache");
	tier->direct = true;
	tier->geometry.align = rung__dio_align(tier->fd);
	return 0;
}

/* What goes to the device in one command: a longer read would only be split, and come back when its last part has. */
static uint32_t read_bytes_max(const struct rung__tier *tier)
{
	struct rung__block_device device;
	struct stat st;

	if (fstat(tier->fd, &st) != 0 || !rung__block_device("/sys", major(st.st_dev), minor(st.st_dev), &device) ||
	    device.command_bytes < tier->geometry.align)
		return READ_BYTES_MAX;
	return (uint32_t)rung__align_down(RUNG__MIN(device.command_bytes, READ_BYTES_MAX), tier->geometry.align);
}

static void nvme_close(struct rung__tier *tier)
{
	if (tier->fd >= 0)
		close(tier->fd);
	rung__free(tier->path);
	rung__free(tier);
}

static int nvme_open(const struct rung__tier_args *args, struct rung__tier **tier_out)
{
	const struct rung__layout *layout = &args->features->layout;
	struct rung__tier *tier = rung__zalloc(sizeof(*tier));
	int rc;

	if (!tier)
		return rung__fail(RUNG_E_NOMEM, "nvme tier: out of memory");
	tier->fd = -1;
	tier->args = *args;
	tier->args.features = NULL;   /* may be closed before us */
	tier->path = rung__strdup(args->features->files[args->file_idx].path);
	if (!tier->path) {
		rc = rung__fail(RUNG_E_NOMEM, "nvme tier: out of memory");
		goto close_tier;
	}
	tier->geometry = (struct rung__geometry){
		.gap_bytes = args->gap_bytes == RUNG_GAP_NONE ? 0 : args->gap_bytes ? args->gap_bytes : RUNG__GAP_DEFAULT,
		.file_bytes = layout->file_bytes[args->file_idx],
		.path = tier->path,
	};
	rc = open_file(tier, args->features->files[args->file_idx].fd, args->buffered);
	if (rc < 0)
		goto close_tier;
	tier->geometry.read_bytes_max = read_bytes_max(tier);
	*tier_out = tier;
	return 0;
close_tier:
	nvme_close(tier);
	return rc;
}

static int start_failed(struct rung__tier *tier, int err)
{
	rung__ladder_stop(&tier->ladder);
	return rung__fail_errno(err, "%s: engine %s: measuring reads", tier->path, tier->ladder.ops->name);
}

static int nvme_start(struct rung__tier *tier)
{
	struct rung__ladder_file file = { tier->fd, tier->path, tier->geometry.file_bytes, tier->geometry.align, tier->direct };
	int rc;

	if (tier->direct) {   /* EINVAL at the first read is how a file system says that it does not do O_DIRECT after all */
		ssize_t got = pread(tier->fd, tier->args.pool + tier->args.probe_at, RUNG__MAX(tier->geometry.align, 512u), 0);

		if (got < 0 && errno == EINVAL) {
			rc = reopen_buffered(tier, tier->fd, "the file system refuses direct reads: they go through the page cache");
			if (rc < 0)
				return rc;
			file.fd = tier->fd;
			file.align = tier->geometry.align;
			file.direct = false;
		}
	}
	rc = rung__ladder_start(&tier->ladder, &tier->args, &file);
	if (rc < 0)
		return rc;
	rung__why_add(tier->why, sizeof(tier->why), tier->ladder.why);
	if (tier->args.gap_bytes == 0) {
		rc = rung__gap_measure(&tier->ladder, &tier->args, &file, tier->geometry.read_bytes_max, &tier->geometry.gap_bytes);
		if (rc < 0)
			return start_failed(tier, -rc);
	}
	return 0;
}

static void nvme_stop(struct rung__tier *tier)
{
	rung__ladder_stop(&tier->ladder);
}

static void nvme_geometry(const struct rung__tier *tier, struct rung__geometry *geometry_out)
{
	*geometry_out = tier->geometry;
}

static void nvme_engine(const struct rung__tier *tier, struct rung__engine_state *state_out)
{
	const struct rung__ladder *ladder = &tier->ladder;

	*state_out = (struct rung__engine_state){
		.name = ladder->ops->name,
		.why = tier->why,
		.direct = tier->direct,
		.steps = ladder->steps,
		.step_count = ladder->step_count,
		.parts = ladder->report.parts,
		.part_count = ladder->report.part_count,
	};
}

static int nvme_submit(struct rung__tier *tier, const struct rung__fetch *fetch)
{
	return tier->ladder.ops->submit(tier->ladder.engine, fetch);
}

static int nvme_reap(struct rung__tier *tier, uint32_t want, uint64_t timeout_ns, struct rung__fetched *fetched, uint32_t max)
{
	return tier->ladder.ops->reap(tier->ladder.engine, want, timeout_ns, fetched, max);
}

const struct rung__tier_ops rung__nvme_tier = {
	.abi = RUNG__TIER_ABI,
	.size = sizeof(struct rung__tier_ops),
	.name = "nvme",
	.kind = RUNG__FETCHABLE,
	.open = nvme_open,
	.close = nvme_close,
	.geometry = nvme_geometry,
	.start = nvme_start,
	.stop = nvme_stop,
	.engine = nvme_engine,
	.submit = nvme_submit,
	.reap = nvme_reap,
};

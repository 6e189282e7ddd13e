/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NVMe tier: the staged features file, read in sectors past the page cache.
 *
 * Engines are tried best first, and an engine counts only after a real read has come back through it: set-up calls succeed in places
 * where reads then fail. The same goes for O_DIRECT, which some file systems accept at open and refuse at the first read.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine.h"
#include "file.h"
#include "tier_list.h"

#define PROBE_WAIT_NS 30000000000ull   /* a sleeping disk may take seconds to answer */
#define WHY_BYTES 256

struct rung__tier {
	struct rung__tier_args args;
	struct rung__geometry geometry;
	char *path;
	int fd;
	bool direct;
	const struct rung__engine_ops *ops;
	struct rung__engine *engine;
	char why[WHY_BYTES];
};

static void add_why(struct rung__tier *tier, const char *reason)
{
	size_t used = strlen(tier->why);

	if (reason[0])
		snprintf(tier->why + used, sizeof(tier->why) - used, "%s%s", used ? "; " : "", reason);
}

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
	add_why(tier, reason);
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
	tier->direct = true;
	tier->geometry.align = rung__dio_align(tier->fd);
	return 0;
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
		.read_bytes_max = 131072,
		.gap_bytes = args->gap_bytes == RUNG_GAP_NONE ? 0 : args->gap_bytes ? args->gap_bytes : 16384,
		.file_bytes = layout->file_bytes[args->file_idx],
		.path = tier->path,
	};
	rc = open_file(tier, args->features->files[args->file_idx].fd, args->buffered);
	if (rc < 0)
		goto close_tier;
	*tier_out = tier;
	return 0;
close_tier:
	nvme_close(tier);
	return rc;
}

/* Read the first bytes of the file through the engine. @return 0 or -errno */
static int probe(struct rung__tier *tier)
{
	uint32_t bytes = RUNG__MAX(tier->geometry.align, 512u);
	struct rung__fetch fetch = { .bytes = bytes };
	struct rung__fetched fetched = { 0, 0 };
	int rc = tier->ops->submit(tier->engine, &fetch);

	if (rc < 0)
		return rc;
	rc = tier->ops->reap(tier->engine, 1, PROBE_WAIT_NS, &fetched, 1);
	if (rc == 0)
		return -ETIMEDOUT;
	if (rc < 0)
		return rc;
	return fetched.result > 0 ? 0 : fetched.result < 0 ? fetched.result : -EIO;
}

static int try_engine(struct rung__tier *tier, const struct rung__engine_ops *ops, const char **why_out)
{
	struct rung__engine_args args = {
		.fd = tier->fd,
		.path = tier->path,
		.pool = tier->args.pool,
		.pool_bytes = tier->args.pool_bytes,
		.queue_depth = tier->args.queue_depth,
	};
	int rc = ops->open(&args, &tier->engine, why_out);

	if (rc < 0)
		return rc;
	tier->ops = ops;
	rc = probe(tier);
	if (rc < 0) {
		ops->close(tier->engine);
		tier->engine = NULL;
		*why_out = "its first read failed";
	}
	return rc;
}

static int try_io_uring(struct rung__tier *tier, const char **why_out)
{
#if RUNG_HAVE_IO_URING
	return try_engine(tier, &rung__engine_io_uring, why_out);
#else
	(void)tier;
	*why_out = "io_uring is not built in: " RUNG_WHY_IO_URING;
	return -ENOSYS;
#endif
}

static int start_engine(struct rung__tier *tier)
{
	const char *why = "";
	int rc = -ENOSYS;

	if (tier->args.engine != RUNG_ENGINE_PREAD) {
		rc = try_io_uring(tier, &why);
		if (rc < 0 && tier->args.engine == RUNG_ENGINE_IO_URING)
			return rung__fail(rc == -EINVAL ? RUNG_E_IO : RUNG_E_NOSUP, "%s: engine io_uring: %s (%s): use engine auto or pread",
			                  tier->path, why, strerror(-rc));
		add_why(tier, why);
	} else {
		add_why(tier, "pread asked for");
	}
	if (rc < 0)
		rc = try_engine(tier, &rung__engine_pread, &why);
	if (rc < 0)
		return rung__fail_errno(-rc, "%s: reading its first bytes: %s", tier->path, why);
	return 0;
}

static int nvme_start(struct rung__tier *tier)
{
	int rc;

	if (tier->direct) {   /* EINVAL at the first read is how a file system says that it does not do O_DIRECT after all */
		ssize_t got = pread(tier->fd, tier->args.pool, RUNG__MAX(tier->geometry.align, 512u), 0);

		if (got < 0 && errno == EINVAL) {
			rc = reopen_buffered(tier, tier->fd, "the file system refuses direct reads: they go through the page cache");
			if (rc < 0)
				return rc;
		}
	}
	return start_engine(tier);
}

static void nvme_stop(struct rung__tier *tier)
{
	if (tier->engine)
		tier->ops->close(tier->engine);
	tier->engine = NULL;
}

static void nvme_geometry(const struct rung__tier *tier, struct rung__geometry *geometry_out)
{
	*geometry_out = tier->geometry;
}

static void nvme_engine(const struct rung__tier *tier, struct rung__engine_state *state_out)
{
	*state_out = (struct rung__engine_state){ .name = tier->ops->name, .why = tier->why, .direct = tier->direct };
}

static int nvme_submit(struct rung__tier *tier, const struct rung__fetch *fetch)
{
	return tier->ops->submit(tier->engine, fetch);
}

static int nvme_reap(struct rung__tier *tier, uint32_t want, uint64_t timeout_ns, struct rung__fetched *fetched, uint32_t max)
{
	return tier->ops->reap(tier->engine, want, timeout_ns, fetched, max);
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

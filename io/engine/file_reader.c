/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of features files reads whole sectors, bypassing the page cache, with the best engine
 * that works.
 *
 * Only a real read shows whether O_DIRECT works: some file systems accept it when the file is
 * opened but refuse the first read. If opening or the first read is refused, the reader falls back
 * to the page cache.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "file/block_device.h"
#include "file/file.h"
#include "engine/file_reader.h"

/* Maximum size of a merged read: larger ones would not increase the rows per second, and would
 * delay other reads. */
#define READ_BYTES_MAX 131072u

static int reopen_failed(const struct rung__reader *reader)
{
	return rung__fail_errno(errno, "%s: cannot be opened again through /proc/self/fd",
	                        reader->path);
}

/* Use the page cache: open the file without O_DIRECT, and close the previous descriptor, if any.
 * @param reason for the statistics */
static int reopen_buffered(struct rung__reader *reader, int from_fd, const char *reason)
{
	int fd = rung__reopen(from_fd, 0);

	if (fd < 0)
		return reopen_failed(reader);
	if (reader->fd >= 0)
		close(reader->fd);
	reader->fd = fd;
	reader->direct = false;
	reader->geometry.align = 1; /* any offset, length and address is allowed */
	/* disables read-ahead between rows; it is only advice */
	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	rung__why_add(reader->why, sizeof(reader->why), reason);
	return 0;
}

/* Open the file again to get separate flags: O_DIRECT belongs to the open file description, which
 * is shared with the dataset. File systems without O_DIRECT return EINVAL. */
static int open_file(struct rung__reader *reader, int from_fd, bool buffered)
{
	if (buffered)
		return reopen_buffered(reader, from_fd, "page cache was requested");
	reader->fd = rung__reopen(from_fd, O_DIRECT);
	if (reader->fd < 0 && errno != EINVAL)
		return reopen_failed(reader);
	if (reader->fd < 0)
		return reopen_buffered(
			reader, from_fd,
			"the file system refuses O_DIRECT: reads go through the page cache");
	if (rung__dio_refused(reader->fd))
		return reopen_buffered(reader, from_fd,
		                       "the file system does not read this file directly: reads go "
		                       "through the page cache");
	reader->direct = true;
	reader->geometry.align = rung__dio_align(reader->fd);
	return 0;
}

/* The largest read that the kernel sends to the device as one command. It splits a longer read,
 * which completes only with its last part. */
static uint32_t read_bytes_max(const struct rung__reader *reader)
{
	const dev_t number = reader->geometry.device;
	struct rung__block_device device;

	if (!rung__block_device("/sys", major(number), minor(number), &device) ||
	    device.command_bytes < reader->geometry.align)
		return READ_BYTES_MAX;
	return (uint32_t)rung__align_down(RUNG__MIN(device.command_bytes, READ_BYTES_MAX),
	                                  reader->geometry.align);
}

static void file_close(struct rung__reader *reader)
{
	if (reader->fd >= 0)
		close(reader->fd);
	rung__free(reader->path);
	rung__free(reader);
}

static int file_open(const struct rung__reader_args *args, struct rung__reader **reader_out)
{
	const struct rung__layout *layout = &args->features->layout;
	struct rung__reader *reader = rung__zalloc(sizeof(*reader));
	struct stat st;
	int rc;

	if (!reader)
		return rung__fail(RUNG_E_NOMEM, "nvme tier: out of host memory");
	reader->fd = -1;
	reader->args = *args;
	reader->args.features = NULL; /* may be closed before the reader */
	reader->path = rung__strdup(args->features->files[args->file_idx].path);
	if (!reader->path) {
		rc = rung__fail(RUNG_E_NOMEM, "nvme tier: out of host memory");
		goto close_reader;
	}
	reader->geometry = (struct rung__geometry){
		.merge_gap_bytes = args->merge_gap_bytes == RUNG_MERGE_GAP_NONE ? 0
		                   : args->merge_gap_bytes ? args->merge_gap_bytes
		                                           : RUNG__MERGE_GAP_DEFAULT,
		.file_bytes = layout->file_bytes[args->file_idx],
		.path = reader->path,
	};
	rc = open_file(reader, args->features->files[args->file_idx].fd, args->buffered);
	if (rc < 0)
		goto close_reader;
	/* now, because a mount that has failed may not answer */
	if (fstat(reader->fd, &st) == 0)
		reader->geometry.device = st.st_dev;
	reader->geometry.read_bytes_max = read_bytes_max(reader);
	*reader_out = reader;
	return 0;
close_reader:
	file_close(reader);
	return rc;
}

/* Report that the engine failed after its probe, while the merge gap was measured. */
static int start_failed(struct rung__reader *reader, int err)
{
	rung__engine_end(reader);
	return rung__fail_errno(err, "%s: engine %s: the reads that determine the merge gap failed",
	                        reader->path, reader->ops->name);
}

/* Select an engine, and measure the merge gap unless it was given. Runs in the thread that
 * will use the engine. */
static int file_start(struct rung__reader *reader)
{
	int rc;

	/* some file systems accept O_DIRECT when a file is opened, but return EINVAL at the first
	 * read */
	if (reader->direct) {
		ssize_t got = pread(reader->fd, reader->args.pool + reader->args.probe_at,
		                    RUNG__MAX(reader->geometry.align, 512u), 0);

		if (got < 0 && errno == EINVAL) {
			rc = reopen_buffered(reader, reader->fd,
			                     "the file system refuses direct reads: they go "
			                     "through the page cache");
			if (rc < 0)
				return rc;
		}
	}
	rc = rung__engine_select(reader);
	if (rc < 0)
		return rc;
	rung__why_add(reader->why, sizeof(reader->why), reader->engine_why);
	if (reader->args.merge_gap_bytes == 0) {
		rc = rung__merge_gap_measure(&rung__file_reader, reader,
		                             reader->geometry.read_bytes_max,
		                             &reader->geometry.merge_gap_bytes);
		if (rc < 0)
			return start_failed(reader, -rc);
	}
	return 0;
}

static void file_geometry(const struct rung__reader *reader, struct rung__geometry *geometry_out)
{
	*geometry_out = reader->geometry;
}

static void file_engine(const struct rung__reader *reader, struct rung__engine_state *state_out)
{
	*state_out = (struct rung__engine_state){
		.name = reader->ops->name,
		.why = reader->why,
		.direct = reader->direct,
		.steps = reader->steps,
		.step_count = reader->step_count,
		.parts = reader->report.parts,
		.part_count = reader->report.part_count,
	};
}

static int file_submit(struct rung__reader *reader, const struct rung__fetch *fetch)
{
	return reader->ops->submit(reader->engine, fetch);
}

static int file_reap(struct rung__reader *reader, uint32_t want, uint64_t timeout_ns,
                     struct rung__fetched *fetched, uint32_t max)
{
	return reader->ops->reap(reader->engine, want, timeout_ns, fetched, max);
}

const struct rung__reader_ops rung__file_reader = {
	.abi = RUNG__READER_ABI,
	.size = sizeof(struct rung__reader_ops),
	.name = "nvme",
	.open = file_open,
	.close = file_close,
	.geometry = file_geometry,
	.start = file_start,
	.stop = rung__engine_end,
	.engine = file_engine,
	.submit = file_submit,
	.reap = file_reap,
};

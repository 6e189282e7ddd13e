/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures random reads of drives with the reader that the store uses for cold rows: the same
 * engines, registered memory, and groups in which reads are submitted and reaped. One thread reads,
 * on the cores of each node in turn, with its buffers there. The queue is kept full.
 *
 * Targets are files given by the caller, a temporary file in a folder (--dir), or, without either,
 * whole NVMe drives of the topology.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <linux/fs.h>
#include <unistd.h>

#include "registry/registry.h"
#include "file/direct.h"
#include "file/mount.h"
#include "measure.h"
#include "tier/burst.h"

#define DEPTH_MAX       RUNG__MEASURE_DEPTH_MAX
#define READ_BYTES_MAX  (1u << 20)
#define FILE_BYTES_MIN  (16u << 20)         /* least size of a target */
#define DIR_BYTES       (UINT64_C(2) << 30) /* size of the temporary file */
#define DIR_BYTES_QUICK (UINT64_C(256) << 20)
/* bytes of the temporary file that are written at a time */
#define WRITE_BYTES (4u << 20)
#define POOL_BYTES  ((uint64_t)DEPTH_MAX * READ_BYTES_MAX) /* room for every read of a full queue */
#define SECTOR_MIN  512u
#define WRITE_STEPS 8u /* of the progress, for the temporary file: as many values take as long */
/* least share of a file's bytes that are on the disk: reads of a hole never reach the disk */
#define SPARSE 0.9

static const uint32_t standard_bytes[] = { 0, 4096, 16384, 65536, 131072 }; /* 0: one sector */

/* A file or block device that is read. */
struct nvme_target {
	const char *file;  /* path for results and messages */
	const char *drive; /* the kernel's name of the disk; NULL: it has no name */
	int fd;            /* -1: not open */
	uint64_t bytes;
	struct rung__direct temp; /* the temporary file of a folder */
};

/* A reader of a target, its thread and its buffers. */
struct nvme_reader {
	struct rung__measuring *m;
	const struct nvme_target *target;
	struct rung__team *team; /* the team of the one thread that reads */
	unsigned char *pool;     /* [POOL_BYTES] on the node of the thread */
	bool started;            /* the reader was started and must be stopped */
	struct rung__burst burst;
	/* the step that the thread runs next, and its outcome, which includes the message of a
	 * failure because messages are thread-local */
	int (*step)(struct nvme_reader *reader);
	int rc;
	char error[RUNG__ERROR_BYTES];
};

/* ---- reading: on the one thread of a team ---- */

/* Open and start the reader on the whole target, described as the only file of a data set. Merging
 * is off: each read is one row. After an error reader_close() undoes what was done. */
static int reader_open(struct nvme_reader *reader)
{
	struct rung__features features = { .layout = { .file_count = 1,
		                                       .file_bytes = { reader->target->bytes } } };
	struct rung__reader_args args = {
		.features = &features,
		.pool = reader->pool,
		.pool_bytes = POOL_BYTES,
		.probe_bytes = POOL_BYTES,
		.token_count = DEPTH_MAX,
		.queue_depth = DEPTH_MAX,
		.merge_gap_bytes = RUNG_MERGE_GAP_NONE,
	};
	int rc;

	features.files[0].path = (char *)(uintptr_t)reader->target->file; /* not modified */
	features.files[0].fd = reader->target->fd;
	rc = reader->burst.ops->open(&args, &reader->burst.reader);
	if (rc == 0)
		rc = reader->burst.ops->start(reader->burst.reader);
	reader->started = rc == 0;
	return rc;
}

/* Works for each state that reader_open() leaves. */
static int reader_close(struct nvme_reader *reader)
{
	if (reader->started)
		reader->burst.ops->stop(reader->burst.reader);
	if (reader->burst.reader)
		reader->burst.ops->close(reader->burst.reader);
	return 0;
}

/* Run a burst. @return 0 or a failure of the engine or of a read */
static int reader_read(struct nvme_reader *reader)
{
	int rc = rung__burst_run(&reader->burst);
	int err = rc < 0 ? -rc : reader->burst.err;

	if (err == 0)
		return 0;
	return rung__fail_errno(err, "%s: %" PRIu32 " bytes at a random offset cannot be read",
	                        reader->target->file, reader->burst.read_bytes);
}

/* A rung__work_fn: run the step on the thread. The message of a failure is copied, because it is
 * the thread's. */
static void do_step(void *ctx, uint32_t rank, uint32_t count, uint64_t passes)
{
	struct nvme_reader *reader = ctx;

	(void)rank;
	(void)count;
	(void)passes;
	reader->rc = reader->step(reader);
	if (reader->rc < 0)
		snprintf(reader->error, sizeof(reader->error), "%s", rung_last_error());
}

/* Run a step on the thread of the team and wait. A failure becomes the calling thread's. */
static int run(struct nvme_reader *reader, int (*step)(struct nvme_reader *reader))
{
	reader->step = step;
	rung__team_run(reader->team, do_step, reader, 1);
	return reader->rc < 0 ? rung__fail_text(reader->rc, reader->error) : 0;
}

/* ---- results ---- */

/* Add the result of one read size and queue depth. A sample is a burst of a given duration, not a
 * number of passes: the queue must stay full all the time. */
static int measure_value(struct nvme_reader *reader, const struct rung_numa_result *base,
                         uint32_t group)
{
	struct rung__burst *burst = &reader->burst;
	const struct rung__measure_pass pass = { .items = 1, .bytes = burst->read_bytes };
	struct rung__measuring *m = reader->m;
	const double sample_ns = m->opts.sample_seconds * 1e9;
	struct rung_numa_result like = *base;
	double *seconds;
	int rc = rung__measure_samples(m, m->opts.samples, &seconds);

	like.row_bytes = burst->read_bytes;
	like.queue_depth = burst->depth;
	if (rc == 0)
		rc = rung__measure_next(m, &like);
	/* the first burst is short, and its time is not used */
	for (uint32_t i = 0; i <= m->opts.samples && rc == 0; i++) {
		burst->ns = (uint64_t)(i ? sample_ns : sample_ns / 4);
		rc = run(reader, reader_read);
		if (rc == 0 && i > 0)
			seconds[i - 1] = (double)burst->took_ns / 1e9 / (double)burst->ended;
	}
	return rc < 0 ? rc : rung__measure_add_values(m, &like, group, seconds, &pass, NULL);
}

/* Choose the read sizes: the standard ones and the rows of the caller, in whole sectors, because a
 * row is read with the rest of its sectors. @return the number of sizes */
static size_t choose_sizes(const struct rung__measuring *m, uint32_t align, uint32_t *sizes)
{
	const uint32_t sector = RUNG__MAX(align, SECTOR_MIN);
	size_t count = 0;

	for (size_t i = 0; i < RUNG__ARRAY_LEN(standard_bytes); i++) {
		const uint64_t bytes = RUNG__MAX(standard_bytes[i], SECTOR_MIN);

		rung__measure_add_once(sizes, &count, (uint32_t)rung__align_up(bytes, align));
	}
	for (size_t i = 0; i < m->opts.row_count; i++) {
		const uint64_t bytes = rung__align_up(m->opts.row_bytes[i], sector);

		rung__measure_add_once(sizes, &count, (uint32_t)RUNG__MIN(bytes, READ_BYTES_MAX));
	}
	return count;
}

/* All read sizes at all queue depths. */
static int measure_values(struct nvme_reader *reader, const struct rung_numa_result *like,
                          uint32_t group)
{
	const struct rung__measuring *m = reader->m;
	struct rung__burst *burst = &reader->burst;
	uint32_t sizes[RUNG__ARRAY_LEN(standard_bytes) + RUNG__MEASURE_ROWS_MAX];
	struct rung__geometry geometry;
	size_t count;
	int rc = 0;

	burst->ops->geometry(burst->reader, &geometry);
	count = choose_sizes(m, geometry.align, sizes);
	for (size_t i = 0; i < count && rc == 0; i++) {
		burst->read_bytes = sizes[i];
		for (size_t d = 0; d < m->opts.depth_count && rc == 0; d++) {
			burst->depth = m->opts.depths[d];
			rc = measure_value(reader, like, group);
		}
	}
	return rc;
}

/* Measure with an open reader. Reads through the page cache measure memory, so without direct I/O
 * the result is absent. */
static int measure_open(struct nvme_reader *reader, struct rung_numa_result *like, uint32_t group)
{
	struct rung__engine_state state;

	reader->burst.ops->engine(reader->burst.reader, &state);
	like->engine = rung__measure_text(reader->m, "%s", state.name);
	if (!state.direct)
		return rung__measure_absent(
			reader->m, like, group,
			rung__measure_text(reader->m, "%s: %s", reader->target->file, state.why));
	return measure_values(reader, like, group);
}

/* Add the results of a target, read by a thread of a node. `group` is the number of the target. */
static int measure_node(struct rung__measuring *m, const struct nvme_target *target, size_t idx,
                        uint32_t group)
{
	const struct rung__measure_node *node = &m->nodes[idx];
	struct nvme_reader reader = {
		.m = m, .target = target,
		.burst = {
			.ops = rung__registry_reader(),
			.file_bytes = target->bytes,
			/* Different positions in each run: a cache of the drive, or of the host of
			 * a virtual machine, may contain the previous ones. */
			.drawn = rung__mix64(rung__now_ns()),
		},
	};
	struct rung_numa_result like = rung__measure_blank(RUNG_NUMA_NVME);
	struct rung__measure_memory memory;
	const char *why = rung__measure_no_cpu(m, idx);
	int rc = 0;

	like.cpu_node = like.memory_node = (int)node->node->node;
	like.all_cores = 0;
	like.threads = 1;
	like.drive = target->drive;
	like.file = target->file;
	like.buffer_bytes = target->bytes;
	if (!why)
		rc = rung__measure_alloc(m, idx, POOL_BYTES, RUNG__MEASURE_HUGE_BYTES, &memory,
		                         &why);
	if (rc == 0 && why)
		return rung__measure_absent(m, &like, group, why);
	if (rc < 0)
		return rc;
	reader.pool = memory.base;
	rung__measure_note(&like, &memory);
	rc = rung__team_start_one(node->cores, node->core_count, &reader.team);
	if (rc == 0) { /* open, read and close on the same thread: the ring belongs to it */
		rc = run(&reader, reader_open);
		if (rc == 0)
			rc = measure_open(&reader, &like, group);
		run(&reader, reader_close); /* always 0, so the message of `rc` is kept */
		rung__team_stop(reader.team);
	}
	rung__measure_release(&memory);
	return rc;
}

/* Measure a target from the CPUs of each node. */
static int measure_target(struct rung__measuring *m, const struct nvme_target *target,
                          uint32_t group)
{
	int rc = 0;

	for (size_t i = 0; i < m->node_count && rc == 0; i++)
		rc = measure_node(m, target, i, group);
	return rc;
}

/* ---- files and drives ---- */

/* Name the drive of a file, or of a block device, as a plan does. Without a disk it is the source
 * of the mount; file systems in memory or across devices have neither. */
static void name_drive(struct rung__measuring *m, struct nvme_target *target, const struct stat *st)
{
	const dev_t number = S_ISBLK(st->st_mode) ? st->st_rdev : st->st_dev;
	char name[RUNG_DRIVE_NAME_BYTES];

	rung__mount_drive("", number, name, sizeof(name));
	if (name[0])
		target->drive = rung__measure_text(m, "%s", name);
}

/* Open a file or block device and check that reads of it measure the drive: it is large enough and
 * has no holes. O_NONBLOCK: opening a FIFO must not wait. @return 0, RUNG_E_NOENT, RUNG_E_IO,
 * RUNG_E_INVAL */
static int open_target(struct rung__measuring *m, const char *path, struct nvme_target *target)
{
	struct stat st;
	int rc = 0;

	*target = (struct nvme_target){ .file = path,
		                        .fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) };
	if (target->fd < 0)
		return rung__fail_errno(errno, "%s", path);
	if (fstat(target->fd, &st) != 0)
		rc = rung__fail_errno(errno, "%s", path);
	else if (S_ISREG(st.st_mode))
		target->bytes = (uint64_t)st.st_size;
	else if (!S_ISBLK(st.st_mode))
		rc = rung__fail(RUNG_E_INVAL,
		                "%s: is neither a file nor a block device; use --dir to measure a "
		                "folder with a temporary file",
		                path);
	else if (ioctl(target->fd, BLKGETSIZE64, &target->bytes) != 0)
		rc = rung__fail_errno(errno, "%s: its size cannot be queried", path);
	if (rc == 0 && target->bytes < FILE_BYTES_MIN)
		rc = rung__fail(RUNG_E_INVAL,
		                "%s: has %" PRIu64 " bytes; use a file of at least %u bytes, "
		                "preferably larger than the drive's cache",
		                path, target->bytes, FILE_BYTES_MIN);
	else if (rc == 0 && S_ISREG(st.st_mode) &&
	         (double)st.st_blocks * 512 < SPARSE * (double)st.st_size)
		rc = rung__fail(RUNG_E_INVAL,
		                "%s: only %" PRIu64 " of its %" PRIu64
		                " bytes are on the disk; use a file without holes or compression, "
		                "and sync it first",
		                path, (uint64_t)st.st_blocks * 512, target->bytes);
	if (rc < 0) {
		close(target->fd);
		return rc;
	}
	name_drive(m, target, &st);
	return 0;
}

/* Measure a file or block device of this path, which must be the report's. */
static int measure_file(struct rung__measuring *m, const char *path, uint32_t group)
{
	struct nvme_target target;
	int rc = open_target(m, path, &target);

	if (rc < 0)
		return rc;
	rc = measure_target(m, &target, group);
	close(target.fd);
	return rc;
}

/* Write the temporary file: random words, because drives may compress data or store no zeros. It is
 * synced, so that no write is in flight while it is read. */
static int write_file(struct rung__measuring *m, struct rung__direct *file, uint64_t bytes)
{
	uint64_t *words = rung__map_pages(WRITE_BYTES);
	const uint64_t done = m->done;
	int rc = words ? 0 : rung__measure_out_of_memory();

	snprintf(m->step, sizeof(m->step), "nvme, writing the file");
	for (uint64_t at = 0; at < bytes && rc == 0; at += WRITE_BYTES) {
		for (uint64_t i = 0; i < WRITE_BYTES / sizeof(*words); i++)
			words[i] = rung__mix64(at + i);
		rc = rung__direct_write(file, words, RUNG__MIN(WRITE_BYTES, bytes - at), at);
		m->done = done + WRITE_STEPS * RUNG__MIN(at + WRITE_BYTES, bytes) / bytes;
		if (rc == 0)
			rc = rung__measure_progress(m);
	}
	if (rc == 0 && fsync(file->fd) != 0)
		rc = rung__fail_errno(errno, "%s: cannot be synced to the device", file->name);
	rung__unmap_pages(words, WRITE_BYTES);
	return rc;
}

/* Size of the temporary file: the requested one, else the default or a quarter of the free space.
 * @return 0, or why the folder has no space for it */
static int dir_bytes(const struct rung__measuring *m, uint64_t *bytes_out)
{
	const uint64_t wanted = m->opts.dir_bytes ? rung__align_up(m->opts.dir_bytes, WRITE_BYTES)
	                        : m->opts.quick   ? DIR_BYTES_QUICK
	                                          : DIR_BYTES;
	struct statvfs st;
	uint64_t room;

	if (statvfs(m->opts.dir, &st) != 0)
		return rung__fail_errno(errno, "%s", m->opts.dir);
	room = (uint64_t)st.f_bavail * st.f_frsize;
	*bytes_out = m->opts.dir_bytes ? wanted
	                               : RUNG__MIN(wanted, rung__align_down(room / 4, WRITE_BYTES));
	if (*bytes_out < FILE_BYTES_MIN)
		return rung__fail(RUNG_E_NOSPC,
		                  "%s: a file of %" PRIu64
		                  " bytes is too small to measure (%" PRIu64
		                  " bytes are free); use at least %u bytes",
		                  m->opts.dir, *bytes_out, room, FILE_BYTES_MIN);
	return rung__space_check(m->opts.dir, *bytes_out);
}

/* Measure the disk of a folder with a temporary file, which disappears when it is closed or the
 * process ends. */
static int measure_dir(struct rung__measuring *m, uint32_t group)
{
	struct nvme_target target = { .fd = -1, .temp = { .fd = -1 } };
	struct stat st;
	int rc = dir_bytes(m, &target.bytes);

	if (rc == 0) {
		target.file = rung__measure_text(m, "%s", m->opts.dir);
		rc = target.file ? rung__direct_temp(&target.temp, m->opts.dir, target.file,
		                                     target.bytes)
		                 : RUNG_E_NOMEM;
	}
	if (rc < 0)
		return rc;
	rc = write_file(m, &target.temp, target.bytes);
	if (rc == 0 && fstat(target.temp.fd, &st) == 0)
		name_drive(m, &target, &st);
	target.fd = target.temp.fd;
	if (rc == 0)
		rc = measure_target(m, &target, group);
	rung__direct_close(&target.temp);
	return rc;
}

/* Measure a drive as a whole if this process may read it. Otherwise its result is absent, and the
 * reason names the options for files on it. */
static int measure_drive(struct rung__measuring *m, const struct rung_topology_device *drive,
                         uint32_t group)
{
	const char *path = rung__measure_text(m, "/dev/%s", drive->name);
	struct rung_numa_result like = rung__measure_blank(RUNG_NUMA_NVME);
	int fd, err;

	if (!path)
		return RUNG_E_NOMEM;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	err = errno;
	if (fd >= 0) {
		close(fd);
		return measure_file(m, path, group);
	}
	like.drive = rung__measure_text(m, "%s", drive->name);
	return rung__measure_absent(m, &like, group,
	                            rung__measure_text(m,
	                                               "%s: %s; name a file on the drive (--nvme), "
	                                               "or a folder to write one to (--dir)",
	                                               path, strerror(err)));
}

int rung__measure_nvme_check(struct rung__measuring *m)
{
	struct nvme_target target;
	uint64_t bytes;
	int rc = 0;

	for (size_t i = 0; i < m->opts.file_count && rc == 0; i++) {
		rc = open_target(m, m->opts.files[i], &target);
		if (rc == 0)
			close(target.fd);
	}
	return rc == 0 && m->opts.dir ? dir_bytes(m, &bytes) : rc;
}

int rung__measure_nvme(struct rung__measuring *m)
{
	const size_t given = m->opts.file_count + (m->opts.dir != NULL);
	const size_t values = RUNG__ARRAY_LEN(standard_bytes) * m->opts.depth_count;
	struct rung_topology_info info = { .size = sizeof(info) };
	struct rung_numa_result like = rung__measure_blank(RUNG_NUMA_NVME);
	uint32_t group = 0;
	int rc = 0;

	rung_topology_info(m->topology, &info);
	rung__measure_step(m, (given ? given : info.nvme_count) * values * m->node_count +
	                              (m->opts.dir ? WRITE_STEPS : 0));
	for (size_t i = 0; i < m->opts.file_count && rc == 0; i++)
		rc = measure_file(m, rung__measure_text(m, "%s", m->opts.files[i]), group++);
	if (m->opts.dir && rc == 0)
		rc = measure_dir(m, group++);
	if (given)
		return rc;
	for (uint32_t i = 0; i < info.nvme_count && rc == 0; i++)
		rc = measure_drive(m, rung_topology_device(m->topology, info.gpu_count + i),
		                   group++);
	if (info.nvme_count == 0)
		rc = rung__measure_absent(m, &like, 0,
		                          "no NVMe drive; name a file on the disk to measure "
		                          "(--nvme), or a folder to write one to (--dir)");
	return rc;
}

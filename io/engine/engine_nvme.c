/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVMe passthrough: read commands sent directly to the namespace's generic device (/dev/ngXnY,
 * opened for reading), without file system and block layer.
 *
 * The position of the file on the disk is queried once, at open. With this engine, unlike the
 * others, the file must therefore not change while the store is open, so the engine is opt-in.
 * Opening the device requires root or read permission on it. The page cache is bypassed, so the
 * file is written back first.
 *
 * A read across the border between two extents is cut there and comes back short, as it does at the
 * end of the file.
 */
#include "engine/ring.h"

#if RUNG_HAVE_IO_URING
#include <errno.h>
#include <fcntl.h>
#include <linux/nvme_ioctl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "engine/extents.h"

/* Linux 6.1 counts all pages of a registered buffer against the pages of one command */
#define PIECE_SHIFT 18
#define OPCODE_READ 0x02 /* "read" in the NVM command set */
/* blocks per command: the command stores this number minus 1 in 16 bits */
#define BLOCKS_MAX 65536u
/* status code and its type, without the bits "do not retry" and "more" */
#define STATUS_MASK       0x7ff
#define STATUS_TYPE_MEDIA 0x200

/* The disk that contains the file. Owned by the engine. */
struct nvme_drive {
	struct rung__extents extents; /* positions of the file's bytes, queried at open */
	int fd;                       /* the generic device; -1: not open */
	uint32_t namespace_id;
	uint32_t block_shift; /* log2 of the block size */
};

static void close_drive(struct nvme_drive *drive)
{
	if (drive->fd >= 0)
		close(drive->fd);
	rung__extents_free(&drive->extents);
	rung__free(drive);
}

/* Whether `fd` is the generic device with this name. Names in /dev are only a convention, and in a
 * container the name can belong to another device, so the device numbers are compared with those in
 * /sys. */
static bool is_device(int fd, const char *name)
{
	char path[96], text[32], expected[32];
	struct stat st;
	ssize_t got;
	int dev_fd;

	snprintf(path, sizeof(path), "/sys/class/nvme-generic/%s/dev", name);
	dev_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (dev_fd < 0)
		return false;
	got = read(dev_fd, text, sizeof(text) - 1);
	close(dev_fd);
	if (got <= 0 || fstat(fd, &st) != 0)
		return false;
	text[got] = '\0';
	snprintf(expected, sizeof(expected), "%u:%u\n", major(st.st_rdev), minor(st.st_rdev));
	return S_ISCHR(st.st_mode) && strcmp(text, expected) == 0;
}

/* Open the generic device of the disk. Only names of NVMe namespaces are accepted: commands go to
 * the disk itself, not through a volume or another driver above it. */
static int open_device(struct nvme_drive *drive, struct rung__engine_report *report)
{
	const struct rung__block_device *disk = &drive->extents.device;
	unsigned controller, name_space;
	char name[48], path[64], tail;
	int id;

	if (sscanf(disk->name, "nvme%un%u%c", &controller, &name_space, &tail) != 2)
		return rung__engine_refuse(report, -ENOTSUP,
		                           "the file is on %s, which is not an NVMe disk",
		                           disk->name);
	snprintf(name, sizeof(name), "ng%un%u", controller, name_space);
	snprintf(path, sizeof(path), "/dev/%s", name);
	drive->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (drive->fd < 0)
		return rung__engine_refuse(
			report, -errno,
			"%s, the generic device of %s, cannot be opened for reading", path,
			disk->name);
	if (!is_device(drive->fd, name))
		return rung__engine_refuse(report, -ENODEV, "%s is not the generic device of %s",
		                           path, disk->name);
	id = ioctl(drive->fd, NVME_IOCTL_ID);
	if (id <= 0)
		return rung__engine_refuse(report, id < 0 ? -errno : -ENODEV,
		                           "%s does not report its namespace", path);
	drive->namespace_id = (uint32_t)id;
	return 0;
}

/* Check that every extent consists of whole blocks: commands address blocks, and buffers are
 * aligned to at most a page. */
static int check_blocks(struct nvme_drive *drive, struct rung__engine_report *report)
{
	const struct rung__block_device *disk = &drive->extents.device;

	if (disk->block_bytes < 512 || disk->block_bytes > RUNG__PAGE_BYTES ||
	    (disk->block_bytes & (disk->block_bytes - 1)))
		return rung__engine_refuse(
			report, -ENOTSUP,
			"%s has blocks of %u bytes, a size that this engine does not support",
			disk->name, disk->block_bytes);
	drive->block_shift = (uint32_t)__builtin_ctz(disk->block_bytes);
	for (uint64_t i = 0; i < drive->extents.count; i++) {
		const struct rung__extent *extent = &drive->extents.list[i];

		if ((extent->at | extent->bytes) & (disk->block_bytes - 1))
			return rung__engine_refuse(report, -ENOTSUP,
			                           "the file is not stored in whole blocks of %s",
			                           disk->name);
	}
	return 0;
}

/* The result of a read from its completion. `res` is 0, the status of the command, or -errno. It
 * does not contain the number of bytes, so prepare() stores that in the upper half of user_data,
 * where UINT32_MAX marks a misaligned read. */
static int32_t result_of(const struct io_uring_cqe *cqe)
{
	const uint32_t bytes = (uint32_t)(io_uring_cqe_get_data64(cqe) >> 32);

	if (cqe->res < 0)
		return cqe->res;
	if (cqe->res > 0) /* the same error as from the block layer */
		return (cqe->res & STATUS_MASK & 0x700) == STATUS_TYPE_MEDIA ? -ENODATA : -EIO;
	return bytes == UINT32_MAX ? -EINVAL : (int32_t)bytes;
}

static int nvme_open(const struct rung__engine_args *args, struct rung__engine **engine_out,
                     struct rung__engine_report *report)
{
	struct nvme_drive *drive = rung__zalloc(sizeof(*drive));
	int rc;

	if (!drive)
		return rung__engine_refuse(report, -ENOMEM, "out of memory");
	drive->fd = -1;
	rc = rung__extents_load(args->fd, &drive->extents, report);
	if (rc == 0)
		rc = open_device(drive, report);
	if (rc == 0)
		rc = check_blocks(drive, report);
	if (rc == 0)
		rc = rung__ring_open(args, drive->fd, IORING_SETUP_SQE128 | IORING_SETUP_CQE32,
		                     PIECE_SHIFT, engine_out, report);
	if (rc < 0) {
		close_drive(drive);
		return rc;
	}
	(*engine_out)->drive = drive;
	(*engine_out)->result_of = result_of;
	return 0;
}

static void nvme_close(struct rung__engine *ring)
{
	struct nvme_drive *drive = ring->drive;

	rung__ring_close(ring);
	close_drive(drive);
}

/* The contiguous part of a request. @param at_out its position on the disk. @param of_file_out its
 * bytes that belong to the file, which can end inside the last block. @return bytes of the command,
 * whole blocks if the request is aligned */
static uint32_t cut(const struct nvme_drive *drive, const struct rung__fetch *fetch,
                    uint64_t *at_out, uint32_t *of_file_out)
{
	const struct rung__extent *extent = rung__extent_at(&drive->extents, fetch->offset);
	uint64_t inside = fetch->offset - extent->offset;
	uint64_t bytes_max = (uint64_t)BLOCKS_MAX << drive->block_shift;
	uint64_t bytes = RUNG__MIN(fetch->bytes, RUNG__MIN(extent->bytes - inside, bytes_max));

	*at_out = extent->at + inside;
	*of_file_out = (uint32_t)RUNG__MIN(bytes, drive->extents.file_bytes - fetch->offset);
	return (uint32_t)bytes;
}

/* Fill in a command. A read at the end of the file, or a misaligned one, becomes a no-op that
 * completes with 0 or -EINVAL, as pread() with O_DIRECT would return. */
static void prepare(const struct rung__engine *ring, struct io_uring_sqe *sqe,
                    const struct rung__fetch *fetch)
{
	const struct nvme_drive *drive = ring->drive;
	uint32_t block = 1u << drive->block_shift, bytes = 0, of_file = 0;
	int piece = rung__ring_piece(ring, fetch);
	struct nvme_uring_cmd cmd = { .opcode = OPCODE_READ, .nsid = drive->namespace_id };
	uint64_t at = 0;

	if (fetch->offset < drive->extents.file_bytes)
		bytes = cut(drive, fetch, &at, &of_file);
	if (bytes == 0 || ((at | bytes | fetch->to) & (block - 1))) {
		io_uring_prep_nop(sqe);
		io_uring_sqe_set_data64(sqe,
		                        (bytes ? (uint64_t)UINT32_MAX << 32 : 0) | fetch->token);
		return;
	}
	cmd.addr = (uint64_t)(uintptr_t)(ring->pool + fetch->to);
	cmd.data_len = bytes;
	/* dwords 10 and 11: the first block; 12: the number of blocks minus 1 */
	cmd.cdw10 = (uint32_t)(at >> drive->block_shift);
	cmd.cdw11 = (uint32_t)(at >> drive->block_shift >> 32);
	cmd.cdw12 = (bytes >> drive->block_shift) - 1;
	io_uring_prep_rw(IORING_OP_URING_CMD, sqe, ring->fd, NULL, 0, 0);
	sqe->cmd_op = NVME_URING_CMD_IO;
	if (piece >= 0) {
		sqe->uring_cmd_flags = IORING_URING_CMD_FIXED;
		sqe->buf_index = (uint16_t)piece;
	}
	memcpy(sqe->cmd, &cmd, sizeof(cmd));
	io_uring_sqe_set_flags(sqe, ring->sqe_flags);
	io_uring_sqe_set_data64(sqe, (uint64_t)of_file << 32 | fetch->token);
}

static int nvme_submit(struct rung__engine *ring, const struct rung__fetch *fetch)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->ring);

	if (!sqe)
		return -EAGAIN;
	prepare(ring, sqe, fetch);
	return 0;
}

const struct rung__engine_ops rung__engine_nvme = {
	.name = "nvme",
	.id = RUNG_ENGINE_NVME,
	.opt_in_why = "opt-in: it reads the disk under the file, which must not change while the "
		      "store is open",
	.direct = true,
	.maps = true,
	.open = nvme_open,
	.close = nvme_close,
	.submit = nvme_submit,
	.reap = rung__ring_reap,
};
#endif

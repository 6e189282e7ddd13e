/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the extents of a file by FS_IOC_FIEMAP.
 *
 * Only file systems whose positions refer to the device they are mounted from are queried. Only
 * extents whose bytes on the disk equal the file's are accepted: they must not be compressed,
 * encrypted, inline, unwritten, or on the real-time device of an XFS. Extents shared with another
 * file are valid: a write to the other file copies them first.
 */
#include <errno.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "engine/extents.h"

#define EXTENTS_MAX (1u << 20) /* 24 MiB of extents; a more fragmented file is rejected */
#define ASK_MAX     512u       /* extents per call */
#define XFS_MAGIC   0x58465342 /* "XFSB" */
/* flags of extents whose bytes are not on the disk, or differ from the file's */
#define FLAGS_REFUSED                                                                              \
	(FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_DELALLOC | FIEMAP_EXTENT_ENCODED |                  \
	 FIEMAP_EXTENT_DATA_ENCRYPTED | FIEMAP_EXTENT_NOT_ALIGNED | FIEMAP_EXTENT_DATA_INLINE |    \
	 FIEMAP_EXTENT_DATA_TAIL | FIEMAP_EXTENT_UNWRITTEN)

static int refuse(struct rung__engine_report *report, int err, const char *what)
{
	return rung__engine_refuse(report, -err, "%s", what);
}

static int format_errno(struct rung__engine_report *report, int err, const char *what)
{
	return rung__engine_refuse(report, -err, "%s: %s", what, strerror(err));
}

/* Accept ext4 and XFS. The positions that other file systems report are not always on the device
 * below them: some use several devices. */
static int check_file_system(int fd, struct rung__engine_report *report)
{
	struct statfs fs;
	struct fsxattr attr;

	if (fstatfs(fd, &fs) != 0)
		return format_errno(report, errno, "the type of the file system cannot be queried");
	if ((unsigned long)fs.f_type == EXT4_SUPER_MAGIC)
		return 0;
	/* on XFS also check the device, because files can be on a separate real-time device */
	if ((unsigned long)fs.f_type != XFS_MAGIC)
		return refuse(report, ENOTSUP, "the file is neither on ext4 nor on XFS");
	if (ioctl(fd, FS_IOC_FSGETXATTR, &attr) != 0)
		return format_errno(report, errno, "XFS does not report the file's attributes");
	if (attr.fsx_xflags & FS_XFLAG_REALTIME)
		return refuse(report, ENOTSUP, "the file is on the real-time device of its XFS");
	return 0;
}

const char *rung__extents_join(struct rung__extents *extents)
{
	uint64_t end = 0, count = 0;

	for (uint64_t i = 0; i < extents->count && end < extents->file_bytes; i++) {
		struct rung__extent extent = extents->list[i],
				    *last = &extents->list[count - (count > 0)];

		if (extent.offset != end || extent.bytes == 0)
			break;
		/* join adjacent extents, because reads are cut at the borders */
		if (count > 0 && last->at + last->bytes == extent.at)
			last->bytes += extent.bytes;
		else
			extents->list[count++] = extent;
		end += extent.bytes;
	}
	extents->count = count;
	return end < extents->file_bytes ? "the file has holes, which are not on the disk" : NULL;
}

/* Append the extents that one call has returned. */
static int add_all(struct rung__extents *extents, const struct fiemap *map,
                   struct rung__engine_report *report)
{
	struct rung__extent *list = rung__realloc_array(
		extents->list, extents->count + map->fm_mapped_extents, sizeof(*list));

	if (!list)
		return refuse(report, ENOMEM, "out of memory");
	extents->list = list;
	for (unsigned i = 0; i < map->fm_mapped_extents; i++) {
		const struct fiemap_extent *from = &map->fm_extents[i];

		if (from->fe_flags & FLAGS_REFUSED)
			return refuse(report, ENOTSUP,
			              "the bytes on the disk differ from the file's (compressed, "
			              "encrypted, inline or not written)");
		list[extents->count++] =
			(struct rung__extent){ from->fe_logical,
			                       extents->device.partition_at + from->fe_physical,
			                       from->fe_length };
	}
	if (extents->count > EXTENTS_MAX)
		return refuse(report, ENOTSUP, "the file has too many extents");
	return 0;
}

/* Query all extents, ASK_MAX per call. @param map  with room for ASK_MAX extents */
static int query_extents(int fd, struct rung__extents *extents, struct fiemap *map,
                         struct rung__engine_report *report)
{
	uint64_t from = 0;

	while (from < extents->file_bytes) {
		const struct fiemap_extent *last;
		int rc;

		/* FIEMAP_FLAG_SYNC: dirty pages have no position yet, and their old blocks have
		 * old bytes */
		*map = (struct fiemap){ .fm_start = from,
			                .fm_length = extents->file_bytes - from,
			                .fm_flags = FIEMAP_FLAG_SYNC,
			                .fm_extent_count = ASK_MAX };
		if (ioctl(fd, FS_IOC_FIEMAP, map) != 0)
			return format_errno(report, errno,
			                    "the file system does not report the file's extents");
		if (map->fm_mapped_extents == 0) /* the rest is a hole, which joining detects */
			break;
		rc = add_all(extents, map, report);
		if (rc < 0)
			return rc;
		last = &map->fm_extents[map->fm_mapped_extents - 1];
		from = last->fe_logical + last->fe_length;
		if (last->fe_flags & FIEMAP_EXTENT_LAST)
			break;
	}
	return 0;
}

int rung__extents_load(int fd, struct rung__extents *extents_out,
                       struct rung__engine_report *report)
{
	struct rung__extents extents = { .list = NULL };
	struct fiemap *map;
	const char *against;
	struct stat st;
	int rc = check_file_system(fd, report);

	if (rc < 0)
		return rc;
	if (fstat(fd, &st) != 0)
		return format_errno(report, errno, "the size of the file cannot be queried");
	if (!rung__block_device("/sys", major(st.st_dev), minor(st.st_dev), &extents.device))
		return refuse(report, ENOTSUP, "/sys does not list a disk for the file system");
	extents.file_bytes = (uint64_t)st.st_size;
	map = rung__malloc(sizeof(*map) + ASK_MAX * sizeof(map->fm_extents[0]));
	rc = map ? query_extents(fd, &extents, map, report)
	         : refuse(report, ENOMEM, "out of memory");
	rung__free(map);
	if (rc == 0) {
		against = rung__extents_join(&extents);
		if (against)
			rc = refuse(report, ENOTSUP, against);
	}
	if (rc < 0) {
		rung__extents_free(&extents);
		return rc;
	}
	*extents_out = extents;
	return 0;
}

void rung__extents_free(struct rung__extents *extents)
{
	rung__free(extents->list);
	extents->list = NULL;
}

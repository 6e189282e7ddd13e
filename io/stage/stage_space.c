/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the free space before anything is written. The bytes that go to the output and to the
 * folders of stripes are added up for each file system, because several folders may share one.
 * Sizes are in bytes, and saturate instead of overflowing: a graph with an absurd size is then
 * reported as too large.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/base.h"
#include "folder/stage_entries.h"
#include "graph/graph.h"
#include "rows/stage_partition.h"
#include "stage/stage_memory.h"

#define SPARE_BYTES 65536u /* for the folder itself, and its journal */
#define NAMES_BYTES 300u   /* size of the list of folders in a message; a longer list is cut off */

/* A file system that is written to. */
struct device {
	dev_t dev;
	uint64_t needed, free; /* bytes */
	bool has_out;          /* OUT is on this file system */
	/* folders of stripes on this file system; borrowed from the options */
	uint32_t stripe_count;
	const char *stripe_dirs[RUNG__FILES_MAX];
};

struct devices {
	struct device list[1 + RUNG__FILES_MAX]; /* list[0] contains OUT */
	uint32_t count;
};

/*
 * Bytes that a graph in files needs at its peak, which is before the rows are written: the result,
 * the edges sorted by vertex (unless a CSC is read in place), and two ids per edge while they are
 * sorted again by rank.
 */
static uint64_t graph_bytes(const struct rung__stage *stage)
{
	const struct rung_graph_opts *graph = &stage->opts.graph;
	const bool csc = rung__spec_is_csc(rung__graph_first(graph));
	const bool in_place = csc && !graph->undirected && !graph->dedup;
	const uint64_t ids = stage->manifest->index_bytes * (in_place ? 3u : 4u);
	const uint64_t offsets = 8 * stage->manifest->vertex_count * (in_place ? 1u : 2u);
	uint64_t needed;

	if (!stage->in_files || stage->opts.part > 0 || rung__stage_file_done(stage, RUNG__INDICES))
		return 0;
	return rung__mul(stage->edge_count_max, ids, &needed) && rung__add(needed, offsets, &needed)
	               ? needed
	               : UINT64_MAX;
}

/* Bytes of the files in OUT, in whole pages, with the largest temporary size: the arrays are
 * written one after the other. Features count only if they are not striped. */
static uint64_t out_bytes(const struct rung__stage *stage)
{
	const struct rung__manifest *m = stage->manifest;
	uint64_t needed = rung__align_up(m->checksums.bytes, RUNG__PAGE_BYTES) +
	                  RUNG__MANIFEST_BYTES_MAX / 256 + SPARE_BYTES +
	                  /* the file's share of the journal, which has a checksum per block */
	                  32 * m->block_count;
	uint64_t temp = stage->opts.stripe_count ? 0 : stage->features_plan.temp_bytes;

	for (uint32_t i = 0; i < stage->extra_count; i++)
		temp = RUNG__MAX(temp, stage->extra_arrays[i].plan.temp_bytes);
	needed += temp;
	for (uint32_t i = stage->opts.stripe_count ? m->feature_file_count : 0; i < m->file_count;
	     i++) {
		if (rung__stage_writes(stage, i) &&
		    !rung__add(needed, rung__align_up(m->files[i].bytes, RUNG__PAGE_BYTES),
		               &needed))
			return UINT64_MAX;
	}
	return needed;
}

/* Bytes of one features file in another folder. Partitioned rows make it longer until they are
 * sorted. */
static uint64_t stripe_bytes(const struct rung__stage *stage, uint32_t file)
{
	const struct rung__layout layout = rung__manifest_features_layout(stage->manifest);
	uint64_t bytes = stage->manifest->files[file].bytes;

	if (stage->features_plan.kind == RUNG_ROW_ORDER_PARTITION)
		bytes = rung__partition_file_bytes(&layout, &stage->features_plan,
		                                   stage->manifest->vertex_count, file);
	return rung__align_up(bytes, RUNG__PAGE_BYTES);
}

static struct device *find_device(struct devices *devices, dev_t dev)
{
	for (uint32_t i = 0; i < devices->count; i++) {
		if (devices->list[i].dev == dev)
			return &devices->list[i];
	}
	return NULL;
}

/* Add OUT, by its parent folder: OUT itself may not exist yet. */
static int add_out(const struct rung__stage *stage, struct devices *devices)
{
	struct device *device = &devices->list[devices->count++];
	struct stat st;

	if (fstat(stage->dir.parent_fd, &st) < 0)
		return rung__fail_errno(errno, "%s: its parent folder cannot be inspected",
		                        stage->dir.path);
	*device = (struct device){ .dev = st.st_dev, .has_out = true, .needed = out_bytes(stage) };
	return rung__stage_dir_free_bytes(&stage->dir, &device->free);
}

/* Add features file number `file` to the file system of its folder. */
static int add_stripe(const struct rung__stage *stage, uint32_t file, struct devices *devices)
{
	const char *dir = stage->opts.stripe_dirs[file];
	struct device *device;
	struct statvfs vfs;
	struct stat st;

	if (stat(dir, &st) < 0 || statvfs(dir, &vfs) < 0)
		return rung__fail_errno(errno, "%s: its free space cannot be determined", dir);
	device = find_device(devices, st.st_dev);
	if (!device) {
		device = &devices->list[devices->count++];
		*device = (struct device){ .dev = st.st_dev };
		/* f_bavail, not f_bfree: blocks that are reserved for root are not available */
		if (!rung__mul(vfs.f_bavail, vfs.f_frsize, &device->free))
			device->free = UINT64_MAX;
	}
	device->stripe_dirs[device->stripe_count++] = dir;
	if (!rung__add(device->needed, stripe_bytes(stage, file), &device->needed))
		device->needed = UINT64_MAX;
	return 0;
}

/* Count the space of a stripe that an earlier run has written as free: this run resumes it, and the
 * needed bytes include it. st_blocks is in units of 512 bytes. Files in OUT.partial itself are
 * counted by rung__stage_dir_free_bytes(). */
static void count_used(const struct rung__stage *stage, uint32_t file, struct devices *devices)
{
	struct device *device;
	struct stat st;

	if (stage->dir.fd < 0 ||
	    fstatat(stage->dir.fd, stage->manifest->files[file].name, &st, 0) < 0 ||
	    !S_ISREG(st.st_mode))
		return;
	device = find_device(devices, st.st_dev);
	if (device && !rung__add(device->free, (uint64_t)st.st_blocks * 512, &device->free))
		device->free = UINT64_MAX;
}

/* Write the list of a file system's folders for a message: "OUT, DIR, DIR". */
static void list_folders(const struct rung__stage *stage, const struct device *device,
                         char names[NAMES_BYTES])
{
	size_t used = 0;

	names[0] = '\0';
	for (uint32_t i = 0; i < device->stripe_count + device->has_out && used < NAMES_BYTES;
	     i++) {
		const char *name = i < device->has_out ? stage->opts.out_dir
		                                       : device->stripe_dirs[i - device->has_out];

		used += (size_t)snprintf(names + used, NAMES_BYTES - used, "%s%s", used ? ", " : "",
		                         name);
	}
}

static int check_device(const struct rung__stage *stage, const struct device *device)
{
	char names[NAMES_BYTES];

	if (device->needed <= device->free)
		return 0;
	list_folders(stage, device, names);
	return rung__fail(RUNG_E_NOSPC,
	                  "%s: staging needs %" PRIu64 " bytes, but %" PRIu64
	                  " are free; free %" PRIu64 " more, or choose %s",
	                  names, device->needed, device->free, device->needed - device->free,
	                  device->stripe_count ? "other folders" : "another output");
}

int rung__stage_check_space(struct rung__stage *stage)
{
	const uint32_t stripe_count = (uint32_t)stage->opts.stripe_count;
	struct devices devices = { .count = 0 };
	int rc = rung__manifest_lay_out(stage->manifest);

	if (rc == 0)
		rc = add_out(stage, &devices);
	for (uint32_t f = 0; f < stripe_count && rc == 0; f++)
		rc = add_stripe(stage, f, &devices);
	if (rc < 0)
		return rc;
	stage->report.free_bytes = devices.list[0].free;
	for (uint32_t f = 0; f < stripe_count; f++)
		count_used(stage, f, &devices);
	/* the temporary files of the graph are gone before the rows are written, so the larger size
	 * counts */
	devices.list[0].needed = RUNG__MAX(devices.list[0].needed, graph_bytes(stage));
	for (uint32_t i = 0; i < devices.count && rc == 0; i++)
		rc = check_device(stage, &devices.list[i]);
	return rc;
}

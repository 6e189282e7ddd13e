/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks every block of every file against its checksum, at the speed of the disk: reads are large
 * and direct, with several in flight. Checksums are computed while other blocks are read, and a
 * folder larger than memory does not evict everything else from the page cache.
 *
 * checksums.npy is checked first, because it has the checksums of all other files. Its own
 * checksums are in the manifest.
 */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file/file.h"
#include "source/npy.h"
#include "verify/state.h"

#define ITEM_BLOCKS (RUNG__PUMP_READ_BYTES / RUNG__BLOCK_BYTES) /* number of blocks per read */

/* Files that are checked together. An item is one read of a file. */
struct scan {
	struct rung__verify *v;
	const struct rung__manifest_file *files; /* [file_count] */
	const uint64_t *sums; /* recorded checksums of all blocks of these files, file after file */
	uint32_t file_count;
	struct rung__direct *direct; /* [file_count]; fd -1: the file cannot be opened */
	uint64_t *items;             /* [file_count + 1]: first item of each file */
};

/* Whether the checksum of a block, counted over all files, is in an undamaged block of
 * checksums.npy. */
static bool sum_known(const struct rung__verify *v, uint64_t block)
{
	const uint64_t at = RUNG__NPY_DATA_OFFSET + block * sizeof(uint64_t);

	/* entries have 8 bytes at multiples of 8, so each is in one block */
	return !v->sums_bad[at / RUNG__BLOCK_BYTES];
}

/* Check one block with a separate read, after the read of several blocks has failed: only the
 * blocks that cannot be read are bad. */
static bool block_good(const struct rung__direct *file, uint64_t offset, uint64_t bytes,
                       uint64_t sum, unsigned char *buffer)
{
	return rung__direct_read(file, buffer, bytes, offset) == 0 &&
	       rung__checksum(buffer, (size_t)bytes) == sum;
}

/* The file of an item. There are few files, so a linear search suffices. */
static uint32_t file_of_item(const struct scan *scan, uint64_t item)
{
	uint32_t f = 0;

	while (item >= scan->items[f + 1])
		f++;
	return f;
}

/* Check the blocks of one item. Runs in several threads, which write the states of different
 * blocks. A bad block is not a failure: all blocks are checked for the report. */
static int scan_item(void *ctx, uint64_t item, unsigned char *buffer)
{
	const struct scan *scan = ctx;
	const uint32_t f = file_of_item(scan, item);
	const struct rung__manifest_file *file = &scan->files[f];
	const struct rung__direct *direct = &scan->direct[f];
	const uint64_t first = (item - scan->items[f]) * ITEM_BLOCKS,
		       offset = first * RUNG__BLOCK_BYTES;
	const uint64_t blocks = RUNG__MIN(file->block_count - first, ITEM_BLOCKS);
	const uint64_t bytes = RUNG__MIN(file->bytes - offset, blocks * RUNG__BLOCK_BYTES);
	const uint64_t *sums =
		scan->sums + (file->first_block - scan->files[0].first_block) + first;
	unsigned char *states = rung__verify_states(scan->v, file) + first;
	const bool there = direct->fd >= 0,
		   whole = there && rung__direct_read(direct, buffer, bytes, offset) == 0;

	for (uint64_t i = 0; i < blocks; i++) {
		const uint64_t at = i * RUNG__BLOCK_BYTES,
			       part = RUNG__MIN(bytes - at, RUNG__BLOCK_BYTES);

		if (whole ? rung__checksum(buffer + at, (size_t)part) != sums[i]
		          : !there || !block_good(direct, offset + at, part, sums[i], buffer))
			states[i] = RUNG__BLOCK_BAD;
	}
	return 0;
}

/* Bytes after the end of a file belong to no block. They are reported as damage of its last
 * block. */
static void check_ahead(const struct scan *scan, uint32_t f)
{
	const struct rung__manifest_file *file = &scan->files[f];
	struct stat st;

	if (scan->direct[f].fd >= 0 && fstat(scan->direct[f].fd, &st) == 0 &&
	    (uint64_t)st.st_size > file->bytes)
		rung__verify_states(scan->v, file)[file->block_count - 1] = RUNG__BLOCK_BAD;
}

/* Open the files and number their items. A file that cannot be opened has items as well: all its
 * blocks are bad. */
static int open_files(struct scan *scan)
{
	int rc = 0;

	for (uint32_t f = 0; f < scan->file_count; f++) {
		int fd = rung__dataset_open_file(scan->v->ds, scan->files[f].name, 0);

		scan->items[f + 1] = scan->items[f] +
		                     (scan->files[f].block_count + ITEM_BLOCKS - 1) / ITEM_BLOCKS;
		if (fd < 0)
			continue;
		rc = rung__direct_open(&scan->direct[f], fd, scan->files[f].name);
		close(fd);
		/* opening the file again fails only for lack of descriptors, which is not a
		 * property of the file */
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Check all blocks of some files. @param step  name of the step for the progress */
static int scan_files(struct rung__verify *v, const struct rung__manifest_file *files,
                      uint32_t count, const uint64_t *sums, const char *step)
{
	struct scan scan = { .v = v, .files = files, .sums = sums, .file_count = count };
	struct rung__pump pump = { .step = step,
		                   .threads = v->threads,
		                   .buffer_bytes = RUNG__PUMP_READ_BYTES,
		                   .memory_bytes = v->opts.memory_bytes,
		                   .progress = v->opts.progress,
		                   .progress_ctx = v->opts.progress_ctx,
		                   .ctx = &scan,
		                   .work = scan_item };
	int rc;

	scan.direct = rung__malloc_array(count, sizeof(*scan.direct));
	scan.items = rung__zalloc_array(count + 1u, sizeof(*scan.items));
	for (uint32_t f = 0; scan.direct && f < count; f++)
		scan.direct[f].fd = -1;
	rc = scan.direct && scan.items
	             ? open_files(&scan)
	             : rung__fail(RUNG_E_NOMEM, "verify: no memory for a list of %u files", count);
	if (rc == 0) {
		pump.item_count = scan.items[count];
		rc = rung__pump_run(&pump);
	}
	for (uint32_t f = 0; scan.direct && f < count; f++) {
		if (rc == 0)
			check_ahead(&scan, f);
		rung__direct_close(&scan.direct[f]);
	}
	rung__free(scan.direct);
	rung__free(scan.items);
	return rc;
}

/* Load the checksums of all blocks, and record which blocks of checksums.npy are damaged. If the
 * file cannot be read as a whole, none of its checksums are used. */
static int load_sums(struct rung__verify *v)
{
	const struct rung__manifest *m = v->ds->manifest;
	const struct rung__manifest_file *file = &m->checksums;
	int fd;

	memcpy(v->sums_bad, rung__verify_states(v, file), (size_t)file->block_count);
	fd = rung__dataset_open_file(v->ds, file->name, 0);
	if (fd < 0 || rung__pread_all(fd, file->name, v->sums, m->block_count * sizeof(*v->sums),
	                              RUNG__NPY_DATA_OFFSET) < 0)
		memset(v->sums_bad, 1, (size_t)file->block_count);
	if (fd >= 0)
		close(fd);
	return 0;
}

/*
 * Blocks whose checksum is in a damaged block of checksums.npy cannot be checked. They are not
 * reported, because the damaged block is. A repair checks them again.
 */
static void pass_unknown(struct rung__verify *v)
{
	for (uint64_t i = 0; i < v->ds->manifest->block_count; i++) {
		if (!sum_known(v, i))
			v->bad[i] = RUNG__BLOCK_GOOD;
	}
}

int rung__verify_blocks(struct rung__verify *v)
{
	const struct rung__manifest *m = v->ds->manifest;
	int rc = scan_files(v, &m->checksums, 1, m->checksums_sums, "checksums");

	if (rc == 0)
		rc = load_sums(v);
	if (rc == 0)
		rc = scan_files(v, m->files, m->file_count, v->sums, "verify");
	if (rc == 0)
		pass_unknown(v);
	return rc;
}

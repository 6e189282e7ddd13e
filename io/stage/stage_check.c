/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the files of a folder against their checksums before staging relies on them: the files of
 * an earlier run when it is resumed, and all files before the folder gets its name and the replaced
 * one is removed.
 *
 * Files are read through the page cache. Staging writes without it, so the data come from the
 * device, except for pages that another process has changed, which are read as changed. For files
 * of 64 MiB and more the first block, the last and one in 64 are read: that detects missing,
 * truncated or replaced files with 1/64 of the reads. rung verify reads everything.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "dataset/checksum.h"
#include "file/file.h"
#include "folder/stage_stripe.h"
#include "stage/stage_check.h"

/* blocks per read, as many as the buffer holds */
#define READ_BLOCKS (RUNG__STAGE_BUFFER_BYTES / RUNG__BLOCK_BYTES)

struct check {
	struct rung__stage *stage;
	const struct rung__manifest_file *file; /* the file that is checked now */
	const uint64_t *sums;                   /* expected checksums of the file's blocks */
	/* for messages: the path of the folder, and the end of each message about a damaged file */
	const char *dir, *cure;
	char *path; /* path of the file, for messages */
};

/* The file does not exist. A features file may be a link to a device that is not mounted: the
 * message then names the target of the link. */
static int fail_missing(const struct check *check)
{
	char target[PATH_MAX];

	if (rung__stripe_link_ok(check->stage->dir.fd, check->file->name, target))
		return rung__fail(RUNG_E_CORRUPT, "%s: links to %s, which is missing; %s",
		                  check->path, target, check->cure);
	return rung__fail(RUNG_E_CORRUPT, "%s: is missing; %s", check->path, check->cure);
}

static int check_size(const struct check *check, int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return rung__fail_errno(errno, "%s", check->path);
	if ((uint64_t)st.st_size == check->file->bytes)
		return 0;
	return rung__fail(RUNG_E_CORRUPT, "%s: has %jd bytes, but %" PRIu64 " were written; %s",
	                  check->path, (intmax_t)st.st_size, check->file->bytes, check->cure);
}

/* Read and compare blocks [first, first + count), which fit the buffer. */
static int check_blocks(const struct check *check, int fd, uint64_t first, uint64_t count)
{
	const uint64_t offset = first * RUNG__BLOCK_BYTES,
		       bytes = RUNG__MIN(check->file->bytes - offset, count * RUNG__BLOCK_BYTES);
	struct rung__stage *stage = check->stage;
	uint64_t sums[READ_BLOCKS];
	int rc = rung__pread_all(fd, check->path, stage->buffer, bytes, offset);

	if (rc < 0)
		return rc;
	rung__checksum_blocks(stage->buffer, (size_t)bytes, stage->threads, sums);
	for (uint64_t i = 0; i < count; i++) {
		if (sums[i] != check->sums[first + i])
			return rung__fail(RUNG_E_CORRUPT,
			                  "%s: block %" PRIu64 " at offset %" PRIu64
			                  " differs from the written data; %s",
			                  check->path, first + i, (first + i) * RUNG__BLOCK_BYTES,
			                  check->cure);
	}
	return rung__stage_advance(stage, "check", bytes);
}

/* Compare the chosen blocks of a file; adjacent blocks share a read. */
static int check_open_file(const struct check *check, int fd)
{
	const uint64_t end = check->file->block_count;
	int rc = check_size(check, fd);

	for (uint64_t block = 0, count; block < end && rc == 0; block += count) {
		for (count = 0; count < READ_BLOCKS && block + count < end &&
		                rung__block_is_checked(check->file, block + count);
		     count++)
			;
		if (count > 0)
			rc = check_blocks(check, fd, block, count);
		else
			count = 1; /* skip the block */
	}
	return rc;
}

static int check_file(struct check *check)
{
	const bool features = strncmp(check->file->name, RUNG__FEATURES_PREFIX,
	                              strlen(RUNG__FEATURES_PREFIX)) == 0;
	int fd, rc;

	check->path = rung__format("%s/%s", check->dir, check->file->name);
	if (!check->path)
		return rung__fail(RUNG_E_NOMEM, "%s/%s", check->dir, check->file->name);
	/* only features files may be links, to stripes in other folders */
	rc = fd = rung__open_regular(check->stage->dir.fd, check->file->name, check->path,
	                             features ? 0 : O_NOFOLLOW);
	/* the message of rung__open_regular() lacks the cure, so these two failures are reported
	 * again */
	if (fd == RUNG_E_NOENT)
		rc = fail_missing(check);
	else if (fd == RUNG_E_FORMAT)
		rc = rung__fail(RUNG_E_CORRUPT, "%s: is not a regular file; %s", check->path,
		                check->cure);
	else if (fd >= 0)
		rc = check_open_file(check, fd);
	if (fd >= 0)
		close(fd);
	rung__free(check->path);
	return rc;
}

/* Bytes of a file that are read, for the progress. */
static uint64_t checked_bytes(const struct rung__manifest_file *file)
{
	uint64_t blocks = 0;

	for (uint64_t block = 0; block < file->block_count; block++)
		blocks += rung__block_is_checked(file, block);
	return RUNG__MIN(blocks * RUNG__BLOCK_BYTES, file->bytes);
}

/* Check the files. @param all false: only the files that the journal lists as finished */
static int check_files(struct rung__stage *stage, const char *dir, const char *cure, bool all)
{
	const struct rung__manifest *m = stage->manifest;
	struct check check = { .stage = stage, .dir = dir, .cure = cure };
	int rc = 0;

	stage->step_done = stage->step_total = 0;
	for (uint32_t i = 0; i < m->file_count; i++)
		stage->step_total += all || rung__stage_file_done(stage, m->files[i].name)
		                             ? checked_bytes(&m->files[i])
		                             : 0;
	for (uint32_t i = 0; i < m->file_count && rc == 0; i++) {
		check.file = &m->files[i];
		check.sums = stage->sums + check.file->first_block;
		if (all || rung__stage_file_done(stage, check.file->name))
			rc = check_file(&check);
	}
	return rc;
}

/* Check checksums.npy, which is not in the manifest's list of files. Its own checksums are in the
 * manifest. */
static int check_sums(struct rung__stage *stage, const char *dir, const char *cure)
{
	struct check check = { .stage = stage,
		               .file = &stage->manifest->checksums,
		               .sums = stage->manifest->checksums_sums,
		               .dir = dir,
		               .cure = cure };

	return check_file(&check);
}

int rung__stage_check_done(struct rung__stage *stage)
{
	return check_files(stage, stage->dir.partial_path, RUNG__STAGE_CURE, false);
}

int rung__stage_check_part(struct rung__stage *stage)
{
	const struct rung__manifest *m = stage->manifest;
	struct check check = { .stage = stage,
		               .file = &m->files[stage->opts.part],
		               .dir = stage->dir.partial_path,
		               .cure = RUNG__STAGE_CURE };

	stage->step_done = 0;
	stage->step_total = checked_bytes(check.file);
	check.sums = stage->sums + check.file->first_block;
	return check_file(&check);
}

int rung__stage_check_all(struct rung__stage *stage, const char *dir, const char *cure)
{
	const struct rung__manifest *m = stage->manifest;
	int rc = check_sums(stage, dir, cure);

	if (rc == 0)
		rc = check_files(stage, dir, cure, true);
	/* if rows stay in place, their source must still be the file that was recorded */
	return rc < 0 || !rung__manifest_in_place(m) ? rc : rung__in_place_check(&m->in_place, dir);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows that stay in their source. Nothing prevents changes to that file, so the dataset records its
 * size, its modification time, and checksums of some blocks. These distinguish copies and touched
 * files from files with other rows, without reading hundreds of gigabytes. A change between the
 * samples is not found.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataset/checksum.h"
#include "file/file.h"
#include "dataset/in_place.h"
#include "base/base.h"
#include "source/source.h"

uint32_t rung__in_place_sample_count(uint64_t file_bytes)
{
	return (uint32_t)RUNG__MIN(rung__block_count(file_bytes), RUNG__SAMPLES_MAX);
}

/* Index of a sampled block. docs/FORMAT.md has the formula. */
static uint64_t block_of_sample(const struct rung__in_place *in_place, uint32_t sample)
{
	const uint64_t last = rung__block_count(in_place->bytes) - 1;

	/* no overflow: a file has fewer than 2^44 blocks, and `sample` is below 64 */
	return in_place->sample_count > 1 ? sample * last / (in_place->sample_count - 1) : 0;
}

/* Modification time in nanoseconds, limited to the range of numbers in a manifest. */
static uint64_t mtime_ns(const struct stat *st)
{
	/* 0 to 2^63 - 1, which are the years 1970 to 2262 */
	const uint64_t second = 1000000000, last = INT64_MAX / second - 1;

	return (uint64_t)RUNG__MIN(RUNG__MAX(st->st_mtim.tv_sec, 0), (time_t)last) * second +
	       (uint64_t)st->st_mtim.tv_nsec;
}

/* Read the sampled blocks, at most 64 MiB in total, through the page cache. */
static int sum_samples(const struct rung__in_place *in_place, int fd,
                       uint64_t sums_out[RUNG__SAMPLES_MAX])
{
	unsigned char *block = rung__malloc(RUNG__BLOCK_BYTES);
	int rc = block ? 0
	               : rung__fail(RUNG_E_NOMEM, "%s: no memory to read a block", in_place->path);

	for (uint32_t i = 0; i < in_place->sample_count && rc == 0; i++) {
		const uint64_t offset = block_of_sample(in_place, i) * RUNG__BLOCK_BYTES;
		const uint64_t bytes = RUNG__MIN(in_place->bytes - offset, RUNG__BLOCK_BYTES);

		rc = rung__pread_all(fd, in_place->path, block, bytes, offset);
		sums_out[i] = rc == 0 ? rung__checksum(block, (size_t)bytes) : 0;
	}
	rung__free(block);
	return rc;
}

/* The manifest is UTF-8, and is printed on terminals. json_string() accepts only valid UTF-8. */
static bool is_text(const char *path)
{
	json_t *text = json_string(path);
	bool plain = text != NULL;

	json_decref(text);
	for (const char *c = path; *c; c++)
		plain = plain && (unsigned char)*c >= ' ' && *c != 0x7f;
	return plain;
}

/* Find the file of a source and record its path, size and time. The descriptor and the path must be
 * the same file: a source that was inflated into a temporary file has no path of an existing file.
 */
static int find_path(const struct rung_source *src, const struct rung__source_location *place,
                     struct rung__in_place *in_place)
{
	struct stat open_file, named;

	if (place->data || place->streamed || fstat(place->fd, &open_file) < 0 ||
	    stat(place->path, &named) < 0 || open_file.st_dev != named.st_dev ||
	    open_file.st_ino != named.st_ino)
		return rung__fail(
			RUNG_E_INVAL,
			"%s: cannot be used in place: its rows are compressed, text, or combined "
			"from several sources; write them to a .npy file first, or stage without "
			"--in-place",
			rung__source_spec(src));
	if (!realpath(place->path, in_place->path))
		return rung__fail_errno(errno, "%s", place->path);
	if (!is_text(in_place->path))
		return rung__fail(
			RUNG_E_INVAL,
			"%s: the name of a file that is staged in place must be UTF-8 without "
			"control characters; rename it, or stage without --in-place",
			place->path);
	in_place->bytes = (uint64_t)open_file.st_size;
	in_place->mtime_ns = mtime_ns(&open_file);
	return 0;
}

int rung__in_place_record(const struct rung_source *src, struct rung__in_place *in_place_out)
{
	const struct rung__source_location place = rung__source_location(src);
	int rc = find_path(src, &place, in_place_out);

	/* not used after a failure */
	in_place_out->sample_count = rung__in_place_sample_count(in_place_out->bytes);
	return rc < 0 ? rc : sum_samples(in_place_out, place.fd, in_place_out->samples);
}

/* Open the file, which must have its recorded size. @return a descriptor, or a failure that names
 * the dataset `dir` too */
static int open_source(const struct rung__in_place *in_place, const char *dir, struct stat *st_out)
{
	/* O_NONBLOCK: opening a FIFO would otherwise wait for its writer */
	int fd = open(in_place->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc;

	if (fd < 0 && errno == ENOENT)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: is missing, but the rows of %s are stored in it; "
		                  "put it back, or stage the dataset again",
		                  in_place->path, dir);
	if (fd < 0)
		return rung__fail_errno(errno,
		                        "%s: cannot be opened, but the rows of %s are stored in it",
		                        in_place->path, dir);
	if (fstat(fd, st_out) < 0)
		rc = rung__fail_errno(errno, "%s", in_place->path);
	else if (!S_ISREG(st_out->st_mode) || (uint64_t)st_out->st_size != in_place->bytes)
		rc = rung__fail(RUNG_E_FORMAT,
		                "%s: has %jd bytes, but had %" PRIu64
		                " when the rows of %s were staged in place; restore it, "
		                "or stage the dataset again",
		                in_place->path, (intmax_t)st_out->st_size, in_place->bytes, dir);
	else
		return fd;
	close(fd);
	return rc;
}

static int compare(const struct rung__in_place *in_place, int fd, uint64_t *different_out,
                   uint64_t *first_out)
{
	uint64_t sums[RUNG__SAMPLES_MAX];
	int rc = sum_samples(in_place, fd, sums);

	*different_out = 0;
	for (uint32_t i = 0; i < in_place->sample_count && rc == 0; i++) {
		if (sums[i] != in_place->samples[i] && (*different_out)++ == 0)
			*first_out = block_of_sample(in_place, i) * RUNG__BLOCK_BYTES;
	}
	return rc;
}

int rung__in_place_compare(const struct rung__in_place *in_place, const char *dir,
                           uint64_t *different_out, uint64_t *first_out)
{
	struct stat st;
	int fd = open_source(in_place, dir, &st), rc;

	if (fd < 0)
		return fd;
	rc = compare(in_place, fd, different_out, first_out);
	close(fd);
	return rc;
}

int rung__in_place_check(const struct rung__in_place *in_place, const char *dir)
{
	uint64_t different = 0, first = 0;
	struct stat st;
	int fd = open_source(in_place, dir, &st), rc = 0;

	if (fd < 0)
		return fd;
	/* an unchanged time saves reading up to 64 MiB at each opening */
	if (mtime_ns(&st) != in_place->mtime_ns)
		rc = compare(in_place, fd, &different, &first);
	close(fd);
	if (rc == 0 && different > 0)
		rc = rung__fail(
			RUNG_E_CORRUPT,
			"%s: was changed after the rows of %s were staged in place: %" PRIu64
			" of %u sampled blocks differ, the first at offset %" PRIu64
			"; restore the file, or stage the dataset again",
			in_place->path, dir, different, in_place->sample_count, first);
	return rc;
}

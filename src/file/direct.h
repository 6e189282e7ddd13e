/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Reading and writing large files past the page cache: a file larger than memory would evict
 * everything else from it. Offsets and buffers are page-aligned, which O_DIRECT accepts on every
 * device. Private to rung.
 */
#ifndef RUNG_DIRECT_H
#define RUNG_DIRECT_H

#include <stdbool.h>
#include <stdint.h>

/** A separate descriptor of a file, with O_DIRECT if its file system accepts it. */
struct rung__direct {
	int fd;           /* -1: not open */
	const char *name; /* for messages; owned by the caller */
	/* total of all files to be written, for the message about a full disk */
	uint64_t bytes_needed;
};

/** Open the file of `fd` again, for reading. @return 0, or the failure of opening it */
int rung__direct_open(struct rung__direct *file, int fd, const char *name);
/** Duplicate `fd`, which must be open for reading and writing. The two descriptors share their
 * flags, so `fd` gets O_DIRECT, too. */
int rung__direct_open_write(struct rung__direct *file, int fd, const char *name);
void rung__direct_close(struct rung__direct *file);

/**
 * Read `bytes` at `offset`. Both `offset` and `to` are page-aligned. Whole pages are stored at
 * `to`, up to the end of the file, so `to` must have space for `bytes` rounded up to pages.
 * @return 0, or RUNG_E_IO naming the file, the offset and errno, also if the file ends before
 *         `bytes`
 */
int rung__direct_read(const struct rung__direct *file, void *to, uint64_t bytes, uint64_t offset);

/**
 * Read bytes at any offset.
 * @param buffer  page-aligned memory for all pages that contain them
 * @param at_out  their position in it
 */
int rung__direct_read_span(const struct rung__direct *file, uint64_t offset, uint64_t bytes,
                           unsigned char *buffer, const unsigned char **at_out);

/**
 * Create a temporary file in `dir`, for reading and writing. It is deleted when it is closed or the
 * process ends, because it has no name; on file systems without O_TMPFILE it has one for a moment.
 * @param bytes_needed  for the message about a full disk
 * @return 0, or the status of errno
 */
int rung__direct_temp(struct rung__direct *file, const char *dir, const char *name,
                      uint64_t bytes_needed);

/** Write whole pages from page-aligned memory. @return 0, RUNG_E_NOSPC or RUNG_E_IO naming the
 * file, the offset and errno */
int rung__direct_write(const struct rung__direct *file, const void *from, uint64_t bytes,
                       uint64_t offset);

/** Check that the file system of `dir` has `bytes` free. @return 0, RUNG_E_NOSPC, or the status of
 * errno */
int rung__space_check(const char *dir, uint64_t bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** Large files read and written past the page cache, which a file larger than memory would only
 * empty. */
#ifndef RUNG_DIRECT_H
#define RUNG_DIRECT_H

#include <stdbool.h>
#include <stdint.h>

/** A file that is open a second time, with O_DIRECT if its file system accepts it. */
struct rung__direct {
	int fd;           /* -1: not open */
	const char *name; /* for messages; the caller's */
	/* total of all files to be written, for the message about a full disk */
	uint64_t bytes_needed;
};

/** The file of `fd`, for reading. @return 0, or the failure of opening it again */
int rung__direct_open(struct rung__direct *file, int fd, const char *name);
/** The same for writing too, through the descriptor of a file that is open for both. */
int rung__direct_open_write(struct rung__direct *file, int fd, const char *name);
void rung__direct_close(struct rung__direct *file);

/**
 * Read `bytes` at `offset`, which is page-aligned. Whole pages are written at `to`, page-aligned,
 * up to the end of the file.
 * @return 0, or RUNG_E_IO naming the file, the offset and errno, also if the file ends before
 *         `bytes`
 */
int rung__direct_read(const struct rung__direct *file, void *to, uint64_t bytes, uint64_t offset);

/**
 * Read bytes at any offset.
 * @param room  page-aligned, for the whole pages that contain them; *at_out is their position in it
 */
int rung__direct_read_span(const struct rung__direct *file, uint64_t offset, uint64_t bytes,
                           unsigned char *room, const unsigned char **at_out);

/**
 * A file in `dir` for reading and writing that is gone when it is closed, or the process ends:
 * without a name where the file system can do without one, else with one for a moment.
 */
int rung__direct_temp(struct rung__direct *file, const char *dir, const char *name,
                      uint64_t bytes_needed);

/** Write whole pages from a page of memory. @return 0, RUNG_E_NOSPC or RUNG_E_IO naming the file,
 * the offset and errno */
int rung__direct_write(const struct rung__direct *file, const void *from, uint64_t bytes,
                       uint64_t offset);

/** RUNG_E_NOSPC when the file system of `dir` has less than `bytes` free. */
int rung__space_check(const char *dir, uint64_t bytes);

#endif

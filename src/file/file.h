/* SPDX-License-Identifier: Apache-2.0 */
/** Files: complete reads and writes, and opening files that others may have replaced. Failures name
 * the file, the offset and errno. Private to rung. */
#ifndef RUNG_FILE_H
#define RUNG_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * Read exactly `bytes` at `offset`; EINTR and short reads are continued.
 * @return 0, or RUNG_E_IO naming `path`, the offset and errno, also when the file ends too early
 */
int rung__pread_all(int fd, const char *path, void *buf, uint64_t bytes, uint64_t offset);

/** Write exactly `bytes` at `offset`. @return 0, RUNG_E_NOSPC or RUNG_E_IO naming `path`, the
 * offset and errno */
int rung__pwrite_all(int fd, const char *path, const void *buf, uint64_t bytes, uint64_t offset);

/**
 * Allocate the first `bytes` of a file before they are written: a full device is reported at once,
 * and the file gets few extents. A file system without fallocate() allocates as it is written.
 * @return 0, RUNG_E_NOSPC or RUNG_E_IO naming `path`, the bytes and errno
 */
int rung__reserve(int fd, const char *path, uint64_t bytes);

/** Sync a folder, if its file system supports that, so that renames in it survive a crash. @return
 * 0, or the status of errno */
int rung__sync_folder(int fd, const char *path);

/**
 * Open `name` in the folder `dir_fd` for reading, with `flags` added. It must be a regular file:
 * opening a FIFO would wait for its writer, and opening a device can have side effects.
 * @return descriptor, or RUNG_E_FORMAT if it is not a regular file, or the status of errno; `path`
 *         is for messages
 */
int rung__open_regular(int dir_fd, const char *name, const char *path, int flags);

/**
 * The same for a file of a folder that may be another user's. The name may be a link, as in caches
 * of data sets, if link, folder and file have one owner. A link of anybody else could lead to a
 * file that only the reader may read.
 */
int rung__open_own(int dir_fd, const char *name, const char *path, int flags);

/**
 * Reopen the file or disk of a descriptor for reading, with separate `flags` (O_DIRECT): the same
 * file, even if its path names another one by now.
 * @return descriptor, or -1 with errno
 */
int rung__reopen(int fd, int flags);

/**
 * Alignment that O_DIRECT needs for offset, length and memory on an open file: STATX_DIOALIGN
 * (Linux 6.1), or RUNG__PAGE_BYTES if kernel or file system do not report it.
 */
uint32_t rung__dio_align(int fd);

/** True if the file system reports that it reads this file through the page cache even with
 * O_DIRECT (ext4 with journalled data). */
bool rung__dio_refused(int fd);

#endif

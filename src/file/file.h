/* SPDX-License-Identifier: Apache-2.0 */
/** Files: whole reads and writes with the place in the message. */
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

/** Sync a folder, where its file system can. @return 0, or what errno stands for */
int rung__sync_folder(int fd, const char *path);

/**
 * Open `name` in the folder `dir_fd` for reading, with `flags` added. It has to be a regular file:
 * opening a FIFO would wait for its writer, and opening a device may do anything.
 * @return descriptor, or RUNG_E_FORMAT for what is not a regular file, or what errno stands for;
 * `path` is for messages
 */
int rung__open_regular(int dir_fd, const char *name, const char *path, int flags);

/**
 * Open the file or disk behind a descriptor once more for reading, with `flags` of its own
 * (O_DIRECT): the same file, whatever its path names by now.
 * @return descriptor, or -1 with errno
 */
int rung__reopen(int fd, int flags);

/**
 * Alignment that O_DIRECT asks of offset, length and memory on an open file: STATX_DIOALIGN (Linux
 * 6.1), and RUNG__PAGE_BYTES where the kernel or the file system does not say.
 */
uint32_t rung__dio_align(int fd);

/** True when the file system says that it reads this file through the page cache even with O_DIRECT
 * (ext4 with journalled data). */
bool rung__dio_refused(int fd);

#endif

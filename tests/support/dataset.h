/* SPDX-License-Identifier: Apache-2.0 */
/** Temporary folders, .npy files and small staged datasets for tests. Plain C: used with and
 * without Criterion. */
#ifndef SUPPORT_DATASET_H
#define SUPPORT_DATASET_H

#include <stddef.h>
#include <stdint.h>

/** Create an empty folder under $TMPDIR or /tmp. @return 0, or -1 with errno */
int support_tempdir(char *path_out, size_t path_bytes);

/** Let support_tempdir() use memory (/dev/shm), for tests that sync hundreds of files. No effect if
 * $TMPDIR is set or /dev/shm has little room: containers often have 64 MiB. */
void support_prefer_memory(void);

/** Remove a folder and everything in it; no error if it does not exist. */
void support_remove(const char *path);

/** Write a .npy of version 1: `descr` as "<f4", `shape` as "(3, 4)". @return 0, or -1 with errno */
int support_write_npy(const char *path, const char *descr, const char *shape, const void *data,
                      size_t bytes);

/** Write any file. @return 0, or -1 with errno */
int support_write_file(const char *path, const void *data, size_t bytes);

/** Write the text file `name`, such as "/sys/…", below the folder `root`, which stands for "/", and
 * create the folders above it. Aborts the program on failure. */
void support_put(const char *root, const char *name, const char *text);

/** Read a whole file; free() it. NULL if it cannot be read. */
unsigned char *support_read_file(const char *path, size_t *bytes_out);

/** Flip a byte of a file; a second call restores it. @return 0, or -1 with errno or past the end */
int support_flip(const char *path, uint64_t at);

/**
 * Write `text` as the manifest of the dataset `dir`, with `from` replaced by `to` and the checksum
 * corrected, as an attacker would. @return 0, or -1 with errno or if `text` does not contain `from`
 */
int support_forge(const char *dir, const char *text, const char *from, const char *to);

/** Number of open descriptors of this process. Aborts if they cannot be counted. */
int support_open_descriptors(void);

/**
 * Byte `at` of the row of ORIGINAL vertex v, for any v and at: with a 64-bit word w = v *
 * 0x100000001b3 + at / 8, multiplied by 0xff51afd7ed558ccd, xored with itself shifted right by 33,
 * multiplied by 0xc4ceb9fe1a85ec53, it is byte at % 8 from the lowest on.
 */
unsigned char support_row_byte(uint64_t vertex, uint64_t at);

/** A whole row of these bytes. */
void support_row(uint64_t vertex, uint64_t row_bytes, unsigned char *row_out);

/**
 * Write the sources of a dataset in the existing folder `dir`:
 *   edges.npy     int64 [2, edges], random ends, low ids more likely
 *   features.npy  uint8 [vertices, row_bytes], support_row() of each vertex
 *   labels.npy    int64 [vertices], v % 7
 *   train.npy     int64 ids, every third vertex from 0 on, descending
 *   valid.npy     bool mask, every third vertex from 1 on
 * @return 0, or -1 with errno
 */
int support_sources(const char *dir, uint64_t vertices, uint64_t edges, uint64_t row_bytes,
                    uint64_t seed);

/** support_sources(), staged into `dir`/ds with splits "train" and "valid". With RUNG_TEST_IN_PLACE
 * in the environment the features stay in their source. @return the result of rung_stage();
 * RUNG_E_IO if the sources cannot be written */
int support_dataset(const char *dir, uint64_t vertices, uint64_t edges, uint64_t row_bytes,
                    uint64_t seed);

/**
 * Deal the features of the dataset `dir`, which are in one file, over `file_count` files in blocks
 * of block_rows, as if on as many devices: each file has its own folder next to the dataset, which
 * links to it. @return a status; RUNG_E_IO for files
 */
int support_deal(const char *dir, uint32_t file_count, uint64_t block_rows);

/** The same with `file_count` >= 3 files in three ranges: the first file has the hottest rows, the
 * second has all rows though its range is short, and the others have the rest. */
int support_deal_ranges(const char *dir, uint32_t file_count, uint64_t block_rows);

#endif

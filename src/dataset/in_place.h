/* SPDX-License-Identifier: Apache-2.0 */
/** Rows that were left in their source file: recording the file, and recognising it later. Private
 * to rung. */
#ifndef RUNG_IO_IN_PLACE_H
#define RUNG_IO_IN_PLACE_H

#include <limits.h>
#include <stdint.h>

#include "rung/source.h"

#define RUNG__SAMPLES_MAX 64u /* blocks; part of the format */

/** The file as it was when the dataset was staged. */
struct rung__in_place {
	char path[PATH_MAX]; /* absolute; "": rows were not left in their source */
	uint64_t bytes;
	uint64_t mtime_ns; /* modification time, since 1970 */
	/* all blocks, or RUNG__SAMPLES_MAX of them from the first to the last, at equal distances
	 */
	uint32_t sample_count;
	uint64_t samples[RUNG__SAMPLES_MAX]; /* [sample_count] their checksums */
};

/** Number of sampled blocks of a file of `file_bytes` bytes. */
uint32_t rung__in_place_sample_count(uint64_t file_bytes);

/**
 * Record the properties of a source's file.
 * @return 0, RUNG_E_INVAL (its rows are deflated, generated or in memory, or the name of the file
 *         is not text), RUNG_E_IO, RUNG_E_NOMEM
 */
int rung__in_place_record(const struct rung_source *src, struct rung__in_place *in_place_out);

/**
 * Check that the file is unchanged. Size and modification time decide; if the time differs, the
 * sampled blocks do.
 * @param dir  of the dataset, for messages
 * @return 0, RUNG_E_FORMAT (missing, or another size), RUNG_E_CORRUPT (a sampled block differs),
 *         RUNG_E_IO
 */
int rung__in_place_check(const struct rung__in_place *in_place, const char *dir);

/**
 * Read the sampled blocks again and compare their checksums, whatever the modification time is.
 * @param different_out  number of blocks that differ
 * @param first_out      offset of the first of them in the file; unchanged if all agree
 * @return as rung__in_place_check(), without RUNG_E_CORRUPT
 */
int rung__in_place_compare(const struct rung__in_place *in_place, const char *dir,
                           uint64_t *different_out, uint64_t *first_out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prepares a range of rows in memory as it will be stored in the files, and writes it. The range
 * begins with the checksum block of its first row, so that writes are aligned. The checksum of
 * every block is computed in memory before the block is written, so that data which the device
 * changes are noticed. The bytes of the previous range in that first block are copied from memory
 * or, in a resumed run, read from the file; the journal has a checksum of it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/jobs.h"
#include "dataset/checksum.h"
#include "folder/stage_step.h"
#include "rows/stage_row_range.h"
#include "source/npy.h"

#define PIECE_BYTES (UINT64_C(4) * RUNG__BLOCK_BYTES) /* size of one write: whole checksum blocks */
#define WRITERS     4u                                /* number of threads that write pieces */

uint64_t rung__row_range_bytes(const struct rung__layout *layout, uint64_t row_count)
{
	/* added for each file: the bytes before the first row in its block, the header, and the
	 * rest of the last page */
	return row_count * layout->row_stride +
	       layout->file_count * (RUNG__BLOCK_BYTES + RUNG__NPY_DATA_OFFSET + RUNG__PAGE_BYTES);
}

/* Offset after the rows of a file, if the output had only the first row_count ranks. */
static uint64_t end_of(const struct rung__layout *layout, uint64_t row_count, uint32_t file)
{
	return layout->data_offset + rung__file_rows(layout, row_count, file) * layout->row_stride;
}

/* Whether the bytes of an unfinished block are those that an earlier run wrote. The last line of
 * the journal about these rows has a checksum of them for each file, after the number of rows. */
static bool tail_agrees(const struct rung__stage_rows *rows, uint32_t file,
                        const struct rung__row_range_part *part)
{
	const char *words =
		rung__journal_last_of(&rows->stage->journal, "rows", rows->files[0].name);
	char *at;

	if (!words)
		return false;
	strtoull(words, &at, 10);
	for (uint32_t f = 0; f < file; f++)
		strtoull(at, &at, 16);
	return strtoull(at, &at, 16) ==
	       rung__checksum(part->at, (size_t)(part->begin - part->base));
}

/* Read the bytes before the new rows from the file, in a resumed run. No block checksum covers them
 * yet, so a change would otherwise get a valid one. */
static int read_tail(const struct rung__stage_rows *rows, uint32_t file,
                     const struct rung__row_range_part *part)
{
	int rc =
		rung__direct_read(&rows->out[file], part->at, part->begin - part->base, part->base);

	if (rc == 0 && !tail_agrees(rows, file, part))
		rc = rung__fail(
			RUNG_E_CORRUPT,
			"%s: bytes %" PRIu64 " to %" PRIu64
			" differ from the record in the journal; start from scratch with --force",
			rows->paths[file], part->base, part->begin);
	return rc;
}

/* Fill in the bytes before the new rows in their block: the header, or rows of the previous
 * range. */
static int begin_part(const struct rung__stage_rows *rows, uint32_t file,
                      const struct rung__row_range_part *part)
{
	if (part->begin == 0) /* the first range that has rows in this file */
		rung__npy_format(&rows->files[file].array, part->at);
	else if (rows->tails_known)
		memcpy(part->at, rows->tails + (size_t)file * RUNG__BLOCK_BYTES,
		       (size_t)(part->begin - part->base));
	else if (part->begin > part->base)
		return read_tail(rows, file, part);
	return 0;
}

int rung__row_range_begin(const struct rung__stage_rows *rows, uint64_t first, uint64_t end,
                          unsigned char *area, struct rung__row_range *range)
{
	const struct rung__layout *layout = &rows->layout;
	int rc = 0;

	range->first = first;
	range->end = end;
	range->piece_count = 0;
	for (uint32_t f = 0; f < layout->file_count && rc == 0; f++) {
		struct rung__row_range_part *part = &range->parts[f];
		uint64_t bytes;

		part->begin = rung__file_rows(layout, first, f) ? end_of(layout, first, f) : 0;
		part->base = rung__align_down(part->begin, RUNG__BLOCK_BYTES);
		part->end = end_of(layout, end, f);
		part->at = area;
		part->first_piece = range->piece_count;
		bytes = rung__align_up(part->end - part->base, RUNG__PAGE_BYTES);
		rc = begin_part(rows, f, part);
		/* direct writes cover whole pages, and the rest of the last page must not be random
		 * memory */
		memset(part->at + (part->end - part->base), 0,
		       (size_t)(bytes - (part->end - part->base)));
		range->piece_count += (part->end - part->base + PIECE_BYTES - 1) / PIECE_BYTES;
		area += bytes;
	}
	return rc;
}

/* The bytes of the range in the block in which the next rows begin. */
static const unsigned char *tail_of(const struct rung__row_range_part *part, uint64_t *bytes_out)
{
	const uint64_t at = rung__align_down(part->end, RUNG__BLOCK_BYTES);

	*bytes_out = part->end - at;
	return part->at + (at - part->base);
}

void rung__row_range_keep_tails(struct rung__stage_rows *rows, const struct rung__row_range *range)
{
	for (uint32_t f = 0; f < rows->layout.file_count; f++) {
		uint64_t bytes;
		const unsigned char *tail = tail_of(&range->parts[f], &bytes);

		memcpy(rows->tails + (size_t)f * RUNG__BLOCK_BYTES, tail, (size_t)bytes);
	}
	rows->tails_known = true;
}

/* The number of complete blocks before `end`; the last block of a file may be shorter. */
static uint64_t blocks_before(const struct rung__manifest_file *file, uint64_t end)
{
	return end == file->bytes ? file->block_count : end / RUNG__BLOCK_BYTES;
}

/* Compute the checksums of a piece's complete blocks, and write it. Runs in a job. A block that is
 * still incomplete gets its checksum with the next range, which writes it again. */
static int write_piece(void *ctx, uint64_t piece, uint32_t worker)
{
	const struct rung__stage_rows *rows = ctx;
	const struct rung__row_range *range = rows->written;
	uint32_t f = (uint32_t)rows->layout.file_count - 1;
	const struct rung__manifest_file *file;
	const struct rung__row_range_part *part;
	uint64_t from, bytes;

	(void)worker;
	while (range->parts[f].first_piece > piece)
		f--;
	part = &range->parts[f];
	file = &rows->files[f];
	from = (piece - part->first_piece) * PIECE_BYTES;
	bytes = RUNG__MIN(part->end - part->base - from, PIECE_BYTES);
	for (uint64_t b = (part->base + from) / RUNG__BLOCK_BYTES;
	     b < blocks_before(file, part->base + from + bytes); b++)
		rows->stage->sums[file->first_block + b] = rung__checksum(
			part->at + (b * RUNG__BLOCK_BYTES - part->base),
			(size_t)RUNG__MIN(file->bytes - b * RUNG__BLOCK_BYTES, RUNG__BLOCK_BYTES));
	rung__stage_step("write");
	return rung__direct_write(&rows->out[f], part->at + from,
	                          rung__align_up(bytes, RUNG__PAGE_BYTES), part->base + from);
}

int rung__row_range_write(struct rung__stage_rows *rows, const struct rung__row_range *range,
                          struct rung__jobs **jobs_out)
{
	rows->written = range;
	return rung__jobs_start(WRITERS, range->piece_count, write_piece, rows, jobs_out);
}

int rung__rows_sync(const struct rung__stage_rows *rows)
{
	for (uint32_t f = 0; f < rows->layout.file_count; f++) {
		rung__stage_step("sync");
		/* fdatasync() also syncs the size of the file; its timestamps are not needed */
		if (fdatasync(rows->out[f].fd) < 0)
			return rung__fail_errno(errno, "%s: cannot be synced to the device",
			                        rows->paths[f]);
	}
	return 0;
}

int rung__row_range_note(struct rung__stage_rows *rows, const struct rung__row_range *range)
{
	/* " CHECKSUM" for each file's tail, and for the sum of the buckets */
	char tails[(RUNG__FILES_MAX + 1) * (RUNG__CHECKSUM_DIGITS + 1) + 1] = "", *at = tails;
	struct rung__journal *journal = &rows->stage->journal;
	int rc = 0;

	for (uint32_t f = 0; f < rows->layout.file_count && rc == 0; f++) {
		const struct rung__manifest_file *file = &rows->files[f];
		const struct rung__row_range_part *part = &range->parts[f];
		const uint64_t first = part->base / RUNG__BLOCK_BYTES,
			       end = blocks_before(file, part->end);
		uint64_t bytes;
		const unsigned char *tail = tail_of(part, &bytes);

		*at++ = ' ';
		rung__checksum_text(rung__checksum(tail, (size_t)bytes), at);
		at += RUNG__CHECKSUM_DIGITS;
		rc = rung__journal_add_sums(journal, file->first_block + first, end - first,
		                            rows->stage->sums + file->first_block + first);
	}
	*at++ = ' ';
	rung__checksum_text(range->partition_sum, at);
	return rc < 0 ? rc
	              : rung__journal_add(journal, "rows %s %" PRIu64 "%s", rows->files[0].name,
	                                  range->end, tails);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the layout of the features: bytes from row to row, and the distribution of rows over
 * folders.
 *
 * A device reads whole blocks of 4 KiB, even for one row. Rows of s bytes begin at multiples of g =
 * gcd(s, 4096) in a block, at each of these 4096 / g positions equally often. The last s / g - 1
 * positions are too near the end of the block, so (s - g) / 4096 of the rows straddle two blocks,
 * and each of these costs a second block. No row straddles if the stride is the smallest power of
 * two that holds a row, which makes the file longer by stride / s - 1. The mode `auto` pads if this
 * growth is less than the share of rows that straddle. Rows of 1536 bytes: a quarter straddles, and
 * a stride of 2048 is a third more, so they are not padded. Rows of 2000 bytes: 48 % straddle, and
 * the stride is 2.4 % more, so they are padded.
 */
#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/base.h"
#include "source/source.h"
#include "stage/stage_input.h"

#define BLOCK_BYTES  4096u /* size of a device's read, and of a page */
#define SECTOR_BYTES 512u
/* a block of rows has at least this many bytes, so that each device is read and written in large
 * pieces */
#define PARTITION_BYTES (UINT64_C(1) << 20)

/* The largest power of two that divides `bytes`, at most a block: gcd(bytes, 4096). */
static uint64_t step_of(uint64_t bytes)
{
	return RUNG__MIN(bytes & -bytes, BLOCK_BYTES);
}

uint64_t rung__padded_stride(uint64_t row_bytes, enum rung_stage_pad pad)
{
	uint64_t whole = 1;

	if (pad == RUNG_STAGE_PAD_SECTOR)
		return rung__align_up(row_bytes, SECTOR_BYTES);
	if (pad != RUNG_STAGE_PAD_AUTO || row_bytes > BLOCK_BYTES)
		return row_bytes;
	while (whole < row_bytes)
		whole *= 2;
	/* growth < share of straddling rows: (whole - s) / s < (s - g) / 4096, without division */
	return (whole - row_bytes) * BLOCK_BYTES < row_bytes * (row_bytes - step_of(row_bytes))
	               ? whole
	               : row_bytes;
}

/* The number of rows in a block, the unit of distribution over folders: whole pages,
 * PARTITION_BYTES or slightly more. With few rows the block shrinks, because each folder must get
 * at least one row. */
static uint64_t rows_of_block(uint64_t row_stride, uint64_t row_count, uint64_t file_count)
{
	const uint64_t page_rows = BLOCK_BYTES / step_of(row_stride),
		       page_bytes = page_rows * row_stride;
	uint64_t rows = (PARTITION_BYTES + page_bytes - 1) / page_bytes * page_rows;

	/* halved, in whole pages where possible, until the last file gets a row */
	while (rows > 1 && (file_count - 1) * rows >= row_count)
		rows = rows > page_rows ? rows / 2 / page_rows * page_rows : rows / 2;
	return RUNG__MAX(rows, 1u);
}

/* Replacing a dataset removes all files in its folder, and the files in other folders that its
 * links lead to. The source of rows that stay in place must not be one of them. */
static int check_not_replaced(const struct rung__stage *stage, const char *path)
{
	DIR *dir = opendir(stage->opts.out_dir);
	const struct dirent *entry;
	struct stat source, st;
	int rc = 0;

	if (!dir)
		return 0; /* the file does not exist */
	/* compared by inode, and through links: the source may have another name */
	while (rc == 0 && stat(path, &source) == 0 && (entry = readdir(dir)) != NULL) {
		if (fstatat(dirfd(dir), entry->d_name, &st, 0) == 0 && st.st_dev == source.st_dev &&
		    st.st_ino == source.st_ino)
			rc = rung__fail(RUNG_E_INVAL,
			                "%s: belongs to %s, which would be replaced, so its rows "
			                "cannot stay in place; choose another output",
			                path, stage->opts.out_dir);
	}
	closedir(dir);
	return rc;
}

/* The layout of rows that stay in their source: neither copied nor padded, and in vertex order. The
 * manifest records the file, so that it is recognised when the dataset is opened. */
static int leave_in_place(struct rung__stage *stage)
{
	const struct rung_stage_opts *opts = &stage->opts;
	struct rung__manifest *m = stage->manifest;
	int rc;

	if (opts->stripe_count > 0 || opts->pad != RUNG_STAGE_PAD_NONE)
		return rung__fail(RUNG_E_INVAL, "staging: features that stay in place cannot be "
		                                "padded or striped; omit one of the options");
	m->data_offset = rung__source_location(stage->features).offset;
	m->row_stride = stage->report.row_stride = m->features.row_bytes;
	m->range_count = 1;
	m->ranges[0] = rung__range_of_all(m->vertex_count, 1, m->vertex_count);
	stage->report.in_place = 1;
	rc = rung__in_place_record(stage->features, &m->in_place);
	return rc < 0 ? rc : check_not_replaced(stage, m->in_place.path);
}

/* The share of the rows up to which the range of a folder ends. */
static double share_of(const struct rung_stage_opts *opts, size_t folder)
{
	return opts->stripe_shares && folder < opts->stripe_count ? opts->stripe_shares[folder] : 1;
}

/* Add the range that ends with `share` of the rows and is dealt over the next `files` folders. */
static int add_range(struct rung__manifest *m, double share, uint64_t files)
{
	struct rung__range *range = &m->ranges[m->range_count];
	const uint64_t begin = m->range_count > 0 ? range[-1].end : 0;
	const uint64_t end =
		share < 1 ? (uint64_t)(share * (double)m->vertex_count + 0.5) : m->vertex_count;

	/* every file has a row */
	if (end < begin || end - begin < files)
		return rung__fail(RUNG_E_INVAL,
		                  "staging: %" PRIu64
		                  " rows, up to %g %% of all, cannot be striped "
		                  "over %" PRIu64 " folders; give fewer folders, or another share",
		                  end < begin ? 0 : end - begin, share * 100, files);
	range->end = range->stored_end = end;
	range->stored_first = begin;
	range->file_first = m->range_count > 0 ? range[-1].file_first + range[-1].file_count : 0;
	range->file_count = files;
	range->block_rows =
		files > 1 ? rows_of_block(m->row_stride, end - begin, files) : end - begin;
	m->range_count++;
	return 0;
}

/* Consecutive folders with the same share have one range. */
static int choose_ranges(const struct rung_stage_opts *opts, struct rung__manifest *m)
{
	uint32_t first = 0;
	int rc = 0;

	m->range_count = 0;
	for (uint32_t f = 0; f < m->feature_file_count && rc == 0; f++) {
		const double share = share_of(opts, f);
		const bool last = f + 1 == m->feature_file_count;

		if (!(share > 0 && share <= 1) || (last && share < 1) ||
		    (f > 0 && share < share_of(opts, f - 1)))
			return rung__fail(RUNG_E_INVAL,
			                  "staging: folder %" PRIu32
			                  " for stripes has the share %g; "
			                  "give shares above 0 that ascend to 1",
			                  f, share);
		if (last || share < share_of(opts, f + 1)) {
			rc = add_range(m, share, f + 1 - first);
			first = f + 1;
		}
	}
	return rc;
}

/* One range in one file for each part. */
static int choose_parts(const struct rung_stage_opts *opts, struct rung__manifest *m)
{
	const uint64_t parts = opts->part_count;

	if (m->vertex_count < parts)
		return rung__fail(RUNG_E_INVAL,
		                  "staging: %" PRIu64 " rows cannot be divided into %" PRIu64
		                  " parts; give fewer parts",
		                  m->vertex_count, parts);
	m->range_count = (uint32_t)parts;
	for (uint64_t p = 0, first = 0, end; p < parts; p++, first = end) {
		/* vertex_count * (p + 1) / parts, without overflow */
		end = m->vertex_count / parts * (p + 1) + m->vertex_count % parts * (p + 1) / parts;
		m->ranges[p] = (struct rung__range){ .end = end,
			                             .stored_first = first,
			                             .stored_end = end,
			                             .file_first = p,
			                             .file_count = 1,
			                             .block_rows = end - first };
	}
	return 0;
}

int rung__stage_choose_layout(struct rung__stage *stage)
{
	const struct rung_stage_opts *opts = &stage->opts;
	struct rung__manifest *m = stage->manifest;

	if ((unsigned)opts->pad > RUNG_STAGE_PAD_AUTO)
		return rung__fail(RUNG_E_INVAL,
		                  "staging: %d is not a valid padding; use RUNG_STAGE_PAD_NONE, "
		                  "_SECTOR or _AUTO",
		                  (int)opts->pad);
	if (opts->stripe_count > RUNG_FEATURE_FILES_MAX ||
	    (opts->stripe_count && !opts->stripe_dirs))
		return rung__fail(RUNG_E_INVAL, "staging: %zu folders for stripes; give at most %d",
		                  opts->stripe_count, RUNG_FEATURE_FILES_MAX);
	if (opts->in_place)
		return leave_in_place(stage);
	m->row_stride = rung__padded_stride(m->features.row_bytes, opts->pad);
	m->feature_file_count =
		RUNG__MAX(opts->part_count, (uint32_t)RUNG__MAX(opts->stripe_count, 1u));
	stage->report.row_stride = m->row_stride;
	stage->report.feature_file_count = m->feature_file_count;
	return opts->part_count > 0 ? choose_parts(opts, m) : choose_ranges(opts, m);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Rows with padding, and rows dealt over several folders. */
#include <fcntl.h>
#include <math.h>

#include "base/base.h"
#include "stage_fixture.h"
#include "folder/stage_publish.h"
#include "rows/stage_schedule.h"
#include "stage/stage_input.h"

TestSuite(stage_layout, .init = setup, .fini = teardown, .timeout = 300);

static char stripes[4][320];
static const char *stripe_dirs[] = { stripes[0], stripes[1], stripes[2], stripes[3] };

static void make_stripes(size_t count)
{
	for (size_t i = 0; i < count; i++) {
		snprintf(stripes[i], sizeof(stripes[i]), "%s/disk%zu", dir, i);
		cr_assert_eq(mkdir(stripes[i], 0777), 0);
	}
	opts.stripe_dirs = stripe_dirs;
	opts.stripe_count = count;
}

static unsigned files_in(const char *folder)
{
	DIR *entries = opendir(folder);
	struct dirent *entry;
	unsigned count = 0;

	while ((entry = readdir(entries)) != NULL)
		count += entry->d_name[0] != '.';
	closedir(entries);
	return count;
}

Test(stage_layout, padding_is_chosen_if_it_saves_more_than_it_costs)
{
	static const struct {
		uint64_t row_bytes;
		enum rung_stage_pad pad;
		uint64_t stride;
	} cases[] = {
		{ 1536, RUNG_STAGE_PAD_NONE, 1536 },   { 1536, RUNG_STAGE_PAD_AUTO, 1536 },
		{ 2000, RUNG_STAGE_PAD_AUTO, 2048 },   { 1000, RUNG_STAGE_PAD_AUTO, 1024 },
		{ 1100, RUNG_STAGE_PAD_AUTO, 1100 },   { 3000, RUNG_STAGE_PAD_AUTO, 4096 },
		{ 400, RUNG_STAGE_PAD_AUTO, 400 },     { 4096, RUNG_STAGE_PAD_AUTO, 4096 },
		{ 4100, RUNG_STAGE_PAD_AUTO, 4100 },   { 512, RUNG_STAGE_PAD_AUTO, 512 },
		{ 1, RUNG_STAGE_PAD_AUTO, 1 },         { 400, RUNG_STAGE_PAD_SECTOR, 512 },
		{ 1536, RUNG_STAGE_PAD_SECTOR, 1536 }, { 5732, RUNG_STAGE_PAD_SECTOR, 6144 },
	};

	for (size_t i = 0; i < RUNG__ARRAY_LEN(cases); i++)
		cr_assert_eq(rung__padded_stride(cases[i].row_bytes, cases[i].pad), cases[i].stride,
		             "%" PRIu64, cases[i].row_bytes);
	opts.pad = (enum rung_stage_pad)3;
	fails(RUNG_E_INVAL, "3 is not a valid padding");
}

/* Every row must be where FORMAT.md specifies, followed by zeros. */
static void rows_are_right(uint64_t row_bytes)
{
	struct rung_dataset *ds;
	const struct rung_dataset_info *info;
	unsigned char *files[4] = { NULL }, *row = malloc(row_bytes);
	uint64_t count, *vertex;
	size_t bytes[4];
	char path[400];

	cr_assert_eq(rung_dataset_open(out, &ds), 0, "%s", rung_last_error());
	info = rung_dataset_info(ds);
	for (uint32_t f = 0; f < info->feature_file_count; f++) {
		snprintf(path, sizeof(path), "%s/features.%03u.npy", out, f);
		files[f] = support_read_file(path, &bytes[f]);
		cr_assert(files[f]);
	}
	cr_assert_eq(rung_dataset_load_ids(ds, "vertex_of_rank", &count, &vertex), 0);
	for (uint64_t r = 0; r < count; r++) {
		const struct rung_feature_range *range = info->feature_ranges;
		uint64_t at, block, f;

		while (r >= range->end)
			range++;
		at = r - range->stored_first;
		block = at / range->block_rows;
		f = range->file_first + block % range->file_count;
		at = 4096 +
		     (block / range->file_count * range->block_rows + at % range->block_rows) *
		             info->row_stride;

		support_row(vertex[r], row_bytes, row);
		cr_assert_leq(at + info->row_stride, bytes[f]);
		cr_assert_eq(memcmp(files[f] + at, row, row_bytes), 0, "rank %" PRIu64, r);
		for (uint64_t i = row_bytes; i < info->row_stride; i++)
			cr_assert_eq(files[f][at + i], 0);
	}
	for (uint32_t f = 0; f < info->feature_file_count; f++)
		free(files[f]);
	rung_free(vertex);
	rung_dataset_close(ds);
	free(row);
}

static void stage_each_plan(uint64_t vertices, uint64_t row_bytes, uint64_t range_rows)
{
	struct rung_verify_opts verify = RUNG_VERIFY_OPTS_INIT;
	struct rung_verify_report report;

	cr_assert_eq(support_sources(dir, vertices, 3 * vertices, row_bytes, 4), 0);
	opts.score.method = RUNG_SCORE_DEGREE;
	rung__stage_range_rows_max = range_rows;
	for (int plan = RUNG_ROW_ORDER_PASSES; plan <= RUNG_ROW_ORDER_GATHER; plan++) {
		opts.row_order = (enum rung_row_order)plan;
		cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
		rows_are_right(row_bytes);
		no_leftovers(out);
		cr_assert_eq(rung_dataset_verify(out, &verify, &report), 0, "%s",
		             rung_last_error());
		rung_verify_report_fini(&report);
		opts.force = 1;
	}
}

Test(stage_layout, padded_rows_are_at_multiples_of_the_stride)
{
	opts.pad = RUNG_STAGE_PAD_AUTO;
	stage_each_plan(3000, 2000, 700);
	opts.pad = RUNG_STAGE_PAD_SECTOR;
	stage_each_plan(2000, 100, 333);
}

Test(stage_layout, dealt_rows_are_in_their_folders)
{
	struct stat st;
	char path[400];

	make_stripes(3);
	stage_each_plan(5000, 1433, 1111);
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(files_in(stripes[i]), 1, "replaced files must be removed");
		snprintf(path, sizeof(path), "%s/features.%03d.npy", out, i);
		cr_assert_eq(lstat(path, &st), 0);
		cr_assert(S_ISLNK(st.st_mode));
	}
	opts.pad = RUNG_STAGE_PAD_AUTO;
	stage_each_plan(3000, 2000, 800);
	opts.stripe_count = 1;
	stage_each_plan(300, 77, 80);
	cr_assert_eq(files_in(stripes[0]), 1);
	cr_assert_eq(files_in(stripes[1]), 0);
}

Test(stage_layout, ranges_are_in_their_folders)
{
	static const double shares[] = { 0.1, 0.6, 0.6, 1 }, near[] = { 0.001, 0.5, 0.999, 1 };

	make_stripes(4);
	opts.stripe_shares = shares;
	stage_each_plan(5000, 1433, 1111); /* buckets that begin in the range before theirs */
	stage_each_plan(5000, 64, 5000);
	stage_each_plan(5000, 64, 333);
	for (int i = 0; i < 4; i++)
		cr_assert_eq(files_in(stripes[i]), 1, "replaced files must be removed");
	opts.stripe_shares = near;
	opts.pad = RUNG_STAGE_PAD_AUTO;
	stage_each_plan(3000, 2000, 800);
	opts.stripe_count = 0; /* then the shares are not read */
	stage_each_plan(300, 77, 80);
}

Test(stage_layout, invalid_shares_are_rejected)
{
	static const double invalid[][2] = { { 0, 1 },   { -0.5, 1 }, { 0.5, 0.4 }, { 0.5, 0.9 },
		                             { 1.5, 1 }, { 1, 1.5 },  { NAN, 1 },   { 1, NAN } };
	static const double small[] = { 0.001, 1 };

	make_stripes(2);
	cr_assert_eq(support_sources(dir, 300, 900, 8, 4), 0);
	for (size_t i = 0; i < sizeof(invalid) / sizeof(*invalid); i++) {
		opts.stripe_shares = invalid[i];
		fails(RUNG_E_INVAL, "ascend to 1");
	}
	opts.stripe_shares = small;
	fails(RUNG_E_INVAL, "0 rows, up to 0.1 % of all");
}

Test(stage_layout, invalid_folders_are_rejected)
{
	make_stripes(2);
	opts.stripe_count = 61;
	fails(RUNG_E_INVAL, "at most 16");
	opts.stripe_count = 2;
	stripe_dirs[1] = "/nowhere/at/all";
	fails(RUNG_E_NOENT, "/nowhere/at/all");
	cr_assert_eq(files_in(stripes[0]), 0);
}

static const char *stop_at;

static int stop_at_name(void *ctx, const char *name, unsigned long long done,
                        unsigned long long total)
{
	(void)ctx;
	return stop_at && strcmp(name, stop_at) == 0 && done > total / 2;
}

Test(stage_layout, stripes_of_a_stopped_run_are_resumed_or_removed)
{
	make_stripes(3);
	cr_assert_eq(support_sources(dir, 5000, 9000, 1433, 4), 0);
	opts.score.method = RUNG_SCORE_DEGREE;
	opts.pad = RUNG_STAGE_PAD_SECTOR;
	rung__stage_range_rows_max = 900;
	for (int plan = RUNG_ROW_ORDER_PASSES; plan <= RUNG_ROW_ORDER_GATHER; plan++) {
		opts.row_order = (enum rung_row_order)plan;
		for (int resume = 0; resume < 2; resume++) {
			opts.progress = stop_at_name;
			stop_at = "features";
			opts.resume = opts.force = 0;
			cr_assert_eq(rung_stage(&opts, NULL), RUNG_E_CANCELED, "%s",
			             rung_last_error());
			for (int i = 0; i < 3; i++)
				cr_assert_eq(files_in(stripes[i]), 1);
			stop_at = NULL;
			opts.resume = resume;
			opts.force = !resume;
			cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
			rows_are_right(1433);
			no_leftovers(out);
			for (int i = 0; i < 3; i++)
				cr_assert_eq(files_in(stripes[i]), 1);
			support_remove(out);
			for (int i = 0; i < 3; i++) {
				support_remove(stripes[i]);
				cr_assert_eq(mkdir(stripes[i], 0777), 0);
			}
		}
	}
}

static int fail_at_once(void *ctx, const char *step, unsigned long long done,
                        unsigned long long total)
{
	(void)ctx;
	(void)done;
	(void)total;
	cr_assert_fail("work has begun: %s", step);
	return 1;
}

/* Files in other folders have names 34 bytes longer than the dataset's. While it is replaced, the
 * dataset has a name 17 bytes longer. */
Test(stage_layout, names_that_are_too_long_are_rejected_before_any_work)
{
	char name[300] = "", path[700];

	make_stripes(2);
	opts.progress = fail_at_once;
	memset(name, 'n', 222);
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	opts.out_dir = path;
	for (int resume = 0; resume < 2; resume++) {
		opts.resume = resume;
		assert_error(rung_stage(&opts, NULL), RUNG_E_INVAL, "its name has 222 bytes");
		cr_assert(strstr(rung_last_error(), "at most 221"), "%s", rung_last_error());
	}
	opts.stripe_count = 0;
	memset(name, 'n', 239);
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	assert_error(rung_stage(&opts, NULL), RUNG_E_INVAL, "at most 238");
	opts.progress = NULL;
	/* the longest accepted names work */
	for (size_t length = 221; length <= 238; length += 17) {
		name[length] = '\0';
		snprintf(path, sizeof(path), "%s/%s", dir, name);
		opts.stripe_count = length == 221 ? 2 : 0;
		opts.resume = 0;
		cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
		cr_assert(opens(path));
		opts.force = 1;
		rung__stage_plain_rename = true;
		cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
		opts.force = 0;
		memset(name, 'n', 239);
	}
}

Test(stage_layout, a_stripe_that_is_not_a_folder_is_rejected_before_any_work)
{
	make_stripes(2);
	opts.progress = fail_at_once;
	stripe_dirs[1] = features;
	cr_assert_eq(chmod(features, 0777), 0);
	fails(RUNG_E_INVAL, "features.npy: is not a folder");
	cr_assert_eq(files_in(stripes[0]), 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Verifying and repairing datasets with padding, with several folders, or staged in the least
 * memory. */
#include <sys/stat.h>

#include "verify_fixture.h"

TestSuite(verify_layout, .init = setup, .fini = teardown, .timeout = 300);

#define FILES_MAX 18u

static char folders[3][320];
static const char *folder_names[] = { folders[0], folders[1], folders[2] };
static const struct rung_stage_split splits[] = { { "train", train }, { "valid", valid } };

static const struct layout {
	enum rung_stage_pad pad;
	size_t stripes;
	enum rung_row_order plan;
	bool tiny; /* the least memory that works */
} layouts[] = {
	{ RUNG_STAGE_PAD_SECTOR, 0, RUNG_ROW_ORDER_AUTO, false },
	{ RUNG_STAGE_PAD_AUTO, 3, RUNG_ROW_ORDER_PARTITION, true },
	{ RUNG_STAGE_PAD_NONE, 2, RUNG_ROW_ORDER_GATHER, false },
	{ RUNG_STAGE_PAD_SECTOR, 3, RUNG_ROW_ORDER_PASSES, true },
	{ RUNG_STAGE_PAD_NONE, 0, RUNG_ROW_ORDER_GATHER, true },
	{ RUNG_STAGE_PAD_AUTO, 1, RUNG_ROW_ORDER_PASSES, false },
};

/* Replaces the fixture's dataset by one with this layout and the same score. */
static void stage_as(const struct layout *layout)
{
	struct rung_stage_opts opts = RUNG_STAGE_OPTS_INIT;
	struct rung_stage_report report;
	int rc, tries = 0;

	for (size_t i = 0; i < 3; i++) {
		snprintf(folders[i], sizeof(folders[i]), "%s/disk%zu", dir, i);
		mkdir(folders[i], 0777);
	}
	opts.graph = graph;
	opts.features = source;
	opts.labels = labels;
	opts.score_spec = score;
	opts.splits = splits;
	opts.split_count = 2;
	opts.out_dir = ds_dir;
	opts.force = 1;
	opts.pad = layout->pad;
	opts.row_order = layout->plan;
	opts.stripe_dirs = folder_names;
	opts.stripe_count = layout->stripes;
	opts.memory_bytes = layout->tiny ? 1 : 0;
	while ((rc = rung_stage(&opts, &report)) == RUNG_E_INVAL && layout->tiny && tries++ < 9)
		opts.memory_bytes = rung_last_error_min_bytes();
	cr_assert_eq(rc, 0, "%s", rung_last_error());
	cr_assert_leq(report.memory_bytes, report.budget_bytes);
}

static unsigned char *kept[FILES_MAX];
static size_t kept_bytes[FILES_MAX], kept_count;
static char kept_names[FILES_MAX][100];

static void keep_files(void)
{
	struct rung_dataset *ds;

	while (kept_count > 0)
		free(kept[--kept_count]);
	cr_assert_eq(rung_dataset_open(ds_dir, &ds), 0, "%s", rung_last_error());
	for (size_t i = 0; i < rung_dataset_info(ds)->file_count; i++) {
		snprintf(kept_names[i], sizeof(kept_names[i]), "%s",
		         rung_dataset_file(ds, i)->name);
		kept[i] = support_read_file(file_at(kept_names[i]), &kept_bytes[i]);
		cr_assert_not_null(kept[i]);
		kept_count++;
	}
	rung_dataset_close(ds);
}

static void all_as_staged(const char *what)
{
	for (size_t i = 0; i < kept_count; i++) {
		size_t bytes;
		unsigned char *data = support_read_file(file_at(kept_names[i]), &bytes);

		cr_assert(data && bytes == kept_bytes[i] && memcmp(data, kept[i], bytes) == 0,
		          "%s: %s", what, kept_names[i]);
		free(data);
	}
}

Test(verify_layout, every_layout_agrees_with_its_sources_in_full_and_sampled)
{
	for (size_t i = 0; i < RUNG__ARRAY_LEN(layouts); i++) {
		struct rung_verify_opts opts = all_sources();
		struct rung_verify_report report;

		stage_as(&layouts[i]);
		report = verified(&opts, 0);
		cr_assert_eq(report.rows_compared, VERTICES);
		cr_assert_eq(report.lists_compared, VERTICES);
		cr_assert_eq(report.labels_compared + report.scores_compared, 2 * VERTICES);
		opts.sample_rows = 77;
		report = verified(&opts, 0);
		cr_assert_eq(report.rows_compared, 77);
		cr_assert_eq(report.lists_compared, 77);
	}
}

Test(verify_layout, a_row_that_differs_is_detected_and_named_in_every_layout)
{
	size_t bytes;

	free(support_read_file(source, &bytes));
	for (size_t i = 0; i < RUNG__ARRAY_LEN(layouts); i++) {
		struct rung_verify_opts opts = all_sources();
		const uint64_t vertex = 97 * (i + 1) % VERTICES,
			       at = bytes - (VERTICES - vertex) * ROW_BYTES;
		struct rung_verify_report report;

		stage_as(&layouts[i]);
		flip(source, at);
		flip(source, at + ROW_BYTES - 1);
		report = verified(&opts, RUNG_E_CORRUPT);
		cr_assert_eq(report.rows_different, 1);
		cr_assert_eq(report.first_different, vertex);
		cr_assert_eq(report.bad_count, 0);
		opts.sample_rows = VERTICES - 1;
		report = verified(&opts, RUNG_E_CORRUPT);
		cr_assert_eq(report.first_different, vertex);
		flip(source, at);
		flip(source, at + ROW_BYTES - 1);
	}
}

static void repairs(uint64_t wanted)
{
	struct rung_verify_opts opts = all_sources();
	struct rung_verify_report report;

	opts.repair = 1;
	report = verified(&opts, 0);
	cr_assert_eq(report.repaired_count, wanted);
	cr_assert_eq(report.rows_different + report.bad_count, 0);
	rung_verify_report_fini(&report);
	all_as_staged("repaired");
}

/* Changes one byte of the header, of the first row, after that row (where padding may be), and the
 * last byte of each features file; then one byte of each other file. */
Test(verify_layout, a_bad_block_of_any_layout_is_repaired_to_the_byte)
{
	for (size_t i = 0; i < RUNG__ARRAY_LEN(layouts); i++) {
		uint64_t damaged = 0;

		stage_as(&layouts[i]);
		keep_files();
		for (size_t p = 0; p < 4; p++) {
			for (size_t f = 0; f < kept_count; f++) {
				const uint64_t places[] = { 5, 4096, 4096 + ROW_BYTES,
					                    kept_bytes[f] - 1 };

				if (strncmp(kept_names[f], "features.", 9) == 0)
					flip(file_at(kept_names[f]), places[p]);
			}
			repairs(RUNG__MAX(layouts[i].stripes, 1u));
		}
		for (size_t f = 0; f < kept_count; f++) {
			if (strncmp(kept_names[f], "features.", 9) == 0 ||
			    strcmp(kept_names[f], "manifest.json") == 0 ||
			    strcmp(kept_names[f], "vertex_of_rank.npy") == 0 ||
			    strcmp(kept_names[f], "checksums.npy") == 0)
				continue;
			flip(file_at(kept_names[f]), kept_bytes[f] - 1);
			damaged++;
		}
		repairs(damaged);
	}
}

/* The target of a link is truncated, extended or removed. It must be rebuilt at its place, and the
 * link must stay a link. */
Test(verify_layout, files_in_other_folders_are_rebuilt_in_place)
{
	struct rung_verify_opts opts = all_sources();
	struct rung_verify_report report;
	struct stat st;
	char target[4096];

	stage_as(&layouts[1]);
	keep_files();
	opts.repair = 1;
	for (int f = 0; f < 3; f++) {
		char name[32];
		ssize_t length;

		snprintf(name, sizeof(name), "features.%03d.npy", f);
		length = readlink(file_at(name), target, sizeof(target) - 1);
		cr_assert_gt(length, 0);
		target[length] = '\0';
		cr_assert_eq(f == 0 ? unlink(target) : truncate(target, f == 1 ? 10000 : 9000000),
		             0);
		report = verified(&opts, 0);
		cr_assert_geq(report.repaired_count, 1);
		rung_verify_report_fini(&report);
		all_as_staged(name);
		cr_assert_eq(lstat(file_at(name), &st), 0);
		cr_assert(S_ISLNK(st.st_mode));
		cr_assert_eq(lstat(target, &st), 0);
		cr_assert(S_ISREG(st.st_mode));
	}
	/* the target of a missing link is unknown, so the file is rebuilt in its place */
	cr_assert_eq(unlink(file_at("features.001.npy")), 0);
	report = verified(&opts, 0);
	rung_verify_report_fini(&report);
	all_as_staged("without a link");
}

/* The least memory for staging and for verifying may differ. */
Test(verify_layout, a_dataset_is_staged_and_verified_in_the_least_memory)
{
	struct rung_verify_opts opts = all_sources();
	struct rung_verify_report report;
	int rc, tries = 0;

	opts.memory_bytes = 1;
	for (size_t i = 0; i < RUNG__ARRAY_LEN(layouts); i++) {
		if (!layouts[i].tiny)
			continue;
		stage_as(&layouts[i]);
		while ((rc = rung_dataset_verify(ds_dir, &opts, &report)) == RUNG_E_INVAL &&
		       tries++ < 20)
			opts.memory_bytes = rung_last_error_min_bytes();
		cr_assert_eq(rc, 0, "%s", rung_last_error());
		cr_assert_eq(report.rows_compared + report.lists_compared, 2 * VERTICES);
	}
}

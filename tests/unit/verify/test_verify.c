/* SPDX-License-Identifier: Apache-2.0 */
/* Verification detects any damage and reports its location. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dataset.h"
#include "base/base.h"
#include "rung/rung.h"

#define VERTICES    4000u
#define ROW_BYTES   700u /* features of 2.7 blocks */
#define BLOCK_BYTES 1048576u

static char dir[256], ds_dir[300], path[512], source[300];

static void setup(void)
{
	cr_assert_eq(support_tempdir(dir, sizeof(dir)), 0);
	snprintf(ds_dir, sizeof(ds_dir), "%s/ds", dir);
	snprintf(source, sizeof(source), "%s/features.npy", dir);
	cr_assert_eq(support_dataset(dir, VERTICES, 20000, ROW_BYTES, 9), 0, "%s",
	             rung_last_error());
}

static void teardown(void)
{
	support_remove(dir);
}

TestSuite(verify, .init = setup, .fini = teardown);

static const char *file_at(const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", ds_dir, name);
	return path;
}

static int verify(struct rung_verify_report *report, const char *src)
{
	struct rung_verify_opts opts = RUNG_VERIFY_OPTS_INIT;

	memset(report, 0, sizeof(*report));
	opts.source = src;
	return rung_dataset_verify(ds_dir, &opts, report);
}

static void finds_only(const char *name, uint64_t block)
{
	struct rung_verify_report report;
	char words[64];

	cr_assert_eq(verify(&report, NULL), RUNG_E_CORRUPT, "%s block %" PRIu64 " not found", name,
	             block);
	cr_assert_eq(report.bad_count, 1, "%s: %" PRIu64 " blocks", name, report.bad_count);
	cr_assert_str_eq(report.bad[0].file, name);
	cr_assert_eq(report.bad[0].block, block);
	cr_assert_eq(report.bad[0].offset, block * BLOCK_BYTES);
	cr_assert(strstr(rung_last_error(), name));
	snprintf(words, sizeof(words), "block %" PRIu64, block);
	cr_assert(strstr(rung_last_error(), words));
	rung_verify_report_fini(&report);
	cr_assert_null(report.bad);
}

static void flip(const char *name, uint64_t at)
{
	cr_assert_eq(support_flip(file_at(name), at), 0, "%s: byte %d", name, (int)at);
}

Test(verify, an_intact_dataset_passes_with_every_byte_and_row_checked)
{
	struct rung_verify_report report;
	struct rung_dataset *ds;
	uint64_t bytes = 0;

	cr_assert_eq(verify(&report, source), 0, "%s", rung_last_error());
	cr_assert_eq(report.bad_count, 0);
	cr_assert_eq(report.rows_compared, VERTICES);
	cr_assert_eq(report.rows_different, 0);
	cr_assert_eq(rung_dataset_open(ds_dir, &ds), 0);
	for (size_t i = 0; i < rung_dataset_info(ds)->file_count; i++)
		bytes += rung_dataset_file(ds, i)->bytes;
	cr_assert_eq(report.bytes_checked, bytes);
	cr_assert_eq(report.blocks_checked, rung_dataset_info(ds)->file_count + 2,
	             "three blocks of features, one of each other file");
	rung_dataset_close(ds);
	rung_verify_report_fini(&report);
}

Test(verify, one_changed_byte_of_any_file_is_detected_and_named)
{
	struct rung_dataset *ds;

	cr_assert_eq(rung_dataset_open(ds_dir, &ds), 0);
	for (size_t i = 0; i < rung_dataset_info(ds)->file_count; i++) {
		const struct rung_dataset_file *file = rung_dataset_file(ds, i);
		const uint64_t places[] = { 0, 4095, file->bytes / 2, file->bytes - 1 };

		for (size_t p = 0; p < 4; p++) {
			uint64_t at = places[p] < file->bytes ? places[p] : 0;

			flip(file->name, at);
			finds_only(file->name, at / BLOCK_BYTES);
			flip(file->name, at);
		}
	}
	rung_dataset_close(ds);
	cr_assert_eq(rung_dataset_verify(ds_dir, NULL, NULL), 0);
}

Test(verify, first_and_last_bytes_of_blocks_belong_to_their_block)
{
	static const uint64_t places[] = { BLOCK_BYTES - 1, BLOCK_BYTES, 2 * BLOCK_BYTES - 1,
		                           2 * BLOCK_BYTES };

	for (size_t i = 0; i < 4; i++) {
		flip("features.000.npy", places[i]);
		finds_only("features.000.npy", places[i] / BLOCK_BYTES);
		flip("features.000.npy", places[i]);
	}
}

Test(verify, several_bad_blocks_are_all_in_the_report)
{
	struct rung_verify_report report;

	flip("features.000.npy", 10);
	flip("features.000.npy", 2 * BLOCK_BYTES + 10);
	flip("score.npy", 5000);
	cr_assert_eq(verify(&report, NULL), RUNG_E_CORRUPT);
	cr_assert_eq(report.bad_count, 3);
	cr_assert_str_eq(report.bad[0].file, "features.000.npy");
	cr_assert_str_eq(report.bad[1].file, "features.000.npy");
	cr_assert_eq(report.bad[1].block, 2);
	cr_assert_str_eq(report.bad[2].file, "score.npy");
	rung_verify_report_fini(&report);
}

Test(verify, truncated_extended_and_missing_files_are_bad_blocks)
{
	struct rung_verify_report report;
	size_t bytes;
	unsigned char *whole = support_read_file(file_at("features.000.npy"), &bytes);

	cr_assert_eq(truncate(path, (off_t)bytes - 1), 0);
	finds_only("features.000.npy", 2);
	cr_assert_eq(support_write_file(path, whole, bytes), 0);
	cr_assert_eq(truncate(path, (off_t)bytes + 1), 0);
	finds_only("features.000.npy", 2);
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(verify(&report, NULL), RUNG_E_CORRUPT);
	cr_assert_eq(report.bad_count, 3);
	rung_verify_report_fini(&report);
	cr_assert_eq(support_write_file(path, whole, bytes), 0);
	cr_assert_eq(rung_dataset_verify(ds_dir, NULL, NULL), 0);
	free(whole);
	cr_assert_eq(unlink(file_at("checksums.npy")), 0);
	finds_only("checksums.npy", 0);
	cr_assert_eq(unlink(file_at("manifest.json")), 0);
	cr_assert_eq(verify(&report, NULL), RUNG_E_NOENT);
}

Test(verify, rows_that_differ_from_the_source_are_counted)
{
	struct rung_verify_report report;
	size_t bytes;
	unsigned char *npy = support_read_file(source, &bytes),
		      *rows = npy + bytes - VERTICES * ROW_BYTES;
	uint64_t count, *ranks;
	struct rung_dataset *ds;

	rows[17 * ROW_BYTES] ^= 1;
	rows[2345 * ROW_BYTES + ROW_BYTES - 1] ^= 1;
	cr_assert_eq(support_write_file(source, npy, bytes), 0);
	free(npy);
	cr_assert_eq(verify(&report, source), RUNG_E_CORRUPT);
	cr_assert_eq(report.bad_count, 0);
	cr_assert_eq(report.rows_compared, VERTICES);
	cr_assert_eq(report.rows_different, 2);
	cr_assert_eq(rung_dataset_open(ds_dir, &ds), 0);
	cr_assert_eq(rung_dataset_load_ids(ds, "rank_of_vertex", &count, &ranks), 0);
	cr_assert_eq(report.first_different, ranks[17] < ranks[2345] ? 17 : 2345);
	rung_free(ranks);
	rung_dataset_close(ds);
	rung_verify_report_fini(&report);
}

Test(verify, a_source_of_another_shape_is_rejected)
{
	struct rung_verify_report report;
	char spec[400];

	snprintf(spec, sizeof(spec), "raw:%s,u8,%u,0,trailing=ignore", source, VERTICES);
	cr_assert_eq(verify(&report, spec), RUNG_E_FORMAT);
	cr_assert(strstr(rung_last_error(), "has 4000 rows of 1 bytes"), "%s", rung_last_error());
	cr_assert_eq(verify(&report, "none.npy"), RUNG_E_NOENT);
}

static int stop_at_once(void *ctx, const char *step, unsigned long long done,
                        unsigned long long total)
{
	(void)ctx;
	(void)step;
	cr_assert_leq(done, total);
	return 1;
}

Test(verify, it_can_be_canceled)
{
	struct rung_verify_opts opts = RUNG_VERIFY_OPTS_INIT;
	struct rung_verify_report report;

	opts.progress = stop_at_once;
	cr_assert_eq(rung_dataset_verify(ds_dir, &opts, &report), RUNG_E_CANCELED);
}

Test(verify, nothing_leaks_whichever_allocation_fails)
{
	struct rung_verify_report report;
	int64_t allowed = 0;
	int rc;

	flip("score.npy", 5000);
	do {
		rung__alloc_limit(allowed++);
		rc = verify(&report, source);
		rung__alloc_limit(-1);
		cr_assert(rc == RUNG_E_CORRUPT || rc == RUNG_E_NOMEM, "%d %s", rc,
		          rung_last_error());
	} while (rc == RUNG_E_NOMEM);
	cr_assert_eq(report.bad_count, 1);
	cr_assert_gt(allowed, 10);
	rung_verify_report_fini(&report);
}

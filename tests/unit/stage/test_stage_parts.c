/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a dataset that are staged by separate calls: the dataset is that of one call, in any
 * order of the parts, and parts of different jobs are refused. */
#include <fcntl.h>
#include <sys/file.h>

#include "parts_fixture.h"
#include "quant_rows.h"
#include "rows/stage_schedule.h"

TestSuite(stage_parts, .init = setup_parts, .fini = teardown, .timeout = 300);

Test(stage_parts, any_number_of_parts_in_any_order_is_the_dataset_of_one_call)
{
	static const uint32_t counts[] = { 1, 2, 5, 16 };

	make_whole(397, 3000);
	rung__stage_range_rows_max = 50;
	for (size_t i = 0; i < RUNG__ARRAY_LEN(counts); i++) {
		opts.part_count = counts[i];
		for (uint32_t p = counts[i] - 1; p > 0; p--) {
			opts.row_order = (enum rung_row_order)(RUNG_ROW_ORDER_PASSES + p % 3);
			part_is_staged(p);
		}
		part_is_staged(0);
		is_whole(counts[i]);
		support_remove(out);
		/* part 0 first: its work is kept, and it publishes when it is repeated */
		opts.resume = 1;
		if (counts[i] > 1)
			assert_error(stage_part(0), RUNG_E_NOENT, "1 (missing)");
		for (uint32_t p = 1; p < counts[i]; p++)
			part_is_staged(p);
		part_is_staged(0);
		is_whole(counts[i]);
		support_remove(out);
		opts.resume = 0;
	}
}

Test(stage_parts, one_part_is_a_staging_without_parts)
{
	make_whole(100, 50);
	opts.part_count = 1;
	part_is_staged(0);
	same_bytes(whole, out, "manifest.json");
	same_files(whole, out);
}

Test(stage_parts, padded_and_quantized_rows_have_parts)
{
	static const enum rung_quant_scales scales[] = { RUNG_SCALES_ROW, RUNG_SCALES_COLUMN };

	opts.pad = RUNG_STAGE_PAD_AUTO;
	make_whole(300, 2000);
	opts.part_count = 3;
	for (uint32_t p = 3; p-- > 0;)
		part_is_staged(p);
	is_whole(3);
	opts.force = 1;
	opts.quantize = RUNG_QUANT_INT8;
	opts.pad = RUNG_STAGE_PAD_NONE;
	for (size_t i = 0; i < 2; i++) {
		opts.quant_scales = scales[i];
		quant_write_features(dir, 300, 40);
		opts.part_count = opts.part = 0;
		opts.out_dir = whole;
		cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
		opts.out_dir = out;
		opts.part_count = 3;
		for (uint32_t p = 3; p-- > 0;)
			part_is_staged(p);
		is_whole(3);
	}
}

Test(stage_parts, the_report_and_a_dry_run_describe_the_part)
{
	struct rung_stage_report report;

	make_whole(103, 64);
	opts.part_count = 4;
	for (int dry = 1; dry >= 0; dry--) {
		uint64_t next = 0;

		opts.dry_run = dry;
		for (opts.part = 3; opts.part > 0; opts.part--) {
			cr_assert_eq(rung_stage(&opts, &report), 0, "%s", rung_last_error());
			cr_assert_eq(report.rank_first, 103u * opts.part / 4);
			cr_assert_eq(report.rank_count,
			             103u * (opts.part + 1) / 4 - 103u * opts.part / 4);
			cr_assert_eq(report.bytes_written, 4096 + report.rank_count * 64);
			cr_assert_eq(report.rows_bytes_written, report.rank_count * 64);
			next += report.rank_count;
			cr_assert_eq(exists(folder_of(opts.part)), !dry);
		}
		cr_assert_eq(next, 103 - 25);
	}
}

Test(stage_parts, a_complete_part_is_not_repeated)
{
	struct rung_stage_report report;
	struct stat before, after;
	char name[440];

	make_whole(200, 500);
	opts.part_count = 2;
	part_is_staged(1);
	snprintf(name, sizeof(name), "%s/features.001.npy", folder_of(1));
	cr_assert_eq(stat(name, &before), 0);
	assert_error(stage_part(1), RUNG_E_EXIST, "--resume");
	opts.resume = 1;
	for (int published = 0; published < 2; published++) {
		opts.part = 1;
		cr_assert_eq(rung_stage(&opts, &report), 0, "%s", rung_last_error());
		cr_assert(report.already_staged && report.phase_count == 0);
		if (published)
			break;
		cr_assert_eq(stat(name, &after), 0);
		cr_assert_eq(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
		part_is_staged(0);
	}
	cr_assert_not(exists(folder_of(1)));
	/* damage is noticed */
	support_remove(out);
	part_is_staged(1);
	cr_assert_eq(truncate(name, 5000), 0);
	assert_error(stage_part(1), RUNG_E_CORRUPT, "has 5000 bytes");
	assert_error(stage_part(0), RUNG_E_CORRUPT, "features.001.npy: has 5000 bytes");
	cr_assert_not(exists(out));
}

Test(stage_parts, parts_that_are_not_complete_are_named)
{
	int fd;

	make_whole(200, 500);
	opts.part_count = 4;
	opts.resume = 1;
	part_is_staged(1);
	part_is_staged(2);
	fd = open(folder_of(2), O_RDONLY | O_DIRECTORY);
	cr_assert_geq(fd, 0);
	cr_assert_eq(flock(fd, LOCK_EX), 0);
	assert_error(stage_part(0), RUNG_E_NOENT,
	             "not: 2 (in progress), 3 (missing); stage them, then continue part 0");
	close(fd);
	assert_error(stage_part(0), RUNG_E_NOENT, "not: 3 (missing); ");
	cr_assert_not(exists(out));
	part_is_staged(3);
	part_is_staged(0);
	is_whole(4);
}

/* Stages parts 0 and 1 of 2; the sources or options of one of them are changed in between. */
static void is_another_job(void (*change)(void), const char *words)
{
	opts.resume = opts.force = 0;
	part_is_staged(1);
	change();
	assert_error(stage_part(0), RUNG_E_INVAL, words);
	cr_assert(strstr(rung_last_error(), folder_of(1)));
	cr_assert_not(exists(out));
	/* the part is staged again, as the message says; part 0 then continues */
	opts.force = 1;
	part_is_staged(1);
	opts.force = 0;
	opts.resume = 1;
	part_is_staged(0);
	cr_assert(opens(out));
	support_remove(out);
}

static void change_batch(void)
{
	opts.batch_size = 77;
}

static void change_scores(void)
{
	write_scores(200, 6);
}

static void change_rows(void)
{
	cr_assert_eq(support_sources(dir, 200, 600, 600, 3), 0);
}

static void change_splits(void)
{
	opts.split_count = 1;
}

Test(stage_parts, parts_of_different_jobs_are_refused)
{
	char host[200] = "", words[300];

	make_whole(200, 500);
	opts.part_count = 2;
	gethostname(host, sizeof(host) - 1);
	snprintf(words, sizeof(words), "written on %s for another job: sampling was 'fanouts 25,10",
	         host);
	is_another_job(change_batch, words);
	is_another_job(change_scores, "other scores, whose checksum is");
	is_another_job(change_rows, "rows was '200 of 500 bytes");
	is_another_job(change_splits, "splits was '2', now is '1'");
}

Test(stage_parts, a_part_is_resumed_only_with_its_scores)
{
	make_whole(200, 500);
	opts.part_count = 2;
	part_is_staged(1);
	write_scores(200, 9);
	opts.resume = 1;
	assert_error(stage_part(1), RUNG_E_INVAL, "score-file was");
	assert_error(stage_part(0), RUNG_E_INVAL, "other scores");
}

Test(stage_parts, invalid_combinations_are_refused)
{
	static const char *const folders[] = { "/tmp" };

	make_whole(5, 8);
	opts.part_count = 17;
	fails(RUNG_E_INVAL, "17 parts; give at most 16");
	opts.part_count = 6;
	fails(RUNG_E_INVAL, "5 rows cannot be divided into 6 parts");
	opts.part_count = opts.part = 5;
	fails(RUNG_E_INVAL, "part 5 of 5 does not exist");
	opts.part_count = 0;
	fails(RUNG_E_INVAL, "part 5 of 0 does not exist");
	opts.part_count = 2;
	opts.part = 1;
	opts.score_spec = NULL;
	fails(RUNG_E_INVAL, "the same scores");
	opts.score_spec = scores;
	opts.in_place = 1;
	fails(RUNG_E_INVAL, "cannot be striped, and their rows cannot stay in place");
	opts.in_place = 0;
	opts.stripe_dirs = folders;
	opts.stripe_count = 1;
	fails(RUNG_E_INVAL, "cannot be striped");
}

/* Parts other than 0 need neither graph nor labels, arrays or splits. */
Test(stage_parts, only_part_0_reads_the_other_sources)
{
	make_whole(100, 40);
	opts.part_count = 3;
	cr_assert_eq(unlink(edges) + unlink(labels) + unlink(train), 0);
	part_is_staged(1);
	part_is_staged(2);
	assert_error(stage_part(0), RUNG_E_NOENT, "labels.npy: cannot be opened");
}

Test(stage_parts, force_replaces_a_dataset_when_all_parts_are_complete)
{
	make_whole(150, 700);
	opts.out_dir = out;
	cr_assert_eq(rename(whole, out), 0);
	opts.part_count = 3;
	assert_error(stage_part(2), RUNG_E_EXIST, "--force");
	opts.force = 1;
	part_is_staged(2);
	assert_error(stage_part(0), RUNG_E_NOENT, "1 (missing)");
	cr_assert(opens(out));
	part_is_staged(1);
	part_is_staged(1); /* again from scratch */
	opts.resume = 1;
	part_is_staged(2);
	part_is_staged(0);
	opts.force = 0;
	part_is_staged(0);
	part_is_staged(1);
	no_leftovers(out);
	cr_assert_not(exists(folder_of(1)));
	cr_assert_not(exists(folder_of(2)));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Resuming staging: the same bytes as without a stop, no work is repeated, and changed files and
 * jobs are rejected. */
#include <fcntl.h>
#include <utime.h>

#include "rows/stage_schedule.h"
#include "stage/stage_memory.h"
#include "dataset/checksum.h"
#include "base/base.h"
#include "folder/stage_journal.h"
#include "stage_killed.h"

TestSuite(stage_resume, .init = setup, .fini = teardown, .timeout = 300);

#define ROWS       400u
#define RANGE_ROWS 90u
#define STEP       7 /* steps from one kill to the next; each plan begins at another step */

static char reference[310], journal[340];

static char years[300];
static struct rung_stage_array arrays[] = { { "year", years } };

/* Five ranges of wide rows and of a second array, and a finished dataset for comparison. */
static void setup_ranges(void)
{
	cr_assert_eq(support_sources(dir, ROWS, 900, 5000, 3), 0);
	snprintf(reference, sizeof(reference), "%s/reference", dir);
	snprintf(journal, sizeof(journal), "%s/journal", partial);
	opts.out_dir = reference;
	opts.score.method = RUNG_SCORE_DEGREE;
	snprintf(years, sizeof(years), "%s/labels.npy", dir);
	opts.arrays = arrays;
	opts.array_count = 1;
	cr_assert_eq(stage_killed_at(0), 0);
	opts.out_dir = out;
	rung__stage_range_rows_max = RANGE_ROWS;
}

static void resumes_from_anywhere(enum rung_row_order plan, bool in_files)
{
	int refused = 0, k = 1 + (int)plan;

	setup_ranges();
	opts.row_order = plan;
	rung__stage_graph_in_files = in_files;
	for (int status = 1; status == 1; k += STEP) {
		opts.resume = 0;
		status = stage_killed_at(k);
		cr_assert_not(opens(partial), "step %d", k);
		if (status == 0)
			break;
		if (exists(journal) && !exists(out)) {
			const int plain = stage_killed_at(0);

			/* partial work is kept; work not worth keeping is repeated */
			cr_assert(plain == 0 || plain == RUNG_E_EXIST, "step %d", k);
			refused += plain == RUNG_E_EXIST;
		}
		opts.resume = 1;
		cr_assert_eq(stage_killed_at(0), 0, "step %d",
		             k); /* even if it was complete, or complete except for the journal */
		same_files(reference, out);
		no_leftovers(out);
		support_remove(out);
	}
	cr_assert_gt(refused, 5);
	cr_assert_gt(k, 60);
}

Test(stage_resume, passes_killed_at_any_step_resume_to_the_same_bytes)
{
	resumes_from_anywhere(RUNG_ROW_ORDER_PASSES, false);
}

Test(stage_resume, dealing_killed_at_any_step_resumes_to_the_same_bytes)
{
	resumes_from_anywhere(RUNG_ROW_ORDER_PARTITION, true);
}

Test(stage_resume, gathering_killed_at_any_step_resumes_to_the_same_bytes)
{
	resumes_from_anywhere(RUNG_ROW_ORDER_GATHER, false);
}

static const char *stop_at; /* name of the step, and least number of its bytes, at which to stop */
static unsigned long long stop_done;

static int stop_at_name(void *ctx, const char *name, unsigned long long done,
                        unsigned long long total)
{
	(void)ctx;
	(void)total;
	return stop_at && strcmp(name, stop_at) == 0 && done >= stop_done;
}

static void stop_in(const char *name, unsigned long long done)
{
	opts.progress = stop_at_name;
	stop_at = name;
	stop_done = done;
	cr_assert_eq(rung_stage(&opts, NULL), RUNG_E_CANCELED, "%s", rung_last_error());
	cr_assert(exists(partial));
	stop_at = NULL;
}

static bool has_phase(const struct rung_stage_report *report, const char *name)
{
	for (size_t i = 0; i < report->phase_count; i++) {
		if (strcmp(report->phases[i].name, name) == 0)
			return true;
	}
	return false;
}

Test(stage_resume, finished_parts_are_not_repeated)
{
	struct rung_stage_report report;

	setup_ranges();
	opts.row_order = RUNG_ROW_ORDER_GATHER;
	stop_in("features", 2 * (ROWS / 2) * 5000 + 1); /* read and written: more than half */
	opts.resume = 1;
	cr_assert_eq(rung_stage(&opts, &report), 0, "%s", rung_last_error());
	cr_assert_eq(report.resumed, 1);
	cr_assert_eq(report.rows_resumed, 2 * RANGE_ROWS);
	cr_assert_not(has_phase(&report, "graph"));
	cr_assert_not(has_phase(&report, "score"));
	cr_assert_not(has_phase(&report, "relabel"));
	cr_assert(has_phase(&report, "features"));
	same_files(reference, out);
	opts.resume = 0;
	support_remove(out);
	cr_assert_eq(rung_stage(&opts, &report), 0);
	cr_assert_eq(report.resumed, 0);
	cr_assert_eq(report.rows_resumed, 0);
	cr_assert(has_phase(&report, "graph") && has_phase(&report, "score") &&
	          has_phase(&report, "relabel"));
}

/* The partial folder must be unchanged, so that the right job can still finish it. */
static void is_refused(int status, const char *words)
{
	assert_error(rung_stage(&opts, NULL), status, words);
	cr_assert(exists(journal));
	cr_assert_not(exists(out));
}

Test(stage_resume, partial_work_is_kept_until_resume_or_force)
{
	struct rung_stage_report report;

	setup_ranges();
	stop_in("features", 1);
	is_refused(RUNG_E_EXIST, "--resume");
	is_refused(RUNG_E_EXIST, "--force");
	opts.force = 1; /* starts from scratch */
	cr_assert_eq(rung_stage(&opts, &report), 0, "%s", rung_last_error());
	cr_assert_eq(report.resumed, 0);
	same_files(reference, out);
	support_remove(out);
	opts.force = 0;
	opts.resume = 1; /* without partial work: from the start */
	cr_assert_eq(rung_stage(&opts, &report), 0, "%s", rung_last_error());
	cr_assert_eq(report.resumed, 0);
	cr_assert_eq(report.already_staged, 0);
	cr_assert_eq(rung_stage(&opts, &report), 0);
	cr_assert_eq(report.already_staged, 1);
	no_leftovers(out);
}

Test(stage_resume, another_job_is_rejected_with_the_differences)
{
	struct utimbuf times = { 1000, 1000 };

	setup_ranges();
	stop_in("features", 1);
	opts.resume = 1;
	opts.score.method = RUNG_SCORE_PPR;
	is_refused(RUNG_E_INVAL, "score was 'degree");
	opts.score.method = RUNG_SCORE_DEGREE;
	opts.graph.undirected = 1;
	is_refused(RUNG_E_INVAL, "undirected 1");
	opts.graph.undirected = 0;
	opts.batch_size = 99;
	is_refused(RUNG_E_INVAL, "batches of 99");
	opts.batch_size = 0;
	opts.labels = NULL;
	is_refused(RUNG_E_INVAL, "labels was '");
	opts.labels = labels;
	opts.split_count = 1;
	is_refused(RUNG_E_INVAL, "splits was '2', now is '1'");
	opts.split_count = 2;
	cr_assert_eq(utime(valid, &times), 0);
	is_refused(RUNG_E_INVAL, "changed at 1000.");
	opts.split_count = 2;
}

Test(stage_resume, changed_inputs_are_rejected)
{
	unsigned char *bytes;
	size_t count;

	setup_ranges();
	stop_in("features", 1);
	opts.resume = 1;
	bytes = support_read_file(features, &count);
	cr_assert_eq(unlink(features), 0);
	cr_assert_eq(support_write_file(features, bytes, count), 0);
	free(bytes);
	is_refused(RUNG_E_INVAL, "features was '");
}

Test(stage_resume, memory_and_threads_may_change_but_dealt_buckets_must_fit)
{
	struct rung_stage_report report;
	uint64_t least;

	opts.memory_bytes = UINT64_C(64) << 20;
	setup_ranges();
	cr_assert_eq(support_sources(dir, 3000, 100, 5000, 3), 0);
	support_remove(reference);
	opts.out_dir = reference;
	rung__stage_range_rows_max = 0;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	opts.out_dir = out;
	opts.row_order = RUNG_ROW_ORDER_PARTITION;
	rung__stage_range_rows_max = 1500;
	stop_in("features", 3000 * 5000 * 2 + 5000); /* all rows are dealt */
	opts.resume = 1;
	opts.memory_bytes = UINT64_C(16) << 20;
	is_refused(RUNG_E_INVAL, "--memory");
	least = rung_last_error_min_bytes();
	cr_assert_leq(least, UINT64_C(64) << 20);
	opts.memory_bytes = least;
	opts.threads = 1;
	opts.row_order = RUNG_ROW_ORDER_PASSES; /* dealt rows stay dealt */
	rung__stage_range_rows_max = 0;
	cr_assert_eq(rung_stage(&opts, &report), 0, "%s", rung_last_error());
	cr_assert_eq(report.row_order, RUNG_ROW_ORDER_PARTITION);
	same_files(reference, out);
}

/* If the journal is truncated anywhere, or a byte of its last lines is changed, its intact part is
 * used. */
Test(stage_resume, the_intact_part_of_a_damaged_journal_is_used)
{
	unsigned char *lines;
	size_t bytes;

	setup_ranges();
	opts.row_order = RUNG_ROW_ORDER_PASSES;
	for (size_t cut = 1; cut < 4000; cut += 397) {
		opts.resume = 0;
		opts.force = 1;
		stop_in("features", ROWS * 5000 * 4);
		lines = support_read_file(journal, &bytes);
		if (cut % 2)
			bytes -= cut < bytes ? cut : bytes;
		else
			lines[bytes - 1 - cut % bytes] ^= 1;
		cr_assert_eq(support_write_file(journal, lines, bytes), 0);
		free(lines);
		opts.resume = 1;
		opts.force = 0;
		cr_assert_eq(rung_stage(&opts, NULL), 0, "%zu: %s", cut, rung_last_error());
		same_files(reference, out);
		no_leftovers(out);
		support_remove(out);
	}
}

/* Changes an entry of a map, and the journal's record of its file to match. */
static void forge_map(const char *name, uint64_t block, uint32_t entry)
{
	const int folder = open(partial, O_RDONLY | O_DIRECTORY);
	struct rung__journal lines = { .fd = -1 };
	unsigned char *bytes;
	char path[400];
	size_t count;
	uint64_t sum;

	snprintf(path, sizeof(path), "%s/%s", partial, name);
	bytes = support_read_file(path, &count);
	memcpy(bytes + count - sizeof(entry), &entry, sizeof(entry));
	cr_assert_eq(support_write_file(path, bytes, count), 0);
	sum = rung__checksum(bytes, count);
	cr_assert_eq(rung__journal_read(&lines, folder, partial), 0);
	cr_assert_eq(rung__journal_begin(&lines, folder), 0);
	cr_assert_eq(rung__journal_add_sums(&lines, block, 1, &sum), 0);
	cr_assert_eq(rung__journal_commit(&lines, -1), 0);
	rung__journal_fini(&lines);
	close(folder);
	free(bytes);
}

Test(stage_resume, invalid_maps_are_rejected)
{
	/* index of the first block after the features and the graph */
	const uint64_t first = (4096 + ROWS * 5000 + 1048575) / 1048576 + 2;

	setup_ranges();
	opts.row_order = RUNG_ROW_ORDER_PASSES;
	for (unsigned map = 0; map < 2; map++) {
		opts.resume = 0;
		opts.force = 1;
		stop_in("features", ROWS * 5000 * 4);
		opts.resume = 1;
		opts.force = 0;
		forge_map(map ? "rank_of_vertex.npy" : "vertex_of_rank.npy", first + map,
		          UINT32_MAX);
		is_refused(RUNG_E_CORRUPT, "are not each other's inverse");
	}
}

Test(stage_resume, files_that_differ_from_the_journal_are_rejected)
{
	char path[400];
	unsigned char *bytes;
	size_t count;

	setup_ranges();
	opts.row_order = RUNG_ROW_ORDER_PASSES;
	stop_in("features", ROWS * 5000 * 4);
	opts.resume = 1;
	snprintf(path, sizeof(path), "%s/rank_of_vertex.npy", partial);
	bytes = support_read_file(path, &count);
	bytes[count - 1] ^= 1;
	cr_assert_eq(support_write_file(path, bytes, count), 0);
	is_refused(RUNG_E_CORRUPT, "rank_of_vertex.npy");
	bytes[count - 1] ^= 1;
	cr_assert_eq(support_write_file(path, bytes, count), 0);
	free(bytes);
	snprintf(path, sizeof(path), "%s/features.000.npy", partial);
	bytes = support_read_file(path, &count);
	memset(bytes + 4096, 0, count - 4096);
	cr_assert_eq(support_write_file(path, bytes, count), 0);
	free(bytes);
	is_refused(RUNG_E_CORRUPT, "features.000.npy");
}

/* Damages the features file. @return its original bytes, for the caller to free */
static unsigned char *spoil_features(off_t cut_to, size_t change_at, size_t *bytes_out)
{
	unsigned char *bytes;
	char path[400];

	snprintf(path, sizeof(path), "%s/features.000.npy", partial);
	bytes = support_read_file(path, bytes_out);
	cr_assert(bytes && *bytes_out > change_at);
	bytes[change_at] ^= 1;
	cr_assert_eq(support_write_file(path, bytes, *bytes_out), 0);
	cr_assert_eq(truncate(path, cut_to ? cut_to : (off_t)*bytes_out), 0);
	bytes[change_at] ^= 1;
	return bytes;
}

/* Buckets are in the file itself, after the rows: here, number k is at (2 + k) MiB. No checksum of
 * the dataset covers them. */
Test(stage_resume, damage_of_dealt_rows_before_sorting_is_detected)
{
	const off_t cuts[] = { 0, 5 << 20, 2000 };
	char path[400];
	unsigned char *bytes;
	size_t count;

	setup_ranges();
	opts.row_order = RUNG_ROW_ORDER_PARTITION;
	snprintf(path, sizeof(path), "%s/features.000.npy", partial);
	for (size_t i = 0; i < 2 * RUNG__ARRAY_LEN(cuts); i++) {
		opts.resume = 0;
		opts.force = 1;
		stop_in("features",
		        ROWS * 5000 * 2 + (i % 2 ? RANGE_ROWS * 5000 + 1
		                                 /* all rows dealt, or one range sorted as well */
		                                 : 1));
		opts.resume = 1;
		opts.force = 0;
		bytes = spoil_features(cuts[i / 2], (5 << 20) + 1000, &count);
		is_refused(RUNG_E_CORRUPT, "features.000.npy");
		is_refused(RUNG_E_CORRUPT, "features.000.npy"); /* still rejected the second time */
		free(bytes);
	}
	opts.resume = 0;
	opts.force = 1;
	stop_in("features", ROWS * 5000 * 2 + 1);
	cr_assert_eq(unlink(path), 0);
	opts.resume = 1;
	is_refused(RUNG_E_CORRUPT, "features.000.npy: is missing");
}

Test(stage_resume, missing_rows_are_not_replaced_by_zeros)
{
	unsigned char *bytes;
	size_t count;

	setup_ranges();
	opts.row_order = RUNG_ROW_ORDER_PASSES;
	stop_in("features", ROWS * 5000 * 4);
	opts.resume = 1;
	bytes = spoil_features(2000, 0, &count);
	is_refused(RUNG_E_CORRUPT, "features.000.npy: has 2000 bytes");
	free(bytes);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Damage of any file at any offset is repaired to the byte from its sources, or left unchanged. */
#include <dirent.h>
#include <sys/stat.h>

#include "verify_fixture.h"

TestSuite(verify_repair, .init = setup, .fini = teardown);

#define FILES_MAX 16u

static struct {
	char name[100];
	unsigned char *data;
	size_t bytes;
} kept[FILES_MAX]; /* of every file, as it was staged */
static size_t kept_count;

static void keep_files(void)
{
	struct rung_dataset *ds;

	while (kept_count > 0)
		free(kept[--kept_count].data);
	cr_assert_eq(rung_dataset_open(ds_dir, &ds), 0);
	for (size_t i = 0; i < rung_dataset_info(ds)->file_count; i++) {
		snprintf(kept[i].name, sizeof(kept[i].name), "%s", rung_dataset_file(ds, i)->name);
		kept[i].data = support_read_file(file_at(kept[i].name), &kept[i].bytes);
		cr_assert_not_null(kept[i].data);
		kept_count++;
	}
	rung_dataset_close(ds);
}

static void restore(size_t i)
{
	cr_assert_eq(support_write_file(file_at(kept[i].name), kept[i].data, kept[i].bytes), 0);
}

static bool as_staged(size_t i)
{
	size_t bytes;
	unsigned char *data = support_read_file(file_at(kept[i].name), &bytes);
	bool same = data && bytes == kept[i].bytes && memcmp(data, kept[i].data, bytes) == 0;

	free(data);
	return same;
}

static void all_as_staged(const char *what)
{
	for (size_t i = 0; i < kept_count; i++)
		cr_assert(as_staged(i), "%s: %s differs from the staged file", what, kept[i].name);
}

static bool is(size_t i, const char *name)
{
	return strcmp(kept[i].name, name) == 0;
}

static struct rung_verify_opts repairing(void)
{
	struct rung_verify_opts opts = all_sources();

	opts.repair = 1;
	return opts;
}

static uint64_t random_state = 4;

static uint64_t random_below(uint64_t bound)
{
	return rung__mix64(random_state++) % bound;
}

Test(verify_repair, a_byte_anywhere_in_any_file_is_repaired)
{
	struct rung_verify_opts opts = repairing();

	keep_files();
	for (size_t i = 0; i < kept_count; i++) {
		const uint64_t places[] = { 0, kept[i].bytes - 1, random_below(kept[i].bytes),
			                    random_below(kept[i].bytes) };

		for (size_t p = 0; p < 4 && !is(i, "manifest.json"); p++) {
			const uint64_t at = RUNG__MIN(places[p], kept[i].bytes - 1);
			struct rung_verify_report report;

			flip(file_at(kept[i].name), at);
			report = verified(&opts, 0);
			cr_assert_eq(report.bad_count, 0);
			cr_assert_eq(report.repaired_count, 1, "%s at %" PRIu64, kept[i].name, at);
			cr_assert_str_eq(report.repaired[0].file, kept[i].name);
			cr_assert_eq(report.repaired[0].block, at / BLOCK_BYTES);
			cr_assert_eq(report.rows_different + report.lists_different, 0);
			cr_assert_null(report.unrepaired);
			cr_assert(as_staged(i), "%s at %" PRIu64, kept[i].name, at);
			rung_verify_report_fini(&report);
		}
	}
	all_as_staged("in the end");
}

Test(verify_repair, truncated_extended_and_missing_files_are_repaired)
{
	struct rung_verify_opts opts = repairing();
	struct rung_verify_report report;

	keep_files();
	for (size_t i = 0; i < kept_count; i++) {
		const off_t sizes[] = { 0, (off_t)kept[i].bytes - 1, (off_t)kept[i].bytes + 5000 };

		if (is(i, "manifest.json"))
			continue;
		for (size_t s = 0; s < 3; s++) {
			cr_assert_eq(truncate(file_at(kept[i].name), sizes[s]), 0);
			report = verified(&opts, 0);
			cr_assert_geq(report.repaired_count, 1, "%s of %jd", kept[i].name,
			              (intmax_t)sizes[s]);
			rung_verify_report_fini(&report);
		}
		cr_assert_eq(unlink(file_at(kept[i].name)), 0);
		report = verified(&opts, 0);
		cr_assert(as_staged(i), "%s", kept[i].name);
		rung_verify_report_fini(&report);
	}
	all_as_staged("in the end");
}

/* All files at once, except one of the two maps, which are repaired from each other, and
 * checksums.npy, whose other blocks are computed from the files. */
Test(verify_repair, many_files_are_repaired_at_once)
{
	struct rung_verify_opts opts = repairing();
	struct rung_verify_report report;

	cr_assert_eq(support_deal(ds_dir, 3, 7), 0, "%s", rung_last_error());
	keep_files();
	for (int round = 0; round < 4; round++) {
		for (size_t i = 0; i < kept_count; i++) {
			if (is(i, "manifest.json") ||
			    is(i, round % 2 ? "vertex_of_rank.npy" : "rank_of_vertex.npy"))
				continue;
			if (round < 2 || !is(i, "checksums.npy"))
				flip(file_at(kept[i].name), random_below(kept[i].bytes));
		}
		report = verified(&opts, 0);
		cr_assert_geq(report.repaired_count, kept_count - 3);
		rung_verify_report_fini(&report);
		all_as_staged("all at once");
	}
}

Test(verify_repair, without_its_source_a_block_stays_bad_with_the_reason)
{
	static const struct {
		const char *name, *words;
	} files[] = {
		{ "features.000.npy", "--source SRC" }, { "labels.npy", "--labels SRC" },
		{ "score.npy", "--score SRC" },         { "split_valid.npy", "--split NAME=SRC" },
		{ "graph_indptr.npy", "--graph" },      { "graph_indices.npy", "--graph" }
	};

	keep_files();
	for (size_t i = 0; i < 6; i++) {
		struct rung_verify_opts opts = RUNG_VERIFY_OPTS_INIT;
		struct rung_verify_report report;

		opts.repair = 1;
		flip(file_at(files[i].name), 4200);
		report = verified(&opts, RUNG_E_CORRUPT);
		cr_assert_eq(report.bad_count, 1);
		cr_assert_eq(report.repaired_count, 0);
		cr_assert(strstr(report.unrepaired, files[i].words), "%s", report.unrepaired);
		cr_assert(strstr(rung_last_error(), report.unrepaired));
		rung_verify_report_fini(&report);
		flip(file_at(files[i].name), 4200);
		all_as_staged(files[i].name);
	}
}

/* Maps and checksums are rebuilt from the folder alone. */
Test(verify_repair, maps_and_checksums_are_repaired_without_sources)
{
	static const char *const names[] = { "vertex_of_rank.npy", "rank_of_vertex.npy",
		                             "checksums.npy" };
	struct rung_verify_opts opts = RUNG_VERIFY_OPTS_INIT;
	struct rung_verify_report report;

	opts.repair = 1;
	keep_files();
	for (size_t i = 0; i < 3; i++) {
		flip(file_at(names[i]), 4100);
		report = verified(&opts, 0);
		cr_assert_eq(report.repaired_count, 1);
		rung_verify_report_fini(&report);
		all_as_staged(names[i]);
	}
	flip(file_at(names[0]), 4100); /* both */
	flip(file_at(names[1]), 4100);
	report = verified(&opts, RUNG_E_CORRUPT);
	cr_assert_eq(report.bad_count, 2);
	cr_assert(strstr(report.unrepaired, "does not match its recorded checksum"), "%s",
	          report.unrepaired);
	rung_verify_report_fini(&report);
	flip(file_at(names[0]), 4100);
	flip(file_at(names[1]), 4100);
	all_as_staged("both maps");
	cr_assert_eq(unlink(file_at(names[2])), 0); /* a file and the record of its checksums */
	flip(file_at("score.npy"), 4100);
	report = verified(&opts, RUNG_E_CORRUPT);
	cr_assert(strstr(report.unrepaired, "some of them are damaged as well"), "%s",
	          report.unrepaired);
	rung_verify_report_fini(&report);
	flip(file_at("manifest.json"), 100);
	report = verified(&opts, RUNG_E_CORRUPT);
	cr_assert_str_eq(report.bad[0].file, "manifest.json");
	rung_verify_report_fini(&report);
}

Test(verify_repair, rows_of_another_source_are_not_written)
{
	struct rung_verify_opts opts = repairing();
	struct rung_verify_report report;
	size_t bytes;
	unsigned char *npy = support_read_file(source, &bytes);

	keep_files();
	flip(file_at("features.000.npy"), 5000);
	for (size_t v = 0; v < VERTICES; v++) /* changes every row */
		npy[bytes - VERTICES * ROW_BYTES + v * ROW_BYTES + 7] ^= 1;
	cr_assert_eq(support_write_file(source, npy, bytes), 0);
	free(npy);
	flip(file_at("labels.npy"), 5000);
	opts.graph = NULL;
	report = verified(&opts, RUNG_E_CORRUPT);
	cr_assert_eq(report.bad_count, 1);
	cr_assert_str_eq(report.bad[0].file, "features.000.npy");
	cr_assert_eq(report.repaired_count, 1);
	cr_assert_str_eq(report.repaired[0].file, "labels.npy");
	cr_assert(strstr(report.unrepaired, "have changed since staging"), "%s", report.unrepaired);
	rung_verify_report_fini(&report);
	flip(file_at("features.000.npy"), 5000);
	all_as_staged("another source");
}

static int stop_at_block(void *ctx, const char *step, unsigned long long done,
                         unsigned long long total)
{
	int *left = ctx;

	(void)done;
	(void)total;
	return strcmp(step, "repair") == 0 && (*left)-- == 0;
}

/* After each block, the other bad blocks must be unchanged and no other block may be bad. */
Test(verify_repair, a_stopped_repair_can_be_repeated)
{
	static const char *const names[] = { "features.000.npy", "features.000.npy", "labels.npy",
		                             "graph_indices.npy" };
	struct rung_verify_report report;

	keep_files();
	for (int blocks = 0; blocks < 3; blocks++) {
		struct rung_verify_opts opts = repairing(), plain = RUNG_VERIFY_OPTS_INIT;
		int left = blocks;

		for (size_t i = 0; i < 4; i++)
			flip(file_at(names[i]), i == 1 ? BLOCK_BYTES + 5 : 4200);
		opts.progress = stop_at_block;
		opts.progress_ctx = &left;
		cr_assert_eq(rung_dataset_verify(ds_dir, &opts, NULL), RUNG_E_CANCELED);
		opts.progress = NULL;
		report = verified(&plain, RUNG_E_CORRUPT);
		cr_assert_eq(report.bad_count, (uint64_t)(3 - blocks));
		rung_verify_report_fini(&report);
		report = verified(&opts, 0);
		cr_assert_eq(report.repaired_count, (uint64_t)(3 - blocks));
		rung_verify_report_fini(&report);
		all_as_staged("stopped");
	}
}

struct temp_watch {
	char dir[300];
	int calls, entries;
};

static int watch_temp(void *ctx, const char *step, unsigned long long done,
                      unsigned long long total)
{
	struct temp_watch *watch = ctx;
	DIR *folder = opendir(watch->dir);

	(void)step;
	(void)done;
	(void)total;
	cr_assert(folder != NULL);
	for (const struct dirent *entry = readdir(folder); entry; entry = readdir(folder))
		watch->entries += entry->d_name[0] != '.';
	closedir(folder);
	watch->calls++;
	return 0;
}

/* A repair that is killed at any moment must leave no temporary file. */
Test(verify_repair, the_temporary_file_of_the_graph_has_no_name)
{
	struct rung_verify_opts opts = repairing();
	struct temp_watch watch = { .calls = 0 };
	struct rung_verify_report report;

	keep_files();
	snprintf(watch.dir, sizeof(watch.dir), "%s/temp", dir);
	cr_assert_eq(mkdir(watch.dir, 0777), 0);
	flip(file_at("graph_indptr.npy"), 4200);
	flip(file_at("graph_indices.npy"), 4200);
	cr_assert_eq(setenv("TMPDIR", watch.dir, 1), 0);
	opts.progress = watch_temp;
	opts.progress_ctx = &watch;
	report = verified(&opts, 0);
	cr_assert_eq(report.repaired_count, 2u);
	cr_assert_gt(watch.calls, 2);
	cr_assert_eq(watch.entries, 0);
	rung_verify_report_fini(&report);
	all_as_staged("both files of the graph");
}

Test(verify_repair, nothing_leaks_whichever_allocation_fails)
{
	struct rung_verify_opts opts = repairing();
	int64_t allowed = 0;
	int rc;

	keep_files();
	opts.memory_bytes = 8 << 20;
	do {
		for (size_t i = 0; i < kept_count; i++) {
			if (is(i, "labels.npy") || is(i, "vertex_of_rank.npy") ||
			    is(i, "split_train.npy") || is(i, "graph_indptr.npy")) {
				restore(i);
				flip(file_at(kept[i].name), 4200);
			}
		}
		rung__alloc_limit(allowed);
		rc = rung_dataset_verify(ds_dir, &opts, NULL);
		rung__alloc_limit(-1);
		cr_assert(rc == 0 || rc == RUNG_E_NOMEM, "%d %s", rc, rung_last_error());
		allowed += 1 + allowed / 40;
	} while (rc == RUNG_E_NOMEM);
	cr_assert_gt(allowed, 60);
	all_as_staged("in the end");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Datasets whose rows stay in their source: staged, checked on opening, verified, and read. */
#include <fcntl.h>
#include <sys/stat.h>
#include <utime.h>

#include "tier/load.h"
#include "npz.h"
#include "expect_error.h"
#include "verify_fixture.h"

static char npz[300], moved[310];
static struct rung_stage_opts opts;

static void setup_in_place(void)
{
	setenv("RUNG_TEST_IN_PLACE", "1", 1);
	setup();
	snprintf(npz, sizeof(npz), "%s/all.npz", dir);
	snprintf(moved, sizeof(moved), "%s.moved", source);
	opts = (struct rung_stage_opts)RUNG_STAGE_OPTS_INIT;
	opts.graph = graph;
	opts.features = source;
	opts.score_spec = score;
	opts.out_dir = ds_dir;
	opts.force = 1;
	opts.in_place = 1;
}

TestSuite(stage_in_place, .init = setup_in_place, .fini = teardown, .timeout = 120);

static struct rung_dataset *opened(void)
{
	struct rung_dataset *ds;

	cr_assert_eq(rung_dataset_open(ds_dir, &ds), 0, "%s", rung_last_error());
	return ds;
}

static void does_not_open(int status, const char *words)
{
	struct rung_dataset *ds;

	assert_error(rung_dataset_open(ds_dir, &ds), status, words);
	cr_assert(strstr(rung_last_error(), source), "%s", rung_last_error());
}

static void does_not_stage(const char *words)
{
	assert_error(rung_stage(&opts, NULL), RUNG_E_INVAL, words);
	rung_dataset_close(opened()); /* the previous dataset must still exist */
}

/* Checks every row of a store whose host tier has about this number of rows. */
static void check_rows(uint64_t host_rows)
{
	struct rung_store_opts store_opts = { .size = sizeof(store_opts), .vertex_ids = 1 };
	struct rung_plan_opts plan_opts = { .size = sizeof(plan_opts),
		                            .host_bytes = host_rows * ROW_BYTES };
	struct rung_dataset *ds = opened();
	unsigned char *rows = malloc(VERTICES * ROW_BYTES), want[ROW_BYTES];
	uint32_t ids[VERTICES];
	struct rung_ids list = { ids, VERTICES, RUNG_U32, RUNG_VERTICES };
	struct rung_store *store;
	struct rung_plan *plan;

	for (uint32_t i = 0; i < VERTICES; i++)
		ids[i] = (i * 7u) % VERTICES;
	cr_assert_eq(rung_plan_create(ds, &plan_opts, &plan), 0, "%s", rung_last_error());
	cr_assert_eq(rung_plan_bytes(plan)->map,
	             rung_plan_tier(plan, 1)->row_count > 0 ? VERTICES * 4 : 0);
	cr_assert_eq(rung_store_open(ds, plan, &store_opts, &store), 0, "%s", rung_last_error());
	cr_assert_eq(rung_gather(store, &list, rows, 0), 0, "%s", rung_last_error());
	for (uint32_t i = 0; i < VERTICES; i++) {
		support_row(ids[i], ROW_BYTES, want);
		cr_assert_eq(memcmp(rows + i * ROW_BYTES, want, ROW_BYTES), 0, "vertex %u", ids[i]);
	}
	rung_store_close(store);
	rung_plan_destroy(plan);
	rung_dataset_close(ds);
	free(rows);
}

Test(stage_in_place, no_row_is_copied_and_every_row_is_read)
{
	static const uint64_t host_rows[] = { 20, 300, 10 * VERTICES };
	struct rung_dataset *ds = opened();
	const struct rung_dataset_info *info = rung_dataset_info(ds);
	size_t bytes;

	free(support_read_file(source, &bytes));
	cr_assert_str_eq(info->features_path, source);
	cr_assert_eq(info->features_file_bytes, bytes);
	cr_assert_eq(info->features_offset, bytes - VERTICES * ROW_BYTES);
	cr_assert_eq(info->feature_file_count, 0);
	cr_assert_eq(info->row_stride, ROW_BYTES);
	for (size_t i = 0; i < info->file_count; i++)
		cr_assert(strncmp(rung_dataset_file(ds, i)->name, "features.", 9) != 0);
	cr_assert_neq(access(file_at("features.000.npy"), F_OK), 0);
	rung_dataset_close(ds);
	for (size_t i = 0; i < RUNG__ARRAY_LEN(host_rows); i++)
		check_rows(host_rows[i]);
}

Test(stage_in_place, rows_of_members_and_raw_files_can_stay)
{
	char spec[800], raw[300];
	size_t bytes;
	unsigned char *data = support_read_file(source, &bytes), *with_head = malloc(bytes + 13);
	zip_t *zip = zip_open(npz, ZIP_CREATE, NULL);
	zip_int64_t idx = zip_file_add(zip, "x.npy", zip_source_buffer(zip, data, bytes, 0), 0);

	cr_assert_eq(zip_set_file_compression(zip, (zip_uint64_t)idx, ZIP_CM_STORE, 0), 0);
	cr_assert_eq(zip_close(zip), 0);
	snprintf(spec, sizeof(spec), "%s:x", npz);
	opts.features = spec;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	check_rows(300);
	snprintf(raw, sizeof(raw), "%s/rows.bin", dir);
	memset(with_head, 0, 13);
	memcpy(with_head + 13, data + (bytes - VERTICES * ROW_BYTES), VERTICES * ROW_BYTES);
	cr_assert_eq(support_write_file(raw, with_head, 13 + VERTICES * ROW_BYTES), 0);
	snprintf(spec, sizeof(spec), "raw:%s,u8,%ux%u,13", raw, VERTICES, ROW_BYTES);
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	check_rows(300);
	free(with_head);
	free(data);
}

Test(stage_in_place, rows_that_are_not_stored_verbatim_are_rejected)
{
	char spec[400], text[20 * VERTICES], *at = text;
	const char *const stripes[] = { dir };

	deflate_into(npz, "x.npy", source);
	snprintf(spec, sizeof(spec), "%s:x", npz);
	opts.features = spec;
	does_not_stage("cannot be used in place");
	for (unsigned v = 0; v < VERTICES; v++)
		at += snprintf(at, 20, "%u\n", v);
	snprintf(spec, sizeof(spec), "%s/years.csv", dir);
	cr_assert_eq(support_write_file(spec, text, (size_t)(at - text)), 0);
	does_not_stage("cannot be used in place");
	snprintf(spec, sizeof(spec), "%s/a\tb.npy", dir);
	cr_assert_eq(rename(source, spec), 0);
	cr_assert_eq(rung_stage(&opts, NULL), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "control characters"), "%s", rung_last_error());
	cr_assert_eq(rename(spec, source), 0);
	opts.features = source;
	opts.pad = RUNG_STAGE_PAD_AUTO;
	does_not_stage("cannot be padded or striped");
	opts.pad = RUNG_STAGE_PAD_NONE;
	opts.stripe_dirs = stripes;
	opts.stripe_count = 1;
	does_not_stage("cannot be padded or striped");
}

Test(stage_in_place, rows_cannot_stay_in_the_dataset_that_is_replaced)
{
	char staged[320];

	snprintf(staged, sizeof(staged), "%s/features.000.npy", ds_dir);
	opts.in_place = 0;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	opts.in_place = 1;
	opts.features = staged;
	does_not_stage("which would be replaced");
	cr_assert_eq(access(staged, F_OK), 0);
}

Test(stage_in_place, a_changed_or_missing_source_is_detected)
{
	struct utimbuf long_ago = { 1000, 1000 };
	size_t bytes;
	unsigned char *data = support_read_file(source, &bytes);

	/* like a copy of the file: the rows are unchanged */
	cr_assert_eq(utime(source, &long_ago), 0);
	rung_dataset_close(opened());
	flip(source, bytes - 1);
	cr_assert_eq(utime(source, &long_ago), 0);
	does_not_open(RUNG_E_CORRUPT, "1 of 2 sampled blocks differ, the first at offset 1048576");
	flip(source, bytes - 1);
	cr_assert_eq(truncate(source, (off_t)bytes - 1), 0);
	does_not_open(RUNG_E_FORMAT, "bytes, but had");
	cr_assert_eq(rename(source, moved), 0);
	does_not_open(RUNG_E_FORMAT, "is missing, but the rows");
	cr_assert_eq(mkfifo(source, 0600), 0); /* the pipe has no writer */
	does_not_open(RUNG_E_FORMAT, "bytes, but had");
	cr_assert_eq(unlink(source), 0);
	cr_assert_eq(mkdir(source, 0700), 0);
	does_not_open(RUNG_E_FORMAT, "bytes, but had");
	cr_assert_eq(rmdir(source), 0);
	cr_assert_eq(support_write_file(source, data, bytes), 0);
	check_rows(20);
	free(data);
}

Test(stage_in_place, a_source_that_shrinks_after_opening_is_detected)
{
	struct rung_dataset *ds = opened();
	const uint64_t bytes = rung_dataset_info(ds)->features_file_bytes;
	struct rung_plan_opts plan_opts = { .size = sizeof(plan_opts), .host_bytes = 100000 };
	unsigned char *rows = malloc(VERTICES * ROW_BYTES);
	struct rung__scattered *scattered;
	struct rung__features features;
	struct rung_plan *plan;
	void *vertices;

	cr_assert_eq(rung__features_open(ds, &features), 0, "%s", rung_last_error());
	cr_assert_eq(rung_dataset_load_array(ds, "vertex_of_rank", NULL, &vertices), 0);
	features.layout.vertex_of_rank = vertices;
	cr_assert_eq(rung__scattered_open(&features, &scattered), 0, "%s", rung_last_error());
	cr_assert_eq(rung__scattered_rows(scattered, 0, VERTICES, rows), 0, "%s",
	             rung_last_error());
	cr_assert_eq(truncate(source, (off_t)(bytes - 100 * ROW_BYTES)), 0);
	cr_assert_eq(rung__scattered_rows(scattered, 0, VERTICES, rows), RUNG_E_IO);
	cr_assert(strstr(rung_last_error(), "the file was truncated"), "%s", rung_last_error());
	rung__scattered_close(scattered);
	rung__features_close(&features);
	cr_assert_eq(rung_plan_create(ds, &plan_opts, &plan), RUNG_E_FORMAT);
	cr_assert(strstr(rung_last_error(), "no longer has"), "%s", rung_last_error());
	rung_dataset_close(ds);
	rung_free(vertices);
	free(rows);
}

Test(stage_in_place, rows_are_loaded_in_parts_of_any_size)
{
	static const uint64_t list_rows[] = { 1, 7, VERTICES - 1, 1u << 20 };
	static unsigned char rows[VERTICES * ROW_BYTES], want[ROW_BYTES];
	struct rung_dataset *ds = opened();
	struct rung__scattered *scattered;
	struct rung__features features;
	void *vertices;

	cr_assert_eq(rung__features_open(ds, &features), 0, "%s", rung_last_error());
	cr_assert_eq(rung_dataset_load_array(ds, "vertex_of_rank", NULL, &vertices), 0);
	features.layout.vertex_of_rank = vertices;
	for (size_t i = 0; i < RUNG__ARRAY_LEN(list_rows); i++) {
		rung__scattered_list_rows = list_rows[i];
		memset(rows, 0x5a, sizeof(rows));
		cr_assert_eq(rung__scattered_open(&features, &scattered), 0, "%s",
		             rung_last_error());
		cr_assert_eq(rung__scattered_rows(scattered, 100, VERTICES - 200, rows), 0, "%s",
		             rung_last_error());
		for (uint64_t r = 0; r < VERTICES - 200; r++) {
			support_row(rung__id_get(vertices, 4, 100 + r), ROW_BYTES, want);
			cr_assert_eq(memcmp(rows + r * ROW_BYTES, want, ROW_BYTES), 0, "rank %lu",
			             (unsigned long)(100 + r));
		}
		cr_assert_eq(rows[(VERTICES - 200) * ROW_BYTES], 0x5a);
		rung__scattered_close(scattered);
	}
	rung__features_close(&features);
	rung_dataset_close(ds);
	rung_free(vertices);
}

Test(stage_in_place, verifying_compares_rows_and_recorded_blocks_of_the_source)
{
	struct rung_verify_opts all = all_sources(), blocks = RUNG_VERIFY_OPTS_INIT;
	struct rung_verify_report report = verified(&all, 0);
	char copy[310];
	size_t bytes;
	unsigned char *data = support_read_file(source, &bytes);

	cr_assert_eq(report.rows_compared, VERTICES);
	cr_assert_eq(report.in_place_blocks_compared, 2);
	cr_assert_eq(report.in_place_blocks_different, 0);
	all.sample_rows = 100;
	cr_assert_eq(verified(&all, 0).rows_compared, 100);
	snprintf(copy, sizeof(copy), "%s/copy.npy", dir);
	cr_assert_eq(support_write_file(copy, data, bytes), 0);
	flip(source, bytes - 5 * ROW_BYTES - 1);
	report = verified(&blocks, RUNG_E_CORRUPT);
	cr_assert_eq(report.in_place_blocks_different, 1);
	cr_assert_eq(report.first_in_place_different, BLOCK_BYTES);
	cr_assert_eq(report.bad_count, 0);
	cr_assert(strstr(rung_last_error(), "was changed after"), "%s", rung_last_error());
	all.source = copy;
	all.sample_rows = 0;
	report = verified(&all, RUNG_E_CORRUPT);
	cr_assert_eq(report.rows_different, 1);
	cr_assert_eq(report.first_different, VERTICES - 6);
	cr_assert_eq(unlink(source), 0);
	report = verified(&all, RUNG_E_CORRUPT);
	cr_assert_eq(report.in_place_blocks_different, 2);
	cr_assert(strstr(rung_last_error(), "is missing, but the rows"), "%s", rung_last_error());
	free(data);
}

Test(stage_in_place, files_in_the_folder_are_repaired_as_usual)
{
	static const char *const names[] = { "vertex_of_rank.npy", "graph_indices.npy", "score.npy",
		                             "labels.npy", "split_train.npy" };
	struct rung_verify_opts all = all_sources();

	all.repair = 1;
	for (size_t i = 0; i < RUNG__ARRAY_LEN(names); i++) {
		struct rung_verify_report report;

		flip(file_at(names[i]), 4099);
		report = verified(&all, 0);
		cr_assert_eq(report.repaired_count, 1, "%s", names[i]);
		rung_verify_report_fini(&report);
	}
}

Test(stage_in_place, a_dry_run_reports_that_rows_stay_and_writes_nothing)
{
	struct rung_stage_report report;
	char other[310];

	snprintf(other, sizeof(other), "%s/other", dir);
	opts.out_dir = other;
	opts.dry_run = 1;
	cr_assert_eq(rung_stage(&opts, &report), 0, "%s", rung_last_error());
	cr_assert_eq(report.in_place, 1);
	cr_assert_eq(report.rows_bytes_read + report.rows_bytes_written + report.temp_bytes, 0);
	cr_assert_lt(report.bytes_written, VERTICES * ROW_BYTES);
	cr_assert_neq(access(other, F_OK), 0);
}

static int stop_at_relabel(void *ctx, const char *what, unsigned long long done,
                           unsigned long long total)
{
	(void)ctx;
	(void)done;
	(void)total;
	return strcmp(what, "relabel") == 0;
}

Test(stage_in_place, a_stopped_run_must_resume_with_the_same_options)
{
	struct rung_verify_opts all = all_sources();

	support_remove(ds_dir);
	opts.force = 0;
	opts.labels = labels;
	opts.splits = (struct rung_stage_split[]){ { "train", train }, { "valid", valid } };
	opts.split_count = 2;
	opts.progress = stop_at_relabel;
	cr_assert_eq(rung_stage(&opts, NULL), RUNG_E_CANCELED, "%s", rung_last_error());
	opts.progress = NULL;
	opts.resume = 1;
	opts.in_place = 0;
	cr_assert_eq(rung_stage(&opts, NULL), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "in-place was '1', now is '0'"), "%s",
	          rung_last_error());
	opts.in_place = 1;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	cr_assert_eq(verified(&all, 0).rows_compared, VERTICES);
	check_rows(20);
}

Test(stage_in_place, the_least_host_budget_includes_the_map_of_rows)
{
	struct rung_plan_opts plan_opts = { .size = sizeof(plan_opts), .host_bytes = 100 };
	struct rung_dataset *ds = opened();
	struct rung_plan *plan;

	cr_assert_eq(rung_plan_create(ds, &plan_opts, &plan), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(),
	                 "the map of rows staged in place; give at least 35168 bytes"),
	          "%s", rung_last_error());
	plan_opts.host_bytes = 4 * 8192 + 4 * VERTICES;
	cr_assert_eq(rung_plan_create(ds, &plan_opts, &plan), 0, "%s", rung_last_error());
	rung_plan_destroy(plan);
	rung_dataset_close(ds);
}

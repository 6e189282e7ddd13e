/* SPDX-License-Identifier: Apache-2.0 */
/* Additional vertex arrays: staged next to the features, described in the manifest, read, compared
 * and repaired. */
#include "dataset/checksum.h"
#include "stage_fixture.h"

static char years[300], wide[400];
static struct rung_stage_array arrays[] = { { "year", years }, { "wide-2", wide } };
static int16_t year_of[VERTICES];
static float wide_of[VERTICES][2][3];

static void setup_arrays(void)
{
	setup();
	snprintf(years, sizeof(years), "%s/years.npy", dir);
	snprintf(wide, sizeof(wide), "%s/wide.npy", dir);
	for (int v = 0; v < (int)VERTICES; v++) {
		year_of[v] = (int16_t)(1900 - 31 * v);
		for (int i = 0; i < 6; i++)
			wide_of[v][i / 3][i % 3] = (float)(v * 10 + i);
	}
	cr_assert_eq(support_write_npy(years, "<i2", "(60,)", year_of, sizeof(year_of)), 0);
	cr_assert_eq(support_write_npy(wide, "<f4", "(60, 2, 3)", wide_of, sizeof(wide_of)), 0);
	opts.score.method = RUNG_SCORE_DEGREE;
	opts.arrays = arrays;
	opts.array_count = 2;
}

TestSuite(stage_arrays, .init = setup_arrays, .fini = teardown);

static struct rung_dataset *staged(void)
{
	struct rung_dataset *ds;

	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	cr_assert_eq(rung_dataset_open(out, &ds), 0, "%s", rung_last_error());
	return ds;
}

Test(stage_arrays, arrays_are_staged_in_rank_order_with_their_types)
{
	struct rung_dataset *ds = staged();
	const struct rung_dataset_info *info = rung_dataset_info(ds);
	struct rung_array_info array;
	uint64_t count, *vertices;
	int16_t *all;
	float(*wide_rows)[2][3];

	cr_assert_eq(info->array_count, 2);
	cr_assert_str_eq(info->array_names[0], "year");
	cr_assert_str_eq(info->array_names[1], "wide-2");
	cr_assert_eq(rung_dataset_load_ids(ds, "vertex_of_rank", &count, &vertices), 0);
	cr_assert_eq(rung_dataset_load_array(ds, "features_wide-2", &array, (void **)&wide_rows),
	             0);
	cr_assert(array.dtype == RUNG_F32 && array.dim_count == 3 && array.row_count == VERTICES &&
	          array.row_bytes == 24);
	cr_assert_eq(rung_dataset_load_array(ds, "features_year", &array, (void **)&all), 0, "%s",
	             rung_last_error());
	cr_assert_eq(array.dtype, RUNG_I16);
	for (uint64_t r = 0; r < VERTICES; r++) {
		cr_assert_eq(all[r], year_of[vertices[r]]);
		cr_assert_eq(memcmp(wide_rows[r], wide_of[vertices[r]], sizeof(wide_rows[r])), 0);
	}
	rung_free(wide_rows);
	rung_free(all);
	rung_free(vertices);
	rung_dataset_close(ds);
}

Test(stage_arrays, reading_is_checked)
{
	struct rung_dataset *ds = staged();
	uint32_t rank;
	void *data;
	FILE *file;

	cr_assert_eq(rung_dataset_load_array(ds, "year", NULL, &data), RUNG_E_NOENT);
	cr_assert_eq(rung_dataset_load_array(ds, "features_", NULL, &data), RUNG_E_NOENT);
	snprintf(wide, sizeof(wide), "%s/split_train.npy", out);
	file = fopen(wide, "r+b");
	rank = VERTICES;
	cr_assert_eq(fseek(file, 4096 + 3 * 4, SEEK_SET), 0);
	cr_assert_eq(fwrite(&rank, 4, 1, file), 1);
	cr_assert_eq(fclose(file), 0);
	cr_assert_eq(rung_dataset_load_array(ds, "split_train", NULL, &data), RUNG_E_RANGE);
	cr_assert(strstr(rung_last_error(), "entry 3 is 60"), "%s", rung_last_error());
	rung_dataset_close(ds);
}

Test(stage_arrays, names_and_sizes_are_checked)
{
	static struct rung_stage_array many[65];

	arrays[1].name = "year";
	fails(RUNG_E_INVAL, "are given twice");
	arrays[1].name = "a/b";
	fails(RUNG_E_INVAL, "array 1: 'a/b'");
	arrays[1].name = NULL;
	fails(RUNG_E_INVAL, "array 1");
	arrays[1].name = "none";
	arrays[1].spec = "/nonexistent.npy";
	fails(RUNG_E_NOENT, "/nonexistent.npy");
	cr_assert_eq(support_write_npy(wide, "<i2", "(59,)", year_of, 118), 0);
	arrays[1].spec = wide;
	fails(RUNG_E_FORMAT, "has 59 rows of 2 bytes for 60 vertices");
	opts.arrays = many;
	opts.array_count = 65;
	fails(RUNG_E_INVAL, "65 arrays; give at most 64");
}

/* @return the result of opening the dataset with `from` replaced by `to` in its manifest */
static int forged(const char *original, const char *from, const char *to)
{
	struct rung_dataset *ds = NULL;
	int rc;

	cr_assert_eq(support_forge(out, original, from, to), 0, "%s is not in the manifest", from);
	rc = rung_dataset_open(out, &ds);
	rung_dataset_close(ds);
	return rc;
}

static char *manifest_text(void)
{
	char manifest[400], *text, *ended;
	size_t bytes;

	snprintf(manifest, sizeof(manifest), "%s/manifest.json", out);
	text = (char *)support_read_file(manifest, &bytes);
	ended = calloc(bytes + 1, 1);
	memcpy(ended, text, bytes);
	free(text);
	return ended;
}

Test(stage_arrays, a_manifest_with_other_arrays_is_rejected)
{
	static const char *const names[] = {
		"\"year\",\n  \"year\"",          "\"year\"",
		"\"year\",\n  \"../b\"",          "\"year\",\n  \"wide-2\",\n  \"third\"",
		"\"wide-2\",\n  \"year\"",        "\"year\",\n  7",
		"\"year\",\n  \"wide-2\\u0000\"", "",
	};
	const char *list = "\"year\",\n  \"wide-2\"";
	char *text;

	rung_dataset_close(staged());
	text = manifest_text();
	cr_assert_eq(forged(text, list, list), 0, "%s", rung_last_error());
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		cr_assert_eq(forged(text, list, names[i]), RUNG_E_FORMAT, "%s: %s", names[i],
		             rung_last_error());
	cr_assert_eq(forged(text, "\"arrays\": [", "\"arrays\": 5, \"other\": ["), RUNG_E_FORMAT);
	cr_assert_eq(forged(text, "\"i16\",\n   \"shape\": [\n    60",
	                    "\"i16\",\n   \"shape\": [\n    59"),
	             RUNG_E_FORMAT);
	free(text);
}

Test(stage_arrays, a_manifest_of_a_version_without_arrays_has_none)
{
	struct rung_dataset *ds;
	char *text;

	opts.array_count = 0;
	rung_dataset_close(staged());
	text = manifest_text();
	cr_assert_eq(forged(text, "\n \"arrays\": [],", ""), 0, "%s", rung_last_error());
	cr_assert_eq(rung_dataset_open(out, &ds), 0);
	cr_assert_eq(rung_dataset_info(ds)->array_count, 0);
	rung_dataset_close(ds);
	free(text);
}

static struct rung_verify_report verified(const struct rung_verify_opts *verify, int status)
{
	struct rung_verify_report report = { 0 };

	cr_assert_eq(rung_dataset_verify(out, verify, &report), status, "%s", rung_last_error());
	return report;
}

Test(stage_arrays, arrays_are_compared_with_and_repaired_from_their_sources)
{
	static const char *const names[] = { "wide-2", "year" }, *const sources[] = { wide, years };
	struct rung_verify_opts verify = RUNG_VERIFY_OPTS_INIT;
	struct rung_verify_report report;
	char name[400];
	FILE *file;

	rung_dataset_close(staged());
	verify.array_names = names;
	verify.array_specs = sources;
	verify.array_count = 2;
	report = verified(&verify, 0);
	cr_assert_eq(report.array_rows_compared, 2 * VERTICES);
	cr_assert_eq(report.array_rows_different, 0);
	rung_verify_report_fini(&report);
	year_of[7] = 5;
	cr_assert_eq(support_write_npy(years, "<i2", "(60,)", year_of, sizeof(year_of)), 0);
	report = verified(&verify, RUNG_E_CORRUPT);
	cr_assert_eq(report.array_rows_different, 1);
	cr_assert_eq(report.first_array_different, 7);
	rung_verify_report_fini(&report);

	snprintf(name, sizeof(name), "%s/features_wide-2.npy", out);
	file = fopen(name, "r+b");
	cr_assert_eq(fseek(file, 4500, SEEK_SET), 0);
	cr_assert_neq(fputc(0x55, file), EOF);
	cr_assert_eq(fclose(file), 0);
	verify.array_count = 0;
	verify.repair = 1;
	report = verified(&verify, RUNG_E_CORRUPT);
	cr_assert(strstr(report.unrepaired, "--source NAME=SRC"), "%s", report.unrepaired);
	rung_verify_report_fini(&report);
	verify.array_count = 1;
	report = verified(&verify, 0);
	cr_assert_eq(report.repaired_count, 1);
	rung_verify_report_fini(&report);
}

Test(stage_arrays, comparing_an_array_that_the_dataset_lacks_is_an_error)
{
	static const char *const names[] = { "years" }, *const sources[] = { years };
	struct rung_verify_opts verify = RUNG_VERIFY_OPTS_INIT;

	rung_dataset_close(staged());
	verify.array_names = names;
	verify.array_specs = sources;
	verify.array_count = 1;
	verified(&verify, RUNG_E_NOENT);
	cr_assert(strstr(rung_last_error(), "has no array 'years'"), "%s", rung_last_error());
}

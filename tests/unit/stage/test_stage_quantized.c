/* SPDX-License-Identifier: Apache-2.0 */
/* Staging of quantized features: the same files from every order, budget, source and stop, and rows
 * that equal their source after encoding. */
#include "npz.h"
#include "rows/stage_schedule.h"
#include "stage_killed.h"

#include "quant_rows.h"

TestSuite(stage_quantized, .init = setup, .fini = teardown, .timeout = 300);

#define ROWS    700u
#define COLUMNS 61u
/* more than are compared for the report */
#define MANY_ROWS 70000u

static char reference[310];

/* Sources with float32 features, and a reference that was staged in one go.
 * @param in_child  for tests that stage in children: OpenMP does not survive a fork */
static void stage_reference(enum rung_quant_format format, enum rung_quant_scales scales,
                            bool in_child)
{
	cr_assert_eq(support_sources(dir, ROWS, 2000, 1, 9), 0);
	quant_write_features(dir, ROWS, COLUMNS);
	snprintf(reference, sizeof(reference), "%s/reference", dir);
	opts.score.method = RUNG_SCORE_DEGREE;
	opts.quantize = format;
	opts.quant_scales = scales;
	opts.out_dir = reference;
	opts.force = 1;
	cr_assert_eq(in_child ? stage_killed_at(0) : rung_stage(&opts, NULL), 0, "%s",
	             rung_last_error());
	opts.force = 0;
	opts.out_dir = out;
}

/* Compare every row with its source, and count the differences that verification reports. */
static uint64_t different_rows(const char *folder)
{
	struct rung_verify_opts verify = RUNG_VERIFY_OPTS_INIT;
	struct rung_verify_report report = { 0 };
	uint64_t different;
	int rc;

	verify.source = features;
	rc = rung_dataset_verify(folder, &verify, &report);
	cr_assert(rc == 0 || rc == RUNG_E_CORRUPT, "%s", rung_last_error());
	cr_assert_eq(report.rows_compared, ROWS);
	different = report.rows_different;
	cr_assert_eq(rc == 0, different == 0);
	rung_verify_report_fini(&report);
	return different;
}

Test(stage_quantized, every_format_is_verified_against_its_source)
{
	for (int format = RUNG_QUANT_INT8; format <= RUNG_QUANT_FP8; format++) {
		for (int scales = RUNG_SCALES_ROW; scales <= RUNG_SCALES_COLUMN; scales++) {
			struct rung_dataset *ds = NULL;
			const struct rung_dataset_info *info;

			stage_reference((enum rung_quant_format)format,
			                (enum rung_quant_scales)scales, false);
			cr_assert_eq(different_rows(reference), 0);
			cr_assert_eq(rung_dataset_open(reference, &ds), 0);
			info = rung_dataset_info(ds);
			cr_assert_eq(info->format_version, 2);
			cr_assert_eq(info->features.dtype, RUNG_F32);
			cr_assert_eq(info->features.row_bytes, 4 * COLUMNS);
			cr_assert_eq((int)info->quantization.format, format);
			cr_assert_eq(info->quantization.row_bytes, info->stored_row_bytes);
			cr_assert_eq(info->feature_bytes, ROWS * info->stored_row_bytes);
			cr_assert_eq(info->quantization.column_scales != NULL,
			             scales == RUNG_SCALES_COLUMN);
			rung_dataset_close(ds);
		}
	}
}

/* Columns of zeros, and of the smallest and largest numbers: the scales are at their limits. */
Test(stage_quantized, columns_at_the_limits_of_the_scale_open_and_verify)
{
	static const uint32_t limits[] = { 0, 1, 0x00800000, 0x7f7fffff, 0xff7fffff, 0x7f61b1e6 };

	for (unsigned i = 0; i < 6; i++) {
		unsigned char *bytes;
		size_t size;

		stage_reference(RUNG_QUANT_INT8 + i % 3, (enum rung_quant_scales)(i / 3), false);
		bytes = support_read_file(features, &size);
		for (uint64_t row = 0; row < ROWS; row++)
			memcpy(bytes + size - (ROWS - row) * COLUMNS * 4, limits, sizeof(limits));
		cr_assert_eq(support_write_file(features, bytes, size), 0);
		free(bytes);
		cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
		cr_assert_eq(different_rows(out), 0);
		support_remove(out);
	}
}

Test(stage_quantized, another_value_in_the_source_is_found)
{
	unsigned char *bytes;
	size_t size;

	stage_reference(RUNG_QUANT_INT8, RUNG_SCALES_ROW, false);
	bytes = support_read_file(features, &size);
	memset(bytes + size - 4, 0x40, 4); /* about 3.0 */
	cr_assert_eq(support_write_file(features, bytes, size), 0);
	free(bytes);
	cr_assert_eq(different_rows(reference), 1);
}

Test(stage_quantized, damaged_rows_are_repaired_from_the_source)
{
	struct rung_verify_opts verify = RUNG_VERIFY_OPTS_INIT;
	struct rung_verify_report report = { 0 };
	char path[340];

	stage_reference(RUNG_QUANT_INT4, RUNG_SCALES_COLUMN, false);
	snprintf(path, sizeof(path), "%s/features.000.npy", reference);
	cr_assert_eq(support_flip(path, 4096 + 1234), 0);
	verify.source = features;
	verify.repair = 1;
	cr_assert_eq(rung_dataset_verify(reference, &verify, &report), 0, "%s", rung_last_error());
	cr_assert_eq(report.repaired_count, 1);
	rung_verify_report_fini(&report);
	cr_assert_eq(different_rows(reference), 0);
}

Test(stage_quantized, orders_and_budgets_give_the_same_files)
{
	stage_reference(RUNG_QUANT_INT8, RUNG_SCALES_COLUMN, false);
	for (int order = RUNG_ROW_ORDER_PASSES; order <= RUNG_ROW_ORDER_PARTITION; order++) {
		opts.row_order = (enum rung_row_order)order;
		rung__stage_range_rows_max = 64;
		cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
		same_files(reference, out);
		no_leftovers(out);
		support_remove(out);
	}
	opts.row_order = RUNG_ROW_ORDER_GATHER;
	assert_error(rung_stage(&opts, NULL), RUNG_E_INVAL, "cannot be read one by one");
}

Test(stage_quantized, deflated_features_give_the_same_files)
{
	char archive[320], member[340];

	stage_reference(RUNG_QUANT_FP8, RUNG_SCALES_COLUMN, false);
	snprintf(archive, sizeof(archive), "%s/data.npz", dir);
	deflate_into(archive, "node_feat.npy", features);
	snprintf(member, sizeof(member), "%s:node_feat", archive);
	opts.features = member;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	same_files(reference, out);
}

static void resumes_from_anywhere(enum rung_row_order order)
{
	int status = 1, refused = 0;

	stage_reference(RUNG_QUANT_INT8, RUNG_SCALES_COLUMN, true);
	rung__stage_range_rows_max = 150;
	opts.row_order = order;
	for (int k = 2; status == 1; k += 5) {
		opts.resume = 0;
		status = stage_killed_at(k);
		cr_assert_not(opens(partial));
		if (status == 0)
			break;
		opts.resume = 1;
		cr_assert_eq(stage_killed_at(0), 0, "step %d", k);
		same_files(reference, out);
		no_leftovers(out);
		support_remove(out);
		refused++;
	}
	cr_assert_gt(refused, 5);
}

Test(stage_quantized, killed_passes_resume_to_the_same_bytes)
{
	resumes_from_anywhere(RUNG_ROW_ORDER_PASSES);
}

Test(stage_quantized, a_killed_partition_resumes_to_the_same_bytes)
{
	resumes_from_anywhere(RUNG_ROW_ORDER_PARTITION);
}

static int stop_in_features(void *ctx, const char *name, unsigned long long done,
                            unsigned long long total)
{
	(void)ctx;
	(void)done;
	(void)total;
	return strcmp(name, "features") == 0;
}

Test(stage_quantized, the_work_of_another_quantization_is_not_resumed)
{
	stage_reference(RUNG_QUANT_INT8, RUNG_SCALES_ROW, false);
	opts.progress = stop_in_features;
	cr_assert_eq(rung_stage(&opts, NULL), RUNG_E_CANCELED);
	opts.progress = NULL;
	opts.resume = 1;
	opts.quantize = RUNG_QUANT_INT4;
	assert_error(rung_stage(&opts, NULL), RUNG_E_INVAL, "quantize was 'int8, scales per row'");
	opts.quantize = RUNG_QUANT_INT8;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	same_files(reference, out);
}

/* ---- refusals ---- */

static void put_value(uint64_t row, uint64_t column, uint32_t bits)
{
	unsigned char *bytes;
	size_t size;

	bytes = support_read_file(features, &size);
	memcpy(bytes + size - (ROWS * COLUMNS - row * COLUMNS - column) * 4, &bits, 4);
	cr_assert_eq(support_write_file(features, bytes, size), 0);
	free(bytes);
}

Test(stage_quantized, values_that_are_not_finite_are_named)
{
	for (int scales = RUNG_SCALES_ROW; scales <= RUNG_SCALES_COLUMN; scales++) {
		stage_reference(RUNG_QUANT_INT8, (enum rung_quant_scales)scales, false);
		opts.force = 1; /* the previous run left its work */
		put_value(345, 17, 0x7fc00000);
		assert_error(rung_stage(&opts, NULL), RUNG_E_FORMAT,
		             "features.npy: row 345, column 17: NaN cannot be quantized");
		put_value(345, 17, 0xff800000);
		assert_error(rung_stage(&opts, NULL), RUNG_E_FORMAT,
		             "row 345, column 17: -infinity cannot be quantized");
		put_value(345, 17, 0x7f800000);
		assert_error(rung_stage(&opts, NULL), RUNG_E_FORMAT,
		             "row 345, column 17: infinity cannot be quantized");
		cr_assert_not(exists(out));
	}
}

Test(stage_quantized, other_types_and_in_place_are_refused)
{
	opts.quantize = RUNG_QUANT_INT8;
	assert_error(rung_stage(&opts, NULL), RUNG_E_FORMAT,
	             "features of dtype u8 cannot be quantized; use f16, bf16, f32 or f64");
	opts.in_place = 1;
	assert_error(rung_stage(&opts, NULL), RUNG_E_INVAL,
	             "features that stay in place cannot be quantized");
	opts.in_place = 0;
	opts.quantize = (enum rung_quant_format)9;
	assert_error(rung_stage(&opts, NULL), RUNG_E_INVAL, "quantize 9 with scales 0");
	cr_assert_not(exists(out));
}

Test(stage_quantized, more_scales_than_a_manifest_can_hold_are_refused_at_once)
{
	cr_assert_eq(support_sources(dir, 2, 4, 1, 9), 0);
	quant_write_features(dir, 2, RUNG__MANIFEST_BYTES_MAX / 32 + 1);
	opts.labels = NULL;
	opts.split_count = 0;
	opts.quantize = RUNG_QUANT_INT8;
	opts.quant_scales = RUNG_SCALES_COLUMN;
	fails(RUNG_E_RANGE, "use scales per row");
	opts.quant_scales = RUNG_SCALES_ROW;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	support_remove(out);
	/* the most that are accepted, with the longest texts, can be read */
	quant_write_features(dir, 2, RUNG__MANIFEST_BYTES_MAX / 32);
	opts.quant_scales = RUNG_SCALES_COLUMN;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	cr_assert(opens(out), "%s", rung_last_error());
}

/* ---- reports ---- */

Test(stage_quantized, errors_are_reported_and_predicted)
{
	struct rung_stage_report real, dry;

	for (int scales = RUNG_SCALES_ROW; scales <= RUNG_SCALES_COLUMN; scales++) {
		stage_reference(RUNG_QUANT_INT8, (enum rung_quant_scales)scales, false);
		opts.dry_run = 1;
		cr_assert_eq(rung_stage(&opts, &dry), 0, "%s", rung_last_error());
		opts.dry_run = 0;
		cr_assert_eq(rung_stage(&opts, &real), 0, "%s", rung_last_error());
		support_remove(out);
		cr_assert_eq(real.quant_rows, ROWS);
		cr_assert_eq(real.given_row_bytes, 4 * COLUMNS);
		/* values are up to 0.5 * 2^10: half a step of the largest scale */
		cr_assert_gt(real.quant_error_max, 0.2);
		cr_assert_leq(real.quant_error_max, 512.0 / 127 / 2);
		cr_assert_gt(real.quant_error_mean, 0);
		cr_assert_lt(real.quant_error_mean, real.quant_error_max / 2);
		cr_assert_eq(real.quant_clipped, 0);
		/* the sample has all rows, so the scales are those of the dataset */
		cr_assert_eq(dry.quant_error_max, real.quant_error_max);
		cr_assert_eq(dry.quant_error_mean, real.quant_error_mean);
		cr_assert_eq(dry.bytes_written, real.bytes_written);
	}
}

Test(stage_quantized, errors_of_many_rows_are_those_of_a_sample)
{
	struct rung_stage_report report;

	cr_assert_eq(support_sources(dir, MANY_ROWS, 2000, 1, 9), 0);
	quant_write_features(dir, MANY_ROWS, 2);
	opts.score.method = RUNG_SCORE_DEGREE;
	opts.quantize = RUNG_QUANT_INT4;
	cr_assert_eq(rung_stage(&opts, &report), 0, "%s", rung_last_error());
	cr_assert_eq(report.quant_rows, 65536);
	cr_assert_gt(report.quant_error_max, 0);
	/* half a step of the largest scale: values are up to 0.5 * 2^7 */
	cr_assert_leq(report.quant_error_max, 64.0 / 7 / 2);
}

/* ---- untrusted manifests ---- */

Test(stage_quantized, forged_manifests_are_refused)
{
	static const char *const forged[][2] = {
		{ "\"format\": \"int8\"", "\"format\": \"int9\"" },
		{ "\"format\": \"int8\"", "\"format\": \"int4\"" },
		{ "\"format\": \"int8\"", "\"format\": \"none\"" },
		{ "\"scales\": \"column\"", "\"scales\": \"row\"" },
		{ "\"column_scales\": [", "\"column_scales\": [ 1.0," },
		{ "\"column_scales\": [", "\"column_scales\": [ -1.0, 1.0 ], \"x\": [" },
		{ "\"dtype\": \"f32\"", "\"dtype\": \"i32\"" },
		{ "\"version\": 2", "\"version\": 1" },
		{ "\"quantized\"", "\"quantised\"" },
	};
	char path[340];
	unsigned char *text;
	size_t bytes;

	stage_reference(RUNG_QUANT_INT8, RUNG_SCALES_COLUMN, false);
	snprintf(path, sizeof(path), "%s/manifest.json", reference);
	text = support_read_file(path, &bytes);
	text = realloc(text, bytes + 1);
	text[bytes] = 0;
	for (unsigned i = 0; i < RUNG__ARRAY_LEN(forged); i++) {
		struct rung_dataset *ds = NULL;

		cr_assert_eq(
			support_forge(reference, (const char *)text, forged[i][0], forged[i][1]), 0,
			"%s", forged[i][0]);
		cr_assert_eq(rung_dataset_open(reference, &ds), RUNG_E_FORMAT, "%s: %s",
		             forged[i][1], rung_last_error());
	}
	free(text);
}

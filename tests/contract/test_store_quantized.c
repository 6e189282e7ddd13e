/* SPDX-License-Identifier: Apache-2.0 */
/* Quantized rows: the same values come from every tier, engine and file, in each type. */
#include <criterion/criterion.h>

#include "store_fixture.h"

#include "quant_fixture.h"

#define VERTICES 1200u
#define ASKED    500u

static struct store_fixture f;

static const enum rung_dtype types[] = { RUNG_F16, RUNG_BF16, RUNG_F32, RUNG_U8 };

static const struct quant_case cases[] = {
	{ RUNG_QUANT_INT8, RUNG_SCALES_ROW, VERTICES, 128, RUNG_STAGE_PAD_NONE, 1 },
	{ RUNG_QUANT_INT8, RUNG_SCALES_COLUMN, VERTICES, 602, RUNG_STAGE_PAD_NONE, 1 },
	{ RUNG_QUANT_INT4, RUNG_SCALES_ROW, VERTICES, 61, RUNG_STAGE_PAD_NONE, 1 },
	{ RUNG_QUANT_INT4, RUNG_SCALES_COLUMN, VERTICES, 768, RUNG_STAGE_PAD_SECTOR, 1 },
	{ RUNG_QUANT_FP8, RUNG_SCALES_ROW, VERTICES, 100, RUNG_STAGE_PAD_NONE, 3 },
	{ RUNG_QUANT_FP8, RUNG_SCALES_COLUMN, VERTICES, 7, RUNG_STAGE_PAD_NONE, 1 },
};

static void open_case(const struct quant_case *c, uint64_t host_bytes, enum rung_dtype dtype,
                      enum rung_engine engine)
{
	struct rung_store_opts opts = RUNG_STORE_OPTS_INIT;

	opts.out_dtype = dtype;
	opts.engine = engine;
	opts.batch_rows_max = 4096;
	quant_open(&f, c, host_bytes, &opts);
}

Test(store_quantized, every_type_from_memory_and_from_files)
{
	static const uint64_t budgets[] = { 100u << 10, 256u << 10, RUNG_BYTES_MAX };

	for (unsigned c = 0; c < RUNG__ARRAY_LEN(cases); c++) {
		for (unsigned b = 0; b < RUNG__ARRAY_LEN(budgets); b++) {
			open_case(&cases[c], budgets[b], types[(b + c) % RUNG__ARRAY_LEN(types)],
			          RUNG_ENGINE_AUTO);
			quant_gather(&f, ASKED, c, 0);
			quant_gather(&f, ASKED, c + 50, 4 * (b % 2) + 2);
			fixture_close(&f);
		}
	}
}

Test(store_quantized, every_type_of_one_dataset)
{
	for (unsigned t = 0; t < RUNG__ARRAY_LEN(types); t++) {
		open_case(&cases[0], 96u << 10, types[t], RUNG_ENGINE_AUTO);
		/* streaming stores and ordinary ones */
		quant_gather(&f, ASKED, t, 0);
		quant_gather(&f, 4096, t, 0);
		quant_gather(&f, 1, t, 0);
		fixture_close(&f);
	}
}

Test(store_quantized, pread_delivers_the_same_rows)
{
	for (unsigned c = 0; c < RUNG__ARRAY_LEN(cases); c++) {
		open_case(&cases[c], 128u << 10, RUNG_DTYPE_NONE, RUNG_ENGINE_PREAD);
		quant_gather(&f, ASKED, c, 0);
		fixture_close(&f);
	}
}

Test(store_quantized, rows_have_the_type_that_was_staged_by_default)
{
	struct rung_store_info info = { .size = sizeof(info) };

	open_case(&cases[0], RUNG_BYTES_MAX, RUNG_DTYPE_NONE, RUNG_ENGINE_AUTO);
	cr_assert_eq(rung_store_info(f.store, &info), 0);
	cr_assert_eq(info.features.dtype, RUNG_F32);
	cr_assert_eq(info.features.row_bytes, 512);
	cr_assert_eq(info.quantization.format, RUNG_QUANT_INT8);
	cr_assert_eq(info.quantization.row_bytes, 132);
	cr_assert_null(info.quantization.column_scales);
	fixture_close(&f);
	open_case(&cases[1], RUNG_BYTES_MAX, RUNG_U8, RUNG_ENGINE_AUTO);
	cr_assert_eq(rung_store_info(f.store, &info), 0);
	cr_assert_eq(info.features.dtype, RUNG_U8);
	cr_assert_eq(info.features.dim_count, 2);
	cr_assert_eq(info.features.dims[1], 604);
	cr_assert_eq(memcmp(info.quantization.column_scales,
	                    rung_dataset_info(f.ds)->quantization.column_scales, 602 * 4),
	             0);
	fixture_close(&f);
}

Test(store_quantized, other_types_are_refused)
{
	struct rung_store_opts opts = RUNG_STORE_OPTS_INIT;
	struct rung_store *store;

	open_case(&cases[0], RUNG_BYTES_MAX, RUNG_DTYPE_NONE, RUNG_ENGINE_AUTO);
	opts.out_dtype = RUNG_F64;
	cr_assert_eq(rung_store_open(f.ds, f.plan, &opts, &store), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "cannot be gathered as f64; use f16, bf16 or f32"),
	          "%s", rung_last_error());
	fixture_close(&f);
	fixture_open(&f, 100, 64, RUNG_BYTES_MAX, NULL, NULL);
	opts.out_dtype = RUNG_F16;
	cr_assert_eq(rung_store_open(f.ds, f.plan, &opts, &store), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "only quantized rows are converted"), "%s",
	          rung_last_error());
	opts.out_dtype = RUNG_U8;
	cr_assert_eq(rung_store_open(f.ds, f.plan, &opts, &store), 0);
	cr_assert_eq(rung_store_close(store), 0);
	fixture_close(&f);
}

Test(store_quantized, a_plan_as_if_quantized_opens_no_store)
{
	static const struct quant_case plain = {
		RUNG_QUANT_NONE, RUNG_SCALES_ROW, VERTICES, 128, RUNG_STAGE_PAD_NONE, 1
	};
	struct rung_plan_opts opts = RUNG_PLAN_OPTS_INIT;
	struct rung_store *store;
	struct rung_plan *plan;

	open_case(&plain, RUNG_BYTES_MAX, RUNG_DTYPE_NONE, RUNG_ENGINE_AUTO);
	opts.host_bytes = 256u << 10;
	opts.quantize = RUNG_QUANT_INT8;
	cr_assert_eq(rung_plan_create(f.ds, &opts, &plan), 0, "%s", rung_last_error());
	cr_assert_eq(rung_store_open(f.ds, plan, NULL, &store), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "the plan is for another dataset"), "%s",
	          rung_last_error());
	rung_plan_destroy(plan);
	fixture_close(&f);
}

Test(store_quantized, outputs_narrower_than_a_decoded_row_are_refused)
{
	uint64_t rank = 0;
	struct rung_ids ids;
	void *out;

	open_case(&cases[0], RUNG_BYTES_MAX, RUNG_F16, RUNG_ENGINE_AUTO);
	ids = fixture_ids(&f, &rank, 1, RUNG_U64, RUNG_RANKS);
	out = fixture_memory(&f, 256);
	cr_assert_eq(rung_gather(f.store, &ids, out, 255), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "less than a row of 256 bytes"), "%s",
	          rung_last_error());
	fixture_close(&f);
}

Test(store_quantized, attached_stores_choose_their_type)
{
	struct rung_store_opts opts = RUNG_STORE_OPTS_INIT;
	char path[300];

	if (fixture_on_cuda())
		cr_skip_test("CUDA IPC needs two processes");
	for (unsigned c = 0; c < 2; c++) { /* scales per row, and per column */
		struct rung_store *creator, *attached;

		open_case(&cases[c], 200u << 10, RUNG_F32, RUNG_ENGINE_AUTO);
		cr_assert_eq(rung_store_close(f.store), 0);
		snprintf(path, sizeof(path), "%s/private/socket", f.parent);
		opts.share_path = path;
		opts.out_dtype = RUNG_F32;
		cr_assert_eq(rung_store_open(f.ds, f.plan, &opts, &creator), 0, "%s",
		             rung_last_error());
		opts.share_path = NULL;
		opts.out_dtype = RUNG_F64;
		cr_assert_eq(rung_store_attach(path, &opts, &attached), RUNG_E_INVAL);
		for (unsigned t = 0; t < RUNG__ARRAY_LEN(types); t++) {
			opts.out_dtype = types[t];
			cr_assert_eq(rung_store_attach(path, &opts, &attached), 0, "%s",
			             rung_last_error());
			f.store = attached;
			quant_gather(&f, ASKED, t, 0);
			cr_assert_eq(rung_store_close(attached), 0);
		}
		f.store = creator;
		quant_gather(&f, ASKED, 9, 0);
		fixture_close(&f);
	}
}

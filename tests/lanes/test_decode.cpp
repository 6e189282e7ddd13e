/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers of quantized rows, lane by lane: the values are those of the scalar decoder to the bit,
 * and nothing else is written. */
#include "../../kernels/gather.cu"
#include "quant_case.h"

static random_numbers rnd = { 5 };

#define ROWS 12u /* the first 5 in GPU memory, then 4 of two GPUs, then 3 over a link */

/* All rows are in one block of memory, so that one call makes them. */
static void set_views(struct rung__cuda_gather &g, unsigned char *rows, uint64_t stride)
{
	g.view_count = 3;
	g.views[0].base[0] = rows;
	g.views[1].base[0] = rows + 5 * stride;
	g.views[1].base[1] = rows + 6 * stride;
	g.views[2].base[0] = rows + 9 * stride;
	g.views[0].base_count = g.views[2].base_count = 1;
	g.views[1].base_count = 2;
	g.views[0].stride = g.views[2].stride = stride;
	g.views[1].stride = 2 * stride;
	g.views[0].rank_end = 5;
	g.views[1].rank_end = 9;
	g.views[2].rank_end = ROWS;
	g.views[2].over_link = 1;
}

static void run_case(const quant_case &c)
{
	const struct rung__quant quant = { c.format, c.scales, c.columns };
	const uint64_t row_bytes = rung__quant_row_bytes(&quant),
		       stride = row_bytes + rnd.below(3) * 4, count = 1 + rnd.below(40);
	struct rung__cuda_gather g = {};

	lanes::lent.clear();
	const quant_rows rows(c, rnd, ROWS, (unsigned)rnd.below(32) * 4, stride);
	const uint64_t out_stride = rows.form.out_bytes + c.out_stride_more;
	const memory ids(count * 8, 8, false), word(4, 4, true);
	const memory out((count - 1) * out_stride + rows.form.out_bytes, c.out_misaligned, true);
	const memory counts(sizeof(*g.counts), 8, true), report(sizeof(*g.report), 8, true);
	std::vector<unsigned char> expected(out.bytes, 0xee);

	memset(out.at, 0xee, out.bytes);
	memset(counts.at, 0, counts.bytes);
	memset(word.at, 0, word.bytes);
	for (uint64_t i = 0; i < count; i++) {
		const uint64_t rank = rnd.below(ROWS);

		((uint64_t *)ids.at)[i] = rank;
		rows.form.decode(&rows.form, &expected[i * out_stride],
		                 rows.stored.at + rank * stride, false,
		                 rows.stored.at + rank * stride);
	}
	set_views(g, rows.stored.at, stride);
	g.ids = ids.at, g.id_count = count, g.id_dtype = RUNG_U64, g.row_count = ROWS;
	g.row_bytes = (uint32_t)row_bytes, g.form = rows.cuda;
	g.out = out.at, g.out_stride = out_stride;
	g.counts = (struct rung__cuda_counts *)counts.at;
	g.report = (struct rung__cuda_report *)report.at;
	g.end = { (uint32_t *)word.at, 3 };
	g.long_bytes = rnd.below(2);
	CHECK(rung__cuda_gather_launch(&g, 1 + (unsigned)rnd.below(3), nullptr) == 0, "%s",
	      rung_last_error());
	CHECK(*g.end.word == 3 && g.report->miss_count == 0 && g.report->bad_count == 0);
	for (size_t k = 0; k < out.bytes; k++)
		CHECK(out.at[k] == expected[k], "byte %zu of row %zu: %02x instead of %02x",
		      k % out_stride, k / out_stride, out.at[k], expected[k]);
}

static void what_cannot_be_decoded_is_refused()
{
	unsigned char room[512] __attribute__((aligned(16))) = { 0 };
	struct rung__cuda_gather good = {}, g;

	good.ids = room, good.id_count = 1, good.id_dtype = RUNG_U64, good.row_count = 1;
	good.view_count = 1;
	good.views[0].base[0] = room;
	good.views[0].base_count = 1, good.views[0].stride = 12, good.views[0].rank_end = 1;
	good.row_bytes = 12, good.out = room, good.out_stride = 16;
	good.counts = (struct rung__cuda_counts *)room;
	good.report = (struct rung__cuda_report *)room;
	good.form.format = RUNG_QUANT_INT8, good.form.dtype = RUNG_F16, good.form.columns = 8;
	scenario("forms that are refused");
	g = good, g.form.format = 4;
	CHECK(rung__cuda_gather_launch(&g, 1, nullptr) == RUNG_E_INVAL &&
	      strstr(rung_last_error(), "format 4 of 8 columns"));
	g = good, g.form.dtype = RUNG_F64;
	CHECK(rung__cuda_gather_launch(&g, 1, nullptr) == RUNG_E_INVAL);
	g = good, g.form.columns = 9;
	CHECK(rung__cuda_gather_launch(&g, 1, nullptr) == RUNG_E_INVAL &&
	      strstr(rung_last_error(), "rows of 12 bytes; use 16"));
	g = good, g.views[0].base[0] = room + 2;
	CHECK(rung__cuda_gather_launch(&g, 1, nullptr) == RUNG_E_INVAL &&
	      strstr(rung_last_error(), "aligned to 4 bytes"));
	g = good, g.out_stride = 15;
	CHECK(rung__cuda_gather_launch(&g, 1, nullptr) == RUNG_E_INVAL &&
	      strstr(rung_last_error(), "less than a row (16)"));
}

int main()
{
	each_quant_case(rnd, run_case);
	what_cannot_be_decoded_is_refused();
	printf("decode: %lu cases\n", cases);
	return 0;
}

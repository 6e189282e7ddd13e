/* SPDX-License-Identifier: Apache-2.0 */
/* The scatter kernel, lane by lane, compared with a naive loop. */
#include <algorithm>

#include "../../kernels/scatter.cu"
#include "lanes_test.h"
#include "quant_case.h"

static random_numbers rnd = { 77 };

struct scatter_case {
	uint32_t row_bytes = 64;
	size_t slots = 6;
	size_t count = 20; /* slots repeat if this is larger than `slots` */
	unsigned slots_misaligned = 0;
	uint64_t align = 0; /* of offsets, as passed to the kernel; 0: any offset */
	unsigned out_misaligned = 0, out_stride_more = 0;
	unsigned over_link = 1;
	unsigned block_count = 2;
	uint64_t link_bytes = 0;
};

static void run_case(const scatter_case &c)
{
	const uint64_t align = c.align ? c.align : 1;
	const uint64_t slot_bytes = (c.row_bytes + 24 + align - 1) / align * align;
	const uint64_t stride = c.row_bytes + c.out_stride_more, out_rows = c.count + 3;
	std::vector<uint64_t> begins;
	std::vector<uint32_t> rows(out_rows);
	struct rung__cuda_scatter s = {};

	for (size_t k = 0; k < c.slots; k++) /* the last slot's row ends where the memory ends */
		begins.push_back(k * slot_bytes +
		                 (k + 1 < c.slots ? rnd.below(24 / align + 1) * align : 0));
	lanes::lent.clear();
	const memory slots(begins.back() + c.row_bytes, c.slots_misaligned, false),
		offsets(c.count * 8, 8, false);
	const memory to(c.count * 4, 4, false);
	const memory out((out_rows - 1) * stride + c.row_bytes, c.out_misaligned, true);
	const memory blocks_done(8, 8, true), word(4, 4, true);
	std::vector<unsigned char> expected(out.bytes, 0xee);

	memset(blocks_done.at, 0, blocks_done.bytes);
	memset(word.at, 0, word.bytes);
	memset(slots.at, 0x11, slots.bytes);
	for (size_t k = 0; k < c.slots; k++)
		fill_row(slots.at + begins[k], k, c.row_bytes);
	for (uint32_t r = 0; r < out_rows; r++)
		rows[r] = r;
	for (size_t r = out_rows - 1; r > 0; r--)
		std::swap(rows[r], rows[rnd.below(r + 1)]);
	for (size_t i = 0; i < c.count; i++) {
		const uint64_t slot = i < c.slots ? i : rnd.below(c.slots);
		((uint64_t *)offsets.at)[i] = begins[slot];
		((uint32_t *)to.at)[i] = rows[i];
		fill_row(&expected[rows[i] * stride], slot, c.row_bytes);
	}
	memset(out.at, 0xee, out.bytes);
	s.slots = slots.at, s.offsets = (const uint64_t *)offsets.at,
	s.out_rows = (const uint32_t *)to.at, s.count = c.count;
	s.offset_align = c.align, s.row_bytes = c.row_bytes, s.over_link = c.over_link;
	s.link_bytes = c.link_bytes, s.out = out.at, s.out_stride = stride;
	s.blocks_done = (unsigned long long *)blocks_done.at;
	s.end = { (uint32_t *)word.at, 5 };
	CHECK(rung__cuda_scatter_launch(&s, c.block_count, nullptr) == 0, "%s", rung_last_error());
	CHECK(*s.end.word == (c.count ? 5u : 0u) && *s.blocks_done == 0);
	for (size_t k = 0; k < out.bytes; k++)
		CHECK(out.at[k] == expected[k], "byte %zu of output row %zu", k % stride,
		      k / stride);
}

static void widths_and_alignments()
{
	for (uint32_t w = 1; w <= 4112; w = w == 600 ? 4080 : w + 1) {
		for (unsigned m = 0; m < 16; m++) {
			scatter_case c;
			c.row_bytes = w;
			c.count = w < 128 ? 20 : 7;
			c.slots_misaligned = m;
			c.align = UINT64_C(1) << rnd.below(5);
			c.out_misaligned = m % 2 ? (unsigned)rnd.below(16) : 0;
			c.out_stride_more = m % 2 ? (unsigned)rnd.below(40) : (16 - w % 16) % 16;
			c.over_link = m % 4 != 3;
			if (m % 3 == 0)
				c.align = 0;
			scenario("width %u, slots misaligned by %u, offsets aligned to %u", w, m,
			         (unsigned)c.align);
			run_case(c);
		}
	}
}

static void counts_and_grids()
{
	for (size_t n : { 1u, 2u, 31u, 32u, 33u, 256u, 257u, 3000u }) {
		for (unsigned blocks : { 1u, 2u, 7u }) {
			scatter_case c;
			c.count = n;
			c.block_count = blocks;
			c.align = 8;
			c.row_bytes = 40;
			scenario("%zu rows, %u blocks", n, blocks);
			run_case(c);
			c.slots = 1; /* one slot for all output rows */
			run_case(c);
		}
	}
}

static void few_blocks_copy_over_a_link()
{
	const struct {
		unsigned over_link;
		uint32_t row_bytes;
		uint64_t link_bytes;
		unsigned blocks;
	} cases_of[] = {
		{ 1, 512, 0, 32 },
		{ 1, 512, 16384, 1 },
		{ 1, 500, 16384, 4 },
		{ 0, 512, 16384, 40 },
	};

	for (const auto &k : cases_of) {
		scatter_case c;
		c.row_bytes = k.row_bytes;
		c.count = 4000;
		c.align = 16;
		c.block_count = 40;
		c.over_link = k.over_link;
		c.link_bytes = k.link_bytes;
		scenario("over a link %u, rows of %u bytes, %u bytes in flight", k.over_link,
		         k.row_bytes, (unsigned)k.link_bytes);
		run_case(c);
		CHECK(lanes::blocks_started == k.blocks, "%u blocks", lanes::blocks_started);
	}
}

/* Offsets and output rows with bytes beyond 2^32; only the accessed places have memory. */
static void offsets_beyond_32_bits()
{
	const uint64_t far = (UINT64_C(1) << 33) + 512, stride = 4096;
	const uint32_t row = 3000000; /* 12 GB into the output */

	lanes::lent.clear();
	const memory slot(200, 0, false), offsets(8, 0, false), to(4, 0, false), out(200, 0, true);
	struct rung__cuda_scatter s = {};

	scenario("an offset of 2^33 + 512");
	fill_row(slot.at, 9, 200);
	memcpy(offsets.at, &far, 8);
	memcpy(to.at, &row, 4);
	s.slots = slot.at - far, s.offsets = (const uint64_t *)offsets.at,
	s.out_rows = (const uint32_t *)to.at, s.count = 1;
	s.offset_align = 512, s.row_bytes = 200, s.over_link = 1, s.out = out.at - row * stride,
	s.out_stride = stride;
	CHECK(rung__cuda_scatter_launch(&s, 1, nullptr) == 0, "%s", rung_last_error());
	for (unsigned k = 0; k < 200; k++)
		CHECK(out.at[k] == row_byte(9, k));
}

static void what_is_wrong_is_refused()
{
	unsigned char room[64] __attribute__((aligned(16))) = { 0 };
	struct rung__cuda_scatter good = {}, s;
	const unsigned before = lanes::launches;
	unsigned blocks = 0;

	good.slots = room, good.offsets = (const uint64_t *)room,
	good.out_rows = (const uint32_t *)room, good.out = room;
	good.row_bytes = 16, good.out_stride = 16;
	scenario("no rows");
	CHECK(rung__cuda_scatter_launch(&good, 4, nullptr) == 0);
	scenario("refused arguments");
	good.count = 1;
	s = good, s.row_bytes = 0;
	CHECK(rung__cuda_scatter_launch(&s, 4, nullptr) == RUNG_E_INVAL &&
	      strstr(rung_last_error(), "rows of 0 bytes"));
	s = good, s.out_stride = 15;
	CHECK(rung__cuda_scatter_launch(&s, 4, nullptr) == RUNG_E_INVAL &&
	      strstr(rung_last_error(), "output stride of 15"));
	s = good, s.count = UINT64_C(1) << 32;
	CHECK(rung__cuda_scatter_launch(&s, 4, nullptr) == RUNG_E_INVAL &&
	      strstr(rung_last_error(), "at most"));
	s = good, s.offset_align = 24;
	CHECK(rung__cuda_scatter_launch(&s, 4, nullptr) == RUNG_E_INVAL &&
	      strstr(rung_last_error(), "not a power of two"));
	s = good, s.end.word = (uint32_t *)s.out;
	CHECK(rung__cuda_scatter_launch(&s, 4, nullptr) == RUNG_E_INVAL);
	CHECK(strstr(rung_last_error(), "needs blocks_done"));
	s = good, s.slots = nullptr;
	CHECK(rung__cuda_scatter_launch(&s, 4, nullptr) == RUNG_E_INVAL &&
	      strstr(rung_last_error(), "blocks, slots"));
	CHECK(rung__cuda_scatter_launch(&good, 0, nullptr) == RUNG_E_INVAL);
	lanes::next_error = cudaErrorNoDevice;
	CHECK(rung__cuda_scatter_launch(&good, 4, nullptr) == RUNG_E_NODEV);
	CHECK(lanes::launches == before);
	CHECK(rung__cuda_scatter_blocks(&blocks) == 0 &&
	      blocks == (unsigned)(lanes::sm_count * lanes::blocks_per_sm));
}

/* Each slot has room for a stored row and up to 60 bytes more. */
static void quantized_rows_are_decoded(const quant_case &c)
{
	const struct rung__quant quant = { c.format, c.scales, c.columns };
	const uint64_t stride = rung__quant_row_bytes(&quant) + rnd.below(16) * 4, slots = 5;
	const uint64_t count = 1 + rnd.below(30);
	struct rung__cuda_scatter s = {};

	lanes::lent.clear();
	const quant_rows rows(c, rnd, slots, (unsigned)rnd.below(32) * 4, stride);
	const uint64_t out_stride = rows.form.out_bytes + c.out_stride_more;
	const memory offsets(count * 8, 8, false), to(count * 4, 4, false);
	const memory out((count - 1) * out_stride + rows.form.out_bytes, c.out_misaligned, true);
	std::vector<unsigned char> expected(out.bytes, 0xee);

	memset(out.at, 0xee, out.bytes);
	for (uint64_t i = 0; i < count; i++) {
		const uint64_t from = rnd.below(slots) * stride, row = count - 1 - i;

		((uint64_t *)offsets.at)[i] = from;
		((uint32_t *)to.at)[i] = (uint32_t)row;
		rows.form.decode(&rows.form, &expected[row * out_stride], rows.stored.at + from,
		                 false, rows.stored.at + from);
	}
	s.slots = rows.stored.at, s.offsets = (const uint64_t *)offsets.at,
	s.out_rows = (const uint32_t *)to.at, s.count = count, s.offset_align = 4;
	s.row_bytes = (uint32_t)rows.form.row_bytes, s.form = rows.cuda, s.over_link = 1;
	s.out = out.at, s.out_stride = out_stride;
	CHECK(rung__cuda_scatter_launch(&s, 2, nullptr) == 0, "%s", rung_last_error());
	for (size_t k = 0; k < out.bytes; k++)
		CHECK(out.at[k] == expected[k], "byte %zu of row %zu", k % out_stride,
		      k / out_stride);
	s.offset_align = 2;
	CHECK(rung__cuda_scatter_launch(&s, 2, nullptr) == RUNG_E_INVAL);
}

int main()
{
	each_quant_case(rnd, quantized_rows_are_decoded);
	widths_and_alignments();
	counts_and_grids();
	few_blocks_copy_over_a_link();
	offsets_beyond_32_bits();
	what_is_wrong_is_refused();
	printf("scatter: %lu cases\n", cases);
	return 0;
}

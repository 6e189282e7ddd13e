/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scatter on a GPU: rows that refill has read into staging slots are copied to their output
 * rows. As in the gather, a warp resolves a tile of list entries and then copies it (rows.h). A row
 * that was requested several times is listed several times.
 */
#include "cuda_status.h"
#include "decode.h"
#include "finish.h"

template <class Piece>
static __global__ void __launch_bounds__(BLOCK_THREADS, COPY_BLOCKS_PER_SM)
	scatter_rows(const __grid_constant__ struct rung__cuda_scatter s,
                     const __grid_constant__ struct rows_shape shape)
{
	const uint32_t lane = threadIdx.x % WARP_LANES;
	const uint64_t stride = global_warps() * shape.tile_rows; /* rows of one tile per warp */

	for (uint64_t first = global_warp() * shape.tile_rows; first < s.count; first += stride) {
		const uint64_t i = first + lane;
		struct row_move move = { NULL, 0 };

		if (lane < shape.tile_rows && i < s.count) {
			move.from = s.slots + __ldg((const unsigned long long *)s.offsets + i);
			move.to_row = __ldg(s.out_rows + i);
		}
		row_mover<Piece>::move(move, shape.tile_rows, shape, s.form, s.out, s.out_stride);
	}
	/* all threads of a block must get here, because is_last_block() has a barrier */
	if (s.blocks_done && is_last_block(s.blocks_done))
		end_launch(s.blocks_done, s.end);
}

/* ---- host side ---- */

static void (*const kernels[])(struct rung__cuda_scatter,
                               struct rows_shape) = { scatter_rows<uint4>, scatter_rows<unsigned>,
	                                              scatter_rows<unsigned char>,
	                                              scatter_rows<struct quant_word> };

/* The alignment of all stored rows' addresses, combined by OR. */
static uint64_t from_ored(const struct rung__cuda_scatter *s)
{
	return (uint64_t)(uintptr_t)s->slots | (s->offset_align ? s->offset_align : 1);
}

/* Checks all arguments except the lists. */
static int check_scatter(const struct rung__cuda_scatter *s, unsigned block_count)
{
	int rc = check_form("scatter kernel", &s->form, s->row_bytes, s->out_stride);

	if (rc < 0)
		return rc;
	if (s->count > UINT32_MAX)
		return rung__fail(RUNG_E_INVAL,
		                  "scatter kernel: %" PRIu64 " rows; use at most %" PRIu32,
		                  s->count, UINT32_MAX);
	if (s->end.word && !s->blocks_done)
		return rung__fail(RUNG_E_INVAL,
		                  "scatter kernel: end.word needs blocks_done; set both");
	if (s->offset_align & (s->offset_align - 1))
		return rung__fail(RUNG_E_INVAL,
		                  "scatter kernel: an alignment of %" PRIu64
		                  " is not a power of two; use one",
		                  s->offset_align);
	if (block_count < 1 || (s->count && (!s->slots || !s->offsets || !s->out_rows || !s->out)))
		return rung__fail(
			RUNG_E_INVAL,
			"scatter kernel: an argument is missing: blocks, slots, lists or output");
	return check_words("scatter kernel", &s->form, from_ored(s));
}

extern "C" int rung__cuda_scatter_launch(const struct rung__cuda_scatter *s, unsigned block_count,
                                         struct CUstream_st *stream)
{
	struct rows_shape shape;
	uint64_t from;
	unsigned blocks;
	struct moved moved;
	cudaError_t err;
	int rc = check_scatter(s, block_count);

	if (rc < 0 || s->count == 0)
		return rc;
	from = from_ored(s);
	moved = moved_bytes(&s->form, s->row_bytes,
	                    from | (uint64_t)(uintptr_t)s->out | s->out_stride);
	if (s->over_link) /* more blocks than saturate the link would only keep SMs busy */
		block_count = RUNG__MIN(block_count, link_blocks(moved.piece, s->link_bytes));
	shape = rows_shape_make(moved.bytes, moved.piece, s->over_link ? from | moved.begin : 0,
	                        s->count, block_count, TILE_BYTES);
	shape.out_align = out_align(s->out, s->out_stride);
	blocks = rows_blocks(&shape, s->count, block_count);
	err = start_pieces(kernels, moved.piece, *s, shape, blocks, stream);
	return cuda_status(err, "starting the scatter kernel");
}

extern "C" int rung__cuda_scatter_blocks(unsigned *block_count_out)
{
	return cuda_load(kernels, BLOCK_THREADS, "loading the scatter kernels", block_count_out);
}

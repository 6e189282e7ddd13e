/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scatter on a GPU: rows that refill has read into slots, to their output rows. As the gather, a warp resolves a tile of list
 * entries and then copies it (rows.h); a row that was asked for several times is listed several times.
 */
#include "cuda_status.h"
#include "finish.h"
#include "rows.h"

template <class Piece>
static __global__ void __launch_bounds__(BLOCK_THREADS, COPY_BLOCKS_PER_SM)
scatter_rows(const __grid_constant__ struct rung__cuda_scatter s,
             const __grid_constant__ struct rows_shape shape)
{
	const uint32_t lane = threadIdx.x % WARP_LANES;
	const uint64_t stride = global_warps() * shape.tile_rows;

	for (uint64_t first = global_warp() * shape.tile_rows; first < s.count; first += stride) {
		const uint64_t i = first + lane;
		struct row_move move = { NULL, 0 };

		if (lane < shape.tile_rows && i < s.count) {
			move.from = s.slots + __ldg((const unsigned long long *)s.offsets + i);
			move.to_row = __ldg(s.out_rows + i);
		}
		copy_rows<Piece>(move, shape.tile_rows, shape, s.out, s.out_stride);
	}
	if (s.blocks_done && is_last_block(s.blocks_done))
		end_launch(s.blocks_done, s.end);
}

/* ---- host side ------------------------------------------------------------------------------------------------------ */

static int check_scatter(const struct rung__cuda_scatter *s, unsigned block_count)
{
	if (s->row_bytes < 1 || s->row_bytes > RUNG__CUDA_ROW_BYTES_MAX)
		return rung__fail(RUNG_E_INVAL, "scatter kernel: rows of %u bytes, not 1..%u", (unsigned)s->row_bytes,
		                  (unsigned)RUNG__CUDA_ROW_BYTES_MAX);
	if (s->out_stride < s->row_bytes)
		return rung__fail(RUNG_E_INVAL, "scatter kernel: an output stride of %" PRIu64 " bytes, rows have %u", s->out_stride,
		                  (unsigned)s->row_bytes);
	if (s->count > UINT32_MAX)
		return rung__fail(RUNG_E_INVAL, "scatter kernel: %" PRIu64 " rows, at most %" PRIu32, s->count, UINT32_MAX);
	if (s->end.word && !s->blocks_done)
		return rung__fail(RUNG_E_INVAL, "scatter kernel: a word without a count of blocks");
	if (s->offset_align & (s->offset_align - 1))
		return rung__fail(RUNG_E_INVAL, "scatter kernel: offsets aligned to %" PRIu64 ", which is no power of two", s->offset_align);
	if (block_count < 1 || (s->count && (!s->slots || !s->offsets || !s->out_rows || !s->out)))
		return rung__fail(RUNG_E_INVAL, "scatter kernel: no blocks, slots, lists or output");
	return 0;
}

template <class Piece>
static cudaError_t start_scatter(struct rung__cuda_scatter s, struct rows_shape shape, unsigned blocks, cudaStream_t stream)
{
	void *args[] = { &s, &shape };

	return cudaLaunchKernel(scatter_rows<Piece>, dim3(blocks), dim3(BLOCK_THREADS), args, 0, stream);
}

extern "C" int rung__cuda_scatter_launch(const struct rung__cuda_scatter *s, unsigned block_count, struct CUstream_st *stream)
{
	struct rows_shape shape;
	uint64_t from;
	unsigned blocks;
	uint32_t piece;
	cudaError_t err;
	int rc = check_scatter(s, block_count);

	if (rc < 0 || s->count == 0)
		return rc;
	from = (uint64_t)(uintptr_t)s->slots | (s->offset_align ? s->offset_align : 1);
	piece = piece_bytes(from | s->row_bytes | (uint64_t)(uintptr_t)s->out | s->out_stride);
	if (s->over_link)
		block_count = RUNG__MIN(block_count, link_blocks(piece, s->link_bytes));
	shape = rows_shape_make(s->row_bytes, piece, s->over_link ? from : 0, s->count, block_count);
	blocks = rows_blocks(&shape, s->count, block_count);
	switch (piece) {
	case 16: err = start_scatter<uint4>(*s, shape, blocks, stream); break;
	case 4: err = start_scatter<unsigned>(*s, shape, blocks, stream); break;
	default: err = start_scatter<unsigned char>(*s, shape, blocks, stream); break;
	}
	return cuda_status(err, "starting the scatter kernel");
}

extern "C" int rung__cuda_scatter_blocks(unsigned *block_count_out)
{
	unsigned blocks[3] = { 0, 0, 0 };
	const char *what = "loading the scatter kernels";
	int rc = cuda_blocks(scatter_rows<uint4>, BLOCK_THREADS, what, &blocks[0]);

	if (rc == 0)
		rc = cuda_blocks(scatter_rows<unsigned>, BLOCK_THREADS, what, &blocks[1]);
	if (rc == 0)
		rc = cuda_blocks(scatter_rows<unsigned char>, BLOCK_THREADS, what, &blocks[2]);
	if (rc == 0)
		*block_count_out = blocks[0];
	return rc;
}

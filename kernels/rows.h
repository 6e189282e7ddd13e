/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Copying rows with a warp: shared by gather and scatter. Valid CUDA and C++17.
 *
 * A warp copies a *tile* of up to 32 rows, with `lanes` lanes per row. Each lane has the address of
 * one row, so 32 rows are looked up at the same time. A row is copied in *pieces* of 16, 4 or 1
 * bytes, one per lane and round. Each lane starts COPY_AHEAD loads before its first store, so that
 * the bytes in flight cover the latency. Otherwise, with rows of one round, each lane would have
 * only one load in flight.
 *
 * Rows over a link are split at the lines of the source: the first round begins at the line that
 * contains the start of the row, with the lanes before the row idle, so that every later access of
 * the row requests whole lines. Requests over PCIe are at most one line long.
 */
#ifndef RUNG_KERNELS_ROWS_H
#define RUNG_KERNELS_ROWS_H

#include "launch.h"
#include "warp.h"

#define COPY_AHEAD 4u
/* 64 registers per thread allow four blocks, with 64 KiB in flight on an SM. Without this bound,
 * ptxas uses more registers, which leaves three blocks. */
#define COPY_BLOCKS_PER_SM 4

/* Limits the bytes of a tile. The last warp can end one tile later than the others, and with tiles
 * of 32 rows of 4 KiB it would run alone for a long time. */
#define TILE_BYTES 16384u

/** The division of rows into pieces and tiles, the same for all warps of a launch. */
struct rows_shape {
	uint32_t row_bytes;
	uint32_t lanes_log2; /* lanes per row: 2, 4, 8, 16 or 32 */
	uint32_t rounds;     /* number of rounds to copy a row */
	uint32_t tile_rows;  /* rows of a tile: a power of two, at least 32 / lanes */
	/* for rows over a link: the bytes of a line, or of the part of it that a round covers,
	 * minus a piece; otherwise 0 */
	uint32_t head_mask;
	uint32_t out_align; /* decoded rows: alignment of all output rows, at most 16 */
};

/** The row of a lane. from NULL: nothing is copied. */
struct row_move {
	const unsigned char *from;
	uint32_t to_row;
};

/** Copy up to 32 rows; lane l has the address of row l. All lanes of a warp call it together. */
template <class Piece>
static __device__ __forceinline__ void copy_rows(const struct row_move &mine, uint32_t row_count,
                                                 const struct rows_shape &shape, unsigned char *out,
                                                 uint64_t out_stride)
{
	const uint32_t lanes = 1u << shape.lanes_log2;
	const uint32_t lane = threadIdx.x % WARP_LANES;
	/* number of rows copied at the same time */
	const uint32_t groups = WARP_LANES >> shape.lanes_log2;
	const uint32_t group = lane >> shape.lanes_log2;
	const uint32_t lane_at = (lane & (lanes - 1)) * (uint32_t)sizeof(Piece);
	const uint32_t round_bytes = lanes * (uint32_t)sizeof(Piece);
	const uint32_t items = (row_count + groups - 1) / groups * shape.rounds;
	const unsigned long long mine_from = (unsigned long long)(uintptr_t)mine.from;
	uint32_t row = group;
	uint32_t round = 0;

	for (uint32_t item = 0; item < items; item += COPY_AHEAD) {
		Piece piece[COPY_AHEAD];
		const Piece *from[COPY_AHEAD];
		Piece *to[COPY_AHEAD];

		/* Three loops: addresses, loads, stores. If the first loop contained the loads,
		 * ptxas would load into temporary registers, and would wait for each load, to move
		 * its value, before it computes the next address. __ldca is volatile: read-only
		 * loads (__ldg) may be moved after stores. */
#pragma unroll
		for (uint32_t k = 0; k < COPY_AHEAD; k++) {
			/* after the last item the row number wraps; nothing is copied then */
			const uint32_t owner = row % WARP_LANES;
			const unsigned long long begin =
				__shfl_sync(WARP_ALL, mine_from, (int)owner);
			const uint32_t to_row = __shfl_sync(WARP_ALL, mine.to_row, (int)owner);
			const uint32_t head = (uint32_t)begin & shape.head_mask;
			/* a position before the row wraps to a huge number, so nothing is copied */
			const uint32_t at = round * round_bytes + lane_at - head;

			to[k] = NULL;
			if (item + k < items && begin && at < shape.row_bytes)
				to[k] = (Piece *)(out + to_row * out_stride + at);
			from[k] = (const Piece *)((uintptr_t)begin + at);
			if (++round == shape.rounds) {
				round = 0;
				row += groups;
			}
		}
#pragma unroll
		for (uint32_t k = 0; k < COPY_AHEAD; k++)
			if (to[k])
				piece[k] = __ldca(from[k]);
#pragma unroll
		for (uint32_t k = 0; k < COPY_AHEAD; k++)
			if (to[k])
				__stwb(to[k], piece[k]);
	}
}

/* ---- host side ---- */

/** The widest piece that divides all bases, strides and sizes, which are combined by OR. */
static inline uint32_t piece_bytes(uint64_t ored)
{
	return ored % 16 == 0 ? 16 : ored % 4 == 0 ? 4 : 1;
}

/**
 * Bytes of loads in flight that saturate a link; they determine how many blocks copy over it.
 *
 * Bytes in flight are rate times latency. PCIe 5.0 with 16 lanes moves 63 GB/s; with a latency of 2
 * us, which is assumed and not measured, that is 126 KB. LINK_BYTES is four times as much, because
 * a warp also looks up rows and stores them: 32 blocks with pieces of 16 bytes. On an H100, gathers
 * of which a small part is over the link end up to 15 % sooner than with half of it; gathers of
 * rows that are all over the link do not.
 */
#define LINK_BYTES 524288u

static inline unsigned link_blocks(uint32_t piece, uint64_t link_bytes)
{
	const uint64_t block_bytes = (uint64_t)BLOCK_THREADS * COPY_AHEAD * piece;

	return (unsigned)(((link_bytes ? link_bytes : LINK_BYTES) + block_bytes - 1) / block_bytes);
}

/**
 * @param piece        bytes of a piece
 * @param link_ored    bases and strides of rows over a link, combined by OR; 0: no such rows
 * @param count        rows of the launch
 * @param block_count  upper bound of the grid, or what tiles are made for
 * @param tile_bytes   upper bound of a tile, except of one with a single row per group of lanes
 */
static inline struct rows_shape rows_shape_make(uint32_t row_bytes, uint32_t piece,
                                                uint64_t link_ored, uint64_t count,
                                                unsigned block_count, uint32_t tile_bytes)
{
	const uint64_t warps_max = (uint64_t)block_count * (BLOCK_THREADS / WARP_LANES);
	const uint32_t pieces = (row_bytes + piece - 1) / piece;
	struct rows_shape shape = { row_bytes, 1, 0, WARP_LANES, 0, 0 };
	/* a row of fewer than 32 pieces shares the warp with another row */
	const uint32_t lanes_log2_max = pieces < WARP_LANES ? 4 : 5;
	uint32_t head_max = 0;
	uint32_t round_bytes;

	while (shape.lanes_log2 < lanes_log2_max && (1u << shape.lanes_log2) < pieces)
		shape.lanes_log2++;
	/* rows can begin inside lines, so a round must cover a line */
	if (link_ored % LINE_BYTES != 0)
		while (shape.lanes_log2 < 5 && (piece << shape.lanes_log2) < LINE_BYTES)
			shape.lanes_log2++;
	round_bytes = piece << shape.lanes_log2;
	if (link_ored != 0) /* whole pieces, also before rows that are not aligned to pieces */
		shape.head_mask = (round_bytes < LINE_BYTES ? round_bytes : LINE_BYTES) - piece;
	/* the maximum number of bytes from the start of a line to the row, which can cost a
	 * round */
	if (link_ored % (shape.head_mask + piece) != 0)
		head_max = shape.head_mask;
	shape.rounds = (row_bytes + head_max + round_bytes - 1) / round_bytes;
	/* with few large rows, tiles are smaller, so that all warps of the grid have work */
	while (shape.tile_rows > WARP_LANES >> shape.lanes_log2 &&
	       ((uint64_t)shape.tile_rows * row_bytes > tile_bytes ||
	        (count + shape.tile_rows - 1) / shape.tile_rows < warps_max))
		shape.tile_rows /= 2;
	return shape;
}

/** The number of blocks to start: enough for one tile per warp, at most block_count. */
static inline unsigned rows_blocks(const struct rows_shape *shape, uint64_t count,
                                   unsigned block_count)
{
	const uint64_t tiles = (count + shape->tile_rows - 1) / shape->tile_rows;
	const uint64_t blocks =
		(tiles + BLOCK_THREADS / WARP_LANES - 1) / (BLOCK_THREADS / WARP_LANES);

	return blocks < block_count ? (unsigned)blocks : block_count;
}

/** Start the kernel for the size of a piece.
 * @param kernels  for pieces of 16, 4 and 1 bytes, and for rows that are decoded */
template <class Work, class Shape>
static inline cudaError_t start_pieces(void (*const (&kernels)[4])(Work, Shape), uint32_t piece,
                                       Work work, Shape shape, unsigned blocks, cudaStream_t stream)
{
	const unsigned which = piece == 16 ? 0 : piece == 4 ? 1 : 2;
	void *args[] = { &work, &shape };

	return cudaLaunchKernel(kernels[work.form.format ? 3 : which], dim3(blocks),
	                        dim3(BLOCK_THREADS), args, 0, stream);
}

/** @param who  names the kernel in the message. @param out_bytes  of an output row
 * @return 0 or RUNG_E_INVAL */
static inline int check_rows(const char *who, uint32_t row_bytes, uint64_t out_bytes,
                             uint64_t out_stride)
{
	if (row_bytes < 1 || row_bytes > RUNG__CUDA_ROW_BYTES_MAX)
		return rung__fail(RUNG_E_INVAL, "%s: rows of %u bytes; use 1 to %u", who,
		                  (unsigned)row_bytes, (unsigned)RUNG__CUDA_ROW_BYTES_MAX);
	if (out_stride < out_bytes)
		return rung__fail(RUNG_E_INVAL,
		                  "%s: an output stride of %" PRIu64
		                  " bytes, less than a row (%" PRIu64 ")",
		                  who, out_stride, out_bytes);
	return 0;
}

#endif

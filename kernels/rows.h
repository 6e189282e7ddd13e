/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How a warp copies rows: shared by gather and scatter. Valid CUDA and C++17.
 *
 * A warp takes a *tile* of up to 32 rows. First each lane finds out where one row comes from and goes to, 32 lookups in flight at
 * once; then the warp copies the rows of the tile, `lanes` lanes a row. A row is copied in *pieces* of 1 to 16 bytes, one a lane
 * and round. Each lane has COPY_AHEAD loads in flight before its first store: what covers the latency is the number of bytes
 * asked for, and rows of one round would otherwise leave one load a lane.
 *
 * Rows over a link are cut where the lines of the source are: the first round begins at the line the row begins in, its lanes in
 * front of the row idle, so that every access of a row after that asks for whole lines. Requests over PCIe are that long at most.
 */
#ifndef RUNG_KERNELS_ROWS_H
#define RUNG_KERNELS_ROWS_H

#include "launch.h"
#include "warp.h"

#define COPY_AHEAD 4u

/** How the rows of one launch are cut; the same for all of its warps. */
struct rows_shape {
	uint32_t row_bytes;
	uint32_t lanes_log2;    /* lanes a row: 2, 4, 8, 16 or 32 */
	uint32_t rounds;        /* until a row is copied */
	uint32_t tile_rows;     /* rows of a tile: a power of two, 32 / lanes at least */
	uint32_t head_mask;     /* rows over a link: the line, or what the lanes of a row cover of it, less one */
};

/** A lane's row: from NULL, nothing is copied. */
struct row_move {
	const unsigned char *from;
	uint32_t to_row;
	uint32_t head;   /* bytes of its line in front of the row */
};

static __device__ __forceinline__ uint32_t row_head(const unsigned char *from, uint32_t over_link, uint32_t head_mask)
{
	return over_link ? (uint32_t)((uintptr_t)from & head_mask) : 0;
}

/** Copy the rows of a tile; lane l brings row l. Called by all lanes of a warp together. */
template <class Piece>
static __device__ __forceinline__ void copy_tile(const struct row_move &mine, const struct rows_shape &shape, unsigned char *out,
                                                 uint64_t out_stride)
{
	const uint32_t lanes = 1u << shape.lanes_log2;
	const uint32_t lane = threadIdx.x % WARP_LANES;
	const uint32_t groups = WARP_LANES >> shape.lanes_log2;       /* rows side by side */
	const uint32_t group = lane >> shape.lanes_log2;
	const uint32_t lane_at = (lane & (lanes - 1)) * (uint32_t)sizeof(Piece);
	const uint32_t round_bytes = lanes * (uint32_t)sizeof(Piece);
	const uint64_t items = (uint64_t)(shape.tile_rows / groups) * shape.rounds;
	const unsigned long long mine_from = (unsigned long long)(uintptr_t)mine.from;
	uint32_t row = group;
	uint32_t round = 0;

	for (uint64_t item = 0; item < items; item += COPY_AHEAD) {
		Piece piece[COPY_AHEAD];
		unsigned char *to[COPY_AHEAD];

#pragma unroll
		for (uint32_t k = 0; k < COPY_AHEAD; k++) {
			/* past the last item the row number wraps; nothing is copied then */
			const uint32_t owner = row % WARP_LANES;
			const unsigned long long from = __shfl_sync(WARP_ALL, mine_from, (int)owner);
			const uint32_t to_row = __shfl_sync(WARP_ALL, mine.to_row, (int)owner);
			const uint32_t head = __shfl_sync(WARP_ALL, mine.head, (int)owner);
			const uint32_t at = round * round_bytes + lane_at - head;   /* in front of the row: wraps to a huge number */

			to[k] = NULL;
			if (item + k < items && from && at < shape.row_bytes) {
				to[k] = out + to_row * out_stride + at;
				piece[k] = __ldg((const Piece *)((uintptr_t)from + at));
			}
			if (++round == shape.rounds) {
				round = 0;
				row += groups;
			}
		}
#pragma unroll
		for (uint32_t k = 0; k < COPY_AHEAD; k++)
			if (to[k])
				__stwb((Piece *)to[k], piece[k]);
	}
}

/* ---- host side ------------------------------------------------------------------------------------------------------ */

/** What the pieces of a launch must divide: all bases, strides and sizes, or-ed. */
static inline uint32_t piece_bytes(uint64_t ored)
{
	const uint64_t lowest = ored & (0 - ored);

	return ored == 0 || lowest >= 16 ? 16 : (uint32_t)lowest;
}

/**
 * @param piece        bytes of a piece
 * @param link_ored    bases and strides of rows over a link, or-ed; 0 when none is
 * @param block_count  bound of the grid
 */
static inline struct rows_shape rows_shape_make(uint32_t row_bytes, uint32_t piece, uint64_t link_ored, uint64_t count,
                                                unsigned block_count)
{
	const uint64_t warps_max = (uint64_t)block_count * (BLOCK_THREADS / WARP_LANES);
	const uint32_t pieces = (row_bytes + piece - 1) / piece;
	struct rows_shape shape = { row_bytes, 1, 0, WARP_LANES, 0 };
	const uint32_t lanes_log2_max = pieces < WARP_LANES ? 4 : 5;
	uint32_t head_max = 0;
	uint32_t round_bytes;

	while (shape.lanes_log2 < lanes_log2_max && (1u << shape.lanes_log2) < pieces)
		shape.lanes_log2++;
	if (link_ored % LINE_BYTES != 0)   /* rows begin inside lines: a round has to cover one */
		while (shape.lanes_log2 < 5 && (piece << shape.lanes_log2) < LINE_BYTES)
			shape.lanes_log2++;
	round_bytes = piece << shape.lanes_log2;
	shape.head_mask = (round_bytes < LINE_BYTES ? round_bytes : LINE_BYTES) - 1;
	if ((link_ored & shape.head_mask) != 0)
		head_max = shape.head_mask + 1 - piece;
	shape.rounds = (row_bytes + head_max + round_bytes - 1) / round_bytes;
	/* few rows: smaller tiles, so that all warps of the grid have work */
	while (shape.tile_rows > WARP_LANES >> shape.lanes_log2 &&
	       (count + shape.tile_rows - 1) / shape.tile_rows < warps_max)
		shape.tile_rows /= 2;
	return shape;
}

/** Blocks to start: enough for one tile a warp, at most block_count. */
static inline unsigned rows_blocks(const struct rows_shape *shape, uint64_t count, unsigned block_count)
{
	const uint64_t tiles = (count + shape->tile_rows - 1) / shape->tile_rows;
	const uint64_t blocks = (tiles + BLOCK_THREADS / WARP_LANES - 1) / (BLOCK_THREADS / WARP_LANES);

	return blocks < block_count ? (unsigned)blocks : block_count;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gather on a GPU: all rungs that the kernel can address in one launch, the other rows listed.
 *
 * A warp resolves a tile of ids at once: id, map entry, rank, view, address. Misses are compacted inside the warp, one atomic a
 * tile. Then it copies the tile (rows.h). The grid is bounded and strides over the tiles: more warps than the device holds gain
 * nothing and take it from the training. No kernel here waits for anything.
 *
 * What was found is counted in device memory; the block that ends last writes it to the report, which the host reads, and zeroes the
 * counts for the next gather: one launch a batch, no copy and no clearing before or behind it.
 *
 * Ids and map entries are untrusted: both are compared with row_count before anything is read by them.
 */
#include "cuda_status.h"
#include "rows.h"
#include "views.h"

static __device__ __forceinline__ uint64_t id_at(const struct rung__cuda_gather &g, uint64_t i)
{
	switch (g.id_dtype) {
	case RUNG_I32: return (uint64_t)(int64_t)__ldg((const int *)g.ids + i);   /* negative: far out of range */
	case RUNG_U32: return __ldg((const unsigned *)g.ids + i);
	default: return __ldg((const unsigned long long *)g.ids + i);
	}
}

static __device__ __forceinline__ uint64_t rank_at(const struct rung__cuda_gather &g, uint64_t id)
{
	if (!g.rank_of_vertex)
		return id;
	if (g.map_bytes == 4)
		return __ldg((const unsigned *)g.rank_of_vertex + id);
	return __ldg((const unsigned long long *)g.rank_of_vertex + id);
}

static __device__ __forceinline__ void report_bad(const struct rung__cuda_gather &g, uint64_t index_first, bool bad)
{
	const unsigned lanes = __ballot_sync(WARP_ALL, bad);

	if (lanes && threadIdx.x % WARP_LANES == 0) {
		atomicAdd(&g.counts->bad_count, (unsigned long long)__popc(lanes));
		atomicMax(&g.counts->bad_index_inverted, ~(unsigned long long)(index_first + (unsigned)__ffs((int)lanes) - 1));
	}
}

static __device__ __forceinline__ void list_misses(const struct rung__cuda_gather &g, uint64_t i, uint64_t rank, bool miss)
{
	const unsigned lane = threadIdx.x % WARP_LANES;
	const unsigned lanes = __ballot_sync(WARP_ALL, miss);
	unsigned long long at = 0;

	if (!lanes)
		return;
	if (lane == 0)
		at = atomicAdd(&g.counts->miss_count, (unsigned long long)__popc(lanes));
	at = __shfl_sync(WARP_ALL, at, 0) + (unsigned)__popc(lanes & ((1u << lane) - 1));
	if (miss) {
		__stwb((unsigned long long *)g.miss_ranks + at, (unsigned long long)rank);
		__stwb(g.miss_rows + at, (unsigned)i);
	}
}

/* Lane v keeps the rows of view v. */
static __device__ __forceinline__ uint64_t count_views(const struct rung__cuda_gather &g, uint32_t view, uint64_t counted)
{
	for (uint32_t v = 0; v < g.view_count; v++) {
		const unsigned lanes = __ballot_sync(WARP_ALL, view == v);

		if (threadIdx.x % WARP_LANES == v)
			counted += (unsigned)__popc(lanes);
	}
	return counted;
}

/* All that the lanes of warp 0 write, one word each: misses, ids outside, rows of the views. */
static __device__ __forceinline__ void write_report(const struct rung__cuda_gather &g)
{
	const unsigned lane = threadIdx.x % WARP_LANES;

	if (lane < g.view_count)
		__stwb((unsigned long long *)&g.report->view_rows[lane], atomicExch(&g.counts->view_rows[lane], 0ull));
	if (lane != 0)
		return;
	__stwb((unsigned long long *)&g.report->miss_count, atomicExch(&g.counts->miss_count, 0ull));
	const unsigned long long bad_count = atomicExch(&g.counts->bad_count, 0ull);
	const unsigned long long bad_index = ~atomicExch(&g.counts->bad_index_inverted, 0ull);

	__stwb((unsigned long long *)&g.report->bad_count, bad_count);
	if (bad_count) {
		__stwb((unsigned long long *)&g.report->bad_index, bad_index);
		__stwb((unsigned long long *)&g.report->bad_id, (unsigned long long)id_at(g, bad_index));
	}
	atomicExch(&g.counts->blocks_done, 0ull);
}

/*
 * The last block to come here has all counts before it: each block's are in memory, by the fence, before its number is taken. Every
 * thread of the grid comes here once.
 */
static __device__ __forceinline__ void finish_block(const struct rung__cuda_gather &g, uint64_t view_rows)
{
	const unsigned lane = threadIdx.x % WARP_LANES;
	unsigned long long done = 0;

	if (lane < g.view_count && view_rows)
		atomicAdd(&g.counts->view_rows[lane], (unsigned long long)view_rows);
	__threadfence();
	__syncthreads();
	if (threadIdx.x >= WARP_LANES)
		return;
	if (lane == 0)
		done = atomicAdd(&g.counts->blocks_done, 1ull) + 1;
	if (__shfl_sync(WARP_ALL, done, 0) < gridDim.x)
		return;
	__threadfence();
	write_report(g);
}

template <class Piece>
static __global__ void gather_rows(const __grid_constant__ struct rung__cuda_gather g,
                                   const __grid_constant__ struct rows_shape shape)
{
	const uint32_t lane = threadIdx.x % WARP_LANES;
	uint64_t view_rows = 0;

	for (uint64_t first = global_warp() * shape.tile_rows; first < g.id_count; first += global_warps() * shape.tile_rows) {
		const uint64_t i = first + lane;
		const bool mine = lane < shape.tile_rows && i < g.id_count;
		struct row_move move = { NULL, (uint32_t)i, 0 };
		uint64_t rank = UINT64_MAX;
		uint32_t view = RUNG__CUDA_VIEWS_MAX;
		bool bad = false;

		if (mine) {
			const uint64_t id = id_at(g, i);

			if (id < g.row_count)
				rank = rank_at(g, id);
			bad = rank >= g.row_count;
		}
		if (mine && !bad) {
			move.from = row_in_views(g.views, g.view_count, rank, &view);
			move.head = move.from ? row_head(move.from, g.views[view].over_link, shape.head_mask) : 0;
		}
		report_bad(g, first, bad);
		list_misses(g, i, rank, mine && !bad && !move.from);
		view_rows = count_views(g, view, view_rows);
		copy_tile<Piece>(move, shape, g.out, g.out_stride);
	}
	finish_block(g, view_rows);
}

/* ---- host side ------------------------------------------------------------------------------------------------------ */

static int check_gather(const struct rung__cuda_gather *g, unsigned block_count)
{
	const bool wide = g->id_dtype == RUNG_I64 || g->id_dtype == RUNG_U64;

	if (!wide && g->id_dtype != RUNG_I32 && g->id_dtype != RUNG_U32)
		return rung__fail(RUNG_E_INVAL, "gather kernel: ids of dtype number %d: give i32, u32, i64 or u64", (int)g->id_dtype);
	if (g->id_count > UINT32_MAX)
		return rung__fail(RUNG_E_INVAL, "gather kernel: %" PRIu64 " ids, at most %" PRIu32, g->id_count, UINT32_MAX);
	if (g->id_count && (uintptr_t)g->ids % (wide ? 8 : 4) != 0)
		return rung__fail(RUNG_E_INVAL, "gather kernel: ids of %d bytes at an address that is no multiple of it", wide ? 8 : 4);
	if (g->rank_of_vertex && ((g->map_bytes != 4 && g->map_bytes != 8) || (uintptr_t)g->rank_of_vertex % g->map_bytes != 0))
		return rung__fail(RUNG_E_INVAL, "gather kernel: map entries of %u bytes: give 4 or 8, aligned to them",
		                  (unsigned)g->map_bytes);
	if (g->row_bytes < 1 || g->row_bytes > RUNG__CUDA_ROW_BYTES_MAX)
		return rung__fail(RUNG_E_INVAL, "gather kernel: rows of %u bytes, not 1..%u", (unsigned)g->row_bytes,
		                  (unsigned)RUNG__CUDA_ROW_BYTES_MAX);
	if (g->out_stride < g->row_bytes)
		return rung__fail(RUNG_E_INVAL, "gather kernel: an output stride of %" PRIu64 " bytes, rows have %u", g->out_stride,
		                  (unsigned)g->row_bytes);
	if (block_count < 1 || !g->counts || !g->report || (g->id_count && (!g->ids || !g->out || !g->miss_ranks || !g->miss_rows)))
		return rung__fail(RUNG_E_INVAL, "gather kernel: no blocks, ids, output, miss list, counts or report");
	return check_views("gather kernel", g->views, g->view_count, g->row_count, g->row_bytes);
}

/* What the pieces must divide, and what of it is over a link. */
static uint64_t ored_addresses(const struct rung__cuda_gather *g, uint64_t *link_out)
{
	uint64_t all = g->row_bytes | (uint64_t)(uintptr_t)g->out | g->out_stride;
	uint64_t rank_first = 0;

	*link_out = 0;
	for (uint32_t v = 0; v < g->view_count; v++) {
		const struct rung__cuda_view *view = &g->views[v];
		uint64_t ored = view->stride;

		if (view->rank_end == rank_first)
			continue;
		for (uint32_t b = 0; b < view->base_count && b < view->rank_end - rank_first; b++)
			ored |= (uint64_t)(uintptr_t)view->base[b];
		all |= ored;
		*link_out |= view->over_link ? ored : 0;
		rank_first = view->rank_end;
	}
	return all;
}

template <class Piece>
static cudaError_t start_gather(struct rung__cuda_gather g, struct rows_shape shape, unsigned blocks, cudaStream_t stream)
{
	void *args[] = { &g, &shape };

	return cudaLaunchKernel(gather_rows<Piece>, dim3(blocks), dim3(BLOCK_THREADS), args, 0, stream);
}

extern "C" int rung__cuda_gather_launch(const struct rung__cuda_gather *g, unsigned block_count, struct CUstream_st *stream)
{
	uint64_t link;
	struct rows_shape shape;
	unsigned blocks;
	uint32_t piece;
	cudaError_t err;
	int rc = check_gather(g, block_count);

	if (rc < 0 || g->id_count == 0)
		return rc;
	piece = piece_bytes(ored_addresses(g, &link));
	shape = rows_shape_make(g->row_bytes, piece, link, g->id_count, block_count);
	blocks = rows_blocks(&shape, g->id_count, block_count);
	switch (piece) {
	case 16: err = start_gather<uint4>(*g, shape, blocks, stream); break;
	case 8: err = start_gather<uint2>(*g, shape, blocks, stream); break;
	case 4: err = start_gather<unsigned>(*g, shape, blocks, stream); break;
	case 2: err = start_gather<unsigned short>(*g, shape, blocks, stream); break;
	default: err = start_gather<unsigned char>(*g, shape, blocks, stream); break;
	}
	return cuda_status(err, "starting the gather kernel");
}

extern "C" int rung__cuda_gather_blocks(unsigned *block_count_out)
{
	unsigned blocks[5] = { 0, 0, 0, 0, 0 };
	const char *what = "loading the gather kernels";
	int rc = cuda_blocks(gather_rows<uint4>, BLOCK_THREADS, what, &blocks[0]);

	if (rc == 0)
		rc = cuda_blocks(gather_rows<uint2>, BLOCK_THREADS, what, &blocks[1]);
	if (rc == 0)
		rc = cuda_blocks(gather_rows<unsigned>, BLOCK_THREADS, what, &blocks[2]);
	if (rc == 0)
		rc = cuda_blocks(gather_rows<unsigned short>, BLOCK_THREADS, what, &blocks[3]);
	if (rc == 0)
		rc = cuda_blocks(gather_rows<unsigned char>, BLOCK_THREADS, what, &blocks[4]);
	if (rc == 0)
		*block_count_out = blocks[0];   /* of the widest pieces: those rows should have */
	return rc;
}

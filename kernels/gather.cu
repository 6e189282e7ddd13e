/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gather on a GPU: one launch copies the rows of all tiers that the kernel can address, and
 * lists the other rows.
 *
 * The blocks of the grid have two roles. Most of them resolve all ids (id, map entry, rank, view,
 * address), one tile per warp at a time, list and count the misses, and copy the rows in the memory
 * of GPUs. The first blocks of the grid, as many as saturate the link (rows.h), only copy the rows
 * over a link. A link is so slow that a grid that fills the device would keep the SMs from the
 * training for milliseconds. These blocks look up their rows themselves, so that they start
 * together with the others, no block waits for another, and one launch is enough.
 *
 * The grid is bounded: a warp gets its next tile from a counter, so a slow tile does not delay
 * others. A gather of many bytes has one warp per tile instead. Blocks that end and are replaced
 * keep more loads in flight than blocks that go on, and this fills a GPU's memory. No kernel here
 * waits for anything.
 *
 * Results are counted in device memory; then one warp writes them to the report, which the host
 * reads, zeroes the counts for the next gather, and notifies the host (finish.h). In a bounded grid
 * the block that ends last does this: one launch per batch, without a copy or a reset around it. A
 * block per tile would spend more time on the fences and the tickets that find the last block than
 * on its rows, so a second launch reports then.
 */
#include "cuda_status.h"
#include "decode.h"
#include "lookup.h"

#define WARPS (BLOCK_THREADS / WARP_LANES)

/* The number of ids that a lane looks up together in its search for rows over a link. Often only
 * few ids belong to such rows, so one lookup at a time would leave the link idle. */
#define LOOKUPS   4u
#define CHUNK_IDS (LOOKUPS * WARP_LANES)
/* Bytes of rows that a warp collects before it copies them. Its next search begins only then, so a
 * large number leaves the link idle at first. */
#define FLUSH_BYTES 2048u
/* Limit of the bytes of a chunk's rows, counted as if all were over the link: at the end of a
 * gather, one warp can be left to copy a whole chunk alone. */
#define CHUNK_BYTES 65536u

/* Gathers of at least these bytes have one warp per tile, and a launch more, of about 3 us. Tests
 * use a smaller value. */
#ifndef RUNG__LONG_BYTES
#define RUNG__LONG_BYTES (UINT64_C(32) << 20)
#endif
/* Then the bytes of a tile: the loads of 16 bytes that a warp has in flight at once. Rows that are
 * decoded need several turns for as many bytes, but with smaller tiles they are slower. */
#define SHORT_TILE_BYTES (COPY_AHEAD * WARP_LANES * 16u)

/** One of the two parts of a gather. */
struct gather_part {
	struct rows_shape rows;
	uint32_t item_ids; /* ids per item, which one warp looks up; a power of two */
	uint32_t item_count;
	uint32_t block_first; /* first block of the part, in the grid */
	uint32_t block_count;
	uint32_t
		flush_rows; /* LINK: number of rows that a warp copies together, if it finds them */
};

/* NEAR copies rows in GPU memory, counts all rows and lists misses; LINK copies rows over a
 * link. */
enum { NEAR, LINK };

struct gather_shape {
	struct gather_part parts[2];
	bool report_later; /* the next launch on the stream reports */
};

/** Rows over a link that a warp has found and not copied yet. */
struct link_queue {
	uint64_t ranks[WARP_LANES + CHUNK_IDS];
	uint32_t to_rows[WARP_LANES + CHUNK_IDS];
};

/* The next item of a warp. Its first item is the warp's own number and needs no atomic. */
static __device__ __forceinline__ uint32_t next_item(unsigned *taken,
                                                     const struct gather_part &part)
{
	const uint32_t warps = part.block_count * WARPS;
	unsigned item = 0;

	if (part.item_count <= warps)
		return part.item_count;
	if (threadIdx.x % WARP_LANES == 0)
		item = atomicAdd(taken, 1u);
	item = __shfl_sync(WARP_ALL, item, 0);
	return item < part.item_count - warps ? warps + item : part.item_count;
}

/* Looks up a tile: lists misses, counts rows, and sets `move` for rows in GPU memory. LINK blocks
 * copy rows over a link. @return the number of rows to copy, which the first lanes have */
static __device__ __forceinline__ uint32_t near_rows(const struct rung__cuda_gather &g,
                                                     uint64_t first, uint32_t count,
                                                     uint32_t *view_rows, struct row_move *move)
{
	const uint32_t lane = threadIdx.x % WARP_LANES;
	const uint64_t i = first + lane;
	const bool mine = lane < count && i < g.id_count;
	uint64_t rank = UINT64_MAX;
	uint32_t view = RUNG__CUDA_VIEWS_MAX;
	bool bad = false;

	*move = { NULL, (uint32_t)i };
	if (mine) {
		const uint64_t id = id_at(g, i);

		if (id < g.row_count)
			rank = rank_at(g, id);
		bad = rank >= g.row_count;
	}
	if (mine && !bad)
		move->from = row_in_views(g.views, g.view_count, rank, &view);
	report_bad(g, first, bad);
	list_misses(g, i, rank, mine && !bad && !move->from);
	*view_rows = count_views(g, view, *view_rows);
	if (move->from && g.views[view].over_link)
		move->from = NULL;
	return pack_rows(move);
}

static __device__ __forceinline__ bool is_over_link(const struct rung__cuda_gather &g,
                                                    uint64_t rank)
{
	uint64_t rank_first = 0;
	bool over_link = false;

	for (uint32_t v = 0; v < g.view_count; v++) {
		const uint64_t rank_end = g.views[v].rank_end;

		over_link |= g.views[v].over_link && rank >= rank_first && rank < rank_end;
		rank_first = rank_end;
	}
	return over_link;
}

/* Adds the rows over a link among `count` ids to the queue. The lookups of a lane are split into
 * three loops, so that its loads are in flight together. @return the number of rows in the queue */
static __device__ __forceinline__ uint32_t find_link_rows(const struct rung__cuda_gather &g,
                                                          uint64_t first, uint32_t count,
                                                          struct link_queue *queue,
                                                          uint32_t waiting)
{
	const uint32_t lane = threadIdx.x % WARP_LANES;
	uint64_t rank[LOOKUPS];
	bool mine[LOOKUPS];

#pragma unroll
	for (uint32_t k = 0; k < LOOKUPS; k++) {
		const uint32_t at = k * WARP_LANES + lane;

		mine[k] = at < count && first + at < g.id_count;
		rank[k] = mine[k] ? load_id(g, first + at) : 0;
	}
#pragma unroll
	for (uint32_t k = 0; k < LOOKUPS; k++) {
		const uint64_t id = id_of(g, rank[k]);

		rank[k] = mine[k] && id < g.row_count ? rank_at(g, id) : UINT64_MAX;
	}
#pragma unroll
	for (uint32_t k = 0; k < LOOKUPS; k++) {
		const bool found = is_over_link(g, rank[k]);
		const unsigned lanes = __ballot_sync(WARP_ALL, found);
		const uint32_t at = waiting + (uint32_t)__popc(lanes & ((1u << lane) - 1));

		if (found) {
			queue->ranks[at] = rank[k];
			queue->to_rows[at] = (uint32_t)first + k * WARP_LANES + lane;
		}
		waiting += (uint32_t)__popc(lanes);
	}
	__syncwarp();
	return waiting;
}

/* Removes one row per lane from the queue; lanes from `count` on get none. */
static __device__ __forceinline__ struct row_move copy_link_row(const struct rung__cuda_gather &g,
                                                                const struct link_queue *queue,
                                                                uint32_t first, uint32_t count)
{
	const uint32_t lane = threadIdx.x % WARP_LANES;
	struct row_move move = { NULL, 0 };
	uint32_t view;

	if (lane < count) {
		move.from = row_in_views(g.views, g.view_count, queue->ranks[first + lane], &view);
		move.to_row = queue->to_rows[first + lane];
	}
	__syncwarp();
	return move;
}

template <class Piece>
static __global__ void __launch_bounds__(BLOCK_THREADS, COPY_BLOCKS_PER_SM)
	gather_rows(const __grid_constant__ struct rung__cuda_gather g,
                    const __grid_constant__ struct gather_shape shape)
{
	__shared__ struct link_queue queues[WARPS];
	struct link_queue *queue = &queues[threadIdx.x / WARP_LANES];
	const unsigned which = blockIdx.x < shape.parts[LINK].block_count ? LINK : NEAR;
	const struct gather_part &part = shape.parts[which];
	unsigned *taken = &g.counts->items_taken[which];
	uint32_t item = (blockIdx.x - part.block_first) * WARPS + threadIdx.x / WARP_LANES;
	uint32_t view_rows = 0;
	uint32_t waiting = 0; /* rows over a link in the queue */

	/* Both parts share one loop and one row_mover, because two would need too many
	 * registers. */
	while (item < part.item_count || waiting > 0) {
		const uint64_t first = (uint64_t)item * part.item_ids;
		struct row_move move;
		uint32_t rows;

		if (which == NEAR) {
			rows = near_rows(g, first, part.item_ids, &view_rows, &move);
			item = next_item(taken, part);
		} else {
			/* Collect several rows first, so that they are in flight together even if
			 * only few of the ids are over a link. */
			if (item < part.item_count && waiting < part.flush_rows) {
				waiting = find_link_rows(g, first, part.item_ids, queue, waiting);
				item = next_item(taken, part);
				if (item < part.item_count && waiting < part.flush_rows)
					continue;
			}
			rows = RUNG__MIN(waiting, part.rows.tile_rows);
			waiting -= rows;
			move = copy_link_row(g, queue, waiting, rows);
		}
		row_mover<Piece>::move(move, rows, part.rows, g.form, g.out, g.out_stride);
	}
	add_view_rows(g, view_rows);
	if (shape.report_later || !is_last_block(&g.counts->blocks_done))
		return;
	write_report(g);
	end_launch(&g.counts->blocks_done, g.end);
}

/* The end of a launch with report_later. The stream orders it after all blocks of that launch. */
static __global__ void __launch_bounds__(WARP_LANES)
	report_gather(const __grid_constant__ struct rung__cuda_gather g)
{
	write_report(g);
	end_launch(&g.counts->blocks_done, g.end);
}

/* ---- host side ---- */

static void (*const kernels[])(struct rung__cuda_gather,
                               struct gather_shape) = { gather_rows<uint4>, gather_rows<unsigned>,
	                                                gather_rows<unsigned char>,
	                                                gather_rows<struct quant_word> };

/* Bases and strides of the views that hold rows, combined by OR, separately for GPUs and links. The
 * result determines the widest aligned piece. 0: no rows. */
static void ored_views(const struct rung__cuda_gather *g, uint64_t *near_out, uint64_t *link_out)
{
	uint64_t rank_first = 0;

	*near_out = *link_out = 0;
	for (uint32_t v = 0; v < g->view_count; v++) {
		const struct rung__cuda_view *view = &g->views[v];
		uint64_t *ored = view->over_link ? link_out : near_out;

		if (view->rank_end == rank_first)
			continue;
		*ored |= view_ored(view, view->rank_end - rank_first);
		rank_first = view->rank_end;
	}
}

static int check_gather(const struct rung__cuda_gather *g, unsigned block_count)
{
	const bool wide = g->id_dtype == RUNG_I64 || g->id_dtype == RUNG_U64;
	uint64_t near, link;
	int rc;

	if (!wide && g->id_dtype != RUNG_I32 && g->id_dtype != RUNG_U32)
		return rung__fail(RUNG_E_INVAL,
		                  "gather kernel: ids of unsupported dtype number %d; use i32, "
		                  "u32, i64 or u64",
		                  (int)g->id_dtype);
	if (g->id_count > UINT32_MAX)
		return rung__fail(RUNG_E_INVAL,
		                  "gather kernel: %" PRIu64 " ids; use at most %" PRIu32,
		                  g->id_count, UINT32_MAX);
	if (g->id_count && (uintptr_t)g->ids % (wide ? 8 : 4) != 0)
		return rung__fail(RUNG_E_INVAL,
		                  "gather kernel: ids of %d bytes are not aligned to their size",
		                  wide ? 8 : 4);
	if (g->rank_of_vertex && ((g->map_bytes != 4 && g->map_bytes != 8) ||
	                          (uintptr_t)g->rank_of_vertex % g->map_bytes != 0))
		return rung__fail(
			RUNG_E_INVAL,
			"gather kernel: map entries of %u bytes; use 4 or 8, aligned to their size",
			(unsigned)g->map_bytes);
	rc = check_form("gather kernel", &g->form, g->row_bytes, g->out_stride);
	if (rc < 0)
		return rc;
	if (block_count < 1 || !g->counts || !g->report ||
	    (g->id_count && (!g->ids || !g->out || (g->miss_ranks && !g->miss_rows))))
		return rung__fail(RUNG_E_INVAL, "gather kernel: an argument is missing: blocks, "
		                                "ids, output, miss list, counts or report");
	rc = check_views("gather kernel", g->views, g->view_count, g->row_count, g->row_bytes);
	if (rc < 0)
		return rc;
	ored_views(g, &near, &link);
	return check_words("gather kernel", &g->form, near | link);
}

static uint32_t item_count(const struct rung__cuda_gather *g, uint32_t item_ids)
{
	return (uint32_t)((g->id_count + item_ids - 1) / item_ids);
}

/* LINK gets as many blocks as saturate the link, but at most half of the grid. Chunks shrink until
 * each warp has a chunk and no chunk has too many bytes. */
static void shape_link(const struct rung__cuda_gather *g, const struct moved &moved, uint64_t link,
                       unsigned block_count, struct gather_part *part)
{
	/* the other half of the grid looks up all ids */
	const unsigned half = RUNG__MAX(block_count / 2, 1u);
	const unsigned blocks = RUNG__MIN(link_blocks(moved.piece, g->link_bytes), half);

	part->rows = rows_shape_make(moved.bytes, moved.piece, link | moved.begin, g->id_count,
	                             blocks, TILE_BYTES);
	part->item_ids = CHUNK_IDS;
	while (part->item_ids > 1 && ((uint64_t)part->item_ids * g->row_bytes > CHUNK_BYTES ||
	                              item_count(g, part->item_ids) < blocks * WARPS))
		part->item_ids /= 2;
	part->item_count = item_count(g, part->item_ids);
	part->block_count = RUNG__MIN(blocks, (part->item_count - 1) / WARPS + 1);
	part->flush_rows = RUNG__MAX(FLUSH_BYTES / g->row_bytes, 1u);
	part->flush_rows = RUNG__MIN(part->flush_rows, part->rows.tile_rows);
}

static void shape_near(const struct rung__cuda_gather *g, const struct moved &moved, uint64_t near,
                       unsigned block_first, unsigned block_count, bool warp_per_tile,
                       struct gather_part *part)
{
	const unsigned bounded = block_count > block_first ? block_count - block_first : 1;
	const unsigned blocks = warp_per_tile ? UINT32_MAX : bounded;

	part->rows = rows_shape_make(moved.bytes, moved.piece, 0, g->id_count, bounded,
	                             warp_per_tile ? SHORT_TILE_BYTES : TILE_BYTES);
	/* the rows of these tiles are only looked up, so row bytes do not limit the tile size */
	if (!near)
		part->rows.tile_rows = WARP_LANES;
	part->item_ids = part->rows.tile_rows;
	part->item_count = item_count(g, part->item_ids);
	part->block_first = block_first;
	part->block_count = rows_blocks(&part->rows, g->id_count, blocks);
}

extern "C" int rung__cuda_gather_launch(const struct rung__cuda_gather *g, unsigned block_count,
                                        struct CUstream_st *stream)
{
	uint64_t near, link;
	struct gather_shape shape = {};
	void *args[] = { (void *)g };
	unsigned blocks;
	struct moved moved;
	cudaError_t err;
	int rc = check_gather(g, block_count);

	if (rc < 0 || g->id_count == 0)
		return rc;
	ored_views(g, &near, &link);
	moved = moved_bytes(&g->form, g->row_bytes,
	                    near | link | (uint64_t)(uintptr_t)g->out | g->out_stride);
	if (link)
		shape_link(g, moved, link, block_count, &shape.parts[LINK]);
	shape.report_later = near && g->id_count * g->row_bytes >=
	                                     (g->long_bytes ? g->long_bytes : RUNG__LONG_BYTES);
	shape_near(g, moved, near, shape.parts[LINK].block_count, block_count, shape.report_later,
	           &shape.parts[NEAR]);
	shape.parts[LINK].rows.out_align = shape.parts[NEAR].rows.out_align =
		out_align(g->out, g->out_stride);
	blocks = shape.parts[LINK].block_count + shape.parts[NEAR].block_count;
	err = start_pieces(kernels, moved.piece, *g, shape, blocks, stream);
	if (err == cudaSuccess && shape.report_later)
		err = cudaLaunchKernel(report_gather, dim3(1), dim3(WARP_LANES), args, 0, stream);
	return cuda_status(err, "starting the gather kernel");
}

extern "C" int rung__cuda_gather_blocks(unsigned *block_count_out)
{
	static void (*const reports[])(struct rung__cuda_gather) = { report_gather };
	int rc = cuda_load(reports, WARP_LANES, "loading the gather kernels", block_count_out);

	return rc < 0 ? rc
	              : cuda_load(kernels, BLOCK_THREADS, "loading the gather kernels",
	                          block_count_out);
}

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
 * The grid is bounded: more warps than the device holds gain nothing, and take SMs from the
 * training. A warp gets its next tile from a counter, so a slow tile does not delay others. No
 * kernel here waits for anything.
 *
 * Results are counted in device memory; the block that ends last writes them to the report, which
 * the host reads, and zeroes the counts for the next gather: one launch per batch, without a copy
 * or a reset around it. Then it notifies the host (finish.h).
 *
 * Ids and map entries are untrusted: both are compared with row_count before they are used.
 */
#include "cuda_status.h"
#include "finish.h"
#include "rows.h"
#include "views.h"

#define WARPS (BLOCK_THREADS / WARP_LANES)

/* The number of ids that a lane looks up together in its search for rows over a link. Often only
 * few ids belong to such rows, so one lookup at a time would leave the link idle. */
#define LOOKUPS   4u
#define CHUNK_IDS (LOOKUPS * WARP_LANES)
/* Limit of the bytes of a chunk's rows, counted as if all were over the link: at the end of a
 * gather, one warp can be left to copy a whole chunk alone. */
#define CHUNK_BYTES 65536u

/** One of the two parts of a gather. */
struct gather_part {
	struct rows_shape rows;
	uint32_t item_ids; /* ids per item, which one warp looks up; a power of two */
	uint32_t item_count;
	uint32_t block_first; /* first block of the part, in the grid */
	uint32_t block_count;
};

/* NEAR copies rows in GPU memory, counts all rows and lists misses; LINK copies rows over a
 * link. */
enum { NEAR, LINK };

struct gather_shape {
	struct gather_part parts[2];
};

/** Rows over a link that a warp has found and not copied yet. */
struct link_queue {
	uint64_t ranks[WARP_LANES + CHUNK_IDS];
	uint32_t to_rows[WARP_LANES + CHUNK_IDS];
};

/* Ids of 4 bytes are sign-extended later, by id_of(), because doing so here would wait for the
 * load. */
static __device__ __forceinline__ uint64_t load_id(const struct rung__cuda_gather &g, uint64_t i)
{
	if (g.id_dtype == RUNG_I64 || g.id_dtype == RUNG_U64)
		return __ldg((const unsigned long long *)g.ids + i);
	return __ldg((const unsigned *)g.ids + i);
}

static __device__ __forceinline__ uint64_t id_of(const struct rung__cuda_gather &g, uint64_t loaded)
{
	/* negative ids are far out of range */
	return g.id_dtype == RUNG_I32 ? (uint64_t)(int64_t)(int32_t)loaded : loaded;
}

static __device__ __forceinline__ uint64_t id_at(const struct rung__cuda_gather &g, uint64_t i)
{
	return id_of(g, load_id(g, i));
}

/* The id must be below row_count. The map entry that is returned is untrusted. */
static __device__ __forceinline__ uint64_t rank_at(const struct rung__cuda_gather &g, uint64_t id)
{
	if (!g.rank_of_vertex)
		return id;
	if (g.map_bytes == 4)
		return __ldg((const unsigned *)g.rank_of_vertex + id);
	return __ldg((const unsigned long long *)g.rank_of_vertex + id);
}

/* Counts invalid ids and keeps the smallest index. One lane does this for the warp. */
static __device__ __forceinline__ void report_bad(const struct rung__cuda_gather &g,
                                                  uint64_t index_first, bool bad)
{
	const unsigned lanes = __ballot_sync(WARP_ALL, bad);

	if (lanes && threadIdx.x % WARP_LANES == 0) {
		atomicAdd(&g.counts->bad_count, (unsigned long long)__popc(lanes));
		atomicMax(&g.counts->bad_index_inverted,
		          ~(unsigned long long)(index_first + (unsigned)__ffs((int)lanes) - 1));
	}
}

/* Appends the warp's misses to the lists with one atomic. The order of the lists is arbitrary. */
static __device__ __forceinline__ void list_misses(const struct rung__cuda_gather &g, uint64_t i,
                                                   uint64_t rank, bool miss)
{
	const unsigned lane = threadIdx.x % WARP_LANES;
	const unsigned lanes = __ballot_sync(WARP_ALL, miss);
	unsigned long long at = 0;

	if (!lanes)
		return;
	if (lane == 0)
		at = atomicAdd(&g.counts->miss_count, (unsigned long long)__popc(lanes));
	if (!g.miss_ranks)
		return;
	at = __shfl_sync(WARP_ALL, at, 0) + (unsigned)__popc(lanes & ((1u << lane) - 1));
	if (miss) {
		__stwb((unsigned long long *)g.miss_ranks + at, (unsigned long long)rank);
		__stwb(g.miss_rows + at, (unsigned)i);
	}
}

/* Adds the warp's rows per view: lane v keeps the count of view v until the block ends. */
static __device__ __forceinline__ uint32_t count_views(const struct rung__cuda_gather &g,
                                                       uint32_t view, uint32_t counted)
{
	for (uint32_t v = 0; v < g.view_count; v++) {
		const unsigned lanes = __ballot_sync(WARP_ALL, view == v);

		if (threadIdx.x % WARP_LANES == v)
			counted += (unsigned)__popc(lanes);
	}
	return counted;
}

/* Moves the counts to the report and zeroes them for the next gather. One warp of the last block
 * calls it. */
static __device__ __forceinline__ void write_report(const struct rung__cuda_gather &g)
{
	const unsigned lane = threadIdx.x % WARP_LANES;

	if (lane < g.view_count)
		__stwb((unsigned long long *)&g.report->view_rows[lane],
		       atomicExch(&g.counts->view_rows[lane], 0ull));
	if (lane != 0)
		return;
	__stwb((unsigned long long *)&g.report->miss_count,
	       atomicExch(&g.counts->miss_count, 0ull));
	const unsigned long long bad_count = atomicExch(&g.counts->bad_count, 0ull);
	const unsigned long long bad_index = ~atomicExch(&g.counts->bad_index_inverted, 0ull);

	__stwb((unsigned long long *)&g.report->bad_count, bad_count);
	if (bad_count) {
		__stwb((unsigned long long *)&g.report->bad_index, bad_index);
		__stwb((unsigned long long *)&g.report->bad_id,
		       (unsigned long long)id_at(g, bad_index));
	}
	atomicExch(&g.counts->items_taken[NEAR], 0u);
	atomicExch(&g.counts->items_taken[LINK], 0u);
}

/* Every thread of the grid calls this once. */
static __device__ __forceinline__ void finish_block(const struct rung__cuda_gather &g,
                                                    uint32_t view_rows)
{
	const unsigned lane = threadIdx.x % WARP_LANES;

	if (lane < g.view_count && view_rows)
		atomicAdd(&g.counts->view_rows[lane], (unsigned long long)view_rows);
	if (!is_last_block(&g.counts->blocks_done))
		return;
	write_report(g);
	end_launch(&g.counts->blocks_done, g.end);
}

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

/* The lane of set bit number n of `lanes`, counted from 0; any lane if fewer bits are set. */
static __device__ __forceinline__ uint32_t nth_lane(unsigned lanes, uint32_t n)
{
	uint32_t lane = 0;

#pragma unroll
	for (uint32_t width = WARP_LANES / 2; width > 0; width /= 2) {
		const uint32_t set = (uint32_t)__popc(lanes >> lane & ((1u << width) - 1));

		if (n >= set) {
			n -= set;
			lane += width;
		}
	}
	return lane;
}

/* Move the rows of a warp to its first lanes, because idle lanes in between would have no loads in
 * flight.
 * @return the number of rows */
static __device__ __forceinline__ uint32_t pack_rows(struct row_move *move)
{
	const unsigned lane = threadIdx.x % WARP_LANES;
	const unsigned lanes = __ballot_sync(WARP_ALL, move->from != NULL);
	const uint32_t count = (uint32_t)__popc(lanes);
	const int source = (int)nth_lane(lanes, lane);
	const unsigned long long mine = (unsigned long long)(uintptr_t)move->from;
	const unsigned long long from = __shfl_sync(WARP_ALL, mine, source);

	move->to_row = __shfl_sync(WARP_ALL, move->to_row, source);
	move->from = lane < count ? (const unsigned char *)(uintptr_t)from : NULL;
	return count;
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

	/* Both parts share one loop and one copy_rows(), because two would need too many
	 * registers. */
	while (item < part.item_count || waiting > 0) {
		const uint64_t first = (uint64_t)item * part.item_ids;
		struct row_move move;
		uint32_t rows;

		if (which == NEAR) {
			rows = near_rows(g, first, part.item_ids, &view_rows, &move);
			item = next_item(taken, part);
		} else {
			/* Collect a full tile first, so that its rows are in flight together even
			 * if only few of the ids are over a link. */
			if (item < part.item_count && waiting < part.rows.tile_rows) {
				waiting = find_link_rows(g, first, part.item_ids, queue, waiting);
				item = next_item(taken, part);
				if (item < part.item_count && waiting < part.rows.tile_rows)
					continue;
			}
			rows = RUNG__MIN(waiting, part.rows.tile_rows);
			waiting -= rows;
			move = copy_link_row(g, queue, waiting, rows);
		}
		copy_rows<Piece>(move, rows, part.rows, g.out, g.out_stride);
	}
	finish_block(g, view_rows);
}

/* ---- host side ---- */

static void (*const kernels[])(struct rung__cuda_gather,
                               struct gather_shape) = { gather_rows<uint4>, gather_rows<unsigned>,
	                                                gather_rows<unsigned char> };

static int check_gather(const struct rung__cuda_gather *g, unsigned block_count)
{
	const bool wide = g->id_dtype == RUNG_I64 || g->id_dtype == RUNG_U64;
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
	rc = check_rows("gather kernel", g->row_bytes, g->out_stride);
	if (rc < 0)
		return rc;
	if (block_count < 1 || !g->counts || !g->report ||
	    (g->id_count && (!g->ids || !g->out || (g->miss_ranks && !g->miss_rows))))
		return rung__fail(RUNG_E_INVAL, "gather kernel: an argument is missing: blocks, "
		                                "ids, output, miss list, counts or report");
	return check_views("gather kernel", g->views, g->view_count, g->row_count, g->row_bytes);
}

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

static uint32_t item_count(const struct rung__cuda_gather *g, uint32_t item_ids)
{
	return (uint32_t)((g->id_count + item_ids - 1) / item_ids);
}

/* LINK gets as many blocks as saturate the link, but at most half of the grid. Chunks shrink until
 * each warp has a chunk and no chunk has too many bytes. */
static void shape_link(const struct rung__cuda_gather *g, uint32_t piece, uint64_t link,
                       unsigned block_count, struct gather_part *part)
{
	/* the other half of the grid looks up all ids */
	const unsigned half = RUNG__MAX(block_count / 2, 1u);
	const unsigned blocks = RUNG__MIN(link_blocks(piece, g->link_bytes), half);

	part->rows = rows_shape_make(g->row_bytes, piece, link, g->id_count, blocks);
	part->item_ids = CHUNK_IDS;
	while (part->item_ids > 1 && ((uint64_t)part->item_ids * g->row_bytes > CHUNK_BYTES ||
	                              item_count(g, part->item_ids) < blocks * WARPS))
		part->item_ids /= 2;
	part->item_count = item_count(g, part->item_ids);
	part->block_count = RUNG__MIN(blocks, (part->item_count - 1) / WARPS + 1);
}

static void shape_near(const struct rung__cuda_gather *g, uint32_t piece, uint64_t near,
                       unsigned block_first, unsigned block_count, struct gather_part *part)
{
	const unsigned blocks = block_count > block_first ? block_count - block_first : 1;

	part->rows = rows_shape_make(g->row_bytes, piece, 0, g->id_count, blocks);
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
	unsigned blocks;
	uint32_t piece;
	cudaError_t err;
	int rc = check_gather(g, block_count);

	if (rc < 0 || g->id_count == 0)
		return rc;
	ored_views(g, &near, &link);
	piece = piece_bytes(near | link | g->row_bytes | (uint64_t)(uintptr_t)g->out |
	                    g->out_stride);
	if (link)
		shape_link(g, piece, link, block_count, &shape.parts[LINK]);
	shape_near(g, piece, near, shape.parts[LINK].block_count, block_count, &shape.parts[NEAR]);
	blocks = shape.parts[LINK].block_count + shape.parts[NEAR].block_count;
	err = start_pieces(kernels, piece, *g, shape, blocks, stream);
	return cuda_status(err, "starting the gather kernel");
}

extern "C" int rung__cuda_gather_blocks(unsigned *block_count_out)
{
	return cuda_load(kernels, BLOCK_THREADS, "loading the gather kernels", block_count_out);
}

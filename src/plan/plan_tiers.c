/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dividing the budgets among the tiers. Ranks are ordered from hot to cold, so a tier holds a range
 * of ranks, and the tier of a row is found by comparing its rank with the borders. The budgets are
 * spent from the fastest tier to the slowest: GPUs, then host memory; the remaining ranks are read
 * from files.
 */
#include <string.h>

#include "cache/cache.h"
#include "file/file.h"
#include "plan/plan.h"

#define CACHE_SHARE    8u  /* default: the cold-row cache is 1/8 of the budget */
#define CACHE_ROWS_MIN 16u /* a smaller cache is not worth a lookup per cold row */
#define FRAME_ALIGN    16u /* the widest load of a kernel */
#define SLOT_COUNT_MIN 4u  /* fewer cannot overlap reads with copies */
/* the slots take at most this part of the budget, unless the minimum is more */
#define SLOT_SHARE 8u
/* or at most this part, if the slots are fewer and larger: on a small graph, reads that serve many
 * rows save more time than cached rows do */
#define SLOT_SHARE_MAX 2u
#define SLOTS_OF_CPU   2u /* slots per read in flight: one is read into, one is copied from */
/* slots per read in flight: filled slots wait for a kernel, which copies many at once */
#define SLOTS_OF_GPU 16u

uint64_t rung__plan_lists_bytes(const struct rung_plan *plan)
{
	const struct rung_plan *lists = plan->structure;

	return lists ? lists->tiers[RUNG__TIER_HOST].bytes +
	                       lists->slots.slot_count * lists->slots.slot_bytes
	             : 0;
}

/* Report a budget that cannot hold the slots. The least that works is in the message, and as a
 * number in rung_last_error_min_bytes().
 * @param host_bytes  without the lists of the graph, which are in memory already */
static int fail_slots(const struct rung_plan *plan, uint64_t host_bytes, uint64_t count,
                      uint64_t slot_bytes)
{
	const uint64_t lists = rung__plan_lists_bytes(plan);
	const uint64_t least = slot_bytes * count + plan->bytes.map + lists;
	/* callers express a structure of 0 bytes, which the options cannot, by 1 byte */
	const uint64_t given = plan->is_lists && host_bytes == 1 ? 0 : host_bytes + lists;

	return rung__fail_min_bytes(least,
	                            "a %s of %" PRIu64 " bytes cannot hold the %" PRIu64
	                            " staging slots of %" PRIu64 " bytes each (for %s of %" PRIu64
	                            " bytes)%s%s; give at least %" PRIu64 " bytes",
	                            plan->is_lists ? "structure" : "host budget", given, count,
	                            slot_bytes, plan->is_lists ? "blocks" : "rows", plan->row_bytes,
	                            plan->bytes.map ? " and the map of rows staged in place" : "",
	                            lists ? " next to the lists of the graph" : "", least);
}

/*
 * Choose size and number of the staging slots. They are large enough for several rows per read, if
 * the budget then still allows one slot for each read in flight; otherwise each holds one row. With
 * slots of one page no rows share a read: on ogbn-arxiv, with 5 % of its rows in memory, that took
 * three times as many reads. The map of rows staged in place is subtracted first, because the store
 * cannot read without it.
 */
static int choose_slots(struct rung_plan *plan, uint64_t host_bytes)
{
	const uint32_t depth = plan->queue_depth;
	const uint64_t budget = host_bytes - RUNG__MIN(host_bytes, plan->bytes.map);
	uint64_t span = rung__row_span(plan->row_bytes, plan->row_stride, plan->data_offset,
	                               RUNG__PAGE_BYTES);
	/* bytes, large enough for several adjacent rows in one read; 0: one row, in its longest
	 * read */
	static const uint64_t good[] = { 65536, 16384, 0 };
	uint64_t slot, count, least = SLOT_COUNT_MIN * plan->file_count;

	for (unsigned i = 0;; i++) {
		slot = RUNG__MAX(span, good[i]);
		count = budget / SLOT_SHARE / plan->file_count / slot;
		if (count >= depth || good[i] == 0)
			break;
		if (budget / SLOT_SHARE_MAX / plan->file_count / slot >= depth) {
			count = depth;
			break;
		}
	}
	/* fewer than the minimum cannot overlap; more would stay empty but take memory from rows */
	count = RUNG__MIN(
		RUNG__MAX(count, SLOT_COUNT_MIN),
		depth * (plan->device.device == RUNG_DEVICE_CPU ? SLOTS_OF_CPU : SLOTS_OF_GPU));
	count = RUNG__MIN(count, RUNG__SLOT_COUNT_MAX);
	if (slot > UINT32_MAX)
		return rung__fail(
			RUNG_E_INVAL,
			"rows of %" PRIu64
			" bytes are too large for a staging slot (4 GiB); split the features",
			plan->row_bytes);
	count *= plan->file_count; /* each file has its own slots, refill thread and queue */
	if (slot * count > budget)
		return fail_slots(plan, host_bytes, least, slot);
	plan->slots.slot_bytes = slot;
	plan->slots.slot_count = count;
	return 0;
}

/* Host memory of a cache: index, replacement lists and frames. */
static uint64_t cache_bytes(const struct rung__cache_shape *shape, uint64_t frame)
{
	return rung__cache_index_bytes(shape) +
	       rung__align_up(shape->frame_count * frame, RUNG__PAGE_BYTES);
}

/* Size the cold-row cache for `bytes` bytes: as many frames as fit, but no cache if fewer than
 * CACHE_ROWS_MIN fit. Only ranks from `first` on can be cached, because hotter ones are in
 * memory. */
static void choose_cache(struct rung_plan *plan, uint64_t bytes, uint64_t first)
{
	const uint64_t frame = rung__align_up(plan->row_bytes, FRAME_ALIGN);
	struct rung__cache_shape shape = { .rank_first = first,
		                           .row_count = plan->vertex_count - first };

	shape.frame_count = RUNG__MIN(RUNG__MIN(bytes / frame, shape.row_count), RUNG__FRAMES_MAX);
	/* The index grows with the frames and the frames are rounded up to pages, so the quotient
	 * above may be slightly too large; each step reduces it by about 1/64. */
	while (shape.frame_count >= CACHE_ROWS_MIN && cache_bytes(&shape, frame) > bytes)
		shape.frame_count -= shape.frame_count / 64 + 1;
	if (shape.frame_count < CACHE_ROWS_MIN)
		return;
	plan->cache = (struct rung_plan_cache){
		.row_count = shape.frame_count,
		.frame_bytes = frame,
		.bytes = cache_bytes(&shape, frame),
	};
}

uint64_t rung__share_of(uint64_t whole, double share)
{
	return share >= 1 ? whole : (uint64_t)((double)whole * share);
}

/*
 * Bytes for the cold-row cache, at most `left`.
 * @param host_bytes  the whole host budget with the lists, to which cache_share refers
 * @param budget the part of it for rows, slots and cache; the default cache is a share of this part
 */
static uint64_t cache_budget(const struct rung_plan_opts *opts, uint64_t host_bytes,
                             uint64_t budget, uint64_t left)
{
	if (opts->cache_bytes == RUNG_BYTES_NONE)
		return 0;
	if (opts->cache_share > 0)
		return RUNG__MIN(rung__share_of(host_bytes, opts->cache_share), left);
	return RUNG__MIN(opts->cache_bytes ? opts->cache_bytes : budget / CACHE_SHARE, left);
}

/* Assign the next ranks to a tier: `rows`, or the remaining ones if they are fewer.
 * @return the number of assigned ranks */
static uint64_t give_ranks(struct rung_plan *plan, enum rung__tier_id tier, uint64_t first,
                           uint64_t rows)
{
	plan->tiers[tier].rank_first = first;
	plan->tiers[tier].row_count = RUNG__MIN(rows, plan->vertex_count - first);
	return plan->tiers[tier].row_count;
}

/*
 * Place the same share of the graph and of the rows on the GPUs. Hot vertices come first in both,
 * so both borders are at the same vertex. The lines of each array are interleaved over the GPUs.
 * @return bytes on each GPU
 */
static uint64_t place_graph(struct rung_plan *plan, uint64_t gpu_bytes)
{
	uint64_t gpu_count = plan->device.gpu_count;
	double all = (double)(plan->graph.bytes + plan->vertex_count * plan->row_stride);
	double share = (double)gpu_bytes * (double)gpu_count / all;
	struct rung__graph_location *graph = &plan->graph;

	graph->indptr_lines = rung__share_of(plan->graph_lines[0], share);
	graph->indices_lines = rung__share_of(plan->graph_lines[1], share);
	graph->gpu_bytes = (graph->indptr_lines + graph->indices_lines) * RUNG__LINE_BYTES;
	/* each GPU has the rounded-up number of lines, which may exceed the budget by a line per
	 * array */
	return RUNG__MIN(gpu_bytes, ((graph->indptr_lines + gpu_count - 1) / gpu_count +
	                             (graph->indices_lines + gpu_count - 1) / gpu_count) *
	                                    RUNG__LINE_BYTES);
}

uint64_t rung__plan_on_gpus(struct rung_plan *plan, const struct rung_plan_opts *opts,
                            uint64_t gpu_bytes)
{
	uint64_t map_bytes = plan->vertex_count * (plan->vertex_count <= UINT32_MAX ? 4 : 8);
	uint64_t gpu_count = plan->device.gpu_count;
	uint64_t local = gpu_bytes, peer = 0, rows;

	if (opts->vertex_ids && map_bytes <= gpu_bytes / 2) {
		plan->device.map_on_gpu = 1;
		local -= map_bytes;
	}
	if (gpu_count > 0 && opts->sample_on_gpu)
		local -= place_graph(plan, local);
	if (gpu_count > 1) {
		peer = local - RUNG__MIN(local, opts->replicate_bytes);
		local -= peer;
	}
	if (plan->row_stride == 0) /* no features: GPUs hold nothing of them */
		return give_ranks(plan, RUNG__TIER_GPU, 0, 0);
	rows = give_ranks(plan, RUNG__TIER_GPU, 0, local / plan->row_stride);
	peer /= plan->row_stride;
	/* a budget of RUNG_BYTES_MAX holds all rows, however many bytes they have */
	if (gpu_count > 1 && !rung__mul(peer, gpu_count, &peer))
		peer = UINT64_MAX;
	return rows + give_ranks(plan, RUNG__TIER_PEER, rows, peer);
}

/*
 * Divide the host budget, and with it the ranks from `first` on, which are not on GPUs. If all of
 * these rows fit, no row is read from files, so there are no slots and no cache. Otherwise slots
 * come first, because nothing can be read without them, then the cache, and the rows get the rest.
 */
int rung__plan_on_host(struct rung_plan *plan, const struct rung_plan_opts *opts,
                       uint64_t host_bytes, uint64_t first)
{
	uint64_t host_rows = plan->vertex_count - first;
	uint64_t graph_bytes = plan->graph.bytes - plan->graph.gpu_bytes;
	uint64_t budget = host_bytes, left, cache;
	int rc;

	if (graph_bytes > budget)
		return rung__fail(RUNG_E_INVAL,
		                  "a host budget of %" PRIu64 " bytes cannot hold the %" PRIu64
		                  " bytes of the graph that are not on "
		                  "a GPU; give a larger budget, or sample on the CPU",
		                  budget, graph_bytes);
	/* RUNG_BYTES_MAX means no limit, so nothing can be subtracted from it */
	budget -= budget == RUNG_BYTES_MAX ? 0 : graph_bytes;
	/* no overflow: at most the size of the features, which was checked */
	if (host_rows * plan->row_stride > budget) {
		rc = choose_slots(plan, budget);
		if (rc < 0)
			return rc;
		budget -= plan->bytes.map;
		left = budget - plan->slots.slot_bytes * plan->slots.slot_count;
		cache = cache_budget(opts, plan->bytes.host, budget, left);
		choose_cache(plan, cache,
		             first + RUNG__MIN(host_rows, (left - cache) / plan->row_stride));
		/* a cache below the minimum was omitted: its bytes go to rows */
		host_rows = RUNG__MIN(host_rows, (left - plan->cache.bytes) / plan->row_stride);
		/* no more frames than rows that are read from files */
		plan->cache.row_count =
			RUNG__MIN(plan->cache.row_count, plan->vertex_count - first - host_rows);
	}
	first += give_ranks(plan, RUNG__TIER_HOST, first, host_rows);
	if (give_ranks(plan, RUNG__TIER_NVME, first, UINT64_MAX) == 0) {
		/* every row is in memory: the store needs no rank-to-vertex map either */
		plan->slots = (struct rung_plan_slots){ 0, 0 };
		plan->cache = (struct rung_plan_cache){ 0, 0, 0 };
		plan->bytes.map = 0;
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draws from lists that are in a file.
 *
 * The draws of all cold vertices of a hop become runs, which are sorted by their position in the
 * file. The blocks that contain them are then ascending, and each is requested once, however many
 * lists it has. A long list has one run per draw, so only the blocks with drawn entries are read.
 * Runs of different vertices have no entry in common; those of repeated seeds are equal.
 * The blocks are read in a few large requests: the limit bounds the memory, and is far above the
 * number of reads that a device has in flight.
 */
#include <assert.h>
#include <string.h>

#include "sample/sample.h"
#include "sort/radix.h"

/* Ensure space for `count` runs and for the draws of a list. The content is lost when it grows. */
static int reserve_runs(struct rung__cold_runs *cold, uint64_t count)
{
	/* half more, so that growing is rare */
	const uint64_t wanted = count + count / 2;

	if (count <= cold->capacity)
		return 0;
	rung__free(cold->memory);
	cold->capacity = 0;
	cold->memory = rung__malloc_array(wanted, 5 * sizeof(uint64_t) + 2 * sizeof(uint32_t));
	if (!cold->memory)
		return rung__fail(RUNG_E_NOMEM,
		                  "batch: no memory for %" PRIu64 " draws from lists in files; "
		                  "use a smaller batch or fanout",
		                  wanted);
	cold->edges = cold->memory;
	cold->edges_tmp = cold->edges + wanted;
	cold->slots = cold->edges_tmp + wanted;
	cold->counts = cold->slots + wanted;
	cold->positions = cold->counts + wanted;
	cold->idx = (uint32_t *)(cold->positions + wanted);
	cold->idx_tmp = cold->idx + wanted;
	cold->capacity = wanted;
	return 0;
}

/* Memory of a request, allocated when a thread meets its first cold list. */
static int reserve_blocks(struct rung__cold_runs *cold)
{
	if (cold->bytes)
		return 0;
	if (!cold->blocks)
		cold->blocks = rung__malloc_array(RUNG__LIST_BLOCKS_MAX, sizeof(*cold->blocks));
	if (cold->blocks)
		cold->bytes = rung__malloc_array(RUNG__LIST_BLOCKS_MAX, RUNG__LIST_BLOCK_BYTES);
	return cold->bytes ? 0
	                   : rung__fail(RUNG_E_NOMEM, "batch: no memory for %u blocks of lists",
	                                RUNG__LIST_BLOCKS_MAX);
}

void rung__cold_runs_fini(struct rung__cold_runs *cold)
{
	rung__free(cold->memory);
	rung__free(cold->blocks);
	rung__free(cold->bytes);
}

/* ---- collecting runs ---- */

static void add_run(struct rung__cold_runs *cold, uint64_t edge, uint64_t slot, uint64_t count)
{
	assert(cold->count < cold->capacity);
	cold->edges[cold->count] = edge;
	cold->idx[cold->count] = (uint32_t)cold->count;
	cold->slots[cold->count] = slot;
	cold->counts[cold->count++] = count;
}

/* Add the draws of a vertex. Entries in memory are copied at once: the list that begins in memory
 * and ends in the file has both kinds. */
static void add_vertex(const struct rung__lists *lists, uint64_t hop_key, uint64_t vertex,
                       struct rung__list list, uint64_t slot, uint64_t count,
                       struct rung__space *space, void *drawn)
{
	struct rung__cold_runs *cold = &space->cold;
	const unsigned bytes = lists->csc.index_bytes;
	const uint64_t hot = lists->resident_count - RUNG__MIN(lists->resident_count, list.begin);

	if (count == list.degree) {
		if (hot > 0)
			memcpy((char *)drawn + slot * bytes,
			       (const char *)lists->csc.indices + list.begin * bytes, hot * bytes);
		add_run(cold, list.begin + hot, slot + hot, count - hot);
		return;
	}
	rung__draw_positions(hop_key, vertex, list.degree, count, space->set, cold->positions);
	for (uint64_t k = 0; k < count; k++) {
		const uint64_t edge = list.begin + cold->positions[k];

		if (cold->positions[k] < hot)
			rung__id_set(drawn, bytes, slot + k,
			             rung__id_get(lists->csc.indices, bytes, edge));
		else
			add_run(cold, edge, slot + k, 1);
	}
}

/* The number of runs that these vertices need at most. */
static uint64_t count_runs(const struct rung__lists *lists, const uint64_t *vertices,
                           uint64_t first, uint64_t end, const uint64_t *indptr)
{
	uint64_t runs = 0;

	for (uint64_t i = first; i < end; i++) {
		const uint64_t count = indptr[i + 1] - indptr[i];
		const struct rung__list list =
			rung__list_of(lists, vertices[i], lists->csc.indptr == NULL);

		if (count > 0 && rung__list_is_cold(lists, list))
			runs += count == list.degree ? 1 : count;
	}
	return runs;
}

/* ---- reading them ---- */

/* A request that is being assembled and delivered. */
struct request {
	const struct rung__lists *lists;
	struct rung__cold_runs *cold;
	uint64_t block_entries;
	uint64_t first; /* first run of the request, in the sorted order */
	uint64_t done;  /* entries of that run that earlier requests have delivered */
	uint64_t block_count;
	void *drawn;
};

/* Collect the blocks of the next runs. @return the run after the last that is complete in this
 * request */
static uint64_t collect(struct request *request)
{
	struct rung__cold_runs *cold = request->cold;
	uint64_t done = request->done, run;

	request->block_count = 0;
	for (run = request->first; run < cold->count; run++, done = 0) {
		const uint64_t count = cold->counts[cold->idx[run]];
		const uint64_t last = (cold->edges[run] + count - 1) / request->block_entries;
		uint64_t block = (cold->edges[run] + done) / request->block_entries;

		if (request->block_count && block < cold->blocks[0])
			return run; /* equal to a run that began in an earlier request */
		if (request->block_count)
			block = RUNG__MAX(block, cold->blocks[request->block_count - 1] + 1);
		for (; block <= last; block++) {
			if (request->block_count == RUNG__LIST_BLOCKS_MAX)
				return run;
			cold->blocks[request->block_count++] = block;
		}
	}
	return run;
}

/* Copy the entries of a run that are in the request's blocks, the first of which is at `*at`, and
 * check them. */
static int deliver_run(struct request *request, uint64_t run, uint64_t *at)
{
	const struct rung__lists *lists = request->lists;
	struct rung__cold_runs *cold = request->cold;
	const unsigned bytes = lists->csc.index_bytes;
	const uint64_t edge = cold->edges[run] + request->done, slot = cold->slots[cold->idx[run]],
		       left = cold->counts[cold->idx[run]] - request->done;
	uint64_t count;

	while (cold->blocks[*at] < edge / request->block_entries)
		++*at;
	/* blocks that follow each other in the file also do so in memory */
	count = RUNG__MIN(left, (request->block_count - *at) * request->block_entries -
	                                edge % request->block_entries);
	for (uint64_t k = 0; k < count; k++) {
		const uint64_t id = rung__id_get(cold->bytes + *at * RUNG__LIST_BLOCK_BYTES, bytes,
		                                 edge % request->block_entries + k);

		if (id >= rung__lists_sources(lists))
			return rung__fail(RUNG_E_RANGE,
			                  "%s: entry %" PRIu64 " is %" PRIu64
			                  ", not below the vertex count %" PRIu64
			                  "; run rung verify, and stage the dataset again",
			                  lists->path, edge + k, id, rung__lists_sources(lists));
		rung__id_set(request->drawn, bytes, slot + request->done + k, id);
	}
	request->done = count < left ? request->done + count : 0;
	return 0;
}

/* Whether the next entry of a run is in a block of the request. */
static bool has_begun(const struct request *request, uint64_t run)
{
	const uint64_t block = (request->cold->edges[run] + request->done) / request->block_entries;

	return block >= request->cold->blocks[0] &&
	       block <= request->cold->blocks[request->block_count - 1];
}

static int read_runs(const struct rung__lists *lists, struct rung__cold_runs *cold, void *drawn)
{
	struct request request = {
		.lists = lists,
		.cold = cold,
		.block_entries = RUNG__LIST_BLOCK_BYTES / lists->csc.index_bytes,
		.drawn = drawn,
	};
	int rc = 0;

	while (request.first < cold->count && rc == 0) {
		const uint64_t end = collect(&request);
		uint64_t at = 0;

		rc = lists->read(lists, cold->blocks, request.block_count, cold->bytes);
		for (uint64_t run = request.first; run < end && rc == 0; run++)
			rc = deliver_run(&request, run, &at);
		/* the last run may continue in the next request; it must have begun in this one */
		if (rc == 0 && end < cold->count && has_begun(&request, end))
			rc = deliver_run(&request, end, &at);
		request.first = end;
	}
	return rc;
}

/* Collect the cold draws of vertices[first .. end) as runs, sorted by their position in the file.
 * @return 0, RUNG_E_NOMEM or RUNG_E_INVAL; cold->count is 0 if no draw is cold */
static int collect_runs(const struct rung__lists *lists, uint64_t hop_key, const uint64_t *vertices,
                        uint64_t first, uint64_t end, const uint64_t *indptr,
                        struct rung__space *space, void *drawn)
{
	struct rung__cold_runs *cold = &space->cold;
	const unsigned edge_bits = 64u - (unsigned)__builtin_clzll(lists->csc.edge_count | 1);
	const uint64_t runs = count_runs(lists, vertices, first, end, indptr);
	int rc;

	cold->count = 0;
	if (runs > UINT32_MAX)
		return rung__fail(RUNG_E_INVAL,
		                  "sampling: %" PRIu64
		                  " draws from lists in files in one hop; use fewer seeds",
		                  runs);
	rc = reserve_runs(cold, runs);
	if (rc < 0 || runs == 0)
		return rc;
	for (uint64_t i = first; i < end; i++) {
		const uint64_t count = indptr[i + 1] - indptr[i];
		const struct rung__list list =
			rung__list_of(lists, vertices[i], lists->csc.indptr == NULL);

		if (count > 0 && rung__list_is_cold(lists, list))
			add_vertex(lists, hop_key, vertices[i], list, indptr[i], count, space,
			           drawn);
	}
	rung__radix_sort_pairs(cold->edges, cold->idx, cold->edges_tmp, cold->idx_tmp, cold->count,
	                       edge_bits);
	return 0;
}

int rung__draw_cold(const struct rung__lists *lists, uint64_t hop_key, const uint64_t *vertices,
                    uint64_t first, uint64_t end, const uint64_t *indptr, struct rung__space *space,
                    void *drawn)
{
	int rc = collect_runs(lists, hop_key, vertices, first, end, indptr, space, drawn);

	if (rc == 0 && space->cold.count > 0)
		rc = reserve_blocks(&space->cold);
	return rc < 0 ? rc : read_runs(lists, &space->cold, drawn);
}

int rung__hop_blocks(const struct rung_sampler *sampler, const struct rung_batch *batch,
                     uint64_t batch_key, uint32_t hop, int (*add)(void *ctx, uint64_t block),
                     void *ctx)
{
	struct rung__lists lists = sampler->relations[0].lists;
	const struct rung_block *block = &batch->blocks[hop];
	const uint64_t entries = RUNG__LIST_BLOCK_BYTES / lists.csc.index_bytes;
	struct rung__cold_runs *cold = &sampler->spaces[0].cold;
	uint64_t next = 0; /* blocks before it have been added */
	int rc;

	lists.resident_count = 0; /* all lists count, as if none was in memory */
	rc = collect_runs(&lists, rung__draw_hop_key(sampler->seed, batch_key, hop),
	                  batch->types[0].vertices, 0, block->dst_count, block->indptr,
	                  &sampler->spaces[0], NULL);
	for (uint64_t run = 0; run < cold->count && rc == 0; run++) {
		const uint64_t last =
			(cold->edges[run] + cold->counts[cold->idx[run]] - 1) / entries;

		next = RUNG__MAX(next, cold->edges[run] / entries);
		for (; next <= last && rc == 0; next++)
			rc = add(ctx, next);
	}
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes over graphs in files. Blocks are cut from the chunks that are read, at the same edges as
 * for a graph in memory, so that sums have the same bits. They are kept until the budget is used;
 * then they are a panel, which runs while the next chunks are read ahead. Tiles and values are not
 * kept from pass to pass.
 *
 * One thread fills the blocks: the one that runs the pass. Only panels are processed by all
 * threads.
 */
#include "propagation/propagation_files.h"

#include <string.h>

#include "edges/edges.h"
#include "graph/graph.h"
#include "propagation/state.h"

#define BLOCKS_WANTED 16u /* blocks per panel without a budget */

/* The state of a pass while its panels are filled. */
struct filling {
	struct rung__propagation *prop;
	const struct rung__propagation_rule *rule;
	uint64_t block_count; /* complete blocks of the next panel */
	uint64_t floats;      /* upper bound of their values */
	bool open;            /* blocks[block_count] is being filled */
	bool ran;             /* a panel of this pass has run */
	uint64_t edges_done;  /* read so far, for progress */
};

/* The copy of indptr for a block: the chunk that it comes from is overwritten by later ones. */
static uint64_t *indptr_of(const struct rung__propagation *prop, uint64_t block)
{
	return prop->indptr_copies + block * (RUNG__PROPAGATION_VERTICES_MAX + UINT64_C(1));
}

/* Run the complete blocks as a panel, and empty it. @param last  the pass ends with this panel */
static int run_panel(struct filling *fill, bool last)
{
	struct rung__propagation *prop = fill->prop;

	for (uint64_t i = 0; i < fill->block_count; i++)
		/* the ids of new edges have replaced the tiles */
		prop->blocks[i].tiled = false;
	rung__panel_run(prop, fill->rule, prop->blocks, fill->block_count, !fill->ran, last);
	fill->ran = true;
	fill->block_count = 0;
	fill->floats = 0;
	return rung__progress(prop->opts.progress, prop->opts.progress_ctx, "score",
	                      (prop->rules_run - 1) * prop->csc.edge_count + fill->edges_done,
	                      prop->opts.pass_total * prop->csc.edge_count);
}

/* Read the mutual bits of a block. The read begins at the page that has the first bit, because the
 * file is read with direct I/O. */
static int read_mutual(const struct rung__propagation *prop, uint64_t i)
{
	struct rung__block *block = &prop->blocks[i];
	const uint64_t first = block->edge_first / 64 * sizeof(uint64_t),
		       page = rung__align_down(first, RUNG__PAGE_BYTES);
	const uint64_t end =
		(block->edge_first + block->edge_count) / 64 * sizeof(uint64_t) + sizeof(uint64_t);
	unsigned char *scratch = prop->mutual_scratch + i * prop->mutual_scratch_bytes;

	block->mutual = (const uint64_t *)(const void *)(scratch + (first - page));
	return rung__direct_read(&prop->mutual_file, scratch, end - page, page);
}

/* Complete the open block, if there is one. Its mutual bits are read now, when its edges are
 * known. */
static int close_block(struct filling *fill)
{
	const uint64_t i = fill->block_count;

	if (!fill->open)
		return 0;
	fill->open = false;
	fill->block_count++;
	fill->floats += rung__block_values_max(fill->rule, &fill->prop->blocks[i]);
	return fill->prop->has_mutual ? read_mutual(fill->prop, i) : 0;
}

/* Open a block that begins with edge `edge` of list v. If the panel has no room for the largest
 * block, it runs first. */
static int open_block(struct filling *fill, uint64_t v, uint64_t edge)
{
	struct rung__propagation *prop = fill->prop;
	const struct rung__block largest = { .edge_count = prop->block_edges };
	struct rung__block *block;
	int rc = 0;

	if (fill->block_count == prop->block_count ||
	    fill->floats + rung__block_values_max(fill->rule, &largest) > prop->values_max)
		rc = run_panel(fill, false);
	if (rc < 0)
		return rc;
	block = &prop->blocks[fill->block_count];
	block->vertex_first = v;
	block->vertex_count = 0;
	block->edge_first = edge;
	block->edge_count = 0;
	fill->open = true;
	return 0;
}

/* Copy the ids of `count` edges of the chunk, from edge `edge` on, to the open block. */
static void append(struct filling *fill, const struct rung__edge_chunk *chunk, uint64_t edge,
                   uint64_t count)
{
	struct rung__block *block = &fill->prop->blocks[fill->block_count];
	const unsigned index_bytes = chunk->index_bytes;

	memcpy((char *)block->tiles + (uint64_t)block->edge_count * index_bytes,
	       (const char *)chunk->indices + (edge - chunk->edge_first) * index_bytes,
	       count * index_bytes);
	block->edge_count += (uint32_t)count;
}

/*
 * Append lists from the i-th of the chunk on, as long as they are complete in the chunk and fit
 * into the open block.
 * @return the number of appended lists
 */
static uint64_t append_lists(struct filling *fill, const struct rung__edge_chunk *chunk, uint64_t i)
{
	struct rung__block *block = &fill->prop->blocks[fill->block_count];
	const uint64_t *indptr = chunk->indptr;
	const uint64_t edge_end = RUNG__MIN(chunk->edge_first + chunk->edge_count,
	                                    block->edge_first + fill->prop->block_edges);
	const uint64_t count_max =
		RUNG__MIN(chunk->vertex_count - i,
	                  (uint64_t)(RUNG__PROPAGATION_VERTICES_MAX - block->vertex_count));
	uint64_t count = 0;

	while (count < count_max && indptr[i + count + 1] <= edge_end)
		count++;
	memcpy(indptr_of(fill->prop, fill->block_count) + block->vertex_count, indptr + i,
	       (count + 1) * sizeof(*indptr));
	block->vertex_count += (uint32_t)count;
	append(fill, chunk, indptr[i], indptr[i + count] - indptr[i]);
	return count;
}

/* Whether a list that ends before edge `end` fits completely into a block. */
static bool fits(const struct rung__propagation *prop, const struct rung__block *block,
                 uint64_t end)
{
	return block->vertex_count < RUNG__PROPAGATION_VERTICES_MAX &&
	       end - block->edge_first <= prop->block_edges;
}

/*
 * Append the part of the chunk's i-th list that is in this chunk. Such a list is longer than a
 * block, crosses a border of chunks, or does not fit into the open block. The rule is that of
 * rung__block_cut(): a list is divided only if it is longer than a block.
 */
static int append_part(struct filling *fill, const struct rung__edge_chunk *chunk, uint64_t i)
{
	const uint64_t begin = chunk->indptr[i], end = chunk->indptr[i + 1];
	const uint64_t edge_end = RUNG__MIN(end, chunk->edge_first + chunk->edge_count);
	uint64_t edge = RUNG__MAX(begin, chunk->edge_first);
	int rc = 0;

	if (fill->open && edge == begin &&
	    !fits(fill->prop, &fill->prop->blocks[fill->block_count], end))
		rc = close_block(fill);
	do {
		struct rung__block *block;
		uint64_t count;

		if (rc == 0 && !fill->open)
			rc = open_block(fill, chunk->vertex_first + i, edge);
		if (rc < 0)
			return rc;
		block = &fill->prop->blocks[fill->block_count];
		/* a vertex is added once per block: at the beginning of its list, or of the
		 * block */
		if (edge == begin || block->vertex_count == 0) {
			memcpy(indptr_of(fill->prop, fill->block_count) + block->vertex_count,
			       chunk->indptr + i, 2 * sizeof(*chunk->indptr));
			block->vertex_count++;
		}
		count = RUNG__MIN(edge_end - edge,
		                  (uint64_t)(fill->prop->block_edges - block->edge_count));
		append(fill, chunk, edge, count);
		edge += count;
		if (block->edge_count == fill->prop->block_edges && edge < end)
			rc = close_block(fill);
	} while (edge < edge_end);
	return rc;
}

/* Distribute a chunk over blocks. Called in the order of the edges. */
static int read_chunk(void *ctx, const struct rung__edge_chunk *chunk)
{
	struct filling *fill = ctx;
	uint64_t i = 0;

	while (i < chunk->vertex_count) {
		const bool begins = chunk->indptr[i] >= chunk->edge_first;
		const uint64_t whole = fill->open && begins ? append_lists(fill, chunk, i) : 0;
		int rc;

		i += whole;
		if (whole)
			continue;
		rc = append_part(fill, chunk, i);
		if (rc < 0)
			return rc;
		i++;
	}
	fill->edges_done = chunk->edge_first + chunk->edge_count;
	return 0;
}

/* Bytes of whole pages that hold the bits of a block, in whole words, at any position in the
 * file. */
static uint64_t mutual_scratch_bytes(const struct rung__propagation *prop)
{
	return rung__align_up(prop->block_edges / 8 + 2 * sizeof(uint64_t), RUNG__PAGE_BYTES) +
	       RUNG__PAGE_BYTES;
}

/* Memory of one block of a panel, with all its arrays. */
static uint64_t block_bytes(const struct rung__propagation *prop)
{
	const uint64_t starts = (prop->bin_count + UINT64_C(1)) * sizeof(*prop->starts);

	return (uint64_t)prop->block_edges * (prop->csc.index_bytes + sizeof(*prop->values)) +
	       RUNG__SIDES * starts + mutual_scratch_bytes(prop) +
	       (RUNG__PROPAGATION_VERTICES_MAX + UINT64_C(1)) * sizeof(*prop->indptr_copies) +
	       sizeof(struct rung__block);
}

/* Calculate the number of blocks that the budget allows in addition to the fixed memory. */
static int plan_blocks(struct rung__propagation *prop)
{
	const struct rung__propagation_opts *opts = &prop->opts;
	const uint64_t each = block_bytes(prop), records = (uint64_t)prop->block_edges *
	                                                   opts->width_max * sizeof(*prop->values);
	const uint64_t fixed =
		opts->other_bytes + (opts->sums ? 0 : prop->source_count * sizeof(*prop->sums)) +
		(uint64_t)opts->threads * rung__propagation_scratch_bytes(prop) + records;
	const uint64_t blocks_max = prop->csc.edge_count / prop->block_edges +
	                            prop->csc.vertex_count / RUNG__PROPAGATION_VERTICES_MAX + 1;
	uint64_t count = BLOCKS_WANTED;

	if (opts->memory_bytes) {
		if (opts->memory_bytes < fixed + each)
			return rung__fail_min_bytes(fixed + each,
			                            "score: a memory budget of %" PRIu64
			                            " bytes is too small: %" PRIu64 " vertices, "
			                            "%d threads and a block of edges need at "
			                            "least %" PRIu64,
			                            opts->memory_bytes, prop->csc.vertex_count,
			                            opts->threads, fixed + each);
		count = (opts->memory_bytes - fixed) / each;
	}
	/* there are never more blocks: two consecutive blocks have more edges than one block can
	 * have, or more vertices */
	prop->block_count = RUNG__MIN(count, 2 * blocks_max);
	prop->values_max =
		prop->block_count * (prop->block_edges + UINT64_C(2) * RUNG__LINE_FLOATS) +
		records / sizeof(*prop->values);
	return 0;
}

int rung__propagation_claim_blocks(struct rung__propagation *prop)
{
	const uint64_t count = prop->block_count, starts = prop->bin_count + UINT64_C(1);

	prop->mutual_scratch_bytes = mutual_scratch_bytes(prop);
	prop->blocks = rung__zalloc_array(count, sizeof(*prop->blocks));
	prop->starts = rung__malloc_array(count * starts, sizeof(*prop->starts));
	prop->record_starts = rung__malloc_array(count * starts, sizeof(*prop->record_starts));
	prop->indptr_copies =
		rung__malloc_array(count * (RUNG__PROPAGATION_VERTICES_MAX + UINT64_C(1)),
	                           sizeof(*prop->indptr_copies));
	prop->mutual_scratch = rung__malloc_aligned(RUNG__PAGE_BYTES,
	                                            (size_t)(count * prop->mutual_scratch_bytes));
	if (!prop->blocks || !prop->starts || !prop->record_starts || !prop->indptr_copies ||
	    !prop->mutual_scratch)
		return rung__fail(RUNG_E_NOMEM,
		                  "score: no memory for %" PRIu64
		                  " blocks of edges; give a smaller memory budget",
		                  count);
	for (uint64_t i = 0; i < count; i++) {
		struct rung__block *block = &prop->blocks[i];

		block->indptr = indptr_of(prop, i);
		block->starts[RUNG__PLAIN] = prop->starts + i * starts;
		block->starts[RUNG__RECORDS] = prop->record_starts + i * starts;
	}
	return rung__propagation_receive_panel(prop);
}

int rung__propagation_of_edges(struct rung_edges *edges, const struct rung__propagation_opts *opts,
                               struct rung__propagation **prop_out)
{
	struct rung_edges_info info = { .size = sizeof(info) };
	struct rung__propagation *prop;
	struct rung_csc csc;
	int rc = rung_edges_info(edges, &info);

	if (rc < 0)
		return rc;
	csc = (struct rung_csc){ .vertex_count = info.vertex_count,
		                 .edge_count = info.edge_count,
		                 .index_bytes = info.index_bytes };
	rc = rung__propagation_create(&csc, edges, opts, &prop);
	if (rc < 0)
		return rc;
	rc = plan_blocks(prop);
	if (rc == 0)
		rc = rung__propagation_claim_blocks(prop);
	if (rc < 0) {
		rung__propagation_close(prop);
		return rc;
	}
	*prop_out = prop;
	return 0;
}

int rung__propagation_run_files(struct rung__propagation *prop,
                                const struct rung__propagation_rule *rule)
{
	struct filling fill = { .prop = prop, .rule = rule };
	int rc = rung__edges_pass(prop->edges, read_chunk, &fill);

	if (rc == 0)
		rc = close_block(&fill);
	return rc < 0 ? rc : run_panel(&fill, true);
}

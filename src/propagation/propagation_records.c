/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Find the edges of a graph in memory that send records; they are marked in the tiles.
 *
 * Mutual edges: u -> v is mutual if v -> u is an edge too. The tiles of a bin contain all v that
 * send to its u, and v must be in in(u). A Bloom filter (Bloom, "Space/Time Trade-offs in Hash
 * Coding with Allowable Errors", 1970) of all lists in(u) of the bin, which fits in the cache,
 * excludes most other v. The remaining ones are grouped by u and looked up.
 *
 * Edges between vertices whose signatures have a common value: each v sends its signature in a
 * normal pass.
 */
#include <string.h>

#include "sort/lookup.h"
#include "propagation/minhash.h"
#include "propagation/state.h"

/* Edges into a bin that are possibly mutual. */
struct candidates {
	struct rung__candidate {
		uint32_t block, edge; /* position in the block's tiles */
	} * list;                     /* [edges_max] in the order of the tiles */
	uint64_t count;
	/* [vertices of a bin + 1] positions in ids at which the candidates of each vertex begin */
	uint64_t *starts;
	void *ids;        /* [edges_max] of index_bytes */
	uint64_t *mutual; /* [edges_max / 64 + 1] one bit for each of ids */
};

/* edges per word of the filter, on average; of the edges that are not mutual, one or two percent
 * then pass the filter */
#define EDGES_PER_WORD 4u

/* A blocked Bloom filter: an edge sets three bits of one word, so a test costs one access. */
struct filter {
	uint64_t *words;
	unsigned shift; /* shift of hashes: their upper bits select the word */
};

/* Number of words for a number of edges, a power of two, because hashes select words by their upper
 * bits. */
static uint64_t filter_words(uint64_t edge_count)
{
	uint64_t words = 2;

	while (words < edge_count / EDGES_PER_WORD)
		words *= 2;
	return words;
}

/* u is relative to its bin, so it has 13 bits at most and fits above v. */
static inline uint64_t filter_hash(uint64_t u, uint64_t v)
{
	return (v ^ u << 48) * UINT64_C(0x9e3779b97f4a7c15);
}

/* Three bits of a word, selected by lower bits of the hash; the upper ones select the word. */
static inline uint64_t filter_bits(uint64_t hash)
{
	return UINT64_C(1) << (hash >> 20 & 63) | UINT64_C(1) << (hash >> 26 & 63) |
	       UINT64_C(1) << (hash >> 32 & 63);
}

/* The passes whose tiles are marked, and the lists in which their u have v: of the same graph, or
 * of the opposite relation. */
struct reversed {
	const struct rung__propagation *prop;
	const struct rung_csc *lists; /* of [source_count] vertices u */
};

/* Position in the lists of the first entry of a bin's vertices. */
static uint64_t first_edge(const struct reversed *mk, uint32_t bin)
{
	return mk->lists
	        ->indptr[RUNG__MIN((uint64_t)bin << mk->prop->bin_bits, mk->prop->source_count)];
}

static inline __attribute__((always_inline)) void fill_list(const struct filter *filter,
                                                            unsigned index_bytes, const void *ids,
                                                            uint64_t begin, uint64_t end,
                                                            uint64_t u)
{
	for (uint64_t e = begin; e < end; e++) {
		const uint64_t v = rung__id_get(ids, index_bytes, e), hash = filter_hash(u, v);

		filter->words[hash >> filter->shift] |= filter_bits(hash);
	}
}

/* Add the lists in(u) of the bin to the filter. */
static void fill_filter(const struct reversed *mk, uint32_t bin, struct filter *filter)
{
	const struct rung_csc *csc = mk->lists;
	const uint64_t first = (uint64_t)bin << mk->prop->bin_bits,
		       edge_count = first_edge(mk, bin + 1) - first_edge(mk, bin);
	const uint64_t count =
		RUNG__MIN(UINT64_C(1) << mk->prop->bin_bits, mk->prop->source_count - first);
	const uint64_t words = filter_words(edge_count);

	filter->shift = 64 - (unsigned)__builtin_ctzll(words);
	memset(filter->words, 0, words * sizeof(*filter->words));
	for (uint64_t u = 0; u < count; u++) {
		if (csc->index_bytes == 4)
			fill_list(filter, 4, csc->indices, csc->indptr[first + u],
			          csc->indptr[first + u + 1], u);
		else
			fill_list(filter, 8, csc->indices, csc->indptr[first + u],
			          csc->indptr[first + u + 1], u);
	}
}

/* List the edges of a bin that pass the filter, in the order of its tiles. Every edge is stored,
 * and the position advances only for those that pass: a branch would be unpredictable. */
static void find_candidates(const struct rung__propagation *prop, uint32_t bin,
                            const struct filter *filter, struct candidates *found)
{
	uint64_t count = 0;

	for (uint64_t i = 0; i < prop->block_count; i++) {
		const struct rung__block *block = &prop->blocks[i];
		const uint16_t *u = block->tiles, *v = u + block->edge_count;

		for (uint32_t e = block->starts[RUNG__PLAIN][bin];
		     e < block->starts[RUNG__PLAIN][bin + 1]; e++) {
			const uint64_t hash = filter_hash(u[e], block->vertex_first + v[e]);

			found->list[count] = (struct rung__candidate){ (uint32_t)i, e };
			/* an edge that does not pass is overwritten by the next one */
			count += (filter_bits(hash) & ~filter->words[hash >> filter->shift]) == 0;
		}
	}
	found->count = count;
}

/* Edges in the tiles of a bin. */
static uint64_t bin_edges(const struct rung__propagation *prop, uint32_t bin)
{
	uint64_t count = 0;

	for (uint64_t i = 0; i < prop->block_count; i++)
		count += prop->blocks[i].starts[RUNG__PLAIN][bin + 1] -
		         prop->blocks[i].starts[RUNG__PLAIN][bin];
	return count;
}

/* Group the candidates by their u: a stable counting sort. */
static void gather_candidates(const struct reversed *mk, const struct candidates *found)
{
	const struct rung__propagation *prop = mk->prop;
	const uint64_t bin_vertices = UINT64_C(1) << prop->bin_bits;
	const unsigned index_bytes = mk->lists->index_bytes;
	uint64_t sum = 0;

	memset(found->starts, 0, (bin_vertices + 1) * sizeof(*found->starts));
	for (uint64_t k = 0; k < found->count; k++)
		found->starts[prop->blocks[found->list[k].block].tiles[found->list[k].edge] + 1]++;
	/* starts[u + 1]: next position for a candidate of u, and finally the end of its
	 * candidates */
	for (uint64_t u = 1; u <= bin_vertices; u++) {
		const uint64_t here = found->starts[u];

		found->starts[u] = sum;
		sum += here;
	}
	for (uint64_t k = 0; k < found->count; k++) {
		const struct rung__block *block = &prop->blocks[found->list[k].block];
		const uint16_t *edge = block->tiles + found->list[k].edge;

		rung__id_set(found->ids, index_bytes, found->starts[*edge + 1]++,
		             block->vertex_first + edge[block->edge_count]);
	}
}

/* Mark the tiles, in the order of gather_candidates(), advancing starts[] again. @return the number
 * of marked edges */
static uint64_t mark_tiles(const struct rung__propagation *prop, const struct candidates *found)
{
	uint64_t marked = 0;

	for (uint64_t k = 0; k < found->count; k++) {
		uint16_t *u = prop->blocks[found->list[k].block].tiles + found->list[k].edge;
		const uint64_t at = found->starts[*u]++,
			       bit = found->mutual[at / 64] >> (at % 64) & 1;

		*u |= (uint16_t)(bit * RUNG__PROPAGATION_MUTUAL);
		marked += bit;
	}
	return marked;
}

/* Mark the mutual edges in the tiles of one bin. @return their number */
static uint64_t mark_bin(const struct reversed *mk, uint32_t bin, struct filter *filter,
                         struct candidates *found, struct rung__lookup *set)
{
	const struct rung__propagation *prop = mk->prop;
	const struct rung_csc *csc = mk->lists;
	const uint64_t first = (uint64_t)bin << prop->bin_bits;
	const uint64_t count = RUNG__MIN(UINT64_C(1) << prop->bin_bits, prop->source_count - first);

	fill_filter(mk, bin, filter);
	find_candidates(prop, bin, filter, found);
	gather_candidates(mk, found);
	memset(found->mutual, 0, (found->count / 64 + 1) * sizeof(*found->mutual));
	for (uint64_t i = 0; i < count; i++) {
		const uint64_t begin = found->starts[i], end = found->starts[i + 1];
		const uint64_t free_id =
			rung__propagation_free_id(prop, first + i, prop->csc.vertex_count);

		if (begin == end)
			continue;
		rung__lookup_fill(set, free_id, csc->indices, csc->indptr[first + i],
		                  csc->indptr[first + i + 1], end - begin);
		rung__lookup_mark(set, free_id, found->ids, begin, end - begin, found->mutual,
		                  begin);
	}
	return mark_tiles(prop, found);
}

struct largest {
	/* numbers of edges: in a bin's tiles, in the in-lists of its vertices, in one list */
	uint64_t bin_out, bin_in, list;
};

/* The largest sizes of all bins: every thread allocates its buffers once, for these. */
static struct largest measure(const struct reversed *mk)
{
	const struct rung__propagation *prop = mk->prop;
	const struct rung_csc *csc = mk->lists;
	struct largest largest = { 0 };
	uint64_t list = 0;

	for (uint32_t bin = 0; bin < prop->bin_count; bin++) {
		largest.bin_out = RUNG__MAX(largest.bin_out, bin_edges(prop, bin));
		largest.bin_in =
			RUNG__MAX(largest.bin_in, first_edge(mk, bin + 1) - first_edge(mk, bin));
	}
#pragma omp parallel for num_threads(prop->opts.threads) reduction(max : list) schedule(static)
	for (uint64_t v = 0; v < csc->vertex_count; v++)
		list = RUNG__MAX(list, csc->indptr[v + 1] - csc->indptr[v]);
	largest.list = list;
	return largest;
}

/* Buffers of a thread that marks bins. */
struct marker {
	struct filter filter;
	struct candidates found;
	struct rung__lookup set;
	uint64_t word_bytes, list_bytes, id_bytes, slot_bytes;
};

/* Allocate the buffers of a thread. @return false: out of memory; marker_fini() frees those that
 * were allocated */
static bool marker_init(struct marker *marker, const struct reversed *mk,
                        const struct largest *largest)
{
	const unsigned index_bytes = mk->lists->index_bytes;
	struct candidates *found = &marker->found;

	*marker = (struct marker){
		.set.index_bytes = index_bytes,
		.word_bytes = filter_words(largest->bin_in) * sizeof(*marker->filter.words),
		.list_bytes = (largest->bin_out + 1) * sizeof(*found->list),
		.id_bytes = largest->bin_out * index_bytes,
		.slot_bytes = rung__lookup_slots(largest->list) * index_bytes,
	};
	found->starts =
		rung__malloc_array((UINT64_C(1) << mk->prop->bin_bits) + 1, sizeof(*found->starts));
	found->mutual = rung__malloc_array(largest->bin_out / 64 + 1, sizeof(*found->mutual));
	/* pages are allocated only when they are first written */
	found->list = rung__map_pages(marker->list_bytes);
	found->ids = rung__map_pages(marker->id_bytes);
	marker->set.slots = rung__map_pages(marker->slot_bytes);
	marker->filter.words = rung__map_pages(marker->word_bytes);
	return found->starts && found->mutual && found->list && found->ids && marker->set.slots &&
	       marker->filter.words;
}

static void marker_fini(const struct marker *marker)
{
	rung__free(marker->found.starts);
	rung__free(marker->found.mutual);
	rung__unmap_pages(marker->found.list, marker->list_bytes);
	rung__unmap_pages(marker->found.ids, marker->id_bytes);
	rung__unmap_pages(marker->set.slots, marker->slot_bytes);
	rung__unmap_pages(marker->filter.words, marker->word_bytes);
}

/* Mark the mutual edges of all bins. Each thread allocates its own buffers; a thread without memory
 * still takes part in the loop, but leaves its bins out, and the call fails. */
static int mark_bins(const struct reversed *mk, uint64_t *marked_out)
{
	const struct rung__propagation *prop = mk->prop;
	const struct largest largest = measure(mk);
	uint64_t marked = 0;
	bool complete = true;

#pragma omp parallel num_threads(prop->opts.threads) reduction(+ : marked)
	{
		struct marker marker;
		const bool usable = marker_init(&marker, mk, &largest);

#pragma omp for schedule(dynamic, 1)
		for (uint32_t bin = 0; bin < prop->bin_count; bin++) {
			if (usable)
				marked += mark_bin(mk, bin, &marker.filter, &marker.found,
				                   &marker.set);
		}
		marker_fini(&marker);
		if (!usable) {
#pragma omp atomic write
			complete = false;
		}
	}
	*marked_out = marked;
	if (complete)
		return 0;
	return rung__fail(RUNG_E_NOMEM,
	                  "mutual edges: no memory for the %" PRIu64
	                  " edges of a bin; use fewer threads",
	                  largest.bin_out);
}

/* Edges in all tiles, which is fewer than edge_count if loops were dropped. */
static uint64_t tiled_count(const struct rung__propagation *prop)
{
	uint64_t count = 0;

	for (uint64_t i = 0; i < prop->block_count; i++)
		count += rung__block_side_count(prop, &prop->blocks[i], RUNG__PLAIN);
	return count;
}

/* Divide all blocks into two sides, from now on. */
static int split_blocks(struct rung__propagation *prop)
{
	const uint64_t stride = prop->bin_count + UINT64_C(1);

	prop->record_starts =
		rung__malloc_array(prop->block_count * stride, sizeof(*prop->record_starts));
	if (!prop->record_starts)
		return rung__fail(RUNG_E_NOMEM,
		                  "mutual edges: no memory for the tiles of %" PRIu64 " blocks",
		                  prop->block_count);
#pragma omp parallel for num_threads(prop->opts.threads) schedule(dynamic, 1)
	for (uint64_t i = 0; i < prop->block_count; i++) {
		prop->blocks[i].starts[RUNG__RECORDS] = prop->record_starts + i * stride;
		rung__block_split(prop, &prop->blocks[i],
		                  &prop->scratch_list[rung__thread_number()]);
	}
	prop->two_sided = true;
	return 0;
}

/* send() of the pass that compares signatures: 32 bits, whatever their type. */
static void send_signatures(void *ctx, uint64_t first, uint64_t count, const uint64_t *indptr,
                            float *messages)
{
	const struct rung__propagation *prop = ctx;

	(void)indptr;
	memcpy(messages, prop->signatures_v + first, count * sizeof(*messages));
}

/* add() of that pass: marks tiles instead of adding. Tiles of a bin are processed by one thread. */
static void mark_agreeing(void *ctx, const struct rung__propagation_tile *tile, double *sums)
{
	const struct rung__propagation *prop = ctx;
	const uint32_t *of_u = prop->signatures_u + tile->u_first;

	(void)sums;
	for (uint64_t i = 0; i < tile->count; i++) {
		uint32_t of_v;

		memcpy(&of_v, &tile->values[i], sizeof(of_v));
		tile->u[i] |= rung__minhash_agree(of_u[tile->u[i] & RUNG__PROPAGATION_VERTEX], of_v)
		                      ? RUNG__PROPAGATION_RECORD
		                      : 0;
	}
}

int rung__propagation_mark_records(struct rung__propagation *prop,
                                   const struct rung__propagation *opposite)
{
	const struct rung__propagation_rule rule = {
		.ctx = prop, .send = send_signatures, .add = mark_agreeing, .keeps_sums = true
	};
	const struct reversed mk = { prop, opposite ? &opposite->csc : NULL };
	uint64_t marked = 0;
	int rc = opposite ? mark_bins(&mk, &marked) : 0;

	if (rc < 0)
		return rc;
	prop->passes += opposite != NULL;
	prop->all_mutual = opposite && marked == tiled_count(prop);
	if (prop->all_mutual || (marked == 0 && !prop->signatures_u))
		return 0;
	if (prop->signatures_u) {
		rung__panel_run(prop, &rule, prop->blocks, prop->block_count, true, true);
		prop->passes++;
	}
	return split_blocks(prop);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Count sampled batches of a graph in files, or of a typed graph. Many batches advance together hop
 * by hop, and one pass over the edges draws for all of them. Because a draw depends only on seed,
 * batch, hop, relation and vertex, the batches of a graph of one type equal those that
 * rung__presample() samples in memory.
 *
 * Vertices are numbered over all types, in the order of the types. At each hop every relation draws
 * for the vertices that its target type had before the hop, and the vertices that all of them have
 * drawn are added after that.
 *
 * The content of the batches is one sorted array of keys (vertex, batch, whether it is new), so a
 * pass processes the vertices in order. Drawn vertices are appended to another array, sorted, and
 * merged into the first. If the arrays are too short for a group of batches, the group is started
 * again with half as many.
 */
#include "score/presample_files.h"

#include <string.h>

#include "graph/graph.h"
#include "score/state.h"
#include "sort/radix.h"
#include "sample/sample.h"

#define GROUP_BITS 12u /* batches of a group, at most 2^12 */
/* keys that are sorted at once, and positions in a batch, are 32-bit numbers */
#define CAPACITY_MAX ((uint64_t)UINT32_MAX)
#define ENTRIES      1024u /* entries (vertices of batches) for which the threads draw at a time */
/* the arrays are too short, which is not a failure if a smaller group is possible */
#define TOO_SHORT 1

/* A key is vertex (numbered over all types) << (GROUP_BITS + 1) | batch of the group << 1 | 1 if
 * the last hop added it. */
static uint64_t vertex_of(uint64_t key)
{
	return key >> (GROUP_BITS + 1);
}

struct lockstep {
	const struct rung__file_presample *from;
	const struct rung__run *run;
	uint64_t seed;        /* seed of the draws */
	uint64_t batch_first; /* first batch of the group, in the run */
	uint64_t batch_count;
	uint32_t hop;
	uint32_t relation; /* the relation of the current pass */
	/* [type_count + 1] number of the first vertex of each type; their total */
	uint64_t *bases;
	uint64_t *memory;               /* of the next three arrays */
	uint64_t *held, *drawn, *spare; /* [capacity] keys of the batches; drawn keys; scratch */
	uint64_t held_count, drawn_count, capacity;
	/* position in `held` of the first entry whose vertex is not finished in this pass */
	uint64_t at;
	unsigned key_bits;
	/* [threads][set_size + draws_max] hash set for the draws of a thread, and their
	 * positions */
	uint64_t *sets;
	uint64_t set_size, draws_max;
};

/* ---- sorting ---- */

/* Sort the drawn keys and remove repeats. */
static void compact_drawn(struct lockstep *ls)
{
	uint64_t at = 0;

	rung__radix_sort_keys(&ls->drawn, &ls->spare, ls->drawn_count, ls->key_bits);
	for (uint64_t i = 0; i < ls->drawn_count; i++) {
		if (i == 0 || ls->drawn[i] != ls->drawn[i - 1])
			ls->drawn[at++] = ls->drawn[i];
	}
	ls->drawn_count = at;
}

/*
 * Merge drawn keys into the held ones. Both are sorted, and drawn keys have the bit "new" set. Held
 * keys lose the bit; a key that was drawn but not held keeps it.
 * @return 0 or TOO_SHORT
 */
static int merge_drawn(struct lockstep *ls)
{
	uint64_t i = 0, k = 0, at = 0;
	uint64_t *swap = ls->held;

	while (i < ls->held_count || k < ls->drawn_count) {
		const uint64_t held = i < ls->held_count ? ls->held[i] | 1 : UINT64_MAX;
		const uint64_t drawn = k < ls->drawn_count ? ls->drawn[k] : UINT64_MAX;

		if (at == ls->capacity)
			return TOO_SHORT;
		ls->spare[at++] = held <= drawn ? held - 1 : drawn;
		i += held <= drawn;
		k += drawn <= held;
	}
	ls->held = ls->spare;
	ls->spare = swap;
	ls->held_count = at;
	ls->drawn_count = 0;
	return 0;
}

/* ---- drawing ---- */

/* The relation of the current pass. */
static const struct rung__typed_relation *relation_of(const struct lockstep *ls)
{
	return &ls->from->graph->relations[ls->relation];
}

/* The vertex of a key, as the relation of the current pass counts it. */
static uint64_t target_of(const struct lockstep *ls, uint64_t key)
{
	return vertex_of(key) - ls->bases[relation_of(ls)->target_type];
}

/* The key for the draws of the entry's batch, as rung__presample() uses it. */
static uint64_t batch_key(const struct lockstep *ls, uint64_t key)
{
	const uint64_t batch = ls->batch_first + (key >> 1 & ((UINT64_C(1) << GROUP_BITS) - 1));

	return rung__run_key(ls->run, ls->run->batch_first + batch);
}

/* The draws of an entry from a chunk. `key` is the entry's key; the chunk has positions [begin,
 * end) of `indices` from its list, and `skipped` positions of the list come before them. */
struct hop_entry {
	uint64_t key;
	uint64_t degree, count; /* count: number of draws from the whole list */
	uint64_t skipped, begin, end;
	uint64_t scratch; /* position of its draws in `drawn` */
};

/* The number of the source vertex that entry i of a chunk names. */
static uint64_t drawn_vertex(const struct lockstep *ls, const struct rung__edge_chunk *chunk,
                             uint64_t i)
{
	return ls->bases[relation_of(ls)->source_type] +
	       rung__id_get(chunk->indices, chunk->index_bytes, i);
}

/* Draw for one entry into its part of `drawn`. The positions are drawn for the whole list, even if
 * only some of them are in this chunk: they depend on nothing else. */
static void draw_entry(struct lockstep *ls, const struct rung__edge_chunk *chunk,
                       const struct hop_entry *entry, uint64_t *set)
{
	const uint64_t batch = (entry->key & ((UINT64_C(1) << (GROUP_BITS + 1)) - 1)) | 1;
	const uint64_t draw_key =
		rung__draw_relation_key(ls->seed, batch_key(ls, entry->key), ls->hop, ls->relation);
	uint64_t *positions = set + ls->set_size, *to = ls->drawn + entry->scratch;
	uint64_t taken = 0;

	if (entry->count == entry->degree) {
		for (uint64_t i = entry->begin; i < entry->end; i++)
			to[taken++] = drawn_vertex(ls, chunk, i) << (GROUP_BITS + 1) | batch;
		return;
	}
	rung__draw_positions(draw_key, target_of(ls, entry->key), entry->degree, entry->count, set,
	                     positions);
	for (uint64_t i = 0; i < entry->count; i++) {
		/* wraps around to a large number for a position before the chunk */
		const uint64_t place = positions[i] - entry->skipped;

		if (place < entry->end - entry->begin)
			to[taken++] = drawn_vertex(ls, chunk, entry->begin + place)
			                      << (GROUP_BITS + 1) |
			              batch;
	}
	/* Draws from other chunks are replaced by the entry's vertex, which is in `held` anyway. */
	while (taken < RUNG__MIN(entry->count, entry->end - entry->begin))
		to[taken++] = entry->key | 1;
}

/* Collect the next entries that draw in the chunk, fewer if `drawn` is nearly full, and reserve
 * their parts of `drawn`. `at` then points past them. */
static unsigned next_entries(struct lockstep *ls, const struct rung__edge_chunk *chunk,
                             uint64_t *at, struct hop_entry *entries)
{
	const uint64_t vertex_end =
		ls->bases[relation_of(ls)->target_type] + chunk->vertex_first + chunk->vertex_count;
	unsigned count = 0;

	for (; count < ENTRIES && *at < ls->held_count && vertex_of(ls->held[*at]) < vertex_end;
	     (*at)++) {
		const uint64_t key = ls->held[*at], i = target_of(ls, key) - chunk->vertex_first;
		struct hop_entry *entry = &entries[count];
		uint64_t most;

		if (ls->from->draws == RUNG_DRAWS_NEW && !(key & 1))
			continue;
		*entry = (struct hop_entry){ .key = key,
			                     .degree = chunk->indptr[i + 1] - chunk->indptr[i],
			                     .scratch = ls->drawn_count };
		entry->count = rung__draw_count(relation_of(ls)->fanouts[ls->hop], entry->degree);
		rung__edge_chunk_list(chunk, i, &entry->begin, &entry->end);
		entry->skipped = chunk->edge_first + entry->begin - chunk->indptr[i];
		most = RUNG__MIN(entry->count, entry->end - entry->begin);
		if (most > ls->capacity - ls->drawn_count)
			break;
		ls->drawn_count += most;
		count += most > 0;
	}
	return count;
}

static int draw_chunk(void *ctx, const struct rung__edge_chunk *chunk)
{
	struct lockstep *ls = ctx;
	const uint64_t vertex_last = ls->bases[relation_of(ls)->target_type] + chunk->vertex_first +
	                             chunk->vertex_count - 1;
	struct hop_entry entries[ENTRIES];
	uint64_t at = ls->at;

	while (at < ls->held_count && vertex_of(ls->held[at]) <= vertex_last) {
		const uint64_t at_before = at, drawn_before = ls->drawn_count;
		const unsigned count = next_entries(ls, chunk, &at, entries);

#pragma omp parallel for num_threads(ls->run->threads) schedule(dynamic, 64)
		for (unsigned i = 0; i < count; i++)
			draw_entry(ls, chunk, &entries[i],
			           ls->sets + (uint64_t)rung__thread_number() *
			                              (ls->set_size + ls->draws_max));
		if (at > at_before)
			continue;
		/* `drawn` is full: remove repeats; it must become half empty, or a few entries at a
		 * time would be sorted again and again */
		compact_drawn(ls);
		if (drawn_before == 0 || ls->drawn_count > drawn_before / 2)
			return TOO_SHORT;
	}
	/* a list that continues is drawn from again in the next chunk */
	if (chunk->indptr[chunk->vertex_count] > chunk->edge_first + chunk->edge_count) {
		while (at > ls->at && vertex_of(ls->held[at - 1]) == vertex_last)
			at--;
	}
	ls->at = at;
	return 0;
}

/* ---- groups ---- */

/* Begin a group: its batches contain their seeds, which are new. */
static int hold_seeds(struct lockstep *ls)
{
	const struct rung__run *run = ls->run;
	const uint64_t base = ls->bases[ls->from->graph->seed_type];
	uint64_t *seeds = ls->spare;

	ls->held_count = 0;
	for (uint64_t b = 0; b < ls->batch_count; b++) {
		uint64_t count;

		if (RUNG__MIN(run->batch_size, run->train_count) > ls->capacity - ls->held_count)
			return TOO_SHORT;
		count = rung__run_seeds(run, ls->from->seed, run->batch_first + ls->batch_first + b,
		                        seeds);
		for (uint64_t i = 0; i < count; i++)
			ls->held[ls->held_count++] =
				(base + seeds[i]) << (GROUP_BITS + 1) | b << 1 | 1;
	}
	rung__radix_sort_keys(&ls->held, &ls->spare, ls->held_count, ls->key_bits);
	return 0;
}

/* Draw from the lists of a relation, if it draws at this hop. */
static int draw_relation(struct lockstep *ls)
{
	const struct rung__typed_relation *relation = relation_of(ls);
	uint64_t end = ls->held_count;

	if (relation->fanouts[ls->hop] == 0)
		return 0;
	/* the first entry of the target type */
	ls->at = 0;
	while (ls->at < end) {
		const uint64_t middle = ls->at + (end - ls->at) / 2;

		if (vertex_of(ls->held[middle]) < ls->bases[relation->target_type])
			ls->at = middle + 1;
		else
			end = middle;
	}
	return rung__scoring_chunks(relation, draw_chunk, ls);
}

/* @return 0, TOO_SHORT, or a failure */
static int sample_group(struct lockstep *ls)
{
	const uint32_t relation_count = ls->from->graph->relation_count;
	int rc = hold_seeds(ls);

	for (ls->hop = 0; rc == 0 && ls->hop < ls->from->hop_count; ls->hop++) {
		ls->drawn_count = 0;
		for (ls->relation = 0; rc == 0 && ls->relation < relation_count; ls->relation++)
			rc = draw_relation(ls);
		++*ls->from->edge_passes;
		if (rc != 0)
			return rc;
		compact_drawn(ls);
		rc = merge_drawn(ls);
	}
	return rc;
}

/* Allocate the arrays of keys for this capacity, in place of the ones before. */
static int alloc_keys(struct lockstep *ls)
{
	rung__free(ls->memory);
	ls->memory = rung__malloc_array(ls->capacity, 3 * sizeof(*ls->memory));
	if (!ls->memory)
		return rung__fail(RUNG_E_NOMEM,
		                  "presample: no memory for batches of %" PRIu64 " vertices",
		                  ls->capacity);
	ls->held = ls->memory;
	ls->drawn = ls->memory + ls->capacity;
	ls->spare = ls->memory + 2 * ls->capacity;
	return 0;
}

/* Sample all batches, in groups that fit. A group that was too large determines the size of the
 * following ones. */
static int sample_run(struct lockstep *ls, uint32_t *counts)
{
	const struct rung__run *run = ls->run;
	uint64_t group = RUNG__MIN(run->batch_count, UINT64_C(1) << GROUP_BITS);
	int rc;

	while (ls->batch_first < run->batch_count) {
		ls->batch_count = RUNG__MIN(group, run->batch_count - ls->batch_first);
		rc = sample_group(ls);
		if (rc == TOO_SHORT && ls->batch_count == 1 && ls->from->grows &&
		    ls->capacity < CAPACITY_MAX) {
			ls->capacity = RUNG__MIN(2 * ls->capacity, CAPACITY_MAX);
			rc = alloc_keys(ls);
			if (rc == 0)
				continue;
		}
		if (rc == TOO_SHORT && ls->batch_count == 1)
			return rung__fail(RUNG_E_INVAL,
			                  "presample: a batch of %" PRIu32
			                  " seeds draws more than the %" PRIu64
			                  " vertices that fit in the memory budget; raise the "
			                  "budget, or use a smaller batch or fanout",
			                  run->batch_size, ls->capacity);
		if (rc == TOO_SHORT) {
			group = (ls->batch_count + 1) / 2;
			continue;
		}
		if (rc < 0)
			return rc;
		for (uint64_t i = 0; i < ls->held_count; i++)
			counts[vertex_of(ls->held[i])]++;
		ls->batch_first += ls->batch_count;
		rc = rung__progress(run->progress, run->progress_ctx, "presample",
		                    run->progress_done + ls->batch_first,
		                    run->progress_total ? run->progress_total : run->batch_count);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Number of low bits of a key that the sort must process. */
static unsigned bits_of(uint64_t vertex_count)
{
	unsigned bits = GROUP_BITS + 1;

	while (bits < 64 && vertex_count >> (bits - GROUP_BITS - 1))
		bits++;
	return bits;
}

/* Sizes of the buffers of a thread: the largest that any relation needs. A fanout of "all" needs no
 * positions. */
static void measure_draws(struct lockstep *ls)
{
	const struct rung__typed_graph *graph = ls->from->graph;

	ls->draws_max = 1;
	for (uint32_t r = 0; r < graph->relation_count; r++) {
		const uint32_t *fanouts = graph->relations[r].fanouts;
		const uint64_t slots =
			rung__draw_set_size(fanouts, ls->from->hop_count, UINT64_MAX);

		ls->set_size = RUNG__MAX(ls->set_size, slots);
		for (uint32_t hop = 0; hop < ls->from->hop_count; hop++)
			ls->draws_max = fanouts[hop] == UINT32_MAX
			                        ? ls->draws_max
			                        : RUNG__MAX(ls->draws_max, (uint64_t)fanouts[hop]);
	}
}

/* Number the vertices over all types. */
static void number_types(struct lockstep *ls)
{
	const struct rung__typed_graph *graph = ls->from->graph;

	ls->bases[0] = 0;
	for (uint32_t i = 0; i < graph->type_count; i++)
		ls->bases[i + 1] = ls->bases[i] + graph->type_counts[i];
	ls->key_bits = bits_of(ls->bases[graph->type_count]);
}

int rung__presample_files(const void *graph, const struct rung__run *run, uint32_t *counts)
{
	const struct rung__file_presample *from = graph;
	struct lockstep ls = { .from = from, .run = run, .seed = rung__run_seed(from->seed) };
	int rc;

	if (run->batch_count == 0 || run->train_count == 0)
		return 0;
	measure_draws(&ls);
	ls.capacity = RUNG__MIN(from->memory_bytes / (3 * sizeof(*ls.memory)), CAPACITY_MAX);
	ls.bases = rung__malloc_array(from->graph->type_count + UINT64_C(1), sizeof(*ls.bases));
	ls.sets = rung__malloc_array((uint64_t)run->threads,
	                             (size_t)((ls.set_size + ls.draws_max) * sizeof(*ls.sets)));
	rc = alloc_keys(&ls);
	if (rc == 0 && (!ls.bases || !ls.sets))
		rc = rung__fail(RUNG_E_NOMEM, "presample: no memory for the draws of %d threads",
		                run->threads);
	if (rc == 0) {
		number_types(&ls);
		rc = sample_run(&ls, counts);
	}
	rung__free(ls.memory);
	rung__free(ls.bases);
	rung__free(ls.sets);
	return rc;
}

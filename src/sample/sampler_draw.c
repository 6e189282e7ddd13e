/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drawing neighbours without replacement: Floyd's algorithm (Bentley, Floyd, "A Sample of
 * Brilliance", 1987), which uses exactly as many random numbers as draws. Whether a position was
 * drawn before is looked up in the bits of a word for short lists, among the draws themselves for
 * small fanouts, otherwise in a hash set. A draw depends on the seed, the batch key, the hop, the
 * vertex and the draw's sequence number, never on the thread.
 *
 * The vertices of a call are processed in two steps, because nearly every draw is a cache miss:
 * first all positions are drawn and their entries prefetched, then the entries are read.
 */
#include <string.h>

#include "base/random.h"
#include "sample/sample.h"

/* A power of two, at least twice the draws: at most half of a set is in use. */
static uint64_t set_size_for(uint64_t draws)
{
	uint64_t size = 1;

	while (size < 2 * draws)
		size *= 2;
	return size;
}

uint64_t rung__draw_set_size(const uint32_t *fanouts, uint32_t hop_count, uint64_t degree_max)
{
	uint64_t draws_max = 0;

	for (uint32_t hop = 0; hop < hop_count; hop++) {
		/* a list that is not longer than the fanout is used completely, without draws */
		if (fanouts[hop] > RUNG__DRAWS_IN_LIST && fanouts[hop] < UINT32_MAX &&
		    fanouts[hop] < degree_max)
			draws_max = RUNG__MAX(draws_max, fanouts[hop]);
	}
	return draws_max ? set_size_for(draws_max) : 0;
}

uint64_t rung__draw_hop_key(uint64_t seed, uint64_t batch_key, uint32_t hop)
{
	return rung__key_join(rung__key_join(seed, batch_key), hop);
}

uint64_t rung__draw_relation_key(uint64_t seed, uint64_t batch_key, uint32_t hop, uint32_t relation)
{
	/* hops are below 2^32, so that no two relations and hops share a key */
	return rung__key_join(rung__key_join(seed, batch_key), hop | (uint64_t)relation << 32);
}

/* The draws of one vertex. The drawn positions are stored where the ids will be. */
struct draw {
	uint64_t degree;
	uint64_t count; /* below degree */
	struct rung__rng stream;
};

/*
 * Floyd's algorithm: draw i is below first + i + 1. If it repeats an earlier draw, first + i is
 * used instead, which no earlier draw can have. The three versions draw the same positions; they
 * differ in how they find repeats. They are always inline, so that `bytes` is a constant.
 */

/* Lists of at most 64 entries: drawn positions are bits of a word. */
static inline __attribute__((always_inline)) void draw_by_bits(struct draw *d, void *out,
                                                               unsigned bytes)
{
	const uint64_t first = d->degree - d->count;
	uint64_t taken = 0;

	for (uint64_t i = 0; i < d->count; i++) {
		uint64_t position = rung__rng_below(&d->stream, first + i + 1);

		/* without a branch, which would be mispredicted as often as a draw repeats */
		position ^= (position ^ (first + i)) & (0 - (taken >> position & 1));
		taken |= UINT64_C(1) << position;
		rung__id_set(out, bytes, i, position);
	}
}

/* Nonzero if the position is among the first `count`. The loop does not end early, so that it is
 * vectorised. */
static inline uint32_t repeats_of_4(const uint32_t *positions, uint64_t count, uint32_t position)
{
	uint32_t repeats = 0;

	for (uint64_t k = 0; k < count; k++)
		repeats |= (uint32_t)(positions[k] == position);
	return repeats;
}

static inline uint64_t repeats_of_8(const uint64_t *positions, uint64_t count, uint64_t position)
{
	uint64_t repeats = 0;

	for (uint64_t k = 0; k < count; k++)
		repeats |= (uint64_t)(positions[k] == position);
	return repeats;
}

/* Few draws from a longer list: compare with all of them. */
static inline __attribute__((always_inline)) void draw_by_list(struct draw *d, void *out,
                                                               unsigned bytes)
{
	const uint64_t first = d->degree - d->count;

	for (uint64_t i = 0; i < d->count; i++) {
		uint64_t position = rung__rng_below(&d->stream, first + i + 1);
		uint64_t repeats;

		repeats = bytes == 4 ? repeats_of_4(out, i, (uint32_t)position)
		                     : repeats_of_8(out, i, position);
		rung__id_set(out, bytes, i, repeats ? first + i : position);
	}
}

/* Slot of a position, or the free slot where it is to be inserted. */
static uint64_t find_slot(const uint64_t *set, uint64_t set_size, uint64_t position)
{
	uint64_t slot = rung__mix64(position) & (set_size - 1);

	while (set[slot] && set[slot] != position + 1)
		slot = (slot + 1) & (set_size - 1);
	return slot;
}

/* Many draws from a long list: a hash set with linear probing, as large as these draws need. */
static inline __attribute__((always_inline)) void draw_by_set(struct draw *d, uint64_t *set,
                                                              void *out, unsigned bytes)
{
	const uint64_t first = d->degree - d->count, set_size = set_size_for(d->count);

	memset(set, 0, set_size * sizeof(*set));
	for (uint64_t i = 0; i < d->count; i++) {
		uint64_t position = rung__rng_below(&d->stream, first + i + 1);
		uint64_t slot = find_slot(set, set_size, position);

		if (set[slot]) {
			position = first + i;
			slot = find_slot(set, set_size, position);
		}
		set[slot] = position + 1;
		rung__id_set(out, bytes, i, position);
	}
}

static inline __attribute__((always_inline)) void draw_positions(struct draw *d, uint64_t *set,
                                                                 void *out, unsigned bytes)
{
	if (d->degree <= 64)
		draw_by_bits(d, out, bytes);
	else if (d->count <= RUNG__DRAWS_IN_LIST)
		draw_by_list(d, out, bytes);
	else
		draw_by_set(d, set, out, bytes);
}

void rung__draw_positions(uint64_t hop_key, uint64_t vertex, uint64_t degree, uint64_t count,
                          uint64_t *set, uint64_t *positions)
{
	struct draw d = { degree, count, { rung__key_join(hop_key, vertex) } };

	draw_positions(&d, set, positions, 8);
}

void rung__draw_edges(const struct rung__lists *lists, uint64_t hop_key, const uint64_t *vertices,
                      uint64_t first, uint64_t end, const uint64_t *indptr, uint64_t *set,
                      uint64_t *edges)
{
	const bool packed = lists->csc.indptr == NULL;

	for (uint64_t i = first; i < end; i++) {
		const uint64_t count = indptr[i + 1] - indptr[i];
		uint64_t *out = edges + indptr[i];
		struct rung__list list;

		if (count == 0)
			continue;
		list = rung__list_of(lists, vertices[i], packed);
		if (count < list.degree)
			rung__draw_positions(hop_key, vertices[i], list.degree, count, set, out);
		for (uint64_t k = 0; k < count; k++)
			out[k] = list.begin + (count < list.degree ? out[k] : k);
	}
}

static inline const char *entry_at(const struct rung__lists *lists, unsigned bytes, uint64_t edge)
{
	return (const char *)lists->csc.indices + edge * bytes;
}

/* First step for a vertex: store the positions that it draws, and prefetch their entries. If the
 * whole list is used, nothing is stored. */
static inline __attribute__((always_inline)) void draw_at(const struct rung__lists *lists,
                                                          uint64_t mixed_key, uint64_t vertex,
                                                          struct rung__list list, uint64_t count,
                                                          uint64_t *set, void *out, unsigned bytes)
{
	/* the same as rung__key_join(hop_key, vertex), half of whose work is the same for all
	 * vertices */
	struct draw d = { list.degree, count, { rung__mix64(mixed_key ^ vertex) } };

	if (d.count == d.degree) {
		__builtin_prefetch(entry_at(lists, bytes, list.begin));
		return;
	}
	draw_positions(&d, set, out, bytes);
	for (uint64_t k = 0; k < count; k++)
		__builtin_prefetch(
			entry_at(lists, bytes, list.begin + rung__id_get(out, bytes, k)));
}

/* Second step: replace the positions by the entries of the list, or copy the whole list. */
static inline __attribute__((always_inline)) void fetch_at(const struct rung__lists *lists,
                                                           struct rung__list list, uint64_t count,
                                                           void *out, unsigned bytes)
{
	const char *entries = entry_at(lists, bytes, list.begin);

	if (count == list.degree) {
		memcpy(out, entries, count * bytes);
		return;
	}
	for (uint64_t k = 0; k < count; k++)
		rung__id_set(out, bytes, k,
		             rung__id_get(entries, bytes, rung__id_get(out, bytes, k)));
}

/* What a call of rung__draw() has in common for all its vertices. */
struct draws {
	const struct rung__lists *lists;
	uint64_t mixed_key;
	const uint64_t *vertices, *indptr; /* of the first vertex */
	uint64_t count;
	const struct rung__list *list; /* [count] */
	uint64_t *set;
	char *drawn;
};

/* Both steps for a block of vertices. A vertex with an empty list in the block does not draw, and
 * the cold ones draw elsewhere. */
static inline __attribute__((always_inline)) void draw_block(const struct draws *draws,
                                                             unsigned bytes, bool tiered)
{
	const struct rung__lists *lists = draws->lists;
	const uint64_t *indptr = draws->indptr;

	for (uint64_t i = 0; i < draws->count; i++) {
		const uint64_t count = indptr[i + 1] - indptr[i];

		if (count > 0 && (!tiered || !rung__list_is_cold(lists, draws->list[i])))
			draw_at(lists, draws->mixed_key, draws->vertices[i], draws->list[i], count,
			        draws->set, draws->drawn + indptr[i] * bytes, bytes);
	}
	for (uint64_t i = 0; i < draws->count; i++) {
		const uint64_t count = indptr[i + 1] - indptr[i];

		if (count > 0 && (!tiered || !rung__list_is_cold(lists, draws->list[i])))
			fetch_at(lists, draws->list[i], count, draws->drawn + indptr[i] * bytes,
			         bytes);
	}
}

void rung__draw(const struct rung__lists *lists, uint64_t hop_key, const uint64_t *vertices,
                uint64_t first, uint64_t end, const struct rung__list *list, const uint64_t *indptr,
                uint64_t *set, void *drawn)
{
	const struct draws draws = { .lists = lists,
		                     .mixed_key = rung__mix64(hop_key),
		                     .vertices = vertices + first,
		                     .indptr = indptr + first,
		                     .count = end - first,
		                     .list = list,
		                     .set = set,
		                     .drawn = drawn };
	const bool tiered = lists->resident_count < lists->csc.edge_count;

	if (lists->csc.index_bytes == 4 && tiered)
		draw_block(&draws, 4, true);
	else if (lists->csc.index_bytes == 4)
		draw_block(&draws, 4, false);
	else if (tiered)
		draw_block(&draws, 8, true);
	else
		draw_block(&draws, 8, false);
}

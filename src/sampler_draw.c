/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drawing neighbours without replacement: Floyd's algorithm (Bentley, Floyd, "A Sample of Brilliance", 1987), which takes
 * exactly as many random numbers as draws. Whether a position was drawn before is looked up in the bits of a word for short
 * lists, in the list of draws for small fanouts, in a hash set otherwise. A draw depends on the seed, the batch key, the hop,
 * the vertex and its running number, never on the thread.
 */
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "random.h"
#include "sampler_internal.h"

#define AHEAD_OFFSETS 16u   /* vertices ahead whose indptr entry is fetched; half of it ahead, the start of the list */

/* Twice the draws: at most half of a set is in use. */
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
		/* a list shorter than the fanout is taken whole */
		if (fanouts[hop] > RUNG__DRAWS_IN_LIST && fanouts[hop] < UINT32_MAX && fanouts[hop] < degree_max)
			draws_max = RUNG__MAX(draws_max, fanouts[hop]);
	}
	return draws_max ? set_size_for(draws_max) : 0;
}

static void copy_list(const void *list, unsigned index_bytes, uint64_t begin, uint64_t count, void *drawn, uint64_t at)
{
	for (uint64_t i = 0; i < count; i++)
		rung__id_set(drawn, index_bytes, at + i, rung__id_get(list, index_bytes, begin + i));
}

/* Where draws of one vertex come from and go to. */
struct draw {
	const void *list;       /* the graph's indices */
	unsigned index_bytes;
	uint64_t begin;         /* of the vertex's list */
	uint64_t degree;
	uint64_t count;         /* below degree */
	void *drawn;
	uint64_t at;
	struct rung__stream stream;
};

static inline __attribute__((always_inline)) void emit(const struct draw *d, uint64_t i, uint64_t position)
{
	rung__id_set(d->drawn, d->index_bytes, d->at + i, rung__id_get(d->list, d->index_bytes, d->begin + position));
}

static inline __attribute__((always_inline)) void draw_by_bits(struct draw *d)
{
	const uint64_t first = d->degree - d->count;
	uint64_t taken = 0;

	for (uint64_t i = 0; i < d->count; i++) {
		uint64_t position = rung__stream_below(&d->stream, first + i + 1);

		if (taken >> position & 1)
			position = first + i;
		taken |= UINT64_C(1) << position;
		emit(d, i, position);
	}
}

static inline __attribute__((always_inline)) void draw_by_list(struct draw *d)
{
	const uint64_t first = d->degree - d->count;
	uint64_t positions[RUNG__DRAWS_IN_LIST];

	for (uint64_t i = 0; i < d->count; i++) {
		uint64_t position = rung__stream_below(&d->stream, first + i + 1);
		uint64_t repeats = 0;

		for (uint64_t k = 0; k < i; k++)
			repeats |= (uint64_t)(positions[k] == position);
		if (repeats)
			position = first + i;
		positions[i] = position;
		emit(d, i, position);
	}
}

/* Slot of a position, or the free slot where it belongs. */
static uint64_t find_slot(const uint64_t *set, uint64_t set_size, uint64_t position)
{
	uint64_t slot = rung__mix64(position) & (set_size - 1);

	while (set[slot] && set[slot] != position + 1)
		slot = (slot + 1) & (set_size - 1);
	return slot;
}

static void draw_by_set(struct draw *d, uint64_t *set)
{
	const uint64_t first = d->degree - d->count, set_size = set_size_for(d->count);

	memset(set, 0, set_size * sizeof(*set));
	for (uint64_t i = 0; i < d->count; i++) {
		uint64_t position = rung__stream_below(&d->stream, first + i + 1);
		uint64_t slot = find_slot(set, set_size, position);

		if (set[slot]) {
			position = first + i;
			slot = find_slot(set, set_size, position);
		}
		set[slot] = position + 1;
		emit(d, i, position);
	}
}

static inline __attribute__((always_inline)) void draw_vertex(struct draw *d, uint64_t *set)
{
	if (d->count == d->degree)
		copy_list(d->list, d->index_bytes, d->begin, d->degree, d->drawn, d->at);
	else if (d->degree <= 64)
		draw_by_bits(d);
	else if (d->count <= RUNG__DRAWS_IN_LIST)
		draw_by_list(d);
	else
		draw_by_set(d, set);
}

static void prefetch(const struct rung_csc *csc, const uint64_t *vertices, uint64_t i, uint64_t count)
{
	if (i + AHEAD_OFFSETS < count)
		__builtin_prefetch(&csc->indptr[vertices[i + AHEAD_OFFSETS]]);
	if (i + AHEAD_OFFSETS / 2 < count)
		/* as a number: without edges there need be no array */
		__builtin_prefetch((const void *)((uintptr_t)csc->indices + csc->indptr[vertices[i + AHEAD_OFFSETS / 2]] * csc->index_bytes));
}

static inline __attribute__((always_inline)) void
draw_at(const struct rung_csc *csc, uint64_t hop_key, uint64_t vertex, uint64_t at, uint64_t count, unsigned index_bytes,
        uint64_t *set, void *drawn)
{
	struct draw d = {
		.list = csc->indices, .index_bytes = index_bytes, .begin = csc->indptr[vertex],
		.degree = csc->indptr[vertex + 1] - csc->indptr[vertex], .count = count, .drawn = drawn, .at = at,
		.stream = { rung__key_join(hop_key, vertex) },
	};

	draw_vertex(&d, set);
}

void rung__draw_hop(const struct rung_sampler *sampler, uint32_t hop, uint64_t batch_key, const uint64_t *vertices,
                    uint64_t count, const uint64_t *indptr, void *drawn)
{
	const struct rung_csc *csc = &sampler->csc;
	const uint64_t hop_key = rung__key_join(rung__key_join(sampler->seed, batch_key), hop);

#pragma omp parallel num_threads(sampler->threads)
	{
#ifdef _OPENMP
		uint64_t *set = sampler->sets + (uint64_t)omp_get_thread_num() * sampler->set_size;
#else
		uint64_t *set = sampler->sets;
#endif

#pragma omp for schedule(dynamic, 256)
		for (uint64_t i = 0; i < count; i++) {
			prefetch(csc, vertices, i, count);
			if (csc->index_bytes == 4)
				draw_at(csc, hop_key, vertices[i], indptr[i], indptr[i + 1] - indptr[i], 4, set, drawn);
			else
				draw_at(csc, hop_key, vertices[i], indptr[i], indptr[i + 1] - indptr[i], 8, set, drawn);
		}
	}
}

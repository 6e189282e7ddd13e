/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranking by descending score: a parallel least-significant-digit radix sort over the bits in which scores differ, in digits
 * of at most 10 bits: three passes for most scores, fewer for small integers, as degrees. Every thread has a slice of the
 * input; where it writes a digit follows from the histograms of all slices, digit by digit and inside a digit slice by slice.
 * So the sort is stable, and with ids as the first order, ties stand by ascending id for any thread count.
 *
 * A large ranking is bound by memory. Keys and ids lie side by side, so that a digit is one stream of writes; up to 2^10 of
 * them stay in the second-level cache until their lines are full, twice as many do not (4.8 ns an element instead of 1.8,
 * measured on an EPYC 9004; lines of our own that are streamed take 2.7 either way). The first pass makes its keys and ids as
 * it goes, the last writes ids alone. Memory that the kernel has to clear costs as much as a pass: one of the two rooms for
 * pairs is the output, as long as there is nothing in it.
 *
 * The inverse map is made in two steps, so that its writes stay in the cache: pairs are dealt by ranges of vertices, then each
 * range is written by one thread.
 */
#include <string.h>

#include "internal.h"
#include "rank_internal.h"
#include "rung/rank.h"

#define DIGIT_BITS 10u
#define DIGITS (1u << DIGIT_BITS)
#define SLICE_MIN 1024u           /* elements that are worth a thread */
#define RANGE_BITS 16u            /* vertices of a range of the inverse map, at least: their ranks fit a second-level cache */
/* Elements between ranges: eleven lines. Ranges fill up side by side, and a power of two apart would use the same sets of a cache. */
#define RANGE_GAP 88u

/*
 * Forms that elements have in memory. Scores and maps are only read: the id of element i is i, its key made of score i or
 * of entry i. A pair of 8 bytes has the key in its upper half, one of 16 is id and key. Ids are only written.
 */
enum form { SCORES, MAP_4, MAP_8, PAIRS_8, PAIRS_16, IDS_4, IDS_8 };

/*
 * An array that may lie in three parts: elements [0, ends[0]) in the first, those below ends[1] in the second. Bases are where
 * element 0 would be, were all of the array where the part is: finding an element takes no branch, which would go either way.
 */
struct room {
	uintptr_t bases[3];
	uint64_t ends[2];
};

struct ranking {
	uint64_t count;
	unsigned index_bytes;
	int threads;
	bool wide;               /* ids do not fit 4 bytes */
	uint64_t *starts;        /* [threads][DIGITS] where each slice goes on */
	struct room rooms[2];    /* [count] pairs */
	unsigned char *pairs;    /* the first room */
	unsigned char *more;     /* the second, where the output is none */
	uint64_t pairs_bytes, more_bytes;
};

struct step {
	struct room from, to;
	unsigned shift;
	uint64_t digit_mask;
	uint64_t gap;       /* elements left free between digits */
};

struct element {
	uint64_t id, key;   /* of a map, keys have the width of ids; what is kept of them in a pair are 32 bits */
};

static inline __attribute__((always_inline)) unsigned form_bytes(enum form form)
{
	return form == PAIRS_16 ? 16 : form == IDS_4 || form == SCORES || form == MAP_4 ? 4 : 8;
}

static struct room whole(const void *array)
{
	return (struct room){ .bases = { (uintptr_t)array }, .ends = { UINT64_MAX, UINT64_MAX } };
}

/* Only pairs lie in parts. */
static inline __attribute__((always_inline)) void *place(const struct room *room, enum form form, uint64_t i)
{
	const bool pairs = form == PAIRS_8 || form == PAIRS_16;
	const size_t part = pairs ? (size_t)(i >= room->ends[0]) + (size_t)(i >= room->ends[1]) : 0;

	return (void *)(room->bases[part] + i * form_bytes(form));
}

/* Ascending keys are descending scores. NaN gets the largest key, which no number has; -0.0 the key of 0.0. */
static inline uint32_t key_of(float score)
{
	const uint32_t sign = UINT32_C(1) << 31;
	uint32_t bits, key;

	memcpy(&bits, &score, sizeof(bits));
	bits = bits == sign ? 0 : bits;
	key = bits & sign ? bits : bits ^ ~sign;
	return (bits & ~sign) > UINT32_C(0x7f800000) ? UINT32_MAX : key;
}

static inline __attribute__((always_inline)) struct element get(const struct room *from, enum form form, uint64_t i)
{
	const void *at = place(from, form, i);
	const uint64_t *pair = at;

	if (form == SCORES)
		return (struct element){ i, key_of(*(const float *)at) };
	if (form == MAP_4 || form == MAP_8)
		return (struct element){ i, rung__id_get(at, form_bytes(form), 0) };
	if (form == PAIRS_8)
		return (struct element){ (uint32_t)*pair, *pair >> 32 };
	return (struct element){ pair[0], pair[1] };
}

static inline __attribute__((always_inline)) void put(const struct room *to, enum form form, uint64_t i, struct element element)
{
	void *at = place(to, form, i);
	uint64_t *pair = at;

	if (form == IDS_4) {
		*(uint32_t *)at = (uint32_t)element.id;
	} else if (form == IDS_8) {
		*pair = element.id;
	} else if (form == PAIRS_8) {
		*pair = element.key << 32 | element.id;
	} else {
		pair[0] = element.id;
		pair[1] = element.key;
	}
}

static uint64_t slice_begin(const struct ranking *rk, int slice)
{
	const uint64_t threads = (uint64_t)rk->threads, s = (uint64_t)slice;

	return rk->count / threads * s + RUNG__MIN(s, rk->count % threads);
}

static inline __attribute__((always_inline)) void
count_slice(const struct ranking *rk, const struct step *shared, enum form from, int slice)
{
	const struct step step = *shared;   /* what is written cannot be a part of it: it stays in registers */
	uint64_t *histogram = rk->starts + (uint64_t)slice * DIGITS;
	const uint64_t end = slice_begin(rk, slice + 1);

	memset(histogram, 0, DIGITS * sizeof(*histogram));
	for (uint64_t i = slice_begin(rk, slice); i < end; i++)
		histogram[get(&step.from, from, i).key >> step.shift & step.digit_mask]++;
}

static void sum_up(const struct ranking *rk, uint64_t gap)
{
	uint64_t sum = 0;

	for (uint32_t digit = 0; digit < DIGITS; digit++) {
		for (int slice = 0; slice < rk->threads; slice++) {
			uint64_t *start = &rk->starts[(uint64_t)slice * DIGITS + digit];
			const uint64_t here = *start;

			*start = sum;
			sum += here;
		}
		sum += gap;
	}
}

static inline __attribute__((always_inline)) void
move_slice(const struct ranking *rk, const struct step *shared, enum form from, enum form to, int slice)
{
	const struct step step = *shared;
	uint64_t *starts = rk->starts + (uint64_t)slice * DIGITS;
	const uint64_t end = slice_begin(rk, slice + 1);

	for (uint64_t i = slice_begin(rk, slice); i < end; i++) {
		const struct element element = get(&step.from, from, i);

		put(&step.to, to, starts[element.key >> step.shift & step.digit_mask]++, element);
	}
}

/* Written once for all forms: the compiler drops the choices inside the loops. */
static inline __attribute__((always_inline)) void
do_step(const struct ranking *rk, const struct step *step, enum form from, enum form to)
{
#pragma omp parallel for num_threads(rk->threads) schedule(static, 1)
	for (int slice = 0; slice < rk->threads; slice++)
		count_slice(rk, step, from, slice);
	sum_up(rk, step->gap);
#pragma omp parallel for num_threads(rk->threads) schedule(static, 1)
	for (int slice = 0; slice < rk->threads; slice++)
		move_slice(rk, step, from, to, slice);
}

static inline __attribute__((always_inline)) void
do_step_to(const struct ranking *rk, const struct step *step, enum form from, enum form pairs, bool last)
{
	if (!last)
		do_step(rk, step, from, pairs);
	else if (rk->index_bytes == 4)
		do_step(rk, step, from, IDS_4);
	else
		do_step(rk, step, from, IDS_8);
}

static void run_step(const struct ranking *rk, const struct step *step, bool first, bool last)
{
	if (rk->wide && first)
		do_step_to(rk, step, SCORES, PAIRS_16, last);
	else if (rk->wide)
		do_step_to(rk, step, PAIRS_16, PAIRS_16, last);
	else if (first)
		do_step_to(rk, step, SCORES, PAIRS_8, last);
	else
		do_step_to(rk, step, PAIRS_8, PAIRS_8, last);
}

static uint32_t differing_bits(const struct ranking *rk, const float *score)
{
	const uint32_t first = rk->count ? key_of(score[0]) : 0;
	uint32_t bits = 0;

#pragma omp parallel for num_threads(rk->threads) reduction(| : bits) schedule(static)
	for (uint64_t v = 0; v < rk->count; v++)
		bits |= key_of(score[v]) ^ first;
	return bits;
}

static void sort(const struct ranking *rk, const float *score, void *vertex_of_rank)
{
	const uint32_t bits = differing_bits(rk, score);
	const unsigned low = bits ? (unsigned)__builtin_ctz(bits) : 0, high = bits ? 32 - (unsigned)__builtin_clz(bits) : 1;
	const unsigned passes = (high - low + DIGIT_BITS - 1) / DIGIT_BITS, width = (high - low + passes - 1) / passes;
	struct step step = { .from = whole(score), .digit_mask = (UINT64_C(1) << width) - 1 };

	for (unsigned pass = 0; pass < passes; pass++) {
		const bool last = pass + 1 == passes;

		step.shift = low + pass * width;
		step.to = last ? whole(vertex_of_rank) : rk->rooms[(passes - pass) % 2];
		run_step(rk, &step, pass == 0, last);
		step.from = step.to;
	}
}

static inline __attribute__((always_inline)) void
write_range(const struct ranking *rk, enum form pairs, unsigned index_bytes, unsigned shift, uint64_t range, void *rank_of_vertex)
{
	const uint64_t first = range << shift, end = RUNG__MIN((range + 1) << shift, rk->count);
	const uint64_t place_mask = (UINT64_C(1) << shift) - 1;
	const struct room room = rk->rooms[0];

	for (uint64_t i = first; i < end; i++) {   /* a permutation: a range has as many ranks as vertices */
		const struct element element = get(&room, pairs, i + range * RANGE_GAP);

		rung__id_set(rank_of_vertex, index_bytes, first + (element.key & place_mask), element.id);
	}
}

static inline __attribute__((always_inline)) void
do_invert(const struct ranking *rk, const void *vertex_of_rank, enum form map, enum form pairs, void *rank_of_vertex)
{
	struct step step = { .from = whole(vertex_of_rank), .to = rk->rooms[0], .shift = RANGE_BITS, .digit_mask = DIGITS - 1, .gap = RANGE_GAP };
	uint64_t ranges;

	while ((ranges = (rk->count + (UINT64_C(1) << step.shift) - 1) >> step.shift) > DIGITS)
		step.shift++;
	do_step(rk, &step, map, pairs);
#pragma omp parallel for num_threads(rk->threads) schedule(dynamic, 1)
	for (uint64_t range = 0; range < ranges; range++)
		write_range(rk, pairs, form_bytes(map), step.shift, range, rank_of_vertex);
}

static void invert(const struct ranking *rk, const void *vertex_of_rank, void *rank_of_vertex)
{
	if (rk->wide)
		do_invert(rk, vertex_of_rank, MAP_8, PAIRS_16, rank_of_vertex);
	else if (rk->index_bytes == 8)
		do_invert(rk, vertex_of_rank, MAP_8, PAIRS_8, rank_of_vertex);
	else
		do_invert(rk, vertex_of_rank, MAP_4, PAIRS_8, rank_of_vertex);
}

/*
 * The room that pairs are not in when the last step writes the output: the output itself, in which two ids have the room of
 * a pair. Of an odd number the last pair lies behind the first room. False: there is not enough of it.
 */
static bool room_in_output(struct ranking *rk, void *vertex_of_rank, void *rank_of_vertex)
{
	const unsigned pair_bytes = form_bytes(rk->wide ? PAIRS_16 : PAIRS_8);
	const uint64_t half = rk->count / 2;

	if (pair_bytes == rk->index_bytes) {
		rk->rooms[1] = whole(vertex_of_rank);
		return true;
	}
	if (!rank_of_vertex || ((uintptr_t)vertex_of_rank | (uintptr_t)rank_of_vertex) % sizeof(uint64_t))
		return false;
	rk->rooms[1] = (struct room){
		.bases = { (uintptr_t)vertex_of_rank, (uintptr_t)rank_of_vertex - half * pair_bytes,
		           (uintptr_t)rk->pairs + (rk->count - 2 * half) * pair_bytes }, .ends = { half, 2 * half },
	};
	return true;
}

static bool alloc(struct ranking *rk, void *vertex_of_rank, void *rank_of_vertex)
{
	rk->starts = rung__malloc_array((uint64_t)rk->threads * DIGITS, sizeof(*rk->starts));
	if (!rk->starts || !rung__mul(rk->count + DIGITS * RANGE_GAP, form_bytes(rk->wide ? PAIRS_16 : PAIRS_8), &rk->pairs_bytes))
		return false;
	rk->pairs = rung__map_pages(rk->pairs_bytes);
	if (!rk->pairs)
		return false;
	rk->rooms[0] = whole(rk->pairs);
	if (room_in_output(rk, vertex_of_rank, rank_of_vertex))
		return true;
	rk->more_bytes = rk->pairs_bytes;
	rk->more = rung__map_pages(rk->more_bytes);
	rk->rooms[1] = whole(rk->more);
	return rk->more != NULL;
}

int rung__rank_order(const float *score, uint64_t vertex_count, unsigned index_bytes, uint32_t threads, bool wide,
                     void *vertex_of_rank, void *rank_of_vertex)
{
	struct ranking rk = { .count = vertex_count, .index_bytes = index_bytes, .wide = wide };
	int rc = 0;

	rk.threads = (int)RUNG__MIN((uint64_t)rung__threads(threads), vertex_count / SLICE_MIN + 1);
	if (alloc(&rk, vertex_of_rank, rank_of_vertex)) {
		sort(&rk, score, vertex_of_rank);
		if (rank_of_vertex)
			invert(&rk, vertex_of_rank, rank_of_vertex);
	} else {
		rc = rung__fail(RUNG_E_NOMEM, "ranking %" PRIu64 " vertices: no memory", vertex_count);
	}
	rung__unmap_pages(rk.pairs, rk.pairs_bytes);
	rung__unmap_pages(rk.more, rk.more_bytes);
	rung__free(rk.starts);
	return rc;
}

int rung_rank_order(const float *score, uint64_t vertex_count, unsigned index_bytes, uint32_t threads, void *vertex_of_rank,
                    void *rank_of_vertex)
{
	if ((index_bytes != 4 && index_bytes != 8) || index_bytes < rung_index_bytes(vertex_count))
		return rung__fail(RUNG_E_INVAL, "ranking %" PRIu64 " vertices: index_bytes is %u: it is 4 up to 2^32 vertices, or 8",
		                  vertex_count, index_bytes);
	return rung__rank_order(score, vertex_count, index_bytes, threads, rung_index_bytes(vertex_count) == 8, vertex_of_rank,
	                        rank_of_vertex);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ids, splits and years: functions of a vertex's position in time, which need no memory.
 *
 * A permutation multiplies by odd numbers and folds the upper bits into the lower ones. Both steps
 * can be inverted on k bits. If a result is not below the number of vertices, the permutation is
 * applied to it again ("cycle walking"; Black and Rogaway, "Ciphers with arbitrary finite domains",
 * CT-RSA 2002); less than two steps are needed on average.
 */
#include "generate.h"

#define ROUNDS    3
#define YEARS_MAX 100

/* The inverse of an odd number modulo 2^64, by Newton's method: each step doubles the number of
 * correct bits, and the number itself has 3. */
static uint64_t inverse_of(uint64_t odd)
{
	uint64_t inverse = odd;

	for (int i = 0; i < 5; i++)
		inverse *= 2 - odd * inverse;
	return inverse;
}

void gen_permutation_init(struct gen_permutation *permutation, uint64_t count, uint64_t key)
{
	unsigned bits = 2;

	while (bits < 64 && count > UINT64_C(1) << bits)
		bits++;
	permutation->count = count;
	permutation->mask = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
	permutation->shift = (bits + 1) / 2; /* at least half: a second fold undoes the first */
	for (unsigned i = 0; i < ROUNDS; i++) {
		permutation->odd[i] = rung__rng_at(key, i) | 1;
		permutation->inverse[i] = inverse_of(permutation->odd[i]);
	}
}

uint64_t gen_permute(const struct gen_permutation *permutation, uint64_t number)
{
	do {
		for (unsigned i = 0; i < ROUNDS; i++) {
			number = (number * permutation->odd[i]) & permutation->mask;
			number ^= number >> permutation->shift;
		}
		number = (number + permutation->odd[0]) & permutation->mask;
	} while (number >= permutation->count);
	return number;
}

uint64_t gen_permute_back(const struct gen_permutation *permutation, uint64_t number)
{
	do {
		number = (number - permutation->odd[0]) & permutation->mask;
		for (unsigned i = ROUNDS; i-- > 0;) {
			number ^= number >> permutation->shift;
			number = (number * permutation->inverse[i]) & permutation->mask;
		}
	} while (number >= permutation->count);
	return number;
}

/* ---- ids ---- */

uint64_t gen_id(const struct gen_graph *graph, uint64_t position)
{
	const uint64_t count = graph->communities, size = graph->vertices / count,
		       larger = graph->vertices % count, community = position % count;

	if (graph->model->ids == GEN_IDS_RANDOM)
		return gen_permute(&graph->id_order, position);
	/* the first communities have one vertex more */
	return community * size + (community < larger ? community : larger) + position / count;
}

uint64_t gen_position(const struct gen_graph *graph, uint64_t id)
{
	const uint64_t count = graph->communities, size = graph->vertices / count,
		       larger = graph->vertices % count, in_larger = larger * (size + 1);

	if (graph->model->ids == GEN_IDS_RANDOM)
		return gen_permute_back(&graph->id_order, id);
	if (id < in_larger)
		return id % (size + 1) * count + id / (size + 1);
	return (id - in_larger) % size * count + larger + (id - in_larger) / size;
}

/* ---- splits and years ---- */

static uint64_t product_over(uint64_t a, uint64_t b, uint64_t divisor)
{
	return (uint64_t)((unsigned __int128)a * b / divisor);
}

/* Labelled vertices are spread evenly: one at random in each of as many ranges of positions. */
enum gen_split gen_split_of(const struct gen_graph *graph, uint64_t position)
{
	const uint64_t train = graph->split_count[GEN_TRAIN], valid = graph->split_count[GEN_VALID],
		       labelled = train + valid + graph->split_count[GEN_TEST];
	const uint64_t key = rung__key_join(graph->seed, 12);
	uint64_t range, begin, end;

	if (labelled == 0)
		return GEN_UNLABELLED;
	/* begin <= position < end, where begin = ceil(range * vertices / labelled) */
	range = product_over(position, labelled, graph->vertices);
	begin = product_over(range, graph->vertices, labelled);
	end = product_over(range + 1, graph->vertices, labelled);
	if (position >= end) {
		range++;
		begin = end;
		end = product_over(range + 1, graph->vertices, labelled);
	}
	if (begin + rung__rng_at(key, range) % (end - begin) != position)
		return GEN_UNLABELLED;
	if (!graph->model->by_time)
		range = gen_permute(&graph->split_order, range);
	return range < train ? GEN_TRAIN : range < train + valid ? GEN_VALID : GEN_TEST;
}

/* The last year begins with the split "test", and the one before it with "valid". Every earlier
 * year is smaller by the same factor, which is that of "valid" and the ones before it. */
uint32_t gen_year(const struct gen_graph *graph, uint64_t position)
{
	const double train = (double)graph->split_count[GEN_TRAIN],
		     valid = train + (double)graph->split_count[GEN_VALID],
		     labelled = valid + (double)graph->split_count[GEN_TEST];
	const double at = (double)position * labelled / (double)graph->vertices;
	const uint32_t last = graph->model->year;
	uint32_t year = last - 2;

	if (at >= valid)
		return last;
	if (at >= train)
		return last - 1;
	for (double begin = train * train / valid; at < begin && last - year < YEARS_MAX; year--)
		begin *= train / valid;
	return year;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Maps of rows, compared with a plain array. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "cache/state.h"
#include "graphs.h"

#define MAP_ROWS_MAX (64u * 64 * 64 + 70)

static struct rung__cache_map map;
static bool naive[MAP_ROWS_MAX];
static uint64_t *words;

static uint64_t open_map(uint64_t rows)
{
	const uint64_t bytes = rung__cache_map_lay_out(&map, rows);

	words = calloc(1, bytes);
	cr_assert(words);
	rung__cache_map_place(&map, words);
	memset(naive, 0, sizeof(naive));
	return bytes;
}

/* The answers from `row` on must be those of the array. */
static void check_map(uint64_t row)
{
	uint64_t next = row, last = map.row_count, found = UINT64_MAX;

	while (next < map.row_count && !naive[next])
		next++;
	cr_assert_eq(rung__cache_map_next(&map, row, &found), next < map.row_count);
	if (next < map.row_count)
		cr_assert_eq(found, next, "%llu of %llu: %llu, not %llu", (unsigned long long)row,
		             (unsigned long long)map.row_count, (unsigned long long)found,
		             (unsigned long long)next);
	while (last > 0 && !naive[last - 1])
		last--;
	cr_assert_eq(rung__cache_map_last(&map, &found), last > 0);
	if (last > 0)
		cr_assert_eq(found, last - 1);
}

/* Rows at the first and last bits of words, of all levels. */
static uint64_t edge_row(uint64_t *state, uint64_t rows)
{
	static const uint64_t units[] = { 1, 64, 64 * 64, 64 * 64 * 64 };
	const uint64_t unit = units[test_random(state) % 4];
	const uint64_t row = test_random(state) % (rows / unit + 1) * unit + test_random(state) % 3;

	return row > 0 ? row - 1 : 0;
}

Test(cache_map, a_map_answers_as_an_array_does)
{
	static const uint64_t sizes[] = {
		1,
		2,
		63,
		64,
		65,
		128,
		4095,
		4096,
		4097,
		4160,
		64 * 64 * 64 - 1,
		64 * 64 * 64,
		64 * 64 * 64 + 1,
		MAP_ROWS_MAX,
	};
	uint64_t state = 4;

	for (unsigned s = 0; s < RUNG__ARRAY_LEN(sizes); s++) {
		const uint64_t rows = sizes[s];

		open_map(rows);
		check_map(0);
		for (unsigned step = 0; step < 1500; step++) {
			const uint64_t row = edge_row(&state, rows);
			const bool inside = row<rows, set = test_random(&state) % 3> 0;

			cr_assert_eq(set ? rung__cache_map_set(&map, row)
			                 : rung__cache_map_clear(&map, row),
			             inside && naive[row] != set);
			if (inside)
				naive[row] = set;
			if (step % 8 == 0)
				check_map(edge_row(&state, rows));
		}
		/* empty it again: no bit of a higher level may be left */
		for (uint64_t row = 0; row < rows; row++)
			cr_assert_eq(rung__cache_map_clear(&map, row), naive[row]);
		for (unsigned level = 0; level < map.level_count; level++) {
			for (uint64_t word = 0; word < map.level_words[level]; word++)
				cr_assert_eq(map.levels[level][word], 0);
		}
		free(words);
	}
}

/* Another process can write anything into a map in shared memory. */
Test(cache_map, a_damaged_map_is_left_in_bounded_time_and_gives_no_row_outside)
{
	uint64_t state = 9, bytes = open_map(MAP_ROWS_MAX), found;

	for (unsigned round = 0; round < 3000; round++) {
		for (unsigned i = 0; i < 4; i++)
			words[test_random(&state) % (bytes / 8)] =
				round % 2 ? test_random(&state) : (uint64_t)0 - round % 3 % 2;
		if (rung__cache_map_next(&map, edge_row(&state, MAP_ROWS_MAX), &found))
			cr_assert_lt(found, MAP_ROWS_MAX);
		/* its caller looks the row up, and finds no frame for one that does not exist */
		if (rung__cache_map_last(&map, &found))
			cr_assert_lt(found, map.level_words[0] * 64);
		rung__cache_map_set(&map, edge_row(&state, MAP_ROWS_MAX));
		rung__cache_map_clear(&map, edge_row(&state, MAP_ROWS_MAX));
	}
	free(words);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of rows as maps of bits, with a level above for each 64 words, so that the last row and the
 * next row are found with one step per level. Another process can damage a map in shared memory:
 * every operation ends in bounded time and stays within the map.
 */
#include <assert.h>

#include "cache/state.h"

uint64_t rung__cache_map_lay_out(struct rung__cache_map *map, uint64_t row_count)
{
	uint64_t words = row_count, bytes = 0;

	map->row_count = row_count;
	map->level_count = 0;
	do {
		words = (words - 1) / 64 + 1;
		map->level_words[map->level_count++] = words;
		bytes += words * sizeof(uint64_t);
	} while (words > 1);
	return bytes;
}

void rung__cache_map_place(struct rung__cache_map *map, void *base)
{
	uint64_t *words = base;

	for (unsigned level = 0; level < map->level_count; level++) {
		map->levels[level] = words;
		words += map->level_words[level];
	}
}

/* Set or clear the bit of a row. @return whether that changed it */
static bool change(const struct rung__cache_map *map, uint64_t row, bool set)
{
	bool changed = false;

	if (row >= map->row_count)
		return false;
	for (unsigned level = 0; level < map->level_count; level++, row /= 64) {
		uint64_t *word = &map->levels[level][row / 64];
		const uint64_t before = *word, bit = UINT64_C(1) << row % 64;

		*word = set ? before | bit : before & ~bit;
		if (level == 0)
			changed = *word != before;
		/* the levels above represent words that are not 0, and this one was or still is */
		if (set ? before : *word)
			break;
	}
	return changed;
}

bool rung__cache_map_set(const struct rung__cache_map *map, uint64_t row)
{
	return change(map, row, true);
}

bool rung__cache_map_clear(const struct rung__cache_map *map, uint64_t row)
{
	return change(map, row, false);
}

static uint64_t load(const struct rung__cache_map *map, unsigned level, uint64_t word)
{
	return __atomic_load_n(&map->levels[level][word], __ATOMIC_RELAXED);
}

bool rung__cache_map_last(const struct rung__cache_map *map, uint64_t *row_out)
{
	uint64_t row = 0;

	for (unsigned level = map->level_count; level-- > 0;) {
		uint64_t bits;

		if (row >= map->level_words[level])
			return false;
		bits = load(map, level, row);
		if (!bits)
			return false;
		row = row * 64 + 63 - (uint64_t)__builtin_clzll(bits);
	}
	*row_out = row;
	return true;
}

bool rung__cache_map_next(const struct rung__cache_map *map, uint64_t row, uint64_t *row_out)
{
	unsigned level = 0;
	uint64_t bits = 0;

	/* up, until a word has a bit at or after the position */
	for (; level < map->level_count; level++) {
		if (row / 64 >= map->level_words[level])
			return false;
		bits = load(map, level, row / 64) & UINT64_MAX << row % 64;
		if (bits)
			break;
		row = row / 64 + 1;
	}
	if (!bits)
		return false;
	row = row / 64 * 64 + (uint64_t)__builtin_ctzll(bits);
	/* down, to the first row below that bit */
	while (level-- > 0) {
		bits = row < map->level_words[level] ? load(map, level, row) : 0;
		if (!bits)
			return false;
		row = row * 64 + (uint64_t)__builtin_ctzll(bits);
	}
	*row_out = row;
	return row < map->row_count;
}

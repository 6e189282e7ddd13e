/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Compressed offsets of the neighbour lists of a graph: 2 bytes per vertex instead of the 8 of an
 * indptr. Private to samplers and to the store that holds them.
 *
 * A line of 64 bytes has the lists of 32 vertices: 33 borders of 14 bits, relative to the position
 * of the line's first entry, and that position. List i is between the borders i and i + 1, so one
 * load from one line of the cache finds a list. The lists of a *wide* line have more
 * entries than 14 bits can count; its ends are in a table after all lines. A wide line has at least
 * 2^14 entries, so a graph has few of them.
 */
#ifndef RUNG_OFFSETS_H
#define RUNG_OFFSETS_H

#include <string.h>

#include "base/base.h"

#define RUNG__OFFSETS_VERTICES 32u /* vertices of a line */
#define RUNG__OFFSETS_BITS     14u /* bits of a border */
#define RUNG__OFFSETS_WIDE     (UINT64_C(1) << 63)
#define RUNG__OFFSETS_EDGES    (UINT64_C(1) << 49) /* a graph has fewer edges than that */

struct rung__offset_line {
	/* the borders from the lowest bit on. The last word has the last border, above it the
	 * position of the first entry, and RUNG__OFFSETS_WIDE. Of a wide line, the first word is
	 * its index in the table, and the others but the last are not used */
	uint64_t words[8];
};

/** The memory is one block, [lines | wide], of rung__offsets_bytes() bytes. */
struct rung__offsets {
	const struct rung__offset_line *lines; /* NULL: not used */
	const uint64_t *wide; /* [wide lines][32] ends, relative to the line's position */
};

/** A neighbour list: entries begin to begin + degree - 1 of indices. */
struct rung__list {
	uint64_t begin, degree;
};

/**
 * Bytes of the block. Its table of wide lines has space for as many as the edges allow; the caller
 * maps memory that grows when it is touched, so that unused space costs nothing.
 * @return 0: the size overflows
 */
uint64_t rung__offsets_bytes(uint64_t vertex_count, uint64_t edge_count);

/** The two parts of a block. */
struct rung__offsets rung__offsets_of(const void *block, uint64_t vertex_count);

/** State of filling a block, vertex by vertex. */
struct rung__offsets_writer {
	struct rung__offset_line *lines;
	uint64_t *wide;
	uint64_t vertex_count, edge_count;
	uint64_t vertices;   /* whose ends have been added */
	uint64_t wide_count; /* lines in the table */
	uint64_t base;       /* begin of the present line */
	uint64_t end;        /* end of the last list */
	uint64_t degree_max;
	uint64_t ends[RUNG__OFFSETS_VERTICES]; /* of the present line, relative to its base */
};

/** @param block  zeroed */
void rung__offsets_begin(struct rung__offsets_writer *writer, void *block, uint64_t vertex_count,
                         uint64_t edge_count);

/**
 * Add the ends of the next lists, which are the entries 1, 2, … of an indptr.
 * @return 0, or RUNG_E_FORMAT if they decrease or exceed the number of edges; the message names the
 *         entry, and begins with `name`
 */
int rung__offsets_add(struct rung__offsets_writer *writer, const char *name, const uint64_t *ends,
                      uint64_t count);

/**
 * Check a block that another process filled: every list must be within the edges. Needed once,
 * because the memory is sealed.
 * @param degree_max_out  length of the longest list
 */
bool rung__offsets_ok(const struct rung__offsets *offsets, uint64_t vertex_count,
                      uint64_t edge_count, uint64_t *degree_max_out);

/* Position of the first entry of a line. */
static inline uint64_t rung__offsets_base(const struct rung__offset_line *line)
{
	return (line->words[7] & ~RUNG__OFFSETS_WIDE) >> RUNG__OFFSETS_BITS;
}

/* A list of a wide line. */
static inline struct rung__list rung__offsets_wide_list(const struct rung__offsets *offsets,
                                                        const struct rung__offset_line *line,
                                                        uint64_t i)
{
	const uint64_t *ends = &offsets->wide[line->words[0] * RUNG__OFFSETS_VERTICES];
	const uint64_t first = i ? ends[i - 1] : 0;

	return (struct rung__list){ rung__offsets_base(line) + first, ends[i] - first };
}

static inline struct rung__list rung__offsets_list(const struct rung__offsets *offsets, uint64_t v)
{
	const struct rung__offset_line *line = &offsets->lines[v / RUNG__OFFSETS_VERTICES];
	const uint64_t i = v % RUNG__OFFSETS_VERTICES, mask = (1u << RUNG__OFFSETS_BITS) - 1;
	const uint64_t bit = i * RUNG__OFFSETS_BITS;
	uint64_t word, first;

	if (line->words[7] & RUNG__OFFSETS_WIDE)
		return rung__offsets_wide_list(offsets, line, i);
	memcpy(&word, (const unsigned char *)line + bit / 8, sizeof(word));
	word >>= bit % 8;
	first = word & mask;
	return (struct rung__list){ (line->words[7] >> RUNG__OFFSETS_BITS) + first,
		                    (word >> RUNG__OFFSETS_BITS & mask) - first };
}

#endif

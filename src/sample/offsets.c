/* SPDX-License-Identifier: Apache-2.0 */
/* Filling and checking compressed offsets. */
#include "sample/offsets.h"

#define ENDS_MAX                                                                                   \
	((UINT64_C(1) << RUNG__OFFSETS_BITS) - 1) /* largest end of a line that is not wide */

static uint64_t line_count(uint64_t vertex_count)
{
	return vertex_count / RUNG__OFFSETS_VERTICES + (vertex_count % RUNG__OFFSETS_VERTICES > 0);
}

uint64_t rung__offsets_bytes(uint64_t vertex_count, uint64_t edge_count)
{
	const uint64_t lines = line_count(vertex_count);
	/* a wide line has more than ENDS_MAX entries */
	const uint64_t wide = RUNG__MIN(lines, edge_count / (ENDS_MAX + 1));
	uint64_t bytes, wide_bytes;

	if (edge_count >= RUNG__OFFSETS_EDGES ||
	    !rung__mul(lines, sizeof(struct rung__offset_line), &bytes) ||
	    !rung__mul(wide, RUNG__OFFSETS_VERTICES * sizeof(uint64_t), &wide_bytes) ||
	    !rung__add(bytes, wide_bytes, &bytes))
		return 0;
	return bytes;
}

struct rung__offsets rung__offsets_of(const void *block, uint64_t vertex_count)
{
	const struct rung__offset_line *lines = block;

	return (struct rung__offsets){ lines,
		                       (const uint64_t *)(lines + line_count(vertex_count)) };
}

void rung__offsets_begin(struct rung__offsets_writer *writer, void *block, uint64_t vertex_count,
                         uint64_t edge_count)
{
	*writer = (struct rung__offsets_writer){ .lines = block,
		                                 .vertex_count = vertex_count,
		                                 .edge_count = edge_count };
	writer->wide = (uint64_t *)(writer->lines + line_count(vertex_count));
}

/* Write the line whose ends are complete, and begin the next one. The ends of missing vertices
 * after the last one repeat the last end. */
static void write_line(struct rung__offsets_writer *writer)
{
	struct rung__offset_line *line =
		&writer->lines[(writer->vertices - 1) / RUNG__OFFSETS_VERTICES];

	for (uint64_t i = (writer->vertices - 1) % RUNG__OFFSETS_VERTICES + 1;
	     i < RUNG__OFFSETS_VERTICES; i++)
		writer->ends[i] = writer->end - writer->base;
	line->words[7] = writer->base << RUNG__OFFSETS_BITS;
	if (writer->ends[RUNG__OFFSETS_VERTICES - 1] > ENDS_MAX) {
		line->words[7] |= RUNG__OFFSETS_WIDE;
		line->words[0] = writer->wide_count;
		memcpy(writer->wide + writer->wide_count++ * RUNG__OFFSETS_VERTICES, writer->ends,
		       sizeof(writer->ends));
		return;
	}
	for (uint64_t i = 0; i < RUNG__OFFSETS_VERTICES; i++) {
		const uint64_t bit = (i + 1) * RUNG__OFFSETS_BITS, shift = bit % 64;

		line->words[bit / 64] |= writer->ends[i] << shift;
		if (shift > 64 - RUNG__OFFSETS_BITS)
			line->words[bit / 64 + 1] |= writer->ends[i] >> (64 - shift);
	}
}

int rung__offsets_add(struct rung__offsets_writer *writer, const char *name, const uint64_t *ends,
                      uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		const uint64_t place = writer->vertices % RUNG__OFFSETS_VERTICES;

		if (ends[i] < writer->end || ends[i] > writer->edge_count)
			return rung__fail(RUNG_E_FORMAT,
			                  "%s: entry %" PRIu64 " is %" PRIu64
			                  ", but the entry before it is %" PRIu64
			                  " and the graph has %" PRIu64
			                  " edges; run rung verify, and stage the dataset again",
			                  name, writer->vertices + 1, ends[i], writer->end,
			                  writer->edge_count);
		if (place == 0)
			writer->base = writer->end;
		writer->degree_max = RUNG__MAX(writer->degree_max, ends[i] - writer->end);
		writer->end = ends[i];
		writer->ends[place] = ends[i] - writer->base;
		writer->vertices++;
		if (place == RUNG__OFFSETS_VERTICES - 1 || writer->vertices == writer->vertex_count)
			write_line(writer);
	}
	return 0;
}

/* Check a line, whose first list must begin at *begin, which becomes the begin of the next line. */
static bool line_ok(const struct rung__offsets *offsets, uint64_t number, uint64_t wide_max,
                    uint64_t edge_count, uint64_t *degree_max, uint64_t *begin)
{
	const struct rung__offset_line *line = &offsets->lines[number];

	if (rung__offsets_base(line) != *begin ||
	    (line->words[7] & RUNG__OFFSETS_WIDE && line->words[0] >= wide_max))
		return false;
	for (uint64_t i = 0; i < RUNG__OFFSETS_VERTICES; i++) {
		const struct rung__list list =
			rung__offsets_list(offsets, number * RUNG__OFFSETS_VERTICES + i);

		/* an end below the one before gives a degree that wraps around */
		if (list.begin != *begin || list.degree > edge_count - *begin)
			return false;
		*degree_max = RUNG__MAX(*degree_max, list.degree);
		*begin += list.degree;
	}
	return true;
}

bool rung__offsets_ok(const struct rung__offsets *offsets, uint64_t vertex_count,
                      uint64_t edge_count, uint64_t *degree_max_out)
{
	const uint64_t lines = line_count(vertex_count);
	const uint64_t wide_max = RUNG__MIN(lines, edge_count / (ENDS_MAX + 1));
	uint64_t begin = 0, degree_max = 0;

	for (uint64_t i = 0; i < lines; i++) {
		if (!line_ok(offsets, i, wide_max, edge_count, &degree_max, &begin))
			return false;
	}
	*degree_max_out = degree_max;
	return begin == edge_count;
}

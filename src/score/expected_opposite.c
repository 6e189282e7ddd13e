/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The opposite of a relation: the one in which u draws v if v draws u. Candidates have the same two
 * types, exchanged; a relation of a type to itself is a candidate for itself. If there are several,
 * the one with the most reversed edges is chosen, estimated from minima of hashes of the edges (one
 * permutation hashing: Li, Owen, Zhang, "One Permutation Hashing", 2012). The minima do not depend
 * on the order of the edges.
 */
#include "graph/graph.h"
#include "score/expected.h"

#define BUCKETS 256u /* an estimate within three percent, from 2 KiB */

/* Minima of the hashes of all edges, and of their reverses. UINT64_MAX: no edge. */
struct sketch {
	uint64_t forth[BUCKETS], back[BUCKETS];
	int threads;
};

static void take(uint64_t *minima, uint64_t from, uint64_t to)
{
	const uint64_t hash = rung__mix64(rung__mix64(from) + to);
	uint64_t *least = &minima[hash % BUCKETS];

	*least = RUNG__MIN(*least, hash);
}

/* Add the edges of a chunk. */
static int add_chunk(void *ctx, const struct rung__edge_chunk *chunk)
{
	struct sketch *sketch = ctx;
	uint64_t *forth = sketch->forth, *back = sketch->back;

#pragma omp parallel for num_threads(sketch->threads) schedule(dynamic, 1024)                      \
	reduction(min                                                                              \
                  : forth[:BUCKETS], back                                                          \
                  [:BUCKETS])
	for (uint64_t i = 0; i < chunk->vertex_count; i++) {
		const uint64_t v = chunk->vertex_first + i;
		uint64_t at, end;

		for (rung__edge_chunk_list(chunk, i, &at, &end); at < end; at++) {
			const uint64_t u = rung__id_get(chunk->indices, chunk->index_bytes, at);

			take(forth, u, v);
			take(back, v, u);
		}
	}
	return 0;
}

static int sketch_relation(const struct expected_relation *rel, struct sketch *sketch)
{
	for (unsigned i = 0; i < BUCKETS; i++)
		sketch->forth[i] = sketch->back[i] = UINT64_MAX;
	sketch->threads = rel->ex->scoring->threads;
	return rung__scoring_chunks(rel->relation, add_chunk, sketch);
}

static bool may_oppose(const struct expected_relation *rel, const struct expected_relation *other)
{
	return rel->prop && other->prop && other->source == rel->target &&
	       other->target == rel->source;
}

/* Number of minima on which the edges of one relation and the reverses of the other agree. */
static unsigned common(const struct sketch *sketch, const struct sketch *other)
{
	unsigned count = 0;

	for (unsigned i = 0; i < BUCKETS; i++)
		count += sketch->forth[i] == other->back[i] && sketch->forth[i] != UINT64_MAX;
	return count;
}

/* Choose the opposite of relation r by the sketches; itself, or then the first, if several agree
 * equally. */
static void choose(struct expected *ex, uint32_t r, const struct sketch *sketches)
{
	struct expected_relation *rel = &ex->relations[r];
	unsigned most = 0;

	rel->opposite = may_oppose(rel, rel) ? rel : NULL;
	if (rel->opposite)
		most = common(&sketches[r], &sketches[r]);
	for (uint32_t i = 0; i < ex->scoring->graph->relation_count; i++) {
		const unsigned agree = common(&sketches[r], &sketches[i]);

		if (!may_oppose(rel, &ex->relations[i]) || agree <= most)
			continue;
		most = agree;
		rel->opposite = &ex->relations[i];
	}
}

int rung__expected_find_opposites(struct expected *ex)
{
	const uint32_t count = ex->scoring->graph->relation_count;
	struct sketch *sketches;
	bool several = false;
	int rc = 0;

	for (uint32_t r = 0; r < count; r++) {
		for (uint32_t i = 0; i < count; i++) {
			if (!may_oppose(&ex->relations[r], &ex->relations[i]))
				continue;
			several = several || ex->relations[r].opposite;
			ex->relations[r].opposite = &ex->relations[i];
		}
	}
	if (!several)
		return 0;
	sketches = rung__malloc_array(count, sizeof(*sketches));
	if (!sketches)
		return rung__fail(RUNG_E_NOMEM,
		                  "score expected: no memory for %" PRIu32 " relations", count);
	for (uint32_t r = 0; rc == 0 && r < count; r++)
		rc = ex->relations[r].prop ? sketch_relation(&ex->relations[r], &sketches[r]) : 0;
	for (uint32_t r = 0; rc == 0 && r < count; r++)
		choose(ex, r, sketches);
	ex->scoring->report->edge_passes++;
	rung__free(sketches);
	return rc;
}

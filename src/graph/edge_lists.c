/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading edge lists: their shape, chunks of them, their largest id, their edges as pairs.
 *
 * The files are not trusted, and may change between passes. Each pass therefore checks every id
 * again; fail_id() looks for the first bad one only after a check has failed.
 */
#include "graph/edge_lists.h"

#include "graph/graph_ids.h"
#include "graph/graph.h"
#include "source/source.h"

/* One open edge list. */
struct rung__edge_list {
	struct rung_source *src;
	enum rung_dtype dtype; /* of the ids in the file */
	uint64_t edge_count;
	bool by_side; /* [2,E]: all sources, then all destinations; else [E,2] */
	struct rung__id_range source, destination;
};

/* A chunk of one list in lists->raw: source i is element source_at + stride * i, destination i is
 * element destination_at + stride * i. */
struct chunk {
	const struct rung__edge_list *list;
	uint64_t first;  /* its first edge in the list */
	uint64_t number; /* of that edge in all lists */
	uint64_t count;
	uint64_t stride;
	uint64_t source_at, destination_at; /* elements of the first edge */
};

typedef int (*chunk_fn)(struct rung__edge_lists *lists, const struct chunk *chunk, void *ctx);

/* Open the SRC of a spec, and keep the ranges of its parts. */
static int open_source(const char *spec, bool reversed, int *transposed_out,
                       struct rung__edge_list *list)
{
	struct rung__edge_spec parts;
	char *src_spec;
	int rc = rung__edge_spec_parse(spec, &parts);

	if (rc < 0)
		return rc;
	src_spec = rung__format("%.*s", (int)parts.src_length, spec);
	if (!src_spec)
		return rung__fail(RUNG_E_NOMEM, "%s: no memory", spec);
	rc = rung__ids_open_matrix(src_spec, "an edge index", transposed_out, &list->src);
	rung__free(src_spec);
	list->source = reversed ? parts.destination : parts.source;
	list->destination = reversed ? parts.source : parts.destination;
	return rc;
}

/* Open a list and determine which of the two shapes it has. [2,2] is read as [2,E]. */
static int open_list(const char *spec, bool reversed, struct rung__edge_list *list)
{
	const struct rung_array_info *info;
	uint64_t first, second; /* dimensions as the file states them */
	int transposed, rc;

	rc = open_source(spec, reversed, &transposed, list);
	if (rc < 0)
		return rc;
	info = rung_source_info(list->src);
	first = info->dims[transposed ? 1 : 0];
	second = info->dims[transposed ? 0 : 1];
	if (first != 2 && second != 2)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: the edge index has shape [%" PRIu64 ",%" PRIu64
		                  "]; it must be [2,E] or [E,2]: reshape it",
		                  spec, first, second);
	list->dtype = info->dtype;
	list->edge_count = first == 2 ? second : first;
	/* in the file, [2,E] in Fortran order is the same as [E,2] in C order */
	list->by_side = (first == 2) != (transposed != 0);
	return 0;
}

/* Open all lists of a graph. */
static int open_lists(struct rung__edge_lists *lists)
{
	const struct rung_graph_opts *opts = lists->opts;
	int rc;

	for (size_t i = 0; i < opts->spec_count; i++) {
		rc = open_list(opts->specs[i], opts->reversed, &lists->lists[i]);
		if (rc < 0)
			return rc;
		lists->source_bytes += rung__source_location(lists->lists[i].src).memory_bytes;
		if (!rung__add(lists->edge_count, lists->lists[i].edge_count, &lists->edge_count))
			return rung__fail(
				RUNG_E_FORMAT,
				"%s: this and the previous lists have more than 2^64 edges",
				opts->specs[i]);
	}
	return 0;
}

/* Read a chunk. [E,2] needs one read. [2,E] needs two, for sources and destinations, stored one
 * after the other. */
static int read_chunk(struct rung__edge_lists *lists, struct chunk *chunk)
{
	const struct rung__edge_list *list = chunk->list;
	char *raw = lists->raw;
	int rc;

	chunk->stride = list->by_side ? 1 : 2;
	chunk->source_at = 0;
	chunk->destination_at = list->by_side ? chunk->count : 1;
	if (lists->opts->reversed) {
		chunk->source_at = chunk->destination_at;
		chunk->destination_at = 0;
	}
	if (!list->by_side)
		return rung__ids_read(list->src, 2 * chunk->first, 2 * chunk->count, raw);
	rc = rung__ids_read(list->src, chunk->first, chunk->count, raw);
	if (rc < 0)
		return rc;
	raw += chunk->count * rung_dtype_bytes(list->dtype);
	return rung__ids_read(list->src, list->edge_count + chunk->first, chunk->count, raw);
}

/* One pass over all lists, in their order. */
static int for_each_chunk(struct rung__edge_lists *lists, chunk_fn fn, void *ctx)
{
	uint64_t done = lists->pass_first, number = 0;
	int rc;

	for (size_t i = 0; i < lists->opts->spec_count; i++) {
		struct chunk chunk = { .list = &lists->lists[i], .number = number };

		for (; chunk.first < chunk.list->edge_count; chunk.first += chunk.count) {
			chunk.count =
				RUNG__MIN(lists->chunk_edges, chunk.list->edge_count - chunk.first);
			rc = read_chunk(lists, &chunk);
			if (rc < 0)
				return rc;
			rc = fn(lists, &chunk, ctx);
			if (rc < 0)
				return rc;
			done += chunk.count;
			chunk.number = number += chunk.count;
			rc = rung__progress(lists->opts->progress, lists->opts->progress_ctx,
			                    "edges", done, lists->pass_total);
			if (rc < 0)
				return rc;
		}
	}
	lists->pass_first = done;
	return 0;
}

/* Both ends of edge i of a chunk, as stored in the file. */
static inline uint64_t source_of(const struct rung__edge_lists *lists, const struct chunk *chunk,
                                 uint64_t i)
{
	return rung__ids_get(lists->raw, chunk->list->dtype, chunk->source_at + chunk->stride * i);
}

static inline uint64_t destination_of(const struct rung__edge_lists *lists,
                                      const struct chunk *chunk, uint64_t i)
{
	return rung__ids_get(lists->raw, chunk->list->dtype,
	                     chunk->destination_at + chunk->stride * i);
}

/* The smallest value in the file that is not a valid id for one side of a list. Adding range->first
 * to an id gives a vertex. It must be below the vertex count or, while that is unknown, not
 * overflow. */
static uint64_t id_limit(const struct rung__edge_list *list, uint64_t vertex_count,
                         const struct rung__id_range *range)
{
	uint64_t limit = UINT64_MAX - range->first;

	if (vertex_count > 0)
		limit = vertex_count > range->first ? vertex_count - range->first : 0;
	return rung__ids_limit(list->dtype, RUNG__MIN(limit, range->count));
}

/* The same for both sides. */
static uint64_t source_limit_of(const struct rung__edge_lists *lists,
                                const struct rung__edge_list *list)
{
	return id_limit(list, lists->source_count, &list->source);
}

static uint64_t destination_limit_of(const struct rung__edge_lists *lists,
                                     const struct rung__edge_list *list)
{
	return id_limit(list, lists->vertex_count, &list->destination);
}

/* Report edge i of a chunk, whose source or destination is out of range. */
static int fail_id(const struct rung__edge_lists *lists, const struct chunk *chunk, uint64_t i)
{
	const enum rung_dtype dtype = chunk->list->dtype;
	const struct rung__id_range *range = &chunk->list->source;
	uint64_t value = source_of(lists, chunk, i), limit = source_limit_of(lists, chunk->list);
	const char *side = "source", *cure = "correct the edge";
	char text[RUNG__ID_TEXT_BYTES], last[RUNG__ID_TEXT_BYTES] = "none";

	if (value < limit) {
		range = &chunk->list->destination;
		value = destination_of(lists, chunk, i);
		limit = destination_limit_of(lists, chunk->list);
		side = "destination";
	}
	if (limit > 0)
		rung__ids_text(last, RUNG_U64, limit - 1);
	if (limit == range->count)
		cure = "correct the edge or the count of ids";
	else if (lists->opts->source_count)
		cure = range == &chunk->list->source
		               ? "correct the edge or give the right number of sources"
		               : "correct the edge or give the right number of targets";
	else if (lists->vertex_count > 0)
		cure = "correct the edge or give the right vertex count";
	return rung__fail(RUNG_E_RANGE,
	                  "%s: edge %" PRIu64 "%s: %s id %s is out of range 0..%s; %s",
	                  rung__source_spec(chunk->list->src), chunk->first + i,
	                  lists->opts->reversed ? ", reversed" : "", side,
	                  rung__ids_text(text, dtype, value), last, cure);
}

/* Whether the source or the destination of edge i of a chunk is out of range. */
static bool is_stray(const struct rung__edge_lists *lists, const struct chunk *chunk, uint64_t i)
{
	const struct rung__edge_list *list = chunk->list;

	return source_of(lists, chunk, i) >= source_limit_of(lists, list) ||
	       destination_of(lists, chunk, i) >= destination_limit_of(lists, list);
}

/* The larger vertex id of edge i of a chunk. */
static uint64_t larger_end(const struct rung__edge_lists *lists, const struct chunk *chunk,
                           uint64_t i)
{
	const struct rung__edge_list *list = chunk->list;
	const uint64_t source = source_of(lists, chunk, i) + list->source.first;
	const uint64_t destination = destination_of(lists, chunk, i);

	return RUNG__MAX(source, destination + list->destination.first);
}

/* A chunk_fn: find the largest id, and the first edge that has it. That edge is named if memory
 * for the graph cannot be allocated, because a wrong id may be the cause. */
static int find_largest(struct rung__edge_lists *lists, const struct chunk *chunk, void *ctx)
{
	uint64_t largest = 0, at = 0, strays = 0;

	(void)ctx;
#pragma omp parallel for num_threads(lists->threads) reduction(max : largest) \
        reduction(+ : strays) schedule(static)
	for (uint64_t i = 0; i < chunk->count; i++) {
		const uint64_t end = larger_end(lists, chunk, i);

		strays += is_stray(lists, chunk, i);
		largest = RUNG__MAX(largest, end);
	}
	if (strays > 0) {
		while (!is_stray(lists, chunk, at))
			at++;
		return fail_id(lists, chunk, at);
	}
	/* only a chunk with a new largest id is searched for its position */
	if (lists->largest_spec && largest <= lists->largest)
		return 0;
	while (larger_end(lists, chunk, at) != largest)
		at++;
	lists->largest = largest;
	lists->largest_spec = rung__source_spec(chunk->list->src);
	lists->largest_edge = chunk->first + at;
	return 0;
}

/* Remove the reverse pairs of self loops, which are at odd positions. @return remaining pairs */
static uint64_t close_gaps(const struct rung__edge_lists *lists, uint64_t pair_count)
{
	uint64_t at = 0;

	for (uint64_t i = 0; i < pair_count; i++) {
		const uint64_t key = rung__id_get(lists->keys, lists->index_bytes, i);
		const uint64_t value = rung__id_get(lists->values, lists->index_bytes, i);

		if (i % 2 == 1 && key == value)
			continue;
		rung__id_set(lists->keys, lists->index_bytes, at, key);
		rung__id_set(lists->values, lists->index_bytes, at++, value);
	}
	return at;
}

/* Convert a chunk to pairs of destination and source, and check it. Bad ids are written too, cut
 * off to index_bytes, because the loop has no branch out; the chunk is then not used. */
static int make_pairs(struct rung__edge_lists *lists, const struct chunk *chunk,
                      uint64_t *pair_count_out)
{
	const uint64_t source_first = chunk->list->source.first,
		       destination_first = chunk->list->destination.first;
	const uint64_t source_limit = source_limit_of(lists, chunk->list);
	const uint64_t destination_limit = destination_limit_of(lists, chunk->list);
	const uint64_t per_edge = lists->opts->undirected ? 2 : 1;
	const unsigned index_bytes = lists->index_bytes;
	uint64_t first_bad = chunk->count, self_loops = 0;

#pragma omp parallel for num_threads(lists->threads) reduction(min : first_bad) \
        reduction(+ : self_loops) schedule(static)
	for (uint64_t i = 0; i < chunk->count; i++) {
		uint64_t source = source_of(lists, chunk, i);
		uint64_t destination = destination_of(lists, chunk, i);

		if (source >= source_limit || destination >= destination_limit)
			first_bad = RUNG__MIN(first_bad, i);
		source += source_first;
		destination += destination_first;
		self_loops += source == destination;
		if (lists->numbered)
			source = chunk->number + i;
		rung__id_set(lists->keys, index_bytes, per_edge * i, destination);
		rung__id_set(lists->values, index_bytes, per_edge * i, source);
		if (per_edge == 2) {
			rung__id_set(lists->keys, index_bytes, 2 * i + 1, source);
			rung__id_set(lists->values, index_bytes, 2 * i + 1, destination);
		}
	}
	if (first_bad < chunk->count)
		return fail_id(lists, chunk, first_bad);
	*pair_count_out = per_edge * chunk->count;
	if (per_edge == 2 && self_loops)
		*pair_count_out = close_gaps(lists, *pair_count_out);
	return 0;
}

/* Context of rung__edge_lists_each(). */
struct sink {
	int (*accept)(void *ctx, const void *keys, const void *values, uint64_t pair_count,
	              const char *spec);
	void *ctx;
};

/* A chunk_fn: convert a chunk and pass its pairs on. */
static int accept_chunk(struct rung__edge_lists *lists, const struct chunk *chunk, void *ctx)
{
	const struct sink *sink = ctx;
	uint64_t pair_count = 0;
	int rc = make_pairs(lists, chunk, &pair_count);

	if (rc < 0)
		return rc;
	return sink->accept(sink->ctx, lists->keys, lists->values, pair_count,
	                    rung__source_spec(chunk->list->src));
}

int rung__edge_lists_each(struct rung__edge_lists *lists,
                          int (*accept)(void *ctx, const void *keys, const void *values,
                                        uint64_t pair_count, const char *spec),
                          void *ctx)
{
	struct sink sink = { accept, ctx };

	return for_each_chunk(lists, accept_chunk, &sink);
}

/* Allocate keys and values in the width that the vertex count needs. */
static int alloc_pairs(struct rung__edge_lists *lists)
{
	const uint64_t per_edge = lists->opts->undirected ? 2 : 1;

	lists->source_count =
		lists->opts->source_count ? lists->opts->source_count : lists->vertex_count;
	lists->index_bytes = rung_index_bytes(RUNG__MAX(
		lists->vertex_count, lists->numbered ? lists->edge_count : lists->source_count));
	lists->keys = rung__malloc_array(per_edge * lists->chunk_edges, lists->index_bytes);
	lists->values = rung__malloc_array(per_edge * lists->chunk_edges, lists->index_bytes);
	if (!lists->keys || !lists->values)
		return rung__fail(RUNG_E_NOMEM,
		                  "graph: no memory to read %" PRIu64 " edges at a time",
		                  lists->chunk_edges);
	return 0;
}

int rung__edge_lists_find_vertex_count(struct rung__edge_lists *lists)
{
	int rc = 0;

	lists->vertex_count = lists->opts->vertex_count;
	if (lists->vertex_count == 0) {
		if (lists->edge_count == 0)
			return rung__fail(RUNG_E_FORMAT,
			                  "%s: no edges, so the number of vertices is unknown; "
			                  "give the vertex count",
			                  rung__graph_first(lists->opts));
		rc = for_each_chunk(lists, find_largest, NULL);
		lists->vertex_count = lists->largest + 1;
	}
	return rc < 0 ? rc : alloc_pairs(lists);
}

int rung__edge_lists_open(struct rung__edge_lists *lists, const struct rung_graph_opts *opts,
                          uint64_t chunk_edges)
{
	*lists = (struct rung__edge_lists){ .opts = opts,
		                            .threads = rung__threads(0),
		                            .chunk_edges = chunk_edges };
	lists->lists = rung__zalloc_array(opts->spec_count, sizeof(*lists->lists));
	if (!lists->lists)
		return rung__fail(RUNG_E_NOMEM, "graph of %zu edge lists: no memory",
		                  opts->spec_count);
	lists->raw = rung__malloc_array(2 * chunk_edges, sizeof(uint64_t));
	if (!lists->raw)
		return rung__fail(RUNG_E_NOMEM,
		                  "graph: no memory to read %" PRIu64 " edges at a time",
		                  chunk_edges);
	return open_lists(lists);
}

void rung__edge_lists_close(struct rung__edge_lists *lists)
{
	for (size_t i = 0; lists->lists && i < lists->opts->spec_count; i++)
		rung_source_close(lists->lists[i].src);
	rung__free(lists->lists);
	rung__free(lists->raw);
	rung__free(lists->keys);
	rung__free(lists->values);
}

int rung__edges_changed(const char *spec)
{
	return rung__fail(RUNG_E_IO,
	                  "%s: the file changed while it was read; run again when no other process "
	                  "writes to it",
	                  spec);
}

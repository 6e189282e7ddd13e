/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Edge lists to columns. The files are read twice, a chunk at a time: the first pass counts the length of every column,
 * the second puts the sources into their places (and one more pass comes first when the vertex count is to be found).
 * So the edges are in memory once. Input order is kept inside a column; the reverse of an edge follows it.
 *
 * Files may change between the passes: every pass checks every id, and no column is written past its end.
 */
#include <string.h>

#include "bucket.h"
#include "graph_ids.h"
#include "graph_internal.h"

#define CHUNK_EDGES (RUNG__CHUNK_PAIRS / 2)   /* an edge and its reverse are two pairs */

struct edge_list {
	struct rung_source *src;
	enum rung_dtype dtype;
	uint64_t edge_count;
	bool by_side;           /* [2,E]: all sources, then all destinations; else [E,2] */
};

struct loader {
	const struct rung_graph_opts *opts;
	struct edge_list *lists;   /* [opts->spec_count] */
	uint64_t edge_count;       /* of all lists */
	uint64_t vertex_count;
	unsigned index_bytes;
	int threads;
	void *raw;                 /* [2 * CHUNK_EDGES] as in the file */
	void *keys;                /* [2 * CHUNK_EDGES] destinations, and with undirected the sources behind them */
	void *values;
	uint64_t pass_first;       /* edges of earlier passes, for progress */
	uint64_t pass_total;
	uint64_t largest;          /* largest id so far, and where it stands */
	const char *largest_spec;
	uint64_t largest_edge;
	uint64_t *indptr;
	uint64_t *next;
	void *indices;
	struct rung__buckets buckets;
};

/* A chunk of one list in loader->raw: source i at element source_at + stride * i. */
struct chunk {
	const struct edge_list *list;
	uint64_t first;
	uint64_t count;
	uint64_t stride;
	uint64_t destination_at;   /* source_at is 0 */
};

typedef int (*chunk_fn)(struct loader *loader, const struct chunk *chunk);

static int open_list(const char *spec, struct edge_list *list)
{
	const struct rung_array_info *info;
	uint64_t first, second;   /* dimensions as the file states them */
	int transposed, rc;

	rc = rung__ids_open_matrix(spec, "an edge index", &transposed, &list->src);
	if (rc < 0)
		return rc;
	info = rung_source_info(list->src);
	first = info->dims[transposed ? 1 : 0];
	second = info->dims[transposed ? 0 : 1];
	if (first != 2 && second != 2)
		return rung__fail(RUNG_E_FORMAT, "%s: an edge index of shape [%" PRIu64 ",%" PRIu64 "]: it must be [2,E] or [E,2]; reshape it",
		                  spec, first, second);
	list->dtype = info->dtype;
	list->edge_count = first == 2 ? second : first;
	list->by_side = (first == 2) != (transposed != 0);   /* [2,E] in Fortran order lies in the file as [E,2] does in C order */
	return 0;
}

static int open_lists(struct loader *loader)
{
	const struct rung_graph_opts *opts = loader->opts;
	int rc;

	for (size_t i = 0; i < opts->spec_count; i++) {
		rc = open_list(opts->specs[i], &loader->lists[i]);
		if (rc < 0)
			return rc;
		if (!rung__add(loader->edge_count, loader->lists[i].edge_count, &loader->edge_count))
			return rung__fail(RUNG_E_FORMAT, "%s: with the lists before it there are more than 2^64 edges", opts->specs[i]);
	}
	return 0;
}

static int read_chunk(struct loader *loader, struct chunk *chunk)
{
	const struct edge_list *list = chunk->list;
	char *raw = loader->raw;
	int rc;

	if (!list->by_side) {
		chunk->stride = 2;
		chunk->destination_at = 1;
		return rung__ids_read(list->src, 2 * chunk->first, 2 * chunk->count, raw);
	}
	chunk->stride = 1;
	chunk->destination_at = chunk->count;
	rc = rung__ids_read(list->src, chunk->first, chunk->count, raw);
	if (rc < 0)
		return rc;
	raw += chunk->count * rung_dtype_bytes(list->dtype);
	return rung__ids_read(list->src, list->edge_count + chunk->first, chunk->count, raw);
}

static int for_each_chunk(struct loader *loader, chunk_fn fn)
{
	uint64_t done = loader->pass_first;
	int rc;

	for (size_t i = 0; i < loader->opts->spec_count; i++) {
		struct chunk chunk = { .list = &loader->lists[i] };

		for (; chunk.first < chunk.list->edge_count; chunk.first += chunk.count) {
			chunk.count = RUNG__MIN(CHUNK_EDGES, chunk.list->edge_count - chunk.first);
			rc = read_chunk(loader, &chunk);
			if (rc < 0)
				return rc;
			rc = fn(loader, &chunk);
			if (rc < 0)
				return rc;
			done += chunk.count;
			rc = rung__progress(loader->opts->progress, loader->opts->progress_ctx, "edges", done, loader->pass_total);
			if (rc < 0)
				return rc;
		}
	}
	loader->pass_first = done;
	return 0;
}

static int fail_id(const struct loader *loader, const struct chunk *chunk, uint64_t i)
{
	const enum rung_dtype dtype = chunk->list->dtype;
	const bool known = loader->vertex_count > 0;
	uint64_t value = rung__ids_get(loader->raw, dtype, chunk->stride * i);
	const char *side = "source";
	char text[RUNG__ID_TEXT_BYTES];

	if (value < rung__ids_limit(dtype, known ? loader->vertex_count : UINT64_MAX)) {
		value = rung__ids_get(loader->raw, dtype, chunk->destination_at + chunk->stride * i);
		side = "destination";
	}
	return rung__fail(RUNG_E_RANGE, "%s: edge %" PRIu64 ": %s id %s is out of range 0..%" PRIu64 "; %s",
	                  rung_source_spec(chunk->list->src), chunk->first + i, side, rung__ids_text(text, dtype, value),
	                  known ? loader->vertex_count - 1 : rung__ids_limit(dtype, UINT64_MAX) - 1,
	                  known ? "correct the edge or give the right vertex count" : "correct the edge");
}

static int find_largest(struct loader *loader, const struct chunk *chunk)
{
	const enum rung_dtype dtype = chunk->list->dtype;
	const uint64_t limit = rung__ids_limit(dtype, UINT64_MAX);
	const uint64_t element_count = 2 * chunk->count;
	uint64_t largest = 0, at = 0;

#pragma omp parallel for num_threads(loader->threads) reduction(max : largest) schedule(static)
	for (uint64_t i = 0; i < element_count; i++) {
		const uint64_t id = rung__ids_get(loader->raw, dtype, i);

		largest = RUNG__MAX(largest, id);
	}
	if (largest >= limit) {
		while (rung__ids_get(loader->raw, dtype, chunk->stride * at) < limit &&
		       rung__ids_get(loader->raw, dtype, chunk->destination_at + chunk->stride * at) < limit)
			at++;
		return fail_id(loader, chunk, at);
	}
	if (loader->largest_spec && largest <= loader->largest)
		return 0;
	while (rung__ids_get(loader->raw, dtype, chunk->stride * at) != largest &&
	       rung__ids_get(loader->raw, dtype, chunk->destination_at + chunk->stride * at) != largest)
		at++;
	loader->largest = largest;
	loader->largest_spec = rung_source_spec(chunk->list->src);
	loader->largest_edge = chunk->first + at;
	return 0;
}

/* Take the pairs of the reverse of self loops out again. */
static uint64_t close_gaps(const struct loader *loader, uint64_t pair_count)
{
	uint64_t at = 0;

	for (uint64_t i = 0; i < pair_count; i++) {
		const uint64_t key = rung__id_get(loader->keys, loader->index_bytes, i);
		const uint64_t value = rung__id_get(loader->values, loader->index_bytes, i);

		if (i % 2 == 1 && key == value)
			continue;
		rung__id_set(loader->keys, loader->index_bytes, at, key);
		rung__id_set(loader->values, loader->index_bytes, at++, value);
	}
	return at;
}

/* The chunk as pairs of destination and source, checked. */
static int make_pairs(struct loader *loader, const struct chunk *chunk, uint64_t *pair_count_out)
{
	const enum rung_dtype dtype = chunk->list->dtype;
	const uint64_t limit = rung__ids_limit(dtype, loader->vertex_count);
	const uint64_t per_edge = loader->opts->undirected ? 2 : 1;
	const unsigned index_bytes = loader->index_bytes;
	uint64_t first_bad = chunk->count, self_loops = 0;

#pragma omp parallel for num_threads(loader->threads) reduction(min : first_bad) reduction(+ : self_loops) schedule(static)
	for (uint64_t i = 0; i < chunk->count; i++) {
		const uint64_t source = rung__ids_get(loader->raw, dtype, chunk->stride * i);
		const uint64_t destination = rung__ids_get(loader->raw, dtype, chunk->destination_at + chunk->stride * i);

		if (source >= limit || destination >= limit)
			first_bad = RUNG__MIN(first_bad, i);
		self_loops += source == destination;
		rung__id_set(loader->keys, index_bytes, per_edge * i, destination);
		rung__id_set(loader->values, index_bytes, per_edge * i, source);
		if (per_edge == 2) {
			rung__id_set(loader->keys, index_bytes, 2 * i + 1, source);
			rung__id_set(loader->values, index_bytes, 2 * i + 1, destination);
		}
	}
	if (first_bad < chunk->count)
		return fail_id(loader, chunk, first_bad);
	*pair_count_out = per_edge * chunk->count;
	if (per_edge == 2 && self_loops)
		*pair_count_out = close_gaps(loader, *pair_count_out);
	return 0;
}

static int count_chunk(struct loader *loader, const struct chunk *chunk)
{
	uint64_t pair_count;
	int rc = make_pairs(loader, chunk, &pair_count);

	if (rc < 0)
		return rc;
	rung__count_keys(loader->keys, loader->index_bytes, pair_count, loader->threads, loader->indptr);
	return 0;
}

static int fail_changed(const char *spec)
{
	return rung__fail(RUNG_E_IO, "%s: the file changed while it was read: run it again when nobody writes to it", spec);
}

static int place_chunk(struct loader *loader, const struct chunk *chunk)
{
	uint64_t pair_count;
	int rc = make_pairs(loader, chunk, &pair_count);

	if (rc < 0)
		return rc;
	if (rung__buckets_place(&loader->buckets, loader->keys, loader->values, pair_count, loader->next, loader->indptr + 1,
	                        loader->indices) != pair_count)
		return fail_changed(rung_source_spec(chunk->list->src));
	return 0;
}

static int find_vertex_count(struct loader *loader)
{
	int rc;

	if (loader->opts->vertex_count) {
		loader->vertex_count = loader->opts->vertex_count;
		return 0;
	}
	if (loader->edge_count == 0)
		return rung__fail(RUNG_E_FORMAT, "%s: no edges, so nothing says how many vertices there are: give the vertex count",
		                  loader->opts->specs[0]);
	rc = for_each_chunk(loader, find_largest);
	loader->vertex_count = loader->largest + 1;
	return rc;
}

static int alloc_columns(struct loader *loader)
{
	uint64_t entries;

	loader->index_bytes = rung_index_bytes(loader->vertex_count);
	loader->keys = rung__malloc_array(2 * CHUNK_EDGES, loader->index_bytes);
	loader->values = rung__malloc_array(2 * CHUNK_EDGES, loader->index_bytes);
	if (rung__add(loader->vertex_count, 1, &entries))
		loader->indptr = rung__zalloc_array(entries, sizeof(*loader->indptr));
	loader->next = rung__malloc_array(loader->vertex_count, sizeof(*loader->next));
	if (loader->keys && loader->values && loader->indptr && loader->next)
		return rung__buckets_init(&loader->buckets, loader->vertex_count, loader->index_bytes, loader->threads);
	if (loader->largest_spec)
		return rung__fail(RUNG_E_NOMEM, "graph of %" PRIu64 " vertices: no memory; so many because edge %" PRIu64
		                  " of %s has id %" PRIu64, loader->vertex_count, loader->largest_edge, loader->largest_spec,
		                  loader->largest);
	return rung__fail(RUNG_E_NOMEM, "graph of %" PRIu64 " vertices: no memory", loader->vertex_count);
}

static int fill_columns(struct loader *loader)
{
	uint64_t pair_count;
	int rc;

	rc = for_each_chunk(loader, count_chunk);
	if (rc < 0)
		return rc;
	rung__offsets_of_counts(loader->indptr, loader->vertex_count + 1);
	memcpy(loader->next, loader->indptr, loader->vertex_count * sizeof(*loader->next));
	pair_count = loader->indptr[loader->vertex_count];
	loader->indices = rung__malloc_array(pair_count, loader->index_bytes);
	if (!loader->indices)
		return rung__fail(RUNG_E_NOMEM, "graph of %" PRIu64 " edges: no memory", pair_count);
	rc = for_each_chunk(loader, place_chunk);
	if (rc < 0)
		return rc;
	for (uint64_t v = 0; v < loader->vertex_count; v++) {
		if (loader->next[v] != loader->indptr[v + 1])
			return fail_changed(loader->opts->specs[0]);
	}
	return 0;
}

static void close_all(struct loader *loader)
{
	for (size_t i = 0; i < loader->opts->spec_count; i++)
		rung_source_close(loader->lists[i].src);
	rung__free(loader->lists);
	rung__free(loader->raw);
	rung__free(loader->keys);
	rung__free(loader->values);
	rung__free(loader->next);
	rung__buckets_fini(&loader->buckets);
}

int rung__graph_from_edges(const struct rung_graph_opts *opts, struct rung_graph **graph_out)
{
	struct loader loader = { .opts = opts, .threads = rung__threads(0) };
	int rc;

	loader.lists = rung__zalloc_array(opts->spec_count, sizeof(*loader.lists));
	if (!loader.lists)
		return rung__fail(RUNG_E_NOMEM, "graph of %zu edge lists: no memory", opts->spec_count);
	loader.raw = rung__malloc_array(2 * CHUNK_EDGES, sizeof(uint64_t));
	if (!loader.raw) {
		rc = rung__fail(RUNG_E_NOMEM, "graph: no memory for %" PRIu64 " edges of a file", CHUNK_EDGES);
		goto out;
	}
	rc = open_lists(&loader);
	if (rc < 0)
		goto out;
	loader.pass_total = loader.edge_count * (opts->vertex_count ? 2 : 3);
	rc = find_vertex_count(&loader);
	if (rc < 0)
		goto out;
	rc = alloc_columns(&loader);
	if (rc < 0)
		goto out;
	rc = fill_columns(&loader);
out:
	close_all(&loader);
	if (rc < 0) {
		rung__free(loader.indptr);
		rung__free(loader.indices);
		return rc;
	}
	return rung__graph_adopt(loader.vertex_count, loader.indptr[loader.vertex_count], loader.indptr, loader.indices,
	                         loader.index_bytes, graph_out);
}

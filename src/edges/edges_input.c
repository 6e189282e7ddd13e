/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Edge lists, columns and rows as pairs (vertex, in-neighbour), in the order in which
 * rung_graph_load() lists them. Sorting is stable, so the order of the pairs decides the order of
 * each list.
 */
#include "edges/edges_input.h"

#include "edges/edges.h"
#include "graph/graph.h"

/* least edges of an edge list that are read at a time */
#define EDGES_MIN 256u
#define EDGES_MAX (UINT64_C(1) << 20) /* most edges that are read at a time */
/* memory per edge of an edge list: two integers as in the file, and at most four ids */
#define LIST_EDGE_BYTES 48u

/* Open edge lists. Without a vertex count one more pass finds the largest id. */
static int open_lists(struct rung__edge_input *input, uint64_t memory_bytes)
{
	const uint64_t edges =
		RUNG__MIN(RUNG__MAX(memory_bytes / LIST_EDGE_BYTES, EDGES_MIN), EDGES_MAX);
	int rc = rung__edge_lists_open(&input->lists, input->opts, edges);

	if (rc < 0)
		return rc;
	/* for the progress: passes to count and to partition, and one to find a missing vertex
	 * count */
	input->lists.pass_total = input->lists.edge_count * (input->opts->vertex_count ? 2 : 3);
	rc = rung__edge_lists_find_vertex_count(&input->lists);
	if (rc < 0)
		return rc;
	input->passes = !input->opts->vertex_count;
	input->vertex_count = input->lists.vertex_count;
	input->source_count = input->lists.source_count;
	input->two_types = input->opts->source_count > 0;
	input->index_bytes = input->lists.index_bytes;
	input->source_bytes = input->lists.source_bytes;
	if (!rung__mul(input->lists.edge_count, input->opts->undirected ? 2 : 1,
	               &input->pair_count_max))
		return rung__fail(RUNG_E_FORMAT, "%s: more than 2^64 edges", input->name);
	return 0;
}

/* Allocate ids for the edges of a chunk. */
static int alloc_ids(const struct rung__edge_input *input, void **ids_out)
{
	*ids_out = rung__malloc_array(input->columns->edges_max, input->index_bytes);
	return *ids_out ? 0
	                : rung__fail(RUNG_E_NOMEM, "%s: no memory for %" PRIu64 " ids", input->name,
	                             input->columns->edges_max);
}

/* Open columns or rows in place. The owner of an edge is the vertex whose list has it. Three
 * quarters of the memory are for the pass, one quarter for the owners: a pass has four chunks of
 * edges in memory, and the owners of a chunk use as much as one more. */
static int open_columns(struct rung__edge_input *input, uint64_t memory_bytes)
{
	struct rung_edges_info info = { .size = sizeof(info) };
	int rc = rung__edges_open_columns(input->opts, memory_bytes * 3 / 4, 0, &input->columns);
	/* smallest memory for the pass, scaled to include the owners */
	const uint64_t least = rc < 0 ? rung_last_error_min_bytes() / 3 * 4 + 4 : 0;

	if (least > 4)
		return rung__fail_min_bytes(
			least,
			"%s: %" PRIu64
			" bytes of memory are not enough to read it; use at least %" PRIu64,
			input->name, memory_bytes, least);
	if (rc < 0)
		return rc;
	rung_edges_info(input->columns, &info);
	input->by_row = rung__graph_by_row(input->opts);
	input->vertex_count = info.vertex_count;
	input->source_count = info.source_count ? info.source_count : info.vertex_count;
	input->two_types = info.source_count > 0;
	if (input->by_row) { /* the lists are those of the sources */
		input->vertex_count = input->source_count;
		input->source_count = info.vertex_count;
	}
	input->index_bytes = info.index_bytes;
	input->source_bytes = input->columns->source_bytes;
	/* cannot overflow: the edges are stored in a file */
	input->pair_count_max = info.edge_count * (input->opts->undirected ? 2 : 1);
	return alloc_ids(input, &input->owners);
}

int rung__edge_input_open(struct rung__edge_input *input, const struct rung_graph_opts *opts,
                          uint64_t memory_bytes)
{
	*input = (struct rung__edge_input){ .opts = opts, .name = rung__graph_first(opts) };
	if (rung__spec_is_csc(input->name) || rung__spec_is_csr(input->name))
		return open_columns(input, memory_bytes);
	return open_lists(input, memory_bytes);
}

/* Use edges that the caller keeps open. */
static int open_borrowed(struct rung__edge_input *input, struct rung_edges *edges)
{
	static const struct rung_graph_opts none = RUNG_GRAPH_OPTS_INIT;

	*input = (struct rung__edge_input){
		.opts = &none,
		.name = edges->indices.name,
		.columns = edges,
		.borrowed = true,
		.two_types = edges->info.source_count > 0,
		.vertex_count = edges->info.vertex_count,
		.source_count = edges->info.source_count ? edges->info.source_count
		                                         : edges->info.vertex_count,
		.pair_count_max = edges->info.edge_count,
		.index_bytes = edges->info.index_bytes,
	};
	return alloc_ids(input, &input->owners);
}

int rung__edge_input_open_turned(struct rung__edge_input *input, struct rung_edges *edges)
{
	int rc = open_borrowed(input, edges);
	const uint64_t vertex_count = input->vertex_count;

	input->by_row = true;
	input->vertex_count = input->source_count;
	input->source_count = vertex_count;
	return rc;
}

int rung__edge_input_open_relabelled(struct rung__edge_input *input, struct rung_edges *edges,
                                     const void *rank_of_vertex, const void *rank_of_source)
{
	int rc = open_borrowed(input, edges);

	input->rank_of_vertex = rank_of_vertex;
	input->rank_of_source = rank_of_source;
	return rc < 0 ? rc : alloc_ids(input, &input->ranks);
}

void rung__edge_input_close(struct rung__edge_input *input)
{
	rung__edge_lists_close(&input->lists);
	if (!input->borrowed)
		rung_edges_close(input->columns);
	rung__free(input->owners);
	rung__free(input->ranks);
}

/* Context of one call of rung__edge_input_each(). */
struct pair_sink {
	struct rung__edge_input *input;
	rung__pairs_fn fn;
	void *ctx;
	bool counting;     /* fn does not use the values */
	bool owner_is_key; /* false: the id in the list is the key */
	bool skip_loops;   /* in the reverse pass of an undirected graph */
};

/* Pass on the pairs of edge lists. */
static int accept_lists(void *ctx, const void *keys, const void *values, uint64_t pair_count,
                        const char *spec)
{
	const struct pair_sink *sink = ctx;
	const struct rung__pairs pairs = {
		.keys = keys, .values = values, .count = pair_count, .stride = 1, .spec = spec
	};

	return sink->fn(sink->ctx, &pairs);
}

/* Expand the offsets of a chunk: store the vertex of its list, or its rank, for each edge. Lists
 * differ in length, so the threads take them dynamically. */
static void fill_owners(const struct rung__edge_input *input, const struct rung__edge_chunk *chunk)
{
	const unsigned index_bytes = chunk->index_bytes;

#pragma omp parallel for num_threads(rung__threads(0)) schedule(dynamic, 1024)
	for (uint64_t i = 0; i < chunk->vertex_count; i++) {
		uint64_t owner = chunk->vertex_first + i, begin, end;

		if (input->rank_of_vertex)
			owner = rung__id_get(input->rank_of_vertex, index_bytes, owner);
		rung__edge_chunk_list(chunk, i, &begin, &end);
		for (; begin < end; begin++)
			rung__id_set(input->owners, index_bytes, begin, owner);
	}
}

/* Relabel the ids of a chunk; the chunk itself must not be modified. */
static void fill_ranks(const struct rung__edge_input *input, const struct rung__edge_chunk *chunk)
{
	const unsigned index_bytes = chunk->index_bytes;

#pragma omp parallel for num_threads(rung__threads(0)) schedule(static)
	for (uint64_t e = 0; e < chunk->edge_count; e++)
		rung__id_set(input->ranks, index_bytes, e,
		             rung__id_get(input->rank_of_source, index_bytes,
		                          rung__id_get(chunk->indices, index_bytes, e)));
}

/* Convert a chunk to pairs and pass them on. Counting needs no values, so they are not relabelled:
 * the map is read at random positions, which is slow. */
static int accept_columns(void *ctx, const struct rung__edge_chunk *chunk)
{
	const struct pair_sink *sink = ctx;
	struct rung__edge_input *input = sink->input;
	const uint64_t edge_count = input->columns->info.edge_count;
	struct rung__pairs pairs = {
		.count = chunk->edge_count,
		.stride = 1,
		.skip_loops = sink->skip_loops,
		.spec = input->name,
	};
	const void *values = chunk->indices;
	int rc;

	fill_owners(input, chunk);
	if (input->rank_of_vertex && !sink->counting) {
		fill_ranks(input, chunk);
		values = input->ranks;
	}
	pairs.keys = sink->owner_is_key ? input->owners : values;
	pairs.values = sink->owner_is_key ? values : input->owners;
	rc = sink->fn(sink->ctx, &pairs);
	if (rc != 0)
		return rc;
	return rung__progress(input->opts->progress, input->opts->progress_ctx, "edges",
	                      chunk->edge_first + chunk->edge_count, edge_count);
}

/* All pairs of columns or rows. With `undirected`, a second pass adds the reverse of each edge,
 * except for self loops; the reverse edges of a list are in the order of the columns. */
static int each_column(struct pair_sink *sink)
{
	struct rung__edge_input *input = sink->input;
	int rc;

	sink->owner_is_key = !input->by_row;
	input->passes++;
	rc = rung__edges_pass(input->columns, accept_columns, sink);
	if (rc != 0 || !input->opts->undirected)
		return rc;
	sink->owner_is_key = !sink->owner_is_key;
	sink->skip_loops = true;
	input->passes++;
	return rung__edges_pass(input->columns, accept_columns, sink);
}

int rung__edge_input_each(struct rung__edge_input *input, bool counting, rung__pairs_fn fn,
                          void *ctx)
{
	struct pair_sink sink = { .input = input, .fn = fn, .ctx = ctx, .counting = counting };

	if (input->columns)
		return each_column(&sink);
	input->passes++;
	return rung__edge_lists_each(&input->lists, accept_lists, &sink);
}

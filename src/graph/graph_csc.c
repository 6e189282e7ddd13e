/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A graph given as columns: "csc:SRC,SRC" or "csr:SRC,SRC", where the sources may contain commas.
 *
 * Arrays are read in chunks, and converted and checked while a chunk is in the cache. This file
 * does not know whether the lists are columns or rows: graph_load.c transposes those of csr:.
 */
#include <string.h>

#include "graph/graph_ids.h"
#include "graph/graph.h"
#include "source/source.h"

#define CHUNK_IDS (UINT64_C(1) << 20) /* integers that are read at a time */

/* State of loading. */
struct columns {
	struct rung_source *indptr_src;
	struct rung_source *indices_src;
	void *raw;             /* [CHUNK_IDS] as stored in the file */
	uint64_t vertex_count; /* number of lists */
	uint64_t limit;        /* entries are below it */
	uint64_t edge_count;
	unsigned index_bytes;
	uint64_t *indptr; /* [vertex_count + 1]; the graph's at the end, as are the indices */
	void *indices;    /* [edge_count] of index_bytes */
	const struct rung_graph_opts *opts;
};

/* Open both sides of a comma. */
static int open_pair(const char *left, const char *right, struct rung_source **indptr_out,
                     struct rung_source **indices_out, bool *left_opens_out)
{
	struct rung_source *indptr_src;
	int rc = rung__ids_open(left, "indptr", 1, &indptr_src);

	*left_opens_out = rc == 0;
	if (rc < 0)
		return rc;
	rc = rung__ids_open(right, "indices", 1, indices_out);
	if (rc < 0)
		rung_source_close(indptr_src);
	else
		*indptr_out = indptr_src;
	return rc;
}

/*
 * A raw: source contains commas, so every comma is tried, and the first at which both sides open is
 * used. Otherwise one of the failures is reported: that of the first comma whose left side opened,
 * else of the first comma, which is most likely the intended one.
 */
int rung__columns_open(const char *spec, struct rung_source **indptr_out,
                       struct rung_source **indices_out)
{
	const char *pair = spec + RUNG__COLUMNS_PREFIX;
	char *left = rung__strdup(pair), *failure = NULL;
	bool message_of_left_opens = false;
	int rc = 0;

	if (!left)
		return rung__fail(RUNG_E_NOMEM, "%s: no memory", spec);
	for (char *comma = strchr(left, ','); comma; comma = strchr(comma + 1, ',')) {
		bool left_opens;
		int status;

		*comma = '\0'; /* only while the left side is opened */
		status = open_pair(left, comma + 1, indptr_out, indices_out, &left_opens);
		*comma = ',';
		if (status == 0 || status == RUNG_E_NOMEM) {
			rc = status;
			goto out;
		}
		/* copied, because the next attempt overwrites the message */
		if (rc == 0 || (left_opens && !message_of_left_opens)) {
			rung__free(failure);
			failure = rung__strdup(rung_last_error());
			message_of_left_opens = left_opens;
			rc = status;
		}
	}
	if (rc == 0)
		rc = rung__fail(RUNG_E_INVAL,
		                "%s: needs two sources, separated by a comma: %.4sINDPTR,INDICES",
		                spec, spec);
	else if (failure)
		rung__fail_text(rc, failure);
out:
	rung__free(failure);
	rung__free(left);
	return rc;
}

int rung__columns_count(const struct rung_source *indptr_src, uint64_t wanted,
                        uint64_t *vertex_count_out)
{
	const uint64_t entries = rung_source_info(indptr_src)->row_count;
	const char *spec = rung__source_spec(indptr_src);

	if (entries < 2)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: indptr has %" PRIu64
		                  " entries; it must have one more than the graph has vertices",
		                  spec, entries);
	if (wanted && wanted != entries - 1)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: indptr has %" PRIu64 " entries, which means %" PRIu64
		                  " vertices, but the given count is %" PRIu64
		                  "; correct the file or the count",
		                  spec, entries, entries - 1, wanted);
	*vertex_count_out = entries - 1;
	return 0;
}

/* Widen one chunk of indptr and refuse negative values. The order is checked by check_offsets(),
 * when all chunks have been read. */
static int adopt_offsets(struct columns *columns, uint64_t first, uint64_t count)
{
	const enum rung_dtype dtype = rung_source_info(columns->indptr_src)->dtype;
	const uint64_t limit = rung__ids_limit(dtype, UINT64_MAX);
	char text[RUNG__ID_TEXT_BYTES];

	for (uint64_t i = 0; i < count; i++) {
		const uint64_t value = rung__ids_get(columns->raw, dtype, i);

		if (value >= limit)
			return rung__fail(
				RUNG_E_FORMAT,
				"%s: indptr[%" PRIu64
				"] is %s, but offsets must not be negative; create the file again",
				rung__source_spec(columns->indptr_src), first + i,
				rung__ids_text(text, dtype, value));
		columns->indptr[first + i] = value;
	}
	return 0;
}

/* Check the offsets with messages that name the files, which rung_csc_check() does not know. */
static int check_offsets(const struct columns *columns)
{
	const char *spec = rung__source_spec(columns->indptr_src);
	const uint64_t *indptr = columns->indptr;

	if (indptr[0] != 0)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: indptr[0] is %" PRIu64
		                  "; it must be 0: create the file again",
		                  spec, indptr[0]);
	for (uint64_t v = 0; v < columns->vertex_count; v++) {
		if (indptr[v] > indptr[v + 1])
			return rung__fail(RUNG_E_FORMAT,
			                  "%s: indptr[%" PRIu64 "] is %" PRIu64
			                  " and indptr[%" PRIu64 "] is %" PRIu64
			                  "; it must never decrease: create the file again",
			                  spec, v, indptr[v], v + 1, indptr[v + 1]);
	}
	if (indptr[columns->vertex_count] != columns->edge_count)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: indptr[%" PRIu64 "] (the last) is %" PRIu64
		                  ", but %s has %" PRIu64
		                  " indices; use two files of the same graph",
		                  spec, columns->vertex_count, indptr[columns->vertex_count],
		                  rung__source_spec(columns->indices_src), columns->edge_count);
	return 0;
}

/* Convert one chunk of indices to index_bytes and check it. The first bad id is reported, whatever
 * the number of threads. */
static int adopt_indices(struct columns *columns, uint64_t first, uint64_t count)
{
	const enum rung_dtype dtype = rung_source_info(columns->indices_src)->dtype;
	const uint64_t limit = rung__ids_limit(dtype, columns->limit);
	uint64_t first_bad = count;
	char text[RUNG__ID_TEXT_BYTES];

#pragma omp parallel for num_threads(rung__threads(0)) reduction(min : first_bad) schedule(static)
	for (uint64_t i = 0; i < count; i++) {
		const uint64_t id = rung__ids_get(columns->raw, dtype, i);

		if (id >= limit)
			first_bad = RUNG__MIN(first_bad, i);
		rung__id_set(columns->indices, columns->index_bytes, first + i, id);
	}
	if (first_bad == count)
		return 0;
	return rung__fail(
		RUNG_E_RANGE,
		"%s: indices[%" PRIu64 "]: id %s is out of range 0..%" PRIu64
		"; correct the index, or the %s",
		rung__source_spec(columns->indices_src), first + first_bad,
		rung__ids_text(text, dtype, rung__ids_get(columns->raw, dtype, first_bad)),
		columns->limit - 1, rung__graph_entries_cure(columns->opts->source_count));
}

/* Read an array in chunks and pass each of them to `accept`. */
static int read_all(struct columns *columns, struct rung_source *src, uint64_t total,
                    int (*accept)(struct columns *columns, uint64_t first, uint64_t count))
{
	const struct rung_graph_opts *opts = columns->opts;
	uint64_t count;
	int rc;

	for (uint64_t first = 0; first < total; first += count) {
		count = RUNG__MIN(CHUNK_IDS, total - first);
		rc = rung__ids_read(src, first, count, columns->raw);
		if (rc < 0)
			return rc;
		rc = accept(columns, first, count);
		if (rc < 0)
			return rc;
		rc = rung__progress(opts->progress, opts->progress_ctx, "edges", first + count,
		                    total);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Set the sizes and allocate the arrays, in the width that the vertex count needs. */
static int measure(struct columns *columns)
{
	int rc = rung__columns_count(columns->indptr_src, rung__graph_lists_wanted(columns->opts),
	                             &columns->vertex_count);

	if (rc < 0)
		return rc;
	columns->edge_count = rung_source_info(columns->indices_src)->row_count;
	columns->limit = rung__graph_entries_limit(columns->opts, columns->vertex_count);
	columns->index_bytes = rung_index_bytes(RUNG__MAX(columns->limit, columns->vertex_count));
	columns->raw = rung__malloc_array(CHUNK_IDS, sizeof(uint64_t));
	columns->indptr = rung__malloc_array(columns->vertex_count + 1, sizeof(*columns->indptr));
	columns->indices = rung__malloc_array(columns->edge_count, columns->index_bytes);
	if (!columns->raw || !columns->indptr || !columns->indices)
		return rung__fail(RUNG_E_NOMEM,
		                  "graph of %" PRIu64 " vertices and %" PRIu64 " edges: no memory",
		                  columns->vertex_count, columns->edge_count);
	return 0;
}

int rung__graph_from_columns(const char *spec, const struct rung_graph_opts *opts,
                             struct rung_graph **graph_out)
{
	struct columns columns = { .opts = opts };
	int rc;

	rc = rung__columns_open(spec, &columns.indptr_src, &columns.indices_src);
	if (rc < 0)
		return rc;
	rc = measure(&columns);
	if (rc < 0)
		goto out;
	rc = read_all(&columns, columns.indptr_src, columns.vertex_count + 1, adopt_offsets);
	if (rc < 0)
		goto out;
	rc = check_offsets(&columns);
	if (rc < 0)
		goto out;
	rc = read_all(&columns, columns.indices_src, columns.edge_count, adopt_indices);
out:
	rung_source_close(columns.indptr_src);
	rung_source_close(columns.indices_src);
	rung__free(columns.raw);
	if (rc < 0) {
		rung__free(columns.indptr);
		rung__free(columns.indices);
		return rc;
	}
	return rung__graph_adopt(
		&(struct rung_csc){ .vertex_count = columns.vertex_count,
	                            .edge_count = columns.edge_count,
	                            .indptr = columns.indptr,
	                            .indices = columns.indices,
	                            .index_bytes = columns.index_bytes,
	                            .source_count = opts->source_count ? columns.limit : 0 },
		graph_out);
}

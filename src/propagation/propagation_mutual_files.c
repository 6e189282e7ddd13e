/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Find the mutual edges of a graph in files. If the edges and their reverses are the same multiset,
 * all are mutual: two sums of hashes show this in one pass. Otherwise the graph is transposed on
 * disk, and its out-lists are read together with the in-lists of the same vertices. One bit per
 * edge is written to a temporary file, from which the blocks of later passes read their bits.
 *
 * A list that is longer than a buffer is processed piece by piece, with its out-neighbours marked
 * in one bit per vertex.
 */
#include <string.h>

#include "graph/graph.h"
#include "edges/edges.h"
#include "sort/lookup.h"
#include "propagation/propagation_files.h"
#include "propagation/state.h"
#include "file/writer.h"

/* in-neighbours in the buffer: a longer in-list is processed in pieces */
#define IDS_MAX     (UINT64_C(1) << 20)
#define OFFSETS_MAX (UINT64_C(1) << 16) /* in-lists in the buffer */
/* least budget of the transposition; the memory of a panel is larger, except in tests */
#define TURN_BYTES_MIN (UINT64_C(2) << 20)
#define OUT_BUFFERS    3u
#define OUT_BYTES      (UINT64_C(1) << 20)

/* ---- the same edges in both directions? ---- */

/* If both sums are equal, the multisets are equal, except with a probability of about 2^-64. Sums
 * do not depend on the order in which threads add. */
struct fingerprint {
	uint64_t forth, back; /* sums of the hashes of all edges, and of their reverses */
};

/* Not symmetric: an edge and its reverse have different hashes. */
static uint64_t hash_edge(uint64_t from, uint64_t to)
{
	return rung__mix64(rung__mix64(from) + to);
}

/* Add the hashes of a chunk's edges. Called for one chunk at a time. */
static int add_hashes(void *ctx, const struct rung__edge_chunk *chunk)
{
	struct fingerprint *print = ctx;
	uint64_t forth = 0, back = 0;

#pragma omp parallel for num_threads(rung__threads(0)) schedule(dynamic, 1024) \
        reduction(+ : forth, back)
	for (uint64_t i = 0; i < chunk->vertex_count; i++) {
		const uint64_t v = chunk->vertex_first + i;
		uint64_t at, end;

		for (rung__edge_chunk_list(chunk, i, &at, &end); at < end; at++) {
			const uint64_t u = rung__id_get(chunk->indices, chunk->index_bytes, at);

			forth += hash_edge(u, v);
			back += hash_edge(v, u);
		}
	}
	print->forth += forth;
	print->back += back;
	return 0;
}

/* ---- bits ---- */

/* The state of the pass over the transposed graph. */
struct marking {
	struct rung__propagation *prop;
	/* the graph whose in-lists are read; the chunks have its out-lists */
	struct rung_edges *edges;
	struct rung__id_reader offset_reader, id_reader;
	unsigned char *offset_capacity, *id_capacity;
	/* offsets of the in-lists that are being processed, from the first of them on */
	const uint64_t *indptr;
	uint64_t *words;      /* [IDS_MAX / 64 + 2] bits of edges from words_first on */
	uint64_t words_first; /* a multiple of 64 */
	uint64_t edges_done;  /* the bits of all edges before this one are final */
	uint64_t marked;      /* number of mutual edges so far */
	struct rung__writer *writer;
	struct rung__out_stream stream;
	/* [vertex_count / 64 + 1] bits of out-neighbours of the one vertex whose list is divided;
	 * NULL: not needed yet */
	uint64_t *is_out;
	bool no_memory; /* set by any thread */
};

/* Write the bits of edges before `edge`, which are final. Only whole words are written; the last
 * word moves to the front of the buffer, because it also has bits of the next edges. */
static int finish_words(struct marking *mk, uint64_t edge)
{
	const uint64_t whole = edge / 64 - mk->words_first / 64;
	const uint64_t last = mk->words[whole];
	int rc;

	for (uint64_t i = 0; i < whole; i++)
		mk->marked += (uint64_t)__builtin_popcountll(mk->words[i]);
	rc = rung__stream_append(&mk->stream, mk->words, whole * sizeof(*mk->words));
	memset(mk->words, 0, (whole + 1) * sizeof(*mk->words));
	mk->words[0] = last;
	mk->words_first += 64 * whole;
	mk->edges_done = edge;
	return rc;
}

/* Read ids or offsets. An invalid value means that the file has changed, because earlier passes
 * checked it. */
static int read_ids(const struct rung__id_file *file, const struct rung__id_reader *reader,
                    uint64_t first, uint64_t count, void *scratch, const void **ids_out)
{
	struct rung__ids ids;
	const int rc = rung__id_file_read(file, reader, first, count, scratch, &ids);

	*ids_out = ids.ids;
	/* earlier passes found them valid */
	return rc < 0 || ids.good == count ? rc : rung__edges_changed(file->name);
}

/* Read indptr of `count` in-lists from vertex v on. They must continue where the last bits
 * ended. */
static int read_offsets(struct marking *mk, uint64_t v, uint64_t count)
{
	const void *offsets;
	const int rc = read_ids(&mk->edges->indptr, &mk->offset_reader, v, count + 1,
	                        mk->offset_capacity, &offsets);

	if (rc < 0)
		return rc;
	mk->indptr = offsets;
	for (uint64_t i = 0; i < count; i++) {
		if (mk->indptr[i] > mk->indptr[i + 1])
			return rung__edges_changed(mk->edges->indptr.name);
	}
	return mk->indptr[0] == mk->edges_done ? 0 : rung__edges_changed(mk->edges->indptr.name);
}

/* Mark the mutual edges of lists that are completely in the buffers, with a hash set per vertex.
 * One word can have bits of lists that different threads process, so bits are added with atomic
 * operations. */
static void mark_lists(struct marking *mk, const struct rung__edge_chunk *chunk, uint64_t i_first,
                       uint64_t count, const void *in_ids)
{
	const unsigned index_bytes = chunk->index_bytes;

#pragma omp parallel num_threads(mk->prop->opts.threads)
	{
		struct rung__lookup set = { .index_bytes = index_bytes };
		uint64_t scratch = 0;

#pragma omp for schedule(dynamic, 256)
		for (uint64_t k = 0; k < count; k++) {
			const uint64_t free_id = rung__propagation_free_id(
				mk->prop, chunk->vertex_first + i_first + k,
				mk->prop->source_count);
			uint64_t begin, end;

			rung__edge_chunk_list(chunk, i_first + k, &begin, &end);
			if (begin == end || mk->indptr[k] == mk->indptr[k + 1])
				continue;
			if (scratch < rung__lookup_slots(end - begin)) {
				rung__free(set.slots);
				scratch = 2 * rung__lookup_slots(end - begin);
				set.slots = rung__malloc_array(scratch, index_bytes);
				scratch = set.slots ? scratch : 0;
			}
			if (!set.slots) {
				__atomic_store_n(&mk->no_memory, true, __ATOMIC_RELAXED);
				continue;
			}
			rung__lookup_fill(&set, free_id, chunk->indices, begin, end,
			                  mk->indptr[k + 1] - mk->indptr[k]);
			rung__lookup_mark(&set, free_id, in_ids, mk->indptr[k] - mk->indptr[0],
			                  mk->indptr[k + 1] - mk->indptr[k], mk->words,
			                  mk->indptr[k] - mk->words_first);
		}
		rung__free(set.slots);
	}
}

/*
 * Process as many complete lists of the chunk, from the i-th on, as fit into the buffers together
 * with their in-lists.
 * @param count_out  0 if the first list does not fit, or is not complete in the chunk
 */
static int mark_whole(struct marking *mk, const struct rung__edge_chunk *chunk, uint64_t i,
                      uint64_t *count_out)
{
	const uint64_t edge_end = chunk->edge_first + chunk->edge_count;
	const void *ids;
	uint64_t count = 0;
	int rc;

	*count_out = 0;
	while (count < OFFSETS_MAX && i + count < chunk->vertex_count &&
	       chunk->indptr[i + count + 1] <= edge_end)
		count++;
	if (count == 0 || chunk->indptr[i] < chunk->edge_first)
		return 0;
	rc = read_offsets(mk, chunk->vertex_first + i, count);
	if (rc < 0)
		return rc;
	while (count > 0 && mk->indptr[count] - mk->indptr[0] > IDS_MAX)
		count--;
	if (count == 0)
		return 0;
	rc = read_ids(&mk->edges->indices, &mk->id_reader, mk->indptr[0],
	              mk->indptr[count] - mk->indptr[0], mk->id_capacity, &ids);
	if (rc < 0)
		return rc;
	mark_lists(mk, chunk, i, count, ids);
	if (mk->no_memory)
		return rung__fail(RUNG_E_NOMEM,
		                  "mutual edges: no memory for the out-neighbours of a vertex");
	*count_out = count;
	return finish_words(mk, mk->indptr[count]);
}

/* Mark in `is_out` those out-neighbours of the chunk's i-th list that are in this chunk. */
static int mark_out(struct marking *mk, const struct rung__edge_chunk *chunk, uint64_t i)
{
	uint64_t at, end;

	if (!mk->is_out)
		mk->is_out =
			rung__zalloc_array(mk->prop->source_count / 64 + 1, sizeof(*mk->is_out));
	if (!mk->is_out)
		return rung__fail(RUNG_E_NOMEM,
		                  "mutual edges: no memory for a bit for each of %" PRIu64
		                  " vertices",
		                  mk->prop->source_count);
	for (rung__edge_chunk_list(chunk, i, &at, &end); at < end; at++) {
		const uint64_t id = rung__id_get(chunk->indices, chunk->index_bytes, at);

		mk->is_out[id / 64] |= UINT64_C(1) << (id % 64);
	}
	return 0;
}

/* Mark the mutual edges of v: its in-list is read in pieces and compared with is_out, which is then
 * cleared for the next such vertex. */
static int mark_in(struct marking *mk, uint64_t v)
{
	const unsigned index_bytes = mk->prop->csc.index_bytes;
	const uint64_t free_id = rung__propagation_free_id(mk->prop, v, mk->prop->source_count);
	uint64_t edge, end;
	int rc = read_offsets(mk, v, 1);

	if (rc < 0)
		return rc;
	edge = mk->indptr[0];
	end = mk->indptr[1];
	while (rc == 0 && edge < end) {
		const uint64_t count = RUNG__MIN(IDS_MAX, end - edge), bit = edge - mk->words_first;
		const void *ids;

		rc = read_ids(&mk->edges->indices, &mk->id_reader, edge, count, mk->id_capacity,
		              &ids);
		for (uint64_t i = 0; rc == 0 && i < count; i++) {
			const uint64_t id = rung__id_get(ids, index_bytes, i);
			const uint64_t is_out =
				id != free_id && (mk->is_out[id / 64] >> (id % 64) & 1);

			mk->words[(bit + i) / 64] |= is_out << ((bit + i) % 64);
		}
		edge += count;
		rc = rc < 0 ? rc : finish_words(mk, edge);
	}
	memset(mk->is_out, 0, (mk->prop->source_count / 64 + 1) * sizeof(*mk->is_out));
	return rc;
}

/* Process a chunk of the transposed graph. Called in the order of its edges. */
static int load_out_lists(void *ctx, const struct rung__edge_chunk *chunk)
{
	struct marking *mk = ctx;
	const struct rung__propagation_opts *opts = &mk->prop->opts;
	uint64_t i = 0;

	while (i < chunk->vertex_count) {
		uint64_t count;
		int rc = mark_whole(mk, chunk, i, &count);

		if (rc < 0)
			return rc;
		i += count;
		if (count)
			continue;
		rc = mark_out(mk, chunk, i);
		if (rc == 0 && chunk->indptr[i + 1] <= chunk->edge_first + chunk->edge_count)
			rc = mark_in(mk, chunk->vertex_first + i);
		if (rc < 0)
			return rc;
		i++;
	}
	return rung__progress(opts->progress, opts->progress_ctx, "mutual edges",
	                      chunk->edge_first + chunk->edge_count, mk->prop->csc.edge_count);
}

/* ---- all steps ---- */

/* Allocate all buffers in one mapping, and start the writer. *memory_out is for the caller to
 * release, also after a failure. */
static int alloc_buffers(struct marking *mk, unsigned char **memory_out, uint64_t *bytes_out)
{
	const unsigned index_bytes = mk->prop->csc.index_bytes;
	const uint64_t bounce = RUNG__READ_BYTES + RUNG__READ_SLACK;
	const uint64_t ids =
		rung__align_up(IDS_MAX * index_bytes, RUNG__PAGE_BYTES) + RUNG__READ_SLACK;
	const uint64_t offsets =
		rung__align_up((OFFSETS_MAX + 1) * 8, RUNG__PAGE_BYTES) + RUNG__READ_SLACK;
	const uint64_t words = rung__align_up((IDS_MAX / 64 + 2) * 8, RUNG__PAGE_BYTES);
	unsigned char *at;

	*bytes_out = bounce + ids + offsets + words + OUT_BUFFERS * OUT_BYTES;
	*memory_out = at = rung__map_pages(*bytes_out);
	if (!at)
		return rung__fail(RUNG_E_NOMEM,
		                  "mutual edges: no memory for buffers of %" PRIu64 " bytes",
		                  *bytes_out);
	mk->id_reader = (struct rung__id_reader){
		.id_bytes = index_bytes,
		.limit = mk->prop->source_count,
		.read_bytes = RUNG__READ_BYTES,
		.bounce = at,
	};
	mk->offset_reader = mk->id_reader;
	mk->offset_reader.id_bytes = 8;
	mk->offset_reader.limit = mk->prop->csc.edge_count + 1;
	mk->id_capacity = at + bounce;
	mk->offset_capacity = mk->id_capacity + ids;
	mk->words = (uint64_t *)(void *)(mk->offset_capacity + offsets);
	return rung__writer_open(mk->offset_capacity + offsets + words, OUT_BYTES, OUT_BUFFERS,
	                         &mk->writer);
}

/* Find the bits of all edges and write them to the file. */
static int mark_all(struct marking *mk, struct rung_edges *turned)
{
	struct rung__propagation *prop = mk->prop;
	const uint64_t edge_count = prop->csc.edge_count;
	int rc;

	mk->stream = (struct rung__out_stream){ .writer = mk->writer,
		                                .file = prop->mutual_file,
		                                .buffer_bytes = OUT_BYTES };
	rc = rung__edges_pass(turned, load_out_lists, mk);
	if (rc < 0)
		return rc;
	mk->marked += (uint64_t)__builtin_popcountll(mk->words[0]);
	/* the last word, even if it is empty: blocks read edge_count / 64 + 1 words */
	rc = rung__stream_append(&mk->stream, mk->words, sizeof(*mk->words));
	if (rc == 0)
		rc = rung__stream_end(&mk->stream);
	/* both graphs have the same edges, so fewer bits mean that a file has changed */
	if (rc < 0 || mk->edges_done == edge_count)
		return rc;
	return rung__edges_changed(mk->edges->indptr.name);
}

/* The budget of the transposition: the memory that the panel has released. */
static uint64_t memory_of_panel(const struct rung__propagation *prop)
{
	return RUNG__MAX(prop->tile_bytes + prop->values_max * sizeof(*prop->values),
	                 TURN_BYTES_MIN);
}

/* Transpose the graph, or the opposite relation, and find the mutual edges with it. The transposed
 * files exist only during this call. */
static int mark_by_turning(struct rung__propagation *prop, struct rung_edges *opposite,
                           uint64_t *marked_out)
{
	struct marking mk = { .prop = prop, .edges = prop->edges };
	unsigned char *memory = NULL;
	uint64_t memory_bytes = 0;
	struct rung_edges *turned;
	int rc = rung__edges_turn(opposite, memory_of_panel(prop), &turned);

	if (rc < 0)
		return rc;
	rc = rung__direct_temp(&prop->mutual_file, prop->edges->temp_dir,
	                       "temporary file of mutual edges", prop->csc.edge_count / 8);
	if (rc == 0)
		rc = alloc_buffers(&mk, &memory, &memory_bytes);
	if (rc == 0)
		rc = mark_all(&mk, turned);
	rung__writer_close(mk.writer);
	rung__unmap_pages(memory, memory_bytes);
	rung__free(mk.is_out);
	rung_edges_close(turned);
	*marked_out = mk.marked;
	return rc;
}

/* Whether the opposite relation has the reverse of every edge, and no other. */
static int compare_edges(struct rung__propagation *prop, struct rung__propagation *opposite,
                         bool *equal_out)
{
	struct fingerprint print = { 0 }, other = { 0 };
	int rc = rung__edges_pass(prop->edges, add_hashes, &print);

	if (rc == 0 && opposite != prop)
		rc = rung__edges_pass(opposite->edges, add_hashes, &other);
	prop->passes++;
	*equal_out = print.forth == (opposite == prop ? print.back : other.back);
	return rc;
}

int rung__propagation_mark_mutual_files(struct rung__propagation *prop,
                                        struct rung__propagation *opposite)
{
	uint64_t marked = 0;
	int rc = opposite ? compare_edges(prop, opposite, &prop->all_mutual) : 0;

	if (rc < 0 || prop->all_mutual)
		return rc;
	if (opposite) {
		/* the panel's memory is part of the budget, and transposing needs it */
		rung__propagation_send_panel(prop);
		rc = mark_by_turning(prop, opposite->edges, &marked);
		prop->passes += 2;
		if (rc == 0)
			rc = rung__propagation_receive_panel(prop);
	}
	prop->has_mutual = marked > 0;
	prop->two_sided = marked > 0 || prop->signatures_u;
	return rc;
}

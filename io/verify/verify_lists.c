/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the relabelled graph with its source, entry by entry. Both can be larger than memory.
 *
 * As many staged lists as the budget allows are read into memory, in the order of the file. Then
 * one pass over the source, in its own order, maps each source list whose staged list is in memory,
 * and compares the two. So both sides are read only in large pieces. If the staged lists do not all
 * fit in memory, several passes over the source are needed. For a sample, only the staged lists of
 * the sample are read.
 */
#include <stdlib.h>
#include <string.h>

#include "edges/edges.h"
#include "file/file.h"
#include "source/npy.h"
#include "verify/state.h"

#define EDGES_SHARE    4u /* passes over the source use 1/4 of the memory for their buffers */
#define ROOM_BYTES_MIN (UINT64_C(64) << 10) /* minimum memory for staged lists */

struct lists {
	struct rung__verify *v;
	uint64_t *ranks; /* [count] ranks of the sample, ascending; NULL: all lists */
	/* [vertex_count / 8 + 1] one bit per vertex: the vertex is in the sample */
	unsigned char *chosen;
	uint64_t count; /* number of lists to compare */
	struct rung__features indptr_staged, indices_staged;
	struct rung__direct indptr_file, indices_file; /* the same files, for direct reads */
	/* budget of the lists in memory, which are in the members below, up to `differs` */
	uint64_t buffer_bytes;
	/* the lists in memory now are numbers [first, end) of the `count` lists */
	uint64_t first, end;
	unsigned char *indptr_buffer, *ids_buffer; /* page-aligned */
	/* [end - first + 1] list number i has entries indptr[i] - indptr[0] to indptr[i + 1] -
	 * indptr[0] of `ids`. If all lists are compared, this points to a part of the file; for a
	 * sample, to `starts` */
	const uint64_t *indptr;
	uint64_t *starts; /* sample: [end - first + 1] sums of lengths, in indptr_buffer */
	const void *ids;  /* in ids_buffer */
	/* [end - first] set by any thread: the list differs */
	unsigned char *differs;
	uint64_t edges_done, edges_total; /* edges read from the source, for progress */
	uint64_t first_rank;              /* lowest rank whose list differs; UINT64_MAX: none */
};

/* ---- the lists to compare ---- */

static int compare_ranks(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Choose all lists, or draw the sample. */
static int choose(struct lists *l)
{
	const struct rung__manifest *m = l->v->ds->manifest;
	struct rung__row_sample sample;

	l->count = m->vertex_count;
	if (!rung__row_sample_init(&sample, l->v))
		return 0;
	l->count = sample.left;
	l->ranks = rung__malloc_array(l->count, sizeof(*l->ranks));
	l->chosen = rung__zalloc_array(m->vertex_count / 8 + 1, 1);
	if (!l->ranks || !l->chosen)
		return rung__fail(RUNG_E_NOMEM,
		                  "verify: no memory for a sample of %" PRIu64 " lists", l->count);
	for (uint64_t i = 0; i < l->count; i++) {
		uint64_t vertex = rung__row_sample_next(&sample);

		l->chosen[vertex / 8] |= (unsigned char)(1u << vertex % 8);
		l->ranks[i] = rung__id_get(l->v->rank_of_vertex, m->index_bytes, vertex);
	}
	qsort(l->ranks, (size_t)l->count, sizeof(*l->ranks), compare_ranks);
	return 0;
}

/* The rank of the list with number `i`. */
static uint64_t rank_at(const struct lists *l, uint64_t i)
{
	return l->ranks ? l->ranks[i] : i;
}

/* The number of a vertex's list among those in memory, or UINT64_MAX. */
static uint64_t place_of(const struct lists *l, uint64_t vertex)
{
	uint64_t rank, low = l->first, high = l->end;

	/* with a small sample, most vertices need no binary search thanks to this bit */
	if (l->chosen && !(l->chosen[vertex / 8] >> vertex % 8 & 1))
		return UINT64_MAX;
	rank = rung__id_get(l->v->rank_of_vertex, l->v->ds->manifest->index_bytes, vertex);
	if (!l->ranks)
		return rank >= low && rank < high ? rank - low : UINT64_MAX;
	/* a sample: search its ranks, which ascend */
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (l->ranks[middle] < rank)
			low = middle + 1;
		else
			high = middle;
	}
	return low < l->end && l->ranks[low] == rank ? low - l->first : UINT64_MAX;
}

/* ---- reading staged lists into memory ---- */

/* A part of a file that several threads read. */
struct segment {
	const struct rung__direct *file;
	uint64_t offset, bytes; /* a multiple of the page size */
	unsigned char *to;      /* page-aligned */
};

/* Read one piece of a segment directly to its place. The thread's buffer is not used. */
static int read_piece(void *ctx, uint64_t item, unsigned char *buffer)
{
	const struct segment *s = ctx;
	const uint64_t at = item * RUNG__PUMP_READ_BYTES;

	(void)buffer;
	return rung__direct_read(s->file, s->to + at,
	                         RUNG__MIN(s->bytes - at, RUNG__PUMP_READ_BYTES), s->offset + at);
}

/* Read a long part of a file with several reads in flight.
 * @param room    [rung__span_buffer_bytes(bytes)] page-aligned
 * @param at_out  address of `offset` in the room */
static int read_long(const struct lists *l, const struct rung__direct *file, uint64_t offset,
                     uint64_t bytes, unsigned char *buffer, const void **at_out)
{
	const uint64_t begin = rung__align_down(offset, RUNG__PAGE_BYTES);
	struct segment s = { .file = file,
		             .offset = begin,
		             .bytes = bytes > 0 ? offset - begin + bytes : 0,
		             .to = buffer };
	const struct rung__pump pump = { .step = "staged lists",
		                         .threads = l->v->threads,
		                         .buffer_bytes = 1, /* unused, but must not be 0 */
		                         .ctx = &s,
		                         .work = read_piece,
		                         .item_count = (s.bytes + RUNG__PUMP_READ_BYTES - 1) /
		                                       RUNG__PUMP_READ_BYTES };

	*at_out = buffer + (offset - begin);
	return rung__pump_run(&pump);
}

/* Check that offsets ascend and are inside the file before they are used as lengths and positions:
 * the file may be damaged. @param rank  of the first of `count` lists, for the message */
static int check_offsets(const struct lists *l, const uint64_t *offsets, uint64_t rank,
                         uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		if (offsets[i] > offsets[i + 1] || offsets[i + 1] > l->v->ds->manifest->edge_count)
			return rung__fail(RUNG_E_FORMAT,
			                  "%s: entry %" PRIu64 " is %" PRIu64
			                  " and the next %" PRIu64
			                  "; entries must ascend, to at most %" PRIu64
			                  "; stage the dataset again",
			                  l->indptr_file.name, rank + i, offsets[i], offsets[i + 1],
			                  l->v->ds->manifest->edge_count);
	}
	return 0;
}

/* Three quarters of the memory for lists are for ids, the rest is for offsets and flags. */
static uint64_t ids_buffer_bytes(const struct lists *l)
{
	return l->buffer_bytes / 4 * 3;
}

/* Bytes of ids that fit in the buffer wherever they begin in the file: reads consist of whole
 * pages. */
static uint64_t ids_bytes_max(const struct lists *l)
{
	return ids_buffer_bytes(l) - 3 * (uint64_t)RUNG__PAGE_BYTES;
}

/* Number of lists whose offsets and comparison flags fit in the remaining budget. */
static uint64_t lists_max(const struct lists *l)
{
	return (l->buffer_bytes / 4 - 3 * (uint64_t)RUNG__PAGE_BYTES) / (sizeof(uint64_t) + 1) - 1;
}

/* Report a list that does not fit in memory alone, because lists are not compared in parts. Ids
 * have 3/4 of the memory, so the budget must grow by 4/3 of the list. */
static int list_too_long(const struct lists *l, uint64_t bytes)
{
	const uint64_t least =
		l->v->opts.memory_bytes + bytes / 3 * 4 + 8 * (uint64_t)RUNG__PAGE_BYTES;

	return rung__fail_min_bytes(least,
	                            "verify: the list of rank %" PRIu64 " needs %" PRIu64
	                            " bytes, too many for its part of the %" PRIu64
	                            " bytes of memory; give at least %" PRIu64,
	                            rank_at(l, l->first), bytes, l->v->opts.memory_bytes, least);
}

/* Load the next lists, which are contiguous in the file: as many as fit. */
static int load_run(struct lists *l)
{
	const unsigned id_bytes = l->v->ds->manifest->index_bytes;
	const uint64_t count = RUNG__MIN(l->count - l->first, lists_max(l));
	const void *at;
	uint64_t lists = 0, edges;
	int rc = read_long(l, &l->indptr_file, RUNG__NPY_DATA_OFFSET + l->first * sizeof(uint64_t),
	                   (count + 1) * sizeof(uint64_t), l->indptr_buffer, &at);

	if (rc < 0)
		return rc;
	l->indptr = at;
	rc = check_offsets(l, l->indptr, l->first, count);
	if (rc < 0)
		return rc;
	while (lists < count &&
	       (l->indptr[lists + 1] - l->indptr[0]) <= ids_bytes_max(l) / id_bytes)
		lists++;
	if (lists == 0)
		return list_too_long(l, (l->indptr[1] - l->indptr[0]) * id_bytes);
	l->end = l->first + lists;
	edges = l->indptr[lists] - l->indptr[0];
	return read_long(l, &l->indices_file, RUNG__NPY_DATA_OFFSET + l->indptr[0] * id_bytes,
	                 edges * id_bytes, l->ids_buffer, &l->ids);
}

/* Load the next lists of a sample, one by one, because they are scattered over the file. */
static int load_sampled(struct lists *l)
{
	const unsigned id_bytes = l->v->ds->manifest->index_bytes;
	const uint64_t count = RUNG__MIN(l->count - l->first, lists_max(l)),
		       edges_max = ids_bytes_max(l) / id_bytes;
	uint64_t used = 0, i;
	int rc = 0;

	l->starts = (uint64_t *)(void *)l->indptr_buffer;
	l->starts[0] = 0;
	for (i = 0; i < count && rc == 0; i++) {
		const uint64_t rank = l->ranks[l->first + i];
		uint64_t offsets[2];

		/* the reads are small, so they use the page cache */
		rc = rung__pread_all(l->indptr_staged.files[0].fd, l->indptr_staged.files[0].path,
		                     offsets, sizeof(offsets),
		                     RUNG__NPY_DATA_OFFSET + rank * sizeof(uint64_t));
		if (rc == 0)
			rc = check_offsets(l, offsets, rank, 1);
		/* the buffer is full: the next load begins with this list, which i does not
		 * count */
		if (rc == 0 && offsets[1] - offsets[0] > edges_max - used)
			break;
		if (rc == 0)
			rc = rung__pread_all(l->indices_staged.files[0].fd,
			                     l->indices_staged.files[0].path,
			                     l->ids_buffer + used * id_bytes,
			                     (offsets[1] - offsets[0]) * id_bytes,
			                     RUNG__NPY_DATA_OFFSET + offsets[0] * id_bytes);
		used += offsets[1] - offsets[0];
		l->starts[i + 1] = used;
	}
	/* the minimum size of the list, because its length is not known here */
	if (rc == 0 && i == 0)
		return list_too_long(l, (edges_max + 1) * id_bytes);
	l->indptr = l->starts;
	l->ids = l->ids_buffer;
	l->end = l->first + i;
	return rc;
}

/* ---- comparing the lists of the source with staged lists ---- */

/* Whether the part of list `i` that the chunk contains, mapped to ranks, equals the same part of
 * the staged list at `place`. */
static bool list_agrees(const struct lists *l, const struct rung__edge_chunk *chunk, uint64_t i,
                        uint64_t place)
{
	const uint64_t staged = l->indptr[place] - l->indptr[0],
		       length = l->indptr[place + 1] - l->indptr[place];
	const unsigned id_bytes = chunk->index_bytes;
	const void *rank_of_source =
		l->v->rank_of_source ? l->v->rank_of_source : l->v->rank_of_vertex;
	uint64_t begin, end, at;

	if (chunk->indptr[i + 1] - chunk->indptr[i] != length)
		return false;
	rung__edge_chunk_list(chunk, i, &begin, &end);
	/* a long list can be in several chunks, so compare from the start of this part on */
	at = staged + (chunk->edge_first + begin - chunk->indptr[i]);
	for (uint64_t e = begin; e < end; e++, at++) {
		const uint64_t u = rung__id_get(chunk->indices, id_bytes, e);

		if (rung__id_get(rank_of_source, id_bytes, u) != rung__id_get(l->ids, id_bytes, at))
			return false;
	}
	return true;
}

/* Compare the lists of a chunk. Called by the pass, in the thread that verifies. Flags are written
 * without a lock: a chunk has each list only once, so no two threads write the same flag. */
static int compare_chunk(void *ctx, const struct rung__edge_chunk *chunk)
{
	struct lists *l = ctx;
	const struct rung_verify_opts *opts = &l->v->opts;

#pragma omp parallel for num_threads(l->v->threads) schedule(dynamic, 64)
	for (uint64_t i = 0; i < chunk->vertex_count; i++) {
		uint64_t place = place_of(l, chunk->vertex_first + i);

		if (place != UINT64_MAX && !list_agrees(l, chunk, i, place))
			l->differs[place] = 1;
	}
	l->edges_done += chunk->edge_count;
	if (opts->progress &&
	    opts->progress(opts->progress_ctx, "lists", RUNG__MIN(l->edges_done, l->edges_total),
	                   l->edges_total))
		return rung__fail(RUNG_E_CANCELED, "lists: canceled");
	return 0;
}

/* Add the results of the lists in memory to the report. This is done after the whole pass, so that
 * a list in several parts counts once. */
static void count_different(struct lists *l)
{
	struct rung_verify_report *report = &l->v->report;

	report->lists_compared += l->end - l->first;
	for (uint64_t i = 0; i < l->end - l->first; i++) {
		if (!l->differs[i])
			continue;
		report->lists_different++;
		l->first_rank = RUNG__MIN(l->first_rank, rank_at(l, l->first + i));
	}
}

/* Load staged lists and run a pass over the source, until all lists were compared. */
static int compare_passes(struct lists *l, struct rung_edges *edges)
{
	int rc = 0;

	for (; l->first < l->count && rc == 0; l->first = l->end) {
		rc = l->ranks ? load_sampled(l) : load_run(l);
		if (rc < 0)
			break;
		memset(l->differs, 0, (size_t)(l->end - l->first));
		/* an estimate: one pass for each remaining part, if all parts have as many lists as
		 * this one */
		l->edges_total = l->edges_done +
		                 edges->info.edge_count *
		                         ((l->count - l->first - 1) / (l->end - l->first) + 1);
		rc = rung__edges_pass(edges, compare_chunk, l);
		if (rc == 0)
			count_different(l);
	}
	return rc;
}

/* ---- files and memory ---- */

/* Open the two staged files, also for direct reads. compare_with() closes them. */
static int open_staged(struct lists *l)
{
	int rc = rung__array_open(l->v->ds, RUNG__INDPTR, &l->indptr_staged);

	if (rc == 0)
		rc = rung__array_open(l->v->ds, RUNG__INDICES, &l->indices_staged);
	if (rc == 0)
		rc = rung__direct_open(&l->indptr_file, l->indptr_staged.files[0].fd,
		                       l->indptr_staged.files[0].path);
	if (rc == 0)
		rc = rung__direct_open(&l->indices_file, l->indices_staged.files[0].fd,
		                       l->indices_staged.files[0].path);
	return rc;
}

/* Allocate memory for staged lists: the budget without maps, sample and the buffers of passes, but
 * not more than the whole graph needs. */
static int reserve_space(struct lists *l, const struct rung_edges_info *info)
{
	const struct rung__manifest *m = l->v->ds->manifest;
	const uint64_t used = 2 * m->vertex_count * m->index_bytes + info->memory_bytes +
	                      m->vertex_count / 8 + l->count * sizeof(uint64_t);
	const uint64_t whole = 4 * (m->edge_count * m->index_bytes / 3 +
	                            (m->vertex_count + 2) * (sizeof(uint64_t) + 1)) +
	                       ROOM_BYTES_MIN;
	const uint64_t memory = l->v->opts.memory_bytes;

	if (memory < used + ROOM_BYTES_MIN)
		return rung__fail_min_bytes(used + ROOM_BYTES_MIN,
		                            "verify: comparing the lists of %" PRIu64
		                            " vertices needs more than %" PRIu64
		                            " bytes of memory; give at least %" PRIu64,
		                            m->vertex_count, memory, used + ROOM_BYTES_MIN);
	l->buffer_bytes = RUNG__MIN(memory - used, whole);
	l->indptr_buffer = rung__malloc_aligned(
		RUNG__PAGE_BYTES,
		(size_t)rung__span_buffer_bytes((lists_max(l) + 1) * sizeof(uint64_t)));
	l->ids_buffer = rung__malloc_aligned(RUNG__PAGE_BYTES, (size_t)ids_buffer_bytes(l));
	l->differs = rung__malloc_array(lists_max(l), 1);
	if (!l->indptr_buffer || !l->ids_buffer || !l->differs)
		return rung__fail(RUNG_E_NOMEM, "verify: no memory for %" PRIu64 " bytes of lists",
		                  l->buffer_bytes);
	return 0;
}

/* Compare with an open source, and free everything in `l`. */
static int compare_with(struct lists *l, struct rung_edges *edges)
{
	int rc = choose(l);

	if (rc == 0)
		rc = reserve_space(l, &edges->info);
	if (rc == 0)
		rc = open_staged(l);
	if (rc == 0)
		rc = compare_passes(l, edges);
	if (l->v->report.lists_different > 0)
		l->v->report.first_list_different = rung__id_get(
			l->v->vertex_of_rank, l->v->ds->manifest->index_bytes, l->first_rank);
	rung__direct_close(&l->indptr_file);
	rung__direct_close(&l->indices_file);
	rung__features_close(&l->indptr_staged);
	rung__features_close(&l->indices_staged);
	rung__free(l->ranks);
	rung__free(l->chosen);
	rung__free(l->indptr_buffer);
	rung__free(l->ids_buffer);
	rung__free(l->differs);
	return rc;
}

int rung__verify_open_edges(const struct rung__verify *v, struct rung_edges **edges_out)
{
	struct rung_edges_opts opts = RUNG_EDGES_OPTS_INIT;
	int rc = rung__opts_copy_in(&opts.graph, sizeof(opts.graph), v->opts.graph,
	                            "rung_graph_opts");

	if (rc < 0)
		return rc;
	opts.graph.vertex_count = v->ds->manifest->vertex_count;
	opts.graph.progress = v->opts.progress;
	opts.graph.progress_ctx = v->opts.progress_ctx;
	/* this share is used first for sorting, and then by the passes while lists are compared */
	opts.memory_bytes = v->opts.memory_bytes / EDGES_SHARE;
	rc = rung_edges_open(&opts, edges_out);
	/* rung_edges_open() sees only its share, so convert the minimum to the whole budget */
	if (rc == RUNG_E_INVAL && rung_last_error_min_bytes() > 0 &&
	    rung_last_error_min_bytes() < UINT64_MAX / EDGES_SHARE) {
		const uint64_t least = rung_last_error_min_bytes() * EDGES_SHARE;

		return rung__fail_min_bytes(
			least,
			"verify: %" PRIu64
			" bytes of memory are not enough for this graph; give at least %" PRIu64,
			v->opts.memory_bytes, least);
	}
	return rc;
}

int rung__verify_lists(struct rung__verify *v)
{
	struct lists l = {
		.v = v, .indptr_file.fd = -1, .indices_file.fd = -1, .first_rank = UINT64_MAX
	};
	struct rung_edges *edges;
	int rc = rung__verify_open_edges(v, &edges);

	if (rc < 0)
		return rc;
	rc = compare_with(&l, edges);
	rung_edges_close(edges);
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pass: threads that read chunks ahead, and the calling thread, which processes them in order.
 * Each thread plans the next chunk (its edges, from the offsets, one thread at a time), reads it
 * and checks its ids, then continues with the next unclaimed chunk. So several reads are in flight,
 * and checks overlap with them and with the processing.
 *
 * One lock guards the states below; it is not held while reading or processing. `planning`
 * serialises the plans.
 */
#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "edges/edges.h"
#include "base/thread.h"

#define READERS         3u            /* reads in flight */
#define SLOTS           (READERS + 1) /* one more for the chunk that is being processed */
#define CHUNK_BYTES_MAX (UINT64_C(16) << 20)
#define CHUNK_BYTES_MIN 4096u
/* a chunk has at most one vertex per 16 bytes of its size: with short lists it is not full of
 * edges */
#define VERTEX_SHARE 16u
#define OFFSETS_MAX  (UINT64_C(1) << 17) /* entries of one read of indptr */

enum slot_state { SLOT_FREE, SLOT_READING, SLOT_READY };

/* Chunk k is in slot k mod SLOTS. A READING slot belongs to the thread that reads it, a READY one
 * to the calling thread. */
struct pass_slot {
	enum slot_state state;
	unsigned char *room; /* [room_bytes()] for the ids of a chunk */
	uint64_t *indptr;    /* [vertices_max + 1] */
	struct rung__edge_chunk chunk;
	bool last;                    /* the last chunk of the pass */
	struct rung__failure failure; /* of planning or reading; ends the pass */
};

struct pass {
	struct rung_edges *edges;
	pthread_mutex_t lock;
	pthread_cond_t changed; /* a slot, `planning` or `stop` has changed */
	_Atomic bool stop;      /* atomic, because reads in progress check it without the lock */
	bool planning, planned_all;
	uint64_t planned; /* chunks */
	struct pass_slot slots[SLOTS];

	/* used only by the thread that has set `planning` */
	unsigned char *offsets_room, *offsets_bounce;
	/* entries [offsets_first, offsets_first + offsets_count) of indptr */
	const uint64_t *offsets;
	uint64_t offsets_first, offsets_count, offsets_used; /* used: planned */
	/* first vertex of the next chunk, and where its list begins: below next_edge if the list is
	 * continued */
	uint64_t next_vertex, next_begin;
	uint64_t next_edge;
};

/* A thread that reads. */
struct reader {
	struct pass *pass;
	unsigned char *bounce;
	pthread_t thread;
};

static uint64_t pages(uint64_t bytes)
{
	return rung__align_up(bytes, RUNG__PAGE_BYTES);
}

/* Entries of one read of indptr: at least a page, and not more than a chunk has vertices. */
static uint64_t offsets_max(const struct rung_edges *edges)
{
	return RUNG__MIN(OFFSETS_MAX, RUNG__MAX(edges->vertices_max, RUNG__PAGE_BYTES / 8));
}

static uint64_t room_bytes(const struct rung_edges *edges)
{
	return pages(edges->edges_max * edges->info.index_bytes) + RUNG__READ_SLACK;
}

/* Bytes of the bounce buffer for a file; 0: its ids are read in place. */
static uint64_t bounce_bytes(const struct rung_edges *edges, const struct rung__id_file *file,
                             unsigned id_bytes)
{
	return rung__id_file_in_place(file, id_bytes) ? 0 : edges->read_bytes + RUNG__READ_SLACK;
}

/* Set the sizes for chunks of this many bytes. The buffers are one allocation: slots, the block of
 * offsets, then the bounce buffers (place_buffers()). @return memory of a pass in bytes */
static uint64_t measure(struct rung_edges *edges, uint64_t chunk_bytes)
{
	const struct rung_edges_info *info = &edges->info;

	edges->info.chunk_bytes = chunk_bytes;
	edges->edges_max =
		RUNG__MAX(RUNG__MIN(chunk_bytes / info->index_bytes, info->edge_count), 1u);
	edges->vertices_max = RUNG__MIN(chunk_bytes / VERTEX_SHARE, info->vertex_count);
	edges->read_bytes = RUNG__MIN(RUNG__READ_BYTES, pages(chunk_bytes));
	edges->buffer_bytes = SLOTS * (room_bytes(edges) + pages((edges->vertices_max + 1) * 8)) +
	                      pages(offsets_max(edges) * 8) + RUNG__READ_SLACK +
	                      bounce_bytes(edges, &edges->indptr, 8) +
	                      READERS * bounce_bytes(edges, &edges->indices, info->index_bytes);
	edges->info.memory_bytes = edges->source_bytes + edges->buffer_bytes;
	return edges->info.memory_bytes;
}

int rung__edges_plan_pass(struct rung_edges *edges, uint64_t memory_bytes, uint64_t chunk_bytes)
{
	uint64_t chunk = chunk_bytes ? chunk_bytes : CHUNK_BYTES_MAX;

	if (chunk < CHUNK_BYTES_MIN || chunk > UINT64_C(1) << 40)
		return rung__fail(RUNG_E_INVAL,
		                  "edges: chunk_bytes is %" PRIu64
		                  "; use at least %u, or 0 for the default",
		                  chunk_bytes, CHUNK_BYTES_MIN);
	/* the largest default that fits; the caller's size is not reduced */
	while (measure(edges, chunk) > memory_bytes && !chunk_bytes && chunk > CHUNK_BYTES_MIN)
		chunk /= 2;
	if (edges->info.memory_bytes > memory_bytes)
		return rung__fail_min_bytes(
			edges->info.memory_bytes,
			"edges: memory_bytes is %" PRIu64
			"; a pass over this graph in chunks of %" PRIu64
			" bytes needs at least %" PRIu64 "%s",
			memory_bytes, chunk, edges->info.memory_bytes,
			edges->source_bytes
				? ": write it with numpy.savez() (stored), it is then read in place"
				: "");
	edges->buffers = rung__map_pages(edges->buffer_bytes);
	if (!edges->buffers)
		return rung__fail(RUNG_E_NOMEM, "edges: no memory for buffers of %" PRIu64 " bytes",
		                  edges->buffer_bytes);
	return 0;
}

static int fail_offset(const struct rung_edges *edges, uint64_t at, uint64_t value)
{
	const struct rung__id_file *file = &edges->indptr;
	char text[RUNG__ID_TEXT_BYTES];

	return rung__fail(
		RUNG_E_FORMAT,
		"%s: indptr[%" PRIu64 "] is %s; it must be 0 to the number of indices, %" PRIu64
		": create the file again",
		file->name, at, rung__ids_text(text, file->dtype, value), edges->info.edge_count);
}

/* Check indptr as rung_csc_check() does, but block by block. The value before the block is kept in
 * next_begin. Every pass repeats these checks, because another process may have changed the
 * file. */
static int check_offsets(const struct pass *pass)
{
	const struct rung_edges *edges = pass->edges;
	const uint64_t *offsets = pass->offsets, first = pass->offsets_first,
		       count = pass->offsets_count;
	uint64_t before = first == 0 ? 0 : pass->next_begin;

	if (first == 0 && offsets[0] != 0)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: indptr[0] is %" PRIu64
		                  "; it must be 0: create the file again",
		                  edges->indptr.name, offsets[0]);
	for (uint64_t i = 0; i < count; i++) {
		if (offsets[i] < before)
			return rung__fail(
				RUNG_E_FORMAT,
				"%s: indptr[%" PRIu64 "] is %" PRIu64 " and indptr[%" PRIu64
				"] is %" PRIu64 "; it must never decrease: create the file again",
				edges->indptr.name, first + i - 1, before, first + i, offsets[i]);
		before = offsets[i];
	}
	if (first + count == edges->info.vertex_count + 1 && before != edges->info.edge_count)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: indptr[%" PRIu64 "] (the last) is %" PRIu64
		                  ", but %s has %" PRIu64
		                  " indices; use two files of the same graph",
		                  edges->indptr.name, edges->info.vertex_count, before,
		                  edges->indices.name, edges->info.edge_count);
	return 0;
}

/* Read and check the next block of indptr. Entries are at most the number of edges, so each is a
 * position in indices. */
static int load_offsets(struct pass *pass)
{
	const struct rung_edges *edges = pass->edges;
	const struct rung__id_reader reader = {
		.id_bytes = 8,
		.limit = edges->info.edge_count + 1,
		.read_bytes = edges->read_bytes,
		.bounce = pass->offsets_bounce,
	};
	struct rung__ids ids;
	int rc;

	pass->offsets_first += pass->offsets_count;
	pass->offsets_count =
		RUNG__MIN(offsets_max(edges), edges->info.vertex_count + 1 - pass->offsets_first);
	pass->offsets_used = 0;
	rc = rung__id_file_read(&edges->indptr, &reader, pass->offsets_first, pass->offsets_count,
	                        pass->offsets_room, &ids);
	if (rc < 0)
		return rc;
	if (ids.good < pass->offsets_count)
		return fail_offset(edges, pass->offsets_first + ids.good, ids.value);
	pass->offsets = ids.ids;
	return check_offsets(pass);
}

/* Number of the sorted offsets that are at most `limit`. */
static uint64_t count_up_to(const uint64_t *offsets, uint64_t count, uint64_t limit)
{
	uint64_t low = 0, high = count;

	while (low < high) {
		const uint64_t middle = low + (high - low) / 2;

		if (offsets[middle] <= limit)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Plan whole lists: as many as end inside the chunk. Their ends are stored in indptr[1..].
 * *lists_out is 0 if the first list is too long. */
static int plan_lists(struct pass *pass, struct pass_slot *slot, uint64_t *lists_out)
{
	const struct rung_edges *edges = pass->edges;
	const uint64_t edge_end = pass->next_edge + edges->edges_max;
	uint64_t lists = 0, list_count, there;

	do {
		if (pass->offsets_used == pass->offsets_count) {
			int rc = load_offsets(pass);

			if (rc < 0)
				return rc;
			/* the first entry begins list 0 */
			pass->offsets_used = pass->offsets_first == 0;
		}
		there = RUNG__MIN(pass->offsets_count - pass->offsets_used,
		                  edges->vertices_max - lists);
		/* offsets ascend, so the lists that fit are the first ones */
		list_count = count_up_to(pass->offsets + pass->offsets_used, there, edge_end);
		memcpy(slot->indptr + 1 + lists, pass->offsets + pass->offsets_used,
		       list_count * sizeof(uint64_t));
		pass->offsets_used += list_count;
		lists += list_count;
		if (list_count > 0)
			pass->next_begin = slot->indptr[lists];
	} while (list_count == there && lists < edges->vertices_max &&
	         pass->next_vertex + lists < edges->info.vertex_count);
	*lists_out = lists;
	return 0;
}

/* Plan the next chunk: its vertices and edges. */
static int plan_chunk(struct pass *pass, struct pass_slot *slot)
{
	const struct rung_edges *edges = pass->edges;
	uint64_t lists;
	int rc;

	slot->indptr[0] = pass->next_begin;
	rc = plan_lists(pass, slot, &lists);
	if (rc < 0)
		return rc;
	slot->chunk = (struct rung__edge_chunk){
		.vertex_first = pass->next_vertex,
		.vertex_count = lists,
		.indptr = slot->indptr,
		.edge_first = pass->next_edge,
		.index_bytes = edges->info.index_bytes,
	};
	if (lists == 0) { /* part of a list that is longer than a chunk: it fills the chunk alone */
		slot->indptr[1] = pass->offsets[pass->offsets_used];
		slot->chunk.vertex_count = 1;
		pass->next_edge += edges->edges_max;
	} else {
		pass->next_edge = pass->next_begin;
	}
	slot->chunk.edge_count = pass->next_edge - slot->chunk.edge_first;
	pass->next_vertex += lists;
	slot->last = pass->next_vertex == edges->info.vertex_count;
	return 0;
}

/* Number of vertices that entries may name. */
static uint64_t sources(const struct rung_edges *edges)
{
	return edges->info.source_count ? edges->info.source_count : edges->info.vertex_count;
}

/* Read and check the ids of a planned chunk, without the lock. */
static int read_chunk(const struct reader *thread, struct pass_slot *slot)
{
	const struct rung_edges *edges = thread->pass->edges;
	const struct rung__id_file *file = &edges->indices;
	const struct rung__id_reader reader = {
		.id_bytes = edges->info.index_bytes,
		.limit = sources(edges),
		.read_bytes = edges->read_bytes,
		.bounce = thread->bounce,
		.stop = &thread->pass->stop,
	};
	char text[RUNG__ID_TEXT_BYTES];
	struct rung__ids ids;
	int rc = rung__id_file_read(file, &reader, slot->chunk.edge_first, slot->chunk.edge_count,
	                            slot->room, &ids);

	if (rc < 0)
		return rc;
	slot->chunk.indices = ids.ids;
	/* after a stop the ids are incomplete, and the chunk is not used */
	if (ids.good == slot->chunk.edge_count || atomic_load(&thread->pass->stop))
		return 0;
	return rung__fail(RUNG_E_RANGE,
	                  "%s: indices[%" PRIu64 "]: id %s is out of range 0..%" PRIu64
	                  "; correct the index, or the %s",
	                  file->name, slot->chunk.edge_first + ids.good,
	                  rung__ids_text(text, file->dtype, ids.value), sources(edges) - 1,
	                  rung__graph_entries_cure(edges->info.source_count));
}

/* Wait until the slot of the next chunk is free and no other thread plans, and claim it. NULL: no
 * chunk is left, or the pass was stopped. */
static struct pass_slot *begin_plan(struct pass *pass)
{
	struct pass_slot *slot = NULL;

	pthread_mutex_lock(&pass->lock);
	while (!pass->stop && !pass->planned_all &&
	       (pass->planning || pass->slots[pass->planned % SLOTS].state != SLOT_FREE))
		pthread_cond_wait(&pass->changed, &pass->lock);
	if (!pass->stop && !pass->planned_all) {
		slot = &pass->slots[pass->planned % SLOTS];
		slot->state = SLOT_READING;
		pass->planning = true;
	}
	pthread_mutex_unlock(&pass->lock);
	return slot;
}

/* Let another thread plan. After a failure no further chunk is planned, because its offsets are not
 * known. */
static void end_plan(struct pass *pass, const struct pass_slot *slot, int rc)
{
	pthread_mutex_lock(&pass->lock);
	pass->planning = false;
	pass->planned++;
	pass->planned_all = rc < 0 || slot->last;
	pthread_cond_broadcast(&pass->changed);
	pthread_mutex_unlock(&pass->lock);
}

/* Hand a chunk over to the calling thread. */
static void end_slot(struct pass *pass, struct pass_slot *slot, int rc)
{
	assert(slot->state == SLOT_READING);
	rung__failure_keep(&slot->failure, rc);
	pthread_mutex_lock(&pass->lock);
	slot->state = SLOT_READY;
	pthread_cond_broadcast(&pass->changed);
	pthread_mutex_unlock(&pass->lock);
}

/* A thread that reads. Normally the next thread plans while this one reads. */
static void *read_ahead(void *ctx)
{
	const struct reader *reader = ctx;
	struct pass *pass = reader->pass;
	struct pass_slot *slot;

	while ((slot = begin_plan(pass)) != NULL) {
		/* Inflated input is fast only in order, so the turn to plan is kept until the chunk
		 * has been read: no other thread reads a later chunk at the same time. */
		const bool in_order = pass->edges->indices.streamed;
		int rc = plan_chunk(pass, slot);

		if (!in_order)
			end_plan(pass, slot, rc);
		if (rc == 0)
			rc = read_chunk(reader, slot);
		if (in_order)
			end_plan(pass, slot, rc);
		end_slot(pass, slot, rc);
	}
	return NULL;
}

/* On the calling thread: process the chunks in order. A failure or a result of `work` other than 0
 * stops the readers. */
static int work_in_order(struct pass *pass,
                         int (*work)(void *ctx, const struct rung__edge_chunk *chunk), void *ctx)
{
	bool last = false;
	int rc = 0;

	for (uint64_t k = 0; rc == 0 && !last; k++) {
		struct pass_slot *slot = &pass->slots[k % SLOTS];

		pthread_mutex_lock(&pass->lock);
		while (slot->state != SLOT_READY)
			pthread_cond_wait(&pass->changed, &pass->lock);
		assert(k < pass->planned && pass->planned <= k + SLOTS);
		pthread_mutex_unlock(&pass->lock);
		last = slot->last;
		rc = rung__failure_report(&slot->failure);
		if (rc == 0)
			rc = work(ctx, &slot->chunk);
		pthread_mutex_lock(&pass->lock);
		slot->state = SLOT_FREE;
		if (rc != 0)
			atomic_store(&pass->stop, true);
		pthread_cond_broadcast(&pass->changed);
		pthread_mutex_unlock(&pass->lock);
	}
	return rc;
}

/* Divide the allocation, in the order of measure(). */
static void place_buffers(struct pass *pass, struct reader readers[READERS])
{
	const struct rung_edges *edges = pass->edges;
	unsigned char *at = edges->buffers;

	for (unsigned i = 0; i < SLOTS; i++) {
		pass->slots[i].room = at;
		at += room_bytes(edges);
		pass->slots[i].indptr = (uint64_t *)at;
		at += pages((edges->vertices_max + 1) * 8);
	}
	pass->offsets_room = at;
	at += pages(offsets_max(edges) * 8) + RUNG__READ_SLACK;
	pass->offsets_bounce = at;
	at += bounce_bytes(edges, &edges->indptr, 8);
	for (unsigned i = 0; i < READERS; i++) {
		readers[i] = (struct reader){ .pass = pass, .bounce = at };
		at += bounce_bytes(edges, &edges->indices, edges->info.index_bytes);
	}
}

int rung__edges_pass(struct rung_edges *edges,
                     int (*work)(void *ctx, const struct rung__edge_chunk *chunk), void *ctx)
{
	struct pass pass = { .edges = edges,
		             .lock = PTHREAD_MUTEX_INITIALIZER,
		             .changed = PTHREAD_COND_INITIALIZER };
	struct reader readers[READERS];
	unsigned started = 0;
	int err = 0, rc;

	place_buffers(&pass, readers);
	while (started < READERS && err == 0) {
		err = rung__thread_start(&readers[started].thread, read_ahead, &readers[started]);
		started += err == 0;
	}
	if (started == 0)
		rc = rung__fail_thread(err, "edges: a thread that reads them");
	else
		rc = work_in_order(&pass, work,
		                   ctx); /* with fewer threads the pass is only slower */
	for (unsigned i = 0; i < started; i++)
		pthread_join(readers[i].thread, NULL);
	pthread_cond_destroy(&pass.changed);
	pthread_mutex_destroy(&pass.lock);
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Misses between the gather that found them and refill: they are sorted, announced to the cache,
 * divided into a part for each refill thread, and queued.
 *
 * On the CPU the submitting thread does that. With a device a separate thread does it, the sorter,
 * one for all files of the store. 200 k misses take milliseconds, which the other threads cannot
 * spare: while the device thread sorted, no copy of another request would be launched and no slot
 * would be returned; while a refill thread sorted, no read of its file would be reaped or sent. The
 * sorter also sometimes waits for the cache, up to 100 ms if another process was stopped
 * while it held the lock.
 *
 * Memory. The tmp arrays of the request are scratch here; links and frames are scratch until refill
 * has the request. Nothing is allocated.
 */
#include <string.h>

#include "sort/radix.h"
#include "store/store.h"
#include "base/thread.h"

struct rung__sorter {
	struct rung_store *store;
	/* requests with misses, oldest first; guarded by store->lock */
	struct rung__queue requests;
	bool stop;           /* guarded by store->lock */
	pthread_cond_t work; /* the thread waits for it with store->lock held */
	pthread_t thread;
};

/*
 * Sort the misses by refill thread. As in a counting sort, misses of one thread become contiguous
 * and keep their order: each part must be in the order of its file, so that rows near each other in
 * the file share reads.
 * @param at  [refill_count + 1] zeroed; first miss of each thread, then the end
 */
static void deal(struct rung_request *request, uint64_t *at)
{
	const struct rung_store *store = request->store;
	const struct rung__layout *layout = &store->shape.layout;
	const uint32_t threads = store->threads_per_file;
	struct rung__misses *misses = &request->misses;

	for (uint64_t i = 0; i < misses->count; i++)
		at[rung__row_refill(layout, threads, misses->ranks[i]) + 1]++;
	for (uint32_t r = 0; r < store->refill_count; r++)
		at[r + 1] += at[r];
	memcpy(misses->ranks_tmp, misses->ranks, misses->count * sizeof(*misses->ranks));
	memcpy(misses->rows_tmp, misses->rows, misses->count * sizeof(*misses->rows));
	for (uint64_t i = 0; i < misses->count; i++) {
		uint64_t to = at[rung__row_refill(layout, threads, misses->ranks_tmp[i])]++;

		misses->ranks[to] = misses->ranks_tmp[i];
		misses->rows[to] = misses->rows_tmp[i];
	}
	/* each entry has advanced to the beginning of the next thread */
	memmove(at + 1, at, store->refill_count * sizeof(*at));
	at[0] = 0;
}

/* Create a part for each refill thread. Threads without misses get empty parts, which are not
 * queued. */
static void make_parts(struct rung_request *request)
{
	const uint32_t count = request->store->refill_count;
	uint64_t at[RUNG__REFILLS_MAX + 1] = { 0 };
	uint32_t parts = 0;

	if (count == 1) /* the usual case: no miss is moved */
		at[1] = request->misses.count;
	else
		deal(request, at);
	for (uint32_t r = 0; r < count; r++) {
		request->parts[r] = (struct rung__part){
			.request = request,
			.first = at[r],
			.end = at[r + 1],
			.cursor = at[r],
			.remote = RUNG__MISS_REF_NONE,
			.placed = at[r],
			.slot_batch_first = at[r],
			.held_head = RUNG__SLOT_NONE,
		};
		parts += at[r] < at[r + 1];
	}
	/* set before the first part is queued, because refill and the device thread count down from
	 * this number */
	request->lasts_left = parts;
	atomic_store_explicit(&request->parts_left, parts, memory_order_relaxed);
}

/* Announce to the cache which batch begins. The cache identifies a batch by its distinct ranks in
 * ascending order, so this comes before a sort by vertex. */
static void begin_batch(struct rung_request *request)
{
	struct rung__misses *misses = &request->misses;
	uint64_t distinct = 0;

	for (uint64_t i = 0; i < misses->count; i++) {
		if (distinct == 0 || misses->ranks[i] != misses->ranks_tmp[distinct - 1])
			misses->ranks_tmp[distinct++] = misses->ranks[i];
	}
	rung__cache_begin(request->store->cache, misses->ranks_tmp, distinct, &request->batch);
}

/*
 * Rows of a dataset staged in place are stored by vertex. Misses are sorted in that order, so that
 * rows near each other in the file share reads here too. Equal ranks stay next to each other,
 * because each rank has one vertex. links and frames belong to refill, which has not set them yet.
 */
static void sort_by_vertex(struct rung_request *request)
{
	const struct rung__layout *layout = &request->store->shape.layout;
	struct rung__misses *misses = &request->misses;
	uint64_t *vertices = misses->links;
	uint32_t *order = misses->frames;

	for (uint64_t i = 0; i < misses->count; i++) {
		vertices[i] = rung__id_get(layout->vertex_of_rank, (unsigned)layout->vertex_bytes,
		                           misses->ranks[i]);
		order[i] = (uint32_t)i;
	}
	rung__radix_sort_pairs(vertices, order, misses->ranks_tmp, misses->rows_tmp, misses->count,
	                       rung__rank_bits(request->store));
	for (uint64_t i = 0; i < misses->count; i++) {
		misses->ranks_tmp[i] = misses->ranks[order[i]];
		misses->rows_tmp[i] = misses->rows[order[i]];
	}
	memcpy(misses->ranks, misses->ranks_tmp, misses->count * sizeof(*misses->ranks));
	memcpy(misses->rows, misses->rows_tmp, misses->count * sizeof(*misses->rows));
}

unsigned rung__rank_bits(const struct rung_store *store)
{
	return 64u - (unsigned)__builtin_clzll(store->shape.vertex_count | 1);
}

void rung__misses_queue(struct rung_request *request)
{
	struct rung_store *store = request->store;
	struct rung__misses *misses = &request->misses;
	bool has[RUNG__REFILLS_MAX];

	/* rank order is the order of the files, and makes equal ranks adjacent, so each row is read
	 * once */
	rung__radix_sort_pairs(misses->ranks, misses->rows, misses->ranks_tmp, misses->rows_tmp,
	                       misses->count, rung__rank_bits(store));
	if (store->cache)
		begin_batch(request);
	if (store->shape.layout.vertex_of_rank)
		sort_by_vertex(request);
	make_parts(request);
	/* the request can complete and be reused as soon as its last part is queued, so it is not
	 * accessed after that */
	for (uint32_t r = 0; r < store->refill_count; r++)
		has[r] = request->parts[r].end > request->parts[r].first;
	for (uint32_t r = 0; r < store->refill_count; r++) {
		if (has[r])
			rung__refill_queue(store->refill_boxes[r], &request->parts[r]);
	}
}

/* ---- the sorter ---- */

/* Wait for a request. Queued requests come before the stop flag, so all of them are passed on.
 * @return the oldest request; NULL: the thread ends */
static struct rung_request *pop_oldest(struct rung__sorter *sorter)
{
	struct rung_store *store = sorter->store;
	struct rung_request *request;

	pthread_mutex_lock(&store->lock);
	while (rung__queue_is_empty(&sorter->requests) && !sorter->stop)
		pthread_cond_wait(&sorter->work, &store->lock);
	request = RUNG__ENTRY(rung__queue_pop(&sorter->requests), struct rung_request, sort_link);
	pthread_mutex_unlock(&store->lock);
	return request;
}

static void *sorter_main(void *ctx)
{
	struct rung__sorter *sorter = ctx;
	struct rung_request *request;

	pthread_setname_np(pthread_self(), "rung-sorter");
	while ((request = pop_oldest(sorter)) != NULL)
		rung__misses_queue(request);
	return NULL;
}

int rung__sorter_start(struct rung_store *store)
{
	struct rung__sorter *sorter = rung__zalloc(sizeof(*sorter));
	int rc;

	if (!sorter)
		return rung__fail(RUNG_E_NOMEM, "store: out of memory");
	sorter->store = store;
	rung__cond_init(&sorter->work);
	rc = rung__thread_start(&sorter->thread, sorter_main, sorter);
	if (rc != 0) {
		pthread_cond_destroy(&sorter->work);
		rung__free(sorter);
		return rung__fail_thread(rc, "store: the sorter thread");
	}
	store->sorter = sorter;
	return 0;
}

void rung__sorter_accept(struct rung__sorter *sorter, struct rung_request *request)
{
	pthread_mutex_lock(&sorter->store->lock);
	rung__queue_push(&sorter->requests, &request->sort_link);
	pthread_cond_signal(&sorter->work);
	pthread_mutex_unlock(&sorter->store->lock);
}

void rung__sorter_stop(struct rung__sorter *sorter)
{
	struct rung_store *store = sorter->store;

	pthread_mutex_lock(&store->lock);
	sorter->stop = true;
	pthread_cond_signal(&sorter->work);
	pthread_mutex_unlock(&store->lock);
	pthread_join(sorter->thread, NULL);
	pthread_cond_destroy(&sorter->work);
	rung__free(sorter);
	store->sorter = NULL;
}

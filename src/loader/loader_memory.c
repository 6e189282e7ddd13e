/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loader's memory: batches and rows, reused. New rows have space for the largest batch so far
 * plus a margin.
 *
 * On the CPU the most recently put memory is reused first, since the CPU's caches may still hold
 * it. With a device the memory that was put first is reused first, since the caller's work on it
 * has most likely run. Memory whose work has run comes before memory that must be waited for.
 * Allocating and freeing may make a device wait for all its work, so memory that is too small, or
 * surplus, is dropped and freed at the end of the pass.
 *
 * Workers acquire batches, the feeder acquires rows, and any thread may put both. The lock guards
 * only the lists and counts. An item that is in no list belongs to one thread, which calls the
 * device and the allocator without the lock.
 */
#include <assert.h>

#include "loader/state.h"

static const struct rung__device_ops *ops_of(const struct rung_loader *loader)
{
	return loader->store->device_ops;
}

/* ---- lists ---- */

/* With the lock held. `last`: append to the end of the list, to be reused last. */
static void push(struct rung__feed_list *list, struct rung__feed_item *item, bool last)
{
	if (last)
		rung__queue_push(&list->items, &item->link);
	else
		rung__queue_push_first(&list->items, &item->link);
	list->count++;
}

/* Remove and return the first item; NULL if the list is empty. With the lock held. */
static struct rung__feed_item *pop(struct rung__feed_list *list)
{
	struct rung__link *link = rung__queue_pop(&list->items);

	list->count -= link != NULL;
	return RUNG__ENTRY(link, struct rung__feed_item, link);
}

/* pop() without the lock held. */
static struct rung__feed_item *pop_first(struct rung_loader *loader, struct rung__feed_list *list)
{
	struct rung__feed_item *item;

	pthread_mutex_lock(&loader->lock);
	item = pop(list);
	pthread_mutex_unlock(&loader->lock);
	return item;
}

/* Whether the caller's work on an item has run; polls once. Also true after a failure of the
 * device: the caller must not wait then, and the next call reports the failure. */
static bool is_through(const struct rung_loader *loader, struct rung__feed_item *item)
{
	if (item->pending)
		item->pending =
			ops_of(loader)->event_passed(loader->store->device, item->used, false) == 0;
	return !item->pending;
}

/* Pop the first free item whose work has run. If every item is still in use, the result depends on
 * may_make. If it is true, return NULL, and the calling function allocates an item; otherwise
 * return the first item, whose next user waits for its previous one (rung__feed_order()). Items in
 * use rotate to the end; one full rotation keeps their order. */
static struct rung__feed_item *pop_free(struct rung_loader *loader, struct rung__feed_list *list,
                                        bool may_make)
{
	uint64_t count;

	pthread_mutex_lock(&loader->lock);
	count = list->count;
	pthread_mutex_unlock(&loader->lock);
	for (uint64_t i = 0; i < count; i++) {
		struct rung__feed_item *item = pop_first(loader, list);

		if (!item || is_through(loader, item))
			return item;
		pthread_mutex_lock(&loader->lock);
		push(list, item, true);
		pthread_mutex_unlock(&loader->lock);
	}
	return may_make ? NULL : pop_first(loader, list);
}

int rung__feed_order(const struct rung_loader *loader, struct rung__feed_item *item,
                     struct CUstream_st *stream)
{
	int rc = 0;

	if (item->pending)
		rc = ops_of(loader)->event_order(loader->store->device, item->used, stream);
	item->pending = rc < 0;
	return rc;
}

/* Record the work on `stream` as the work that the next user of an item waits for. @return false if
 * the device cannot: then it is unknown when the item can be reused. */
static bool lend_until(struct rung_loader *loader, struct rung__feed_item *item,
                       struct CUstream_st *stream)
{
	int rc = ops_of(loader)->event_record(loader->store->device, item->used, stream);

	item->pending = rc == 0;
	return item->pending;
}

void rung__feed_lent_until(struct rung_loader *loader, struct rung__feed_batch *batch,
                           struct CUstream_st *stream)
{
	bool recorded = lend_until(loader, &batch->rows->item, stream);

	/* only a batch that is sampled on the GPU has an event */
	if (recorded && batch->gpu_sample)
		recorded = lend_until(loader, &batch->item, stream);
	batch->rows->item.lost = batch->item.lost = !recorded;
}

/* Close the event of an item that is about to be freed, after the work on its memory has run. */
static void close_event(struct rung_loader *loader, struct CUevent_st *event)
{
	if (!event)
		return;
	ops_of(loader)->event_passed(loader->store->device, event, true);
	ops_of(loader)->event_close(loader->store->device, event);
}

/* ---- pinned memory ---- */

/* Allocate whole pages and pin them until unpin(); `what` is their name in messages. */
static int pin(struct rung_loader *loader, const char *what, uint64_t bytes, uint64_t **memory_out)
{
	void *memory = rung__map_pages(bytes);
	int rc;

	if (!memory)
		return rung__fail(RUNG_E_NOMEM, "loader: no memory for %s of %" PRIu64 " bytes",
		                  what, bytes);
	rc = ops_of(loader)->pin(loader->store->device, what, memory, bytes);
	if (rc < 0) {
		rung__unmap_pages(memory, bytes);
		return rc;
	}
	*memory_out = memory;
	return 0;
}

static void unpin(struct rung_loader *loader, void *memory, uint64_t bytes)
{
	if (!memory)
		return;
	ops_of(loader)->unpin(loader->store->device, memory);
	rung__unmap_pages(memory, bytes);
}

/* ---- rows ---- */

/* NULL is allowed. Not in a list. */
static void free_rows(struct rung_loader *loader, struct rung__feed_rows *rows)
{
	if (!rows)
		return;
	close_event(loader, rows->item.used);
	rung_store_free(loader->store, rows->memory);
	rung__free(rows);
}

/* Allocate memory for `unit_count` units; on a device with an event for its next user. */
static int make_rows(struct rung_loader *loader, uint64_t unit_count,
                     struct rung__feed_rows **rows_out)
{
	struct rung__feed_rows *rows = rung__zalloc(sizeof(*rows));
	uint64_t bytes;
	int rc;

	if (!rows)
		return rung__fail(RUNG_E_NOMEM, "loader: no memory for rows");
	rows->unit_count = unit_count;
	if (!rung__mul(unit_count, loader->unit_bytes, &bytes))
		rc = rung__fail(RUNG_E_NOMEM,
		                "loader: %" PRIu64 " rows of %" PRIu64 " bytes exceed 2^64 bytes",
		                unit_count, loader->unit_bytes);
	else
		rc = rung_store_alloc(loader->store, bytes, &rows->memory);
	if (rc < 0)
		rows->memory = NULL;
	else if (loader->store->device)
		rc = ops_of(loader)->event_open(loader->store->device, &rows->item.used);
	if (rc < 0) {
		free_rows(loader, rows);
		return rc;
	}
	*rows_out = rows;
	return 0;
}

/* Drop rows that are too small for a batch, or surplus: on the CPU they are freed now, on a device
 * at the end of the pass. */
static void drop_rows(struct rung_loader *loader, struct rung__feed_rows *rows)
{
	pthread_mutex_lock(&loader->lock);
	loader->rows_allocated--;
	if (loader->store->device) {
		push(&loader->dropped_rows, &rows->item, false);
		rows = NULL;
	}
	pthread_mutex_unlock(&loader->lock);
	free_rows(loader, rows);
}

/* Allocate rows for `unit_count` units with a margin of an eighth: later batches are rarely larger.
 * If the device has too little memory for that, all unused rows are freed, although the device may
 * then wait for all its work, and the margin is omitted. */
static int make_large_rows(struct rung_loader *loader, uint64_t unit_count,
                           struct rung__feed_rows **rows_out)
{
	uint64_t most, roomy;
	int rc;

	pthread_mutex_lock(&loader->lock);
	most = RUNG__MAX(unit_count, loader->unit_count_max);
	pthread_mutex_unlock(&loader->lock);
	if (!rung__add(most, most / 8, &roomy))
		roomy = most;
	rc = make_rows(loader, roomy, rows_out);
	if (rc == RUNG_E_NOMEM && loader->store->device) {
		struct rung__feed_item *item;

		while ((item = pop_first(loader, &loader->free_rows)) != NULL)
			drop_rows(loader, (struct rung__feed_rows *)item);
		rung__feed_free_dropped(loader);
		rc = make_rows(loader, unit_count, rows_out);
	}
	if (rc == 0) {
		pthread_mutex_lock(&loader->lock);
		loader->rows_allocated++;
		pthread_mutex_unlock(&loader->lock);
	}
	return rc;
}

int rung__feed_acquire_rows(struct rung_loader *loader, struct rung__feed_batch *batch)
{
	const uint64_t count = batch->unit_count;
	struct rung__feed_rows *rows;
	bool may_make;
	int rc = 0;

	pthread_mutex_lock(&loader->lock);
	/* On a device allocate until the usual number exists, instead of letting a gather wait
	 * for the caller's work. On the CPU free memory is always ready. */
	may_make = loader->store->device &&
	           loader->rows_allocated < loader->opts.gathers + RUNG__FEED_HELD;
	pthread_mutex_unlock(&loader->lock);
	rows = (struct rung__feed_rows *)pop_free(loader, &loader->free_rows, may_make);
	if (rows && rows->unit_count < count) {
		drop_rows(loader, rows);
		rows = NULL;
	}
	if (!rows)
		rc = make_large_rows(loader, count, &rows);
	if (rc < 0)
		return rc;
	batch->rows = rows;
	return rung__feed_order(loader, &rows->item, loader->stream);
}

/* ---- batches ---- */

/* Allocate the memory of a batch that the GPU samples. The ranks are fetched to the host only if
 * batches are announced: the cache needs them. The seeds are pinned because the GPU reads them in
 * place. After an error the caller frees the batch. */
static int open_gpu_sample(struct rung_loader *loader, struct rung__feed_batch *batch)
{
	const uint64_t seeds = loader->opts.batch_size;
	const uint64_t ranks =
		loader->announces ? rung__gpu_sampler_vertices(loader->opts.gpu_sampler) : 0;
	uint64_t count, bytes;
	int rc;

	if (!rung__add(seeds, ranks, &count) ||
	    !rung__mul(count, sizeof(*batch->pinned_seeds), &bytes))
		return rung__fail(RUNG_E_NOMEM,
		                  "loader: memory for %" PRIu64 " ranks exceeds 2^64 bytes", ranks);
	rc = rung__gpu_batch_create(loader->opts.gpu_sampler, &batch->gpu_sample);
	if (rc < 0) {
		batch->gpu_sample = NULL;
		return rc;
	}
	batch->pinned_bytes = rung__align_up(bytes, RUNG__PAGE_BYTES);
	rc = pin(loader, "the seeds of a batch", batch->pinned_bytes, &batch->pinned_seeds);
	if (rc == 0)
		rc = ops_of(loader)->event_open(loader->store->device, &batch->item.used);
	return rc;
}

int rung__feed_make_batch(struct rung_loader *loader, struct rung__feed_batch **batch_out)
{
	struct rung__feed_batch *batch = rung__zalloc(sizeof(*batch));
	int rc = 0;

	if (!batch)
		return rung__fail(RUNG_E_NOMEM, "loader: no memory for a batch");
	batch->parts = rung__zalloc_array(loader->table_count, sizeof(*batch->parts));
	batch->requests = rung__zalloc_array(loader->table_count, sizeof(*batch->requests));
	batch->row_pointers = rung__zalloc_array((uint64_t)loader->opts.sampler.type_count +
	                                                 loader->opts.sampler.relation_count,
	                                         sizeof(*batch->row_pointers));
	if (!batch->parts || !batch->requests || !batch->row_pointers)
		rc = rung__fail(RUNG_E_NOMEM, "loader: no memory for a batch");
	else if (loader->opts.gpu_sampler)
		rc = open_gpu_sample(loader, batch);
	else if (loader->hop_count > 0)
		rc = rung_batch_create(&batch->sample);
	if (rc < 0)
		rung__feed_free_batch(loader, batch);
	else
		*batch_out = batch;
	return rc;
}

int rung__feed_acquire_batch(struct rung_loader *loader, struct rung__feed_batch **batch_out)
{
	struct rung__feed_item *item = pop_free(loader, &loader->free_batches, false);

	if (!item)
		return rung__feed_make_batch(loader, batch_out);
	*batch_out = (struct rung__feed_batch *)item; /* the first field of the struct */
	return 0;
}

void rung__feed_free_batch(struct rung_loader *loader, struct rung__feed_batch *batch)
{
	if (!batch)
		return;
	free_rows(loader, batch->rows);
	close_event(loader, batch->item.used);
	rung__gpu_batch_destroy(batch->gpu_sample);
	unpin(loader, batch->pinned_seeds, batch->pinned_bytes);
	rung_batch_destroy(batch->sample);
	for (uint32_t i = 0; batch->parts && i < loader->table_count; i++) {
		rung__free(batch->parts[i].positions);
		rung__free(batch->parts[i].names);
	}
	rung__free(batch->parts);
	rung__free(batch->requests);
	rung__free(batch->row_pointers);
	rung__free(batch->seeds);
	rung__free(batch);
}

/* With the lock held. On a GPU every batch is kept, because freeing it may wait for all work. A
 * batch whose event could not be recorded must never be reused: it is dropped. @return whether it
 * is in a list now; otherwise the caller frees it without the lock */
static bool keep_batch(struct rung_loader *loader, struct rung__feed_batch *batch)
{
	const bool on_gpu = batch->gpu_sample != NULL;
	const bool kept =
		on_gpu || loader->free_batches.count < loader->slot_count + RUNG__FEED_HELD;

	if (kept)
		push(batch->item.lost ? &loader->dropped_batches : &loader->free_batches,
		     &batch->item, on_gpu);
	return kept;
}

/* With the lock held. Rows are kept until as many are free as a caller that holds two batches
 * needs. @return whether they are in a list now; otherwise the caller frees them without the
 * lock */
static bool keep_rows(struct rung_loader *loader, struct rung__feed_rows *rows)
{
	const bool on_gpu = loader->store->device != NULL;

	if (!rows->item.lost && loader->free_rows.count < loader->opts.gathers + RUNG__FEED_HELD) {
		push(&loader->free_rows, &rows->item, on_gpu);
		return true;
	}
	loader->rows_allocated--;
	if (on_gpu)
		push(&loader->dropped_rows, &rows->item, false);
	return on_gpu;
}

void rung__feed_release_batch(struct rung_loader *loader, struct rung__feed_batch *batch)
{
	struct rung__feed_rows *rows;

	if (!batch)
		return;
	rows = batch->rows;
	batch->rows = NULL;
	for (uint32_t i = 0; i < loader->table_count; i++) {
		assert(!batch->parts[i].request); /* else a gather may still write to the rows */
		batch->parts[i].name_count = 0;
		batch->parts[i].announced = false;
	}
	batch->handed = (struct rung_loader_batch){ 0 };
	pthread_mutex_lock(&loader->lock);
	if (rows && keep_rows(loader, rows))
		rows = NULL;
	if (keep_batch(loader, batch))
		batch = NULL;
	pthread_mutex_unlock(&loader->lock);
	rung__feed_free_batch(loader, batch);
	free_rows(loader, rows);
}

/* Dropped rows and batches on a device may have been used by work that is in flight:
 * close_event() waits for it. */
void rung__feed_free_dropped(struct rung_loader *loader)
{
	struct rung__feed_item *item;

	while ((item = pop_first(loader, &loader->dropped_rows)) != NULL)
		free_rows(loader, (struct rung__feed_rows *)item);
	while ((item = pop_first(loader, &loader->dropped_batches)) != NULL)
		rung__feed_free_batch(loader, (struct rung__feed_batch *)item);
}

void rung__feed_free_all(struct rung_loader *loader)
{
	struct rung__feed_item *item;

	while ((item = pop_first(loader, &loader->free_batches)) != NULL)
		rung__feed_free_batch(loader, (struct rung__feed_batch *)item);
	while ((item = pop_first(loader, &loader->free_rows)) != NULL)
		free_rows(loader, (struct rung__feed_rows *)item);
	rung__feed_free_dropped(loader);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The loader's memory: batches and rows, used again and again. They grow to the largest; the last one that was put comes first. */
#include "loader_internal.h"

static void free_rows(struct rung_loader *loader, struct rung__feed_rows *rows)
{
	if (!rows)
		return;
	rung_store_free(loader->store, rows->memory);
	rung_store_free(loader->store, rows->ids);
	rung__free(rows);
}

void rung__feed_free_batch(struct rung_loader *loader, struct rung__feed_batch *batch)
{
	if (!batch)
		return;
	free_rows(loader, batch->rows);
	rung_batch_destroy(batch->sample);
	rung__free(batch->names);
	rung__free(batch->seeds);
	rung__free(batch);
}

struct rung__feed_batch *rung__feed_take_batch(struct rung_loader *loader)
{
	struct rung__feed_batch *batch;

	pthread_mutex_lock(&loader->lock);
	batch = loader->free_batches;
	if (batch) {
		loader->free_batches = batch->next;
		loader->free_batch_count--;
	}
	pthread_mutex_unlock(&loader->lock);
	if (batch)
		return batch;
	batch = rung__zalloc(sizeof(*batch));
	if (batch && loader->opts.sampler.hop_count > 0 && rung_batch_create(&batch->sample) < 0) {
		rung__free(batch);
		return NULL;
	}
	if (!batch)
		rung__fail(RUNG_E_NOMEM, "loader: no memory for a batch");
	return batch;
}

void rung__feed_give_batch(struct rung_loader *loader, struct rung__feed_batch *batch)
{
	struct rung__feed_rows *rows;

	if (!batch)
		return;
	rows = batch->rows;
	batch->rows = NULL;
	batch->name_count = 0;
	batch->handed = (struct rung_loader_batch){ 0 };
	pthread_mutex_lock(&loader->lock);
	if (loader->free_batch_count < loader->slot_count + RUNG__FEED_HELD) {
		loader->free_batch_count++;
		batch->next = loader->free_batches;
		loader->free_batches = batch;
		batch = NULL;
	}
	if (rows && loader->free_row_count < loader->opts.gathers + RUNG__FEED_HELD) {
		loader->free_row_count++;
		rows->next = loader->free_rows;
		loader->free_rows = rows;
		rows = NULL;
	}
	pthread_mutex_unlock(&loader->lock);
	rung__feed_free_batch(loader, batch);
	free_rows(loader, rows);
}

/* What is there is lost when it grows. An eighth to spare: later batches are rarely larger than that. */
static int reserve(struct rung_loader *loader, void **memory, uint64_t *memory_bytes, uint64_t count, uint64_t item_bytes)
{
	uint64_t bytes, roomy;
	int rc;

	if (!rung__mul(count, item_bytes, &bytes) || !rung__add(bytes, bytes / 8, &roomy))
		return rung__fail(RUNG_E_NOMEM, "loader: %" PRIu64 " rows of %" PRIu64 " bytes are more than any memory", count, item_bytes);
	if (bytes <= *memory_bytes)
		return 0;
	rung_store_free(loader->store, *memory);
	*memory = NULL;
	*memory_bytes = 0;
	rc = rung_store_alloc(loader->store, roomy, memory);
	if (rc < 0) {
		*memory = NULL;
		return rc;
	}
	*memory_bytes = roomy;
	return 0;
}

static int fill_rows(struct rung_loader *loader, struct rung__feed_batch *batch)
{
	struct rung__feed_rows *rows = batch->rows;
	const uint64_t count = batch->handed.rank_count;
	void *ids = rows->ids;
	int rc = reserve(loader, &rows->memory, &rows->bytes, count, loader->row_bytes);

	if (rc < 0 || !loader->store->device)
		return rc;
	rc = reserve(loader, &ids, &rows->ids_bytes, count, sizeof(*rows->ids));
	rows->ids = ids;
	return rc < 0 ? rc : rung_store_copy(loader->store, rows->ids, batch->handed.ranks, count * sizeof(*rows->ids));
}

int rung__feed_take_rows(struct rung_loader *loader, struct rung__feed_batch *batch)
{
	struct rung__feed_rows *rows;

	pthread_mutex_lock(&loader->lock);
	rows = loader->free_rows;
	if (rows) {
		loader->free_rows = rows->next;
		loader->free_row_count--;
	}
	pthread_mutex_unlock(&loader->lock);
	batch->rows = rows ? rows : rung__zalloc(sizeof(*rows));
	return batch->rows ? fill_rows(loader, batch) : rung__fail(RUNG_E_NOMEM, "loader: no memory for rows");
}

void rung__feed_free_all(struct rung_loader *loader)
{
	while (loader->free_batches) {
		struct rung__feed_batch *batch = loader->free_batches;

		loader->free_batches = batch->next;
		rung__feed_free_batch(loader, batch);
	}
	while (loader->free_rows) {
		struct rung__feed_rows *rows = loader->free_rows;

		loader->free_rows = rows->next;
		free_rows(loader, rows);
	}
}

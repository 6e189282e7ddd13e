/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables that batches are gathered from: one, or those of the types and of the edge rows of a
 * typed graph. The gathers of all tables of a batch are submitted together, into one block of
 * memory, and the batch is complete when all of them are.
 *
 * A table whose window is full does not hold up the others: the announcement of a batch continues
 * at that table after the next gather, which makes space in every window, and a batch whose turn
 * has come is gathered, whether or not it was announced.
 */
#include "loader/state.h"
#include "sample/lists.h"

int rung__feed_reserve(uint64_t **items, uint64_t *capacity, uint64_t count)
{
	if (count <= *capacity)
		return 0;
	rung__free(*items);
	*capacity = 0;
	*items = rung__malloc_array(count, sizeof(**items));
	if (!*items)
		return rung__fail(RUNG_E_NOMEM, "loader: no memory for %" PRIu64 " ids", count);
	*capacity = count;
	return 0;
}

/* ---- tables ---- */

static int check_table(const struct rung_store *first, const struct rung_store *store,
                       const char *what, uint32_t number, uint64_t wanted)
{
	if (store->shape.vertex_count != wanted)
		return rung__fail(RUNG_E_INVAL,
		                  "loader: the store of %s %" PRIu32 " has %" PRIu64
		                  " rows, but %" PRIu64
		                  " are needed; pass the store of its dataset",
		                  what, number, store->shape.vertex_count, wanted);
	if (store->device_ops != first->device_ops ||
	    (first->device && store->gpus[0] != first->gpus[0]))
		return rung__fail(RUNG_E_INVAL,
		                  "loader: the store of %s %" PRIu32
		                  " gathers on another device than the first one; open all on the "
		                  "same",
		                  what, number);
	if (store->opts.requests_max < first->opts.requests_max)
		return rung__fail(RUNG_E_INVAL,
		                  "loader: the store of %s %" PRIu32 " has %" PRIu32
		                  " requests, the first one %" PRIu32 "; open all with the same",
		                  what, number, store->opts.requests_max, first->opts.requests_max);
	return 0;
}

static uint64_t edges_of(const struct rung_sampler_relation *relation)
{
	if (relation->csc)
		return relation->csc->edge_count;
	return relation->structure ? relation->structure->lists.csc.edge_count : 0;
}

int rung__feed_check_tables(const struct rung_loader_opts *opts)
{
	const struct rung_sampler_opts *sampler = &opts->sampler;
	const struct rung_store *first = NULL;
	int rc = 0;

	if (!sampler->type_counts || !sampler->relations || sampler->hop_count == 0)
		return rung__fail(RUNG_E_INVAL,
		                  "loader: stores of types need a sampler with types, relations "
		                  "and hops");
	if (opts->gpu_sampler)
		return rung__fail(
			RUNG_E_INVAL,
			"loader: a GPU samples graphs of one type only; omit gpu_sampler");
	for (uint32_t i = 0; i < sampler->type_count && rc == 0; i++) {
		first = first ? first : opts->type_stores[i];
		if (opts->type_stores[i])
			rc = check_table(first, opts->type_stores[i], "type", i,
			                 sampler->type_counts[i]);
	}
	for (uint32_t i = 0; opts->edge_stores && i < sampler->relation_count && rc == 0; i++) {
		if (opts->edge_stores[i])
			rc = check_table(first, opts->edge_stores[i], "relation", i,
			                 edges_of(&sampler->relations[i]));
	}
	return rc;
}

static void add_table(struct rung_loader *loader, struct rung_store *store, const char *what,
                      uint32_t number)
{
	if (!store)
		return;
	loader->tables[loader->table_count++] = (struct rung__feed_table){
		.store = store,
		.row_bytes = store->form.out_bytes,
		.announces = store->cache != NULL, /* only the cache uses announcements */
		.what = what,
		.number = number,
	};
	loader->announces |= store->cache != NULL;
}

int rung__feed_open_tables(struct rung_loader *loader)
{
	struct rung_loader_opts *opts = &loader->opts;
	const uint64_t most = 1 + (uint64_t)opts->sampler.type_count + opts->sampler.relation_count;

	loader->tables = rung__zalloc_array(most, sizeof(*loader->tables));
	if (!loader->tables)
		return rung__fail(RUNG_E_NOMEM, "loader: no memory for %" PRIu64 " tables", most);
	if (!loader->typed) {
		add_table(loader, loader->store, NULL, 0);
		loader->unit_bytes = loader->tables[0].row_bytes;
		return 0;
	}
	loader->unit_bytes = RUNG__FEED_ALIGN;
	for (uint32_t i = 0; i < opts->sampler.type_count; i++)
		add_table(loader, opts->type_stores[i], "type", i);
	for (uint32_t i = 0; opts->edge_stores && i < opts->sampler.relation_count; i++) {
		add_table(loader, opts->edge_stores[i], "relation", i);
		if (opts->edge_stores[i])
			opts->sampler.edge_positions = 1;
	}
	/* these belong to the caller */
	opts->type_stores = opts->edge_stores = NULL;
	return 0;
}

/* ---- the parts of a batch ---- */

/* The positions of the edges of a relation, hop by hop. */
static int list_edges(const struct rung_typed_batch *typed, uint32_t relation,
                      struct rung__feed_part *part)
{
	uint64_t count = 0, at = 0;
	int rc;

	for (uint32_t hop = 0; hop < typed->hop_count; hop++)
		count += typed->blocks[hop * typed->relation_count + relation].edge_count;
	rc = rung__feed_reserve(&part->positions, &part->positions_capacity, count);
	if (rc < 0)
		return rc;
	for (uint32_t hop = 0; hop < typed->hop_count; hop++) {
		const struct rung_block *block =
			&typed->blocks[hop * typed->relation_count + relation];

		for (uint64_t e = 0; e < block->edge_count; e++)
			part->positions[at++] = block->edges[e];
	}
	part->ids = part->host_ids = part->positions;
	part->count = count;
	return 0;
}

static int list_typed(const struct rung_loader *loader, struct rung__feed_batch *batch)
{
	const struct rung_typed_batch *typed = rung_batch_typed(batch->sample);
	const uint32_t seed_type = loader->opts.sampler.seed_type;
	int rc = 0;

	batch->unit_count = batch->row_count = 0;
	batch->handed.typed = typed;
	batch->handed.blocks = NULL;
	batch->handed.seeds = typed->types[seed_type].vertices;
	for (uint32_t i = 0; i < typed->hop_count * typed->relation_count; i++)
		batch->edge_count += typed->blocks[i].edge_count;
	for (uint32_t i = 0; i < loader->table_count && rc == 0; i++) {
		const struct rung__feed_table *table = &loader->tables[i];
		struct rung__feed_part *part = &batch->parts[i];

		if (table->what[0] == 't') {
			part->ids = part->host_ids = typed->types[table->number].vertices;
			part->count = typed->types[table->number].count;
		} else
			rc = list_edges(typed, table->number, part);
		batch->row_count += part->count;
		batch->unit_count +=
			(part->count * table->row_bytes + RUNG__FEED_ALIGN - 1) / RUNG__FEED_ALIGN;
	}
	return rc;
}

int rung__feed_list_parts(const struct rung_loader *loader, struct rung__feed_batch *batch)
{
	struct rung__feed_part *part = batch->parts;

	if (loader->typed)
		return list_typed(loader, batch);
	part->ids = part->host_ids = batch->handed.ranks;
	part->count = batch->unit_count = batch->row_count = batch->handed.rank_count;
	return 0;
}

/* ---- announcements ---- */

int rung__feed_announce(const struct rung_loader *loader, struct rung__feed_batch *batch)
{
	int rc = 0;

	for (uint32_t i = 0; i < loader->table_count && rc == 0; i++) {
		const struct rung__feed_table *table = &loader->tables[i];
		struct rung__feed_part *part = &batch->parts[i];
		const struct rung_ids ids = { .data = part->host_ids,
			                      .count = part->count,
			                      .dtype = RUNG_U64,
			                      .space = RUNG_RANKS };

		if (!table->announces || part->announced || part->count == 0)
			continue;
		/* one name for each group of up to batch_rows_max ids */
		rc = rung__feed_reserve(&part->names, &part->names_capacity,
		                        part->count / table->store->opts.batch_rows_max + 1);
		if (rc == 0)
			rc = rung__prefetch(table->store, &ids, part->names, &part->name_count);
		part->announced = rc == 0;
	}
	return rc;
}

void rung__feed_withdraw(const struct rung_loader *loader, struct rung__feed_batch *batch)
{
	for (uint32_t i = 0; i < loader->table_count; i++) {
		struct rung__feed_part *part = &batch->parts[i];

		rung__prefetch_undo(loader->tables[i].store, part->names, part->name_count);
		part->name_count = 0;
	}
}

/* ---- gathers ---- */

/* Start the gather of a part. If it has more ids than a request accepts, or other users have all
 * requests, the store splits the list and waits for each piece. The rows are then complete at
 * return, and there is no request. */
static int submit(const struct rung_loader *loader, const struct rung__feed_table *table,
                  struct rung__feed_part *part, void *rows)
{
	const struct rung_ids ids = {
		.data = part->ids, .count = part->count, .dtype = RUNG_U64, .space = RUNG_RANKS
	};
	int rc = RUNG_E_AGAIN;

	if (part->count <= table->store->opts.batch_rows_max)
		rc = rung_gather_submit(table->store, &ids, rows, 0, loader->stream,
		                        &part->request);
	if (rc == RUNG_E_AGAIN)
		rc = rung__gather_stream(table->store, &ids, rows, 0, loader->stream);
	if (rc == 0) /* the announcement ends with its gather */
		part->name_count = 0;
	return rc;
}

/* Name the table in a failure. */
static int fail_in(const struct rung__feed_table *table, int rc)
{
	return !table->what || rc == 0 ? rc
	                               : rung__fail(rc, "rows of %s %" PRIu32 ": %s", table->what,
	                                            table->number, rung_last_error());
}

/* The caller's view of the requests and rows. */
static void show(const struct rung_loader *loader, struct rung__feed_batch *batch)
{
	struct rung_loader_batch *handed = &batch->handed;

	if (!loader->typed) {
		handed->request = batch->parts[0].request;
		return;
	}
	handed->type_rows = batch->row_pointers;
	handed->edge_rows = batch->row_pointers + handed->typed->type_count;
	handed->requests = batch->requests;
	handed->request_count = 0;
	for (uint32_t i = 0; i < loader->table_count; i++) {
		if (batch->parts[i].request)
			batch->requests[handed->request_count++] = batch->parts[i].request;
	}
}

int rung__feed_gather(struct rung_loader *loader, struct rung__feed_batch *batch)
{
	unsigned char *at = batch->rows->memory;
	int rc = 0;

	if (!loader->typed)
		batch->handed.rows = at;
	for (uint32_t i = 0;
	     i < loader->opts.sampler.type_count + loader->opts.sampler.relation_count; i++)
		batch->row_pointers[i] = NULL;
	for (uint32_t i = 0; i < loader->table_count && rc == 0; i++) {
		const struct rung__feed_table *table = &loader->tables[i];
		struct rung__feed_part *part = &batch->parts[i];

		if (loader->typed && part->count == 0)
			continue;
		rc = fail_in(table, submit(loader, table, part, at));
		if (!loader->typed)
			continue;
		batch->row_pointers[table->what[0] == 't'
		                            ? table->number
		                            : loader->opts.sampler.type_count + table->number] = at;
		at += rung__align_up(part->count * table->row_bytes, RUNG__FEED_ALIGN);
	}
	show(loader, batch);
	return rc;
}

int rung__feed_wait(const struct rung_loader *loader, struct rung__feed_batch *batch)
{
	struct rung__failure failure = { 0 };
	int rc = 0;

	for (uint32_t i = 0; i < loader->table_count; i++) {
		struct rung__feed_part *part = &batch->parts[i];
		int status;

		if (!part->request)
			continue;
		rung__request_await(part->request); /* not canceled: its rows belong to a batch */
		status = fail_in(&loader->tables[i], rung_request_wait(part->request, -1));
		if (status < 0 && rc == 0)
			rung__failure_keep(&failure, rc = status);
		batch->handed.times.rows_ns =
			RUNG__MAX(batch->handed.times.rows_ns, part->request->done_ns);
		rung_request_put(part->request);
		part->request = NULL;
	}
	show(loader, batch);
	return rc < 0 ? rung__failure_report(&failure) : 0;
}

void rung__feed_wait_stream(const struct rung_loader *loader, struct rung__feed_batch *batch,
                            struct CUstream_st *stream)
{
	int rc = 0;

	for (uint32_t i = 0; i < loader->table_count && rc == 0; i++) {
		if (batch->parts[i].request)
			rc = rung_request_wait_stream(batch->parts[i].request, stream);
	}
	if (rc < 0) {
		rung__feed_drain(loader, batch);
		return;
	}
	for (uint32_t i = 0; i < loader->table_count; i++) {
		rung_request_put(batch->parts[i].request);
		batch->parts[i].request = NULL;
	}
	batch->handed.request = NULL;
	batch->handed.request_count = 0;
}

void rung__feed_drain(const struct rung_loader *loader, struct rung__feed_batch *batch)
{
	for (uint32_t i = 0; batch && i < loader->table_count; i++) {
		struct rung__feed_part *part = &batch->parts[i];

		if (!part->request)
			continue;
		rung__request_await(part->request); /* on a GPU putting does not wait */
		rung_request_put(part->request);
		part->request = NULL;
	}
	if (!batch)
		return;
	batch->handed.request = NULL;
	batch->handed.request_count = 0;
}

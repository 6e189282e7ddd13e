/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of a batch, and its content as users see it. */
#include <string.h>

#include "sample/sample.h"

int rung_batch_create(struct rung_batch **batch_out)
{
	struct rung_batch *batch = rung__zalloc(sizeof(*batch));

	if (!batch)
		return rung__fail(RUNG_E_NOMEM, "batch: no memory");
	*batch_out = batch;
	return 0;
}

void rung_batch_destroy(struct rung_batch *batch)
{
	if (!batch)
		return;
	for (uint64_t i = 0; i < batch->block_capacity; i++) {
		rung__free(batch->memory[i].indptr);
		rung__free(batch->memory[i].indices);
		rung__free(batch->memory[i].edges);
	}
	for (uint32_t i = 0; i < batch->type_capacity; i++)
		rung__free(batch->types[i].vertices);
	rung__free(batch->types);
	rung__free(batch->listed);
	rung__free(batch->blocks);
	rung__free(batch->memory);
	rung__free(batch->wide_ids);
	rung__free(batch);
}

const uint64_t *rung_batch_vertices(const struct rung_batch *batch, uint64_t *count_out)
{
	const bool filled = batch->typed.hop_count > 0 && !batch->is_typed;

	*count_out = filled ? batch->types[0].count : 0;
	return filled ? batch->types[0].vertices : NULL;
}

const struct rung_block *rung_batch_block(const struct rung_batch *batch, uint32_t hop)
{
	return hop < batch->typed.hop_count && !batch->is_typed ? &batch->blocks[hop] : NULL;
}

const struct rung_typed_batch *rung_batch_typed(const struct rung_batch *batch)
{
	return batch->typed.hop_count > 0 && batch->is_typed ? &batch->typed : NULL;
}

/* Grow to `count` items; the content is kept, also on failure. The capacity grows by at least half,
 * so that growing is rare. */
static int reserve(void **items, uint64_t *capacity, uint64_t count, size_t item_bytes)
{
	uint64_t wanted;
	void *grown;

	if (count <= *capacity)
		return 0;
	if (!rung__add(count, count / 2, &wanted))
		wanted = count;
	grown = rung__realloc_array(*items, wanted, item_bytes);
	if (!grown)
		return rung__fail(RUNG_E_NOMEM,
		                  "batch: no memory for %" PRIu64
		                  " entries of %zu bytes; use a smaller batch or fanout",
		                  wanted, item_bytes);
	*items = grown;
	*capacity = wanted;
	return 0;
}

/* reserve() for an array of a type: a void ** to it would break aliasing rules. */
int rung__batch_reserve_u64(uint64_t **items, uint64_t *capacity, uint64_t count)
{
	void *grown = *items;
	const int rc = reserve(&grown, capacity, count, sizeof(**items));

	*items = grown;
	return rc;
}

int rung__batch_reserve_u32(uint32_t **items, uint64_t *capacity, uint64_t count)
{
	void *grown = *items;
	const int rc = reserve(&grown, capacity, count, sizeof(**items));

	*items = grown;
	return rc;
}

/* Grow an array to `count` items, of which those from `old` on are zeroed. */
static int extend(void **items, uint64_t old, uint64_t count, size_t item_bytes)
{
	char *grown = rung__realloc_array(*items, count, item_bytes);

	if (!grown)
		return rung__fail(RUNG_E_NOMEM, "batch: no memory for %" PRIu64 " types or blocks",
		                  count);
	memset(grown + old * item_bytes, 0, (count - old) * item_bytes);
	*items = grown;
	return 0;
}

static int extend_types(struct rung_batch *batch, uint32_t count)
{
	void *types = batch->types, *listed = batch->listed;
	int rc;

	if (count <= batch->type_capacity)
		return 0;
	rc = extend(&types, batch->type_capacity, count, sizeof(*batch->types));
	if (rc == 0)
		rc = extend(&listed, batch->type_capacity, count, sizeof(*batch->listed));
	batch->types = types;
	batch->listed = listed;
	if (rc == 0)
		batch->type_capacity = count;
	return rc;
}

static int extend_blocks(struct rung_batch *batch, uint64_t count)
{
	void *blocks = batch->blocks, *memory = batch->memory;
	int rc;

	if (count <= batch->block_capacity)
		return 0;
	rc = extend(&blocks, batch->block_capacity, count, sizeof(*batch->blocks));
	if (rc == 0)
		rc = extend(&memory, batch->block_capacity, count, sizeof(*batch->memory));
	batch->blocks = blocks;
	batch->memory = memory;
	if (rc == 0)
		batch->block_capacity = count;
	return rc;
}

int rung__batch_begin(struct rung_batch *batch, const struct rung_sampler *sampler)
{
	int rc;

	batch->typed.hop_count = 0;
	for (uint32_t i = 0; i < batch->type_capacity; i++)
		batch->types[i].count = batch->types[i].repeats = 0;
	rc = extend_types(batch, sampler->type_count);
	return rc < 0 ? rc
	              : extend_blocks(batch,
	                              (uint64_t)sampler->hop_count * sampler->relation_count);
}

void rung__batch_end(struct rung_batch *batch, const struct rung_sampler *sampler)
{
	for (uint32_t i = 0; i < sampler->type_count; i++) {
		batch->listed[i].vertices = batch->types[i].vertices;
		batch->listed[i].count = batch->types[i].count;
		batch->listed[i].hop_counts[sampler->hop_count] = batch->types[i].count;
	}
	batch->typed = (struct rung_typed_batch){
		.type_count = sampler->type_count,
		.relation_count = sampler->relation_count,
		.hop_count = sampler->hop_count,
		.types = batch->listed,
		.blocks = batch->blocks,
	};
	batch->is_typed = sampler->typed;
}

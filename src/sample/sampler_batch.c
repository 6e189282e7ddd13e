/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filling a batch: the seeds, then hop by hop what each relation draws. All relations of a hop draw
 * from the vertices that the batch had before it. A graph without types is one type and one
 * relation.
 */
#include "sample/sample.h"

/* Check the seeds and number them: they are the first vertices of their type. */
static int read_seeds(const struct rung_sampler *sampler, struct rung__space *space,
                      const uint64_t *seeds, uint64_t seed_count, struct rung_batch *batch)
{
	const struct rung__sampled_type *type = &sampler->types[sampler->seed_type];
	struct rung__positions *positions = &space->positions[sampler->seed_type];
	struct rung__batch_type *to = &batch->types[sampler->seed_type];
	int rc;

	if (seed_count == 0)
		return rung__fail(RUNG_E_INVAL,
		                  "sampling: a batch without seeds; pass at least one");
	if (seed_count >= RUNG__POSITION_NONE)
		return rung__fail(RUNG_E_INVAL,
		                  "sampling: %" PRIu64
		                  " seeds; a batch must have fewer than %" PRIu32 " vertices",
		                  seed_count, RUNG__POSITION_NONE);
	rc = rung__batch_reserve_u64(&to->vertices, &to->capacity, seed_count);
	if (rc == 0)
		rc = rung__positions_reserve(positions, to->vertices, 0, seed_count);
	if (rc < 0)
		return rc;
	for (uint64_t i = 0; i < seed_count; i++) {
		if (seeds[i] >= type->vertex_count)
			return rung__fail(RUNG_E_RANGE,
			                  "sampling: seed %" PRIu64 " is %" PRIu64
			                  ", not below the vertex count %" PRIu64
			                  "; correct the seeds",
			                  i, seeds[i], type->vertex_count);
		to->vertices[i] = seeds[i];
		/* a repeated seed has a row and a list too; edges lead to the first of its kind */
		to->repeats += rung__positions_put(positions, seeds[i], (uint32_t)i, to->vertices,
		                                   8, type->hashed) != i;
		/* so that rung__positions_clear() removes them after an error */
		to->count = i + 1;
	}
	return 0;
}

/* Sample a hop: all relations in their order. */
static int sample_hop(const struct rung_sampler *sampler, struct rung__space *space, uint32_t hop,
                      uint64_t batch_key, uint32_t threads, struct rung_batch *batch)
{
	struct rung_block *blocks = &batch->blocks[(uint64_t)hop * sampler->relation_count];
	int rc = 0;

	for (uint32_t i = 0; i < sampler->type_count; i++)
		batch->listed[i].hop_counts[hop] = batch->types[i].count;
	for (uint32_t i = 0; i < sampler->relation_count && rc == 0; i++) {
		const uint64_t *counts =
			batch->listed[sampler->relations[i].target_type].hop_counts;
		/* vertices that have drawn in an earlier hop */
		const uint64_t drawn =
			sampler->draws == RUNG_DRAWS_NEW && hop > 0 ? counts[hop - 1] : 0;

		rc = rung__sample_relation(
			sampler, space, i, hop,
			rung__draw_relation_key(sampler->seed, batch_key, hop, i), drawn,
			counts[hop], threads, batch);
	}
	for (uint32_t i = 0; i < sampler->relation_count && rc == 0; i++)
		blocks[i].src_count = batch->types[sampler->relations[i].source_type].count;
	return rc;
}

int rung__sample(const struct rung_sampler *sampler, struct rung__space *space,
                 const uint64_t *seeds, uint64_t seed_count, uint64_t batch_key, uint32_t threads,
                 struct rung_batch *batch)
{
	int rc = rung__batch_begin(batch, sampler);

	if (rc < 0)
		return rc;
	rc = read_seeds(sampler, space, seeds, seed_count, batch);
	for (uint32_t hop = 0; rc == 0 && hop < sampler->hop_count; hop++)
		rc = sample_hop(sampler, space, hop, batch_key, threads, batch);
	/* done after an error too, because the tables must be empty for the next batch */
	for (uint32_t i = 0; i < sampler->type_count; i++)
		rung__positions_clear(&space->positions[i], batch->types[i].vertices,
		                      batch->types[i].count);
	if (rc < 0)
		return rc;
	rung__batch_end(batch, sampler);
	return 0;
}

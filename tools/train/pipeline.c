/* SPDX-License-Identifier: Apache-2.0 */
/* Batches, sampled and gathered ahead by the calling thread; the store's refill thread reads while it computes. */
#include "pipeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

int train_pipeline_init(struct train_pipeline *pipe, struct rung_store *store, uint64_t row_bytes, uint32_t hop_count)
{
	memset(pipe, 0, sizeof(*pipe));
	pipe->store = store;
	pipe->row_bytes = row_bytes;
	pipe->hop_count = hop_count;
	for (int s = 0; s < TRAIN_SLOTS; s++) {
		int rc = rung_batch_create(&pipe->slots[s].batch);
		if (rc < 0) {
			train_pipeline_fini(pipe);
			return rc;
		}
	}
	return 0;
}

void train_pipeline_drain(struct train_pipeline *pipe)
{
	for (int s = 0; s < TRAIN_SLOTS; s++) {
		rung_request_put(pipe->slots[s].request);
		pipe->slots[s].request = NULL;
	}
	pipe->taken = pipe->submitted = pipe->batch_count;
}

void train_pipeline_fini(struct train_pipeline *pipe)
{
	train_pipeline_drain(pipe);
	for (int s = 0; s < TRAIN_SLOTS; s++) {
		struct train_slot *slot = &pipe->slots[s];
		rung_batch_destroy(slot->batch);
		free(slot->bare_indptr);
		free(slot->rows);
	}
	memset(pipe, 0, sizeof(*pipe));
}

void train_pipeline_begin(struct train_pipeline *pipe, const struct train_pass *pass)
{
	pipe->pass = *pass;
	pipe->batch_count = (pass->seed_count + pass->batch_size - 1) / pass->batch_size;
	pipe->submitted = pipe->taken = 0;
	pipe->sample_ns = pipe->gather_ns = pipe->stall_ns = 0;
	pipe->error[0] = 0;
}

/* The batch of a model without edges: its seeds, and at each hop a block in which nobody has a neighbour. */
static int bare_batch(struct train_slot *slot, uint32_t hop_count)
{
	if (slot->seed_count + 1 > slot->bare_cap) {
		free(slot->bare_indptr);
		slot->bare_cap = 0;
		slot->bare_indptr = calloc(slot->seed_count + 1, sizeof(uint64_t));
		if (!slot->bare_indptr)
			return RUNG_E_NOMEM;
		slot->bare_cap = slot->seed_count + 1;
	}
	slot->vertices = slot->seeds;
	slot->vertex_count = slot->seed_count;
	slot->bare =
		(struct rung_block){ .dst_count = slot->seed_count, .src_count = slot->seed_count, .indptr = slot->bare_indptr };
	for (uint32_t l = 0; l < hop_count; l++)
		slot->blocks[l] = &slot->bare;
	return 0;
}

static int sample(struct train_pipeline *pipe, struct train_slot *slot)
{
	const struct train_pass *pass = &pipe->pass;
	uint64_t first = pipe->submitted * pass->batch_size;
	slot->seeds = pass->seeds + first;
	slot->seed_count = pass->seed_count - first < pass->batch_size ? pass->seed_count - first : pass->batch_size;
	if (!pass->sampler)
		return bare_batch(slot, pipe->hop_count);
	int rc =
		rung_sampler_sample(pass->sampler, slot->seeds, slot->seed_count, pass->key_first + pipe->submitted, slot->batch);
	if (rc < 0)
		return rc;
	slot->vertices = rung_batch_vertices(slot->batch, &slot->vertex_count);
	for (uint32_t l = 0; l < pipe->hop_count; l++)
		slot->blocks[l] = rung_batch_block(slot->batch, pipe->hop_count - 1 - l);
	return 0;
}

static int make_room(struct train_slot *slot, uint64_t row_bytes)
{
	uint64_t bytes;
	if (__builtin_mul_overflow(slot->vertex_count, row_bytes, &bytes))
		return RUNG_E_NOMEM;
	if (bytes <= slot->rows_cap)
		return 0;
	free(slot->rows);
	slot->rows_cap = 0;
	bytes = (bytes + bytes / 8 + 4095) / 4096 * 4096; /* an eighth to spare: later batches are rarely larger than that */
	slot->rows = aligned_alloc(4096, bytes);
	if (!slot->rows)
		return RUNG_E_NOMEM;
	slot->rows_cap = bytes;
	return 0;
}

static int submit(struct train_pipeline *pipe)
{
	struct train_slot *slot = &pipe->slots[pipe->submitted % TRAIN_SLOTS];
	uint64_t start_ns = tool_now_ns();
	int rc = sample(pipe, slot);
	if (rc < 0)
		return rc;
	uint64_t sampled_ns = tool_now_ns();
	rc = make_room(slot, pipe->row_bytes);
	if (rc < 0)
		return rc;
	struct rung_ids ids = { .data = slot->vertices, .count = slot->vertex_count, .dtype = RUNG_U64, .space = RUNG_RANKS };
	rc = rung_gather_submit(pipe->store, &ids, slot->rows, 0, NULL, &slot->request);
	if (rc < 0) {
		slot->request = NULL;
		return rc;
	}
	pipe->submitted++;
	pipe->sample_ns += sampled_ns - start_ns;
	pipe->gather_ns += tool_now_ns() - sampled_ns;
	return 0;
}

int train_pipeline_next(struct train_pipeline *pipe, const struct train_slot **slot_out)
{
	if (pipe->taken == pipe->batch_count)
		return 0;
	/* The slot of the batch before is free again: fill it before waiting, so that the device always has work. */
	while (pipe->submitted < pipe->batch_count && pipe->submitted < pipe->taken + TRAIN_SLOTS) {
		int rc = submit(pipe);
		if (rc < 0)
			return rc;
	}
	struct train_slot *slot = &pipe->slots[pipe->taken % TRAIN_SLOTS];
	uint64_t start_ns = tool_now_ns();
	int rc = rung_request_wait(slot->request, -1);
	pipe->stall_ns += tool_now_ns() - start_ns;
	if (rc < 0) {
		snprintf(pipe->error, sizeof(pipe->error), "%s", rung_request_error(slot->request));
		return rc;
	}
	rung_request_put(slot->request);
	slot->request = NULL;
	pipe->taken++;
	*slot_out = slot;
	return 1;
}

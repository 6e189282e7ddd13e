/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Batches, sampled and gathered ahead: while one is computed on, the gathers of the next two are in flight.
 *
 *     train_pipeline_begin(pipe, &pass);
 *     while ((rc = train_pipeline_next(pipe, &slot)) > 0)
 *             ... compute on slot ...
 *     train_pipeline_drain(pipe);
 */
#ifndef TRAIN_PIPELINE_H
#define TRAIN_PIPELINE_H

#include <stdint.h>

#include <rung/rung.h>

#define TRAIN_SLOTS 3 /* one is computed on, the others are in flight */

/** One sweep over seeds in batches. */
struct train_pass {
	struct rung_sampler *sampler; /* NULL: no edges, a batch is its seeds */
	const uint64_t *seeds;        /* ranks, distinct */
	uint64_t seed_count;
	uint32_t batch_size;
	uint64_t key_first; /* batch b is sampled with key_first + b */
};

struct train_slot {
	const uint64_t *seeds;
	uint64_t seed_count;
	const uint64_t *vertices;
	uint64_t vertex_count;
	const struct rung_block *blocks[RUNG_HOPS_MAX]; /* [hop_count], the last hop first: the order of a model's layers */
	void *rows;                                     /* [vertex_count] as they lie in the dataset */
	/* private: */
	struct rung_batch *batch;
	struct rung_block bare; /* of a batch without edges */
	uint64_t *bare_indptr;  /* its zeros */
	uint64_t bare_cap;
	uint64_t rows_cap; /* bytes */
	struct rung_request *request;
};

struct train_pipeline {
	struct rung_store *store;
	uint64_t row_bytes;
	uint32_t hop_count;
	struct train_pass pass;
	uint64_t batch_count, submitted, taken;
	uint64_t sample_ns, gather_ns, stall_ns; /* of the pass: sampling, submitting, waiting */
	char error[1024];                        /* why a gather failed; "" otherwise: rung_last_error() */
	struct train_slot slots[TRAIN_SLOTS];
};

/** @return 0, RUNG_E_NOMEM */
int train_pipeline_init(struct train_pipeline *pipe, struct rung_store *store, uint64_t row_bytes, uint32_t hop_count);
void train_pipeline_fini(struct train_pipeline *pipe); /* drains */

void train_pipeline_begin(struct train_pipeline *pipe, const struct train_pass *pass);

/** The next batch, with its rows there; valid until the next call. @return 1, 0 at the end of the pass, or a status */
int train_pipeline_next(struct train_pipeline *pipe, const struct train_slot **slot_out);

/** Wait for what is in flight: after a pass that was left early. */
void train_pipeline_drain(struct train_pipeline *pipe);

#endif

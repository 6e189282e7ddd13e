/* SPDX-License-Identifier: Apache-2.0 */
/** Scores that use sampled batches: counting them, and correcting a prediction by the counts.
 * Private to the core. */
#ifndef RUNG_PRESAMPLE_H
#define RUNG_PRESAMPLE_H

#include "base/base.h"
#include "rung/sampler.h"

/** Batches of one epoch, including the short last one; 0 without train vertices.
 * @param batch_size  at least 1 */
static inline uint64_t rung__epoch_batches(uint64_t train_count, uint32_t batch_size)
{
	return train_count / batch_size + (train_count % batch_size != 0);
}

/** Vertices of all types. */
static inline uint64_t rung__total(const uint64_t *type_counts, uint32_t type_count)
{
	uint64_t total = 0;

	for (uint32_t i = 0; i < type_count; i++)
		total += type_counts[i];
	return total;
}

/** A run of batches: each epoch is all train vertices in a different order, cut into batches. */
struct rung__run {
	const uint64_t *train; /**< [train_count] distinct ids; NULL: every vertex */
	uint64_t train_count;
	uint32_t batch_size; /**< at least 1 */
	/** first batch number; those of epoch e begin at e * rung__epoch_batches() */
	uint64_t batch_first;
	uint64_t batch_count;
	/** true: use the seeds of the same run with `again` false, but distribute them over other
	 * batches, with other draws; batch_first must be 0 */
	bool again;
	int threads;               /**< at least 1; the counts do not depend on it */
	rung_progress_fn progress; /**< may be NULL; called by the calling thread, counts batches */
	void *progress_ctx;
	uint64_t progress_done;  /**< batches of earlier runs */
	uint64_t progress_total; /**< batches of all runs; 0: batch_count */
};

/** Seed of a run's sampler. It differs from `seed`, because counts are to predict the batches that
 * a caller samples with the same seed. */
uint64_t rung__run_seed(uint64_t seed);

/**
 * Seeds of a batch of a run.
 * @param seed  determines the order of each epoch
 * @param seeds_out  [batch_size] written
 * @return number of seeds: batch_size, or fewer in the last batch of an epoch
 */
uint64_t rung__run_seeds(const struct rung__run *run, uint64_t seed, uint64_t batch,
                         uint64_t *seeds_out);

/** Key of a batch of a run for the sampler. */
static inline uint64_t rung__run_key(const struct rung__run *run, uint64_t batch)
{
	return run->again ? ~batch : batch;
}

/** Graph in memory from which a run is sampled: the context of rung__presample(). */
struct rung__presample_graph {
	const struct rung_csc *csc;
	/** the sampler uses rung__run_seed() of this seed; each batch is sampled by one thread */
	struct rung_sampler_opts sampler_opts;
};

/**
 * Sample the batches of a run, and increase counts[v] by the number of batches that contain v, as a
 * seed or drawn.
 *
 * @param graph   a struct rung__presample_graph
 * @param counts  [vertex_count], set to zero by the caller
 * @return 0, RUNG_E_NOMEM, RUNG_E_CANCELED, RUNG_E_INVAL (options, a train id twice in a batch),
 *         RUNG_E_RANGE (a train id); after a failure only some of the batches have been counted
 *
 * Memory: for each thread a sampler (4 bytes per vertex), one batch and 8 bytes for each of its
 * seeds. There are at most as many threads as batches.
 */
int rung__presample(const void *graph, const struct rung__run *run, uint32_t *counts);

/** rung__presample(), or another function with the same results. */
typedef int (*rung__presample_fn)(const void *graph, const struct rung__run *run, uint32_t *counts);

/**
 * Correct a prediction with two sampled runs, as described in blend.c.
 *
 * @param presample, graph  the function that samples a run, and its context
 * @param run               batch_count is for each of the two runs, at least 2 are used;
 *                          batch_first, again and progress_* are set here
 * @param type_counts       [type_count] vertices of each type, which `presample` counts one type
 *                          after the other
 * @param scores            [type_count][vertices] in: the predicted -log(1 - P), 0 is never,
 *                          infinity always; out: as corrected, each type with its own bins
 * @return 0, RUNG_E_NOMEM, or an error of `presample`
 *
 * Memory: 8 bytes per vertex plus that of `presample`.
 */
int rung__blend(rung__presample_fn presample, const void *graph, const struct rung__run *run,
                const uint64_t *type_counts, uint32_t type_count, float *const *scores);

/** Counts of two runs. */
struct rung__blend_counts {
	/** [vertex_count] number of batches that contained the vertex, in a run from batch 0 on */
	const uint32_t *counts;
	uint64_t batches; /**< at least 2 */
	/** [vertex_count] the same over the first `repeated` batches, minus the number over other
	 * batches of the same seeds; int32_t, stored as uint32_t */
	const uint32_t *apart;
	uint64_t repeated;
	uint64_t epoch_batches;
};

/** The second half of rung__blend(): correct the prediction by given counts. */
int rung__blend_correct(const struct rung__blend_counts *counted, uint64_t vertex_count,
                        int threads, float *score);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** What the files of rung_scores share. */
#ifndef RUNG_BENCH_SCORES_H
#define RUNG_BENCH_SCORES_H

#include <stdint.h>

#include "rung/rung.h"

/** A setting: what is trained on, and how batches are sampled. */
struct scores_case {
	const struct rung_csc *csc;
	uint64_t *train;
	uint64_t train_count;
	const uint32_t *fanouts;
	uint32_t hop_count;
	uint32_t batch_size;
	enum rung_draws draws;
	uint64_t requests; /* rows that a trace asks for, at least */
	uint64_t seed;     /* of the scores; those of the traces follow */
	uint32_t threads;
};

/** Count what whole epochs ask for, until there are enough requests and SCORES_BATCHES_MIN batches.
 * @return batches */
uint64_t scores_count_requests(const struct scores_case *setting, uint64_t seed, uint32_t *counts);

/** A source of int64; free() them. */
uint64_t *scores_read_ids(const char *spec, uint64_t *count_out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** Declarations shared by the files of rung_scores. */
#ifndef RUNG_BENCH_SCORES_H
#define RUNG_BENCH_SCORES_H

#include <stdint.h>

#include "rung/rung.h"

/** A setting: the graph, the training vertices, and the sampling of batches. */
struct scores_case {
	const struct rung_csc *csc;
	uint64_t *train;
	uint64_t train_count;
	const uint32_t *fanouts;
	uint32_t hop_count;
	uint32_t batch_size;
	enum rung_draws draws;
	uint64_t requests; /* least number of rows in a trace */
	uint64_t seed;     /* of the scores; the traces use seed + 1 and seed + 2 */
	uint32_t threads;  /* 0: all */
};

/** Add the requests of whole epochs to `counts`, one counter per vertex, until there are enough
 * requests and SCORES_BATCHES_MIN batches. @return batches */
uint64_t scores_count_requests(const struct scores_case *setting, uint64_t seed, uint32_t *counts);

/** Read a source of int64 ids. free() the result. */
uint64_t *scores_read_ids(const char *spec, uint64_t *count_out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** Counting sampled batches of a graph whose edges stay in files, or of a typed graph. Private to
 * the core. */
#ifndef RUNG_PRESAMPLE_FILES_H
#define RUNG_PRESAMPLE_FILES_H

#include "score/presample.h"
#include "score/typed.h"

/** Graph from which a run is sampled: the context of rung__presample_files(). */
struct rung__file_presample {
	const struct rung__typed_graph *graph; /**< its relations are in memory or in files */
	uint32_t hop_count;
	enum rung_draws draws;
	uint64_t seed; /**< as in struct rung__presample_graph */
	/** memory for the content of the batches: 24 bytes for each vertex of each batch, of which
	 * a third is for newly drawn vertices */
	uint64_t memory_bytes;
	/** allocate more if one batch does not fit, instead of failing */
	bool grows;
	uint64_t *edge_passes; /**< incremented by each pass over all edges */
};

/**
 * As rung__presample(), with the same counts: each group of as many batches as fit in the memory
 * takes one pass over the edges per hop. The vertices of each type are counted after those of the
 * types before it; the train ids are of the seed type.
 * @return also RUNG_E_INVAL if one batch does not fit, and the errors of a pass
 */
int rung__presample_files(const void *graph, const struct rung__run *run, uint32_t *counts);

#endif

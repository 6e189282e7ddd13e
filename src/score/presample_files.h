/* SPDX-License-Identifier: Apache-2.0 */
/** Counting sampled batches of a graph whose edges stay in files. Private to the core. */
#ifndef RUNG_PRESAMPLE_FILES_H
#define RUNG_PRESAMPLE_FILES_H

#include "score/presample.h"
#include "rung/edges.h"

/** Graph in files from which a run is sampled: the context of rung__presample_files(). */
struct rung__file_presample {
	struct rung_edges *edges;
	uint64_t vertex_count;
	struct rung_sampler_opts sampler_opts; /**< as in struct rung__presample_graph */
	/** memory for the content of the batches: 24 bytes for each vertex of each batch, of which
	 * a third is for newly drawn vertices */
	uint64_t memory_bytes;
	uint64_t *edge_passes; /**< incremented by each pass */
};

/**
 * As rung__presample(), with the same counts: each group of as many batches as fit in the memory
 * takes one pass over the edges per hop.
 * @return also RUNG_E_INVAL if one batch does not fit, and the errors of a pass
 */
int rung__presample_files(const void *graph, const struct rung__run *run, uint32_t *counts);

#endif

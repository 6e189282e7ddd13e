/* SPDX-License-Identifier: Apache-2.0 */
/** Pairs to columns outside memory. Private to rung. */
#ifndef RUNG_EDGES_SORT_H
#define RUNG_EDGES_SORT_H

#include "edges/edges_input.h"
#include "file/writer.h"

/** A file that gets an array, the caller's to open and close. */
struct rung__sorted {
	struct rung__direct file;
	const void *head; /* written in front */
	uint64_t head_bytes;
};

struct rung__sort_job {
	uint64_t memory_bytes; /* of all buffers, the input's included */
	const char *temp_dir;
	bool dedup;
	uint32_t threads;
	rung_progress_fn progress;
	void *progress_ctx;
	struct rung__sorted indptr, indices; /* uint64_t; ids of the input's width */
	uint64_t edge_count;                 /* comes out, */
	uint64_t temp_bytes;                 /* and written to temporary files */
};

/** RUNG_E_INVAL with the least that works. */
int rung__sort_memory_check(uint64_t memory_bytes);

/** The share of memory_bytes that an input is opened with. */
uint64_t rung__sort_input_bytes(uint64_t memory_bytes);

/** @return 0, RUNG_E_NOSPC, RUNG_E_NOMEM, RUNG_E_CANCELED, RUNG_E_IO (files that changed), or an
 * error of the input */
int rung__sort(struct rung__edge_input *input, struct rung__sort_job *job);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** Sorting pairs into columns, for graphs larger than memory. Private to rung. */
#ifndef RUNG_EDGES_SORT_H
#define RUNG_EDGES_SORT_H

#include "edges/edges_input.h"
#include "file/writer.h"

/** A file that an array is written to; the caller opens and closes it. */
struct rung__sorted {
	struct rung__direct file;
	const void *head; /* written before the array, such as the header of a .npy; may be NULL */
	uint64_t head_bytes;
};

/** Options of a sort, and its results. */
struct rung__sort_job {
	uint64_t memory_bytes; /* of all buffers, including the input's */
	const char *temp_dir;
	bool dedup;       /* keep one of equal pairs */
	uint32_t threads; /* 0: one per CPU */
	rung_progress_fn progress;
	void *progress_ctx;
	struct rung__sorted indptr, indices; /* uint64_t; ids of the input's width */
	uint64_t edge_count;                 /* result: pairs in the columns */
	uint64_t temp_bytes;                 /* result: bytes written to temporary files */
};

/** Check memory_bytes. @return 0, RUNG_E_INVAL (too little; the message has the smallest value that
 * works) */
int rung__sort_memory_check(uint64_t memory_bytes);

/** The share of memory_bytes that an input is opened with. */
uint64_t rung__sort_input_bytes(uint64_t memory_bytes);

/** Sort the pairs of an input into the two files of a job. @return 0, RUNG_E_NOSPC, RUNG_E_NOMEM,
 * RUNG_E_CANCELED, RUNG_E_IO (files that changed), or an error of the input */
int rung__sort(struct rung__edge_input *input, struct rung__sort_job *job);

#endif

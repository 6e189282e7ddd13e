/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Reads of rows at random positions of one file, many in flight; rows near each other share one, by
 * the same rule as in refill (layout.h). Used to load tiers from a dataset that was staged in
 * place, and by staging. The calling thread drives the reader, and the results are delivered to it.
 */
#ifndef RUNG_ROW_READS_H
#define RUNG_ROW_READS_H

#include "tier/reader.h"

struct rung__row_reads_args {
	/** File 0 of these features is read; the layout has the size and stride of its rows.
	 * Outlives the reads. */
	const struct rung__features *features;
	uint32_t depth;           /* reads in flight */
	uint64_t slot_bytes;      /* largest read: whole pages, enough for one row */
	uint32_t merge_gap_bytes; /* as in rung_store_opts */
};

/** Rows of a file, by vertex. */
struct rung__row_list {
	const void *vertices; /* [count] ascending ids, of id_bytes each */
	unsigned id_bytes;
	uint64_t count;
	/**
	 * Rows [first, end) of the list have been read. `row` points to the first; the others are
	 * at the same distances from it as in the file. The memory is reused when the call returns.
	 * Calls come in no particular order, and none follows a call that returned a failure.
	 */
	int (*put)(void *ctx, uint64_t first, uint64_t end, const unsigned char *row);
	void *ctx;
};

struct rung__row_reads;

/** Open the reader and allocate its memory. All other calls come from the thread that opened it. */
int rung__row_reads_open(const struct rung__row_reads_args *args,
                         struct rung__row_reads **reads_out);

/** Read all rows of the list. @return 0 or the first failure. No read is in flight then, unless the
 * reader itself has failed */
int rung__row_reads_run(struct rung__row_reads *reads, const struct rung__row_list *list);

/** Measure for `ns` how many reads of `bytes` at random positions end per second; 0: failed. */
double rung__row_reads_rate(struct rung__row_reads *reads, uint32_t bytes, uint64_t ns);

/** NULL is allowed. */
void rung__row_reads_close(struct rung__row_reads *reads);

/** The engine of these reads; only tests change it. */
extern enum rung_engine rung__row_reads_engine;

#endif

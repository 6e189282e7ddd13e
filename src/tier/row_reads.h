/* SPDX-License-Identifier: Apache-2.0 */
/** Rows at random places of a file: many reads in flight, and rows near each other share one. */
#ifndef RUNG_ROW_READS_H
#define RUNG_ROW_READS_H

#include "tier/reader.h"

struct rung__row_reads_args {
	/** File 0 of it, and the size and the distance of its rows; outlives the reads. */
	const struct rung__features *features;
	uint32_t depth;           /* reads in flight */
	uint64_t slot_bytes;      /* size of each: whole pages that hold at least one row */
	uint32_t merge_gap_bytes; /* as in rung_store_opts */
};

/** Rows of a file by vertex. */
struct rung__row_list {
	const void *vertices; /* [count] ascending, of id_bytes */
	unsigned id_bytes;
	uint64_t count;
	/**
	 * Rows [first, end) of the list have come: `row` is that of the first, and the others are
	 * where they are in the file, seen from there. Called in no order, until it fails.
	 */
	int (*put)(void *ctx, uint64_t first, uint64_t end, const unsigned char *row);
	void *ctx;
};

struct rung__row_reads;

/** The reads are the calling thread's. */
int rung__row_reads_open(const struct rung__row_reads_args *args,
                         struct rung__row_reads **reads_out);

/** Read all rows of the list. @return 0, or the first failure, when no read is in flight */
int rung__row_reads_run(struct rung__row_reads *reads, const struct rung__row_list *list);

/** Reads of `bytes` a second, at random places of the file; 0 when they fail. */
double rung__row_reads_rate(struct rung__row_reads *reads, uint32_t bytes, uint64_t ns);

/** NULL is allowed. */
void rung__row_reads_close(struct rung__row_reads *reads);

/** Tests: the engine to read with. */
extern enum rung_engine rung__row_reads_engine;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * rung_cold_reads: the cold rows of batches, fetched by rung and by the ways in which others fetch
 * them, from the same file for the same ids. README.md in bench/ says what each does and what is
 * timed.
 */
#ifndef RUNG_BENCH_COLD_H
#define RUNG_BENCH_COLD_H

#include "../common.h"

/* outputs in turn, for every strategy: as many requests of rung may be in flight */
#define COLD_BUFFERS 4u

struct cold_batch {
	const uint64_t *ranks;
	uint64_t count;
};

struct cold_run {
	const char *dir;
	struct bench_features features;
	struct cold_batch *batches; /* cold ranks alone */
	uint64_t batch_count;
	uint64_t rows_max;         /* of a batch */
	uint64_t resident;         /* ranks below are in memory */
	uint64_t warmup;           /* batches before the clock starts */
	uint32_t threads;          /* mmap, pread */
	uint32_t depth, in_flight; /* rung */
	uint64_t cache_rows;       /* rung */
	uint64_t ahead;            /* rung: batches announced; 0: none */
	bool no_merge;             /* rung */
	void *state;               /* of the strategy */
	/* what it has done */
	uint64_t reads, read_bytes;
	uint64_t saved_rows; /* rung: rows that the cache had, or that a read on its way brought */
	uint64_t duplicate_rows;              /* rung: asked for twice in a batch */
	uint32_t merge_gap_bytes, slot_bytes; /* rung */
};

/** Row of batch b, place i goes to out + i * row_bytes. */
struct cold_strategy {
	const char *name;
	void (*open)(struct cold_run *run);
	void (*prepare)(struct cold_run *run); /* before each batch, not timed; NULL: nothing */
	void (*begin)(struct cold_run *run, uint64_t batch, unsigned char *out);
	/* NULL: begin returns when the rows are there */
	void (*end)(struct cold_run *run, uint64_t batch);
	void (*counted)(struct cold_run *run); /* bring the counters up to date */
	void (*close)(struct cold_run *run);
};

extern const struct cold_strategy cold_mmap, cold_pread; /* plain.c */
#if BENCH_HAVE_IO_URING
extern const struct cold_strategy cold_uring_rows, cold_uring_pages, cold_uring_slot; /* uring.c */
#endif
extern const struct cold_strategy cold_rung; /* rung.c */

static inline uint64_t cold_offset(const struct cold_run *run, uint64_t rank)
{
	return run->features.data_offset + rank * run->features.row_stride;
}

/** Whole pages around a row. */
static inline uint64_t cold_page_begin(uint64_t offset)
{
	return offset / BENCH_PAGE * BENCH_PAGE;
}

static inline uint64_t cold_page_end(uint64_t offset)
{
	return (offset + BENCH_PAGE - 1) / BENCH_PAGE * BENCH_PAGE;
}

/** The file past the page cache. */
int cold_open_direct(const struct cold_run *run);

/** What row `rank` must hold, and the file full of such rows: `fill` writes over the rows of a
 * staged dataset. */
void cold_row(const struct bench_features *features, uint64_t rank, void *row_out);
void cold_fill(const struct bench_features *features);

/* ---- trace.c: batches of ids in a file: [u64 batches][u64 starts, one more][u64 ranks] ---- */

struct cold_trace {
	uint64_t batch_count;
	uint64_t *starts, *ranks;
};

void cold_trace_read(const char *path, struct cold_trace *trace_out);

/** Batches of the sampler over the train split, each epoch in another order. */
void cold_trace_sample(const char *dir, const char *path, const char *fanouts, uint64_t batch,
                       uint64_t count, uint64_t seed);

/** `rows` uniform ranks, each out of `span` neighbouring ones that lie somewhere in first .. row
 * count. */
void cold_trace_spans(const char *dir, const char *path, uint64_t first, uint64_t rows,
                      uint64_t span, uint64_t count, uint64_t seed);

/* ---- count.c ---- */

struct cold_counts {
	uint64_t rows; /* cold rows asked for, from batch `from` on */
	uint64_t distinct_rows;
	uint64_t static_hits; /* had the next `capacity` ranks been in memory as well */
	/* of a cache of so many rows that knows the whole trace, empty at its start */
	uint64_t belady_hits;
};

void cold_count(const struct cold_batch *batches, uint64_t batch_count, uint64_t from,
                uint64_t resident, uint64_t capacity, struct cold_counts *counts_out);

#endif

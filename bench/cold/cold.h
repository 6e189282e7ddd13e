/* SPDX-License-Identifier: Apache-2.0 */
/**
 * rung_cold_reads: the cold rows of batches, fetched by rung and by the strategies of other
 * systems, from the same file and for the same ids. README.md in bench/ describes the strategies
 * and the timed region.
 */
#ifndef RUNG_BENCH_COLD_H
#define RUNG_BENCH_COLD_H

#include "../common.h"

/* outputs used in turn by every strategy; also the most requests of rung in flight */
#define COLD_BUFFERS 4u

struct cold_batch {
	const uint64_t *ranks;
	uint64_t count;       /* fetched by the strategy */
	uint64_t known_count; /* the ranks after them, which are copied from memory */
};

struct cold_run {
	const char *dir;
	struct bench_features features;
	struct cold_batch *batches;
	uint64_t batch_count;
	uint64_t rows_max; /* of the largest batch */
	uint64_t resident; /* ranks below it are in memory and not fetched */
	/* for the resident rows and the buffers of the strategy; 0: the resident rows cost nothing
	 * and are left out of the batches */
	uint64_t memory_bytes;
	unsigned char *known;      /* with memory_bytes, unless it is rung: the resident rows */
	uint64_t warmup;           /* batches before the clock starts */
	uint32_t threads;          /* used by mmap and pread */
	uint32_t depth, in_flight; /* used by rung */
	uint64_t cache_rows;       /* used by rung */
	uint64_t ahead;            /* rung: batches announced in advance; 0: none */
	bool no_merge;             /* used by rung */
	bool no_window;            /* rung: announced batches are not read ahead */
	uint32_t gap; /* rung: merge gap plus 1; 0: measured when the store is opened */
	void *state;  /* of the strategy */
	/* counters of the strategy; if it has counted(), they are current only after that call */
	uint64_t reads, read_bytes;
	uint64_t saved_rows;     /* rung: cached rows, and rows of reads already in flight */
	uint64_t duplicate_rows; /* rung: repeated within a batch */
	uint32_t merge_gap_bytes, slot_bytes; /* used by rung */
	uint64_t buffer_bytes;                /* of the memory; with memory_bytes only */
};

/** A way to fetch rows. Row i of a batch is written to out + i * row_bytes. */
struct cold_strategy {
	const char *name;
	void (*open)(struct cold_run *run);
	void (*prepare)(struct cold_run *run); /* before each batch, not timed; NULL: nothing */
	void (*begin)(struct cold_run *run, uint64_t batch, unsigned char *out);
	/* NULL: begin() returns after the rows have arrived, so that no batches overlap */
	void (*end)(struct cold_run *run, uint64_t batch);
	void (*counted)(struct cold_run *run); /* update the counters; NULL: they are current */
	void (*close)(struct cold_run *run);
	/* bytes of the buffers of reads, known before open(). NULL: the strategy keeps to
	 * memory_bytes and copies the resident rows itself */
	uint64_t (*buffer_bytes)(const struct cold_run *run);
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

/** The whole pages that contain a row: a direct read begins and ends on a page. */
static inline uint64_t cold_page_begin(uint64_t offset)
{
	return offset / BENCH_PAGE * BENCH_PAGE;
}

static inline uint64_t cold_page_end(uint64_t offset)
{
	return (offset + BENCH_PAGE - 1) / BENCH_PAGE * BENCH_PAGE;
}

/** Open the features file for direct reads. */
int cold_open_direct(const struct cold_run *run);

/** The expected contents of row `rank`, and the command `fill`, which overwrites all rows of a
 * staged dataset with them. */
void cold_row(const struct bench_features *features, uint64_t rank, void *row_out);
void cold_fill(const struct bench_features *features);

/* ---- trace.c: batches of ids in a file: [u64 batches][u64 starts, one more][u64 ranks] ---- */

struct cold_trace {
	uint64_t batch_count;
	uint64_t *starts, *ranks;
};

void cold_trace_read(const char *path, struct cold_trace *trace_out);

/** Batches of the sampler over the train split, which is shuffled again for each epoch. */
void cold_trace_sample(const char *dir, const char *path, const char *fanouts, uint64_t batch,
                       uint64_t count, uint64_t seed);

/** Batches of `rows` uniform ranks from a span of `span` ranks, which is at a random position in
 * first .. row count for each batch. */
void cold_trace_spans(const char *dir, const char *path, uint64_t first, uint64_t rows,
                      uint64_t span, uint64_t count, uint64_t seed);

/* ---- count.c ---- */

struct cold_counts {
	uint64_t rows; /* cold rows requested, from batch `from` on */
	uint64_t distinct_rows;
	uint64_t static_hits; /* hits if the next `capacity` ranks were in memory as well */
	/* hits of a cache of `capacity` rows that knows the whole trace and is empty at the start
	 * of the trace */
	uint64_t belady_hits;
};

void cold_count(const struct cold_batch *batches, uint64_t batch_count, uint64_t from,
                uint64_t resident, uint64_t capacity, struct cold_counts *counts_out);

#endif

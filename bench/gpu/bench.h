/* SPDX-License-Identifier: Apache-2.0 */
/**
 * rung_gpu_bench: what gathers on a GPU cost, beside what the GPU and its link can do. README.md in
 * bench/ says what each part measures and what lies inside its timed region.
 *
 * rung is used through its public headers, except in table.c, which needs the meter. CUDA's runtime
 * is called for ceilings and baselines. A step that fails ends the program with a sentence.
 */
#ifndef RUNG_GPU_BENCH_H
#define RUNG_GPU_BENCH_H

#include <stdint.h>

#include <cuda_runtime_api.h>

#include "rung/rung.h"

#define BENCH_WIDTHS_MAX  16
#define BENCH_SAMPLES_MAX 64
#define BENCH_TABLES_MAX  16
#define BENCH_LISTS       4 /* of ids, taken in turn: a repeated one would be read from the cache */
#define BENCH_POISON      0xee /* what an output holds before the batch that is checked */

enum { BENCH_DONE = 0, BENCH_FAILED = 1, BENCH_USAGE = 2, BENCH_NO_GPU = 77 };

/** What the machine can do, measured in the same run; bytes a second. */
struct bench_rates {
	double device_copy; /* device to device, bytes read and written */
	double link_kernel; /* linear reads of pinned memory by a kernel, bytes read */
	double link_copy;   /* cudaMemcpyAsync from pinned memory, bytes read */
};

struct bench {
	const char *dir;                   /* a temporary folder is made there */
	char folder[512];                  /* that folder */
	uint64_t size;                     /* bytes of features of each width */
	uint64_t batch_bytes;              /* of a batch from GPU memory */
	uint64_t link_bytes;               /* of a batch over the link */
	uint64_t managed_bytes;            /* of managed memory; 0: leave it out */
	uint64_t check_rows;               /* of each dataset and each case of the check */
	uint64_t cold_rows;                /* of one cold run */
	uint64_t cold_host;                /* host budget of it */
	uint32_t widths[BENCH_WIDTHS_MAX]; /* row bytes */
	unsigned width_count;
	uint64_t tables[BENCH_TABLES_MAX]; /* bytes of tables on the GPU */
	unsigned table_count;
	unsigned samples, warmups;
	unsigned batches; /* of the launch cost, and of an epoch */
	uint64_t seed;
	int gpu;
	unsigned sm_count;
	cudaStream_t stream;
	float *scratch;              /* device memory of bench_compute_floats() */
	struct bench_rates ceilings; /* zero until measured */
};

/* ---- main.c: errors ---- */

/** End the program when a call failed; `what` was being done. */
void bench_need(int rc, const char *what);
void bench_cuda(cudaError_t err, const char *what);
__attribute__((noreturn, format(printf, 1, 2))) void bench_die(const char *format, ...);

/** Memory of `bytes` bytes, or the end. */
void *bench_alloc(uint64_t bytes);        /* of the host, free() */
void *bench_device_alloc(uint64_t bytes); /* of the GPU, cudaFree() */
void *bench_pinned_alloc(uint64_t bytes); /* page-locked, cudaFreeHost() */

/** Copy to the GPU, and fill its memory with BENCH_POISON; done when they return: CUDA's own calls
 * may return before. */
void bench_upload(void *to, const void *from, uint64_t bytes);
void bench_poison(void *at, uint64_t bytes);

/* ---- out.c: one JSON object a line on stdout ---- */

void out_begin(const char *benchmark);
void out_object(const char *key); /* key NULL: an element of an array */
void out_array(const char *key);
void out_end(void); /* of the innermost; of the outermost: prints the line */
void out_u64(const char *key, uint64_t value);
void out_real(const char *key, double value);
void out_text(const char *key, const char *value);

/* ---- timing.c ---- */

struct bench_times {
	unsigned count;
	double seconds[BENCH_SAMPLES_MAX]; /* ascending */
};

typedef void (*bench_work_fn)(void *ctx, unsigned turn);

double bench_now(void); /* seconds */
double bench_median(const struct bench_times *times);
void bench_add(struct bench_times *times, double seconds);

/**
 * Between two events on the stream; the warm-ups are not kept. A short kernel in front keeps the
 * GPU busy while the host puts the work on the stream, so that what the host needs for that is not
 * timed.
 */
void bench_time_stream(const struct bench *b, bench_work_fn work, void *ctx,
                       struct bench_times *times_out);

/** By the host's clock, until the stream is empty. */
void bench_time_host(const struct bench *b, bench_work_fn work, void *ctx,
                     struct bench_times *times_out);

/** {"median", "min", "max", "samples"} in seconds. */
void out_times(const char *key, const struct bench_times *times);

/** "value", "ceiling", "ratio", and the figure that is aimed at: "at_least" or "at_most"; bound
 * NULL: none. */
void out_ratio(double value, double ceiling, const char *bound, double figure);

/* ---- data.c: rows, ids and stores ---- */

struct bench_data {
	char path[600];
	uint32_t row_bytes;
	uint64_t row_count;
	uint64_t row_stride;
	struct rung_dataset *ds;
	uint64_t *vertex_of_rank;
};

/** Write the file that all rows come from, once. */
void bench_source_make(struct bench *b);

/** Stage its first `row_count` rows of so many bytes, or as many as b->size holds when 0. */
void bench_data_open(const struct bench *b, uint32_t row_bytes, uint64_t row_count,
                     struct bench_data *data);

/** Close, and remove the dataset's files. */
void bench_data_close(struct bench_data *data);

/** The bytes that the row of a rank must have. */
void bench_row(const struct bench_data *data, uint64_t rank, void *row_out);

/** Rows of `out`, host memory, that are not those of the ranks. */
uint64_t bench_wrong_rows(const struct bench_data *data, const uint64_t *ranks, uint64_t count,
                          const void *out, uint64_t stride);

/** A number drawn from a seed and an index. */
uint64_t bench_draw(uint64_t seed, uint64_t idx);

/** `count` different ranks of first .. first + range, in no order. */
void bench_ranks(uint64_t seed, uint64_t first, uint64_t range, uint64_t *ranks, uint64_t count);

/** Where rows are to be: the first on the GPU, then on a GPU that poses as three, then in host
 * memory, the others in the file. */
struct bench_place {
	enum rung_device device;
	uint64_t gpu_rows, peer_rows;
	uint64_t host_bytes; /* as in struct rung_plan_opts */
	uint32_t batch_rows_max, requests_max;
	int vertex_ids;
	const char *share_path; /* NULL: the store is private */
};

struct bench_store {
	struct rung_store *store;
	struct rung_plan *plan;
};

void bench_store_open(const struct bench *b, const struct bench_data *data,
                      const struct bench_place *place, struct bench_store *out);
void bench_store_close(struct bench_store *store);

/** A tier of the plan by its name. */
const struct rung_plan_tier *bench_tier(const struct bench_store *store, const char *name);

/** Its counter of rows served, now. */
uint64_t bench_hits(const struct bench_store *store, const char *name);
struct rung_store_stats bench_stats(const struct bench_store *store);

/** Lists of ranks on the GPU, all of the same length. */
struct bench_lists {
	uint64_t count;
	uint64_t *ranks[BENCH_LISTS]; /* host memory */
	uint64_t *device[BENCH_LISTS];
};

/** From lists->ranks, which the caller has filled, make lists->device. */
void bench_lists_to_device(struct bench_lists *lists);
void bench_lists_make(const struct bench *b, uint64_t first, uint64_t range, uint64_t count,
                      struct bench_lists *lists);
void bench_lists_free(struct bench_lists *lists);

/** Put one gather of the ranks on the stream, and the stream's later work behind it. */
void bench_gather(const struct bench *b, struct rung_store *store, const uint64_t *device_ranks,
                  uint64_t count, void *out, uint64_t stride);

/** Gather list 0 once more into poisoned memory and compare every row. Ends the program when one is
 * wrong. @return rows compared */
uint64_t bench_verify(const struct bench *b, const struct bench_data *data,
                      struct rung_store *store, const struct bench_lists *lists, void *out,
                      uint64_t stride);

/** Compare device memory with the rows of the ranks; ends the program when one is wrong. */
void bench_verify_output(const struct bench_data *data, const uint64_t *ranks, uint64_t count,
                         const void *out, uint64_t stride);

/* ---- the benchmarks ---- */

/* check.c: the GPU's rows are the CPU's, for every mix of tiers */
void bench_check(struct bench *b);
void bench_ceilings(struct bench *b);  /* ceilings.c */
void bench_gathers(struct bench *b);   /* gather.c */
void bench_table(struct bench *b);     /* table.c: gathers from large tables without files */
void bench_launch(struct bench *b);    /* launch.c: host cost of a batch of hits */
void bench_baselines(struct bench *b); /* baselines.c */
void bench_cold(struct bench *b); /* cold.c: rows from the file, on the CPU and through the GPU */
void bench_timeline(struct bench *b); /* cold.c */
void bench_epoch(struct bench *b);    /* epoch.c: gathers with a few cold rows beside computing */

#endif

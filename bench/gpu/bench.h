/* SPDX-License-Identifier: Apache-2.0 */
/**
 * rung_gpu_bench: the cost of gathers on a GPU, compared with the limits of the GPU and its link.
 * README.md in bench/ describes what each part measures and its timed region.
 *
 * rung is used through its public headers, except in table.c, which needs the meter. CUDA's runtime
 * is called for ceilings and baselines. A step that fails ends the program with a message.
 */
#ifndef RUNG_GPU_BENCH_H
#define RUNG_GPU_BENCH_H

#include <stdint.h>

#include <cuda_runtime_api.h>

#include "rung/rung.h"

#define BENCH_WIDTHS_MAX  16
#define BENCH_SAMPLES_MAX 64
#define BENCH_TABLES_MAX  16
#define BENCH_LISTS       4 /* lists of ids in turn: the rows of a repeated list would be cached */
#define BENCH_POISON      0xee /* fills an output before the batch that is checked */

enum { BENCH_DONE = 0, BENCH_FAILED = 1, BENCH_USAGE = 2, BENCH_NO_GPU = 77 };

/** The limits of the machine, measured in the same run, in bytes per second. */
struct bench_rates {
	double device_copy; /* device to device: bytes read plus bytes written */
	double link_kernel; /* linear reads of pinned memory by a kernel: bytes read */
	double link_copy;   /* cudaMemcpyAsync from pinned memory: bytes read */
};

struct bench {
	const char *dir;                   /* the temporary folder is created in this folder */
	char folder[512];                  /* the temporary folder */
	uint64_t size;                     /* bytes of features of each width */
	uint64_t batch_bytes;              /* rows of a batch from GPU memory */
	uint64_t link_bytes;               /* rows of a batch over the link */
	uint64_t managed_bytes;            /* managed memory; 0: not measured */
	uint64_t check_rows;               /* in each dataset and each case of the check */
	uint64_t cold_rows;                /* in one cold run */
	uint64_t cold_host;                /* host budget of a cold run, in bytes */
	uint32_t widths[BENCH_WIDTHS_MAX]; /* row bytes */
	unsigned width_count;
	uint64_t tables[BENCH_TABLES_MAX]; /* bytes of the tables on the GPU */
	unsigned table_count;
	unsigned samples, warmups; /* warm-ups run first and are dropped */
	/* of the part `launch`; the part `epoch` has a sixteenth of them */
	unsigned batches;
	uint64_t seed;
	int gpu;
	unsigned sm_count;
	cudaStream_t stream;
	float *scratch;              /* device memory, bench_compute_floats() floats */
	struct bench_rates ceilings; /* zero until measured */
};

/* ---- memory.c: errors and memory ---- */

/** End the program if a call failed; `what` names the step. */
void bench_need(int rc, const char *what);
void bench_cuda(cudaError_t err, const char *what);
__attribute__((noreturn, format(printf, 1, 2))) void bench_die(const char *format, ...);

/** Allocate memory; without enough of it the program ends. */
void *bench_alloc(uint64_t bytes);        /* host memory: free() */
void *bench_device_alloc(uint64_t bytes); /* GPU memory: cudaFree() */
void *bench_pinned_alloc(uint64_t bytes); /* page-locked host memory: cudaFreeHost() */

/** Copy to the GPU, and fill GPU memory with BENCH_POISON. Both are complete when they return,
 * whereas CUDA's calls may return earlier. */
void bench_upload(void *to, const void *from, uint64_t bytes);
void bench_poison(void *at, uint64_t bytes);

/* ---- out.c: one JSON object per line on stdout ---- */

void out_begin(const char *benchmark);
void out_object(const char *key); /* key NULL: an element of an array */
void out_array(const char *key);
void out_end(void); /* closes the innermost object or array; the outermost one ends the line */
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
 * Time the work between two events on the stream. The warm-ups are dropped. A short kernel in front
 * keeps the GPU busy while the host submits the work, so that the host's time is not included.
 */
void bench_time_stream(const struct bench *b, bench_work_fn work, void *ctx,
                       struct bench_times *times_out);

/** Time the work by the host's clock, until the stream is empty. */
void bench_time_host(const struct bench *b, bench_work_fn work, void *ctx,
                     struct bench_times *times_out);

/** Print {"median", "min", "max", "samples"} in seconds. */
void out_times(const char *key, const struct bench_times *times);

/** Print "value", "ceiling", "ratio", and the target with the key `bound`, "at_least" or "at_most";
 * NULL: no target. */
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

/** Write the file that holds the bytes of all rows; called once, before the datasets. */
void bench_source_make(struct bench *b);

/** Stage its first `row_count` rows of `row_bytes` bytes; 0: as many as fit into b->size. */
void bench_data_open(const struct bench *b, uint32_t row_bytes, uint64_t row_count,
                     struct bench_data *data);

/** Close the dataset and remove its files. */
void bench_data_close(struct bench_data *data);

/** The expected bytes of the row of a rank. */
void bench_row(const struct bench_data *data, uint64_t rank, void *row_out);

/** The number of wrong rows in `out` (host memory), compared with the rows of the ranks. */
uint64_t bench_wrong_rows(const struct bench_data *data, const uint64_t *ranks, uint64_t count,
                          const void *out, uint64_t stride);

/** 64 random bits derived from a seed and an index. */
uint64_t bench_draw(uint64_t seed, uint64_t idx);

/** `count` distinct ranks of first .. first + range, in random order. */
void bench_ranks(uint64_t seed, uint64_t first, uint64_t range, uint64_t *ranks, uint64_t count);

/** The placement of rows: the first ranks on the GPU, the next ones on one GPU that represents
 * three, the next in host memory; the remaining rows stay in the file. */
struct bench_place {
	enum rung_device device;
	uint64_t gpu_rows, peer_rows;
	uint64_t host_bytes; /* as in struct rung_plan_opts: rows and staging slots */
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

/** The tier of the plan with this name; without one the program ends. */
const struct rung_plan_tier *bench_tier(const struct bench_store *store, const char *name);

/** The rows that a tier has served so far. */
uint64_t bench_hits(const struct bench_store *store, const char *name);
struct rung_store_stats bench_stats(const struct bench_store *store);

/** Lists of ranks on the GPU, all of the same length. */
struct bench_lists {
	uint64_t count;
	uint64_t *ranks[BENCH_LISTS]; /* host memory */
	uint64_t *device[BENCH_LISTS];
};

/** Allocate lists->device and copy lists->ranks, which the caller has filled, to it. */
void bench_lists_to_device(struct bench_lists *lists);
/** Draw BENCH_LISTS lists of `count` distinct ranks of first .. first + range. */
void bench_lists_make(const struct bench *b, uint64_t first, uint64_t range, uint64_t count,
                      struct bench_lists *lists);
void bench_lists_free(struct bench_lists *lists);

/** Submit one gather of the ranks on the stream. Later work on the stream waits for its rows. */
void bench_gather(const struct bench *b, struct rung_store *store, const uint64_t *device_ranks,
                  uint64_t count, void *out, uint64_t stride);

/** Gather list 0 again, into poisoned memory, and compare every row. A wrong row ends the program.
 * @return rows compared */
uint64_t bench_verify(const struct bench *b, const struct bench_data *data,
                      struct rung_store *store, const struct bench_lists *lists, void *out,
                      uint64_t stride);

/** Compare device memory with the rows of the ranks. A wrong row ends the program. */
void bench_verify_output(const struct bench_data *data, const uint64_t *ranks, uint64_t count,
                         const void *out, uint64_t stride);

/* ---- the benchmarks ---- */

/* check.c: the GPU and the CPU device gather the same bytes, for every mix of tiers */
void bench_check(struct bench *b);
void bench_ceilings(struct bench *b);  /* ceilings.c */
void bench_gathers(struct bench *b);   /* gather.c */
void bench_table(struct bench *b);     /* table.c: gathers from large tables without files */
void bench_quantized(struct bench *b); /* quantized.c: rows that are decoded to f16 */
void bench_launch(struct bench *b);    /* launch.c: host cost of a batch of hits */
void bench_baselines(struct bench *b); /* baselines.c */
void bench_cold(struct bench *b);      /* cold.c: rows from the file, to the CPU and to the GPU */
void bench_timeline(struct bench *b);  /* cold.c: the steps of cold batches over time */
void bench_epoch(struct bench *b);     /* epoch.c: gathers with a few cold rows, and computing */

#endif

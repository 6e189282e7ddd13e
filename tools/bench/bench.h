/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The parts of rung bench: the requested ids (bench_ids.c), the timed run (bench_run.c,
 * bench_gather.c), the check (bench_check.c) and the report (bench_report.c). cmd_bench.c runs them
 * in this order. Ids are generated and buffers are touched before the clock starts.
 */
#ifndef RUNG_TOOL_BENCH_H
#define RUNG_TOOL_BENCH_H

#include "output/out_file.h"
#include "tool.h"

#define BENCH_ROWS_MAX     (UINT64_MAX / 16)
#define BENCH_REPEAT_MAX   100
#define BENCH_REQUESTS_MAX 4096u /* threads * in-flight */

struct bench_args {
	const char *dir;
	const char *ids;     /* "trace", "uniform", "zipf", or a file */
	uint64_t rows;       /* 0: not given */
	uint64_t warmup;     /* rows before the clock starts, at least; UINT64_MAX: not given */
	double runtime;      /* seconds after which the run ends; 0: after `rows` */
	uint32_t repeat;     /* number of runs */
	uint32_t batch;      /* rows of a request; trace: seeds of a batch; 0: not given */
	uint32_t in_flight;  /* requests of each thread */
	uint32_t look_ahead; /* batches that are announced ahead of the submitted one */
	uint64_t seed;
	int check;
	double status;     /* seconds between two status lines; 0: none */
	const char *share; /* share the store at this path; NULL: do not share it */
	int hold;          /* nonzero: keep it shared after the run */
	int private_cache; /* nonzero: the cold-row cache is not shared */
	/* the path at which another process shares it; NULL: the store is opened here */
	const char *attach;
	const char *csv; /* a line per run to this file, "-" is stdout; NULL: none */
	struct tool_out *csv_out;
	int explain; /* nonzero: print tiers, engine, cache and the phases of reads, too */
	struct tool_fanouts fanouts;
	uint32_t refill_threads; /* for each features file; 0: as chosen by the plan */
	struct tool_store_args store;
	/* threads: number of submitting threads; filled in if not given */
	struct tool_common common;
	char **argv; /* the command line, for the command to try next */
};

/** Rows of the timed part; with --runtime alone as good as infinitely many. */
static inline uint64_t bench_rows(const struct bench_args *args)
{
	if (args->rows)
		return args->rows;
	return args->runtime > 0 ? BENCH_ROWS_MAX : 1u << 20;
}

/**
 * The ids of all requests, of which one round is in memory. The first requests are the warm-up. The
 * batches of a trace have different numbers of rows, so its totals are known only at its end.
 */
struct bench_ids {
	enum rung_id_space space;
	uint64_t count;        /* total rows, warm-up included; a lower bound until `counted` */
	uint64_t batch_count;  /* number of requests; valid once `counted` */
	int counted;           /* nonzero: the totals are known */
	uint64_t warmup_count; /* warm-up requests; UINT64_MAX: not yet known */
	uint64_t warmup_rows;  /* rows of the warm-up; a lower bound until warmup_count is known */
	uint64_t rows_max;     /* rows of the largest request generated so far */
	uint64_t rows_bound;   /* upper bound of the rows of any request */
	uint64_t first, end;   /* requests first .. end - 1 are in memory */
	uint64_t *ids;         /* ids of these requests, concatenated */
	uint64_t *starts;      /* [end - first + 1] positions in ids */
	struct bench_source *source;
};

/** The ids of a request that is in memory. */
static inline const uint64_t *bench_ids_of(const struct bench_ids *ids, uint64_t batch_idx,
                                           uint64_t *count_out)
{
	const uint64_t *start = &ids->starts[batch_idx - ids->first];

	*count_out = start[1] - start[0];
	return ids->ids + start[0];
}

/** Nonzero if `batch` is past the last request. */
static inline int bench_ids_over(const struct bench_ids *ids, uint64_t batch)
{
	return ids->counted && batch >= ids->batch_count;
}

/**
 * Generate requests from `batch` on, and drop those before it: the requests of a round, plus those
 * that are announced during the round. If `batch` was dropped, ids are generated again from the
 * beginning.
 * @param end_out  the round ends before this request
 * @return a status, with its message printed
 */
int bench_ids_round(struct bench_ids *ids, uint64_t batch, uint64_t *end_out);

/** Nonzero if the ids are those of sampled batches. */
int bench_ids_are_sampled(const struct bench_args *args);

/** Nonzero if --ids is a file, which has vertex ids; the other kinds are ranks. */
int bench_ids_are_vertices(const struct bench_args *args);

/**
 * Open the source of the ids and generate the first round. `args` must outlive `out`. Free `out`
 * even after a failure.
 * @return a status, the failure printed
 */
int bench_ids_make(const char *name, const struct bench_args *args, const struct tool_data *data,
                   struct tool_progress *progress, struct bench_ids *out);
void bench_ids_free(struct bench_ids *ids);

/**
 * For --check: the staged rows by an independent path, buffered reads of the features files at the
 * positions given by headers and manifest.
 */
struct bench_truth {
	int fds[RUNG_FEATURE_FILES_MAX]; /* [file_count] */
	uint32_t file_count;
	const char *dir; /* of the dataset, which must outlive this struct */
	const struct rung_feature_range *ranges; /* of the dataset */
	uint64_t data_offset;                    /* position of the first row in each file */
	uint64_t row_stride;                     /* bytes from one row to the next */
	uint64_t row_bytes;                      /* of a stored row */
	/* of the dataset: how the rows are stored, and the type in which they are gathered */
	const struct rung_quantization *quant;
	enum rung_dtype dtype;
	uint64_t out_bytes; /* of a gathered row */
	/* maps an id to the position of its row; both NULL: id and position are the same */
	uint64_t *rank_of_vertex, *vertex_of_rank;
};

int bench_truth_open(const char *name, const struct rung_dataset *ds, enum rung_id_space space,
                     struct bench_truth *out);
void bench_truth_close(struct bench_truth *truth);

/** Decode a quantized row. @param row_out  [quant->columns] values of `dtype` */
void bench_decode(const struct rung_quantization *quant, enum rung_dtype dtype,
                  const unsigned char *stored, unsigned char *row_out);

/** Compare the gathered row `got` of `id` with the file. @param row  a buffer of out_bytes
 * @return 1 equal, 0 different, negative: -errno of a failed read */
int bench_truth_check(const struct bench_truth *truth, uint64_t id, const void *got, void *row);

struct bench_result {
	double seconds;          /* wall time of the timed rounds, without the pauses between */
	uint64_t request_count;  /* timed and complete: all of them unless interrupted */
	uint64_t rows;           /* of these requests */
	const char *interrupted; /* name of a signal received before the end, or NULL */
	int left_behind;         /* nonzero: threads still wait; close nothing that they use */
	double cpu_seconds;      /* user and system time of the process in the timed rounds */
	uint64_t wrong_rows;
	uint64_t first_wrong; /* id; valid if wrong_rows > 0 */
	/* [latency_count] latencies, ascending: of all timed requests, or of every n-th if there
	 * are many; the last is the longest of all requests in any case */
	uint64_t *latency_ns;
	uint64_t latency_count;
	struct rung_store_info info;
	struct rung_store_stats before, after; /* counters after the warm-up and at the end */
};

/**
 * Gather all requests, or those submitted within --runtime. After a signal `result` is that
 * of the requests that were complete by then.
 * @param step  name for the progress
 * @return a status, the failure printed
 */
int bench_run(const char *name, const struct bench_args *args, struct rung_store *store,
              struct bench_ids *ids, const struct bench_truth *truth,
              struct tool_progress *progress, const char *step, struct bench_result *result);

/**
 * Print the results as text or JSON, and write the CSV file. The details are those of the run with
 * the median rate.
 * @param results   [count] complete runs, or one that was interrupted
 * @param forecast  of the requests of bench_median_run(); NULL: none
 * @return an exit code: TOOL_FAILED if rows were wrong
 */
int bench_report(const char *name, const struct bench_args *args, const struct tool_data *data,
                 const struct bench_ids *ids, const struct rung_forecast *forecast,
                 const struct bench_result *results, uint32_t count);

/** The run with the median rate; the slower of the two in the middle of an even number. */
const struct bench_result *bench_median_run(const struct bench_result *results, uint32_t count);

#endif

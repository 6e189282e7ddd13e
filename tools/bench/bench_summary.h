/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A run of rung bench as rates and shares, from the counters of its timed part, and the judgement
 * of what limited it. Text, JSON and CSV are printed from it.
 */
#ifndef RUNG_TOOL_BENCH_SUMMARY_H
#define RUNG_TOOL_BENCH_SUMMARY_H

#include "bench/bench.h"

enum bench_percentile {
	BENCH_P50,
	BENCH_P90,
	BENCH_P95,
	BENCH_P99,
	BENCH_P99_9,
	BENCH_PERCENTILES
};

extern const double bench_percentiles[BENCH_PERCENTILES];          /**< 0.5 and so on */
extern const char *const bench_percentile_keys[BENCH_PERCENTILES]; /**< "p50" ... "p99_9" */

/** "queue", "device", "copy" */
extern const char *const bench_phase_names[RUNG_READ_PHASE_COUNT];

struct bench_summary {
	const struct bench_result *result;
	struct rung_store_stats stats; /**< counters of the timed part; settings as at the end */
	double rows_per_s, bytes_per_s;
	double reads_per_s, read_bytes_per_s;
	double rows_per_read; /**< NaN without reads, as the next two */
	double in_flight;     /**< reads that the drive has at a time, on average */
	double in_flight_max;
	double cpu_row_seconds, cores; /**< CPU time per row, and per second of the run */
	double latency_s[BENCH_PERCENTILES], latency_max_s; /**< of a request; NaN: unknown */
};

/** Fill in `out`. @param file_count  feature files, each with a queue of reads */
void bench_summarise(const struct bench_result *result, uint32_t file_count,
                     struct bench_summary *out);

/** Share of the time that the drive would need for the reads of the run at the rates of the
 * profile, at most 1; NaN without a forecast. */
double bench_drive_busy(const struct bench_summary *summary, const struct rung_forecast *forecast);

#define BENCH_VERDICT_BYTES 256
#define BENCH_COMMAND_BYTES 4096

struct bench_verdict {
	const char *bound; /**< "memory", "threads", "drive", "depth", "requests", "cpu"; NULL */
	char text[BENCH_VERDICT_BYTES];    /**< a sentence; "": the run cannot be judged */
	char command[BENCH_COMMAND_BYTES]; /**< to try next; "": none */
};

/** Judge what limited a run. A checked run and one without a complete request are not judged. */
void bench_judge(const struct bench_args *args, const struct bench_summary *summary,
                 const struct rung_forecast *forecast, struct bench_verdict *out);

/** All that is printed. */
struct bench_output {
	const struct bench_summary *run;  /**< the run with the median rate */
	const struct bench_summary *runs; /**< [run_count] complete runs, in their order */
	uint32_t run_count;
	const char *interrupted;              /**< name of a signal that ended the runs, or NULL */
	const struct rung_forecast *forecast; /**< of `run`; NULL: none */
	struct bench_verdict verdict;
};

struct json_t;

/** The report as an object for tool_json_print(). */
struct json_t *bench_json(const struct bench_args *args, const struct tool_data *data,
                          const struct bench_ids *ids, const struct bench_output *report);

/** Write a line per run, to stdout if `csv` has no path.
 * @return an exit code, the failure printed */
int bench_csv(struct tool_out *csv, const struct bench_output *report);

#endif

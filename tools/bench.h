/* SPDX-License-Identifier: Apache-2.0 */
/** The parts of rung bench: which ids are asked for, the timed run, the check, the report. */
#ifndef RUNG_TOOL_BENCH_H
#define RUNG_TOOL_BENCH_H

#include "tool.h"

struct bench_args {
	const char *dir;
	const char *ids;                /* "trace", "uniform", "zipf", or a file */
	uint64_t rows;                  /* 0: not given */
	uint64_t warmup;                /* rows before the clock starts, at least */
	uint32_t batch;                 /* rows of a request; trace: seeds of a batch; 0: not given */
	uint32_t in_flight;             /* requests of each thread */
	uint32_t prefetch;              /* batches announced before the one that is submitted */
	uint64_t seed;
	int check;
	const char *share;              /* share the store at this path; NULL: not */
	int hold;                       /* also after the run */
	const char *attach;             /* the path at which another process shares it; NULL: the store is opened here */
	struct tool_fanouts fanouts;
	struct tool_store_args store;
	struct tool_common common;      /* threads: those that submit; set when they are not given */
};

/** The ids of all requests, made before the clock starts. Request i is ids[starts[i] .. starts[i+1]); the first ones are the warm-up. */
struct bench_ids {
	enum rung_id_space space;
	uint64_t *ids;
	uint64_t count;
	uint64_t *starts;      /* [batch_count + 1] */
	uint64_t batch_count;
	uint64_t warmup_count; /* of the batches */
	uint64_t rows_max;     /* of one request */
};

/** Rows of the timed requests. */
static inline uint64_t bench_ids_timed(const struct bench_ids *ids)
{
	return ids->count - ids->starts[ids->warmup_count];
}

/** Nonzero when they are vertex ids, of a file, and not ranks. */
int bench_ids_are_vertices(const struct bench_args *args);

/** Make them. @return a status, its sentence printed */
int bench_ids_make(const char *name, const struct bench_args *args, const struct rung_dataset *ds, struct tool_progress *progress,
                   struct bench_ids *out);
void bench_ids_free(struct bench_ids *ids);

/** The staged rows by a way of their own: buffered reads of the features files at the place that headers and manifest say. */
struct bench_truth {
	int fds[RUNG_FEATURE_FILES_MAX];   /* [file_count] */
	uint32_t file_count;
	const char *dir;                   /* of the dataset, which outlives this */
	uint64_t block_rows;
	uint64_t data_offset;
	uint64_t row_stride;
	uint64_t row_bytes;
	uint64_t *rank_of_vertex, *vertex_of_rank;   /* of what an id is to where its row lies; both NULL: the same */
};

int bench_truth_open(const char *name, const struct rung_dataset *ds, enum rung_id_space space, struct bench_truth *out);
void bench_truth_close(struct bench_truth *truth);

/** Compare the row of `id`; `row` is room for row_bytes. @return 1 equal, 0 not, negative: errno of a failed read */
int bench_truth_check(const struct bench_truth *truth, uint64_t id, const void *got, void *row);

struct bench_result {
	double seconds;
	double cpu_seconds;
	uint64_t wrong_rows;
	uint64_t first_wrong;               /* id; valid while wrong_rows > 0 */
	uint64_t *latency_ns;               /* [batch_count - warmup_count], ascending */
	struct rung_store_info info;
	struct rung_store_stats before, after;
};

/** Gather all requests. @return a status, its sentence printed */
int bench_run(const char *name, const struct bench_args *args, struct rung_store *store, const struct bench_ids *ids,
              const struct bench_truth *truth, struct tool_progress *progress, struct bench_result *result);

/** Print what came of it. @return an exit code: TOOL_FAILED when rows were wrong */
int bench_report(const char *name, const struct bench_args *args, const struct tool_data *data, const struct bench_ids *ids,
                 const struct rung_forecast *forecast, const struct bench_result *result);

#endif

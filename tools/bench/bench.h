/* SPDX-License-Identifier: Apache-2.0 */
/** The parts of rung bench: the requested ids, the timed run, the check, the report. */
#ifndef RUNG_TOOL_BENCH_H
#define RUNG_TOOL_BENCH_H

#include "tool.h"

struct bench_args {
	const char *dir;
	const char *ids;     /* "trace", "uniform", "zipf", or a file */
	uint64_t rows;       /* 0: not given */
	uint64_t warmup;     /* rows before the clock starts, at least */
	uint32_t batch;      /* rows of a request; trace: seeds of a batch; 0: not given */
	uint32_t in_flight;  /* requests of each thread */
	uint32_t look_ahead; /* batches that are announced ahead of the submitted one */
	uint64_t seed;
	int check;
	const char *share; /* share the store at this path; NULL: not */
	int hold;          /* also after the run */
	int private_cache; /* the cold-row cache is not shared */
	/* the path at which another process shares it; NULL: the store is opened here */
	const char *attach;
	struct tool_fanouts fanouts;
	struct tool_store_args store;
	/* threads: number of submitting threads; filled in if not given */
	struct tool_common common;
};

/** The ids of all requests; those of a round are in memory. The first requests are the warm-up. */
struct bench_ids {
	enum rung_id_space space;
	uint64_t count;        /* rows; of a trace the fewest that there can be, until `counted` */
	uint64_t batch_count;  /* once `counted` */
	int counted;           /* a trace: when its last batch has been sampled */
	uint64_t warmup_count; /* of the batches; UINT64_MAX: not all of them have been sampled */
	uint64_t warmup_rows;  /* as well; until then a lower bound */
	uint64_t rows_max;     /* of one request, of those made so far */
	uint64_t rows_bound;   /* of any request */
	uint64_t first, end;   /* these requests are in memory */
	uint64_t *ids;
	uint64_t *starts; /* [end - first + 1] in ids */
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

/** Nonzero if there is no request `batch` any more. */
static inline int bench_ids_over(const struct bench_ids *ids, uint64_t batch)
{
	return ids->counted && batch >= ids->batch_count;
}

/**
 * Load requests from `batch` on, and drop those before it: as many as a round has, plus the later
 * ones that are announced during the round. A dropped batch is generated again.
 * @param end_out  the round ends before this request
 * @return a status, with its message printed
 */
int bench_ids_round(struct bench_ids *ids, uint64_t batch, uint64_t *end_out);

/** Nonzero when they are vertex ids, of a file, and not ranks. */
int bench_ids_are_vertices(const struct bench_args *args);

/**
 * Begin them, with the first round in memory. `args` outlives them.
 * @return a status, its sentence printed
 */
int bench_ids_make(const char *name, const struct bench_args *args, const struct rung_dataset *ds,
                   struct tool_progress *progress, struct bench_ids *out);
void bench_ids_free(struct bench_ids *ids);

/**
 * For --check: the staged rows by an independent path: buffered reads of the features files at the
 * positions given by headers and manifest.
 */
struct bench_truth {
	int fds[RUNG_FEATURE_FILES_MAX]; /* [file_count] */
	uint32_t file_count;
	const char *dir; /* of the dataset, which outlives this */
	uint64_t block_rows;
	uint64_t data_offset;
	uint64_t row_stride;
	uint64_t row_bytes;
	/* from the kind of the ids to the position of the row; both NULL: they are the same */
	uint64_t *rank_of_vertex, *vertex_of_rank;
};

int bench_truth_open(const char *name, const struct rung_dataset *ds, enum rung_id_space space,
                     struct bench_truth *out);
void bench_truth_close(struct bench_truth *truth);

/** Compare the row of `id`; `row` has row_bytes bytes. @return 1 equal, 0 different, negative:
 * errno of a failed read */
int bench_truth_check(const struct bench_truth *truth, uint64_t id, const void *got, void *row);

struct bench_result {
	double seconds;
	uint64_t request_count;  /* timed and complete: all of them unless interrupted */
	uint64_t rows;           /* of these */
	const char *interrupted; /* the signal that came before the end, or NULL */
	int left_behind;         /* threads still wait: close nothing that they use */
	double cpu_seconds;
	uint64_t wrong_rows;
	uint64_t first_wrong; /* id; valid while wrong_rows > 0 */
	/* [latency_count], ascending: of timed requests, every n-th of many; the last is the
	 * longest */
	uint64_t *latency_ns;
	uint64_t latency_count;
	struct rung_store_info info;
	struct rung_store_stats before, after;
};

/**
 * Gather all requests, or as many as are complete when a signal comes: `result` is then of these.
 * @return a status, its sentence printed
 */
int bench_run(const char *name, const struct bench_args *args, struct rung_store *store,
              struct bench_ids *ids, const struct bench_truth *truth,
              struct tool_progress *progress, struct bench_result *result);

/**
 * Print what came of it.
 * @param forecast  of all requests; NULL: none
 * @return an exit code: TOOL_FAILED when rows were wrong
 */
int bench_report(const char *name, const struct bench_args *args, const struct tool_data *data,
                 const struct bench_ids *ids, const struct rung_forecast *forecast,
                 const struct bench_result *result);

#endif

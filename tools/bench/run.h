/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The timed run of rung bench: the data that its threads share. Private to bench_run.c and
 * bench_gather.c.
 */
#ifndef RUNG_TOOL_BENCH_RUN_H
#define RUNG_TOOL_BENCH_RUN_H

#include <pthread.h>
#include <stdatomic.h>

#include "bench/bench.h"

#define BENCH_TEXT_BYTES 1024
#define BENCH_UNWRITTEN  0xa5 /* what a checked buffer holds before its request */

struct flight {
	struct rung_request *req;
	uint64_t batch_idx;
	uint64_t begun_ns;
	int seen; /* its time is taken */
	char *out;
};

struct run {
	const struct bench_args *args;
	struct rung_store *store;
	struct bench_ids *ids;
	void *placed;                    /* of the store: the round's ids, for a GPU; or NULL */
	const struct bench_truth *truth; /* NULL: no check */
	uint64_t row_bytes;
	uint64_t buffer_bytes;           /* of one flight; grows between rounds */
	_Atomic uint64_t *latency_ns;    /* of every latency_step-th timed request; or 0 */
	uint64_t latency_count;          /* including this round */
	uint64_t latency_step;           /* doubles between rounds when the array is full */
	_Atomic uint64_t latency_max_ns; /* of all of them */
	pthread_barrier_t ready, go;
	uint64_t end_batch;            /* of the round; set between the barriers */
	int over;                      /* the last round; also guarded */
	pthread_mutex_t announce_lock; /* of announced, and of their order */
	uint64_t announced;            /* batches before it */
	pthread_mutex_t lock;          /* of running, error, text */
	pthread_cond_t ended;
	uint32_t running;
	int left_behind; /* after a signal threads still wait, and use this */
	int error;
	char text[BENCH_TEXT_BYTES];
	_Atomic uint64_t next_batch;
	_Atomic uint64_t rows_done;
	_Atomic uint64_t timed_requests, timed_rows; /* that are complete */
	_Atomic uint64_t wrong_rows;
	_Atomic uint64_t first_wrong;
	_Atomic int stop; /* after a failure or a signal: submit no more */
};

struct worker {
	struct run *run;
	struct flight *flights; /* [in_flight] a ring */
	void *buffers;          /* of the store */
	char *rows;             /* of one flight, for the host; NULL without a check */
	char *row;              /* for the check */
	uint64_t ended_ns;
	pthread_t thread;
};

/** End the run. The first failure is kept; the others follow from it. */
void bench_abandon(struct run *run, int rc, const char *text);

/** A thread's share of a round. */
void bench_gather_all(struct worker *worker);

#endif

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
/* filled into checked buffers before each request: a row that was not written is then wrong */
#define BENCH_UNWRITTEN 0xa5

/* A request in flight, or a free place for one. */
struct flight {
	struct rung_request *req;
	uint64_t batch_idx;
	uint64_t begun_ns; /* when it was submitted */
	int seen;          /* nonzero: known to be complete, latency recorded */
	char *out;         /* memory of the store, buffer_bytes */
};

struct run {
	const struct bench_args *args;
	const char *step; /* for the progress */
	struct rung_store *store;
	struct bench_ids *ids; /* changed only between rounds */
	void *placed; /* memory of the store: the round's ids, for a GPU; NULL on the CPU */
	const struct bench_truth *truth; /* NULL: no check */
	uint64_t row_bytes;
	uint64_t buffer_bytes; /* output of one flight; grows between rounds */
	/* of every latency_step-th timed request; 0: not complete */
	_Atomic uint64_t *latency_ns;
	uint64_t latency_count;          /* entries in use, including this round */
	uint64_t latency_step;           /* doubles between rounds when the array is full */
	_Atomic uint64_t latency_max_ns; /* of all timed requests */
	/* A round begins when all workers and the main thread have passed both barriers. Between
	 * the two only the main thread runs: it prepares the round. */
	pthread_barrier_t ready, go;
	uint64_t end_batch;            /* end of the round; set between the barriers */
	int over;                      /* nonzero: no more rounds; also set between the barriers */
	pthread_mutex_t announce_lock; /* guards `announced` and the order of announcements */
	uint64_t announced;            /* batches before this one are announced */
	pthread_mutex_t lock;          /* guards running, error, text */
	pthread_cond_t ended;          /* signalled when `running` decreases */
	uint32_t running;              /* workers in the round */
	int left_behind; /* nonzero: workers were abandoned after a signal, and use this struct */
	int error;       /* status of the first failure */
	char text[BENCH_TEXT_BYTES];                 /* its message; "": already printed */
	_Atomic uint64_t next_batch;                 /* the next request that a worker claims */
	_Atomic uint64_t rows_done;                  /* for the progress */
	_Atomic uint64_t timed_requests, timed_rows; /* complete ones */
	_Atomic uint64_t wrong_rows;
	_Atomic uint64_t first_wrong; /* id */
	_Atomic int stop;             /* after a failure or a signal: submit no more */
};

struct worker {
	struct run *run;
	struct flight *flights; /* [in_flight] a ring */
	void *buffers;          /* memory of the store: the outputs of all flights */
	char *rows;             /* host copy of the output of one flight; NULL without a check */
	char *row;              /* one row, for the check */
	uint64_t ended_ns;      /* when the worker finished the round */
	pthread_t thread;
};

/** Stop the run. The first failure is kept, because later ones may follow from it. */
void bench_abandon(struct run *run, int rc, const char *text);

/** The work of one thread in a round. */
void bench_gather_all(struct worker *worker);

#endif

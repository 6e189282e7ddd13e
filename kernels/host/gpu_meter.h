/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The state of a meter, shared by gpu_meter.c (memory, copies and gathers, opening) and
 * gpu_timing.c (blocked streams and their timed regions).
 */
#ifndef RUNG_KERNELS_GPU_METER_H
#define RUNG_KERNELS_GPU_METER_H

#include "host/gpu.h"

#define METER_STREAMS 2u /* two copies run at the same time */

/* Pinned host memory that the GPU reads and writes. */
struct meter_page {
	/* streams wait until it reaches the turn; the host writes it */
	_Alignas(64) uint32_t word;
	_Alignas(64) struct rung__cuda_report report; /* the GPU writes it */
};

/* A thread that releases a stream which has been blocked for too long. */
struct meter_watchdog {
	pthread_t thread;
	bool started;
	pthread_mutex_t lock; /* protects the fields below and the release of the stream */
	pthread_cond_t changed;
	bool holding; /* the stream is blocked */
	bool late;    /* the watchdog has released it */
	bool stop;
	uint64_t until_ns; /* time of the release, if holding */
};

/* The wait of cuStreamWaitValue32: until the word is `value` or beyond, cyclically. */
typedef int (*wait_value_fn)(cudaStream_t stream, unsigned long long address, uint32_t value,
                             unsigned flags);

struct rung__meter {
	int gpu;
	cudaStream_t streams[METER_STREAMS]; /* the first one is blocked, the second waits for it */
	cudaEvent_t begun, ended, joined;    /* joined: the second stream has completed */
	wait_value_fn wait_value;            /* function of the driver */
	unsigned gather_blocks;
	struct rung__cuda_counts *counts; /* device memory */
	struct meter_page *page;
	bool page_is_pinned;
	uint32_t turn; /* turn of the blocked stream; each blocking increments it */
	/* number of the list of ids for the next gather, modulo the number of lists */
	uint64_t list;
	struct meter_watchdog watchdog;
};

/** Queue one pass of `work` on one of the streams. */
typedef int (*meter_pass_fn)(struct rung__meter *meter, const void *work, unsigned stream);

/** Start and stop the watchdog. stop() may follow a failed start(). */
int rung__gpu_watchdog_start(struct rung__meter *meter);
void rung__gpu_watchdog_stop(struct rung__meter *meter);

/**
 * Time `passes` passes on each of the first `stream_count` streams.
 * @param what         names the work, for messages
 * @param seconds_out  sum over the timed regions
 */
int rung__gpu_meter_time(struct rung__meter *meter, meter_pass_fn pass, const void *work,
                         unsigned stream_count, uint64_t passes, const char *what,
                         double *seconds_out);

#endif

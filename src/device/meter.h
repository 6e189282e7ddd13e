/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Meters: how fast a GPU copies memory and gathers rows. numa/measure_gpu.c defines what is
 * measured, a device times it: a table of functions, like its others (device.h).
 *
 * Copies are timed like the copy engine tests of nvbandwidth (README.md of
 * github.com/NVIDIA/nvbandwidth, "Measurement Details"; buffer sizes and medians are chosen by the
 * caller): a stream is blocked, an event, many copies and another event are queued on it, it is
 * released, and the time between the events counts, so the cost of queueing is excluded.
 * nvbandwidth blocks the stream with a spinning kernel; here it waits for a word in host memory,
 * which uses no part of the GPU and cannot be left spinning. Gathers are timed in the same way,
 * with the kernels of the store (kernels/gather.cu). An untimed pass without blocking comes first,
 * and a stream that cannot be filled within 5 s is released (RUNG_E_TIMEDOUT): lazy initialisation
 * in CUDA may wait until all streams are empty.
 *
 * Every failure here is a property of the machine, reported in CUDA's words, except RUNG_E_NOMEM,
 * which is a lack of host memory.
 *
 * Threads: one at a time; its current GPU is unchanged afterwards.
 */
#ifndef RUNG__METER_H
#define RUNG__METER_H

#include <stdint.h>

struct rung__meter; /* on one GPU */

/** Memory of any GPU that was reached, or pinned memory of the host. */
struct rung__meter_copy {
	void *to;
	const void *from;
	uint64_t bytes;
};

struct rung__meter_gather {
	/* contiguous rows in the GPU's own memory, in that of a peer, or in pinned host memory */
	const void *table;
	uint64_t table_rows;
	uint64_t row_bytes; /* at most 1 GiB */
	int over_link;      /* nonzero: it is the host's */
	/* [list_count x row_count] in the GPU's memory, below table_rows: lists that take turns */
	const uint64_t *ids;
	uint64_t row_count;  /* of a gather, 1 at least, below 2^32 */
	uint64_t list_count; /* 1 at least */
	void *out;           /* row_count rows */
};

struct rung__meter_ops {
	/** GPUs that there are for this process: numbers 0 .. count - 1. */
	int (*count)(void);

	/** Streams, events and kernels of a GPU. */
	int (*open)(int gpu, struct rung__meter **meter_out);
	void (*close)(struct rung__meter *meter);

	/** Memory of a GPU. @param memory_out  free with release() */
	int (*take)(int gpu, uint64_t bytes, void **memory_out);
	/** NULL is allowed. */
	void (*release)(int gpu, void *memory);

	/** Let all GPUs use memory of the host, until unpin(). @param memory  whole pages */
	int (*pin)(int gpu, void *memory, uint64_t bytes);
	void (*unpin)(int gpu, void *memory);

	/** Let `gpu` use the memory of `peer`, another one; this stays so. */
	int (*reach)(int gpu, int peer);

	/** Copy from any memory of the host, and wait for it. */
	int (*put)(int gpu, void *to, const void *from, uint64_t bytes);

	/**
	 * Time copies: `passes` of each, one after the other; two copies run at the same time.
	 * @param count        1 or 2
	 * @param seconds_out  of all passes, to the end of the last
	 */
	int (*copy)(struct rung__meter *meter, const struct rung__meter_copy *copies,
	            unsigned count, uint64_t passes, double *seconds_out);

	/** Time gathers, one after the other, and check that every row was found. */
	int (*gather)(struct rung__meter *meter, const struct rung__meter_gather *gather,
	              uint64_t passes, double *seconds_out);
};

#endif

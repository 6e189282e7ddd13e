/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Meters: they time how fast a GPU copies memory and gathers rows. numa/measure_gpu.c defines the
 * measurements; a device runs them through this table of functions (device.h).
 *
 * Copies are timed like the copy engine tests of nvbandwidth (README.md of
 * github.com/NVIDIA/nvbandwidth, "Measurement Details"; buffer sizes and medians are chosen by the
 * caller): a stream is blocked; an event, many copies and another event are queued on it; then it
 * is released. The time between the events counts, so the cost of queueing is excluded. nvbandwidth
 * blocks the stream with a spinning kernel; here it waits for a word in host memory, which uses no
 * part of the GPU and cannot be left spinning. Gathers are timed in the same way, with the kernels
 * of the store (kernels/gather.cu). An untimed pass without blocking comes first, and a stream that
 * cannot be filled within 5 s is released (RUNG_E_TIMEDOUT): lazy initialisation in CUDA may wait
 * until all streams are empty.
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

/** A copy between memory of GPUs that reach() has made accessible, or pinned host memory. */
struct rung__meter_copy {
	void *to;
	const void *from;
	uint64_t bytes;
};

struct rung__row_form;

struct rung__meter_gather {
	/* contiguous rows in the GPU's own memory, in that of a peer, or in pinned host memory */
	const void *table;
	uint64_t table_rows;
	uint64_t row_bytes; /* as stored; at most 1 GiB */
	/* NULL: rows are copied; else they are decoded, each with its own scale */
	const struct rung__row_form *form;
	int over_link; /* nonzero: the table is in host memory */
	/* [list_count x row_count] in the GPU's memory, below table_rows; the lists are used in
	 * turn */
	const uint64_t *ids;
	uint64_t row_count;  /* of a gather: at least 1, below 2^32 */
	uint64_t list_count; /* at least 1 */
	void *out;           /* row_count rows, without gaps */
};

struct rung__meter_ops {
	/** Number of GPUs that this process can use: 0 .. count - 1. */
	int (*count)(void);

	/** Create the streams and events of a GPU, and load its kernels. */
	int (*open)(int gpu, struct rung__meter **meter_out);
	void (*close)(struct rung__meter *meter);

	/** Allocate memory of a GPU. @param memory_out  free with release() */
	int (*alloc)(int gpu, uint64_t bytes, void **memory_out);
	/** NULL is allowed. */
	void (*release)(int gpu, void *memory);

	/** Let all GPUs access host memory, until unpin(). @param memory  whole pages */
	int (*pin)(int gpu, void *memory, uint64_t bytes);
	void (*unpin)(int gpu, void *memory);

	/** Let `gpu` access the memory of another GPU, `peer`, until the process ends. */
	int (*reach)(int gpu, int peer);

	/** Copy from any host memory, and wait for it. */
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

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Meters: how fast a GPU copies memory and gathers rows. numa/measure_gpu.c says what is measured,
 * a device times it: a table of functions, like its others (device.h).
 *
 * Copies are timed as nvbandwidth times those of the copy engines (README.md of
 * github.com/NVIDIA/nvbandwidth, "Measurement Details"; its buffers of 512 MiB and its medians are
 * the caller's business): a stream is held back, an event, many copies and an event are put on it,
 * it is let go, and what lies between the events counts; so what it costs to put work on a stream
 * is not in it. There a kernel that spins holds the stream, here a wait for a word of host memory,
 * which takes no part of the GPU and cannot be left spinning. Gathers are timed in the same way;
 * they are those of the store (kernels/gather.cu). A pass of each that is neither held nor timed
 * comes first, and a stream that cannot be filled within 5 s is let go (RUNG_E_TIMEDOUT): what CUDA
 * does lazily may wait until nothing is on any stream.
 *
 * Every failure here is a fact about the machine, in CUDA's own words, but for RUNG_E_NOMEM, which
 * is memory of the host's that lacked.
 *
 * Threads: one at a time; its current GPU is the same afterwards.
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
	/* rows one behind the other: the GPU's own memory, that of one that was reached, or pinned
	 * memory of the host */
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

	/** Memory of a GPU. @param memory_out  free with give_back() */
	int (*take)(int gpu, uint64_t bytes, void **memory_out);
	/** NULL is allowed. */
	void (*give_back)(int gpu, void *memory);

	/** Let all GPUs use memory of the host, until unpin(). @param memory  whole pages */
	int (*pin)(int gpu, void *memory, uint64_t bytes);
	void (*unpin)(int gpu, void *memory);

	/** Let `gpu` use the memory of `peer`, another one; this stays so. */
	int (*reach)(int gpu, int peer);

	/** Copy from any memory of the host, and wait for it. */
	int (*put)(int gpu, void *to, const void *from, uint64_t bytes);

	/**
	 * Time copies: `passes` of each, one behind the other, those of several at the same time.
	 * @param count        1 or 2
	 * @param seconds_out  of all passes, to the end of the last
	 */
	int (*copy)(struct rung__meter *meter, const struct rung__meter_copy *copies,
	            unsigned count, uint64_t passes, double *seconds_out);

	/** Time gathers, one behind the other. That every row was found is looked at. */
	int (*gather)(struct rung__meter *meter, const struct rung__meter_gather *gather,
	              uint64_t passes, double *seconds_out);
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** Numbered items, processed by dedicated threads, so that several reads are in flight. Private to
 * io/verify*.c. */
#ifndef RUNG_IO_VERIFY_PUMP_H
#define RUNG_IO_VERIFY_PUMP_H

#include "file/direct.h"
#include "base/base.h"

#define RUNG__PUMP_THREADS_MIN 4u  /* threads spend most of their time waiting for the disk */
#define RUNG__PUMP_THREADS_MAX 16u /* each thread has its own memory */
/* number of bytes read for one item: large enough for the full rate of any disk */
#define RUNG__PUMP_READ_BYTES (UINT64_C(4) << 20)

struct rung__pump {
	const char *step; /* name of the step, for the progress and messages */
	uint64_t item_count;
	/* requested number; at least RUNG__PUMP_THREADS_MIN run, if memory allows */
	int threads;
	uint64_t buffer_bytes; /* size of each thread's page-aligned memory */
	/* limit of the memory of all threads, but one thread always runs; 0: no limit */
	uint64_t memory_bytes;
	rung_progress_fn progress; /* called on the calling thread; NULL: not called */
	void *progress_ctx;
	void *ctx; /* for `work` */
	/** Process one item, on any thread, in any order. `buffer` belongs to the thread. A failure
	 * ends the run. */
	int (*work)(void *ctx, uint64_t item, unsigned char *buffer);
};

/** Process all items. Returns after all threads have stopped. @return 0, the failure of the first
 * item that failed, RUNG_E_CANCELED, RUNG_E_NOMEM */
int rung__pump_run(const struct rung__pump *pump);

/** Memory for reading `bytes` from any offset: whole pages around them. */
static inline uint64_t rung__span_buffer_bytes(uint64_t bytes)
{
	return rung__align_up(bytes, RUNG__PAGE_BYTES) + 2 * (uint64_t)RUNG__PAGE_BYTES;
}

#endif

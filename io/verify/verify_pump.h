/* SPDX-License-Identifier: Apache-2.0 */
/** Items worked through by threads of rung's own, so that several reads are in flight. Private to
 * io/verify*.c. */
#ifndef RUNG_IO_VERIFY_PUMP_H
#define RUNG_IO_VERIFY_PUMP_H

#include "file/direct.h"
#include "base/base.h"

#define RUNG__PUMP_THREADS_MIN 4u /* most of a thread's time goes into waiting for the disk */
#define RUNG__PUMP_THREADS_MAX 16u
/* of one item: large enough for any disk's full rate */
#define RUNG__PUMP_READ_BYTES (UINT64_C(4) << 20)

struct rung__pump {
	const char *stage; /* for progress */
	uint64_t item_count;
	int threads; /* computing ones; reads in flight are at least RUNG__PUMP_THREADS_MIN */
	uint64_t room_bytes;   /* memory of each thread, on a page */
	uint64_t memory_bytes; /* of all of them: fewer threads, but one at least; 0: no limit */
	rung_progress_fn progress; /* called on the caller's thread */
	void *progress_ctx;
	void *ctx;
	/** One item, on any thread, in any order; `room` is the thread's own. Not 0 ends it all. */
	int (*work)(void *ctx, uint64_t item, unsigned char *room);
};

/** @return 0, the failure of the first item that failed, RUNG_E_CANCELED, RUNG_E_NOMEM */
int rung__pump_run(const struct rung__pump *pump);

/** Room for reading `bytes` from anywhere: whole pages around them. */
static inline uint64_t rung__span_room(uint64_t bytes)
{
	return rung__align_up(bytes, RUNG__PAGE_BYTES) + 2 * (uint64_t)RUNG__PAGE_BYTES;
}

#endif

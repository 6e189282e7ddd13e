/* SPDX-License-Identifier: Apache-2.0 */
/** Many reads of a file in flight, in no order: rows at random places. Private to io/stage*.c and their tests. */
#ifndef RUNG_IO_STAGE_READS_H
#define RUNG_IO_STAGE_READS_H

#include "file/direct.h"
#include "engine/engine.h"

#define RUNG__ROW_READS 128u                       /* in flight, of single rows, where memory
						      allows */
#define RUNG__ROW_READ_BYTES (UINT64_C(32) << 10)  /* of each, at most */

struct rung__read_slot {
	uint64_t offset, bytes;   /* of the read that it is taken by */
};

struct rung__row_reads {
	const struct rung__direct *file;
	unsigned char *buffers;   /* [depth][slot_bytes] */
	uint64_t slot_bytes;
	uint32_t depth;
	const struct rung__engine_ops *ops;
	struct rung__engine *engine;
	struct rung__read_slot *slots;
	uint32_t *unused, unused_count;
	bool lost;                /* reads that nobody waits for any more may still come: the buffers are to stay */
};

struct rung__row_reads_job {
	/** The next read, for slot `slot`: of bytes from a page on, that fit a slot in whole pages. @return false: there is none */
	bool (*next)(void *ctx, uint32_t slot, uint64_t *offset_out, uint64_t *bytes_out);
	/** It has come, and lies at `at`; the slot is free when this returns. @return 0, or a failure, which ends it */
	int (*done)(void *ctx, uint32_t slot, const unsigned char *at);
	void *ctx;
};

/**
 * To be used by the calling thread alone.
 * @param buffers  [depth * slot_bytes] on a page, slot_bytes whole pages; the caller's, as `file` is, until it is closed
 */
int rung__row_reads_open(struct rung__row_reads *reads, const struct rung__direct *file, unsigned char *buffers, uint64_t slot_bytes,
		     uint32_t depth);
/** Read all that the job has. @return 0, or the first failure, when all reads have ended */
int rung__row_reads_run(struct rung__row_reads *reads, const struct rung__row_reads_job *job);
/** Also one that is all zero. */
void rung__row_reads_close(struct rung__row_reads *reads);

/** Tests: do without io_uring. */
extern bool rung__row_reads_by_threads;

#endif

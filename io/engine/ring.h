/* SPDX-License-Identifier: Apache-2.0 */
/** An io_uring ring with the pool, one file and itself registered where the kernel allows it: the
 * common part of three engines. */
#ifndef RUNG_IO_RING_H
#define RUNG_IO_RING_H

#include "engine/engine.h"

#if RUNG_HAVE_IO_URING
#include <liburing.h>

#define RUNG__PIECE_SHIFT_MAX 30 /* the kernel takes at most 1 GiB a registered buffer */

struct nvme_drive; /* of engine_nvme.c */

struct rung__engine {
	struct io_uring ring;
	unsigned char *pool;
	/* registered buffers: the pool in pieces of 1 << piece_shift bytes; 0: none */
	uint64_t piece_count;
	unsigned piece_shift;
	int fd; /* for submission: a descriptor, or the number of a registered file */
	unsigned sqe_flags;
	bool polls; /* IORING_SETUP_IOPOLL */
	/* set by the engine after opening, where a completion's result is not that of the read */
	int32_t (*result_of)(const struct io_uring_cqe *cqe);
	struct nvme_drive *drive;
};

/**
 * Create the ring in the thread that will use it, and register.
 *
 * @param fd           file to read
 * @param flags        IORING_SETUP_* in addition to those that all rings have (IOPOLL, SQE128 …)
 * @param piece_shift  of registered buffers
 * @param report       gets the features, or on failure the reason
 * @return 0 or -errno
 */
int rung__ring_open(const struct rung__engine_args *args, int fd, unsigned flags,
                    unsigned piece_shift, struct rung__engine **engine_out,
                    struct rung__engine_report *report);

/* As in struct rung__engine_ops; the low half of user_data is the token. */
void rung__ring_close(struct rung__engine *engine);
int rung__ring_reap(struct rung__engine *engine, uint32_t want, uint64_t timeout_ns,
                    struct rung__fetched *fetched, uint32_t max);

/** The registered buffer that all of a read lands in; -1: none. */
static inline int rung__ring_piece(const struct rung__engine *ring, const struct rung__fetch *fetch)
{
	uint64_t piece = fetch->to >> ring->piece_shift;
	uint64_t last = (fetch->to + fetch->bytes - 1) >> ring->piece_shift;

	return piece < ring->piece_count && last == piece ? (int)piece : -1;
}

#endif
#endif

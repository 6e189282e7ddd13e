/* SPDX-License-Identifier: Apache-2.0 */
/** A ring of io_uring with the pool, one file and itself registered as far as the kernel lets us: what three engines have in common. */
#ifndef RUNG_IO_RING_H
#define RUNG_IO_RING_H

#include "engine/engine.h"

#if RUNG_HAVE_IO_URING
#include <liburing.h>

#define RUNG__PIECE_SHIFT_MAX 30   /* the kernel takes at most 1 GiB a registered buffer */

struct rung__ring {
	struct io_uring ring;
	unsigned char *pool;
	uint64_t piece_count;      /* registered buffers: the pool in pieces of 1 << piece_shift bytes; 0: none */
	unsigned piece_shift;
	int fd;                    /* for submission: a descriptor, or the number of a registered file */
	unsigned sqe_flags;
};

/**
 * Make the ring in the thread that will use it, and register.
 *
 * @param fd           of the file to be read
 * @param flags        IORING_SETUP_* besides those that all rings have (IOPOLL, SQE128 …)
 * @param piece_shift  of registered buffers
 * @param report       gets the parts, or on failure the reason
 * @return 0 or -errno
 */
int rung__ring_open(struct rung__ring *ring, const struct rung__engine_args *args, int fd, unsigned flags, unsigned piece_shift,
                    struct rung__engine_report *report);
void rung__ring_close(struct rung__ring *ring);

/** The registered buffer that all of a read lands in; -1: none. */
static inline int rung__ring_piece(const struct rung__ring *ring, const struct rung__fetch *fetch)
{
	uint64_t piece = fetch->to >> ring->piece_shift;

	return piece < ring->piece_count && (fetch->to + fetch->bytes - 1) >> ring->piece_shift == piece ? (int)piece : -1;
}

/** Submit and do not wait. @return 0, or -errno when the ring cannot go on */
int rung__ring_send(struct rung__ring *ring);

/** Submit, and wait until `want` completions are there or the time is up. @return 0, or -errno when the ring cannot go on */
int rung__ring_wait(struct rung__ring *ring, uint32_t want, uint64_t timeout_ns);

/** Take up to `max` completions that are there: token and result as they are. */
uint32_t rung__ring_take(struct rung__ring *ring, struct rung__fetched *fetched, uint32_t max);

/**
 * Wait and take on a ring with IORING_SETUP_IOPOLL, where the kernel's own wait has no bound: looks at the device again and again.
 * @return the number taken, or -errno when the ring cannot go on
 */
int rung__ring_poll(struct rung__ring *ring, uint32_t want, uint64_t timeout_ns, struct rung__fetched *fetched, uint32_t max);

#endif
#endif

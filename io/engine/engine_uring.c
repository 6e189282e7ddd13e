/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io_uring engines: reads through the file system, completed by the device's interrupt or found by
 * polling (IORING_SETUP_IOPOLL).
 *
 * Polling saves the interrupt and the wake-up, a few microseconds per read, and keeps a core busy
 * while reads are in flight. The store's other threads usually need that core more, so the engine
 * is opt-in.
 */
#include "engine/ring.h"

#if RUNG_HAVE_IO_URING
#include <errno.h>

static int uring_open(const struct rung__engine_args *args, struct rung__engine **engine_out,
                      struct rung__engine_report *report)
{
	return rung__ring_open(args, args->fd, 0, RUNG__PIECE_SHIFT_MAX, engine_out, report);
}

static int poll_open(const struct rung__engine_args *args, struct rung__engine **engine_out,
                     struct rung__engine_report *report)
{
	return rung__ring_open(args, args->fd, IORING_SETUP_IOPOLL, RUNG__PIECE_SHIFT_MAX,
	                       engine_out, report);
}

/* Queue a read; reaping sends it. A read inside one registered buffer uses that buffer, which saves
 * pinning its pages. */
static int uring_submit(struct rung__engine *ring, const struct rung__fetch *fetch)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->ring);
	unsigned char *to = ring->pool + fetch->to;
	int piece = rung__ring_piece(ring, fetch);

	if (!sqe)
		return -EAGAIN;
	if (piece >= 0)
		io_uring_prep_read_fixed(sqe, ring->fd, to, fetch->bytes, fetch->offset, piece);
	else
		io_uring_prep_read(sqe, ring->fd, to, fetch->bytes, fetch->offset);
	io_uring_sqe_set_flags(sqe, ring->sqe_flags);
	io_uring_sqe_set_data64(sqe, fetch->token);
	return 0;
}

const struct rung__engine_ops rung__engine_io_uring = {
	.name = "io_uring",
	.id = RUNG_ENGINE_IO_URING,
	.open = uring_open,
	.close = rung__ring_close,
	.submit = uring_submit,
	.reap = rung__ring_reap,
};

const struct rung__engine_ops rung__engine_io_uring_poll = {
	.name = "io_uring_poll",
	.id = RUNG_ENGINE_IO_URING_POLL,
	.opt_in_why = "opt-in: it keeps a core busy while reads are in flight",
	.unsupported = "the disk's driver has no queues for polling (nvme.poll_queues=N at boot "
		       "creates them), or the file system does not poll",
	.direct = true,
	.open = poll_open,
	.close = rung__ring_close,
	.submit = uring_submit,
	.reap = rung__ring_reap,
};
#endif

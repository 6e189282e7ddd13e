/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io_uring engines: reads through the file system, completed by the device's interrupt, or polled for (IORING_SETUP_IOPOLL).
 *
 * Polling saves the interrupt and the wake-up, a few microseconds of each read, and keeps a core busy for as long as reads are in
 * flight: the store's other threads want it more, so it is for those who ask.
 */
#include "engine/ring.h"

#if RUNG_HAVE_IO_URING
#include <errno.h>

struct rung__engine {
	struct rung__ring ring;
};

static int open_with(const struct rung__engine_args *args, unsigned flags, struct rung__engine **engine_out,
                     struct rung__engine_report *report)
{
	struct rung__engine *engine = rung__zalloc(sizeof(*engine));
	int rc;

	if (!engine)
		return rung__engine_refuse(report, -ENOMEM, "out of memory");
	rc = rung__ring_open(&engine->ring, args, args->fd, flags, RUNG__PIECE_SHIFT_MAX, report);
	if (rc < 0) {
		rung__free(engine);
		return rc;
	}
	*engine_out = engine;
	return 0;
}

static int uring_open(const struct rung__engine_args *args, struct rung__engine **engine_out, struct rung__engine_report *report)
{
	return open_with(args, 0, engine_out, report);
}

static int poll_open(const struct rung__engine_args *args, struct rung__engine **engine_out, struct rung__engine_report *report)
{
	return open_with(args, IORING_SETUP_IOPOLL, engine_out, report);
}

static void uring_close(struct rung__engine *engine)
{
	rung__ring_close(&engine->ring);
	rung__free(engine);
}

static int uring_submit(struct rung__engine *engine, const struct rung__fetch *fetch)
{
	struct rung__ring *ring = &engine->ring;
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

static int uring_reap(struct rung__engine *engine, uint32_t want, uint64_t timeout_ns, struct rung__fetched *fetched, uint32_t max)
{
	int rc = max == 0 ? rung__ring_send(&engine->ring) : rung__ring_wait(&engine->ring, want, timeout_ns);

	return rc < 0 ? rc : (int)rung__ring_take(&engine->ring, fetched, max);
}

static int poll_reap(struct rung__engine *engine, uint32_t want, uint64_t timeout_ns, struct rung__fetched *fetched, uint32_t max)
{
	return max == 0 ? rung__ring_send(&engine->ring) : rung__ring_poll(&engine->ring, want, timeout_ns, fetched, max);
}

const struct rung__engine_ops rung__engine_io_uring = {
	.name = "io_uring",
	.id = RUNG_ENGINE_IO_URING,
	.open = uring_open,
	.close = uring_close,
	.submit = uring_submit,
	.reap = uring_reap,
};

const struct rung__engine_ops rung__engine_io_uring_poll = {
	.name = "io_uring_poll",
	.id = RUNG_ENGINE_IO_URING_POLL,
	.unasked = "not asked for: it keeps a core busy while reads are in flight",
	.unsupported = "the disk's driver has no queues for polling (nvme.poll_queues=N at boot makes some), or the file system does not poll",
	.direct = true,
	.open = poll_open,
	.close = uring_close,
	.submit = uring_submit,
	.reap = poll_reap,
};
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engines that read nothing, to measure everything above the device. Each read completes with all
 * its bytes, and the pool keeps its previous contents, so the gathered rows are not valid.
 *
 * `null` sends an IORING_OP_NOP for each read through a ring that is set up as for io_uring: what
 * remains is the cost of the ring's system calls. `null_instant` has no ring, and reads complete
 * when they are reaped: what remains is rung's own work.
 */
#include <errno.h>

#include "engine/ring.h"

#define WHY "for measurements only: it reads nothing, so the rows are not valid"

#if RUNG_HAVE_IO_URING
/* A NOP completes with 0, so its size is in the upper half of its user data. */
static int32_t null_result(const struct io_uring_cqe *cqe)
{
	return cqe->res < 0 ? cqe->res : (int32_t)(cqe->user_data >> 32);
}

static int null_open(const struct rung__engine_args *args, struct rung__engine **engine_out,
                     struct rung__engine_report *report)
{
	int rc = rung__ring_open(args, args->fd, 0, RUNG__PIECE_SHIFT_MAX, engine_out, report);

	if (rc == 0)
		(*engine_out)->result_of = null_result;
	return rc;
}

static int null_submit(struct rung__engine *ring, const struct rung__fetch *fetch)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->ring);

	if (!sqe)
		return -EAGAIN;
	io_uring_prep_nop(sqe);
	io_uring_sqe_set_data64(sqe, (uint64_t)fetch->bytes << 32 | fetch->token);
	return 0;
}

const struct rung__engine_ops rung__engine_null = {
	.name = "null",
	.id = RUNG_ENGINE_NULL,
	.opt_in_why = WHY,
	.reads_nothing = true,
	.open = null_open,
	.close = rung__ring_close,
	.submit = null_submit,
	.reap = rung__ring_reap,
};
#endif

/* ---- without a ring ---- */

/* Named apart from the ring's engine, which is another struct of the same name. */
struct instant {
	uint32_t depth, count;
	struct rung__fetched ended[]; /* [depth]; the first `count` are not reaped yet */
};

static int instant_open(const struct rung__engine_args *args, struct rung__engine **engine_out,
                        struct rung__engine_report *report)
{
	struct instant *instant =
		rung__zalloc(sizeof(*instant) + args->queue_depth * sizeof(instant->ended[0]));

	if (!instant)
		return rung__engine_refuse(report, -ENOMEM, "out of memory");
	instant->depth = args->queue_depth;
	*engine_out = (struct rung__engine *)instant;
	return 0;
}

static void instant_close(struct rung__engine *engine)
{
	rung__free(engine);
}

static int instant_submit(struct rung__engine *engine, const struct rung__fetch *fetch)
{
	struct instant *instant = (struct instant *)engine;

	if (instant->count == instant->depth)
		return -EAGAIN;
	instant->ended[instant->count++] =
		(struct rung__fetched){ fetch->token, (int32_t)fetch->bytes };
	return 0;
}

/* Never waits: a read that is in flight has completed. The newest come first, which saves moving
 * the rest. */
static int instant_reap(struct rung__engine *engine, uint32_t want, uint64_t timeout_ns,
                        struct rung__fetched *fetched, uint32_t max)
{
	struct instant *instant = (struct instant *)engine;
	uint32_t count = RUNG__MIN(instant->count, max);

	(void)want;
	(void)timeout_ns;
	for (uint32_t i = 0; i < count; i++)
		fetched[i] = instant->ended[--instant->count];
	return (int)count;
}

const struct rung__engine_ops rung__engine_null_instant = {
	.name = "null_instant",
	.id = RUNG_ENGINE_NULL_INSTANT,
	.opt_in_why = WHY,
	.reads_nothing = true,
	.open = instant_open,
	.close = instant_close,
	.submit = instant_submit,
	.reap = instant_reap,
};

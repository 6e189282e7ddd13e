/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io_uring engine: one ring, made in the thread that uses it.
 *
 * The best set-up is tried first and each step falls back on its own: DEFER_TASKRUN with SINGLE_ISSUER (completions are worked
 * off when we ask, not by interrupting the thread), then COOP_TASKRUN, then no flags; registered slots, file and ring fd, each left
 * out when the kernel or RLIMIT_MEMLOCK refuses it. With DEFER_TASKRUN completions appear only inside a waiting call, so reap always
 * enters the kernel.
 */
#include "engine.h"

#if RUNG_HAVE_IO_URING
#include <errno.h>
#include <liburing.h>
#include <string.h>
#include <sys/uio.h>

#define IOVEC_BYTES_MAX (1ull << 30)   /* the kernel takes at most 1 GiB a registered buffer */
#define IOVECS_MAX 16384u              /* and so many of them */

struct rung__engine {
	struct io_uring ring;
	unsigned char *pool;
	bool pool_registered;
	int fd;
	bool file_registered;
};

static int make_ring(struct io_uring *ring, uint32_t depth)
{
	static const unsigned flags[] = {
		IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SUBMIT_ALL,
		IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SUBMIT_ALL,
		0,
	};
	int rc = -EINVAL;

	for (unsigned i = 0; i < RUNG__ARRAY_LEN(flags) && rc == -EINVAL; i++) {
		struct io_uring_params params = { .flags = flags[i] };

		rc = io_uring_queue_init_params(depth, ring, &params);
		if (rc == 0 && !(params.features & IORING_FEAT_EXT_ARG)) {   /* waits with a bound: Linux 5.11 */
			io_uring_queue_exit(ring);
			return -ENOSYS;
		}
	}
	return rc;
}

static bool register_pool(struct rung__engine *engine, const struct rung__engine_args *args)
{
	uint64_t count = (args->pool_bytes + IOVEC_BYTES_MAX - 1) / IOVEC_BYTES_MAX;
	struct iovec *iovecs = count <= IOVECS_MAX ? rung__malloc_array(count, sizeof(*iovecs)) : NULL;

	for (uint64_t i = 0; iovecs && i < count; i++) {
		uint64_t at = i * IOVEC_BYTES_MAX;

		iovecs[i].iov_base = args->pool + at;
		iovecs[i].iov_len = (size_t)RUNG__MIN(IOVEC_BYTES_MAX, args->pool_bytes - at);
	}
	engine->pool_registered = iovecs && io_uring_register_buffers(&engine->ring, iovecs, (unsigned)count) == 0;
	rung__free(iovecs);
	return engine->pool_registered;
}

static const char *refusal(int err)
{
	switch (err) {
	case EPERM: case EACCES: return "io_uring is refused here (EPERM: a container's seccomp profile, or sysctl kernel.io_uring_disabled)";
	case ENOSYS: return "this kernel has no io_uring, or one too old (5.11 is needed)";
	case ENOMEM: return "io_uring: no memory for the ring (RLIMIT_MEMLOCK)";
	default: return "io_uring could not be set up";
	}
}

static int uring_open(const struct rung__engine_args *args, struct rung__engine **engine_out, const char **why_out)
{
	struct rung__engine *engine = rung__zalloc(sizeof(*engine));
	int rc;

	if (!engine) {
		*why_out = "out of memory";
		return -ENOMEM;
	}
	rc = make_ring(&engine->ring, args->queue_depth);
	if (rc < 0) {
		*why_out = refusal(-rc);
		rung__free(engine);
		return rc;
	}
	io_uring_ring_dontfork(&engine->ring);
	engine->pool = args->pool;
	engine->fd = args->fd;
	*why_out = "";
	if (!register_pool(engine, args))
		*why_out = "slots are not registered (RLIMIT_MEMLOCK)";
	engine->file_registered = io_uring_register_files(&engine->ring, &args->fd, 1) == 0;
	io_uring_register_ring_fd(&engine->ring);   /* saves a file look-up a call; 6.0 kernels and later */
	*engine_out = engine;
	return 0;
}

static void uring_close(struct rung__engine *engine)
{
	io_uring_queue_exit(&engine->ring);
	rung__free(engine);
}

static int uring_submit(struct rung__engine *engine, const struct rung__fetch *fetch)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&engine->ring);
	unsigned char *to = engine->pool + fetch->to;
	uint64_t iovec = fetch->to / IOVEC_BYTES_MAX;
	int fd = engine->file_registered ? 0 : engine->fd;

	if (!sqe)
		return -EAGAIN;
	if (engine->pool_registered && (fetch->to + fetch->bytes - 1) / IOVEC_BYTES_MAX == iovec)
		io_uring_prep_read_fixed(sqe, fd, to, fetch->bytes, fetch->offset, (int)iovec);
	else
		io_uring_prep_read(sqe, fd, to, fetch->bytes, fetch->offset);
	if (engine->file_registered)
		io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
	io_uring_sqe_set_data64(sqe, fetch->token);
	return 0;
}

static uint32_t take(struct rung__engine *engine, struct rung__fetched *fetched, uint32_t max)
{
	struct io_uring_cqe *cqe;
	uint32_t count = 0;
	unsigned head;

	io_uring_for_each_cqe(&engine->ring, head, cqe) {
		if (count == max)
			break;
		fetched[count].token = (uint32_t)io_uring_cqe_get_data64(cqe);
		fetched[count++].result = cqe->res;
	}
	io_uring_cq_advance(&engine->ring, count);
	return count;
}

static int uring_reap(struct rung__engine *engine, uint32_t want, uint64_t timeout_ns, struct rung__fetched *fetched, uint32_t max)
{
	struct __kernel_timespec ts = {
		.tv_sec = (int64_t)(timeout_ns / 1000000000u),
		.tv_nsec = (long long)(timeout_ns % 1000000000u),
	};
	struct io_uring_cqe *cqe;
	int rc = io_uring_submit_and_wait_timeout(&engine->ring, &cqe, want, &ts, NULL);

	/* EBUSY and EAGAIN: the completion side or memory is full for the moment; what waits is taken below and the rest sent next time */
	if (rc < 0 && rc != -ETIME && rc != -EINTR && rc != -EAGAIN && rc != -EBUSY)
		return rc;
	return (int)take(engine, fetched, max);
}

const struct rung__engine_ops rung__engine_io_uring = {
	.name = "io_uring",
	.open = uring_open,
	.close = uring_close,
	.submit = uring_submit,
	.reap = uring_reap,
};
#endif

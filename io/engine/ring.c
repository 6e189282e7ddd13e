/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates a ring and reaps its completions.
 *
 * The best set-up is tried first, and each part falls back separately. DEFER_TASKRUN with
 * SINGLE_ISSUER processes completions when the thread waits, instead of interrupting it. The first
 * fallback is COOP_TASKRUN, the second is a ring without these flags. Pool, file and ring are
 * registered; each is left out if the kernel or RLIMIT_MEMLOCK refuses it. With DEFER_TASKRUN
 * completions appear only inside a waiting call, so waiting always enters the kernel.
 */
#include "engine/ring.h"

#if RUNG_HAVE_IO_URING
#include <errno.h>
#include <string.h>
#include <time.h>

/* attempts to create a ring when the kernel reports a lack of memory: 0.2 s in all */
#define MEMORY_TRIES_MAX 100u
#define MEMORY_PAUSE_NS  2000000
#define PIECES_MAX       16384u /* number of registered buffers that the kernel accepts */

/* Flags that older kernels reject with EINVAL, best first. */
static const struct setup {
	unsigned flags;
	const char *why; /* why these flags are not the best ones; "": they are */
} setups[] = {
	{ IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SUBMIT_ALL, "" },
	{ IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SUBMIT_ALL,
	  "this kernel has only IORING_SETUP_COOP_TASKRUN; IORING_SETUP_DEFER_TASKRUN needs Linux "
	  "6.1" },
	{ 0, "this kernel has no IORING_SETUP_COOP_TASKRUN; IORING_SETUP_DEFER_TASKRUN needs Linux "
	     "6.1" },
};

/* Append a feature to the report. @param why "": the feature is in use. Not copied */
static void add_part(struct rung__engine_report *report, const char *name, const char *why)
{
	report->parts[report->part_count++] = (struct rung_engine_step){ name, why };
}

/* The reason why no ring could be created, for the statistics. */
static const char *refusal(int err)
{
	switch (err) {
	case EPERM:
	case EACCES:
		return "io_uring is refused here (EPERM: a container's seccomp profile, or sysctl "
		       "kernel.io_uring_disabled)";
	case ENOSYS:
		return "this kernel has no io_uring or an old one (Linux 5.11 is needed)";
	case ENOMEM:
		return "no memory for the ring:"
		       " RLIMIT_MEMLOCK may be too low for all rings of this user; raise ulimit -l";
	case EINVAL:
		return "this kernel's io_uring does not support this kind of read";
	default:
		return strerror(err);
	}
}

/*
 * Create a ring; with ENOMEM, try again for 0.2 s. Linux counts the pages of all rings of a user
 * against RLIMIT_MEMLOCK. A kernel worker subtracts the pages of a closed ring only after close()
 * has returned, and a ring that is opened in between is refused.
 */
static int init_ring(struct io_uring *ring, uint32_t depth, unsigned flags,
                     struct io_uring_params *params)
{
	const struct timespec pause = { .tv_nsec = MEMORY_PAUSE_NS };
	int rc;

	for (unsigned tries = 1;; tries++) {
		*params = (struct io_uring_params){ .flags = flags };
		rc = io_uring_queue_init_params(depth, ring, params);
		if (rc != -ENOMEM || tries == MEMORY_TRIES_MAX)
			return rc;
		nanosleep(&pause, NULL);
	}
}

/* Create a ring with the best flags that the kernel supports. @param flags needed in any case */
static int make_ring(struct io_uring *ring, uint32_t depth, unsigned flags,
                     struct rung__engine_report *report)
{
	int rc = -EINVAL;

	for (unsigned i = 0; i < RUNG__ARRAY_LEN(setups) && rc == -EINVAL; i++) {
		struct io_uring_params params;

		rc = init_ring(ring, depth, flags | setups[i].flags, &params);
		/* waiting with a timeout requires Linux 5.11 */
		if (rc == 0 && !(params.features & IORING_FEAT_EXT_ARG)) {
			io_uring_queue_exit(ring);
			rc = -ENOSYS;
		}
		if (rc == 0)
			add_part(report, "deferred completions", setups[i].why);
	}
	return rc < 0 ? rung__engine_refuse(report, rc, "%s", refusal(-rc)) : 0;
}

/* Register the pool as buffers, whose pages stay pinned, in pieces. @return "", or the reason why
 * the kernel refuses */
static const char *register_pool(struct rung__engine *ring, const struct rung__engine_args *args)
{
	uint64_t piece_bytes = 1ull << ring->piece_shift;
	uint64_t count = RUNG__MIN((args->pool_bytes + piece_bytes - 1) / piece_bytes, PIECES_MAX);
	struct iovec *iovecs = rung__malloc_array(count, sizeof(*iovecs));
	int rc = -ENOMEM;

	for (uint64_t i = 0; iovecs && i < count; i++) {
		uint64_t at = i * piece_bytes;

		iovecs[i].iov_base = args->pool + at;
		iovecs[i].iov_len = (size_t)RUNG__MIN(piece_bytes, args->pool_bytes - at);
	}
	if (iovecs)
		rc = io_uring_register_buffers(&ring->ring, iovecs, (unsigned)count);
	rung__free(iovecs);
	if (rc < 0)
		return rc == -ENOMEM ? "RLIMIT_MEMLOCK does not allow it"
		                     : "the kernel refuses to register the pool";
	ring->piece_count = count;
	return "";
}

/* Register the file, which saves looking up its descriptor for each read. @return as above */
static const char *register_file(struct rung__engine *ring, int fd)
{
	ring->fd = fd;
	if (io_uring_register_files(&ring->ring, &fd, 1) != 0)
		return "the kernel refuses to register the file";
	ring->fd = 0; /* the index of the registered file */
	ring->sqe_flags = IOSQE_FIXED_FILE;
	return "";
}

int rung__ring_open(const struct rung__engine_args *args, int fd, unsigned flags,
                    unsigned piece_shift, struct rung__engine **engine_out,
                    struct rung__engine_report *report)
{
	struct rung__engine *ring = rung__zalloc(sizeof(*ring));
	int rc;

	if (!ring)
		return rung__engine_refuse(report, -ENOMEM, "out of memory");
	ring->pool = args->pool;
	ring->piece_shift = piece_shift;
	ring->polls = flags & IORING_SETUP_IOPOLL;
	rc = make_ring(&ring->ring, args->queue_depth, flags, report);
	if (rc < 0) {
		rung__free(ring);
		return rc;
	}
	/* a child must not share its parent's ring, so fork() leaves these pages out */
	io_uring_ring_dontfork(&ring->ring);
	add_part(report, "registered memory", register_pool(ring, args));
	add_part(report, "registered file", register_file(ring, fd));
	add_part(report, "registered ring",
	         io_uring_register_ring_fd(&ring->ring) == 1
	                 ? ""
	                 : "this kernel does not support it (Linux 5.18 does)");
	*engine_out = ring;
	return 0;
}

void rung__ring_close(struct rung__engine *ring)
{
	io_uring_queue_exit(&ring->ring);
	rung__free(ring);
}

/* EBUSY and EAGAIN: the completion queue or memory is full at the moment; reap what has completed
 * and submit the rest next time. */
static int end_of_wait(int rc)
{
	return rc < 0 && rc != -ETIME && rc != -EINTR && rc != -EAGAIN && rc != -EBUSY ? rc : 0;
}

/* Submit the queued reads, and wait for `want` completions or the timeout. */
static int send_and_wait(struct rung__engine *ring, uint32_t want, uint64_t timeout_ns)
{
	struct __kernel_timespec ts = {
		.tv_sec = (int64_t)(timeout_ns / 1000000000u),
		.tv_nsec = (long long)(timeout_ns % 1000000000u),
	};
	struct io_uring_cqe *cqe;

	return end_of_wait(io_uring_submit_and_wait_timeout(&ring->ring, &cqe, want, &ts, NULL));
}

/* Reap up to `max` available completions, without waiting. */
static uint32_t reap_ready(struct rung__engine *ring, struct rung__fetched *fetched, uint32_t max)
{
	struct io_uring_cqe *cqe;
	uint32_t count = 0;
	unsigned head;

	io_uring_for_each_cqe(&ring->ring, head, cqe)
	{
		if (count == max)
			break;
		fetched[count].token = (uint32_t)io_uring_cqe_get_data64(cqe);
		fetched[count++].result = ring->result_of ? ring->result_of(cqe) : cqe->res;
	}
	io_uring_cq_advance(&ring->ring, count);
	return count;
}

/* The kernel's own wait on a polled ring is unbounded: poll the device repeatedly. */
static int poll_and_accept(struct rung__engine *ring, uint32_t want, uint64_t timeout_ns,
                           struct rung__fetched *fetched, uint32_t max)
{
	uint64_t until_ns = rung__now_ns() + timeout_ns;
	uint32_t count = 0;
	int rc;

	/* reap immediately, because the kernel does not poll the device while completions are
	 * pending */
	do {
		rc = end_of_wait(io_uring_submit_and_get_events(&ring->ring));
		count += reap_ready(ring, fetched + count, max - count);
	} while (rc == 0 && count < want && count < max && rung__now_ns() < until_ns);
	return count > 0 ? (int)count : rc;
}

int rung__ring_reap(struct rung__engine *ring, uint32_t want, uint64_t timeout_ns,
                    struct rung__fetched *fetched, uint32_t max)
{
	int rc;

	if (max == 0)
		return end_of_wait(io_uring_submit(&ring->ring));
	if (ring->polls)
		return poll_and_accept(ring, want, timeout_ns, fetched, max);
	rc = send_and_wait(ring, want, timeout_ns);
	return rc < 0 ? rc : (int)reap_ready(ring, fetched, max);
}
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Starting threads, and waiting for their end on the monotonic clock. */
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>

#include "base/base.h"
#include "base/thread.h"

int rung__thread_start(pthread_t *thread, void *(*run)(void *), void *ctx)
{
	sigset_t all, before;
	int rc;

	/* the thread inherits the mask; blocking signals in the thread itself would be too late for
	 * a signal that is delivered before that */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(thread, NULL, run, ctx);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}

int rung__fail_thread(int err, const char *what)
{
	struct rlimit user = { .rlim_cur = RLIM_INFINITY };
	uint64_t limit;

	if (err != EAGAIN)
		return rung__fail_errno(err, "%s could not be started", what);
	getrlimit(RLIMIT_NPROC, &user);
	if (rung__threads_free(rung__machine_root, &limit) == 0)
		return rung__fail(RUNG_E_AGAIN,
		                  "%s could not be started: pids.max of the control group is "
		                  "%" PRIu64 "; raise it",
		                  what, limit);
	if (user.rlim_cur == RLIM_INFINITY)
		return rung__fail(RUNG_E_AGAIN,
		                  "%s could not be started: the system has no thread left; raise "
		                  "kernel.threads-max",
		                  what);
	return rung__fail(RUNG_E_AGAIN,
	                  "%s could not be started: ulimit -u is %" PRIu64 "; raise it", what,
	                  (uint64_t)user.rlim_cur);
}

void rung__cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

struct timespec rung__deadline(uint64_t ns)
{
	uint64_t until = rung__now_ns() + ns;

	return (struct timespec){ .tv_sec = (time_t)(until / 1000000000u),
		                  .tv_nsec = (long)(until % 1000000000u) };
}

void rung__end_init(struct rung__end *end)
{
	pthread_mutex_init(&end->lock, NULL);
	rung__cond_init(&end->changed);
	end->reached = false;
}

void rung__end_fini(struct rung__end *end)
{
	pthread_cond_destroy(&end->changed);
	pthread_mutex_destroy(&end->lock);
}

void rung__end_reach(struct rung__end *end)
{
	pthread_mutex_lock(&end->lock);
	end->reached = true;
	pthread_cond_signal(&end->changed);
	pthread_mutex_unlock(&end->lock);
}

bool rung__end_join(struct rung__end *end, pthread_t thread, uint64_t ns)
{
	const struct timespec until = rung__deadline(ns);
	bool reached;
	int rc = 0;

	pthread_mutex_lock(&end->lock);
	/* `until` is fixed, so spurious wake-ups do not extend the wait */
	while (!end->reached && rc != ETIMEDOUT)
		rc = pthread_cond_timedwait(&end->changed, &end->lock, &until);
	reached = end->reached;
	pthread_mutex_unlock(&end->lock);
	if (reached)
		pthread_join(thread, NULL); /* joins at once: the thread only has to return */
	return reached;
}

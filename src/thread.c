/* SPDX-License-Identifier: Apache-2.0 */
/* Starting threads. */
#include <signal.h>
#include <time.h>

#include "internal.h"
#include "thread.h"

int rung__thread_start(pthread_t *thread, void *(*run)(void *), void *ctx)
{
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(thread, NULL, run, ctx);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
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

	return (struct timespec){ .tv_sec = (time_t)(until / 1000000000u), .tv_nsec = (long)(until % 1000000000u) };
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Starting threads. */
#include <signal.h>

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

/* SPDX-License-Identifier: Apache-2.0 */
/** Threads of rung's own. */
#ifndef RUNG_THREAD_H
#define RUNG_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/** Start a thread in which every signal is blocked: signals are for the program's own threads.
 * @return 0 or an errno value */
int rung__thread_start(pthread_t *thread, void *(*run)(void *), void *ctx);

/** A condition variable whose timeouts use the monotonic clock, as rung__deadline() does. */
void rung__cond_init(pthread_cond_t *cond);

/** The time `ns` nanoseconds from now. */
struct timespec rung__deadline(uint64_t ns);

/**
 * The end of a thread, to be waited for with a bound on the monotonic clock; that of
 * pthread_timedjoin_np() can be set.
 */
struct rung__end {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool reached;
};

void rung__end_init(struct rung__end *end);
void rung__end_fini(struct rung__end *end);

/** The last thing that the thread does. */
void rung__end_reach(struct rung__end *end);

/** @return false: it has not ended within `ns`, and was not joined */
bool rung__end_join(struct rung__end *end, pthread_t thread, uint64_t ns);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** Starting threads of the library, and waiting for their end within a bound. Private to rung. */
#ifndef RUNG_THREAD_H
#define RUNG_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/** Start a thread in which every signal is blocked, so that the handlers of the program run in its
 * own threads. @return 0 or an errno value */
int rung__thread_start(pthread_t *thread, void *(*run)(void *), void *ctx);

/**
 * Record that rung__thread_start() failed with `err`, and the limit that it names: of the control
 * group (a container), else of the user.
 * @param what  the thread, such as "store: the refill thread"
 * @return RUNG_E_AGAIN for EAGAIN, which means a limit, not a lack of memory; else as
 *         rung__fail_errno()
 */
int rung__fail_thread(int err, const char *what);

/** Initialise a condition variable whose timeouts use the monotonic clock, as rung__deadline()
 * does. */
void rung__cond_init(pthread_cond_t *cond);

/** The time `ns` nanoseconds from now, on the monotonic clock. */
struct timespec rung__deadline(uint64_t ns);

/**
 * The end of a thread, for waiting with a bound on the monotonic clock. pthread_timedjoin_np() uses
 * the real-time clock, which can be set while it waits.
 */
struct rung__end {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool reached; /* the thread has nothing left to do */
};

void rung__end_init(struct rung__end *end);
void rung__end_fini(struct rung__end *end);

/** The thread calls this last. */
void rung__end_reach(struct rung__end *end);

/** Join a thread that ends within `ns`. @return false: it has not ended, and was not joined */
bool rung__end_join(struct rung__end *end, pthread_t thread, uint64_t ns);

#endif

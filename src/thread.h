/* SPDX-License-Identifier: Apache-2.0 */
/** Threads of rung's own. */
#ifndef RUNG_THREAD_H
#define RUNG_THREAD_H

#include <pthread.h>
#include <stdint.h>

/** Start a thread in which every signal is blocked: signals are for the program's own threads. @return 0 or an errno value */
int rung__thread_start(pthread_t *thread, void *(*run)(void *), void *ctx);

/** A condition whose waits end by the monotonic clock, as rung__deadline() tells it. */
void rung__cond_init(pthread_cond_t *cond);

/** So many nanoseconds from now. */
struct timespec rung__deadline(uint64_t ns);

#endif

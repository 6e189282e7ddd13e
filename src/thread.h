/* SPDX-License-Identifier: Apache-2.0 */
/** Threads of rung's own. */
#ifndef RUNG_THREAD_H
#define RUNG_THREAD_H

#include <pthread.h>

/** Start a thread in which every signal is blocked: signals are for the program's own threads. @return 0 or an errno value */
int rung__thread_start(pthread_t *thread, void *(*run)(void *), void *ctx);

#endif

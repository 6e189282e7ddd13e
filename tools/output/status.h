/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Status lines of a command that has a store open: one on stderr every --status seconds, and one
 * for each SIGUSR1. Other commands answer SIGUSR1 with a line of their progress (tool.h).
 */
#ifndef RUNG_TOOL_STATUS_H
#define RUNG_TOOL_STATUS_H

#include <pthread.h>
#include <stdatomic.h>

#include <rung/stats.h>

#include "tool.h"

struct tool_status {
	struct tool_progress *progress;
	const struct rung_store *store; /* NULL: the thread does not run */
	double seconds;
	_Atomic int stop;
	pthread_t thread;
};

/**
 * Start the thread that prints the lines. If it cannot be started, there are none.
 * @param progress  must stay valid until the stop, as the store
 * @param seconds   0: only after SIGUSR1
 */
void tool_status_start(struct tool_status *status, struct tool_progress *progress,
                       const struct rung_store *store, double seconds);

/** Stop it; does nothing for a zeroed struct. */
void tool_status_stop(struct tool_status *status);

#endif

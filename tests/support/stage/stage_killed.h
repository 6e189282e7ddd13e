/* SPDX-License-Identifier: Apache-2.0 */
/** Staging in a child that is killed at one of its steps. */
#ifndef SUPPORT_STAGE_KILLED_H
#define SUPPORT_STAGE_KILLED_H

#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "stage_fixture.h"
#include "folder/stage_step.h"

static atomic_int steps;
static int stop_step;

static inline void kill_at_step(const char *step)
{
	(void)step;
	if (atomic_fetch_add(&steps, 1) + 1 == stop_step)
		kill(getpid(), SIGKILL);
}

/*
 * Stage in a child, since OpenMP does not survive a fork; the child is killed at this step, counted
 * from 1. @return the status of a run that ended before that step, or 1 if it was killed
 */
static inline int stage_killed_at(int step)
{
	pid_t child;
	int status;

	steps = 0;
	stop_step = step;
	child = fork();
	cr_assert_geq(child, 0);
	if (child == 0) {
		rung__stage_step_hook = kill_at_step;
		_exit(-rung_stage(&opts, NULL));
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	return WIFSIGNALED(status) ? 1 : -WEXITSTATUS(status);
}

#endif

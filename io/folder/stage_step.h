/* SPDX-License-Identifier: Apache-2.0 */
/** Named points before each step that changes the file system, where tests stop a run. */
#ifndef RUNG_IO_STAGE_STEP_H
#define RUNG_IO_STAGE_STEP_H

/** Tests: called before each step that changes the file system, from the thread that runs the step;
 * NULL (the default): not called. */
extern void (*rung__stage_step_hook)(const char *step);

static inline void rung__stage_step(const char *step)
{
	if (rung__stage_step_hook)
		rung__stage_step_hook(step);
}

#endif

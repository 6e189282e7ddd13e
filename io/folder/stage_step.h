/* SPDX-License-Identifier: Apache-2.0 */
/** Where tests stop a run of staging: before each step that changes the file system. */
#ifndef RUNG_IO_STAGE_STEP_H
#define RUNG_IO_STAGE_STEP_H

/** Tests: called before each step that changes the file system; NULL (the default): not. */
extern void (*rung__stage_step_hook)(const char *step);

static inline void rung__stage_step(const char *step)
{
	if (rung__stage_step_hook)
		rung__stage_step_hook(step);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The hook with which tests stop a run of staging. */
#include "folder/stage_step.h"

void (*rung__stage_step_hook)(const char *step);

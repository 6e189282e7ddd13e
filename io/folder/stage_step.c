/* SPDX-License-Identifier: Apache-2.0 */
/* Where tests stop a run of staging. */
#include "folder/stage_step.h"

void (*rung__stage_step_hook)(const char *step);

/* SPDX-License-Identifier: Apache-2.0 */
/* The list of checks of rung doctor. */
#include "doctor/doctor.h"

#include <stdarg.h>
#include <stdio.h>

void doctor_add(struct doctor *doctor, const char *name, enum doctor_state state, const char *cure,
                const char *format, ...)
{
	struct doctor_check *check = &doctor->checks[doctor->count];
	va_list args;

	if (doctor->count == DOCTOR_CHECKS_MAX)
		return;
	doctor->count++;
	check->name = name;
	check->state = state;
	snprintf(check->cure, sizeof(check->cure), "%s", cure);
	va_start(args, format);
	vsnprintf(check->what, sizeof(check->what), format, args);
	va_end(args);
}

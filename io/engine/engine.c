/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the texts that the statistics show when an engine cannot be used. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/engine.h"

int rung__engine_refuse(struct rung__engine_report *report, int rc, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(report->why, sizeof(report->why), format, args);
	va_end(args);
	return rc;
}

void rung__why_add(char *whys, size_t size, const char *why)
{
	size_t used = strlen(whys);

	if (why[0])
		snprintf(whys + used, size - used, "%s%s", used ? "; " : "", why);
}

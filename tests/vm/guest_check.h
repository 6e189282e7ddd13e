/* SPDX-License-Identifier: Apache-2.0 */
/** Checks of the programs that run in virtual machines: they print a line each, which the test
 * outside reads. */
#ifndef RUNG_VM_GUEST_CHECK_H
#define RUNG_VM_GUEST_CHECK_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "rung/rung.h"

static int failures;

/* End the program if a call has failed. */
static void need(int rc, const char *what)
{
	if (rc >= 0)
		return;
	printf("FAILED %s: %s\n", what, rung_last_error());
	exit(1);
}

/* Print whether a check holds, or else the reason. */
static void __attribute__((format(printf, 3, 4)))
check(bool ok, const char *what, const char *format, ...)
{
	va_list args;

	printf("%s %s", ok ? "ok" : "FAILED", what);
	if (!ok) {
		failures++;
		printf(": ");
		va_start(args, format);
		vprintf(format, args);
		va_end(args);
	}
	putchar('\n');
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** An assertion on the status and the message of a failed call. */
#ifndef SUPPORT_EXPECT_ERROR_H
#define SUPPORT_EXPECT_ERROR_H

#include <criterion/criterion.h>
#include <string.h>

#include "rung/status.h"

/* `rc` must be `status`, and the calling thread's last error must contain `words`. */
static inline void assert_error(int rc, int status, const char *words)
{
	cr_assert_eq(rc, status, "expected '%s', got %s: %s", words, rung_status_name(rc),
	             rung_last_error());
	cr_assert(strstr(rung_last_error(), words), "'%s' is not in '%s'", words,
	          rung_last_error());
}

#endif

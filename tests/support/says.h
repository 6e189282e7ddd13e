/* SPDX-License-Identifier: Apache-2.0 */
/** A call that fails with the right status and says why, for tests. */
#ifndef SUPPORT_SAYS_H
#define SUPPORT_SAYS_H

#include <criterion/criterion.h>
#include <string.h>

#include "rung/status.h"

/* `rc` is `status`, and the calling thread's last error holds `words`. */
static inline void assert_says(int rc, int status, const char *words)
{
	cr_assert_eq(rc, status, "wanted '%s', got %s: %s", words, rung_status_name(rc),
	             rung_last_error());
	cr_assert(strstr(rung_last_error(), words), "'%s' not in '%s'", words, rung_last_error());
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** A process that may not say where its memory lies, as in many containers. */
#ifndef RUNG_TEST_REFUSE_H
#define RUNG_TEST_REFUSE_H

#include <stdbool.h>

/** From here on mbind() and move_pages() fail with EPERM in this process. @return false with errno
 * where there is no seccomp */
bool refuse_placement(void);

#endif

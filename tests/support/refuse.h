/* SPDX-License-Identifier: Apache-2.0 */
/** A process that is not permitted to set or query where its memory is placed, as in many
 * containers. */
#ifndef RUNG_TEST_REFUSE_H
#define RUNG_TEST_REFUSE_H

#include <stdbool.h>

/** From now on mbind() and move_pages() fail with EPERM in this process. @return false with errno
 * without seccomp */
bool refuse_placement(void);

#endif

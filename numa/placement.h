/* SPDX-License-Identifier: Apache-2.0 */
/** Where memory lies: asking for a node, and looking up what came of it, which may be something else. */
#ifndef RUNG_NUMA_PLACEMENT_H
#define RUNG_NUMA_PLACEMENT_H

#include "internal.h"

/**
 * Ask for the memory of a node for pages not touched yet. Preferred, not bound: a touch that a full node cannot serve would have us killed.
 * @return 0 or an errno value, ENOSYS where rung was built without libnuma
 */
int rung__place_on_node(void *memory, uint64_t bytes, uint32_t node);

/**
 * Share of some pages, spread over memory that was touched, that lie on the node.
 * @param err_out  0, or the errno value of what could not be looked up; then the share is NaN
 */
double rung__placed_share(void *memory, uint64_t bytes, uint32_t node, int *err_out);

#endif

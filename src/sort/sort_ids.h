/* SPDX-License-Identifier: Apache-2.0 */
/** Sorting a list of ids in place, for lists of any length and any number of equal ids. Private to
 * the core. */
#ifndef RUNG_SORT_IDS_H
#define RUNG_SORT_IDS_H

#include <stdint.h>

/** Sort in ascending order; ids of 4 or 8 bytes. */
void rung__ids_sort(void *ids, unsigned id_bytes, uint64_t count);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** What relabelling in memory and in files have in common. Private to rung. */
#ifndef RUNG_RELABEL_H
#define RUNG_RELABEL_H

#include <stdint.h>

/** RUNG_E_FORMAT with the entry when the two maps, of index_bytes, are not each other's inverse. */
int rung__maps_check(const void *vertex_of_rank, const void *rank_of_vertex, uint64_t vertex_count, unsigned index_bytes,
                     int threads);

#endif

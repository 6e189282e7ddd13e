/* SPDX-License-Identifier: Apache-2.0 */
/** Ranking with ids of more than 4 bytes, for tests: no test has 2^32 vertices. Private to the core. */
#ifndef RUNG_RANK_INTERNAL_H
#define RUNG_RANK_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

/** rung_rank_order() without its checks. @param wide  ids may need more than 4 bytes; index_bytes is 8 then */
int rung__rank_order(const float *score, uint64_t vertex_count, unsigned index_bytes, uint32_t threads, bool wide,
                     void *vertex_of_rank, void *rank_of_vertex);

#endif

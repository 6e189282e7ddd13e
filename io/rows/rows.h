/* SPDX-License-Identifier: Apache-2.0 */
/** Rows of a source in another order: many small reads made fewer. Private to io/. */
#ifndef RUNG_IO_ROWS_H
#define RUNG_IO_ROWS_H

#include <stdint.h>

#include "rung/source.h"

struct rung__rows {
	const struct rung_source *src;
	uint64_t count_max; /* rows of one gather */
	int threads;
	struct rung__row_location *order;
	unsigned char *bounce; /* [threads][RUNG__ROWS_BOUNCE_BYTES] */
};

#define RUNG__ROWS_BOUNCE_BYTES (256u << 10)

/** Room for gathers of up to `count_max` rows. */
int rung__rows_init(struct rung__rows *rows, const struct rung_source *src, uint64_t count_max,
                    int threads);

/**
 * Read rows ids[first .. first + count) of the source (ids of id_bytes, all in range) to `out`, in
 * this order. Rows near each other in the source share a read; threads read at the same time.
 */
int rung__rows_gather(struct rung__rows *rows, const void *ids, unsigned id_bytes, uint64_t first,
                      uint64_t count, unsigned char *out);

void rung__rows_fini(struct rung__rows *rows);

#endif

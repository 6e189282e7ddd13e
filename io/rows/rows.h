/* SPDX-License-Identifier: Apache-2.0 */
/** Rows of a source at given positions, gathered with few reads. Used by verification, for samples
 * and for repairs. Private to io/. */
#ifndef RUNG_IO_ROWS_H
#define RUNG_IO_ROWS_H

#include <stdint.h>

#include "rung/source.h"

struct rung__rows {
	const struct rung_source *src; /* borrowed */
	uint64_t count_max;            /* maximum number of rows per gather */
	int threads;
	struct rung__row_location *order; /* [count_max] */
	unsigned char *bounce;            /* [threads][RUNG__ROWS_BOUNCE_BYTES] */
};

/* largest read that several rows share */
#define RUNG__ROWS_BOUNCE_BYTES (256u << 10)

/** Allocate memory for gathers of up to `count_max` rows. Free it with rung__rows_fini(). @return 0
 * or RUNG_E_NOMEM */
int rung__rows_init(struct rung__rows *rows, const struct rung_source *src, uint64_t count_max,
                    int threads);

/**
 * Read rows ids[first .. first + count) of the source to `out`, in this order. The ids have
 * id_bytes each and are in range. Rows near each other in the source share a read. A call reads
 * with several threads, but a struct serves one caller at a time.
 */
int rung__rows_gather(struct rung__rows *rows, const void *ids, unsigned id_bytes, uint64_t first,
                      uint64_t count, unsigned char *out);

void rung__rows_fini(struct rung__rows *rows);

#endif

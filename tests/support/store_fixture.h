/* SPDX-License-Identifier: Apache-2.0 */
/** A staged dataset in a temporary folder, a store on it, and the rows it must give. A step that fails ends the program. */
#ifndef SUPPORT_STORE_FIXTURE_H
#define SUPPORT_STORE_FIXTURE_H

#include "plan_internal.h"
#include "rung/rung.h"
#include "store_internal.h"

struct store_fixture {
	char dir[256];               /* the dataset */
	char parent[200];            /* removed at close */
	struct rung_dataset *ds;
	struct rung_plan *plan;
	struct rung_store *store;
	uint64_t vertices, row_bytes;
	uint64_t *vertex_of_rank;
};

/** @param fetchable NULL: the NVMe tier. @param opts NULL: defaults */
void fixture_open(struct store_fixture *f, uint64_t vertices, uint64_t row_bytes, uint64_t host_bytes, const struct rung_store_opts *opts,
                  const struct rung__tier_ops *fetchable);
void fixture_close(struct store_fixture *f);

/** Ranks: a third anywhere, a third near the last one, a third copies of earlier ones. */
void fixture_random_ids(const struct store_fixture *f, uint64_t *ranks, uint64_t count, uint64_t seed);

/** Count of rows of `out` that are not those of the ranks. */
uint64_t fixture_wrong_rows(const struct store_fixture *f, const uint64_t *ranks, uint64_t count, const unsigned char *out, size_t stride);
void fixture_check(const struct store_fixture *f, const uint64_t *ranks, uint64_t count, const unsigned char *out, size_t stride);
void fixture_gather_and_check(const struct store_fixture *f, const uint64_t *ranks, uint64_t count);

/** True where the kernel gives us a ring. */
bool fixture_has_io_uring(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** A staged dataset in a temporary folder, a store on it, and the rows it must deliver. A step that
 * fails ends the program. */
#ifndef SUPPORT_STORE_FIXTURE_H
#define SUPPORT_STORE_FIXTURE_H

#include "plan/plan.h"
#include "rung/rung.h"
#include "store/store.h"

#define FIXTURE_MEMORIES_MAX 64

struct store_fixture {
	char dir[256];    /* the dataset */
	char parent[200]; /* removed at close */
	struct rung_dataset *ds;
	struct rung_plan *plan;
	struct rung_store *store;
	uint64_t vertices, row_bytes;
	uint64_t *vertex_of_rank;
	void *memories[FIXTURE_MEMORIES_MAX]; /* of the store: freed at close */
	unsigned memory_count;
};

/**
 * The device and the tiers of the gathers in this run, from the environment variable
 * RUNG_TEST_DEVICE:
 *   cpu, or unset
 *   cuda-host   no rows on the GPU
 *   cuda-gpu    the first quarter of the rows on the GPU
 *   cuda-peer   half of the rows on three GPUs, the first eighth on each
 * The three GPUs can be one and the same. The test's host budget places the other rows.
 */
bool fixture_on_cuda(void);

/** Whether rows stay in their source (RUNG_TEST_IN_PLACE). Host budgets are then raised by the
 * memory that this needs. */
bool fixture_in_place(void);

/** Plan options for rows of `all_bytes` in total. @param gpus room for the GPU numbers, which the
 * options point to */
struct rung_plan_opts fixture_plan_opts(uint64_t all_bytes, uint64_t host_bytes, int gpus[3]);

/** @param reader_ops NULL: the NVMe tier. @param opts NULL: defaults */
void fixture_open(struct store_fixture *f, uint64_t vertices, uint64_t row_bytes,
                  uint64_t host_bytes, const struct rung_store_opts *opts,
                  const struct rung__reader_ops *reader_ops);

/** The same with rows dealt over `file_count` files, in blocks of a hundredth of the rows. Each
 * file has its own folder: DIR.0, DIR.1 and so on. */
void fixture_open_files(struct store_fixture *f, uint32_t file_count, uint64_t vertices,
                        uint64_t row_bytes, uint64_t host_bytes, const struct rung_store_opts *opts,
                        const struct rung__reader_ops *reader_ops);
void fixture_close(struct store_fixture *f);

/** Ranks: a third anywhere, a third near the last one, a third copies of earlier ones. */
void fixture_random_ids(const struct store_fixture *f, uint64_t *ranks, uint64_t count,
                        uint64_t seed);

/** Memory of the store, filled with 0x5a; freed when the fixture is closed. */
void *fixture_memory(struct store_fixture *f, uint64_t bytes);

/** Free all of it earlier. */
void fixture_free_memories(struct store_fixture *f);

/** A list of ids in memory of the store. */
struct rung_ids fixture_ids(struct store_fixture *f, const void *ids, uint64_t count,
                            enum rung_dtype dtype, enum rung_id_space space);

/** Index of a tier in plans and statistics; ends the program if the device does not have the
 * tier. */
unsigned fixture_tier(const struct store_fixture *f, const char *name);

/** Number of rows in `out`, memory of the store, that do not match the ranks. */
uint64_t fixture_wrong_rows(const struct store_fixture *f, const uint64_t *ranks, uint64_t count,
                            const unsigned char *out, size_t stride);
void fixture_check(const struct store_fixture *f, const uint64_t *ranks, uint64_t count,
                   const unsigned char *out, size_t stride);
void fixture_gather_and_check(struct store_fixture *f, const uint64_t *ranks, uint64_t count);

/** Whether the kernel provides io_uring. */
bool fixture_has_io_uring(void);

#endif

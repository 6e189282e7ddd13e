/* SPDX-License-Identifier: Apache-2.0 */
/** A staged dataset in a temporary folder, a store on it, and the rows it must give. A step that
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
 * Where the gathers of this run take place, from the environment variable RUNG_TEST_DEVICE:
 *   cpu, or unset
 *   cuda-host   no rows on the GPU
 *   cuda-gpu    the first quarter there
 *   cuda-peer   half of them on three GPUs, which may be one and the same, the first eighth on each
 * Other rows are where the test's host budget puts them.
 */
bool fixture_on_cuda(void);

/** Do rows stay in their source (RUNG_TEST_IN_PLACE)? Host budgets are then larger by what that
 * takes, so that as much is left. */
bool fixture_in_place(void);

/** The options of a plan for rows of so many bytes in all. @param gpus room for the numbers of
 * GPUs, which the options point to */
struct rung_plan_opts fixture_plan_opts(uint64_t all_bytes, uint64_t host_bytes, int gpus[3]);

/** @param reader_ops NULL: the NVMe tier. @param opts NULL: defaults */
void fixture_open(struct store_fixture *f, uint64_t vertices, uint64_t row_bytes,
                  uint64_t host_bytes, const struct rung_store_opts *opts,
                  const struct rung__reader_ops *reader_ops);

/** With rows dealt over so many files, in blocks of a hundredth of them: each in a folder of its
 * own, DIR.0, DIR.1 and so on. */
void fixture_open_files(struct store_fixture *f, uint32_t file_count, uint64_t vertices,
                        uint64_t row_bytes, uint64_t host_bytes, const struct rung_store_opts *opts,
                        const struct rung__reader_ops *reader_ops);
void fixture_close(struct store_fixture *f);

/** Ranks: a third anywhere, a third near the last one, a third copies of earlier ones. */
void fixture_random_ids(const struct store_fixture *f, uint64_t *ranks, uint64_t count,
                        uint64_t seed);

/** Memory of the store, freed when the fixture is closed: filled with 0x5a. */
void *fixture_memory(struct store_fixture *f, uint64_t bytes);

/** All of it, before. */
void fixture_free_memories(struct store_fixture *f);

/** A list of ids in memory of the store. */
struct rung_ids fixture_ids(struct store_fixture *f, const void *ids, uint64_t count,
                            enum rung_dtype dtype, enum rung_id_space space);

/** Index among the tiers of plans and statistics; a tier that the device does not have ends the
 * program. */
unsigned fixture_tier(const struct store_fixture *f, const char *name);

/** Count of rows of `out`, memory of the store, that are not those of the ranks. */
uint64_t fixture_wrong_rows(const struct store_fixture *f, const uint64_t *ranks, uint64_t count,
                            const unsigned char *out, size_t stride);
void fixture_check(const struct store_fixture *f, const uint64_t *ranks, uint64_t count,
                   const unsigned char *out, size_t stride);
void fixture_gather_and_check(struct store_fixture *f, const uint64_t *ranks, uint64_t count);

/** True where the kernel gives us a ring. */
bool fixture_has_io_uring(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A store with a cold-row cache that other stores can share. A test has one; a step that fails ends
 * the program.
 */
#ifndef SUPPORT_SHARE_CACHE_FIXTURE_H
#define SUPPORT_SHARE_CACHE_FIXTURE_H

#include <sys/mman.h>

#include <criterion/criterion.h>

#include "cache/state.h"
#include "share_fixture.h"

#define HOST_BYTES   500000
#define CACHE_HEADER 45000 /* of the index, whatever the number of frames */

static struct share_fixture s;
static struct rung_store *creator;
static int private_cache;

/* @param kept  about how many rows the cache holds */
static inline void open_creator(uint64_t kept)
{
	int gpus[3];
	struct rung_plan_opts plan_opts;
	struct rung_store_opts opts = { .size = sizeof(opts),
		                        .vertex_ids = 1,
		                        .share_path = s.path,
		                        .batch_rows_max = 4096,
		                        .private_cache = private_cache };

	share_fixture_open(&s);
	plan_opts = fixture_plan_opts(s.base.vertices * s.base.row_bytes, HOST_BYTES, gpus);
	plan_opts.cache_bytes = CACHE_HEADER + kept * (s.base.row_bytes + 64);
	rung_plan_destroy(s.base.plan);
	cr_assert_eq(rung_plan_create(s.base.ds, &plan_opts, &s.base.plan), 0, "%s",
	             rung_last_error());
	cr_assert_geq(rung_plan_cache(s.base.plan)->row_count, kept * 3 / 4);
	cr_assert_eq(rung_store_open(s.base.ds, s.base.plan, &opts, &creator), 0, "%s",
	             rung_last_error());
}

static inline void close_creator(void)
{
	cr_assert_eq(rung_store_close(creator), 0);
	share_fixture_close(&s);
}

static inline struct rung_store_stats stats_of(const struct rung_store *store)
{
	struct rung_store_stats stats = { .size = sizeof(stats) };

	cr_assert_eq(rung_store_stats(store, &stats), 0);
	cr_assert_eq(stats.cache_hits + stats.joined_rows + stats.read_rows + stats.duplicate_rows +
	                     stats.failed_rows,
	             stats.tiers[fixture_tier(&s.base, "nvme")].hits);
	return stats;
}

static inline uint64_t cold_first(void)
{
	return rung_plan_tier(s.base.plan, fixture_tier(&s.base, "nvme"))->rank_first;
}

static inline struct rung__cache_shape cache_shape(void)
{
	return (struct rung__cache_shape){ cold_first(), s.base.vertices - cold_first(),
		                           creator->shape.frame_count };
}

static inline void *map_index(void)
{
	struct rung__cache_shape shape = cache_shape();
	uint64_t bytes = rung__cache_index_bytes(&shape);

	return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, creator->pool.shared.fd, 0);
}

static inline void gather_in(struct rung_store *store, unsigned rounds)
{
	for (unsigned round = 0; round < rounds; round++)
		share_fixture_check(&s, store, round);
}

#endif

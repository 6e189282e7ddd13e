/* SPDX-License-Identifier: Apache-2.0 */
/** A store that reads ahead, over a scripted reader, and batches of its cold rows. */
#ifndef SUPPORT_WINDOW_FIXTURE_H
#define SUPPORT_WINDOW_FIXTURE_H

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cache/state.h"
#include "refill/state.h"
#include "script_reader.h"
#include "store_fixture.h"

#define ROWS         6000u
#define WIDTH        512u
#define BATCH        120u
#define BATCHES      30u
#define KEPT         1500u /* frames: enough for a window of ten batches */
#define HOST_ROWS    100u  /* besides the cache and HOST_BYTES, which slots need */
#define HOST_BYTES   200000u
#define CACHE_HEADER 45000u /* of the index, whatever the number of frames */
#define HANG_NS      60000000000
#define TIMEOUT_MS   40u

static struct store_fixture f;
static uint32_t files;
static _Atomic int holding;           /* number of reads to hold back */
static bool spared[ROWS];             /* but not reads of these rows of a file */
static _Atomic uint64_t bad_offset;   /* reads over this byte fail; 0: none */
static _Atomic uint32_t short_of_all; /* one read of this many is short; 0: none */

static inline uint64_t row_of(uint64_t offset)
{
	const struct rung__layout *layout = &f.store->shape.layout;

	return (offset - layout->data_offset) / layout->row_stride;
}

static inline void decide(const struct script_read *read, struct script_fate *fate)
{
	const uint64_t bad = atomic_load(&bad_offset);
	const uint32_t one_of = atomic_load(&short_of_all);

	fate->held = atomic_load(&holding) > 0 && !spared[row_of(read->fetch.offset)] &&
	             atomic_fetch_sub(&holding, 1) > 0;
	if (bad >= read->fetch.offset && bad < read->fetch.offset + read->fetch.bytes)
		fate->err = bad ? ENODATA : 0;
	if (one_of && read->number % one_of == 0)
		fate->bytes_max = read->fetch.bytes / 2;
}

/* Stage the dataset; the store that the fixture opens is closed again. */
static inline void stage(uint32_t file_count, uint64_t width)
{
	struct rung_store_opts opts = { .size = sizeof(opts), .batch_rows_max = 256 };

	script_reset();
	files = fixture_in_place() ? 1 : file_count; /* rows in place are in one file */
	fixture_open_files(&f, files, ROWS, width, RUNG_BYTES_MAX, &opts, &script_reader);
	cr_assert_eq(rung_store_close(f.store), 0);
	f.store = NULL;
}

/* @param kept  about how many rows the cache holds */
static inline void open_store(uint64_t kept, struct rung_store_opts opts)
{
	int gpus[3];
	const uint64_t cache_bytes = CACHE_HEADER + kept * (f.row_bytes + 64);
	struct rung_plan_opts plan_opts = fixture_plan_opts(
		ROWS * f.row_bytes, cache_bytes + HOST_BYTES + HOST_ROWS * f.row_bytes, gpus);

	script_reset();
	script.decide = decide;
	script.merge_gap_bytes = (uint32_t)(3 * f.row_bytes);
	atomic_store(&holding, 0);
	memset(spared, 0, sizeof(spared));
	atomic_store(&bad_offset, 0);
	atomic_store(&short_of_all, 0);
	opts.size = sizeof(opts);
	opts.vertex_ids = fixture_in_place();
	opts.batch_rows_max = 512;
	opts.requests_max = 8;
	plan_opts.cache_bytes = cache_bytes;
	rung_plan_destroy(f.plan);
	cr_assert_eq(rung_plan_create(f.ds, &plan_opts, &f.plan), 0, "%s", rung_last_error());
	/* on a GPU fewer rows are cold */
	cr_assert_geq(
		rung_plan_cache(f.plan)->row_count,
		RUNG__MIN(kept * 3 / 4,
	                  rung_plan_tier(f.plan, fixture_tier(&f, "nvme"))->row_count * 3 / 4));
	cr_assert_eq(rung__store_open_over(f.ds, f.plan, &opts, &script_reader, &f.store), 0, "%s",
	             rung_last_error());
}

static struct rung_store_stats stats_now(void)
{
	struct rung_store_stats stats = { .size = sizeof(stats) };

	cr_assert_eq(rung_store_stats(f.store, &stats), 0);
	return stats;
}

static inline bool is_sweeping(void)
{
	bool owed = false;

	for (uint32_t i = 0; i < files; i++)
		owed |= __atomic_load_n(&f.store->refills[i]->ahead.owed, __ATOMIC_RELAXED) > 0;
	return owed || stats_now().reads_in_flight > 0;
}

/* Wait until the sweep has read what it may for now. */
static inline void await_reads(void)
{
	unsigned ended = 0; /* twice: between two reads none is in flight */

	for (unsigned tries = 0; tries < 60000 && ended < 2; tries++) {
		ended = is_sweeping() ? 0 : ended + 1;
		usleep(200);
	}
	cr_assert_eq(ended, 2);
}

/* Frames that this process pins or reads into. On a device they are pinned until it has copied
 * them. */
static inline uint32_t held_frames(void)
{
	struct rung__cache *cache = f.store->cache;
	uint32_t held = 0;

	rung__cache_lock(cache);
	for (uint32_t i = 0; i < cache->frame_count; i++)
		held += cache->held[i] != 0 || cache->frames[i].pins != 0;
	rung__cache_unlock(cache);
	return held;
}

/* Each requested cold row is counted once, and no frame is left in use. */
static inline void check_all(void)
{
	struct rung_store_stats stats;

	fixture_free_memories(&f);
	await_reads();
	stats = stats_now();
	cr_assert_eq(stats.cache_hits + stats.joined_rows + stats.read_rows + stats.duplicate_rows +
	                     stats.failed_rows,
	             stats.tiers[fixture_tier(&f, "nvme")].hits);
	for (unsigned tries = 0; tries < 60000 && held_frames() > 0; tries++)
		usleep(1000);
	cr_assert_eq(held_frames(), 0);
}

static inline void close_store(void)
{
	check_all();
	cr_assert_eq(rung_store_close(f.store), 0);
	f.store = NULL;
	cr_assert_eq(atomic_load(&script.violations), 0);
	cr_assert_eq(atomic_load(&script.sent), atomic_load(&script.ended));
}

static inline uint64_t cold_first(void)
{
	return rung_plan_tier(f.plan, fixture_tier(&f, "nvme"))->rank_first;
}

/* The ranks of batch n: cold rows, each at most once. */
static inline const uint64_t *ranks_of(uint64_t n)
{
	static uint64_t ranks[BATCH];
	const uint64_t first = cold_first();
	bool taken[ROWS] = { false };

	for (uint64_t i = 0, draws = 0; i < BATCH; draws++) {
		const uint64_t rank = first + rung__mix64(n << 32 | draws) % (ROWS - first);

		if (!taken[rank])
			ranks[i++] = rank;
		taken[rank] = true;
	}
	return ranks;
}

static inline void announce(uint64_t n)
{
	const struct rung_ids list = { ranks_of(n), BATCH, RUNG_U64, RUNG_RANKS };

	cr_assert_eq(rung_prefetch(f.store, &list), 0, "%s", rung_last_error());
}

static struct rung_request *submit(uint64_t n, unsigned char **out)
{
	struct rung_ids list = fixture_ids(&f, ranks_of(n), BATCH, RUNG_U64, RUNG_RANKS);
	struct rung_request *request = NULL;

	*out = fixture_memory(&f, BATCH * f.row_bytes);
	cr_assert_eq(rung_gather_submit(f.store, &list, *out, 0, NULL, &request), 0, "%s",
	             rung_last_error());
	return request;
}

/* @return the status of the gather; its rows are right if it is 0 */
static inline int gather(uint64_t n)
{
	unsigned char *out;
	struct rung_request *request = submit(n, &out);
	const int rc = rung_request_wait(request, HANG_NS);

	cr_assert(rc == 0 || rc == RUNG_E_IO, "%d: %s", rc, rung_last_error());
	if (rc == 0)
		fixture_check(&f, ranks_of(n), BATCH, out, (size_t)f.row_bytes);
	rung_request_put(request);
	fixture_free_memories(&f);
	return rc;
}

/* Gather batches 0 .. count, each announced `ahead` batches before. */
static inline void gather_all(uint64_t count, uint64_t ahead)
{
	for (uint64_t n = 0, known = 0; n < count; n++) {
		for (; known < BATCHES && known <= n + ahead; known++)
			announce(known);
		cr_assert_eq(gather(n), 0, "%s", rung_last_error());
		await_reads();
	}
}

#endif

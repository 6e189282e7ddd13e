/* SPDX-License-Identifier: Apache-2.0 */
/* Features dealt over several files, and several refill threads per file: one store, with a queue
 * per thread. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dataset.h"
#include "refill/state.h"
#include "store_fixture.h"

#define VERTICES 1500u /* blocks of 16 rows: the last one is partial */
#define ASKED    700u

static struct store_fixture f;

/* Whether three or more files have three ranges of ranks, instead of all being striped. */
static bool in_ranges(void)
{
	return getenv("RUNG_TEST_RANGES") != NULL;
}

static void open_files(uint32_t file_count, uint64_t row_bytes, uint64_t host_bytes,
                       const struct rung_store_opts *opts)
{
	fixture_open_files(&f, file_count, VERTICES, row_bytes, host_bytes, opts, NULL);
}

static struct rung_store_stats stats_of(const struct store_fixture *fixture)
{
	struct rung_store_stats stats = { .size = sizeof(stats) };

	cr_assert_eq(rung_store_stats(fixture->store, &stats), 0);
	return stats;
}

static void gather_twice(uint64_t seed)
{
	uint64_t ids[ASKED];

	for (unsigned turn = 0; turn < 2; turn++) {
		fixture_random_ids(&f, ids, ASKED, seed);
		fixture_gather_and_check(&f, ids, ASKED);
	}
}

Test(store_files, rows_arrive_whole_from_every_file)
{
	static const uint64_t widths[] = { 512, 1000, 4096 };

	/* 2, 5, 14 */
	for (uint32_t file_count = 2; file_count <= RUNG_FEATURE_FILES_MAX;
	     file_count = file_count * 3 - 1) {
		for (unsigned w = 0; w < RUNG__ARRAY_LEN(widths); w++) {
			open_files(file_count, widths[w], 4u << 20, NULL);
			cr_assert_eq(rung_dataset_info(f.ds)->feature_file_count, file_count);
			gather_twice(w);
			fixture_close(&f);
			open_files(file_count, widths[w],
			           rung__row_span(widths[w], widths[w], 4096, 4096) * 4 *
			                   file_count,
			           NULL);
			gather_twice(w);
			cr_assert_gt(stats_of(&f).read_rows, 0);
			fixture_close(&f);
		}
	}
}

Test(store_files, every_engine_and_way_to_read)
{
	struct rung_store_opts opts = RUNG_STORE_OPTS_INIT;

	opts.engine = RUNG_ENGINE_PREAD;
	opts.no_merge = 1;
	open_files(3, 512, 96u << 10, &opts);
	gather_twice(1);
	cr_assert_str_eq(stats_of(&f).engine, "pread");
	fixture_close(&f);
	opts.buffered = 1;
	open_files(3, 512, 96u << 10, &opts);
	gather_twice(2);
	cr_assert_eq(stats_of(&f).direct, 0);
	fixture_close(&f);
}

/* Every thread reads, and all of them together read each row once. */
static void check_threads(uint32_t file_count, uint32_t threads, enum rung_engine engine)
{
	struct rung_store_opts opts = RUNG_STORE_OPTS_INIT;
	struct rung_store_stats stats;
	uint64_t ids[ASKED];

	opts.refill_threads = threads;
	opts.engine = engine;
	open_files(file_count, 4096, 2u << 20, &opts);
	stats = stats_of(&f);
	cr_assert_eq(stats.refill_threads, threads);
	cr_assert_eq(f.store->refill_count, threads * file_count);
	cr_assert_leq(stats.queue_depth * file_count, rung_plan_slots(f.plan)->slot_count);
	for (unsigned seed = 0; seed < 4; seed++) {
		fixture_random_ids(&f, ids, ASKED, seed);
		fixture_gather_and_check(&f, ids, ASKED);
	}
	stats = stats_of(&f);
	cr_assert_eq(stats.cache_hits + stats.joined_rows + stats.read_rows + stats.duplicate_rows,
	             stats.tiers[fixture_tier(&f, "nvme")].hits);
	cr_assert_eq(stats.reads_in_flight, 0);
	/* GPUs, and the ranges of hot rows, leave so few cold rows that some blocks have none of
	 * those that are requested */
	for (uint32_t r = 0; r < f.store->refill_count && !fixture_on_cuda() && !in_ranges(); r++)
		cr_assert_gt(f.store->watch->page->files[r].counters.read_rows, 0,
		             "thread %u of %u", r, f.store->refill_count);
	fixture_close(&f);
}

Test(store_files, several_threads_read_a_file)
{
	check_threads(1, 2, RUNG_ENGINE_PREAD);
	check_threads(1, 3, RUNG_ENGINE_AUTO);
	check_threads(2, 2, RUNG_ENGINE_AUTO);
	check_threads(3, 5, RUNG_ENGINE_PREAD);
}

Test(store_files, threads_are_limited_by_counters_and_slots)
{
	struct rung_store_opts opts = RUNG_STORE_OPTS_INIT;

	if (fixture_on_cuda())
		cr_skip("with rows on GPUs the slots are others");
	opts.refill_threads = 1000;
	open_files(3, 4096, 2u << 20, &opts);
	cr_assert_eq(stats_of(&f).refill_threads, RUNG_FEATURE_FILES_MAX / 3);
	gather_twice(1);
	fixture_close(&f);
	open_files(1, 1000, 8192 * 4, &opts); /* four slots */
	cr_assert_eq(stats_of(&f).refill_threads, 1);
	gather_twice(1);
	fixture_close(&f);
	open_files(1, 1000, 1u << 20, &opts);
	cr_assert_leq(stats_of(&f).refill_threads * 4, rung_plan_slots(f.plan)->slot_count);
	gather_twice(1);
	fixture_close(&f);
	opts.queue_depth = 2;
	open_files(1, 1000, 1u << 20, &opts);
	cr_assert_eq(stats_of(&f).refill_threads, 2);
	gather_twice(1);
	fixture_close(&f);
}

/* Rows that are near each other in the file have the same thread, except at the border of a block;
 * blocks are dealt evenly. */
Test(store_files, blocks_of_a_file_are_dealt_to_its_threads)
{
	static const uint64_t sizes[] = { 1u << 18, 100000000, 10000000000 };

	for (unsigned s = 0; s < RUNG__ARRAY_LEN(sizes); s++) {
		struct rung__layout layout = { .data_offset = 4096,
			                       .row_stride = 512,
			                       .row_bytes = 512,
			                       .file_count = 1,
			                       .file_bytes = { sizes[s] } };

		for (uint32_t threads = 1; threads <= 8; threads++) {
			const uint64_t rows = (sizes[s] - 4096) / 512, step = rows / 3000000 + 1;
			uint64_t counts[8] = { 0 }, borders = 0, blocks;

			for (uint64_t rank = 0; rank + 1 < rows; rank += step) {
				uint64_t refill = rung__row_refill(&layout, threads, rank);

				cr_assert_lt(refill, threads);
				counts[refill]++;
				borders += refill != rung__row_refill(&layout, threads, rank + 1);
			}
			blocks = (sizes[s] >> rung__deal_shift(sizes[s], threads)) + 1;
			cr_assert_leq(borders, threads == 1 ? 0 : blocks);
			for (uint32_t t = 0; t < threads && blocks > 8ull * threads; t++)
				cr_assert(counts[t] * step > rows / threads * 3 / 4 &&
				                  counts[t] * step < rows / threads * 5 / 4,
				          "thread %u of %u: %lu of %lu rows", t, threads,
				          counts[t] * step, rows);
		}
	}
}

Test(store_files, the_slots_of_all_files_are_in_the_budget)
{
	uint64_t budget = 200u << 10;
	const struct rung_plan_slots *slots;
	struct rung_plan_opts opts = RUNG_PLAN_OPTS_INIT;
	struct rung_plan *plan;

	open_files(4, 1000, budget, NULL);
	slots = rung_plan_slots(f.plan);
	cr_assert_eq(slots->slot_count % 4, 0);
	cr_assert_leq(slots->slot_count * slots->slot_bytes + rung_plan_cache(f.plan)->bytes +
	                      rung_plan_tier(f.plan, fixture_tier(&f, "host"))->bytes,
	              budget);
	opts.host_bytes = 8192 * 4 * 4 - 1; /* a row may cross two pages; 4 slots per file */
	cr_assert_eq(rung_plan_create(f.ds, &opts, &plan), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "at least 131072 bytes"), "%s", rung_last_error());
	fixture_close(&f);
}

Test(store_files, the_counters_cover_all_files)
{
	uint64_t ids[ASKED], cold = 0;
	struct rung_store_stats stats;

	open_files(3, 512, 64u << 10, NULL);
	fixture_random_ids(&f, ids, ASKED, 3);
	for (unsigned i = 0; i < ASKED; i++)
		cold += ids[i] >= f.store->shape.tiers[RUNG__TIER_NVME].rank_first;
	fixture_gather_and_check(&f, ids, ASKED);
	stats = stats_of(&f);
	cr_assert_gt(cold, 0);
	cr_assert_eq(stats.tiers[fixture_tier(&f, "nvme")].hits, cold);
	cr_assert_eq(stats.cache_hits + stats.joined_rows + stats.read_rows + stats.duplicate_rows +
	                     stats.failed_rows,
	             cold);
	cr_assert_eq(stats.failed_rows, 0);
	cr_assert_leq(stats.device_reads, stats.read_rows);
	fixture_close(&f);
}

Test(store_files, each_range_has_its_timeout)
{
	const uint32_t timeouts[] = { 5000, 0, 7000 };
	struct rung_store_opts opts = RUNG_STORE_OPTS_INIT;

	if (!in_ranges())
		cr_skip_test("there is one range");
	opts.read_timeout_ms = 9000;
	opts.range_timeouts_ms = timeouts;
	opts.range_timeout_count = 3;
	open_files(4, 512, 64u << 10, &opts);
	for (uint32_t r = 0; r < f.store->refill_count; r++) {
		const struct rung__refill *refill = f.store->refills[r];
		const uint32_t ms = refill->file_idx == 0   ? 5000
		                    : refill->file_idx == 1 ? 9000
		                                            : 7000;

		cr_assert_eq(refill->timeout_ns, ms * 1000000ull);
	}
	cr_assert_eq(stats_of(&f).file_count, 4);
	for (uint32_t file = 0; file < 4; file++)
		cr_assert_str_eq(stats_of(&f).file_engines[file], stats_of(&f).engine);
	gather_twice(1);
	fixture_close(&f);
}

Test(store_files, batches_can_be_announced)
{
	struct rung_plan_opts plan_opts = RUNG_PLAN_OPTS_INIT;
	uint64_t ids[4][ASKED];
	struct rung_plan *plan;
	struct rung_store *own;

	open_files(3, 512, 64u << 10, NULL);
	if (fixture_on_cuda()) {
		fixture_close(&f);
		cr_skip_test("the plan below is one of the CPU's");
	}
	plan_opts.host_bytes = 400u << 10;
	plan_opts.cache_bytes = RUNG_BYTES_MAX;
	cr_assert_eq(rung_plan_create(f.ds, &plan_opts, &plan), 0, "%s", rung_last_error());
	own = f.store;
	cr_assert_eq(rung_store_open(f.ds, plan, NULL, &f.store), 0, "%s", rung_last_error());
	for (unsigned b = 0; b < 4; b++) {
		struct rung_ids list = { ids[b], ASKED, RUNG_U64, RUNG_RANKS };

		fixture_random_ids(&f, ids[b], ASKED, b % 2);
		cr_assert_eq(rung_prefetch(f.store, &list), 0, "%s", rung_last_error());
	}
	for (unsigned b = 0; b < 4; b++)
		fixture_gather_and_check(&f, ids[b], ASKED);
	cr_assert_gt(stats_of(&f).cache_hits, 0);
	cr_assert_eq(rung_store_close(f.store), 0);
	f.store = own;
	rung_plan_destroy(plan);
	fixture_close(&f);
}

Test(store_files, a_truncated_file_fails_its_own_rows_and_is_named)
{
	struct rung_store_opts opts = RUNG_STORE_OPTS_INIT;
	const struct rung__layout *layout;
	char path[400];
	unsigned bad = 0;

	if (in_ranges())
		cr_skip_test("the file has few of the rows that are requested");
	opts.no_merge = 1;
	open_files(3, 4096, 64u << 10, &opts);
	layout = &f.store->shape.layout;
	snprintf(path, sizeof(path), "%s.1/features.001.npy", f.dir);
	cr_assert_eq(truncate(path, 4096 + 20 * 4096), 0); /* keeps its first twenty rows */
	for (uint64_t rank = VERTICES - 200; rank < VERTICES; rank++) {
		struct rung_ids ids = fixture_ids(&f, &rank, 1, RUNG_U64, RUNG_RANKS);
		unsigned char *out = fixture_memory(&f, 4096);
		int rc = rung_gather(f.store, &ids, out, 0);

		if (rung__row_file(layout, rank) == 1) {
			cr_assert_eq(rc, RUNG_E_IO);
			cr_assert(strstr(rung_last_error(), "features.001.npy"), "%s",
			          rung_last_error());
			cr_assert(strstr(rung_last_error(), "truncated"), "%s", rung_last_error());
			bad++;
		} else {
			cr_assert_eq(rc, 0, "%s", rung_last_error());
			fixture_check(&f, &rank, 1, out, 4096);
		}
		fixture_free_memories(&f);
	}
	cr_assert_gt(bad, 50);
	cr_assert_eq(stats_of(&f).failed_rows, bad);
	fixture_close(&f);
}

Test(store_files, all_files_are_shared_with_other_processes)
{
	struct rung_store_opts opts = RUNG_STORE_OPTS_INIT;
	struct rung_store *shared, *own;
	char path[300];

	open_files(3, 512, 128u << 10, NULL);
	if (fixture_on_cuda()) {
		fixture_close(&f);
		cr_skip_test("attaches inside one process, which CUDA IPC does not support");
	}
	snprintf(path, sizeof(path), "%s/share/s", f.parent);
	opts.share_path = path;
	cr_assert_eq(rung_store_open(f.ds, f.plan, &opts, &shared), 0, "%s", rung_last_error());
	own = f.store;
	cr_assert_eq(rung_store_attach(path, NULL, &f.store), 0, "%s", rung_last_error());
	gather_twice(5);
	cr_assert_eq(rung_store_close(f.store), 0);
	cr_assert_eq(rung_store_close(shared), 0);
	f.store = own;
	fixture_close(&f);
}

Test(store_files, contents_and_source_are_verified)
{
	struct rung_verify_opts opts = RUNG_VERIFY_OPTS_INIT;
	struct rung_verify_report report;
	char source[400], path[400];
	unsigned char *bytes;
	size_t count;

	open_files(5, 1000, 256u << 10, NULL);
	snprintf(source, sizeof(source), "%s/features.npy", f.parent);
	opts.source = source;
	cr_assert_eq(rung_dataset_verify(f.dir, &opts, &report), 0, "%s", rung_last_error());
	cr_assert_eq(report.rows_compared, VERTICES);
	rung_verify_report_fini(&report);
	snprintf(path, sizeof(path), "%s.3/features.003.npy", f.dir);
	bytes = support_read_file(path, &count);
	bytes[count - 1] ^= 1;
	cr_assert_eq(support_write_file(path, bytes, count), 0);
	free(bytes);
	cr_assert_eq(rung_dataset_verify(f.dir, &opts, &report), RUNG_E_CORRUPT);
	cr_assert_eq(report.bad_count, 1);
	cr_assert_str_eq(report.bad[0].file, "features.003.npy");
	cr_assert_eq(report.rows_different, 1);
	rung_verify_report_fini(&report);
	fixture_close(&f);
}

Test(store_files, a_missing_file_is_reported_at_open)
{
	struct rung_dataset *ds;
	char path[400];

	open_files(3, 512, 128u << 10, NULL);
	snprintf(path, sizeof(path), "%s.2/features.002.npy", f.dir);
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(rung_dataset_open(f.dir, &ds), RUNG_E_FORMAT);
	cr_assert(strstr(rung_last_error(), "features.002.npy: is missing"), "%s",
	          rung_last_error());
	fixture_close(&f);
}

/* An independent reader of the folder, which uses only the description of the format. */
Test(store_files, the_command_finds_no_row_wrong)
{
	const char *rung = getenv("RUNG");
	char line[1400];

	if (!rung)
		cr_skip_test("RUNG is not set to a command");
	open_files(3, 1000, 128u << 10, NULL);
	snprintf(line, sizeof(line),
	         "'%s' bench '%s' --host 256KiB --ids uniform --rows 5000 --check --quiet > "
	         "'%s/out' && "
	         "'%s' info '%s' | grep -q '%s'",
	         rung, f.dir, f.parent, rung, f.dir,
	         in_ranges() ? "ranks 500 to 749 in features.001.npy"
	                     : "in 3 files, striped in blocks of 16 rows");
	cr_assert_eq(system(line), 0);
	fixture_close(&f);
}

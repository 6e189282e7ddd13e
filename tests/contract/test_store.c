/* SPDX-License-Identifier: Apache-2.0 */
/* The store compared with rows computed from their vertex: every engine, budget and id type, and
 * every reason for which a request is refused. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store_fixture.h"

struct setting {
	uint64_t vertices, row_bytes, host_bytes;
	enum rung_engine engine;
	int buffered, no_merge;
};

/* Budgets: the least that holds the slots, about half, all rows. Widths: below, at, across and
 * above a sector and a page. */
ParameterizedTestParameters(store, rows_arrive_whole)
{
	static const uint64_t widths[] = { 1, 4, 100, 400, 512, 1200, 1536, 4096, 5000 };
	static struct setting settings[RUNG__ARRAY_LEN(widths) * 7];
	size_t n = 0;

	for (size_t w = 0; w < RUNG__ARRAY_LEN(widths); w++) {
		/* simulated GPUs are slow */
		uint64_t vertices = fixture_on_cuda() ? 2000 : 6000, bytes = widths[w] * vertices;
		uint64_t least = 4 * rung__row_span(widths[w], widths[w], 4096, 4096);
		enum rung_engine engines[] = { RUNG_ENGINE_IO_URING, RUNG_ENGINE_PREAD };

		for (size_t e = 0; e < 2; e++) {
			settings[n++] =
				(struct setting){ vertices, widths[w], least, engines[e], 0, 0 };
			if (fixture_on_cuda()) /* the ways to read rows are tested on the CPU */
				continue;
			settings[n++] = (struct setting){
				vertices, widths[w], RUNG__MAX(least, bytes / 2), engines[e], 0, 1
			};
			settings[n++] = (struct setting){
				vertices, widths[w], RUNG__MAX(least, bytes / 3), engines[e], 1, 0
			};
		}
		settings[n++] = (struct setting){ vertices,         widths[w], RUNG_BYTES_MAX,
			                          RUNG_ENGINE_AUTO, 0,         0 };
	}
	return cr_make_param_array(struct setting, settings, n);
}

ParameterizedTest(struct setting *setting, store, rows_arrive_whole)
{
	struct rung_store_opts opts = { .size = sizeof(opts),
		                        .engine = setting->engine,
		                        .buffered = setting->buffered,
		                        .no_merge = setting->no_merge };
	struct store_fixture f;
	uint64_t ids[3000];

	if (setting->engine == RUNG_ENGINE_IO_URING && !fixture_has_io_uring())
		cr_skip_test("io_uring is not available here");
	fixture_open(&f, setting->vertices, setting->row_bytes, setting->host_bytes, &opts, NULL);
	for (unsigned round = 0; round < (fixture_on_cuda() ? 1 : 3); round++) {
		fixture_random_ids(&f, ids, RUNG__ARRAY_LEN(ids), round);
		fixture_gather_and_check(&f, ids, RUNG__ARRAY_LEN(ids));
	}
	fixture_close(&f);
}

Test(store, a_batch_larger_than_the_slot_pool_streams_through_it)
{
	struct rung_store_opts opts = { .size = sizeof(opts) };
	struct store_fixture f;
	uint64_t *ids = malloc(100000 * sizeof(*ids));

	fixture_open(&f, 20000, 512, 4 * 4096, &opts, NULL);
	cr_assert_eq(rung_plan_slots(f.plan)->slot_count, 4);
	fixture_random_ids(&f, ids, 100000, 1);
	fixture_gather_and_check(&f, ids, 100000);
	free(ids);
	fixture_close(&f);
}

Test(store, a_list_longer_than_a_request_is_split_by_rung_gather)
{
	struct rung_store_opts opts = { .size = sizeof(opts), .batch_rows_max = 100 };
	struct rung_request *request;
	struct store_fixture f;
	uint64_t ids[1050];
	struct rung_ids list;

	fixture_open(&f, 3000, 100, 40000, &opts, NULL);
	fixture_random_ids(&f, ids, RUNG__ARRAY_LEN(ids), 5);
	fixture_gather_and_check(&f, ids, RUNG__ARRAY_LEN(ids));
	list = fixture_ids(&f, ids, 101, RUNG_U64, RUNG_RANKS);
	cr_assert_eq(rung_gather_submit(f.store, &list, fixture_memory(&f, 101 * 100), 0, NULL,
	                                &request),
	             RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "101 ids"));
	fixture_close(&f);
}

Test(store, requests_beyond_the_maximum_in_flight_are_refused)
{
	struct rung_store_opts opts = { .size = sizeof(opts), .requests_max = 3 };
	struct rung_request *requests[4];
	struct store_fixture f;
	unsigned char *out[4];
	uint64_t ids[4][500];

	fixture_open(&f, 5000, 1200, 100000, &opts, NULL);
	for (unsigned i = 0; i < 4; i++) {
		struct rung_ids list;
		int rc;

		out[i] = fixture_memory(&f, 500 * 1200);
		fixture_random_ids(&f, ids[i], 500, i);
		list = fixture_ids(&f, ids[i], 500, RUNG_U64, RUNG_RANKS);
		rc = rung_gather_submit(f.store, &list, out[i], 0, NULL, &requests[i]);
		cr_assert_eq(rc, i < 3 ? 0 : RUNG_E_AGAIN);
	}
	for (unsigned i = 0; i < 3; i++) {
		cr_assert_eq(rung_request_wait(requests[i], -1), 0, "%s", rung_last_error());
		cr_assert_eq(rung_request_poll(requests[i]), 1);
		cr_assert_str_empty(rung_request_error(requests[i]));
		fixture_check(&f, ids[i], 500, out[i], 1200);
		rung_request_put(requests[i]);
	}
	fixture_close(&f);
}

Test(store, ids_of_every_type_and_space_name_the_same_rows)
{
	static const enum rung_dtype dtypes[] = { RUNG_I32, RUNG_U32, RUNG_I64, RUNG_U64 };
	struct rung_store_opts opts = { .size = sizeof(opts), .vertex_ids = 1 };
	struct store_fixture f;
	uint64_t ids[400];

	fixture_open(&f, 2000, 100, 60000, &opts, NULL);
	fixture_random_ids(&f, ids, 400, 9);
	for (size_t t = 0; t < RUNG__ARRAY_LEN(dtypes); t++) {
		unsigned char *out = fixture_memory(&f, 400 * 128);
		struct rung_ids list;
		uint64_t packed[400];

		for (unsigned i = 0; i < 400; i++)
			rung__id_set(packed, (unsigned)rung_dtype_bytes(dtypes[t]), i,
			             f.vertex_of_rank[ids[i]]);
		list = fixture_ids(&f, packed, 400, dtypes[t], RUNG_VERTICES);
		cr_assert_eq(rung_gather(f.store, &list, out, 128), 0, "%s", rung_last_error());
		fixture_check(&f, ids, 400, out, 128);
	}
	fixture_close(&f);
}

Test(store, ids_out_of_range_are_named_and_never_read)
{
	struct rung_store_opts opts = { .size = sizeof(opts), .vertex_ids = 1 };
	struct rung_request *request = NULL;
	struct store_fixture f;
	unsigned char *out;
	uint64_t wide[4] = { 0, 1, 1000, 2 };
	int32_t narrow[4] = { 0, 1, 2, -7 };
	struct rung_ids list;
	int rc;

	fixture_open(&f, 1000, 64, 20000, &opts, NULL);
	out = fixture_memory(&f, 4 * 64);
	list = fixture_ids(&f, wide, 4, RUNG_U64, RUNG_RANKS);
	rc = rung_gather_submit(f.store, &list, out, 0, NULL, &request);
	if (rc == 0) /* a GPU reports it later */
		rc = rung_request_wait(request, -1);
	cr_assert_eq(rc, RUNG_E_RANGE);
	cr_assert(strstr(rung_last_error(), "id 1000 at index 2 is not in 0..999"), "%s",
	          rung_last_error());
	rung_request_put(request);
	list = fixture_ids(&f, narrow, 4, RUNG_I32, RUNG_VERTICES);
	cr_assert_eq(rung_gather(f.store, &list, out, 0), RUNG_E_RANGE);
	cr_assert(strstr(rung_last_error(), "id -7 at index 3"), "%s", rung_last_error());
	wide[2] = UINT64_MAX;
	list = fixture_ids(&f, wide, 4, RUNG_U64, RUNG_VERTICES);
	cr_assert_eq(rung_gather(f.store, &list, out, 0), RUNG_E_RANGE);
	fixture_random_ids(&f, wide, 4, 1); /* and the store still works */
	fixture_gather_and_check(&f, wide, 4);
	fixture_close(&f);
}

Test(store, an_id_out_of_range_is_counted_from_the_start_of_a_split_list)
{
	struct rung_store_opts opts = { .size = sizeof(opts), .batch_rows_max = 10 };
	struct store_fixture f;
	uint64_t ids[40] = { 0 };
	struct rung_ids list;

	fixture_open(&f, 1000, 64, 20000, &opts, NULL);
	ids[37] = 5000;
	list = fixture_ids(&f, ids, 40, RUNG_I64, RUNG_RANKS);
	cr_assert_eq(rung_gather(f.store, &list, fixture_memory(&f, 40 * 64), 0), RUNG_E_RANGE);
	cr_assert(strstr(rung_last_error(), "id 5000 at index 37 is not in 0..999"), "%s",
	          rung_last_error());
	fixture_close(&f);
}

Test(store, callers_mistakes_are_reported)
{
	struct rung_store_opts opts = { .size = sizeof(opts) };
	struct rung_store_stats stats = { .size = sizeof(stats) + 8 };
	struct store_fixture f;
	unsigned char *out;
	float ids[1] = { 0 };
	struct rung_ids list;

	fixture_open(&f, 1000, 64, 20000, &opts, NULL);
	out = fixture_memory(&f, 64);
	list = fixture_ids(&f, ids, 1, RUNG_F32, RUNG_RANKS);
	cr_assert_eq(rung_gather(f.store, &list, out, 0), RUNG_E_INVAL);
	list.dtype = RUNG_U32;
	cr_assert_eq(rung_gather(f.store, &list, out, 63), RUNG_E_INVAL);
	list.space = RUNG_VERTICES;
	cr_assert_eq(rung_gather(f.store, &list, out, 0), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "vertex_ids"));
	list = (struct rung_ids){ NULL, 0, RUNG_U64, RUNG_RANKS };
	cr_assert_eq(rung_gather(f.store, &list, NULL, 0), 0);
	cr_assert_eq(rung_store_stats(f.store, &stats), RUNG_E_ABI);
	fixture_close(&f);
}

Test(store, a_budget_too_small_for_the_slots_names_the_minimum)
{
	struct rung_plan_opts opts = { .size = sizeof(opts), .host_bytes = 100 };
	struct rung_plan *plan;
	struct store_fixture f;

	if (fixture_in_place())
		cr_skip_test("unit/test_stage_in_place tests the minimum for rows in place");
	fixture_open(&f, 3000, 512, RUNG_BYTES_MAX, NULL, NULL);
	cr_assert_eq(rung_plan_create(f.ds, &opts, &plan), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "give at least 16384 bytes"), "%s", rung_last_error());
	opts.host_bytes = 16384;
	cr_assert_eq(rung_plan_create(f.ds, &opts, &plan), 0);
	cr_assert_eq(rung_plan_tier(plan, 0)->row_count, 0);
	cr_assert_eq(rung_plan_tier(plan, 1)->row_count, 3000);
	rung_plan_destroy(plan);
	fixture_close(&f);
}

Test(store, counters_add_up)
{
	struct rung_store_opts opts = { .size = sizeof(opts) };
	struct rung_store_stats stats = { .size = sizeof(stats) };
	struct store_fixture f;
	uint64_t ids[2000], latencies = 0, rows = 0;

	fixture_open(&f, 4000, 512, 4000 * 512 / 4, &opts, NULL);
	for (unsigned i = 0; i < 1000; i++)
		ids[i] = ids[1999 - i] = f.vertices - 1 - i; /* cold, each twice, all adjacent */
	fixture_gather_and_check(&f, ids, 2000);
	cr_assert_eq(rung_store_stats(f.store, &stats), 0);
	for (unsigned t = 0; t < stats.tier_count; t++) {
		rows += stats.tiers[t].rows;
		cr_assert_eq(stats.tiers[t].hits, t == fixture_tier(&f, "nvme") ? 2000 : 0);
	}
	cr_assert_eq(rows, 4000);
	cr_assert_eq(stats.duplicate_rows, 1000);
	cr_assert_eq(stats.requests, 1);
	if (!fixture_in_place()) { /* adjacent ranks are stored together */
		cr_assert_eq(stats.merged_rows, 1000);
		/* eight rows per page-sized slot; one end may be partial */
		cr_assert_leq(stats.device_reads, 1000 / 7 + 2);
	}
	cr_assert_geq(stats.device_read_bytes, 1000 * 512);
	for (unsigned b = 0; b < RUNG_LATENCY_BUCKETS; b++)
		latencies += stats.latency[b];
	cr_assert_eq(latencies, 1);
	fixture_close(&f);
}

Test(store, open_fails_cleanly_however_few_allocations_succeed)
{
	struct rung_store_opts opts = { .size = sizeof(opts), .vertex_ids = 1 };
	struct rung_store *store;
	struct store_fixture f;
	int64_t allowed = 0;
	int rc;

	fixture_open(&f, 1000, 100, 40000, &opts, NULL);
	do {
		rung__alloc_limit(allowed++);
		rc = rung_store_open(f.ds, f.plan, &opts, &store);
		rung__alloc_limit(-1);
		cr_assert(rc == 0 || rc == RUNG_E_NOMEM || rc == RUNG_E_IO, "%s: %s",
		          rung_status_name(rc), rung_last_error());
		cr_assert_lt(allowed, 1000);
	} while (rc < 0);
	cr_assert_gt(allowed, 10);
	cr_assert_eq(rung_store_close(store), 0);
	fixture_close(&f);
}

Test(store, outlives_its_dataset_and_plan)
{
	struct rung_store_opts opts = { .size = sizeof(opts) };
	struct store_fixture f;
	uint64_t ids[300];

	fixture_open(&f, 2000, 400, 60000, &opts, NULL);
	rung_plan_destroy(f.plan);
	rung_dataset_close(f.ds);
	f.plan = NULL;
	f.ds = NULL;
	fixture_random_ids(&f, ids, 300, 2);
	fixture_gather_and_check(&f, ids, 300);
	fixture_close(&f);
}

Test(store, a_file_truncated_after_open_fails_only_the_missing_rows)
{
	struct rung_store_opts opts = { .size = sizeof(opts) };
	struct store_fixture f;
	uint64_t ids[2] = { 1500, 2999 };
	struct rung_ids list;
	unsigned char *out;
	char path[512];

	if (fixture_in_place())
		cr_skip_test("truncates the features file after a rank");
	fixture_open(&f, 3000, 512, 4 * 4096, &opts, NULL);
	list = fixture_ids(&f, ids, 2, RUNG_U64, RUNG_RANKS);
	out = fixture_memory(&f, 2 * 512);
	snprintf(path, sizeof(path), "%s/features.000.npy", f.dir);
	cr_assert_eq(truncate(path, 4096 + 2000 * 512), 0);
	cr_assert_eq(rung_gather(f.store, &list, out, 0), RUNG_E_IO);
	cr_assert(strstr(rung_last_error(), "row of rank 2999 at offset 1539584"), "%s",
	          rung_last_error());
	cr_assert(strstr(rung_last_error(), "features.000.npy"));
	fixture_gather_and_check(&f, ids, 1);
	fixture_close(&f);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The loader: a failed read, an invalid seed or a lack of memory fails only the batches concerned;
 * invalid options and passes are rejected. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "loader_fixture.h"

/* Whether a batch has a row in the same sector as this row. Sectors have 512 or 4096 bytes. */
static bool wants(uint64_t idx, uint64_t rank)
{
	struct rung_store_stats stats = { .size = sizeof(stats) };
	uint64_t count, step;
	const uint64_t *vertices = rung_batch_vertices(expected[idx], &count);

	cr_assert_eq(rung_store_stats(f.store, &stats), 0);
	step = RUNG__MAX(stats.sector_bytes / WIDTH, 1);
	for (uint64_t i = 0; i < count; i++) {
		if (vertices[i] / step == rank / step)
			return true;
	}
	return false;
}

/* A cold row that some batches need and others do not. */
static uint64_t find_rank(void)
{
	const struct rung_plan_tier *cold = rung_plan_tier(f.plan, fixture_tier(&f, "nvme"));

	/* from the first sector in which all rows are cold */
	for (uint64_t rank = rung__align_up(cold->rank_first, 4096 / WIDTH); rank < ROWS; rank++) {
		uint64_t wanted = 0;

		for (uint64_t b = 0; b < BATCHES; b++)
			wanted += wants(b, rank);
		if (wanted >= 2 && wanted < BATCHES)
			return rank;
	}
	cr_assert_fail("no such row exists");
	return 0;
}

Test(loader_faults, an_unreadable_row_fails_the_batches_that_need_it)
{
	const struct rung_loader_pass pass = whole_pass();
	struct rung_loader *loader;
	uint64_t rank;

	if (fixture_in_place())
		cr_skip_test("rows that stay in place are not stored in rank order");
	open_store(HOST_BYTES, (struct rung_store_opts){ 0 });
	rank = find_rank();
	support_fault.bad_offset = 4096 + rank * WIDTH;
	loader = make_loader(2, 4, 2);
	cr_assert_eq(rung_loader_warm_up(loader, &pass), 0,
	             "the pass must report the failure, not the warm-up");
	begin(loader, pass);
	for (uint64_t b = 0; b < BATCHES; b++) {
		const struct rung_loader_batch *batch = NULL;
		int rc = rung_loader_next(loader, &batch);

		if (batch && batch->request)
			rc = rung_request_wait(batch->request, -1) < 0 ? RUNG_E_IO : rc;
		cr_assert_eq(rc, wants(b, rank) ? RUNG_E_IO : 1, "batch %" PRIu64 ": %d: %s", b, rc,
		             rung_last_error());
		if (rc < 0) {
			const char *row = strstr(rung_last_error(), "row of rank ");

			cr_assert(row && strstr(row, strerror(ENODATA)), "%s", rung_last_error());
			cr_assert_eq(strtoull(row + 12, NULL, 10) * WIDTH / 4096,
			             rank * WIDTH / 4096);
		} else {
			check_batch(batch, b);
		}
		rung_loader_put(loader, batch, NULL);
	}
	check_end(loader);
	support_fault.bad_offset = 0;
	run_pass(loader, whole_pass());
	rung_loader_destroy(loader);
	close_store();
}

Test(loader_faults, a_batch_that_cannot_be_sampled_is_skipped)
{
	struct rung_loader *loader;

	open_store(HOST_BYTES, (struct rung_store_opts){ 0 });
	seeds[3 * BATCH + 5] = ROWS;
	seeds[6 * BATCH + 7] = UINT64_MAX;
	for (uint32_t threads = 1; threads <= 4; threads++) {
		loader = make_loader(threads, 4, 2);
		begin(loader, whole_pass());
		for (uint64_t b = 0; b < BATCHES; b++) {
			const struct rung_loader_batch *batch = NULL;
			int rc = rung_loader_next(loader, &batch);

			if (b == 3) {
				assert_error(rc, RUNG_E_RANGE, "batch 3: sampling: seed 5 is 3000");
			} else if (b == 6) {
				assert_error(rc, RUNG_E_RANGE, "batch 6: sampling: seed 7 is");
			} else {
				cr_assert_eq(rc, 1);
				check_batch(batch, b);
			}
			rung_loader_put(loader, batch, NULL);
		}
		check_end(loader);
		cr_assert_eq(stats_of(loader).batches, BATCHES - 2);
		rung_loader_destroy(loader);
	}
	close_store();
}

static void refuse(struct rung_loader_opts opts, const struct rung_csc *csc, int status,
                   const char *words)
{
	struct rung_loader *loader = NULL;

	assert_error(rung_loader_create(f.store, csc, &opts, &loader), status, words);
	cr_assert_null(loader);
}

Test(loader_faults, invalid_options_are_rejected)
{
	const struct rung_loader_opts good = loader_opts(0, 0, 0);
	struct rung_loader_opts opts = good;
	struct rung_csc csc;
	struct {
		struct rung_loader_opts opts;
		uint64_t more;
	} longer = { good, 1 };
	struct rung_loader *loader = NULL;

	open_store(HOST_BYTES, (struct rung_store_opts){ .requests_max = 4 });
	csc = *rung_graph_csc(graph);
	opts.size = 3;
	refuse(opts, &csc, RUNG_E_INVAL, "size");
	opts = good;
	opts.sampler.size = 0;
	refuse(opts, &csc, RUNG_E_INVAL, "size of the sampler's options");
	opts = good;
	opts.threads = RUNG_LOADER_THREADS_MAX + 1;
	refuse(opts, &csc, RUNG_E_INVAL, "threads");
	opts = good;
	opts.look_ahead = RUNG_LOADER_LOOK_AHEAD_MAX + 1;
	refuse(opts, &csc, RUNG_E_INVAL, "4097 batches ahead");
	opts = good;
	opts.gathers = 4;
	refuse(opts, &csc, RUNG_E_INVAL, "at most 3");
	opts = good;
	opts.sampler.hop_count = RUNG_HOPS_MAX + 1;
	refuse(opts, &csc, RUNG_E_INVAL, "hops");
	opts = good;
	opts.sampler.fanouts = NULL;
	refuse(opts, &csc, RUNG_E_INVAL, "no fanouts");
	opts = good;
	opts.sampler.draws = (enum rung_draws)7;
	refuse(opts, &csc, RUNG_E_INVAL, "draws");
	refuse(good, NULL, RUNG_E_INVAL, "no graph");
	csc.vertex_count--;
	refuse(good, &csc, RUNG_E_INVAL, "2999 vertices");
	longer.opts.size = sizeof(longer);
	cr_assert_eq(rung_loader_create(f.store, rung_graph_csc(graph), &longer.opts, &loader),
	             RUNG_E_ABI);
	longer.more = 0;
	cr_assert_eq(rung_loader_create(f.store, rung_graph_csc(graph), &longer.opts, &loader), 0);
	rung_loader_destroy(loader);
	opts = good;
	opts.gathers = 3;
	loader = make_loader_of(opts);
	run_pass(loader, whole_pass());
	rung_loader_destroy(loader);
	close_store();
}

Test(loader_faults, a_store_with_one_request_is_enough)
{
	struct rung_loader_opts opts = loader_opts(2, 2, 2);
	struct rung_loader *loader;

	open_store(HOST_BYTES, (struct rung_store_opts){ .requests_max = 1 });
	refuse(opts, rung_graph_csc(graph), RUNG_E_INVAL, "at most 1");
	loader = make_loader(2, 2, 0);
	run_pass(loader, whole_pass());
	rung_loader_destroy(loader);
	close_store();
}

Test(loader_faults, an_invalid_pass_is_rejected_and_the_current_pass_continues)
{
	struct rung_loader_pass pass = whole_pass();
	const struct rung_loader_batch *batch;
	struct rung_loader *loader;

	open_store(HOST_BYTES, (struct rung_store_opts){ 0 });
	loader = make_loader(2, 2, 2);
	begin(loader, pass);
	pass.seeds = NULL;
	cr_assert_eq(rung_loader_begin(loader, &pass), RUNG_E_INVAL);
	pass = whole_pass();
	pass.size = 2;
	cr_assert_eq(rung_loader_begin(loader, &pass), RUNG_E_INVAL);
	for (uint64_t b = 0; b < BATCHES; b++) {
		batch = next(loader);
		check_batch(batch, b);
		rung_loader_put(loader, batch, NULL);
	}
	rung_loader_destroy(loader);
	close_store();
}

/* @return the number of batches that did not fail for lack of memory */
static uint64_t run_short_of_memory(struct rung_loader *loader, bool *begun_out)
{
	const struct rung_loader_pass pass = whole_pass();
	const struct rung_loader_batch *batch;
	uint64_t good = 0;
	int rc = rung_loader_begin(loader, &pass);

	*begun_out = rc == 0;
	cr_assert(rc == 0 || rc == RUNG_E_NOMEM);
	for (uint64_t b = 0; b < BATCHES && *begun_out; b++) {
		rc = rung_loader_next(loader, &batch);
		cr_assert(rc == 1 || rc == RUNG_E_NOMEM, "%d: %s", rc, rung_last_error());
		if (rc != 1)
			continue;
		check_batch(batch, b);
		good++;
		rung_loader_put(loader, batch, NULL);
	}
	return good;
}

Test(loader_faults, every_allocation_may_fail)
{
	uint64_t good = 0, limit;

	open_store(HOST_BYTES, (struct rung_store_opts){ 0 });
	for (limit = 0; good < BATCHES && limit < 1000; limit += 1 + limit / 16) {
		const struct rung_loader_opts opts = loader_opts(2, 3, 2);
		struct rung_loader *loader;
		bool begun;
		int rc;

		rung__alloc_limit((int64_t)limit);
		rc = create_loader(opts, &loader);
		if (rc == 0) {
			const struct rung_loader_pass pass = whole_pass();

			if (limit % 2)
				rc = rung_loader_warm_up(loader, &pass);
			good = run_short_of_memory(loader, &begun);
			rung__alloc_limit(-1);
			run_pass(loader, whole_pass());
			rung_loader_destroy(loader);
		}
		rung__alloc_limit(-1);
		cr_assert(rc == 0 || rc == RUNG_E_NOMEM, "%d: %s", rc, rung_last_error());
	}
	cr_assert(limit > 20 && limit < 1000,
	          "allocations of loader, workers, batches, arrays and rows: %" PRIu64, limit);
	close_store();
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a failure: each failing call of a store, a request, a sampler and a loader in turn, with
 * and without waiting, and then the same objects continue. All requests are free, gathers and the
 * passes of the same loader have the right rows. A sanitizer reports a write to the outputs, which
 * each call frees.
 *
 * A new public call, or a new way to fail, is a new row of `rows`.
 */
#include <errno.h>
#include <string.h>

#include "damaged_file.h"
#include "loader_fixture.h"
#include "rung/structure.h"

#define REQUESTS  3u
#define PIECE     40u         /* ids of a request: longer lists are gathered in pieces */
#define ASKED     100u        /* ids of a synchronous gather */
#define WINDOW    400u        /* cold rows that can be announced */
#define MINUTE_NS 60000000000 /* a hang guard */

TestSuite(after_failure, .timeout = 300);

static struct rung_loader *loader; /* used for all rows of the table */
static uint64_t ids[ASKED];

/* ---- the calls ---- */

static struct rung_ids list_of(uint64_t count, enum rung_dtype dtype)
{
	return fixture_ids(&f, ids, count, dtype, RUNG_RANKS);
}

static int gather(uint64_t count, enum rung_dtype dtype, size_t stride)
{
	struct rung_ids list = list_of(count, dtype);
	int rc = rung_gather(f.store, &list, fixture_memory(&f, count * WIDTH), stride);

	fixture_free_memories(&f);
	return rc;
}

static int gather_all(void)
{
	return gather(ASKED, RUNG_U64, 0);
}

static int gather_dtype(void)
{
	return gather(ASKED / 2, RUNG_F64, 0);
}

static int gather_stride(void)
{
	return gather(ASKED, RUNG_U64, WIDTH - 1);
}

static int submit(uint64_t count, void *out, struct rung_request **request_out)
{
	struct rung_ids list = list_of(count, RUNG_U64);

	return rung_gather_submit(f.store, &list, out, 0, RUNG_STREAM_OWN, request_out);
}

/* Submit, finish with one of the calls below, and free the output. A GPU reports an id out of range
 * later than the CPU. */
static int submit_and(uint64_t count, int finish(struct rung_request *))
{
	struct rung_request *request = NULL;
	int rc = submit(count, fixture_memory(&f, count * WIDTH), &request);

	if (rc == 0)
		rc = finish(request);
	rung_request_put(request);
	fixture_free_memories(&f);
	return rc;
}

static int wait_long(struct rung_request *request)
{
	return rung_request_wait(request, MINUTE_NS);
}

static int wait_twice(struct rung_request *request)
{
	int rc = wait_long(request);

	cr_assert_eq(rung_request_poll(request), 1);
	cr_assert_eq(rung_request_wait(request, 0), rc);
	return rc;
}

/* A stream does not wait for the reads' failure on a GPU: it is reported by the request. */
static int wait_stream(struct rung_request *request)
{
	int rc = rung_request_wait_stream(request, RUNG_STREAM_OWN);

	return rc < 0 ? rc : wait_long(request);
}

static int poll_only(struct rung_request *request)
{
	for (uint64_t end = rung__now_ns() + MINUTE_NS; rung__now_ns() < end;) {
		if (rung_request_poll(request))
			return rung_request_wait(request, 0);
	}
	return RUNG_E_TIMEDOUT;
}

static int put_only(struct rung_request *request)
{
	(void)request;
	return RUNG_E_IO; /* put does not return the failure */
}

static int submit_wait(void)
{
	return submit_and(PIECE, wait_twice);
}

static int submit_stream(void)
{
	return submit_and(PIECE, wait_stream);
}

static int submit_poll(void)
{
	return submit_and(PIECE, poll_only);
}

static int submit_put(void)
{
	return submit_and(PIECE, put_only);
}

static int submit_long(void)
{
	return submit_and(PIECE + 1, wait_long);
}

/* One request more than there are; each of the others has its rows or its failure. */
static int submit_too_many(void)
{
	struct rung_request *requests[REQUESTS + 1] = { NULL };
	int rc = 0;

	for (unsigned i = 0; i <= REQUESTS; i++) {
		rc = submit(PIECE, fixture_memory(&f, PIECE * WIDTH), &requests[i]);
		cr_assert(rc == 0 || i == REQUESTS, "%s", rung_last_error());
	}
	atomic_store(&support_fault.release, 1);
	for (unsigned i = 0; i < REQUESTS; i++) {
		wait_long(requests[i]);
		rung_request_put(requests[i]);
	}
	fixture_free_memories(&f);
	return rc;
}

/* The wait ends while the reads are held; the same request then has its rows. */
static int wait_too_short(void)
{
	struct rung_request *request = NULL;
	unsigned char *out = fixture_memory(&f, PIECE * WIDTH);
	int rc;

	cr_assert_eq(submit(PIECE, out, &request), 0, "%s", rung_last_error());
	rc = rung_request_wait(request, 1000000);
	atomic_store(&support_fault.release, 1);
	cr_assert_eq(wait_long(request), 0, "%s", rung_last_error());
	fixture_check(&f, ids, PIECE, out, WIDTH);
	rung_request_put(request);
	fixture_free_memories(&f);
	return rc;
}

/* Announce ids in plain memory, then gather them. */
static int announce(uint64_t count)
{
	struct rung_ids list = { ids, count, RUNG_U64, RUNG_RANKS };

	return rung_prefetch(f.store, &list);
}

static int announce_bad(void)
{
	return announce(ASKED);
}

static int announce_and_gather(void)
{
	cr_assert_eq(announce(ASKED), 0, "%s", rung_last_error());
	return gather_all();
}

/* The announced batches are gathered afterwards, by the checks: the window empties. */
static int announce_too_many(void)
{
	int rc = 0;
	unsigned count = 0;

	while (rc == 0 && count++ < 1000)
		rc = announce(ASKED);
	support_fault.kind = SUPPORT_FAULT_NONE;
	while (count-- > 1)
		cr_assert_eq(gather_all(), 0, "%s", rung_last_error());
	return rc;
}

/* ---- the calls of a loader ---- */

/* @return the status of the last batch that failed. A GPU's rows fail at the request. */
static int read_pass(struct rung_loader *of, uint64_t most)
{
	const struct rung_loader_pass pass = whole_pass();
	int failure = 0;

	begin(of, pass);
	for (uint64_t b = 0; b < most; b++) {
		const struct rung_loader_batch *batch = NULL;
		int rc = rung_loader_next(of, &batch);

		if (batch && batch->request)
			rc = wait_long(batch->request);
		failure = rc < 0 ? rc : failure;
		rung_loader_put(of, batch, NULL);
	}
	return failure;
}

static int next_all(void)
{
	return read_pass(loader, BATCHES);
}

static int next_and_end(void)
{
	int rc = read_pass(loader, 2);

	cr_assert_eq(rung_loader_end(loader), 0);
	return rc;
}

static int next_and_begin(void)
{
	return read_pass(loader, 2); /* the next pass ends this one */
}

static int next_and_destroy(void)
{
	struct rung_loader *other = make_loader(1, 2, 1);
	int rc = read_pass(other, 1);

	rung_loader_destroy(other);
	return rc;
}

/* The failures of batches are left to the pass. */
static int warm_up(void)
{
	const struct rung_loader_pass pass = whole_pass();
	int rc = rung_loader_warm_up(loader, &pass);

	cr_assert_eq(rc, 0, "%s", rung_last_error());
	return next_all();
}

static int next_bad_seed(void)
{
	const uint64_t right = seeds[BATCH + 1];
	int rc;

	seeds[BATCH + 1] = ROWS;
	rc = next_all();
	seeds[BATCH + 1] = right;
	return rc;
}

static int begin_bad(void)
{
	struct rung_loader_pass pass = whole_pass();

	pass.batch_first = BATCHES + 1;
	return rung_loader_begin(loader, &pass);
}

static int next_without_pass(void)
{
	const struct rung_loader_batch *batch = NULL;

	cr_assert_eq(rung_loader_end(loader), 0);
	return rung_loader_next(loader, &batch);
}

/* ---- a sampler of lists in the file ---- */

static struct rung_structure *open_lists(void)
{
	struct rung_plan_opts opts = RUNG_PLAN_OPTS_INIT;
	struct rung_structure *structure = NULL;
	struct rung_plan *plan = NULL;

	opts.device = RUNG_DEVICE_CPU;
	opts.structure_bytes = 1u << 15;
	opts.host_bytes = 1;
	cr_assert_eq(rung_plan_create(f.ds, &opts, &plan), RUNG_E_INVAL);
	opts.host_bytes = rung_last_error_min_bytes();
	cr_assert_eq(rung_plan_create(f.ds, &opts, &plan), 0, "%s", rung_last_error());
	cr_assert_eq(rung_structure_open(f.ds, plan, NULL, &structure), 0, "%s", rung_last_error());
	rung_plan_destroy(plan);
	return structure;
}

/* The same sampler and batch, while the lists cannot be read and afterwards. */
static int sample_lists(void)
{
	struct rung_sampler_opts opts = loader_opts(0, 0, 0).sampler;
	struct rung_structure *structure = open_lists();
	struct rung_sampler *sampler = NULL;
	struct rung_batch *batch = NULL;
	const uint64_t *got, *wanted;
	uint64_t count, wanted_count;
	char path[400];
	int rc;

	opts.structure = structure;
	cr_assert_eq(rung_sampler_create(NULL, &opts, &sampler), 0, "%s", rung_last_error());
	cr_assert_eq(rung_batch_create(&batch), 0);
	snprintf(path, sizeof(path), "%s/graph_indices.npy", f.dir);
	damage_file(path);
	rc = rung_sampler_sample(sampler, seeds, BATCH, KEY_FIRST, batch);
	restore_file(path);
	cr_assert_eq(rung_sampler_sample(sampler, seeds, BATCH, KEY_FIRST, batch), 0, "%s",
	             rung_last_error());
	got = rung_batch_vertices(batch, &count);
	wanted = rung_batch_vertices(expected[0], &wanted_count);
	cr_assert_eq(count, wanted_count);
	cr_assert_eq(memcmp(got, wanted, count * sizeof(*got)), 0);
	rung_batch_destroy(batch);
	rung_sampler_destroy(sampler);
	cr_assert_eq(rung_structure_close(structure), 0);
	return rc;
}

/* ---- the table ---- */

#define COLD  0        /* ids from the last ones, which are in the file */
#define BAD   1        /* the last id is out of range */
#define BAD_1 (1 << 1) /* the first is */

static const struct {
	const char *name;
	int (*call)(void);
	unsigned ids;
	enum support_fault_kind fault;
	int status;
} rows[] = {
	{ "gather, read error", gather_all, COLD, SUPPORT_FAULT_ERRNO, RUNG_E_IO },
	{ "gather, end of file", gather_all, COLD, SUPPORT_FAULT_EMPTY, RUNG_E_IO },
	{ "gather, bad id in the last piece", gather_all, BAD, SUPPORT_FAULT_NONE, RUNG_E_RANGE },
	{ "gather, bad id in the first piece", gather_all, BAD_1, SUPPORT_FAULT_NONE,
	  RUNG_E_RANGE },
	{ "gather, dtype", gather_dtype, COLD, SUPPORT_FAULT_NONE, RUNG_E_INVAL },
	{ "gather, stride", gather_stride, COLD, SUPPORT_FAULT_NONE, RUNG_E_INVAL },
	{ "submit, wait, read error", submit_wait, COLD, SUPPORT_FAULT_ERRNO, RUNG_E_IO },
	{ "submit, wait, end of file", submit_wait, COLD, SUPPORT_FAULT_EMPTY, RUNG_E_IO },
	{ "submit, wait, bad id", submit_wait, BAD_1, SUPPORT_FAULT_NONE, RUNG_E_RANGE },
	{ "submit, wait_stream, read error", submit_stream, COLD, SUPPORT_FAULT_ERRNO, RUNG_E_IO },
	{ "submit, poll, read error", submit_poll, COLD, SUPPORT_FAULT_ERRNO, RUNG_E_IO },
	{ "submit, put, read error", submit_put, COLD, SUPPORT_FAULT_ERRNO, RUNG_E_IO },
	{ "submit, too many ids", submit_long, COLD, SUPPORT_FAULT_NONE, RUNG_E_INVAL },
	{ "submit, too many requests", submit_too_many, COLD, SUPPORT_FAULT_HELD, RUNG_E_AGAIN },
	{ "submit, too many requests, read error", submit_too_many, COLD, SUPPORT_FAULT_ERRNO,
	  RUNG_E_AGAIN },
	{ "wait, timeout", wait_too_short, COLD, SUPPORT_FAULT_HELD, RUNG_E_TIMEDOUT },
	{ "prefetch, bad id", announce_bad, BAD, SUPPORT_FAULT_NONE, RUNG_E_RANGE },
	{ "prefetch, gather, read error", announce_and_gather, COLD, SUPPORT_FAULT_ERRNO,
	  RUNG_E_IO },
	{ "prefetch, window full", announce_too_many, COLD, SUPPORT_FAULT_NONE, RUNG_E_AGAIN },
	{ "loader, next, read error", next_all, COLD, SUPPORT_FAULT_ERRNO, RUNG_E_IO },
	{ "loader, next, end, read error", next_and_end, COLD, SUPPORT_FAULT_ERRNO, RUNG_E_IO },
	{ "loader, next, begin, read error", next_and_begin, COLD, SUPPORT_FAULT_ERRNO, RUNG_E_IO },
	{ "loader, next, destroy, read error", next_and_destroy, COLD, SUPPORT_FAULT_ERRNO,
	  RUNG_E_IO },
	{ "loader, warm_up, read error", warm_up, COLD, SUPPORT_FAULT_ERRNO, RUNG_E_IO },
	{ "loader, next, bad seed", next_bad_seed, COLD, SUPPORT_FAULT_NONE, RUNG_E_RANGE },
	{ "sampler, lists end early", sample_lists, COLD, SUPPORT_FAULT_NONE, RUNG_E_IO },
	{ "loader, begin, bad pass", begin_bad, COLD, SUPPORT_FAULT_NONE, RUNG_E_INVAL },
	{ "loader, next without a pass", next_without_pass, COLD, SUPPORT_FAULT_NONE,
	  RUNG_E_INVAL },
};

static void set_ids(unsigned kind)
{
	for (unsigned i = 0; i < ASKED; i++)
		ids[i] = ROWS - 1 - i * 3;
	if (kind == BAD)
		ids[ASKED - 1] = ROWS;
	if (kind == BAD_1)
		ids[0] = ROWS;
}

/* All requests can be submitted at once, and have the right rows. */
static void check_requests(const char *name)
{
	struct rung_request *requests[REQUESTS];
	unsigned char *out[REQUESTS];

	set_ids(COLD);
	for (unsigned i = 0; i < REQUESTS; i++) {
		out[i] = fixture_memory(&f, PIECE * WIDTH);
		cr_assert_eq(submit(PIECE, out[i], &requests[i]), 0, "after %s: %s", name,
		             rung_last_error());
	}
	for (unsigned i = 0; i < REQUESTS; i++) {
		cr_assert_eq(wait_long(requests[i]), 0, "after %s: %s", name, rung_last_error());
		cr_assert_eq(fixture_wrong_rows(&f, ids, PIECE, out[i], WIDTH), 0, "after %s",
		             name);
		rung_request_put(requests[i]);
	}
	fixture_free_memories(&f);
	fixture_gather_and_check(&f, ids, ASKED);
}

Test(after_failure, each_call_leaves_right_rows_and_free_requests)
{
	open_store(HOST_BYTES, (struct rung_store_opts){ .requests_max = REQUESTS,
	                                                 .batch_rows_max = PIECE,
	                                                 .window_rows_max = WINDOW });
	loader = make_loader(2, 4, 2);
	for (unsigned i = 0; i < RUNG__ARRAY_LEN(rows); i++) {
		int rc;

		set_ids(rows[i].ids);
		atomic_store(&support_fault.release, 0);
		support_fault.err = EIO;
		support_fault.count = UINT64_MAX;
		support_fault.kind = rows[i].fault;
		rc = rows[i].call();
		cr_assert_eq(rc, rows[i].status, "%s: %d: %s", rows[i].name, rc, rung_last_error());
		support_fault.kind = SUPPORT_FAULT_NONE;
		check_requests(rows[i].name);
		run_pass(loader, whole_pass());
	}
	rung_loader_destroy(loader);
	close_store();
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a failure of a typed loader: no read into memory of the failed batch is in flight, all
 * requests are free, and the next pass has the right rows. Each row of the table at the end is a
 * table or list that fails, while reads of another table are held.
 */
#include <pthread.h>
#include <unistd.h>

#include "damaged_file.h"
#include "typed_loader_fixture.h"

TestSuite(after_failure_typed, .init = setup_typed, .fini = teardown, .timeout = 300);

/* No request of a store is in use: all of them can be submitted at once. */
static void requests_are_free(struct rung_store *store)
{
	const uint64_t id = 0;
	const struct rung_ids ids = { &id, 1, RUNG_U64, RUNG_RANKS };
	struct rung_request *requests[REQUESTS];
	unsigned char row[ROW_BYTES_MAX];

	if (!store)
		return;
	for (unsigned i = 0; i < REQUESTS; i++)
		cr_assert_eq(rung_gather_submit(store, &ids, row, 0, RUNG_STREAM_OWN, &requests[i]),
		             0, "request %u: %s", i, rung_last_error());
	for (unsigned i = 0; i < REQUESTS; i++) {
		cr_assert_eq(rung_request_wait(requests[i], -1), 0, "%s", rung_last_error());
		rung_request_put(requests[i]);
	}
}

/* Let the held reads complete when some are held, and the loader had time to return too early. */
static void *release_held(void *arg)
{
	while (faulty && atomic_load(&support_fault.seen) == 0)
		usleep(1000);
	usleep(20000);
	atomic_store(&support_fault.release, 1);
	return arg;
}

static uint64_t all_papers[PAPERS];

static struct rung_loader *begin_pass(void)
{
	struct rung_loader_pass pass = RUNG_LOADER_PASS_INIT;
	struct rung_loader_opts options = loader_opts(1);
	struct rung_loader *loader = NULL;

	for (uint64_t i = 0; i < PAPERS; i++)
		all_papers[i] = i;
	pass.seeds = all_papers;
	pass.seed_count = PAPERS;
	cr_assert_eq(rung_loader_create(NULL, NULL, &options, &loader), 0, "%s", rung_last_error());
	cr_assert_eq(rung_loader_begin(loader, &pass), 0);
	return loader;
}

/* Read the rest of the pass. @return the number of batches that failed */
static unsigned read_rest(struct rung_loader *loader, unsigned first)
{
	const struct rung_loader_batch *batch = NULL;
	unsigned failed = 0;

	for (unsigned i = first; i < BATCHES; i++) {
		if (rung_loader_next(loader, &batch) < 0) {
			failed++;
			continue;
		}
		rows_are(batch);
		rung_loader_put(loader, batch, NULL);
	}
	cr_assert_eq(rung_loader_next(loader, &batch), 0);
	return failed;
}

struct failure {
	const char *folder,
		*held; /* the table that fails; the table whose reads are held, or NULL */
	bool sync;     /* the failing table is gathered in pieces by the feeder */
	/* the loader is used for the rest of the pass; or the pass is ended, or the loader
	 * destroyed, at once */
	enum { REST, END, DESTROY } then;
};

static void fail_once(const struct failure *failure)
{
	const struct rung_loader_batch *batch = NULL;
	struct rung_loader *loader = begin_pass();

	cr_assert_eq(rung_loader_next(loader, &batch), RUNG_E_IO);
	cr_assert(!failure->held || atomic_load(&support_fault.release),
	          "reads into the memory of the failed batch are in flight");
	if (failure->then == REST)
		cr_assert_eq(read_rest(loader, 1), BATCHES - 1);
	if (failure->then == END)
		cr_assert_eq(rung_loader_end(loader), 0);
	rung_loader_destroy(loader);
}

static void fail_and_continue(const struct failure *failure)
{
	struct rung_loader *loader;
	struct rung_dataset *ds;
	pthread_t thread;
	char path[700];

	support_fault_reset();
	faulty = failure->held;
	in_pieces = failure->sync ? failure->folder : NULL;
	ds = open_all(true);
	support_fault.kind = SUPPORT_FAULT_HELD;
	support_fault.count = UINT64_MAX;
	atomic_store(&support_fault.seen, 0);
	snprintf(path, sizeof(path), "%s/%s/features.000.npy", out, failure->folder);
	damage_file(path);
	cr_assert_eq(pthread_create(&thread, NULL, release_held, NULL), 0);
	fail_once(failure);
	pthread_join(thread, NULL);
	restore_file(path);
	support_fault.kind = SUPPORT_FAULT_NONE;
	for (unsigned i = 0; i < TYPES; i++)
		requests_are_free(t.types[i]);
	requests_are_free(t.edge_rows[WRITES_PAPER]);
	loader = begin_pass();
	cr_assert_eq(read_rest(loader, 0), 0, "%s", rung_last_error());
	rung_loader_destroy(loader);
	close_all(ds);
}

Test(after_failure_typed, no_read_is_left_requests_are_free_and_the_next_rows_are_right)
{
	static const char *const tables[][2] = {
		{ "vertices/paper", NULL },
		{ "vertices/author", "vertices/paper" },
		{ "edge_rows/author.writes.paper", "vertices/paper" },
		{ "edge_rows/author.writes.paper", "vertices/author" },
	};

	for (unsigned i = 0; i < RUNG__ARRAY_LEN(tables); i++) {
		for (unsigned then = REST; then <= DESTROY; then++) {
			struct failure failure = { tables[i][0], tables[i][1], false, then };

			fail_and_continue(&failure);
			failure.sync = true;
			fail_and_continue(&failure);
		}
	}
}

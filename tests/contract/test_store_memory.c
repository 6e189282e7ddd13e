/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that a store uses in addition to its plan's budget. It grows with the requested rows, not
 * with the options' limits: the store is opened with room for 1 Mi ids per request. The tests
 * measure anonymous memory of this process, as /proc/self/smaps_rollup counts it page by page.
 * Memory that a store shares with other processes is not part of it.
 */
#include <criterion/criterion.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store_fixture.h"

#define MIB (1ull << 20)
/* more than the ids of a request: the defaults then leave the most room */
#define VERTICES   (1200ull * 1000)
#define ROW_BYTES  64u
#define HOST_BYTES (32 * MIB)
#define IN_FLIGHT  8u
#define ROWS_MAX   1024u
#define MARK       "--attached"

static struct store_fixture f;

/* Also used in the attached process, in which Criterion's assertions do nothing useful. */
static void need(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "%s: %s\n", what, rung_last_error());
	abort();
}

/* @return 0 if the kernel does not report it */
static uint64_t anonymous_bytes(void)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	unsigned long long kib = 0;
	char line[200];

	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "Anonymous: %llu kB", &kib);
	if (file)
		fclose(file);
	return kib << 10;
}

/* Returns free memory to the system first, since the next allocations would fill it unseen. */
static uint64_t anonymous_before(void)
{
	malloc_trim(0);
	return anonymous_bytes();
}

/* Keep `flights` requests of cold rows in flight, all different, and wait for them. */
static void gather(uint64_t flights, uint64_t rows)
{
	static uint64_t ranks[IN_FLIGHT][ROWS_MAX];
	static unsigned char out[IN_FLIGHT][ROWS_MAX * ROW_BYTES];
	struct rung_request *requests[IN_FLIGHT];
	const uint64_t cold = rung_plan_tier(f.plan, fixture_tier(&f, "nvme"))->rank_first;

	for (uint64_t i = 0; i < flights; i++) {
		struct rung_ids ids = {
			.data = ranks[i], .count = rows, .dtype = RUNG_U64, .space = RUNG_RANKS
		};

		for (uint64_t r = 0; r < rows; r++)
			ranks[i][r] = cold + rung__mix64(i << 32 | r) % (VERTICES - cold);
		need(rung_gather_submit(f.store, &ids, out[i], 0, NULL, &requests[i]) == 0,
		     "submitting");
	}
	for (uint64_t i = 0; i < flights; i++) {
		need(rung_request_wait(requests[i], -1) == 0, "waiting");
		need(fixture_wrong_rows(&f, ranks[i], rows, out[i], ROW_BYTES) == 0,
		     "rows are wrong");
		rung_request_put(requests[i]);
	}
	malloc_trim(0); /* the check's freed memory */
}

static bool is_within(uint64_t before, uint64_t bound, const char *what)
{
	const uint64_t now = anonymous_bytes(), added = now > before ? now - before : 0;

	fprintf(stderr, "%s: %.1f MiB of anonymous memory, at most %.1f MiB\n", what,
	        (double)added / MIB, (double)bound / MIB);
	return added <= bound;
}

static void open_store(const struct rung_store_opts *opts)
{
	need(rung_store_open(f.ds, f.plan, opts, &f.store) == 0, "opening the store");
}

/* A dataset and a plan, without the store. */
static void prepare(void)
{
	if (fixture_on_cuda())
		cr_skip_test("on a GPU the lists of requests are pinned, "
		             "which touches all of them");
	if (anonymous_bytes() == 0)
		cr_skip_test("/proc/self/smaps_rollup does not report anonymous memory");
	fixture_open(&f, VERTICES, ROW_BYTES, HOST_BYTES, NULL, NULL);
	need(rung_store_close(f.store) == 0, "closing the store");
	f.store = NULL;
}

Test(store_memory, grows_with_the_requested_rows)
{
	uint64_t before;

	prepare();
	before = anonymous_before();
	open_store(NULL);
	gather(1, 64);
	cr_assert(is_within(before, HOST_BYTES + 16 * MIB, "one gather of 64 rows"));
	gather(IN_FLIGHT, 64);
	cr_assert(is_within(before, HOST_BYTES + 24 * MIB, "8 gathers of 64 rows in flight"));
	fixture_close(&f);
}

/* ---- the attached process: this program, executed again ---- */

static int attach_and_measure(const char *share_path, const char *dataset_dir)
{
	struct rung_plan_opts plan_opts;
	uint64_t count, before;
	int gpus[3];
	bool fits;

	need(rung_dataset_open(dataset_dir, &f.ds) == 0, "opening the dataset");
	need(rung_dataset_load_ids(f.ds, "vertex_of_rank", &count, &f.vertex_of_rank) == 0,
	     "loading the order");
	f.vertices = VERTICES;
	f.row_bytes = ROW_BYTES;
	plan_opts = fixture_plan_opts(VERTICES * ROW_BYTES, HOST_BYTES, gpus);
	need(rung_plan_create(f.ds, &plan_opts, &f.plan) == 0, "planning");
	before = anonymous_before();
	need(rung_store_attach(share_path, NULL, &f.store) == 0, "attaching");
	gather(IN_FLIGHT, ROWS_MAX);
	fits = is_within(before, 24 * MIB,
	                 "an attached process with 8 gathers of 1024 rows in flight");
	need(rung_store_close(f.store) == 0, "closing");
	rung_plan_destroy(f.plan);
	rung_free(f.vertex_of_rank);
	rung_dataset_close(f.ds);
	return fits ? 0 : 1;
}

/* The child is executed, not only forked: if the fork happens while the creator's threads start, a
 * lock of the allocator can stay held for ever in the child. */
__attribute__((constructor)) static void attached_main(int argc, char **argv)
{
	if (argc == 4 && strcmp(argv[1], MARK) == 0)
		exit(attach_and_measure(argv[2], argv[3]));
}

Test(store_memory, of_an_attached_process_is_little_more_than_its_slots)
{
	struct rung_store_opts opts = RUNG_STORE_OPTS_INIT;
	char share_path[sizeof(f.parent) + 16];
	int status = -1;
	pid_t child;

	prepare();
	snprintf(share_path, sizeof(share_path), "%s/share/store", f.parent);
	opts.share_path = share_path;
	open_store(&opts);
	child = fork();
	if (child == 0) {
		execl("/proc/self/exe", "attached", MARK, share_path, f.dir, (char *)NULL);
		_exit(127);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0, "the attached process ended with status %#x", (unsigned)status);
	fixture_close(&f);
}

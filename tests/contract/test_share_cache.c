/* SPDX-License-Identifier: Apache-2.0 */
/* The cold-row cache of stores that share it: each row is read once for all, and who dies or hangs while reading delays others a little. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache_internal.h"
#include "share_child.h"
#include "share_fixture.h"

#define HOST_BYTES 500000
#define CACHE_HEADER 45000   /* of the index, whatever the frames */
#define BATCH 300u

static struct share_fixture s;
static struct rung_store *creator;

/* @param kept  rows of the cache, about */
static void open_creator(uint64_t kept)
{
	int gpus[3];
	struct rung_plan_opts plan_opts;
	struct rung_store_opts opts = { .size = sizeof(opts), .vertex_ids = 1, .share_path = s.path, .batch_rows_max = 4096 };

	share_fixture_open(&s);
	plan_opts = fixture_plan_opts(s.base.vertices * s.base.row_bytes, HOST_BYTES, gpus);
	plan_opts.cache_bytes = CACHE_HEADER + kept * (s.base.row_bytes + 64);
	rung_plan_destroy(s.base.plan);
	cr_assert_eq(rung_plan_create(s.base.ds, &plan_opts, &s.base.plan), 0, "%s", rung_last_error());
	cr_assert_geq(rung_plan_cache(s.base.plan)->row_count, kept * 3 / 4);
	cr_assert_eq(rung_store_open(s.base.ds, s.base.plan, &opts, &creator), 0, "%s", rung_last_error());
}

static void close_creator(void)
{
	cr_assert_eq(rung_store_close(creator), 0);
	share_fixture_close(&s);
}

static struct rung_store_stats stats_of(const struct rung_store *store)
{
	struct rung_store_stats stats = { .size = sizeof(stats) };

	cr_assert_eq(rung_store_stats(store, &stats), 0);
	cr_assert_eq(stats.cache_hits + stats.joined_rows + stats.read_rows + stats.duplicate_rows + stats.failed_rows,
	             stats.tiers[fixture_tier(&s.base, "nvme")].hits);
	return stats;
}

static uint64_t cold_first(void)
{
	return rung_plan_tier(s.base.plan, fixture_tier(&s.base, "nvme"))->rank_first;
}

/* ---- each row once ---- */

struct side {
	struct rung_store *store;
	uint64_t wrong;
};

/* Every fifth cold row or so, some batches over. */
static void rows_of(unsigned round, uint64_t *ranks)
{
	uint64_t cold = s.base.vertices - cold_first();

	for (unsigned i = 0; i < BATCH; i++)
		ranks[i] = cold_first() + rung__mix64(round << 16 | i) % (cold / 5) * 5;
}

static void *gather_all(void *arg)
{
	struct side *side = arg;
	void *ids, *out;

	cr_assert_eq(rung_store_alloc(side->store, BATCH * sizeof(uint64_t), &ids), 0);
	cr_assert_eq(rung_store_alloc(side->store, BATCH * s.base.row_bytes, &out), 0);
	for (unsigned round = 0; round < 8; round++) {
		struct rung_ids list = { ids, BATCH, RUNG_U64, RUNG_RANKS };
		struct store_fixture base = s.base;
		uint64_t ranks[BATCH];

		base.store = side->store;
		rows_of(round, ranks);
		rung_store_copy(side->store, ids, ranks, sizeof(ranks));
		if (rung_gather(side->store, &list, out, 0) < 0)
			side->wrong++;
		side->wrong += fixture_wrong_rows(&base, ranks, BATCH, out, (size_t)s.base.row_bytes);
	}
	rung_store_free(side->store, ids);
	rung_store_free(side->store, out);
	return NULL;
}

Test(share_cache, each_row_is_read_once_for_all_stores)
{
	struct side sides[3] = { { 0 } };
	pthread_t threads[3];
	uint64_t read = 0, distinct = 0;
	bool *seen;

	open_creator(600);
	seen = calloc(s.base.vertices, sizeof(*seen));
	sides[0].store = creator;
	for (unsigned i = 1; i < 3; i++)
		sides[i].store = share_fixture_attach(&s);
	for (unsigned i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, gather_all, &sides[i]);
	for (unsigned i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	for (unsigned round = 0; round < 8; round++) {
		uint64_t ranks[BATCH];

		rows_of(round, ranks);
		for (unsigned i = 0; i < BATCH; i++) {
			distinct += !seen[ranks[i]];
			seen[ranks[i]] = true;
		}
	}
	for (unsigned i = 0; i < 3; i++) {
		cr_assert_eq(sides[i].wrong, 0);
		read += stats_of(sides[i].store).read_rows;
	}
	cr_assert_gt(distinct, 200);
	cr_assert_leq(distinct, stats_of(creator).cache_rows);
	cr_assert_eq(read, distinct);
	cr_assert_eq(stats_of(creator).cache_rows_filled, distinct);
	free(seen);
	for (unsigned i = 1; i < 3; i++)
		rung_store_close(sides[i].store);
	close_creator();
}

Test(share_cache, rows_are_right_while_processes_compete_for_a_few_frames)
{

	open_creator(40);
	share_fixture_compete(&s, creator, 2, 20);
	close_creator();
}

Test(share_cache, processes_killed_at_any_moment_spoil_nothing)
{
	open_creator(300);
	for (unsigned round = 0; round < 6; round++) {
		struct share_child child;

		cr_assert_eq(share_child_start(&child, "attach", s.path, s.base.dir), 0, "%s", child.line);
		cr_assert_eq(share_child_ask(&child, "go"), 0);
		share_fixture_check(&s, creator, round);
		share_child_kill(&child);
		share_fixture_check(&s, creator, round + 100);
	}
	stats_of(creator);
	close_creator();
}

/* ---- a client that begins to read rows and does not end ---- */

static struct rung__cache_shape cache_shape(void)
{
	return (struct rung__cache_shape){ cold_first(), s.base.vertices - cold_first(), creator->shape.frame_count };
}

static void read_for_ever(const uint64_t *ranks, unsigned count, int ready_fd)
{
	struct rung__cache_shape shape = cache_shape();
	void *index = mmap(NULL, rung__cache_index_bytes(&shape), PROT_READ | PROT_WRITE, MAP_SHARED, creator->pool.shared.fd, 0);
	struct rung__cache *cache;
	uint32_t client;

	if (index == MAP_FAILED || rung__cache_open(&shape, index, false, 10, 2, &cache) < 0 || rung__cache_join(cache, &client) < 0)
		_exit(1);
	rung__cache_lock(cache);
	for (unsigned i = 0; i < count; i++) {
		struct rung__cache_place place;

		if (rung__cache_take(cache, client, 0, ranks[i], 0, &place) != RUNG__CACHE_KEEP)
			_exit(2);
	}
	rung__cache_unlock(cache);
	if (write(ready_fd, "", 1) != 1)
		_exit(3);
	for (;;)
		pause();
}

/* Another process that has begun to read these rows, and stays. */
static pid_t start_reader(const uint64_t *ranks, unsigned count)
{
	int ready[2];
	char byte;
	pid_t pid;

	cr_assert_eq(pipe(ready), 0);
	pid = fork();
	cr_assert_geq(pid, 0);
	if (pid == 0)
		read_for_ever(ranks, count, ready[1]);
	close(ready[1]);
	cr_assert_eq(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static void kill_reader(pid_t pid)
{
	cr_assert_eq(kill(pid, SIGKILL), 0);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
}

/* A gather of rows that the reader has begun to read, by a store that waits so long for others. */
static void gather_behind_reader(uint32_t timeout_ms, bool dies)
{
	struct rung_store_opts opts = { .size = sizeof(opts), .read_timeout_ms = timeout_ms, .batch_rows_max = 4096 };
	uint64_t ranks[100];
	struct rung_request *request;
	struct rung_store *own, *store;
	struct rung_store_stats stats;
	struct rung_ids list;
	unsigned char *out;
	pid_t reader;

	open_creator(300);
	cr_assert_eq(rung_store_attach(s.path, &opts, &store), 0, "%s", rung_last_error());
	own = s.base.store;
	s.base.store = store;
	for (unsigned i = 0; i < RUNG__ARRAY_LEN(ranks); i++)
		ranks[i] = s.base.vertices - 1 - i * 2;
	reader = start_reader(ranks, 50);
	list = fixture_ids(&s.base, ranks, RUNG__ARRAY_LEN(ranks), RUNG_U64, RUNG_RANKS);
	out = fixture_memory(&s.base, sizeof(ranks) / sizeof(*ranks) * s.base.row_bytes);
	cr_assert_eq(rung_gather_submit(store, &list, out, 0, NULL, &request), 0, "%s", rung_last_error());
	if (dies) {
		cr_assert_eq(rung_request_wait(request, 30000000), RUNG_E_TIMEDOUT);   /* they may come yet */
		kill_reader(reader);
	}
	cr_assert_eq(rung_request_wait(request, -1), 0, "%s", rung_last_error());
	fixture_check(&s.base, ranks, RUNG__ARRAY_LEN(ranks), out, (size_t)s.base.row_bytes);
	rung_request_put(request);
	stats = stats_of(store);
	cr_assert_eq(stats.read_rows, RUNG__ARRAY_LEN(ranks));
	if (!dies)
		kill_reader(reader);
	fixture_gather_and_check(&s.base, ranks, RUNG__ARRAY_LEN(ranks));
	if (dies)
		cr_assert_eq(stats_of(store).cache_hits, RUNG__ARRAY_LEN(ranks));   /* the rows are kept, in other frames */
	fixture_free_memories(&s.base);
	s.base.store = own;
	rung_store_close(store);
	close_creator();
}

Test(share_cache, rows_of_a_reader_that_is_killed_are_read_by_who_waits)
{
	gather_behind_reader(0, true);
}

Test(share_cache, a_reader_that_hangs_holds_nobody_up_for_longer_than_a_read_may_take)
{
	gather_behind_reader(1000, false);   /* which a read of its own never takes, however busy the machine */
}

Test(share_cache, closing_cancels_those_who_wait_for_another_process)
{
	uint64_t rank;
	struct rung_request *request;
	struct rung_store *own, *store;
	struct rung_ids list;
	pid_t reader;

	open_creator(300);
	store = share_fixture_attach(&s);
	own = s.base.store;
	s.base.store = store;
	rank = s.base.vertices - 1;
	reader = start_reader(&rank, 1);
	list = fixture_ids(&s.base, &rank, 1, RUNG_U64, RUNG_RANKS);
	cr_assert_eq(rung_gather_submit(store, &list, fixture_memory(&s.base, s.base.row_bytes), 0, NULL, &request), 0);
	cr_assert_eq(rung_request_wait(request, 1000000), RUNG_E_TIMEDOUT);
	cr_assert_eq(rung_store_close(store), 0);
	s.base.store = NULL;
	fixture_free_memories(&s.base);
	s.base.store = own;
	kill_reader(reader);
	close_creator();
}

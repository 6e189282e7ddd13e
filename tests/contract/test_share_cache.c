/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cold-row cache of stores that share it: each row is read once for all, and who dies or is
 * stopped delays others a little.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache/cache_internal.h"
#include "file/file.h"
#include "share_child.h"
#include "share_fixture.h"

#define HOST_BYTES 500000
#define CACHE_HEADER 45000   /* of the index, whatever the frames */
#define BATCH 300u

static struct share_fixture s;
static struct rung_store *creator;
static int private_cache;

/* @param kept  rows of the cache, about */
static void open_creator(uint64_t kept)
{
	int gpus[3];
	struct rung_plan_opts plan_opts;
	struct rung_store_opts opts = { .size = sizeof(opts), .vertex_ids = 1,
	                                .share_path = s.path, .batch_rows_max = 4096,
	                                .private_cache = private_cache };

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
	uint64_t read = 0, distinct = 0, late = 0;
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
		late += stats_of(sides[i].store).cache_timeouts;
	}
	cr_assert_gt(distinct, 200);
	cr_assert_leq(distinct, stats_of(creator).cache_rows);
	/* on a busy machine one may have had no CPU for so long that others read its rows */
	cr_assert(read == distinct || (late > 0 && read > distinct),
	          "%" PRIu64 " read, %" PRIu64 " distinct", read, distinct);
	cr_assert(late > 0 || stats_of(creator).cache_rows_filled == distinct);
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

static void *map_index(void)
{
	struct rung__cache_shape shape = cache_shape();
	uint64_t bytes = rung__cache_index_bytes(&shape);

	return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, creator->pool.shared.fd, 0);
}

/* @param keeps_lock  for ever as well */
static void read_for_ever(const uint64_t *ranks, unsigned count, bool keeps_lock, int ready_fd)
{
	struct rung__cache_shape shape = cache_shape();
	void *index = map_index();
	struct rung__cache *cache;

	alarm(60);   /* a test that fails leaves nobody behind */
	if (index == MAP_FAILED || rung__cache_open(&shape, index, creator->pool.shared.fd, false,
	                                            10, 2, &cache) < 0)
		_exit(1);
	rung__cache_lock(cache);
	for (unsigned i = 0; i < count; i++) {
		struct rung__cache_place place;

		if (rung__cache_take(cache, 0, ranks[i], 0, &place) != RUNG__CACHE_KEEP)
			_exit(2);
	}
	if (!keeps_lock)
		rung__cache_unlock(cache);
	if (write(ready_fd, "", 1) != 1)
		_exit(3);
	for (;;)
		pause();
}

/* Another process that has begun to read these rows, and stays. */
static pid_t start_holder(const uint64_t *ranks, unsigned count, bool keeps_lock)
{
	int ready[2];
	char byte;
	pid_t pid;

	cr_assert_eq(pipe(ready), 0);
	pid = fork();
	cr_assert_geq(pid, 0);
	if (pid == 0)
		read_for_ever(ranks, count, keeps_lock, ready[1]);
	close(ready[1]);
	cr_assert_eq(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static pid_t start_reader(const uint64_t *ranks, unsigned count)
{
	return start_holder(ranks, count, false);
}

static void kill_reader(pid_t pid)
{
	cr_assert_eq(kill(pid, SIGKILL), 0);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
}

#define READ_ELSEWHERE 50u

/* A gather of rows that the reader has begun to read, by a store that waits so long for others. */
static void gather_behind_reader(bool dies)
{
	struct rung_store_opts opts = { .size = sizeof(opts), .batch_rows_max = 4096 };
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
	reader = start_reader(ranks, READ_ELSEWHERE);
	list = fixture_ids(&s.base, ranks, RUNG__ARRAY_LEN(ranks), RUNG_U64, RUNG_RANKS);
	out = fixture_memory(&s.base, sizeof(ranks) / sizeof(*ranks) * s.base.row_bytes);
	cr_assert_eq(rung_gather_submit(store, &list, out, 0, NULL, &request), 0, "%s", rung_last_error());
	if (dies) {
		/* they may come yet; without a CPU for long we may find that they are given up */
		cr_assert(rung_request_wait(request, 30000000) == RUNG_E_TIMEDOUT ||
		          stats_of(store).late_rows == READ_ELSEWHERE);
		kill_reader(reader);
	}
	cr_assert_eq(rung_request_wait(request, -1), 0, "%s", rung_last_error());
	fixture_check(&s.base, ranks, RUNG__ARRAY_LEN(ranks), out, (size_t)s.base.row_bytes);
	rung_request_put(request);
	stats = stats_of(store);
	cr_assert_eq(stats.read_rows, RUNG__ARRAY_LEN(ranks));
	if (!dies) {
		cr_assert_eq(stats.late_rows, READ_ELSEWHERE);
		for (uint64_t i = 2; i < 10; i++) {   /* it is not waited for again */
			fixture_gather_and_check(&s.base, ranks, RUNG__ARRAY_LEN(ranks));
			cr_assert_eq(stats_of(store).late_rows, i * READ_ELSEWHERE);
		}
		cr_assert_eq(stats_of(store).cache_timeouts, 1);
		kill_reader(reader);
	}
	do {   /* the rows are kept, in other frames, as soon as it is known to be dead */
		stats = stats_of(store);
		fixture_gather_and_check(&s.base, ranks, RUNG__ARRAY_LEN(ranks));
		fixture_free_memories(&s.base);
	} while (stats_of(store).cache_hits - stats.cache_hits < RUNG__ARRAY_LEN(ranks));
	fixture_free_memories(&s.base);
	s.base.store = own;
	rung_store_close(store);
	close_creator();
}

Test(share_cache, rows_of_a_reader_that_is_killed_are_read_by_who_waits)
{
	gather_behind_reader(true);
}

Test(share_cache, a_reader_that_hangs_holds_others_up_once)
{
	gather_behind_reader(false);
}

/* ---- a client that keeps the lock ---- */

static void gather_in(struct rung_store *store, unsigned rounds)
{
	for (unsigned round = 0; round < rounds; round++)
		share_fixture_check(&s, store, round);
}

Test(share_cache, a_process_that_keeps_the_lock_holds_others_up_once)
{
	struct rung_store *early, *late;
	uint64_t filled, none = s.base.vertices;
	struct rung_ids list;
	uint32_t ids[3];
	pid_t holder;

	open_creator(300);
	early = share_fixture_attach(&s);
	gather_in(creator, 3);
	filled = stats_of(creator).cache_rows_filled;
	cr_assert_gt(filled, 0);
	holder = start_holder(&none, 0, true);
	for (unsigned i = 0; i < 3; i++)
		ids[i] = (uint32_t)(cold_first() + i);
	list = (struct rung_ids){ ids, 3, RUNG_U32, RUNG_RANKS };
	cr_assert_eq(rung_prefetch(creator, &list), 0, "%s", rung_last_error());
	gather_in(creator, 20);
	gather_in(early, 20);
	late = share_fixture_attach(&s);
	gather_in(late, 20);
	cr_assert_eq(stats_of(creator).cache_timeouts, 1);
	cr_assert_eq(stats_of(early).cache_timeouts, 1);
	cr_assert_eq(stats_of(late).cache_timeouts, 1);
	cr_assert_gt(stats_of(late).cache_wait_ns, 0);
	cr_assert_eq(stats_of(creator).cache_rows_filled, filled);   /* as far as it knows */
	cr_assert_eq(rung_store_close(early), 0);
	kill_reader(holder);
	/* a row, by whoever, is kept again */
	for (uint64_t hits = 0; hits == 0; hits += stats_of(late).cache_hits)
		gather_in(late, 2);
	cr_assert_eq(rung_store_close(late), 0);
	gather_in(creator, 3);
	close_creator();
}

Test(share_cache, processes_stopped_at_any_moment_hold_others_up_once)
{
	struct share_child child;

	open_creator(300);
	cr_assert_eq(share_child_start(&child, "attach", s.path, s.base.dir), 0, "%s", child.line);
	cr_assert_eq(share_child_ask(&child, "go"), 0);
	for (uint64_t stop = 0; stop < 15; stop++) {
		uint64_t before;
		int status;

		usleep((useconds_t)(rung__mix64(stop) % 5000));
		gather_in(creator, 2);
		cr_assert_eq(kill(child.pid, SIGSTOP), 0);
		cr_assert_eq(waitpid(child.pid, &status, WUNTRACED), child.pid);
		cr_assert(WIFSTOPPED(status));
		before = stats_of(creator).cache_timeouts;
		gather_in(creator, 20);
		/* by the lock, and by a row in reading */
		cr_assert_leq(stats_of(creator).cache_timeouts - before, 2);
		cr_assert_eq(kill(child.pid, SIGCONT), 0);
	}
	cr_assert_eq(share_child_ask(&child, "stop"), 0);
	cr_assert_eq(share_child_end(&child), 0);
	close_creator();
}

/* ---- a client that writes where it should not ---- */

static void spoil_index(unsigned seconds)
{
	const uint64_t end = rung__now_ns() + seconds * UINT64_C(1000000000);
	struct rung__cache_shape shape = cache_shape();
	const uint64_t words = rung__cache_index_bytes(&shape) / 4, header =
		sizeof(struct rung__cache_index) / 4;
	const uint64_t lock = offsetof(struct rung__cache_index, lock) / 4;
	uint32_t *index = map_index();

	for (uint64_t i = 0; rung__now_ns() < end; i++) {
		uint64_t value = rung__mix64(i), at = rung__mix64(value);

		at = i % 50 == 0 ? lock : at % 3 == 0 ? at / 3 % words : at % 3 == 1
			? at / 3 % header : at / 3 % 200;
		__atomic_store_n(&index[at], value % 2 ? (uint32_t)(value >> 32)
		                 : (uint32_t)(value >> 32) % 400, __ATOMIC_RELAXED);
		usleep(20);
	}
	_exit(0);
}

Test(share_cache, garbage_in_the_index_neither_crashes_nor_hangs_those_who_share_it)
{
	struct rung_store *attached;
	unsigned rounds = 0;
	int status;
	pid_t pid;

	open_creator(300);
	attached = share_fixture_attach(&s);
	pid = fork();
	cr_assert_geq(pid, 0);
	if (pid == 0)
		spoil_index(1);
	while (waitpid(pid, &status, WNOHANG) == 0 || rounds < 3) {
		struct rung_store *own = s.base.store;
		uint64_t ranks[BATCH];
		struct rung_ids list = { ranks, BATCH, RUNG_U64, RUNG_RANKS };

		s.base.store = rounds % 2 ? creator : attached;
		rows_of(rounds++ / 2, ranks);
		cr_assert_eq(rung_prefetch(s.base.store, &list), 0, "%s", rung_last_error());
		list = fixture_ids(&s.base, ranks, BATCH, RUNG_U64, RUNG_RANKS);
		cr_assert_eq(rung_gather(s.base.store, &list,
		                         fixture_memory(&s.base, BATCH * s.base.row_bytes), 0), 0,
		                         "%s", rung_last_error());
		fixture_free_memories(&s.base);
		s.base.store = own;
	}
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	cr_assert_eq(rung_store_close(attached), 0);
	cr_assert_eq(rung_store_close(creator), 0);
	share_fixture_close(&s);
}

/* ---- without the cache ---- */

static void check_without(const struct rung_store_opts *opts, const char *why)
{
	struct rung_store *store;
	struct rung_store_stats stats;

	cr_assert_eq(rung_store_attach(s.path, opts, &store), 0, "%s", rung_last_error());
	gather_in(store, 3);
	stats = stats_of(store);
	cr_assert_eq(stats.cache_rows + stats.cache_hits + stats.cache_timeouts, 0);
	cr_assert(strstr(stats.cache_why, why) && (*why || !stats.cache_why[0]), "%s",
	          stats.cache_why);
	cr_assert_eq(rung_store_close(store), 0);
}

Test(share_cache, beyond_32_processes_are_without_it)
{
	struct rung_store_opts opts = { .size = sizeof(opts) };
	struct flock seats = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1,
	                       .l_len = RUNG__CACHE_CLIENTS_MAX - 1 };
	struct rung_store *store;
	int fd;

	open_creator(300);
	gather_in(creator, 3);
	fd = rung__reopen(creator->pool.shared.fd, O_RDWR);
	cr_assert_eq(fcntl(fd, F_OFD_SETLK, &seats), 0);   /* of the other 31 */
	check_without(&opts, "32 processes use it");
	close(fd);
	cr_assert_eq(rung_store_attach(s.path, &opts, &store), 0, "%s", rung_last_error());
	gather_in(store, 3);
	cr_assert_gt(stats_of(store).cache_hits, 0);
	cr_assert_str_empty(stats_of(store).cache_why);
	cr_assert_eq(rung_store_close(store), 0);
	close_creator();
}

Test(share_cache, who_asks_for_it_is_without_it)
{
	struct rung_store_opts opts = { .size = sizeof(opts), .private_cache = 1 };

	open_creator(300);
	gather_in(creator, 3);
	check_without(&opts, "private_cache is set");
	close_creator();
	private_cache = 1;
	open_creator(300);
	gather_in(creator, 3);
	cr_assert_gt(stats_of(creator).cache_hits, 0);
	opts.private_cache = 0;
	check_without(&opts, "");
	close_creator();
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
	cr_assert(rung_request_wait(request, 1000000) == RUNG_E_TIMEDOUT ||
	          stats_of(store).late_rows == 1);
	cr_assert_eq(rung_store_close(store), 0);
	s.base.store = NULL;
	fixture_free_memories(&s.base);
	s.base.store = own;
	kill_reader(reader);
	close_creator();
}

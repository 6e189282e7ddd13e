/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores that share a cold-row cache: each row is read once for all of them, whatever another
 * process writes into the index, and some stores cannot use it.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "file/file.h"
#include "share_cache_fixture.h"
#include "share_child.h"

#define BATCH 300u

/* ---- each row once ---- */

struct side {
	struct rung_store *store;
	uint64_t wrong;
};

/* About every fifth cold row; some rows are in several batches. */
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
		side->wrong +=
			fixture_wrong_rows(&base, ranks, BATCH, out, (size_t)s.base.row_bytes);
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
	/* on a busy machine a store may get no CPU for so long that others read its rows */
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

Test(share_cache, processes_killed_at_any_moment_corrupt_nothing)
{
	open_creator(300);
	for (unsigned round = 0; round < 6; round++) {
		struct share_child child;

		cr_assert_eq(share_child_start(&child, "attach", s.path, s.base.dir), 0, "%s",
		             child.line);
		cr_assert_eq(share_child_ask(&child, "go"), 0);
		share_fixture_check(&s, creator, round);
		share_child_kill(&child);
		share_fixture_check(&s, creator, round + 100);
	}
	stats_of(creator);
	close_creator();
}

/* ---- a client that writes garbage ---- */

static void spoil_index(unsigned seconds)
{
	const uint64_t end = rung__now_ns() + seconds * UINT64_C(1000000000);
	struct rung__cache_shape shape = cache_shape();
	const uint64_t words = rung__cache_index_bytes(&shape) / 4,
		       header = sizeof(struct rung__cache_index) / 4;
	const uint64_t lock = offsetof(struct rung__cache_index, lock) / 4;
	uint32_t *index = map_index();

	for (uint64_t i = 0; rung__now_ns() < end; i++) {
		uint64_t value = rung__mix64(i), at = rung__mix64(value);

		at = i % 50 == 0   ? lock
		     : at % 3 == 0 ? at / 3 % words
		     : at % 3 == 1 ? at / 3 % header
		                   : at / 3 % 200;
		__atomic_store_n(&index[at],
		                 value % 2 ? (uint32_t)(value >> 32)
		                           : (uint32_t)(value >> 32) % 400,
		                 __ATOMIC_RELAXED);
		usleep(20);
	}
	_exit(0);
}

Test(share_cache, garbage_in_the_index_neither_crashes_nor_hangs_its_users)
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
		                         fixture_memory(&s.base, BATCH * s.base.row_bytes), 0),
		             0, "%s", rung_last_error());
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

Test(share_cache, the_33rd_process_does_not_use_it)
{
	struct rung_store_opts opts = { .size = sizeof(opts) };
	struct flock seats = { .l_type = F_WRLCK,
		               .l_whence = SEEK_SET,
		               .l_start = 1,
		               .l_len = RUNG__CACHE_CLIENTS_MAX - 1 };
	struct rung_store *store;
	int fd;

	open_creator(300);
	gather_in(creator, 3);
	fd = rung__reopen(creator->pool.shared.fd, O_RDWR);
	cr_assert_eq(fcntl(fd, F_OFD_SETLK, &seats), 0); /* seats of the other 31 */
	check_without(&opts, "used by 32 processes");
	close(fd);
	cr_assert_eq(rung_store_attach(s.path, &opts, &store), 0, "%s", rung_last_error());
	gather_in(store, 3);
	cr_assert_gt(stats_of(store).cache_hits, 0);
	cr_assert_str_empty(stats_of(store).cache_why);
	cr_assert_eq(rung_store_close(store), 0);
	close_creator();
}

Test(share_cache, a_store_with_private_cache_does_not_use_it)
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

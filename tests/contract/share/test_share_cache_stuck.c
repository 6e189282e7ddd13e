/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared cold-row cache when one process stops making progress: a process that hangs while it
 * reads rows, keeps the lock, or is stopped delays the others only briefly.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "share_cache_fixture.h"
#include "share_child.h"

#define MARK "--holder-of-rows"

/* ---- the client: this program, executed again because its parent has threads ---- */

struct holding {
	struct rung__cache_shape shape;
	uint64_t rank_last; /* and every second rank below it */
	unsigned count;
	int fd;          /* of the index */
	bool keeps_lock; /* acquires the lock and never releases it */
};

static int hold_for_ever(const struct holding *h)
{
	uint64_t bytes = rung__cache_index_bytes(&h->shape);
	void *index = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, h->fd, 0);
	struct rung__cache *cache;

	alarm(60); /* a failed test leaves no process running */
	if (index == MAP_FAILED ||
	    rung__cache_open(&h->shape, index, h->fd, false, 10, 2, &cache) < 0)
		return 1;
	rung__cache_lock(cache);
	for (unsigned i = 0; i < h->count; i++) {
		struct rung__cache_slot placement;

		if (rung__cache_look_up(cache, 0, h->rank_last - 2 * i, 0, &placement) !=
		    RUNG__CACHE_KEEP)
			return 2;
	}
	if (!h->keeps_lock)
		rung__cache_unlock(cache);
	if (write(STDIN_FILENO, "", 1) != 1)
		return 3;
	for (;;)
		pause();
}

/* Runs before main(), which is Criterion's; glibc passes main's arguments to constructors. */
__attribute__((constructor)) static void holder_main(int argc, char **argv)
{
	struct holding h;

	if (argc != 2 || strcmp(argv[1], MARK) != 0)
		return;
	if (read(STDIN_FILENO, &h, sizeof(h)) != sizeof(h))
		_exit(4);
	_exit(hold_for_ever(&h));
}

/* ---- its parent ---- */

/* Start another process that begins to read these rows and never finishes. */
static pid_t start_holder(uint64_t rank_last, unsigned count, bool keeps_lock)
{
	const struct holding h = { cache_shape(), rank_last, count, creator->pool.shared.fd,
		                   keeps_lock };
	int pair[2];
	char byte;
	pid_t pid;

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	cr_assert_eq(write(pair[0], &h, sizeof(h)), sizeof(h));
	pid = fork();
	cr_assert_geq(pid, 0);
	if (pid == 0) {
		dup2(pair[1], STDIN_FILENO);
		fcntl(h.fd, F_SETFD, 0);
		execl("/proc/self/exe", "holder", MARK, (char *)NULL);
		_exit(127);
	}
	close(pair[1]);
	cr_assert_eq(read(pair[0], &byte, 1), 1);
	close(pair[0]);
	return pid;
}

static pid_t start_reader(uint64_t rank_last, unsigned count)
{
	return start_holder(rank_last, count, false);
}

static void kill_reader(pid_t pid)
{
	cr_assert_eq(kill(pid, SIGKILL), 0);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
}

#define READ_REMOTELY 50u

/* Gather rows that another process has started to read; the gathering store waits for it first. */
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
	reader = start_reader(ranks[0], READ_REMOTELY);
	list = fixture_ids(&s.base, ranks, RUNG__ARRAY_LEN(ranks), RUNG_U64, RUNG_RANKS);
	out = fixture_memory(&s.base, sizeof(ranks) / sizeof(*ranks) * s.base.row_bytes);
	cr_assert_eq(rung_gather_submit(store, &list, out, 0, NULL, &request), 0, "%s",
	             rung_last_error());
	if (dies) {
		/* pending; or already given up, if this process got no CPU for too long */
		cr_assert(rung_request_wait(request, 30000000) == RUNG_E_TIMEDOUT ||
		          stats_of(store).late_rows == READ_REMOTELY);
		kill_reader(reader);
	}
	cr_assert_eq(rung_request_wait(request, -1), 0, "%s", rung_last_error());
	fixture_check(&s.base, ranks, RUNG__ARRAY_LEN(ranks), out, (size_t)s.base.row_bytes);
	rung_request_put(request);
	stats = stats_of(store);
	cr_assert_eq(stats.read_rows, RUNG__ARRAY_LEN(ranks));
	if (!dies) {
		cr_assert_eq(stats.late_rows, READ_REMOTELY);
		for (uint64_t i = 2; i < 10; i++) { /* no second wait for the stuck reader */
			fixture_gather_and_check(&s.base, ranks, RUNG__ARRAY_LEN(ranks));
			cr_assert_eq(stats_of(store).late_rows, i * READ_REMOTELY);
		}
		cr_assert_eq(stats_of(store).cache_timeouts, 1);
		kill_reader(reader);
	}
	do { /* once its death is noticed, the rows are cached in other frames */
		stats = stats_of(store);
		fixture_gather_and_check(&s.base, ranks, RUNG__ARRAY_LEN(ranks));
		fixture_free_memories(&s.base);
	} while (stats_of(store).cache_hits - stats.cache_hits < RUNG__ARRAY_LEN(ranks));
	fixture_free_memories(&s.base);
	s.base.store = own;
	rung_store_close(store);
	close_creator();
}

Test(share_cache_stuck, rows_of_a_killed_reader_are_read_by_the_store_that_waits)
{
	gather_behind_reader(true);
}

Test(share_cache_stuck, a_hung_reader_delays_others_once)
{
	gather_behind_reader(false);
}

/* ---- a client that keeps the lock ---- */

Test(share_cache_stuck, a_process_that_keeps_the_lock_delays_others_once)
{
	struct rung_store *early, *late;
	uint64_t filled, waits[2]; /* that timed out before: the other store got no CPU */
	struct rung_ids list;
	uint32_t ids[3];
	pid_t holder;

	open_creator(300);
	early = share_fixture_attach(&s);
	gather_in(creator, 3);
	filled = stats_of(creator).cache_rows_filled;
	cr_assert_gt(filled, 0);
	waits[0] = stats_of(creator).cache_timeouts;
	waits[1] = stats_of(early).cache_timeouts;
	holder = start_holder(0, 0, true);
	for (unsigned i = 0; i < 3; i++)
		ids[i] = (uint32_t)(cold_first() + i);
	list = (struct rung_ids){ ids, 3, RUNG_U32, RUNG_RANKS };
	cr_assert_eq(rung_prefetch(creator, &list), 0, "%s", rung_last_error());
	gather_in(creator, 20);
	gather_in(early, 20);
	late = share_fixture_attach(&s);
	gather_in(late, 20);
	cr_assert_eq(stats_of(creator).cache_timeouts - waits[0], 1);
	cr_assert_eq(stats_of(early).cache_timeouts - waits[1], 1);
	cr_assert_eq(stats_of(late).cache_timeouts, 1);
	cr_assert_gt(stats_of(late).cache_wait_ns, 0);
	cr_assert_eq(stats_of(creator).cache_rows_filled, filled); /* its last known count */
	cr_assert_eq(rung_store_close(early), 0);
	kill_reader(holder);
	/* wait until either store caches a row again */
	for (uint64_t hits = 0; hits == 0; hits += stats_of(late).cache_hits)
		gather_in(late, 2);
	cr_assert_eq(rung_store_close(late), 0);
	gather_in(creator, 3);
	close_creator();
}

Test(share_cache_stuck, processes_stopped_at_any_moment_delay_others_once)
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
		/* one for the lock, one for a row being read */
		cr_assert_leq(stats_of(creator).cache_timeouts - before, 2);
		cr_assert_eq(kill(child.pid, SIGCONT), 0);
	}
	cr_assert_eq(share_child_ask(&child, "stop"), 0);
	cr_assert_eq(share_child_end(&child), 0);
	close_creator();
}

Test(share_cache_stuck, closing_cancels_requests_that_wait_for_another_process)
{
	uint64_t rank;
	struct rung_request *request;
	struct rung_store *own, *store;
	struct rung_ids list;
	unsigned char *out;
	pid_t reader;

	open_creator(300);
	store = share_fixture_attach(&s);
	own = s.base.store;
	s.base.store = store;
	rank = s.base.vertices - 1;
	reader = start_reader(rank, 1);
	list = fixture_ids(&s.base, &rank, 1, RUNG_U64, RUNG_RANKS);
	out = fixture_memory(&s.base, s.base.row_bytes);
	cr_assert_eq(rung_gather_submit(store, &list, out, 0, NULL, &request), 0);
	cr_assert(rung_request_wait(request, 1000000) == RUNG_E_TIMEDOUT ||
	          stats_of(store).late_rows == 1);
	cr_assert_eq(rung_store_close(store), 0);
	s.base.store = NULL;
	fixture_free_memories(&s.base);
	s.base.store = own;
	kill_reader(reader);
	close_creator();
}

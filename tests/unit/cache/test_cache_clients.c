/* SPDX-License-Identifier: Apache-2.0 */
/* The cold-row cache shared by processes that are killed at any point. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache_worker.h"

#define PARENTS_PINS 5u

/* @param batches after which it dies with the lock held; 0: it works until it is killed */
static pid_t start_worker(uint64_t seed, unsigned batches)
{
	pid_t pid = fork();
	struct worker w = { .state = seed * 2 + 1 };

	cr_assert_geq(pid, 0);
	if (pid > 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failing test must leave no process running */
	cache_fixture_attach(&w.f, &f, 1000, 20);
	for (unsigned i = 1; w.f.wrong == 0; i++) {
		work_on_batch(&w);
		if (i == batches) {
			rung__cache_lock(w.f.cache);
			work_on_row(&w, 0, RANK_FIRST + seed % ROWS);
			raise(SIGKILL);
		}
	}
	_exit(1);
}

static void end_worker(pid_t pid)
{
	int status;

	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
	          "a row was wrong in a child: %x", status);
}

Test(cache_clients, a_process_killed_at_any_point_leaves_the_others_working)
{
	struct worker parent = { .state = 99 };
	pid_t workers[2];

	cache_fixture_open(&f, &shape, 1000, 20);
	parent.f = f;
	rung__cache_lock(f.cache);
	/* rows that the children use too, pinned so that no child evicts them */
	for (unsigned i = 0; i < PARENTS_PINS; i++) {
		struct rung__cache_slot place;

		cr_assert_eq(rung__cache_look_up(f.cache, 0, RANK_FIRST + 10 * i, 0, &place),
		             RUNG__CACHE_KEEP);
		f.contents[place.frame] = RANK_FIRST + 10 * i;
		rung__cache_filled(f.cache, place.frame, 1);
	}
	rung__cache_unlock(f.cache);
	for (unsigned i = 0; i < 2; i++)
		workers[i] = start_worker(i, 0);
	for (unsigned round = 0; round < 120; round++) {
		unsigned which = round % 2;

		usleep((useconds_t)(test_random(&parent.state) % 4000));
		kill(workers[which], SIGKILL);
		end_worker(workers[which]);
		survive(2);
		for (unsigned i = 0; i < PARENTS_PINS; i++)
			cr_assert_eq(f.contents[i], RANK_FIRST + 10 * i);
		if (round % 4 == 3) /* one that certainly dies with the lock held */
			end_worker(start_worker(round, round % 5 + 1));
		for (unsigned i = 0; i < 5; i++)
			work_on_batch(&parent);
		cr_assert_eq(parent.f.wrong, 0);
		workers[which] = start_worker(round + 2, 0);
	}
	for (unsigned i = 0; i < 2; i++) {
		kill(workers[i], SIGKILL);
		end_worker(workers[i]);
	}
	survive(1);
	rung__cache_lock(f.cache);
	while (parent.held_count > 0)
		let_go(&parent, 0);
	rung__cache_unlock(f.cache);
	cr_assert_eq(parent.f.wrong, 0);
	cache_fixture_close(&f);
}

Test(cache_clients, the_pins_and_reads_of_dead_processes_are_reclaimed)
{
	struct rung__cache_slot place;
	int status;
	pid_t pid;

	cache_fixture_open(&f, &shape, 1000, 20);
	for (uint64_t i = 0; i < FRAMES; i++)
		cache_fixture_take(&f, 0, RANK_FIRST + 2 + i);
	pid = fork();
	if (pid == 0) {
		struct cache_fixture child;

		cache_fixture_attach(&child, &f, 10, 2);
		rung__cache_lock(child.cache);
		for (uint64_t i = 0; i < FRAMES - 1; i++)
			rung__cache_look_up(child.cache, 0, RANK_FIRST + 2 + i, 0, &place);
		if (rung__cache_look_up(child.cache, 0, RANK_FIRST, 0, &place) != RUNG__CACHE_KEEP)
			_exit(2);
		rung__cache_unlock(child.cache);
		_exit(0);
	}
	cr_assert(waitpid(pid, &status, 0) == pid && status == 0);
	/* the death has not been noticed yet */
	cr_assert_eq(cache_fixture_take(&f, 0, RANK_FIRST), RUNG__CACHE_REMOTE);
	cr_assert_eq(cache_fixture_take(&f, 0, RANK_FIRST + 1), RUNG__CACHE_PASS);
	survive(1);
	cr_assert_eq(cache_fixture_take(&f, 0, RANK_FIRST), RUNG__CACHE_KEEP);
	cr_assert_eq(rung__cache_filled_count(f.cache), FRAMES);
	cr_assert_eq(cache_fixture_take(&f, 0, RANK_FIRST + 1), RUNG__CACHE_KEEP);
	cr_assert_eq(rung__cache_filled_count(f.cache), FRAMES);
	survive(1);
	cache_fixture_close(&f);
}

Test(cache_clients, the_seat_of_a_dead_process_is_free)
{
	unsigned dead = 0;

	cache_fixture_open(&f, &shape, 1000, 20);
	for (unsigned i = 0; i < RUNG__CACHE_CLIENTS_MAX + 5; i++) {
		pid_t pid = fork();
		int status;

		if (pid == 0) {
			struct cache_fixture child;

			cache_fixture_attach(&child, &f, 10, 2);
			_exit(0);
		}
		cr_assert(waitpid(pid, &status, 0) == pid && status == 0);
		dead++;
	}
	survive(1);
	cr_assert_eq(dead, RUNG__CACHE_CLIENTS_MAX + 5);
	cache_fixture_close(&f);
}

Test(cache_clients, a_forked_child_does_not_keep_its_dead_parents_seat)
{
	int ready[2];
	char pid_text[20] = "";
	pid_t pid;

	cache_fixture_open(&f, &shape, 1000, 20);
	cr_assert_eq(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		struct cache_fixture child;
		struct rung__cache_slot place;

		cache_fixture_attach(&child, &f, 10, 2);
		rung__cache_lock(child.cache);
		if (rung__cache_look_up(child.cache, 0, RANK_FIRST, 0, &place) != RUNG__CACHE_KEEP)
			_exit(2);
		pid = fork();
		if (pid > 0) {
			dprintf(ready[1], "%d ", (int)pid);
			raise(SIGKILL);
		}
		sleep(120); /* bounded: a failing test must leave no process running */
		_exit(0);
	}
	cr_assert_gt(read(ready[0], pid_text, sizeof(pid_text) - 1), 0);
	end_worker(pid);
	survive(1); /* even though it held the lock */
	cr_assert_eq(cache_fixture_take(&f, 0, RANK_FIRST), RUNG__CACHE_KEEP);
	cr_assert_eq(kill((pid_t)atoi(pid_text), SIGKILL), 0);
	cache_fixture_close(&f);
}

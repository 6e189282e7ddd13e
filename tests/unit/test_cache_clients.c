/* SPDX-License-Identifier: Apache-2.0 */
/* The cold-row cache between processes: those that are killed at any point, and those that write where they should not. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache_fixture.h"
#include "graphs.h"

#define RANK_FIRST 100u
#define ROWS 1000u
#define FRAMES 64u
#define BATCH 40u
#define HELD_MAX 8u
#define PARENTS_PINS 5u

static const struct rung__cache_shape shape = { RANK_FIRST, ROWS, FRAMES };
static struct cache_fixture f;

/* ---- a process that works until it is killed ---- */

struct worker {
	struct cache_fixture f;
	uint64_t state;
	struct {
		uint32_t frame;
		uint64_t rank;
		bool read;   /* else pinned */
	} held[HELD_MAX];
	unsigned held_count;
};

static void let_go(struct worker *w, unsigned which)
{
	uint32_t frame = w->held[which].frame;

	if (!w->held[which].read) {
		w->f.wrong += w->f.contents[frame] != w->held[which].rank;
		rung__cache_unpin(w->f.cache, w->f.client, frame);
	} else if (test_random(&w->state) % 4 == 0) {
		rung__cache_failed(w->f.cache, w->f.client, frame);
	} else {
		w->f.contents[frame] = w->held[which].rank;
		rung__cache_filled(w->f.cache, w->f.client, frame, 0);
	}
	w->held[which] = w->held[--w->held_count];
}

static void work_on_row(struct worker *w, uint64_t batch, uint64_t rank)
{
	struct rung__cache_place place;
	enum rung__cache_found found = rung__cache_take(w->f.cache, w->f.client, batch, rank, 0, &place);

	if (found == RUNG__CACHE_HIT)
		w->f.wrong += w->f.contents[place.frame] != rank;
	if (found == RUNG__CACHE_HIT || found == RUNG__CACHE_KEEP) {
		w->held[w->held_count].frame = place.frame;
		w->held[w->held_count].rank = rank;
		w->held[w->held_count++].read = found == RUNG__CACHE_KEEP;
	}
	if (w->held_count == HELD_MAX)
		let_go(w, (unsigned)(test_random(&w->state) % HELD_MAX));
}

/* Rows of a batch, from a random one on, some left out. */
static void draw(struct worker *w, uint64_t *ranks)
{
	uint64_t rank = RANK_FIRST + test_random(&w->state) % (ROWS / 2) * (test_random(&w->state) % 2);

	for (unsigned i = 0; i < BATCH; i++)
		ranks[i] = rank += 1 + test_random(&w->state) % 3;
}

static void work_on_batch(struct worker *w)
{
	uint64_t ranks[2][BATCH], batch = 0;

	draw(w, ranks[0]);
	draw(w, ranks[1]);
	if (test_random(&w->state) % 2)
		rung__cache_announce(w->f.cache, ranks[0], BATCH, &batch);
	rung__cache_announce(w->f.cache, ranks[1], BATCH, &batch);
	rung__cache_begin(w->f.cache, ranks[0], BATCH, &batch);
	rung__cache_lock(w->f.cache);
	for (unsigned i = 0; i < BATCH; i++)
		work_on_row(w, batch, ranks[0][i]);
	rung__cache_unlock(w->f.cache);
	rung__cache_end(w->f.cache, batch);
}

/* @param batches  and then it dies with the lock held; 0: it goes on until it is killed */
static pid_t start_worker(uint64_t seed, unsigned batches)
{
	pid_t pid = fork();
	struct worker w = { .state = seed * 2 + 1 };

	cr_assert_geq(pid, 0);
	if (pid > 0)
		return pid;
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

/* ---- who survives it ---- */

static void check_contents(void)
{
	for (uint32_t i = 0; i < FRAMES; i++) {
		const struct rung__cache_frame *frame = &f.cache->frames[i];

		if (rung__cache_frame_state(frame) == RUNG__CACHE_FRAME_FILLED)
			cr_assert_eq(f.contents[i], RANK_FIRST + frame->row);
	}
}

/* What the test cannot wait for. @return how many */
static unsigned age_lost_frames(void)
{
	unsigned count = 0;

	for (uint32_t i = 0; i < FRAMES; i++) {
		if (rung__cache_frame_state(&f.cache->frames[i]) == RUNG__CACHE_FRAME_LOST) {
			f.cache->frames[i].row -= RUNG__CACHE_LOST_NS;
			count++;
		}
	}
	return count;
}

static void survive(int clients_left)
{
	const char *fault;

	rung__cache_lock(f.cache);
	rung__cache_bury(f.cache);
	fault = cache_fixture_fault(f.cache, false);
	cr_assert(!fault, "%s", fault);
	cr_assert_leq(__builtin_popcount(f.cache->index->joined), clients_left);
	check_contents();
	rung__cache_unlock(f.cache);
}

static void end_worker(pid_t pid)
{
	int status;

	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "a row was wrong in a child: %x", status);
}

Test(cache_clients, killed_at_any_point_a_process_leaves_the_others_working)
{
	struct worker parent = { .state = 99 };
	pid_t workers[2];
	unsigned lost = 0;

	cache_fixture_open(&f, &shape, 1000, 20);
	parent.f = f;
	rung__cache_lock(f.cache);
	for (unsigned i = 0; i < PARENTS_PINS; i++) {   /* rows that the children use too, in some frame they do not choose */
		struct rung__cache_place place;

		cr_assert_eq(rung__cache_take(f.cache, f.client, 0, RANK_FIRST + 10 * i, 0, &place), RUNG__CACHE_KEEP);
		f.contents[place.frame] = RANK_FIRST + 10 * i;
		rung__cache_filled(f.cache, f.client, place.frame, 1);
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
		lost += age_lost_frames();
		for (unsigned i = 0; i < PARENTS_PINS; i++)
			cr_assert_eq(f.contents[i], RANK_FIRST + 10 * i);
		if (round % 4 == 3)   /* one that surely dies with the lock held */
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
	cr_assert_gt(lost, 0);
	rung__cache_lock(f.cache);
	while (parent.held_count > 0)
		let_go(&parent, 0);
	rung__cache_unlock(f.cache);
	cr_assert_eq(parent.f.wrong, 0);
	cache_fixture_close(&f);
}

Test(cache_clients, the_pins_and_reads_of_the_dead_are_taken_back)
{
	struct rung__cache_place place;
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
			rung__cache_take(child.cache, child.client, 0, RANK_FIRST + 2 + i, 0, &place);
		if (rung__cache_take(child.cache, child.client, 0, RANK_FIRST, 0, &place) != RUNG__CACHE_KEEP)
			_exit(2);
		rung__cache_unlock(child.cache);
		_exit(0);
	}
	cr_assert(waitpid(pid, &status, 0) == pid && status == 0);
	cr_assert_eq(cache_fixture_take(&f, 0, RANK_FIRST), RUNG__CACHE_ELSEWHERE);   /* nobody has looked yet */
	cr_assert_eq(cache_fixture_take(&f, 0, RANK_FIRST + 1), RUNG__CACHE_PASS);
	survive(1);
	cr_assert_eq(cache_fixture_take(&f, 0, RANK_FIRST), RUNG__CACHE_KEEP);
	cr_assert_eq(rung__cache_filled_count(f.cache), FRAMES - 1);   /* the frame it was reading into stays out of use */
	cr_assert_eq(age_lost_frames(), 1);
	cr_assert_eq(cache_fixture_take(&f, 0, RANK_FIRST + 1), RUNG__CACHE_KEEP);
	cr_assert_eq(rung__cache_filled_count(f.cache), FRAMES);
	survive(1);
	cache_fixture_close(&f);
}

Test(cache_clients, a_seat_of_the_dead_is_free)
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

/* ---- damage ---- */

#define GUARD_BYTES 65536u   /* a bit too high in the map leads to a word 32 KiB behind its end */

static const struct rung__cache_shape wide = { RANK_FIRST, 5 * ROWS, FRAMES };

/* The index between pages that cannot be touched. */
static void open_guarded(struct cache_fixture *guarded)
{
	const uint64_t bytes = rung__cache_index_bytes(&wide);
	unsigned char *memory = mmap(NULL, bytes + 2 * GUARD_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert(memory != MAP_FAILED);
	cr_assert_eq(mprotect(memory + GUARD_BYTES, bytes, PROT_READ | PROT_WRITE), 0);
	*guarded = (struct cache_fixture){ .shape = wide, .index = memory + GUARD_BYTES };
	guarded->contents = calloc(FRAMES, sizeof(*guarded->contents));
	cr_assert_eq(rung__cache_open(&wide, guarded->index, true, 2000, 20, &guarded->cache), 0);
	cr_assert_eq(rung__cache_join(guarded->cache, &guarded->client), 0);
}

static void close_guarded(struct cache_fixture *guarded)
{
	cache_fixture_detach(guarded);
	munmap((unsigned char *)guarded->index - GUARD_BYTES, rung__cache_index_bytes(&wide) + 2 * GUARD_BYTES);
	free(guarded->contents);
}

/* Anything but the locks, with numbers that mean something or nothing. */
static void spoil(struct worker *w)
{
	const uint64_t bytes = rung__cache_index_bytes(&wide), header = sizeof(struct rung__cache_index);
	const uint64_t locks = offsetof(struct rung__cache_index, lock), locks_end = offsetof(struct rung__cache_index, joined);
	const uint64_t frames = (uint64_t)((unsigned char *)w->f.cache->frames - (unsigned char *)w->f.index);
	uint64_t value = test_random(&w->state), at = test_random(&w->state);

	switch (at % 4) {
	case 0: at = locks_end + at / 4 % (offsetof(struct rung__cache_index, buckets) - locks_end); break;
	case 1: at = header + at / 4 % (bytes - header); break;
	case 2: at = frames + at / 4 % (FRAMES * sizeof(struct rung__cache_frame)); break;
	default: at = at / 4 % bytes; break;
	}
	at &= ~UINT64_C(3);
	if (at >= locks && at < locks_end)
		return;
	switch (test_random(&w->state) % 4) {
	case 0: value %= FRAMES + 2; break;
	case 1: value %= 4; break;
	case 2: value = f.cache->index->clock + value % 10000 - 5000; break;
	default: break;
	}
	memcpy((unsigned char *)w->f.index + at, &value, sizeof(uint32_t));
}

static void use_damaged(struct worker *w)
{
	work_on_batch(w);
	rung__cache_lock(w->f.cache);
	for (unsigned i = 0; i < w->held_count; i++)
		cr_assert_lt(w->held[i].frame, FRAMES);
	cr_assert_leq(w->held_count, HELD_MAX);
	if (test_random(&w->state) % 16 == 0)
		rung__cache_bury(w->f.cache);
	if (test_random(&w->state) % 64 == 0)
		rung__cache_frames_rebuild(w->f.cache, (uint32_t)test_random(&w->state) | 1u << w->f.client);
	rung__cache_unlock(w->f.cache);
}

Test(cache_clients, no_damage_leads_outside_or_round_and_round)
{
	for (uint64_t seed = 0; seed < 30; seed++) {
		struct worker w = { .state = seed * 2 + 1 };

		open_guarded(&f);
		w.f = f;
		for (unsigned round = 0; round < 150; round++) {
			for (uint64_t i = test_random(&w.state) % 30; i > 0; i--)
				spoil(&w);
			use_damaged(&w);
		}
		rung__cache_lock(f.cache);
		while (w.held_count > 0)
			let_go(&w, 0);
		rung__cache_unlock(f.cache);
		close_guarded(&f);
	}
}

Test(cache_clients, an_index_of_nothing_but_noise_leads_nowhere_either)
{
	const uint64_t locks_end = offsetof(struct rung__cache_index, joined), bytes = rung__cache_index_bytes(&wide);

	for (uint64_t seed = 0; seed < 30; seed++) {
		struct worker w = { .state = seed * 2 + 101 };

		open_guarded(&f);
		w.f = f;
		for (uint64_t at = locks_end; at < bytes; at++)
			((unsigned char *)f.index)[at] = (unsigned char)(seed % 3 == 0 ? 0xff : seed % 3 == 1 ? 1 : test_random(&w.state));
		for (unsigned round = 0; round < 20; round++)
			use_damaged(&w);
		rung__cache_lock(f.cache);
		while (w.held_count > 0)
			let_go(&w, 0);
		rung__cache_unlock(f.cache);
		close_guarded(&f);
	}
}

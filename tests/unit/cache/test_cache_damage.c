/* SPDX-License-Identifier: Apache-2.0 */
/* The cold-row cache whose index is overwritten by a process that writes where it should not. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cache_worker.h"

/* a map entry slightly too high leads to a word 32 KiB after the map's end */
#define GUARD_BYTES 65536u

static const struct rung__cache_shape wide = { RANK_FIRST, 5 * ROWS, FRAMES };

/* The index between inaccessible pages, so that any access outside it crashes. */
static void open_guarded(struct cache_fixture *guarded)
{
	const uint64_t bytes = rung__cache_index_bytes(&wide);
	unsigned char *memory =
		mmap(NULL, bytes + 2 * GUARD_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert(memory != MAP_FAILED);
	*guarded = (struct cache_fixture){ .shape = wide,
		                           .index = memory + GUARD_BYTES,
		                           .fd = cache_fixture_fd(&wide) };
	cr_assert(mmap(guarded->index, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
	               guarded->fd, 0) != MAP_FAILED);
	guarded->contents = calloc(FRAMES, sizeof(*guarded->contents));
	cr_assert_eq(rung__cache_open(&wide, guarded->index, guarded->fd, true, 2000, 20,
	                              &guarded->cache),
	             0);
	rung__cache_choose_late(guarded->cache);
}

static void close_guarded(struct cache_fixture *guarded)
{
	cache_fixture_detach(guarded);
	munmap((unsigned char *)guarded->index - GUARD_BYTES,
	       rung__cache_index_bytes(&wide) + 2 * GUARD_BYTES);
	close(guarded->fd);
	free(guarded->contents);
}

/* Overwrites a random word of the index, including the lock, with a plausible or a random value. */
static void spoil(struct worker *w)
{
	const uint64_t bytes = rung__cache_index_bytes(&wide),
		       header = sizeof(struct rung__cache_index);
	const uint64_t lock = offsetof(struct rung__cache_index, lock);
	const uint64_t frames =
		(uint64_t)((unsigned char *)w->f.cache->frames - (unsigned char *)w->f.index);
	uint64_t value = test_random(&w->state), at = test_random(&w->state);

	switch (at % 5) {
	case 0:
		at = lock + at / 5 % (offsetof(struct rung__cache_index, buckets) - lock);
		break;
	case 1:
		at = header + at / 5 % (bytes - header);
		break;
	case 2:
		at = frames + at / 5 % (w->f.cache->entries_end * sizeof(struct rung__cache_frame));
		break;
	case 3:
		at = at / 5 % bytes;
		break;
	default:
		at = at / 5 % 10 == 0 ? lock : bytes - 4;
		break;
	}
	at &= ~UINT64_C(3);
	switch (test_random(&w->state) % 4) {
	case 0:
		value %= FRAMES + 2;
		break;
	case 1:
		value %= 4;
		break;
	case 2:
		value = f.cache->index->clock + value % 10000 - 5000;
		break;
	default:
		break;
	}
	memcpy((unsigned char *)w->f.index + at, &value, sizeof(uint32_t));
}

static void use_damaged(struct worker *w)
{
	work_on_batch(w);
	rung__cache_lock(w->f.cache);
	for (unsigned i = 0; i < w->held_count; i++)
		cr_assert_lt(w->held[i].frame, w->held[i].read ? w->f.cache->entries_end : FRAMES);
	cr_assert_leq(w->held_count, HELD_MAX);
	if (test_random(&w->state) % 16 == 0)
		rung__cache_reap_dead(w->f.cache);
	if (test_random(&w->state) % 64 == 0) {
		uint32_t living = (uint32_t)test_random(&w->state) | 1u << w->f.cache->seat;

		rung__cache_frames_rebuild(w->f.cache, living);
	}
	rung__cache_unlock(w->f.cache);
}

Test(cache_damage, no_damage_causes_access_outside_or_an_endless_loop)
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

Test(cache_damage, an_overwritten_lock_blocks_no_client_forever)
{
	struct cache_fixture other;
	uint32_t words[] = { 1,
		             2,
		             3,
		             RUNG__CACHE_CLIENTS_MAX,
		             RUNG__CACHE_CLIENTS_MAX + 1,
		             UINT32_C(1) << 31,
		             UINT32_MAX,
		             1u << 6,
		             0 };
	const char *fault;

	cache_fixture_open(&f, &shape, 1000, 20);
	cache_fixture_attach(&other, &f, 1000, 20);
	for (unsigned i = 0; i < RUNG__ARRAY_LEN(words); i++) {
		/* that client is alive, so it may really hold the lock */
		bool named = words[i] == other.cache->seat + 1;

		atomic_store(&f.cache->index->lock, words[i]);
		for (unsigned round = 0; round < 10; round++)
			cr_assert_eq(cache_fixture_take(&f, 0, RANK_FIRST + i) == RUNG__CACHE_PASS,
			             named, "%x", words[i]);
		cr_assert_neq(cache_fixture_take(&other, 0, RANK_FIRST + i), RUNG__CACHE_PASS);
		cr_assert_neq(cache_fixture_take(&f, 0, RANK_FIRST + i), RUNG__CACHE_PASS);
	}
	rung__cache_lock(f.cache);
	atomic_store(&f.cache->index->lock, 77);
	rung__cache_unlock(f.cache);
	rung__cache_lock(f.cache);
	fault = cache_fixture_fault(f.cache, false);
	cr_assert(!fault, "%s", fault);
	rung__cache_unlock(f.cache);
	cache_fixture_detach(&other);
	cache_fixture_close(&f);
}

Test(cache_damage, an_index_of_pure_noise_is_safe_too)
{
	const uint64_t lock = offsetof(struct rung__cache_index, lock),
		       bytes = rung__cache_index_bytes(&wide);

	for (uint64_t seed = 0; seed < 30; seed++) {
		struct worker w = { .state = seed * 2 + 101 };

		open_guarded(&f);
		w.f = f;
		for (uint64_t at = lock; at < bytes; at++)
			((unsigned char *)f.index)[at] =
				(unsigned char)(seed % 3 == 0   ? 0xff
			                        : seed % 3 == 1 ? 1
			                                        : test_random(&w.state));
		for (unsigned round = 0; round < 20; round++)
			use_damaged(&w);
		rung__cache_lock(f.cache);
		while (w.held_count > 0)
			let_go(&w, 0);
		rung__cache_unlock(f.cache);
		close_guarded(&f);
	}
}

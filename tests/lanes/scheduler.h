/* SPDX-License-Identifier: Apache-2.0 */
/** Inside the lane harness (cuda_lanes.h includes it): memory lent to kernels, lanes and their
 * collectives, blocks and grids. */
#ifndef LANES_SCHEDULER_H
#define LANES_SCHEDULER_H

#include <cstdint>
#include <cstdio>
#include <functional>
#include <vector>

#include <unistd.h>

#include "fiber.h"

/* kernels are compiled without ThreadSanitizer; their accesses are reported to it
 * (../sim/race.h) */
#ifdef LANES_TSAN
void lanes_race_access(void *at, size_t bytes, bool write, bool atomic);
void lanes_race_store_release(void *at, uint32_t value);
#endif

namespace lanes
{

const unsigned WARP = 32;
const unsigned BLOCK_LANES_MAX = 1024;

/* ---- failures and memory ---- */

inline const char *scenario = ""; /* the current test case, for messages */

[[noreturn]] inline void leave_failed()
{
	_exit(1);
}
inline void (*on_failure)() = leave_failed; /* does not return */

[[noreturn]] inline void fail(const char *what, long long a = 0, long long b = 0)
{
	fprintf(stderr, "lanes: block %u, thread %u: %s (%lld, %lld)\n  in: %s\n", blockIdx.x,
	        threadIdx.x, what, a, b, scenario);
	on_failure();
	abort();
}

struct region {
	uintptr_t begin, end;
	bool writable;
	ptrdiff_t offset = 0; /* from the address in the kernel to the real bytes */
};
inline std::vector<region> lent;

inline void lend(const void *ptr, size_t bytes, bool writable)
{
	lent.push_back({ (uintptr_t)ptr, (uintptr_t)ptr + bytes, writable });
}

enum access_kind { LOAD, STORE, ATOMIC, RELEASE };
struct access {
	access_kind kind;
	unsigned block, thread;
	uintptr_t at;
	size_t bytes;
};
inline std::function<void(const access &)> watch; /* if set, called for every access */

inline const region *find_lent(uintptr_t at, access_kind)
{
	for (const region &r : lent)
		if (at >= r.begin && at < r.end)
			return &r;
	return nullptr;
}
/* the simulated runtime replaces it */
inline const region *(*find_region)(uintptr_t at, access_kind kind) = find_lent;

/* ---- fences: which lanes of the grid have stored something since their last one ---- */

inline std::vector<char> unfenced; /* [blocks * threads] */

inline void note_stores(bool stored)
{
	unfenced[blockIdx.x * blockDim.x + threadIdx.x] = stored;
}

inline void check_fences()
{
	for (size_t l = 0; l < unfenced.size(); l++)
		if (unfenced[l])
			fail("a word is released without a system fence after a lane's store "
			     "(its block, its thread)",
			     (long long)(l / blockDim.x), (long long)(l % blockDim.x));
}

inline void store_release(void *at, uint32_t value)
{
#ifdef LANES_TSAN
	lanes_race_store_release(at, value);
#else
	__atomic_store_n((uint32_t *)at, value, __ATOMIC_RELEASE);
#endif
}

/* Check an access. @return the address of its real bytes */
inline void *access_at(const void *ptr, size_t bytes, access_kind kind)
{
	const uintptr_t at = (uintptr_t)ptr;
	const region *r;

	if (at % bytes != 0)
		fail("misaligned access (address mod bytes, bytes)", (long long)(at % bytes),
		     (long long)bytes);
	r = find_region(at, kind);
	if (!r)
		fail("access outside all memory lent (address, bytes)", (long long)at,
		     (long long)bytes);
	if (bytes > r->end - at)
		fail("access past the end of its memory (bytes, bytes left)", (long long)bytes,
		     (long long)(r->end - at));
	if (kind != LOAD && !r->writable)
		fail("write to memory that is lent for reading");
	if (watch)
		watch({ kind, blockIdx.x, threadIdx.x, at, bytes });
	void *const real = (void *)(at + (uintptr_t)r->offset);
	if (kind == STORE)
		note_stores(true);
#ifdef LANES_TSAN
	if (kind != RELEASE)
		lanes_race_access(real, bytes, kind != LOAD, kind == ATOMIC);
#endif
	return real;
}

inline void fence()
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* ---- lanes and collectives ---- */

enum collective { NONE, SHUFFLE, BALLOT, REDUCE_ADD, MATCH, SYNC_WARP, SYNC_BLOCK };
enum lane_state { READY, WAITING, LEFT };

struct lane {
	fiber stack;
	lane_state state = LEFT;
	collective kind = NONE;
	unsigned mask = 0;
	int line = 0;        /* of the source: collectives at different lines do not match */
	unsigned source = 0; /* lane of the warp */
	uint64_t value = 0, result = 0;
};

inline lane block_lanes[BLOCK_LANES_MAX];
inline unsigned made = 0, current = 0;
inline std::function<void()> kernel;
inline uint64_t seed = 1;

inline uint64_t draw()
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

inline void lane_main()
{
	for (;;) {
		kernel();
		block_lanes[current].state = LEFT;
		block_lanes[current].stack.leave();
	}
}

inline uint64_t meet(collective kind, unsigned mask, unsigned source, uint64_t value, int line)
{
	lane &me = block_lanes[current];

	me.kind = kind;
	me.mask = mask;
	me.source = source;
	me.value = value;
	me.line = line;
	me.state = WAITING;
	me.stack.leave();
	return me.result;
}

/* @return NULL if all lanes of lane `at`'s mask wait at the same place as it does, otherwise the
 * reason */
inline const char *not_met(const lane *warp, unsigned at)
{
	for (unsigned l = 0; l < WARP; l++) {
		if (!(warp[at].mask >> l & 1))
			continue;
		if (warp[l].state == LEFT)
			return "a lane of the mask has left the kernel (lane, line)";
		if (warp[l].kind != warp[at].kind || warp[l].mask != warp[at].mask ||
		    warp[l].line != warp[at].line)
			return "a lane of the mask waits elsewhere (lane, line)";
	}
	return nullptr;
}

/* The lanes of the mask that have the same value as lane `at`. */
inline unsigned same_value(const lane *warp, unsigned mask, unsigned at)
{
	unsigned same = 0;

	for (unsigned l = 0; l < WARP; l++)
		if ((mask >> l & 1) && warp[l].value == warp[at].value)
			same |= 1u << l;
	return same;
}

inline void resolve(lane *warp, unsigned at)
{
	const unsigned mask = warp[at].mask;
	const collective kind = warp[at].kind;
	unsigned votes = 0;
	uint64_t sum = 0;

	for (unsigned l = 0; l < WARP; l++) {
		if (!(mask >> l & 1))
			continue;
		votes |= warp[l].value ? 1u << l : 0;
		sum += warp[l].value;
	}
	for (unsigned l = 0; l < WARP; l++) {
		if (!(mask >> l & 1))
			continue;
		if (kind == SHUFFLE && !(mask >> warp[l].source & 1))
			fail("shuffle from a lane outside the mask (lane, line)", warp[l].source,
			     warp[l].line);
		warp[l].result = kind == SHUFFLE      ? warp[warp[l].source].value
		                 : kind == REDUCE_ADD ? (unsigned)sum
		                 : kind == MATCH      ? same_value(warp, mask, l)
		                                      : votes;
		warp[l].state = READY;
	}
	for (unsigned l = 0; l < WARP; l++)
		if (mask >> l & 1)
			warp[l].kind = NONE;
}

inline void run_lane(unsigned thread)
{
	current = thread;
	threadIdx.x = thread;
	block_lanes[thread].stack.enter();
}

/* Runs until every lane of the warp has left or waits for the block. */
inline void run_warp(unsigned first)
{
	lane *warp = &block_lanes[first];

	for (;;) {
		const unsigned turn = (unsigned)draw();
		const char *why = nullptr;
		unsigned why_at = 0;
		bool moved = false;

		for (unsigned k = 0; k < WARP; k++) {
			unsigned l = (turn & 32 ? k : WARP - 1 - k) ^ (turn & 31);
			if (warp[l].state == READY)
				run_lane(first + l);
		}
		for (unsigned l = 0; l < WARP; l++) {
			if (warp[l].state != WAITING || warp[l].kind == SYNC_BLOCK)
				continue;
			threadIdx.x = first + l;
			if (!(warp[l].mask >> l & 1))
				fail("a lane that is not in its own mask (lane, line)", l,
				     warp[l].line);
			const char *reason = not_met(warp, l);
			if (!reason) {
				resolve(warp, l);
				moved = true;
			} else if (!why) {
				why = reason;
				why_at = l;
			}
		}
		if (!moved) {
			if (why)
				fail(why, why_at, warp[why_at].line);
			return;
		}
	}
}

inline void run_block(unsigned threads)
{
	for (unsigned t = 0; t < threads; t++)
		block_lanes[t].state = READY;
	for (;;) {
		const unsigned warps = threads / WARP;
		const unsigned turn = (unsigned)(draw() % warps);
		unsigned waiting = 0;

		for (unsigned w = 0; w < warps; w++)
			run_warp((w + turn) % warps * WARP);
		for (unsigned t = 0; t < threads; t++)
			waiting += block_lanes[t].state == WAITING;
		if (waiting == 0)
			return;
		for (unsigned t = 0; t < threads; t++) {
			if (block_lanes[t].state != WAITING ||
			    block_lanes[t].line != block_lanes[0].line)
				fail("a barrier that not all threads of the block reach (waiting, "
				     "thread)",
				     waiting, t);
			block_lanes[t].state = READY;
		}
	}
}

inline void run_grid(unsigned blocks, unsigned threads)
{
	const unsigned turn = (unsigned)(draw() % blocks);

	if (threads == 0 || threads % WARP != 0 || threads > BLOCK_LANES_MAX)
		fail("a block must have whole warps, and not too many (threads)", threads);
	for (; made < threads; made++)
		block_lanes[made].stack.make(lane_main);
	gridDim = dim3(blocks);
	blockDim = dim3(threads);
	unfenced.assign((size_t)blocks * threads, false);
	for (unsigned b = 0; b < blocks; b++) {
		blockIdx.x = (b + turn) % blocks;
		run_block(threads);
	}
}

} // namespace lanes

#endif

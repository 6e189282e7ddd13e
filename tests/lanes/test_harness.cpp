/* SPDX-License-Identifier: Apache-2.0 */
/* The lane harness itself: the results of the intrinsics, and that kernels with mistakes fail. */
#include <numeric>

#include <fcntl.h>
#include <sys/wait.h>

#include <cuda_runtime.h>

#include "lanes_test.h"

static const unsigned ALL = 0xffffffffu;

template <class... Args>
static void launch(unsigned blocks, unsigned threads, void (*kernel)(Args...), Args... args)
{
	void *pointers[] = { &args..., nullptr };

	CHECK(cudaLaunchKernel(kernel, dim3(blocks), dim3(threads), pointers, 0, nullptr) ==
	      cudaSuccess);
}

/* ---- correct kernels ---- */

/* The sum of a block's numbers: shuffles within each warp, the warps' sums through memory and a
 * barrier. */
static void sum_kernel(const unsigned *numbers, unsigned *warp_sums, unsigned *sums)
{
	const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
	unsigned sum = __ldg(numbers + blockIdx.x * blockDim.x + threadIdx.x);

	for (int step = 16; step > 0; step /= 2)
		sum += __shfl_xor_sync(ALL, sum, step);
	if (lane == 0)
		__stwb(warp_sums + blockIdx.x * warps + warp, sum);
	__syncthreads();
	if (warp == 0) {
		sum = lane < warps ? __ldg(warp_sums + blockIdx.x * warps + lane) : 0;
		for (unsigned step = 16; step > 0; step /= 2)
			sum += __shfl_down_sync(ALL, sum, step);
		if (lane == 0)
			__stwb(sums + blockIdx.x, sum);
	}
}

static void a_sum_over_blocks_is_right_in_every_order()
{
	const unsigned blocks = 3, threads = 160;

	for (unsigned turn = 1; turn <= 50; turn++) {
		lanes::lent.clear();
		const memory numbers(blocks * threads * 4, 0, false),
			warp_sums(blocks * threads / 32 * 4, 0, true), sums(blocks * 4, 0, true);
		const unsigned *from = (const unsigned *)numbers.at;
		lanes::seed = turn;
		scenario("sums, order %u", turn);
		for (unsigned i = 0; i < blocks * threads; i++)
			((unsigned *)numbers.at)[i] = i * i + turn;
		launch(blocks, threads, sum_kernel, from, (unsigned *)warp_sums.at,
		       (unsigned *)sums.at);
		for (unsigned b = 0; b < blocks; b++)
			CHECK(((unsigned *)sums.at)[b] ==
			      std::accumulate(from + b * threads, from + (b + 1) * threads, 0u));
	}
}

/* Halves of a warp take different branches, each with its own mask, and converge again. */
static void halves_kernel(unsigned long long *out)
{
	const unsigned lane = threadIdx.x % 32;
	unsigned long long value;

	if (lane < 16)
		value = __shfl_sync(0xffffu, (unsigned long long)lane << 40, 3);
	else
		value = __ballot_sync(0xffff0000u, lane % 2);
	__syncwarp();
	value += __shfl_up_sync(ALL, 1u, 1) + (unsigned)__popc(__activemask()) + (unsigned)__ffs(8);
	__stwb(out + threadIdx.x, value);
	atomicMax(out + 32, (unsigned long long)lane);
	atomicMin(out + 33, (unsigned long long)lane);
	atomicAdd(out + 34, (unsigned long long)lane);
}

static void halves_of_a_warp_may_diverge_and_converge()
{
	lanes::lent.clear();
	const memory out(35 * 8, 0, true);
	unsigned long long *at = (unsigned long long *)out.at;

	scenario("halves of a warp");
	memset(out.at, 0, out.bytes);
	at[33] = 99;
	launch(1, 32, halves_kernel, at);
	for (unsigned lane = 0; lane < 32; lane++)
		CHECK(at[lane] == (lane < 16 ? 3ull << 40 : 0xaaaa0000ull) + 1 + 1 + 4,
		      "lane %u: %llx", lane, at[lane]);
	CHECK(at[32] == 31 && at[33] == 0 && at[34] == 31 * 16);
}

/* Each lane has a number; of the lanes with the same number, the first to arrive gets the place.
 * Block sums use shared memory. */
static void meet_kernel(const unsigned *numbers, unsigned long long *places, unsigned *same,
                        unsigned *sums)
{
	__shared__ unsigned warp_sums[2];
	const unsigned warp = threadIdx.x / 32, number = __ldcg(numbers + threadIdx.x);
	unsigned sum = number;

	__stwb(same + threadIdx.x, __match_any_sync(ALL, (unsigned long long)number << 32));
	atomicCAS(places + number, 0ull, (unsigned long long)threadIdx.x + 1);
	for (int step = 16; step > 0; step /= 2)
		sum += __shfl_xor_sync(ALL, sum, step);
	warp_sums[warp] = sum;
	__syncthreads();
	__stwb(sums + threadIdx.x, warp_sums[0] + warp_sums[1]);
}

static void equal_values_match_and_one_lane_gets_the_place()
{
	for (unsigned turn = 1; turn <= 20; turn++) {
		lanes::lent.clear();
		const memory numbers(64 * 4, 0, false), places(8 * 8, 0, true),
			same(64 * 4, 0, true), sums(64 * 4, 0, true);
		unsigned *number = (unsigned *)numbers.at, sum = 0;
		lanes::seed = turn;
		scenario("lanes that match, order %u", turn);
		memset(places.at, 0, places.bytes);
		for (unsigned t = 0; t < 64; t++)
			sum += number[t] = t * t * turn % 7;
		launch(1, 64, meet_kernel, (const unsigned *)number,
		       (unsigned long long *)places.at, (unsigned *)same.at, (unsigned *)sums.at);
		for (unsigned t = 0; t < 64; t++) {
			const unsigned long long taken_by =
				((unsigned long long *)places.at)[number[t]];
			CHECK(taken_by >= 1 && number[taken_by - 1] == number[t]);
			CHECK(((unsigned *)sums.at)[t] == sum);
			for (unsigned l = 0; l < 32; l++)
				CHECK((((unsigned *)same.at)[t] >> l & 1) ==
				      (number[t / 32 * 32 + l] == number[t]));
		}
	}
}

/* Votes and sums of a warp; each thread performs one of the atomics. */
static void votes_kernel(unsigned *out, unsigned long long *words)
{
	const unsigned lane = threadIdx.x % 32;
	const unsigned bits = (unsigned)__any_sync(ALL, lane == 7) |
	                      (unsigned)__any_sync(ALL, lane == 40) << 1 |
	                      (unsigned)__all_sync(ALL, lane < 32) << 2 |
	                      (unsigned)__all_sync(ALL, lane < 31) << 3;

	__stcs(out + lane, bits);
	__stcg(out + 32 + lane, __reduce_add_sync(ALL, lane));
	__threadfence_system();
	__stwt(out + 64 + lane, (unsigned)__reduce_add_sync(ALL, -(int)__ldcg(out + 32 + lane)));
	atomicOr(words, 1ull << lane);
	atomicAnd(words + 1, ~(1ull << lane));
	atomicExch(words + 2 + lane, lane + 1ull);
	for (unsigned long long seen = __ldcv(words + 34), was;
	     (was = atomicCAS(words + 34, seen, seen * 3 + 1)) != seen;)
		seen = was;
}

static void votes_sums_and_atomics()
{
	lanes::lent.clear();
	const memory out(96 * 4, 0, true), words(35 * 8, 0, true);
	const unsigned *at = (const unsigned *)out.at;
	unsigned long long *w = (unsigned long long *)words.at, power = 0;

	scenario("votes, sums and atomics");
	memset(words.at, 0, words.bytes);
	w[1] = ~0ull;
	launch(1, 32, votes_kernel, (unsigned *)out.at, w);
	for (unsigned lane = 0; lane < 32; lane++)
		CHECK(at[lane] == 5 && at[32 + lane] == 31 * 16 &&
		      (int)at[64 + lane] == -32 * 31 * 16 && w[2 + lane] == lane + 1);
	for (unsigned lane = 0; lane < 32; lane++)
		power = power * 3 + 1;
	CHECK(w[0] == ALL && w[1] == ~(unsigned long long)ALL && w[34] == power);
}

static void shared_kernel(unsigned *out)
{
	__shared__ unsigned numbers[64];

	numbers[threadIdx.x] = threadIdx.x;
	__syncthreads();
	__stwb(out + threadIdx.x, numbers[63 - threadIdx.x]);
}

static void blocks_have_shared_memory()
{
	lanes::lent.clear();
	const memory out(64 * 4, 0, true);

	scenario("shared memory");
	launch(1, 64, shared_kernel, (unsigned *)out.at);
	for (unsigned i = 0; i < 64; i++)
		CHECK(((unsigned *)out.at)[i] == 63 - i);
}

/* ---- kernels with mistakes ---- */

static void shuffle_in_a_branch(unsigned *)
{
	if (threadIdx.x < 20)
		__shfl_sync(ALL, 1, 0);
}
static void lane_leaves_early(unsigned *)
{
	if (threadIdx.x == 9)
		return;
	__ballot_sync(ALL, 1);
}
static void two_places(unsigned *)
{
	if (threadIdx.x < 16)
		__syncwarp();
	else
		__syncwarp();
}
static void not_in_its_own_mask(unsigned *)
{
	__ballot_sync(0x7fffffffu, 1);
}
static void shuffle_from_outside_the_mask(unsigned *)
{
	if (threadIdx.x < 16)
		__shfl_sync(0xffffu, 1, 20);
}
/* The last block to finish announces the stores of all blocks. */
static void tell_kernel(unsigned *numbers, unsigned *blocks_done, unsigned *word)
{
	__stwb(numbers + blockIdx.x * blockDim.x + threadIdx.x, blockIdx.x);
	__threadfence_system();
	__syncthreads();
	if (threadIdx.x == 0 && atomicAdd(blocks_done, 1u) + 1 == gridDim.x)
		lanes_store_release(word, 9);
}

static void a_word_is_released_after_the_fences_of_all_blocks()
{
	const unsigned blocks = 3, threads = 64;
	lanes::lent.clear();
	const memory numbers(blocks * threads * 4, 0, true), words(8, 0, true);
	unsigned *const word = (unsigned *)words.at;

	scenario("a released word");
	memset(words.at, 0, words.bytes);
	launch(blocks, threads, tell_kernel, (unsigned *)numbers.at, word + 1, word);
	CHECK(word[0] == 9 && word[1] == blocks);
}

static void activemask_as_if_all_were_there(unsigned *)
{
	__shfl_sync(__activemask(), 1, 0);
}
static void match_in_a_branch(unsigned *)
{
	if (threadIdx.x % 2)
		__match_any_sync(ALL, 1);
}
static void swap_in_what_is_read_only(unsigned *p)
{
	atomicCAS(p + 64, 0u, 1u);
}
static void barrier_for_some(unsigned *)
{
	if (threadIdx.x < 32)
		__syncthreads();
}
static void barrier_in_a_branch(unsigned *)
{
	if (threadIdx.x % 32 == 0)
		__syncthreads();
	else
		__syncwarp(0xfffffffeu);
}
static void load_past_the_end(unsigned *p)
{
	__ldg(p + 4);
}
static void load_across_the_end(unsigned *p)
{
	__ldg((const uint4 *)p + 17);
}
static void load_in_front(unsigned *p)
{
	__ldg(p - 1);
}
static void misaligned_load(unsigned *p)
{
	__ldg((const uint2 *)(p + 1));
}
static void misaligned_store(unsigned *p)
{
	__stwb((unsigned short *)((unsigned char *)p + 1), (unsigned short)1);
}
static void store_to_what_is_read_only(unsigned *p)
{
	__stwb(p + 64, 1u);
}
static void atomic_outside(unsigned *p)
{
	atomicAdd(p + 1000, 1u);
}

static void release_behind_a_store(unsigned *p)
{
	__stwb(p, 1u);
	if (threadIdx.x == 0)
		lanes_store_release(p, 1);
}
static void release_behind_a_fence_of_the_gpu(unsigned *p)
{
	__stwb(p, 1u);
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0)
		lanes_store_release(p, 1);
}
static void release_behind_one_lanes_fence(unsigned *p)
{
	__stwb(p, 1u);
	__syncthreads();
	if (threadIdx.x != 0)
		return;
	__threadfence_system();
	lanes_store_release(p, 1);
}
static void release_to_what_is_read_only(unsigned *p)
{
	lanes_store_release(p + 64, 1);
}

static void fails(const char *name, void (*kernel)(unsigned *), const char *says)
{
	int ends[2], status;
	char text[2048];
	ssize_t got, all = 0;

	scenario("%s", name);
	fflush(nullptr);
	CHECK(pipe(ends) == 0);
	const pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		dup2(ends[1], 2);
		close(ends[0]);
		lanes::lent.clear();
		unsigned *room = (unsigned *)aligned_alloc(64, 512);
		lanes::lend(room, 16, true);
		lanes::lend(room + 64, 24, false);
		launch(1, 64, kernel, room);
		_exit(0);
	}
	close(ends[1]);
	while ((got = read(ends[0], text + all, sizeof(text) - 1 - (size_t)all)) > 0)
		all += got;
	text[all] = 0;
	close(ends[0]);
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1, "status %x: %s", (unsigned)status,
	      text);
	CHECK(strstr(text, says), "its output: %s", text);
}

static void kernels_with_mistakes_fail()
{
	fails("a shuffle that 20 lanes reach", shuffle_in_a_branch, "has left the kernel");
	fails("a lane that leaves early", lane_leaves_early, "has left the kernel");
	fails("the same barrier at two places", two_places, "waits elsewhere");
	fails("a lane that is not in its own mask", not_in_its_own_mask, "not in its own mask");
	fails("a shuffle from outside the mask", shuffle_from_outside_the_mask, "outside the mask");
	fails("activemask used as the whole warp", activemask_as_if_all_were_there,
	      "outside the mask");
	fails("a match in a branch", match_in_a_branch, "has left the kernel");
	fails("a swap in read-only memory", swap_in_what_is_read_only, "for reading");
	fails("a barrier that one warp reaches", barrier_for_some, "not all threads");
	fails("a barrier in a branch", barrier_in_a_branch, "not all threads");
	fails("a load past the end", load_past_the_end, "outside all memory");
	fails("a load before the start", load_in_front, "outside all memory");
	fails("a wide load across the end", load_across_the_end, "past the end");
	fails("a misaligned load", misaligned_load, "misaligned");
	fails("a misaligned store", misaligned_store, "misaligned");
	fails("a store to read-only memory", store_to_what_is_read_only, "for reading");
	fails("an atomic out of bounds", atomic_outside, "outside all memory");
	fails("a release after an unfenced store", release_behind_a_store,
	      "without a system fence");
	fails("a release after a device-wide fence", release_behind_a_fence_of_the_gpu,
	      "without a system fence");
	fails("a release after one lane's fence", release_behind_one_lanes_fence,
	      "without a system fence");
	fails("a release to read-only memory", release_to_what_is_read_only, "for reading");
}

int main()
{
	a_sum_over_blocks_is_right_in_every_order();
	halves_of_a_warp_may_diverge_and_converge();
	equal_values_match_and_one_lane_gets_the_place();
	votes_sums_and_atomics();
	blocks_have_shared_memory();
	a_word_is_released_after_the_fences_of_all_blocks();
	kernels_with_mistakes_fail();
	printf("harness: %lu cases\n", cases);
	return 0;
}

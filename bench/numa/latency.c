/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Idle latency, measured independently of `rung numa`. Each cache line holds the number of the next
 * line, and all lines form one cycle, drawn with Sattolo's shuffle. Whether the next line is on the
 * same page, or in the same pair of lines, is therefore random. The address is computed from the
 * number.
 *
 *     rung_bench_latency BYTES SECONDS     prints nanoseconds per hop
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define LINE_WORDS 16u /* of 4 bytes */
#define HOPS       100000u

static double seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* xorshift64* */
static uint64_t draw(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1du;
}

/* Sattolo's shuffle. */
static void make_circle(uint32_t *words, uint32_t lines)
{
	uint64_t state = 88172645463325252u;

	for (uint32_t i = 0; i < lines; i++)
		words[(size_t)i * LINE_WORDS] = i;
	for (uint32_t i = lines - 1; i > 0; i--) {
		/* below i, never i itself: this gives one cycle instead of several */
		const uint32_t other = (uint32_t)(draw(&state) % i);
		const uint32_t line = words[(size_t)i * LINE_WORDS];

		words[(size_t)i * LINE_WORDS] = words[(size_t)other * LINE_WORDS];
		words[(size_t)other * LINE_WORDS] = line;
	}
}

int main(int argc, char **argv)
{
	const size_t bytes = argc == 3 ? (size_t)atoll(argv[1]) : 0, align = 2u << 20;
	const double least = argc == 3 ? atof(argv[2]) : 0;
	volatile uint32_t sink;
	uint32_t *words, at = 0;
	uint64_t hops = 0;
	double begun, took;
	void *memory;

	if (bytes < (1u << 20) || bytes / 64 > UINT32_MAX || !(least > 0)) {
		fprintf(stderr, "Usage: rung_bench_latency BYTES SECONDS\n");
		return 2;
	}
	memory = mmap(NULL, bytes + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
	              0);
	if (memory == MAP_FAILED) {
		perror("rung_bench_latency");
		return 1;
	}
	words = (uint32_t *)(((uintptr_t)memory + align - 1) / align * align);
	madvise(words, bytes, MADV_HUGEPAGE);
	make_circle(words, (uint32_t)(bytes / 64));
	for (int round = 0; round < 2; round++) { /* the first one warms up */
		begun = seconds_now();
		for (hops = 0, took = 0; took < least; hops += HOPS, took = seconds_now() - begun) {
			for (uint32_t i = 0; i < HOPS; i++)
				at = words[(size_t)at * LINE_WORDS];
		}
	}
	sink = at;
	(void)sink;
	printf("%.4f\n", took / (double)hops * 1e9);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loops over arrays, with copy and triad as STREAM defines them, and a pointer chase. They use
 * streaming stores: normal stores first read the line that they overwrite, and these bytes are not
 * counted.
 */
#include "gather/copy.h"
#include "measure.h"

#define SCALE 3.0
#define FILL  1.0

/* Make the compiler assume that the sum is used. Otherwise it removes the loop. */
#define KEEP(x) __asm__ volatile("" : : "x"(x))

#if RUNG__HAVE_STREAM
#define AVX __attribute__((target("avx")))

/* These loops are compiled for AVX, although the library as a whole is not: has_avx() selects them
 * at run time. */

AVX static void read_avx(const double *b, size_t count)
{
	/* eight independent sums, because an addition waits for the previous one of its sum */
	__m256d sums[8];

	for (unsigned k = 0; k < 8; k++)
		sums[k] = _mm256_setzero_pd();
	for (size_t i = 0; i < count; i += 32) {
#pragma GCC unroll 8
		for (unsigned k = 0; k < 8; k++)
			sums[k] = _mm256_add_pd(sums[k], _mm256_load_pd(b + i + 4 * k));
	}
	for (unsigned k = 1; k < 8; k++)
		sums[0] = _mm256_add_pd(sums[0], sums[k]);
	KEEP(sums[0]);
}

AVX static void write_avx(double *a, size_t count)
{
	const __m256d fill = _mm256_set1_pd(FILL);

#pragma GCC unroll 4
	for (size_t i = 0; i < count; i += 4)
		_mm256_stream_pd(a + i, fill);
	rung__copy_fence(); /* streaming stores are complete when the pass ends */
}

AVX static void copy_avx(double *a, const double *b, size_t count)
{
	/* gathers copy with the same loop, and measure_gather.c compares them with this one */
	rung__copy_streamed((unsigned char *)a, (const unsigned char *)b, count * sizeof(*a));
	rung__copy_fence();
}

AVX static void triad_avx(double *a, const double *b, const double *c, size_t count)
{
	const __m256d scale = _mm256_set1_pd(SCALE);

#pragma GCC unroll 4
	for (size_t i = 0; i < count; i += 4) {
		const __m256d scaled = _mm256_mul_pd(scale, _mm256_load_pd(c + i));

		_mm256_stream_pd(a + i, _mm256_add_pd(_mm256_load_pd(b + i), scaled));
	}
	rung__copy_fence();
}
#endif

/* Whether the streaming loops are built in and the CPU supports them. */
static bool has_avx(void)
{
#if RUNG__HAVE_STREAM
	return __builtin_cpu_supports("avx");
#else
	return false;
#endif
}

const char *rung__stream_stores(void)
{
	return has_avx() ? "non-temporal" : "plain";
}

#if RUNG__HAVE_STREAM
static void pass_avx(unsigned kind, double *a, const double *b, const double *c, size_t count)
{
	switch (kind) {
	case RUNG__STREAM_READ:
		read_avx(b, count);
		break;
	case RUNG__STREAM_WRITE:
		write_avx(a, count);
		break;
	case RUNG__STREAM_COPY:
		copy_avx(a, b, count);
		break;
	default:
		triad_avx(a, b, c, count);
	}
}
#endif

/* A pass with normal stores, for other CPUs. Reading combines whole lines of eight words with XOR:
 * compilers may not reorder a sum of doubles, so they would not vectorise it. */
static void pass_plain(unsigned kind, double *a, const double *b, const double *c, size_t count)
{
	uint64_t bits[8] = { 0 };

	switch (kind) {
	case RUNG__STREAM_READ:
		for (size_t i = 0; i < count; i += 8) {
			uint64_t line[8];

			memcpy(line, b + i, sizeof(line));
			for (unsigned j = 0; j < 8; j++)
				bits[j] ^= line[j];
		}
		/* the compiler must assume that the words are used */
		__asm__ volatile("" : : "r"(bits) : "memory");
		break;
	case RUNG__STREAM_WRITE:
		for (size_t i = 0; i < count; i++)
			a[i] = FILL;
		break;
	case RUNG__STREAM_COPY:
		memcpy(a, b, count * sizeof(*a));
		break;
	default:
		for (size_t i = 0; i < count; i++)
			a[i] = b[i] + SCALE * c[i];
	}
}

void rung__stream_pass(unsigned kind, double *a, const double *b, const double *c, size_t count)
{
#if RUNG__HAVE_STREAM
	if (has_avx()) {
		pass_avx(kind, a, b, c, count);
		return;
	}
#endif
	pass_plain(kind, a, b, c, count);
}

/* ---- chase ---- */

#define LINES_OF_PAGE (RUNG__PAGE_BYTES / RUNG__MEASURE_LINE_BYTES)

/*
 * The line of a page that a round of the chase visits. Each round visits one line of every page, in
 * a random order of the pages.
 * Even lines are visited in the first half of the rounds, odd lines in the second: processors fetch
 * lines in pairs, and the other line of a pair has left the caches by then. The lines of a round
 * differ from page to page; otherwise all hops of the round would map to a few sets of the caches.
 */
static void **line_of(unsigned char *memory, uint32_t page, uint32_t round)
{
	const uint32_t half = LINES_OF_PAGE / 2;
	const uint32_t line =
		2 * ((round % half + (uint32_t)rung__mix64(page)) % half) + round / half;

	return (void **)(void *)(memory + (uint64_t)page * RUNG__PAGE_BYTES +
	                         line * RUNG__MEASURE_LINE_BYTES);
}

void *rung__chase_make(void *memory, uint64_t page_count, uint32_t *order)
{
	void **first, **at;

	for (uint32_t page = 0; page < page_count; page++)
		order[page] = page;
	/* Fisher-Yates, with the same order in each run */
	for (uint64_t i = page_count - 1; i > 0; i--) {
		const uint64_t other = rung__mix64(i) % (i + 1);
		const uint32_t page = order[i];

		order[i] = order[other];
		order[other] = page;
	}
	first = at = line_of(memory, order[0], 0);
	for (uint32_t round = 0; round < LINES_OF_PAGE; round++) {
		/* the very first line is where the cycle begins, and is linked to at the end */
		for (uint64_t i = round == 0 ? 1 : 0; i < page_count; i++) {
			void **next = line_of(memory, order[i], round);

			*at = (void *)next;
			at = next;
		}
	}
	*at = (void *)first;
	return (void *)first;
}

void *rung__chase(void *at, uint64_t hops)
{
	/* each load needs the result of the previous one: out-of-order execution cannot overlap
	 * them, and the time per hop is the latency */
#pragma GCC unroll 8
	for (uint64_t i = 0; i < hops; i++)
		at = *(void **)at;
	return at;
}

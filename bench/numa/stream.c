/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of STREAM with OpenMP, for comparison with `rung numa`: read, write, copy and triad
 * over three arrays, with bytes counted as in STREAM. It shares no code with the library: the
 * OpenMP runtime creates the threads. Stores bypass the caches.
 *
 *     rung_bench_stream BYTES THREADS SECONDS     prints a line such as "read BYTES_PER_S" per kind
 */
#include <immintrin.h>
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define AVX __attribute__((target("avx")))

enum { READ, WRITE, COPY, TRIAD, KINDS };
static const char *const names[KINDS] = { "read", "write", "copy", "triad" };
static const int moved[KINDS] = { 1, 1, 2, 3 }; /* arrays read and written */

static double seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double *new_array(size_t bytes)
{
	void *memory = mmap(NULL, bytes + (2u << 20), PROT_READ | PROT_WRITE,
	                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uintptr_t at = ((uintptr_t)memory + (2u << 20) - 1) / (2u << 20) * (2u << 20);

	if (memory == MAP_FAILED) {
		perror("rung_bench_stream");
		exit(1);
	}
	madvise((void *)at, bytes, MADV_HUGEPAGE);
	return (double *)at;
}

/* Eight independent vectors of four sums: an addition does not wait for the previous one. */
AVX static double part_read(const double *b, size_t begin, size_t end)
{
	__m256d sums[8] = { _mm256_setzero_pd() };
	double all[4];

	for (int k = 1; k < 8; k++)
		sums[k] = sums[0];
	for (size_t i = begin; i < end; i += 32) {
		for (size_t k = 0; k < 8; k++)
			sums[k] = _mm256_add_pd(sums[k], _mm256_load_pd(b + i + 4 * k));
	}
	for (int k = 1; k < 8; k++)
		sums[0] = _mm256_add_pd(sums[0], sums[k]);
	_mm256_storeu_pd(all, sums[0]);
	return all[0] + all[1] + all[2] + all[3];
}

AVX static void part_store(int kind, double *a, const double *b, const double *c, size_t begin,
                           size_t end)
{
	const __m256d three = _mm256_set1_pd(3), one = _mm256_set1_pd(1);

	if (kind == WRITE) {
		for (size_t i = begin; i < end; i += 4)
			_mm256_stream_pd(a + i, one);
	} else if (kind == COPY) {
		for (size_t i = begin; i < end; i += 4)
			_mm256_stream_pd(a + i, _mm256_load_pd(b + i));
	} else {
		for (size_t i = begin; i < end; i += 4)
			_mm256_stream_pd(
				a + i, _mm256_add_pd(_mm256_load_pd(b + i),
			                             _mm256_mul_pd(three, _mm256_load_pd(c + i))));
	}
	_mm_sfence();
}

/* The threads synchronize before and after all passes, not between them. @return seconds */
static double passes_of(int kind, double *a, const double *b, const double *c, size_t count,
                        size_t passes, double *sum_out)
{
	const size_t blocks = count / 32;
	double sum = 0, begun = seconds_now();

#pragma omp parallel reduction(+ : sum)
	{
		const size_t threads = (size_t)omp_get_num_threads(),
			     me = (size_t)omp_get_thread_num();
		const size_t begin = blocks * me / threads * 32,
			     end = blocks * (me + 1) / threads * 32;

		for (size_t i = 0; i < passes; i++) {
			if (kind == READ)
				sum += part_read(b, begin, end);
			else
				part_store(kind, a, b, c, begin, end);
		}
	}
	*sum_out += sum;
	return seconds_now() - begun;
}

int main(int argc, char **argv)
{
	const size_t count = argc == 4 ? (size_t)atoll(argv[1]) / 256 * 32 : 0,
		     bytes = count * sizeof(double);
	const double least = argc == 4 ? atof(argv[3]) : 0;
	double *a, *b, *c, sum = 0;

	if (count == 0 || atoi(argv[2]) < 1 || !(least > 0)) {
		fprintf(stderr, "Usage: rung_bench_stream BYTES THREADS SECONDS\n");
		return 2;
	}
	omp_set_num_threads(atoi(argv[2]));
	a = new_array(bytes);
	b = new_array(bytes);
	c = new_array(bytes);
	/* first touch: each thread's pages are placed on its node */
#pragma omp parallel for schedule(static)
	for (size_t i = 0; i < count; i++) {
		a[i] = 0;
		b[i] = 1;
		c[i] = 2;
	}
	for (int kind = 0; kind < KINDS; kind++) {
		size_t passes;
		double took;

		passes_of(kind, a, b, c, count, 1, &sum);
		took = passes_of(kind, a, b, c, count, 1, &sum);
		passes = 1 + (size_t)(least / took);
		took = passes_of(kind, a, b, c, count, passes, &sum);
		printf("%s %.6g\n", names[kind],
		       (double)passes * (double)bytes * moved[kind] / took);
	}
	if (a[count / 2] != 7 || sum < 1) { /* the sum is used, so that reads are not removed */
		fprintf(stderr,
		        "rung_bench_stream: the triad gave %g instead of 7, the sums are %g\n",
		        a[count / 2], sum);
		return 1;
	}
	return 0;
}

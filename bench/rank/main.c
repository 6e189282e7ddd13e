/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rung_rank_speed: rung_rank_order() with both maps, compared with copying the scores eight times.
 * That is the least memory traffic of a radix sort that processes 32 bits in passes of 8. Prints
 * one line per sample: seconds of the copies, seconds of the ranking. Afterwards the maps are
 * checked.
 */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "../common.h"

#define COPIES      8
#define THREADS_MAX 256
#define USAGE       "usage: rung_rank_speed COUNT INDEX_BYTES THREADS SAMPLES uniform|heavy|degrees"

struct job {
	pthread_t thread;
	float *to;
	const float *from;
	uint64_t count;
};

static void *copy_share(void *ctx)
{
	const struct job *job = ctx;

	for (int i = 0; i < COPIES; i++)
		memcpy(job->to, job->from, job->count * sizeof(*job->from));
	return NULL;
}

static double time_copies(float *to, const float *from, uint64_t count, uint64_t threads)
{
	struct job jobs[THREADS_MAX];
	const double begun = bench_now();

	for (uint64_t t = 0; t < threads; t++) {
		const uint64_t first = count * t / threads;

		jobs[t] = (struct job){ .to = to + first,
			                .from = from + first,
			                .count = count * (t + 1) / threads - first };
		if (pthread_create(&jobs[t].thread, NULL, copy_share, &jobs[t]))
			bench_die("a thread cannot be created");
	}
	for (uint64_t t = 0; t < threads; t++)
		pthread_join(jobs[t].thread, NULL);
	return bench_now() - begun;
}

/* Scores by kind. "uniform": in (0,1]. "heavy": 1/x^2 of uniform numbers, with a heavy tail.
 * "degrees": 1/x rounded down, which has a tail too, but mostly small integers and many ties. */
static float draw(const char *kind, uint64_t place)
{
	const double x = (double)((bench_draw(1, place) >> 11) + 1) * 0x1p-53;

	if (!strcmp(kind, "uniform"))
		return (float)x;
	if (!strcmp(kind, "heavy"))
		return (float)(1 / (x * x));
	return floorf((float)fmin(1 / x, 1e6));
}

static uint64_t entry(const void *map, uint64_t index_bytes, uint64_t i)
{
	return index_bytes == 4 ? ((const uint32_t *)map)[i] : ((const uint64_t *)map)[i];
}

static void check(const float *score, uint64_t count, uint64_t index_bytes,
                  const void *vertex_of_rank, const void *rank_of_vertex)
{
	for (uint64_t r = 0; r < count; r++) {
		const uint64_t v = entry(vertex_of_rank, index_bytes, r);
		const uint64_t before = r ? entry(vertex_of_rank, index_bytes, r - 1) : v;

		if (v >= count || entry(rank_of_vertex, index_bytes, v) != r)
			bench_die("the maps are not inverse to each other at rank %" PRIu64, r);
		if (score[before] < score[v] || (score[before] == score[v] && before > v))
			bench_die("ranks %" PRIu64 " and %" PRIu64 " are in the wrong order", r - 1,
			          r);
	}
}

int main(int argc, char **argv)
{
	uint64_t count, index_bytes, threads, samples;
	void *vertex_of_rank, *rank_of_vertex;
	float *score, *copy;

	bench_name = "rung_rank_speed";
	if (argc != 6 || (strcmp(argv[5], "uniform") && strcmp(argv[5], "heavy") &&
	                  strcmp(argv[5], "degrees"))) {
		fprintf(stderr, "%s\n", USAGE);
		return BENCH_USAGE;
	}
	count = bench_number(argv[1]);
	index_bytes = bench_number(argv[2]);
	threads = bench_number(argv[3]);
	samples = bench_number(argv[4]);
	if (threads == 0 || threads > THREADS_MAX)
		bench_die("THREADS is out of range; use 1 to %d", THREADS_MAX);
	score = bench_map(count * sizeof(*score));
	copy = bench_map(count * sizeof(*copy));
	vertex_of_rank = bench_map(count * index_bytes);
	rank_of_vertex = bench_map(count * index_bytes);
	for (uint64_t v = 0; v < count; v++)
		score[v] = draw(argv[5], v);
	for (uint64_t i = 0; i < samples; i++) {
		const double copies = time_copies(copy, score, count, threads), begun = bench_now();

		bench_need(rung_rank_order(score, count, (unsigned)index_bytes, (uint32_t)threads,
		                           vertex_of_rank, rank_of_vertex),
		           "ranking");
		printf("%.6f %.6f\n", copies, bench_now() - begun);
	}
	check(score, count, index_bytes, vertex_of_rank, rank_of_vertex);
	return BENCH_DONE;
}

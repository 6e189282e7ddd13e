/* SPDX-License-Identifier: Apache-2.0 */
#include "common.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#define PLAN_TRIES 200

const char *bench_name = "bench";

void bench_die(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s: ", bench_name);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
	exit(BENCH_FAILED);
}

void bench_need(int rc, const char *what)
{
	if (rc < 0)
		bench_die("%s: %s", what, rung_last_error());
}

double bench_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

double bench_cpu(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

void *bench_map(uint64_t bytes)
{
	void *map = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE,
	                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (map == MAP_FAILED)
		bench_die("out of memory: %" PRIu64 " bytes", bytes);
	madvise(map, bytes, MADV_HUGEPAGE); /* may fail: small pages work as well */
	for (uint64_t at = 0; at < bytes; at += BENCH_PAGE)
		((volatile char *)map)[at] = 0;
	return map;
}

uint64_t bench_draw(uint64_t seed, uint64_t place)
{
	/* splitmix64 (Steele, Lea, Flood 2014) */
	uint64_t x = seed * 0xd1342543de82ef95u + (place + 1) * 0x9e3779b97f4a7c15u;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

uint64_t bench_number(const char *text)
{
	char *end;
	uint64_t value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *end || *text == '-')
		bench_die("'%s' is not a valid number; use a whole number from 0 on", text);
	return value;
}

void bench_features_find(const struct rung_dataset *ds, struct bench_features *features_out)
{
	const struct rung_dataset_info *info = rung_dataset_info(ds);
	const struct rung_dataset_file *file, *features = NULL;

	for (size_t i = 0; (file = rung_dataset_file(ds, i)) != NULL; i++) {
		if (strncmp(file->name, "features", strlen("features")) != 0)
			continue;
		if (features)
			bench_die("%s: the features are in several files; stage them into one",
			          rung_dataset_dir(ds));
		features = file;
	}
	if (!features)
		bench_die("%s: the dataset has no features file", rung_dataset_dir(ds));
	*features_out = (struct bench_features){
		.data_offset = features->data_offset,
		.row_bytes = info->features.row_bytes,
		.row_stride = info->row_stride,
		.row_count = info->vertex_count,
	};
	if (asprintf(&features_out->path, "%s/%s", rung_dataset_dir(ds), features->name) < 0)
		bench_die("out of memory");
}

struct rung_plan *bench_plan(const struct rung_dataset *ds, uint64_t host_rows, uint64_t cache_rows,
                             uint32_t depth)
{
	const struct rung_dataset_info *info = rung_dataset_info(ds);
	struct rung_plan_opts opts = RUNG_PLAN_OPTS_INIT;
	uint64_t frames = 0;

	opts.device = RUNG_DEVICE_CPU;
	opts.queue_depth = depth;
	opts.cache_bytes = cache_rows ? cache_rows * info->row_stride : RUNG_BYTES_NONE;
	/* 16 MiB for slots that hold several rows, as in stores of real size */
	opts.host_bytes =
		host_rows * info->row_stride + (16u << 20) + (cache_rows ? opts.cache_bytes : 0);
	for (int i = 0; i < PLAN_TRIES; i++) {
		struct rung_plan *plan;
		uint64_t held;

		bench_need(rung_plan_create(ds, &opts, &plan), "planning");
		held = rung_plan_tier(plan, 0)->row_count;
		frames = rung_plan_cache(plan)->row_count;
		if (held == host_rows && (cache_rows == 0 || frames == cache_rows))
			return plan;
		rung_plan_destroy(plan);
		if (cache_rows && frames != cache_rows)
			opts.cache_bytes += (cache_rows - frames) * info->row_stride;
		opts.host_bytes += (host_rows - held) * info->row_stride;
	}
	bench_die("%s: no budget for exactly %" PRIu64 " rows and a cache of %" PRIu64,
	          rung_dataset_dir(ds), host_rows, cache_rows);
}

uint32_t bench_fanouts(const char *text, uint32_t fanouts[RUNG_HOPS_MAX])
{
	char *copy = strdup(text), *rest = copy;
	uint32_t count = 0;

	for (const char *word; (word = strsep(&rest, ",")) != NULL;) {
		if (count == RUNG_HOPS_MAX)
			bench_die("fanouts: too many hops; use at most %d", RUNG_HOPS_MAX);
		fanouts[count++] = (uint32_t)bench_number(word);
	}
	free(copy);
	return count;
}

void bench_shuffle(uint64_t *items, uint64_t count, uint64_t seed)
{
	for (uint64_t i = count; i > 1; i--) {
		uint64_t j = bench_draw(seed, i) % i, kept = items[i - 1];

		items[i - 1] = items[j];
		items[j] = kept;
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rung_gather_hits DIR IDS COUNT: gathers of rows that are all in host memory, compared with the
 * plainest loop that copies them.
 *
 * IDS is a file of u64 ranks, which form lists of COUNT each. The program reads commands on stdin
 * and answers each with a line on stdout, so that a driver can alternate it with other programs:
 *
 *     floor VARIANT THREADS REPEATS [read]   the loop -> seconds for REPEATS times all lists
 *     rung THREADS REPEATS [read]            rung_gather_submit, wait, put -> seconds
 *     check                                  gathers every list again with rung -> wrong rows
 *     variants                               -> names of the variants of the loop
 *
 * Each thread gathers its share of each list, both in the loop and with rung, once before the clock
 * starts. With "read" there are three outputs in turn, and each is read two gathers later, as a
 * trainer does with the batches of a loader. Rows are in huge pages if the kernel has them.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "../common.h"

#define THREADS_MAX    64u
#define LINE           64u
#define OUTPUTS        3u
#define PREFETCH_BYTES 512u /* of a row: the hardware prefetches the rest */

/* How the lines of the row that is `ahead` rows later are prefetched: the first ones at once, into
 * the first-level cache, or each with a copied line, into the second level. */
enum prefetch { AT_ONCE, SPREAD };

struct variant {
	const char *name;
	unsigned ahead; /* distance in rows from the copied row to the prefetched one; 0: none */
	bool streamed;  /* stores of 32 bytes that bypass the caches */
	enum prefetch prefetch;
};

static const struct variant variants[] = {
	{ "memcpy-0", 0, false, AT_ONCE },      { "memcpy-4", 4, false, AT_ONCE },
	{ "memcpy-8", 8, false, AT_ONCE },      { "memcpy-16", 16, false, AT_ONCE },
#ifdef __x86_64__
	{ "spread-4", 4, false, SPREAD },       { "spread-16", 16, false, SPREAD },
	{ "stream-0", 0, true, AT_ONCE },       { "stream-4", 4, true, AT_ONCE },
	{ "stream-8", 8, true, AT_ONCE },       { "stream-16", 16, true, AT_ONCE },
	{ "stream-spread-4", 4, true, SPREAD }, { "stream-spread-16", 16, true, SPREAD },
#endif
};
#define VARIANT_COUNT (sizeof(variants) / sizeof(*variants))

static struct {
	struct rung_store *store;
	struct bench_features features;
	unsigned char *rows; /* a copy of all rows for the loop */
	unsigned char *out;  /* OUTPUTS of them */
	uint64_t *ids;
	uint64_t count, list_count;
	pthread_barrier_t begin, end;
	/* the current command */
	const struct variant *variant; /* NULL: rung */
	uint64_t repeats;
	unsigned threads;
	bool reads;            /* each output after its gather */
	volatile uint64_t sum; /* of what was read, so that the compiler keeps the reads */
} run;

/* gcc drops calls of a function that only prefetches, as without effect, unless it is inlined */
__attribute__((always_inline)) static inline void ask_for(const uint64_t *ids, uint64_t i,
                                                          uint64_t count)
{
	size_t row_bytes = run.features.row_bytes;

	if (i < count) {
		for (size_t at = 0; at < row_bytes && at < PREFETCH_BYTES; at += LINE)
			__builtin_prefetch(run.rows + ids[i] * row_bytes + at, 0, 0);
	}
}

static void copy_list(unsigned ahead, const uint64_t *ids, uint64_t count, unsigned char *out)
{
	size_t row_bytes = run.features.row_bytes;

	for (uint64_t i = 0; i < count; i++) {
		if (ahead)
			ask_for(ids, i + ahead, count);
		memcpy(out + i * row_bytes, run.rows + ids[i] * row_bytes, row_bytes);
	}
}

#ifdef __x86_64__
/* Copies two lines after their loads. Rows are multiples of 128 bytes: is_here() */
__attribute__((target("avx"), always_inline)) static inline void copy_lines(
	bool stream, unsigned char *to, const unsigned char *from)
{
	__m256i part[4];

	for (unsigned i = 0; i < 4; i++)
		part[i] = _mm256_loadu_si256((const __m256i *)(const void *)(from + 32 * i));
	for (unsigned i = 0; i < 4; i++) {
		if (stream)
			_mm256_stream_si256((__m256i *)(void *)(to + 32 * i), part[i]);
		else
			_mm256_storeu_si256((__m256i *)(void *)(to + 32 * i), part[i]);
	}
}

__attribute__((target("avx"), always_inline)) static inline void copy_by_lines(
	bool stream, enum prefetch prefetch, unsigned ahead, const uint64_t *ids, uint64_t count,
	unsigned char *out)
{
	size_t row_bytes = run.features.row_bytes;

	for (uint64_t i = 0; i < count; i++) {
		const unsigned char *from = run.rows + ids[i] * row_bytes;
		const unsigned char *later =
			run.rows + ids[i + ahead < count ? i + ahead : i] * row_bytes;

		if (ahead && prefetch == AT_ONCE)
			ask_for(ids, i + ahead, count);
		for (size_t at = 0; at < row_bytes; at += 2 * LINE) {
			if (prefetch == SPREAD) {
				_mm_prefetch((const char *)later + at, _MM_HINT_T1);
				_mm_prefetch((const char *)later + at + LINE, _MM_HINT_T1);
			}
			copy_lines(stream, out + i * row_bytes + at, from + at);
		}
	}
	_mm_sfence(); /* the stores must be complete when the clock stops */
}

__attribute__((target("avx"))) static void spread_list(const struct variant *variant,
                                                       const uint64_t *ids, uint64_t count,
                                                       unsigned char *out)
{
	copy_by_lines(false, SPREAD, variant->ahead, ids, count, out);
}

__attribute__((target("avx"))) static void stream_list(const struct variant *variant,
                                                       const uint64_t *ids, uint64_t count,
                                                       unsigned char *out)
{
	if (variant->prefetch == SPREAD)
		copy_by_lines(true, SPREAD, variant->ahead, ids, count, out);
	else
		copy_by_lines(true, AT_ONCE, variant->ahead, ids, count, out);
}
#endif

static void floor_list(const struct variant *variant, const uint64_t *ids, uint64_t count,
                       unsigned char *out)
{
#ifdef __x86_64__
	if (variant->streamed) {
		stream_list(variant, ids, count, out);
		return;
	}
	if (variant->prefetch == SPREAD) {
		spread_list(variant, ids, count, out);
		return;
	}
#endif
	copy_list(variant->ahead, ids, count, out);
}

static void read_rows(const unsigned char *rows, size_t bytes)
{
	const uint64_t *words = (const uint64_t *)(const void *)rows;
	uint64_t sum = 0;

	for (size_t i = 0; i < bytes / sizeof(*words); i++)
		sum += words[i];
	run.sum = sum;
}

static void gather(const uint64_t *ids, uint64_t count, unsigned char *out)
{
	struct rung_ids list = {
		.data = ids, .count = count, .dtype = RUNG_U64, .space = RUNG_RANKS
	};
	struct rung_request *request;

	bench_need(rung_gather_submit(run.store, &list, out, 0, RUNG_STREAM_OWN, &request),
	           "gathering");
	bench_need(rung_request_wait(request, -1), "gathering");
	rung_request_put(request);
}

static void work(unsigned thread, uint64_t repeats)
{
	uint64_t first = run.count * thread / run.threads,
		 end = run.count * (thread + 1) / run.threads, turn = 0;
	const uint64_t out_bytes = run.count * run.features.row_bytes;
	unsigned char *outs = run.out + first * run.features.row_bytes;

	for (uint64_t repeat = 0; repeat < repeats; repeat++) {
		for (uint64_t l = 0; l < run.list_count; l++, turn++) {
			const uint64_t *ids = run.ids + l * run.count + first;
			unsigned char *out = outs + (run.reads ? turn % OUTPUTS : 0) * out_bytes;

			if (run.variant)
				floor_list(run.variant, ids, end - first, out);
			else
				gather(ids, end - first, out);
			if (run.reads)
				read_rows(outs + (turn + 1) % OUTPUTS * out_bytes,
				          (end - first) * run.features.row_bytes);
		}
	}
}

static void *thread_main(void *arg)
{
	unsigned thread = (unsigned)(uintptr_t)arg;

	work(thread, 1);
	pthread_barrier_wait(&run.begin);
	work(thread, run.repeats);
	pthread_barrier_wait(&run.end);
	return NULL;
}

/* The calling thread is thread 0 and takes the time between the barriers, so that creating the
 * threads is not timed. @return seconds */
static double carry_out(unsigned threads)
{
	pthread_t others[THREADS_MAX];
	double begun;

	if (threads == 0 || threads > THREADS_MAX)
		bench_die("%u threads are out of range; use 1 to %u", threads, THREADS_MAX);
	run.threads = threads;
	pthread_barrier_init(&run.begin, NULL, threads);
	pthread_barrier_init(&run.end, NULL, threads);
	for (unsigned t = 1; t < threads; t++) {
		if (pthread_create(&others[t], NULL, thread_main, (void *)(uintptr_t)t) != 0)
			bench_die("a thread cannot be created");
	}
	work(0, 1);
	pthread_barrier_wait(&run.begin);
	begun = bench_now();
	work(0, run.repeats);
	pthread_barrier_wait(&run.end);
	begun = bench_now() - begun;
	for (unsigned t = 1; t < threads; t++)
		pthread_join(others[t], NULL);
	pthread_barrier_destroy(&run.begin);
	pthread_barrier_destroy(&run.end);
	return begun;
}

/* Gathers each list with rung and compares the rows with the file. @return wrong rows */
static uint64_t check(void)
{
	uint64_t wrong = 0, row_bytes = run.features.row_bytes;

	for (uint64_t l = 0; l < run.list_count; l++) {
		const uint64_t *ids = run.ids + l * run.count;

		memset(run.out, 0xee, run.count * row_bytes);
		gather(ids, run.count, run.out);
		for (uint64_t i = 0; i < run.count; i++)
			wrong += memcmp(run.out + i * row_bytes, run.rows + ids[i] * row_bytes,
			                row_bytes) != 0;
	}
	return wrong;
}

static void load(const char *path, uint64_t offset, void *to, uint64_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	for (uint64_t done = 0; done < bytes;) {
		ssize_t got =
			fd < 0 ? -1
			       : pread(fd, (char *)to + done, bytes - done, (off_t)(offset + done));

		if (got <= 0)
			bench_die("%s: %" PRIu64 " bytes from %" PRIu64 " cannot be read", path,
			          bytes, offset);
		done += (uint64_t)got;
	}
	close(fd);
}

static void set_up(const char *dir, const char *ids, const char *count)
{
	struct rung_store_opts opts = RUNG_STORE_OPTS_INIT;
	struct rung_plan_opts plan_opts = RUNG_PLAN_OPTS_INIT;
	struct rung_dataset *ds;
	struct rung_plan *plan;
	off_t ids_bytes;
	int fd = open(ids, O_RDONLY | O_CLOEXEC);

	ids_bytes = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
	close(fd);
	run.count = bench_number(count);
	if (run.count == 0 || ids_bytes <= 0 || (uint64_t)ids_bytes % (run.count * 8) != 0)
		bench_die("%s: not a file of lists of %" PRIu64 " u64", ids, run.count);
	run.list_count = (uint64_t)ids_bytes / (run.count * 8);
	run.ids = bench_map((uint64_t)ids_bytes);
	load(ids, 0, run.ids, (uint64_t)ids_bytes);

	bench_need(rung_dataset_open(dir, &ds), "opening the dataset");
	bench_features_find(ds, &run.features);
	if (run.features.row_stride != run.features.row_bytes)
		bench_die("%s: rows are padded; the loops need rows without gaps", dir);
	plan_opts.host_bytes = RUNG_BYTES_MAX;
	plan_opts.device = RUNG_DEVICE_CPU;
	bench_need(rung_plan_create(ds, &plan_opts, &plan), "planning");
	opts.requests_max = THREADS_MAX;
	opts.batch_rows_max = (uint32_t)run.count;
	bench_need(rung_store_open(ds, plan, &opts, &run.store), "opening the store");
	rung_plan_destroy(plan);
	rung_dataset_close(ds);

	for (uint64_t i = 0; i < run.count * run.list_count; i++) {
		if (run.ids[i] >= run.features.row_count)
			bench_die("%s: rank %" PRIu64 " is out of range", ids, run.ids[i]);
	}
	run.rows = bench_map(run.features.row_count * run.features.row_bytes);
	load(run.features.path, run.features.data_offset, run.rows,
	     run.features.row_count * run.features.row_bytes);
	run.out = bench_map(OUTPUTS * run.count * run.features.row_bytes);
}

/* Whether this machine and this width of rows allow the variant. */
static bool is_here(const struct variant *variant)
{
	if (!variant->streamed && variant->prefetch == AT_ONCE)
		return true;
#ifdef __x86_64__
	return run.features.row_bytes % (2 * LINE) == 0 && __builtin_cpu_supports("avx");
#else
	return false;
#endif
}

static void list_variants(void)
{
	for (unsigned v = 0; v < VARIANT_COUNT && is_here(&variants[v]); v++)
		printf("%s%s", v ? " " : "", variants[v].name);
	printf("\n");
}

static void obey(const char *order)
{
	unsigned variant, threads;
	uint64_t repeats;

	run.reads = strstr(order, " read\n") != NULL;
	if (sscanf(order, "floor %u %u %" SCNu64, &variant, &threads, &repeats) == 3 &&
	    variant < VARIANT_COUNT && is_here(&variants[variant])) {
		run.variant = &variants[variant];
		run.repeats = repeats;
		printf("%.9f\n", carry_out(threads));
	} else if (sscanf(order, "rung %u %" SCNu64, &threads, &repeats) == 2) {
		run.variant = NULL;
		run.repeats = repeats;
		printf("%.9f\n", carry_out(threads));
	} else if (strcmp(order, "check\n") == 0) {
		printf("%" PRIu64 "\n", check());
	} else if (strcmp(order, "variants\n") == 0) {
		list_variants();
	} else {
		bench_die("unknown command: %s", order);
	}
	fflush(stdout);
}

int main(int argc, char **argv)
{
	char order[128];

	bench_name = "rung_gather_hits";
	if (argc != 4) {
		fprintf(stderr, "usage: rung_gather_hits DIR IDS COUNT\n");
		return BENCH_USAGE;
	}
	set_up(argv[1], argv[2], argv[3]);
	while (fgets(order, sizeof(order), stdin))
		obey(order);
	bench_need(rung_store_close(run.store), "closing the store");
	return BENCH_DONE;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows with mmap, and with a pool of threads and pread.
 *
 * mmap: rows are copied from a mapping of the file, in the order of the list, without read-ahead,
 * as by indexing a mapped array. At the start of each batch the file is evicted from the page
 * cache: if a file is many times larger than memory, hardly any of its pages are cached.
 *
 * pread: each thread reads a row with one direct read of the 4096-byte blocks that hold it, and
 * copies it (Ginex, the packing of DiskGNN).
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cold.h"

#define THREADS_MAX 256u
#define CHUNK       16u /* rows that a thread claims at a time */

struct plain;
typedef void (*copy_fn)(struct plain *plain, unsigned char *bounce, uint64_t rank,
                        unsigned char *to);

struct plain {
	struct cold_run *run;
	copy_fn copy;
	int fd;
	const unsigned char *map;
	uint64_t map_bytes;
	uint64_t faults; /* major faults of the process before the current batch */

	pthread_t threads[THREADS_MAX];
	/* the fields below are written by the main thread before `begin`, except the counters */
	pthread_barrier_t begin, end;
	bool stop;
	const struct cold_batch *batch;
	unsigned char *out;
	_Atomic uint64_t next; /* first row that is not claimed */
	_Atomic uint64_t reads, read_bytes;
};

static void work(struct plain *plain, unsigned char *bounce)
{
	const struct cold_batch *batch = plain->batch;
	uint64_t row_bytes = plain->run->features.row_bytes;

	for (;;) {
		uint64_t first = atomic_fetch_add(&plain->next, CHUNK);

		if (first >= batch->count)
			return;
		for (uint64_t i = first; i < first + CHUNK && i < batch->count; i++)
			plain->copy(plain, bounce, batch->ranks[i], plain->out + i * row_bytes);
	}
}

static uint64_t bounce_bytes(const struct cold_run *run)
{
	return run->features.row_bytes / BENCH_PAGE * BENCH_PAGE + 3 * BENCH_PAGE;
}

static void *thread_main(void *arg)
{
	struct plain *plain = arg;
	unsigned char *bounce = aligned_alloc(BENCH_PAGE, bounce_bytes(plain->run));

	if (!bounce)
		bench_die("out of memory");
	for (;;) {
		pthread_barrier_wait(&plain->begin);
		if (plain->stop)
			break;
		work(plain, bounce);
		pthread_barrier_wait(&plain->end);
	}
	free(bounce);
	return NULL;
}

static struct plain *open_plain(struct cold_run *run, copy_fn copy)
{
	struct plain *plain = calloc(1, sizeof(*plain));

	if (!plain)
		bench_die("out of memory");
	if (run->threads == 0 || run->threads > THREADS_MAX)
		bench_die("threads=%u is out of range; use 1 to %u", run->threads, THREADS_MAX);
	plain->run = run;
	plain->copy = copy;
	pthread_barrier_init(&plain->begin, NULL, run->threads + 1);
	pthread_barrier_init(&plain->end, NULL, run->threads + 1);
	for (uint32_t t = 0; t < run->threads; t++) {
		if (pthread_create(&plain->threads[t], NULL, thread_main, plain) != 0)
			bench_die("thread %u of %u cannot be created", t + 1, run->threads);
	}
	run->state = plain;
	return plain;
}

static void close_plain(struct cold_run *run)
{
	struct plain *plain = run->state;

	plain->stop = true;
	pthread_barrier_wait(&plain->begin);
	for (uint32_t t = 0; t < run->threads; t++)
		pthread_join(plain->threads[t], NULL);
	pthread_barrier_destroy(&plain->begin);
	pthread_barrier_destroy(&plain->end);
	if (plain->map)
		munmap((void *)(uintptr_t)plain->map, plain->map_bytes);
	close(plain->fd);
	free(plain);
}

static void begin_plain(struct cold_run *run, uint64_t batch, unsigned char *out)
{
	struct plain *plain = run->state;

	plain->batch = &run->batches[batch];
	plain->out = out;
	atomic_store(&plain->next, 0);
	pthread_barrier_wait(&plain->begin);
	pthread_barrier_wait(&plain->end);
}

/* ---- mmap ---- */

static uint64_t major_faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)usage.ru_majflt;
}

static void copy_mapped(struct plain *plain, unsigned char *bounce, uint64_t rank,
                        unsigned char *to)
{
	(void)bounce;
	memcpy(to, plain->map + cold_offset(plain->run, rank), plain->run->features.row_bytes);
}

/* Empties the page cache. The file is mapped again, because mapped pages cannot be evicted. */
static void map_cold(struct cold_run *run)
{
	struct plain *plain = run->state;
	void *map;

	if (plain->map)
		munmap((void *)(uintptr_t)plain->map, plain->map_bytes);
	posix_fadvise(plain->fd, 0, 0, POSIX_FADV_DONTNEED);
	map = mmap(NULL, plain->map_bytes, PROT_READ, MAP_SHARED, plain->fd, 0);
	if (map == MAP_FAILED)
		bench_die("%s: cannot be mapped", run->features.path);
	madvise(map, plain->map_bytes, MADV_RANDOM);
	plain->map = map;
	plain->faults = major_faults();
}

static void open_mmap(struct cold_run *run)
{
	struct plain *plain = open_plain(run, copy_mapped);

	plain->fd = open(run->features.path, O_RDONLY | O_CLOEXEC);
	if (plain->fd < 0)
		bench_die("%s: cannot be opened", run->features.path);
	fsync(plain->fd); /* dirty pages cannot be evicted */
	plain->map_bytes = (uint64_t)lseek(plain->fd, 0, SEEK_END);
}

/* Without read-ahead, each major fault is a read of one page. */
static void begin_mmap(struct cold_run *run, uint64_t batch, unsigned char *out)
{
	struct plain *plain = run->state;

	begin_plain(run, batch, out);
	run->reads += major_faults() - plain->faults;
	run->read_bytes = run->reads * BENCH_PAGE;
}

/* The page cache is emptied before each batch, and what a batch fills is not counted. */
static uint64_t mmap_bytes(const struct cold_run *run)
{
	(void)run;
	return 0;
}

const struct cold_strategy cold_mmap = { "mmap", open_mmap, map_cold,    begin_mmap,
	                                 NULL,   NULL,      close_plain, mmap_bytes };

/* ---- pread ---- */

static void copy_read(struct plain *plain, unsigned char *bounce, uint64_t rank, unsigned char *to)
{
	uint64_t row_bytes = plain->run->features.row_bytes, offset = cold_offset(plain->run, rank);
	uint64_t begin = cold_page_begin(offset), bytes = cold_page_end(offset + row_bytes) - begin;
	ssize_t got = pread(plain->fd, bounce, bytes, (off_t)begin);

	if (got < (ssize_t)(offset + row_bytes - begin))
		bench_die("%s: reading %llu bytes at %llu failed", plain->run->features.path,
		          (unsigned long long)bytes, (unsigned long long)begin);
	memcpy(to, bounce + (offset - begin), row_bytes);
	atomic_fetch_add_explicit(&plain->reads, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&plain->read_bytes, bytes, memory_order_relaxed);
}

static void open_pread(struct cold_run *run)
{
	struct plain *plain = open_plain(run, copy_read);

	plain->fd = cold_open_direct(run);
}

static void counted_pread(struct cold_run *run)
{
	struct plain *plain = run->state;

	run->reads = atomic_load(&plain->reads);
	run->read_bytes = atomic_load(&plain->read_bytes);
}

static uint64_t pread_bytes(const struct cold_run *run)
{
	return run->threads * bounce_bytes(run);
}

const struct cold_strategy cold_pread = { "pread", open_pread,    NULL,        begin_plain,
	                                  NULL,    counted_pread, close_plain, pread_bytes };

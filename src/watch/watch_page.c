/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creating, filling and removing the page of a store.
 *
 * Pages that are still open at exit are removed by a destructor. It shares a fixed list with
 * rung__watch_close(): whoever takes a page out of the list removes its file. No lock is used,
 * because a child of fork() may exit while a thread that it does not have held the lock.
 */
#include "watch/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define OPEN_MAX   64u   /* pages that are removed at exit; further ones are removed by a reader */
#define NUMBER_MAX 1024u /* pages of a process */
#define SWITCH     "RUNG_STATS_PAGE"

static _Atomic(struct rung__watch *) open_pages[OPEN_MAX];

static void remove_file(const struct rung__watch *watch)
{
	if (watch->path && watch->pid == getpid())
		unlink(watch->path);
}

__attribute__((destructor)) static void remove_at_exit(void)
{
	for (size_t i = 0; i < OPEN_MAX; i++) {
		struct rung__watch *watch = atomic_exchange(&open_pages[i], NULL);

		if (watch)
			remove_file(watch);
	}
}

static void enter(struct rung__watch *watch)
{
	for (size_t i = 0; i < OPEN_MAX; i++) {
		struct rung__watch *none = NULL;

		watch->listed = true; /* before others can find it */
		if (atomic_compare_exchange_strong(&open_pages[i], &none, watch))
			return;
	}
	watch->listed = false;
}

/* @return false: the destructor has it, because the process is ending */
static bool leave(struct rung__watch *watch)
{
	for (size_t i = 0; i < OPEN_MAX && watch->listed; i++) {
		struct rung__watch *found = watch;

		if (atomic_compare_exchange_strong(&open_pages[i], &found, NULL))
			return true;
	}
	return !watch->listed;
}

static void describe(struct rung__watch_page *page)
{
	memcpy(page->magic, RUNG__WATCH_MAGIC, sizeof(page->magic));
	page->version = RUNG__WATCH_VERSION;
	page->bytes = sizeof(*page);
	page->pid = (uint32_t)getpid();
	page->start_time = rung__watch_start_time(page->pid);
	page->pid_space = rung__watch_pid_space();
	page->opened_s = (uint64_t)time(NULL);
}

/* Create a file under the first number that is free. @return its descriptor, or -1 with errno */
static int create_file(int dir_fd, const char *folder, char path[RUNG__WATCH_PATH_BYTES])
{
	int fd = -1;

	errno = EEXIST;
	for (unsigned n = 0; n < NUMBER_MAX && fd < 0 && errno == EEXIST; n++) {
		char name[32];

		snprintf(name, sizeof(name), "%u-%u", (unsigned)getpid(), n);
		if (snprintf(path, RUNG__WATCH_PATH_BYTES, "%s/%s", folder, name) >=
		    (int)RUNG__WATCH_PATH_BYTES) {
			errno = ENAMETOOLONG;
			return -1;
		}
		fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		            S_IRUSR | S_IWUSR);
	}
	return fd;
}

/* Create and map a page in a folder. @return false with the reason */
static bool map_file(struct rung__watch *watch, int dir_fd, const char *folder)
{
	char path[RUNG__WATCH_PATH_BYTES];
	const int fd = create_file(dir_fd, folder, path);
	int err = fd < 0 ? errno : 0;

	/* before the head is written: a page with a head and without this lock is dead */
	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0)
		err = errno;
	if (!err) {
		do
			err = posix_fallocate(fd, 0, sizeof(*watch->page));
		while (err == EINTR);
	}
	if (err == 0) {
		/* unlike the store's other memory, a child of fork() may read it */
		void *page =
			mmap(NULL, sizeof(*watch->page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		watch->path = page == MAP_FAILED ? NULL : rung__strdup(path);
		if (watch->path)
			watch->page = page;
		else if (page != MAP_FAILED)
			munmap(page, sizeof(*watch->page));
		err = watch->page ? 0 : ENOMEM;
	}
	if (fd >= 0 && err) {
		unlink(path);
		close(fd);
	}
	if (!err)
		watch->lock_fd = fd;
	else
		snprintf(watch->why, sizeof(watch->why), "%.150s: %.100s", folder, strerror(err));
	return err == 0;
}

static void no_page(void *ctx, int fd, uint32_t number)
{
	(void)ctx;
	(void)fd;
	(void)number;
}

/* Create the page in the first folder that can be used. */
static void map_somewhere(struct rung__watch *watch)
{
	char folder[RUNG__WATCH_PATH_BYTES];
	bool done = false;

	snprintf(watch->why, sizeof(watch->why), "no folder in memory is writable");
	for (unsigned i = 0; i < RUNG__WATCH_FOLDERS && !done; i++) {
		int dir_fd;

		if (!rung__watch_folder(i, folder))
			continue;
		dir_fd = rung__watch_folder_open(folder, true, watch->why, sizeof(watch->why));
		if (dir_fd < 0)
			continue;
		rung__watch_folder_each(dir_fd, no_page, NULL);
		done = map_file(watch, dir_fd, folder);
		close(dir_fd);
	}
	if (done)
		watch->why[0] = 0;
}

int rung__watch_open(struct rung__watch **watch_out)
{
	struct rung__watch *watch = rung__zalloc(sizeof(*watch));
	const char *value = getenv(SWITCH);

	if (!watch)
		return rung__fail(RUNG_E_NOMEM, "store: out of memory");
	watch->pid = getpid();
	if (value && strcmp(value, "0") == 0)
		snprintf(watch->why, sizeof(watch->why), SWITCH " is 0");
	else
		map_somewhere(watch);
	if (!watch->page)
		watch->page = rung__malloc_aligned(64, sizeof(*watch->page));
	if (!watch->page) {
		rung__free(watch);
		return rung__fail(RUNG_E_NOMEM, "store: out of memory");
	}
	if (!watch->path)
		memset(watch->page, 0, sizeof(*watch->page));
	describe(watch->page);
	pthread_mutex_init(&watch->lock, NULL);
	if (watch->path)
		enter(watch);
	*watch_out = watch;
	return 0;
}

void rung__watch_close(struct rung__watch *watch)
{
	if (!watch)
		return;
	if (!watch->path) {
		rung__free(watch->page);
	} else {
		if (!leave(watch))
			return;
		remove_file(watch);
		close(watch->lock_fd);
		munmap(watch->page, sizeof(*watch->page));
		rung__free(watch->path);
	}
	pthread_mutex_destroy(&watch->lock);
	rung__free(watch);
}

void rung__watch_publish(struct rung__watch *watch)
{
	atomic_store_explicit(&watch->page->is_open, 1, memory_order_release);
}

void rung__watch_text(char *to, size_t room, const char *text)
{
	snprintf(to, room, "%s", text ? text : "");
}

/* ---- waits ---- */

static uint64_t load(const _Atomic uint64_t *value)
{
	return atomic_load_explicit(value, memory_order_relaxed);
}

/* The first thread that is blocked begins a wait, and the last one ends it. Release stores
 * keep the values between the two changes of `seq`, as in a seqlock. With the lock held. */
static void set_waits(struct rung__watch_waits *waits, enum rung__wait kind, uint64_t ns,
                      uint64_t since_ns)
{
	const uint64_t seq = load(&waits->seq);

	atomic_store_explicit(&waits->seq, seq + 1, memory_order_relaxed);
	atomic_store_explicit(&waits->ns[kind], ns, memory_order_release);
	atomic_store_explicit(&waits->since_ns[kind], since_ns, memory_order_release);
	atomic_store_explicit(&waits->seq, seq + 2, memory_order_release);
}

void rung__watch_wait_begin(struct rung__watch *watch, enum rung__wait kind)
{
	struct rung__watch_waits *waits = &watch->page->waits;

	pthread_mutex_lock(&watch->lock);
	if (watch->waiting[kind]++ == 0)
		set_waits(waits, kind, load(&waits->ns[kind]), rung__now_ns());
	pthread_mutex_unlock(&watch->lock);
}

void rung__watch_wait_end(struct rung__watch *watch, enum rung__wait kind)
{
	struct rung__watch_waits *waits = &watch->page->waits;

	pthread_mutex_lock(&watch->lock);
	if (--watch->waiting[kind] == 0)
		set_waits(waits, kind,
		          load(&waits->ns[kind]) + rung__now_ns() - load(&waits->since_ns[kind]),
		          0);
	pthread_mutex_unlock(&watch->lock);
}

#define READS_MAX 1000u /* attempts to read the waits; a writer needs a few instructions */

/* The times so far, current waits included. */
static void sum_waits(const struct rung__watch_waits *waits, uint64_t now_ns,
                      uint64_t out[RUNG__WAIT_COUNT])
{
	for (unsigned tries = 0; tries < READS_MAX; tries++) {
		const uint64_t seq = atomic_load_explicit(&waits->seq, memory_order_acquire);

		for (unsigned k = 0; k < RUNG__WAIT_COUNT; k++) {
			const uint64_t ns =
				atomic_load_explicit(&waits->ns[k], memory_order_acquire);
			const uint64_t since =
				atomic_load_explicit(&waits->since_ns[k], memory_order_acquire);

			out[k] = ns + (since && now_ns > since ? now_ns - since : 0);
		}
		if (seq % 2 == 0 && load(&waits->seq) == seq)
			return;
	}
}

/* ---- statistics ---- */

static void add_file(const struct rung__refill_counters *c, struct rung_store_stats *stats)
{
	stats->device_reads += load(&c->device_reads);
	stats->device_read_bytes += load(&c->device_read_bytes);
	stats->merged_rows += load(&c->merged_rows);
	stats->retries += load(&c->retries);
	stats->cache_hits += load(&c->cache_hits);
	stats->joined_rows += load(&c->joined_rows);
	stats->read_rows += load(&c->read_rows);
	stats->duplicate_rows += load(&c->duplicate_rows);
	stats->failed_rows += load(&c->failed_rows);
	stats->late_rows += load(&c->late_rows);
	stats->read_ns += load(&c->read_ns);
	stats->reads_in_flight += load(&c->reads_in_flight);
	stats->ahead_rows += load(&c->ahead_rows);
	stats->window_batches =
		RUNG__MAX(stats->window_batches, (uint32_t)load(&c->window_batches));
	for (unsigned s = 0; s < RUNG_READ_PHASE_COUNT; s++) {
		for (unsigned b = 0; b < RUNG_LATENCY_BUCKETS; b++)
			stats->phases[s][b] += load(&c->phases[s][b]);
	}
}

void rung__watch_sum(const struct rung__watch_page *page, uint32_t file_count, uint64_t now_ns,
                     struct rung_store_stats *stats)
{
	const struct rung__counters *c = &page->counters;
	uint64_t waits[RUNG__WAIT_COUNT] = { 0 };

	stats->requests = load(&c->requests);
	stats->request_errors = load(&c->request_errors);
	stats->host_waits = load(&c->host_waits);
	stats->scatters = load(&c->scatters);
	for (unsigned b = 0; b < RUNG_LATENCY_BUCKETS; b++)
		stats->latency[b] = load(&c->latency[b]);
	for (uint32_t f = 0; f < file_count; f++)
		add_file(&page->files[f].counters, stats);
	sum_waits(&page->waits, now_ns, waits);
	stats->wait_rows_ns = waits[RUNG__WAIT_ROWS];
	stats->wait_sample_ns = waits[RUNG__WAIT_SAMPLE];
}

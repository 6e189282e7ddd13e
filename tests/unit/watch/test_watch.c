/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics pages: where they are, who can enter, when they go, and what a reader believes. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "watch/watch.h"

static char runtime[64];                    /* $XDG_RUNTIME_DIR of the test */
static char folder[RUNG__WATCH_PATH_BYTES]; /* the pages in it */

/* In /dev/shm, because pages are only created in memory. */
static void begin(void)
{
	snprintf(runtime, sizeof(runtime), "/dev/shm/rung-watch-test-XXXXXX");
	if (!mkdtemp(runtime)) {
		fprintf(stderr, "[SKIP] /dev/shm: no folder can be created\n");
		exit(77);
	}
	snprintf(folder, sizeof(folder), "%s/rung", runtime);
	setenv("XDG_RUNTIME_DIR", runtime, 1);
	unsetenv("RUNG_STATS_PAGE");
}

static void end(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", runtime);
	cr_assert_eq(system(command), 0);
}

TestSuite(watch, .init = begin, .fini = end);

static struct rung__watch *open_page(void)
{
	struct rung__watch *watch;

	cr_assert_eq(rung__watch_open(&watch), 0);
	return watch;
}

/* The path of a file in the folder, valid until the next call. */
static const char *path_of(const char *name)
{
	static char path[RUNG__WATCH_PATH_BYTES + 64];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static const char *page_name(pid_t pid, unsigned number)
{
	static char name[32];

	snprintf(name, sizeof(name), "%d-%u", (int)pid, number);
	return name;
}

static bool exists(const char *name)
{
	return access(path_of(name), F_OK) == 0;
}

static void write_file(const char *name, const void *data, size_t bytes)
{
	FILE *file = fopen(path_of(name), "w");

	cr_assert(file && fwrite(data, 1, bytes, file) == bytes);
	fclose(file);
}

/* As a running process would. @return a descriptor with its lock */
static int write_page(const char *name, const struct rung__watch_page *page)
{
	int fd;

	write_file(name, page, sizeof(*page));
	fd = open(path_of(name), O_RDWR | O_CLOEXEC);
	cr_assert(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0);
	return fd;
}

/* The view of this process's page with a number, or NULL. The caller frees *views. */
static const struct rung__watch_view *find(pid_t pid, unsigned number,
                                           struct rung__watch_view **views)
{
	size_t count;

	cr_assert_eq(rung__watch_read(views, &count), 0);
	for (size_t i = 0; i < count; i++) {
		if ((*views)[i].pid == (uint32_t)pid && (*views)[i].number == number)
			return &(*views)[i];
	}
	return NULL;
}

static bool is_seen(pid_t pid, unsigned number)
{
	struct rung__watch_view *views;
	const bool seen = find(pid, number, &views) != NULL;

	rung__free(views);
	return seen;
}

Test(watch, pages_are_private_files_that_are_removed)
{
	struct rung__watch *first = open_page(), *second = open_page();
	struct stat st;

	cr_assert_str_empty(first->why);
	cr_assert_str_eq(first->path, path_of(page_name(getpid(), 0)));
	cr_assert_str_eq(second->path, path_of(page_name(getpid(), 1)));
	cr_assert(stat(folder, &st) == 0 && (st.st_mode & 07777) == 0700);
	cr_assert(stat(first->path, &st) == 0 && (st.st_mode & 07777) == 0600);
	cr_assert_eq(st.st_size, sizeof(struct rung__watch_page));
	rung__watch_close(first);
	cr_assert(!exists(page_name(getpid(), 0)) && exists(page_name(getpid(), 1)));
	rung__watch_close(second);
	cr_assert(!exists(page_name(getpid(), 1)));
	rung__watch_close(NULL);
}

Test(watch, can_be_switched_off)
{
	struct rung__watch *watch;

	setenv("RUNG_STATS_PAGE", "0", 1);
	watch = open_page();
	cr_assert(!watch->path && strstr(watch->why, "RUNG_STATS_PAGE"));
	rung__watch_publish(watch);
	cr_assert(access(folder, F_OK) < 0 && !is_seen(getpid(), 0));
	rung__watch_close(watch);
}

static void expect_elsewhere(void)
{
	struct rung__watch *watch = open_page();

	/* in another folder, or nowhere; the store works in both cases */
	cr_assert(watch->path ? strncmp(watch->path, runtime, strlen(runtime)) != 0
	                      : watch->why[0] != 0);
	atomic_store(&watch->page->counters.requests, 1);
	rung__watch_close(watch);
}

Test(watch, folders_that_are_not_private_are_left_alone)
{
	setenv("XDG_RUNTIME_DIR", "/nowhere/at/all", 1);
	expect_elsewhere();
	setenv("XDG_RUNTIME_DIR", "relative", 1);
	expect_elsewhere();
	setenv("XDG_RUNTIME_DIR", "/proc", 1); /* nothing can be created there, by any user */
	expect_elsewhere();
	setenv("XDG_RUNTIME_DIR", runtime, 1);
	cr_assert_eq(mkdir(folder, 0755), 0);
	expect_elsewhere();
	cr_assert_eq(rmdir(folder), 0);
	cr_assert_eq(symlink("/dev/shm", folder), 0);
	expect_elsewhere();
}

/* Fork a child that opens a page; its pid. */
static pid_t child_with_page(void (*leave)(int))
{
	static struct rung__watch *volatile kept; /* reachable at exit: not a leak */
	const pid_t child = fork();

	if (child == 0) {
		kept = open_page();
		rung__watch_publish(kept);
		leave(0);
	}
	cr_assert(child > 0 && waitpid(child, NULL, 0) == child);
	return child;
}

Test(watch, exit_removes_a_page_that_was_not_closed)
{
	struct rung__watch *watch = open_page();
	const pid_t child = child_with_page(exit);

	cr_assert(!exists(page_name(child, 0)));
	cr_assert(exists(page_name(getpid(), 0)), "a child's exit removed its parent's page");
	rung__watch_close(watch);
}

Test(watch, the_next_process_removes_pages_of_dead_ones)
{
	pid_t child = child_with_page(_exit);
	struct rung__watch *watch;
	siginfo_t info;

	cr_assert(exists(page_name(child, 0)));
	watch = open_page();
	cr_assert(!exists(page_name(child, 0)));
	child = fork();
	if (child == 0) {
		rung__watch_publish(open_page());
		_exit(0);
	}
	/* a zombie: it has ended, but its pid is still in use */
	cr_assert(child > 0 && waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) == 0);
	cr_assert(exists(page_name(child, 0)) && !is_seen(child, 0));
	cr_assert(!exists(page_name(child, 0)), "reading did not remove it");
	cr_assert_eq(waitpid(child, NULL, 0), child);
	rung__watch_close(watch);
}

Test(watch, a_page_stays_neither_over_execve_nor_after_a_container)
{
	int pipe_fds[2];
	char byte;
	pid_t child;

	cr_assert_eq(pipe2(pipe_fds, O_CLOEXEC), 0);
	child = fork();
	if (child == 0) {
		rung__watch_publish(open_page());
		execlp("sleep", "sleep", "600", (char *)NULL);
		_exit(1);
	}
	close(pipe_fds[1]);
	cr_assert(child > 0 && read(pipe_fds[0], &byte, 1) == 0); /* closed by execve() */
	cr_assert(exists(page_name(child, 0)) && !is_seen(child, 0));
	cr_assert(!exists(page_name(child, 0)), "its pid and start time are those of the page");
	kill(child, SIGKILL);
	cr_assert_eq(waitpid(child, NULL, 0), child);
	close(pipe_fds[0]);
	child = fork();
	if (child == 0) {
		struct rung__watch *watch = open_page();

		watch->page->pid_space++;
		rung__watch_publish(watch);
		_exit(0);
	}
	cr_assert(child > 0 && waitpid(child, NULL, 0) == child);
	cr_assert(exists(page_name(child, 0)) && !is_seen(child, 0));
	cr_assert(!exists(page_name(child, 0)), "the lock is free");
}

Test(watch, a_pid_that_was_used_again_is_noticed)
{
	struct rung__watch *watch = open_page();

	rung__watch_publish(watch);
	cr_assert(is_seen(getpid(), 0));
	watch->page->pid_space++; /* another container: neither shown nor removed */
	cr_assert(!is_seen(getpid(), 0) && exists(page_name(getpid(), 0)));
	watch->page->pid_space--;
	watch->page->start_time++;
	cr_assert(!is_seen(getpid(), 0) && !exists(page_name(getpid(), 0)));
	rung__watch_close(watch);
}

Test(watch, a_page_is_seen_once_the_store_is_open)
{
	struct rung__watch *watch = open_page();

	cr_assert(!is_seen(getpid(), 0));
	rung__watch_publish(watch);
	cr_assert(is_seen(getpid(), 0));
	rung__watch_close(watch);
	cr_assert(!is_seen(getpid(), 0));
}

Test(watch, readers_get_properties_and_counters)
{
	struct rung__watch *watch = open_page();
	struct rung__watch_page *page = watch->page;
	struct rung__watch_view *views;
	const struct rung__watch_view *view;

	page->tiers[2].rows = 7;
	rung__watch_text(page->tiers[2].name, sizeof(page->tiers[2].name), "host");
	rung__watch_text(page->dataset, sizeof(page->dataset), "/data/\033[2J");
	rung__watch_text(page->engine, sizeof(page->engine), "an engine with a long name");
	page->file_count = 2;
	page->row_bytes = 100;
	atomic_store(&page->counters.tier_hits[2], 5);
	for (int f = 0; f < 3; f++) { /* the third file does not exist */
		atomic_store(&page->files[f].counters.device_reads, 3);
		atomic_store(&page->files[f].counters.reads_in_flight, 2);
	}
	rung__watch_publish(watch);
	view = find(getpid(), 0, &views);
	cr_assert(view && view->stats.tier_count == 1);
	cr_assert_str_eq(view->stats.tiers[0].name, "host");
	cr_assert(view->stats.tiers[0].rows == 7 && view->stats.tiers[0].hits == 5 &&
	          view->stats.tiers[0].bytes == 500);
	cr_assert(view->stats.device_reads == 6 && view->stats.reads_in_flight == 4);
	cr_assert_str_eq(view->stats.engine, "an engine with ");
	cr_assert_str_eq(view->dataset, "/data/?[2J", "a terminal would obey this");
	cr_assert(view->command[0], "the name of the process is missing");
	rung__free(views);
	rung__watch_close(watch);
}

Test(watch, what_is_not_a_page_is_ignored)
{
	struct rung__watch *watch = open_page();
	struct rung__watch_page bad;
	struct rung__watch_view *views;
	const struct rung__watch_view *view;
	int locks[2];

	rung__watch_publish(watch);
	bad = *watch->page;
	write_file("notes.txt", "text", 4);
	write_file("1-0", "garbage", 7); /* process 1 runs: it may be creating its page */
	write_file("1-00", "", 0);
	cr_assert_eq(mkfifo(path_of(page_name(getpid(), 9)), 0600), 0);
	write_file(page_name(getpid(), 1), &bad, sizeof(bad) - 1);
	bad.file_count = RUNG_FEATURE_FILES_MAX + 1;
	locks[0] = write_page(page_name(getpid(), 2), &bad);
	bad.file_count = 1;
	bad.version++;
	write_file(page_name(getpid(), 3), &bad, sizeof(bad));
	bad.version--;
	bad.waits.seq = 1; /* its owner was stopped there */
	memset(bad.dataset, 'x', sizeof(bad.dataset));
	memset(bad.tiers, 'x', sizeof(bad.tiers));
	locks[1] = write_page(page_name(getpid(), 4), &bad);
	write_file(page_name(getpid(), 5), &bad, sizeof(bad)); /* without the lock */
	for (unsigned n = 1; n < 6; n++)
		cr_assert_eq(is_seen(getpid(), n), n == 4, "%u", n);
	cr_assert(exists(page_name(getpid(), 3)) && !exists(page_name(getpid(), 5)));
	view = find(getpid(), 4, &views);
	cr_assert(view && strlen(view->dataset) == sizeof(view->dataset) - 1);
	cr_assert(view->stats.tier_count == RUNG_TIERS_MAX && strlen(view->tier_names[7]) == 15);
	rung__free(views);
	cr_assert(exists("notes.txt") && exists("1-0") && exists("1-00"));
	close(locks[0]);
	close(locks[1]);
	rung__watch_close(watch);
}

static uint64_t waited_ns(const struct rung__watch *watch, uint64_t now_ns, enum rung__wait kind)
{
	struct rung_store_stats stats = { .size = sizeof(stats) };

	rung__watch_sum(watch->page, 0, now_ns, &stats);
	return kind == RUNG__WAIT_ROWS ? stats.wait_rows_ns : stats.wait_sample_ns;
}

Test(watch, waits_of_several_threads_count_once)
{
	struct rung__watch *watch = open_page();
	uint64_t begun_ns, middle_ns, ended_ns, ns;

	begun_ns = rung__now_ns();
	rung__watch_wait_begin(watch, RUNG__WAIT_ROWS);
	rung__watch_wait_begin(watch, RUNG__WAIT_ROWS);
	middle_ns = rung__now_ns();
	rung__watch_wait_end(watch, RUNG__WAIT_ROWS);
	/* the second thread still waits: its wait is counted before it ends */
	ns = waited_ns(watch, middle_ns + 1000000, RUNG__WAIT_ROWS);
	cr_assert(ns >= 1000000 && ns <= middle_ns + 1000000 - begun_ns);
	rung__watch_wait_end(watch, RUNG__WAIT_ROWS);
	ended_ns = rung__now_ns();
	ns = waited_ns(watch, ended_ns, RUNG__WAIT_ROWS);
	cr_assert(ns >= 1 && ns <= ended_ns - begun_ns);
	cr_assert_eq(waited_ns(watch, ended_ns + 1000, RUNG__WAIT_ROWS), ns);
	cr_assert_eq(waited_ns(watch, ended_ns, RUNG__WAIT_SAMPLE), 0);
	rung__watch_close(watch);
}

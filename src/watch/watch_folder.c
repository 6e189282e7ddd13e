/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folders with the pages of a user: where they are, whether they are private, and which of
 * their files belong to processes that run.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "watch/watch.h"

/* A folder of another user (an environment kept by sudo) is not used: this user's folder in it
 * would lock its owner out. */
static bool is_ours(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
}

bool rung__watch_folder(unsigned i, char path[RUNG__WATCH_PATH_BYTES])
{
	const char *given = getenv("XDG_RUNTIME_DIR");
	const unsigned user = (unsigned)geteuid();
	char base[64];

	if (i == 0) {
		if (!given || given[0] != '/' || !is_ours(given))
			return false;
		return snprintf(path, RUNG__WATCH_PATH_BYTES, "%s/rung", given) <
		       (int)RUNG__WATCH_PATH_BYTES;
	}
	if (i == 1) {
		snprintf(base, sizeof(base), "/run/user/%u", user);
		snprintf(path, RUNG__WATCH_PATH_BYTES, "%s/rung", base);
		return is_ours(base) && !(given && strcmp(given, base) == 0);
	}
	snprintf(path, RUNG__WATCH_PATH_BYTES, "/dev/shm/rung-%u", user);
	return true;
}

/* @return NULL, or the reason why the folder is not used */
static const char *check(int fd)
{
	struct stat st;
	struct statfs fs;

	if (fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0)
		return strerror(errno);
	if (st.st_uid != geteuid())
		return "belongs to another user";
	if (st.st_mode & (S_IRWXG | S_IRWXO))
		return "other users can enter it; chmod 700 it";
	if (fs.f_type != TMPFS_MAGIC && fs.f_type != RAMFS_MAGIC)
		return "is not in memory (tmpfs)";
	return NULL;
}

int rung__watch_folder_open(const char *path, bool create, char *why, size_t why_bytes)
{
	const char *refused;
	int fd;

	if (create && mkdir(path, S_IRWXU) < 0 && errno != EEXIST) {
		snprintf(why, why_bytes, "%.150s: %.100s", path, strerror(errno));
		return -1;
	}
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	refused = fd < 0 ? strerror(errno) : check(fd);
	if (!refused)
		return fd;
	snprintf(why, why_bytes, "%.150s: %.100s", path, refused);
	if (fd >= 0)
		close(fd);
	return -1;
}

uint64_t rung__watch_start_time(uint32_t pid)
{
	char path[64], line[1024], state = 0;
	unsigned long long ticks = 0, threads = 0;
	const char *at;
	ssize_t length;
	int fd, err;

	/* through the first thread: a process in qemu-user that reads its /proc/PID/stat gets an
	 * invented start time, which other processes do not see */
	snprintf(path, sizeof(path), "/proc/%u/task/%u/stat", pid, pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) /* another error than "no such process", or no /proc: nothing is known */
		return errno == ENOENT && access("/proc/self/stat", F_OK) == 0
		               ? 0
		               : RUNG__WATCH_TIME_UNKNOWN;
	length = read(fd, line, sizeof(line) - 1);
	err = errno;
	close(fd);
	if (length <= 0)
		return length < 0 && err == ESRCH ? 0 : RUNG__WATCH_TIME_UNKNOWN;
	line[length] = 0;
	/* the name of the process, in brackets, can contain anything; field 3 follows it, and
	 * fields 20 and 22 are the number of threads and the start time */
	at = strrchr(line, ')');
	if (!at || sscanf(at,
	                  ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
	                  "%*s %llu %*s %llu",
	                  &state, &threads, &ticks) != 3)
		return RUNG__WATCH_TIME_UNKNOWN;
	/* a zombie has ended, and its parent has not noticed yet, unless other threads run */
	return state == 'Z' && threads <= 1 ? 0 : ticks;
}

uint64_t rung__watch_pid_space(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

/* The two numbers of the name PID-N. Other names are not ours. */
static bool parse(const char *name, uint32_t *pid, uint32_t *number)
{
	char again[32];

	if (sscanf(name, "%u-%u", pid, number) != 2)
		return false;
	snprintf(again, sizeof(again), "%u-%u", *pid, *number);
	return strcmp(again, name) == 0;
}

#define CREATION_S 60 /* a page without a valid head may be in creation, in any pid namespace */

/*
 * Whether the process of a page runs. An old page without a valid head is judged by its name. In
 * another pid namespace only the lock shows that the process has ended.
 */
enum life { DEAD, ALIVE, UNKNOWN };

static enum life life_of(int fd, uint32_t pid, uint64_t pid_space)
{
	struct rung__watch_page head;
	const uint64_t start = rung__watch_start_time(pid);
	const size_t head_bytes = offsetof(struct rung__watch_page, is_open);
	struct stat st;

	if (start == RUNG__WATCH_TIME_UNKNOWN)
		return UNKNOWN;
	if (pread(fd, &head, head_bytes, 0) != (ssize_t)head_bytes ||
	    memcmp(head.magic, RUNG__WATCH_MAGIC, sizeof(head.magic)) != 0)
		return start || fstat(fd, &st) < 0 || time(NULL) - st.st_mtime < CREATION_S
		               ? UNKNOWN
		               : DEAD;
	if (head.version != RUNG__WATCH_VERSION)
		return start || head.pid_space != pid_space ? UNKNOWN : DEAD;
	/* released when the caller closes `fd` */
	if (flock(fd, LOCK_SH | LOCK_NB) == 0)
		return DEAD;
	if (head.pid_space != pid_space)
		return UNKNOWN;
	return start && start == head.start_time && head.pid == pid ? ALIVE : DEAD;
}

void rung__watch_folder_each(int dir_fd, void (*each)(void *ctx, int fd, uint32_t number),
                             void *ctx)
{
	const uint64_t pid_space = rung__watch_pid_space();
	/* opened again: a listing has a position, which descriptors from dup() share */
	const int list_fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = list_fd < 0 ? NULL : fdopendir(list_fd);
	const struct dirent *entry;

	if (!list && list_fd >= 0)
		close(list_fd);
	while (list && (entry = readdir(list)) != NULL) {
		uint32_t pid, number;
		enum life life;
		int fd;

		if (!parse(entry->d_name, &pid, &number))
			continue;
		fd = openat(dir_fd, entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (fd < 0)
			continue;
		life = life_of(fd, pid, pid_space);
		if (life == DEAD)
			unlinkat(dir_fd, entry->d_name, 0);
		if (life == ALIVE)
			each(ctx, fd, number);
		close(fd);
	}
	if (list)
		closedir(list);
}

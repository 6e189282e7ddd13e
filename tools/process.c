/* SPDX-License-Identifier: Apache-2.0 */
/* Time and memory of this process, and SIGUSR1, which asks it what it does. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "tool.h"

uint64_t tool_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

unsigned tool_cpu_count(void)
{
	cpu_set_t cpus;
	long online = sysconf(_SC_NPROCESSORS_ONLN);

	/* a set of this size has room for 1024 CPUs; the call fails on larger machines */
	if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0)
		return (unsigned)CPU_COUNT(&cpus);
	return online > 0 ? (unsigned)online : 1;
}

/* VmHWM, because ru_maxrss is kept across exec(): it starts with the peak of the process that
 * forked this one. getrusage() is used only if /proc is not mounted. */
uint64_t tool_peak_rss(void)
{
	struct rusage usage;
	char line[256];
	unsigned long long kib = 0;
	FILE *status = fopen("/proc/self/status", "re");

	if (status) {
		while (fgets(line, sizeof(line), status)) {
			if (sscanf(line, "VmHWM: %llu kB", &kib) == 1)
				break;
		}
		fclose(status);
	}
	if (kib == 0 && getrusage(RUSAGE_SELF, &usage) == 0)
		kib = (unsigned long long)usage.ru_maxrss;
	return kib * 1024;
}

/* SIGUSR1: the handler sets `asked`, and writes to a pipe that a status thread may wait at. */
static _Atomic int asked, watched;
static int wake_fds[2] = { -1, -1 };

static void wake(void)
{
	const int saved = errno;

	/* a full pipe wakes the thread as well */
	if (write(wake_fds[1], "", 1) < 0)
		errno = saved;
}

static void on_ask(int number)
{
	(void)number;
	atomic_store(&asked, 1);
	wake();
}

void tool_ask_listen(void)
{
	/* SA_RESTART: reads and writes in progress must not fail */
	struct sigaction action = { .sa_handler = on_ask, .sa_flags = (int)SA_RESTART };

	if (pipe2(wake_fds, O_CLOEXEC | O_NONBLOCK) == 0)
		sigaction(SIGUSR1, &action, NULL);
	else
		signal(SIGUSR1, SIG_IGN);
}

void tool_ask_watch(int now_watched)
{
	atomic_store(&watched, now_watched);
	wake();
}

int tool_asked(void)
{
	if (!atomic_load_explicit(&asked, memory_order_relaxed) || atomic_load(&watched))
		return 0;
	return atomic_exchange(&asked, 0);
}

int tool_ask_await(uint64_t until_ns)
{
	struct pollfd ready = { .fd = wake_fds[0], .events = POLLIN };
	uint64_t now_ns;
	char drop[64];

	while ((now_ns = tool_now_ns()) < until_ns) {
		/* without a pipe, nothing wakes the thread when it is to end */
		const uint64_t most = ready.fd < 0 ? 100 : 3600000;
		const uint64_t ms = (until_ns - now_ns) / 1000000 + 1;

		if (!atomic_load(&watched))
			return 1;
		if (poll(&ready, 1, (int)(ms < most ? ms : most)) <= 0)
			continue;
		while (read(wake_fds[0], drop, sizeof(drop)) > 0)
			;
		if (atomic_exchange(&asked, 0) || !atomic_load(&watched))
			return 1;
	}
	return 0;
}

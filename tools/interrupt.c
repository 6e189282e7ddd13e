/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals that end a command. The handler calls only async-signal-safe functions, and reads only
 * lock-free atomics.
 */
#include "interrupt.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "tool.h"

#define FILES_MAX     4
#define SAME_PRESS_NS 100000000u /* timeout(1) sends its signal twice: to us, and to our group */
#define SIGNALS_MAX   4

static const int numbers[SIGNALS_MAX] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE };
static const char *command = "rung";
static sigset_t handled; /* these and SIGALRM */
static const char *_Atomic files[FILES_MAX];
static const char *_Atomic hint_path, *_Atomic hint_text;
static _Atomic int received, ending, bar_drawn;
static _Atomic uint64_t received_ns;
static _Atomic uint32_t grace_ms;

static const char *name_of(int number)
{
	switch (number) {
	case SIGINT:
		return "SIGINT";
	case SIGTERM:
		return "SIGTERM";
	case SIGHUP:
		return "SIGHUP";
	default:
		return "a signal";
	}
}

/* A stopped terminal, or a pipe without a reader, must not block the process. */
static void say(const char *text)
{
	struct pollfd err = { .fd = STDERR_FILENO, .events = POLLOUT };

	if (poll(&err, 1, 0) == 1 && (err.revents & POLLOUT) &&
	    write(STDERR_FILENO, text, strlen(text)) < 0)
		return;
}

static void explain(int number)
{
	const char *path = atomic_load(&hint_path), *text = atomic_load(&hint_text);

	if (atomic_load(&bar_drawn))
		say("\r\033[K");
	say(command);
	say(": interrupted by ");
	say(name_of(number));
	say("\n");
	if (path && text && access(path, F_OK) == 0)
		say(text);
}

/* All of the signals are blocked in the calling thread. */
static _Noreturn void die(int number)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN }, end = { .sa_handler = SIG_DFL };

	while (atomic_exchange(&ending, 1)) /* another thread is here */
		pause();
	for (size_t i = 0; i < FILES_MAX; i++) {
		const char *path = atomic_load(&files[i]);

		if (path)
			unlink(path);
	}
	if (number != SIGPIPE) { /* with a closed pipe as standard error */
		sigaction(SIGPIPE, &ignore, NULL);
		explain(number);
	}
	sigaction(number, &end, NULL);
	pthread_sigmask(SIG_UNBLOCK, &handled, NULL);
	raise(number);
	_exit(128 + number); /* default actions do not end the first process of a container */
}

static void start_clock(uint32_t ms)
{
	const struct itimerval after = {
		.it_value = { .tv_sec = ms / 1000, .tv_usec = (suseconds_t)(ms % 1000) * 1000 },
	};

	setitimer(ITIMER_REAL, &after, NULL);
}

static void on_signal(int number)
{
	const int saved = errno;
	const uint32_t ms = atomic_load(&grace_ms);
	const uint64_t now_ns = tool_now_ns();
	uint64_t first_ns = 0;
	int first = 0;

	if (number == SIGPIPE)
		die(number);
	/* before `received`: another thread may get the same signal at this moment */
	if (atomic_compare_exchange_strong(&received_ns, &first_ns, now_ns))
		first_ns = now_ns;
	if (atomic_compare_exchange_strong(&received, &first, number)) {
		if (ms == 0)
			die(number);
		start_clock(ms);
	} else if (first != number || now_ns > first_ns + SAME_PRESS_NS) {
		die(number);
	}
	errno = saved;
}

static void on_alarm(int number)
{
	const int first = atomic_load(&received);

	die(first ? first : number);
}

void tool_interrupt_init(const char *name)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESTART };
	struct sigaction old;
	sigset_t alarm_set;

	command = name;
	sigemptyset(&alarm_set);
	sigaddset(&alarm_set, SIGALRM);
	handled = alarm_set;
	for (size_t i = 0; i < SIGNALS_MAX; i++)
		sigaddset(&handled, numbers[i]);
	action.sa_mask = handled;
	for (size_t i = 0; i < SIGNALS_MAX; i++) {
		if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
	}
	action.sa_handler = on_alarm;
	sigaction(SIGALRM, &action, NULL);
	pthread_sigmask(SIG_UNBLOCK, &alarm_set, NULL);
}

void tool_interrupt_grace(uint32_t ms)
{
	atomic_store(&grace_ms, ms);
	if (atomic_load(&received))
		start_clock(ms);
}

int tool_interrupted(void)
{
	return atomic_load(&received);
}

const char *tool_interrupt_name(void)
{
	return name_of(atomic_load(&received));
}

int tool_interrupt_unlink(const char *path)
{
	for (size_t i = 0; i < FILES_MAX; i++) {
		const char *none = NULL;

		if (atomic_compare_exchange_strong(&files[i], &none, path))
			return 0;
	}
	return -1;
}

void tool_interrupt_forget(const char *path)
{
	for (size_t i = 0; i < FILES_MAX; i++) {
		const char *registered = path;

		if (atomic_compare_exchange_strong(&files[i], &registered, NULL))
			break;
	}
	while (atomic_load(&ending)) /* another thread may be reading `path`, and ends us */
		pause();
}

void tool_interrupt_hint(const char *path, const char *text)
{
	atomic_store(&hint_path, path);
	atomic_store(&hint_text, text);
}

void tool_interrupt_bar(int drawn)
{
	atomic_store(&bar_drawn, drawn);
}

void tool_interrupt_end(void)
{
	pthread_sigmask(SIG_BLOCK, &handled, NULL);
	die(atomic_load(&received));
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals that end a command. The handlers run on any thread, and several threads may receive
 * signals at the same time. They call only async-signal-safe functions and read only lock-free
 * atomics.
 */
#include "interrupt.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "tool.h"

#define FILES_MAX 4
/* timeout(1) sends its signal twice: to this process and to its process group. A second signal of
 * the same number within this time therefore belongs to the first. */
#define SAME_PRESS_NS 100000000u
#define SIGNALS_MAX   4

static const int numbers[SIGNALS_MAX] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE };
/* name at the start of the message; set before the handlers are installed */
static const char *command = "rung";
static sigset_t handled;                     /* the signals above, and SIGALRM */
static const char *_Atomic files[FILES_MAX]; /* files that a signal removes; NULL: a free entry */
static const char *_Atomic hint_path, *_Atomic hint_text;
/* received: number of the first signal, or 0; ending: nonzero if a thread is in die(); bar_drawn:
 * nonzero if a bar is shown */
static _Atomic int received, ending, bar_drawn;
static _Atomic uint64_t received_ns; /* time of the first signal */
static _Atomic uint32_t grace_ms;    /* 0: end inside the handler */

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

/* Write to stderr without stdio, which is not async-signal-safe. It polls stderr first, because a
 * stopped terminal, or a full pipe that nothing reads, must not block the process. */
static void write_message(const char *text)
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
		write_message("\r\033[K");
	write_message(command);
	write_message(": interrupted by ");
	write_message(name_of(number));
	write_message("\n");
	if (path && text && access(path, F_OK) == 0)
		write_message(text);
}

/* The handled signals are blocked in the calling thread: by sa_mask in a handler, explicitly in
 * tool_interrupt_end(). So a thread cannot enter this function twice and wait for itself. */
static _Noreturn void die(int number)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN }, end = { .sa_handler = SIG_DFL };

	while (atomic_exchange(&ending, 1)) /* another thread is ending the process */
		pause();
	for (size_t i = 0; i < FILES_MAX; i++) {
		const char *path = atomic_load(&files[i]);

		if (path)
			unlink(path);
	}
	/* No message for SIGPIPE: the reader of the pipe has gone. For other signals SIGPIPE is
	 * ignored here: if stderr is a closed pipe, the message would otherwise end the process by
	 * SIGPIPE instead of `number`. */
	if (number != SIGPIPE) {
		sigaction(SIGPIPE, &ignore, NULL);
		explain(number);
	}
	/* restore the default action before unblocking: raise() then ends the process by it */
	sigaction(number, &end, NULL);
	pthread_sigmask(SIG_UNBLOCK, &handled, NULL);
	raise(number);
	/* the kernel ignores default actions for the first process of a container */
	_exit(128 + number);
}

/* SIGALRM ends the grace period, so that its end does not depend on any thread making progress. */
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

	/* no grace: the results have no reader */
	if (number == SIGPIPE)
		die(number);
	/* The time is set before `received`: another thread may handle the same signal at this
	 * moment, and compares with it as soon as `received` is set. */
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

/* The grace period is over. The process ends by the signal that began it, not by SIGALRM. */
static void on_alarm(int number)
{
	const int first = atomic_load(&received);

	die(first ? first : number);
}

void tool_interrupt_init(const char *name)
{
	/* SA_RESTART: during a grace period reads and writes in progress must not fail */
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
	/* the mask is inherited across exec(): a blocked SIGALRM would never end a grace period */
	pthread_sigmask(SIG_UNBLOCK, &alarm_set, NULL);
}

void tool_interrupt_grace(uint32_t ms)
{
	atomic_store(&grace_ms, ms);
	/* a later grace period replaces the clock of an earlier one */
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
	/* The caller frees `path` next. A thread in die() may have loaded it before it was
	 * removed from the list: wait, because that thread ends the process. */
	while (atomic_load(&ending))
		pause();
}

/* The handler prints nothing while `path` or `text` is NULL, as between the two stores. */
void tool_interrupt_hint(const char *path, const char *text)
{
	atomic_store(&hint_path, path);
	atomic_store(&hint_text, text);
}

/* Both texts are never freed, because the handler reads them. Without memory for them no hint is
 * printed. */
void tool_interrupt_resumable(const char *name, const char *out_dir, const char *again)
{
	int length = (int)strlen(out_dir);
	char *journal, *hint;

	/* "out/" is written in "out.partial", as in the library */
	while (length > 1 && out_dir[length - 1] == '/')
		length--;
	if (asprintf(&journal, "%.*s.partial/journal", length, out_dir) < 0)
		journal = NULL;
	if (asprintf(&hint,
	             "%s: finished work is in %.*s.partial; to continue, run the same command%s\n",
	             name, length, out_dir, again) < 0)
		hint = NULL;
	tool_interrupt_hint(journal, hint);
	tool_interrupt_grace(TOOL_GRACE_MS);
}

int tool_interrupt_bar(int drawn)
{
	return atomic_exchange(&bar_drawn, drawn);
}

void tool_interrupt_end(void)
{
	pthread_sigmask(SIG_BLOCK, &handled, NULL);
	die(atomic_load(&received));
}

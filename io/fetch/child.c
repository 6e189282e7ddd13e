/* SPDX-License-Identifier: Apache-2.0 */
/* Starting and ending the programs that transfer files. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "fetch/child.h"

#define NOT_STARTED   127
#define END_WAIT_NS   2000000000ull /* between SIGTERM and SIGKILL */
#define END_POLL_USEC 10000u

/* Runs between fork() and exec() of a process with threads: only functions that are safe in signal
 * handlers. */
static _Noreturn void become(const char *const *argv, int dir_fd, uint64_t bytes_max,
                             const int fds[3])
{
	const struct rlimit limit = { bytes_max, bytes_max };
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setpgid(0, 0);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	/* a write beyond the limit then fails instead of ending the program */
	signal(SIGXFSZ, SIG_IGN);
	if ((dir_fd < 0 || fchdir(dir_fd) == 0) &&
	    (bytes_max == 0 || setrlimit(RLIMIT_FSIZE, &limit) == 0) && dup2(fds[0], 0) == 0 &&
	    dup2(fds[1], 1) == 1 && dup2(fds[2], 2) == 2)
		execvp(argv[0], (char *const *)(uintptr_t)argv);
	_exit(NOT_STARTED);
}

static void close_all(const int *fds, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
}

int rung__child_start(const char *const *argv, int dir_fd, uint64_t bytes_max, bool reads_out,
                      struct rung__child *child_out)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC),
	    err_fd = memfd_create("stderr", MFD_CLOEXEC);
	int out[2] = { -1, -1 }, fds[3];
	pid_t pid = -1;
	int err = 0;

	if (null < 0 || err_fd < 0 || (reads_out && pipe2(out, O_CLOEXEC) < 0))
		err = errno;
	fds[0] = null;
	fds[1] = reads_out ? out[1] : null;
	fds[2] = err_fd;
	if (err == 0)
		pid = fork();
	if (pid == 0)
		become(argv, dir_fd, bytes_max, fds);
	if (err == 0 && pid < 0)
		err = errno;
	close_all((int[]){ null, out[1] }, 2);
	if (err) {
		close_all((int[]){ out[0], err_fd }, 2);
		return rung__fail_errno(err, "%s: cannot be started", argv[0]);
	}
	*child_out = (struct rung__child){ pid, argv[0], out[0], err_fd };
	return 0;
}

bool rung__child_runs(struct rung__child *child)
{
	siginfo_t info = { .si_pid = 0 };

	/* WNOWAIT: rung__child_end() reaps it */
	return waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       info.si_pid == 0;
}

/* SIGTERM first: rsync then ends its own processes. */
static void stop(struct rung__child *child)
{
	const uint64_t until_ns = rung__now_ns() + END_WAIT_NS;

	kill(child->pid, SIGTERM);
	while (rung__child_runs(child) && rung__now_ns() < until_ns)
		usleep(END_POLL_USEC);
	kill(-child->pid, SIGKILL);
}

/* Whether a line of a program's messages tells why it failed. */
static bool tells_failure(const char *line)
{
	return strcasestr(line, "error") || strcasestr(line, "fail") ||
	       strcasestr(line, "denied") || strcasestr(line, "could not");
}

/* The first line about a failure, or the last line, of a program's messages. `text` is cut. */
static const char *best_line(char *text)
{
	const char *best = text;
	char *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		for (char *c = line; *c; c++)
			*c = (unsigned char)*c < ' ' ? ' ' : *c;
		best = line;
		if (tells_failure(line))
			break;
	}
	return best;
}

int rung__child_end(struct rung__child *child, bool kills, char *text_out)
{
	const size_t name_bytes = strlen(child->program);
	char text[4096];
	const char *line;
	ssize_t got;
	int status = 0;

	/* a program that writes to a pipe without a reader ends by itself */
	close_all(&child->out_fd, 1);
	if (kills && rung__child_runs(child))
		stop(child);
	while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
		;
	got = pread(child->err_fd, text, sizeof(text) - 1, 0);
	text[got > 0 ? got : 0] = '\0';
	close(child->err_fd);
	child->pid = 0;
	status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	line = best_line(text);
	if (status == NOT_STARTED && !line[0])
		snprintf(text_out, RUNG__CHILD_TEXT_BYTES, "%s is not installed", child->program);
	else if (!line[0])
		snprintf(text_out, RUNG__CHILD_TEXT_BYTES, "%s ended with status %d",
		         child->program, status);
	else if (strncmp(line, child->program, name_bytes) == 0)
		snprintf(text_out, RUNG__CHILD_TEXT_BYTES, "%.200s", line);
	else
		snprintf(text_out, RUNG__CHILD_TEXT_BYTES, "%s: %.200s", child->program, line);
	return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/** Programs that transfer files: rsync, curl, s5cmd. Private to io/fetch. */
#ifndef RUNG_FETCH_CHILD_H
#define RUNG_FETCH_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define RUNG__CHILD_TEXT_BYTES 300u

struct rung__child {
	pid_t pid; /* 0: none */
	const char *program;
	int out_fd; /* its standard output; -1: /dev/null */
	int err_fd; /* a file in memory with its standard error */
};

/**
 * Start a program. It ends with the thread that starts it, and a Ctrl-C of the terminal reaches
 * only the caller, which ends it then.
 * @param argv        ends with NULL; argv[0], a constant, is looked up in PATH
 * @param dir_fd      its working folder; -1: that of the caller
 * @param bytes_max   of a file that it writes: writing more fails; 0: no limit
 * @param reads_out   true: the caller reads its output through child->out_fd
 * @return 0, or the status of errno
 */
int rung__child_start(const char *const *argv, int dir_fd, uint64_t bytes_max, bool reads_out,
                      struct rung__child *child_out);

/** Whether the program still runs. */
bool rung__child_runs(struct rung__child *child);

/**
 * End the program if it still runs, and release it.
 * @param text_out  [RUNG__CHILD_TEXT_BYTES] its name, and what it wrote to its standard error about
 *                  its failure, or how it ended
 * @return its exit status; 127: it cannot be started; 128 + the signal that ended it
 */
int rung__child_end(struct rung__child *child, bool kills, char *text_out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A separate program that shares a store or attaches to one, controlled by lines.
 *
 * It is the test program itself, executed again, so that it has no threads or locks of its parent.
 * First it prints a line "STATUS MESSAGE" of its open or attach. Then it answers each line with one
 * line:
 *   gather SEED    "N", the rows that were wrong, by ranks and by vertices; or the negative status
 *                  of a gather that failed
 *   submit SEED    "0" once a gather is in flight, or its negative status
 *   finish         waits for that gather: "N" rows that were wrong, or its negative status
 *   gpu            the number of the GPU that gathers
 *   go             "0" at once; gathers until the next line arrives, then answers "N", the rows
 *                  that were wrong
 * RUNG_TEST_ATTACH_GPU in the environment sets opts.gpu of its attach. It closes its store and
 * exits with 0 when its input ends.
 */
#ifndef SUPPORT_SHARE_CHILD_H
#define SUPPORT_SHARE_CHILD_H

#include <stdio.h>
#include <sys/types.h>

struct share_child {
	pid_t pid;
	FILE *to, *from;
	char line[1200]; /* the last answer */
};

/**
 * Start a child and wait for its first line. A step that fails ends the program.
 * @param role  "create", "attach", or "attach-as-other-user" (needs root)
 * @return its STATUS; the line is in child->line
 */
int share_child_start(struct share_child *child, const char *role, const char *socket_path,
                      const char *dataset_dir);

/** Send it a line, and wait for its answer. @return the number in the answer; -1 if it died */
int share_child_ask(struct share_child *child, const char *line);

/** Close its input, and wait for its exit. @return its exit status */
int share_child_end(struct share_child *child);

/** SIGKILL. */
void share_child_kill(struct share_child *child);

#endif

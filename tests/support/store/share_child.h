/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A program of its own that shares a store or attaches to one, told what to do by lines.
 *
 * It is the test program itself, executed anew, so that it has no threads nor locks of its parent.
 * It begins with a line "STATUS SENTENCE" of its open or attach, and answers each line that it is
 * told with one of its own:
 *   gather SEED    "N" rows that were wrong, by ranks and by vertices; the negative status of a gather that failed
 *   submit SEED    "0" once a gather is in flight, or its negative status
 *   finish         waits for it: "N" rows that were wrong, or its negative status
 *   gpu            the number of the GPU that gathers
 *   go             "0" at once; gathers until the next line comes (any), then "N" rows that were wrong
 * RUNG_TEST_ATTACH_GPU in the environment is opts.gpu of its attach. It closes its store and exits
 * with 0 when its input ends.
 */
#ifndef SUPPORT_SHARE_CHILD_H
#define SUPPORT_SHARE_CHILD_H

#include <stdio.h>
#include <sys/types.h>

struct share_child {
	pid_t pid;
	FILE *to, *from;
	char line[1200]; /* its last */
};

/**
 * Start a child and wait for its first line. A step that fails ends the program.
 * @param role  "create", "attach", or "attach-as-nobody" (for root)
 * @return its STATUS; the line is in child->line
 */
int share_child_start(struct share_child *child, const char *role, const char *socket_path,
                      const char *dataset_dir);

/** Tell it a line, and wait for the number it answers; -1 when it died. */
int share_child_ask(struct share_child *child, const char *line);

/** End its input, and wait for it. @return its exit status */
int share_child_end(struct share_child *child);

/** SIGKILL. */
void share_child_kill(struct share_child *child);

#endif

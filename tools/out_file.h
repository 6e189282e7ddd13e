/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Files that a command writes as its result: they appear whole or not at all. Opened before the work begins, so that a place that
 * cannot be written to is told at once.
 */
#ifndef RUNG_TOOL_OUT_FILE_H
#define RUNG_TOOL_OUT_FILE_H

#include <stdio.h>

struct tool_out {
	const char *path;    /**< as given; NULL: there is none, and the calls below do nothing */
	char *partial;       /**< the name it has until it is whole; NULL: `path` is no regular file, and is written to as it is */
	FILE *file;
};

/** Open it under a name of its own beside `path`; NULL is allowed. @return 0, or an exit code, said on stderr after `name` */
int tool_out_open(const char *name, const char *path, struct tool_out *out);

/** Sync it and give it its name. Closed in either case. @return as above */
int tool_out_commit(const char *name, struct tool_out *out);

/** Close and remove one that was not committed. */
void tool_out_abandon(struct tool_out *out);

#endif

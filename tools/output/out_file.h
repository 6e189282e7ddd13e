/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Files that a command writes as its result: they are there whole or not at all. Opened before the
 * work begins, so that a place that cannot be written to is told at once. What is written has no
 * name until it is synced, so a process may be killed at any moment and leaves nothing; file
 * systems that have no such files take it under a temporary name.
 */
#ifndef RUNG_TOOL_OUT_FILE_H
#define RUNG_TOOL_OUT_FILE_H

#include <stdint.h>
#include <stdio.h>

#include <rung/dtype.h>

struct tool_out {
	const char *name; /**< of the command, for messages */
	const char *path; /**< as given; NULL: there is none, and the calls below do nothing */
	/** folder of it; NULL: `path` is a device or a pipe, and is written to as it is */
	char *dir;
	char *partial; /**< a name in it that nobody else has */
	int named;     /**< `partial` is there, and ours */
	FILE *file;
};

/** Open it; a NULL path is allowed. @return an exit code, what is wrong said on stderr after
 * `name` */
int tool_out_open(const char *name, const char *path, struct tool_out *out);

/** Write a vector as a .npy whose data is at byte 4096, as in staged datasets. @return as above */
int tool_out_npy(struct tool_out *out, enum rung_dtype dtype, uint64_t count, const void *data);

/** Sync it and give it its name, in the place of an older file. Closed in either case. @return as
 * above */
int tool_out_commit(struct tool_out *out);

/** Close one that was not committed: it is gone. */
void tool_out_abandon(struct tool_out *out);

#endif

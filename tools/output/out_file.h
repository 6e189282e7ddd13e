/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Result files of a command: they exist completely or not at all. They are opened before the work
 * begins, so that an unwritable place is reported at once. The file has no name until it is synced,
 * so a killed process leaves nothing behind; on file systems without such files it gets a temporary
 * name.
 */
#ifndef RUNG_TOOL_OUT_FILE_H
#define RUNG_TOOL_OUT_FILE_H

#include <stdint.h>
#include <stdio.h>

#include <rung/dtype.h>

struct tool_out {
	const char *name; /**< of the command, for messages */
	const char *path; /**< as given; NULL: no file, and the calls below do nothing */
	/** folder of it; NULL: `path` is a device or a pipe, and is written to as it is */
	char *dir;
	char *partial; /**< a unique name in it */
	int named;     /**< `partial` is there, and ours */
	FILE *file;
};

/** Open it; a NULL path is allowed. @return an exit code, with the error printed on stderr after
 * `name` */
int tool_out_open(const char *name, const char *path, struct tool_out *out);

/** Write a vector as a .npy whose data start at byte 4096, as in staged datasets. @return as
 * above */
int tool_out_npy(struct tool_out *out, enum rung_dtype dtype, uint64_t count, const void *data);

/** Sync it and give it its name, in the place of an older file. Closed in either case. @return as
 * above */
int tool_out_commit(struct tool_out *out);

/** Close and remove a file that was not committed. */
void tool_out_abandon(struct tool_out *out);

#endif

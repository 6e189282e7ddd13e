/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Result files of a command: they exist completely or not at all. They are opened before the work
 * begins, so that an unwritable path is reported at once. The file has no name until it is synced,
 * so a killed process leaves no file; on file systems without unnamed files it gets a temporary
 * name.
 *
 * Usage: tool_out_open(), writes, tool_out_commit(), and in every case tool_out_abandon(), which
 * does nothing after a commit.
 */
#ifndef RUNG_TOOL_OUT_FILE_H
#define RUNG_TOOL_OUT_FILE_H

#include <stdint.h>
#include <stdio.h>

#include <rung/dtype.h>

struct tool_out {
	const char *name; /**< of the command, for messages */
	const char *path; /**< as given; NULL: no file, and the calls below do nothing */
	/** folder of the file; NULL: `path` is a device or a pipe, which is written to directly */
	char *dir;
	char *partial; /**< a unique name in the folder */
	int named;     /**< nonzero: the file is at `partial` and must be removed on failure */
	FILE *file;    /**< open until the commit; NULL: none */
};

/** A temporary name next to `path`, whose first `length` bytes are used: PATH.NUMBER.partial. The
 * number is random, because process ids repeat in containers, which may share the file system.
 * @return the caller frees it; NULL with errno on failure */
char *tool_out_partial(const char *path, int length);

/** Open a file for writing; a NULL path is allowed. @param name  "rung NAME", for messages
 * @return an exit code, the failure printed */
int tool_out_open(const char *name, const char *path, struct tool_out *out);

/** Write a vector as a .npy whose data start at byte 4096, as in staged datasets.
 * @return an exit code, the failure printed */
int tool_out_npy(struct tool_out *out, enum rung_dtype dtype, uint64_t count, const void *data);

/** Sync the file and give it its name; an older file is replaced. The file is closed in any case.
 * @return an exit code, the failure printed */
int tool_out_commit(struct tool_out *out);

/** Close and remove a file that was not committed. */
void tool_out_abandon(struct tool_out *out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** The folder that staging writes: what stage_dir.c, stage_entries.c and stage_publish.c have of each other. */
#ifndef RUNG_IO_STAGE_DIR_H
#define RUNG_IO_STAGE_DIR_H

#include "stage/stage_private.h"

/** Look at OUT. Sets `replaces` and `staged`. @param fd_out  OUT when it is to be replaced, else
 * -1; NULL: not wanted */
int rung__stage_dir_check_out(struct rung__stage_dir *dir, int *fd_out);
/** Is `fd` the folder called OUT.partial? Its holder may have renamed or removed it before it was
 * locked, anybody at any time. */
bool rung__stage_dir_still_partial(const struct rung__stage_dir *dir, int fd);
/** Lock a folder, as long as `fd` is open. RUNG_E_BUSY when another process has it. */
int rung__stage_dir_lock(int fd, const char *path);
/** A folder set aside by a run that was killed between its two renames: back in place, or done with. */
int rung__stage_dir_settle_aside(struct rung__stage_dir *dir);

/** RUNG_E_EXIST when a folder holds anything that rung did not write. */
int rung__stage_entries_check(int fd, const char *path);
/** The same, and when it is no dataset of any version, even a damaged one: only such a one is replaced. */
int rung__stage_entries_check_dataset(int fd, const char *path);
/** Check, and remove all files, the manifest first: what is left of it does not open. */
int rung__stage_entries_remove(int fd, const char *path);
/** Remove a file, and what it leads to in another folder; no failure when it is not there. */
int rung__stage_entry_remove(int fd, const char *path, const char *name);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** The folder that staging writes: its names, its lock, what an earlier run left of it. */
#ifndef RUNG_IO_STAGE_DIR_H
#define RUNG_IO_STAGE_DIR_H

#include <stdbool.h>

#include "folder/folder.h"
#include "folder/stage_journal.h"

/** Open the parent, and see that OUT may be written: RUNG_E_EXIST when it is there and not to be
 * replaced. Writes nothing. */
int rung__stage_dir_init(struct rung__stage_dir *dir, const char *out_dir, bool force, bool resume);
/**
 * Create and lock OUT.partial, and read its journal. The work of an earlier run is kept if it will
 * be resumed and has finished a part; otherwise it is removed. RUNG_E_BUSY if another process uses
 * the folder, RUNG_E_EXIST if it contains files not written by rung, or finished work that is
 * neither resumed nor discarded.
 */
int rung__stage_dir_acquire(struct rung__stage_dir *dir, struct rung__journal *journal);
/** Open an OUT that is `staged`, as `fd`. Sets `published`; it is locked then. RUNG_E_BUSY when
 * another process is at it. */
int rung__stage_dir_open_out(struct rung__stage_dir *dir);
/** Let go of it: OUT.partial is to be made. */
void rung__stage_dir_close_out(struct rung__stage_dir *dir);
/** Remove OUT.partial if it is still ours and nothing in it is finished, and close everything. */
void rung__stage_dir_fini(struct rung__stage_dir *dir);

/** Look at OUT. Sets `replaces` and `staged`. @param fd_out  OUT when it is to be replaced, else
 * -1; NULL: not wanted */
int rung__stage_dir_check_out(struct rung__stage_dir *dir, int *fd_out);
/** Is `fd` the folder called OUT.partial? Its holder may have renamed or removed it before it was
 * locked, anybody at any time. */
bool rung__stage_dir_still_partial(const struct rung__stage_dir *dir, int fd);
/** Lock a folder, as long as `fd` is open. RUNG_E_BUSY when another process has it. */
int rung__stage_dir_lock(int fd, const char *path);
/** A folder set aside by a run that was killed between its two renames: back in place, or done
 * with. */
int rung__stage_dir_resolve_aside(struct rung__stage_dir *dir);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** The folder that staging writes: its names, its lock, and the leftovers of an earlier run. */
#ifndef RUNG_IO_STAGE_DIR_H
#define RUNG_IO_STAGE_DIR_H

#include <stdbool.h>

#include "folder/folder.h"
#include "folder/stage_journal.h"
#include "rung/stage.h"

/** Open the parent, and check that OUT may be written: out_dir, force, resume and the part of the
 * options. Writes nothing. Release with rung__stage_dir_fini(), also after a failure. @return 0,
 * RUNG_E_EXIST if OUT exists and must not be replaced, RUNG_E_INVAL (invalid name), RUNG_E_NOMEM,
 * or the status of errno */
int rung__stage_dir_init(struct rung__stage_dir *dir, const struct rung_stage_opts *opts);
/**
 * Create and lock OUT.partial, and read its journal. The work of an earlier run is kept if it will
 * be resumed and has finished a part; otherwise it is removed. RUNG_E_BUSY if another process uses
 * the folder, RUNG_E_EXIST if it contains files not written by rung, or finished work that is
 * neither resumed nor discarded.
 */
int rung__stage_dir_acquire(struct rung__stage_dir *dir, struct rung__journal *journal);
/** Open OUT as `fd` if it is `staged`, and set `published`. A published folder is locked, because
 * its clean-up is still to be done. @return 0, RUNG_E_BUSY if another process holds the lock, or
 * the status of errno */
int rung__stage_dir_open_out(struct rung__stage_dir *dir);
/** Close a folder opened by rung__stage_dir_open_out(), so that OUT.partial can be acquired. */
void rung__stage_dir_close_out(struct rung__stage_dir *dir);
/** Remove OUT.partial if it is still the folder of this run and nothing in it is finished. Close
 * everything. Keeps the thread's error message. */
void rung__stage_dir_fini(struct rung__stage_dir *dir);

/** Check whether OUT exists and may be replaced. Sets `replaces` and `staged`. @param fd_out  OUT
 * if it will be replaced, which the caller closes; otherwise -1. May be NULL */
int rung__stage_dir_check_out(struct rung__stage_dir *dir, int *fd_out);
/** Whether `fd` is still the folder with the name OUT.partial. The previous holder of the lock may
 * have renamed or removed the folder, and a user can do so at any time. */
bool rung__stage_dir_still_partial(const struct rung__stage_dir *dir, int fd);
/** Lock a folder until `fd` is closed, without waiting. @return 0, RUNG_E_BUSY if another process
 * holds the lock, or the status of errno */
int rung__stage_dir_lock(int fd, const char *path);
/** Handle a folder that was set aside by a run that was killed between its two renames: rename it
 * back if OUT is missing, otherwise remove it. */
int rung__stage_dir_resolve_aside(struct rung__stage_dir *dir);

#endif

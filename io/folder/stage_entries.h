/* SPDX-License-Identifier: Apache-2.0 */
/** What lies in the folder that staging writes, and what of that may be removed. */
#ifndef RUNG_IO_STAGE_ENTRIES_H
#define RUNG_IO_STAGE_ENTRIES_H

#include "folder/folder.h"
#include "folder/stage_journal.h"

/** RUNG_E_EXIST when a folder holds anything that rung did not write. */
int rung__stage_entries_check(int fd, const char *path);
/** The same, and when it is no dataset of any version, even a damaged one: only such a one is
 * replaced. */
int rung__stage_entries_check_dataset(int fd, const char *path);
/** Check, and remove all files, the manifest first: what is left of it does not open. */
int rung__stage_entries_remove(int fd, const char *path);
/** Remove a file, and what it leads to in another folder; no failure when it is not there. */
int rung__stage_entry_remove(int fd, const char *path, const char *name);

/** Remove the files of OUT.partial that the journal does not call finished or begun. */
int rung__stage_dir_drop_unfinished(struct rung__stage_dir *dir, struct rung__journal *journal);
/** Bytes where OUT will be that are free, or taken by OUT.partial already. */
int rung__stage_dir_free_bytes(const struct rung__stage_dir *dir, uint64_t *free_out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** Entries of the folder that staging writes, and which of them may be removed. */
#ifndef RUNG_IO_STAGE_ENTRIES_H
#define RUNG_IO_STAGE_ENTRIES_H

#include "folder/folder.h"
#include "folder/stage_journal.h"

/** RUNG_E_EXIST when a folder holds anything that rung did not write. */
int rung__stage_entries_check(int fd, const char *path);
/** The same, and fail if it is not a dataset of any version (a damaged one is accepted): only
 * datasets are replaced. */
int rung__stage_entries_check_dataset(int fd, const char *path);
/** Check, and remove all files, the manifest first: a partially removed dataset does not open. */
int rung__stage_entries_remove(int fd, const char *path);
/** Remove a file, and the file in another folder that it links to; a missing file is not a
 * failure. */
int rung__stage_entry_remove(int fd, const char *path, const char *name);

/** Remove the files of OUT.partial that the journal does not call finished or begun. */
int rung__stage_dir_drop_unfinished(struct rung__stage_dir *dir, struct rung__journal *journal);
/** Bytes where OUT will be that are free, or taken by OUT.partial already. */
int rung__stage_dir_free_bytes(const struct rung__stage_dir *dir, uint64_t *free_out);

#endif

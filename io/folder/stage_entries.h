/* SPDX-License-Identifier: Apache-2.0 */
/** Lists the entries of the folder that staging writes, and removes those that rung wrote. */
#ifndef RUNG_IO_STAGE_ENTRIES_H
#define RUNG_IO_STAGE_ENTRIES_H

#include "folder/folder.h"
#include "folder/stage_journal.h"

/** Check that a folder contains only files that rung writes. @return 0, RUNG_E_EXIST (the message
 * names a foreign entry), or the status of errno */
int rung__stage_entries_check(int fd, const char *path);
/** Check the same, and also fail if the folder is not a dataset of any version: only datasets are
 * replaced. A damaged dataset is accepted. */
int rung__stage_entries_check_dataset(int fd, const char *path);
/** Check the folder, and remove all its files. The manifest is removed first, so that a partially
 * removed dataset does not open. */
int rung__stage_entries_remove(int fd, const char *path);
/** Remove a file, and the file in another folder that it links to; a missing file is not a
 * failure. */
int rung__stage_entry_remove(int fd, const char *path, const char *name);

/** Remove the files of OUT.partial that the journal lists neither as finished nor as begun. */
int rung__stage_dir_drop_unfinished(struct rung__stage_dir *dir, struct rung__journal *journal);
/** Bytes available to OUT on its file system: the free ones, and those that OUT.partial already
 * uses. */
int rung__stage_dir_free_bytes(const struct rung__stage_dir *dir, uint64_t *free_out);

#endif

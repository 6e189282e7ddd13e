/* SPDX-License-Identifier: Apache-2.0 */
/** What makes a folder last: keeping unfinished work, giving a complete folder its name, and
 * removing the dataset it replaces. */
#ifndef RUNG_IO_STAGE_PUBLISH_H
#define RUNG_IO_STAGE_PUBLISH_H

#include <stdbool.h>

#include "folder/folder.h"
#include "folder/stage_journal.h"

/** Keep OUT.partial if the run ends: start its journal with the lines added so far, from which a
 * later run resumes. The name of the folder is synced first, because a journal that has survived a
 * power failure must be found. @return 0, or the status of errno */
int rung__stage_dir_keep(struct rung__stage_dir *dir, struct rung__journal *journal);
/** Rename the complete OUT.partial to OUT, remove the replaced dataset, the folders of the parts,
 * and then the journal.
 * dir->left has a message if the replaced dataset could not be removed. */
int rung__stage_dir_publish(struct rung__stage_dir *dir);
/** Complete the publication of a run that was killed after the rename: OUT is `published`. */
int rung__stage_dir_finish(struct rung__stage_dir *dir);

/** Tests: do not use renameat2(), as on file systems that lack its flags. */
extern bool rung__stage_plain_rename;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** Publication: giving a complete folder its name, and removing the dataset it replaces. */
#ifndef RUNG_IO_STAGE_PUBLISH_H
#define RUNG_IO_STAGE_PUBLISH_H

#include <stdbool.h>

#include "folder/folder.h"

/** Sync the parent of OUT.partial, so that its name survives a power failure: without a name its
 * journal cannot be found. */
int rung__stage_dir_sync_parent(const struct rung__stage_dir *dir);
/** Rename the complete OUT.partial to OUT, remove the replaced dataset, the folders of the parts,
 * and then the journal.
 * dir->left has a message if the replaced dataset could not be removed. */
int rung__stage_dir_publish(struct rung__stage_dir *dir);
/** Complete the publication of a run that was killed after the rename: OUT is `published`. */
int rung__stage_dir_finish(struct rung__stage_dir *dir);

/** Tests: do not use renameat2(), as on file systems that lack its flags. */
extern bool rung__stage_plain_rename;

#endif

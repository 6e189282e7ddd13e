/* SPDX-License-Identifier: Apache-2.0 */
/** Naming a complete folder, and removing what it replaces. */
#ifndef RUNG_IO_STAGE_PUBLISH_H
#define RUNG_IO_STAGE_PUBLISH_H

#include <stdbool.h>

#include "folder/folder.h"

/** Sync the folder of OUT.partial: the journal counts only while OUT.partial has a name. */
int rung__stage_dir_sync_parent(const struct rung__stage_dir *dir);
/** Rename the complete OUT.partial, remove its journal, and remove what it replaces. */
int rung__stage_dir_publish(struct rung__stage_dir *dir);
/** Complete this after a run that was killed right after the rename: OUT is `published`. */
int rung__stage_dir_finish(struct rung__stage_dir *dir);

/** Tests: do without renameat2(), as on file systems that lack its flags. */
extern bool rung__stage_plain_rename;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** The name that a complete folder gets, and the end of what it replaces. */
#ifndef RUNG_IO_STAGE_PUBLISH_H
#define RUNG_IO_STAGE_PUBLISH_H

#include <stdbool.h>

#include "folder/folder.h"

/** Sync the folder that OUT.partial is in: what the journal says of OUT.partial counts only while
 * that has a name. */
int rung__stage_dir_sync_parent(const struct rung__stage_dir *dir);
/** Give the complete OUT.partial its name, remove its journal, and remove what it replaces. */
int rung__stage_dir_publish(struct rung__stage_dir *dir);
/** What was left of that when a run was killed right behind giving the name: OUT is `published`. */
int rung__stage_dir_finish(struct rung__stage_dir *dir);

/** Tests: do without renameat2(), as on file systems that lack its flags. */
extern bool rung__stage_plain_rename;

#endif

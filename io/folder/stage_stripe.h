/* SPDX-License-Identifier: Apache-2.0 */
/** Striped features files in other folders, and the links to them. */
#ifndef RUNG_IO_STAGE_STRIPE_H
#define RUNG_IO_STAGE_STRIPE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "folder/folder.h"

/** Check that `folders` are folders, and that the names of files in them are not too long. */
int rung__stripes_check_folders(const struct rung__stage_dir *dir, const char *const *folders,
                                size_t folder_count);
/** Check that files can be created in them. */
int rung__stripes_check(const char *const *folders, size_t folder_count);
/** Create features file `file` in `folder`, and the link `name` to it in OUT.partial. @return a
 * descriptor that the caller closes, or a failure */
int rung__stripe_make(const struct rung__stage_dir *dir, const char *folder, uint32_t file,
                      const char *name);
/** Whether `name` is a link to a path that rung would give a features file. The file itself may be
 * missing. */
bool rung__stripe_link_ok(int dir_fd, const char *name, char target_out[PATH_MAX]);
/** Remove the file that such a link leads to. The link stays; any other entry is left alone. */
int rung__stripe_remove(int dir_fd, const char *name);

#endif

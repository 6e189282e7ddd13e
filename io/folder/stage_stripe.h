/* SPDX-License-Identifier: Apache-2.0 */
/** Features files in other folders. */
#ifndef RUNG_IO_STAGE_STRIPE_H
#define RUNG_IO_STAGE_STRIPE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "folder/folder.h"

/** The folders are folders, and names of files in them are not too long. */
int rung__stripes_check_folders(const struct rung__stage_dir *dir, const char *const *folders,
                                size_t folder_count);
/** They may be written to. */
int rung__stripes_check(const char *const *folders, size_t folder_count);
/** Make features file `file` in `folder`, and `name` in OUT.partial a link to it. @return
 * descriptor, or a failure */
int rung__stripe_make(const struct rung__stage_dir *dir, const char *folder, uint32_t file,
                      const char *name);
/** Does a link lead to such a file? */
bool rung__stripe_link_ok(int dir_fd, const char *name, char target_out[PATH_MAX]);
/** Remove the file that a link leads to, if it does. */
int rung__stripe_remove(int dir_fd, const char *name);

#endif

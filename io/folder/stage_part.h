/* SPDX-License-Identifier: Apache-2.0 */
/** The folders of the parts of a dataset other than part 0, which part 0 publishes. */
#ifndef RUNG_IO_STAGE_PART_H
#define RUNG_IO_STAGE_PART_H

#include <stdbool.h>
#include <stdint.h>

#include "folder/folder.h"
#include "folder/stage_journal.h"

/** The folder of a part, locked. */
struct rung__stage_part {
	char *path; /* for messages */
	int fd;     /* -1: not open */
	struct rung__journal journal;
};

/** Open and lock the folder of part number `part` > 0, and read its journal. Close it after a
 * failure, too. @return 0, RUNG_E_NOENT (no such folder), RUNG_E_BUSY (a process is staging it), or
 * another failure */
int rung__stage_part_open(const struct rung__stage_dir *dir, uint32_t part,
                          struct rung__stage_part *part_out);
void rung__stage_part_close(struct rung__stage_part *part);
/** Move a file of the part to OUT.partial, unless an earlier run has moved it. RUNG_E_CORRUPT if
 * neither folder has it. The caller syncs OUT.partial. */
int rung__stage_part_move(const struct rung__stage_dir *dir, const struct rung__stage_part *part,
                          const char *name);
/** Whether part 0 has moved a file of this run's part to OUT.partial. */
bool rung__stage_part_moved(const struct rung__stage_dir *dir, const char *name);
/** Remove the folders of the published parts. A folder that cannot be removed, such as one that is
 * being staged again, remains. */
void rung__stage_parts_remove(const struct rung__stage_dir *dir);

#endif

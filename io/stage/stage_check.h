/* SPDX-License-Identifier: Apache-2.0 */
/** The files of a folder against their checksums, before they are relied on. */
#ifndef RUNG_IO_STAGE_CHECK_H
#define RUNG_IO_STAGE_CHECK_H

#include "run/run.h"

/** Is a block compared with its checksum before the folder gets its name? All are of files under 64
 * MiB, else the first, the last, one in 64. */
static inline bool rung__block_is_checked(const struct rung__manifest_file *file, uint64_t block)
{
	return file->bytes < UINT64_C(64) << 20 || block % 64 == 0 ||
	       block + 1 == file->block_count;
}

/** The files in OUT.partial that the journal calls finished. RUNG_E_CORRUPT naming the first that
 * is missing, cut or changed. */
int rung__stage_check_done(struct rung__stage *stage);
/** Check all files of stage->manifest in the folder dir.fd, called `dir` in messages, which end
 * with `cure`. */
int rung__stage_check_all(struct rung__stage *stage, const char *dir, const char *cure);

#endif

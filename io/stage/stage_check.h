/* SPDX-License-Identifier: Apache-2.0 */
/** Checks the files of a folder against their checksums before staging relies on them, and finished
 * datasets. */
#ifndef RUNG_IO_STAGE_CHECK_H
#define RUNG_IO_STAGE_CHECK_H

#include "run/run.h"

/** Whether a block is compared with its checksum before the folder gets its name: every block of a
 * file under 64 MiB; otherwise the first, the last, and one in 64. */
static inline bool rung__block_is_checked(const struct rung__manifest_file *file, uint64_t block)
{
	return file->bytes < UINT64_C(64) << 20 || block % 64 == 0 ||
	       block + 1 == file->block_count;
}

/** Check the files in OUT.partial that the journal lists as finished. RUNG_E_CORRUPT names the
 * first one that is missing, truncated or changed. */
int rung__stage_check_done(struct rung__stage *stage);
/** Check all files of stage->manifest in the folder stage->dir.fd. Messages call the folder `dir`
 * and end with `cure`. */
int rung__stage_check_all(struct rung__stage *stage, const char *dir, const char *cure);
/** Check the features file of a part other than 0 in its folder. */
int rung__stage_check_part(struct rung__stage *stage);

/* ---- stage_finished.c ---- */

/** Check whether OUT, which is `staged`, is the dataset of this job. If so, its files are checked
 * and the run is finished. A different dataset is RUNG_E_EXIST; with `force` it will be
 * replaced. */
int rung__stage_finished(struct rung__stage *stage, bool *finished_out);

/** Open OUT, whatever its job, and check its files. Messages end with `cure`. */
int rung__stage_check_found(struct rung__stage *stage, const char *cure);

#endif

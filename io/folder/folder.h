/* SPDX-License-Identifier: Apache-2.0 */
/** The folder that staging writes: functions shared within io/folder. */
#ifndef RUNG_IO_FOLDER_H
#define RUNG_IO_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

/**
 * The folder that staging writes. Files are created in OUT.partial, which this process keeps
 * locked. When it is complete, one rename makes it OUT. So at any moment OUT is absent, the old
 * dataset, or the new one.
 */
struct rung__stage_dir {
	char *path;         /* path of OUT, without trailing slashes */
	char *partial_path; /* OUT.partial */
	/* temporary name of OUT on file systems that cannot exchange two folders */
	char *aside_path;
	/* the last parts of these paths, relative to parent_fd */
	const char *name, *partial_name, *aside_name;
	int parent_fd; /* -1: not open */
	/* descriptor of OUT.partial, which is locked, or of OUT while a finished dataset is
	 * checked; -1: not open */
	int fd;
	/* `force` and `resume` are options of the run; `replaces`: OUT exists and will be
	 * replaced */
	bool force, resume, replaces;
	/* `part` of `part_count`, as in struct rung_stage_opts. partial_path is then that of the
	 * part's work; part 0 works in OUT.partial */
	uint32_t part, part_count;
	bool keep;   /* OUT.partial has finished parts: it stays if the run fails */
	bool staged; /* OUT is a dataset, possibly that of the job to resume */
	/* OUT still has its journal: a run was killed after the rename, before the clean-up */
	bool published;
	/* message that replaced data could not be removed; "": all are removed */
	char left[RUNG__ERROR_BYTES];
};

#endif

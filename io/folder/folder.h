/* SPDX-License-Identifier: Apache-2.0 */
/** The folder that staging writes: functions shared in this room. */
#ifndef RUNG_IO_FOLDER_H
#define RUNG_IO_FOLDER_H

#include <stdbool.h>

#include "base/base.h"

/**
 * The folder. Files are made in OUT.partial, which this process holds locked; it becomes OUT by one
 * rename when it is
 * complete, so that OUT is at any moment absent, the old dataset, or the new one.
 */
struct rung__stage_dir {
	char *path;         /* OUT, without slashes at its end */
	char *partial_path; /* OUT.partial */
	/* temporary name of OUT on file systems that cannot exchange two folders */
	char *aside_path;
	const char *name, *partial_name, *aside_name; /* their last parts, inside parent_fd */
	int parent_fd;
	int fd; /* OUT.partial; -1 while it is not ours */
	bool force, resume, replaces;
	bool keep;      /* something in OUT.partial is finished: it stays when the run fails */
	bool staged;    /* OUT is a dataset, perhaps of the job to resume */
	bool published; /* OUT has a journal: a run was killed as that was to be removed */
	/* replaced data that could not be removed, and why; "": none */
	char left[RUNG__ERROR_BYTES];
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The checks of rung doctor. A check adds one line with what was found and, unless all is well, how
 * to change it. Nothing is changed or measured, and no check can fail itself.
 */
#ifndef RUNG_TOOL_DOCTOR_H
#define RUNG_TOOL_DOCTOR_H

#include <rung/rung.h>

#define DOCTOR_CHECKS_MAX 16
#define DOCTOR_TEXT_BYTES 192

enum doctor_state {
	DOCTOR_OK = 0,
	DOCTOR_ABSENT, /* rung works without it, as fast as this machine can be */
	DOCTOR_MISSING /* something fails, or is much slower than it could be */
};

struct doctor_check {
	const char *name;
	enum doctor_state state;
	char what[DOCTOR_TEXT_BYTES]; /* what was found */
	char cure[DOCTOR_TEXT_BYTES]; /* "" if there is nothing to do */
};

struct doctor {
	struct doctor_check checks[DOCTOR_CHECKS_MAX];
	unsigned count;
};

/** Add a check. @param cure  "": none */
void doctor_add(struct doctor *doctor, const char *name, enum doctor_state state, const char *cure,
                const char *format, ...) __attribute__((format(printf, 5, 6)));

/** Kernel, io_uring, locked memory, huge pages, OpenBLAS, NUMA and GPU. */
void doctor_check_machine(struct doctor *doctor);

/** Access, file system, drive and O_DIRECT of a folder, and the dataset in it, if it has one. */
void doctor_check_folder(struct doctor *doctor, const char *dir);

#endif

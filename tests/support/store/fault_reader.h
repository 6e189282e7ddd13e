/* SPDX-License-Identifier: Apache-2.0 */
/** A reader of files that injects the faults of its settings. One store at a time: the settings are
 * global. */
#ifndef SUPPORT_FAULT_READER_H
#define SUPPORT_FAULT_READER_H

#include <stdatomic.h>

#include "engine/engine.h"
#include "tier/reader.h"

enum support_fault_kind {
	SUPPORT_FAULT_NONE,
	SUPPORT_FAULT_ERRNO, /* fails with `err`, the slot untouched */
	/* all but the last sector of the read counts, but at least one sector */
	SUPPORT_FAULT_SHORT,
	SUPPORT_FAULT_EMPTY,    /* 0 bytes: as if the file ended */
	SUPPORT_FAULT_REVERSED, /* completions of one reap in reverse order */
	SUPPORT_FAULT_LATE,     /* held back while others are in flight */
	SUPPORT_FAULT_HELD,     /* held back until `release` is set */
	SUPPORT_FAULT_GONE      /* reap itself fails with `err` from this read on */
};

struct support_fault {
	enum support_fault_kind kind;
	int err; /* positive errno */
	/* completions first .. first + count, numbered from 0, get the fault */
	uint64_t first, count;
	/* nonzero: in addition, every read over this byte of the file fails with ENODATA */
	uint64_t bad_offset;
	_Atomic int release;
	_Atomic uint64_t seen; /* completions so far */
};

extern struct support_fault support_fault;
extern const struct rung__reader_ops support_fault_reader;

/** Reset to no faults. */
void support_fault_reset(void);

#endif

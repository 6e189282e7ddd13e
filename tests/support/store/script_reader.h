/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A reader that follows a script: for each read the script sets when it completes, with which
 * result, and after which other reads it is reported. The reader reads the file itself, at the
 * moment a read completes, so that a late read also writes late.
 *
 * It also checks its caller and counts violations: a read whose token is in flight, more reads than
 * the depth, misaligned reads, reads outside the file or the pool, and memory of a read in flight
 * that is written to or read into.
 *
 * The settings are global, for all stores opened over it; each store has its own reads.
 */
#ifndef SUPPORT_SCRIPT_READER_H
#define SUPPORT_SCRIPT_READER_H

#include <stdatomic.h>

#include "tier/reader.h"

/** A submitted read. */
struct script_read {
	struct rung__fetch fetch;
	uint32_t file_idx;
	uint64_t number; /* counted from 0 over all stores and files */
};

/** The outcome of a read: by default it completes at once and in full. */
struct script_fate {
	int32_t err;        /* positive errno it fails with, its memory overwritten; 0: none */
	bool empty;         /* 0 bytes, as past the end of the file */
	uint32_t bytes_max; /* nonzero: a short read of at most this, but at least one sector */
	uint64_t delay_ns;  /* completes no sooner than this */
	bool held;          /* does not complete before `release` is set */
};

struct script_settings {
	/* called by refill's thread; NULL: no faults */
	void (*decide)(const struct script_read *read, struct script_fate *fate);
	/* called before a read is reported; may be NULL */
	void (*came_back)(const struct script_read *read, const struct script_fate *fate);
	uint32_t align; /* of reads, in bytes */
	uint32_t merge_gap_bytes, read_bytes_max;
	bool shuffled; /* completed reads are reported in random order */
	uint64_t seed; /* of that order */
	/* every reap returns this much later than it should, and does not report even reads that
	 * completed in time */
	uint64_t oversleep_ns;
	_Atomic int release;
	/* positive errno: reap fails with it, and so does submit if `refuses` */
	_Atomic int broken;
	_Atomic bool refuses;
	/* counted */
	_Atomic uint64_t sent, ended, held, violations;
	/* peak of reads in flight with a fate `held` or a delay */
	_Atomic uint64_t late_peak;
	_Atomic uint64_t expired; /* calls of reap that reached their timeout */
};

extern struct script_settings script;
extern const struct rung__reader_ops script_reader;

/** No faults, sectors of 512 bytes, counters at zero. */
void script_reset(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A reader that follows a script: it says when each read ends, with which result, and behind which
 * others it is reported. It reads the file itself, at the moment a read ends, so that one that is
 * late writes late.
 *
 * It watches its caller as well and counts violations: a read with a token that is in flight, more
 * reads than the depth, misaligned ones, ones outside the file or the pool, and memory of a read in
 * flight that somebody else writes to or reads into.
 *
 * Settings are global, for all stores open over it; each has its own reads.
 */
/**
 * A fetchable tier that does as a script says: each read comes back when, with what, and behind
 * which others it is told. It reads the file itself, at the moment a read comes back, so that one
 * that is late writes late.
 *
 * It watches its caller as well. A read of a token that is in flight, more reads than the depth,
 * misaligned ones, ones outside the file or the pool, and memory of a read in flight that somebody
 * else writes to or reads into are counted as violations.
 *
 * Settings are global, for all stores open over it; each has its own reads.
 */
#ifndef SUPPORT_SCRIPT_READER_H
#define SUPPORT_SCRIPT_READER_H

#include <stdatomic.h>

#include "tier/reader.h"

/** A read that is sent. */
struct script_read {
	struct rung__fetch fetch;
	uint32_t file_idx;
	uint64_t number; /* from 0 on, of all stores and files */
};

/** What becomes of a read: by default all of it comes back at once. */
struct script_fate {
	int32_t err;        /* positive errno it fails with, its memory spoiled; 0: none */
	bool empty;         /* 0 bytes, as behind the end of the file */
	uint32_t bytes_max; /* nonzero: short, so many bytes at most, but at least one sector */
	uint64_t delay_ns;  /* comes back no sooner */
	bool held;          /* nor before `release` is set */
};

struct script_settings {
	/* refill's thread; NULL: no faults */
	void (*decide)(const struct script_read *read, struct script_fate *fate);
	/* before it is reported; NULL: nothing */
	void (*came_back)(const struct script_read *read, const struct script_fate *fate);
	uint32_t align; /* of reads */
	uint32_t merge_gap_bytes, read_bytes_max;
	bool shuffled; /* reads that are ready come back in any order */
	uint64_t seed; /* of that order */
	/* every reap comes back so much later than it should, what was ready in time not among what
	 * it reports */
	uint64_t oversleep_ns;
	_Atomic int release;
	/* positive errno: reap fails with it, and so does submit if `refuses` */
	_Atomic int broken;
	_Atomic bool refuses;
	/* counted */
	_Atomic uint64_t sent, ended, held, violations;
	/* the most reads with a fate `held` or a delay that were in flight at once */
	_Atomic uint64_t late_peak;
	_Atomic uint64_t expired; /* calls of reap that ran into their limit */
};

extern struct script_settings script;
extern const struct rung__reader_ops script_reader;

/** No faults, sectors of 512 bytes, counters at zero. */
void script_reset(void);

#endif

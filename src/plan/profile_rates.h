/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Interpolated rates of a machine profile, used to choose settings and to predict times.
 *
 * All functions return nanoseconds rather than rates, because the times of the parts of a batch are
 * added. They only read the profile, so any thread may call them.
 */
#ifndef RUNG_PROFILE_RATES_H
#define RUNG_PROFILE_RATES_H

#include "base/base.h"
#include "rung/profile.h"

#define RUNG__READ_BYTES_MAX 131072u /* a merged read has at most this many bytes */

/**
 * Check that a profile is complete and in order; it may come from a file or from the caller. All
 * functions below require that.
 * @return 0, RUNG_E_INVAL or RUNG_E_ABI
 */
int rung__profile_check(const struct rung_profile *profile);

/** The cores that copy rows together. */
enum rung__cores {
	RUNG__CORES_ONE,
	RUNG__CORES_ALL /* all cores of a node */
};

/**
 * Nanoseconds from one row to the next. Between two measured sizes the time is interpolated; rows
 * larger than all measured sizes have the bytes per second of the largest, and smaller ones the
 * time of the smallest. With RUNG__CORES_ALL it is the time of all cores together.
 * @return 0: rows of these nodes were not measured
 */
double rung__row_ns(const struct rung_profile *profile, enum rung__cores cores, uint32_t cpu_node,
                    uint32_t memory_node, uint64_t row_bytes);

/**
 * The same for the fastest node, with rows in its own memory.
 * @param node_out  its number; may be NULL
 * @return 0: no node was measured
 */
double rung__row_ns_near(const struct rung_profile *profile, enum rung__cores cores,
                         uint64_t row_bytes, uint32_t *node_out);

/** Nanoseconds of a row that a GPU gathers from one rung, interpolated as above; 0: not
 * measured. */
double rung__gpu_row_ns(const struct rung_profile *profile, enum rung_assumed rung,
                        uint64_t row_bytes);

/** The same for a typical machine; never 0. */
double rung__gpu_row_ns_assumed(enum rung_assumed rung, uint64_t row_bytes);

/** Threads of a node that were measured together, one on each core; 0: not measured. */
uint32_t rung__row_threads(const struct rung_profile *profile, uint32_t node);

/** Reads of one drive, by ascending size, then depth. */
struct rung__drive_reads {
	const struct rung_profile_reads *list;
	uint32_t count; /* at least one */
};

/* The reads of a drive, which must exist; they are in the profile's memory. */
struct rung__drive_reads rung__drive_reads(const struct rung_profile *profile, uint32_t drive);

/**
 * Nanoseconds per read of `bytes` bytes at queue depth `depth`.
 *
 * Between two measured depths the latency, which by Little's law is the depth divided by the reads
 * per second, is interpolated: it stays constant while the drive is not saturated, and grows with
 * the depth from there on.
 */
double rung__read_ns(const struct rung__drive_reads *reads, uint32_t depth, uint64_t bytes);

/** Nanoseconds per additional byte in long reads; 0: only one size was measured. */
double rung__read_byte_ns(const struct rung__drive_reads *reads, uint32_t depth);

/** The largest depth that was measured, at any size. */
uint32_t rung__read_depth_max(const struct rung__drive_reads *reads);

#endif

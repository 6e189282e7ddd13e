/* SPDX-License-Identifier: Apache-2.0 */
/** Interpolated rates of a machine profile. */
#ifndef RUNG_PROFILE_RATES_H
#define RUNG_PROFILE_RATES_H

#include "base/base.h"
#include "rung/profile.h"

#define RUNG__READ_BYTES_MAX 131072u /* of a read of several rows */

/** Check that a profile is complete, whoever filled it in. All functions below require that.
 * @return 0, RUNG_E_INVAL or RUNG_E_ABI */
int rung__profile_check(const struct rung_profile *profile);

/** Who copies rows. */
enum rung__cores {
	RUNG__CORES_ONE,
	RUNG__CORES_ALL /* of a node, together */
};

/**
 * Nanoseconds from one row to the next: of sizes between two that were measured, between theirs; of
 * larger ones as many bytes a second as the largest.
 * @return 0: rows of these nodes were not measured
 */
double rung__row_ns(const struct rung_profile *profile, enum rung__cores cores, uint32_t cpu_node,
                    uint32_t memory_node, uint64_t row_bytes);

/** The same from the memory of a node by its own CPUs, of the node that is fastest. @param node_out
 * may be NULL */
double rung__row_ns_near(const struct rung_profile *profile, enum rung__cores cores,
                         uint64_t row_bytes, uint32_t *node_out);

/** Nanoseconds of a row that a GPU gathers from one rung, between sizes as above; 0: that was not
 * measured. */
double rung__gpu_row_ns(const struct rung_profile *profile, enum rung_assumed rung,
                        uint64_t row_bytes);

/** The same by the figures of a common machine. */
double rung__gpu_row_ns_assumed(enum rung_assumed rung, uint64_t row_bytes);

/** Threads of a node that were measured together, one on each core; 0: none were. */
uint32_t rung__row_threads(const struct rung_profile *profile, uint32_t node);

/** Reads of one drive, by ascending size, then depth. */
struct rung__drive_reads {
	const struct rung_profile_reads *list;
	uint32_t count; /* at least one */
};

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

/** The largest depth that was measured. */
uint32_t rung__read_depth_max(const struct rung__drive_reads *reads);

#endif

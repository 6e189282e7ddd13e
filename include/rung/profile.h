/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * The machine profile: rates measured by `rung numa --json`, from which plans predict run times.
 */
#ifndef RUNG_PROFILE_H
#define RUNG_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Largest number of row rates in a profile, over all row sizes, nodes and core counts. */
#define RUNG_PROFILE_ROWS_MAX 1024
/** Largest number of read rates in a profile, over all drives, sizes and queue depths. */
#define RUNG_PROFILE_READS_MAX 1024
/** Largest number of row sizes in a profile for each path to a GPU. */
#define RUNG_PROFILE_GPU_ROWS_MAX 16
/** Largest number of drives in a profile. */
#define RUNG_PROFILE_DRIVES_MAX 16
/** Size of a drive's name in bytes, with the terminating zero. */
#define RUNG_DRIVE_NAME_BYTES 64

/** Rate of copying random rows to a packed output, by CPUs of one node, from memory of one node. */
struct rung_profile_rows {
	int all_cores;    /**< 0: one core; 1: one thread on each core of the node, all together */
	uint32_t threads; /**< number of threads; 1 for one core */
	uint32_t cpu_node, memory_node; /**< NUMA node numbers */
	uint64_t row_bytes;
	double rows_per_s;
};

/** Rate of copying random rows to a packed output by a GPU kernel. */
struct rung_profile_gpu_rows {
	uint64_t row_bytes;
	double rows_per_s;
};

/** A drive whose reads were measured. */
struct rung_profile_drive {
	/** such as "nvme0n1"; where the kernel names no disk the source of the mount, such as
	 * "server:/export"; "": the file read is not on a drive that has a name */
	char name[RUNG_DRIVE_NAME_BYTES];
};

/** Rate of random direct reads of `read_bytes` bytes at queue depth `depth` by one thread. If it
 * was measured from several nodes, this is the highest rate. */
struct rung_profile_reads {
	uint32_t drive; /**< index into rung_profile.drives */
	uint64_t read_bytes;
	uint32_t depth;
	double reads_per_s;
};

/** Rates of a machine, as plans use them. */
struct rung_profile {
	size_t size; /**< sizeof(struct rung_profile), set by the caller */
	/** sorted by all_cores, cpu_node, memory_node and row_bytes, ascending; at least one rate
	 * is of one core reading its own node */
	uint32_t rows_count;
	struct rung_profile_rows rows[RUNG_PROFILE_ROWS_MAX];
	/** in file order; each has reads; 0: no drive was measured */
	uint32_t drive_count;
	struct rung_profile_drive drives[RUNG_PROFILE_DRIVES_MAX];
	uint32_t reads_count; /**< sorted by drive, read_bytes and depth, ascending */
	struct rung_profile_reads reads[RUNG_PROFILE_READS_MAX];
	/* The rates below are sorted by row_bytes, ascending; a count of 0: no GPU was measured. */
	/** a GPU gathering from its own memory; the fastest of several GPUs */
	uint32_t gpu_rows_count;
	/** from the memory of another GPU; the slowest of several pairs, because it finishes last
	 * when rows are striped over all */
	uint32_t peer_rows_count;
	/** from pinned host memory; the fastest of several nodes, which is the nearest one */
	uint32_t link_rows_count;
	struct rung_profile_gpu_rows gpu_rows[RUNG_PROFILE_GPU_ROWS_MAX];
	struct rung_profile_gpu_rows peer_rows[RUNG_PROFILE_GPU_ROWS_MAX];
	struct rung_profile_gpu_rows link_rows[RUNG_PROFILE_GPU_ROWS_MAX];
};

/**
 * Read a machine profile (docs/PROFILE.md) that `rung numa --json` wrote. The file is untrusted:
 * every value that is used is checked. Keys that plans do not need and entries beyond the sizes of
 * the arrays above are ignored. On failure *profile_out is not changed.
 *
 * @param path         file, not kept
 * @param profile_out  caller's memory, with `size` set
 * @return 0, RUNG_E_NOENT, RUNG_E_FORMAT (not a profile, an unsupported schema version, a value out
 *         of range, or no row rates; the message names file and key), RUNG_E_IO, RUNG_E_NOMEM,
 *         RUNG_E_ABI
 *
 * Threads: any.
 */
RUNG_API int rung_profile_load(const char *path, struct rung_profile *profile_out);

/** Size of a reason in bytes, with the terminating zero. */
#define RUNG_WHY_BYTES 256

/** Settings that a plan derived from a profile, and the reason for each: text without a full
 * stop. */
struct rung_tuning {
	uint32_t drive_count; /**< number of features files; 0: the profile has no reads */
	/** indices into rung_profile.drives: the drive whose rates represent each features file */
	uint32_t drive_idx[RUNG_FEATURE_FILES_MAX];
	/** names of these drives; "" for a drive without a name */
	char drives[RUNG_FEATURE_FILES_MAX][RUNG_DRIVE_NAME_BYTES];
	char drive_why[RUNG_WHY_BYTES];
	/** reads in flight on each features file: the smallest depth that reaches 95 % of the
	 * highest rate for reads of one row; 0: no reads */
	uint32_t queue_depth;
	char queue_depth_why[RUNG_WHY_BYTES];
	/** as in rung_store_opts; 0: not known from the profile; RUNG_MERGE_GAP_NONE: no merging
	 * across gaps */
	uint32_t merge_gap_bytes;
	char merge_gap_why[RUNG_WHY_BYTES];
	/** gather threads: the fewest that reach 95 % of the row rate of all cores; 0: the profile
	 * has no rate of all cores, or a GPU gathers */
	uint32_t threads;
	char threads_why[RUNG_WHY_BYTES];
	/** placement of the host rows, chosen by rung_plan_forecast(): 1: interleaved in blocks
	 * over all nodes with memory; 0: nearest to the readers first, or as requested */
	int interleaved;
	char interleaved_why[RUNG_WHY_BYTES];
	/** refill threads for each features file, one per 300,000 reads/s of the drive, at most 8;
	 * 0: no reads */
	uint32_t refill_threads;
	char refill_threads_why[RUNG_WHY_BYTES];
};

/** Resource that limits the throughput of batches. */
enum rung_bound {
	/** gather threads: copying rows from host memory and looking up ids; with a GPU: the thread
	 * that handles cold rows */
	RUNG_BOUND_MEMORY = 0,
	RUNG_BOUND_NVME, /**< reads from the features files */
	RUNG_BOUND_GPU,  /**< rows from the memory of the gathering GPU */
	RUNG_BOUND_PEER, /**< rows from the memory of other GPUs */
	RUNG_BOUND_LINK  /**< rows from host memory over the GPU's link, including cold rows */
};

/**
 * Text for a limiting resource: "memory", "drive", "gpu memory", "peers" or "link", as the command
 * prints it.
 *
 * @return a constant string, never NULL for a valid value; the caller must not free it. There are
 *         no errors.
 *
 * Threads: any, at any time.
 */
RUNG_API const char *rung_bound_name(enum rung_bound bound);

/** Rates that a forecast assumed because the profile does not have them: tiers that a GPU reads. */
enum rung_assumed {
	RUNG_ASSUMED_GPU = 1 << 0,  /**< its own memory */
	RUNG_ASSUMED_PEER = 1 << 1, /**< memory of other GPUs */
	RUNG_ASSUMED_LINK = 1 << 2, /**< host memory */
	RUNG_ASSUMED_ALL = (1 << 3) - 1
};

/**
 * Name of the tier of an assumed rate: "gpu", "peer" or "host", which are the names of the tiers.
 *
 * @return a constant string; NULL for 0, several bits or an unknown bit. The caller must not free
 *         it. There are no other errors.
 *
 * Threads: any, at any time.
 */
RUNG_API const char *rung_assumed_name(enum rung_assumed assumed);

/** Predicted time of gathers, and the resources they use. */
struct rung_forecast {
	size_t size; /**< sizeof(struct rung_forecast), set by the caller */
	/** total for all given batches, one after the other, with two or more requests in flight */
	double seconds;
	/** time in which the gather threads copy rows, or one thread handles a GPU's cold rows */
	double memory_seconds;
	/** time of the reads of the busiest features file; overlaps with memory_seconds and with
	 * the GPU's reads */
	double nvme_seconds;
	enum rung_bound bound;
	double reads; /**< reads sent to the devices, after merging and the cold-row cache */
	double read_bytes;
	double cache_hits;        /**< in rows */
	uint32_t queue_depth;     /**< queue depth assumed by the forecast; 0: nothing is read */
	uint32_t merge_gap_bytes; /**< largest gap, in bytes, that a merged read skips */
	uint32_t threads;         /**< gather threads; 0: a GPU gathers */
	/** derived from this profile, whichever profile the plan was created with */
	struct rung_tuning tuning;
	/** sum of enum rung_assumed: tiers that hold rows and have no rates in the profile */
	uint32_t assumed;
	double gpu_seconds;  /**< GPU: time of rows from its own memory; 0 on the CPU */
	double peer_seconds; /**< the same for rows from other GPUs */
	double link_seconds; /**< the same for rows over its link */
	/** most announced batches whose rows are read together, see rung_store_opts.window; 0: no
	 * row is read ahead */
	uint32_t window_batches;
};

/**
 * Fill in a profile with the rates of a typical GPU machine, for callers without a measured
 * profile. Forecasts with these rates can be off by a small factor; measure with `rung numa --json`
 * for better ones. The profile contains CPU, drive and GPU rates.
 *
 * @param profile_out  caller's memory; overwritten, with `size`
 *
 * Threads: any.
 */
RUNG_API void rung_profile_assume(struct rung_profile *profile_out);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * The machine profile: of what rung numa --json has measured, what plans predict seconds by.
 */
#ifndef RUNG_PROFILE_H
#define RUNG_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Rates of rows of a profile at most: of widths, nodes and cores. */
#define RUNG_PROFILE_ROWS_MAX 1024
/** Rates of reads of a profile at most: of drives, sizes and depths. */
#define RUNG_PROFILE_READS_MAX 1024
/** Row widths that a GPU gathers, at most. */
#define RUNG_PROFILE_GPU_ROWS_MAX 16
/** Drives of a profile at most. */
#define RUNG_PROFILE_DRIVES_MAX 16
/** Bytes of a drive's name with its final zero. */
#define RUNG_DRIVE_NAME_BYTES 64

/** Random rows copied to a packed output by CPUs of one node, from the memory of one node. */
struct rung_profile_rows {
	int all_cores;    /**< 0: by one core; 1: by a thread on each core of the node, together */
	uint32_t threads; /**< how many; 1 for one core */
	uint32_t cpu_node, memory_node; /**< numbers */
	uint64_t row_bytes;
	double rows_per_s;
};

/** Random rows copied to a packed output by a GPU's kernel. */
struct rung_profile_gpu_rows {
	uint64_t row_bytes;
	double rows_per_s;
};

/** A drive whose reads were measured. */
struct rung_profile_drive {
	/** "nvme0n1"; "": what was read lies on none that can be named */
	char name[RUNG_DRIVE_NAME_BYTES];
};

/** Random direct reads of so many bytes, so many of them in flight, by one thread; of several nodes
 * the one that reads most. */
struct rung_profile_reads {
	uint32_t drive; /**< its position in rung_profile.drives */
	uint64_t read_bytes;
	uint32_t depth;
	double reads_per_s;
};

/** The figures of a machine that plans use. */
struct rung_profile {
	size_t size; /**< sizeof(struct rung_profile), set by the caller */
	/** by all_cores, cpu_node, memory_node, then row_bytes, all ascending; some are of one core
	 * from its own node */
	uint32_t rows_count;
	struct rung_profile_rows rows[RUNG_PROFILE_ROWS_MAX];
	/** in the order of the file; each has reads; 0: no drive was measured */
	uint32_t drive_count;
	struct rung_profile_drive drives[RUNG_PROFILE_DRIVES_MAX];
	uint32_t reads_count; /**< by drive, then by ascending read_bytes, then depth */
	struct rung_profile_reads reads[RUNG_PROFILE_READS_MAX];
	/* By ascending row_bytes; 0: no GPU was measured. */
	/** gathered by a GPU from its own memory; of several the fastest */
	uint32_t gpu_rows_count;
	/** from another GPU's; of several pairs the slowest, which ends last when rows are dealt to
	 * all */
	uint32_t peer_rows_count;
	/** from pinned host memory; of several the fastest, which is that of the nearest node */
	uint32_t link_rows_count;
	struct rung_profile_gpu_rows gpu_rows[RUNG_PROFILE_GPU_ROWS_MAX];
	struct rung_profile_gpu_rows peer_rows[RUNG_PROFILE_GPU_ROWS_MAX];
	struct rung_profile_gpu_rows link_rows[RUNG_PROFILE_GPU_ROWS_MAX];
};

/**
 * Read a profile (docs/PROFILE.md). The file is untrusted; keys that plans do not need are not
 * looked at. What there is no room for is passed over.
 *
 * @param profile_out  its size set
 * @return 0, RUNG_E_NOENT, RUNG_E_FORMAT (no profile, another version of its schema, a value that
 *         cannot be, no rates of rows: names file and key), RUNG_E_IO, RUNG_E_NOMEM, RUNG_E_ABI
 */
RUNG_API int rung_profile_load(const char *path, struct rung_profile *profile_out);

/** Bytes of a reason with its final zero. */
#define RUNG_WHY_BYTES 256

/** What a plan chooses by a profile, and why: sentences without a full stop. */
struct rung_choice {
	uint32_t drive_count; /**< features files; 0: the profile has no reads */
	/** in rung_profile.drives: the one whose reads stand for those of each features file */
	uint32_t drive_idx[RUNG_FEATURE_FILES_MAX];
	/** their names; "" where it has none */
	char drives[RUNG_FEATURE_FILES_MAX][RUNG_DRIVE_NAME_BYTES];
	char drive_why[RUNG_WHY_BYTES];
	/** reads in flight on each features file: the fewest that bring 95 % of the most reads of a
	 * row a second; 0: no reads */
	uint32_t queue_depth;
	char queue_depth_why[RUNG_WHY_BYTES];
	/** as in rung_store_opts: 0: the profile does not tell, RUNG_GAP_NONE: none */
	uint32_t gap_bytes;
	char gap_why[RUNG_WHY_BYTES];
	/** that gather: the fewest that bring 95 % of the rows a second of all cores; 0: the
	 * profile has none of all cores, or a GPU gathers */
	uint32_t threads;
	char threads_why[RUNG_WHY_BYTES];
	/** host rows: 1: in blocks over all nodes with memory, by rung_plan_forecast(); 0: nearest
	 * to the readers first, or as asked for */
	int interleaved;
	char spread_why[RUNG_WHY_BYTES];
};

/** What ends a batch last. */
enum rung_bound {
	/** the threads that gather: copying rows from host memory, and looking ids up; on a GPU:
	 * the one that looks after cold rows */
	RUNG_BOUND_MEMORY = 0,
	RUNG_BOUND_NVME, /**< reads from the features files */
	RUNG_BOUND_GPU,  /**< rows from the memory of the GPU that gathers */
	RUNG_BOUND_PEER, /**< rows from other GPUs */
	RUNG_BOUND_LINK  /**< rows from host memory over the GPU's link, cold ones among them */
};

/** "host memory", "nvme", "gpu memory", "peers", "link". */
RUNG_API const char *rung_bound_name(enum rung_bound bound);

/** What of a forecast was assumed, since the profile has no figures of it: rungs that a GPU
 * reads. */
enum rung_assumed {
	RUNG_ASSUMED_GPU = 1 << 0,  /**< its own memory */
	RUNG_ASSUMED_PEER = 1 << 1, /**< other GPUs' */
	RUNG_ASSUMED_LINK = 1 << 2, /**< the host's */
	RUNG_ASSUMED_ALL = (1 << 3) - 1
};

/** "gpu", "peer", "host", as the tiers are called; NULL for none of them or several. */
RUNG_API const char *rung_assumed_name(enum rung_assumed assumed);

/** How long gathers are expected to take, and of what. */
struct rung_forecast {
	size_t size; /**< sizeof(struct rung_forecast), set by the caller */
	/** of all batches given, one after the other with two or more requests in flight */
	double seconds;
	/** of the threads that gather, or of the one that looks after a GPU's cold rows */
	double memory_seconds;
	/** of the busiest features file; this, what is above and what the GPU reads overlap */
	double nvme_seconds;
	enum rung_bound bound;
	double reads; /**< of the device, after merging and the cold-row cache */
	double read_bytes;
	double cache_hits;    /**< rows */
	uint32_t queue_depth; /**< reads in flight that it was worked out for; 0: nothing is read */
	uint32_t gap_bytes;   /**< and bytes that a read skips at most */
	uint32_t threads;     /**< and threads that gather; 0: a GPU does */
	struct rung_choice choice; /**< by this profile, whatever the plan was made with */
	/** of enum rung_assumed, added: rungs with rows, and without figures in the profile */
	uint32_t assumed;
	double gpu_seconds;  /**< of a GPU that gathers: rows from its own memory, */
	double peer_seconds; /**< from other GPUs, */
	double link_seconds; /**< and over its link; on the CPU 0 */
};

/** Figures of a common machine with a GPU, for those that have no profile: an estimate to within a
 * few times, no more. */
RUNG_API void rung_profile_assume(struct rung_profile *profile_out);

#ifdef __cplusplus
}
#endif
#endif

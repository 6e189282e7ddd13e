/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Properties and statistics of a store.
 */
#ifndef RUNG_STATS_H
#define RUNG_STATS_H

#include "plan.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rung_store;

/** Properties of a store. */
struct rung_store_info {
	size_t size; /**< sizeof(struct rung_store_info), set by the caller */
	uint64_t vertex_count;
	struct rung_array_info features; /**< gathered rows; row_bytes: size of one */
	/** as given to open; for an attached store the absolute path found by its creator. Valid
	 * until close */
	const char *dataset_dir;
	int attached;            /**< 1: opened by rung_store_attach() */
	enum rung_device device; /**< RUNG_DEVICE_CPU or RUNG_DEVICE_CUDA */
	int gpu;                 /**< number of the GPU that gathers; -1 on the CPU */
	uint32_t gpu_count;      /**< number of GPUs over which the tier "peer" is interleaved */
	int map_on_gpu;          /**< 1: rank_of_vertex is in GPU memory */
	/** how the rows are stored; column_scales is valid until close */
	struct rung_quantization quantization;
};

/**
 * Return the properties of a store: the number and dtype of its rows, the folder of its dataset,
 * and the device that gathers. The values do not change while the store is open.
 *
 * @param info_out  with `size` set; its texts are memory of the store, valid until
 *                  rung_store_close()
 * @return 0, or RUNG_E_ABI
 *
 * Threads: any.
 */
RUNG_API int rung_store_info(const struct rung_store *store, struct rung_store_info *info_out);

/** Largest number of tiers of a store. */
#define RUNG_TIERS_MAX 8
/**
 * Number of buckets of a latency histogram, eight per octave. Bucket b counts the value b if b is
 * below 8, otherwise values from (8 + b % 8) << (b / 8 - 1) up to the start of the next bucket. The
 * last bucket also counts all larger values.
 */
#define RUNG_LATENCY_BUCKETS 256

/** Phases of reading a cold row, for latencies. */
enum rung_read_phase {
	/** from the submission of the request until its read is submitted */
	RUNG_READ_PHASE_QUEUE,
	RUNG_READ_PHASE_DEVICE, /**< until the read has completed */
	/** until the rows are copied to the output; with CUDA, until they are passed to the GPU */
	RUNG_READ_PHASE_COPY,
	RUNG_READ_PHASE_COUNT
};

/** Placement of a block of host memory, planned and measured. Pages are inspected once, when the
 * store is opened. */
struct rung_store_placement {
	struct rung_placement placement;
	/** "slots": NUMA node on whose CPUs the refill thread of the file runs; -1: anywhere, also
	 * for other blocks */
	int cpu_node;
	/** share of pages on the planned nodes, from all pages or a sample of about 16384; NaN: no
	 * node was planned, or not known */
	double node_share;
	/** share of touched memory in huge pages; NaN: not touched yet, or not known */
	double huge_share;
	const char *why; /**< why no node was planned, or why the kernel refused; "" otherwise */
};

/** Largest number of engines, and of features of an engine, in the statistics. */
#define RUNG_ENGINE_STEPS_MAX 8

/** An engine that was tried, or a feature of one. */
struct rung_engine_step {
	const char *name;
	const char *why; /**< why it is not in use; "" if it is */
};

/** Rows and hits of a tier. */
struct rung_tier_stats {
	const char *name;
	uint64_t rows;  /**< rows it holds */
	uint64_t hits;  /**< requested rows that it served */
	uint64_t bytes; /**< bytes of those rows */
};

/**
 * Counters since open. Each is exact; while gathers run, they are read at nearly the same moment.
 * Hits on a GPU are counted after the gather has run.
 */
struct rung_store_stats {
	size_t size; /**< sizeof(struct rung_store_stats), set by the caller */
	uint32_t tier_count;
	struct rung_tier_stats tiers[RUNG_TIERS_MAX];
	uint64_t requests;
	uint64_t request_errors;
	uint64_t device_reads;      /**< completed reads */
	uint64_t device_read_bytes; /**< bytes of these reads, in whole sectors */
	/** distinct rows that were fetched together with another row in one read */
	uint64_t merged_rows;
	/** repeats of a cold row within one request, which are read once */
	uint64_t duplicate_rows;
	uint64_t retries;
	uint32_t queue_depth;
	uint32_t sector_bytes; /**< alignment of reads */
	/** "nvme", "io_uring_poll", "io_uring", "pread", or "none" if no row is cold */
	const char *engine;
	/** why a better engine is not in use; "" if this is the best that is tried by default. Like
	 * all texts here, valid until the store is closed */
	const char *engine_why;
	int direct; /**< 1: reads use O_DIRECT */
	/** number of requests by microseconds, in buckets as above */
	uint64_t latency[RUNG_LATENCY_BUCKETS];
	/** CUDA: calls in which the calling thread waited for the GPU or for reads */
	uint64_t host_waits;
	uint64_t scatters; /**< CUDA: kernels that copied rows from staging slots */
	/* Outcomes of cold rows. Once all requests are complete, cache_hits + joined_rows +
	 * read_rows + duplicate_rows + failed_rows equals the hits of tier "nvme". */
	uint64_t cache_hits; /**< rows that were in the cold-row cache */
	/** rows that waited for a read which another request or process had started */
	uint64_t joined_rows;
	uint64_t read_rows;   /**< distinct rows that a request read itself */
	uint64_t failed_rows; /**< rows of requests that failed or were canceled */
	uint64_t cache_rows;  /**< capacity of the cache */
	uint64_t cache_rows_filled;
	uint32_t merge_gap_bytes; /**< largest gap within a merged read; see rung_store_opts */
	uint32_t read_bytes_max;  /**< largest merged read */
	/** number of reads by nanoseconds, in the same buckets, by enum rung_read_phase */
	uint64_t phases[RUNG_READ_PHASE_COUNT][RUNG_LATENCY_BUCKETS];
	/** engines, best first, down to the one in use */
	struct rung_engine_step engine_steps[RUNG_ENGINE_STEPS_MAX];
	/** optional features of that engine, such as registered memory */
	struct rung_engine_step engine_parts[RUNG_ENGINE_STEPS_MAX];
	uint32_t engine_step_count;
	uint32_t engine_part_count;
	/** [placement_count] in the order of rung_plan_placement(); valid until the store is
	 * closed. For an attached store, "host" and "cache" are its creator's memory as mapped
	 * here */
	const struct rung_store_placement *placements;
	uint32_t placement_count;
	/* For a cold-row cache that is shared between processes: */
	/** part of read_rows: another process had started the read, and was stopped or slow */
	uint64_t late_rows;
	/** number of times another process was found to be stopped or slow, because it held the
	 * cache's lock for 100 ms or was reading a row for 80 ms. It is not waited for again until
	 * it makes progress */
	uint64_t cache_timeouts;
	/** total time for which threads of this store waited for the lock of the cache */
	uint64_t cache_wait_ns;
	/** why an attached store does not use the shared cache; "" otherwise */
	const char *cache_why;
	/** time in which at least one thread waited for rows in rung_gather(), rung_request_wait(),
	 * rung_request_wait_stream() or rung_loader_next() */
	uint64_t wait_rows_ns;
	/** the same, in rung_loader_next(), for a batch that was not sampled yet */
	uint64_t wait_sample_ns;
	/** duration of all completed reads, added up; of a read that was short, only its last part.
	 * Divided by the time that has passed it is the mean number of reads in flight */
	uint64_t read_ns;
	uint64_t reads_in_flight; /**< now; not a counter */
	/** why no file shows the counters to other processes, such as `rung top`; "" otherwise. The
	 * variable RUNG_STATS_PAGE=0 switches it off */
	const char *stats_page_why;
	/** rows that were read before a batch that needs them began; the batch finds them in the
	 * cache, and counts them in cache_hits */
	uint64_t ahead_rows;
	/** longest window so far, in batches, see rung_store_opts.window; 0: there was none */
	uint32_t window_batches;
	uint32_t refill_threads; /**< threads for each features file; 0: no row is cold */
	/** [file_count] the engine of each features file; `engine` is that of the first. Files of
	 * several ranges can be on different file systems */
	const char *file_engines[RUNG_FEATURE_FILES_MAX];
	uint32_t file_count; /**< 0: no row is cold */
};

/**
 * Copy the counters of a store, with the measured placement of its memory. Rates follow from the
 * difference of two calls.
 *
 * @param stats_out  with `size` set; its texts and arrays are memory of the store, valid until
 *                   rung_store_close()
 * @return 0, or RUNG_E_ABI
 *
 * Threads: any, also while gathers run.
 */
RUNG_API int rung_store_stats(const struct rung_store *store, struct rung_store_stats *stats_out);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** Staged datasets: open, read their small arrays, verify. The folder's format is docs/FORMAT.md. */
#ifndef RUNG_DATASET_H
#define RUNG_DATASET_H

#include "graph.h"
#include "sampler.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rung_dataset;

#define RUNG_FEATURE_FILES_MAX 16   /* that rows may be dealt over */

struct rung_dataset_info {
	uint32_t format_version;
	uint64_t vertex_count;
	uint64_t edge_count;
	struct rung_array_info features;  /**< dtype and shape of the features, row_bytes included */
	uint64_t row_stride;              /**< bytes from one row to the next in the file, at least row_bytes */
	uint64_t feature_bytes;           /**< vertex_count * row_bytes */
	unsigned index_bytes;             /**< of graph indices, maps and splits: 4 or 8 */
	const char *score_method;         /**< "blend" …, or "given" */
	uint32_t score_iterations;        /**< 0 when it does not apply */
	double score_damping;             /**< 0 when it does not apply */
	const uint32_t *fanouts;          /**< [fanout_count] given at staging */
	uint32_t fanout_count;
	uint32_t batch_size;              /**< given at staging */
	int has_labels;
	size_t split_count;
	const char *const *split_names;   /**< [split_count] */
	size_t file_count;
	uint32_t feature_file_count;      /**< features.000.npy and so on, perhaps on several devices */
	uint64_t block_rows;              /**< row of rank r is in file r / block_rows % feature_file_count; vertex_count with one file */
	enum rung_draws draws;            /**< given at staging */
	int score_sampled;                /**< nonzero: the score rests on sampled batches, of which the next two tell */
	uint64_t score_batches;
	uint64_t score_seed;
};

struct rung_dataset_file {
	const char *name;             /**< inside the folder */
	uint64_t bytes;
	struct rung_array_info array; /**< dtype NONE for files that are no array */
	uint64_t data_offset;         /**< of the array's first byte */
};

/**
 * Open a staged dataset: reads and checks the manifest, and that every file is there with its size and header.
 * Contents are not read (rung_dataset_verify() does that).
 *
 * @return 0, RUNG_E_NOENT (no folder, or no manifest in it: not staged to the end), RUNG_E_FORMAT (version, sizes, fields),
 *         RUNG_E_CORRUPT (the manifest fails its own checksum), RUNG_E_IO
 */
RUNG_API int rung_dataset_open(const char *dir, struct rung_dataset **ds_out);

/** What the manifest says; valid until close. */
RUNG_API const struct rung_dataset_info *rung_dataset_info(const struct rung_dataset *ds);

/** File `idx` of info->file_count; NULL past the end. */
RUNG_API const struct rung_dataset_file *rung_dataset_file(const struct rung_dataset *ds, size_t idx);

/** Folder it was opened from. */
RUNG_API const char *rung_dataset_dir(const struct rung_dataset *ds);

/** Close; NULL is allowed. Stores opened from it keep what they need. */
RUNG_API void rung_dataset_close(struct rung_dataset *ds);

/**
 * Read the relabelled graph into memory; its vertices are ranks. Every entry is checked.
 * @param graph_out  give it back with rung_graph_destroy()
 */
RUNG_API int rung_dataset_load_graph(const struct rung_dataset *ds, struct rung_graph **graph_out);

/**
 * Read an array into memory: "labels", "score", "vertex_of_rank", "rank_of_vertex", or "split_NAME".
 * Labels and score are in rank order; a split holds ranks, in the order it was given.
 *
 * @param info_out  may be NULL
 * @param data_out  free it with rung_free()
 * @return 0, RUNG_E_NOENT (no such array), RUNG_E_RANGE (an id that is no vertex), RUNG_E_IO, RUNG_E_NOMEM
 */
RUNG_API int rung_dataset_load_array(const struct rung_dataset *ds, const char *name, struct rung_array_info *info_out, void **data_out);

/** As rung_dataset_load_array() for ids: widened to uint64_t. */
RUNG_API int rung_dataset_load_ids(const struct rung_dataset *ds, const char *name, uint64_t *count_out, uint64_t **ids_out);

/** A block whose checksum is wrong, or that cannot be read. */
struct rung_bad_block {
	const char *file;
	uint64_t block;
	uint64_t offset;    /**< bytes from the start of the file */
};

struct rung_verify_opts {
	size_t size;                 /**< sizeof(struct rung_verify_opts), set by the initialiser */
	const char *source;          /**< SRC of the features it was staged from, to compare row by row; NULL: do not */
	uint32_t threads;            /**< 0: as OpenMP has it */
	rung_progress_fn progress;   /**< may be NULL */
	void *progress_ctx;
};

#ifdef __cplusplus
static inline struct rung_verify_opts rung_verify_opts_init(void)
{
	struct rung_verify_opts opts = {};
	opts.size = sizeof(opts);
	return opts;
}
#else
#define RUNG_VERIFY_OPTS_INIT { .size = sizeof(struct rung_verify_opts) }
#endif

struct rung_verify_report {
	uint64_t blocks_checked;
	uint64_t bytes_checked;
	struct rung_bad_block *bad;   /**< [bad_count]; free the report with rung_verify_report_fini() */
	uint64_t bad_count;
	uint64_t rows_compared;
	uint64_t rows_different;
	uint64_t first_different;     /**< original vertex of the first row that differs; valid while rows_different > 0 */
	double seconds;
};

/**
 * Re-read every file and compare the checksums of all blocks, the manifest's and the checksum file's own included;
 * with `source` also compare every row with the source through the maps.
 * A manifest that no longer parses is reported as its block 0, not as an error.
 *
 * @param report_out  written on 0 and on RUNG_E_CORRUPT
 * @return 0 when everything agrees, RUNG_E_CORRUPT with the places in the report when not, RUNG_E_NOENT, RUNG_E_IO, RUNG_E_FORMAT …
 */
RUNG_API int rung_dataset_verify(const char *dir, const struct rung_verify_opts *opts, struct rung_verify_report *report_out);

/** Free what a report holds. */
RUNG_API void rung_verify_report_fini(struct rung_verify_report *report);

#ifdef __cplusplus
}
#endif
#endif

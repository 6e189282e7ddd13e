/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Staged datasets: open, read their small arrays, verify. The folder's format is docs/FORMAT.md.
 */
#ifndef RUNG_DATASET_H
#define RUNG_DATASET_H

#include "graph.h"
#include "sampler.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rung_dataset;

#define RUNG_FEATURE_FILES_MAX 16   /**< that rows may be dealt over */

/** What a staged data set holds. Texts and lists belong to the data set. */
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
	uint32_t feature_file_count;      /**< features.000.npy and so on, perhaps on several devices; 0: rows are in features_path */
	uint64_t block_rows;              /**< row of rank r is in file r / block_rows % feature_file_count; vertex_count with one file */
	enum rung_draws draws;            /**< given at staging */
	int score_sampled;                /**< nonzero: the score rests on sampled batches, of which the next two tell */
	uint64_t score_batches;
	uint64_t score_seed;
	size_t array_count;               /**< further arrays of the vertices */
	const char *const *array_names;   /**< [array_count]; the array of NAME is "features_NAME" */
	const char *features_path;        /**< staged in place: the file that has the rows, in the order of the vertices; else NULL */
	uint64_t features_offset;         /**< where in it row 0 begins */
	uint64_t features_file_bytes;
};

/** One file of a staged data set. */
struct rung_dataset_file {
	const char *name;             /**< inside the folder */
	uint64_t bytes;
	struct rung_array_info array; /**< dtype NONE for files that are no array */
	uint64_t data_offset;         /**< of the array's first byte */
};

/**
 * Open a staged dataset: reads and checks the manifest, and that every file is there with its size and header.
 * Contents are not read (rung_dataset_verify() does that), but for 64 blocks of a file staged in place whose time of change is another.
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
 * Read an array into memory: "labels", "score", "vertex_of_rank", "rank_of_vertex", "features_NAME", or "split_NAME".
 * Labels, score and features are in rank order; a split holds ranks, in the order it was given.
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

/** Options of rung_dataset_verify(). */
struct rung_verify_opts {
	size_t size;                 /**< sizeof(struct rung_verify_opts), set by the initialiser */
	const char *source;          /**< SRC of the features it was staged from, to compare row by row; NULL: do not */
	uint32_t threads;            /**< 0: as OpenMP has it; a few more wait for the disk */
	rung_progress_fn progress;   /**< may be NULL */
	void *progress_ctx;
	const struct rung_graph_opts *graph;  /**< what it was staged from, to compare list by list; NULL: do not. Its vertex_count is not used */
	const char *labels;          /**< SRC of the labels, likewise */
	const char *score;           /**< SRC float32 [vertices] of the score by original id, likewise */
	const char *const *split_names;   /**< [split_count] of the dataset's splits, and in the same order */
	const char *const *split_specs;   /**< [split_count] SRC of each, likewise */
	size_t split_count;
	uint64_t sample_rows;        /**< compare the rows and lists of so many vertices, drawn by `seed`; 0: of all. Labels and splits always whole */
	double sample_share;         /**< the same as a share of the vertices, 0 to 1; 0: as sample_rows says */
	uint64_t seed;
	uint64_t memory_bytes;       /**< of all buffers and maps; 0: a quarter of RAM, or three quarters of what is free where that is less */
	int repair;                  /**< nonzero: make bad blocks again, out of the sources given here and of each other */
	const char *const *array_names;   /**< [array_count] of further arrays of the dataset */
	const char *const *array_specs;   /**< [array_count] SRC of each, likewise; always whole */
	size_t array_count;
};

/** Initialiser: all defaults. In C++: rung_verify_opts_init(). */
#define RUNG_VERIFY_OPTS_INIT { .size = sizeof(struct rung_verify_opts) }
RUNG_INIT_FUNCTION(rung_verify_opts, {})

/** What rung_dataset_verify() has read and found. */
struct rung_verify_report {
	uint64_t blocks_checked;
	uint64_t bytes_checked;
	struct rung_bad_block *bad;   /**< [bad_count] those that are bad now; free the report with rung_verify_report_fini() */
	uint64_t bad_count;
	uint64_t rows_compared;
	uint64_t rows_different;
	uint64_t first_different;     /**< original vertex of the first row that differs; valid while rows_different > 0 */
	double seconds;
	double block_seconds;         /**< of them for the blocks: bytes_checked / block_seconds is the rate */
	uint64_t lists_compared;
	uint64_t lists_different;
	uint64_t first_list_different;    /**< original vertex; valid while lists_different > 0 */
	uint64_t labels_compared, labels_different, first_label_different;      /**< likewise */
	uint64_t scores_compared, scores_different, first_score_different;      /**< likewise */
	uint64_t split_ids_compared, split_ids_different;                       /**< of all splits together */
	int maps_disagree;            /**< nonzero: vertex_of_rank and rank_of_vertex are not each other's inverse; nothing was compared */
	struct rung_bad_block *repaired;  /**< [repaired_count] those that were bad, and are not now */
	uint64_t repaired_count;
	char *unrepaired;             /**< why the first of `bad` could not be repaired; NULL: nothing was tried, or all could */
	uint64_t array_rows_compared, array_rows_different;   /**< of all further arrays together */
	uint64_t first_array_different;   /**< original vertex, in the first array that differs; valid while array_rows_different > 0 */
	uint64_t in_place_blocks_compared, in_place_blocks_different;   /**< staged in place: blocks of 1 MiB of the features' own file that are remembered */
	uint64_t first_in_place_different;   /**< offset of the first such block; valid while in_place_blocks_different > 0 */
};

/**
 * Re-read every file and compare the checksums of all blocks, the manifest's and the checksum file's own included. Reads go past
 * the page cache, several at a time.
 *
 * With sources also compare what was staged from them: every byte of every row (or 128 bits of a hash of rows longer than 16 bytes,
 * when all are compared: the source is then read once from end to end, and so are the staged rows), and every entry of every
 * list, all through the maps.
 *
 * With `repair` bad blocks are made again, held against their recorded checksum, and only then written in their place and synced.
 * Features, labels, score, arrays and splits come from their sources, graph files from the graph, each map from the other one, and
 * checksums.npy from the files. The manifest cannot be made again. Killed at any moment, no block is worse than before.
 *
 * Of features that were staged in place, which the dataset has no checksums of, up to 64 blocks are compared; a file that is not there, or has
 * another size, counts as if all of them differed. With `source` their rows are compared as any others.
 *
 * A manifest that no longer parses is reported as its block 0, not as an error.
 *
 * @param report_out  written on 0 and on RUNG_E_CORRUPT
 * @return 0 when everything agrees, RUNG_E_CORRUPT with the places in the report when not, RUNG_E_NOENT, RUNG_E_IO, RUNG_E_FORMAT,
 *         RUNG_E_INVAL (memory_bytes too small: says the least that works) …
 */
RUNG_API int rung_dataset_verify(const char *dir, const struct rung_verify_opts *opts, struct rung_verify_report *report_out);

/** Free what a report holds. */
RUNG_API void rung_verify_report_fini(struct rung_verify_report *report);

#ifdef __cplusplus
}
#endif
#endif

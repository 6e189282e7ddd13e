/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Staged datasets: opening them, reading their small arrays, verifying and repairing them.
 * docs/FORMAT.md describes the folder.
 *
 * Verifying. rung_dataset_verify() compares the checksums of all blocks, including those of the
 * manifest and of the file of checksums. Reads bypass the page cache. With sources, it also
 * compares what was staged from them, through the maps: every byte of every row, or a 128-bit hash
 * of rows longer than 16 bytes if all are compared, and every entry of every list.
 *
 * Features in place have no checksums: up to 64 recorded blocks are compared. A missing file, or a
 * file of another size, counts as different in all of them. A manifest that cannot be parsed is
 * reported as its block 0.
 *
 * Repairing. With `repair`, bad blocks are rebuilt, compared with their recorded checksums, and
 * only then written and synced. Features, labels, score, arrays and splits need their sources,
 * graph files need the graph, each map needs the other one; checksums.npy is rebuilt from the
 * files. The manifest cannot be repaired. If the process is killed, no block is worse than before.
 */
#ifndef RUNG_DATASET_H
#define RUNG_DATASET_H

#include "graph.h"
#include "sampler.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rung_dataset;
struct rung_stage_type;
struct rung_stage_relation;

#define RUNG_FEATURE_FILES_MAX 16 /**< maximum number of files of the features */

/** A range of ranks, and the features files that have its rows. */
struct rung_feature_range {
	uint64_t begin, end; /**< its first rank, and the rank after its last one */
	/** the first rank whose row is in the files, at most `begin` */
	uint64_t stored_first;
	uint32_t file_first; /**< number of its first file: 0 is features.000.npy */
	uint32_t file_count;
	/** with d = r - stored_first, the row of rank r is in file file_first + d / block_rows %
	 * file_count, as row d / block_rows / file_count * block_rows + d % block_rows */
	uint64_t block_rows;
};

/** A type of vertices of a typed dataset. */
struct rung_dataset_type {
	const char *name;
	uint64_t vertex_count;
	/** folder in the dataset that is the dataset of its vertices: maps, score, and, if there
	 * are any, features, labels, arrays and splits; open it with rung_dataset_open() */
	const char *folder;
	int has_features;
};

/** A relation of a typed dataset: edges from vertices of one type to vertices of another. */
struct rung_dataset_relation {
	const char *name;
	uint32_t source_type, target_type; /**< index in `types` */
	uint64_t edge_count;
	/** folder in the dataset that is the dataset of its lists: column r has the in-neighbours
	 * of rank r of the target type, as ranks of the source type */
	const char *folder;
	/** folder of the dataset of its edge rows, in the order of the lists; NULL: none */
	const char *rows_folder;
	const uint32_t *fanouts; /**< [fanout_count] given at staging; 0 draws nothing */
};

/** Contents of a staged dataset. The dataset owns all texts and lists. */
struct rung_dataset_info {
	uint32_t format_version;
	uint64_t vertex_count;
	uint64_t edge_count;
	/** element type and shape of the features, as they were given at staging */
	struct rung_array_info features;
	uint64_t row_stride;       /**< bytes from one stored row to the next, at least row_bytes */
	uint64_t feature_bytes;    /**< vertex_count * stored_row_bytes */
	unsigned index_bytes;      /**< of graph indices, maps and splits: 4 or 8 */
	const char *score_method;  /**< such as "blend", or "given" */
	uint32_t score_iterations; /**< 0 if it does not apply */
	double score_damping;      /**< 0 if it does not apply */
	const uint32_t *fanouts;   /**< [fanout_count] given at staging */
	uint32_t fanout_count;
	uint32_t batch_size; /**< given at staging */
	int has_labels;
	size_t split_count;
	const char *const *split_names; /**< [split_count] */
	size_t file_count;
	/**
	 * features.000.npy and so on, possibly on several devices; 0: the rows are in features_path
	 */
	uint32_t feature_file_count;
	enum rung_draws draws;          /**< given at staging */
	int score_sampled;              /**< nonzero: the score was computed from sampled batches */
	uint64_t score_batches;         /**< number of the sampled batches */
	uint64_t score_seed;            /**< their seed */
	size_t array_count;             /**< number of additional arrays of the vertices */
	const char *const *array_names; /**< [array_count]; array NAME is "features_NAME" */
	/** staged in place: the file of the rows, in the order of the vertices; else NULL */
	const char *features_path;
	uint64_t features_offset;     /**< position of row 0 in that file */
	uint64_t features_file_bytes; /**< size of that file */
	const char *vertex_type; /**< name of the vertices; "vertex" if none was given at staging */
	const char *relation;    /**< name of the edges; "edge" if none was given at staging */
	/** bytes of a row in files and tiers: features.row_bytes unless rows are quantized */
	uint64_t stored_row_bytes;
	struct rung_quantization quantization; /**< format RUNG_QUANT_NONE: not quantized */
	/** ranges of ranks, each with own files; one unless rows were staged or fetched to several
	 * places */
	uint32_t feature_range_count;
	const struct rung_feature_range *feature_ranges; /**< [feature_range_count] */
	/** a typed dataset: its parts, each of them a dataset in another folder. The counts above
	 * are then sums over all parts, and features, labels, arrays and splits are those of the
	 * parts. 0: not typed */
	uint32_t type_count;
	const struct rung_dataset_type *types; /**< [type_count] */
	uint32_t relation_count;
	const struct rung_dataset_relation *relations; /**< [relation_count] */
	uint32_t seed_type; /**< of a typed dataset: the type whose train vertices are the seeds */
	/** a part of a typed dataset can lack some of: features (features.dtype is then NONE), the
	 * two maps, and the graph */
	int has_maps, has_graph;
	/** number of vertices that the entries of the graph refer to: vertex_count, or, of the
	 * lists of a relation, that of its source type */
	uint64_t source_count;
};

/** One file of a staged dataset. */
struct rung_dataset_file {
	const char *name; /**< in the folder */
	uint64_t bytes;
	struct rung_array_info array; /**< dtype NONE for files that are not arrays */
	uint64_t data_offset;         /**< position of the first element */
};

/**
 * Open a staged dataset.
 *
 * Reads and checks the manifest, and checks that every file exists with its size and header. The
 * contents are not read, except for 64 blocks of a features file in place whose modification time
 * has changed; rung_dataset_verify() reads everything.
 *
 * @param dir     folder of the dataset
 * @param ds_out  close it with rung_dataset_close()
 * @return 0, RUNG_E_NOENT (no folder, or no manifest: staging did not finish), RUNG_E_FORMAT
 *         (version, sizes, fields), RUNG_E_CORRUPT (checksum of the manifest), RUNG_E_IO
 *
 * Threads: any.
 */
RUNG_API int rung_dataset_open(const char *dir, struct rung_dataset **ds_out);

/**
 * Contents of a dataset: sizes, names, and how it was staged.
 *
 * @param ds  an open dataset
 * @return the contents, which the dataset owns; valid until rung_dataset_close(); never NULL
 *
 * All values come from the manifest, which was checked when the dataset was opened. Use
 * rung_dataset_load_array() to read the arrays that are named here.
 *
 * Threads: any.
 */
RUNG_API const struct rung_dataset_info *rung_dataset_info(const struct rung_dataset *ds);

/**
 * Enumerate the files of a dataset.
 *
 * @param ds   an open dataset
 * @param idx  0 to file_count - 1 of struct rung_dataset_info
 * @return the file, which the dataset owns; valid until rung_dataset_close(); NULL past the end
 *
 * The last two are the file of checksums and the manifest. A features file that is used in place
 * is not among them: see features_path.
 *
 * Threads: any.
 */
RUNG_API const struct rung_dataset_file *rung_dataset_file(const struct rung_dataset *ds,
                                                           size_t idx);

/**
 * Folder from which a dataset was opened.
 *
 * @param ds  an open dataset
 * @return the path as it was given to rung_dataset_open(), which the dataset owns; valid until
 *         rung_dataset_close()
 *
 * A relative path is not made absolute: it refers to the working directory at the time of the call
 * that opened the dataset.
 *
 * Threads: any.
 */
RUNG_API const char *rung_dataset_dir(const struct rung_dataset *ds);

/**
 * Close a dataset and free everything that it owns.
 *
 * @param ds  the dataset; NULL is allowed
 *
 * Stores, plans and samplers that were created from it stay usable: they keep what they need.
 * Arrays and graphs that were loaded belong to the caller and stay valid, too.
 *
 * Threads: any, but no other call with the same dataset.
 */
RUNG_API void rung_dataset_close(struct rung_dataset *ds);

/**
 * Read the relabelled graph of a dataset into memory. Its vertices are ranks.
 *
 * @param ds         an open dataset
 * @param graph_out  free it with rung_graph_destroy()
 * @return 0, RUNG_E_FORMAT or RUNG_E_RANGE (damaged contents), RUNG_E_IO, RUNG_E_NOMEM
 *         (also if the graph is larger than the free memory; rung/structure.h needs less)
 *
 * Every entry of indptr and indices is checked. Memory: 8 bytes per vertex and index_bytes per
 * edge.
 *
 * Threads: any.
 */
RUNG_API int rung_dataset_load_graph(const struct rung_dataset *ds, struct rung_graph **graph_out);

/**
 * Read an array of a dataset into memory.
 *
 * @param name      "labels", "score", "vertex_of_rank", "rank_of_vertex", "features_NAME" or
 *                  "split_NAME"
 * @param info_out  element type and shape; may be NULL
 * @param data_out  free it with rung_free()
 * @return 0, RUNG_E_NOENT (no such array), RUNG_E_RANGE (an id that is not a vertex), RUNG_E_IO,
 *         RUNG_E_NOMEM
 *
 * Labels, score and features are in the order of the ranks. A split contains ranks, in the order in
 * which it was given.
 *
 * Threads: any.
 */
RUNG_API int rung_dataset_load_array(const struct rung_dataset *ds, const char *name,
                                     struct rung_array_info *info_out, void **data_out);

/**
 * Read an array of ids into memory, widened to 64 bits.
 *
 * @param name       "vertex_of_rank", "rank_of_vertex" or "split_NAME"
 * @param count_out  number of ids
 * @param ids_out    [*count_out]; free it with rung_free()
 * @return as rung_dataset_load_array()
 *
 * Use it for train ids: samplers, scores and loaders accept uint64_t ids, while the files have ids
 * of index_bytes.
 *
 * Threads: any.
 */
RUNG_API int rung_dataset_load_ids(const struct rung_dataset *ds, const char *name,
                                   uint64_t *count_out, uint64_t **ids_out);

/** A block with a wrong checksum, or one that cannot be read. */
struct rung_bad_block {
	const char *file;
	uint64_t block;
	uint64_t offset; /**< bytes from the start of the file */
};

/** Options of rung_fetch(). */
struct rung_fetch_opts {
	size_t size; /**< sizeof the struct, set by the initialiser */
	/**
	 * the dataset to copy: a folder; HOST:PATH or rsync://HOST/MODULE/PATH, through rsync; an
	 * http:// or https:// URL of the folder, through curl; s3://BUCKET/PREFIX, through s5cmd
	 * and curl
	 */
	const char *source;
	const char *out_dir; /**< the copy; the work is in OUT.partial until it is complete */
	/** share of the rows to copy, the hottest first; 0: 1. The copy refers to the other rows by
	 * links. With rows dealt over several files, up to a block per file more */
	double share;
	/** with a share below 1, a folder with the source's files, such as a mount of it; NULL:
	 * source, which must then be a folder */
	const char *rest;
	uint32_t threads;          /**< transfers at the same time; 0: 8. rsync: one */
	rung_progress_fn progress; /**< may be NULL */
	void *progress_ctx;
};

/** Initialiser: all defaults. In C++: rung_fetch_opts_init(). */
#define RUNG_FETCH_OPTS_INIT RUNG_INIT(struct rung_fetch_opts)
RUNG_INIT_FUNCTION(rung_fetch_opts, {})

/** What rung_fetch() has done. */
struct rung_fetch_report {
	uint64_t vertex_count;
	uint64_t row_count;  /**< rows that were copied: those of the ranks below it */
	uint64_t bytes;      /**< of the copied files */
	uint64_t bytes_kept; /**< part of `bytes` that an earlier run had copied */
	uint64_t bytes_left; /**< of the files to which the copy refers */
	double seconds;
};

/**
 * Copy a staged dataset, or its hottest rows, from another machine. Every block is compared with
 * its checksum before it is written. A run that was stopped at any moment is continued by the same
 * call, which reads again what is there and transfers the rest. If out_dir is already this copy,
 * nothing is done. A whole copy has the same bytes in all files, manifest included.
 *
 * Threads: any; each call starts opts.threads threads and as many programs. `progress` is called
 * from the calling thread, with the step "fetch" and bytes.
 *
 * @param report_out  may be NULL
 * @return 0; RUNG_E_INVAL; RUNG_E_NOENT, RUNG_E_IO with the message of the program that
 *         transfers; RUNG_E_FORMAT (not a dataset); RUNG_E_CORRUPT naming the bytes that do not
 *         match; RUNG_E_EXIST, RUNG_E_BUSY, RUNG_E_NOSPC for the output; RUNG_E_CANCELED;
 *         RUNG_E_NOMEM
 */
RUNG_API int rung_fetch(const struct rung_fetch_opts *opts, struct rung_fetch_report *report_out);

/** Options of rung_dataset_verify(). */
struct rung_verify_opts {
	size_t size; /**< sizeof the struct, set by the initialiser */
	/** SRC of the original features, to compare row by row; NULL: do not compare */
	const char *source;
	uint32_t threads;          /**< 0: OpenMP's default; a few additional threads read */
	rung_progress_fn progress; /**< may be NULL */
	void *progress_ctx;
	/** original graph, to compare list by list; NULL: do not. Its vertex_count is ignored */
	const struct rung_graph_opts *graph;
	const char *labels; /**< SRC of the original labels; NULL: do not compare */
	/** SRC float32 [vertices] of the score by original id; NULL: do not compare */
	const char *score;
	const char *const *split_names; /**< [split_count] splits of the dataset, in its order */
	const char *const *split_specs; /**< [split_count] SRC of each; NULL: do not compare */
	size_t split_count;
	/**
	 * compare rows and lists of this many vertices, drawn with `seed`; 0: of all. Labels and
	 * splits are always compared completely
	 */
	uint64_t sample_rows;
	double sample_share; /**< the same as a share of the vertices; 0: use sample_rows */
	uint64_t seed;
	/** of all buffers and maps together; 0: a quarter of RAM, or 3/4 of the free memory if that
	 * is less */
	uint64_t memory_bytes;
	int repair; /**< nonzero: rebuild bad blocks from the sources; see the top of this file */
	const char *const *array_names; /**< [array_count] additional arrays of the dataset */
	const char *const *array_specs; /**< [array_count] SRC of each; compared completely */
	size_t array_count;
	/** a typed dataset: [type_count] and [relation_count] the sources of its types and
	 * relations, in its order, as in struct rung_stage_opts; all members above that name
	 * sources are then NULL. 0: compare with no sources */
	const struct rung_stage_type *types;
	size_t type_count;
	const struct rung_stage_relation *relations;
	size_t relation_count;
};

/** Initialiser: all defaults. In C++: rung_verify_opts_init(). */
#define RUNG_VERIFY_OPTS_INIT RUNG_INIT(struct rung_verify_opts)
RUNG_INIT_FUNCTION(rung_verify_opts, {})

/** Result of rung_dataset_verify(). Vertices are original ids. */
struct rung_verify_report {
	uint64_t blocks_checked;
	uint64_t bytes_checked;
	/** [bad_count] blocks that are still bad; freed by rung_verify_report_fini() */
	struct rung_bad_block *bad;
	uint64_t bad_count;
	uint64_t rows_compared;
	uint64_t rows_different;
	uint64_t first_different; /**< vertex; valid if rows_different > 0 */
	double seconds;
	double block_seconds; /**< part of `seconds` that the checksums took */
	uint64_t lists_compared;
	uint64_t lists_different;
	uint64_t first_list_different; /**< vertex; valid if lists_different > 0 */
	uint64_t labels_compared, labels_different, first_label_different;
	uint64_t scores_compared, scores_different, first_score_different;
	uint64_t split_ids_compared, split_ids_different; /**< total of all splits */
	/**
	 * nonzero: vertex_of_rank and rank_of_vertex are not each other's inverse; nothing was
	 * compared with sources
	 */
	int maps_disagree;
	struct rung_bad_block *repaired; /**< [repaired_count] blocks that were bad */
	uint64_t repaired_count;
	/** why the first block of `bad` could not be repaired; NULL: not tried, or all repaired */
	char *unrepaired;
	uint64_t array_rows_compared, array_rows_different; /**< total of all additional arrays */
	/** vertex, in the first array that differs; valid if array_rows_different > 0 */
	uint64_t first_array_different;
	/** staged in place: recorded blocks of 1 MiB of the features file */
	uint64_t in_place_blocks_compared, in_place_blocks_different;
	/** offset of the first such block; valid if in_place_blocks_different > 0 */
	uint64_t first_in_place_different;
};

/**
 * Read every file of a dataset again and compare the checksums of all blocks. With sources, also
 * compare what was staged from them; with `repair`, rebuild bad blocks. See the top of this file.
 *
 * @param report_out  written for 0 and RUNG_E_CORRUPT; free it with rung_verify_report_fini()
 * @return 0 if everything agrees, RUNG_E_CORRUPT with the positions in the report, RUNG_E_NOENT,
 *         RUNG_E_IO, RUNG_E_FORMAT, RUNG_E_INVAL (memory_bytes too small, with the smallest value
 *         that works), RUNG_E_CANCELED
 *
 * Threads: any; it starts threads and uses OpenMP threads.
 */
RUNG_API int rung_dataset_verify(const char *dir, const struct rung_verify_opts *opts,
                                 struct rung_verify_report *report_out);

/**
 * Free the lists of a report, and clear it.
 *
 * @param report  a report that rung_dataset_verify() wrote; NULL is allowed
 *
 * The struct itself belongs to the caller. The counters keep their values, except for the lengths
 * of the lists, which become 0. Calling it again for the same report does nothing.
 *
 * Threads: any, but no other use of the same report.
 */
RUNG_API void rung_verify_report_fini(struct rung_verify_report *report);

#ifdef __cplusplus
}
#endif
#endif

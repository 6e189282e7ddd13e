/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Staging: from a graph and its features to a folder with the rows in rank order.
 *
 * Output. The folder appears under its name only when every file in it is complete and synced; the
 * manifest is written last. Until then the work is in "OUT.partial", with a journal of the finished
 * parts. A second run on the same folder at the same time returns RUNG_E_BUSY. Inputs, memory and
 * free disk space are checked before the first byte is written.
 *
 * Resuming. A run that fails, is canceled or is killed before the ranks are known leaves nothing of
 * value: it, or the next run, removes OUT.partial. After that point OUT.partial stays. With
 * `resume` the same job continues after the finished parts and writes identical bytes; another job,
 * or changed inputs, give RUNG_E_INVAL. Without `resume` the call returns RUNG_E_EXIST; `force`
 * starts from scratch.
 *
 * With `resume` and an out_dir that this job has already finished, the files are checked as
 * described under Replacing, nothing is written, and `already_staged` is set. If out_dir holds the
 * result of another job, the call returns RUNG_E_EXIST and names the difference; with `force` it
 * replaces that result.
 *
 * Replacing. A folder that is to be replaced stays untouched until the new one is complete. Before
 * the new folder gets its name, all files are checked (present, regular, right size; all blocks of
 * files under 64 MiB, 1/64 of the blocks of larger files), and so are the inputs (size,
 * modification time, inode). RUNG_E_CORRUPT names the difference, and OUT.partial stays. If only
 * the last sync, that of the parent folder, fails, the complete dataset stays; it opens and
 * verifies.
 *
 * Memory. Data that exceeds `memory_bytes` stays in files. One map of the vertices (4 bytes each, 8
 * from 2^32 vertices on) is always resident, two during relabelling, plus the memory of the score
 * (rank.h) while it is computed; all else is buffers. The graph is loaded into memory if it fits. A
 * deflated member of a .npz is inflated while it is read, with less than 1 MiB.
 *
 * In place. With `in_place` no row is copied. The dataset records the absolute path of the file
 * with the rows, its size, its modification time and the checksums of up to 64 of its blocks;
 * rung_dataset_open() uses these to recognise it. A store then keeps one entry of vertex_of_rank
 * per vertex, and rows that are requested together are not next to each other in the file. The
 * source must store its rows uncompressed: a .npy file, a stored member of a .npz, or raw. `pad`
 * and `stripe_dirs` cannot be combined with it. Additional arrays are copied as usual.
 *
 * Parts. With `part_count` N, N calls on several machines stage one data set on shared storage, at
 * the same time or in any order, with the same options except `part`. The score must be a file.
 * Part I has the ranks [V * I / N, V * (I + 1) / N) of V vertices and writes them to a features
 * file that no other part writes. Parts other than 0 read only features and score; their work is in
 * OUT.part-I-of-N.partial, and each is resumed and discarded as described above. Part 0 stages all
 * else in OUT.partial. At its end it moves the files of the other parts there, checks them,
 * publishes the dataset, and removes the folders of the parts. If a part is not complete, it
 * returns RUNG_E_NOENT and names it; call it again with `resume` when that part is complete. A part
 * of another job is RUNG_E_INVAL, with the first difference: the other options, the shape of the
 * features, or the scores.
 *
 * Presets. rung_preset_open() knows the files of public data sets in the layout of their download,
 * and reads the description of a data set (docs/DATASET.md). A description is untrusted, and can
 * name any file that the caller may read; names of files are relative to its folder. The call
 * checks the sizes of files without a header, and compares the counts of a description with the
 * requested parts; rung_stage() checks headers.
 */
#ifndef RUNG_STAGE_H
#define RUNG_STAGE_H

#include "graph.h"
#include "rank.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A named array of vertex ids, or a boolean mask over the vertices. */
struct rung_stage_split {
	/** letters, digits, '_' and '-'; the score uses "train" as the train vertices */
	const char *name;
	const char *spec; /**< SRC: integer vertex ids [K], or bool [vertices] */
};

/** How the rows are brought into rank order. All orders write the same files. */
enum rung_row_order {
	/** the fastest one, predicted from device rates measured on the spot */
	RUNG_ROW_ORDER_AUTO = 0,
	/** for each part of the output that fits in memory, read all rows */
	RUNG_ROW_ORDER_PASSES,
	/** read all rows once, append each to the file of its output part, then sort each part */
	RUNG_ROW_ORDER_PARTITION,
	/** read every row from its position in the source, in output order */
	RUNG_ROW_ORDER_GATHER
};

/** Space between rows in the features files. */
enum rung_stage_pad {
	RUNG_STAGE_PAD_NONE = 0, /**< a row begins where the previous one ends */
	RUNG_STAGE_PAD_SECTOR,   /**< each row begins at a multiple of 512 bytes */
	/** no row of up to 4 KiB crosses a 4 KiB boundary, if this saves more reads than it adds
	 * bytes */
	RUNG_STAGE_PAD_AUTO
};

/** A named array with one row per vertex, staged in addition to the features. */
struct rung_stage_array {
	const char *name; /**< same characters as the names of splits */
	const char *spec; /**< SRC [vertices, ...] of any dtype */
};

/** A type of vertices of a typed graph, with the same members as struct rung_stage_opts. */
struct rung_stage_type {
	const char *name;      /**< same characters as the names of splits */
	uint64_t vertex_count; /**< 0: the number of rows of the features */
	const char *features;  /**< SRC [vertices, ...]; NULL: none */
	const char *labels;
	const struct rung_stage_split *splits;
	size_t split_count;
	const struct rung_stage_array *arrays;
	size_t array_count;
	enum rung_quant_format quantize;
	enum rung_quant_scales quant_scales;
};

/** A relation of a typed graph. */
struct rung_stage_relation {
	const char *source, *name, *target; /**< name of a type, of the relation, of a type */
	/** [spec_count] edges as in struct rung_graph_opts: sources are ids of the source type,
	 * targets of the target type */
	const char *const *specs;
	size_t spec_count;
	/** nonzero: the specs have the edges from target to source; turn them around */
	int reversed;
	/** nonzero: add the reverse of every edge; only if source and target are equal */
	int undirected;
	int dedup; /**< nonzero: keep one of equal edges */
	/** SRC [edges, ...] of edge rows, in the order of the specs; NULL: none */
	const char *rows;
	/** [fanout_count of the options]; 0 draws nothing at a hop; NULL: those of the options */
	const uint32_t *fanouts;
};

/** Options of rung_stage(). */
struct rung_stage_opts {
	size_t size; /**< sizeof(struct rung_stage_opts), set by the initialiser */
	/** its `size` must be set too; vertex_count 0: the number of feature rows. No specs: no
	 * edges */
	struct rung_graph_opts graph;
	const char *features; /**< SRC [vertices, ...] */
	const char *out_dir;  /**< created by the call; its parent folder must exist */
	const char *labels;   /**< SRC [vertices, ...], NULL: none */
	const struct rung_stage_split *splits; /**< [split_count] */
	size_t split_count;
	/** its `size` must be set too; train ids, fan-outs and batch size come from this struct */
	struct rung_score_opts score;
	/** SRC float32 [vertices], no NaN: rank by these values; NULL: compute `score` */
	const char *score_spec;
	/** [fanout_count] for the score, and stored as the default for training; NULL: 25,10 */
	const uint32_t *fanouts;
	uint32_t fanout_count;
	uint32_t batch_size; /**< for the score, and stored as the default for training; 0: 1024 */
	uint32_t threads;    /**< 0: the OpenMP default */
	int force;           /**< nonzero: replace out_dir if it is a staged dataset */
	int dry_run; /**< nonzero: check inputs and free space, fill in the report, write nothing */
	/** may be NULL; steps "graph", "score" (passes), "score, sampling" (batches) and "relabel",
	 * then "features", "files" and "check" in bytes, and "scales" in rows */
	rung_progress_fn progress;
	void *progress_ctx;
	/** most memory to use; 0: a quarter of RAM, or three quarters of the free memory (of the
	 * machine or the control group) if that is less */
	uint64_t memory_bytes;
	/** nonzero: resume an interrupted run of the same job from OUT.partial, if there is one.
	 * See Resuming at the top of this file */
	int resume;
	enum rung_row_order row_order;
	enum rung_stage_pad pad;
	/** [stripe_count] folders on other devices over which the rows are striped; out_dir gets
	 * links */
	const char *const *stripe_dirs;
	size_t stripe_count; /**< at most RUNG_FEATURE_FILES_MAX; 0: one file in out_dir */
	/** [array_count] staged in addition to the features, each in its own file,
	 * "features_NAME" */
	const struct rung_stage_array *arrays;
	size_t array_count;
	/** nonzero: leave the features in their source; the dataset then needs that file,
	 * unchanged; see In place at the top of this file */
	int in_place;
	const char *vertex_type; /**< name of the vertices, as those of splits; NULL: "vertex" */
	const char *relation;    /**< name of the edges; NULL: "edge" */
	/** store the features with fewer bits; they must be f16, bf16, f32 or f64, and finite */
	enum rung_quant_format quantize;
	enum rung_quant_scales quant_scales; /**< with `quantize` */
	/** [stripe_count] ascending, the last one 1: the rows are divided into ranges of ranks, and
	 * each range is striped over the consecutive folders with the same share. A range ends with
	 * this share of all rows, the hottest first: { 0.2, 0.2, 1 } puts the first 20 % on two
	 * folders and the others on the third. NULL: one range */
	const double *stripe_shares;
	/** not 0: divide the ranks into this many parts, at most RUNG_FEATURE_FILES_MAX, which are
	 * separate calls. This call stages part number `part`: see Parts at the top of this file */
	uint32_t part_count;
	uint32_t part; /**< below part_count */
	/** [type_count] a typed graph; graph.specs, features, labels, splits, arrays, vertex_type,
	 * relation, quantize and score_spec are then not given. 0: not typed. See Types at the top
	 * of this file */
	const struct rung_stage_type *types;
	size_t type_count;
	const struct rung_stage_relation *relations; /**< [relation_count] */
	size_t relation_count;
	/** name of the type whose split "train" has the seeds; NULL: the first type with such a
	 * split, else the first type */
	const char *seed_type;
};

/** The folder with the work of part PART > 0 of COUNT: OUT, PART and COUNT are to be printed. */
#define RUNG_STAGE_PART_FORMAT "%s.part-%03u-of-%03u.partial"

/** Initialiser: all defaults. In C++: rung_stage_opts_init(). */
#define RUNG_STAGE_OPTS_INIT                                                                       \
	{                                                                                          \
		.size = sizeof(struct rung_stage_opts), .graph = RUNG_GRAPH_OPTS_INIT,             \
		.score = RUNG_SCORE_OPTS_INIT                                                      \
	}
RUNG_INIT_FUNCTION(rung_stage_opts, {
	opts.graph.size = sizeof(opts.graph);
	opts.score.size = sizeof(opts.score);
})

/** Largest number of phases in a report. */
#define RUNG_STAGE_PHASES_MAX 8

/** A phase of staging, and the bytes that the process read and wrote during it. */
struct rung_stage_phase {
	const char *name; /**< "graph", "score", "rank", "relabel", "features", "labels", "files" */
	double seconds;
	/** counted by the kernel for the whole process, page cache included; 0 if not available */
	uint64_t bytes_read, bytes_written;
};

/** Results of staging, or of a dry run. */
struct rung_stage_report {
	uint64_t vertex_count;
	uint64_t edge_count;
	uint64_t row_bytes;
	uint64_t feature_bytes; /**< vertex_count * row_bytes */
	/** size of all files of the dataset, or of those that a part writes; with dry_run: the size
	 * they will have */
	uint64_t bytes_written;
	uint64_t free_bytes;   /**< free space on the file system of out_dir before writing */
	uint64_t memory_bytes; /**< peak of the memory held by the call, by its own count */
	struct rung_score_report score;
	double seconds;
	uint64_t budget_bytes; /**< memory_bytes of the options, with the default filled in */
	int graph_in_files;    /**< 1: the graph did not fit in memory and stayed in files */
	int resumed;           /**< 1: the work of an interrupted run was resumed */
	uint64_t rows_resumed; /**< feature rows that the interrupted run had finished */
	enum rung_row_order row_order; /**< order used for the features; its costs follow */
	uint64_t range_count;          /**< number of parts of the output */
	uint64_t rows_bytes_read, rows_bytes_written;
	/** temporary disk space of the feature files, in addition to their final size */
	uint64_t temp_bytes;
	/** predicted; 0: devices were not measured, because there is too little data */
	double rows_seconds;
	/** predicted for each order; 0: not possible, or not measured */
	double row_order_seconds[RUNG_ROW_ORDER_GATHER + 1];
	/** measured rates of large reads, large writes and single rows; 0: not measured */
	double read_bytes_per_s, write_bytes_per_s, row_reads_per_s;
	uint64_t row_stride;         /**< bytes from one row to the next */
	uint32_t feature_file_count; /**< 0 with in_place */
	size_t phase_count;
	struct rung_stage_phase phases[RUNG_STAGE_PHASES_MAX];
	/** 1: rows stay in their source; the members above about feature files do not apply */
	int in_place;
	/** 1: with `resume`, out_dir already holds the complete result of this job */
	int already_staged;
	int old_left; /**< 1: a replaced dataset could not be removed; rung_last_error() names it */
	uint64_t given_row_bytes; /**< quantized: bytes of a row as it was given; else 0 */
	/** quantized: errors of this many rows, all or a sample: the largest and the mean
	 * difference of values, and the share of clipped values. With dry_run and scales per
	 * column, the scales are those of the sample */
	uint64_t quant_rows;
	double quant_error_max, quant_error_mean, quant_clipped;
	/** first rank and number of the rows that the call staged: all, or those of a part */
	uint64_t rank_first, rank_count;
};

/**
 * Name of a row order: "auto", "passes", "partition" or "gather", as the command spells it.
 *
 * @return a constant string; NULL if `order` is not a valid value. The caller must not free it.
 *         There are no other errors.
 *
 * Threads: any, at any time.
 */
RUNG_API const char *rung_row_order_name(enum rung_row_order order);

/**
 * Score, rank and relabel a graph, and write a staged dataset (docs/FORMAT.md). The data may exceed
 * memory. See the top of this file.
 *
 * @param report_out  may be NULL
 * @return 0, RUNG_E_EXIST (out_dir or unfinished work exists), RUNG_E_BUSY, RUNG_E_NOSPC,
 *         RUNG_E_RANGE, RUNG_E_FORMAT, RUNG_E_NOENT, RUNG_E_IO, RUNG_E_CORRUPT, RUNG_E_INVAL (also
 *         if memory_bytes is too small: the message names the least that works), RUNG_E_NOMEM,
 *         RUNG_E_CANCELED
 *
 * Threads: any; each call uses its own `threads`. `progress` is called from the calling thread.
 */
RUNG_API int rung_stage(const struct rung_stage_opts *opts, struct rung_stage_report *report_out);

/** Supported data sets. */
enum rung_preset_kind {
	/**
	 * ogbn-papers100M: ROOT, or papers100M-bin or ogbn_papers100M inside it, contains
	 * raw/data.npz, raw/node-label.npz and split/time/{train,valid,test}.csv.gz. Edges point
	 * from the citing paper to the cited one.
	 */
	RUNG_PRESET_OGB_PAPERS100M = 1,
	/**
	 * MAG240M of OGB-LSC: ROOT, or mag240m_kddcup2021 inside it. Part "papers":
	 * processed/paper/node_feat.npy and the citations in both directions. Part "all", typed:
	 * paper, author and institution; paper:cites:paper in both directions, author:writes:paper
	 * and author:affiliated_with:institution, each with its opposite relation, rev_writes and
	 * rev_affiliated_with. Features are those of full_feat.npy of the R-GNN baseline (float16
	 * [vertices, 768] without a header: papers, authors, institutions); without that file, only
	 * the papers have features. It is in the folder, in its parent, or in "mag240m" in its
	 * parent, together with full_feat_done.txt. Default part: "all" if there is a
	 * full_feat.npy, else "papers". As in the baseline, an edge that exists in both directions
	 * counts once. If split_dict.pt has "test" but not "test-dev", it becomes "test-whole",
	 * "test-dev" and "test-challenge", as in OGB's loader.
	 */
	RUNG_PRESET_OGB_MAG240M,
	/**
	 * IGB, and the papers of IGBH: ROOT/SIZE/processed, or ROOT/processed. The part is SIZE:
	 * "tiny", "experimental", "small", "medium", "large" or "full". Labels have 19 classes;
	 * the splits are consecutive ranges of 60, 20 and 20 % of the labelled papers. IGB's own
	 * loader uses these ranges for "full" only and draws other splits for smaller sizes. It
	 * also adds a self loop to each vertex, which rung does not do.
	 */
	RUNG_PRESET_IGB,
	/** Any data set with a dataset.json, see Presets above: ROOT is the path of that file.
	 * It has no parts. */
	RUNG_PRESET_DESCRIPTION
};

/** Parts of a data set to look for. Files of other parts may be missing. */
enum {
	RUNG_PRESET_GRAPH = 1,
	RUNG_PRESET_FEATURES = 2,
	RUNG_PRESET_LABELS = 4,
	RUNG_PRESET_SPLITS = 8,
	RUNG_PRESET_ARRAYS = 16,
	RUNG_PRESET_EVERYTHING = 31
};

/** Specs for struct rung_stage_opts; NULL or empty for parts that were not requested. */
struct rung_preset {
	const char *title;         /**< for display: "MAG240M, papers"; "" for none */
	uint64_t vertex_count;     /**< 0: the number of rows of the features */
	const char *const *graphs; /**< [graph_count] */
	size_t graph_count;
	int undirected;
	int dedup;
	const char *features;
	const char *labels;
	const struct rung_stage_split *splits; /**< [split_count] */
	size_t split_count;
	const struct rung_stage_array *arrays; /**< [array_count] such as "year" */
	size_t array_count;
	const char *vertex_type; /**< name of the vertices; NULL: the default of rung_stage() */
	const char *relation;    /**< name of the edges; NULL: the default of rung_stage() */
	const uint32_t *fanouts; /**< [fanout_count] as in struct rung_stage_opts */
	uint32_t fanout_count;   /**< 0: not given, as in the next two */
	uint32_t batch_size;
	enum rung_draws draws;
	/** [type_count] and [relation_count] a typed graph; the members above that describe its
	 * vertices and edges are then NULL or 0. 0: not typed */
	const struct rung_stage_type *types;
	size_t type_count;
	const struct rung_stage_relation *relations;
	size_t relation_count;
	const char *seed_type; /**< as in struct rung_stage_opts */
};

/**
 * Find the files of a data set, and describe them as options of rung_stage().
 *
 * @param kind        the data set
 * @param root        its folder, or the path of its dataset.json
 * @param part        a part, see enum rung_preset_kind; NULL: the default
 * @param wanted      a sum of RUNG_PRESET_GRAPH and so on
 * @param preset_out  free it with rung_preset_close(), after rung_stage()
 * @return 0, RUNG_E_NOENT (with the missing file and a remedy), RUNG_E_FORMAT (size of a file,
 *         damaged splits, a key of a dataset.json), RUNG_E_INVAL (kind, part), RUNG_E_IO,
 *         RUNG_E_NOMEM, and for a dataset.json the errors of rung_source_open()
 *
 * Threads: any.
 */
RUNG_API int rung_preset_open(enum rung_preset_kind kind, const char *root, const char *part,
                              unsigned wanted, struct rung_preset **preset_out);

/**
 * Free a preset with all its texts and arrays.
 *
 * @param preset  the preset; NULL is allowed
 *
 * The specs that were copied into struct rung_stage_opts point into the preset, so call this after
 * rung_stage() has returned. The files of the data set are not touched.
 *
 * Threads: any, but no other call with the same preset.
 */
RUNG_API void rung_preset_close(struct rung_preset *preset);

#ifdef __cplusplus
}
#endif
#endif

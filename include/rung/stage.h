/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Staging: from a graph and its features to a folder with the rows in rank order.
 */
#ifndef RUNG_STAGE_H
#define RUNG_STAGE_H

#include "graph.h"
#include "rank.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A named array of vertex ids, or a bool mask over the vertices. */
struct rung_stage_split {
	/** letters, digits, '_' and '-'; "train" gives the train vertices of the score */
	const char *name;
	const char *spec; /**< SRC: integer ids [K] by original id, or bool [vertices] */
};

/** How rows are brought into rank order. All give the same files. */
enum rung_stage_plan {
	/** the one that takes least, by what the devices are measured to do */
	RUNG_STAGE_PLAN_AUTO = 0,
	/** read all rows once for each part of the output that fits memory */
	RUNG_STAGE_PLAN_PASSES,
	/** read them once, write them as they come to the part they belong to, and put each part in
	 * order */
	RUNG_STAGE_PLAN_DEAL,
	RUNG_STAGE_PLAN_GATHER /**< read each row where it lies, in the order of the output */
};

/** Bytes between rows in the features files. */
enum rung_stage_pad {
	RUNG_STAGE_PAD_NONE = 0, /**< a row begins where the one before ends */
	RUNG_STAGE_PAD_SECTOR,   /**< at the next multiple of 512 bytes */
	/** rows up to 4 KiB: so that none lies in two blocks of 4 KiB, when the file grows less
	 * than reads shrink */
	RUNG_STAGE_PAD_AUTO
};

/** A named array with a row a vertex, beside the features. */
struct rung_stage_array {
	const char *name; /**< as of splits */
	const char *spec; /**< SRC [vertices, ...] of any type */
};

/** Options of rung_stage(). */
struct rung_stage_opts {
	size_t size; /**< sizeof(struct rung_stage_opts), set by the initialiser */
	/** Its own size set too; vertex_count 0: the rows of the features. No specs: no edges. */
	struct rung_graph_opts graph;
	const char *features;                  /**< SRC [vertices, ...] */
	const char *out_dir;                   /**< made by the call; its parent must exist */
	const char *labels;                    /**< SRC [vertices, ...], NULL: none */
	const struct rung_stage_split *splits; /**< [split_count] */
	size_t split_count;
	/** its own size set too; train ids, fanouts and batch size are those of the dataset */
	struct rung_score_opts score;
	/** SRC float32 [vertices] to rank by instead, without NaN; NULL: compute `score` */
	const char *score_spec;
	/** [fanout_count] of the score, and kept as the trainer's default; none: 25,10 */
	const uint32_t *fanouts;
	uint32_t fanout_count;
	uint32_t batch_size; /**< likewise; 0: 1024 */
	uint32_t threads;    /**< 0: as OpenMP has it */
	int force;           /**< nonzero: replace out_dir when it is a staged dataset */
	int dry_run;         /**< nonzero: check inputs and space, fill the report, write nothing */
	/** may be NULL; steps "graph", "score", "relabel", then "features", "files" and "check" in
	 * bytes */
	rung_progress_fn progress;
	void *progress_ctx;
	/** most that may be held; 0: a quarter of RAM, or three quarters of what is free, also of a
	 * control group, where that is less */
	uint64_t memory_bytes;
	/** nonzero: go on with what a stopped run of the same job left in OUT.partial, if
	 * anything */
	int resume;
	enum rung_stage_plan plan;
	enum rung_stage_pad pad;
	/** [stripe_count] folders, on other devices, that the rows are dealt over; links lead
	 * there */
	const char *const *stripe_dirs;
	size_t stripe_count; /**< at most RUNG_FEATURE_FILES_MAX; 0: one file in out_dir */
	/** [array_count] staged beside the features, each in a file of its own, "features_NAME" */
	const struct rung_stage_array *arrays;
	size_t array_count;
	/** nonzero: leave the features where they are; the dataset then needs that file as it is */
	int in_place;
};

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

/** Steps of a report at most. */
#define RUNG_STAGE_PHASES_MAX 8

/** A step of staging, and what the process read and wrote meanwhile. */
struct rung_stage_phase {
	const char *name; /**< "graph", "score", "rank", "relabel", "features", "labels", "files" */
	double seconds;
	/** as the kernel counts them for the process, page cache included; 0 where it does not */
	uint64_t bytes_read, bytes_written;
};

/** What staging did, or with dry_run would do. */
struct rung_stage_report {
	uint64_t vertex_count;
	uint64_t edge_count;
	uint64_t row_bytes;
	uint64_t feature_bytes; /**< vertex_count * row_bytes */
	uint64_t bytes_written; /**< all files of the dataset; with dry_run: that will be written */
	uint64_t free_bytes;    /**< free on the file system of out_dir before writing */
	uint64_t memory_bytes;  /**< most memory the call holds at once, by its own count */
	struct rung_score_report score;
	double seconds;
	uint64_t budget_bytes;     /**< what memory_bytes of the options came to */
	int graph_in_files;        /**< 1: the graph did not fit and stayed in files */
	int resumed;               /**< 1: an earlier run's work was gone on with */
	uint64_t rows_resumed;     /**< rows of the features that it had finished */
	enum rung_stage_plan plan; /**< of the features, and what it takes: */
	uint64_t range_count;      /**< parts of the output */
	uint64_t rows_bytes_read, rows_bytes_written;
	uint64_t temp_bytes; /**< more than their size that the feature files take meanwhile */
	/** expected; 0: devices were not measured, as there is too little to read */
	double rows_seconds;
	/** expected of each plan; 0: it cannot be, or not measured */
	double plan_seconds[RUNG_STAGE_PLAN_GATHER + 1];
	/** measured: large reads and writes, single rows; 0: not */
	double read_bytes_per_s, write_bytes_per_s, row_reads_per_s;
	uint64_t row_stride;         /**< bytes from row to row */
	uint32_t feature_file_count; /**< 0 with in_place */
	size_t phase_count;
	struct rung_stage_phase phases[RUNG_STAGE_PHASES_MAX];
	/** 1: rows stay in their source, and none of what is said of them above applies */
	int in_place;
	int already_staged; /**< 1: with `resume`, out_dir was found whole and of this very job */
	int old_left; /**< 1: a replaced dataset could not be removed: rung_last_error() names it */
};

/** "passes" …; "auto" for RUNG_STAGE_PLAN_AUTO, NULL for a value that is none. */
RUNG_API const char *rung_stage_plan_name(enum rung_stage_plan plan);

/**
 * Score, rank, relabel, and write a staged dataset (docs/FORMAT.md), whatever its size: what does
 * not fit `memory_bytes` stays in files.
 *
 * The folder appears under its name only when every file in it is complete and synced; its manifest
 * is the last thing written. Until then the work lies in "OUT.partial", with a journal of what is
 * finished; a second run on the same folder while one is at work returns RUNG_E_BUSY. Inputs,
 * memory and free disk space are checked before the first byte is written.
 *
 * A run that fails, is canceled or killed before the ranks are known leaves nothing that is worth
 * keeping: it, or the next run, removes the folder. Later, OUT.partial stays. With `resume` the
 * same job goes on behind what is finished, to the same bytes; another job or inputs that have
 * changed are RUNG_E_INVAL. Without, RUNG_E_EXIST says so; `force` begins anew. A folder that was
 * to be replaced is untouched until the new one is whole: before the folder gets its name all files
 * are looked at (there, regular, of their size; all blocks of files under 64 MiB, 1/64 of others),
 * and so are the inputs (size, time of change, inode). RUNG_E_CORRUPT names what differs;
 * OUT.partial stays. (When only the last sync, of the parent folder, fails, the complete dataset
 * stays; it opens and verifies.)
 *
 * With `resume` and an out_dir that this very job has finished, its files are looked at likewise,
 * nothing is written, and `already_staged` is set. A dataset of another job is RUNG_E_EXIST naming
 * what differs, with `force` it is replaced.
 *
 * Memory: a map of the vertices (4 bytes each, 8 past 2^32 of them) is always held, two while the
 * graph is relabelled, and what the score takes a vertex (rank.h) while it is computed; the rest is
 * buffers. The graph goes into memory where that fits. A deflated member of a .npz is inflated as
 * it is read, with less than 1 MiB.
 *
 * With `in_place` no row is copied: the dataset names the file that has them, an absolute path, and
 * its size, time of change and the checksums of up to 64 of its blocks, by which
 * rung_dataset_open() knows it again. A store then holds an entry of vertex_of_rank for each
 * vertex, and rows that are asked for together do not lie together. The source has to be one whose
 * rows lie in a file as they are: a .npy, a stored member of a .npz, or raw; neither `pad` nor
 * `stripe_dirs` go with it. Further arrays are copied as ever.
 *
 * @param report_out  may be NULL
 * @return 0, RUNG_E_EXIST (out_dir is there, or half-done work), RUNG_E_BUSY, RUNG_E_NOSPC,
 *         RUNG_E_RANGE, RUNG_E_FORMAT, RUNG_E_NOENT, RUNG_E_IO, RUNG_E_CORRUPT, RUNG_E_INVAL (also
 *         memory_bytes too small: says the least that works), RUNG_E_NOMEM, RUNG_E_CANCELED
 */
RUNG_API int rung_stage(const struct rung_stage_opts *opts, struct rung_stage_report *report_out);

#ifdef __cplusplus
}
#endif
#endif

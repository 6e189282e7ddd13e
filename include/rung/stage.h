/* SPDX-License-Identifier: Apache-2.0 */
/** Staging: from a graph and its features to a folder with the rows in rank order. */
#ifndef RUNG_STAGE_H
#define RUNG_STAGE_H

#include "graph.h"
#include "rank.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A named array of vertex ids, or a bool mask over the vertices. */
struct rung_stage_split {
	const char *name;  /**< letters, digits, '_' and '-'; "train" gives the train vertices of the score */
	const char *spec;  /**< SRC: integer ids [K] by original id, or bool [vertices] */
};

struct rung_stage_opts {
	size_t size;                              /**< sizeof(struct rung_stage_opts), set by the initialiser */
	struct rung_graph_opts graph;             /**< its own size set too; vertex_count 0: as many as the features have rows */
	const char *features;                     /**< SRC [vertices, ...] */
	const char *out_dir;                      /**< made by the call; its parent must exist */
	const char *labels;                       /**< SRC [vertices, ...], NULL: none */
	const struct rung_stage_split *splits;    /**< [split_count] */
	size_t split_count;
	struct rung_score_opts score;             /**< its own size set too; train ids, fanouts and batch size are those of the dataset */
	const char *score_spec;                   /**< SRC float32 [vertices] to rank by instead, without NaN; NULL: compute `score` */
	const uint32_t *fanouts;                  /**< [fanout_count] of the score, and kept as the trainer's default; none: 25,10 */
	uint32_t fanout_count;
	uint32_t batch_size;                      /**< likewise; 0: 1024 */
	uint32_t threads;                         /**< 0: as OpenMP has it */
	int force;                                /**< nonzero: replace out_dir when it is a staged dataset */
	int dry_run;                              /**< nonzero: check inputs and space, fill the report, write nothing */
	rung_progress_fn progress;                /**< may be NULL */
	void *progress_ctx;
};

#ifdef __cplusplus
static inline struct rung_stage_opts rung_stage_opts_init(void)
{
	struct rung_stage_opts opts = {};
	opts.size = sizeof(opts);
	opts.graph.size = sizeof(opts.graph);
	opts.score.size = sizeof(opts.score);
	return opts;
}
#else
#define RUNG_STAGE_OPTS_INIT                                                               \
	{                                                                                  \
		.size = sizeof(struct rung_stage_opts), .graph = RUNG_GRAPH_OPTS_INIT,     \
		.score = RUNG_SCORE_OPTS_INIT                                              \
	}
#endif

struct rung_stage_report {
	uint64_t vertex_count;
	uint64_t edge_count;
	uint64_t row_bytes;
	uint64_t feature_bytes;    /**< vertex_count * row_bytes */
	uint64_t bytes_written;    /**< all files of the dataset; with dry_run: that will be written */
	uint64_t free_bytes;       /**< free on the file system of out_dir before writing */
	uint64_t memory_bytes;     /**< most memory the call holds at once, by its own count */
	struct rung_score_report score;
	double seconds;
};

/**
 * Score, rank, relabel, and write a staged dataset (docs/FORMAT.md).
 *
 * The folder appears under its name only when every file in it is complete and synced; its manifest is the last thing
 * written. Until then the work lies in "OUT.partial", which a later run removes; a second run on the same folder while
 * one is at work returns RUNG_E_BUSY. Inputs and free disk space are checked before the first byte is written. After an
 * error nothing is left of the folder, and with `force` the folder that was to be replaced is untouched. (One exception: when only
 * the last sync, of the parent folder, fails, the complete dataset stays; it opens and verifies.)
 *
 * Memory in this version: the graph twice (CSC and relabelled), or once and what the score takes (rank.h), whichever is more, and a
 * few bytes per vertex; the features are streamed.
 *
 * @param report_out  may be NULL
 * @return 0, RUNG_E_EXIST (out_dir is there), RUNG_E_BUSY, RUNG_E_NOSPC, RUNG_E_RANGE, RUNG_E_FORMAT, RUNG_E_NOENT, RUNG_E_IO,
 *         RUNG_E_INVAL, RUNG_E_NOMEM, RUNG_E_CANCELED
 */
RUNG_API int rung_stage(const struct rung_stage_opts *opts, struct rung_stage_report *report_out);

#ifdef __cplusplus
}
#endif
#endif

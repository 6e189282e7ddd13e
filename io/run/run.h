/* SPDX-License-Identifier: Apache-2.0 */
/** One run of rung_stage(): the state shared by its phases, and its report. */
#ifndef RUNG_IO_RUN_H
#define RUNG_IO_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "dataset/manifest.h"
#include "folder/folder.h"
#include "folder/stage_journal.h"
#include "layout/layout.h"
#include "rung/edges.h"
#include "rung/stage.h"

struct rung__stage_split_ids {
	uint64_t *ids;
	uint64_t count;
};

/** How rows of a source come into the files of an array. */
struct rung__rows_schedule {
	enum rung_row_order kind;
	uint64_t range_rows; /* rows of the output that are put in order at a time */
	uint64_t range_count;
	uint32_t area_count; /* 2: one is written while the next is filled */
	uint64_t area_bytes;
	uint32_t reader_count; /* reads in flight, of several threads or of one that gathers */
	uint64_t read_bytes;   /* of each, with a page at both ends */
	uint64_t memory_bytes; /* of all that */
	uint64_t bytes_read, bytes_written;
	uint64_t temp_bytes; /* temporary size in addition to the final size of the files */
	double seconds;      /* 0: not known */
};

/** Labels and further arrays: a row a vertex, each in one file. */
struct rung__extra_array {
	struct rung_source *src;
	const char *what;                       /* "labels", "arrays" */
	char name[RUNG__SPLIT_NAME_BYTES + 16]; /* of the file */
	struct rung__layout layout;
	struct rung__rows_schedule plan;
};

/** Measured rates of the devices; 0: not measured. */
struct rung__figures {
	double read_bytes_per_s, write_bytes_per_s, row_reads_per_s;
	bool one_device; /* source and output share it */
};

struct rung__stage {
	struct rung_stage_opts opts;
	int threads;
	uint64_t memory_bytes; /* the budget */
	bool in_files;         /* the graph stays in files */
	/* by its own name also when it is the default; without score_source */
	enum rung_score_method method;
	struct rung__stage_dir dir;
	struct rung__journal journal;
	struct rung_source *features, *score_source;
	struct rung__stage_split_ids *splits; /* [opts.split_count], original ids */
	uint64_t edge_count_max;              /* upper bound of the edge count */
	/* upper bound of the block count of all files, including checksums.npy */
	uint64_t block_count_max;
	uint64_t graph_source_bytes; /* that its sources hold while it is read */
	struct rung__figures figures;
	struct rung__rows_schedule features_plan;
	struct rung__extra_array extra_arrays[1 + RUNG__ARRAYS_MAX];
	uint32_t extra_count;
	uint64_t rows_bytes;      /* most memory that one of the two takes */
	struct rung_graph *graph; /* one of the two, while it is needed */
	struct rung_edges *edges;
	float *score; /* by original id */
	void *vertex_of_rank, *rank_of_vertex;
	struct rung__manifest *manifest;
	char *job, *job_inputs;         /* lines of stage_job.c; those of the inputs come last */
	uint64_t *sums;                 /* [manifest->block_count] */
	unsigned char *buffer;          /* [RUNG__STAGE_BUFFER_BYTES] of the file being written */
	uint64_t step_done, step_total; /* bytes of the present step, for progress */
	uint64_t phase_ns, phase_read_bytes, phase_written_bytes; /* when it began */
	struct rung_stage_report report;
};

#define RUNG__STAGE_BUFFER_BYTES (4u << 20) /* whole blocks of the checksums */

#define RUNG__STAGE_CURE                                                                           \
	"put the file back and continue with --resume, or start from scratch with --force"

/** Memory held from the first phase to the last: splits and checksums. */
uint64_t rung__stage_fixed_bytes(const struct rung__stage *stage);
/** Both maps, or one. */
uint64_t rung__stage_map_bytes(const struct rung__stage *stage, unsigned maps);

/** Is a file finished already? */
bool rung__stage_file_done(const struct rung__stage *stage, const char *name);

/** Progress of this run; nonzero cancels, with the failure recorded. */
int rung__stage_progress(const struct rung__stage *stage, const char *what, uint64_t done,
                         uint64_t total);
/** Report `bytes` more bytes of the step `what`. */
int rung__stage_advance(struct rung__stage *stage, const char *what, uint64_t bytes);
/** A step of the report begins, and the one before ends; NULL: only that. */
void rung__stage_phase(struct rung__stage *stage, const char *name);

#endif

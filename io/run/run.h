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

/** A split as original ids, in the given order. */
struct rung__stage_split_ids {
	uint64_t *ids; /* [count], owned */
	uint64_t count;
};

/** How the rows of a source are moved to the files of an array, and the predicted cost. */
struct rung__rows_schedule {
	enum rung_row_order kind;
	uint64_t range_rows;  /* number of output rows that are put in order at a time */
	uint64_t range_count; /* number of ranges in the whole array */
	uint32_t area_count;  /* buffers of a range; 2: one is written while the next is filled */
	uint64_t area_bytes;  /* size of each buffer of a range */
	/* number of reads in flight, by several threads or by one that gathers */
	uint32_t reader_count;
	uint64_t read_bytes;   /* size of the buffer of each read, with a page at both ends */
	uint64_t memory_bytes; /* size of all buffers and tables */
	uint64_t bytes_read, bytes_written;
	uint64_t temp_bytes; /* temporary bytes in addition to the final size of the files */
	double seconds;      /* 0: unknown */
};

/** Labels, or a further array: one row per vertex, in one file. */
struct rung__extra_array {
	struct rung_source *src;                /* owned */
	const char *what;                       /* "labels" or "arrays", a constant */
	char name[RUNG__SPLIT_NAME_BYTES + 16]; /* name of the file */
	struct rung__layout layout;
	struct rung__rows_schedule plan;
};

/** Measured rates of the devices; 0: not measured. */
struct rung__figures {
	double read_bytes_per_s, write_bytes_per_s, row_reads_per_s;
	bool one_device; /* source and output are on one device */
};

/**
 * A part of a typed dataset (io/typed). It is staged like a dataset, but what it lacks is left out,
 * and some of it is given: settings, the order of the rows, and as `score_spec` the scores.
 */
struct rung__stage_member {
	bool no_features, no_maps, no_graph; /* as in struct rung__manifest */
	bool edge_rows;                      /* the features are those of edges */
	uint64_t vertex_count;               /* of a part without features */
	const char *score_method;            /* of the whole */
	/* [vertex_count] of index_bytes of the manifest: the order; NULL: by score */
	const void *vertex_of_rank;
	uint64_t source_count; /* lists: number of vertices of the source type */
	/* lists: [source_count] of index_bytes of the manifest; the ranks of the sources. NULL:
	 * rank_of_vertex is the inverse of vertex_of_rank */
	const void *rank_of_source;
};

struct rung__stage {
	struct rung_stage_opts opts;
	const struct rung__stage_member *member; /* NULL: a dataset that is not typed */
	int threads;
	uint64_t memory_bytes; /* the budget, with the default filled in */
	bool in_files;         /* the graph stays in files */
	/* never RUNG_SCORE_DEFAULT; not used if score_source is set */
	enum rung_score_method method;
	struct rung__stage_dir dir;
	struct rung__journal journal;
	/* score_source: given scores; NULL: they are computed */
	struct rung_source *features, *score_source;
	struct rung__stage_split_ids *splits; /* [opts.split_count] */
	uint64_t edge_count_max;              /* upper bound of the edge count */
	/* upper bound of the block count of all files, including checksums.npy */
	uint64_t block_count_max;
	/* memory that the sources of the graph hold while it is read */
	uint64_t graph_source_bytes;
	struct rung__figures figures;
	struct rung__rows_schedule features_plan;
	struct rung__extra_array extra_arrays[1 + RUNG__ARRAYS_MAX]; /* labels first, if given */
	uint32_t extra_count;
	uint64_t rows_bytes; /* largest memory_bytes of the schedules above */
	/* at most one of the next two is set, and only while it is needed */
	struct rung_graph *graph; /* in memory */
	struct rung_edges *edges; /* in files */
	float *score;             /* [vertices] scores by original id, until the ranks are known */
	/* [vertices] ids of manifest->index_bytes each; vertex_of_rank is freed when the graph is
	 * relabelled */
	void *vertex_of_rank, *rank_of_vertex;
	struct rung__manifest *manifest;
	/* lines that stage_job.c writes; `job` ends with job_inputs, the lines of the
	 * inputs */
	char *job, *job_inputs;
	uint64_t score_sum; /* checksum of the given scores, which the parts of a dataset compare */
	uint64_t *sums;     /* [manifest->block_count] checksums of all files */
	/* [RUNG__STAGE_BUFFER_BYTES], page-aligned, for one file at a time */
	unsigned char *buffer;
	uint64_t step_done, step_total; /* bytes done and total of the current step, for progress */
	/* when the current phase began: time, and counts of process_bytes() */
	uint64_t phase_ns, phase_read_bytes, phase_written_bytes;
	struct rung_stage_report report;
};

/** A multiple of the block size of the checksums, and large enough for the full rate of a disk. */
#define RUNG__STAGE_BUFFER_BYTES (4u << 20)

/** The end of messages about a file of OUT.partial that is missing or damaged. */
#define RUNG__STAGE_CURE                                                                           \
	"put the file back and continue with --resume, or start from scratch with --force"

/** The end of messages about a damaged file of a finished dataset. */
#define RUNG__FINISHED_CURE "repair it with rung verify --repair, or stage it again with --force"

/** The end of messages about another part that does not fit. */
#define RUNG__STAGE_PART_CURE                                                                      \
	"stage this part again with --force, with the sources and options of part 0"

/** Bytes of memory held from the first phase to the last: splits, checksums, the buffer, and the
 * sources' own memory. */
uint64_t rung__stage_fixed_bytes(const struct rung__stage *stage);
/** Bytes of `maps` maps between vertices and ranks. */
uint64_t rung__stage_map_bytes(const struct rung__stage *stage, unsigned maps);

/** Layout of the features files that this run writes: of all, or of that of its part, whose ranks
 * then count from rung__stage_rank_first(). */
struct rung__layout rung__stage_features_layout(const struct rung__stage *stage);
/** Name of the first of them. The manifest must be laid out. */
const char *rung__stage_features_name(const struct rung__stage *stage);
/** The first rank of the rows in them. */
uint64_t rung__stage_rank_first(const struct rung__stage *stage);
/** Whether this run writes file number `file` of the manifest. */
bool rung__stage_writes(const struct rung__stage *stage, uint32_t file);

/** Fill in the maps of a part whose order is given. @return 0 */
int rung__stage_copy_maps(struct rung__stage *stage);

/** Number of entries of rank_of_vertex. */
uint64_t rung__stage_source_count(const struct rung__stage *stage);

/** Whether the journal that was found lists a file as finished. */
bool rung__stage_file_done(const struct rung__stage *stage, const char *name);

/** Report progress of the step `what`. @return 0, or RUNG_E_CANCELED if the caller cancels */
int rung__stage_progress(const struct rung__stage *stage, const char *what, uint64_t done,
                         uint64_t total);
/** Add `bytes` to the current step and report its progress as `what`. @return as above */
int rung__stage_advance(struct rung__stage *stage, const char *what, uint64_t bytes);
/** End the current phase of the report, and begin the phase `name`. With NULL only end it. */
void rung__stage_phase(struct rung__stage *stage, const char *name);

/**
 * Put the option of an input in front of the message of its failure, which has the file only:
 * "split 'valid' of paper: ids.npy: entry 3 is ...".
 * @param name  of a split or an array, or NULL
 * @param of    the type or relation of a typed graph, or NULL
 * @return rc; zero and more, lack of memory, and a stop have no such message
 */
int rung__stage_fail_input(int rc, const char *option, const char *name, const char *of);

#endif

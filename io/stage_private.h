/* SPDX-License-Identifier: Apache-2.0 */
/**
 * One run of rung_stage(). Private to io/stage*.c and its tests.
 *
 *   stage.c         the order of the steps
 *   stage_input.c   sources opened and checked, splits read
 *   stage_dir.c     the folder: lock, leftovers, publication
 *   stage_write.c   files, with their checksums taken on the way
 */
#ifndef RUNG_IO_STAGE_PRIVATE_H
#define RUNG_IO_STAGE_PRIVATE_H

#include <stdbool.h>

#include "manifest.h"
#include "rung/stage.h"

/**
 * The folder. Files are made in OUT.partial, which this process holds locked; it becomes OUT by one rename when it is
 * complete, so that OUT is at any moment absent, the old dataset, or the new one.
 */
struct rung__stage_dir {
	char *path;                                   /* OUT, without slashes at its end */
	char *partial_path;                           /* OUT.partial */
	char *aside_path;                             /* where OUT goes on file systems that cannot exchange two folders */
	const char *name, *partial_name, *aside_name; /* their last parts, inside parent_fd */
	int parent_fd;
	int fd; /* OUT.partial; -1 while it is not ours */
	bool force, replaces;
};

/** Open the parent, and see that OUT may be written: RUNG_E_EXIST when it is there and not to be replaced. Writes nothing. */
int rung__stage_dir_init(struct rung__stage_dir *dir, const char *out_dir, bool force);
/** Make and lock OUT.partial, empty. RUNG_E_BUSY when another process has it, RUNG_E_EXIST when it holds files that are not
 * rung's. */
int rung__stage_dir_acquire(struct rung__stage_dir *dir);
/** Give the complete OUT.partial its name, and remove what it replaces. */
int rung__stage_dir_publish(struct rung__stage_dir *dir);
/** Remove OUT.partial if it is still ours, and close everything. */
void rung__stage_dir_fini(struct rung__stage_dir *dir);
/** Free bytes where OUT will be. */
int rung__stage_dir_free_bytes(const struct rung__stage_dir *dir, uint64_t *free_out);

struct rung__stage_split_ids {
	uint64_t *ids;
	uint64_t count;
};

struct rung__stage {
	struct rung_stage_opts opts;
	int threads;
	enum rung_score_method method; /* by its own name also when it is the default; without score_source */
	struct rung__stage_dir dir;
	struct rung_source *features, *labels, *score_source;
	struct rung__stage_split_ids *splits; /* [opts.split_count], original ids */
	struct rung_graph *graph;
	const struct rung_csc *csc;
	float *score; /* by original id */
	void *vertex_of_rank, *rank_of_vertex;
	uint64_t *indptr; /* relabelled */
	void *indices;
	struct rung__manifest *manifest;
	uint64_t *sums;        /* [manifest->block_count] */
	unsigned char *buffer; /* [RUNG__STAGE_BUFFER_BYTES] of the file being written */
	const char *step;      /* "features" or "files", with its bytes for progress */
	uint64_t step_done, step_total;
	struct rung_stage_report report;
};

#define RUNG__STAGE_BUFFER_BYTES (4u << 20) /* whole blocks of the checksums */

/** Open and check every input, read the splits, and fill the manifest with what they say. */
int rung__stage_open_inputs(struct rung__stage *stage);
void rung__stage_close_inputs(struct rung__stage *stage);

/** Write every file of the dataset into OUT.partial and sync them; the manifest comes last, under its temporary name. */
int rung__stage_write_all(struct rung__stage *stage);

/** Progress of this run; nonzero cancels, with the failure recorded. */
int rung__stage_progress(const struct rung__stage *stage, const char *what, uint64_t done, uint64_t total);

/** Tests: called before each step that changes the file system; NULL (the default): not. */
extern void (*rung__stage_step_hook)(const char *step);

/** Tests: do without renameat2(), as on file systems that lack its flags. */
extern bool rung__stage_plain_rename;

static inline void rung__stage_step(const char *step)
{
	if (rung__stage_step_hook)
		rung__stage_step_hook(step);
}

#endif

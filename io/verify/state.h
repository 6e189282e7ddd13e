/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Internals of verification. Private to io/verify*.c.
 *
 *   verify.c          the order of the steps, and the report
 *   verify_blocks.c   every block against its checksum
 *   verify_rows.c     arrays with a row per vertex (features, labels, score …) against sources
 *   verify_sample.c   the same for some of the vertices
 *   verify_lists.c    the relabelled graph against its source
 *   verify_splits.c   the splits against their sources
 *   verify_repair.c   replaces bad blocks, with verify_rebuild.c
 *   verify_pump.c     threads that read and compare
 */
#ifndef RUNG_IO_VERIFY_STATE_H
#define RUNG_IO_VERIFY_STATE_H

#include "dataset/checksum.h"
#include "dataset/dataset.h"
#include "base/base.h"
#include "rows/rows.h"
#include "dataset/features.h"
#include "rung/edges.h"
#include "verify/verify_pump.h"

struct rung__verify {
	struct rung_verify_opts opts; /* memory_bytes not 0 */
	int threads;
	struct rung_dataset *ds;
	uint64_t *sums; /* as checksums.npy has them */
	/* [checksums.block_count]: block of checksums.npy that cannot be relied on */
	unsigned char *sums_bad;
	/* [block_count + checksums.block_count]: enum rung__block_state; checksums.npy's come
	 * last */
	unsigned char *bad;
	void *vertex_of_rank, *rank_of_vertex; /* NULL until rung__verify_load_maps() */
	struct rung_verify_report report;
	/* why the source of rows staged in place cannot be inspected; "": it can */
	char in_place_error[RUNG__ERROR_BYTES];
};

enum rung__block_state { RUNG__BLOCK_GOOD, RUNG__BLOCK_BAD, RUNG__BLOCK_REPAIRED };

/** States of a file's blocks, in v->bad. */
static inline unsigned char *rung__verify_states(const struct rung__verify *v,
                                                 const struct rung__manifest_file *file)
{
	const struct rung__manifest *m = v->ds->manifest;

	return v->bad + (file == &m->checksums ? m->block_count : file->first_block);
}

/** Look at all blocks of all files: fills v->bad, v->sums. Files that are too long have the block
 * of their end as a bad one. */
int rung__verify_blocks(struct rung__verify *v);

/** Load the maps, and see that they are each other's inverse. @return also RUNG_E_CORRUPT: they are
 * not */
int rung__verify_load_maps(struct rung__verify *v);

/** Rows by original vertex in a source, and the array of the dataset they have become. */
struct rung__verify_rows {
	const char *stage; /* for progress */
	const char *spec;  /* of the source */
	const char *name;  /* of the dataset's file; NULL: the features */
	struct rung_source *src;
	struct rung__layout layout;
	/* open after rung__verify_rows_open_staged(); its layout has no rows */
	struct rung__features staged;
	uint64_t compared, different, first_rank; /* first_rank: UINT64_MAX without one */
};

/** Open the source, and see that it has the shape. rung__verify_rows_close() also after a
 * failure. */
int rung__verify_rows_open(const struct rung__verify *v, const char *spec, const char *name,
                           struct rung__verify_rows *rows);
int rung__verify_rows_open_staged(const struct rung__verify *v, struct rung__verify_rows *rows);
void rung__verify_rows_close(struct rung__verify_rows *rows);

/** All rows, or those of the sampled vertices. */
int rung__verify_rows_all(const struct rung__verify *v, struct rung__verify_rows *rows);
int rung__verify_rows_sample(const struct rung__verify *v, struct rung__verify_rows *rows);

/** Vertices of the sample, ascending, one after the other. */
struct rung__row_sample {
	uint64_t seed, vertex_count, vertex, left; /* left: still to be drawn */
};

/** True when only some are to be compared. */
bool rung__row_sample_init(struct rung__row_sample *sample, const struct rung__verify *v);
/** The next one. There is one while sample->left is not 0. */
uint64_t rung__row_sample_next(struct rung__row_sample *sample);

/** The graph of v->opts.graph, for passes. */
int rung__verify_open_edges(const struct rung__verify *v, struct rung_edges **edges_out);

/** Lists of the graph against v->opts.graph. */
int rung__verify_lists(struct rung__verify *v);

/** The splits against their sources. */
int rung__verify_splits(struct rung__verify *v);

/** The spec that v->opts has for an array, by its file's name; NULL: none. */
const char *rung__verify_array_spec(const struct rung__verify *v, const char *file_name);

/** The ids of split `idx` of v->opts, by original vertex; free them with rung_free(). */
int rung__verify_split_ids(const struct rung__verify *v, size_t idx, uint64_t *count_out,
                           uint64_t **ids_out);

/** Data from which blocks are rebuilt, opened on first use. */
struct rung__rebuild {
	struct rung__verify *v;
	/* file of the last rebuilt block; the members below belong to it */
	const struct rung__manifest_file *file;
	struct rung__verify_rows rows; /* features, labels, score, arrays */
	struct rung__rows gather;
	unsigned char *gathered; /* [gather.count_max] rows */
	void *inverse;           /* the other map, unchecked */
	uint64_t split_count, *split_ids;
	bool has_graph;
	int graph_fds[2]; /* of the relabelled graph: indptr, indices */
};

/**
 * Make the bytes of a block.
 * @param buf  [RUNG__BLOCK_BYTES]
 * @return 0, or why not: RUNG_E_NOENT when nothing was given that it could come from
 */
int rung__rebuild_block(struct rung__rebuild *rebuild, const struct rung__manifest_file *file,
                        uint64_t block, unsigned char *buf);
void rung__rebuild_fini(struct rung__rebuild *rebuild);

/** Rebuild bad blocks. A block that cannot be rebuilt stays bad; v->report.unrepaired has the
 * reason for the first one. */
int rung__verify_repair(struct rung__verify *v);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Internals of verification. Private to io/verify*.c.
 *
 *   verify.c          the order of the steps, and the report
 *   verify_blocks.c   compares every block with its checksum
 *   verify_maps.c     loads the maps
 *   verify_rows.c     compares arrays with one row per vertex with their sources
 *   verify_sample.c   the same for some of the vertices
 *   verify_lists.c    compares the relabelled graph with its source
 *   verify_splits.c   compares the splits with their sources
 *   verify_types.c    the call, and the parts of a typed dataset
 *   verify_repair.c   replaces bad blocks, with verify_rebuild.c
 *   verify_pump.c     threads that read and compare
 *
 * One thread calls these functions. The threads of the pump and of OpenMP only read the state.
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
	struct rung_verify_opts opts; /* the options, with the default of memory_bytes filled in */
	int threads;                  /* number of threads that compute */
	struct rung_dataset *ds;
	uint64_t *sums; /* [block_count] the checksums in checksums.npy */
	/* [checksums.block_count] 1: this block of checksums.npy is damaged, so its sums are
	 * unknown */
	unsigned char *sums_bad;
	/* [block_count + checksums.block_count] enum rung__block_state of each block; the blocks of
	 * checksums.npy come last */
	unsigned char *bad;
	void *vertex_of_rank, *rank_of_vertex; /* NULL until rung__verify_load_maps() */
	/* lists of a relation: the ranks of the sources, with index_bytes of the dataset, as the
	 * two maps above, which are then those of the targets and are given. NULL: the entries of
	 * lists are mapped by rank_of_vertex */
	void *rank_of_source;
	struct rung_verify_report report;
	/* why the source of rows staged in place cannot be inspected; "": no such failure */
	char in_place_error[RUNG__ERROR_BYTES];
};

enum rung__block_state { RUNG__BLOCK_GOOD, RUNG__BLOCK_BAD, RUNG__BLOCK_REPAIRED };

/** The states of a file's blocks: a part of v->bad. */
static inline unsigned char *rung__verify_states(const struct rung__verify *v,
                                                 const struct rung__manifest_file *file)
{
	const struct rung__manifest *m = v->ds->manifest;

	return v->bad + (file == &m->checksums ? m->block_count : file->first_block);
}

/** Check all blocks of all files, and fill in v->bad and v->sums. Bad blocks are not a failure. If
 * a file is too long, its last block is bad. */
int rung__verify_blocks(struct rung__verify *v);

/** Load the maps, unless they are loaded, and check that they are each other's inverse. @return 0,
 * a failure of reading, or RUNG_E_CORRUPT with report.maps_disagree set */
int rung__verify_load_maps(struct rung__verify *v);

/** A source with rows by original vertex, and the array that was staged from it. */
struct rung__verify_rows {
	const char *step; /* name of the step for the progress */
	const char *spec; /* spec of the source */
	const char *name; /* name of the dataset's file; NULL: the features */
	struct rung_source *src;
	struct rung__layout layout; /* layout of the staged rows */
	/* open after rung__verify_rows_open_staged(); use `layout` above, not the layout in this
	 * member */
	struct rung__features staged;
	/* results; first_rank is the lowest rank whose row differs, UINT64_MAX if none does */
	uint64_t compared, different, first_rank;
};

/** Open the source, and check that its shape is that of the array. Call rung__verify_rows_close()
 * after this, even if it fails. */
int rung__verify_rows_open(const struct rung__verify *v, const char *spec, const char *name,
                           struct rung__verify_rows *rows);
/** Open the staged files as well. */
int rung__verify_rows_open_staged(const struct rung__verify *v, struct rung__verify_rows *rows);
void rung__verify_rows_close(struct rung__verify_rows *rows);

/** Compare all rows. @return 0, also if rows differ; a failure of reading; RUNG_E_INVAL if the
 * memory is too small; RUNG_E_CANCELED */
int rung__verify_rows_all(const struct rung__verify *v, struct rung__verify_rows *rows);
/** Compare the rows of sampled vertices, byte by byte. @return as above */
int rung__verify_rows_sample(const struct rung__verify *v, struct rung__verify_rows *rows);

/** Draws the vertices of a sample, in ascending order. */
struct rung__row_sample {
	/* `vertex`: the next candidate; `left`: number of vertices still to draw */
	uint64_t seed, vertex_count, vertex, left;
};

/** Start a sample with the options of `v`. @return true if it is smaller than all vertices */
bool rung__row_sample_init(struct rung__row_sample *sample, const struct rung__verify *v);
/** The next vertex of the sample. Call it only while sample->left is not 0. */
uint64_t rung__row_sample_next(struct rung__row_sample *sample);

/** Open the graph of v->opts.graph for passes over its edges. */
int rung__verify_open_edges(const struct rung__verify *v, struct rung_edges **edges_out);

/** Compare the lists of the relabelled graph with those of v->opts.graph. */
int rung__verify_lists(struct rung__verify *v);

/** Compare the splits with their sources. */
int rung__verify_splits(struct rung__verify *v);

/** The spec in v->opts of the array with this file name; NULL if none was given. */
const char *rung__verify_array_spec(const struct rung__verify *v, const char *file_name);

/** The ids of split number `idx` of v->opts, as original vertices; free them with rung_free(). */
int rung__verify_split_ids(const struct rung__verify *v, size_t idx, uint64_t *count_out,
                           uint64_t **ids_out);

/** The sources from which blocks are rebuilt, opened on first use. Zeroed except for `v` at the
 * start. */
struct rung__rebuild {
	struct rung__verify *v;
	/* the file of the last rebuilt block, to which the members below belong, up to split_ids */
	const struct rung__manifest_file *file;
	struct rung__verify_rows rows; /* rows of features, labels, score or an array */
	struct rung__rows gather;      /* reads them */
	unsigned char *gathered;       /* [gather.count_max] rows */
	void *inverse;                 /* when rebuilding a map: the other map, unchecked */
	uint64_t split_count, *split_ids;
	/* graph_fds is valid; it stays open when the next file is rebuilt */
	bool has_graph;
	int graph_fds[2]; /* files of the relabelled graph: indptr, indices */
};

/**
 * Rebuild the bytes of a block. They may be wrong: the caller checks them.
 * @param buf  [RUNG__BLOCK_BYTES]
 * @return 0, RUNG_E_NOENT if the source of the block was not given, or a failure of its source
 */
int rung__rebuild_block(struct rung__rebuild *rebuild, const struct rung__manifest_file *file,
                        uint64_t block, unsigned char *buf);
void rung__rebuild_fini(struct rung__rebuild *rebuild);

/** Rebuild the bad blocks, and write them. A block that cannot be rebuilt stays bad; the reason for
 * the first one is in v->report.unrepaired. */
int rung__verify_repair(struct rung__verify *v);

/** Verify one dataset that is not typed, and fill in its report. Its folder is that of `ds`, which
 * may be NULL: its manifest is damaged. @param v  options, threads, ds and given maps are set
 * @return 0 or RUNG_E_CORRUPT with the report, or another failure without one */
int rung__verify_one(struct rung__verify *v, const char *dir);
/** Free everything except options and report. */
void rung__verify_fini(struct rung__verify *v);

#endif

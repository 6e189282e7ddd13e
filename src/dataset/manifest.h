/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The manifest of a staged dataset: the content of the folder, in the terms of docs/FORMAT.md.
 * Staging fills the struct, lays the files out, and writes it as text; readers parse the text.
 * Private to rung.
 */
#ifndef RUNG_IO_MANIFEST_H
#define RUNG_IO_MANIFEST_H

#include <stdbool.h>
#include <stdint.h>

#include "dataset/in_place.h"
#include "rung/dataset.h"
#include "rung/dtype.h"
#include "rung/sampler.h"
#include "layout/layout.h"
#include "quant/quant.h"

#define RUNG__FORMAT_NAME    "rung-dataset"
#define RUNG__FORMAT_VERSION 1u
/* of datasets with quantized rows, and of those with several ranges: older readers must refuse them
 */
#define RUNG__FORMAT_VERSION_QUANT  2u
#define RUNG__FORMAT_VERSION_RANGES 3u
/* of typed datasets and of their parts */
#define RUNG__FORMAT_VERSION_TYPES 4u
#define RUNG__MANIFEST             "manifest.json"
/* its name until it is complete and synced */
#define RUNG__MANIFEST_PARTIAL "manifest.json.partial"
#define RUNG__CHECKSUMS        "checksums.npy"
#define RUNG__FEATURES         "features.000.npy" /* the first; RUNG__FEATURES_NAME formats all */
#define RUNG__INDPTR           "graph_indptr.npy"
#define RUNG__INDICES          "graph_indices.npy"
#define RUNG__VERTEX_OF_RANK   "vertex_of_rank.npy"
#define RUNG__RANK_OF_VERTEX   "rank_of_vertex.npy"
#define RUNG__SCORE            "score.npy"
#define RUNG__LABELS           "labels.npy"
/* begins the file names of additional arrays of the vertices */
#define RUNG__ARRAY_PREFIX "features_"
#define RUNG__SPLIT_PREFIX "split_"

/* the files that every dataset has, but not every part of a typed one: indptr, indices, the two
 * maps, score */
#define RUNG__FILES_FIXED        5u
#define RUNG__MANIFEST_BYTES_MAX (16u << 20) /* a longer file is refused before it is read */
#define RUNG__SPLITS_MAX         256u
#define RUNG__JOB_BYTES_MAX      (4u << 20) /* a longer job is not recorded */
#define RUNG__ARRAYS_MAX         64u
#define RUNG__SPLIT_NAME_BYTES   64u /* longest name of a split or array, including the NUL */
#define RUNG__METHOD_BYTES       32u /* longest text with its NUL, as the next one */
#define RUNG__PRODUCER_BYTES     96u
/* names of datasets that were staged without a description */
#define RUNG__VERTEX_TYPE   "vertex"
#define RUNG__RELATION      "edge"
#define RUNG__TYPES_MAX     64u
#define RUNG__RELATIONS_MAX 256u
/* folders of the parts of a typed dataset: of the rows of a type, of the lists of a relation, and
 * of its edge rows */
#define RUNG__TYPE_FOLDER  "vertices"
#define RUNG__LISTS_FOLDER "edges"
#define RUNG__ROWS_FOLDER  "edge_rows"
#define RUNG__FOLDER_BYTES (3 * RUNG__SPLIT_NAME_BYTES + 16) /* longest path of a part, with NUL */

/** One file of the folder, except the manifest itself. */
struct rung__manifest_file {
	char name[RUNG__SPLIT_NAME_BYTES + 16]; /* prefix, name and ".npy" */
	/* type and shape in its .npy header; rows include padding */
	struct rung_array_info array;
	uint64_t bytes;       /* including the header */
	uint64_t first_block; /* index of its first block's checksum */
	uint64_t block_count;
};

/** The parts of a typed dataset. Each folder has a manifest; the sums are the checksums at the ends
 * of these. About 200 KiB: allocate it on the heap. */
struct rung__types {
	uint32_t type_count, relation_count;
	uint32_t seed_type; /* index of a type */
	struct {
		char name[RUNG__SPLIT_NAME_BYTES], folder[RUNG__FOLDER_BYTES];
		uint64_t vertex_count;
		bool has_features;
		uint64_t sum;
	} types[RUNG__TYPES_MAX];
	struct {
		char name[RUNG__SPLIT_NAME_BYTES];
		uint32_t source_type, target_type; /* indices of types */
		uint64_t edge_count;
		/* rows_folder: "" if the edges have no rows */
		char folder[RUNG__FOLDER_BYTES], rows_folder[RUNG__FOLDER_BYTES];
		uint32_t fanouts[RUNG_HOPS_MAX]; /* [fanout_count of the manifest]; 0: none */
		uint64_t sum, rows_sum;
	} relations[RUNG__RELATIONS_MAX];
};

/** About 100 KiB: allocate it on the heap. */
struct rung__manifest {
	uint64_t vertex_count, edge_count;
	/* a typed dataset: the counts are sums, and there are no files. Owned; NULL: not typed */
	struct rung__types *types;
	/* part of a typed dataset: may lack these */
	bool is_part, no_features, no_maps, no_graph;
	/* vertices that the entries of the graph refer to; 0: as many as vertex_count. Only in
	 * parts without maps */
	uint64_t source_count;
	/* names of the only vertex type and of the only relation, which connects its vertices */
	char vertex_type[RUNG__SPLIT_NAME_BYTES], relation[RUNG__SPLIT_NAME_BYTES];
	unsigned index_bytes; /* 4 or 8: of ids in graph, maps and splits */
	/* of all rows as they are stored, without padding; bytes if they are quantized */
	struct rung_array_info features;
	struct rung__quant quant;     /* format NONE: rows are stored as they were given */
	struct rung_array_info given; /* quantized: of all rows as they were given */
	float *column_scales;         /* [quant.columns] if there is a scale per column; owned */
	uint64_t row_stride, data_offset; /* bytes from row to row, and before row 0 of each file */
	/* they are first in `files`; 0: rows were left in their source */
	uint32_t feature_file_count;
	struct rung__in_place in_place; /* that source */
	/* [range_count], at least one; rows in their source are one range in one file */
	struct rung__range ranges[RUNG_FEATURE_FILES_MAX];
	uint32_t range_count;
	char score_method[RUNG__METHOD_BYTES];
	uint32_t score_iterations;             /* 0: does not apply */
	double score_damping, score_tolerance; /* 0: does not apply */
	bool score_sampled;                    /* only then do the next two fields apply */
	uint64_t score_seed, score_batches;
	/* [fanout_count] these four are the defaults for training */
	uint32_t fanouts[RUNG_HOPS_MAX];
	uint32_t fanout_count, batch_size;
	enum rung_draws draws;
	char producer[RUNG__PRODUCER_BYTES]; /* program and version, for people */
	bool has_labels;
	struct rung_array_info labels;
	uint32_t array_count; /* additional arrays, one row per vertex */
	struct {
		char name[RUNG__SPLIT_NAME_BYTES];
		struct rung_array_info info;
	} arrays[RUNG__ARRAYS_MAX];
	uint32_t split_count;
	struct {
		char name[RUNG__SPLIT_NAME_BYTES];
		uint64_t count;
	} splits[RUNG__SPLITS_MAX];
	/* sources and options of staging, for --resume: lines "KEY VALUE\n"; NULL: not recorded.
	 * Owned by the manifest */
	char *job;

	/* rung__manifest_lay_out() fills in all fields from here on. `files` has the order of the
	 * manifest, without checksums.npy */
	struct rung__manifest_file files[RUNG_FEATURE_FILES_MAX + RUNG__FILES_FIXED + 1 +
	                                 RUNG__ARRAYS_MAX + RUNG__SPLITS_MAX];
	uint32_t file_count;
	/* blocks of all these files, which are the entries of checksums.npy */
	uint64_t block_count;
	struct rung__manifest_file checksums;
	uint64_t *checksums_sums; /* [checksums.block_count] of checksums.npy itself; owned */
	/* size of manifest.json, and the checksum at its end; set when it has been written or read
	 */
	uint64_t text_bytes, text_sum;
};

/** Whether a split or an array may have this name, which becomes part of a file name; vertex types
 * and relations have names of the same form. */
bool rung__split_name_ok(const char *name);

/**
 * Fill in files, block_count and checksums from the counts and arrays above. This is the only place
 * that defines the set of files: writer and reader call it. Afterwards checksums_sums is allocated,
 * with zeros.
 * @return 0, RUNG_E_RANGE (sizes overflow, or the manifest would be too long), RUNG_E_NOMEM
 */
int rung__manifest_lay_out(struct rung__manifest *m);

/** The file with this name, or NULL. checksums.npy can be found as well. */
const struct rung__manifest_file *rung__manifest_file(const struct rung__manifest *m,
                                                      const char *name);

/** The lowest version of the format that can describe the dataset. */
unsigned rung__manifest_version(const struct rung__manifest *m);

/** The rows were left in their source. */
bool rung__manifest_in_place(const struct rung__manifest *m);

/** Number of files between those of the features and the labels. */
uint32_t rung__manifest_fixed_files(const struct rung__manifest *m);

/** Set the folders of the parts from the names. @param has_rows  [relation_count] */
void rung__types_name_folders(struct rung__types *types, const bool *has_rows);

/** Layout of the features, in the listed files or in their source. The caller sets vertex_of_rank,
 * which rows in their source need, and file_bytes. */
struct rung__layout rung__manifest_features_layout(const struct rung__manifest *m);
/** Layout of another array of the vertices, which is one file. */
struct rung__layout rung__manifest_array_layout(const struct rung_array_info *info);

/** Describe rows that will be quantized: fill in quant, given and features, and allocate
 * column_scales, with ones. @return 0, RUNG_E_NOMEM */
int rung__manifest_quantize(struct rung__manifest *m, const struct rung_array_info *given,
                            enum rung_quant_format format, enum rung_quant_scales scales);

/** Write the manifest as text, with its own checksum, and set text_bytes. @param text_out  free it
 * with rung__free(). @return 0, RUNG_E_NOMEM, RUNG_E_RANGE (too long to be read again) */
int rung__manifest_format(struct rung__manifest *m, char **text_out);

/**
 * Check a manifest's own checksum and parse it; `text` is untrusted.
 *
 * @param path          for messages
 * @param manifest_out  free it with rung__manifest_destroy()
 * @return 0, RUNG_E_CORRUPT (its checksum), RUNG_E_FORMAT (not a manifest, another version,
 *         fields), RUNG_E_RANGE, RUNG_E_NOMEM
 */
int rung__manifest_parse(const char *path, const char *text, size_t bytes,
                         struct rung__manifest **manifest_out);

/** Read and parse manifest.json of the folder `dir_fd`, which messages call `dir`. @return as
 * rung__manifest_parse(), or RUNG_E_NOENT, RUNG_E_IO */
int rung__manifest_read(int dir_fd, const char *dir, struct rung__manifest **manifest_out);

/** NULL is allowed. */
void rung__manifest_destroy(struct rung__manifest *m);

#endif
